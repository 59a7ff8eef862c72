"""The `while` primitive, which `while_loop`, `fori_loop` and the lowering of `scan` use."""

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core, effects, traceback_util
from jax._src.ad_util import Zero
from jax._src.core import ClosedJaxpr, Primitive, typeof
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.interpreters.split_rules import Flow, JaxprSplitRules
from jax._src.lax import lax
from jax._src.lax.control_flow import progress
from jax._src.lax.control_flow.common import (
    check_maskable,
    def_compiled_impl,
    hoist,
    rearranged,
    split_at,
    spread_marks,
    without_output,
)
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo

traceback_util.register_exclusion(__file__)

# The operands are (constants of the condition, constants of the body, initial carry). The parameter
# `max_steps` is present only if the loop is known to end after at most that many steps; reverse-mode
# derivatives need it (see bounded.py). Rules hand it on (`**bound`) and otherwise ignore it.

while_p = Primitive("while", multiple_results=True)


def _while_one_by_one(*args, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, **_):
    cconsts, bconsts, carry = split_at(args, cond_nconsts, body_nconsts)
    cond, body = core.jaxpr_as_fun(cond_jaxpr), core.jaxpr_as_fun(body_jaxpr)
    while cond(*cconsts, *carry)[0]:
        carry = body(*bconsts, *carry)
    return carry


def_compiled_impl(while_p, "body_jaxpr", _while_one_by_one)


def _while_types(*avals, cond_jaxpr, body_jaxpr, body_nconsts, cond_nconsts, **_):
    return body_jaxpr.out_avals, _while_effects(cond_jaxpr, body_jaxpr, cond_nconsts)


def _while_effects(cond_jaxpr, body_jaxpr, cond_nconsts: int):
    body_effects = body_jaxpr.effects
    if body_effects:  # operands of the condition come before those of the body
        positions = [cond_nconsts + i for i in range(len(body_jaxpr.in_avals))]
        body_effects = core.reindexed_effects(body_effects, positions)
    return core.join_effects(cond_jaxpr.effects, body_effects)


while_p.def_effectful_abstract_eval(_while_types)


def _hoist(args, params):
    cond, cond_tracers = pe.hoist_tracers(params["cond_jaxpr"])
    body, body_tracers = pe.hoist_tracers(params["body_jaxpr"])
    if cond_tracers or body_tracers:
        nc, nb = params["cond_nconsts"], params["body_nconsts"]
        args = (*cond_tracers, *args[:nc], *body_tracers, *args[nc:])
        params = dict(
            params, cond_jaxpr=cond, body_jaxpr=body, cond_nconsts=nc + len(cond_tracers),
            body_nconsts=nb + len(body_tracers),
        )  # fmt: skip
    return args, params


pe.def_hoisting(while_p, _hoist)


def _while_typecheck(_, *atoms, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, **bound):
    avals = [a.aval for a in atoms]
    cc, bc, carry = split_at(avals, cond_nconsts, body_nconsts)
    for name, jaxpr, got in (("cond", cond_jaxpr, cc + carry), ("body", body_jaxpr, bc + carry)):
        if len(jaxpr.in_avals) != len(got) or not all(map(core.typecompat, jaxpr.in_avals, got)):
            raise core.JaxprTypeError(
                f"while {name} jaxpr takes {jaxpr.in_avals}, called with {got}"
            )
    for a, b in zip(carry, body_jaxpr.out_avals):
        if not core.typematch(a, b):
            raise core.JaxprTypeError(f"while body input and output types differ: {a} and {b}")
    return _while_types(
        *avals, cond_jaxpr=cond_jaxpr, body_jaxpr=body_jaxpr, cond_nconsts=cond_nconsts,
        body_nconsts=body_nconsts,
    )  # fmt: skip


while_p.typecheck = _while_typecheck


