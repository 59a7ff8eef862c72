"""Checkpoints that are replaced while others use them, and directories that cannot be replaced."""

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from checkpoint_files import named, single

import jax
import jax.numpy as jnp
from jax._src import config, xla_bridge as xb
from jax._src.array_serialization import directories, pytree
from jax.experimental.array_serialization import pytree_serialization as pytrees, serialization

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

ENV = {**os.environ, "JAX_NUM_CPU_DEVICES": "8"}


def tree(number):
    """A tree full of a number; its structure depends on it too."""
    x = jax.device_put(jnp.full((256, 64), float(number)), named((8,), "x"))
    return {"number": jnp.full(8, number), "large": x, "more": [x] * (number % 3)}


def number_in(data):
    """The number of a checkpoint; fails if it is a mixture."""
    numbers = {float(n) for x in jax.tree.leaves(data) for n in np.unique(x)}
    assert len(numbers) == 1, numbers
    [number] = numbers
    assert len(data["more"]) == number % 3
    return int(number)


# Loading while others save


SAVER = """
import itertools, os, sys
from checkpoint_replacement_test import directories, pytrees, tree

folder, *options = sys.argv[1:]
if options:
    directories._exchange = lambda *_: False
for number in itertools.count(1):
    pytrees.save(tree(number), folder + "/checkpoint")
    print(number, flush=True)
    if os.path.exists(folder + "/stop"):
        break
"""


@pytest.mark.parametrize("options", [[], ["without_exchange"]], ids=["exchange", "renames"])
def test_loading_while_another_program_saves(tmp_path, options):
    path = tmp_path / "checkpoint"
    env = {**ENV, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])}
    command = [sys.executable, "-c", SAVER, str(tmp_path), *options]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as saver:
        saver.stdout.readline()
        found = [0]
        for i in itertools.count():
            if i >= 60 and len(set(found)) > 3 or i > 5000:  # the other program may be slow
                break
            if i % 3 == 0:
                future = pytrees.nonblocking_load(path, named((8,), "x"))
                data = future.result(timeout=60)
                assert jax.tree.structure(future.pytree) == jax.tree.structure(data)
            else:
                data = pytrees.load(path, single() if i % 3 == 1 else named((2, 4), "y"))
            found.append(number_in(data))
            pytrees.load_pytreedef(path)
        (tmp_path / "stop").touch()
        printed = saver.stdout.read().split()
        assert saver.wait() == 0
    assert found == sorted(found)
    assert len(set(found)) > 3
    assert number_in(pytrees.load(path, single())) == int(printed[-1])
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "stop"]


def replaced_once(monkeypatch, when, replace):
    """Replaces a checkpoint before or after the arrays are read for the first time."""
    read = pytree._Load._read_version
    reads = []

    def read_version(self):
        reads.append(self._version)
        if when == "before" and len(reads) == 1:
            replace()
        result = read(self)
        if when == "after" and len(reads) == 1:
            replace()
        return result

    monkeypatch.setattr(pytree._Load, "_read_version", read_version)
    return reads


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("new", [1, 2])
def test_a_replaced_checkpoint_is_read_again(tmp_path, monkeypatch, when, new):
    """Also if the trees are alike: then only the names of data files differ."""
    path = tmp_path / "x"
    pytrees.save(tree(1), path)
    reads = replaced_once(monkeypatch, when, lambda: pytrees.save(tree(new), path))
    future = pytrees.nonblocking_load(path, single())
    assert number_in(future.result(timeout=60)) == new
    assert jax.tree.structure(future.pytree) == jax.tree.structure(tree(new))
    assert len(reads) == len(set(reads)) == 2


def test_a_damaged_checkpoint_is_read_once(tmp_path, monkeypatch):
    path = tmp_path / "x"
    pytrees.save(tree(1), path)
    for file in (path / "array_store" / "d").iterdir():
        file.unlink()
    reads = replaced_once(monkeypatch, "never", None)
    with pytest.raises(ValueError, match="NOT_FOUND") as info:
        pytrees.load(path, single())
    assert f"of the checkpoint {path}." in info.value.__notes__[0]
    assert len(reads) == 1


