"""Fault drills: what becomes of a program of several processes when one of them fails.

The survivors have to end with one clear error, within the time that the time-outs allow.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor

import process_testing
import pytest

from jax._src.distributed import failures
from jax._src.lib import termination

HEARTBEAT = 4
LIMIT = 30  # seconds until the survivors have ended: time-out, grace, and a slow machine

START = f"""
import sys, time
import jax, jax.numpy as jnp, numpy as np

jax.distributed.initialize(
    initialization_timeout=8, heartbeat_timeout_seconds={HEARTBEAT}, shutdown_timeout_seconds=4
)
me, n = jax.process_index(), jax.process_count()
mesh = jax.make_mesh((n,), ("x",))
rows = jax.NamedSharding(mesh, jax.P("x"))
x = jax.make_array_from_callback((n,), rows, lambda i: np.ones(1, np.float32))
total = jax.jit(lambda x: x.sum(), out_shardings=jax.NamedSharding(mesh, jax.P()))


def say(text):
    sys.stdout.write(f"\\n{{text}}\\n")
    sys.stdout.flush()

"""
PATIENT = START.replace("shutdown_timeout_seconds=4", "shutdown_timeout_seconds=30")
SLEEP = "say('ready')\ntime.sleep(100)\nsay('went on')\n"
COMPUTE = "say('ready')\nwhile True: total(x).block_until_ready()\n"
FIRST = "total(x).block_until_ready()\n"


def after(run, *, victim, number=signal.SIGKILL, text="ready"):
    for process in run:
        process.wait_for(text)
    run[victim].kill(number)


def killed_while_waiting():
    with process_testing.start(START + SLEEP, 3) as run:
        after(run, victim=1)
        return run.finish(LIMIT)


def killed_in_a_collective():
    with process_testing.start(START + FIRST + COMPUTE, 2) as run:
        after(run, victim=1)
        return run.finish(LIMIT)


def stopped_in_a_collective():
    """The connection stays, so that nothing but the missing heartbeat tells."""
    with process_testing.start(START + FIRST + COMPUTE, 2) as run:
        after(run, victim=1, number=signal.SIGSTOP)
        results = [run[0].finish(LIMIT)]
        run[1].kill()
        return results + [run[1].finish(LIMIT)]


def killed_while_compiling():
    program = START + (
        "def f(x):\n"
        "    for i in range(400): x = jnp.sin(x) @ jnp.cos(x + i)\n"
        "    return x\n"
        "y = jnp.zeros((8, 8))\n"
        "lowered = jax.jit(f).lower(y)\n"
        "say('ready')\n"
        "if me == 1: lowered.compile()\n"
        "total(x).block_until_ready()\n"
    )
    with process_testing.start(program, 2, env={"JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}) as run:
        after(run, victim=1)
        return run.finish(LIMIT)


def coordinator_killed():
    with process_testing.start(START + SLEEP, 3) as run:
        after(run, victim=0)
        return run.finish(LIMIT)


def coordinator_killed_in_a_collective():
    with process_testing.start(START + FIRST + COMPUTE, 2) as run:
        after(run, victim=0)
        return run.finish(LIMIT)


def never_arrives():
    with process_testing.start(START + SLEEP, 3, only=[0, 1]) as run:
        return run.finish(LIMIT)


def coordinator_never_arrives():
    with process_testing.start(START + SLEEP, 2, only=[1]) as run:
        return run.finish(LIMIT)


def raises():
    program = START + FIRST + "if me == 1: raise ValueError('the data are bad')\n" + SLEEP
    with process_testing.start(program, 3) as run:
        return run.finish(LIMIT)


def coordinator_raises():
    program = START + FIRST + "if me == 0: raise ValueError('the data are bad')\n" + SLEEP
    with process_testing.start(program, 3) as run:
        return run.finish(LIMIT)


def exits():
    """Others compute, or are about to."""
    program = PATIENT + FIRST + "if me == 1: sys.exit(3)\nif me == 2: time.sleep(0.5)\n" + FIRST
    with process_testing.start(program, 3) as run:
        return run.finish(LIMIT)


def coordinator_ends():
    program = PATIENT + FIRST + "if me == 1: total(x + 1).block_until_ready()\n"
    with process_testing.start(program, 2) as run:
        return run.finish(LIMIT)


def ends_early():
    """The others need it no more."""
    program = START + (
        FIRST + "if me != 1:\n"
        "    others = jax.sharding.Mesh([jax.devices()[0], jax.devices()[2]], 'x')\n"
        "    rows, whole = jax.NamedSharding(others, jax.P('x')), jax.NamedSharding(others, jax.P())\n"
        "    y = jax.make_array_from_callback((2,), rows, lambda i: np.ones(1, np.float32))\n"
        "    time.sleep(1)\n"
        "    say(jax.jit(lambda y: y.sum(), out_shardings=whole)(y))\n"
    )
    with process_testing.start(program, 3) as run:
        return run.finish(LIMIT)


def does_not_shut_down():
    program = START + "say('ready')\nif me == 1: time.sleep(60)\n"
    with process_testing.start(program, 2) as run:
        return run.finish(LIMIT)


def catches_the_error():
    program = START + (
        "try:\n"
        "    say('ready')\n"
        "    time.sleep(100)\n"
        "except jax.errors.JaxRuntimeError as e:\n"
        "    say(f'saved: {e}')\n"
    )
    with process_testing.start(program, 2) as run:
        after(run, victim=1)
        return run.finish(LIMIT)


def raises_in_a_callback():
    """While the other process waits in the collective that follows."""
    program = (
        START
        + FIRST
        + (
            "def read(v):\n"
            "    if me == 1: raise ValueError('the data are bad')\n"
            "    return np.asarray(v)\n"
            "f = lambda x: jax.lax.psum(jax.pure_callback(read, jax.typeof(x), x), 'x')\n"
            "jax.jit(jax.shard_map(f, mesh=mesh, in_specs=rows.spec, out_specs=jax.P(), check_vma=False))"
            "(x).block_until_ready()\n"
        )
    )
    with process_testing.start(program, 2) as run:
        return run.finish(LIMIT)


def forks():
    """The end of the child is not that of the process."""
    program = (
        START
        + FIRST
        + (
            "import os\n"
            "child = os.fork()\n"
            "if child == 0 and me == 0: sys.exit(5)\n"
            "if child == 0 and me == 1: raise ValueError('in the child')\n"
            "status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
            "say(f'child {status}, {total(x)}')\n"
        )
    )
    with process_testing.start(program, 2) as run:
        return run.finish(LIMIT)


def _pretend(name, value):
    return f"import os\nos.environ['JAX_LAUNCH_{name}'] = '{value}'\n" + START


def ignores_exceptions():
    """As Python does in `__del__` and in callbacks of the garbage collector."""
    program = START + (
        "class Slow:\n"
        "    def __del__(self): say('ready'); time.sleep(100)\n"
        "if me == 0:\n"
        "    Slow()\n"
        "    time.sleep(100)\n"
        "time.sleep(0.5)\n"
        "raise ValueError('the data are bad')\n"
    )
    with process_testing.start(program, 2) as run:
        return run.finish(LIMIT)


def goes_on():
    """With its backends, or with a collective, after code that ignores all errors."""
    fails = "if me == 1:\n    raise ValueError('the data are bad')\n"
    me = "me, n = jax._src.distributed.global_state.process_id, 2\n"
    early = START.replace("me, n =", me + fails + "IGNORE\nme, n =", 1)
    ignore = "import contextlib\nwith contextlib.suppress(Exception):\n    time.sleep(100)\n"
    results = []
    for program in (early.replace("IGNORE", ignore), START + FIRST + fails + ignore + FIRST):
        with process_testing.start(program, 2) as run:
            results += run.finish(LIMIT)
    return results


def handles_another_error():
    """A process does, when the other one fails."""
    program = (
        START
        + FIRST
        + (
            "if me == 1: raise ValueError('the data are bad')\n"
            "try:\n"
            "    raise KeyError('settings')\n"
            "except KeyError:\n"
            "    time.sleep(100)\n"
        )
    )
    with process_testing.start(program, 2) as run:
        return run.finish(LIMIT)


def is_late():
    """Another process has failed before this one begins to watch."""
    late = (
        "import time\n"
        "from jax._src.distributed import failures\n"
        "wait = failures.Watch._wait\n"
        "failures.Watch._wait = lambda self: (time.sleep(0.5), wait(self))\n"
    )
    fails = START.replace("me, n =", "raise ValueError('the data are bad')\nme, n =", 1)
    with process_testing.start([late + START + SLEEP, fails], 2) as run:
        return run.finish(LIMIT)


def ends_before_it_is_told():
    """The connection of a collective breaks, and the main thread is faster than the one that tells it."""
    slow = (
        "import time\n"
        "from jax._src.distributed import failures\n"
        "end = failures.Watch._end\n"
        "def slow_end(self, message):\n"
        "    while not self.is_leaving:\n"
        "        time.sleep(0.001)\n"
        "    end(self, message)\n"
        "failures.Watch._end = slow_end\n"
    )
    with process_testing.start(slow + START + FIRST + COMPUTE, 2) as run:
        after(run, victim=0)
        return run.finish(LIMIT)


def other_number_of_processes():
    """One of them is none of the program's, the other one is."""
    wrong = _pretend("NUM_PROCESSES", 3)
    with process_testing.start([START + SLEEP, wrong, wrong], 2, only=[0, 1]) as run:
        results = run.finish(LIMIT)
    wrong = wrong.replace("initialize(", "initialize(process_id=2,")
    start = START.replace("initialization_timeout=8", "initialization_timeout=2")
    with process_testing.start([start, wrong], 2) as run:
        return results + run.finish(LIMIT)


