"""Checkpoints of programs of several processes: saved, loaded, and after failures."""

import os

import numpy as np
import process_testing
import pytest

import jax
from jax._src.array_serialization import processes
from jax.experimental.array_serialization import pytree_serialization as pytrees

START = """
import os, sys, threading, time
import numpy as np
import jax

jax.distributed.initialize(heartbeat_timeout_seconds=5)
from jax.experimental.array_serialization import pytree_serialization as pytrees
from jax.experimental.array_serialization import serialization
from jax.sharding import NamedSharding, PartitionSpec as P

process, folder = jax.process_index(), sys.argv[1]
mesh = jax.make_mesh((jax.device_count(),), ("x",))


def sharding(*spec):
    return NamedSharding(mesh, P(*spec))


def array(values, *spec):
    values = np.asarray(values, np.float32)
    return jax.make_array_from_callback(values.shape, sharding(*spec), lambda index: values[index])


def tree(number):
    rows = np.arange(64).reshape(8, 8) + number
    return {"rows": array(rows, "x"), "columns": array(rows, None, "x"), "all": array([number])}


def local(x):
    return [shard.data.tolist() for shard in x.addressable_shards]


def outcome(fun, *args, **kwargs):
    try:
        return fun(*args, **kwargs)
    except Exception as err:
        return f"{type(err).__name__}: {err}"
"""


def expected(number):
    rows = np.arange(64, dtype=np.float32).reshape(8, 8) + number
    return {"rows": rows, "columns": rows, "all": np.float32([number])}


def assert_is(data, number):
    for name, values in expected(number).items():
        np.testing.assert_array_equal(data[name], values)


def single():
    return jax.sharding.SingleDeviceSharding(jax.devices()[0])


def test_save_and_load(tmp_path):
    """Two processes save, and load with other shardings; this process loads too, and they load its."""
    program = (
        START
        + """
for number in (1, 2, 5, 2):
    pytrees.save(tree(number), folder + "/tree")
    assert local(pytrees.load(folder + "/tree", sharding())["all"]) == [[number], [number]]
found = pytrees.load(folder + "/tree", {"rows": sharding(None, "x"), "columns": sharding("x"), "all": sharding()})
rows = np.arange(64).reshape(8, 8) + 2
part = slice(4 * process, 4 * process + 2), slice(4 * process + 2, 4 * process + 4)
assert local(found["rows"]) == [rows[:, p].tolist() for p in part]
assert local(found["columns"]) == [rows[p].tolist() for p in part]
assert local(found["all"]) == [[2], [2]]
found = pytrees.load(folder + "/one", sharding("x"))
assert [s.data.tolist() for s in found["x"].addressable_shards] == [[2 * d, 2 * d + 1] for d in (2 * process, 2 * process + 1)]
future = pytrees.nonblocking_save(tree(3), folder + "/background")
future.result()
"""
    )
    pytrees.save({"x": jax.numpy.arange(8)}, tmp_path / "one")
    process_testing.run(program, 2, devices=2, args=[tmp_path])
    assert_is(pytrees.load(tmp_path / "tree", single()), 2)
    assert_is(pytrees.load(tmp_path / "background", single()), 3)
    assert sorted(os.listdir(tmp_path)) == ["background", "one", "tree"]