def test_a_checkpoint_that_is_removed_while_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "x"
    pytrees.save(tree(1), path)
    replaced_once(monkeypatch, "after", lambda: path.rename(tmp_path / "elsewhere"))
    with pytest.raises(FileNotFoundError, match=f"no checkpoint to load at {path}"):
        pytrees.load(path, single())


def test_a_link_that_changes(tmp_path, monkeypatch):
    """What is loaded is what the link refers to at the end."""
    link = tmp_path / "latest"
    for number in (1, 2):
        pytrees.save(tree(number), tmp_path / f"{number}")
    link.symlink_to("1")

    def change():
        link.unlink()
        link.symlink_to("2")

    replaced_once(monkeypatch, "before", change)
    assert number_in(pytrees.load(link, single())) == 2


def test_two_programs_that_save_to_the_same_path(tmp_path):
    """Neither disturbs the other; the one that ends later stays."""
    path = tmp_path / "x"
    pytrees.save(tree(1), path)
    structure = (path / "pytreedef.json").read_bytes()
    one, two, three = (directories.checkpoint_directory(path) for _ in range(3))
    for directory in (one, two, three):
        written = Path(directory.prepare(overwrite=True))
        shutil.copytree(path / "array_store", written / "array_store")
    two.commit(structure)
    assert number_in(pytrees.load(path, single())) == 1
    one.commit(structure)
    assert number_in(pytrees.load(path, single())) == 1
    shutil.rmtree(written)
    written.mkdir()
    with pytest.raises(RuntimeError, match=f"the new checkpoint {path} is not there any more"):
        three.commit(structure)
    three.abandon()
    assert number_in(pytrees.load(path, single())) == 1
    assert os.listdir(tmp_path) == ["x"]


def test_files_that_appear_during_a_save(tmp_path):
    path = tmp_path / "x"
    pytrees.save(tree(1), path)
    directory = directories.checkpoint_directory(path)
    directory.prepare(overwrite=True)
    (path / "notes.txt").touch()
    with pytest.raises(RuntimeError, match="notes.txt"):
        directory.commit(b"{}")
    directory.abandon()
    assert sorted(os.listdir(path)) == ["array_store", "notes.txt", "pytreedef.json"]
    assert os.listdir(tmp_path) == ["x"]


# Directories that cannot be replaced


def contents(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


IN_USE = r"is, or contains, the working directory of this program, .* such as \S+/checkpoint\."
REFUSED = "Refusing to work on a directory that is not a previous checkpoint"


@pytest.mark.parametrize(
    ("made", "working", "path", "error", "message"),
    [
        ("empty/", "empty", ".", RuntimeError, IN_USE),
        ("empty/", "empty", "", RuntimeError, IN_USE),
        ("checkpoint", "checkpoint", ".", RuntimeError, IN_USE),
        ("checkpoint", "checkpoint/array_store", "..", RuntimeError, IN_USE),
        ("checkpoint", "checkpoint/array_store", "../../checkpoint/", RuntimeError, IN_USE),
        ("link", "checkpoint", "../link", RuntimeError, IN_USE),
        ("a/b/", "a/b", "..", RuntimeError, IN_USE),
        ("others/notes.txt", ".", "others", RuntimeError, REFUSED),
        ("link", ".", "others/../link/array_store", RuntimeError, REFUSED),
        ("others/array_store/weights", ".", "others", RuntimeError, REFUSED),
        ("others/array_store", ".", "others", RuntimeError, REFUSED),
        ("others/pytreedef.json/", ".", "others", RuntimeError, REFUSED),
        ("file", ".", "file", NotADirectoryError, "cannot save to .*file: .*file is not a"),
        ("file", ".", "file/x", NotADirectoryError, "cannot save to .*x: .*file is not a"),
        ("a/", ".", "b/x", FileNotFoundError, r"there is no directory .*b\. Make it first"),
        ("a/", ".", "n" * 256, OSError, "File name too long"),
        ("a/", ".", "file:///tmp/x", ValueError, "not stored at URLs file://"),
    ],
)
def test_places_that_are_refused(tmp_path, monkeypatch, made, working, path, error, message):
    if made in ("checkpoint", "link"):
        pytrees.save(tree(1), tmp_path / "checkpoint")
        (tmp_path / "link").symlink_to("checkpoint")
    else:
        (tmp_path / made).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / made).mkdir() if made.endswith("/") else (tmp_path / made).touch()
    monkeypatch.chdir(tmp_path / working)
    before = contents(tmp_path)
    with pytest.raises(error, match=message) as info:
        pytrees.save(tree(2), path)
    assert contents(tmp_path) == before
    if error is not ValueError:
        assert info.value.__notes__[0].startswith("This was a save to /")
    if made == "checkpoint":
        assert number_in(pytrees.load(tmp_path / "checkpoint", single())) == 1


