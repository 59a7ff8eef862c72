"""What the primitives of kernels for GPUs have in common: operands that are views, checks and effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jax._src import core, pretty_printer as pp
from jax._src.core import AbstractRef, Primitive, ShapedArray, WriteEffect, typeof
from jax._src.pallas.effects import kernel_effect
from jax._src.pallas.memory import MemorySpace as AnySpace
from jax._src.pallas.mosaic_gpu.core import BarrierType, MemorySpace
from jax._src.state.types import TransformedRef, ref_and_transforms, transform_type, view_type
from jax._src.tree_util import tree_flatten, tree_unflatten

# The operands of each of these primitives are the leaves of a tuple of views, values and None, whose
# structure is the parameter `tree`.


def operation(name: str, types: Callable[..., Any] | None = None) -> Primitive:
    """Make a primitive with effects on the references among its operands.

    Args:
      name: its name.
      types: function of the tuple of operands' types and of the parameters that returns the type of the
        result; None for an operation without results.
    """
    p = Primitive(name, multiple_results=types is None)
    p.ref_primitive = True

    def abstract_eval(*avals: Any, tree: Any, **params: Any) -> Any:
        effects: set[Any] = {
            WriteEffect(i) for i, a in enumerate(avals) if isinstance(a, AbstractRef)
        }
        out = [] if types is None else types(tree_unflatten(tree, avals), **params)
        return out, effects | {kernel_effect}

    p.def_effectful_abstract_eval(abstract_eval)
    p.pp = _pp
    return p


def apply(p: Primitive, *operands: Any, **params: Any) -> Any:
    """Apply a primitive to views, values and None."""
    flat, tree = tree_flatten(operands)
    return p.bind(*flat, tree=tree, **params)


def operands_of(tree: Any, flat: Iterable[Any]) -> tuple[Any, ...]:
    """Return the operands, of which views are `TransformedRef`."""
    return tree_unflatten(tree, list(flat))


def first_view_type(operands: Any, **_: Any) -> ShapedArray:
    """Return the type of what the first operand, a view of a reference given by its type, holds."""
    view = operands[0]
    aval = transform_type(view.transforms, view.ref.inner_aval)
    return ShapedArray(aval.shape, aval.dtype)


def _pp(eqn: Any, context: Any, settings: Any) -> Any:
    operands = operands_of(eqn.params["tree"], eqn.invars)
    shown = " ".join([_shown(x, context) for x in operands])
    params = [f"{k}={v}" for k, v in eqn.params.items() if k != "tree" and not callable(v)]
    brackets = f"[{' '.join(params)}]" if params else ""
    doc = pp.text(f"{eqn.primitive.name}{brackets} {shown}")
    if not eqn.outvars:
        return doc
    lhs = core.pp_vars(eqn.outvars, context, print_shapes=settings.print_shapes)
    return pp.concat([lhs, pp.text(" = "), doc])


def _shown(x: Any, context: Any) -> str:
    if x is None:
        return "None"
    if isinstance(x, TransformedRef):
        parts = [t.pretty_print(context).format() for t in x.transforms]
        return core.pp_var(x.ref, context) + "".join(parts)
    if isinstance(x, (tuple, list)):
        return "(" + ", ".join([_shown(v, context) for v in x]) + ")"
    return core.pp_var(x, context)


# Views and checks

# Where blocks are whose specs leave it to the back end, and arrays that have no blocks.
_OF_BLOCKS = {AnySpace.DEFAULT: MemorySpace.SMEM, AnySpace.ANY: MemorySpace.GMEM}


def view(x: Any, name: str, what: str = "", spaces: Iterable[MemorySpace] = ()) -> TransformedRef:
    """Return a reference or a view as a view.

    Args:
      x: the reference or view.
      name: the operation, for errors.
      what: the operand, for errors.
      spaces: the memory spaces in which it may be.

    Raises:
      ValueError: if it is neither, or is in another memory space.
    """
    ref, transforms = ref_and_transforms(x, name)
    spaces = tuple(spaces)
    aval: Any = typeof(ref)
    if spaces and _OF_BLOCKS.get(aval.memory_space, aval.memory_space) not in spaces:
        names = " or ".join([s.name for s in spaces])
        raise ValueError(f"{what} must be a {names} reference, got {aval}")
    return TransformedRef(ref, transforms)


def same_type(x: TransformedRef, y: TransformedRef, name: str) -> None:
    """Check that two views are of the same shape and dtype."""
    a, b = view_type(x), view_type(y)
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        raise ValueError(
            f"{name} takes references of one shape and dtype, got {a.str_short()} and {b.str_short()}."
        )


def barrier_view(x: Any, name: str) -> TransformedRef:
    """Return a view of one barrier.

    Raises:
      TypeError: if it is none.
      ValueError: if it is of several barriers.
    """
    out = view(x, name)
    aval = view_type(out)
    if not isinstance(aval.dtype, BarrierType):
        raise TypeError(
            f"{name} takes a barrier, such as one of plgpu.Barrier(num_arrivals=1), got {aval.str_short()}."
        )
    if aval.shape and aval.size == 1:
        return TransformedRef(out.ref, (*out.transforms, *_first(out)))
    if aval.shape:
        raise ValueError(
            f"{name} takes one barrier, got a reference to barriers of shape {aval.shape}: choose one by "
            "barriers.at[i]."
        )
    return out


def _first(x: TransformedRef) -> tuple[Any, ...]:
    indexed = x.at[(0,) * x.ndim]
    return indexed.transforms[len(x.transforms) :]


def axes_of(axes: Any) -> tuple[Any, ...] | None:
    """Return names of axes, given as one or as several, as a tuple."""
    if axes is None or isinstance(axes, tuple):
        return axes
    return (axes,)
