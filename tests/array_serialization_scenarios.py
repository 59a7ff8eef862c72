"""Checkpoints: specs, what is written and read, with which shardings and dtypes: see op_cases.py."""

import asyncio
import collections
import json
import pathlib
import tempfile

import numpy as np
import tensorstore
from checkpoint_files import matrix, named, read_archive, single, tree
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax.experimental.array_serialization import (
    pytree_serialization as pytrees,
    pytree_serialization_utils as utils,
    serialization,
    tensorstore_impl as ts_impl,
)
from jax.experimental.layout import Format, Layout

CASES = Programs()
UNUSUAL_DTYPES = ("uint4", "uint2", "float8_e4m3", "float8_e8m0fnu", "float4_e2m1fn")
DTYPES = ("float32", "bfloat16", "int4", "int8", "uint8", "bool", "complex64", "float8_e4m3fn")


def outcome(fun, *args, **kwargs):
    """What a call returns, or the class of its error."""
    try:
        return fun(*args, **kwargs)
    except Exception as err:
        return type(err).__name__


def text(x):
    return json.dumps(x, default=str, sort_keys=True)


def in_folder(fun):
    """A program that gets a folder of its own."""

    def program():
        with tempfile.TemporaryDirectory() as folder:
            return fun(pathlib.Path(folder).resolve())

    program.__name__ = fun.__name__
    return program


CASES.add("files_of_the_oracle", lambda: read_archive("oracle"))
CASES.add("files_of_ours", lambda: read_archive("own"))


# Specs

PATHS = ["/tmp/a/b", "/tmp/a/", "relative/path", "gs://bucket/a/b", "s3://bucket/a/b", ""]


@CASES.define
def specs():
    found = {}
    for options in ({}, {"ocdbt": False}, {"process_idx": 3}, {"driver": "zarr"}):
        for path in PATHS:
            found[f"{path} {options}"] = text(
                outcome(ts_impl.get_tensorstore_spec, path, **options)
            )
            older = outcome(serialization.get_tensorstore_spec, path, **options)
            found[f"older {path} {options}"] = text(older)
    return found


@CASES.define
def specs_of_arrays():
    arrays = [matrix("x", "y"), matrix("x"), jnp.ones(()), jnp.ones((0, 3), jnp.bfloat16)]
    arrays += [jnp.ones(3, dtype) for dtype in DTYPES]
    return [
        text(outcome(ts_impl.get_tensorstore_spec, path, arr=x, driver=driver, ocdbt=ocdbt))
        for x in arrays
        for path in ("/tmp/a/b", "gs://bucket/a/b")
        for driver in ("zarr", "zarr3", "n5")
        for ocdbt in (True, False)
    ]


@CASES.define
def chunks():
    shapes = [(8, 8), (1024, 1024, 1024), (7, 11, 13), (0, 3), (), (12, 10), (15, 4), (3, 4, 16)]
    return {
        f"{shape} {dtype} {size}": ts_impl._get_tensorstore_metadata_cached(
            shape, np.dtype(dtype), shape, file_size_target=size
        )["chunk_grid"]["configuration"]["chunk_shape"]
        for shape in shapes
        for dtype in ("float32", "int8", "bfloat16")
        for size in (4, 30, 100, 931, 2**20)
    }


@CASES.define
def merged_specs():
    kvstore = {"driver": "ocdbt", "base": {"driver": "file", "path": "/x"}, "path": "0"}
    pairs = [
        ({"driver": "zarr3", "kvstore": kvstore}, {"driver": "zarr", "kvstore": {"path": "1"}}),
        ({"kvstore": kvstore}, {"kvstore": {"base": {"driver": "memory"}}, "metadata": {"a": 1}}),
        ({"metadata": {"a": 1}}, {"metadata": {"b": 1}}),
        ({"kvstore": kvstore}, {}),
        ({"kvstore": kvstore}, None),
        ({}, {}),
    ]
    return [text(ts_impl.merge_nested_ts_specs(*pair)) for pair in pairs]


@CASES.define
def properties_of_specs():
    kvstores = [
        {"driver": "gcs"},
        {"driver": "s3"},
        {"driver": "file", "path": "x"},
        {"driver": "ocdbt", "base": "gs://a/b"},
        {"driver": "ocdbt", "base": {"driver": "s3", "path": "x"}},
        {"driver": "ocdbt", "base": "file://a/b"},
        "gs://x/",
    ]
    given = [{"driver": "zarr", "kvstore": kvstore} for kvstore in kvstores]
    given += ["gs://x", "s3://d", "/tmp", {}]
    leaves = [{"driver": "zarr"}, {}, {"a": 1}, {"kvstore": {}}, None, 3]
    remote = [text(serialization.is_remote_storage(spec)) for spec in given]
    return remote, [text(ts_impl.is_tensorstore_spec_leaf(leaf)) for leaf in leaves]


