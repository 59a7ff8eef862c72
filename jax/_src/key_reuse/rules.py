"""Rules of operations on arrays, which pass keys on, and of operations that call functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core, source_info_util, traceback_util
from jax._src.ad_checkpoint import remat_p
from jax._src.call_primitives import call_p, closed_call_p
from jax._src.core import JaxprEqn
from jax._src.core.primitive import RuleView
from jax._src.custom_batching import custom_vmap_p
from jax._src.custom_derivatives.jvp import custom_jvp_call_p
from jax._src.custom_derivatives.remat_opt import remat_opt_p
from jax._src.custom_derivatives.vjp import custom_vjp_call_p
from jax._src.debugging import debug_callback_p
from jax._src.device_put.primitive import device_put_p
from jax._src.jit.primitive import jit_p
from jax._src.key_reuse.analysis import REMEDY, closed_signature, is_keys, masked, new_keys
from jax._src.key_reuse.signatures import Forward, KeyReuseSignature, Keys, Sink, Source
from jax._src.lax import lax
from jax._src.lax.composite import composite_p
from jax._src.lax.control_flow.conditionals import cond_p
from jax._src.lax.control_flow.scan_primitive import scan_p
from jax._src.lax.control_flow.while_primitive import while_p
from jax._src.lax.layout_constraint import layout_constraint_p
from jax._src.lax.resharding import reshard_p, sharding_constraint_p
from jax._src.lax.slicing import gathers, scatters, slices
from jax._src.shard_map.primitive import shard_map_p

traceback_util.register_exclusion(__file__)

# Operations on arrays


def _slice(eqn: JaxprEqn) -> KeyReuseSignature:
    """A slice consists of new keys, and consumes those at its positions, so that others stay."""
    (aval,) = [v.aval for v in eqn.invars]
    if not is_keys(aval):
        return KeyReuseSignature()
    if not core.is_constant_shape(aval.shape):
        return KeyReuseSignature(Sink(0), Source(0))
    params = eqn.params
    strides = params["strides"] or (1,) * len(aval.shape)
    mask = np.zeros(aval.shape, bool)
    mask[tuple(map(slice, params["start_indices"], params["limit_indices"], strides))] = True
    return KeyReuseSignature(Sink(0, mask), Source(0))


def _each_forwarded(eqn: JaxprEqn) -> KeyReuseSignature:
    """One result for each operand."""
    return KeyReuseSignature(*[Forward(i, i) for i, v in enumerate(eqn.invars) if is_keys(v.aval)])


for _primitive in (
    lax.broadcast_in_dim_p, lax.copy_p, lax.convert_element_type_p, lax.reshape_p, lax.squeeze_p,
    slices.dynamic_slice_p, gathers.gather_p, layout_constraint_p, sharding_constraint_p, reshard_p,
):  # fmt: skip
    _primitive.key_use = KeyReuseSignature(Forward(0, 0))
slices.dynamic_update_slice_p.key_use = KeyReuseSignature(Sink(1), Forward(0, 0))
scatters.scatter_p.key_use = KeyReuseSignature(Sink(2), Forward(0, 0))
lax.eq_p.key_use = lax.ne_p.key_use = debug_callback_p.key_use = KeyReuseSignature()
slices.slice_p.key_use = _slice
device_put_p.key_use = _each_forwarded


# Functions


def _calls(name: str) -> Callable[[JaxprEqn], KeyReuseSignature]:
    """The rule of an operation that calls the function in the parameter `name` once."""
    return lambda eqn: closed_signature(eqn.params[name])


def _remat(eqn: JaxprEqn) -> KeyReuseSignature:
    """Derivatives compute again what the function has computed, with the same keys on purpose."""
    signature = closed_signature(eqn.params["jaxpr"])
    if not eqn.params["differentiated"]:
        return signature
    return KeyReuseSignature(*signature.sources, *signature.forwards)


def _cond(eqn: JaxprEqn) -> KeyReuseSignature:
    branches = [closed_signature(b) for b in eqn.params["branches"]]
    marks: list[Any] = []
    sites: dict[int, str] = {}
    for i in range(len(eqn.invars) - 1):
        used = [s.mask for b in branches for s in b.sinks if s.idx == i]
        if used:
            marks.append(Sink(i + 1, np.logical_or.reduce(np.broadcast_arrays(*used))))
            sites[i + 1] = next(
                b.sites.get(i, "") for b in branches if i in {s.idx for s in b.sinks}
            )
    for o, v in enumerate(eqn.outvars):
        if is_keys(v.aval):
            marks += _result_of_branches(branches, o)
    signature = KeyReuseSignature(*marks)
    signature.sites = sites
    return signature


def _result_of_branches(branches: Sequence[KeyReuseSignature], o: int) -> list[Any]:
    """The marks of a result, given what each branch says of it."""
    forwards = [[i for i, out in b.forwards if out == o] for b in branches]
    if all(forwards) and all(f == forwards[0] for f in forwards):
        return [Forward(forwards[0][0] + 1, o)]
    for b, forward in zip(branches, forwards):
        consumed = {s.idx for s in b.sinks}
        if forward and forward[0] in consumed:
            return []
        if not forward and o not in {s.idx for s in b.sources}:
            return []
    # The result may be keys of an operand: they are used up, and the result takes their place.
    return [*[Sink(f[0] + 1) for f in forwards if f], Source(o)]


class _Loop:
    """States of the keys of a loop: of constants, of the initial carry and of what is mapped over.

    The loop is run until each key of the carry has been everywhere, so that a second use is noticed.
    """

    def __init__(self, eqn: JaxprEqn, num_consts: int, num_carry: int):
        self.eqn = eqn
        self.operands = [new_keys(v.aval) for v in eqn.invars]
        self.consts = self.operands[:num_consts]
        self.carry: list[Keys | None] = self.operands[num_consts : num_consts + num_carry]
        self.iterations = 2 + sum(k is not None for k in self.carry)

    def call(self, what: str, jaxpr: Any, operands: Sequence[Keys | None]) -> list[Keys | None]:
        """Apply a jaxpr of the loop to states."""
        inner = closed_signature(jaxpr)

        def failed(idx: int) -> str:
            kind = (
                "key constants are" if any(operands[idx] is k for k in self.consts) else "a key is"
            )
            where = source_info_util.summarize(self.eqn.source_info)
            used = inner.sites.get(idx) or "the function"
            return (
                f"{what} function leads to key reuse when repeatedly executed, because {kind} "
                f"repeatedly consumed: argument {idx} of the function, of type "
                f"{jaxpr.in_avals[idx].str_short()}, by {used}, in the loop at {where}.\nSplit the key "
                "in each iteration and carry one of the new keys on, or fold the number of the "
                f"iteration into it, `jax.random.fold_in(key, i)`. {REMEDY}"
            )

        outs = inner.apply(operands, len(jaxpr.out_avals), failed)
        return [k if is_keys(a) else None for k, a in zip(outs, jaxpr.out_avals)]

    def signature(self, outs: Sequence[Keys | None]) -> KeyReuseSignature:
        marks: list[Any] = []
        sites: dict[int, str] = {}
        for i, keys in enumerate(self.operands):
            if keys is not None and np.any(keys.mask):
                marks.append(Sink(i, masked(keys, self.eqn.invars[i].aval.shape)))
                sites[i] = keys.site
        for o, keys in enumerate(outs):
            places = [i for i, k in enumerate(self.operands) if k is keys and k is not None]
            if places:
                marks.append(Forward(places[0], o))
            elif keys is not None and not np.any(keys.mask):
                marks.append(Source(o))
        signature = KeyReuseSignature(*marks)
        signature.sites = sites
        return signature


def _scan(eqn: JaxprEqn) -> KeyReuseSignature:
    body, n, m = eqn.params["jaxpr"], eqn.params["num_consts"], eqn.params["num_carry"]
    loop = _Loop(eqn, n, m)
    mapped = loop.operands[n + m :]
    for _ in range(loop.iterations):
        rows = [new_keys(a) for a in body.in_avals[n + m :]]
        outs = loop.call("scan body", body, [*loop.consts, *loop.carry, *rows])
        loop.carry = outs[:m]
    for whole, row in zip(mapped, rows):  # all iterations use the same part of their rows
        if whole is not None and row is not None:
            whole.consume(bool(np.any(row.mask)), row.site)
    whole_of = {id(row): whole for whole, row in zip(mapped, rows) if row is not None}
    return loop.signature([whole_of.get(id(k), k) for k in outs])


def _while(eqn: JaxprEqn) -> KeyReuseSignature:
    params = eqn.params
    nc, nb = params["cond_nconsts"], params["body_nconsts"]
    loop = _Loop(eqn, nc + nb, len(eqn.outvars))
    for _ in range(loop.iterations):
        loop.call("while_loop cond", params["cond_jaxpr"], [*loop.consts[:nc], *loop.carry])
        loop.carry = loop.call(
            "while_loop body", params["body_jaxpr"], [*loop.consts[nc:], *loop.carry]
        )
    return loop.signature(loop.carry)


for _primitive, _name in [
    (jit_p, "jaxpr"),
    (shard_map_p, "jaxpr"),
    (composite_p, "jaxpr"),
    (call_p, "call_jaxpr"),
    (closed_call_p, "call_jaxpr"),
    (custom_jvp_call_p, "call_jaxpr"),
    (custom_vjp_call_p, "call_jaxpr"),
    (custom_vmap_p, "call"),
    (remat_opt_p, "fwd_jaxpr"),
]:
    _primitive.key_use = _calls(_name)
remat_p.key_use = _remat
cond_p.key_use = _cond
scan_p.key_use = _scan
while_p.key_use = _while

# Other libraries add rules for their primitives here.
key_reuse_signatures = RuleView("key_use")