def test_processes_load_the_same_checkpoint(tmp_path):
    """Process 1 has read the first one when process 0 begins to read, and the second one is there."""
    program = (
        START
        + """
import pathlib
from jax._src.array_serialization import directories, pytree

one, two = pathlib.Path(folder, "one"), pathlib.Path(folder, "two")
read, reads = pytree._Load._read_version, []

def read_version(self):
    reads.append(self._version)
    if process == 0 and len(reads) == 1:
        while not os.path.exists(folder + "/read"):
            time.sleep(0.01)
        directories._exchange(one, two)
    result = read(self)
    if process == 1:
        open(folder + "/read", "w").close()
    return result

pytree._Load._read_version = read_version
future = pytrees.nonblocking_load(one, sharding("x"))
print("RESULT 1", len(reads), local(future.result()["x"]), len(reads))
pytree._Load._read_version = read
devices = jax.local_devices()
mine = jax.sharding.SingleDeviceSharding(devices[0])
if process == 1:  # others are not needed
    print("RESULT 2", pytrees.load(one, mine)["x"].tolist())
print("RESULT 3", outcome(pytrees.load, folder if process else one, sharding("x")))
of_first = NamedSharding(jax.sharding.Mesh(jax.devices()[:1], "y"), P("y"))
print("RESULT 4", local(pytrees.load(one, of_first)["x"]))
find, finds = directories.LocalDirectory.find, []

def unreadable(self):  # once the arrays have been read
    finds.append(self)
    if process == 1 and len(finds) > 1:
        raise PermissionError("not any more")
    return find(self)

directories.LocalDirectory.find = unreadable
print("RESULT 5", outcome(pytrees.load, one, sharding("x")))
"""
    )
    for number, name in ((1, "one"), (2, "two")):
        pytrees.save({"x": np.float32(number) * jax.numpy.ones(2)}, tmp_path / name)
    outputs = process_testing.run(program, 2, args=[tmp_path])
    for output in outputs:
        assert "RESULT 1 0 [[2.0]] 2\n" in output or "RESULT 1 1 [[2.0]] 2\n" in output
    assert "RESULT 2 [2.0, 2.0]\n" in outputs[1]
    assert "RESULT 3 FileNotFoundError: there is no checkpoint to load" in outputs[1]
    assert (
        "RESULT 3 RuntimeError: loading the arrays failed in another process:\nprocess 1: FileNotFoundError"
        in outputs[0]
    )
    assert "RESULT 4 [[2.0, 2.0]]\n" in outputs[0]
    assert "RESULT 4 []\n" in outputs[1]
    assert "RESULT 5 PermissionError: not any more" in outputs[1]
    assert (
        "RESULT 5 RuntimeError: loading the arrays failed in another process:\nprocess 1: PermissionError"
        in outputs[0]
    )


def test_managers(tmp_path):
    program = (
        START
        + """
manager = serialization.GlobalAsyncCheckpointManager(timeout_secs=30)
called = []
for step in (1, 2):
    paths = [f"{folder}/{step}/{name}" for name in ("rows", "all")]
    values = tree(step)
    manager.serialize_with_paths([values["rows"], values["all"]], paths, on_commit_callback=lambda step=step: called.append(step))
    manager.check_for_errors()
manager.wait_until_finished()
assert called == ([1, 2] if process == 0 else [])
[rows, whole] = manager.deserialize_with_paths([sharding("x"), sharding()], paths)
assert local(rows) == local(values["rows"]) and local(whole) == [[2]]

def fail():
    raise KeyError("no space")

manager.serialize_with_paths([values["rows"]], [folder + "/3"], on_commit_callback=fail)
print("RESULT", outcome(manager.wait_until_finished))
"""
    )
    outputs = process_testing.run(program, 2, args=[tmp_path])
    assert "RESULT KeyError: 'no space'\n" in outputs[0]
    assert (
        "RESULT RuntimeError: on_commit_callback failed in another process:\nprocess 0: KeyError"
        in outputs[1]
    )