def _while_jvp(primals, tangents, *, cond_nconsts, cond_jaxpr, body_nconsts, body_jaxpr, **bound):
    nonzeros = [type(t) is not Zero for t in tangents]
    _, nz_bconsts, nz_init = split_at(nonzeros, cond_nconsts, body_nconsts)
    nz_carry, _ = spread_marks(
        nz_init, lambda nz: ad.jvp_jaxpr(body_jaxpr, (*nz_bconsts, *nz), nz)[1]
    )
    jvp, _ = ad.jvp_jaxpr(body_jaxpr, (*nz_bconsts, *nz_carry), nz_carry)
    cconsts, bconsts, init = split_at(primals, cond_nconsts, body_nconsts)
    _, t_bconsts, t_init = split_at(tangents, cond_nconsts, body_nconsts)
    t_bconsts = [t for t in t_bconsts if type(t) is not Zero]
    t_init = [ad.instantiate_zeros(t) for t, nz in zip(t_init, nz_carry) if nz]
    # Body: [consts, carry, t_consts, t_carry] -> [consts, t_consts, carry, t_carry].
    nb, nc, ntb, ntc = len(bconsts), len(init), len(t_bconsts), len(t_init)
    order = [
        *range(nb),
        *range(nb + nc, nb + nc + ntb),
        *range(nb, nb + nc),
        *range(nb + nc + ntb, nb + nc + ntb + ntc),
    ]
    body = rearranged(jvp, tuple(order))
    cond = with_unused_carry(
        cond_jaxpr, [a.to_tangent_aval() for a, nz in zip(body_jaxpr.out_avals, nz_carry) if nz]
    )
    outs = while_p.bind(
        *cconsts, *bconsts, *t_bconsts, *init, *t_init, cond_nconsts=cond_nconsts, cond_jaxpr=cond,
        body_nconsts=nb + ntb, body_jaxpr=body, **bound,
    )  # fmt: skip
    out, t_out = outs[:nc], iter(outs[nc:])
    return out, [
        next(t_out) if nz else Zero(typeof(x).to_tangent_aval()) for x, nz in zip(out, nz_carry)
    ]


while_p.jvp = _while_jvp


def with_unused_carry(cond: ClosedJaxpr, avals: Sequence[Any]) -> ClosedJaxpr:
    return rearranged(cond, (*range(len(cond.in_avals)), *avals))


def _while_batch(
    axis_data, args, dims, *, cond_nconsts, cond_jaxpr, body_nconsts, body_jaxpr, **bound
):
    size = axis_data.size
    batched = [d is not None for d in dims]
    cconsts_b, bconsts_b, init_b = split_at(batched, cond_nconsts, body_nconsts)
    carry_b, _ = spread_marks(
        init_b, lambda b: batching.batch_jaxpr(body_jaxpr, axis_data, (*bconsts_b, *b), b)[1]
    )
    _, (pred_b,) = batching.batch_jaxpr(cond_jaxpr, axis_data, (*cconsts_b, *carry_b))
    cconsts, bconsts, init = split_at(args, cond_nconsts, body_nconsts)
    cd, bd, id_ = split_at(dims, cond_nconsts, body_nconsts)
    cconsts = [batching.moveaxis(x, d, 0) if d is not None else x for x, d in zip(cconsts, cd)]
    bconsts = [batching.moveaxis(x, d, 0) if d is not None else x for x, d in zip(bconsts, bd)]
    if pred_b:
        check_maskable("while_loop", cond_jaxpr, body_jaxpr)
        # Elements that are finished keep their values while the others continue. The number of the
        # step, which a loop that shows its progress carries, is that of the batch.
        counter = progress.counter_of(body_jaxpr, body_nconsts)
        carry_b = [b or i != counter for i, b in enumerate(carry_b)]
        cond, _ = batching.batch_jaxpr(cond_jaxpr, axis_data, (*cconsts_b, *carry_b), True)
        body, _ = batching.batch_jaxpr(body_jaxpr, axis_data, (*bconsts_b, *carry_b), carry_b)
        any_cond, guarded = _guarded(cond, body, cond_nconsts, body_nconsts, tuple(carry_b))
        cond_jaxpr, body_jaxpr = any_cond, guarded
        body_args = [*cconsts, *bconsts]
    else:
        cond_jaxpr, _ = batching.batch_jaxpr(cond_jaxpr, axis_data, (*cconsts_b, *carry_b))
        body_jaxpr, _ = batching.batch_jaxpr(body_jaxpr, axis_data, (*bconsts_b, *carry_b), carry_b)
        body_args = bconsts
    init = [batching.bdim_at_front(x, d, size) if b else x for x, d, b in zip(init, id_, carry_b)]
    outs = while_p.bind(
        *cconsts, *body_args, *init, cond_nconsts=len(cconsts), cond_jaxpr=cond_jaxpr,
        body_nconsts=len(body_args), body_jaxpr=body_jaxpr, **bound,
    )  # fmt: skip
    return outs, [0 if b else None for b in carry_b]


while_p.axis_batch = _while_batch


