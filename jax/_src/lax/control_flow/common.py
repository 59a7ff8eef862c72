"""Helpers of the control flow primitives: staging and changing jaxprs, and errors for wrong types."""

from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from jax._src import api_util, cache_misses, config, core, dispatch, dtypes
from jax._src.core import ClosedJaxpr, typeof
from jax._src.core.effects import control_flow_allowed_effects, exact_effects
from jax._src.interpreters import lojax, partial_eval as pe
from jax._src.interpreters.splitting import with_eqns
from jax._src.late_binding import late
from jax._src.tree_util import (
    PyTreeDef,
    equality_errors_pytreedef,
    keystr,
    leaf_key_paths,
    tree_leaves,
)


def stage(
    kind: str, fun: Callable, in_tree: PyTreeDef, in_avals: Sequence[Any], args: Sequence[Any]
):
    """Stage a function of a pytree of positional arguments; repeated calls reuse the result.

    Args:
      kind: purpose of the staging, as named in error messages.
      fun: the function.
      in_tree: pytree structure of its arguments.
      in_avals: avals of its flat arguments.
      args: the arguments, or other values with the same argument names.

    Returns:
      A jaxpr whose constants are the values closed over, these values, and the pytree structure of
      the result.
    """
    if core.high_types_in_use.value:
        in_avals = core.with_qdds(in_avals, tree_leaves(args))
    key = (kind, in_tree, tuple(in_avals), config.trace_context())
    table = api_util.trace_table(fun)
    staged = table.get(key)
    if staged is not None and api_util.all_valid(staged[1]):
        _check_refs(kind, fun, in_avals, args, staged)
        return staged
    api_util.check_may_trace(fun, kind)
    if cache_misses.are_wanted():
        names = lambda: api_util.debug_info(kind, fun, args, {}).safe_arg_names(len(in_avals))
        cache_misses.explain_staging(fun, key, table.keys(), names)
    flat_fun, out_tree = api_util.flatten_fun_nokwargs(fun, in_tree)
    info = api_util.debug_info(
        kind, fun, args, {}, result_paths_thunk=api_util.result_paths_thunk(out_tree)
    )
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(flat_fun, in_avals, info)
    tree = out_tree()
    staged = jaxpr, consts, tree
    _check_refs(kind, fun, in_avals, args, staged)
    if not (config.check_tracer_leaks.value and any(isinstance(c, core.Tracer) for c in consts)):
        table[key] = staged
    return staged


def _check_refs(kind: str, fun: Callable, in_avals: Sequence[Any], args: Any, staged: Any) -> None:
    if core.AbstractRef in map(type, in_avals):
        jaxpr, consts, _ = staged
        names = lambda: jaxpr.debug_info.safe_arg_names(len(in_avals))
        pe.check_ref_aliasing(kind, fun, tree_leaves(args), consts, names)


def def_compiled_impl(primitive: core.Primitive, name: str, one_by_one: Callable) -> None:
    """Define the eager implementation of a primitive with jaxpr parameters: run it compiled.

    Compiled programs are cached on the jaxpr in the parameter `name`, so that they are freed with
    it. If `jit` is disabled, `one_by_one` evaluates the primitive operation by operation.
    """

    def impl(*args, **params):
        if config.disable_jit.value:
            return one_by_one(*args, **params)
        if lojax.has_high_jaxpr(params):
            return primitive.to_lojax(*args, **params)
        owner = params[name]
        owner = owner[0] if type(owner) is tuple else owner
        refs = [id(x) for x in args if type(x) is core.Ref]
        pattern = None
        if len(set(refs)) != len(refs):  # pass a reference that several functions use only once
            once = {id(x) if type(x) is core.Ref else i: x for i, x in enumerate(args)}
            places = list(once)
            pattern = tuple(
                [places.index(id(x) if type(x) is core.Ref else i) for i, x in enumerate(args)]
            )
            args = tuple(once.values())
        key = (primitive, tuple(params.items()), pattern)
        call = owner._cache.get(key)
        if call is None:
            run = lambda *args: primitive.bind(
                *(args if pattern is None else [args[i] for i in pattern]), **params
            )
            call = dispatch.compile_on_jaxpr(owner, key, run, primitive.name)
        return call(*args)

    primitive.def_impl(impl)


def run_compiled(owner: ClosedJaxpr, key: Any, run: Callable, args: Sequence[Any], name: str):
    """Run a function as a compiled program, which is cached on the jaxpr `owner`."""
    if config.disable_jit.value:
        return run(*args)
    call = owner._cache.get(key)
    if call is None:
        call = dispatch.compile_on_jaxpr(owner, key, run, name)
    return call(*args)


