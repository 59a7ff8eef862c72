"""`python -m jax.distributed.launch`: output, failures, signals, and what is left behind."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from jax._src.launch import main
from jax._src.launch.supervisor import Supervisor

LIBC = ctypes.CDLL(None)

ENVIRONMENT = """
import os, sys
names = ("JAX_LAUNCH_NUM_PROCESSES", "JAX_NUM_CPU_DEVICES", "JAX_LOCAL_DEVICE_IDS")
print(os.environ["JAX_LAUNCH_PROCESS_ID"], [os.environ.get(n) for n in names], sys.argv[1:])
host, port = os.environ["JAX_LAUNCH_COORDINATOR"].split(":")
print("at", host, int(port) > 0)
print("to stderr", file=sys.stderr)
sys.stdout.write("progress 1\\rprogress 2")
"""


@pytest.fixture
def program(tmp_path):
    def write(text):
        path = tmp_path / "program.py"
        path.write_text(text)
        return str(path)

    return write


def is_there(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_output(program, capfd):
    path = program(ENVIRONMENT)
    assert main(["-n", "2", "--devices-per-process", "3", "--", path, "-n", "x"]) == 0
    out, err = capfd.readouterr()
    for i, ids in enumerate(["0,1,2", "3,4,5"]):
        lines = [line for line in out.splitlines() if line.startswith(f"[{i}] ")]
        assert lines == [
            f"[{i}] {i} ['2', '3', '{ids}'] ['-n', 'x']",
            f"[{i}] at 127.0.0.1 True",
            f"[{i}] progress 1",
            f"[{i}] progress 2",
        ]
        assert f"[{i}] to stderr\n" in err


# 64 kB of a pipe, and a line that comes in several hundred parts.
LONG = """
import os, sys
os.write(1, b"one\\r"); os.write(1, b"\\n")
os.write(1, b"\\xc3\\xa9\\xff\\n")
for _ in range(300):
    os.write(1, b"x" * 30_000)
os.write(1, b"\\n")
for i in range(2000):
    os.write(1, b"line %d\\n" % i)
