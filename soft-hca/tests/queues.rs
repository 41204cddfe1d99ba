//! Queues as a program sees them: requests that are refused, shared receives, windows, and
//! completion queues that are overrun.
//!
//! See `stock.rs` about programs that are not installed, and about those of another release; the
//! package is python3-pyverbs.

use programs::place::Place;
use programs::pyverbs;

/// Pairs of queue pairs in one process. Numbers are those of verbs.h, as the module's names have
/// changed.
const SCRIPT: &str = "
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBindInfo
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QPAttr, QPCap, QPEx, QPInitAttrEx
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR
import os, signal, time

signal.alarm(100)

context = Context(name='rxe0')
pd, other_pd = PD(context), PD(context)
mr, other_mr = MR(pd, 4096, 0x17), MR(other_pd, 4096, 0x17)
cap = QPCap(max_send_wr=10, max_recv_wr=10, max_send_sge=2, max_recv_sge=1, max_inline_data=100)

def attr_to(peer):
    attr = QPAttr(port_num=1)
    attr.dest_qp_num, attr.path_mtu, attr.timeout, attr.retry_cnt, attr.rnr_retry = peer.qp_num, 3, 14, 7, 7
    attr.qp_access_flags = 0xf
    attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=context.query_gid(1, 1), sgid_index=1), is_global=1, port_num=1)
    return attr

def pair(receives=100, srq=None):
    cqs = [CQ(context, 100), CQ(context, receives)]
    init = lambda srq: QPInitAttrEx(qp_type=2, scq=cqs[0], rcq=cqs[1], srq=srq, cap=cap, pd=pd, send_ops_flags=0x101, comp_mask=65)
    return [QPEx(context, init(None)), QPEx(context, init(srq))], cqs

def connect(qps):
    for qp, peer in zip(qps, reversed(qps)):
        qp.to_rts(attr_to(peer))

def receive(qp, wr_id=0, mr=mr):
    qp.post_recv(RecvWR(wr_id=wr_id, sg=[SGE(mr.buf, 100, mr.lkey)], num_sge=1))

def send(qp, wr_id):
    qp.post_send(SendWR(wr_id=wr_id, sg=[SGE(mr.buf, 10, mr.lkey)], num_sge=1))

def poll(cq, count):
    all, end = [], time.time() + 20
    while len(all) < count and time.time() < end:
        all += [(wc.wr_id, int(wc.status)) for wc in cq.poll(10)[1]]
    return all

# A send is refused before RTS, and is not executed later.
qps, cqs = pair()
qps[0].to_init(attr_to(qps[1]))
try:
    send(qps[0], 1)
except PyverbsRDMAError as error:
    print('refused', error.error_code)
qps[0].to_rtr(attr_to(qps[1]))
qps[1].to_rts(attr_to(qps[0]))
receive(qps[1], 5), receive(qps[1], 6)
qps[0].to_rts(attr_to(qps[1]))
send(qps[0], 2)
print('executed', poll(cqs[0], 1), poll(cqs[1], 1), cqs[0].poll(10)[1])

# The memory of a shared receive queue's receives is of that queue's protection domain.
srq = SRQ(other_pd, SrqInitAttr(SrqAttr(max_wr=10, max_sge=1)))
qps, cqs = pair(srq=srq)
connect(qps)
receive(srq, 7, other_mr)
send(qps[0], 3)
print('shared', poll(cqs[0], 1), poll(cqs[1], 1))

# Of a window's new key the lowest byte counts.
qps, cqs = pair()
connect(qps)
mw = MW(pd, 2)
key = mw.rkey & ~0xff | mw.rkey + 1 & 0xff
qps[1].wr_start()
qps[1].wr_id, qps[1].wr_flags = 4, 2
qps[1].wr_bind_mw(mw, key ^ 0x77777700, MWBindInfo(mr, mr.buf, 100, 2))
qps[1].wr_complete()
print('bound', poll(cqs[0], 1))
qps[0].wr_start()
qps[0].wr_id, qps[0].wr_flags = 5, 2
qps[0].wr_rdma_write(key, mr.buf)
qps[0].wr_set_sge(SGE(mr.buf, 10, mr.lkey))
qps[0].wr_complete()
print('written', poll(cqs[0], 1))

# Who does not poll loses completions, and with them its queue pair.
qps, cqs = pair(receives=1)
connect(qps)
print('entries', cqs[1].cqe)
for wr_id in range(3):
    receive(qps[1], wr_id)
