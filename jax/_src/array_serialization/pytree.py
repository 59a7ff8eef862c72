"""Pytrees of arrays in a directory: `save` and `load`, also in the background.

The directory has the file ``pytreedef.json`` with the tree structure and the arrays' types, and
the folder ``array_store``, a database with the arrays under the numbers of their leaves.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import functools
import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from jax._src import core, tree_util, xla_bridge as xb
from jax._src.api_util import flatten_axes
from jax._src.array_impl import ArrayImpl
from jax._src.array_serialization import arrays, specs
from jax._src.array_serialization.directories import (
    ARRAYS_FOLDER,
    STRUCTURE_FILE,
    Version,
    checkpoint_directory,
)
from jax._src.array_serialization.processes import Agreement
from jax._src.array_serialization.ts import CONTEXT, fresh_context, tensorstore as ts
from jax._src.basearray import Array
from jax._src.distributed import global_state
from jax._src.sharding import Sharding
from jax._src.tree_util import serialization

PyTree = Any

TREE_KEY = "__jax_pytreedef_repr"
LEAVES_KEY = "__jax_leaf_ids"
_SAVE_TIMEOUT_SECS = 300
_LOAD_TIMEOUT_SECS = 3600  # the processes may load very different amounts
_READ_GIGABYTES = 32
_DATA_FILE_SIZE = 2**26  # several files are written at the same time
_LEAF_PATTERN = re.compile(r"Array\(([a-zA-Z0-9_]+)\[([0-9, ]*)\]\)")

# The loads and the saves in the background end before the program does.
_executor = ThreadPoolExecutor(max_workers=32, thread_name_prefix="jax_checkpoint")


class PyTreeFuture(Future[Any]):
    """The result of a save or load in the background, which may also be awaited.

    Attributes:
      pytree: the tree with a `jax.ShapeDtypeStruct` in place of each array.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pytree: PyTree = None
        self.set_running_or_notify_cancel()

    def follow(self, future: Future[Any]) -> None:
        """Gets the result of another future when it is there."""
        future.add_done_callback(self._finish)

    def _finish(self, future: Future[Any]) -> None:
        error = future.exception()
        if error is None:
            self.set_result(future.result())
        else:
            self.set_exception(error)

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self).__await__()

    def __repr__(self) -> str:
        return f"PyTreeFuture(done={self.done()}, pytree={self.pytree})"


# Saving


class _Queue:
    """Saves run one at a time, in the order of their calls, which is the same in all processes."""

    def __init__(self) -> None:
        self._saves: list[_Save] = []
        self._changed = threading.Condition()

    def enter(self, save: _Save) -> None:
        with self._changed:
            self._saves.append(save)

    def leave(self, save: _Save) -> None:
        with self._changed:
            self._saves.remove(save)
            self._changed.notify_all()

    def wait(self, save: _Save) -> None:
        """Waits until a save is the first one."""
        with self._changed:
            self._changed.wait_for(lambda: self._saves[0] is save)


_queue = _Queue()


def save(
    data: PyTree,
    directory: str | os.PathLike[str],
    *,
    overwrite: bool = True,
    ts_specs: PyTree | None = None,
) -> None:
    """Saves a pytree of arrays.

    The previous checkpoint in the directory stays whole until the new one replaces it, whenever
    the program is killed. (Not so for URLs: there use a directory for each step.)

    Args:
      data: a pytree with arrays and None as leaves. All processes pass the same tree, of arrays
        over all processes, and the same directory.
      directory: a path whose parent exists, or a URL ``gs://`` or ``s3://``.
      overwrite: whether a checkpoint in the directory may be replaced.
      ts_specs: a tree prefix of `data` with tensorstore specs, or None, as leaves; their entries
        take precedence over those of the default.

    Raises:
      TypeError: a dictionary has keys that are not strings, or a leaf has random keys.
      ValueError: the processes save different trees, a leaf is not an array, a class of nodes is
        not registered for serialization (`register_pytree_node_serialization`), a dtype cannot be
        stored, there is a checkpoint and `overwrite` is False, or tensorstore could not write.
      RuntimeError: the directory has other files, or is a mount point or the working directory.
      OSError: the parent is missing or read-only, or the directory is a file.

    Example:
      >>> import tempfile
      >>> from jax.experimental.array_serialization import pytree_serialization as checkpoints
      >>> with tempfile.TemporaryDirectory() as folder:
      ...   checkpoints.save({'a': jnp.arange(2), 'b': None}, folder + '/step_1')
      ...   checkpoints.load(folder + '/step_1', jnp.arange(2).sharding)
      {'a': Array([0, 1], dtype=int32), 'b': None}
    """
    job = _Save(data, directory, overwrite, ts_specs)
    _queue.enter(job)
    job.run()


