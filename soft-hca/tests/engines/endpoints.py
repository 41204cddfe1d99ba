"""DLSlime: writes and reads over an endpoint on each side, the data compared; see meeting.py."""

import dlslime
import meeting

NAME = "memory"


class Side:
    """An endpoint with one region of memory."""

    def __init__(self):
        self.context = dlslime.RDMAContext()
        assert self.context.init("rxe0", 1, "RoCE") == 0
        self.endpoint = dlslime.RDMAEndpoint(self.context)
        self.memory = meeting.Memory()
        self.local = self.endpoint.register_memory_region(NAME, self.memory.address, 0, self.memory.size)
        self.remote = None

    def connect(self, theirs):
        """Connects with the other side, whose `endpoint_info()` this is."""
        self.endpoint.connect(theirs)
        self.remote = self.endpoint.register_remote_memory_region(NAME, theirs["mr_info"][NAME])


def target(pipe, _host):
    side = Side()
    meeting.serve(pipe, side.memory, {"info": side.endpoint.endpoint_info, "connect": side.connect})
    side.endpoint.shutdown()


def initiator(pipe, _own):
    side, peer = Side(), meeting.Peer(pipe)
    peer("connect", side.endpoint.endpoint_info())
    side.connect(peer("info"))
    for seed, size in enumerate(meeting.SIZES):
        request = [(side.local, side.remote, 0, 0, size)]
        side.memory.fill(0, size, seed)
        assert side.endpoint.write(request).wait() == 0
        assert peer("holds", 0, size, seed), f"{size} bytes: what was written differs"
        peer("fill", 0, size, -1 - seed)
        assert side.endpoint.read(request).wait() == 0
        assert side.memory.holds(0, size, -1 - seed), f"{size} bytes: what was read differs"
        print(f"{size} bytes: written, read")
    side.endpoint.shutdown()


meeting.meet(target, initiator)
