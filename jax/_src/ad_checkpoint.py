"""`checkpoint` (rematerialisation): recompute values in the backward pass instead of storing them."""

import logging
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from jax._src import api_util, config, core, dispatch, source_info_util, traceback_util
from jax._src.ad_util import Zero
from jax._src.api_util import check_callable, flatten_fun
from jax._src.core import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Primitive,
    Tracer,
    Var,
    cached_on_jaxpr,
    typeof,
)
from jax._src.errors import ConcretizationTypeError
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.jit_primitive import jit_p
from jax._src.lax.control_flow.scan_primitive import scan_p
from jax._src.lib.mlir.dialects import hlo
from jax._src.tree_util import tree_flatten, tree_unflatten
from jax._src.util import wraps

traceback_util.register_exclusion(__file__)

logger = logging.getLogger(__name__)


# Policies: policy(primitive, *avals, **params) -> whether the results may be stored


def everything_saveable(*_, **__) -> bool:
    """Store all intermediate values, as if there were no `checkpoint`."""
    return True


def nothing_saveable(*_, **__) -> bool:
    """Store nothing but the arguments (the default)."""
    return False


def dots_saveable(prim, *_, **__) -> bool:
    """Store results of matrix products and convolutions."""
    return prim.name in ("dot_general", "conv_general_dilated")


def dots_with_no_batch_dims_saveable(prim, *_, **params) -> bool:
    """Store results of matrix products without batch dimensions."""
    if prim.name == "dot_general":
        _, (lhs_batch, rhs_batch) = params["dimension_numbers"]
        return not lhs_batch and not rhs_batch
    return False


class Offloadable:
    """A policy's answer: store in another memory space."""

    __slots__ = ("src", "dst")

    def __init__(self, src: str, dst: str):
        self.src, self.dst = src, dst

    def __repr__(self) -> str:
        return f"Offloadable(src={self.src!r}, dst={self.dst!r})"


class RecomputeType:
    """A policy's answer: recompute, as for False."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "Recompute"


class SaveableType:
    """A policy's answer: store, as for True."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Saveable"


Recompute = RecomputeType()
Saveable = SaveableType()


def save_anything_except_these_names(*names_not_to_save: str) -> Callable:
    """Store all values, named or not, except those with these names."""
    names = frozenset(names_not_to_save)

    def policy(prim, *_, **params):
        return not (prim is name_p and params["name"] in names)

    return policy


def save_any_names_but_these(*names_not_to_save: str) -> Callable:
    """Store only named values, and of them all but these."""
    names = frozenset(names_not_to_save)

    def policy(prim, *_, **params):
        return prim is name_p and params["name"] not in names

    return policy


def save_only_these_names(*names_which_can_be_saved: str) -> Callable:
    """Store only values with these names (see `checkpoint_name`)."""
    names = frozenset(names_which_can_be_saved)

    def policy(prim, *_, **params):
        return prim is name_p and params["name"] in names

    return policy


def save_and_offload_only_these_names(
    *, names_which_can_be_saved: Sequence[str], names_which_can_be_offloaded: Sequence[str],
    offload_src: str, offload_dst: str,
) -> Callable:  # fmt: skip
    """Store values with some names where they are, those with other names in another memory space."""
    saved, offloaded = frozenset(names_which_can_be_saved), frozenset(names_which_can_be_offloaded)
    if both := saved & offloaded:
        raise ValueError(
            "The names should be exclusive and should not intersect in `names_which_can_be_saved` and "
            f"`names_which_can_be_offloaded`. Got intersection {sorted(both)}."
        )

    def policy(prim, *_, **params):
        if prim is name_p and params["name"] in saved:
            return True
        if prim is name_p and params["name"] in offloaded:
            return Offloadable(src=offload_src, dst=offload_dst)
        return False

    return policy


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Callable:
    """Store results of matrix products without batch dimensions in another memory space."""

    def policy(prim, *avals, **params):
        if dots_with_no_batch_dims_saveable(prim, *avals, **params):
            return Offloadable(src=offload_src, dst=offload_dst)
        return False

    return policy


def save_from_both_policies(policy_1: Callable, policy_2: Callable) -> Callable:
    """Store what either policy stores; they must return bools."""

    def policy(prim, *args, **params):
        first, second = policy_1(prim, *args, **params), policy_2(prim, *args, **params)
        if not isinstance(first, bool) or not isinstance(second, bool):
            raise ValueError(
                "save_from_both_policies: the policies must return booleans, got "
                f"{first} and {second}. Write a policy that decides between offloading and storing."
            )
        return first or second

    return policy


