"""Helpers of the linear algebra primitives: batching, shape rules, small matrix operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.interpreters import batching
from jax._src.lax import lax, rules, slicing
from jax._src.lax.checks import check_dtypes
from jax._src.lax.lax import sharding as shardings
from jax._src.lax.slicing.gathers import take_along

# ---------------------------------------------------------------------------------------------------
# Primitives


def linalg_primitive(
    name: str,
    accepts: frozenset,
    ranks: Sequence[int],
    shape: Callable[..., Any],
    *,
    dtype: Callable[..., Any] | None = None,
    multiple_results: bool = False,
    same_dtypes: bool = True,
    element_sharding: Callable[..., Any] | None = None,
    lower: Any,
    jvp: Any = None,
    transpose: Any = None,
    batch: Any = None,
) -> core.Primitive:
    """Define a primitive on batches of vectors and matrices.

    Args:
      name: name of the primitive, as jaxprs print it.
      accepts: accepted kinds of dtypes.
      ranks: for each operand, its rank without batch dimensions.
      shape: `(*shapes, **params)` -> the result's shape (a list of shapes with `multiple_results`),
        all without batch dimensions. It raises ValueError or TypeError for invalid shapes.
      dtype: `(*dtypes, **params)` -> the result's dtype (a list); by default all results have the
        dtype of the first operand.
      same_dtypes: whether operands must have equal dtypes.
      element_sharding: `(*specs, **params)` -> the result's spec entries, all without batch
        dimensions; by default only batch dimensions may be sharded.
      lower, jvp, transpose, batch: see `rules.standard_primitive`.

    Returns:
      The primitive.
    """

    def full_shape(*avals, **params):
        check_dtypes(name, (accepts,) * len(avals), [a.dtype for a in avals], same_dtypes)
        lead = _batch_shape(name, avals, ranks)
        element = shape(*[a.shape[len(lead) :] for a in avals], **params)
        if multiple_results:
            return [(*lead, *s) for s in element]
        return (*lead, *element)

    def full_dtype(*avals, **params):
        if dtype is not None:
            return dtype(*[a.dtype for a in avals], **params)
        if not multiple_results:
            return avals[0].dtype
        n = len(shape(*[a.shape[a.ndim - r :] for a, r in zip(avals, ranks)], **params))
        return [avals[0].dtype] * n

    def sharding(*avals, **params):
        sharded = next(a for a in avals if a._sharding is not None)
        lead = len(sharded.shape) - ranks[avals.index(sharded)]
        batch = shardings.entries(sharded)[:lead]
        specs = []
        for a in avals:
            spec = (None,) * a.ndim if a._sharding is None else shardings.entries(a)
            if any(spec[:lead]) and any(batch) and spec[:lead] != batch:
                raise core.ShardingTypeError(
                    f"All inputs to {name} must have the same batch sharding, but got "
                    f"{', '.join(a.str_short() for a in avals)}. Make them agree with "
                    "`jax.sharding.reshard`."
                )
            batch = batch if any(batch) else spec[:lead]
            specs.append(spec[lead:])
        if element_sharding is not None:
            return shardings.with_entries(sharded, (*batch, *element_sharding(*specs, **params)))
        for i, spec in enumerate(specs):
            if any(spec):
                raise core.ShardingTypeError(
                    f"Input {i} to {name} must be unsharded on non-batch dimensions, but got "
                    f"{avals[i].sharding.spec}. Replicate them first with `jax.sharding.reshard`."
                )
        out = full_shape(*avals, **params)
        made = [
            shardings.with_entries(sharded, (*batch, *[None] * (len(s) - lead)))
            for s in (out if multiple_results else [out])
        ]
        return made if multiple_results else made[0]

    p = rules.standard_primitive(
        name,
        shape=full_shape,
        dtype=full_dtype,
        weak_type=lambda *avals, **params: False,
        sharding=sharding,
        lower=lower,
        multiple_results=multiple_results,
        jvp=jvp,
        transpose=transpose,
        batch=batch,
    )
    if batch is None:
        p.batch = lambda args, dims, **params: batching.expand_dims_batcher(p, args, dims, **params)
    return p


def _batch_shape(name, avals, ranks):
    for i, (a, r) in enumerate(zip(avals, ranks)):
        if a.ndim < r:
            raise TypeError(
                f"Input {i} to {name} must have rank at least {r}, but got shape={a.shape}"
            )
    lead = [a.shape[: a.ndim - r] for a, r in zip(avals, ranks)]
    if len({len(s) for s in lead}) > 1:
        raise TypeError(
            f"All inputs to {name} must have the same number of batch dimensions, but got "
            f"{[len(s) for s in lead]} batch dimensions for the inputs."
        )
    if any(s != lead[0] for s in lead):
        raise TypeError(
            f"All inputs to {name} must have the same batch dimensions, but got shapes "
            f"{[a.shape for a in avals]}."
        )
    return lead[0]


def check_square(name: str, shape: Sequence[Any], what: str = "The input to") -> None:
    """Raise ValueError unless a matrix shape is square."""
    if shape[0] != shape[1]:
        raise ValueError(f"{what} {name} must be a square matrix. Got shape {tuple(shape)}.")


def real_dtype(dtype: Any) -> np.dtype:
    """Return the dtype of the real part of `dtype`."""
    return np.empty(0, dtype).real.dtype if is_complex_dtype(dtype) else np.dtype(dtype)


def complex_dtype(dtype: Any) -> np.dtype:
    """Return the complex dtype with parts of `dtype`, or `dtype` if it is complex."""
    return np.dtype(dtypes.to_complex_dtype(dtype))


def is_complex_dtype(dtype: Any) -> bool:
    return dtypes.issubdtype(dtype, np.complexfloating)


def is_complex(x: Any) -> bool:
    return is_complex_dtype(x.dtype)


# ---------------------------------------------------------------------------------------------------
# Operations on batches of matrices


def mT(x: Any) -> Any:
    """Transpose the last two dimensions."""
    return lax.transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def mH(x: Any) -> Any:
    """Return the conjugate transpose in the last two dimensions."""
    return lax.conj(mT(x)) if is_complex(x) else mT(x)


def conj(x: Any) -> Any:
    return lax.conj(x) if is_complex(x) else x


def real(x: Any) -> Any:
    return lax.real(x) if is_complex(x) else x


def matmul(x: Any, y: Any, precision: Any = lax.Precision.HIGHEST) -> Any:
    """Multiply two batches of matrices."""
    lead = tuple(range(x.ndim - 2))
    dims = (((x.ndim - 1,), (y.ndim - 2,)), (lead, lead))
    return lax.dot_general(x, y, dims, precision=precision)


def eye(dtype: Any, n: int, m: int | None = None) -> Any:
    """Return a matrix with ones on its diagonal."""
    return lax.eye(dtype, (n, n if m is None else m))


def eye_like(x: Any) -> Any:
    """Return identity matrices of the shape and dtype of `x`."""
    return _mask_like(eye(x.dtype, *x.shape[-2:]), x)


def tril(x: Any, k: int = 0) -> Any:
    """Zero the elements above diagonal `k`."""
    mask = _mask_like(lax.tri(np.bool_, x.shape[-2:], k), x)
    return lax.select(mask, x, lax.full_like(x, 0))


def triu(x: Any, k: int = 0) -> Any:
    """Zero the elements below diagonal `k`."""
    mask = _mask_like(lax.tri(np.bool_, x.shape[-2:], k - 1), x)
    return lax.select(mask, lax.full_like(x, 0), x)


def _mask_like(mask: Any, x: Any) -> Any:
    aval = core.typeof(x)
    sharding = aval.sharding if aval._sharding is not None else None
    return lax.broadcast_in_dim(mask, x.shape, (x.ndim - 2, x.ndim - 1), out_sharding=sharding)


def symmetrize(x: Any) -> Any:
    """Return (x + x^H) / 2."""
    return lax.div(lax.add(x, mH(x)), lax.full_like(x, 2))


def diagonal(x: Any) -> Any:
    """Return the main diagonals of square matrices."""
    *batch, m, n = x.shape
    if core.typeof(x)._sharding is None and m == n and n and core.is_constant_dim(n):
        # Elements of a diagonal are n + 1 apart in the flattened matrix: no others are read.
        flat = lax.reshape(x, (*batch, n * n))
        strides = (*[1] * len(batch), n + 1)
        return slicing.slice(flat, (0,) * flat.ndim, flat.shape, strides)
    mask = _mask_like(lax.eye(np.bool_, x.shape[-2:]), x)
    return lax.reduce_sum(lax.select(mask, x, lax.full_like(x, 0)), (x.ndim - 1,))


def scale_columns(x: Any, s: Any) -> Any:
    """Return x @ diag(s)."""
    return lax.mul(x, along_rows(s, x.shape).astype(x.dtype))


def scale_rows(x: Any, s: Any) -> Any:
    """Return diag(s) @ x."""
    return lax.mul(x, along_columns(s, x.shape).astype(x.dtype))


def along_rows(v: Any, shape: Sequence[int]) -> Any:
    """Broadcast vectors to matrices whose rows all equal the vector."""
    n = len(shape)
    return lax.broadcast_in_dim(v, shape, (*range(n - 2), n - 1))


def along_columns(v: Any, shape: Sequence[int]) -> Any:
    """Broadcast vectors to matrices whose columns all equal the vector."""
    return lax.broadcast_in_dim(v, shape, tuple(range(len(shape) - 1)))


def columns(x: Any, start: int, stop: int) -> Any:
    """Return x[..., start:stop]."""
    return slicing.slice_in_dim(x, start, stop, axis=x.ndim - 1)


def rows(x: Any, start: int, stop: int) -> Any:
    """Return x[..., start:stop, :]."""
    return slicing.slice_in_dim(x, start, stop, axis=x.ndim - 2)


def pad_to(x: Any, rows_: int, columns_: int) -> Any:
    """Pad matrices with zeros below and to the right."""
    m, n = x.shape[-2:]
    zero = np.zeros((), x.dtype)
    return lax.pad(x, zero, [(0, 0, 0)] * (x.ndim - 2) + [(0, rows_ - m, 0), (0, columns_ - n, 0)])


def permute_rows(x: Any, permutation: Any) -> Any:
    """Return x[..., permutation, :], with one permutation for each matrix."""
    return take_along(x, along_columns(permutation, x.shape), x.ndim - 2)


def permute_columns(x: Any, permutation: Any) -> Any:
    """Return x[..., permutation], with one permutation for each matrix."""
    return take_along(x, along_rows(permutation, x.shape), x.ndim - 1)
