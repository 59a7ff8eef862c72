"""Checks that operands are compatible: dtypes, broadcasting shapes, shardings, manual axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.config import abstract_mesh_context_manager as context_mesh, check_vma
from jax._src.core.avals import ShapedArray, dim_strings
from jax._src.memory import Space as MemorySpace
from jax._src.named_sharding import NamedSharding

# ---------------------------------------------------------------------------------------------------
# Dtypes

BOOL = frozenset({np.bool_})
SIGNED = frozenset({np.signedinteger})
UNSIGNED = frozenset({np.unsignedinteger})
INT = frozenset({np.integer})
FLOAT = frozenset({np.floating})
COMPLEX = frozenset({np.complexfloating})
INEXACT = FLOAT | COMPLEX
NUMERIC = INT | INEXACT
ANY = NUMERIC | BOOL
_PRINT_ORDER = [np.bool_, np.signedinteger, np.unsignedinteger, np.integer, np.floating]


def check_dtypes(
    name: str,
    accepts: Sequence[frozenset],
    in_dtypes: Sequence[Any],
    same: bool = True,
    extended: bool = False,
) -> None:
    """Raise TypeError unless each dtype is of an accepted kind and (if `same`) all are equal."""
    for i, (kinds, dtype) in enumerate(zip(accepts, in_dtypes)):
        if dtypes.issubdtype(dtype, dtypes.extended):
            ok = extended
        else:
            ok = any(dtypes.issubdtype(dtype, kind) for kind in kinds)
        if not ok:
            check_no_float0(name, in_dtypes)
            where = f" at position {i}" if len(in_dtypes) > 1 else ""
            raise TypeError(
                f"{name} does not accept dtype {dtype_name(dtype)}{where}. "
                f"Accepted dtypes{where} are subtypes of {kind_names(kinds)}."
            )
    if same:
        check_same_dtypes(name, *in_dtypes)


def check_no_float0(name: str, in_dtypes: Sequence[Any]) -> None:
    """Raise TypeError if a dtype is float0, which does not support arithmetic."""
    for i, dtype in enumerate(in_dtypes):
        if dtype == dtypes.float0:
            raise TypeError(
                f"Called {name} with a float0 at position {i}. float0s do not support any operations by "
                "design, because they are not compatible with non-trivial vector spaces. No implicit "
                "dtype conversion is done. You can use np.zeros_like(arr, dtype=np.float32) to cast a "
                "float0 array to a regular zeros array.\nIf you didn't expect to get a float0 you might "
                "have accidentally taken a gradient with respect to an integer argument."
            )


def check_same_dtypes(name: str, *in_dtypes: Any) -> None:
    """Raise TypeError unless all dtypes are equal."""
    for dtype in in_dtypes[1:]:
        if dtype != in_dtypes[0]:
            tip = ""
            if name in _JNP_EQUIVALENTS:
                tip = (
                    f" (Tip: jnp.{_JNP_EQUIVALENTS[name]} is a similar function that does automatic "
                    "type promotion on inputs)."
                )
            raise TypeError(
                f"lax.{name} requires arguments to have the same dtypes, got "
                f"{', '.join(map(dtype_name, in_dtypes))}.{tip}"
            )


_JNP_EQUIVALENTS = {
    "add": "add",
    "atan2": "arctan2",
    "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "complex": "complex",
    "concatenate": "concatenate",
    "div": "divide",
    "dot": "dot",
    "dot_general": "matmul",
    "eq": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "lt": "less",
    "max": "maximum",
    "min": "minimum",
    "mul": "multiply",
    "ne": "not_equal",
    "nextafter": "nextafter",
    "pad": "pad",
    "pow": "power",
    "rem": "remainder",
    "select": "where",
    "shift_left": "left_shift",
    "shift_right_arithmetic": "right_shift",
    "shift_right_logical": "right_shift",
    "stack": "stack",
    "sub": "subtract",
}


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype for messages, such as `float32`, `bfloat16` or `key<fry>`."""
    if dtype == dtypes.float0:
        return "float0"
    try:
        return str(np.dtype(dtype).name)
    except TypeError:
        return str(getattr(dtype, "name", dtype))


