"""Reverse-mode derivatives of `while` loops with a known bound on their number of steps.

A loop's steps are divided into segments, these into smaller ones, and so on. The forward pass keeps
the carry at the start of each segment. The backward pass takes the segments in reverse order: it
runs a segment again, keeping the carries of its parts, and then treats these in the same way. With
levels of equal size this is the multi-level scheme of Griewank and Walther ("Revolve", ACM TOMS
26:1, 2000) for a length that is not known in advance (Stumm and Walther, SIAM J. Sci. Comput. 32:2,
2010): as the sizes of the levels follow from the bound, no checkpoint is ever dropped.

The loops of both passes are `bounded_scan`s, so they can be differentiated again.
"""

import math
import operator
from typing import Any

import numpy as np

from jax._src import core, traceback_util
from jax._src.ad_util import Zero
from jax._src.core import ClosedJaxpr, typeof
from jax._src.interpreters import ad, partial_eval as pe
from jax._src.interpreters.splitting import divide_jaxpr
from jax._src.lax import lax
from jax._src.lax.control_flow.bounded_scan import bounded_scan_p
from jax._src.lax.control_flow.common import split_at
from jax._src.lax.control_flow.while_primitive import is_any_of_batch, while_p

traceback_util.register_exclusion(__file__)

_MAX_LEVEL = 64  # checkpoints on one level
_UNDIVIDED = 16  # of a loop of so few steps all residuals are kept


def as_bound(max_steps: Any) -> int:
    try:
        bound = operator.index(max_steps)
    except TypeError:  # such as that of a traced value
        raise TypeError(
            "lax.while_loop: max_steps must be an integer that is known when the loop is traced, got "
            f"{max_steps!r}. If a value decides, compare a counter with it in cond_fun, and give "
            "max_steps an integer that it does not exceed."
        ) from None
    if not 0 <= bound <= np.iinfo(np.int32).max:
        raise ValueError(
            f"lax.while_loop: max_steps must be at least 0 and less than 2 ** 31, got {bound}. Leave it "
            "out for a loop without bound."
        )
    return bound


@core.cached_on_jaxpr
def counted(
    body: ClosedJaxpr, cond: ClosedJaxpr, cond_nconsts: int, body_nconsts: int, max_steps: int
):
    """Carry the number of steps before the other values, and end the loop at `max_steps`."""
    one, end = np.int32(1), np.int32(max_steps)

    def run_cond(*args):
        consts, (i,), carry = split_at(args, cond_nconsts, 1)
        (pred,) = core.jaxpr_as_fun(cond)(*consts, *carry)
        return [lax.bitwise_and(lax.lt(i, end), pred)]

    def run_body(*args):
        consts, (i,), carry = split_at(args, body_nconsts, 1)
        return [lax.add(i, one), *core.jaxpr_as_fun(body)(*consts, *carry)]

    closed = []
    for fun, jaxpr, n in ((run_body, body, body_nconsts), (run_cond, cond, cond_nconsts)):
        consts, carry = split_at(jaxpr.in_aval_qdds, n)
        avals = [*consts, core.ShapedArray((), np.dtype(np.int32)), *carry]
        new, _, new_consts = pe.trace_to_jaxpr_dynamic(
            fun, avals, jaxpr.debug_info.with_unknown_names()
        )
        closed.append(ClosedJaxpr(new, new_consts))
    return closed


def with_invariants_outside(body: ClosedJaxpr, consts: list) -> tuple[ClosedJaxpr, list]:
    """Compute what depends only on the constants before a loop.

    Devices of a `shard_map` may take different numbers of steps. Then the loop must not cast values
    from invarying to varying: the transpose of the cast is a sum over devices, which all of them
    must take part in.

    Returns:
      The new body and constants.
    """
    known = [i < len(consts) for i in range(len(body.in_avals))]
    parts = divide_jaxpr(body, tuple(known), True)
    if parts is None:
        return body, consts
    outer = core.jaxpr_as_fun(parts.known)(*consts)
    k = sum(parts.known_outs)
    used = [x for x, u in zip(consts, parts.rest_ins) if u]

    def run(*args):
        results, rest = split_at(args, k)
        results, others = iter(results), iter(core.jaxpr_as_fun(parts.rest)(*rest))
        return [next(results) if o else next(others) for o in parts.known_outs]

    avals = [*parts.known.out_avals[:k], *parts.rest.in_aval_qdds]
    jaxpr, _, jaxpr_consts = pe.trace_to_jaxpr_dynamic(
        run, avals, body.debug_info.with_unknown_names()
    )
    return ClosedJaxpr(jaxpr, jaxpr_consts), [*outer, *used]