def hoist(jaxpr: core.Jaxpr) -> ClosedJaxpr:
    """Return a closed jaxpr that takes the constants as leading arguments."""
    return pe.close_jaxpr(pe.convert_constvars_jaxpr(jaxpr))


def share_consts(jaxprs: Sequence[core.Jaxpr], all_consts: Sequence[Sequence[Any]]):
    """Give several jaxprs the same leading arguments: the union of their constants.

    Returns:
      The closed jaxprs, and the constants.
    """
    index: dict[int, int] = {}
    consts: list = []
    for cs in all_consts:
        for c in cs:
            if id(c) not in index:
                index[id(c)] = len(consts)
                consts.append(c)
    positions = tuple([tuple([index[id(c)] for c in cs]) for cs in all_consts])
    avals = core.with_qdds([typeof(c) for c in consts], consts)
    cache, key = jaxprs[0]._cache, (share_consts, tuple(jaxprs), positions, avals)
    closed = cache.get(key)
    if closed is None:
        pairs = zip(jaxprs, positions)
        closed = cache[key] = [pe.close_jaxpr(_with_consts(j, own, avals)) for j, own in pairs]
    return closed, consts


def _with_consts(jaxpr: core.Jaxpr, positions: Sequence[int], avals: Sequence[Any]) -> core.Jaxpr:
    """Prepend arguments of types `avals`; those at `positions` replace the jaxpr's constants."""
    own = dict(zip(positions, jaxpr.constvars))
    leading = [own[i] if i in own else _new_var(a) for i, a in enumerate(avals)]
    names = (None,) * len(avals) + jaxpr.debug_info.safe_arg_names(len(jaxpr.invars))
    return jaxpr.replace(
        constvars=(),
        invars=leading + jaxpr.invars,
        debug_info=jaxpr.debug_info._replace(arg_names=names),
    )


def _new_var(aval: Any) -> core.Var:
    if type(aval) is core.AvalQDD:  # the function does not use the mutable value
        return core.Var(aval.aval, aval.qdd, aval.qdd)
    return core.Var(aval)


@core.cached_on_jaxpr
def rearranged(
    closed: ClosedJaxpr, ins: tuple[Any, ...], outs: tuple[int, ...] | None = None
) -> ClosedJaxpr:
    """Return a jaxpr with arguments and results in another order.

    Args:
      closed: the jaxpr.
      ins: for each new argument the position of the old one, or the type of one that is not used.
      outs: for each new result the position of the old one; None to keep all.
    """
    jaxpr = closed.jaxpr
    return ClosedJaxpr(
        jaxpr.replace(
            invars=[jaxpr.invars[i] if type(i) is int else core.Var(i) for i in ins],
            outvars=jaxpr.outvars if outs is None else [jaxpr.outvars[i] for i in outs],
            debug_info=jaxpr.debug_info.with_unknown_names(),
        ),
        closed.consts,
    )


def without_output(jaxpr: core.Jaxpr, is_output: Callable[[Any], Any]) -> core.Jaxpr:
    """Drop operations such as prints: those with effects, but on references, and no used results.

    Args:
      jaxpr: the jaxpr; those in the parameters of its operations change likewise.
      is_output: whether operations with these effects are to be dropped.
    """
    if not jaxpr.effects:
        return jaxpr
    used = {v for eqn in jaxpr.eqns for v in eqn.invars if type(v) is core.Var}
    used.update([v for v in jaxpr.outvars if type(v) is core.Var])
    eqns = []
    for eqn in jaxpr.eqns:
        if eqn.effects and not core.has_ref_effects(eqn.effects) and is_output(eqn.effects):
            params = {k: _without_output(v, is_output) for k, v in eqn.params.items()}
            inside = list(core.jaxprs_in_params(params))
            if not inside and used.isdisjoint(eqn.outvars):
                continue
            if inside:
                effects = core.join_effects(*[j.effects for j in inside])
                eqn = eqn.replace(params=params, effects=effects)
        eqns.append(eqn)
    return with_eqns(jaxpr, eqns)


def _without_output(param: Any, is_output: Callable[[Any], Any]) -> Any:
    if isinstance(param, core.Jaxpr):
        return without_output(param, is_output)
    if isinstance(param, ClosedJaxpr):
        return ClosedJaxpr(without_output(param.jaxpr, is_output), param.consts)
    if type(param) is tuple:
        return tuple([_without_output(x, is_output) for x in param])
    return param