@CASES.define
def verified_specs():
    x = matrix("x", "y")
    spec = ts_impl.get_tensorstore_spec("/tmp/a/b", arr=x, ocdbt=False)
    verify = ts_impl.verify_tensorstore_spec
    return [
        outcome(verify, spec, x, "/tmp/a/b", False),
        outcome(verify, spec, x, "/tmp/a/c", False),
        outcome(verify, spec, x, "/tmp/a/b", True),
        outcome(verify, spec, None, "/tmp/a/b", False),
        outcome(verify, spec, None, "/tmp/a/b", False, check_metadata=False),
        outcome(verify, spec, matrix(shape=(4, 8)), "/tmp/a/b", False),
        outcome(verify, spec, x.astype(int), "/tmp/a/b", False),
    ]


# Arrays


def stored(folder, x, **options):
    spec = serialization.get_tensorstore_spec(str(folder / "x"), **options)
    serialization.run_serialization([x], [spec])
    return spec


def show(x):
    return x if isinstance(x, str) else (str(x.dtype), str(x.sharding), x)


@CASES.define
@in_folder
def other_shardings(folder):
    spec = stored(folder, matrix("x", "y"))
    shardings = [
        single(3),
        named((4, 2)),
        named((4, 2), "y", "x"),
        named((2, 2), None, ("x", "y")),
        named((8,), "x"),
        named((3,)),
        named((3,), "x"),
        Format(Layout((1, 0)), single()),
        Format(None, single()),
        Format(Layout.AUTO, single()),
        None,
        "x",
    ]
    return [
        show(outcome(lambda: asyncio.run(ts_impl.async_deserialize(sharding, spec))))
        for sharding in shardings
        if sharding is not None
    ]


@CASES.define
@in_folder
def other_shapes(folder):
    spec = stored(folder, matrix("x", "y"))
    shapes = [(10, 9), (3, 4), (8, 16), (0, 3), (16, 16)]
    found = []
    for sharding in (single(), named((2, 2), "x", "y")):
        for shape in shapes:
            read = outcome(
                serialization.run_deserialization, [sharding], [spec], global_shapes=[shape]
            )
            found.append(show(read if isinstance(read, str) else read[0]))
    return found


@CASES.define
@in_folder
def other_dtypes(folder):
    values = np.array([-300.7, -9, -1, 0, 0.5, 1, 2, 7, 8, 9, 127, 128, 300.7, 1e6], np.float32)
    found = {}
    for source in ("float32", "int32", "bfloat16", "bool"):
        spec = stored(folder / source, jnp.asarray(values).astype(source))
        for dtype in (*DTYPES, *UNUSUAL_DTYPES, "float64", "int64", "key<fry>"):
            read = outcome(serialization.run_deserialization, [single()], [spec], dtypes=[dtype])
            found[f"{source} {dtype}"] = show(read if isinstance(read, str) else read[0])
    return found


@CASES.define
@in_folder
def structs(folder):
    spec = stored(folder, matrix("x", "y"))
    in_types = [
        jax.ShapeDtypeStruct((8, 8), jnp.int32, sharding=single()),
        jax.ShapeDtypeStruct((8, 8), jnp.bfloat16, sharding=named((4, 2), "y")),
        jax.ShapeDtypeStruct((2, 2), jnp.int32, sharding=single()),
        jax.ShapeDtypeStruct((8, 8), jnp.int32, sharding=Format(Layout((1, 0)), single())),
    ]
    return [show(asyncio.run(ts_impl.async_deserialize(s, spec))) for s in in_types]


@CASES.define
@in_folder
def dtypes_in_files(folder):
    return {
        f"{driver} {dtype}": show(
            outcome(
                lambda: serialization.run_deserialization(
                    [single()],
                    [stored(folder / driver / dtype, jnp.ones(3, dtype), driver=driver)],
                )[0]
            )
        )
        for driver in ("zarr", "zarr3")
        for dtype in (*DTYPES, "uint4", "float8_e8m0fnu", "int2", "uint2")
    }


@CASES.define
@in_folder
def replicas(folder):
    x = jax.device_put(np.arange(8.0, dtype=np.float32), named((4, 2), "x"))
    found = []
    for replica in (0, 1, 2):
        spec = ts_impl.get_tensorstore_spec(folder / f"{replica}")
        asyncio.run(ts_impl.async_serialize(x, spec, replica_id=replica))
        found.append(asyncio.run(ts_impl.async_deserialize(single(), spec)))
    spec = ts_impl.get_tensorstore_spec(folder / "hosts")
    asyncio.run(ts_impl.async_serialize(x, spec, primary_host=1))
    found.append(outcome(lambda: asyncio.run(ts_impl.async_deserialize(single(), spec))))
    return found