def _check_varying(pred, consts, tangents) -> None:
    """Raise ValueError if a loop would add cotangents of a constant over devices in its steps."""
    for x, t in zip(consts, tangents):
        missing = typeof(pred).vma - typeof(x).vma
        if missing and type(t) is not Zero:
            axes = ", ".join(sorted(map(repr, missing)))
            raise ValueError(
                "lax.while_loop with max_steps: devices may take different numbers of steps, since the "
                f"condition varies over {axes}, but the body uses {typeof(x).str_short()}, which does "
                "not, in an inner loop or branch. In reverse mode each step would have to add its "
                "cotangent over all devices. Apply "
                f"jax.lax.pcast(x, ({axes},), to='varying') to this value before the loop."
            )


def level_sizes(max_steps: int) -> list[int]:
    """Return the numbers of parts on each level of segments, whose product is at least `max_steps`."""
    if max_steps <= _UNDIVIDED:
        return [max_steps]
    levels = 2
    while _MAX_LEVEL**levels < max_steps:
        levels += 1
    sizes, rest = [], max_steps
    for k in range(levels, 0, -1):
        size = max(math.ceil(rest ** (1 / k) - 1e-9), 1)
        sizes.append(size)
        rest = math.ceil(rest / size)
    return sizes


def _outermost(primals, *, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, max_steps):
    """Return the operands and parameters of the outermost loop over segments."""
    num_consts = cond_nconsts + body_nconsts
    sizes = tuple(level_sizes(max_steps))
    consts, init = split_at(primals, num_consts)
    # The condition may not depend on all values; those that are linear have none.
    cond, used = pe.dce_jaxpr(cond_jaxpr.jaxpr, [True])
    args = [x for x, u in zip([*consts[:cond_nconsts], *init], used) if u]
    (pred,) = core.eval_jaxpr(cond, cond_jaxpr.consts, *args)
    params = dict(
        jaxpr=_nested(body_jaxpr, cond_jaxpr, cond_nconsts, body_nconsts, sizes), length=sizes[0],
        num_consts=num_consts, num_carry=1 + len(init), stops=True, reverse=False,
        recompute=len(sizes) > 1,
    )  # fmt: skip
    return [np.int32(sizes[0]), *consts, pred, *init], params


def _while_linearize(primals, tangents, *, max_steps=None, **params):
    if max_steps is None:
        return while_p.jvp(primals, tangents, **params)
    for aval in params["body_jaxpr"].in_avals:
        if aval.has_qdd:
            raise TypeError(
                f"lax.while_loop with max_steps: the body uses a mutable value of type {aval}, so that "
                "the loop has no reverse-mode derivative: the backward pass runs steps again, and would "
                "change the value again."
            )
    n = params["cond_nconsts"] + params["body_nconsts"]
    args, params = _outermost(primals, max_steps=max_steps, **params)
    none = [ad.zero_of(np.int32(0)), ad.zero_of(args[1 + n])]
    _check_varying(args[1 + n], args[1 : 1 + n], tangents)
    tangents = [none[0], *tangents[:n], none[1], *tangents[n:]]
    outs, t_outs = bounded_scan_p.linearize(args, tangents, **params)
    return outs[2:], t_outs[2:]


while_p.linearize = _while_linearize


def _while_transpose(cts, *args, max_steps=None, **params):
    if max_steps is None:
        raise ValueError(
            "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with dynamic "
            "start/stop values. Try using lax.scan, using fori_loop with static start/stop, or bounding "
            "the number of steps by lax.while_loop(..., max_steps=N)."
        )
    n = params["cond_nconsts"] + params["body_nconsts"]
    args, params = _outermost(args, max_steps=max_steps, **params)
    none = [ad.zero_of(np.int32(0)), ad.zero_of(args[1 + n])]
    cts_in = bounded_scan_p.transpose([*none, *cts], *args, **params)
    return [*cts_in[1 : 1 + n], *cts_in[2 + n :]]


while_p.transpose = _while_transpose


@core.cached_on_jaxpr
def _nested(body: ClosedJaxpr, cond: ClosedJaxpr, nc: int, nb: int, sizes: tuple) -> ClosedJaxpr:
    """Return the body of the outermost loop: (consts, predicate, carry) -> (predicate, carry)."""
    consts, carry = split_at(cond.in_avals, nc)
    avals = [*consts, *body.in_avals[:nb], *cond.out_avals, *carry]
    info = (cond if is_any_of_batch(cond) else body).debug_info.with_unknown_names()

    def step(*args):
        consts, _, carry = split_at(args, nc + nb, 1)
        carry = core.jaxpr_as_fun(body)(*consts[nc:], *carry)
        (pred,) = core.jaxpr_as_fun(cond)(*consts[:nc], *carry)
        return [pred, *carry]

    def staged(fun):
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(fun, avals, info)
        return ClosedJaxpr(jaxpr, consts)

    closed = staged(step)
    for k in range(len(sizes) - 1, 0, -1):
        params = dict(
            jaxpr=closed, length=sizes[k], num_consts=nc + nb, num_carry=1 + len(carry), stops=True,
            reverse=False, recompute=k < len(sizes) - 1,
        )  # fmt: skip
        closed = staged(
            lambda *args, p=params: bounded_scan_p.bind(np.int32(p["length"]), *args, **p)[1:]
        )
    return closed
