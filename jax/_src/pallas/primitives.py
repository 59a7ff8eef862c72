"""The primitives of kernels: where in the grid they run, scoped references, hints, and printing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from jax._src import api_util, core, debugging, dtypes, traceback_util
from jax._src.core import ClosedJaxpr, Primitive, ShapedArray, typeof
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.lax import lax
from jax._src.lax.control_flow.common import split_at
from jax._src.pallas.grids import current_grid
from jax._src.pallas.memory import ref_avals_of
from jax._src.pallas.values import as_array, initial_value
from jax._src.state.discharge import discharge_written
from jax._src.state.types import SelectTransform, TransformedRef, view_type
from jax._src.tree_util import tree_unflatten

traceback_util.register_exclusion(__file__)

_int32 = ShapedArray((), np.dtype(np.int32))

# The position in the grid. These primitives stay in the jaxprs of kernels; what runs a kernel puts
# values in their place.

program_id_p = Primitive("program_id")
num_programs_p = Primitive("num_programs")


def _def_grid_primitive(p: Primitive) -> None:
    def types(*, axis: int) -> Any:
        return _int32

    p.def_abstract_eval(types)
    p.jvp = lambda primals, tangents, *, axis: (out := p.bind(axis=axis), ad.zero_of(out))


def _check_axis(name: str, axis: Any) -> tuple[Any, ...]:
    grid = current_grid()
    if grid is None:
        raise ValueError(
            f"pl.{name} is only known in a kernel (and in its index maps as an argument): call it in a function "
            "given to pallas_call."
        )
    if not isinstance(axis, (int, np.integer)) or not 0 <= axis < len(grid):
        raise ValueError(f"Axis {axis} is out of bounds for grid {_shown(grid)}")
    return grid


def _shown(grid: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([d if isinstance(d, int) else "?" for d in grid])


for _p in (program_id_p, num_programs_p):
    _def_grid_primitive(_p)


def program_id(axis: int) -> Any:
    """Return the position of this run of a kernel along a dimension of its grid.

    Args:
      axis: the dimension.

    Returns:
      An int32 scalar.

    Raises:
      ValueError: outside of a kernel, or if the grid has no such dimension.

    >>> def kernel(o_ref):
    ...   o_ref[pl.program_id(0)] = pl.program_id(0)
    >>> pl.pallas_call(kernel, jax.ShapeDtypeStruct((4,), jnp.int32), grid=4, interpret=True)()
    Array([0, 1, 2, 3], dtype=int32)
    """
    _check_axis("program_id", axis)
    return program_id_p.bind(axis=axis)


def num_programs(axis: int) -> Any:
    """Return the size of a kernel's grid along a dimension.

    Args:
      axis: the dimension.

    Returns:
      An integer; if the size is traced, an int32 scalar.

    Raises:
      ValueError: outside of a kernel, or if the grid has no such dimension.

    >>> def kernel(o_ref):
    ...   o_ref[...] = jnp.int32(pl.num_programs(0))
    >>> pl.pallas_call(kernel, jax.ShapeDtypeStruct((), jnp.int32), grid=4, interpret=True)()
    Array(4, dtype=int32)
    """
    size = _check_axis("num_programs", axis)[axis]
    return size if isinstance(size, int) else num_programs_p.bind(axis=axis)


# Hints

multiple_of_p = Primitive("multiple_of")


@multiple_of_p.def_abstract_eval
def _multiple_of_types(x: Any, *, values: tuple[int, ...]) -> Any:
    return x


multiple_of_p.def_impl(lambda x, *, values: x)
multiple_of_p.batch = lambda args, dims, *, values: (
    multiple_of_p.bind(*args, values=values),
    dims[0],
)
mlir.register_lowering(multiple_of_p, lambda ctx, x, *, values: [x])


def multiple_of(x: Any, values: Sequence[int] | int) -> Any:
    """Tell the compiler that a traced integer is a multiple of others, such as the start of a slice.

    Args:
      x: integer scalar or array.
      values: integers that divide it; if one does not, results are undefined.

    Returns:
      `x`.

    >>> pl.multiple_of(8, 4)
    8
    """
    values = (values,) if isinstance(values, (int, np.integer)) else tuple(values)
    aval: Any = typeof(x)
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"pl.multiple_of takes integers, got {aval.str_short()}.")
    return multiple_of_p.bind(x, values=values)


reciprocal_p = Primitive("reciprocal")


@reciprocal_p.def_abstract_eval
def _reciprocal_types(x: Any, *, approx: bool, full_range: bool) -> Any:
    return x


def _reciprocal_of_array(x: Any, *, approx: bool, full_range: bool) -> Any:
    return lax.integer_pow(x, -1)


batching.defvectorized(reciprocal_p)
mlir.register_lowering(reciprocal_p, mlir.lower_fun(_reciprocal_of_array, multiple_results=False))
ad.defjvp2(
    reciprocal_p,
    lambda t, out, x, **params: lax.neg(lax.mul(t, lax.mul(out, out))),
)


def reciprocal(x: Any, *, approx: bool = False, full_range: bool = True) -> Any:
    """Return the reciprocal of each element.

    Args:
      x: array of floating-point numbers.
      approx: whether it may be approximate; it is exact where kernels are interpreted.
      full_range: whether infinities, zeros and numbers close to the limits are to be right.

    Returns:
      An array of the shape and dtype of `x`.

    >>> pl.reciprocal(jnp.array([1., 2., 4.]))
    Array([1.  , 0.5 , 0.25], dtype=float32)
    """
    return reciprocal_p.bind(as_array(x), approx=approx, full_range=full_range)


delay_p = Primitive("delay", multiple_results=True)


@delay_p.def_effectful_abstract_eval
def _delay_types(nanos: Any) -> Any:
    return [], {debugging.debug_effect}


delay_p.def_impl(lambda nanos: [])
mlir.register_lowering(delay_p, lambda ctx, nanos: [])


def delay(nanos: Any) -> None:
    """Wait in a kernel, to look for races; what interprets kernels does not wait.

    Args:
      nanos: the number of nanoseconds, an integer scalar.
    """
    delay_p.bind(as_array(nanos))


# Views


def select_ref(idx: Any, *refs: Any) -> TransformedRef:
    """Return the one of several references at a traced position, for copies between memories.

    Args:
      idx: the position, an integer scalar.
      *refs: references, or views of some, of one shape and dtype.

    Raises:
      ValueError: if there are less than two, or their types differ.
    """
    if len(refs) < 2:
        raise ValueError("At least two refs are required for pl.select_ref.")
    aval: Any = typeof(idx)
    if aval.shape or not dtypes.issubdtype(aval.dtype, np.integer):
        raise ValueError(
            f"pl.select_ref takes an integer scalar as position, got the type {aval.str_short()}."
        )
    types = [view_type(r) for r in refs]
    first = types[0]
    for t in types:
        if (t.shape, t.dtype) != (first.shape, first.dtype):
            raise ValueError(
                f"pl.select_ref takes references of one type, got {[t.str_short() for t in types]}."
            )
    return TransformedRef(tuple(refs), (SelectTransform(as_array(idx)),))


# Scoped references

# The jaxpr takes the operands, what the function closes over, and then the references.
run_scoped_p = Primitive("run_scoped", multiple_results=True)
run_scoped_p.ref_boundary = True


def run_scoped(
    f: Callable[..., Any], *types: Any,
    collective_axes: Hashable | tuple[Hashable, ...] = (), **kw_types: Any,
) -> Any:  # fmt: skip
    """Call a function with references that exist while it runs.

    Args:
      f: function of references, for the positional and the keyword types.
      *types, **kw_types: the types of the references, such as `pltpu.VMEM((8, 128), jnp.float32)`, or
        trees of types.
      collective_axes: names of axes of the kernel's mesh along which the references are the same.

    Returns:
      What `f` returns.

    >>> def kernel(x_ref, o_ref):
    ...   def with_copy(copy_ref):
    ...     copy_ref[...] = x_ref[...]
    ...     o_ref[...] = copy_ref[...] + 1.
    ...   pl.run_scoped(with_copy, pl.ANY((4,), jnp.float32))
    >>> x = jnp.arange(4.)
    >>> pl.pallas_call(kernel, x, interpret=True)(x)
    Array([1., 2., 3., 4.], dtype=float32)
    """
    if not isinstance(collective_axes, tuple):
        collective_axes = (collective_axes,)
    avals, tree = ref_avals_of((types, kw_types), "the types given to run_scoped")
    flat_fun, out_tree = api_util.flatten_fun(f, tree)
    info = api_util.debug_info("pallas run_scoped", f, types, kw_types)
    closed, consts = pe.trace_to_closed(flat_fun, avals, info)
    outs = run_scoped_p.bind(*consts, jaxpr=closed, collective_axes=collective_axes)
    return tree_unflatten(out_tree(), outs)


def with_scoped(
    *types: Any, collective_axes: Hashable | tuple[Hashable, ...] = (), **kw_types: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of functions that are given scoped references, after their own arguments.

    Args:
      *types, **kw_types, collective_axes: as for `run_scoped`.

    >>> def kernel(x_ref, o_ref):
    ...   @pl.with_scoped(pl.ANY((4,), jnp.float32))
    ...   def add(y, copy_ref):
    ...     copy_ref[...] = x_ref[...]
    ...     o_ref[...] = copy_ref[...] + y
    ...   add(2.)
    >>> x = jnp.arange(4.)
    >>> pl.pallas_call(kernel, x, interpret=True)(x)
    Array([2., 3., 4., 5.], dtype=float32)
    """

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            given = lambda *refs, **kw_refs: f(*args, *refs, **kw_refs)
            return run_scoped(given, *types, collective_axes=collective_axes, **kw_types)

        return run

    return decorate