@CASES.define
@in_folder
def transactions(folder):
    spec = ts_impl.get_tensorstore_spec(folder / "x")

    def read():
        return outcome(lambda: asyncio.run(ts_impl.async_deserialize(single(), spec)))

    transaction = tensorstore.Transaction()
    asyncio.run(ts_impl.async_serialize(matrix("x"), spec, transaction=transaction))
    before = read()
    transaction.commit_sync()
    return before, read()


@CASES.define
@in_folder
def read_footprints(folder):
    spec = stored(folder, matrix("x", "y"))
    store = tensorstore.open(spec, open=True).result()
    domains = [
        ((0, 0), (8, 8)),
        ((0, 0), (2, 2)),
        ((1, 1), (4, 2)),
        ((1, 3), (1, 2)),
        ((2, 0), (0, 4)),
    ]
    return [
        ts_impl.estimate_read_memory_footprint(
            store, tensorstore.IndexDomain(inclusive_min=start, shape=shape)
        )
        for start, shape in domains
    ]


@CASES.define
@in_folder
def managers(folder):
    manager = serialization.GlobalAsyncCheckpointManager()
    called = []
    paths = [str(folder / "a"), str(folder / "b")]
    manager.serialize_with_paths(
        [matrix("x"), jnp.arange(3)], paths, on_commit_callback=lambda: called.append("done")
    )
    manager.wait_until_finished()
    read = manager.deserialize_with_paths([single(), named((8,))], paths)
    manager.serialize_with_paths([jnp.ones(3)], paths[:1])  # another shape
    errors = [
        outcome(manager.wait_until_finished),
        outcome(manager.wait_until_finished),
        outcome(manager.serialize_with_paths, [jnp.ones(3)], paths),
        outcome(manager.deserialize_with_paths, [single()], [str(folder / "none")]),
        outcome(manager.deserialize_with_paths, [single()], paths),
    ]

    def fail():
        raise KeyError("no")

    manager.serialize_with_paths([jnp.ones(3)], [str(folder / "c")], on_commit_callback=fail)
    errors.append(outcome(manager.wait_until_finished))
    return called, [show(x) for x in read], [e or "" for e in errors]


# Trees


@CASES.define
@in_folder
def saved_trees(folder):
    trees = {
        "dict": {"b": jnp.ones(3), "a": None},
        "leaf": jnp.ones((2, 3), jnp.int4),
        "none": None,
        "empty": [],
        "nested": [{"x": [(), {}]}, (jnp.float32(1), None)],
        "ordered": collections.OrderedDict(b=jnp.ones(1), a=jnp.ones(2)),
        "default": collections.defaultdict(int, a=jnp.ones(1)),
        "numbers": {1: jnp.ones(1)},
        "python": [1, 2.0],
        "key": [jax.random.key(0)],
        "uint4": [jnp.ones(1, jnp.uint4)],
    }
    found = {}
    for name, value in trees.items():
        done = outcome(pytrees.save, value, folder / name)
        if done is not None:
            found[name] = done
            continue
        structure = json.loads((folder / name / "pytreedef.json").read_text())
        types = pytrees.load_pytreedef(folder / name)
        if isinstance(types, collections.OrderedDict):  # its text depends on the version of Python
            types = f"OrderedDict({list(types.items())})"
        found[name] = (text(structure), str(types), pytrees.load(folder / name, single()))
    return found


@CASES.define
@in_folder
def loaded_trees(folder):
    pytrees.save(tree(), folder / "t")
    shardings = jax.tree.map(lambda _: single(2), tree(), is_leaf=lambda x: x is None)
    shardings["sharded"] = named((2, 4), "y", "x")
    shardings["ordered"] = named((8,))

    def load(*args, **kwargs):
        read = outcome(pytrees.load, folder / "t", *args, **kwargs)
        return read if isinstance(read, str) else jax.tree.map(show, read)

    mask = {"sharded": False, "replicated in part": True, "nested": True, "ordered": False}
    return [
        load(single()),
        load(shardings),
        load(named((4, 2))),
        load(None),
        load({"sharded": single()}),
        load(single(), mask=mask),
        load(single(), mask=False),
        load({**mask, **shardings, "sharded": None}, mask=mask),
        load({**shardings, "sharded": jax.ShapeDtypeStruct((8, 8), "int8", sharding=single())}),
    ]