"""


@contextlib.contextmanager
def launch(path, n=1, *, under=(), **options):
    """A running launcher; it is killed, and so are its processes, if a test fails."""
    command = [*under, sys.executable, "-m", "jax.distributed.launch", "-n", str(n), path]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with subprocess.Popen(command, **options) as launcher:
        try:
            yield launcher
        finally:
            launcher.kill()


def test_long_lines_and_a_slow_reader(program):
    with launch(program(LONG), env={**os.environ, "PYTHONIOENCODING": "ascii"}) as launcher:
        # Nothing is read for longer than the program runs.
        time.sleep(1.5)
        out, err = launcher.communicate(timeout=20)
    assert (launcher.returncode, err) == (0, b"")
    lines = out.splitlines()
    assert lines[:2] == [b"[0] one", rb"[0] \xe9\ufffd"]
    assert lines[2] == b"[0] " + b"x" * 9_000_000
    assert lines[3:] == [b"[0] line %d" % i for i in range(2000)]


def test_a_reader_that_ends(program):
    with launch(program("import itertools\nfor i in itertools.count(): print(i)")) as launcher:
        launcher.stdout.readline()
        launcher.stdout.close()
        assert launcher.wait(timeout=20) == 128 + signal.SIGPIPE
        assert launcher.stderr.read() == b""


def test_signals_that_are_ignored(program):
    text = "import time\nprint('here')\ntime.sleep(0.5)\nprint('end')"
    ignore = ("sh", "-c", """trap '' HUP; exec "$@" """, "sh")  # as `nohup` has it
    with launch(program(text), under=ignore) as launcher:
        assert launcher.stdout.readline() == b"[0] here\n"
        launcher.send_signal(signal.SIGHUP)
        assert launcher.communicate(timeout=20) == (b"[0] end\n", b"")
    assert launcher.returncode == 0


def test_options(program, capfd, tmp_path, monkeypatch):
    program(
        "import os; print(os.environ['JAX_LAUNCH_COORDINATOR'], 'JAX_NUM_CPU_DEVICES' in os.environ)"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    args = ["-n", "1", "--coordinator", "10.0.0.1:1234", "--color", "always", "-m", "program"]
    assert main(args) == 0
    assert capfd.readouterr().out == "\x1b[36m[0]\x1b[0m 10.0.0.1:1234 False\n"


def test_the_failed_process_is_named(program, capfd):
    path = program(
        "import os, sys, time\n"
        "if os.environ['JAX_LAUNCH_PROCESS_ID'] == '1':\n"
        "    print('some reason', file=sys.stderr)\n"
        "    sys.exit(3)\n"
        "time.sleep(60)\n"
    )
    start = time.monotonic()
    assert main(["-n", "3", path]) == 3
    assert time.monotonic() - start < 15
    err = capfd.readouterr().err
    expected = (
        "process 1 of 3 failed: exit status 3. The last lines of its stderr:\n    some reason\n"
    )
    assert expected in err
    sigterm = "(killed by signal 15 (SIGTERM))"
    assert f"launch: stopped: process 0 {sigterm}, process 2 {sigterm}\n" in err


def test_signals_of_processes(program, capfd):
    path = program(
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.environ['JAX_LAUNCH_PROCESS_ID'] == '0': os.kill(os.getpid(), signal.SIGSEGV)\n"
        "time.sleep(60)\n"
    )
    assert main(["-n", "2", "--grace", "300ms", path]) == 128 + signal.SIGSEGV
    err = capfd.readouterr().err
    assert "process 0 of 2 failed: killed by signal 11 (SIGSEGV)" in err
    assert "launch: stopped: process 1 (killed by signal 9 (SIGKILL))" in err


def test_the_first_error_is_not_one_that_tells_of_another(program, capfd):
    path = program(
        "import os, sys, time\n"
        "if os.environ['JAX_LAUNCH_PROCESS_ID'] == '0':\n"
        "    sys.exit('jax.distributed.ProcessesError: Process 0 of 2 cannot go on')\n"
        "time.sleep(0.5)\n"
        "sys.exit('ValueError: the cause')\n"
    )
    assert main(["-n", "2", path]) == 1
    err = capfd.readouterr().err
    assert "process 1 of 2 failed: exit status 1" in err
    assert "launch: ended because of a failure: process 0 (exit status 1)\n" in err


def test_timeout(program, capfd):
    path = program("import time; time.sleep(60)")
    assert main(["-n", "2", "--timeout", "500ms", path]) == 124
    err = capfd.readouterr().err
    assert "the time limit of 0.5 s has passed; still running: processes 0, 1" in err


def test_drill(program, capfd):
    path = program(
        "import os, time\n"
        "time.sleep(60 if os.environ['JAX_LAUNCH_PROCESS_ID'] == '1' else 1)\n"
        "print('survived')\n"
    )
    assert main(["-n", "2", "--kill", "1@300ms", path]) == 0
    out, err = capfd.readouterr()
    assert out == "[0] survived\n"
    assert "drill: sending SIGKILL to process 1" in err


CONSEQUENCES = """
import os, sys, time
me = os.environ["JAX_LAUNCH_PROCESS_ID"]
if me == "0":
    time.sleep(1)
    sys.exit("jax.distributed.ProcessesError: Process 0 of 3 cannot go on: process 2 has stopped")
if me == "1":
    time.sleep(2)
    OUTCOME
