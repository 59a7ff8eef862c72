"""Checkpoints beside the oracle, after crashes, damaged, in threads and in several processes."""

import asyncio
import base64
import concurrent.futures
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import checkpoint_crash
import checkpoint_files
import numpy as np
import pytest
import tensorstore
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax._src import config, xla_bridge as xb
from jax._src.array_serialization import arrays, directories, pytree, specs
from jax.experimental.array_serialization import (
    pytree_serialization as pytrees,
    pytree_serialization_utils as utils,
    serialization,
    tensorstore_impl as ts_impl,
)

reference, test_reference, _ = case_tests(__file__)

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

single, named, matrix = checkpoint_files.single, checkpoint_files.named, checkpoint_files.matrix


def entries(folder):
    """The files of checkpoints, and what is in their databases, apart from random names."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.name == "manifest.ocdbt":
            spec = {"driver": "ocdbt", "base": f"file://{path.parent}/"}
            store = tensorstore.KvStore.open(spec).result()
            for key in store.list().result():
                found[f"{name}: {key.decode()}"] = store[key]
        elif path.is_file() and path.parent.name != "d":
            found[name] = path.read_bytes()
    return found


def test_the_stored_files_are_like_those_written_now(tmp_path):
    with zipfile.ZipFile(checkpoint_files.TESTDATA / "checkpoints_own.zip") as archive:
        archive.extractall(tmp_path / "stored")
    (tmp_path / "new").mkdir()
    checkpoint_files.write(tmp_path / "new")
    assert entries(tmp_path / "new") == entries(tmp_path / "stored"), (
        "run `python tests/checkpoint_files.py own`, and update the oracle's results"
    )


# Crashes


@pytest.fixture(scope="module")
def first_checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    pytrees.save(checkpoint_crash.tree(1), folder / "checkpoint")
    return folder


def crash(folder, operation, *options):
    """Runs the program that is killed; returns its status."""
    env = {**os.environ, "JAX_NUM_CPU_DEVICES": "8"}
    command = [sys.executable, checkpoint_crash.__file__, str(folder), str(operation), *options]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def check_whole(folder):
    """Checks that there is a whole checkpoint, and that the next save is not disturbed."""
    path = folder / "checkpoint"
    shardings = named((2, 4), "y") if random.random() < 0.5 else single(1)
    data = pytrees.load(path, {"number": single(), "large": shardings, "more": single()})
    number = checkpoint_crash.number_in(data)
    pytrees.save(checkpoint_crash.tree(5), path)
    assert checkpoint_crash.number_in(pytrees.load(path, single())) == 5
    assert sorted(os.listdir(folder)) == ["checkpoint"]
    return number


@pytest.mark.parametrize("options", [(), ("without_exchange",)], ids=["exchange", "renames"])
def test_a_crash_leaves_the_previous_checkpoint(tmp_path, first_checkpoint, options):
    def run(operation):
        folder = shutil.copytree(first_checkpoint, tmp_path / f"{operation}")
        return folder, crash(folder, operation, *options)

    operations = (3, 7, 8, 9, 12, 99) if options else (0, 1, 2, 3, 6, 7, 8, 9, 12, 99)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(run, operations))
    killed = [done.returncode == -9 for _, done in runs]
    assert all(done.returncode in (0, -9) for _, done in runs), runs[0][1].stderr
    assert killed == sorted(killed, reverse=True)  # later operations than the last one: none
    assert sum(killed) == len(operations) - 1
    numbers = [check_whole(folder) for folder, _ in runs]
    assert numbers == sorted(numbers)
    assert set(numbers) == {1, 2}


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_at_any_time(tmp_path, seed):
    rng = random.Random(seed)
    env = {**os.environ, "JAX_NUM_CPU_DEVICES": "8"}
    command = [sys.executable, checkpoint_crash.__file__, str(tmp_path), "forever"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(rng.randrange(1, 20)):
            printed = process.stdout.readline()
        time.sleep(rng.uniform(0, 0.03))
        process.kill()
        printed = ([printed] + process.stdout.readlines())[-1]
    assert check_whole(tmp_path) >= int(printed)


def test_a_failed_save_leaves_the_previous_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "x"
    pytrees.save([jnp.zeros(3)], path)

    async def fail(*_, **__):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(arrays, "write_shards", fail)
        with pytest.raises(OSError, match="no space left"):
            pytrees.save([jnp.ones(3)], path)
    assert os.listdir(tmp_path) == ["x"]
    assert not pytrees.load(path, single())[0].any()
    pytrees.save([jnp.ones(3)], path)
    assert pytrees.load(path, single())[0].all()


def test_bad_input_leaves_the_previous_checkpoint(tmp_path):
    path = tmp_path / "x"
    pytrees.save([jnp.zeros(3)], path)
    before = entries(tmp_path)
    bad = [[3], [np.ones(3)], {1: jnp.ones(3)}, [jax.random.key(0)], [jnp.ones(3, jnp.uint4)]]
    for data in bad:
        with pytest.raises((TypeError, ValueError)):
            pytrees.save(data, path)
    with pytest.raises(ValueError, match=r"The leaf \['a'\]\[1\] is a <class 'int'>"):
        pytrees.save({"a": (None, 3)}, path)
    with pytest.raises(TypeError, match=r"the leaf \['k'\]: .*jax.random.key_data"):
        pytrees.save({"k": jax.random.key(0)}, path)
    with pytest.raises(RuntimeError, match="/ is a mount point.* such as /checkpoint"):
        pytrees.save([jnp.ones(3)], "/")
    assert entries(tmp_path) == before


# Damage


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "checkpoint"
    pytrees.save({"a": matrix("x", "y"), "b": [jnp.ones(3000)]}, path)
    return path


def rewrite(checkpoint, **changes):
    file = checkpoint / "pytreedef.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("{}", "no text '__jax_pytreedef_repr'"),
        ("[1]", "no text '__jax_pytreedef_repr'"),
        ('{"__jax_pytreedef_repr": "!"}', "damaged tree structure"),
        ('{"__jax_pytreedef_repr": "AAAA"}', "bytes 0 to 4 of 3"),
        ('{"__jax_pytreedef_repr": "CAAAAAQABAAEAAAA"}', "no list of 1 leaves"),
        ("[" * 100_000, "damaged"),
    ],
)
def test_damaged_structures(checkpoint, text, message):
    (checkpoint / "pytreedef.json").write_text(text)
    for load in (
        lambda: pytrees.load(checkpoint, single()),
        lambda: pytrees.load_pytreedef(checkpoint),
    ):
        with pytest.raises(ValueError, match=message) as info:
            load()
        assert f"the checkpoint {checkpoint} is damaged" in str(info.value)


@pytest.mark.parametrize(
    ("leaf", "message"),
    [
        ("Array(float32[8, 9])", r"has the shape \(8, 9\)"),
        ("Array(object[8, 8])", "unknown dtype 'object'"),
        ("Array(float32[8, -8])", "no type of an array"),
        ("__import__('os')", "no type of an array"),
        (3, "no type of an array"),
    ],
)
def test_damaged_types(checkpoint, leaf, message):
    rewrite(checkpoint, __jax_leaf_ids=[leaf, "Array(float32[3000])"])
    with pytest.raises(ValueError, match=message):
        pytrees.load(checkpoint, single())


@pytest.mark.parametrize("checksums", [False, True])
def test_damaged_data(tmp_path, checksums):
    """Damaged files give an error, unless what is damaged is not used. Checksums are an option."""
    checkpoint = tmp_path / "checkpoint"
    data = {"a": matrix("x", "y"), "b": [jnp.ones(3000)]}
    codecs = [{"name": "crc32c"}] if checksums else []
    ts_specs = {"driver": "zarr3", "metadata": {"codecs": codecs}}
    pytrees.save(data, checkpoint, ts_specs=ts_specs)
    rng = random.Random(0)
    files = [f for f in (checkpoint / "array_store").rglob("*") if f.is_file()]
    errors = 0
    for file in files:
        content = file.read_bytes()
        damaged = [content[:length] for length in (0, len(content) // 2, len(content) - 1)]
        for place in rng.sample(range(len(content)), 16 if checksums else 0):
            damaged.append(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        for changed in damaged:
            file.write_bytes(changed)
            try:
                loaded = pytrees.load(checkpoint, single())
            except ValueError as err:
                errors += 1
                assert f"of the checkpoint {checkpoint}." in err.__notes__[0]
            else:
                np.testing.assert_array_equal(loaded["a"], matrix())
                np.testing.assert_array_equal(loaded["b"][0], np.ones(3000))
        file.write_bytes(content)
    assert errors > (19 if checksums else 3) * len(files) // 2


def test_damaged_flatbuffers():
    """Any bytes give a tree structure or a ValueError."""
    rng = random.Random(0)
    tree = {"a": [1, (2, {})], "b": checkpoint_files.tree()["ordered"], "c": None}
    stored = utils.serialize_pytreedef(jax.tree.structure(tree))
    data = base64.b64decode(stored["__jax_pytreedef_repr"])
    errors = 0
    for _ in range(3000):
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(data))] = rng.choice((0, 1, 4, 0x7F, 0x80, 0xFF))
        changed = changed[: rng.choice((len(data), rng.randrange(len(data))))]
        text = base64.b64encode(bytes(changed)).decode()
        try:
            utils.deserialize_pytreedef({"__jax_pytreedef_repr": text})
        except ValueError:
            errors += 1
    assert errors > 1000


def test_small_flatbuffers_of_large_trees():
    import flatbuffers

    from jax._src.tree_util import serialization as trees

    builder = flatbuffers.Builder()
    node = trees.write(builder, jax.tree.structure(0))
    for _ in range(60):  # each node has the one before it twice
        node = trees._finish_node(builder, trees.LIST, trees._offsets(builder, [node, node]))
    builder.Finish(node)
    with pytest.raises(ValueError, match="more elements than bytes"):
        trees.from_bytes(bytes(builder.Output()))
    deep = 0
    for _ in range(400):
        deep = [deep]
    with pytest.raises(ValueError, match="nested over 300 deep"):
        trees.from_bytes(trees.to_bytes(jax.tree.structure(deep)))


# Trees, dtypes, threads


def test_named_tuples():
    from collections import namedtuple

    point = namedtuple("point", ["x", "y"])
    with pytest.raises(ValueError, match="register_namedtuple_serialization"):
        utils.serialize_pytreedef(jax.tree.structure(point(1, 2)))
    utils.register_namedtuple_serialization(point, serialized_name="array_serialization_test.point")
    structure = jax.tree.structure({"p": point(1, [2])})
    stored = utils.serialize_pytreedef(structure)
    assert utils.deserialize_pytreedef(stored) == structure
    with pytest.raises(ValueError, match="Duplicate"):
        utils.register_namedtuple_serialization(point, serialized_name="another")
    with pytest.raises(ValueError, match="other than"):
        utils.register_namedtuple_serialization(dict, serialized_name="another")
    data = base64.b64decode(stored["__jax_pytreedef_repr"]).replace(b'["x", "y"]', b'["y", "x"]')
    with pytest.raises(ValueError, match=r"serialized with the fields \['y', 'x'\]"):
        utils.deserialize_pytreedef({"__jax_pytreedef_repr": base64.b64encode(data).decode()})


def test_wide_dtypes_in_threads(tmp_path):
    with jax.enable_x64(True):
        data = {name: jnp.asarray([0, 2**40], name) for name in checkpoint_files.WIDE}
        pytrees.nonblocking_save(data, tmp_path / "x").result()
        loaded = [
            pytrees.load(tmp_path / "x", single()),
            pytrees.nonblocking_load(tmp_path / "x", single()).result(),
        ]
    for read in loaded:
        assert {name: (str(x.dtype), int(x[1].real)) for name, x in read.items()} == {
            name: (name, 2**40) for name in checkpoint_files.WIDE
        }
    assert pytrees.load(tmp_path / "x", single())["int64"].dtype == np.int32


def test_inside_an_event_loop(tmp_path):
    async def notebook():
        pytrees.save([jnp.ones(3)], tmp_path / "x")
        spec = serialization.get_tensorstore_spec(str(tmp_path / "y"))
        serialization.run_serialization([jnp.ones(3)], [spec])
        await asyncio.wrap_future(pytrees.nonblocking_save([jnp.ones(4)], tmp_path / "z"))
        return pytrees.load(tmp_path / "x", single()), serialization.run_deserialization(
            [single()], [spec]
        )

    for [x] in asyncio.run(notebook()):
        assert bool((x == 1).all())


def test_arrays_may_be_donated_at_once(tmp_path):
    """What is saved is what the arrays were when the save was called."""
    step = jax.jit(lambda x: x * 0 - 1, donate_argnums=0)
    manager = serialization.GlobalAsyncCheckpointManager()
    for number in range(4):
        a, b = (jax.device_put(jnp.full((512, 512), number), named((8,), "x")) for _ in range(2))
        saved = pytrees.nonblocking_save([a], tmp_path / "a")
        manager.serialize_with_paths([b], [str(tmp_path / f"b{number}")])
        jax.block_until_ready([step(a), step(b)])
        saved.result()
        manager.wait_until_finished()
        [x] = pytrees.load(tmp_path / "a", single())
        [y] = manager.deserialize_with_paths([single()], [str(tmp_path / f"b{number}")])
        assert bool((x == number).all()) and bool((y == number).all())


def test_an_error_of_a_manager_is_raised_when_all_writes_have_ended():
    manager = serialization.GlobalAsyncCheckpointManager()
    failed, other = concurrent.futures.Future(), concurrent.futures.Future()
    failed.set_exception(ValueError("the disk is full"))
    manager._add_futures([failed, other])
    manager._start_async_commit(lambda: pytest.fail("the callback is called"))
    manager.check_for_errors()
    other.set_result(None)
    with pytest.raises(ValueError, match="the disk is full"):
        manager.wait_until_finished()


def test_saves_at_the_same_time(tmp_path):
    futures = [pytrees.nonblocking_save([jnp.full(99, i)], tmp_path / "x") for i in range(8)]
    for future in futures:
        future.result(timeout=60)
    [x] = pytrees.load(tmp_path / "x", single())
    assert x.tolist() == [7] * 99  # the last one stays
    assert os.listdir(tmp_path) == ["x"]


def test_saves_keep_their_order(tmp_path, monkeypatch):
    class Late:
        """Starts each job before those submitted earlier."""

        seconds = 0.5

        def submit(self, job):
            future = concurrent.futures.Future()
            timer = threading.Timer(self.seconds, lambda: future.set_result(job()))
            timer.start()
            self.seconds -= 0.2
            return future

    monkeypatch.setattr(pytree, "_executor", Late())
    futures = [pytrees.nonblocking_save([jnp.int32(i)], tmp_path / "x") for i in range(3)]
    pytrees.save([jnp.int32(3)], tmp_path / "y")
    for future in futures:
        future.result(timeout=60)
    assert pytrees.load(tmp_path / "x", single()) == [2]
    assert pytrees.load(tmp_path / "y", single()) == [3]


def test_futures(tmp_path):
    future = pytrees.nonblocking_save({"a": jnp.ones(3), "b": None}, tmp_path / "x")
    called = []
    future.add_done_callback(called.append)
    assert future.result(timeout=60) is None
    assert future.exception() is None
    assert not future.cancelled() and not future.running() and future.done()
    assert called == [future]


def test_memory_limit(tmp_path):
    spec = serialization.get_tensorstore_spec(str(tmp_path / "x"))
    serialization.run_serialization([matrix("x", "y")], [spec])
    in_use, most = 0, 0

    class Limiter(ts_impl._LimitInFlightBytes):
        async def wait_for_bytes(self, size):
            nonlocal in_use, most
            await super().wait_for_bytes(size)
            in_use += size
            most = max(most, in_use)

        async def release_bytes(self, size):
            nonlocal in_use
            in_use -= size
            await super().release_bytes(size)

    async def read(limit):
        target = named((4, 2), "x", "y")
        return await ts_impl.async_deserialize(target, spec, byte_limiter=Limiter(limit))

    for limit, allowed in ((1000, 256), (64, 64), (70, 64), (1, 32), (0, 32)):
        most = 0
        np.testing.assert_array_equal(asyncio.run(read(limit)), matrix())
        assert most <= allowed or limit == 0
        assert in_use == 0


def test_parts_of_chunks_are_read_once(tmp_path, monkeypatch):
    """Devices that hold the same part share what is read."""
    spec = serialization.get_tensorstore_spec(str(tmp_path / "x"))
    serialization.run_serialization([matrix("x", "y")], [spec])
    parts = []
    read_part = arrays._read_part

    async def spy(*args):
        parts.append(args[1].wanted)
        return await read_part(*args)

    monkeypatch.setattr(arrays, "_read_part", spy)
    [x] = serialization.run_deserialization([named((4, 2), "x")], [spec])
    np.testing.assert_array_equal(x, matrix())
    assert len(parts) == 4


def test_other_shapes_of_arrays(tmp_path):
    spec = serialization.get_tensorstore_spec(str(tmp_path / "x"))
    serialization.run_serialization([matrix("x", "y")], [spec])
    with pytest.raises(ValueError, match="has 1 dimensions, but the stored array has the shape"):
        serialization.run_deserialization([single()], [spec], global_shapes=[(64,)])
    with pytest.raises(ValueError, match="shape"):
        serialization.run_serialization([matrix(shape=(4, 8))], [spec])
    [x] = serialization.run_deserialization([single()], [spec])
    np.testing.assert_array_equal(x, matrix())


def test_specs_are_not_modified(tmp_path):
    spec = serialization.get_tensorstore_spec(str(tmp_path / "x"))
    before = json.dumps(spec)
    serialization.run_serialization([jnp.ones(3)], [spec])
    serialization.run_deserialization([single()], [spec])
    assert json.dumps(spec) == before


def test_partial_metadata(tmp_path):
    """What a spec leaves open follows from the array."""
    gzip = [{"name": "gzip", "configuration": {"level": 6}}]
    given = [{"driver": "zarr3", "metadata": {"codecs": gzip}}, {"driver": "zarr"}]
    for spec in given:
        pytrees.save([jnp.ones(3000)], tmp_path / "x", ts_specs=[spec])
        [x] = pytrees.load(tmp_path / "x", single(), ts_specs=[{"driver": spec["driver"]}])
        assert bool(x.all())


# Places


def test_object_stores(monkeypatch):
    """As in a bucket: there is no exchange, so the structure comes last."""
    store = {"driver": "memory", "path": "checkpoints/"}
    context = tensorstore.Context()
    kvstore = tensorstore.KvStore.open(store, context=context).result()
    monkeypatch.setattr(specs, "base_kvstore", lambda path: store)
    monkeypatch.setattr(directories.ts.KvStore, "open", staticmethod(lambda spec: _Done(kvstore)))
    remote = directories.checkpoint_directory("gs://bucket/checkpoints")
    assert isinstance(remote, directories.RemoteDirectory)
    with pytest.raises(FileNotFoundError, match="gs://bucket/checkpoints"):
        remote.find()
    assert remote.prepare(overwrite=False) == "gs://bucket/checkpoints"
    kvstore.write("array_store/0", b"data").result()
    kvstore.write("array_store/manifest.ocdbt", b"names").result()
    with pytest.raises(FileNotFoundError):
        remote.find()
    remote.commit(b"structure")
    version = remote.find()
    assert version == ("gs://bucket/checkpoints", b"structure", b"names")
    kvstore.write("array_store/manifest.ocdbt", b"others").result()
    assert remote.find() != version
    with pytest.raises(ValueError, match="overwrite=False"):
        remote.prepare(overwrite=False)
    remote.prepare(overwrite=True)
    assert kvstore.list().result() == []
    kvstore.write("notes.txt", b"").result()
    with pytest.raises(RuntimeError, match="notes.txt"):
        remote.prepare(overwrite=True)


class _Done:
    def __init__(self, value):
        self._value = value

    def result(self):
        return self._value


def test_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for path in ("relative", "~/x", Path("y"), str(tmp_path / "z") + "/", "link"):
        for number in range(2):
            pytrees.save([jnp.full(3, number)], path)
            assert pytrees.load(path, single())[0][0] == number
        shutil.rmtree(Path(path).expanduser().resolve())
    assert (tmp_path / "link").is_symlink()


def test_without_tensorstore():
    program = """
import sys
import jax
assert "tensorstore" not in sys.modules and "flatbuffers" not in sys.modules
import jax.experimental.array_serialization
assert "tensorstore" not in sys.modules
sys.modules["tensorstore"] = None
import jax.experimental.array_serialization.serialization
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "needs the package tensorstore: pip install tensorstore" in done.stderr