def check_effects(name: str, *jaxprs: ClosedJaxpr) -> None:
    """Raise NotImplementedError for effects that control flow does not support."""
    for jaxpr in jaxprs:
        disallowed = control_flow_allowed_effects.filter_not_in(jaxpr.effects)
        if disallowed:
            raise NotImplementedError(f"Effects not supported in `{name}`: {disallowed}")


def check_maskable(name: str, *jaxprs: ClosedJaxpr) -> None:
    """Raise NotImplementedError for effects that must not run for masked batch elements, and for
    arguments and results that are no arrays, between which elements would have to choose."""
    for jaxpr in jaxprs:
        if high := [a for a in (*jaxpr.in_avals, *jaxpr.out_avals) if a.is_high]:
            raise NotImplementedError(
                f"vmap of {name} with a mapped predicate chooses between arrays only, not between values of"
                f" type {high[0]}. Use jax.lax.map in place of vmap, or pass the arrays that the values"
                f" consist of through {name}."
            )
        found = exact_effects.filter_in(jaxpr.effects)
        if found:
            raise NotImplementedError(
                f"{', '.join(sorted(map(str, found)))} effect not supported in vmap of {name} with a mapped "
                "predicate: all elements of the batch take part in what any of them does, so that callbacks "
                "would be called for elements that must not call them. Use jax.lax.map in place of vmap, or "
                "jax.debug.callback."
            )


def leaf_paths(tree: PyTreeDef) -> list[str]:
    """Return a path string for each leaf."""
    return [keystr(path) for path in leaf_key_paths(tree)]


def check_initial(loop: str, what: str, name: str, values: Sequence[Any], tree: PyTreeDef) -> None:
    """Raise TypeError if a leaf of a loop's initial value is not an array or number."""
    for i, x in enumerate(values):
        if not core.valid_jaxtype(x):
            raise TypeError(
                f"lax.{loop}: the initial {what} at path {name}{leaf_paths(tree)[i]} has type {type(x)}, "
                "which is not a valid JAX type: it must consist of arrays and numbers."
            )


def promote_weak_types(in_avals: Sequence[Any], out_avals: Sequence[Any]) -> list[Any] | None:
    """Promote weakly typed inputs to the dtypes of the corresponding results.

    Returns:
      The new input avals; None if nothing changes.
    """
    new = [_promote_weak_type(a, b) for a, b in zip(in_avals, out_avals)]
    return None if all(n is a for n, a in zip(new, in_avals)) else new


def _promote_weak_type(a, b):
    if not getattr(a, "weak_type", False) or core.typematch(a, b):
        return a
    if not isinstance(b, core.ShapedArray) or a.shape != b.shape:
        return a
    dtype, _ = dtypes.lattice_result_type(_OfType(a), _OfType(b))
    return a if dtype == a.dtype else a.update(dtype=dtype, weak_type=False)


class _OfType:
    """Wraps an aval as a value, for dtype promotion."""

    __slots__ = ("aval", "dtype")

    def __init__(self, aval):
        self.aval, self.dtype = aval, aval.dtype


def describe_type_mismatch(
    in_avals: Sequence[Any], out_avals: Sequence[Any], in_paths: Sequence[str], in_name: str
) -> list[str]:
    """Describe the difference for each leaf whose types differ, with its path."""
    lines = []
    for a, b, in_path in zip(in_avals, out_avals, in_paths):
        if core.typematch(a, b):
            continue
        what = difference(a, b)
        where = f"component {in_name}{in_path}" if in_path else in_name
        lines.append(
            f"the input carry {where} has type {a.str_short()} but the corresponding output carry "
            f"component has type {b.str_short()}, so {what}"
            + make_vary(
                a, b, f"the initial value of {where}", "the value that the body returns for it"
            )
        )
    return lines


def as_text(lines: Sequence[str]) -> str:
    """Format one difference as a sentence, and several as a list."""
    if len(lines) == 1:
        (line,) = lines
        return f"{'T' + line[1:] if line.startswith('the ') else line}."
    return ";\n".join(f"  * {line}" for line in lines) + "."


def difference(a, b) -> str:
    """Describe in words how two types differ."""
    if not (hasattr(a, "shape") and hasattr(b, "shape")):
        return "the types do not match"
    parts = []
    if a.shape != b.shape:
        parts.append("the shapes do not match")
    if a.dtype != b.dtype:
        parts.append("the dtypes do not match")
    if a._sharding != b._sharding:
        parts.append("the shardings do not match")
    if a.manual_axis_type != b.manual_axis_type:
        parts.append("the manual axis types do not match")
    return " and ".join(parts) or "the types do not match"


