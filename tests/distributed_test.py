"""Programs that run as several processes: starting, ending, what they compute."""

import re
import signal

import process_testing
from op_testing import case_tests

reference, test_reference, _ = case_tests(__file__)

PROGRAM = """
import jax, numpy as np

jax.distributed.initialize()
n = jax.process_count()
mesh = jax.make_mesh((jax.device_count(),), ("x",))
rows = jax.NamedSharding(mesh, jax.P("x"))
x = jax.make_array_from_callback((2 * n,), rows, lambda index: np.arange(2.0 * n)[index])
total = float(jax.jit(lambda x: x.sum(), out_shardings=jax.NamedSharding(mesh, jax.P()))(x))
print("RESULT", jax.process_index(), n, jax.local_device_count(), jax.device_count(), total)
"""


def test_processes_compute_together():
    outputs = process_testing.run(PROGRAM, 2, devices=2)
    for i, output in enumerate(outputs):
        assert f"RESULT {i} 2 2 4 6.0\n" in output


ALONE = """
import os, signal, socket, sys, threading, warnings
import jax
import numpy as np
from jax._src.distributed import global_state
from jax.experimental import multihost_utils as m


def show(name, fun):
    try:
        print("@@", name, fun())
    except Exception as e:
        print("@@", name, type(e).__name__, str(e).split(chr(10))[0])


def initialize(**arguments):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    jax.distributed.initialize(f"127.0.0.1:{port}", 1, 0, **arguments)
    return global_state.client is not None


hooks = sys.excepthook, signal.getsignal(signal.SIGURG)
show("shutdown before", jax.distributed.shutdown)
show("preemption", lambda: m.reached_preemption_sync_point(1))
show("live devices", lambda: m.live_devices([]).__enter__())
busy = socket.create_server(("127.0.0.1", 0))
address = f"127.0.0.1:{busy.getsockname()[1]}"
show("busy", lambda: jax.distributed.initialize(address, 1, 0, coordinator_bind_address=address))
show("not initialized", jax.distributed.is_initialized)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    show("slice index", lambda: initialize(slice_index=2))
print("@@", caught[0].category.__name__, caught[0].filename == __file__, global_state.partition_index)
show("initialized", jax.distributed.is_initialized)
show("twice", initialize)
show("two names", lambda: initialize(slice_index=2, partition_index=3))
show("no preemption yet", lambda: m.reached_preemption_sync_point(1))
show("preemption twice", global_state.initialize_preemption_sync_manager)
client = global_state.client
client.key_value_set("a/b", "c")
show("store", lambda: (client.blocking_key_value_get("a/b", 100), client.key_value_dir_get("a")))
show("shutdown", jax.distributed.shutdown)
print("@@", hooks == (sys.excepthook, signal.getsignal(signal.SIGURG)), jax.distributed.is_initialized())
jax.config.update("jax_enable_preemption_service", False)
thread = threading.Thread(target=lambda: show("in a thread", initialize))
thread.start()
thread.join()
show("no preemption", lambda: m.reached_preemption_sync_point(1))
show("devices", jax.device_count)
show("used twice", initialize)
show("no live devices", lambda: m.live_devices([]).__enter__())
with m.live_devices(jax.devices()) as devices:
    print("@@", devices)
show("shutdown", jax.distributed.shutdown)
show("late", initialize)
big, text = m.broadcast_one_to_all((np.int64(2**40), "a"))
print("@@", repr(big), repr(m.process_allgather(3.0, tiled=True)), repr(m.process_allgather(text)))
"""


def test_one_process():
    [output] = process_testing.run(ALONE, 1, env={"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"})
    lines = [line.removeprefix("@@ ") for line in output.splitlines() if line.startswith("@@")]
    before = "RuntimeError jax.distributed.initialize() must be called before any JAX calls"
    once = "RuntimeError distributed.initialize should only be called once."
    expected = [
        "shutdown before None",
        "preemption False",
        "live devices RuntimeError Distributed JAX not initialized.",
        "busy RuntimeError The coordinator could not be started at 127.0.0.1:",
        "not initialized False",
        "slice index True",
        "DeprecationWarning True 2",
        "initialized True",
        f"twice {once}",
        "two names ValueError slice_index=2 and partition_index=3",
        "no preemption yet False",
        "preemption twice RuntimeError Preemption sync manager should only be initialized once.",
        "store ('c', [('a/b', 'c')])",
        "shutdown None",
        "True False",
        "in a thread True",
        "no preemption RuntimeError",
        "devices 1",
        f"used twice {once}",
        "no live devices ValueError live_devices needs at least one device of this process",
        "[CpuDevice(id=0)]",
        "shutdown None",
        f"late {before}",
        "array(1099511627776) array(3.) array(['a'], dtype='<U1')",
    ]
    assert len(lines) == len(expected), output
    for line, start in zip(lines, expected):
        assert line.startswith(start), (line, start)


