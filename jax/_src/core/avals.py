"""Abstract values: the types of traced values.

`ShapedArray` is interned: equal types are usually the same object, so caches and comparisons can
test for identity before they compare fields.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jax._src import dtypes, literals
from jax._src.config import abstract_mesh_context_manager as _context_mesh
from jax._src.core.manual_axis_type import ManualAxisType, empty_mat
from jax._src.late_binding import late
from jax._src.memory import MemorySpace
from jax._src.mesh import empty_abstract_mesh
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding import divisibility_hint

if TYPE_CHECKING:
    from jax._src.core.trace import Tracer
    from jax._src.sharding import Sharding
    from jax._src.tree_util.flat_tree import FlatTree


class AbstractValue:
    """The type of a value that a trace can carry."""

    __slots__ = ()
    is_high = False
    has_qdd = False

    if TYPE_CHECKING:  # attributes of array types only; code that meets other types tests first

        @property
        def shape(self) -> tuple[Any, ...]: ...
        @property
        def dtype(self) -> Any: ...
        @property
        def weak_type(self) -> bool: ...
        @property
        def ndim(self) -> int: ...
        @property
        def size(self) -> int: ...
        @property
        def sharding(self) -> Any: ...
        @property
        def _sharding(self) -> NamedSharding | None: ...

    def to_tangent_aval(self) -> AbstractValue:
        """The type of a tangent of a value of this type."""
        raise NotImplementedError(f"{type(self).__name__} has no tangent type")

    def to_ct_aval(self) -> AbstractValue:
        """The type of a cotangent of a value of this type."""
        return self.to_tangent_aval()

    def at_least_vspace(self) -> AbstractValue:
        """The type of a tangent, which belongs to a vector space: tangents can be added."""
        return self.to_tangent_aval()

    def vspace_add(self, x: object, y: object) -> Any:
        """The sum of two tangents of values of this type."""
        return late.add_any(x, y)

    def dec_rank(self, size: int, spec: Any) -> AbstractValue:
        """The type of a slice of the value: without the axis of length `size` given by `spec`."""
        return mapped_aval(size, spec, self)

    def inc_rank(self, size: int, spec: Any) -> AbstractValue:
        """The type of such values stacked along a new axis of length `size` given by `spec`."""
        return unmapped_aval(size, spec, self)

    def normalize(self) -> AbstractValue:
        """The type without the attributes that only dtype promotion uses (weak type)."""
        return self.strip_weak_type()

    def update_manual_axis_type(self, mat: ManualAxisType) -> AbstractValue:
        return self

    def leading_axis_spec(self) -> Any:
        """The axis spec with which `dec_rank` and `inc_rank` remove or add a leading axis."""
        return 0

    def lo_ty(self) -> list[AbstractValue]:
        """The types of the arrays that represent a value of this type."""
        return [self]

    def lo_ty_qdd(self, qdd: Any) -> list[AbstractValue]:
        """The types of the arrays that represent a mutable value in the state `qdd`."""
        raise NotImplementedError(f"values of type {self} have no quasi-dynamic data")

    def lower_val(self, val: object) -> list[Any]:
        """The arrays that represent a value of this type."""
        return [val]

    def raise_val(self, *vals: Any) -> Any:
        """The value represented by arrays; inverse of `lower_val`."""
        return vals[0]

    def lower_val2(self, hi_val: object) -> FlatTree:
        """The arrays that represent a value of this type, as a pytree."""
        from jax._src.tree_util.flat_tree import FlatTree  # which most programs do not use

        return FlatTree.flatten(self.lower_val(hi_val))

    def raise_val2(self, lo_vals_ft: FlatTree) -> Any:
        """The value represented by a pytree of arrays; inverse of `lower_val2`."""
        return self.raise_val(*lo_vals_ft.unflatten())

    def shard(self, mesh: Any, manual_axes: Any, check_vma: bool, spec: Any) -> AbstractValue:
        """The type of one device's part of a value that `shard_map` divides as `spec` says."""
        raise NotImplementedError(f"shard_map does not divide values of type {self}")

    def unshard(self, mesh: Any, check_vma: bool, spec: Any) -> AbstractValue:
        """The type of the value whose parts, divided as `spec` says, have this type."""
        raise NotImplementedError(f"shard_map does not join values of type {self}")

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return str(self)

    def strip_weak_type(self) -> AbstractValue:
        return self

    def update_weak_type(self, weak_type: bool) -> AbstractValue:
        return self

    def update(self, **kwargs: Any) -> AbstractValue:
        raise NotImplementedError(f"{type(self).__name__} has no fields to update")

    def _getitem(self, tracer: Tracer, idx: object) -> Any:
        raise TypeError(f"a value of type {self} cannot be indexed")

    def _setitem(self, tracer: Tracer, idx: object, value: object) -> None:
        raise TypeError(f"a value of type {self} does not support item assignment")