checkpoint_policies = SimpleNamespace(
    everything_saveable=everything_saveable,
    nothing_saveable=nothing_saveable,
    dots_saveable=dots_saveable,
    checkpoint_dots=dots_saveable,
    dots_with_no_batch_dims_saveable=dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=dots_with_no_batch_dims_saveable,
    offload_dot_with_no_batch_dims=offload_dot_with_no_batch_dims,
    save_anything_except_these_names=save_anything_except_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_only_these_names=save_only_these_names,
    save_from_both_policies=save_from_both_policies,
    save_and_offload_only_these_names=save_and_offload_only_these_names,
)


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
      policy: which values may be stored all the same; see `jax.checkpoint_policies`.
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
        key = ("checkpoint", in_tree, tuple(avals), static_values, config.trace_context())
        table = api_util.trace_table(fun)
        try:
            staged = table.get(key)
        except TypeError:  # a static argument that cannot be hashed: nothing is remembered
            table, staged = {}, None
            key = None
        if staged is None or not api_util.all_valid(staged[1]):
            api_util.check_may_trace(fun, "checkpoint")
            flat_fun, out_tree = flatten_fun(call, in_tree)
            info = api_util.debug_info(
                "checkpoint / remat", fun, args, kwargs, static_argnums=static_argnums,
                static_argnames=static_argnames,
            )  # fmt: skip
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
    """`checkpoint` under its older name; arguments as there."""
    return checkpoint(
        fun, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums,
        concrete=concrete,
    )  # fmt: skip


# The primitive

remat_p = Primitive("remat2", multiple_results=True)


def _remat_types(*avals, jaxpr, **_):
    return jaxpr.out_avals, jaxpr.effects


remat_p.def_effectful_abstract_eval(_remat_types)


def _hoist(args, params):
    closed, tracers = pe.hoist_tracers(params["jaxpr"])
    if tracers:
        args, params = (*tracers, *args), dict(params, jaxpr=closed)
    return args, params


pe.def_hoisting(remat_p, _hoist)


def _remat_jvp(primals, tangents, *, jaxpr, prevent_cse, differentiated, policy):
    nonzeros = [type(t) is not Zero for t in tangents]
    jvp, nonzero_outs = ad.jvp_jaxpr(jaxpr, nonzeros)
    outs = remat_p.bind(
        *primals, *[t for t in tangents if type(t) is not Zero], jaxpr=jvp,
        prevent_cse=prevent_cse, differentiated=differentiated, policy=policy,
    )  # fmt: skip
    n = len(jaxpr.out_avals)
    out_tangents = iter(outs[n:])
    return outs[:n], [
        next(out_tangents) if nz else Zero(a.to_tangent_aval())
        for a, nz in zip(jaxpr.out_avals, nonzero_outs)
    ]


remat_p.jvp = _remat_jvp


def _check_effects(jaxpr) -> None:
    """Raise NotImplementedError for effects that may not happen again in the backward pass."""
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
    _check_effects(jaxpr)
    split = _split(jaxpr, nonzeros, policy)
    n = len(jaxpr.out_avals)
    if config.log_checkpoint_residuals.value:
        _log_residuals(split.primal.jaxpr, n, split.needed)
    results = core.eval_jaxpr(split.primal.jaxpr, split.primal.consts, *primals)
    outs, saved = results[:n], results[n:]
    out_tangents = iter(())
    if any(split.nonzero_outs):
        out_tangents = iter(
            remat_p.bind(
                *saved,
                *[x for x, needed in zip(primals, split.needed) if needed],
                *[t for t in tangents if type(t) is not Zero],
                jaxpr=split.tangent,
                prevent_cse=prevent_cse,
                differentiated=True,
                policy=policy,
            )
        )
    return outs, [
        next(out_tangents) if nz else Zero(a.to_tangent_aval())
        for a, nz in zip(jaxpr.out_avals, split.nonzero_outs)
    ]


remat_p.linearize = _remat_linearize


def _log_residuals(primal: Jaxpr, num_results: int, needed: Sequence[bool]) -> None:
    """Log what is stored for the backward pass: arguments, and results that the policy names."""
    origin = {v: eqn for eqn in primal.eqns for v in eqn.outvars}
    lines = [f"  {v.aval.str_short()}" for v, used in zip(primal.invars, needed) if used]
    if lines:
        lines.insert(0, "remat-decorated function saving inputs with shapes:")
    saved = [v for v in primal.outvars[num_results:] if v in origin]
    if saved:
        intro = "and saving" if lines else "remat-decorated function saving"
        lines.append(f"{intro} these intermediates:")
    for v in saved:
        eqn = origin[v]
        name = f"output of {eqn.primitive.name}"
        if eqn.primitive is name_p:
            name = f"named {eqn.params['name']!r}"
        where = source_info_util.summarize(eqn.source_info)
        lines.append(f"  {v.aval.str_short()} from {name} from {where}")
    if lines:
        logger.warning("\n".join(lines))