def _guarded(
    cond: ClosedJaxpr, body: ClosedJaxpr, cond_nconsts: int, body_nconsts: int, batched: tuple
):
    """Make the condition hold while any element's does, and the body mask finished elements."""
    cache = body._cache
    key = ("guarded", cond, cond_nconsts, body_nconsts, batched)
    if key in cache:
        return cache[key]
    cconst_avals = cond.in_avals[:cond_nconsts]
    # The condition itself has printed what it prints in order.
    silent = without_output(cond.jaxpr, effects.ordered_effects.filter_in)

    def any_cond(*args):
        (pred,) = core.eval_jaxpr(cond.jaxpr, cond.consts, *args)
        return [lax.reduce_or(pred, (0,))]

    def run(*args):
        cconsts, bconsts, carry = split_at(args, cond_nconsts, body_nconsts)
        (pred,) = core.eval_jaxpr(silent, cond.consts, *cconsts, *carry)
        new = core.eval_jaxpr(body.jaxpr, body.consts, *bconsts, *carry)
        return [
            lax.select(
                lax.broadcast_in_dim(pred, typeof(x).shape, (0,), out_sharding=typeof(x)._sharding),
                x,
                old,
            )
            if b
            else x
            for x, old, b in zip(new, carry, batched)
        ]

    cond_jaxpr, _, c_consts = pe.trace_to_jaxpr_dynamic(any_cond, cond.in_avals, ANY_OF_BATCH)
    body_jaxpr, _, b_consts = pe.trace_to_jaxpr_dynamic(run, [*cconst_avals, *body.in_avals])
    result = ClosedJaxpr(cond_jaxpr, c_consts), ClosedJaxpr(body_jaxpr, b_consts)
    cache[key] = result
    return result


ANY_OF_BATCH = core.DebugInfo("vmap of while_loop", "any element of the batch")


def is_any_of_batch(jaxpr: ClosedJaxpr) -> bool:
    """Whether a loop goes on for all elements of a batch while the condition holds for one of them.

    The jaxpr is the condition of a `while`, or the body of a `bounded_scan`.
    """
    return jaxpr.jaxpr.debug_info.traced_for == ANY_OF_BATCH.traced_for


def stage_while(cond: Callable, body: Callable, init: Sequence[Any]) -> list[Any]:
    """Bind `while` with functions of the carried values, which are flat."""
    avals = [typeof(x) for x in init]
    cond_jaxpr, _, cond_consts = pe.trace_to_jaxpr_dynamic(cond, avals)
    body_jaxpr, _, body_consts = pe.trace_to_jaxpr_dynamic(body, avals)
    return while_p.bind(
        *cond_consts, *body_consts, *init, cond_nconsts=len(cond_consts),
        cond_jaxpr=hoist(cond_jaxpr), body_nconsts=len(body_consts), body_jaxpr=hoist(body_jaxpr),
    )  # fmt: skip


class _WhileSplitRules(JaxprSplitRules):
    repeats_effects = True

    def flow(self, params):
        nc, nb = params["cond_nconsts"], params["body_nconsts"]
        cond, body = params["cond_jaxpr"], params["body_jaxpr"]
        n = len(body.out_avals)
        carry = range(nc + nb, nc + nb + n)
        operands = [*range(nc), *carry], range(nc, nc + nb + n)
        return Flow((cond, body), n, operands, ((None,), range(n)), list(enumerate(carry)))

    def with_jaxprs(self, params, jaxprs, ins, outs):
        nc, nb = params["cond_nconsts"], params["body_nconsts"]
        return dict(
            params,
            cond_jaxpr=jaxprs[0],
            body_jaxpr=jaxprs[1],
            cond_nconsts=sum(i < nc for i in ins),
            body_nconsts=sum(nc <= i < nc + nb for i in ins),
        )


while_p.split = _WhileSplitRules()