def nonblocking_save(
    data: PyTree,
    directory: str | os.PathLike[str],
    *,
    overwrite: bool = True,
    ts_specs: PyTree | None = None,
) -> PyTreeFuture:
    """Saves a pytree of arrays in the background; see `save`.

    The arrays may be deleted or donated as soon as this returns.

    Returns:
      A future whose result is None, and whose `pytree` has the types of the arrays.
    """
    future = PyTreeFuture()
    future.pytree = tree_util.tree_map(
        lambda x: core.ShapeDtypeStruct(x.shape, x.dtype) if isinstance(x, Array) else x, data
    )
    try:
        job = _Save(data, directory, overwrite, ts_specs)
    except Exception as err:
        future.set_exception(err)
        return future
    _queue.enter(job)
    try:
        future.follow(_executor.submit(job.run))
    except RuntimeError:  # the program is ending
        _queue.leave(job)
        raise
    return future


class _Write(NamedTuple):
    """An array to be written: its number, a complete spec but for the place, and its shards."""

    number: int
    given: dict[str, Any] | None
    spec: dict[str, Any]
    shards: list[arrays.HostShard]


class _Save:
    """A save: checked, with the data in the host's memory, and ready to be written."""

    def __init__(self, data: PyTree, directory: Any, overwrite: bool, ts_specs: PyTree | None):
        self._overwrite = overwrite
        self._agreement = Agreement("save", _SAVE_TIMEOUT_SECS)
        self._directory = checkpoint_directory(directory)
        paths, tree = tree_util.tree_flatten_with_path(data, is_leaf=_is_none)
        leaves = [leaf for _, leaf in paths]
        names = [tree_util.keystr(path) or "itself" for path, _ in paths]
        types = []
        for name, leaf in zip(names, leaves):
            _check_leaf(name, leaf)
            with _about(f"the leaf {name}"):
                types.append(_describe(leaf))
        self._outline = json.dumps([names, types])
        self._structure = _structure_file(tree, types)
        all_specs = _broadcast(tree, ts_specs, "ts_specs", specs.is_tensorstore_spec_leaf)
        checked = []
        for i, (name, leaf, given) in enumerate(zip(names, leaves, all_specs)):
            if leaf is not None:
                with _about(f"the leaf {name}"):
                    spec = _spec_for_write(self._directory.path, i, given)
                    arrays.check_not_local(leaf, spec)
                    spec = arrays.complete_spec(spec, leaf)
                    ts.Spec(spec)  # raises errors
                checked.append((i, given, spec, leaf))
        self._writes = [
            _Write(i, given, spec, arrays.host_shards(leaf)) for i, given, spec, leaf in checked
        ]

    def run(self) -> None:
        """Writes everything; the save must have entered the queue."""
        try:
            _queue.wait(self)
            self._run()
        finally:
            _queue.leave(self)

    def _run(self) -> None:
        agreement, directory = self._agreement, self._directory
        if not agreement.same_everywhere(directory.path, "comparing the directories"):
            raise ValueError(
                "Saving to different locations on different hosts is not supported, because it is"
                " extremely fragile. Consider using a single location."
            )
        outline = hashlib.sha256(self._outline.encode()).hexdigest()
        if not agreement.same_everywhere(outline, "comparing the trees"):
            raise ValueError(
                "The processes save different trees; all have to pass the same structure, shapes and"
                f" dtypes. Here: {_shortened(self._outline)}"
            )
        try:
            prepare = functools.partial(directory.prepare, self._overwrite)
            new = agreement.run_in_first(prepare, "preparing the directory")
            agreement.run(lambda: self._write(new), "writing the arrays")
            agreement.run_in_first(lambda: self._commit(new), "replacing the previous checkpoint")
        except BaseException as err:
            err.add_note(f"This was a save to {directory.path}.")
            if xb.process_index() == 0:
                directory.abandon()
            raise

    def _write(self, directory: str) -> None:
        context = fresh_context()
        commits: list[Any] = []

        async def start() -> None:
            await arrays.gather(
                arrays.write_shards(
                    ts.Spec(spec | {"kvstore": _spec_for_write(directory, i, given)["kvstore"]}),
                    shards,
                    commits,
                    context,
                )
                for i, given, spec, shards in self._writes
            )

        try:
            arrays.run(start())
        finally:
            arrays.wait_for_all(commits)

    def _commit(self, directory: str) -> None:
        if self._writes and xb.process_count() > 1:
            _merge_databases(f"{directory}/{ARRAYS_FOLDER}")
        self._directory.commit(self._structure)


