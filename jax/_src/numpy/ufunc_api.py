"""`jnp.ufunc`: elementwise functions with the methods `reduce`, `accumulate`, `at` and so on."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from jax._src import api, core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import control_flow, lax
from jax._src.numpy import indexing, manipulation, reductions, util
from jax._src.numpy.util import check_arraylike, export
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import canonicalize_axis

_AT_INPLACE = (
    "Because JAX arrays are immutable, jnp.ufunc.at() cannot operate inplace like\n"
    "np.ufunc.at(). Instead, you can pass inplace=False and capture the result; e.g.\n"
    ">>> arr = jnp.add.at(arr, ind, val, inplace=False)\n"
)


@export
class ufunc:
    """An elementwise function with NumPy's ufunc methods, such as `jnp.add`; see `jnp.frompyfunc`.

    Args:
      func: function of scalars.
      nin: number of arguments.
      nout: number of results.
      name: name to print; by default that of `func`.
      nargs: number of array arguments; by default `nin`.
      identity: value of an empty reduction, or None.
      call, reduce, accumulate, at, reduceat: faster implementations of the corresponding methods.

    >>> f = jnp.frompyfunc(lambda x, y: x + 2 * y, nin=2, nout=1)
    >>> f(jnp.array([1, 2]), 10)
    Array([21, 22], dtype=int32)
    >>> jnp.add.reduce(jnp.arange(4))
    Array(6, dtype=int32)
    """

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: Callable[..., Any] | None = None,
        reduceat: Callable[..., Any] | None = None,
    ):
        self.__doc__ = func.__doc__
        self.__name__ = name or func.__name__
        self.__module__ = "jax.numpy"
        self._nin = operator.index(nin)
        self._nout = operator.index(nout)
        self._nargs = self._nin if nargs is None else operator.index(nargs)
        self._identity = identity
        self._func = func
        self._call = self._call_vectorized if call is None else call
        self._reduce, self._accumulate, self._at, self._reduceat = reduce, accumulate, at, reduceat
        self._key = (func, self.__name__, nin, nout, identity, call, reduce, accumulate, at)

    nin = property(operator.attrgetter("_nin"), doc="Number of arguments.")
    nout = property(operator.attrgetter("_nout"), doc="Number of results.")
    nargs = property(operator.attrgetter("_nargs"), doc="Number of arguments that are arrays.")
    identity = property(operator.attrgetter("_identity"), doc="Reduction of no elements, or None.")

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ufunc) and self._key == other._key

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"

    def __call__(self, *args: ArrayLike, out: None = None, where: None = None) -> Any:
        if out is not None:
            raise NotImplementedError(f"out argument of {self}")
        if where is not None:
            raise NotImplementedError(f"where argument of {self}")
        return self._call(*args)

    def _call_vectorized(self, *args):
        check_arraylike(self.__name__, *args)
        args = util.broadcast_arrays(*args)
        shape = args[0].shape if args else ()
        func = self._func
        for _ in shape:
            func = api.vmap(func)
        return func(*args)

    def _only_binary(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ValueError(f"{method} only supported for binary ufuncs")

    def reduce(
        self,
        a: ArrayLike,
        axis: int | None = 0,
        dtype: DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """Folds the function over all elements along an axis, from first to last.

        Args:
          a: array.
          axis: axis to reduce; None for all axes.
          dtype: dtype of the computation and the result.
          out: must be None.
          keepdims: whether the result keeps `axis` with size 1.
          initial: initial scalar; by default the identity, or else the first element.
          where: boolean mask that broadcasts to `a`: which elements to include.

        Raises:
          ValueError: if the function is not binary, or there is no initial value.
        """
        check_arraylike(f"{self.__name__}.reduce", a)
        self._only_binary("reduce")
        if out is not None:
            raise NotImplementedError(f"out argument of {self.__name__}.reduce()")
        if initial is not None:
            check_arraylike(f"{self.__name__}.reduce", initial)
        if where is not None:
            check_arraylike(f"{self.__name__}.reduce", where)
            if self.identity is None and initial is None:
                raise ValueError(
                    f"reduction operation {self.__name__!r} does not have an identity, so to use a where mask"
                    " one has to specify 'initial'."
                )
            if dtypes.dtype(util.lower_jax_array(where)) != np.bool_:
                raise ValueError(f"where argument must have dtype=bool; got dtype={where.dtype}")
        if dtype is not None:
            dtype = dtypes.check_and_canonicalize_user_dtype(dtype, f"{self.__name__}.reduce")
        if axis is None or isinstance(axis, tuple):
            pass
        else:
            axis = canonicalize_axis(axis, np.ndim(util.lower_jax_array(a)))
        if self._reduce is not None:
            return self._reduce(
                a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
            )
        if isinstance(axis, tuple):
            raise NotImplementedError("tuple of axes")
        return _reduce_by_scan(
            a, initial, where, ufunc=self, axis=axis, dtype=dtype, keepdims=bool(keepdims)
        )

    def accumulate(
        self, a: ArrayLike, axis: int = 0, dtype: DTypeLike | None = None, out: None = None
    ) -> Array:
        """Returns the partial results of `reduce` along an axis.

        Args:
          a: array.
          axis: axis to accumulate along.
          dtype: dtype of the computation and the result.
          out: must be None.

        Returns:
          An array of the shape of `a`.

        Raises:
          ValueError: if the function is not binary, or `axis` is not a single integer.
        """
        check_arraylike(f"{self.__name__}.accumulate", a)
        self._only_binary("accumulate")
        if out is not None:
            raise NotImplementedError(f"out argument of {self.__name__}.accumulate()")
        if dtype is not None:
            dtype = dtypes.check_and_canonicalize_user_dtype(dtype, f"{self.__name__}.accumulate")
        if axis is not None and not isinstance(axis, (tuple, list)):
            axis = canonicalize_axis(axis, np.ndim(util.lower_jax_array(a)))
        if self._accumulate is not None:
            return self._accumulate(a, axis=axis, dtype=dtype)
        if axis is None or isinstance(axis, (tuple, list)):
            raise ValueError(f"{self.__name__}.accumulate: axis must be one integer, got {axis}")
        return _accumulate_by_scan(a, ufunc=self, axis=axis, dtype=dtype)

    def at(
        self, a: ArrayLike, indices: Any, b: ArrayLike | None = None, /, *, inplace: bool = True
    ) -> Array:
        """Updates the indexed elements with the function, repeated indices one after the other.

        Args:
          a: array.
          indices: an index as in `a[indices]`.
          b: second operand of a binary function; broadcasts to the indexed elements.
          inplace: must be False, since arrays are immutable.

        Returns:
          The updated array, of the shape of `a`.

        Raises:
          NotImplementedError: if `inplace` is true.
        """
        if inplace:
            raise NotImplementedError(_AT_INPLACE)
        if self.nin > 2 or self.nout != 1:
            raise ValueError("at only supported for unary and binary ufuncs")
        check_arraylike(f"{self.__name__}.at", a)
        if (b is None) is not (self.nin == 1):
            raise TypeError(
                f"{self.__name__}.at: the second operand must be given for binary functions, and only for"
                " them."
            )
        if b is not None:
            check_arraylike(f"{self.__name__}.at", b)
        if self._at is not None:
            return self._at(util.to_array(a), indices, b)
        return self._at_by_loop(util.to_array(a), indices, b)

    def reduceat(
        self,
        a: ArrayLike,
        indices: Any,
        axis: int = 0,
        dtype: DTypeLike | None = None,
        out: None = None,
    ) -> Array:
        """Reduces slices of an array along an axis.

        Args:
          a: array.
          indices: one-dimensional array of slice starts. Each slice ends where the next one starts;
            it is the single element at its start if the next start is not greater.
          axis: axis along which to slice.
          dtype: dtype of the computation and the result.
          out: must be None.

        Returns:
          An array with one element per slice along `axis`.
        """
        check_arraylike(f"{self.__name__}.reduceat", a)
        self._only_binary("reduceat")
        if out is not None:
            raise NotImplementedError(f"out argument of {self.__name__}.reduceat()")
        if axis is None or isinstance(axis, (tuple, list)):
            raise ValueError("reduceat requires a single integer axis.")
        indices = util.to_array(
            np.asarray(indices) if isinstance(indices, (list, tuple)) else indices
        )
        if indices.ndim != 1 or not dtypes.issubdtype(indices.dtype, np.integer):
            raise ValueError(
                "reduceat: indices must be a one-dimensional array of integers, got "
                f"{core.typeof(indices).str_short()}"
            )
        if dtype is not None:
            dtype = dtypes.check_and_canonicalize_user_dtype(dtype, f"{self.__name__}.reduceat")
        return _reduceat_by_scan(a, indices, ufunc=self, axis=axis, dtype=dtype)

    def outer(self, A: ArrayLike, B: ArrayLike, /) -> Array:
        """Applies the function to all pairs of elements of two arrays.

        Returns:
          An array of shape `(*A.shape, *B.shape)`.
        """
        self._only_binary("outer")
        A, B = util.ensure_arraylike(f"{self.__name__}.outer", A, B)
        return self(lax.expand_dims(A, range(A.ndim, A.ndim + B.ndim)), B)

    def _element_dtype(self, dtype: Any) -> Any:
        """Returns the dtype of the function's result for elements of `dtype`."""
        scalar = core.ShapeDtypeStruct((), dtype)
        return api.eval_shape(self._call, *[scalar] * self.nin).dtype

    def _at_by_loop(self, a, indices, b):
        positions = lax.reshape(lax.iota(np.int32, a.size), a.shape)
        positions = indexing._IndexUpdateHelper(positions)[indices].get(
            mode="fill", fill_value=a.size
        )
        flat, positions_flat = lax.reshape(a, (a.size,)), lax.reshape(positions, (positions.size,))
        if b is not None:
            b = lax.convert_type(util.to_array(b), None, False)
            b = lax.reshape(util.broadcast_to(b, positions.shape), (positions.size,))
        if positions.size == 0:
            return a

        flat = core.vary_alike([flat, positions_flat] if b is None else [flat, positions_flat, b])[
            0
        ]

        def body(i, flat):
            at = positions_flat[i]
            args = (flat[at],) if b is None else (flat[at], b[i])
            new = lax.convert_element_type(self._call(*args), flat.dtype)
            return indexing._IndexUpdateHelper(flat)[at].set(new, mode="drop")

        return lax.reshape(control_flow.fori_loop(0, positions.size, body, flat), a.shape)


