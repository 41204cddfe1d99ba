"""The enumerators of verbs.h, by their names. pyverbs of rdma-core 44 and 56 has a module of them, that of 65 a class for each
enumeration."""

try:
    from pyverbs.enums import *
except ImportError:
    import enum

    import pyverbs.libibverbs_enums

    for found in vars(pyverbs.libibverbs_enums).values():
        if isinstance(found, enum.EnumMeta):
            globals().update(found.__members__)