def test_collectives_that_are_not_there():
    program = "import jax\njax.distributed.initialize()\njax.devices()\n"
    for name, text in (
        ("mpi", "MPITRAMPOLINE_LIB"),
        ("megascale", "is not available in this build"),
    ):
        env = {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": name, "MPITRAMPOLINE_LIB": None}
        with process_testing.start(program, 1, env=env) as run:
            [result] = run.finish()
        assert result.status == 1 and text in result.stderr, result


DIFFERENT = """
import jax, numpy as np
from jax.experimental import multihost_utils as m

jax.distributed.initialize()
me = jax.process_index()
for name, call in dict(
    shapes=lambda: m.process_allgather(np.zeros(2 + me)),
    trees=lambda: m.broadcast_one_to_all([1] * (1 + me)),
    functions=lambda: m.broadcast_one_to_all(1) if me else m.process_allgather(1),
    sources=lambda: m.broadcast_one_to_all(1, is_source=True),
    names=lambda: m.sync_global_devices(f"step {me}"),
    values=lambda: m.assert_equal({"a": 1, "b": [me]}, "steps"),
    structures=lambda: m.assert_equal([1] * (1 + me)),
).items():
    try:
        call()
    except Exception as e:
        print("@@", name, type(e).__name__, e)
"""


def test_processes_that_exchange_different_things():
    """All of them get an error."""
    for i, output in enumerate(process_testing.run(DIFFERENT, 2)):
        lines = [line.removeprefix("@@ ") for line in output.splitlines() if line.startswith("@@")]
        other = [1 - i]
        expected = [
            f"shapes ValueError process_allgather: processes {other} call another function here, or",
            f"trees ValueError broadcast_one_to_all: processes {other} call another function",
            f"functions ValueError {'broadcast_one_to_all' if i else 'process_allgather'}: processes",
            "sources ValueError broadcast_one_to_all: exactly one process has to pass is_source=True",
            f"names AssertionError sync_global_devices name mismatch ('step {i}'): processes {other}",
            f"values AssertionError steps. Expected: [0 1]; got: {i}. (at ['b'][0])",
            f"structures AssertionError Processes {other} have trees with another structure",
        ]
        assert len(lines) == len(expected), output
        for line, start in zip(lines, expected):
            assert line.startswith(start), (line, start)


PUT_DIFFERENT = """
import jax, numpy as np

jax.distributed.initialize()
me = jax.process_index()
mesh = jax.make_mesh((2,), ("x",))
for name, x in dict(key=jax.random.key(me), keys=jax.random.split(jax.random.key(me)), number=me).items():
    sharding = jax.NamedSharding(mesh, jax.P() if name != "keys" else jax.P("x"))
    try:
        jax.device_put(x, sharding)
    except AssertionError as e:
        print("@@", name, str(e).partition("here it is ")[2])
same = jax.device_put(jax.random.key(3), jax.NamedSharding(mesh, jax.P()))
print("@@", jax.random.uniform(same).sharding.is_fully_replicated)
"""


def test_device_put_of_different_values():
    for i, output in enumerate(process_testing.run(PUT_DIFFERENT, 2)):
        lines = [line.removeprefix("@@ ") for line in output.splitlines() if line.startswith("@@")]
        assert [line.split(" with ")[0] for line in lines] == [
            "key key<fry> of uint32[2]", "keys key<fry> of uint32[2, 2]", "number int64[]", "True",
        ]  # fmt: skip
        assert f"with [0 {i}]" in lines[0] and f"with {i}." in lines[2]


DERIVATIVES = """
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import multihost_utils as m

jax.distributed.initialize()
mesh, rows = jax.sharding.Mesh(np.array(jax.devices()), "x"), jax.P("x")
x, weights = jnp.arange(4.0), jnp.arange(8.0)
y = m.host_local_array_to_global_array(x, mesh, rows)
to_local = lambda y: m.global_array_to_host_local_array(y, mesh, rows)
to_global = lambda x: m.host_local_array_to_global_array(x, mesh, rows)
for value in (
    jax.grad(lambda x: (to_global(x) * weights).sum())(x),
    jax.grad(lambda x: jnp.square(to_global(x)).sum())(x),
    jax.grad(lambda y: to_local(y).sum())(y),
    jax.vjp(to_local, y)[1](x + jax.process_index())[0],
):
    print("@@", value.shape, np.concatenate([s.data for s in value.addressable_shards]))
"""


def test_derivatives_of_local_parts():
    for i, output in enumerate(process_testing.run(DERIVATIVES, 2, devices=2)):
        lines = [line.removeprefix("@@ ") for line in output.splitlines() if line.startswith("@@")]
        assert lines == [
            f"(4,) {['[0. 1. 2. 3.]', '[4. 5. 6. 7.]'][i]}",
            "(4,) [0. 2. 4. 6.]",
            "(8,) [1. 1. 1. 1.]",
            f"(8,) {['[0. 1. 2. 3.]', '[1. 2. 3. 4.]'][i]}",
        ]


PREEMPTED = """
import sys, time
import jax
from jax.experimental import multihost_utils as m

jax.distributed.initialize()
sys.stdout.write("\\nready\\n")
sys.stdout.flush()
for step in range(1000):
    if m.reached_preemption_sync_point(step):
        sys.stdout.write(f"\\n@@ save at {step}\\n")
        break
    m.sync_global_devices(f"step {step}")
    time.sleep(0.02)
"""


def test_preemption():
    """After one process has received SIGTERM, all save in the same step."""
    with process_testing.start(PREEMPTED, 2) as run:
        for process in run:
            process.wait_for("ready")
        run[1].kill(signal.SIGTERM)
        results = run.finish()
    saved = [re.findall("@@ save at .*", result.stdout) for result in results]
    assert [result.status for result in results] == [0, 0] and len(saved[0]) == 1, results
    assert saved[0] == saved[1]
