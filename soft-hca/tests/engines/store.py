"""Mooncake's store by its Python API: objects that one process puts and another gets; see meeting.py for the
arguments. MASTER is the address of mooncake_master, DEVICES names the devices."""

import os

import meeting
from mooncake.store import MooncakeDistributedStore

SIZES = [size for size in meeting.SIZES if size <= 1 << 20]
SEGMENT, BUFFER = 64 << 20, 32 << 20


def store(own):
    made = MooncakeDistributedStore()
    master, devices = os.environ["MASTER"], os.environ["DEVICES"]
    assert made.setup(own, "P2PHANDSHAKE", SEGMENT, BUFFER, "rdma", devices, master) == 0
    return made


def target(pipe, own):
    made, memory = store(own), meeting.Memory(0)
    pipe.send(None)
    holds = lambda name, size: made.get(name) == meeting.data(size, size)
    put = lambda name, size: made.put(name, meeting.data(size, size))
    meeting.serve(pipe, memory, {"gets": holds, "puts": put})
    made.close()


def initiator(pipe, own):
    made = store(own)
    pipe.recv()
    peer = meeting.Peer(pipe)
    for size in SIZES:
        assert made.put(f"to-{size}", meeting.data(size, size)) == 0
        assert peer("gets", f"to-{size}", size)
        assert peer("puts", f"from-{size}", size) == 0
        assert made.get(f"from-{size}") == meeting.data(size, size)
        print(size, "bytes: put, got", flush=True)
    made.close()


meeting.meet(target, initiator)
