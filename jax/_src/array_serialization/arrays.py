"""Writing and reading sharded arrays: each process its shards, all arrays at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

import numpy as np

from jax._src import config, core, dtypes, tree_util, xla_bridge as xb
from jax._src.array import make_array_from_single_device_arrays
from jax._src.array_impl import ArrayImpl, Shard
from jax._src.array_serialization import specs
from jax._src.array_serialization.ts import (
    CHUNK_CACHE,
    CHUNK_LAYOUT,
    CONTEXT,
    chunk_caching_context,
    fresh_context,
    tensorstore as ts,
)
from jax._src.device_put.functions import device_put
from jax._src.layout import Format, Layout
from jax._src.lib import Device
from jax._src.sharding import Sharding
from jax._src.sharding_impls import hashed_index, make_single_device_sharding

T = TypeVar("T")
Index = tuple[slice, ...]
Shape = tuple[int, ...]

_GIGABYTE = 10**9
_ALIGNMENT = 64  # of memory that arrays on the CPU may share


class ByteLimiter:
    """Lets coroutines wait until the bytes they are about to use are within a limit.

    A request for more than the limit waits until no others are there.

    Args:
      host_memory_bytes_limit: the limit.
    """

    def __init__(self, host_memory_bytes_limit: int):
        self._max_bytes = host_memory_bytes_limit
        self._available_bytes = host_memory_bytes_limit
        self._cv = asyncio.Condition()

    async def wait_for_bytes(self, requested_bytes: int) -> None:
        needed = min(requested_bytes, self._max_bytes)
        async with self._cv:
            await self._cv.wait_for(lambda: self._available_bytes >= needed)
            self._available_bytes -= needed

    async def release_bytes(self, requested_bytes: int) -> None:
        async with self._cv:
            released = min(requested_bytes, self._max_bytes)
            if self._available_bytes + released > self._max_bytes:
                raise ValueError(
                    f"release_bytes({requested_bytes}): only"
                    f" {self._max_bytes - self._available_bytes} bytes are in use"
                )
            self._available_bytes += released
            self._cv.notify_all()


# Writing


class HostShard(NamedTuple):
    """A part of an array in the host's memory."""

    index: Index
    data: np.ndarray


def host_shards(arr: Any, replica_id: int = 0) -> list[HostShard]:
    """The shards of an array that this process has to write.

    They stay valid when the array is deleted or donated. On the CPU they share its memory.
    """
    if not isinstance(arr, ArrayImpl):
        raise AttributeError(
            f"only arrays of jax.Array can be stored, got {type(arr)}: apply jnp.asarray first"
        )
    arr._check_if_deleted()
    shards = [s for s in arr.addressable_shards if s.replica_id == replica_id]
    for shard in shards:
        shard.data.copy_to_host_async()
    return [HostShard(shard.index, np.asarray(shard.data)) for shard in shards]


async def transfer_shard_to_host(shard: Shard) -> np.ndarray:
    """The data of a shard in the host's memory."""
    shard.data.copy_to_host_async()
    await asyncio.sleep(0)  # lets the others start their transfers
    return np.asarray(shard.data)


def complete_spec(tensorstore_spec: Any, arr: Any) -> Any:
    """The spec with which an array is created: what it leaves open follows from the array.

    Raises:
      ValueError: the driver is unknown or cannot store the array's dtype.
    """
    if isinstance(tensorstore_spec, ts.Spec):
        return tensorstore_spec
    dtype = specs.stored_dtype(arr.dtype)
    driver = tensorstore_spec.get("driver")
    metadata = tensorstore_spec.get("metadata", {})
    spec = dict(tensorstore_spec)
    if driver in ("zarr", "zarr3"):
        is_remote = specs.is_remote_storage(tensorstore_spec)
        spec["metadata"] = specs.array_metadata(arr, is_remote, driver=driver) | metadata
        if not _can_store(driver, dtype.name):
            is_unsigned = dtypes.issubdtype(dtype, np.unsignedinteger)
            is_integer = dtypes.issubdtype(dtype, np.integer)
            wider = "uint8" if is_unsigned else "int8" if is_integer else "float32"
            raise ValueError(
                f"the dtype {dtype.name} cannot be stored by tensorstore's driver {driver!r}. Store"
                f" the array as another dtype, x.astype('{wider}'), and apply"
                f" .astype('{dtype.name}') to it after loading."
            )
    elif not specs.spec_has_metadata(tensorstore_spec):
        raise ValueError(f"Unsupported driver: {driver}. Use 'zarr3' or 'zarr'.")
    if driver != "zarr3":
        spec.setdefault("dtype", dtype.name)
    return spec


