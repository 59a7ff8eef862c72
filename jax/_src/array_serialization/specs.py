"""Tensorstore specs: where an array is stored, and how."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.array_impl import ArrayImpl

DEFAULT_DRIVER = "zarr3"
FILE_SIZE_TARGET = 2 * 1024**3
_TOLERANCE = 1.1
PROCESS_FOLDER = "process_{}"
REMOTE_PREFIXES = ("gs://", "s3://")
_REMOTE_DRIVERS = ("gcs", "s3")


def get_tensorstore_spec(
    ckpt_path: str | os.PathLike[str],
    ocdbt: bool = True,
    process_idx: int | None = None,
    arr: ArrayImpl | None = None,
    driver: str = DEFAULT_DRIVER,
) -> dict[str, Any]:
    """The tensorstore spec of an array in a checkpoint.

    Args:
      ckpt_path: the array's path: of a local file system, ``gs://`` or ``s3://``.
      ocdbt: whether the array is in a database that it shares with the arrays of the same folder,
        which takes fewer files. The path must then be absolute.
      process_idx: of the process that writes, if each of them has a folder of its own.
      arr: an array whose shape, dtype and sharding determine the metadata. If None, they are
        determined when an array is written.
      driver: tensorstore's driver, ``"zarr3"`` or ``"zarr"``.

    Returns:
      A spec as a dictionary.

    Raises:
      ValueError: the path is relative or has no bucket, or the driver is unknown.

    Example:
      >>> from jax.experimental.array_serialization import tensorstore_impl
      >>> tensorstore_impl.get_tensorstore_spec('/tmp/step_100/weights', ocdbt=False)
      {'driver': 'zarr3', 'kvstore': {'driver': 'file', 'path': '/tmp/step_100/weights'}}
    """
    path = os.fspath(ckpt_path)
    remote = path.startswith(REMOTE_PREFIXES)
    if remote:
        scheme, rest = path.split("://", 1)
        path = f"{scheme}://{os.path.normpath(rest)}"
    else:
        path = os.path.normpath(path)
    if process_idx is not None:
        folder, name = os.path.split(path)
        path = os.path.join(folder, PROCESS_FOLDER.format(process_idx), name)
    spec: dict[str, Any] = {"driver": driver}
    if ocdbt:
        folder, name = os.path.split(path)
        if not remote and not os.path.isabs(folder):
            raise ValueError(f"Checkpoint path should be absolute. Got {folder}")
        spec["kvstore"] = {"driver": "ocdbt", "base": base_kvstore(folder), "path": name}
    else:
        spec["kvstore"] = base_kvstore(path)
    if arr is not None:
        spec["metadata"] = array_metadata(arr, driver=driver)
    return spec


def base_kvstore(path: str) -> dict[str, Any]:
    """The key-value store of a folder, local or remote."""
    if path.startswith("gs://"):
        return gcs_kvstore(path)
    if path.startswith("s3://"):
        return s3_kvstore(path)
    return {"driver": "file", "path": path}


def gcs_kvstore(ckpt_path: str) -> dict[str, Any]:
    return _bucket_kvstore("gcs", r"gs://([^/]+)/(.+)", ckpt_path)


def s3_kvstore(ckpt_path: str) -> dict[str, Any]:
    return _bucket_kvstore("s3", r"s3://([^/]+)/(.+)", ckpt_path)


def _bucket_kvstore(driver: str, pattern: str, path: str) -> dict[str, Any]:
    match = re.fullmatch(pattern, path, re.DOTALL)
    if match is None:
        raise ValueError(
            "The ckpt_path should contain the bucket name and the file path inside the bucket."
            f" Got: {path}"
        )
    return {"driver": driver, "bucket": match[1], "path": match[2]}


def is_remote_storage(tspec: dict[str, Any] | str) -> bool:
    """Whether a spec or a URL names a bucket of Google Cloud Storage or S3."""
    if isinstance(tspec, str):
        return tspec.startswith(REMOTE_PREFIXES)
    if isinstance(tspec, dict):
        return tspec.get("driver") in _REMOTE_DRIVERS or any(
            is_remote_storage(tspec[key])
            for key in ("base", "kvstore")
            if isinstance(tspec.get(key), (dict, str))
        )
    return False


def spec_has_metadata(tree: Any) -> bool:
    """Whether a spec says how the array is stored, at any level."""
    return isinstance(tree, dict) and (
        "metadata" in tree or any(spec_has_metadata(value) for value in tree.values())
    )


def is_tensorstore_spec_leaf(leaf: Any) -> bool:
    """Whether an object is a leaf of a tree of specs: a spec, or None for the default."""
    return leaf is None or (isinstance(leaf, dict) and ("driver" in leaf or "kvstore" in leaf))


def merge_nested_ts_specs(dict1: dict[Any, Any], dict2: dict[Any, Any] | None) -> dict[Any, Any]:
    """Merges two specs: entries of the second take precedence, in ``kvstore`` one by one."""
    if dict2 is None:
        return dict1
    kvstore = dict1.get("kvstore", {}) | dict2.get("kvstore", {})
    return dict1 | dict2 | {"kvstore": kvstore}


def verify_tensorstore_spec(
    spec: dict[str, Any],
    arr: ArrayImpl | None,
    path: str | os.PathLike[str],
    ocdbt: bool,
    check_metadata: bool = True,
) -> None:
    """Checks that a spec is for an array at a path.

    Args:
      spec: the spec, as a dictionary.
      arr: the array; only needed to check the metadata.
      path: the array's path.
      ocdbt: whether the array has to be in a database.
      check_metadata: whether to compare the shape and the dtype.

    Raises:
      ValueError: the spec is for another path, kind of storage, shape or dtype.
    """
    kvstore = spec.get("kvstore", {})
    if ocdbt and kvstore.get("driver") != "ocdbt":
        raise ValueError(f"Expected ocdbt driver, got {spec=}")
    if not check_metadata:
        metadata = None
    elif arr is None:
        raise ValueError("Array is required for metadata verification.")
    elif not isinstance(metadata := spec.get("metadata"), dict):
        raise ValueError(f"The spec has no metadata to be verified: {spec=}")
    if metadata is not None:
        shape, dtype = metadata.get("shape"), metadata.get("data_type", spec.get("dtype"))
        if shape is not None and tuple(shape) != arr.shape:
            raise ValueError(
                f"Provided shape (metadata['shape']={shape}) doesn't match ({arr.shape=})"
            )
        if dtype is not None and dtype != arr.dtype.name:
            raise ValueError(
                f"Provided dtype (metadata['data_type']={dtype!r}) doesn't match ({arr.dtype=})"
            )
    if _path_of_kvstore(kvstore) != _path_of_kvstore(base_kvstore(os.fspath(path))):
        raise ValueError(f"Provided {path=} does not match the spec path: {kvstore}")


def _path_of_kvstore(kvstore: Any) -> tuple[Any, ...]:
    """The driver of the storage, its bucket and the path there."""
    if isinstance(kvstore, str):
        return ("url", None, kvstore)
    if "base" in kvstore:
        driver, bucket, folder = _path_of_kvstore(kvstore["base"])
        path = os.path.join(folder, kvstore.get("path", ""))
    else:
        driver, bucket = kvstore.get("driver"), kvstore.get("bucket")
        path = kvstore.get("path", "")
    return driver, bucket, os.path.normpath(path)


# Metadata


def array_metadata(
    arr: ArrayImpl,
    is_remote: bool = False,
    file_size_target: int = FILE_SIZE_TARGET,
    driver: str = DEFAULT_DRIVER,
) -> dict[str, Any]:
    """The metadata with which an array is stored.

    Each shard is stored in chunks of its own, so that devices and processes do not share any.
    """
    shape = arr.shape
    local = arr.sharding.shard_shape(shape) if isinstance(arr, ArrayImpl) else shape
    return cached_metadata(
        tuple(shape), stored_dtype(arr.dtype), tuple(local), is_remote, file_size_target, driver
    )


def stored_dtype(dtype: Any) -> np.dtype:
    if isinstance(dtype, dtypes.ExtendedDType):
        raise TypeError(
            f"Cannot interpret '{dtype}' as a data type of stored arrays. Store the array"
            " jax.random.key_data(keys), and apply jax.random.wrap_key_data to it after loading."
        )
    return np.dtype(dtype)


@functools.lru_cache(maxsize=4096)
def cached_metadata(
    global_shape: Sequence[int],
    dtype: np.dtype,
    local_shape: Sequence[int],
    is_remote: bool = False,
    file_size_target: int = FILE_SIZE_TARGET,
    driver: str = DEFAULT_DRIVER,
) -> dict[str, Any]:
    if driver == "zarr3":
        chunks = compute_chunk_shape(local_shape, dtype, file_size_target)
        return {
            "codecs": [{"name": "zstd"}] if is_remote else [],
            "shape": global_shape,
            "data_type": dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        }
    if driver == "zarr":
        return {
            "compressor": {"id": "zstd"},
            "shape": global_shape,
            "chunks": [max(1, size) for size in local_shape],
        }
    raise ValueError(f"Unsupported driver: {driver}")


@functools.lru_cache(maxsize=4096)
def compute_chunk_shape(
    local_shape: Sequence[int],
    dtype: str | np.dtype,
    file_size_target: int = FILE_SIZE_TARGET,
) -> list[int]:
    """The shape of the chunks of a shard: about `file_size_target` bytes at most, where possible.

    A dimension is divided by its prime factors but the largest. The smallest factor of all
    dimensions comes first.
    """
    shape = [max(1, size) for size in local_shape]
    size = math.prod(shape) * np.dtype(dtype).itemsize
    factors = [(f, i) for i, d in enumerate(shape) for f in prime_factors(d)[:-1]]
    for factor, axis in sorted(factors):
        if size <= _TOLERANCE * file_size_target:
            break
        shape[axis] //= factor
        size //= factor
    return shape


def prime_factors(x: int) -> list[int]:
    """The prime factors of a positive integer, in ascending order."""
    factors = []
    divisor = 2
    while divisor * divisor <= x:
        while x % divisor == 0:
            factors.append(divisor)
            x //= divisor
        divisor += 1
    return [*factors, x] if x > 1 else factors