def same_number():
    start = START.replace("initialization_timeout=8", "initialization_timeout=2")
    same = _pretend("PROCESS_ID", 1)
    with process_testing.start([start, start, same], 3) as run:
        return run.finish(LIMIT)


def programs_that_differ():
    program = (
        START
        + FIRST
        + (
            "twice = jax.jit(lambda x: x * 2, out_shardings=jax.NamedSharding(mesh, jax.P()))\n"
            "for f in (total, twice) if me == 0 else (twice, total):\n"
            "    f(jnp.concatenate([x, x])).block_until_ready()\n"
        )
    )
    with process_testing.start(program, 2) as run:
        return run.finish(LIMIT)


def programs_in_other_threads():
    """Their order is not compared."""
    program = START + (
        "import threading\n"
        "def f(k): return jax.jit(lambda x: (x * k).sum(), out_shardings=total(x).sharding)\n"
        "if me == 0: f(2)(x).block_until_ready()\n"
        "else:\n"
        "    thread = threading.Thread(target=lambda: f(2)(x).block_until_ready())\n"
        "    thread.start(); thread.join()\n"
        "say(float(total(x)))\n"
    )
    with process_testing.start(program, 2) as run:
        return run.finish(LIMIT)


DRILLS = [
    killed_while_waiting, killed_in_a_collective, stopped_in_a_collective, killed_while_compiling,
    coordinator_killed, coordinator_killed_in_a_collective, never_arrives,
    coordinator_never_arrives, raises, coordinator_raises, exits, coordinator_ends, ends_early,
    does_not_shut_down, catches_the_error, raises_in_a_callback, ignores_exceptions, goes_on, handles_another_error, is_late, ends_before_it_is_told, forks, other_number_of_processes,
    same_number, programs_that_differ, programs_in_other_threads,
]  # fmt: skip