@CASES.define
@in_folder
def specs_of_trees(folder):
    data = {"a": matrix("x"), "b": [jnp.ones(3)]}
    gzip = {"name": "gzip", "configuration": {"level": 6}}
    metadata = ts_impl._get_tensorstore_metadata(data["a"]) | {"codecs": [gzip]}
    given = [
        {"a": {"driver": "zarr3"}, "b": None},
        {"driver": "zarr3"},
        {"a": {"driver": "zarr3", "metadata": metadata}, "b": [None]},
        {"a": None},
    ]
    found = []
    for i, ts_specs in enumerate(given):
        done = outcome(pytrees.save, data, folder / f"{i}", ts_specs=ts_specs)
        found.append(done or pytrees.load(folder / f"{i}", single(), ts_specs=ts_specs))
    return found


@CASES.define
@in_folder
def directories(folder):
    x = {"a": jnp.ones(3)}
    (folder / "file").touch()
    (folder / "others").mkdir()
    (folder / "others" / "notes.txt").touch()
    (folder / "empty").mkdir()
    found = [
        outcome(pytrees.save, x, folder / "one"),
        outcome(pytrees.save, {"b": jnp.zeros(2)}, folder / "one", overwrite=False),
        pytrees.load(folder / "one", single()),
        outcome(pytrees.save, {"b": jnp.zeros(2)}, folder / "one"),
        pytrees.load(folder / "one", single()),
        outcome(pytrees.save, x, folder / "file"),
        outcome(pytrees.save, x, folder / "others"),
        outcome(pytrees.save, x, folder / "empty"),
        outcome(pytrees.save, x, folder / "missing" / "parent"),
        outcome(pytrees.load_pytreedef, folder / "none"),
        outcome(pytrees.nonblocking_load, folder / "none", single()),
        outcome(pytrees.load_pytreedef, folder / "others"),
    ]
    return ["" if x is None else x for x in found]


@CASES.define
@in_folder
def futures(folder):
    data = {"a": jnp.ones(3), "b": None}
    save = pytrees.nonblocking_save(data, folder / "t")
    found = [str(save.pytree), str(save.result()), text(save.done()), repr(save)]
    load = pytrees.nonblocking_load(folder / "t", single())
    found += [str(load.pytree), load.result(timeout=60), repr(load)]

    async def wait():
        return await pytrees.nonblocking_load(folder / "t", single())

    found.append(asyncio.run(wait()))
    for bad in (
        pytrees.nonblocking_save({"a": 3}, folder / "t"),
        pytrees.nonblocking_save(data, folder / "t", overwrite=False),
        pytrees.nonblocking_load(folder / "t", {"c": single()}),
    ):
        found.append(outcome(bad.result))
    return found


# Tree structures


class Scaled:
    def __init__(self, x, scale):
        self.x, self.scale = x, scale


class Unregistered(Scaled):
    pass


for cls in (Scaled, Unregistered):
    jax.tree_util.register_pytree_node(
        cls, lambda s: ((s.x,), s.scale), lambda scale, x, cls=cls: cls(*x, scale)
    )


@CASES.define
def structures():
    trees = [[1, None], {"é": (1, {})}, {2: 1}, Unregistered(1, 3), [[], ({},)]]
    found = []
    for value in trees:
        stored = outcome(utils.serialize_pytreedef, jax.tree.structure(value))
        if not isinstance(stored, str):
            stored = (text(stored), str(utils.deserialize_pytreedef(stored)))
        found.append(stored)
    return found


def registered(name="test.Scaled", **options):
    defaults = dict(serialize_auxdata=lambda n: b"%d" % n, deserialize_auxdata=int)
    return utils.register_pytree_node_serialization(
        Scaled, serialized_name=name, **(defaults | options)
    )


@CASES.define
def registrations():
    class Other:
        pass

    found = [registered() is Scaled, outcome(registered), outcome(registered, "test.Other")]
    stored = utils.serialize_pytreedef(jax.tree.structure([Scaled(1, 3)]))
    found += [text(stored), str(utils.deserialize_pytreedef(stored))]
    register = utils.register_pytree_node_serialization
    functions = dict(serialize_auxdata=bytes, deserialize_auxdata=int)
    found.append(outcome(register, Other, serialized_name="test.Other", **functions))
    jax.tree_util.register_pytree_node(Other, lambda x: ((), 0), lambda _, __: Other())
    found.append(outcome(register, Other, serialized_name="test.Scaled", **functions))
    register(Other, serialized_name="test.Other", serialize_auxdata=str, deserialize_auxdata=int)
    found.append(outcome(utils.serialize_pytreedef, jax.tree.structure(Other())))
    return [str(x) for x in found]
