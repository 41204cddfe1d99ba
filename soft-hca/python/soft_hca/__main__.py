"""The command line: becomes the ``soft-hca`` command."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from . import binary


def main() -> NoReturn:
    """Runs ``soft-hca`` with this process's arguments, in its place."""
    command = binary()
    try:
        os.execv(command, ["soft-hca", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"soft-hca: cannot run {command}: {error.strerror}")


if __name__ == "__main__":
    main()