@pytest.fixture(scope="module")
def drills():
    """Several at a time: most of a drill is waiting."""
    with ThreadPoolExecutor(4) as pool:
        yield {drill.__name__: pool.submit(drill) for drill in DRILLS}


def assert_error(result, *texts):
    assert result.status == 1, result
    last = [line for line in result.stderr.splitlines() if re.match(r"[\w.]+(Error|Exit): ", line)]
    assert len(last) == 1, result.stderr
    for text in texts:
        assert text in last[0], result.stderr


GONE = "process 1 has stopped, or cannot be reached"
LOST_CONNECTION = "Connection (closed|reset) by peer"  # as Gloo says it
NO_COORDINATOR = "the coordinator (process 0, at 127.0.0.1:"


def test_killed_while_waiting(drills):
    first, victim, last = drills["killed_while_waiting"].result()
    assert victim.status == -signal.SIGKILL
    for i, survivor in ((0, first), (2, last)):
        assert_error(survivor, f"ProcessesError: Process {i} of 3 cannot go on: ")
        # Which one is not known if the runtime has stopped before it has read the answer.
        assert re.search(f"{GONE}.* 4 seconds|another process has stopped, or", survivor.stderr)
        assert "went on" not in survivor.stdout


@pytest.mark.parametrize("drill", ["killed_in_a_collective", "killed_while_compiling"])
def test_killed_in_a_program(drills, drill):
    survivor, victim = drills[drill].result()
    assert victim.status == -signal.SIGKILL
    assert_error(survivor)
    assert re.search(LOST_CONNECTION, survivor.stderr) or GONE in survivor.stderr