for wr_id in range(3):
    send(qps[0], wr_id)
print('sent', poll(cqs[0], 3))
print('events', [int(context.get_async_event().event_type) for _ in range(2)])
print('states', *[int(qp.query(1)[0].qp_state) for qp in qps], poll(cqs[1], 1), flush=True)
os._exit(0)
";

/// Status 0 is success, 12 `IBV_WC_RETRY_EXC_ERR`: the peer has failed. Event 0 is
/// `IBV_EVENT_CQ_ERR`, 1 `IBV_EVENT_QP_FATAL`; state 6 is the error state.
const EXPECTED: &str = "\
refused 22
executed [(2, 0)] [(5, 0)] []
shared [(3, 0)] [(7, 0)]
bound [(4, 0)]
written [(5, 0)]
entries 1
sent [(0, 0), (1, 0), (2, 12)]
events [0, 1]
states 6 6 [(0, 0)]
";

#[test]
fn queues_do_what_those_of_adapters_do() {
    let Some(python) = pyverbs() else { return };
    let place = Place::new("queues");
    assert_eq!(place.python(&python, SCRIPT), EXPECTED);
    place.assert_gone();
}

/// Two programs: one is stopped in the middle of a message, while others fill the queue in which it
/// saw plenty of room.
const STOPPED: &str = "
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR
import os, signal, socket, time

signal.alarm(100)
BYTES = 1 << 26
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
sender = os.fork()
link = ours if sender else theirs
context = Context(name='rxe0')
pd = PD(context)
mr = MR(pd, BYTES, 7)
sends, receives = CQ(context, 1000), CQ(context, 500)

def queue_pair():
    cap = QPCap(max_send_wr=1000, max_recv_wr=1000)
    return QP(pd, QPInitAttr(qp_type=2, scq=sends, rcq=receives, cap=cap))

def connect(qp, number):
    attr = QPAttr(port_num=1)
    attr.dest_qp_num, attr.path_mtu, attr.timeout, attr.retry_cnt, attr.rnr_retry = number, 3, 0, 7, 7
    attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=context.query_gid(1, 1), sgid_index=1), is_global=1, port_num=1)
    qp.to_rts(attr)

def post(put, request, length, **more):
    put(request(sg=[SGE(mr.buf, length, mr.lkey)], num_sge=1, **more))

def poll(cq, count):
    all, end = [], time.time() + 20
    while len(all) < count and time.time() < end:
        all += [int(wc.status) for wc in cq.poll(100)[1]]
    return all

qp = queue_pair()
link.send(str(qp.qp_num).encode())
connect(qp, int(link.recv(100)))
if not sender:
    mr.write('x' * BYTES, BYTES)
    while link.recv(1):
        post(qp.post_send, SendWR, BYTES)
        poll(sends, 1)
        link.send(b'.')
    os._exit(0)

pair = queue_pair(), queue_pair()
connect(pair[0], pair[1].qp_num)
connect(pair[1], pair[0].qp_num)

def fill(count):
    for _ in range(count):
        post(pair[1].post_recv, RecvWR, 1)
        post(pair[0].post_send, SendWR, 1)
    return sum(poll(sends, count))

# From its first completion on a queue knows how much room it has.
fill(1), poll(receives, 1)
is_complete = True
while is_complete:
    # The sender is stopped while its message goes.
    post(qp.post_recv, RecvWR, BYTES)
    mr.write('-', 1)
    link.send(b'.')
    while mr.read(1, 0) != b'x':
        pass
    os.kill(sender, signal.SIGSTOP)
    while open(f'/proc/{sender}/stat').read().split()[2] != 'T':
        pass
    is_complete = receives.poll(1)[0] == 1
    if is_complete:
        os.kill(sender, signal.SIGCONT)
        link.recv(1)

# Others fill the queue meanwhile.
entries = receives.cqe
filled = fill(entries)
os.kill(sender, signal.SIGCONT)
link.recv(1)
print('entries', entries, filled)
statuses = poll(receives, entries + 1)
print('received', len(statuses), sum(statuses), flush=True)
os.kill(sender, signal.SIGKILL)
os._exit(0)
";

#[test]
fn nobody_loses_a_completion_to_those_who_are_faster() {
    let Some(python) = pyverbs() else { return };
    let place = Place::new("queues-late");
    assert_eq!(place.python(&python, STOPPED), "entries 511 0\nreceived 512 0\n");
    place.assert_gone();
}