def _spec_for_write(directory: str, number: int, given: dict[str, Any] | None) -> dict[str, Any]:
    """The spec with which an array is written; the metadata may be missing."""
    process = xb.process_index() if xb.process_count() > 1 else None
    path = os.path.join(directory, ARRAYS_FOLDER, str(number))
    default = specs.get_tensorstore_spec(path, process_idx=process)
    default["kvstore"]["target_data_file_size"] = _DATA_FILE_SIZE
    return specs.merge_nested_ts_specs(default, given)


def _merge_databases(store: str) -> None:
    """Makes one database of those of the processes. The data stays where it is."""
    parts = [
        {
            "driver": "ocdbt",
            "base": specs.base_kvstore(f"{store}/{specs.PROCESS_FOLDER.format(i)}/"),
        }
        for i in range(xb.process_count())
    ]
    arrays.run(
        combine_kvstores({"driver": "ocdbt", "base": specs.base_kvstore(f"{store}/")}, parts)
    )


async def combine_kvstores(
    combined_kvstore: dict[str, Any], kvstores: list[dict[str, Any]], context: Any = CONTEXT
) -> None:
    """Copies the entries of key-value stores into one. Only one process may do so.

    Databases in folders of the combined one are referred to instead of copied.
    """
    combined = await ts.KvStore.open(combined_kvstore, context=context)
    parts = await arrays.gather(ts.KvStore.open(k, context=context) for k in kvstores)
    transaction = ts.Transaction(atomic=True)
    target = combined.with_transaction(transaction)
    await arrays.gather(part.experimental_copy_range_to(target) for part in parts)
    await transaction.commit_async()


def _shortened(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:500]}..."


def _is_none(x: Any) -> bool:
    return x is None


@contextlib.contextmanager
def _about(what: str) -> Iterator[None]:
    """Errors say what they are about."""
    try:
        yield
    except (TypeError, ValueError) as err:
        raise type(err)(f"{what}: {err}") from err


def _check_leaf(name: str, leaf: Any) -> None:
    if leaf is not None and not (isinstance(leaf, Array) and not isinstance(leaf, core.Tracer)):
        hint = " Apply jnp.asarray to it." if isinstance(leaf, (int, float, np.ndarray)) else ""
        raise ValueError(
            "For serialization, all leaves must be either None or jax.Array-like objects. The leaf"
            f" {name} is a {type(leaf)}.{hint}"
        )


def _broadcast(
    tree: tree_util.PyTreeDef, prefix: PyTree, name: str, is_leaf: Callable[[Any], bool] = _is_none
) -> list[Any]:
    """One entry of a tree prefix for each leaf of `tree`."""
    leaves, structure = tree_util.tree_flatten(prefix, is_leaf)
    # Leaves such as dictionaries must not be taken for nodes.
    numbers = flatten_axes(name, tree, structure.unflatten(range(len(leaves))))
    return [leaves[i] for i in numbers]


def _structure_file(tree: tree_util.PyTreeDef, types: list[str | None]) -> bytes:
    content = {**serialize_pytreedef(tree), LEAVES_KEY: types}
    return json.dumps(content, indent=2).encode()


def _describe(leaf: Any) -> str | None:
    if leaf is None:
        return None
    return f"Array({specs.stored_dtype(leaf.dtype).name}[{', '.join(map(str, leaf.shape))}])"


def serialize_pytreedef(node: tree_util.PyTreeDef) -> dict[str, Any]:
    """A tree structure as an object for JSON.

    Example:
      >>> from jax.experimental.array_serialization import pytree_serialization_utils as utils
      >>> utils.deserialize_pytreedef(utils.serialize_pytreedef(jax.tree.structure([1, {'a': 2}])))
      PyTreeDef([*, {'a': *}])
    """
    data = base64.b64encode(serialization.to_bytes(node)).decode("ascii")
    return {TREE_KEY: data, LEAVES_KEY: list(range(node.num_leaves))}