def kind_names(kinds: frozenset) -> str:
    order = [k for k in _PRINT_ORDER if k in kinds]
    order += sorted(kinds.difference(order), key=lambda k: k.__name__)
    return ", ".join("bool" if k is np.bool_ else k.__name__ for k in order)


# ---------------------------------------------------------------------------------------------------
# Shapes and shardings


def broadcasting_shape(name: str, *avals: ShapedArray) -> tuple[int, ...]:
    """Return the shape of an elementwise result.

    Operands are scalars, or have one rank, with sizes in each dimension that are equal or 1.

    Raises:
      TypeError: if the shapes are incompatible.
    """
    shapes = [a.shape for a in avals if a.shape]
    if not shapes:
        return ()
    first = shapes[0]
    for s in shapes:
        if s != first:
            break
    else:
        return first
    ranks = {len(s) for s in shapes}
    if len(ranks) != 1:
        raise TypeError(f"{name}: arrays must have the same number of dimensions, got {ranks}")
    result = []
    for sizes in zip(*shapes):
        size = sizes[0]
        for d in sizes[1:]:
            if d == size or d == 1:
                continue
            if size == 1:
                size = d
            else:
                raise TypeError(
                    f"{name} got incompatible shapes for broadcasting: {', '.join(map(str, shapes))}."
                )
        result.append(size)
    return tuple(result)


def broadcasting_sharding(name: str, *avals: ShapedArray) -> NamedSharding | None:
    """Return the sharding of an elementwise result: each dimension is sharded as in the operands.

    Raises:
      ShardingTypeError: if two operands are sharded differently in a dimension.
    """
    sharded = [a._sharding for a in avals if a._sharding is not None]
    if not sharded:
        return None
    mesh = common_mesh(name, sharded)
    full = [a for a in avals if a.shape]
    if not full:
        return sharded[0].update(spec=sharded[0].spec.update(partitions=()))
    specs = [a.sharding.spec.partitions for a in full]
    entries = []
    for dim_entries in zip(*specs):
        entry = None
        for e in dim_entries:
            if e is None or e == entry:
                continue
            if entry is not None:
                raise core.ShardingTypeError(
                    f"{name} got incompatible shardings for broadcasting: "
                    f"{', '.join(map(str, specs))}. Make them agree with `jax.sharding.reshard`."
                )
            entry = e
        entries.append(entry)
    names = [n for e in entries if e is not None for n in (e if isinstance(e, tuple) else (e,))]
    if len(names) != len(set(names)):
        inputs = ", ".join(a.str_short(short_dtypes=True) for a in full)
        dims = ",".join(dim_strings(broadcasting_shape(name, *full), entries))
        raise core.ShardingTypeError(
            f"{name} operation with inputs: {inputs} produces an illegally sharded result: "
            f"{dtypes.short_dtype_name(full[0].dtype)}[{dims}]. Shard its dimensions over different mesh axes with "
            "`jax.sharding.reshard`."
        )
    base = sharded[0].spec
    return NamedSharding(
        mesh, base.update(partitions=tuple(entries), unreduced=frozenset(), reduced=frozenset())
    )


def common_mesh(name: str, shardings: Sequence[NamedSharding]) -> Any:
    """Return the abstract mesh of all shardings; raise ValueError if they differ."""
    mesh = shardings[0].mesh
    for s in shardings[1:]:
        if s.mesh is not mesh and s.mesh != mesh:
            raise ValueError(
                f"{name}: the meshes of all operands should be equal, got"
                f" {', '.join(str(s.mesh) for s in shardings)}. Move them to one mesh with"
                " `jax.device_put`."
            )
    return mesh


def check_context_mesh(name: str, avals: Sequence[ShapedArray]) -> None:
    """Raise ValueError if an operand is sharded over a mesh other than the one in context."""
    context = context_mesh.value
    if context is None or not context.axis_names:
        return
    for a in avals:
        sharding = a._sharding
        if sharding is not None and sharding.mesh is not context and sharding.mesh != context:
            raise ValueError(
                f"For primitive {name}, context mesh {context} should match the aval mesh"
                f" {sharding.mesh} for shape {a.str_short()}. Move the operand to the mesh in context"
                " with `jax.device_put`; in `jax.sharding.auto_axes`, pass it as an argument rather"
                " than closing over it."
            )


