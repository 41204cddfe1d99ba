"""The Python package ibverbs; see meeting.py for the arguments."""

import ibverbs as ib
import meeting

PORT, GID = 1, 1
ACCESS = (
    ib.AccessFlags.LOCAL_WRITE | ib.AccessFlags.REMOTE_WRITE | ib.AccessFlags.REMOTE_READ | ib.AccessFlags.REMOTE_ATOMIC
)
SIZES = [size for size in meeting.SIZES if size <= 1 << 20]


class Endpoint:
    def __init__(self):
        self.memory = meeting.Memory(1 << 20)
        self.context = ib.get_device_list()[0].open()
        self.pd = self.context.alloc_pd()
        self.cq = self.context.create_cq(64)
        self.mr = self.pd.reg_mr(self.memory.address, self.memory.size, ACCESS)
        init = ib.QPInitAttr(send_cq=self.cq, recv_cq=self.cq, qp_type=ib.QPType.RC)
        self.qp = self.pd.create_qp(init)
        port, gid = self.context.query_port(PORT), self.context.query_gid(PORT, GID)
        self.info = ib.local_qp_info(self.qp, port, gid, port=PORT, psn=0)

    def connect(self, info):
        peer = ib.QPInfo.from_bytes(info)
        ib.connect_rc(self.qp, peer, port=PORT, sgid_index=GID, access=ACCESS)

    def completed(self):
        while True:
            for completion in self.cq.poll(1):
                completion.raise_for_status()
                return completion

    def post_receive(self, size):
        self.qp.post_recv(ib.RecvWR(wr_id=1, sg_list=[ib.SGE(self.mr, size)]))

    def received(self):
        completion = self.completed()
        return completion.byte_len, completion.imm_data

    def send(self, opcode, size, **to):
        sge = ib.SGE(self.mr, size)
        request = ib.SendWR(wr_id=2, sg_list=[sge], opcode=opcode, send_flags=ib.SendFlags.SIGNALED, **to)
        self.qp.post_send(request)
        self.completed()


def target(pipe, _own):
    end = Endpoint()
    pipe.send((end.info.to_bytes(), end.memory.address, end.mr.rkey))
    end.connect(pipe.recv())
    pipe.send(None)
    meeting.serve(pipe, end.memory, {"post": end.post_receive, "received": end.received})


def initiator(pipe, _own):
    end = Endpoint()
    info, there, rkey = pipe.recv()
    pipe.send(end.info.to_bytes())
    end.connect(info)
    pipe.recv()
    peer = meeting.Peer(pipe)
    for size in SIZES:
        end.memory.fill(0, size, 1)
        end.send(ib.WROpcode.RDMA_WRITE, size, remote_addr=there, rkey=rkey)
        assert peer("holds", 0, size, 1), size
        peer("fill", 0, size, 2)
        end.send(ib.WROpcode.RDMA_READ, size, remote_addr=there, rkey=rkey)
        assert end.memory.holds(0, size, 2), size
        peer("post", size)
        end.memory.fill(0, size, 3)
        end.send(ib.WROpcode.SEND_WITH_IMM, size, imm_data=size)
        assert peer("received") == (size, size)
        assert peer("holds", 0, size, 3), size
        print(size, "bytes: written, read, sent", flush=True)


meeting.meet(target, initiator)