@run_scoped_p.def_effectful_abstract_eval
def _run_scoped_types(*avals: Any, jaxpr: ClosedJaxpr, collective_axes: Any) -> Any:
    positions: list[int | None] = [*range(len(avals))]
    positions += [None] * (len(jaxpr.in_avals) - len(avals))
    return jaxpr.out_avals, core.reindexed_effects(jaxpr.effects, positions)


def _run_scoped_hoist(args: Any, params: Any) -> Any:
    closed, tracers = pe.hoist_tracers(params["jaxpr"])
    return (*tracers, *args), dict(params, jaxpr=closed)


pe.def_hoisting(run_scoped_p, _run_scoped_hoist)


def _run_scoped_discharge(
    should: Any, in_avals: Any, out_avals: Any, *args: Any, lower: bool, aliases: Any,
    jaxpr: ClosedJaxpr, collective_axes: Any,
) -> Any:  # fmt: skip
    if collective_axes:
        raise NotImplementedError(
            f"run_scoped with collective_axes={collective_axes} in a kernel that is interpreted"
        )
    scoped = jaxpr.in_avals[len(args) :]
    new, finals = discharge_written(jaxpr, [*should, *[True] * len(scoped)], lower)
    values = [initial_value(a) for a in scoped]
    outs = core.eval_jaxpr(new.jaxpr, new.consts, *args, *values)
    n = len(out_avals)
    changed = dict(zip(finals, outs[n:]))
    return [changed.get(i) for i in range(len(args))], outs[:n]


