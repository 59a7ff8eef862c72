"""Functions of sparse arrays in any format."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from jax._src import tree_util
from jax._src.basearray import Array
from jax._src.interpreters import batching
from jax._src.lax import lax
from jax._src.numpy.util import to_array
from jax._src.sparse.base import JAXSparse
from jax._src.sparse.bcoo.array import BCOO
from jax._src.sparse.bcsr import BCSR
from jax._src.sparse.coo import COO
from jax._src.sparse.csr import CSC, CSR
from jax._src.sparse.primitive import buffer_primitive
from jax._src.transforms.vmap import vmap
from jax._src.typing import DTypeLike
from jax._src.util import set_module

MODULE = "jax.experimental.sparse.api"

# The classes by the names of their formats.
_FORMATS: dict[str, Any] = {"bcsr": BCSR, "bcoo": BCOO, "coo": COO, "csr": CSR, "csc": CSC}


def _todense(*buffers: Any, tree: Any) -> Any:
    arr = tree_util.tree_unflatten(tree, buffers)
    return arr.todense() if isinstance(arr, JAXSparse) else arr


def _todense_batch(size: int, args: Any, dims: Any, *, tree: Any) -> Any:
    arr = tree_util.tree_unflatten(tree, args)
    if not isinstance(arr, JAXSparse):
        return args, {"tree": tree}, dims[0]
    front = [
        batching.moveaxis(x, d, 0) if d is not None else lax.expand_dims(x, (0,))
        for x, d in zip(args, dims)
    ]
    info = {**arr.tree_flatten()[1], "shape": (size, *arr.shape)}
    new = type(arr).tree_unflatten(info, front)
    return front, {"tree": tree_util.tree_structure(new)}


todense_p = buffer_primitive("todense", _todense, linear=(0,), batch=_todense_batch)
_batch_of_batched = todense_p.axis_batch


def _axis_batch(axis_data: Any, args: Any, dims: Any, *, tree: Any) -> Any:
    arr = tree_util.tree_unflatten(tree, args)
    if isinstance(arr, (BCOO, BCSR)) or not isinstance(arr, JAXSparse):
        return _batch_of_batched(axis_data, args, dims, tree=tree)
    # Other formats have no batch dimensions.
    return vmap(lambda *buffers: _todense(*buffers, tree=tree), dims)(*args), 0


todense_p.axis_batch = _axis_batch


@set_module(MODULE)
def todense(arr: JAXSparse | Array) -> Array:
    """Convert a sparse array to a dense one; a dense array is returned as it is.

    >>> from jax.experimental import sparse
    >>> sparse.todense(sparse.eye(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    buffers, tree = tree_util.tree_flatten(arr)
    return todense_p.bind(*map(to_array, buffers), tree=tree)


@set_module(MODULE)
def empty(
    shape: Sequence[int],
    dtype: DTypeLike | None = None,
    index_dtype: DTypeLike = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> JAXSparse:
    """Make a sparse array of zeros.

    Args:
      shape: its shape.
      dtype: type of its elements.
      index_dtype: type of its indices.
      sparse_format: name of the format, such as `"bcoo"`.
      **kwds: options of the format: `nse`, `n_batch` and `n_dense` of BCOO.

    Returns:
      Sparse array.

    Raises:
      ValueError: if there is no such format.

    >>> from jax.experimental import sparse
    >>> sparse.empty((2, 3), nse=4)
    BCOO(float32[2, 3], nse=4)
    """
    if sparse_format not in _FORMATS:
        raise ValueError(f"{sparse_format=} not recognized; must be one of {list(_FORMATS)}")
    return _FORMATS[sparse_format]._empty(shape, dtype=dtype, index_dtype=index_dtype, **kwds)


@set_module(MODULE)
def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: DTypeLike | None = None,
    index_dtype: DTypeLike = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> JAXSparse:
    """Make a sparse matrix with ones on a diagonal.

    Args:
      N: number of rows.
      M: number of columns; by default `N`.
      k: the diagonal: 0 is the main one, those above it are positive.
      dtype: type of its elements.
      index_dtype: type of its indices.
      sparse_format: name of the format.
      **kwds: options of the format: `n_batch` and `n_dense` of BCOO.

    Returns:
      Sparse array.

    Raises:
      KeyError: if there is no such format.

    >>> from jax.experimental import sparse
    >>> sparse.eye(2, 3, k=1).todense().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    N = operator.index(N)
    if sparse_format == "bcsr":
        return BCSR.from_bcoo(eye(N, M, k, dtype, index_dtype, **kwds))
    M = N if M is None else operator.index(M)
    return _FORMATS[sparse_format]._eye(
        N, M, operator.index(k), dtype=dtype, index_dtype=index_dtype, **kwds
    )