def test_stopped_in_a_collective(drills):
    survivor, _ = drills["stopped_in_a_collective"].result()
    assert_error(survivor, f"Process 0 of 2 cannot go on: {GONE}")


def test_coordinator_killed(drills):
    victim, *survivors = drills["coordinator_killed"].result()
    assert victim.status == -signal.SIGKILL
    for survivor in survivors:
        assert_error(survivor, "jax.distributed.ProcessesError", NO_COORDINATOR)


@pytest.mark.parametrize("drill", ["coordinator_killed_in_a_collective", "ends_before_it_is_told"])
def test_coordinator_killed_in_a_collective(drills, drill):
    _, survivor = drills[drill].result()
    assert_error(survivor)
    assert re.search(LOST_CONNECTION, survivor.stderr) or NO_COORDINATOR in survivor.stderr
    assert "ignored" not in survivor.stderr, survivor.stderr


def test_never_arrives(drills):
    for i, survivor in enumerate(drills["never_arrives"].result()):
        assert_error(
            survivor,
            f"Process {i} of 3 could not start together with the others: within 8 seconds"
            " (initialization_timeout)",
            "has heard nothing of process 2.",
        )


def test_coordinator_never_arrives(drills):
    [survivor] = drills["coordinator_never_arrives"].result()
    assert_error(survivor, "Process 1 of 2 could not start", "did not answer within 8 seconds")


@pytest.mark.parametrize("drill, number", [("raises", 1), ("coordinator_raises", 0)])
def test_raises(drills, drill, number):
    for i, result in enumerate(drills[drill].result()):
        if i == number:
            assert_error(result, "ValueError: the data are bad")
        else:
            assert_error(result, f"process {number} has failed: ValueError: the data are bad")


ENDED = "has ended, and jit(<lambda>) (all-reduce f32[] "


def test_exits(drills):
    first, leaver, last = drills["exits"].result()
    assert leaver.status == 3 and not leaver.stderr, leaver
    for survivor in (first, last):
        assert_error(survivor, "jax.distributed.ProcessesError: ", f"process 1 {ENDED}")


def test_coordinator_ends(drills):
    coordinator, survivor = drills["coordinator_ends"].result()
    assert coordinator.status == 0 and not coordinator.stderr, coordinator
    assert_error(survivor, f"ProcessesError: Process 1 of 2 cannot go on: process 0 {ENDED}")


def test_ends_early(drills):
    for i, result in enumerate(drills["ends_early"].result()):
        assert result.status == 0 and ("2.0" in result.stdout) == (i != 1), result


def test_does_not_shut_down(drills):
    waiting, late = drills["does_not_shut_down"].result()
    assert_error(
        waiting, "Process 0 of 2 could not end together with the others", "shutdown_timeout_seconds"
    )
    assert_error(late, NO_COORDINATOR)


def test_catches_the_error(drills):
    """A program may save what it has."""
    survivor, _ = drills["catches_the_error"].result()
    assert f"saved: Process 0 of 2 cannot go on: {GONE}" in survivor.stdout


def test_raises_in_a_callback(drills):
    waiting, failed = drills["raises_in_a_callback"].result()
    assert failed.status == 1 and "ValueError: the data are bad" in failed.stderr, failed
    expected = "Process 0 of 2 cannot go on: process 1 has failed: jax.errors.JaxRuntimeError: "
    assert_error(
        waiting, expected, "calling callback: ValueError: the data are bad. See the output"
    )


def test_ignores_exceptions(drills):
    ignoring, _ = drills["ignores_exceptions"].result()
    assert_error(ignoring, "process 1 has failed: ValueError: the data are bad")
    assert "ignored" not in ignoring.stderr, ignoring.stderr