_MAX_INTERNED = 200_000
_interned: dict[Any, ShapedArray] = {}


def _table_of(shape: tuple[Any, ...]) -> dict[Any, ShapedArray]:
    """The table of avals of a shape: those with symbolic dimensions go with the scope of these."""
    for d in shape:
        if type(d) is not int and is_symbolic_dim(d):
            table: dict[Any, ShapedArray] = d.scope._avals
            return table
    return _interned


def canonicalize_dim(d: Any) -> Any:
    """A dimension size as an `int`; symbolic dimensions are returned unchanged."""
    if type(d) is int:
        return d
    if is_symbolic_dim(d):
        return d
    return operator.index(d)


def is_symbolic_dim(d: object) -> bool:
    """Whether `d` is a symbolic dimension of shape polymorphism."""
    return hasattr(type(d), "_is_symbolic_dim")


def is_constant_dim(d: int | None) -> bool:
    return type(d) is int or not is_symbolic_dim(d)


def is_constant_shape(shape: Sequence[Any]) -> bool:
    return all(map(is_constant_dim, shape))


def canonicalize_shape(shape: Any, context: str = "") -> tuple[int, ...]:
    """`shape` as a tuple of ints.

    Raises:
      TypeError: if it is not a sequence of integers; for traced dimensions with a remedy.
    """
    if isinstance(shape, (int, np.integer)):
        raise _invalid_shape(shape, context)
    try:
        return tuple([canonicalize_dim(d) for d in shape])
    except TypeError:
        raise _invalid_shape(shape, context) from None


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Return the shape that shapes broadcast to by NumPy's rules.

    Args:
      *shapes: sequences of dimension sizes.

    Returns:
      A tuple of sizes.

    Raises:
      ValueError: if the shapes are incompatible.

    >>> lax.broadcast_shapes((2, 3), (3,), (1, 1, 1))
    (1, 2, 3)
    """
    first = shapes[0] if shapes else ()
    for s in shapes:
        if type(s) is not tuple:  # accept arrays as shapes, too
            return broadcast_shapes(*map(tuple, shapes))
        if s != first:
            break
    else:
        return canonicalize_shape(first) if shapes else ()
    result = []
    for sizes in itertools.zip_longest(*[tuple(s)[::-1] for s in shapes], fillvalue=1):
        size = 1
        for d in sizes:
            if type(d) is int and d == 1 or d == size:
                continue
            if size == 1:
                size = d
            elif d != 1:
                raise ValueError(
                    f"Incompatible shapes for broadcasting: shapes={[tuple(s) for s in shapes]}"
                )
        result.append(size)
    return canonicalize_shape(result[::-1])


def _invalid_shape(shape: object, context: str) -> TypeError:
    msg = f"Shapes must be 1D sequences of concrete values of integer type, got {shape}."
    if context:
        msg += f" {context}."
    dims = shape if isinstance(shape, (list, tuple)) else (shape,)
    traced = [d for d in dims if hasattr(d, "_is_traced_array")]
    if traced:
        msg += "\nIf using `jit`, try using `static_argnums` or applying `jit` to smaller subfunctions."
        msg += traced[0]._origin_msg()
    return TypeError(msg)


class ShapedArray(AbstractValue):
    """The type of an array: shape, dtype, weak type, sharding, manual axes and memory space.

    Args:
      shape: tuple of dimension sizes.
      dtype: NumPy or extended dtype.
      weak_type: whether the dtype yields to others in promotion, as for Python scalars.
      sharding: `NamedSharding` over an abstract mesh; None is the empty mesh.
      manual_axis_type: how the value varies over manual mesh axes.
      memory_space: where the value lives.

    >>> jax.core.ShapedArray((2, 3), 'float32')
    ShapedArray(float32[2,3])
    """

    __slots__ = (
        "shape",
        "dtype",
        "weak_type",
        "_sharding",
        "manual_axis_type",
        "memory_space",
        "_hash",
        "_tangent",
        "__weakref__",
    )
    array_abstraction_level = 2
    shape: tuple[Any, ...]
    dtype: Any
    weak_type: bool
    manual_axis_type: ManualAxisType
    memory_space: MemorySpace
    _sharding: NamedSharding | None
    _hash: int
    _tangent: ShapedArray | None

    def __new__(
        cls,
        shape: Sequence[Any],
        dtype: np.dtype[Any],
        weak_type: bool = False,
        *,
        sharding: Sharding | None = None,
        manual_axis_type: Any = empty_mat,
        memory_space: Any = MemorySpace.Device,
    ) -> ShapedArray:
        if (
            sharding is None
            and manual_axis_type is empty_mat
            and memory_space is MemorySpace.Device
        ):
            key = (cls, shape, dtype, weak_type)
            try:
                self = _interned.get(key)
            except TypeError:  # an unhashable shape or dtype spelling
                return cls.__new__(cls, canonicalize_shape(shape), np.dtype(dtype), weak_type)
            if self is not None:
                return self
        shape = canonicalize_shape(shape)
        if not isinstance(dtype, dtypes.ExtendedDType):
            dtype = np.dtype(dtype)
        weak_type = bool(weak_type)
        if sharding is not None:
            sharding = _normalize_sharding(sharding, len(shape))
        table = _table_of(shape)
        full_key = (cls, shape, dtype, weak_type, sharding, manual_axis_type, memory_space)
        self = table.get(full_key)
        if self is None:
            if sharding is not None:
                _check_divisible(shape, sharding)
            self = object.__new__(cls)
            self.shape = shape
            self.dtype = dtype
            self.weak_type = weak_type
            self._sharding = sharding
            self.manual_axis_type = manual_axis_type
            self.memory_space = memory_space
            self._hash = hash((shape, dtype, weak_type, sharding, manual_axis_type, memory_space))
            self._tangent = None
            if len(table) > _MAX_INTERNED:
                table.clear()
            table[full_key] = self
        if (
            sharding is None
            and manual_axis_type is empty_mat
            and memory_space is MemorySpace.Device
            and table is _interned
        ):
            table[cls, shape, dtype, weak_type] = self
        return self

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        return self.size * int(self.dtype.itemsize)

    @property
    def sharding(self) -> Any:
        if self._sharding is not None:
            return self._sharding
        mesh = _context_mesh.value
        if mesh is None or mesh._any_axis_explicit:
            mesh = empty_abstract_mesh
        return NamedSharding(mesh, PartitionSpec(*([None] * len(self.shape))))

    @property
    def vma(self) -> frozenset[Any]:
        return self.manual_axis_type.varying

    @property
    def mat(self) -> ManualAxisType:
        return self.manual_axis_type

    def shard(self, *args: Any) -> ShapedArray:
        return late.shard_array(self, *args)

    def unshard(self, *args: Any) -> ShapedArray:
        return late.unshard_array(self, *args)

    def nospec(self, *args: Any) -> Any:
        return late.nospec_array(self, *args)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def update(
        self, shape: Any = None, dtype: object = None, weak_type: bool | None = None, **kwargs: Any
    ) -> ShapedArray:
        """A copy with some fields replaced (shape, dtype, weak_type, sharding, ...)."""
        new_shape = self.shape if shape is None else shape
        if "sharding" not in kwargs:
            kwargs["sharding"] = self._sharding if len(new_shape) == len(self.shape) else None
        if "vma" in kwargs:
            kwargs["manual_axis_type"] = ManualAxisType(varying=frozenset(kwargs.pop("vma")))
        kwargs.setdefault("manual_axis_type", self.manual_axis_type)
        kwargs.setdefault("memory_space", self.memory_space)
        return type(self)(
            new_shape,
            self.dtype if dtype is None else dtype,
            self.weak_type if weak_type is None else weak_type,
            **kwargs,
        )

    def update_weak_type(self, weak_type: bool) -> ShapedArray:
        return self if weak_type is self.weak_type else self.update(weak_type=weak_type)

    def update_manual_axis_type(self, mat: ManualAxisType) -> ShapedArray:
        return self if mat == self.manual_axis_type else self.update(manual_axis_type=mat)

    def strip_weak_type(self) -> ShapedArray:
        return self.update(weak_type=False) if self.weak_type else self

    def to_tangent_aval(self) -> ShapedArray:
        tangent = self._tangent
        if tangent is None:
            tangent = self.update(
                dtype=primal_dtype_to_tangent_dtype(self.dtype), weak_type=self.weak_type
            )
            self._tangent = tangent
        return tangent

    def to_ct_aval(self) -> ShapedArray:
        tangent = self.to_tangent_aval()
        if self._sharding is None and self.manual_axis_type is empty_mat:
            return tangent
        sharding = self._sharding
        if sharding is not None:
            sharding = sharding.update(spec=sharding.spec.to_ct_spec())
        return tangent.update(sharding=sharding, manual_axis_type=self.manual_axis_type.to_ct_mat())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            type(self) is type(other)
            and self._hash == other._hash
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.weak_type == other.weak_type
            and self._sharding == other._sharding
            and self.manual_axis_type == other.manual_axis_type
            and self.memory_space == other.memory_space
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        kwargs = dict(
            sharding=self._sharding,
            manual_axis_type=self.manual_axis_type,
            memory_space=self.memory_space,
        )
        return (_rebuild_shaped_array, (self.shape, self.dtype, self.weak_type, kwargs))

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        """`f32[3]` (or `float32[3]`), with sharding, memory space and manual axes where set."""
        name = (
            dtypes.short_dtype_name(self.dtype) if short_dtypes else dtypes.dtype_name(self.dtype)
        )
        space = (
            "" if self.memory_space is MemorySpace.Device else f"<{self.memory_space.name.lower()}>"
        )
        dims = ",".join(
            map(str, self.shape)
            if self._sharding is None
            else dim_strings(self.shape, self._sharding.spec.partitions)
        )
        return f"{name}{space}[{dims}]{_manual_string(self)}"

    def __str__(self) -> str:
        return ("~" if self.weak_type else "") + self.str_short()

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short()}{weak})"


def _rebuild_shaped_array(shape: object, dtype: object, weak_type: bool, kwargs: Any) -> Any:
    if not kwargs["manual_axis_type"]:
        kwargs["manual_axis_type"] = empty_mat
    return ShapedArray(shape, dtype, weak_type, **kwargs)


def _normalize_sharding(sharding: Sharding, ndim: int) -> Any:
    """A sharding over an abstract mesh with one entry per dimension; None for the empty mesh."""
    mesh = sharding.mesh
    abstract = getattr(mesh, "abstract_mesh", mesh)
    if not abstract.axis_names:
        return None
    spec = sharding.spec
    if len(spec) > ndim:
        spec = spec._fitted_to(ndim)
    if len(spec) > ndim:
        raise ValueError(
            f"The sharding {spec} has {len(spec)} entries for an array with {ndim} dimensions."
        )
    if PartitionSpec.UNCONSTRAINED in spec.partitions:  # a hint, not part of the type
        entries = (None if e is PartitionSpec.UNCONSTRAINED else e for e in spec.partitions)
        spec = spec.update(partitions=tuple(entries))
    if len(spec) < ndim:
        spec = spec.update(partitions=spec.partitions + (None,) * (ndim - len(spec)))
    if abstract is mesh and spec is sharding.spec:
        return sharding
    return NamedSharding(abstract, spec)


def _check_divisible(shape: Sequence[Any], sharding: Any) -> None:
    """Raises ValueError if a dimension cannot be split evenly over its mesh axes."""
    for dim, (size, entry) in enumerate(zip(shape, sharding.spec.partitions)):
        if entry is None:
            continue
        axes = entry if isinstance(entry, tuple) else (entry,)
        parts = math.prod(sharding.mesh.shape[axis] for axis in axes)
        if parts > 1 and size % parts != 0:
            raise ValueError(
                f"Sharding spec {axes} implies that array axis {dim} is partitioned {parts} times, but"
                f" does not evenly divide the dimension size {size}. Got shape: {tuple(shape)} and"
                f" sharding {sharding}. Pad the dimension, or do not shard it"
                f"{divisibility_hint(size, parts)}."
            )


def dim_strings(shape: Sequence[Any], entries: Sequence[Any]) -> list[str]:
    """Dimensions as types show them, with the mesh axes of a spec's entries: `8@x`, `8@(x,y)`."""
    out = []
    for d, entry in zip(shape, entries):
        if entry is None:
            out.append(str(d))
        elif isinstance(entry, tuple):
            out.append(f"{d}@({','.join(map(str, entry))})")
        else:
            out.append(f"{d}@{entry}")
    return out


