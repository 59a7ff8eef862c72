"""The property `x.at`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax._src.basearray import Array
from jax._src.core import typeof
from jax._src.lax import lax, slicing
from jax._src.numpy import ufuncs
from jax._src.numpy.indexing.getting import rewriting_take
from jax._src.numpy.indexing.setting import scatter_update
from jax._src.transforms.explicit_sharding import reshard


def _resharded(x, sharding):
    return x if sharding is None else reshard(x, sharding)


class _IndexUpdateHelper:
    """Updates and reads of elements of an array, which itself stays as it is.

    =================================  ==========================================
    `x.at[i].set(y)`                   as `x[i] = y`
    `x.at[i].add(y)`                   as `x[i] += y`; and so on:
    `.subtract .multiply .divide .power .min .max`
    `x.at[i].apply(f)`                 as `x[i] = f(x[i])`, for functions of scalars
    `x.at[i].get()`                    as `x[i]`
    =================================  ==========================================

    They return an array like `x`. Unlike in NumPy, where an element is indexed several times, all of the
    updates of `add`, `multiply`, ... are applied; which one stays of those of `set` is undefined.

    All take keyword arguments:

    - `mode`: positions out of bounds are "fill" or "drop" (default of updates: nothing happens there; `get`
      gives `fill_value`), "clip" (moved to the nearest one) or "promise_in_bounds" (there are none).
    - `indices_are_sorted`, `unique_indices`: promises about arrays of positions, which may save time.
    - `wrap_negative_indices`: whether negative positions count from the end.
    - `out_sharding`: sharding of the result, in explicit mode.

    >>> x = jnp.arange(5.)
    >>> x.at[1:3].set(9.).tolist()
    [0.0, 9.0, 9.0, 3.0, 4.0]
    >>> x.at[jnp.array([0, 0])].add(1.)[0].item()
    2.0
    >>> x.at[7].get(mode="fill", fill_value=-1.).item()
    -1.0
    """

    __slots__ = ("array",)

    def __init__(self, array: Array):
        self.array = array

    def __getitem__(self, index: Any) -> _IndexUpdateRef:
        return _IndexUpdateRef(self.array, index)

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


class _IndexUpdateRef:
    """One index of `x.at`, waiting to be told what to do: see there."""

    __slots__ = ("array", "index")

    def __init__(self, array: Array, index: Any):
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """The elements, as `x[i]`.

        Args:
          fill_value: in mode "fill", a static scalar for positions out of bounds; by default NaN, the least
            signed or the largest unsigned integer.
        """
        return rewriting_take(
            self.array,
            self.index,
            indices_are_sorted,
            unique_indices,
            mode,
            fill_value,
            wrap_negative_indices,
            out_sharding,
        )

    def set(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """The array with the elements replaced, as by `x[i] = values`."""
        return scatter_update(
            self.array,
            self.index,
            values,
            slicing.scatter,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )

    def apply(
        self,
        func: Callable[[Any], Any],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """The array with a scalar function applied to the elements, as often as each is indexed.

        Args:
          func: function of a scalar to a scalar of the same dtype. It may close over constants only.

        The derivative needs `unique_indices=True`, or an index without arrays.
        """

        def scatter_apply(x, indices, y, dims, **kwargs):
            return slicing.scatter_apply(x, indices, func, dims, update_shape=y.shape, **kwargs)

        return scatter_update(
            self.array,
            self.index,
            lax.zero(self.array),
            scatter_apply,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            compiled=False,
        )

    def add(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """The array with `values` added to the elements; all of them where one is indexed repeatedly."""
        return scatter_update(
            self.array,
            self.index,
            values,
            slicing.scatter_add,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )

    def subtract(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """The array with `values` subtracted from the elements."""
        return scatter_update(
            self.array,
            self.index,
            values,
            slicing.scatter_sub,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )

    def multiply(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """The array with the elements multiplied by `values`."""
        return scatter_update(
            self.array,
            self.index,
            values,
            slicing.scatter_mul,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )

    mul = multiply

    def divide(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """The array with the elements divided by `values`; of a float dtype if it has integers."""
        divisor = scatter_update(
            lax.full_like(self.array, 1),
            self.index,
            values,
            slicing.scatter_mul,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )
        return ufuncs.divide(_resharded(self.array, out_sharding), divisor)

    def power(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """The array with the elements raised to the power of `values`."""
        exponent = scatter_update(
            lax.full_like(self.array, 1),
            self.index,
            values,
            slicing.scatter_mul,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )
        return ufuncs.power(_resharded(self.array, out_sharding), exponent)

    def min(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """The array with the elements replaced by `values` where those are smaller."""
        return scatter_update(
            self.array,
            self.index,
            values,
            slicing.scatter_min,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )

    def max(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """The array with the elements replaced by `values` where those are larger."""
        return scatter_update(
            self.array,
            self.index,
            values,
            slicing.scatter_max,
            indices_are_sorted,
            unique_indices,
            mode,
            wrap_negative_indices,
            out_sharding,
        )