@functools.cache
def _can_store(driver: str, dtype: str) -> bool:
    choice = {"metadata": {"data_type": dtype}} if driver == "zarr3" else {"dtype": dtype}
    try:
        ts.Spec({"driver": driver, "kvstore": "memory://", **choice})
    except ValueError:
        return False
    return True


def check_not_local(arr: Any, tensorstore_spec: Any) -> None:
    """Refuses arrays that every process would write to the same place."""
    if xb.process_count() > 1 and arr.is_fully_addressable:
        where = tensorstore_spec
        if isinstance(tensorstore_spec, dict):
            where = tensorstore_spec.get("kvstore", tensorstore_spec)
        raise ValueError(
            "Passing fully addressable arrays to a multiprocess serialization is not allowed, as"
            " this may lead to a race condition between processes. Serialization have failed for"
            f' the array with the path from kvstore: "{where}". Make it an array over all'
            " processes, such as one with a replicated sharding."
        )


async def async_serialize(
    arr_inp: ArrayImpl,
    tensorstore_spec: Any,
    commit_future: list[Any] | None = None,
    context: Any = CONTEXT,
    chunk_layout: Any = CHUNK_LAYOUT,
    primary_host: int | None = None,
    replica_id: int = 0,
    transaction: Any = None,
) -> None:
    """Writes an array; each process writes its shards.

    Args:
      arr_inp: the array.
      tensorstore_spec: where it is written, see `get_tensorstore_spec`. It is not modified.
      commit_future: a list to which the futures of what is not written yet are added. If None,
        everything is written when the coroutine ends.
      context: tensorstore's shared resources.
      chunk_layout: limits on the sizes of chunks, where the metadata leaves them open.
      primary_host: the process that creates the array. If None, whichever comes first.
      replica_id: which of the copies of a part is written.
      transaction: a tensorstore transaction, with which the array becomes visible.

    Raises:
      TypeError: the array has no dtype that can be stored, such as random keys.
      ValueError: the array is local to one of several processes, the driver cannot store its
        dtype, or a different array is stored there already.

    Example:
      >>> import asyncio, tempfile
      >>> from jax.experimental.array_serialization import tensorstore_impl as ts_impl
      >>> with tempfile.TemporaryDirectory() as folder:
      ...   spec = ts_impl.get_tensorstore_spec(folder + '/x')
      ...   asyncio.run(ts_impl.async_serialize(jnp.arange(3), spec))
      ...   asyncio.run(ts_impl.async_deserialize(jnp.arange(3).sharding, spec))
      Array([0, 1, 2], dtype=int32)
    """
    check_not_local(arr_inp, tensorstore_spec)
    spec = ts.Spec(complete_spec(tensorstore_spec, arr_inp))
    shards = host_shards(arr_inp, replica_id)
    await write_shards(
        spec, shards, commit_future, context, chunk_layout, primary_host, transaction
    )


async def write_shards(
    spec: Any,
    shards: Sequence[HostShard],
    commit_future: list[Any] | None = None,
    context: Any = CONTEXT,
    chunk_layout: Any = CHUNK_LAYOUT,
    primary_host: int | None = None,
    transaction: Any = None,
) -> None:
    """Creates an array and writes shards of it."""
    settings = dict(context=context, chunk_layout=chunk_layout, transaction=transaction)
    if primary_host is None or xb.process_index() == primary_host:
        created = ts.open(spec, create=True, open=True, **settings)
        if commit_future is None:
            await created  # nothing is written over an array of another shape
        else:
            commit_future.append(created)
    # The metadata are known: no need to wait for the file.
    store = await ts.open(spec, open=True, assume_metadata=True, **settings)
    # The shards are immutable: tensorstore need not copy them.
    writes = [
        store[shard.index].write(shard.data, can_reference_source_data_indefinitely=True)
        for shard in shards
    ]
    if commit_future is None:
        await gather(write.commit for write in writes)
    else:
        commit_future.extend(write.commit for write in writes)
        await gather(write.copy for write in writes)


# Reading


