"""Queue pairs of two InfiniBand devices of this process, rxe0 and rxe1, by indices of P_Keys and by
LIDs. Each case prints what has become of it."""

import sys

import verbs_enums as e
from pyverbs.addr import AH, AHAttr
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

QKEY = 0x11111111
LENGTH = 64
RECEIVE = 100


class Side:
    """A queue pair of a device, with one receive."""

    def __init__(self, device, pkey_index, qp_type=e.IBV_QPT_RC):
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.mr = MR(self.pd, 4096, e.IBV_ACCESS_LOCAL_WRITE)
        self.cq = CQ(self.context, 16)
        cap = QPCap(max_send_wr=8, max_recv_wr=8, max_send_sge=1, max_recv_sge=1)
        init = QPInitAttr(qp_type=qp_type, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=1)
        self.qp = QP(self.pd, init)
        self.attr = QPAttr(port_num=1)
        self.attr.pkey_index, self.attr.qkey = pkey_index, QKEY
        self.lid = self.context.query_port(1).lid
        if qp_type == e.IBV_QPT_UD:
            self.qp.to_rts(self.attr)
        else:
            self.qp.to_init(self.attr)
        sge = SGE(self.mr.buf, LENGTH + 40, self.mr.lkey)
        self.qp.post_recv(RecvWR(wr_id=RECEIVE, num_sge=1, sg=[sge]))

    def connect(self, peer, way):
        attr = self.attr
        attr.dest_qp_num, attr.path_mtu = peer.qp.qp_num, e.IBV_MTU_1024
        attr.min_rnr_timer, attr.rnr_retry = 1, 7
        attr.timeout, attr.retry_cnt = 10, 1
        attr.ah_attr = way
        self.qp.to_rts(attr)

    def request(self):
        sge = SGE(self.mr.buf, LENGTH, self.mr.lkey)
        return SendWR(wr_id=1, opcode=e.IBV_WR_SEND, num_sge=1, sg=[sge])

    def datagram(self, way, qpn):
        request = self.request()
        request.set_wr_ud(AH(self.pd, attr=way), qpn, QKEY)
        self.qp.post_send(request)
        assert self.completion().status == e.IBV_WC_SUCCESS

    def completion(self):
        """The next one, however long that takes."""
        while True:
            count, found = self.cq.poll(1)
            if count:
                return found[0]

    def has_received(self):
        """With its last message, whose sender knows that it is complete."""
        count, found = self.cq.poll(1)
        return bool(count) and found[0].wr_id == RECEIVE and found[0].status == e.IBV_WC_SUCCESS


def way(dlid, path_bits=0):
    attr = AHAttr(port_num=1, is_global=0, dlid=dlid)
    attr.src_path_bits = path_bits
    return attr


def sides(one, other, qp_type):
    return Side("rxe0", one, qp_type), Side("rxe1", other, qp_type)


def pair(one, other, qp_type=e.IBV_QPT_RC):
    a, b = sides(one, other, qp_type)
    a.connect(b, way(b.lid))
    b.connect(a, way(a.lid))
    return a, b


def keys():
    for device in ["rxe0", "rxe1"]:
        context = Context(name=device)
        length = context.query_port(1).pkey_tbl_len
        table = [context.query_pkey(1, index) for index in range(length)]
        # As on the wire.
        table = [int.from_bytes(pkey.to_bytes(2, "little"), "big") for pkey in table]
        named = [f"{pkey:#06x}" for pkey in table if pkey]
        print(device, length, context.query_device().max_pkeys, *named)


def index():
    for index in [3, 15, 16, 0xFFFF]:
        try:
            Side("rxe0", index)
            print(index, "is taken")
        except PyverbsRDMAError as error:
            print(index, error.error_code)


def reliable(one, other):
    a, b = pair(one, other)
    a.qp.post_send(a.request())
    print(a.completion().status, b.has_received())


def unreliable(one, other):
    a, b = pair(one, other, e.IBV_QPT_UC)
    a.qp.post_send(a.request())
    print(a.completion().status, b.has_received())


def datagram(one, other):
    a, b = sides(one, other, e.IBV_QPT_UD)
    a.datagram(way(b.lid), b.qp.qp_num)
    print(b.has_received())


def paths():
    """Which of the LIDs below rxe1's lead to rxe0's port; rxe1's address vector has any bits."""
    for lid in range(8):
        a, b = sides(0, 0, e.IBV_QPT_UD)
        b.datagram(way(lid, lid), a.qp.qp_num)
        count, found = a.cq.poll(1)
        if count:
            print(lid, found[0].slid, found[0].dlid_path_bits)
    a, b = sides(0, 0, e.IBV_QPT_UD)
    a.datagram(way(b.lid, 0x7E), b.qp.qp_num)
    print(b.completion().slid)


def connection(one, other):
    """By a LID of rxe0's port, and from one."""
    a, b = sides(0, 0, e.IBV_QPT_RC)
    a.connect(b, way(b.lid, one))
    b.connect(a, way(a.lid + other, 0))
    for one, other in [(a, b), (b, a)]:
        one.qp.post_send(one.request())
        print(one.completion().status, other.completion().wr_id)


globals()[sys.argv[1]](*map(int, sys.argv[2:]))