run_scoped_p.discharge = _run_scoped_discharge


def _run_scoped_jvp(
    primals: Any, tangents: Any, *, jaxpr: ClosedJaxpr, collective_axes: Any
) -> Any:
    nonzeros = [type(t) is not ad.Zero for t in tangents]
    scoped = jaxpr.in_avals[len(primals) :]
    differentiable = [dtypes.issubdtype(a.dtype, np.inexact) for a in scoped]
    both, out_nonzeros = ad.jvp_jaxpr(jaxpr, [*nonzeros, *differentiable])
    given = [t for t in tangents if type(t) is not ad.Zero]
    # Of the new jaxpr, the tangents of operands come after the references.
    operands, refs, tangent_operands, tangent_refs = split_at(
        both.jaxpr.invars, len(primals), len(scoped), len(given)
    )
    ordered = both.jaxpr.replace(
        invars=[*operands, *tangent_operands, *refs, *tangent_refs],
        debug_info=both.jaxpr.debug_info.with_unknown_names(),
    )
    outs = run_scoped_p.bind(
        *primals, *given, jaxpr=ClosedJaxpr(ordered, both.consts), collective_axes=collective_axes
    )
    n = len(jaxpr.out_avals)
    rest = iter(outs[n:])
    return outs[:n], [next(rest) if nz else ad.zero_of(x) for x, nz in zip(outs, out_nonzeros)]


run_scoped_p.jvp = _run_scoped_jvp

# Printing and checks


def debug_print(fmt: str, *args: Any) -> None:
    """Print values from a kernel.

    Args:
      fmt: format string with a placeholder for each value.
      *args: arrays or scalars.

    >>> def kernel(x_ref, o_ref):
    ...   pl.debug_print("x is {}", x_ref[0])
    ...   o_ref[...] = x_ref[...]
    >>> x = jnp.arange(4.)
    >>> _ = pl.pallas_call(kernel, x, interpret=True)(x)
    x is 0.0
    """
    debugging.debug_print(fmt, *args)