def _moved(ufunc, name, a, axis, dtype):
    a = util.ensure_arraylike(f"{ufunc.__name__}.{name}", a)
    if axis is None:
        a, axis = manipulation.ravel(a), 0
    axis = canonicalize_axis(axis, a.ndim)
    dtype = ufunc._element_dtype(a.dtype if dtype is None else dtype) if dtype is None else dtype
    return lax.convert_element_type(manipulation.moveaxis(a, axis, 0), dtype), axis


def _apply(ufunc, x, y):
    return lax.convert_element_type(ufunc._call(x, y), x.dtype)


@partial(nested_jit, static_argnames=("ufunc", "axis", "dtype", "keepdims"))
def _reduce_by_scan(a, initial, where, *, ufunc, axis, dtype, keepdims):
    ndim = np.ndim(a)
    if where is not None:
        where = util.broadcast_to(where, np.shape(a))
    if axis is None and where is not None:
        where = manipulation.ravel(where)
    elif where is not None:
        where = manipulation.moveaxis(where, axis, 0)
    a, _ = _moved(ufunc, "reduce", a, axis, dtype)
    start = ufunc.identity if initial is None else initial
    first = 0
    if start is None:
        if a.shape[0] == 0:
            raise ValueError(
                f"zero-size array to reduction operation {ufunc.__name__} which has no identity"
            )
        carry, first = a[0], 1
    else:
        start = lax.convert_element_type(start, a.dtype)
        if np.ndim(start):
            raise ValueError(
                f"initial value must be a scalar. Got array of shape {np.shape(start)}"
            )
        carry = util.broadcast_to(start, a.shape[1:])

    def body(i, carry):
        new = _apply(ufunc, carry, a[i])
        return new if where is None else util.select_where(where[i], new, carry)

    carry = core.vary_alike([carry, a] if where is None else [carry, a, where])[0]
    out = control_flow.fori_loop(first, a.shape[0], body, carry) if a.shape[0] else carry
    if keepdims:
        out = lax.expand_dims(out, tuple(range(ndim)) if axis is None else (axis,))
    return out


