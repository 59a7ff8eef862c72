"""Exchange of host data between processes: all of them have to call these functions alike.

The leaves of a tree travel as one array of words, so that a call is two small programs, whatever
the tree: the first compares what the processes are about to exchange.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from jax._src import core, dtypes, xla_bridge
from jax._src.array_impl import ArrayImpl
from jax._src.device_put.agreement import gather_rows
from jax._src.device_put.values import identity_program
from jax._src.mesh import Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding_impls import GSPMDSharding
from jax._src.tree_util import tree_flatten, tree_flatten_with_path, tree_map, tree_unflatten

_WORDS_OF_HEADER = 8


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """Copies data of one process to all processes.

    Args:
      in_tree: a pytree of arrays and numbers; in all processes with the same structure, shapes and
        dtypes.
      is_source: whether the data of this process are meant. By default those of process 0.

    Returns:
      A pytree of NumPy arrays.

    Raises:
      TypeError: a leaf is not an array of numbers; with one process, not what NumPy takes.
      RuntimeError: a leaf is an array whose shards are in several processes.
      ValueError: the trees differ, or not exactly one process is the source.

    Example:
      >>> from jax.experimental import multihost_utils
      >>> multihost_utils.broadcast_one_to_all({'seed': np.int32(3)})
      {'seed': array(3, dtype=int32)}
    """
    leaves, treedef = _host_leaves(in_tree, "broadcast_one_to_all")
    if is_source is None:
        is_source = xla_bridge.process_index() == 0
    if xla_bridge.process_count() > 1:
        others = _compare_headers("broadcast_one_to_all", treedef, leaves, bool(is_source))
        sources = [i for i, header in enumerate(others) if header[-1]]
        if len(sources) != 1:
            raise ValueError(
                "broadcast_one_to_all: exactly one process has to pass is_source=True, and these do:"
                f" {sources}."
            )
        leaves = _unpack(_gather(_pack(leaves))[sources[0]], leaves)
    return tree_unflatten(treedef, leaves)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """Gathers data of all processes in each of them.

    Args:
      in_tree: a pytree of arrays and numbers; in all processes with the same structure, shapes and
        dtypes.
      tiled: whether to concatenate arrays along their first dimension. Otherwise they are stacked
        along a new first dimension, as numbers always are.

    Returns:
      A pytree of NumPy arrays. Of an array whose shards are in several processes, which requires
      `tiled`, it is the whole array.

    Raises:
      TypeError: a leaf is not an array of numbers; with one process, not what NumPy takes.
      ValueError: the trees differ; a leaf is an array in several processes, and `tiled` is False.

    Example:
      >>> from jax.experimental import multihost_utils
      >>> multihost_utils.process_allgather(np.arange(3))
      array([[0, 1, 2]])
    """
    leaves, treedef = tree_flatten(in_tree)
    out: list[Any] = list(leaves)
    spread = [i for i, x in enumerate(leaves) if _is_in_several_processes(x)]
    for i in spread:
        out[i] = _whole(leaves[i], tiled)
    local = [i for i in range(len(leaves)) if i not in spread]
    if local:
        values, _ = _host_leaves([leaves[i] for i in local], "process_allgather")
        for i, rows in zip(local, _gather_leaves(values, "process_allgather")):
            shape = rows.shape[1:]
            out[i] = rows.reshape(-1, *shape[1:]) if tiled and shape else rows
            if tiled and not shape and len(rows) == 1:
                out[i] = rows.reshape(())
    return tree_unflatten(treedef, out)


def sync_global_devices(name: str) -> None:
    """Waits until all processes have called this function, and devices have finished their work.

    Args:
      name: the same in all processes.

    Raises:
      AssertionError: the names differ.

    Example:
      >>> from jax.experimental import multihost_utils
      >>> multihost_utils.sync_global_devices('data is there')
    """
    if xla_bridge.process_count() == 1:
        return
    headers = _compare_headers("sync_global_devices", None, [], name, raises=False)
    different = _different(headers)
    if different:
        raise AssertionError(
            f"sync_global_devices name mismatch ('{name}'): processes {different} are at another"
            " point of the program, or pass another name."
        )


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Checks that all processes have the same values.

    Args:
      in_tree: a pytree of arrays and numbers. NaN is not equal to itself. Arrays whose shards are
        in several processes are one value, which is not compared.
      fail_message: the beginning of the error.

    Raises:
      AssertionError: the values differ.

    Example:
      >>> from jax.experimental import multihost_utils
      >>> multihost_utils.assert_equal({'steps': 100})
    """
    if xla_bridge.process_count() == 1:
        return
    in_tree = tree_map(lambda x: None if _is_in_several_processes(x) else x, in_tree)
    leaves, treedef = _host_leaves(in_tree, "assert_equal")
    headers = _compare_headers("assert_equal", treedef, leaves, raises=False)
    prefix = f"{fail_message}. " if fail_message else ""
    if different := _different(headers):
        raise AssertionError(
            f"{prefix}Processes {different} have trees with another structure, other shapes or dtypes"
            f" than this one: {_description(treedef, leaves)}"
        )
    paths = [path for path, _ in tree_flatten_with_path(in_tree)[0]]
    for path, value, rows in zip(paths, leaves, _gather_leaves(leaves, None)):
        if not all(np.array_equal(row, value) for row in rows):
            where = "".join(map(str, path))
            raise AssertionError(
                f"{prefix}Expected: {rows.reshape(-1, *value.shape[1:])}; got: {value}."
                + (f" (at {where})" if where else "")
            )