def _while_lowering(ctx, *args, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, **_):
    if not cond_jaxpr.effects:  # in blocks, the condition is computed once more for each block
        blocks = progress.blocks_of(body_jaxpr, body_nconsts)
        if blocks is not None:
            return _while_in_blocks(
                ctx, *args, cond_jaxpr=cond_jaxpr, blocks=blocks, cond_nconsts=cond_nconsts,
                body_nconsts=body_nconsts,
            )  # fmt: skip
    cconsts, bconsts, init = split_at(args, cond_nconsts, body_nconsts)
    carry_avals = ctx.avals_out
    carry_types = [mlir.aval_to_ir_type(ctx.module_context, a) for a in carry_avals]
    effects = [
        e for e in ctx.tokens_in.effects() if e in body_jaxpr.effects or e in cond_jaxpr.effects
    ]
    if any(e in cond_jaxpr.effects for e in effects):
        return _while_with_effects_in_condition(
            ctx, *args, cond_jaxpr=cond_jaxpr, body_jaxpr=body_jaxpr, cond_nconsts=cond_nconsts,
            body_nconsts=body_nconsts,
        )  # fmt: skip
    tokens = ctx.tokens_in.subset(effects)
    n_tok = len(effects)
    flat_types = [*[mlir.token_type()] * n_tok, *mlir.flatten_ir_types(carry_types)]
    flat_init = [*[tokens.get(e) for e in effects], *mlir.flatten_ir_values(init)]
    op = hlo.WhileOp(flat_types, flat_init)

    def run(block, jaxpr, consts, scope):
        operands = list(block.arguments)
        carry = mlir.unflatten_ir_values_like_types(operands[n_tok:], carry_types)
        inner = mlir.TokenSet(zip(effects, operands[:n_tok]))
        lowered_consts = mlir.ir_consts(jaxpr.consts, [v.aval for v in jaxpr.jaxpr.constvars])
        return mlir.jaxpr_subcomp(
            ctx.module_context, jaxpr.jaxpr, ctx.name_stack.within(scope), inner, lowered_consts,
            *consts, *carry, dim_var_values=ctx.dim_var_values, const_lowering=ctx.const_lowering,
            outer_traceback=ctx.traceback,
        )  # fmt: skip

    cond_block = op.regions[0].blocks.append(*flat_types)
    with ir.InsertionPoint(cond_block):
        (pred,), _ = run(cond_block, cond_jaxpr, cconsts, "while/cond")
        hlo.return_([pred])
    body_block = op.regions[1].blocks.append(*flat_types)
    with ir.InsertionPoint(body_block):
        outs, tokens_out = run(body_block, body_jaxpr, bconsts, "while/body")
        hlo.return_([*[tokens_out.get(e) for e in effects], *mlir.flatten_ir_values(outs)])
    results = list(op.results)
    if effects:
        ctx.set_tokens_out(mlir.TokenSet(zip(effects, results[:n_tok])))
    # Keep the carry's shardings: the compiler would otherwise reduce unreduced values in each step.
    return [
        mlir.lower_with_sharding_in_types(ctx, v, a)
        for v, a in zip(
            mlir.unflatten_ir_values_like_types(results[n_tok:], carry_types), carry_avals
        )
    ]


def _while_in_blocks(ctx, *args, cond_jaxpr, blocks, cond_nconsts, body_nconsts):
    """Run blocks of steps, and report before each block how far the loop is."""
    one_device = mlir.is_single_device(ctx.module_context)

    def run(*args):
        cconsts, bconsts, init = split_at(args, cond_nconsts, body_nconsts)

        def goes_on(*carry):
            return core.jaxpr_as_fun(cond_jaxpr)(*cconsts, *carry)

        def step(*carry):
            return core.jaxpr_as_fun(blocks.body)(*bconsts, *carry)

        def block(*carry):
            first = carry[blocks.step]
            num_steps = blocks.start(first, bconsts, one_device)

            def is_in_block(*carry):
                done = lax.sub(carry[blocks.step], first)  # the step itself may overflow
                return [lax.bitwise_and(*goes_on(*carry), lax.lt(done, num_steps))]

            return stage_while(is_in_block, step, carry)

        return stage_while(goes_on, block, init)

    return mlir.lower_fun(run, multiple_results=True)(ctx, *args)


def _while_with_effects_in_condition(
    ctx, *args, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts
):
    """Carry the predicate, which is computed before the loop and at the end of the body."""

    def new_cond(pred, *_):
        return [pred]

    def run(*args):
        cconsts, bconsts, init = split_at(args, cond_nconsts, body_nconsts)
        (pred,) = core.eval_jaxpr(cond_jaxpr.jaxpr, cond_jaxpr.consts, *cconsts, *init)

        def body(_, *carry):
            outs = core.eval_jaxpr(body_jaxpr.jaxpr, body_jaxpr.consts, *bconsts, *carry)
            (pred,) = core.eval_jaxpr(cond_jaxpr.jaxpr, cond_jaxpr.consts, *cconsts, *outs)
            return [pred, *outs]

        return stage_while(new_cond, body, [pred, *init])[1:]

    return mlir.lower_fun(run, multiple_results=True)(ctx, *args)


mlir.register_lowering(while_p, _while_lowering)