def test_goes_on(drills):
    early, _, late, _ = drills["goes_on"].result()
    for result in (early, late):
        assert_error(result, "process 1 has failed: ValueError: the data are bad")


def test_handles_another_error(drills):
    handling, _ = drills["handles_another_error"].result()
    assert_error(handling, "process 1 has failed: ValueError: the data are bad")
    assert "settings" not in handling.stderr, handling.stderr


def test_is_late(drills):
    late, _ = drills["is_late"].result()
    assert_error(late, "process 1 has failed: ValueError: the data are bad")


def test_forks(drills):
    for result, status in zip(drills["forks"].result(), (5, 1)):
        assert result.status == 0 and f"child {status}, 2.0" in result.stdout, result


def test_other_number_of_processes(drills):
    first, other, _, superfluous = drills["other_number_of_processes"].result()
    text = "process 1 has been started with 3, and process 0 with 2."
    assert_error(other, "ValueError: num_processes must be the same in all processes: " + text)
    assert_error(first, "process 1 has failed: ValueError: num_processes must be the same", text)
    assert_error(superfluous, "process 0 has been started with another num_processes, less than 3.")


def test_same_number(drills):
    _, *both = drills["same_number"].result()
    assert all(result.status == 1 for result in both), both
    text = "another process has been started with process_id=1, too."
    assert sum(text in result.stderr for result in both) == 1, both


def test_programs_that_differ(drills):
    first, second = drills["programs_that_differ"].result()
    assert_error(
        second,
        "Process 1 of 2 cannot go on: it runs the program jit(<lambda>) (all-gather f32[4] ",
        "where process 0 runs jit(<lambda>) (all-reduce f32[] ",
        "All processes have to run the same programs in the same order.",
    )
    assert_error(first, "Process 0 of 2 cannot go on: process 1 has failed: it runs the program")


