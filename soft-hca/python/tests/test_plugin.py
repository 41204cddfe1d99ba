"""The plug-in as its users have it: installed from the wheel, with the system's rdma-core."""

import signal
import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

FINDS = """
    import ctypes

    def find():
        verbs = ctypes.CDLL("libibverbs.so.1")
        verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
        count = ctypes.c_int()
        verbs.ibv_get_device_list(ctypes.byref(count))
        return count.value
"""


@pytest.fixture
def session(pytester, monkeypatch):
    """Runs pytest in a process of its own, which is in no fabric yet."""
    for name in ("SOFT_HCA_FABRIC", "SOFT_HCA_DIR", "SOFT_HCA_PYTEST", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)
    return lambda *args: pytester.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *args)


def test_no_device_without_a_fabric(pytester, session):
    pytester.makepyfile(FINDS + "\n    def test_none(): assert find() == 0")
    session().assert_outcomes(passed=1)


@pytest.mark.parametrize("way", ["option", "ini"])
def test_the_session_finds_a_device(pytester, session, way):
    pytester.makepyfile(FINDS + "\n    def test_one(): assert find() == 1")
    if way == "ini":
        pytester.makeini("[pytest]\nsoft_hca = true")
    result = session(*["--soft-hca"][: way == "option"])
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["soft-hca: fabric pytest-*"])


def test_the_status_is_pytests(pytester, session):
    pytester.makepyfile("def test_wrong(): assert False")
    assert session("--soft-hca").ret == pytest.ExitCode.TESTS_FAILED


def test_fixture(pytester, session):
    pytester.makepyfile(
        """
        def test_programs(rdma):
            assert rdma.devices == ["rxe0"]
            assert "rxe0" in rdma.run(["ibv_devices"]).stdout
            with rdma.start(["ibv_rc_pingpong", "-g", "1"], stdout=-1) as server:
                client = ["sh", "-c", "until ibv_rc_pingpong -g 1 127.0.0.1 2>/dev/null; do sleep 0.1; done"]
                assert "1000 iters" in rdma.run(client).stdout
                assert "1000 iters" in server.communicate()[0]
        """
    )
    session("--soft-hca").assert_outcomes(passed=1)
    # Without a fabric it says what to do.
    result = session("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*start pytest with --soft-hca*"])


@pytest.fixture(params=["foreground", "background"])
def job(request):
    """In the background of a shell without job control everything ignores SIGINT."""
    if request.param == "foreground":
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_failure_is_explained(pytester, session, job):
    pytester.makepyfile(
        """
        import ctypes

        def test_fine(rdma): rdma.run(["ibv_devinfo"])

        def test_wrong():
            verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
            for name in ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_reg_mr"):
                getattr(verbs, name).restype = ctypes.c_void_p
            devices = ctypes.cast(verbs.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))
            context = ctypes.c_void_p(verbs.ibv_open_device(ctypes.c_void_p(devices[0])))
            domain = ctypes.c_void_p(verbs.ibv_alloc_pd(context))
            memory, length, remote_write = ctypes.create_string_buffer(64), ctypes.c_size_t(64), 2
            # Not without IBV_ACCESS_LOCAL_WRITE.
            assert verbs.ibv_reg_mr(domain, memory, length, remote_write)
        """
    )
    result = session("--soft-hca-explain")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*what went wrong in the fabric*", "*ibv_reg_mr*EINVAL*", "*remote write*needs local write*"])


def test_the_module_is_the_command():
    run = [sys.executable, "-m", "soft_hca"]
    assert subprocess.run([*run, "--version"], capture_output=True, text=True).stdout.startswith("soft-hca ")
    assert subprocess.run([*run, "run", "--", "sh", "-c", "exit 7"]).returncode == 7
    assert subprocess.run([*run, "nonsense"], stderr=subprocess.PIPE).returncode == 2