@partial(nested_jit, static_argnames=("ufunc", "axis", "dtype"))
def _accumulate_by_scan(a, *, ufunc, axis, dtype):
    a, axis = _moved(ufunc, "accumulate", a, axis, dtype)
    if a.shape[0] == 0:
        return manipulation.moveaxis(a, 0, axis)

    def body(carry, x):
        new = _apply(ufunc, carry, x)
        return new, new

    _, rest = control_flow.scan(body, a[0], a[1:])
    return manipulation.moveaxis(lax.concatenate([a[:1], rest], 0), 0, axis)


@partial(nested_jit, static_argnames=("ufunc", "axis", "dtype"))
def _reduceat_by_scan(a, indices, *, ufunc, axis, dtype):
    a, axis = _moved(ufunc, "reduceat", a, axis, dtype)
    size = a.shape[0]
    if not indices.shape[0]:
        return manipulation.moveaxis(a[:0], 0, axis)
    if not size:
        raise IndexError(
            f"{ufunc.__name__}.reduceat: axis {axis} has no elements, but there are indices of "
            f"{indices.shape[0]} slices."
        )
    size = lax.const(indices, size)
    end = lax.full((1,), size, indices.dtype)
    ends = lax.concatenate([indices[1:], end], 0)
    out = a[indices]
    shape = (indices.shape[0],) + (1,) * (a.ndim - 1)
    indices, ends = lax.reshape(indices, shape), lax.reshape(ends, shape)

    def body(i, out):
        inside = lax.bitwise_and(lax.lt(indices, i), lax.lt(i, ends))
        return util.select_where(inside, _apply(ufunc, out, a[i][None]), out)

    out = control_flow.fori_loop(lax.const(indices, 0), size, body, out)
    return manipulation.moveaxis(out, 0, axis)


