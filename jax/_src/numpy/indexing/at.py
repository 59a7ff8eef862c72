"""The property `x.at`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax._src.basearray import Array
from jax._src.lax import lax, slicing
from jax._src.numpy import ufuncs
from jax._src.numpy.indexing.getting import rewriting_take
from jax._src.numpy.indexing.setting import scatter_update
from jax._src.transforms.explicit_sharding import reshard


def _resharded(x, sharding):
    return x if sharding is None else reshard(x, sharding)


class _IndexUpdateHelper:
    """Updates and reads elements of an array; the array itself is unchanged.

    =================================  ==========================================
    `x.at[i].set(y)`                   like `x[i] = y`
    `x.at[i].add(y)`                   like `x[i] += y`; likewise:
    `.subtract .multiply .divide .power .min .max`
    `x.at[i].apply(f)`                 like `x[i] = f(x[i])`, for functions of scalars
    `x.at[i].get()`                    like `x[i]`
    =================================  ==========================================

    Updates return an array of the shape and dtype of `x`. If an element is indexed repeatedly, all of
    its updates are applied by `add`, `multiply` and so on, unlike NumPy; `set` keeps an unspecified
    one.

    All methods take these keyword arguments:

    - `mode`: treatment of out-of-bounds indices: "fill" or "drop" (the default of updates, which are
      then skipped; `get` returns `fill_value`), "clip" (uses the nearest index) or
      "promise_in_bounds" (asserts that there are none).
    - `indices_are_sorted`, `unique_indices`: promises about index arrays, which may make the
      operation faster.
    - `wrap_negative_indices`: whether negative indices count from the end.
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
    """An indexed array `x.at[i]`, whose methods read or update the elements."""

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
        """Returns the elements, like `x[i]`.

        Args:
          fill_value: in mode "fill", a static scalar for out-of-bounds indices; by default NaN, the
            least signed or the largest unsigned integer.
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
        """Returns the array with the elements replaced, as by `x[i] = values`."""
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
        """Returns the array with a scalar function applied to the elements, once per occurrence.

        Args:
          func: function from a scalar to a scalar of the same dtype. It may close over constants
            only.

        Differentiation requires `unique_indices=True`, or an index without arrays.
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
        """Returns the array with `values` added to the elements, once for each occurrence."""
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
        """Returns the array with `values` subtracted from the elements."""
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
        """Returns the array with the elements multiplied by `values`."""
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
        """Returns the array with the elements divided by `values`; integers become floats."""
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
        """Returns the array with the elements raised to the powers `values`."""
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
        """Returns the array with the elements replaced by `values` where those are smaller."""
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
        """Returns the array with the elements replaced by `values` where those are larger."""
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