def test_errors_reach_all_processes(tmp_path):
    program = (
        START
        + """
from jax._src.array_serialization import arrays

print("RESULT 1", outcome(pytrees.save, tree(2), folder + f"/{process}"))
print("RESULT 2", outcome(pytrees.save, {"x": jax.numpy.ones(3)}, folder + "/tree"))
print("RESULT 3", outcome(pytrees.save, tree(2), folder + "/tree", overwrite=False))
write = arrays.write_shards

async def fail(*args, **kwargs):
    raise OSError("disk full")

if process == 1:
    arrays.write_shards = fail
print("RESULT 4", outcome(pytrees.save, tree(2), folder + "/tree"))
arrays.write_shards = write
named = {f"rows{process}": tree(2)["rows"]}
print("RESULT 5", outcome(pytrees.save, named, folder + "/tree"))
futures = [pytrees.nonblocking_save(tree(i), folder + "/other") for i in range(4)]
for future in futures:
    future.result(timeout=60)
"""
    )
    pytrees.save({k: jax.numpy.asarray(v) for k, v in expected(1).items()}, tmp_path / "tree")
    outputs = process_testing.run(program, 2, args=[tmp_path])
    for output in outputs:
        assert "RESULT 1 ValueError: Saving to different locations on different hosts" in output
        assert "RESULT 2 ValueError: the leaf ['x']: Passing fully addressable arrays" in output
        assert "RESULT 5 ValueError: The processes save different trees" in output
    assert "RESULT 3 ValueError: Files already exist" in outputs[0]
    assert (
        "RESULT 3 RuntimeError: preparing the directory failed in another process:\nprocess 0: ValueError: Files already exist"
        in outputs[1]
    )
    assert (
        "RESULT 4 RuntimeError: writing the arrays failed in another process:\nprocess 1: OSError: disk full"
        in outputs[0]
    )
    assert "RESULT 4 OSError: disk full" in outputs[1]
    assert_is(pytrees.load(tmp_path / "tree", single()), 1)
    assert_is(pytrees.load(tmp_path / "other", single()), 3)
    assert sorted(os.listdir(tmp_path)) == ["other", "tree"]


def test_a_process_that_does_not_save(tmp_path):
    program = (
        START
        + """
manager = serialization.GlobalAsyncCheckpointManager(timeout_secs=1)
if process == 0:
    manager.serialize_with_paths([tree(1)["rows"]], [folder + "/x"])
    print("RESULT", outcome(manager.wait_until_finished))
"""
    )
    outputs = process_testing.run(program, 2, args=[tmp_path])
    assert (
        "RESULT BarrierTimeoutError: writing a checkpoint: no word from process(es) [1] within 1 seconds."
        in outputs[0]
    )


@pytest.mark.parametrize(("victim", "point"), [(1, "write_shards"), (0, "commit")])
def test_a_process_killed_while_saving(tmp_path, victim, point):
    """The others end with an error; the previous checkpoint is whole, and a new run goes on."""
    program = (
        START
        + """
import signal
from jax._src.array_serialization import arrays, directories

if os.path.exists(folder + "/tree"):
    found = pytrees.load(folder + "/tree", sharding())
    print("RESULT", float(found["all"][0]))
pytrees.save(tree(1), folder + "/tree")
victim, point = int(sys.argv[2]), sys.argv[3]
if process == victim:
    def die(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(arrays if point == "write_shards" else directories.LocalDirectory, point, die)
pytrees.save(tree(2), folder + "/tree")
"""
    )
    with process_testing.start(program, 2, args=[tmp_path, victim, point]) as run:
        results = run.finish()
    assert results[victim].status == -9
    survivor = results[1 - victim]
    assert survivor.status not in (0, -9), survivor
    assert f"process {victim}" in survivor.stderr.lower()
    assert_is(pytrees.load(tmp_path / "tree", single()), 1)
    outputs = process_testing.run(program, 2, args=[tmp_path, -1, "none"])
    assert all("RESULT 1.0\n" in output for output in outputs)
    assert_is(pytrees.load(tmp_path / "tree", single()), 2)
    assert os.listdir(tmp_path) == ["tree"]


@pytest.mark.parametrize("call", ["key_value_set", "blocking_key_value_get"])
@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_a_coordinator_that_has_gone_is_named(monkeypatch, call, order):
    """Also if the save learns of it before the watch does, from a call to the coordinator."""

    class Client:
        def key_value_set(self, key, value):
            self.fail("key_value_set")

        def blocking_key_value_get(self, key, milliseconds):
            self.fail("blocking_key_value_get")
            return "null"

        def fail(self, name):
            if name == call:
                raise jax.errors.JaxRuntimeError("UNAVAILABLE: failed to connect to all addresses")

    monkeypatch.setattr(processes, "coordination_client", Client)
    agreement = processes.Agreement(f"{call}{order}", 5, order)
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"the coordinator \(process 0, at .*start"
    ):
        agreement.run(lambda: None, "writing")