def deserialize_pytreedef(pytreedef_repr: dict[str, Any]) -> tree_util.PyTreeDef:
    """The inverse of `serialize_pytreedef`; raises ValueError if the object is damaged."""
    if not isinstance(pytreedef_repr, dict) or not isinstance(pytreedef_repr.get(TREE_KEY), str):
        raise ValueError(f"not a serialized tree structure: it has no text {TREE_KEY!r}")
    try:
        data = base64.b64decode(pytreedef_repr[TREE_KEY], validate=True)
    except (binascii.Error, ValueError) as err:
        raise ValueError(f"damaged tree structure: {err}") from None
    return serialization.from_bytes(data)


# Loading


def load(
    directory: str | os.PathLike[str],
    shardings: PyTree,
    *,
    mask: PyTree | None = None,
    ts_specs: PyTree | None = None,
) -> PyTree:
    """Loads a pytree of arrays that `save` has written.

    All arrays are of one save, also if the checkpoint is replaced at the same time. No code from
    the files is run. Classes of nodes must have been registered by the program
    (`register_pytree_node_serialization`).

    Args:
      directory: a path, or a URL ``gs://`` or ``s3://``.
      shardings: a tree prefix of the result. Its leaves are shardings, formats, or
        `jax.ShapeDtypeStruct` with one of these, whose dtype the result gets. They need not be
        those with which the arrays were saved.
      mask: a tree prefix of booleans: arrays for which it is False are not loaded, but None.
      ts_specs: a tree prefix of tensorstore specs; see `save`.

    Returns:
      The pytree.

    Raises:
      FileNotFoundError, NotADirectoryError: there is no checkpoint.
      TypeError: a sharding is missing or not concrete.
      ValueError: the checkpoint is damaged, `shardings`, `mask` or `ts_specs` is not a tree
        prefix, or a shape cannot be sharded like this.
    """
    return _Load(directory, shardings, mask, ts_specs).run()


def nonblocking_load(
    directory: str | os.PathLike[str],
    shardings: PyTree,
    *,
    mask: PyTree | None = None,
    ts_specs: PyTree | None = None,
) -> PyTreeFuture:
    """Loads a pytree of arrays in the background; see `load`.

    Returns:
      A future whose result is the pytree, and whose `pytree` has the types of the arrays.
    """
    job = _Load(directory, shardings, mask, ts_specs)
    job.future.follow(_executor.submit(arrays.with_options_of_caller(job.run)))
    return job.future


def load_pytreedef(directory: str | os.PathLike[str]) -> PyTree:
    """The types of the arrays in a checkpoint, without their data.

    Args:
      directory: a path, or a URL ``gs://`` or ``s3://``.

    Returns:
      The pytree with a `jax.ShapeDtypeStruct` in place of each array.

    Raises:
      FileNotFoundError: there is no checkpoint.
      ValueError: it is damaged.
    """
    tree, leaves = _structure(checkpoint_directory(directory).find())
    return tree.unflatten(leaves)


def _structure(version: Version) -> tuple[tree_util.PyTreeDef, list[Any]]:
    """The tree structure of a checkpoint, and the types of its arrays."""
    try:
        content = json.loads(version.structure)
        tree = deserialize_pytreedef(content)
        descriptions = content.get(LEAVES_KEY)
        if not isinstance(descriptions, list) or len(descriptions) != tree.num_leaves:
            raise ValueError(f"{LEAVES_KEY!r} is no list of {tree.num_leaves} leaves")
        leaves = [_leaf_type(description) for description in descriptions]
    except (ValueError, RecursionError) as err:
        raise ValueError(
            f"the checkpoint {version.path} is damaged, or was not written by"
            f" pytree_serialization.save: {STRUCTURE_FILE}: {err}"
        ) from err
    return tree, leaves


def _leaf_type(description: Any) -> core.ShapeDtypeStruct | None:
    if description is None:
        return None
    match = _LEAF_PATTERN.fullmatch(description) if isinstance(description, str) else None
    if match is None:
        raise ValueError(f"a leaf is {description!r}, which is no type of an array")
    name, shape = match.groups()
    try:
        dtype = ts.dtype(name).numpy_dtype  # only names of dtypes that can be stored
    except (TypeError, ValueError, AttributeError):
        raise ValueError(f"a leaf has the unknown dtype {name!r}") from None
    sizes = tuple(int(size) for size in shape.split(",") if size.strip())
    return core.ShapeDtypeStruct(sizes, dtype)


