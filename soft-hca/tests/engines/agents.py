"""NIXL by its Python API, two agents with the backend UCX; see meeting.py for the arguments."""

import time

import meeting
from nixl_cu12._api import nixl_agent, nixl_agent_config

LIMIT = 60


def agent(name):
    made, memory = nixl_agent(name, nixl_agent_config(backends=["UCX"])), meeting.Memory()
    made.register_memory([(memory.address, memory.size, 0, "")], "DRAM")
    return made, memory


def notified(made):
    """What the initiator has said with a transfer, once it has come."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if said := made.get_new_notifs().get("initiator"):
            return said
    return None


def target(pipe, _own):
    made, memory = agent("target")
    pipe.send((made.get_agent_metadata(), memory.address))
    made.add_remote_agent(pipe.recv())
    meeting.serve(pipe, memory, {"notified": lambda: notified(made)})


def initiator(pipe, _own):
    made, memory = agent("initiator")
    metadata, there = pipe.recv()
    made.add_remote_agent(metadata)
    pipe.send(made.get_agent_metadata())
    peer = meeting.Peer(pipe)

    def move(operation, size, said):
        local = made.get_xfer_descs([(memory.address, size, 0)], "DRAM")
        remote = made.get_xfer_descs([(there, size, 0)], "DRAM")
        handle = made.initialize_xfer(operation, local, remote, "target", said)
        state, end = made.transfer(handle), time.monotonic() + LIMIT
        while state == "PROC" and time.monotonic() < end:
            state = made.check_xfer_state(handle)
        assert state == "DONE", state
        made.release_xfer_handle(handle)

    for size in meeting.SIZES:
        memory.fill(0, size, 1)
        said = b"%d bytes" % size
        move("WRITE", size, said)
        assert peer("notified") == [said]
        assert peer("holds", 0, size, 1), size
        peer("fill", 0, size, 2)
        move("READ", size, b"")
        assert memory.holds(0, size, 2), size
        print(size, "bytes: written and notified, read", flush=True)


meeting.meet(target, initiator)