def _manual_string(aval: ShapedArray) -> str:
    mat, sharding = aval.manual_axis_type, aval._sharding
    unreduced, reduced = mat.unreduced, mat.reduced
    if sharding is not None:
        unreduced, reduced = unreduced | sharding.spec.unreduced, reduced | sharding.spec.reduced
    parts = []
    for mark, axes in (("V", mat.varying), ("U", unreduced), ("R", reduced)):
        if axes:
            names = ",".join(sorted(map(str, axes)))
            parts.append(f"{mark}:({names})" if len(axes) > 1 else f"{mark}:{names}")
    return "{" + ", ".join(parts) + "}" if parts else ""


def primal_dtype_to_tangent_dtype(primal_dtype: object) -> Any:
    """The dtype of tangents: the dtype itself if it is inexact, `float0` otherwise."""
    if isinstance(primal_dtype, dtypes.ExtendedDType):
        return primal_dtype._rules.tangent_dtype(primal_dtype)
    if dtypes.issubdtype(primal_dtype, np.inexact):
        return primal_dtype
    return dtypes.float0


# Adding and removing a mapped axis: between the type outside of `vmap` and the type inside.


def mapped_aval(size: int, axis: int | None, aval: AbstractValue) -> AbstractValue:
    """The type of one slice of a value of type `aval` along `axis`."""
    handler = aval_mapping_handlers.get(type(aval))
    if handler is None:
        if aval.is_high:
            return aval if axis is None else aval.dec_rank(size, high_axis(axis, aval))
        raise TypeError(f"no mapping rule for a value of type {aval}")
    mapped: AbstractValue = handler[0](size, axis, aval)
    return mapped


