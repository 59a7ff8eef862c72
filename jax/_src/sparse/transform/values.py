"""The values of `sparsify`: dense and sparse arrays as references to buffers.

Two values that refer to the same buffer of indices have their elements at the same places, so that
for example their sum needs no new indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jax._src import tree_util
from jax._src.core import ShapedArray, typeof
from jax._src.numpy.util import to_array
from jax._src.sparse.bcoo.array import BCOO
from jax._src.sparse.bcsr import BCSR
from jax._src.util import set_module

MODULE = "jax.experimental.sparse.transform"


class SparsifyValue(NamedTuple):
    """A dense or sparse array whose buffers are in a `SparsifyEnv`.

    Attributes:
      shape: the shape of the array.
      data_ref, indices_ref, indptr_ref: the numbers of its buffers; None if it has no such buffer.
      indices_sorted, unique_indices: promises about the indices of a sparse array.
    """

    shape: tuple[int, ...]
    data_ref: int | None
    indices_ref: int | None = None
    indptr_ref: int | None = None
    indices_sorted: bool | None = False
    unique_indices: bool | None = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def is_sparse(self) -> bool:
        return self.indices_ref is not None

    def is_dense(self) -> bool:
        return self.indices_ref is None

    def is_bcoo(self) -> bool:
        return self.is_sparse() and self.indptr_ref is None

    def is_bcsr(self) -> bool:
        return self.is_sparse() and self.indptr_ref is not None

    @property
    def refs(self) -> list[int]:
        """The numbers of the buffers."""
        return [r for r in self[1:4] if r is not None]

    def map_refs(self, fun: Callable[[int], int]) -> SparsifyValue:
        """The value with other numbers for its buffers."""
        new = [None if r is None else fun(r) for r in self[1:4]]
        return SparsifyValue(self.shape, *new, self.indices_sorted, self.unique_indices)


SparsifyValue.__module__ = MODULE


@set_module(MODULE)
class SparsifyEnv:
    """The buffers that values of `sparsify` refer to.

    Args:
      bufs: the first buffers.

    >>> from jax.experimental.sparse.transform import SparsifyEnv
    >>> env = SparsifyEnv()
    >>> value = env.dense(jnp.ones(3))
    >>> value.is_dense(), value.shape, env.data(value)
    (True, (3,), Array([1., 1., 1.], dtype=float32))
    """

    def __init__(self, bufs: Sequence[Any] = ()):
        self._buffers = list(bufs)

    def _push(self, x: Any) -> int:
        self._buffers.append(to_array(x))
        return len(self._buffers) - 1

    def _get(self, ref: int | None, name: str) -> Any:
        if ref is None:
            raise RuntimeError(f"the value has no buffer {name}")
        return self._buffers[ref]

    def data(self, spvalue: SparsifyValue) -> Any:
        """The elements of a value."""
        return self._get(spvalue.data_ref, "data")

    def indices(self, spvalue: SparsifyValue) -> Any:
        """The indices of a sparse value."""
        return self._get(spvalue.indices_ref, "indices")

    def indptr(self, spvalue: SparsifyValue) -> Any:
        """The row pointers of a BCSR value."""
        return self._get(spvalue.indptr_ref, "indptr")

    def buffer(self, ref: int) -> Any:
        """The buffer with this number."""
        return self._buffers[ref]

    def dense(self, data: Any) -> SparsifyValue:
        """Add a dense array."""
        ref = self._push(data)
        return SparsifyValue(self._buffers[ref].shape, ref)

    def sparse(
        self,
        shape: Sequence[int],
        data: Any = None,
        indices: Any = None,
        indptr: Any = None,
        *,
        data_ref: int | None = None,
        indices_ref: int | None = None,
        indptr_ref: int | None = None,
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> SparsifyValue:
        """Add a sparse array, of new buffers or of references to those that are there."""
        refs = []
        for name, x, ref in (
            ("data", data, data_ref),
            ("indices", indices, indices_ref),
            ("indptr", indptr, indptr_ref),
        ):
            if x is not None and ref is not None:
                raise ValueError(f"give {name} or {name}_ref, not both")
            if x is None and ref is None and name != "indptr":
                raise ValueError(f"a sparse value needs {name} or {name}_ref")
            refs.append(ref if x is None else self._push(x))
        return SparsifyValue(tuple(shape), *refs, indices_sorted, unique_indices)

    def with_data(self, spvalue: SparsifyValue, data: Any) -> SparsifyValue:
        """A value with other elements at the places of `spvalue`."""
        return spvalue._replace(data_ref=self._push(data))


def is_sparse_array(x: object) -> bool:
    """Whether `sparsify` treats `x` as one sparse array."""
    return isinstance(x, BCOO | BCSR)


def is_spvalue(x: object) -> bool:
    return isinstance(x, SparsifyValue)


@set_module(MODULE)
def arrays_to_spvalues(spenv: SparsifyEnv, args: Any) -> Any:
    """Add the dense and sparse arrays of a tree to `spenv`; return a tree of their values."""

    def convert(x: Any) -> SparsifyValue:
        if not is_sparse_array(x):
            return spenv.dense(x)
        return spenv.sparse(
            x.shape,
            *x.tree_flatten()[0],
            indices_sorted=x.indices_sorted,
            unique_indices=x.unique_indices,
        )

    return tree_util.tree_map(convert, args, is_leaf=is_sparse_array)


@set_module(MODULE)
def spvalues_to_arrays(spenv: SparsifyEnv, spvalues: Any) -> Any:
    """Replace the values of a tree by the arrays that they stand for."""

    def convert(x: SparsifyValue) -> Any:
        if x.is_dense():
            return spenv.data(x)
        flags = dict(indices_sorted=bool(x.indices_sorted), unique_indices=bool(x.unique_indices))
        buffers = tuple([spenv.buffer(r) for r in x.refs])
        return (BCSR if x.is_bcsr() else BCOO)(buffers, shape=x.shape, **flags)

    return tree_util.tree_map(convert, spvalues, is_leaf=is_spvalue)


@set_module(MODULE)
def spvalues_to_avals(spenv: SparsifyEnv, spvalues: Any) -> Any:
    """Replace the values of a tree by the types of the dense arrays that they stand for."""

    def convert(x: SparsifyValue) -> ShapedArray:
        aval = typeof(spenv.data(x))
        return aval if x.is_dense() else ShapedArray(x.shape, aval.dtype, aval.weak_type)

    return tree_util.tree_map(convert, spvalues, is_leaf=is_spvalue)