def test_a_working_directory_that_is_gone(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(FileNotFoundError, match="the path 'x' is relative, no longer exists"):
        pytrees.save(tree(1), "x")
    pytrees.save(tree(1), tmp_path / "x")
    assert number_in(pytrees.load(tmp_path / "x", single())) == 1


@pytest.mark.parametrize("name", ["n" * 200, "n" * 201, "n" * 240, "n" * 255, "ü" * 127, " .x. "])
@pytest.mark.parametrize("exchange", [True, False])
def test_names(tmp_path, monkeypatch, name, exchange):
    if not exchange:
        monkeypatch.setattr(directories, "_exchange", lambda *_: False)
    other = tmp_path / f".{name}x.saving12"[-100:]  # of another checkpoint
    other.mkdir()
    for number in (1, 2):
        pytrees.save(tree(number), tmp_path / name)
        assert number_in(pytrees.load(tmp_path / name, single())) == number
    assert sorted(os.listdir(tmp_path)) == sorted([name, other.name])


def test_what_is_no_checkpoint_is_not_removed(tmp_path):
    """Though it has the name of what an interrupted save leaves."""
    left, mine = tmp_path / ".x.saving12", tmp_path / ".x.saving13"
    (left / "array_store").mkdir(parents=True)
    (left / "pytreedef.json").touch()
    (tmp_path / ".x.previous").mkdir()
    (tmp_path / ".x.previous" / "notes.txt").touch()
    mine.mkdir()
    (mine / "notes.txt").touch()
    pytrees.save(tree(1), tmp_path / "x")
    assert number_in(pytrees.load(tmp_path / "x", single())) == 1
    assert sorted(os.listdir(tmp_path)) == [".x.previous", ".x.saving13", "x"]


# Errors of the file system, in a program that may change its limits. Root may write everywhere, but for what it is root by:
# other users need not be known where tests run (a sandbox's only user may be root).

FAILURES = """
import ctypes, os, resource, sys
if os.geteuid() == 0:
    version, this_thread = 0x20080522, 0  # as of capset(2); other threads start with what this one has
    header, none = (ctypes.c_uint32 * 2)(version, this_thread), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, none):
        raise OSError(ctypes.get_errno(), "capset")
from checkpoint_replacement_test import pytrees, single, tree
import jax, jax.numpy as jnp

folder = sys.argv[1]
path = folder + "/x"
pytrees.save(tree(1), path)


def attempt(what, path=path):
    before = sorted(os.walk(folder))
    for save in (pytrees.save, lambda *args: pytrees.nonblocking_save(*args).result(60)):
        try:
            save([jnp.ones(2**20)], path)
        except Exception as err:
            print(what, type(err).__name__, err, *err.__notes__)
        else:
            print(what, "no error")
    assert sorted(os.walk(folder)) == before


CASE
"""
LIMIT = """
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, most))
attempt("limit")
"""
READ_ONLY = """
for place in ("", "/x", "/x/array_store", "/x/array_store/d"):
    os.chmod(folder + place, 0o555)
    attempt(place)
    if not place:
        attempt("new", folder + "/new")
    os.chmod(folder + place, 0o755)
"""


@pytest.mark.parametrize(
    ("case", "messages"),
    [
        (LIMIT, ["limit ValueError .*File too large.* This was a save to {}/x."] * 2),
        (
            READ_ONLY,
            [
                " PermissionError .*cannot save to {}/x: .* beside it, which cannot be made in {}:",
                "new PermissionError .*cannot save to {}/new: .* which cannot be made in {}:",
                "/x PermissionError .*the previous checkpoint {}/x could not be removed .*'{}/x'",
                "/x/array_store PermissionError .* could not be removed .*'{}/x/array_store'",
                "/x/array_store/d PermissionError .* could not be removed .*'{}/x/array_store/d'",
            ],
        ),
    ],
    ids=["limit", "read-only"],
)
def test_errors_of_the_file_system(case, messages):
    """They leave the previous checkpoint, and nothing else."""
    env = {**ENV, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])}
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        command = [sys.executable, "-c", FAILURES.replace("CASE", case), folder]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        for message in messages:
            assert re.search("^" + message.format(*[folder] * 9), done.stdout, re.M), done.stdout
        assert "no error" not in done.stdout
        assert os.listdir(folder) == ["x"]
        assert number_in(pytrees.load(folder + "/x", single())) == 1


