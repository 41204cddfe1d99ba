"""pytest in a fabric: ``pytest --soft-hca``.

pytest is started once more by ``soft-hca run --``, as what makes a program find a device is a library that is
loaded before all others. With ``--soft-hca-explain`` each test is recorded, and the report of one that fails says
what went wrong in the fabric.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import soft_hca

#: Set in a session that was started once more: it is not to happen again if that did not help.
_STARTED = "SOFT_HCA_PYTEST"
#: Seconds that the recorder has to end.
_LIMIT = 30


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("soft-hca", "RDMA without a device")
    group.addoption(
        "--soft-hca",
        action="store_true",
        help="run the tests in a fabric of soft-hca's own, where programs find an RDMA device",
    )
    group.addoption(
        "--soft-hca-explain",
        action="store_true",
        help="the same, and say in the report of a test that fails what went wrong in the fabric",
    )
    parser.addini("soft_hca", "as --soft-hca does", type="bool", default=False)


def _is_wanted(config: pytest.Config, options: Any) -> bool:
    return options.soft_hca or options.soft_hca_explain or config.getini("soft_hca")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    # Here pytest has not yet put files of its own in the place of standard output.
    if _is_wanted(early_config, early_config.known_args_namespace) and soft_hca.fabric() is None:
        _start_again()
    return (yield)


def _start_again() -> None:
    if _STARTED in os.environ:
        raise pytest.UsageError("soft-hca run has not put pytest into a fabric")
    fabric = f"pytest-{os.getpid()}"
    command = [str(soft_hca.binary()), "run", "--fabric", fabric, "--"]
    sys.stdout.flush()
    sys.stderr.flush()
    os.environ[_STARTED] = fabric
    try:
        os.execv(command[0], [*command, sys.executable, *sys.orig_argv[1:]])
    except OSError as error:
        raise pytest.UsageError(f"cannot run {command[0]}: {error.strerror}") from error


def pytest_report_header() -> str | None:
    fabric = soft_hca.fabric()
    return fabric and f"soft-hca: fabric {fabric}"


@dataclass(frozen=True)
class Rdma:
    """What a test knows of the fabric that it runs in."""

    #: The fabric's name.
    fabric: str

    @property
    def devices(self) -> list[str]:
        """The names of the devices that programs find, as in ``/sys/class/infiniband``."""
        return os.environ.get("SOFT_HCA_DEVICE", "rxe0").split(",")

    def run(self, command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs a program in the fabric, to its end. Takes what :func:`subprocess.run` takes; the output is
        there as text unless the options say otherwise, and a status other than 0 raises."""
        return subprocess.run(command, **{"check": True, "text": True, "capture_output": True} | options)

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Starts a program in the fabric, such as a server. Takes what :class:`subprocess.Popen` takes."""
        return subprocess.Popen(command, **{"text": True} | options)


@pytest.fixture(scope="session")
def rdma() -> Rdma:
    """The fabric of this session. Without one the test is skipped: ``pytest --soft-hca`` makes it."""
    fabric = soft_hca.fabric()
    if fabric is None:
        pytest.skip("no fabric: start pytest with --soft-hca")
    return Rdma(fabric)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.config.getoption("soft_hca_explain"):
        item.stash[_RECORDER] = _Recorder()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    recorder = item.stash.get(_RECORDER, None)
    if recorder is not None and (report.failed or report.when == "teardown"):
        del item.stash[_RECORDER]
        explanation = recorder.end()
        if report.failed:
            report.sections.append(("soft-hca: what went wrong in the fabric", explanation))
    return report


class _Recorder:
    """Records the fabric from now on."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="soft-hca-")
        self._file = f"{self._folder.name}/test.shr"
        command = [str(soft_hca.binary()), "record", "--output", self._file]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        # It says that it has begun, or why it cannot.
        self._said = self._process.stderr.readline()

    def end(self) -> str:
        """Ends it. What ``soft-hca explain`` says of the record, or why there is none."""
        with self._folder:
            # SIGINT is ignored by all that a shell has started in the background.
            self._process.terminate()
            try:
                _, said = self._process.communicate(timeout=_LIMIT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.communicate()
                return f"soft-hca record has not ended within {_LIMIT} s"
            if self._process.returncode != 0:
                return self._said + said
            explain = [str(soft_hca.binary()), "explain", self._file]
            return subprocess.run(explain, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


_RECORDER = pytest.StashKey[_Recorder]()