async def create_async_array_from_callback(
    global_shape: Shape,
    dtype: Any,
    inp_sharding: Sharding,
    data_callback: Callable[[Index, Device], Awaitable[ArrayImpl]],
) -> ArrayImpl:
    """Makes an array from a coroutine that returns the shard for an index and a device."""
    indices = inp_sharding.addressable_devices_indices_map(tuple(global_shape))
    shards = await gather(data_callback(i, d) for d, i in indices.items())
    return make_array_from_single_device_arrays(
        tuple(global_shape), inp_sharding, shards, dtype=dtype
    )


class _Target(NamedTuple):
    """What is asked for: a sharding, and perhaps a layout and a dtype."""

    sharding: Sharding
    layout: Layout | None
    dtype: Any


def sharding_of(in_type: Any) -> Any:
    """The sharding that is asked for; anything else if none is."""
    place = in_type.format if isinstance(in_type, core.ShapeDtypeStruct) else in_type
    return place.sharding if isinstance(place, Format) else place


def _target(in_type: Any) -> _Target:
    dtype = layout = None
    sharding = sharding_of(in_type)
    if isinstance(in_type, core.ShapeDtypeStruct):
        dtype, layout = in_type.dtype, in_type.format.layout
    elif isinstance(in_type, Format):
        layout = in_type.layout
    if not isinstance(sharding, Sharding):
        raise TypeError(
            "sharding passed to deserialization should be specified, concrete and an instance of"
            f" `jax.sharding.Sharding`. Got {sharding if sharding is not None else in_type}"
        )
    if layout is not None and not isinstance(layout, Layout):
        raise ValueError(
            "sharding and layout in `Format` instance should be concrete. Got layout:"
            f" {Format(layout, sharding)}"
        )
    return _Target(sharding, layout, dtype)