time.sleep(60)
"""


@pytest.mark.parametrize(
    "outcome, status, texts",
    [
        ("print('survived'); sys.exit()", 1, ["process 0 of 3 failed: exit status 1"]),
        (
            "sys.exit(7)",
            7,
            [
                "process 1 of 3 failed: exit status 7",
                "because of a failure: process 0 (exit status 1)",
            ],
        ),
    ],
    ids=["consequence", "failure"],
)
def test_failures_in_a_drill(program, capfd, outcome, status, texts):
    """What follows from the drill stops nothing, and another failure does."""
    path = program(CONSEQUENCES.replace("OUTCOME", outcome))
    assert main(["-n", "3", "--kill", "2@300ms", path]) == status
    out, err = capfd.readouterr()
    assert out == "[1] survived\n" * ("survived" in outcome)
    for text in texts:
        assert text in err


def test_a_second_failure_in_a_drill_stops_the_others(program, capfd):
    path = program(
        "import os, sys, time\n"
        "me = os.environ['JAX_LAUNCH_PROCESS_ID']\n"
        "if me == '0': time.sleep(1); sys.exit(7)\n"
        "time.sleep(60)\n"
    )
    start = time.monotonic()
    assert main(["-n", "3", "--kill", "2@300ms", path]) == 7
    assert time.monotonic() - start < 20
    err = capfd.readouterr().err
    assert "process 0 of 3 failed: exit status 7" in err
    assert "stopped: process 1 (killed by signal 15 (SIGTERM))" in err


FAMILY = """
import os, subprocess, sys, time
pids = f"pids{os.environ['JAX_LAUNCH_PROCESS_ID']}"
try:
    child = subprocess.Popen(["sleep", "100"])  # it says nothing when it is interrupted
    with open(pids + ".new", "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    os.rename(pids + ".new", pids)
    time.sleep(100)
except KeyboardInterrupt:
    sys.exit("interrupted")
"""


def started_family(launcher, folder):
    """The processes of a launched program, and what they have started, once they are there."""
    files = [folder / f"pids{i}" for i in range(2)]
    wait_until(lambda: launcher.poll() is not None or all(file.exists() for file in files))
    pids = [int(pid) for file in files for pid in file.read_text().split()]
    assert all(map(is_there, pids))
    return pids


@pytest.mark.skipif(not os.path.exists("/proc"), reason="looks processes up in /proc")
@pytest.mark.parametrize(
    "number, status",
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)],
    ids=["SIGINT", "SIGTERM", "SIGKILL"],
)
def test_nothing_is_left(program, tmp_path, number, status):
    with launch(program(FAMILY), 2, cwd=tmp_path, stdout=None, text=True) as launcher:
        pids = started_family(launcher, tmp_path)
        launcher.send_signal(number)
        _, err = launcher.communicate(timeout=20)
    assert launcher.returncode == status
    wait_until(lambda: not any(map(is_there, pids)))
    if number == signal.SIGINT:
        assert "[0] interrupted" in err and "[1] interrupted" in err
        assert "SIGINT: passed on to the processes" in err


@pytest.mark.skipif(not hasattr(LIBC, "tgkill"), reason="sends signals to single threads")
def test_a_signal_that_does_not_interrupt_the_wait(program, tmp_path):
    """As one that arrives just before the launcher waits: here, another thread takes it."""
    with launch(program(FAMILY), 2, cwd=tmp_path, text=True) as launcher:
        started_family(launcher, tmp_path)
        threads = sorted(map(int, os.listdir(f"/proc/{launcher.pid}/task")))
        assert threads[0] == launcher.pid and len(threads) > 1
        assert LIBC.tgkill(launcher.pid, threads[-1], signal.SIGINT) == 0
        _, err = launcher.communicate(timeout=20)
    assert launcher.returncode == 130
    assert "[0] interrupted" in err and "[1] interrupted" in err


def test_a_process_that_ends_while_the_end_of_another_is_handled(program, capfd, monkeypatch):
    """What tells of it is then read together with the last words of the other."""
    path = program(
        "import os, time\n"
        "while os.environ['JAX_LAUNCH_PROCESS_ID'] == '0' and not os.path.exists(__file__ + '.end'):\n"
        "    time.sleep(0.01)\n"
    )
    follow, ended, read = Supervisor._follow, Supervisor._ended, Supervisor._read
    threads, both_are_over = [], False

    def note_thread(self, process):
        before = set(threading.enumerate())
        follow(self, process)
        threads.extend(set(threading.enumerate()) - before)

    def end_late(self, process):
        nonlocal both_are_over
        if process.number == 1:
            open(path + ".end", "w").close()
            for thread in threads:
                thread.join()
            both_are_over = True
        ended(self, process)

    def must_not_wait(self, timeout):
        assert timeout is not None or not both_are_over
        return read(self, timeout)

    monkeypatch.setattr(Supervisor, "_follow", note_thread)
    monkeypatch.setattr(Supervisor, "_ended", end_late)
    monkeypatch.setattr(Supervisor, "_read", must_not_wait)
    assert main(["-n", "2", path]) == 0, capfd.readouterr()


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["-n", "0", "p"], "at least one process"),
        (["-n", "2"], "no PROGRAM is given"),
        (["-n", "2", "none.py"], "'none.py' does not exist; for a module, write -m"),
        (["-n", "2", "--kill", "2@5s", "p"], "there is no process 2 among 2"),
        (["-n", "2", "--kill", "1@soon", "p"], "a time is like 5s"),
        (["-n", "2", "--kill", "1", "p"], "a drill is like 2@5s"),
        (["-n", "2", "--kill", "1@1s:NONE", "p"], "there is no signal 'NONE'"),
        (["-n", "2", "--coordinator", "host", "p"], "an address is like host:port"),
        (["-n", "2", "--devices-per-process", "0", "p"], "--devices-per-process: got 0"),
    ],
)
def test_errors(arguments, text, capsys):
    with pytest.raises(SystemExit) as e:
        main(arguments)
    assert e.value.code == 2
    assert text in capsys.readouterr().err


def test_jax_needs_no_arguments(program, capfd):
    path = program(
        "import jax\njax.distributed.initialize()\nprint(jax.process_index(), len(jax.devices()))\n"
    )
    assert main(["-n", "2", "--devices-per-process", "2", path]) == 0
    assert sorted(capfd.readouterr().out.splitlines()) == ["[0] 0 4", "[1] 1 4"]