class _Split(NamedTuple):
    """A function made ready for differentiation.

    Attributes:
      primal: from arguments to (results, stored values).
      tangent: from (stored values, needed arguments, nonzero tangents) to nonzero tangents of results: it
        computes again what is not stored.
      needed: which arguments `tangent` takes.
      nonzero_outs: which results have a tangent.
    """

    primal: ClosedJaxpr
    tangent: ClosedJaxpr
    needed: list[bool]
    nonzero_outs: list[bool]


@cached_on_jaxpr
def _split(closed: ClosedJaxpr, nonzeros: tuple, policy: Callable | None) -> _Split:
    lin = ad.linearize_jaxpr(_inline_calls(closed), nonzeros)
    primal = _inline_calls(lin.primal)  # rules may have called jitted functions
    jaxpr, n, num_outs = primal.jaxpr, len(closed.in_avals), len(closed.out_avals)
    plan = _Plan(policy)
    plan.add(jaxpr.eqns)

    # What is not stored is computed again, then comes the linear part, on these residuals.
    linear = lin.tangent.jaxpr
    where = {"in": jaxpr.invars, "out": jaxpr.outvars, "res": jaxpr.outvars[num_outs:]}
    residuals = [plan.forwarded(where[kind][i]) for kind, i in lin.residual_sources]
    env = dict(zip(linear.invars, residuals))
    eqns = [*plan.again, *[_renamed(eqn, env) for eqn in linear.eqns]]
    tangent = Jaxpr(
        [*jaxpr.constvars, *linear.constvars],
        [*plan.arrived, *jaxpr.invars, *linear.invars[len(residuals) :]],
        [_rename(v, env) for v in linear.outvars],
        eqns,
        core.no_effects,
        closed.debug_info.with_unknown_names(),
    )
    tangent.effects = core.effects_of_eqns(tangent.constvars, tangent.invars, eqns)
    m = len(plan.saved)
    kept = [False] * (m + n) + [True] * (len(tangent.invars) - m - n)
    tangent, used = pe.dce_jaxpr(tangent, [True] * len(tangent.outvars), kept)

    saved = [v for v, u in zip(plan.saved, used) if u]
    first = jaxpr.replace(
        eqns=plan.first,
        outvars=[*jaxpr.outvars[:num_outs], *saved],
        debug_info=closed.debug_info.with_unknown_names(),
    )
    first, _ = pe.dce_jaxpr(first, [True] * len(first.outvars), True)
    return _Split(
        ClosedJaxpr(first, primal.consts),
        ClosedJaxpr(tangent, [*primal.consts, *lin.tangent.consts]),
        used[m : m + n],
        list(lin.nonzero_outs),
    )


