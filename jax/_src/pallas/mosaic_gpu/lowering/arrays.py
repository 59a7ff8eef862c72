"""Arrays in the registers of a warpgroup, for functions of `plgpu.inline_mgpu`."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.core import Primitive
from jax._src.lax import lax, special
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith
from jax._src.pallas.element_types import is_float, is_signed
from jax._src.pallas.elementwise import COMPARISONS, UNARY, kind
from jax._src.pallas.mosaic_gpu.layouts import (
    FragmentedLayout,
    Layout,
    TiledLayout,
    WGSplatFragLayout,
    WGStridedFragLayout,
)
from jax._src.pallas.mosaic_gpu.lowering.elementwise import TWO_OPERANDS, convert
from jax._src.pallas.mosaic_gpu.lowering.exchange import broadcasted, in_layout
from jax._src.pallas.mosaic_gpu.lowering.fragments import (
    Fragment,
    full_like,
    layout_of,
    like_operand,
    mapped,
    splat,
)
from jax._src.pallas.mosaic_gpu.lowering.kernel import GpuKernel, element_type, number
from jax._src.pallas.mosaic_gpu.lowering.memrefs import from_memref
from jax._src.pallas.mosaic_gpu.lowering.reductions import reduced
from jax._src.pallas.mosaic_gpu.lowering.shapes import iota
from jax._src.pallas.mosaic_gpu.lowering.views import load, store

_WGMMA = Layout.WGMMA.to_mgpu()
_kernel: contextvars.ContextVar[GpuKernel] = contextvars.ContextVar("kernel")


@contextlib.contextmanager
def in_kernel(kernel: GpuKernel) -> Iterator[None]:
    """Context manager in which functions emit operations into a kernel."""
    token = _kernel.set(kernel)
    try:
        yield
    finally:
        _kernel.reset(token)


def current_kernel() -> GpuKernel:
    """Return the kernel that a function of `inline_mgpu` is called for.

    Raises:
      RuntimeError: outside of such.
    """
    kernel = _kernel.get(None)
    if kernel is None:
        raise RuntimeError("Only functions of plgpu.inline_mgpu emit operations into kernels.")
    return kernel


def dtype_of(element: Any, signed: bool | None) -> Any:
    """Return the dtype of elements of a type of MLIR.

    Raises:
      ValueError: if it is one of integers, and their sign is not said.
    """
    if not isinstance(element, ir.IntegerType):
        found = next((d for d in _FLOATS if element_type(d) == element), None)
        if found is None:
            raise ValueError(f"Arrays in registers have no elements of {element}.")
        return found
    width = ir.IntegerType(element).width
    if width == 1:
        return np.dtype(np.bool_)
    if signed is None:
        raise ValueError(
            f"An array of {element} has numbers with or without a sign: give is_signed."
        )
    return np.dtype(f"{'' if signed else 'u'}int{width}")


_FLOATS = [
    np.dtype(n)
    for n in ("float64", "float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
]


class FragmentedArray:
    """An array in the registers of a warpgroup, whose layout says which elements a lane has.

    Functions of `plgpu.inline_mgpu` are given such, and return them. They are made by `splat`, `broadcasted_iota`,
    `load_strided`, `load_tiled` and `load_untiled`, and have the arithmetic of Python's numbers, with numbers and with
    arrays of their layout.

    Attributes:
      registers: an array of values of MLIR.
      layout: the layout.
      shape: the shape.
      is_signed: whether integers have a sign; None for other numbers.
    """

    def __init__(self, *, _registers: Any, _layout: FragmentedLayout, _is_signed: bool | None):
        registers = np.asarray(_registers, dtype=object)
        first = registers.flat[0].type
        element = ir.VectorType(first).element_type if isinstance(first, ir.VectorType) else first
        shape = _shape_of(registers.shape, _layout)
        self.fragment = Fragment(_layout, shape, dtype_of(element, _is_signed), registers)

    @classmethod
    def of(cls, fragment: Fragment) -> FragmentedArray:
        """Return the array that a rule of the back end has."""
        out = cls.__new__(cls)
        out.fragment = fragment
        return out

    registers = property(lambda self: self.fragment.registers)
    layout = property(lambda self: self.fragment.layout)
    shape = property(lambda self: self.fragment.shape)
    dtype = property(lambda self: self.fragment.dtype)

    @property
    def is_signed(self) -> bool | None:
        if dtypes.issubdtype(self.dtype, np.integer):
            return is_signed(self.dtype)
        return False if self.dtype == np.bool_ else None

    @property
    def mlir_dtype(self) -> Any:
        """The type of elements."""
        return element_type(self.dtype)

    def __repr__(self) -> str:
        name = dtypes.dtype_name(self.dtype)
        return f"FragmentedArray(shape={self.shape}, dtype={name}, layout={self.layout})"

    # Making and storing

    @classmethod
    def splat(
        cls, value: Any, shape: Sequence[int], layout: FragmentedLayout | None = None, *, is_signed: bool | None = None
    ) -> FragmentedArray:  # fmt: skip
        """Return an array whose elements are all one value."""
        out = splat(value, shape, dtype_of(value.type, is_signed))
        return cls.of(out if layout is None else out.with_layout(layout))

    @staticmethod
    def broadcasted_iota(
        dtype: Any, shape: Sequence[int], dimension: int, layout: FragmentedLayout | None = None, *,
        is_signed: bool | None = None,
    ) -> FragmentedArray:  # fmt: skip
        """Return an array of the positions along a dimension; `dtype` is a type of MLIR."""
        shape, to = tuple(shape), dtype_of(dtype, is_signed)
        found = iota(current_kernel(), layout or layout_of(shape, to), shape, dimension, to)
        return FragmentedArray.of(found)

    @classmethod
    def load_strided(
        cls, ref: Any, *, is_signed: bool | None = None, vec_size: int | None = None
    ) -> FragmentedArray:
        """Return what a memref has, in the layout of arrays in row-major order, in vectors of `vec_size` elements."""
        shape = tuple(ir.MemRefType(ref.type).shape)
        layout: FragmentedLayout
        if vec_size is None:
            layout = layout_of(shape, _dtype(ref, is_signed))
        else:
            layout = WGStridedFragLayout(shape, vec_size)
        return cls._load(ref, layout, is_signed)

    @classmethod
    def load_untiled(
        cls, ref: Any, *, layout: FragmentedLayout, swizzle: int = 16, is_signed: bool | None = None
    ) -> FragmentedArray:
        """Return what a memref has, in a layout; `swizzle` is how many bytes rows have whose pieces are permuted."""
        return cls._load(ref, layout, is_signed, swizzle)

    @classmethod
    def load_tiled(
        cls, ref: Any, swizzle: int | None, *, is_signed: bool | None = None, layout: FragmentedLayout = _WGMMA,
        tiling_rank: int | None = None,
    ) -> FragmentedArray:  # fmt: skip
        """Return what a memref of tiles has, in a layout.

        Args:
          ref: the memref; the last `tiling_rank` dimensions are those of tiles, and as many before those of their numbers.
          swizzle: how many bytes rows of tiles have whose pieces are permuted.
          is_signed: whether integers have a sign.
          layout: the layout.
          tiling_rank: half of the dimensions, unless it is given.
        """
        return cls._load(ref, layout, is_signed, swizzle, _tiled(ref, tiling_rank))

    @classmethod
    def _load(
        cls, ref: Any, layout: Any, signed: bool | None, swizzle: int | None = None, tiled: int = 0
    ) -> FragmentedArray:
        view = from_memref(ref, _dtype(ref, signed), tiled, _permuted(swizzle))
        return cls.of(load(current_kernel(), view, layout))

    def store_untiled(self, ref: Any, *, swizzle: int = 16) -> None:
        """Write the array to a memref; other lanes see it after `warpgroup_barrier`."""
        self._store(ref, swizzle)

    def store_tiled(self, ref: Any, swizzle: int | None, *, tiling_rank: int | None = None) -> None:
        """Write the array to a memref of tiles, which `load_tiled` reads."""
        self._store(ref, swizzle, _tiled(ref, tiling_rank))

    def _store(self, ref: Any, swizzle: int | None, tiled: int = 0) -> None:
        view = from_memref(ref, self.dtype, tiled, _permuted(swizzle))
        if view.shape != self.shape or ir.MemRefType(ref.type).element_type != self.mlir_dtype:
            raise ValueError(f"{self} cannot be stored in a reference of type {ref.type}.")
        store(current_kernel(), view, self.fragment)

    # Other forms

    def to_layout(self, new_layout: FragmentedLayout) -> FragmentedArray:
        """Return the array in another layout."""
        return self.of(in_layout(current_kernel(), self.fragment, new_layout))

    def astype(self, new_dtype: Any, *, is_signed: bool | None = None) -> FragmentedArray:
        """Return the array of another dtype, a type of MLIR."""
        old, new = self.dtype, dtype_of(new_dtype, is_signed)
        return self.of(self.fragment.with_dtype(lambda v: convert(v, old, new), new))

    def bitcast(self, elt: Any, *, output_is_signed: bool | None = None) -> FragmentedArray:
        """Return the bits as elements of another type of as many."""
        new = dtype_of(elt, output_is_signed)
        return self.of(
            self.fragment.with_dtype(lambda v: arith.bitcast(like_operand(elt, v), v), new)
        )

    def broadcast_in_dim(
        self, shape: Sequence[int], source_dimensions: Sequence[int], layout: FragmentedLayout
    ) -> FragmentedArray:
        """Return the array with new dimensions; `source_dimensions` says which of them are the array's."""
        kernel = current_kernel()
        return self.of(
            broadcasted(kernel, self.fragment, tuple(shape), tuple(source_dimensions), layout)
        )

    def reduce(self, op: str, axis: int | Sequence[int]) -> FragmentedArray:
        """Return the array that has been reduced over axes, by "add", "max" or "min"."""
        p = _REDUCED[op]
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
        return self.of(
            reduced(current_kernel(), self.fragment, axes, self._operation(TWO_OPERANDS, p), p)
        )

    # Arithmetic

    def _operation(self, table: Any, p: Primitive) -> Callable[..., Any]:
        operation = table[p][kind(self.dtype)]
        if operation is None:
            raise TypeError(f"There is no {p.name} of {self}.")
        return operation

    def _operand(self, other: Any) -> FragmentedArray:
        if isinstance(other, ir.Value):
            return self.splat(other, self.shape, is_signed=self.is_signed)
        if not isinstance(other, FragmentedArray):
            return self.of(splat(number(other, self.dtype), self.shape, self.dtype))
        return other

    def _apply(self, operation: Callable[..., Any], *others: Any, dtype: Any = None) -> Any:
        arrays = [self, *map(self._operand, others)]
        layouts = {x.layout for x in arrays if not isinstance(x.layout, WGSplatFragLayout)}
        if len({x.shape for x in arrays}) > 1 or len(layouts) > 1:
            raise ValueError(
                f"Arrays of an operation have one shape and layout, got {', '.join(map(repr, arrays))}: take to_layout or "
                "broadcast_in_dim."
            )
        fragments = [x.fragment for x in arrays]
        return self.of(mapped(operation, fragments, self.dtype if dtype is None else dtype))

    def _binary(self, p: Primitive, other: Any, turned: bool = False) -> FragmentedArray:
        operation, other = self._operation(TWO_OPERANDS, p), self._operand(other)
        if other.dtype != self.dtype:
            raise TypeError(f"Operands have one dtype, got {self} and {other}: take astype.")
        return other._apply(operation, self) if turned else self._apply(operation, other)

    def _compare(self, p: Primitive, other: Any) -> FragmentedArray:
        predicate = COMPARISONS[p][min(kind(self.dtype), 2)]
        compare = arith.cmpf if is_float(self.dtype) else arith.cmpi
        return self._apply(lambda x, y: compare(predicate, x, y), other, dtype=np.dtype(np.bool_))

    def select(self, on_true: FragmentedArray, on_false: FragmentedArray) -> FragmentedArray:
        """Return the elements of one array where this one, of booleans, is true, and of another elsewhere."""
        return self._apply(arith.select, on_true, on_false, dtype=on_true.dtype)

    def __neg__(self) -> FragmentedArray:
        return self._operand(0) - self if not is_float(self.dtype) else self._apply(arith.negf)

    def __invert__(self) -> FragmentedArray:
        ones = number(True if self.dtype == np.bool_ else -1, self.dtype)
        return self._apply(lambda v: arith.xori(v, full_like(v, ones)))

    __hash__ = None  # type: ignore[assignment]