@export
def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """Makes an elementwise function with ufunc methods from a function of scalars.

    Args:
      func: function of scalars.
      nin: number of its arguments.
      nout: number of its results.
      identity: value of an empty reduction, or None.

    Returns:
      A `jnp.ufunc`.

    >>> largest = jnp.frompyfunc(lambda x, y: jnp.where(x > y, x, y), nin=2, nout=1)
    >>> largest.reduce(jnp.array([3, 8, 5]))
    Array(8, dtype=int32)
    """
    return ufunc(func, nin, nout, identity=identity)


# Methods of the predefined ufuncs


def at_method(name: str) -> Callable:
    """Implements `ufunc.at` by a method of `x.at[...]`; that of booleans is logical."""
    logical = {"add": "max", "multiply": "min"}.get(name, name)

    def at(a, indices, b):
        method = logical if a.dtype == np.bool_ else name
        return getattr(indexing._IndexUpdateHelper(a)[indices], method)(b)

    return at


def reduction_method(reduction: Any) -> Callable:
    """Implements `ufunc.reduce` by a `Reduction`."""

    def reduce(a, *, axis, dtype, keepdims, initial, where):
        return reduction(a, axis, dtype, None, keepdims, initial, where, False)

    return reduce


def all_ones(dtype: Any) -> Any:
    return True if dtype == np.bool_ else np.array(-1).astype(dtype)


bitwise_reductions = {
    "bitwise_and": reductions.Reduction(
        "bitwise_and.reduce", lax.reduce_and, lax.bitwise_and, all_ones
    ),
    "bitwise_or": reductions.Reduction(
        "bitwise_or.reduce", lax.reduce_or, lax.bitwise_or, lambda d: 0
    ),
    "bitwise_xor": reductions.Reduction(
        "bitwise_xor.reduce", lax.reduce_xor, lax.bitwise_xor, lambda d: 0
    ),
}
