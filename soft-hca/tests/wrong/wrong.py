"""Programs with mistakes, one for each name that the command line may have. Both sides are queue
pairs of this process."""

import ctypes
import mmap
import os
import signal
import socket
import sys

import verbs_enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

GID_INDEX = 1
QKEY = 0x11111111
ALL_RIGHTS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
context = Context(name="rxe0")


def way(sgid_index=GID_INDEX):
    """To this device itself."""
    route = GlobalRoute(dgid=context.query_gid(1, GID_INDEX), sgid_index=sgid_index)
    return AHAttr(gr=route, is_global=1, port_num=1)


class Side:
    def __init__(self, access=ALL_RIGHTS, receive_cqe=64, qp_type=e.IBV_QPT_RC):
        self.pd = PD(context)
        self.mr = MR(self.pd, 8192, access)
        self.sends, self.receives = CQ(context, 64), CQ(context, receive_cqe)
        cap = QPCap(max_send_wr=32, max_recv_wr=32, max_send_sge=1, max_recv_sge=1)
        init = QPInitAttr(
            qp_type=qp_type, scq=self.sends, rcq=self.receives, cap=cap, sq_sig_all=1
        )
        self.qp = QP(self.pd, init)
        attr = QPAttr(port_num=1)
        if qp_type == e.IBV_QPT_UD:
            attr.qkey = QKEY
            self.qp.to_rts(attr)
        else:
            attr.qp_access_flags = ALL_RIGHTS
            self.qp.to_init(attr)

    def connect(self, qp_num, timeout=14, rnr_retry=7, max_dest_rd_atomic=1, sgid_index=GID_INDEX):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ALL_RIGHTS
        attr.dest_qp_num, attr.path_mtu = qp_num, e.IBV_MTU_1024
        attr.max_rd_atomic, attr.max_dest_rd_atomic = 1, max_dest_rd_atomic
        attr.min_rnr_timer, attr.rnr_retry = 1, rnr_retry
        attr.timeout, attr.retry_cnt = timeout, 1
        attr.ah_attr = way(sgid_index)
        self.qp.to_rts(attr)

    def request(self, opcode=e.IBV_WR_SEND, length=64, wr_id=1):
        sge = SGE(self.mr.buf, length, self.mr.lkey)
        return SendWR(wr_id=wr_id, opcode=opcode, num_sge=1, sg=[sge])

    def send(self, *args, **more):
        self.qp.post_send(self.request(*args, **more))

    def reach(self, opcode, peer, rkey):
        request = self.request(opcode)
        request.set_wr_rdma(rkey, peer.mr.buf)
        self.qp.post_send(request)

    def receive(self, length=64, wr_id=100):
        sge = SGE(self.mr.buf, length, self.mr.lkey)
        self.qp.post_recv(RecvWR(wr_id=wr_id, num_sge=1, sg=[sge]))

    def to_error(self):
        self.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)


def completions(cq, count=1):
    """So many, however long that takes."""
    found = []
    while len(found) < count:
        found += cq.poll(1)[1]
    return found


def pair(ours=None, theirs=None, to_them=None, to_us=None):
    a, b = Side(**(ours or {})), Side(**(theirs or {}))
    a.connect(b.qp.qp_num, **(to_them or {}))
    b.connect(a.qp.qp_num, **(to_us or {}))
    return a, b


def refused(call):
    try:
        call()
    except PyverbsRDMAError as error:
        print(error)


def receive_too_small():
    a, b = pair()
    b.receive(length=32)
    a.send()
    completions(a.sends)


def datagram_without_header():
    a, b = Side(qp_type=e.IBV_QPT_UD), Side(qp_type=e.IBV_QPT_UD)
    b.receive(length=64)
    request = a.request()
    request.set_wr_ud(AH(a.pd, attr=way()), b.qp.qp_num, QKEY)
    a.qp.post_send(request)
    completions(a.sends)


def datagram(to=None, qkey=QKEY, receives=1, length=16):
    a, b = Side(qp_type=e.IBV_QPT_UD), Side(qp_type=e.IBV_QPT_UD)
    for _ in range(receives):
        b.receive(length=4096)
    request = a.request(length=length)
    number = b.qp.qp_num if to is None else to(a, b)
    request.set_wr_ud(AH(a.pd, attr=way()), number, qkey)
    a.qp.post_send(request)
    completions(a.sends)


def datagram_wrong_key():
    datagram(qkey=0x22222222)


def datagram_wrong_number():
    datagram(to=lambda a, b: b.qp.qp_num ^ 0x800000)


def datagram_swapped_number():
    datagram(to=lambda a, b: int.from_bytes(b.qp.qp_num.to_bytes(3, "big"), "little"))


def datagram_to_destroyed():
    def destroy(a, b):
        number = b.qp.qp_num
        b.qp.close()
        return number

    datagram(to=destroy)


def datagram_to_connected():
    other = Side()
    datagram(to=lambda a, b: other.qp.qp_num)


def datagram_without_receive():
    datagram(receives=0)


def datagram_too_long():
    datagram(length=4096 + 1)


def datagram_that_arrives():
    datagram()


def full_queue():
    a, b = pair()
    for wr_id in range(3):
        b.receive(wr_id=wr_id)
    refused(lambda: [a.send(wr_id=wr_id) for wr_id in range(1000)])


def full_receive_queue():
    a, _b = pair()
    refused(lambda: [a.receive(wr_id=wr_id) for wr_id in range(1000)])