def make_vary(a, b, first: str, second: str) -> str:
    """The remedy if two types differ in the manual axes over which values vary, after a semicolon.

    `first` and `second` name the values of types `a` and `b`.
    """
    casts = []
    for x, y, what in ((a, b, first), (b, a, second)):
        missing = getattr(y, "vma", frozenset()) - getattr(x, "vma", frozenset())
        if missing and what:
            axes = ", ".join(sorted(map(repr, missing)))
            axes = axes if len(missing) == 1 else f"({axes})"
            casts.append(f"apply `jax.lax.pcast(..., {axes}, to='varying')` to {what}")
    return "; " + " and ".join(casts) if casts else ""


def check_same_carry(
    name: str, in_tree: PyTreeDef, in_avals, out_tree: PyTreeDef, out_avals, arg_name: str
) -> None:
    """Raise TypeError if a body's result does not have the structure and types of its carry."""
    if in_tree != out_tree:
        lines = [
            f"the input carry {'component ' if path else ''}{arg_name}{keystr(path)} is a {a} but the corresponding component "
            f"of the carry output is a {b}, so {why}"
            for path, a, b, why in equality_errors_pytreedef(in_tree, out_tree)
        ]
        raise TypeError(
            f"{name} function carry input and carry output must have the same pytree structure, but "
            f"they differ:\n\n{as_text(lines)}\n\n"
            "Revise the function so that the carry output has the same pytree structure as the carry "
            "input."
        )
    if all(core.typematch(a, b) for a, b in zip(in_avals, out_avals)):
        return
    paths = leaf_paths(in_tree)
    lines = describe_type_mismatch(in_avals, out_avals, paths, arg_name)
    raise TypeError(
        f"{name} function carry input and carry output must have equal types, but they differ:\n\n"
        f"{as_text(lines)}\n\nRevise the function so that all output types match the corresponding input types."
    )


def with_forwarded(computed: Sequence[Any], forwarded: dict[int, Any]) -> list[Any]:
    """Merge computed results with the operands that are forwarded as results, by position."""
    rest = iter(computed)
    return [
        _as_result(forwarded[i]) if i in forwarded else next(rest)
        for i in range(len(computed) + len(forwarded))
    ]


def _as_result(x: Any) -> Any:
    """Convert an operand to a result: NumPy values and numbers become arrays."""
    if not isinstance(x, (np.ndarray, np.generic, int, float, complex)):
        return x
    trace = core.trace_ctx.trace
    if type(trace) is pe.DynamicJaxprTrace:
        return trace.new_const(x)
    return late.to_array(x)


def without_results(
    closed: ClosedJaxpr, dropped: Container[int], order: Sequence[int] | None = None
) -> ClosedJaxpr:
    """Drop some results of a jaxpr, and reorder its arguments."""
    jaxpr, info = closed.jaxpr, closed.debug_info
    order = range(len(jaxpr.invars)) if order is None else order
    names = info.safe_arg_names(len(jaxpr.invars))
    paths = info.safe_result_paths(len(jaxpr.outvars))
    kept = [i for i in range(len(jaxpr.outvars)) if i not in dropped]
    new = jaxpr.replace(
        invars=[jaxpr.invars[i] for i in order],
        outvars=[jaxpr.outvars[i] for i in kept],
        debug_info=info._replace(
            arg_names=tuple([names[i] for i in order]),
            result_paths=tuple([paths[i] for i in kept]),
        ),
    )
    return ClosedJaxpr(new, closed.consts)


def split_at(xs: Sequence[Any], *sizes: int) -> list[list]:
    """Split into parts of the given sizes, and the rest."""
    out, start = [], 0
    for n in sizes:
        out.append(list(xs[start : start + n]))
        start += n
    out.append(list(xs[start:]))
    return out


def spread_marks(
    marks: Sequence[bool], step: Callable[[list[bool]], Any]
) -> tuple[list[bool], Any]:
    """Let marks of carried values spread from step to step of a loop, until none is added.

    Args:
      marks: which values are marked at first.
      step: what the marks give: those of the values after a step, then maybe others.

    Returns:
      The marks at the end, and what they give.
    """
    marks = list(marks)
    while True:
        outs = step(marks)
        new = [a or b for a, b in zip(marks, outs)]
        if new == marks:
            return marks, outs
        marks = new
