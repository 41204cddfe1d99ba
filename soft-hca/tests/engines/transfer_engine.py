"""Mooncake's transfer engine by its Python API; see meeting.py for the arguments. DEVICES names the devices."""

import os

import meeting
from mooncake.engine import TransferEngine

BATCH, BLOCK = 16, 65536


def engine(own):
    made, memory = TransferEngine(), meeting.Memory()
    assert made.initialize(own, "P2PHANDSHAKE", "rdma", os.environ["DEVICES"]) == 0
    assert made.register_memory(memory.address, memory.size) == 0
    return made, memory


def target(pipe, own):
    made, memory = engine(own)
    pipe.send((f"{own}:{made.get_rpc_port()}", memory.address))
    meeting.serve(pipe, memory)


def initiator(pipe, own):
    made, memory = engine(own)
    segment, there = pipe.recv()
    peer = meeting.Peer(pipe)
    for size in meeting.SIZES:
        memory.fill(0, size, 1)
        assert made.transfer_sync_write(segment, memory.address, there, size) == 0
        assert peer("holds", 0, size, 1), size
        peer("fill", 0, size, 2)
        assert made.transfer_sync_read(segment, memory.address, there, size) == 0
        assert memory.holds(0, size, 2), size
        print(size, "bytes: written, read", flush=True)
    # Blocks in the reverse order at the other side.
    places = [number * BLOCK for number in range(BATCH)]
    for seed, at in enumerate(places):
        memory.fill(at, BLOCK, seed)
    here = [memory.address + at for at in places]
    remote = [there + at for at in reversed(places)]
    sizes = [BLOCK] * BATCH
    assert made.batch_transfer_sync_write(segment, here, remote, sizes) == 0
    assert all(peer("holds", at, BLOCK, seed) for seed, at in enumerate(reversed(places)))
    for seed, at in enumerate(places):
        memory.fill(at, BLOCK, BATCH)
    assert made.batch_transfer_sync_read(segment, here, remote, sizes) == 0
    assert all(memory.holds(at, BLOCK, seed) for seed, at in enumerate(places))
    print("a batch: written, read", flush=True)


meeting.meet(target, initiator)