class _Plan:
    """What a policy makes of equations.

    Attributes:
      first: equations of the forward pass.
      again: equations that compute everything again from stored values.
      saved: variables of the forward pass whose values are stored.
      arrived: for each of these the variable that `again` has for it.
    """

    def __init__(self, policy: Callable | None):
        self.policy = policy
        self.first: list[JaxprEqn] = []
        self.again: list[JaxprEqn] = []
        self.saved: list[Var] = []
        self.arrived: list[Var] = []
        self._same: dict[Var, Var] = {}

    def forwarded(self, v):
        """The variable that has the value of `v` without another copy of it."""
        return v if type(v) is Literal else self._same.get(v, v)

    def add(self, eqns: Sequence[JaxprEqn]) -> None:
        for eqn in eqns:
            if eqn.effects and _uses_ref_once(eqn):
                self.first.append(eqn)
                self.saved.extend(eqn.outvars)
                self.arrived.extend(eqn.outvars)
            elif self.policy is None:
                self.first.append(eqn)
                self.again.append(eqn)
            elif eqn.primitive is scan_p:
                self._add_scan(eqn)
            else:
                self._add(eqn)

    def _add(self, eqn: JaxprEqn) -> None:
        self.first.append(eqn)
        avals = [v.aval for v in eqn.invars]
        decision = self.policy(eqn.primitive, *avals, **eqn.params)
        if isinstance(decision, Offloadable):
            for v in eqn.outvars:
                away, put = _transfer(v, decision.dst)
                back = Var(away.aval)
                returned, fetch = _transfer(back, decision.src, v)
                self.first.append(put)
                self.again.append(fetch)
                self.saved.append(away)
                self.arrived.append(back)
        elif decision:
            self.saved.extend(eqn.outvars)
            self.arrived.extend(eqn.outvars)
        else:
            self.again.append(eqn)

    def _add_scan(self, eqn: JaxprEqn) -> None:
        """What is stored in the body of a loop is stored for each step."""
        body = _inline_calls(eqn.params["jaxpr"])
        plan = _Plan(self.policy)
        plan.add(body.eqns)
        if not plan.saved:
            self.first.append(eqn)
            self.again.append(eqn)
            return
        num_carry, length = eqn.params["num_carry"], eqn.params["length"]
        stacked = [Var(core.unmapped_aval(length, 0, v.aval)) for v in plan.saved]
        first = _with_eqns(body.jaxpr, plan.first, outvars=[*body.jaxpr.outvars, *plan.saved])
        again = _with_eqns(body.jaxpr, plan.again, invars=[*body.jaxpr.invars, *plan.arrived])
        self.first.append(
            eqn.replace(
                outvars=[*eqn.outvars, *stacked],
                params=dict(eqn.params, jaxpr=ClosedJaxpr(first, body.consts)),
                effects=first.effects,
            )
        )
        self.again.append(
            eqn.replace(
                invars=[*eqn.invars, *stacked],
                params=dict(eqn.params, jaxpr=ClosedJaxpr(again, body.consts)),
                effects=again.effects,
            )
        )
        self.saved.extend(stacked)
        self.arrived.extend(stacked)
        index = {v: i for i, v in enumerate(plan.arrived)}
        for v, inner in zip(eqn.outvars[num_carry:], body.jaxpr.outvars[num_carry:]):
            inner = plan.forwarded(inner)
            if type(inner) is not Literal and inner in index:
                self._same[v] = stacked[index[inner]]


def _with_eqns(jaxpr: Jaxpr, eqns: list[JaxprEqn], **changes) -> Jaxpr:
    info = jaxpr.debug_info.with_unknown_names()
    new = jaxpr.replace(eqns=eqns, debug_info=info, **changes)
    new.effects = core.effects_of_eqns(new.constvars, new.invars, eqns)
    return new


def _uses_ref_once(eqn: JaxprEqn) -> bool:
    """Whether a reference is used that must not see an operation again."""
    return not eqn.primitive.ref_boundary and any(
        type(v.aval) is core.AbstractRef and v.aval.kind is not None for v in eqn.invars
    )


def _transfer(v: Var, kind: str, to: Var | None = None) -> tuple[Var, JaxprEqn]:
    """An equation that moves a value to another memory: into a new variable, or the given one."""
    space = dispatch.memory_kind_to_space(kind)
    params = dict(devices=(space,), srcs=(None,), copy_semantics=(dispatch.ALWAYS_COPY,))
    (aval,), effects = dispatch.device_put_p.eval_types([v.aval], params)
    to = Var(aval) if to is None else to
    return to, core.new_jaxpr_eqn([v], [to], dispatch.device_put_p, params, effects)


def _rename(v, env: dict):
    return v if type(v) is Literal else env.get(v, v)


def _renamed(eqn: JaxprEqn, env: dict) -> JaxprEqn:
    return eqn.replace(invars=[_rename(v, env) for v in eqn.invars])