def _raiser(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


class _Load:
    """A load: of one checkpoint, also if others replace it at the same time.

    Attributes:
      future: gets the types of the arrays, and the result if the load runs in the background.
    """

    def __init__(
        self, directory: Any, shardings: PyTree, mask: PyTree | None, ts_specs: PyTree | None
    ):
        self.future = PyTreeFuture()
        self._directory = checkpoint_directory(directory)
        self._shardings, self._mask, self._ts_specs = shardings, mask, ts_specs
        self._agreement = Agreement("load", _LOAD_TIMEOUT_SECS, _processes_of(shardings))
        self._version: Version | None = None
        self._loaded: PyTree = None
        try:
            self._find()
        except Exception as err:
            self._agreement.run(_raiser(err), "finding the checkpoint")

    def _find(self) -> None:
        self._version = self._directory.find()
        self._tree, self._leaves = _structure(self._version)
        self.future.pytree = self._tree.unflatten(self._leaves)

    def run(self) -> PyTree:
        """Loads the arrays.

        They are read again only when the checkpoint was replaced meanwhile.
        """
        while True:
            self._agreement.run(self._read, "loading the arrays")
            # All have ended reading. What none of them finds replaced is the same for all.
            if not self._agreement.anywhere(self._is_replaced(), "loading the arrays"):
                return self._loaded
            self._version = None

    def _is_replaced(self) -> bool:
        try:
            return self._directory.find() != self._version
        except Exception:  # it was removed, or cannot be read: the next `_read` says so to all
            return True

    def _read(self) -> None:
        if self._version is None:
            self._find()
        try:
            self._loaded = self._read_version()
        except Exception:  # whatever kind it is, files that vanish while they are read can cause it
            if not self._is_replaced():
                raise
            self._version = None

    def _read_version(self) -> PyTree:
        tree, leaves, version = self._tree, self._leaves, self._version
        assert version is not None
        given = _broadcast(tree, self._ts_specs, "ts_specs", specs.is_tensorstore_spec_leaf)
        wanted = [True] * len(leaves)
        if self._mask is not None:
            wanted = _broadcast(tree, self._mask, "mask")
        targets = _broadcast(tree, self._shardings, "shardings")
        chosen = [i for i, leaf in enumerate(leaves) if leaf is not None and wanted[i]]

        context = fresh_context()
        names = tree_util.tree_leaves_with_path(tree.unflatten(leaves), is_leaf=_is_none)

        async def read(i: int, limiter: arrays.ByteLimiter) -> ArrayImpl:
            spec = specs.get_tensorstore_spec(f"{version.array_store}/{i}")
            spec = specs.merge_nested_ts_specs(spec, given[i])
            try:
                x = await arrays.read_array(targets[i], spec, None, None, limiter, context)
                if x.shape != leaves[i].shape:
                    raise ValueError(f"damaged: {STRUCTURE_FILE} has the shape {leaves[i].shape}")
            except Exception as err:
                name = tree_util.keystr(names[i][0]) or "its only one"
                where = f"the array {name} ({leaves[i]}) of the checkpoint {version.path}"
                err.add_note(f"This was {where}.")
                raise
            return x

        async def read_all() -> list[ArrayImpl]:
            limiter = arrays.ByteLimiter(_READ_GIGABYTES * 10**9)
            return await arrays.gather(read(i, limiter) for i in chosen)

        loaded = dict(zip(chosen, arrays.run(read_all())))
        return tree.unflatten([loaded.get(i) for i in range(len(leaves))])


def _processes_of(shardings: PyTree) -> list[int]:
    """The processes that load parts of the same arrays, and have to load the same ones.

    Without a coordination service they cannot agree, and only what each loads is of one checkpoint.
    """
    if global_state.client is None:
        return []
    placements = {
        sharding
        for leaf in tree_util.tree_leaves(shardings)
        if isinstance(sharding := arrays.sharding_of(leaf), Sharding) and sharding._is_concrete
    }
    return sorted({d.process_index for sharding in placements for d in sharding.device_set})