def _is_in_several_processes(x: Any) -> bool:
    return isinstance(x, ArrayImpl) and not x._sharding.is_fully_addressable


def _whole(x: ArrayImpl, tiled: bool) -> np.ndarray:
    """The value of an array whose shards are in several processes."""
    if isinstance(x.dtype, dtypes.ExtendedDType):
        return np.asarray(x)  # an error
    sharding: Any = x._sharding
    if sharding.is_fully_replicated:
        return np.asarray(x)
    if not tiled:
        raise ValueError(
            "Gathering global non-fully-addressable arrays only supports tiled=True, which returns"
            f" the whole array; got an array of shape {x.shape} with sharding {sharding}"
        )
    if isinstance(sharding, NamedSharding):
        replicated: Any = sharding.update(spec=PartitionSpec())
    else:
        replicated = GSPMDSharding.get_replicated(
            sharding._device_assignment, memory_kind=sharding.memory_kind
        )
    return np.asarray(identity_program(replicated, ())(x))


def _host_leaves(tree: Any, name: str) -> tuple[list[np.ndarray], Any]:
    leaves, treedef = tree_flatten(tree)
    if xla_bridge.process_count() == 1:  # nothing becomes an array of a device
        return [np.asarray(leaf) for leaf in leaves], treedef
    out = []
    for leaf in leaves:
        try:
            dtype = core.typeof(leaf).dtype
        except TypeError as e:
            raise TypeError(
                f"{name} exchanges arrays of numbers, and got {leaf!r} of type {type(leaf)}. Encode"
                " other data as an array of bytes."
            ) from e
        out.append(np.asarray(leaf).astype(dtype, copy=False))
    return out, treedef


# What the processes are about to do


def _description(treedef: Any, leaves: list[np.ndarray]) -> str:
    types = ", ".join(f"{x.dtype.name}{list(x.shape)}" for x in leaves)
    return f"{treedef} of {types}" if treedef is not None else types


def _compare_headers(
    name: str, treedef: Any, leaves: list[np.ndarray], extra: Any = "", raises: bool = True
) -> np.ndarray:
    """Tells the other processes what this one is about to do, and returns what all do.

    The last word is 1 if `extra` is True, which need not be the same in all.
    """
    flag = extra is True
    description = _description(treedef, leaves)
    text = f"{name} {description}" + ("" if isinstance(extra, bool) else f" {extra}")
    digest = hashlib.blake2b(text.encode(), digest_size=4 * (_WORDS_OF_HEADER - 1)).digest()
    headers = _gather(np.append(np.frombuffer(digest, np.uint32), np.uint32(flag)))
    if raises and (different := _different(headers)):
        raise ValueError(
            f"{name}: processes {different} call another function here, or pass a tree with another"
            f" structure, other shapes or dtypes than process {xla_bridge.process_index()}, which"
            f" passes {description}."
        )
    return headers


def _different(headers: np.ndarray) -> list[int]:
    """The processes whose header is not that of this process."""
    own = headers[xla_bridge.process_index()]
    return [i for i, h in enumerate(headers) if (h[:-1] != own[:-1]).any()]


# Words


def _gather_leaves(leaves: list[np.ndarray], name: str | None) -> list[np.ndarray]:
    """For each leaf those of all processes, along a new first dimension."""
    if xla_bridge.process_count() == 1:
        return [x[None] for x in leaves]
    if name is not None:
        _compare_headers(name, None, leaves)
    rows = [_unpack(row, leaves) for row in _gather(_pack(leaves))]
    return [np.stack(values) for values in zip(*rows)]


def _pack(leaves: list[np.ndarray]) -> np.ndarray:
    content = b"".join(np.ascontiguousarray(x).tobytes() for x in leaves)
    return np.frombuffer(content + b"\0" * (-len(content) % 4), np.uint32)


def _unpack(words: np.ndarray, leaves: list[np.ndarray]) -> list[np.ndarray]:
    content = words.tobytes()
    out, start = [], 0
    for x in leaves:
        end = start + x.nbytes
        out.append(np.frombuffer(content[start:end], x.dtype).reshape(x.shape))
        start = end
    return out


def _gather(words: np.ndarray) -> np.ndarray:
    """The words of all processes, one below the other."""
    if not words.size:
        return np.zeros((xla_bridge.process_count(), 0), np.uint32)
    mesh = Mesh(np.array(xla_bridge.devices()), ("devices",))
    return gather_rows(words, NamedSharding(mesh, PartitionSpec()))