def common_vma(name: str, *avals: ShapedArray) -> frozenset:
    """Return the manual axes over which all operands vary; raise ValueError if they differ.

    Where this is not checked, some operands still can have types that vary: those that come from an
    enclosing shard_map or a nested jaxpr. Then the result varies over the axes of all.
    """
    first, *rest = avals
    for a in rest:
        if a.vma != first.vma:
            if not check_vma.value:
                return frozenset().union(*[a.vma for a in avals])
            raise ValueError(
                f"Primitive {name} requires varying manual axes to match, but got "
                f"{[sorted(map(str, a.vma)) for a in avals]}. Make them match with "
                "`jax.lax.pcast(..., to='varying')`, or pass `check_vma=False` to `jax.shard_map`."
            )
    return first.vma


def common_memory_space(name: str, *avals: ShapedArray) -> Any:
    """Return the memory space of all non-scalar operands; raise ValueError if they differ."""
    if not avals:
        return MemorySpace.Device
    arrays = [a for a in avals if a.shape] or avals
    first = arrays[0].memory_space
    for a in arrays[1:]:
        if a.memory_space is not first:
            if not a.shape:
                return MemorySpace.Device
            raise ValueError(
                f"memory_space of all inputs passed to `{name}` must be the same, got "
                f"{', '.join(a.str_short() for a in avals)}. Move them with `jax.device_put`."
            )
    return first


# ---------------------------------------------------------------------------------------------------
# Unreduced values, which are partial sums over mesh axes


def linear_unreduced(name: str) -> Callable[..., tuple[frozenset, frozenset]]:
    """Return the unreduced rule of linear operations: all operands have the same unreduced axes."""

    def rule(pairs, *avals, **params):
        for pair in pairs:
            if pair != pairs[0]:
                raise core.ShardingTypeError(
                    f"all operands of {name} must be unreduced and reduced over the same mesh axes, got "
                    f"{', '.join(str((set(u), set(r))) for u, r in pairs)}."
                )
        return pairs[0]

    return rule


def bilinear_unreduced(name: str) -> Callable[..., tuple[frozenset, frozenset]]:
    """Return the rule of products: one factor may be unreduced if the other is reduced."""

    def rule(pairs, *avals, **params):
        (u1, r1), (u2, r2) = pairs
        if not u1 and not u2:
            return linear_unreduced(name)(pairs)
        # A replicated scalar can multiply the summands of an unreduced array on each device.
        if avals and not avals[1].shape and not u2 and not r2:
            r2 = u1
        elif avals and not avals[0].shape and not u1 and not r1:
            r1 = u2
        if (u1 and u2) or (u1 or u2) != (r2 if u1 else r1):
            raise core.ShardingTypeError(
                f"{name} takes one operand that is unreduced over mesh axes if the other one is reduced "
                f"over the same axes, got unreduced {set(u1)} and {set(u2)}, reduced {set(r1)} and "
                f"{set(r2)}."
            )
        return u1 or u2, frozenset()

    return rule


def nonlinear_unreduced(name: str) -> Callable[..., tuple[frozenset, frozenset]]:
    """Return the unreduced rule of other operations: no unreduced operands, equal reduced axes."""

    def rule(pairs, *avals, **params):
        if any(u for u, _ in pairs):
            raise NotImplementedError(
                f"{name} is not linear and does not take operands that are unreduced over mesh axes, got "
                f"{', '.join(str(set(u)) for u, _ in pairs)}. Reduce them first with "
                "`jax.sharding.reshard`."
            )
        return linear_unreduced(name)(pairs)

    return rule


# ---------------------------------------------------------------------------------------------------
# Computations of scalars


def check_pure(name: str, effects: Any) -> None:
    """Raise if a function that an operation applies to scalars has effects, such as printing."""
    if effects:
        raise NotImplementedError(
            f"The function given to {name} has effects ({', '.join(sorted(map(str, effects)))}), which it"
            " cannot have: the compiler decides how often, and in which order, it is applied. Call"
            " jax.debug.print, callbacks and the like outside of it."
        )