def test_an_error_that_the_main_thread_raises_is_not_printed_as_well(monkeypatch, capfd):
    """It finds the same failure as a thread that watches, and leaves before that has told it."""
    watch = failures.Watch(0, 2, "127.0.0.1:1", None, False)
    monkeypatch.setattr(failures, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(failures, "_raise_in_thread", lambda *_: None)
    monkeypatch.setattr(os, "_exit", lambda _: pytest.fail("the process has been ended"))
    message = watch._set_failure("process 1 has ended")
    assert str(watch.fail_here("process 1 has ended")) == message
    watch._end(message)
    assert capfd.readouterr() == ("", "")


def test_programs_in_other_threads(drills):
    for result in drills["programs_in_other_threads"].result():
        assert result.status == 0 and "2.0" in result.stdout, result


CUT = """
set -e
unshare -n sleep 100 & other=$!
trap 'kill $other' EXIT
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
ip link add here type veth peer name there netns $other
ip addr add 10.91.0.1/24 dev here
ip link set here up
ip link set lo up
nsenter -t $other -n sh -c 'ip addr add 10.91.0.2/24 dev there; ip link set there up; ip link set lo up'
export JAX_LAUNCH_COORDINATOR=10.91.0.1:29517 JAX_LAUNCH_NUM_PROCESSES=2
JAX_LAUNCH_PROCESS_ID=0 "$@" 0 & first=$!
JAX_LAUNCH_PROCESS_ID=1 nsenter -t $other -n "$@" 1 & second=$!
until [ -e ready0 ] && [ -e ready1 ]; do sleep 0.1; done
ip link set here down
set +e
wait $first; echo "status 0: $?"
wait $second; echo "status 1: $?"
"""


def _may_make_network_namespaces():
    command = "ip link add here type veth peer name there"
    try:
        result = subprocess.run(
            ["unshare", "-rn", "sh", "-c", command], capture_output=True, check=False
        )
    except FileNotFoundError:
        return False
    return result.returncode == 0


@pytest.mark.skipif(not _may_make_network_namespaces(), reason="needs network namespaces")
def test_network_cut(tmp_path):
    program = START + "open(f'ready{me}', 'w').close()\n" + SLEEP
    (tmp_path / "program.py").write_text(program)
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}
    start = time.monotonic()
    result = subprocess.run(
        ["unshare", "-rn", "sh", "-c", CUT, "sh", sys.executable, "program.py"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=process_testing.TIME_LIMIT,
        check=False,
    )
    assert time.monotonic() - start < process_testing.TIME_LIMIT
    output = result.stdout + result.stderr
    assert "status 0: 1\n" in output and "status 1: 1\n" in output, output
    assert f"Process 0 of 2 cannot go on: {GONE}" in output, output
    assert "Process 1 of 2 cannot go on: the coordinator (process 0, at 10.91.0.1:29517)" in output


RECOVERABLE = (
    START.replace(
        "jax.distributed.initialize(",
        "jax.config.update('jax_enable_recoverability', True)\njax.distributed.initialize(",
    )
    + """
import os
from jax.experimental import multihost_utils as m


def total_over(devices, value=1):
    mesh = jax.sharding.Mesh(devices, "x")
    rows, whole = jax.NamedSharding(mesh, jax.P("x")), jax.NamedSharding(mesh, jax.P())
    y = jax.make_array_from_callback(
        (len(devices),), rows, lambda i: np.full(1, value, np.float32)
    )
    return float(jax.jit(lambda x: x.sum(), out_shardings=whole)(y))


with m.live_devices(jax.devices()) as live:
    say(f"first {total_over(live)}")
say("ready")
if me == 2:
    time.sleep(100)
while True:
    try:
        with m.live_devices(jax.devices()) as live:
            is_last = total_over(live, os.path.exists(os.environ["STOP"]))
            if len(live) < 3:
                say(f"then {total_over(live)}")
                if is_last:
                    break
        time.sleep(0.1)
    except m.ProcessFailureError as e:
        say(f"failed {sorted(d.process_index for d in e.failed_devices)}")
    except Exception as e:
        say(f"error {type(e).__name__}")
"""
)


def test_recoverable_programs_go_on(tmp_path):
    """Also when the process that has failed is started again, which is in vain on the CPU."""
    env = {
        "JAX_LAUNCH_COORDINATOR": f"127.0.0.1:{process_testing.free_port()}",
        "STOP": str(tmp_path / "stop"),
    }
    with process_testing.start(RECOVERABLE, 3, env=env) as run:
        after(run, victim=2)
        for survivor in run[:2]:
            survivor.wait_for("then 2.0")
        with process_testing.start(RECOVERABLE, 3, env=env, only=[2]) as again:
            [restarted] = again.finish(LIMIT)
        (tmp_path / "stop").touch()
        results = run.finish(LIMIT)
    assert_error(restarted, "RuntimeError: Process 2 has failed before and cannot join the others")
    for result in results[:2]:
        assert result.status == 0, results
        assert "first 3.0" in result.stdout and "then 2.0" in result.stdout, result


@pytest.mark.parametrize("gone, is_wrong", [(1, False), (2, True)])
def test_one_who_leaves_is_not_blamed_with_what_follows_from_it(gone, is_wrong):
    """The others may fail before a process that they wait for has disconnected."""
    watch = failures.Watch(1, 3, "127.0.0.1:1", None, False)
    problem = f"process 0 has failed: process {gone} has ended, and jit(f) waits for it"

    class Client:
        def shutdown(self):
            watch.problem = problem
            raise RuntimeError("another task has failed")

    assert watch.leave(Client(), None) == (problem if is_wrong else None)


def test_calls_at_the_end_need_no_new_thread(monkeypatch):
    """Python 3.12 and later start none at the end of the interpreter; a call that never returns holds up no other."""
    termination.prepare_end()
    threads = [t for t in threading.enumerate() if t.name == "jax-end"]
    termination.prepare_end()
    assert threads == [t for t in threading.enumerate() if t.name == "jax-end"]

    def fail(**kwargs):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(termination, "threading", types.SimpleNamespace(Thread=fail))
    never = threading.Event()
    assert termination.call_until(never.wait, threading.Event(), 0.01) == (False, None)
    called = []
    assert termination.call_until(lambda: called.append(1), threading.Event()) == (True, None)
    assert called == [1]
    done, error = termination.call_until(lambda: 1 / 0, threading.Event())
    assert done and isinstance(error, ZeroDivisionError)
    never.set()
