"""Operators and methods of BCOO arrays, which this module installs on the class."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.lax import lax
from jax._src.numpy import ufuncs
from jax._src.numpy.manipulation.shape import new_shape
from jax._src.numpy.reductions.engine import promote_integer_dtype, upcast
from jax._src.numpy.util import (
    check_arraylike,
    promote_dtypes,
    promote_dtypes_inexact,
    to_array,
)
from jax._src.sparse.base import JAXSparse
from jax._src.sparse.bcoo.array import BCOO, with_buffers
from jax._src.sparse.bcoo.functions import bcoo_sum_duplicates, full_buffers
from jax._src.sparse.bcoo.gathers import getitem
from jax._src.sparse.bcoo.products import (
    bcoo_dot_general,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
)
from jax._src.sparse.bcoo.shapes import (
    bcoo_broadcast_in_dim,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_squeeze,
)
from jax._src.typing import DTypeLike
from jax._src.util import canonicalize_axis_tuple

_DENSE = (
    "because it would result in dense output. If this is your intent, use sparse.todense() to "
    "convert your arguments to dense"
)


def _dense_operand(name: str, x: Any) -> Any:
    check_arraylike(name, x, x)
    return to_array(x)


def _with_ndim(mat: BCOO, ndim: int) -> BCOO:
    """The array with new leading dimensions of size 1, which are batch dimensions."""
    new = ndim - mat.ndim
    if new <= 0:
        return mat
    return bcoo_broadcast_in_dim(
        mat, shape=(1,) * new + mat.shape, broadcast_dimensions=range(new, ndim)
    )


def _with_dtype(mat: BCOO, data: Any) -> BCOO:
    return with_buffers(mat, data, mat.indices)


def _promoted(mat: BCOO, other: Any) -> tuple[BCOO, Any]:
    dtype = dtypes.result_type(mat.data, other)
    # Conversions are not linear: they round or wrap.
    mat = mat if dtype == mat.dtype else _distinct(mat)
    data, other = promote_dtypes(mat.data, other)
    return _with_dtype(mat, data), other


def _multiply(self: BCOO, other: Any) -> Any:
    if isinstance(other, JAXSparse):
        if not isinstance(other, BCOO):
            raise NotImplementedError(f"product of a BCOO array and a {type(other).__name__}")
        ndim = max(self.ndim, other.ndim)
        lhs, rhs = _with_ndim(self, ndim), _with_ndim(other, ndim)
        return bcoo_multiply_sparse(lhs, rhs)
    other = _dense_operand("multiply", other)
    mat, other = _promoted(_with_ndim(self, other.ndim), other)
    shapes = list(zip(mat.shape[::-1], other.shape[::-1]))
    if any(a != b and 1 not in (a, b) for a, b in shapes):
        raise TypeError(
            f"mul got incompatible shapes for broadcasting: {mat.shape}, {other.shape}."
        )
    return _with_dtype(mat, bcoo_multiply_dense(mat, other))


def _divide(self: BCOO, other: Any) -> Any:
    if isinstance(other, JAXSparse):
        return _divide_by(other, self)
    other = _dense_operand("divide", other)
    mat = self if dtypes.issubdtype(self.dtype, np.inexact) else _distinct(self)
    data, other = promote_dtypes_inexact(mat.data, other)
    return _multiply(_with_dtype(mat, data), ufuncs.true_divide(1, other))


def _divide_by(self: BCOO, other: Any) -> Any:
    raise NotImplementedError(f"Division by a sparse array is not implemented {_DENSE} arrays.")


def _add(self: BCOO, other: Any) -> Any:
    if isinstance(other, JAXSparse):
        return _joined(self, other)
    other = _dense_operand("add", other)
    if core.broadcast_shapes(self.shape, other.shape) != other.shape:
        raise NotImplementedError(
            "Addition between a sparse array X and a dense array Y is not implemented when the "
            "output shape is larger than Y.shape. This is to prevent silent densification of a "
            "large sparse array. If this is your intent, convert X by todense() first."
        )
    return ufuncs.add(self.todense(), other)


def _joined(lhs: BCOO, rhs: Any) -> BCOO:
    """The sum of two sparse arrays: their elements one after the other."""
    if not isinstance(rhs, BCOO):
        raise NotImplementedError(f"sum of a BCOO array and a {type(rhs).__name__}")
    if lhs.shape != rhs.shape:
        raise NotImplementedError("Addition between sparse matrices of different shapes.")
    if (lhs.n_batch, lhs.n_dense) != (rhs.n_batch, rhs.n_dense):
        raise NotImplementedError(
            "Addition between sparse matrices with different batch/dense dimensions."
        )
    (x, i), (y, j) = full_buffers(lhs), full_buffers(rhs)
    at = lhs.n_batch
    data, indices = (lax.concatenate(promote_dtypes(*p), at) for p in ((x, y), (i, j)))
    return BCOO((data, indices), shape=lhs.shape)


def _negative(self: BCOO) -> BCOO:
    return _with_dtype(self, lax.neg(self.data))


def _subtract(self: BCOO, other: Any) -> Any:
    if isinstance(other, JAXSparse):
        return _joined(self, _negative(other)) if isinstance(other, BCOO) else _joined(self, other)
    raise NotImplementedError("Subtraction between sparse and dense array.")


def _subtract_from(self: BCOO, other: Any) -> Any:
    raise NotImplementedError("Subtraction between sparse and dense array.")


def _positive(self: BCOO) -> BCOO:
    return self


def _distinct(self: BCOO) -> BCOO:
    """The array with unique indices, as functions that are not linear need them."""
    return self if self.unique_indices else bcoo_sum_duplicates(self, nse=self.nse)


def _absolute(self: BCOO) -> BCOO:
    mat = _distinct(self)
    return _with_dtype(mat, ufuncs.abs(mat.data))


def _power(self: BCOO, other: Any) -> BCOO:
    if type(other) is not int:
        raise NotImplementedError("sparse rule for pow is not implemented.")
    if other <= 0:
        raise NotImplementedError(
            f"sparse rule for integer_pow with non-positive exponent {other} is not implemented "
            f"{_DENSE} arrays."
        )
    mat = _distinct(self)
    return _with_dtype(mat, lax.integer_pow(mat.data, other))


def _power_of(self: BCOO, other: Any) -> Any:
    raise NotImplementedError("sparse rule for pow is not implemented.")


def _comparison(name: str) -> Any:
    def method(self: BCOO, other: Any) -> Any:
        raise NotImplementedError(f"sparse rule for {name} is not implemented {_DENSE} matrices.")

    return method


def matmul(lhs: Any, rhs: Any, dot_general: Any = bcoo_dot_general, kind: Any = BCOO) -> Any:
    """The matrix product, as `jnp.matmul`, of arrays of which at least one is sparse."""
    lhs, rhs = (x if isinstance(x, JAXSparse) else _dense_operand("matmul", x) for x in (lhs, rhs))
    for i, x in enumerate((lhs, rhs)):
        if isinstance(x, JAXSparse) and not isinstance(x, kind):
            raise NotImplementedError(f"matmul of a {kind.__name__} array and a {type(x).__name__}")
        if x.ndim < 1:
            raise ValueError(
                f"matmul input operand {i} must have ndim at least 1, but it has ndim 0"
            )
    l_batch, r_batch = (max(x.ndim - 2, 0) for x in (lhs, rhs))
    n_batch = max(l_batch, r_batch)
    # The batch dimensions of the result: the operand that each comes from, and its dimension there.
    sources, pairs = [], []
    single: tuple[list[int], list[int]] = ([], [])
    for i in range(n_batch):
        l, r = i - n_batch + l_batch, i - n_batch + r_batch
        if l >= 0 and r >= 0 and lhs.shape[l] == rhs.shape[r]:
            sources.append(("both", len(pairs)))
            pairs.append((l, r))
        elif l < 0 or (r >= 0 and lhs.shape[l] == 1):
            sources.append(("rhs", r))
            single[0].extend([l] if l >= 0 else [])
        elif r < 0 or rhs.shape[r] == 1:
            sources.append(("lhs", l))
            single[1].extend([r] if r >= 0 else [])
        else:
            raise ValueError(
                f"matmul: incompatible batch dimensions of shapes {lhs.shape} and {rhs.shape}"
            )
    kept = [[d for d in range(x.ndim) if d not in axes] for x, axes in zip((lhs, rhs), single)]
    contract = lhs.ndim - 1, r_batch
    sources += [("lhs", l_batch)] * (lhs.ndim > 1) + [("rhs", r_batch + 1)] * (rhs.ndim > 1)
    at = [{d: i for i, d in enumerate(dims)} for dims in kept]
    numbers = (
        ((at[0][contract[0]],), (at[1][contract[1]],)),
        (tuple(at[0][l] for l, _ in pairs), tuple(at[1][r] for _, r in pairs)),
    )
    factors = [x.data if isinstance(x, kind) else x for x in (lhs, rhs)]
    dtype, weak = dtypes.result_type(*factors, return_weak_type_flag=True)
    lhs, rhs = (_without(x, axes) for x, axes in zip((lhs, rhs), single))
    out = dot_general(lhs, rhs, dimension_numbers=numbers, preferred_element_type=dtype)
    if weak and not isinstance(out, JAXSparse):
        out = lax.convert_type(out, out.dtype, weak_type=True)
    # `dot_general` puts the dimensions of the two operands after those of both.
    found: list[tuple[str, int]] = [("both", i) for i in range(len(pairs))]
    for side, (name, dims) in enumerate(zip(("lhs", "rhs"), kept)):
        used = {contract[side], *(pair[side] for pair in pairs)}
        found += [(name, d) for d in dims if d not in used]
    order = tuple(found.index(source) for source in sources)
    return out if order == tuple(range(len(order))) else out.transpose(order)


def _without(x: Any, axes: list[int]) -> Any:
    """`x` without dimensions of size 1."""
    if not axes:
        return x
    return x._squeeze(axes) if isinstance(x, JAXSparse) else lax.squeeze(x, axes)


def _sum(
    self: BCOO, axis: Any = None, dtype: DTypeLike | None = None, out: None = None,
    keepdims: bool = False, initial: Any = None, where: Any = None,
) -> Any:  # fmt: skip
    """The sum of the elements over some axes; dense if it is a scalar."""
    if out is not None or initial is not None or where is not None:
        raise NotImplementedError("sum of a sparse array with out, initial or where")
    axes = tuple(range(self.ndim)) if axis is None else canonicalize_axis_tuple(axis, self.ndim)
    mat = self if dtype is None else self.astype(dtype)
    if dtype is None:
        mat = mat.astype(promote_integer_dtype(mat.dtype))
    # Like those of dense arrays, sums of 16-bit floats are computed with 32 bits.
    result = _astype(bcoo_reduce_sum(_astype(mat, upcast(mat.dtype)), axes=axes), mat.dtype)
    if keepdims:
        kept = [d for d in range(self.ndim) if d not in axes]
        shape = tuple(1 if d in axes else s for d, s in enumerate(self.shape))
        return bcoo_broadcast_in_dim(result, shape=shape, broadcast_dimensions=kept)
    return result.todense() if result.ndim == 0 else result


def _reshape(self: BCOO, *args: Any, order: str = "C") -> BCOO:
    """The array with another shape; see `bcoo_reshape`."""
    shape = args[0] if len(args) == 1 and not hasattr(args[0], "__index__") else args
    sizes = new_shape(self.shape, shape)
    if order == "C":
        return bcoo_reshape(self, new_sizes=sizes)
    if order != "F":
        raise NotImplementedError(f"reshape of a sparse array with {order=}")
    flipped = bcoo_reshape(self, new_sizes=sizes[::-1], dimensions=range(self.ndim)[::-1])
    return flipped.transpose(range(len(sizes))[::-1])


def _astype(self: BCOO, dtype: DTypeLike) -> BCOO:
    """The array with elements of another type."""
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "astype")
    # Conversions are not linear: they round or wrap.
    mat = self if dtype == self.dtype else _distinct(self)
    return _with_dtype(mat, mat.data.astype(dtype))


def _iterate(self: BCOO) -> Any:
    if not self.ndim:
        raise TypeError("iteration over a 0-d array")
    return (self[i] for i in range(self.shape[0]))


for _name, _method in {
    "__abs__": _absolute,
    "__add__": _add,
    "__getitem__": getitem,
    "__iter__": _iterate,
    "__matmul__": lambda self, other: matmul(self, other),
    "__mul__": _multiply,
    "__neg__": _negative,
    "__pos__": _positive,
    "__pow__": _power,
    "__radd__": _add,
    "__rmatmul__": lambda self, other: matmul(other, self),
    "__rmul__": _multiply,
    "__rpow__": _power_of,
    "__rsub__": _subtract_from,
    "__rtruediv__": _divide_by,
    "__sub__": _subtract,
    "__truediv__": _divide,
    "astype": _astype,
    "reshape": _reshape,
    "_squeeze": lambda self, axes: bcoo_squeeze(self, dimensions=axes),
    "sum": _sum,
    **{f"__{c}__": _comparison(c) for c in ("eq", "ne", "lt", "le", "gt", "ge")},
}.items():
    setattr(BCOO, _name, _method)