def unmapped_aval(
    size: int, axis: int | None, aval: AbstractValue, explicit_mesh_axis: Any = None
) -> AbstractValue:
    """The type of values of type `aval` stacked along `axis`."""
    handler = aval_mapping_handlers.get(type(aval))
    if handler is None:
        if aval.is_high:
            return aval if axis is None else aval.inc_rank(size, high_axis(axis, aval))
        raise TypeError(f"no unmapping rule for a value of type {aval}")
    unmapped: AbstractValue = handler[1](size, axis, explicit_mesh_axis, aval)
    return unmapped


def high_axis(axis: Any, aval: AbstractValue) -> Any:
    """The axis spec of a high type: 0 stands for that of the leading axis."""
    return aval.leading_axis_spec() if type(axis) is int and axis == 0 else axis


def _map_shaped_array(size: int, axis: int | None, aval: ShapedArray) -> Any:
    if axis is None:
        return aval
    shape = aval.shape[:axis] + aval.shape[axis + 1 :]
    sharding = aval._sharding
    if sharding is not None:
        entries = sharding.spec.partitions
        spec = sharding.spec.update(partitions=entries[:axis] + entries[axis + 1 :])
        return aval.update(shape=shape, sharding=sharding.update(spec=spec))
    return aval.update(shape=shape)


