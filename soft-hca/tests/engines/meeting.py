"""How the two sides of these programs meet, and the data that they compare.

    PROGRAM target HOST PORT
    PROGRAM initiator HOST PORT OWN

HOST and PORT are where the target listens for the initiator, by TCP; OWN is the initiator's own address.
"""

import ctypes
import os
import random
import sys
from multiprocessing.connection import Client, Listener

# Up to the environment's LARGEST, if it is set.
SIZES = [8, 4096, 65536, 1 << 20, 64 << 20]
SIZES = [size for size in SIZES if size <= int(os.environ.get("LARGEST", SIZES[-1]))]
LARGEST = SIZES[-1]


class Memory:
    """Memory that the other side reads and writes."""

    def __init__(self, size=LARGEST):
        self.bytes = (ctypes.c_ubyte * size)()
        self.size = size
        self.address = ctypes.addressof(self.bytes)

    def fill(self, at, size, seed):
        ctypes.memmove(self.address + at, data(size, seed), size)

    def holds(self, at, size, seed):
        return ctypes.string_at(self.address + at, size) == data(size, seed)


def data(size, seed):
    return random.Random(seed).randbytes(size)


class Peer:
    """The target, as the initiator sees it: asks, and gets answers."""

    def __init__(self, pipe):
        self.pipe = pipe

    def __call__(self, *words):
        self.pipe.send(words)
        return self.pipe.recv()


def serve(pipe, memory, others=None):
    """Does what the initiator asks for, until it has ended."""
    known = {"fill": memory.fill, "holds": memory.holds, **(others or {})}
    while (words := pipe.recv()) != ("end",):
        pipe.send(known[words[0]](*words[1:]))
    pipe.send(None)


def meet(target, initiator):
    """Runs one of the sides, with a pipe to the other and its own address."""
    role, host, port, *own = sys.argv[1:]
    if role == "target":
        with Listener((host, int(port))) as listener, listener.accept() as pipe:
            target(pipe, host)
    else:
        with Client((host, int(port))) as pipe:
            initiator(pipe, own[0])
            pipe.send(("end",))
            pipe.recv()
    print(role, "has ended", flush=True)