# Ctrl-C

INTERRUPTED = """
import os, random, signal, sys, threading, time
from checkpoint_replacement_test import named, number_in, pytrees, single
import jax, jax.numpy as jnp

folder = sys.argv[1]
path = folder + "/x"
values = [[jax.device_put(jnp.full((1024, 1024), n), named((8,), "x")) for _ in range(4)] for n in range(2)]
pytrees.save(values[0], path)
rng = random.Random(0)
interrupts = 0
for number in range(40):
    start = time.monotonic()
    pytrees.load(path, single()) if number % 2 else pytrees.save(values[number // 2 % 2], path)
    usual = time.monotonic() - start
    timer = threading.Timer(rng.uniform(0, usual), os.kill, [os.getpid(), signal.SIGINT])
    try:
        timer.start()
        pytrees.load(path, single()) if number % 2 else pytrees.save(values[number // 2 % 2], path)
        timer.join()
        time.sleep(0.01)
    except KeyboardInterrupt:
        interrupts += 1
    timer.join()
    assert os.listdir(folder) == ["x"], os.listdir(folder)
    assert len({float(f(x)) for x in pytrees.load(path, single()) for f in (jnp.min, jnp.max)}) == 1
assert interrupts > 30, interrupts
print("END")
"""


def test_interrupts():
    """A save or a load ends at once; the checkpoint is whole, and nothing else is left."""
    env = {**ENV, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", INTERRUPTED, folder]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout == "END\n", done.stderr


# Dtypes


@pytest.mark.parametrize(
    ("dtype", "wider"), [("uint4", "uint8"), ("uint2", "uint8"), ("float8_e4m3", "float32")]
)
@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_dtypes_that_cannot_be_stored(tmp_path, dtype, wider, driver):
    path, x = tmp_path / "x", jnp.asarray([0, 1, 3], dtype)
    message = f"the dtype {dtype} cannot be stored by tensorstore's driver '{driver}'. .*'{wider}'"
    with pytest.raises(ValueError, match=rf"the leaf \['a'\]\[1\]: {message}"):
        pytrees.save({"a": [None, x]}, path, ts_specs={"driver": driver})
    spec = serialization.get_tensorstore_spec(str(tmp_path / "y"), driver=driver)
    with pytest.raises(ValueError, match=message):
        serialization.run_serialization([x], [spec])
    assert os.listdir(tmp_path) == []
    pytrees.save([x.astype(wider)], path)
    target = jax.ShapeDtypeStruct((3,), dtype, sharding=single())
    for [loaded] in (pytrees.load(path, target), [pytrees.load(path, single())[0].astype(dtype)]):
        assert loaded.dtype == x.dtype
        np.testing.assert_array_equal(loaded, x)


def test_all_dtypes_are_converted_to_all_others(tmp_path):
    names = ["int2", "int4", "uint4", "float8_e4m3", "float8_e8m0fnu", "float4_e2m1fn", "bfloat16"]
    for source in ("int4", "int8", "float8_e8m0fnu", "float8_e5m2", "float32"):
        pytrees.save([jnp.asarray([1, 1], source)], tmp_path / "x")
        for name in names:
            target = jax.ShapeDtypeStruct((2,), name, sharding=single())
            [x] = pytrees.load(tmp_path / "x", target)
            assert (str(x.dtype), x.astype("float32").tolist()) == (name, [1, 1]), (source, name)