def _unmap_shaped_array(
    size: int, axis: int | None, explicit_mesh_axis: object, aval: ShapedArray
) -> Any:
    if axis is None:
        return aval
    shape = aval.shape[:axis] + (size,) + aval.shape[axis:]
    sharding = aval._sharding
    if sharding is None and explicit_mesh_axis is not None:  # a number: it has no mesh of its own
        mesh = _context_mesh.value
        if mesh is not None and mesh._any_axis_explicit:
            sharding = NamedSharding(mesh, PartitionSpec(*[None] * aval.ndim))
    if sharding is not None:
        entries = sharding.spec.partitions
        spec = sharding.spec.update(
            partitions=entries[:axis] + (explicit_mesh_axis,) + entries[axis:]
        )
        sharding = sharding.update(spec=spec)
    return aval.update(shape=shape, sharding=sharding)


class AbstractToken(AbstractValue):
    """The type of a token, which orders effects."""

    __slots__ = ()

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return "Tok"

    def to_tangent_aval(self) -> Any:
        return self

    def __repr__(self) -> str:
        return "AbstractToken()"


abstract_token = AbstractToken()


class Token:
    """A value of type `AbstractToken`: a boolean buffer that is ready when the effect is done."""

    __slots__ = ("_buf",)

    def __init__(self, buf: Any) -> None:
        self._buf = buf

    def block_until_ready(self) -> None:
        self._buf.block_until_ready()