def estimate_read_memory_footprint(t: Any, domain: Any) -> int:
    """The bytes of the chunks that have to be read for a part of an array."""
    chunks = t.chunk_layout.read_chunk_template
    if chunks is None or not domain.rank:
        return t.dtype.numpy_dtype.itemsize * math.prod(domain.shape)
    count = 1
    for first, size, start, chunk in zip(domain.origin, domain.shape, chunks.origin, chunks.shape):
        if not size:
            return 0
        begin = (first - start) // chunk * chunk
        end = -(-(first + size - start) // chunk) * chunk
        count *= end - begin
    return t.dtype.numpy_dtype.itemsize * count


async def async_deserialize(
    in_type: Sharding | Format | core.ShapeDtypeStruct,
    tensorstore_spec: Any,
    global_shape: Sequence[int] | None = None,
    dtype: Any = None,
    byte_limiter: ByteLimiter | None = None,
    context: Any = CONTEXT,
    chunk_layout: Any = CHUNK_LAYOUT,
    assume_metadata: bool = False,
) -> ArrayImpl:
    """Reads an array; each process reads what its devices hold.

    Args:
      in_type: the sharding of the result, or a `Format`, or a `jax.ShapeDtypeStruct` with one of
        these. The latter's dtype is used, its shape is not. The sharding need not be that with
        which the array was written.
      tensorstore_spec: where the array is stored.
      global_shape: the shape of the result. Where it is larger than the stored one, the result is
        filled with zeros; where it is smaller, the array is cut off. By default, the stored shape.
      dtype: the dtype of the result. By default, that of `in_type` or of the stored array.
      byte_limiter: limits the bytes that are read at the same time.
      context: tensorstore's shared resources.
      chunk_layout: limits on the sizes of chunks.
      assume_metadata: use the metadata of the spec without reading those that are stored.

    Raises:
      TypeError: there is no concrete sharding.
      ValueError: there is no such array, it is damaged, its shape cannot be sharded like this, or
        `global_shape` has another number of dimensions.
    """
    return await read_array(
        in_type,
        tensorstore_spec,
        global_shape,
        dtype,
        byte_limiter,
        fresh_context() if context is CONTEXT else context,
        context is CONTEXT,
        chunk_layout,
        assume_metadata,
    )


async def read_array(
    in_type: Any,
    tensorstore_spec: Any,
    global_shape: Sequence[int] | None,
    dtype: Any,
    byte_limiter: ByteLimiter | None,
    context: Any,
    is_fresh: bool = True,
    chunk_layout: Any = CHUNK_LAYOUT,
    assume_metadata: bool = False,
) -> ArrayImpl:
    """See `async_deserialize`.

    If `is_fresh`, the context was made by `fresh_context`: only chunks that several devices share
    are cached, as long as the array is read.
    """
    target = _target(in_type)
    if is_fresh and isinstance(tensorstore_spec, dict):
        tensorstore_spec = {"cache_pool": CHUNK_CACHE} | tensorstore_spec

    def open_store(context: Any) -> Any:
        return ts.open(
            ts.Spec(tensorstore_spec),
            open=True,
            assume_metadata=assume_metadata,
            context=context,
            chunk_layout=chunk_layout,
        )

    store = await open_store(context)
    shape = tuple(store.shape if global_shape is None else map(int, global_shape))
    if len(shape) != store.rank:
        raise ValueError(
            f"global_shape={shape} has {len(shape)} dimensions, but the stored array has the shape"
            f" {tuple(store.shape)}."
        )
    if dtype is None:
        dtype = target.dtype
    dtype = dtypes.canonicalize_dtype(store.dtype.numpy_dtype if dtype is None else dtype)
    target.sharding.shard_shape(shape)  # raises an error if the shape cannot be divided

    devices: dict[Any, list[Device]] = {}
    indices = target.sharding.addressable_devices_indices_map(shape)
    for device, index in indices.items():
        devices.setdefault(hashed_index(index), []).append(device)

    parts = [_Part.of(store, shape, indices[group[0]]) for group in devices.values()]
    if is_fresh and any(part.cost > part.size for part in parts):  # they share chunks
        store = await open_store(chunk_caching_context(context))

    async def read(part: _Part, group: list[Device]) -> list[tuple[Device, ArrayImpl]]:
        # Devices that hold the same part share what is read.
        data = await _read_part(store, part, dtype, byte_limiter)
        return [(device, _on_device(data, device, target)) for device in group]

    placed = await gather(map(read, parts, devices.values()))
    shards = dict(shard for group in placed for shard in group)
    arrays = [shards[device] for device in indices]
    return make_array_from_single_device_arrays(shape, target.sharding, arrays, dtype=dtype)


class _Part(NamedTuple):
    """A part of an array: what is wanted, what of it is stored, and the bytes to be read."""

    wanted: Any
    stored: Any
    size: int
    cost: int

    @staticmethod
    def of(store: Any, shape: Shape, index: Index) -> _Part:
        wanted = ts.IndexTransform(input_shape=shape)[index].domain
        stored = store.domain.intersect(wanted)
        size = store.dtype.numpy_dtype.itemsize * stored.size
        return _Part(wanted, stored, size, estimate_read_memory_footprint(store, stored))


async def _read_part(
    store: Any, part: _Part, dtype: Any, byte_limiter: ByteLimiter | None
) -> np.ndarray:
    """Reads a part of an array into new memory."""
    wanted, stored, _, cost = part
    stored_dtype = store.dtype.numpy_dtype
    if byte_limiter is not None:
        await byte_limiter.wait_for_bytes(cost)
    try:
        out = _aligned_empty(wanted.shape, stored_dtype)
        if stored != wanted:
            out[...] = np.zeros((), stored_dtype)
        if stored.size:
            await ts.array(out)[ts.d[:].translate_to[wanted.origin]][stored].write(store[stored])
    finally:
        if byte_limiter is not None:
            await byte_limiter.release_bytes(cost)
    return out if stored_dtype == dtype else _converted(out, dtype)


def _converted(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """An array with another dtype. Tensorstore's conversion knows fewer dtypes, some wrongly."""
    try:
        return x.astype(dtype)
    except TypeError:  # from int4 to int2, for instance
        wider = np.int32 if dtypes.issubdtype(x.dtype, np.integer) else np.float32
        return x.astype(wider).astype(dtype)


def _aligned_empty(shape: Shape, dtype: Any) -> np.ndarray:
    """New memory that an array on the CPU can use without a copy."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def _on_device(data: np.ndarray, device: Device, target: _Target) -> ArrayImpl:
    sharding = make_single_device_sharding(device, memory_kind=target.sharding.memory_kind)
    place = sharding if target.layout is None else Format(target.layout, sharding)
    return device_put(data, place)


# Several arrays


async def gather(awaitables: Iterable[Awaitable[Any]]) -> list[Any]:
    """The results of all awaitables; if some fail, the first error when all have ended."""
    results = await asyncio.gather(*awaitables, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def wait_for_all(futures: Sequence[Any]) -> None:
    """Waits for all of tensorstore's futures; if some fail, raises the first error at the end.

    A KeyboardInterrupt is raised at the end as well: then nothing is being written any more. A
    second one is raised at once.
    """
    try:
        for future in futures:
            future.force()
        errors = [future.exception() for future in futures]
    except KeyboardInterrupt:
        for future in futures:
            future.exception()
        raise
    for error in errors:
        if error is not None:
            raise error


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end.

    From the main thread it runs in another one. There may be an event loop in the main thread, such
    as in notebooks; and Ctrl-C would raise KeyboardInterrupt anywhere within the event loop, which
    then may wait for ever.
    """
    if threading.current_thread() is not threading.main_thread() and not _has_event_loop():
        return asyncio.run(coroutine)
    result: Future[T] = Future()
    cancel: Callable[[], Any] = coroutine.close

    async def cancellable() -> T:
        nonlocal cancel
        task = asyncio.ensure_future(coroutine)
        cancel = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
        return await task

    def work() -> None:
        try:
            result.set_result(asyncio.run(cancellable()))
        except BaseException as err:
            result.set_exception(err)

    thread = threading.Thread(target=with_options_of_caller(work), name="jax_checkpoint")
    try:
        thread.start()
        return result.result()
    except KeyboardInterrupt:
        with contextlib.suppress(RuntimeError, ValueError):  # it is just beginning or has ended
            cancel()
        with contextlib.suppress(RuntimeError):  # it has not begun, and cannot any more
            thread.join()
        raise


def _has_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def with_options_of_caller(function: Callable[..., T]) -> Callable[..., T]:
    """`function` for another thread, with the options of this one that determine dtypes."""
    x64 = config.enable_x64.value

    def call(*args: Any) -> T:
        with config.enable_x64(x64):
            return function(*args)

    return call


def run_serialization(arrays: Any, tensorstore_specs: Any) -> None:
    """Writes arrays and waits until they are written.

    Args:
      arrays: a pytree of arrays, such as a list.
      tensorstore_specs: the specs, in the same structure; see `get_tensorstore_spec`.
    """
    leaves, tree = tree_util.tree_flatten(arrays)
    leaf_specs = leaves_like(tree, tensorstore_specs, "tensorstore_specs")
    context = fresh_context()
    run(gather(async_serialize(x, s, context=context) for x, s in zip(leaves, leaf_specs)))


def run_deserialization(
    shardings: Any,
    tensorstore_specs: Any,
    global_shapes: Any = None,
    dtypes: Any = None,
    concurrent_gb: int = 32,
) -> Any:
    """Reads arrays.

    Args:
      shardings: a pytree, such as a list, of what `async_deserialize` takes: shardings, formats or
        `jax.ShapeDtypeStruct`.
      tensorstore_specs: the specs, in the same structure; see `get_tensorstore_spec`.
      global_shapes: the shapes, if they are not the stored ones.
      dtypes: the dtypes, if they are not the stored ones.
      concurrent_gb: how many gigabytes are read at the same time, at most.

    Returns:
      The arrays, in the same structure.
    """
    leaves, tree = tree_util.tree_flatten(shardings, lambda x: x is None)
    leaf_specs = leaves_like(tree, tensorstore_specs, "tensorstore_specs")
    nothing = [None] * len(leaves)
    shapes = nothing
    if global_shapes is not None:
        shapes = leaves_like(tree, global_shapes, "global_shapes")
    types = nothing if dtypes is None else leaves_like(tree, dtypes, "dtypes")

    async def read() -> list[ArrayImpl]:
        limiter = ByteLimiter(concurrent_gb * _GIGABYTE)
        context = fresh_context()
        return await gather(
            read_array(leaf, spec, shape, dtype, limiter, context)
            for leaf, spec, shape, dtype in zip(leaves, leaf_specs, shapes, types)
        )

    return tree.unflatten(run(read()))


def leaves_like(tree: tree_util.PyTreeDef, values: Any, name: str) -> list[Any]:
    """The values that stand where `tree` has leaves; they may be dictionaries or tuples."""
    try:
        return tree.flatten_up_to(values)
    except (ValueError, TypeError) as err:
        raise ValueError(
            f"{name} must have one entry for each array, in the same structure: {err}"
        ) from None