def _shape_of(registers: tuple[int, ...], layout: FragmentedLayout) -> tuple[int, ...]:
    """Return the shape of an array whose registers have a shape."""
    if not isinstance(layout, TiledLayout):
        return layout.shape
    tile = layout.tiling.tiles[0]
    inner = layout.tiling.tile_shape(tile)[len(tile) :]
    counts = registers[: len(registers) - len(inner)]
    head, tail = counts[: len(counts) - len(tile)], counts[len(counts) - len(tile) :]
    return (*head, *[n * t for n, t in zip(tail, tile)])


def _dtype(ref: Any, signed: bool | None) -> Any:
    return dtype_of(ir.MemRefType(ref.type).element_type, signed)


def _permuted(swizzle: int | None) -> int | None:
    return None if swizzle in (None, 16) else swizzle


def _tiled(ref: Any, rank: int | None) -> int:
    return len(ir.MemRefType(ref.type).shape) // 2 if rank is None else rank


_REDUCED = {"add": lax.add_p, "max": lax.max_p, "min": lax.min_p}
_BINARY = {
    "add": lax.add_p, "sub": lax.sub_p, "mul": lax.mul_p, "truediv": lax.div_p, "mod": lax.rem_p,
    "and": lax.and_p, "or": lax.or_p, "xor": lax.xor_p,
}  # fmt: skip
_FUNCTIONS = {
    "abs": lax.abs_p, "exp": lax.exp_p, "exp2": lax.exp2_p, "log": lax.log_p, "sin": lax.sin_p, "cos": lax.cos_p,
    "tanh": lax.tanh_p, "rsqrt": lax.rsqrt_p, "erf": special.erf_p,
}  # fmt: skip


def _add_methods() -> None:
    """Give the class the methods that the tables of elementwise operations have."""

    def binary(p: Primitive, turned: bool = False) -> Any:
        return lambda self, other: self._binary(p, other, turned)

    def comparison(p: Primitive) -> Any:
        return lambda self, other: self._compare(p, other)

    def function(p: Primitive) -> Any:
        return lambda self: self._apply(self._operation(UNARY, p))

    methods: dict[str, Any] = {"max": binary(lax.max_p), "min": binary(lax.min_p)}
    for name, p in _BINARY.items():
        methods[f"__{name}__"], methods[f"__r{name}__"] = binary(p), binary(p, True)
    methods |= {f"__{p.name}__": comparison(p) for p in COMPARISONS}
    methods |= {name: function(p) for name, p in _FUNCTIONS.items()}
    for name, method in methods.items():
        method.__name__, method.__qualname__ = name, f"FragmentedArray.{name}"
        setattr(FragmentedArray, name, method)


_add_methods()