def _inline_calls(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with nested `jit` calls in place, so that a policy sees their operations."""
    if not any(eqn.primitive is jit_p for eqn in closed.eqns):
        return closed

    def run(jaxpr, consts, args):
        env = dict(zip(jaxpr.constvars, consts))
        env.update(zip(jaxpr.invars, args))
        for eqn in jaxpr.eqns:
            vals = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
            if eqn.primitive is jit_p:
                inner = eqn.params["jaxpr"]
                outs = run(inner.jaxpr, inner.consts, vals)
            else:
                funs, params = eqn.primitive.get_bind_params(eqn.params)
                with eqn.ctx.manager:
                    outs = eqn.primitive.bind(*funs, *vals, **params)
                if not eqn.primitive.multiple_results:
                    outs = [outs]
            env.update(zip(eqn.outvars, outs))
        return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]

    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(
        lambda *args: run(closed.jaxpr, closed.consts, args), closed.in_avals, closed.debug_info
    )
    return ClosedJaxpr(jaxpr, consts)


def _remat_transpose(cts, *args, jaxpr, prevent_cse, differentiated, policy):
    linear = tuple([ad.is_undefined_primal(x) for x in args])
    ct_nonzero = tuple([type(ct) is not Zero for ct in cts])
    transposed, nonzero_outs = ad.transpose_jaxpr(jaxpr, linear, ct_nonzero)
    outs = iter(
        remat_p.bind(
            *[x for x, lin in zip(args, linear) if not lin],
            *[ct for ct in cts if type(ct) is not Zero],
            jaxpr=transposed,
            prevent_cse=prevent_cse,
            differentiated=differentiated,
            policy=policy,
        )  # fmt: skip
    )
    nonzero = iter(nonzero_outs)
    return [
        (next(outs) if next(nonzero) else Zero(x.aval.to_ct_aval())) if lin else None
        for x, lin in zip(args, linear)
    ]


remat_p.transpose = _remat_transpose


def _remat_batch(axis_data, args, dims, *, jaxpr, **params):
    batched, out_dims = batching.batch_jaxpr2(jaxpr, axis_data, dims)
    return remat_p.bind(*args, jaxpr=batched, **params), list(out_dims)


remat_p.axis_batch = _remat_batch
remat_p.dce = pe.dce_jaxpr_closed_call_rule
remat_p.dependence = pe.dependence_of("jaxpr")


def _remat_lowering(ctx, *args, jaxpr, prevent_cse, differentiated, policy):
    if differentiated and prevent_cse:
        args = list(hlo.OptimizationBarrierOp(mlir.flatten_ir_values(args)).results)
    return mlir.lower_jaxpr_inline(ctx, jaxpr, "checkpoint", *args)


mlir.register_lowering(remat_p, _remat_lowering)

# Names for values

name_p = Primitive("name")


def checkpoint_name(x: Any, name: str) -> Any:
    """Name a value (or every leaf of a tree), for policies of `checkpoint`.

    Args:
      x: array or tree.
      name: the name.

    Returns:
      `x`.
    """
    leaves, tree = tree_flatten(x)
    for leaf in leaves:
        typeof(leaf)
    return tree_unflatten(tree, [name_p.bind(leaf, name=name) for leaf in leaves])


name_p.def_impl(lambda x, *, name: x)
name_p.def_abstract_eval(lambda aval, *, name: aval)


def _name_jvp(primals, tangents, *, name):
    (x,), (t,) = primals, tangents
    return name_p.bind(x, name=name), t


name_p.jvp = _name_jvp
name_p.batch = lambda args, dims, *, name: (name_p.bind(args[0], name=name), dims[0])
mlir.register_lowering(name_p, lambda ctx, x, *, name: [x])


def saved_residuals(f: Callable, *args, **kwargs) -> list[tuple[core.AbstractValue, str]]:
    """The values stored between the forward and backward pass of a function, each with where it is from."""
    flat, in_tree = tree_flatten((args, kwargs))
    flat_fun, _ = flatten_fun(f, in_tree)
    info = api_util.debug_info("saved_residuals", f, args, kwargs)
    names = info.safe_arg_names(len(flat))
    trace = pe.DynamicJaxprTrace(info)
    tracers = [trace.new_arg(typeof(x)) for x in flat]
    with core.set_current_trace(trace):
        _, lin = ad.linearize(flat_fun, tracers)
        jaxpr, residuals = lin.to_jaxpr()
    index = {t.val: i for i, t in enumerate(tracers)}
    producers = {v: eqn for eqn in trace.eqns for v in eqn.outvars}
    constants, arguments, computed = [], {}, []
    for r in residuals:
        aval = typeof(r)
        val = getattr(r, "val", None) if isinstance(r, Tracer) else None
        if val in index:
            arguments[index[val]] = (aval, f"from the argument {names[index[val]]}")
        elif val in producers:
            eqn = producers[val]
            what = f"output of {eqn.primitive.name}"
            if eqn.primitive is name_p:
                what = f"named '{eqn.params['name']}'"
            elif eqn.primitive.name == "jit":
                what = f"output of jitted function '{eqn.params['name']}'"
            computed.append((aval, f"{what} from {source_info_util.summarize(eqn.source_info)}"))
        else:
            constants.append((aval, "from a constant"))
    trace.finish()
    return [*constants, *[arguments[i] for i in sorted(arguments)], *computed]


def print_saved_residuals(f: Callable, *args, **kwargs) -> None:
    """Print the values stored between the forward and backward pass of a function."""
    for aval, what in saved_residuals(f, *args, **kwargs):
        print(f"{aval.str_short(short_dtypes=True)} {what}")
