"""The function `checkpoint` and its primitive."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import api_util, cache_misses, config, core, source_info_util, traceback_util
from jax._src.ad_checkpoint.names import name_p
from jax._src.ad_checkpoint.split import origin, split
from jax._src.ad_util import Zero
from jax._src.api_util import check_callable, flatten_fun
from jax._src.core import Jaxpr, Primitive, typeof
from jax._src.errors import ConcretizationTypeError
from jax._src.interpreters import mlir, partial_eval as pe
from jax._src.interpreters.calls import CallRules, with_zeros
from jax._src.lax.control_flow.common import def_compiled_impl
from jax._src.lib.mlir.dialects import hlo
from jax._src.tree_util import tree_flatten, tree_unflatten
from jax._src.util import wraps

traceback_util.register_exclusion(__file__)

logger = logging.getLogger("jax._src.ad_checkpoint")


class _Deprecated:
    def __repr__(self) -> str:
        return "Deprecated"


_deprecated = _Deprecated()


@traceback_util.api_boundary
def checkpoint(
    fun: Callable, *, prevent_cse: bool = True, policy: Callable[..., bool] | None = None,
    static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = (),
    concrete: Any = _deprecated,
) -> Callable:  # fmt: skip
    """Make a function recompute its intermediate values when it is differentiated in reverse mode.

    Args:
      fun: function of arrays and pytrees.
      prevent_cse: whether to keep the compiler from merging the recomputation with the forward pass;
        not needed inside `scan`.
      policy: which values to store nevertheless; see `jax.checkpoint_policies`.
      static_argnums: positions of arguments that are Python values.
      static_argnames: the same by name.
      concrete: no longer supported.

    Returns:
      A function with the same values and derivatives.

    >>> g = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    >>> print(jax.grad(g)(2.0))
    -0.25563914
    """
    if concrete is not _deprecated:
        raise NotImplementedError(
            "The 'concrete' option to jax.checkpoint is no longer supported: mark arguments that "
            "Python control flow depends on with static_argnums."
        )
    check_callable(fun)
    static_argnums = api_util.ensure_index_tuple(static_argnums)
    static_argnames = api_util.ensure_str_tuple(static_argnames)
    given_argnums = static_argnums
    if static_argnames:
        by_name, _ = api_util.infer_argnums_and_argnames(
            api_util.fun_signature(fun), None, static_argnames
        )
        static_argnums = (*static_argnums, *by_name)

    @wraps(fun)
    @traceback_util.api_boundary
    def fun_remat(*args, **kwargs):
        n = len(args)
        if any(not -n <= i < n for i in given_argnums):
            raise ValueError(
                "the `static_argnums` argument to `jax.checkpoint` / `jax.remat` can only take integer "
                "values greater than or equal to `-len(args)` and less than `len(args)`, but got "
                f"{static_argnums}, while `len(args)` = {n}"
            )
        statics = {i + n if i < 0 else i for i in static_argnums}
        statics = {i for i in statics if i < n}
        dyn = tuple(a for i, a in enumerate(args) if i not in statics)
        dyn_kwargs = {k: v for k, v in kwargs.items() if k not in static_argnames}
        static_kwargs = {k: v for k, v in kwargs.items() if k in static_argnames}
        flat, in_tree = tree_flatten((dyn, dyn_kwargs))
        static_values = (
            tuple([(i, args[i]) for i in sorted(statics)]), tuple(sorted(static_kwargs.items()))
        )  # fmt: skip

        def call(*dyn_args, **kw):
            it = iter(dyn_args)
            full = [args[i] if i in statics else next(it) for i in range(len(args))]
            return fun(*full, **kw, **static_kwargs)

        avals = [typeof(x) for x in flat]
        if core.high_types_in_use.value:
            avals = core.with_qdds(avals, flat)
        key = ("checkpoint", in_tree, tuple(avals), static_values, config.trace_context())
        table = api_util.trace_table(fun)
        try:
            staged = table.get(key)
        except TypeError:  # a static argument is not hashable, so tracing cannot be cached
            table, staged = {}, None
            key = None
        if staged is None or not api_util.all_valid(staged[1]):
            api_util.check_can_be_key(fun)
            api_util.check_may_trace(fun, "checkpoint")
            flat_fun, out_tree = flatten_fun(call, in_tree)
            info = api_util.debug_info(
                "checkpoint / remat", fun, args, kwargs, static_argnums=static_argnums,
                static_argnames=static_argnames,
            )  # fmt: skip
            if key is not None and cache_misses.are_wanted():
                names = lambda: info.safe_arg_names(len(avals))
                cache_misses.explain_staging(fun, key, table.keys(), names)
            try:
                closed, consts = pe.trace_to_closed(flat_fun, avals, info)
            except ConcretizationTypeError as err:
                err.add_note(
                    "Consider the `static_argnums` of jax.checkpoint / jax.remat for arguments that Python "
                    "control flow depends on."
                )
                raise
            staged = closed, consts, out_tree()
            if not (config.check_tracer_leaks.value and consts):
                table[key] = staged
        closed, consts, tree = staged
        outs = remat_p.bind(
            *consts,
            *flat,
            jaxpr=closed,
            prevent_cse=prevent_cse,
            differentiated=False,
            policy=policy,
        )
        return tree_unflatten(tree, outs)

    return fun_remat


def remat(
    fun: Callable, *, prevent_cse: bool = True, policy: Callable[..., bool] | None = None,
    static_argnums: int | Sequence[int] = (), concrete: Any = _deprecated,
) -> Callable:  # fmt: skip
    """Another name for `checkpoint`, with the same arguments."""
    return checkpoint(
        fun, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums,
        concrete=concrete,
    )  # fmt: skip


# The primitive

remat_p = Primitive("remat2", multiple_results=True)


# The tangent part of a call recomputes what it needs, so dividing the call must not add residuals.
CallRules(remat_p, hands_on=False).install()
def_compiled_impl(remat_p, "jaxpr", lambda *args, jaxpr, **_: core.jaxpr_as_fun(jaxpr)(*args))
_run_compiled = remat_p.impl


def _run(*args, jaxpr, **params):
    if all(isinstance(e, core.RefEffect) for e in jaxpr.effects):
        return _run_compiled(*args, jaxpr=jaxpr, **params)
    # The compiler may print in another order than the program.
    return core.jaxpr_as_fun(jaxpr)(*args)


remat_p.def_impl(_run)


def _hoist(args, params):
    closed, tracers = pe.hoist_tracers(params["jaxpr"])
    if tracers:
        args, params = (*tracers, *args), dict(params, jaxpr=closed)
    return args, params


pe.def_hoisting(remat_p, _hoist)


def _check_effects(jaxpr) -> None:
    """Raise NotImplementedError for effects that must not be repeated in the backward pass."""
    disallowed = core.remat_allowed_effects.filter_not_in(jaxpr.effects)
    disallowed = [e for e in disallowed if not isinstance(e, core.JaxprInputEffect)]
    if disallowed:
        raise NotImplementedError(
            "Effects not supported in partial-eval of `checkpoint`/`remat`: "
            f"{', '.join(map(str, disallowed))}. The backward pass would have them a second time: move "
            "them out of the function."
        )


def _remat_linearize(primals, tangents, *, jaxpr, prevent_cse, differentiated, policy):
    nonzeros = tuple([type(t) is not Zero for t in tangents])
    parts = split(jaxpr, nonzeros, policy)  # the errors of derivatives inside come first
    _check_effects(jaxpr)
    n = len(jaxpr.out_avals)
    if config.log_checkpoint_residuals.value:
        _log_residuals(parts.primal.jaxpr, n, parts.needed)
    results = core.eval_jaxpr(parts.primal.jaxpr, parts.primal.consts, *primals)
    outs, saved = results[:n], results[n:]
    out_tangents = []
    if any(parts.nonzero_outs):
        out_tangents = remat_p.bind(
            *saved,
            *[x for x, needed in zip(primals, parts.needed) if needed],
            *[t for t in tangents if type(t) is not Zero],
            jaxpr=parts.tangent,
            prevent_cse=prevent_cse,
            differentiated=True,
            policy=policy,
        )
    return outs, with_zeros(out_tangents, parts.nonzero_outs, jaxpr)


remat_p.linearize = _remat_linearize


def _log_residuals(primal: Jaxpr, num_results: int, needed: Sequence[bool]) -> None:
    """Log which arguments and intermediate values are stored for the backward pass."""
    producers = {v: eqn for eqn in primal.eqns for v in eqn.outvars}
    lines = [f"  {v.aval.str_short()}" for v, used in zip(primal.invars, needed) if used]
    if lines:
        lines.insert(0, "remat-decorated function saving inputs with shapes:")
    saved = [v for v in primal.outvars[num_results:] if v in producers]
    if saved:
        intro = "and saving" if lines else "remat-decorated function saving"
        lines.append(f"{intro} these intermediates:")
    for v in saved:
        eqn = origin(v, producers)
        name = f"output of {eqn.primitive.name}"
        if eqn.primitive is name_p:
            name = f"named {eqn.params['name']!r}"
        where = source_info_util.summarize(eqn.source_info)
        lines.append(f"  {v.aval.str_short()} from {name} from {where}")
    if lines:
        logger.warning("\n".join(lines))


def _remat_lowering(ctx, *args, jaxpr, prevent_cse, differentiated, policy):
    if differentiated and prevent_cse:
        args = list(hlo.OptimizationBarrierOp(mlir.flatten_ir_values(args)).results)
    return mlir.lower_jaxpr_inline(ctx, jaxpr, "checkpoint", *args)


mlir.register_lowering(remat_p, _remat_lowering)