def refused_posts():
    a, b = pair()
    request = SendWR(wr_id=2, num_sge=20, sg=[SGE(a.mr.buf, 1, a.mr.lkey)] * 20)
    refused(lambda: a.qp.post_send(request))
    inline = SendWR(wr_id=3, num_sge=1, sg=[SGE(a.mr.buf, 4096, a.mr.lkey)])
    inline.send_flags = e.IBV_SEND_INLINE
    refused(lambda: a.qp.post_send(inline))
    atomic = a.request(e.IBV_WR_ATOMIC_FETCH_AND_ADD, length=8, wr_id=4)
    atomic.set_wr_atomic(b.mr.rkey, b.mr.buf + 4, 1)
    refused(lambda: a.qp.post_send(atomic))
    many = RecvWR(wr_id=5, num_sge=20, sg=[SGE(a.mr.buf, 1, a.mr.lkey)] * 20)
    refused(lambda: a.qp.post_recv(many))
    cap = QPCap(max_send_wr=1, max_recv_wr=1, max_send_sge=1, max_recv_sge=1)
    init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=a.sends, rcq=a.receives, cap=cap)
    fresh = QP(a.pd, init)
    refused(lambda: fresh.post_recv(RecvWR(wr_id=6, num_sge=1, sg=[SGE(a.mr.buf, 1, a.mr.lkey)])))


def wrong_rkey():
    a, b = pair()
    for wr_id in range(4):
        b.receive(wr_id=wr_id)
    a.reach(e.IBV_WR_RDMA_WRITE, b, 0x12345)
    completions(a.sends)
    completions(b.receives, 4)


def swapped_rkey():
    a, b = pair()
    a.reach(e.IBV_WR_RDMA_WRITE, b, socket.htonl(b.mr.rkey))
    completions(a.sends)


def deregistered_region():
    a, b = pair()
    request = a.request(e.IBV_WR_RDMA_WRITE)
    request.set_wr_rdma(b.mr.rkey, b.mr.buf)
    b.mr.close()
    a.qp.post_send(request)
    completions(a.sends)


def no_remote_right():
    a, b = pair(theirs={"access": e.IBV_ACCESS_LOCAL_WRITE})
    a.reach(e.IBV_WR_RDMA_WRITE, b, b.mr.rkey)
    completions(a.sends)


def no_reads():
    a, b = pair(to_us={"max_dest_rd_atomic": 0})
    a.reach(e.IBV_WR_RDMA_READ, b, b.mr.rkey)
    completions(a.sends)


def no_such_queue_pair():
    a, b = Side(), Side()
    a.connect(b.qp.qp_num ^ 0x800000, timeout=8)
    b.connect(a.qp.qp_num)
    a.send()
    completions(a.sends)


def destroyed_queue_pair():
    a, b = pair(to_them={"timeout": 8})
    b.qp.close()
    a.send()
    completions(a.sends)


def no_receive():
    # Others have receives.
    c, d = pair()
    d.receive()
    c.send()
    completions(c.sends)
    a, _b = pair(to_them={"rnr_retry": 1})
    a.send()
    completions(a.sends)


def overrun():
    a, b = pair(theirs={"receive_cqe": 1})
    for wr_id in range(24):
        b.receive(wr_id=wr_id)
    for wr_id in range(24):
        a.send(wr_id=wr_id)
    completions(a.sends, 24)


def ends_in_order():
    a, b = pair()
    for wr_id in range(4):
        b.receive(wr_id=wr_id)
    a.send()
    completions(a.sends)
    b.to_error()
    completions(b.receives, 4)


def hangs_and_ends():
    a, _b = pair()
    a.send()
    os._exit(0)


def hangs_and_is_killed():
    a, b = pair(to_them={"timeout": 0})
    b.qp.close()
    a.send()
    os.kill(os.getpid(), signal.SIGKILL)


def hangs_and_destroys():
    a, _b = pair()
    a.send()
    a.qp.close()


def hangs_and_shuts():
    a, _b = pair()
    a.send()
    a.to_error()
    completions(a.sends)


def beyond_limits():
    refused(lambda: CQ(context, 40000))
    side = Side()
    refused(lambda: AH(side.pd, attr=way(sgid_index=200)))
    refused(lambda: side.connect(side.qp.qp_num, sgid_index=200))
    refused(side.send)


def put_off_and_is_killed():
    a, b = pair()
    for _ in range(16):
        a.reach(e.IBV_WR_RDMA_WRITE, b, b.mr.rkey)
    os.kill(os.getpid(), signal.SIGKILL)


def read_only():
    pd = PD(context)
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    nothing = ctypes.c_void_p(None)
    size = ctypes.c_size_t(4096)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = libc.mmap(nothing, size, mmap.PROT_READ, flags, -1, ctypes.c_long(0))
    MR(pd, 4096, 0, address=address).close()
    refused(lambda: MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE, address=address))
    libc.munmap(ctypes.c_void_p(address), size)
    refused(lambda: MR(pd, 4096, 0, address=address))


def no_gid():
    pd = PD(context)
    route = GlobalRoute(dgid=GID(":".join(["0000"] * 8)), sgid_index=GID_INDEX)
    refused(lambda: AH(pd, attr=AHAttr(gr=route, is_global=1, port_num=1)))


def in_use():
    verbs = ctypes.CDLL("libibverbs.so.1")
    for name in ["ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_reg_mr"]:
        getattr(verbs, name).restype = ctypes.c_void_p
    devices = ctypes.cast(verbs.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))
    opened = ctypes.c_void_p(verbs.ibv_open_device(ctypes.c_void_p(devices[0])))
    pd = ctypes.c_void_p(verbs.ibv_alloc_pd(opened))
    bytes = ctypes.create_string_buffer(64)
    assert verbs.ibv_reg_mr(pd, bytes, ctypes.c_size_t(64), 0)
    print(os.strerror(verbs.ibv_dealloc_pd(pd)))


globals()[sys.argv[1]]()
