"""soft-hca as a Python package: RDMA for programs and tests without a device.

``python -m soft_hca run -- CMD`` is the command ``soft-hca run -- CMD``. What the package brings is that
command with its libraries; rdma-core's libraries (libibverbs, librdmacm and its providers) are the system's.
"""

from __future__ import annotations

import os
import pathlib

__all__ = ["binary", "fabric"]


def binary() -> pathlib.Path:
    """The ``soft-hca`` command, as an absolute path. Its libraries are beside it."""
    return pathlib.Path(__file__).resolve().parent / "bin" / "soft-hca"


def fabric() -> str | None:
    """The name of the fabric that this process is in, or None if it was not started by soft-hca."""
    return os.environ.get("SOFT_HCA_FABRIC") if "SOFT_HCA_DIR" in os.environ else None
