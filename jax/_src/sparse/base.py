"""The base class of all sparse arrays, and what every format shares."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from jax._src import core
from jax._src.basearray import Array
from jax._src.numpy.util import to_array
from jax._src.util import StrictABC, set_module

UTIL_MODULE = "jax.experimental.sparse.util"

Shape = tuple[int, ...]


@set_module(UTIL_MODULE)
class SparseEfficiencyError(ValueError):
    """The result would be stored much less efficiently than the operand."""


@set_module(UTIL_MODULE)
class SparseEfficiencyWarning(UserWarning):
    """An operation is slow, or its result needs much storage."""


@set_module(UTIL_MODULE)
class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """The library of the GPU's vendor does not have the operation; XLA's default is used."""


@set_module(UTIL_MODULE)
class SparseInfo(NamedTuple):
    """What is known of a sparse array besides its buffers: a static parameter of primitives."""

    shape: tuple[int, ...]
    indices_sorted: bool = False
    unique_indices: bool = False


# The types that the products of cuSPARSE have.
CUSPARSE_DATA_DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
CUSPARSE_INDEX_DTYPES = [np.int32]


@set_module("jax.experimental.sparse.bcoo")
class Buffer(Protocol):
    """What the layout of a buffer of a sparse array is determined from."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...


_REMEDY = (
    "BCOO arrays have all operators (BCSR.to_bcoo(), BCOO.fromdense(M.todense())); todense() makes a "
    "dense array."
)


def check_format(function: str, argument: str, x: Any, kind: type) -> None:
    """Raise a TypeError, which says how to convert `x`, unless it is a sparse array of a kind."""
    if isinstance(x, kind):
        return
    wanted, found = kind.__name__, type(x).__name__
    if (wanted, found) == ("BCOO", "BCSR"):
        remedy = f"convert it: {argument}.to_bcoo()"
    elif (wanted, found) == ("BCSR", "BCOO"):
        remedy = f"convert it: BCSR.from_bcoo({argument})"
    elif isinstance(x, JAXSparse):
        remedy = f"convert it: {wanted}.fromdense({argument}.todense())"
    else:
        remedy = f"convert a dense array: {wanted}.fromdense({argument})"
    shape = list(x.shape) if hasattr(x, "shape") else ""
    raise TypeError(
        f"{function}: {argument} must be a {wanted} array, got {found}{shape}; {remedy}"
    )


def as_buffers(kind: str, names: Sequence[str], args: Any) -> list[Array]:
    """The buffers given to the constructor of a sparse array, as arrays.

    Raises:
      ValueError: if there are not as many as names.
    """
    args = tuple(args)
    if len(args) != len(names):
        raise ValueError(f"{kind} takes the buffers ({', '.join(names)}), got {len(args)} of them")
    return [to_array(x) for x in args]


def check_dense(function: str, argument: str, x: Any) -> None:
    """Raise a TypeError if `x` is a sparse array."""
    if isinstance(x, JAXSparse):
        raise TypeError(
            f"{function}: {argument} must be a dense array, got {x}; convert it: "
            f"{argument}.todense()"
        )


@set_module("jax.experimental.sparse")
class JAXSparse(StrictABC):
    """Base class of sparse arrays.

    A subclass has the arrays that it stores and a static shape, and is a pytree. It implements
    `nse`, `dtype`, `todense`, `transpose`, `tree_flatten` and `tree_unflatten`; arithmetic that it
    does not define raises NotImplementedError.

    Args:
      args: the arrays that are stored.
      shape: the shape of the array that they stand for.

    >>> from jax.experimental import sparse
    >>> M = sparse.BCOO.fromdense(jnp.eye(3))
    >>> isinstance(M, sparse.JAXSparse), M.shape, M.size, M.ndim, M.nse
    (True, (3, 3), 9, 2, 3)
    """

    data: Array
    shape: tuple[int, ...]

    # Like a dense array, takes over the operators of NumPy's arrays.
    __array_priority__ = 100
    # Buffers may be tracers, and equality is an operation on elements.
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, args: tuple[Array, ...], *, shape: Sequence[int]):
        self.shape = core.canonicalize_shape(tuple(shape))

    @property
    @abc.abstractmethod
    def dtype(self) -> Any:
        """The type of the elements."""

    @property
    @abc.abstractmethod
    def nse(self) -> int:
        """The number of specified elements, including padding and explicit zeros."""

    @abc.abstractmethod
    def tree_flatten(self) -> Any: ...

    @classmethod
    @abc.abstractmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> Any: ...

    @abc.abstractmethod
    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """The array with its axes permuted; by default reversed."""

    @abc.abstractmethod
    def todense(self) -> Array:
        """The dense array that this one stands for."""

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        """The number of elements of the dense array."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions of the dense array."""
        return len(self.shape)

    @property
    def T(self) -> Any:
        """The transposed array."""
        return self.transpose()

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            details = f", nse={self.nse}"
            for layout in ("n_batch", "n_dense"):
                if count := getattr(self, layout, 0):
                    details += f", {layout}={count}"
            shape = ", ".join(map(str, self.shape))
            text = f"{name}({self.dtype.name}[{shape}]{details})"
        except Exception:
            # The children of a pytree may be anything.
            return f"{name}(<invalid>)"
        if isinstance(self.data, core.Tracer):
            return f"{type(self.data).__name__}[{text}]"
        return text

    def block_until_ready(self) -> Any:
        """Wait until all buffers are computed, and return the array."""
        for buffer in self.tree_flatten()[0]:
            if not isinstance(buffer, np.ndarray):
                buffer.block_until_ready()
        return self

    def _unsupported(self, name: str) -> Any:
        # The name that the method has in messages: M + x, M.sum().
        raise NotImplementedError(
            f"{type(self).__name__} arrays have no {name}: got {self}. {_REMEDY}"
        )

    def sum(self, *args: Any, **kwargs: Any) -> Any:
        """The sum of the elements over some axes."""
        return self._unsupported("sum")

    def __neg__(self) -> Any:
        return self._unsupported("__neg__")

    def __pos__(self) -> Any:
        return self._unsupported("__pos__")

    def __matmul__(self, other: Any) -> Any:
        return self._unsupported("__matmul__")

    def __rmatmul__(self, other: Any) -> Any:
        return self._unsupported("__rmatmul__")

    def __mul__(self, other: Any) -> Any:
        return self._unsupported("__mul__")

    def __rmul__(self, other: Any) -> Any:
        return self._unsupported("__rmul__")

    def __add__(self, other: Any) -> Any:
        return self._unsupported("__add__")

    def __radd__(self, other: Any) -> Any:
        return self._unsupported("__radd__")

    def __sub__(self, other: Any) -> Any:
        return self._unsupported("__sub__")

    def __rsub__(self, other: Any) -> Any:
        return self._unsupported("__rsub__")

    def __getitem__(self, item: Any) -> Any:
        return self._unsupported("__getitem__")