aval_mapping_handlers: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {
    ShapedArray: (_map_shaped_array, _unmap_shaped_array),
    AbstractToken: (lambda size, axis, a: a, lambda size, axis, mesh_axis, a: a),
}

# Functions that compute the type of a value, by its Python type: filled in by the array layer
# (arrays, NumPy types) and by traces (tracers).
pytype_aval_mappings: dict[type, Callable[[Any], AbstractValue]] = {}

late.make_aval = ShapedArray
for _typed in (*literals.typed_scalar_types, literals.TypedNdArray):
    pytype_aval_mappings[_typed] = operator.attrgetter("aval")


def typeof(x: object) -> AbstractValue:
    """The type of an array, a tracer, a NumPy array or a scalar, as used in traces.

    Args:
      x: any value that can be an argument of a traced function.

    Returns:
      Its type; `str(jax.typeof(x))` is like `float32[3]`.

    Raises:
      TypeError: if `x` is not an array, a scalar or a registered type.

    >>> print(jax.typeof(jnp.ones(3)))
    float32[3]
    """
    handler = pytype_aval_mappings.get(type(x))
    if handler is not None:
        return handler(x)
    for cls in type(x).__mro__[1:]:
        handler = pytype_aval_mappings.get(cls)
        if handler is not None:
            return handler(x)
    if hasattr(x, "__jax_array__"):
        raise ValueError(
            f"A value of type {type(x)} has `__jax_array__`, which is not called where functions are "
            "transformed: convert it with jnp.asarray first, or register its class as a pytree."
        )
    raise TypeError(
        f"Value {x!r} with type {type(x)} is not a valid JAX type: expected an array, a NumPy array "
        "or a number. Pass other values by static_argnums, or close over them."
    )


get_aval = typeof
shaped_abstractify = typeof


def valid_jaxtype(x: object) -> bool:
    """Whether `x` is a value that traces can carry."""
    try:
        typeof(x)
    except TypeError:
        return False
    return True


def typematch(t1: AbstractValue, t2: AbstractValue) -> bool:
    """Whether two types agree up to weak types.

    A value without a mesh agrees with one on an explicit mesh, whatever the sharding of that one.
    """
    if t1 is t2:
        return True
    t1, t2 = t1.strip_weak_type(), t2.strip_weak_type()
    if t1 == t2:
        return True
    if type(t1) is not ShapedArray or type(t2) is not ShapedArray:
        return False
    return (t1._sharding is None) is not (t2._sharding is None) and (
        t1.update(sharding=None) == t2.update(sharding=None)
    )


def typecompat(aval_ref: AbstractValue, aval: AbstractValue) -> bool:
    """Whether a value of type `aval` can be used where `aval_ref` is expected, up to weak types."""
    return typematch(aval_ref, aval)


def physical_aval(aval: AbstractValue) -> AbstractValue:
    """The type of the array that represents a value of an extended dtype."""
    if type(aval) is ShapedArray and isinstance(aval.dtype, dtypes.ExtendedDType):
        element = physical_element_aval(aval.dtype)
        return ShapedArray((*aval.shape, *element.shape), element.dtype)
    return aval


def physical_element_aval(edtype: Any) -> ShapedArray:
    """The type of the array that represents one element of an extended dtype."""
    element = edtype._rules.physical_element_aval(edtype)
    return ShapedArray(element.shape, element.dtype)


def physical_shape(logical_shape: Sequence[Any], dtype: np.dtype[Any]) -> tuple[Any, ...]:
    return tuple(logical_shape) + physical_element_aval(dtype).shape
