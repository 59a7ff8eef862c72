"""The use of keys in jaxprs, from the rules of primitives.

A rule in the slot `key_use` of a primitive is a `KeyReuseSignature`, or a function from an equation to
one. An operation without a rule consumes all keys that it gets, and its results are new keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes, source_info_util, traceback_util
from jax._src.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, ShapedArray, Var, cached_on_jaxpr
from jax._src.core.jaxpr import DropVar
from jax._src.key_reuse.signatures import Forward, KeyReuseSignature, Keys, Sink, Source

traceback_util.register_exclusion(__file__)

REMEDY = (
    "Make a key for each use, `key, subkey = jax.random.split(key)`, or `jax.random.clone(key)` if "
    "the numbers should be the same."
)


def is_keys(aval: Any) -> bool:
    """Whether values of this type are arrays of keys."""
    return isinstance(aval, ShapedArray) and dtypes.issubdtype(aval.dtype, dtypes.prng_key)


def new_keys(aval: Any) -> Keys | None:
    """The state of keys of this type that are not consumed; None for other types."""
    return Keys(_size(aval)) if is_keys(aval) else None


def _size(aval: Any) -> int:
    try:
        return int(np.prod(aval.shape, dtype=np.int64))
    except TypeError:  # a symbolic dimension: such arrays are consumed as a whole
        return -1


def unknown_signature(eqn: JaxprEqn) -> KeyReuseSignature:
    """The use of keys by an operation without a rule: it consumes all operands."""
    for inner in core.jaxprs_in_params(eqn.params):
        jaxpr_type_signature(inner)
    return KeyReuseSignature(
        *[Sink(i) for i, v in enumerate(eqn.invars) if is_keys(v.aval)],
        *[Source(i) for i, v in enumerate(eqn.outvars) if is_keys(v.aval)],
    )


def key_reuse_signature_from_eqn(eqn: JaxprEqn) -> KeyReuseSignature:
    """The use of keys by an equation.

    Raises:
      KeyReuseError: a jaxpr in the parameters uses a key twice.
    """
    rule = eqn.primitive.key_use
    if rule is None:
        return unknown_signature(eqn)
    if isinstance(rule, KeyReuseSignature):
        return rule
    signature: KeyReuseSignature = rule(eqn)
    return signature


@cached_on_jaxpr
def jaxpr_type_signature(jaxpr: Jaxpr) -> KeyReuseSignature:
    """The use of keys by a jaxpr: its operands are the constants, and then the arguments.

    Raises:
      KeyReuseError: a key is used twice.
    """
    operands = [*jaxpr.constvars, *jaxpr.invars]
    states: dict[Var, Keys | None] = {v: new_keys(v.aval) for v in operands}
    for eqn in jaxpr.eqns:
        _apply(eqn, states)
    return summary(operands, states.get, jaxpr.outvars)


def _apply(eqn: JaxprEqn, states: dict[Var, Keys | None]) -> None:
    signature = key_reuse_signature_from_eqn(eqn)
    if not signature._args and not any(is_keys(v.aval) for v in eqn.outvars):
        return
    operands = [None if type(v) is Literal else states.get(v) for v in eqn.invars]
    site = f"{_described(eqn)} at {source_info_util.summarize(eqn.source_info)}"
    if signature.sinks:
        mine = KeyReuseSignature(*signature._args)
        mine.sites = {s.idx: site for s in signature.sinks}
        signature = mine

    def failed(idx: int) -> str:
        keys = operands[idx]
        before = keys.site if keys is not None and keys.site else "an earlier operation"
        return (
            f"In {eqn.primitive.name}, argument {idx} is already consumed.\n"
            f"The argument, of type {eqn.invars[idx].aval.str_short()}, is used by {site}.\n"
            f"It has been used by {before}.\n{REMEDY}"
        )

    outs = signature.apply(operands, len(eqn.outvars), failed)
    for v, keys in zip(eqn.outvars, outs):
        if type(v) is not DropVar and is_keys(v.aval):
            if keys is not None and keys.size == 1 and not any(keys is k for k in operands):
                keys.size = _size(v.aval)
                keys.site = keys.site or site
            states[v] = keys


def _described(eqn: JaxprEqn) -> str:
    name = eqn.params.get("name")
    return (
        f"`{eqn.primitive.name}` of `{name}`"
        if isinstance(name, str)
        else f"`{eqn.primitive.name}`"
    )


def summary(
    operands: Sequence[Var], state_of: Callable[[Var], Keys | None], outs: Sequence[Any]
) -> KeyReuseSignature:
    """The signature of a program, given the states of its variables at the end."""
    marks: list[Source | Sink | Forward] = []
    position: dict[int, int] = {}
    sites: dict[int, str] = {}
    for i, v in enumerate(operands):
        keys = state_of(v)
        if keys is None:
            continue
        position[id(keys)] = i
        if np.any(keys.mask):
            marks.append(Sink(i, masked(keys, v.aval.shape)))
            sites[i] = keys.site
    for o, v in enumerate(outs):
        keys = None if type(v) is Literal else state_of(v)
        if keys is None:
            continue
        if id(keys) in position:
            marks.append(Forward(position[id(keys)], o))
        elif not np.any(keys.mask):
            marks.append(Source(o))
    signature = KeyReuseSignature(*marks)
    signature.sites = sites
    return signature


def masked(keys: Keys, shape: Sequence[int]) -> Any:
    """Which keys are consumed, as a mask of the shape of the array."""
    return keys.mask.reshape(shape) if isinstance(keys.mask, np.ndarray) else keys.mask


def closed_signature(jaxpr: Jaxpr | ClosedJaxpr) -> KeyReuseSignature:
    """The use of keys by a jaxpr of a parameter: its operands are the arguments."""
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    signature = jaxpr_type_signature(inner)
    n = len(inner.constvars)
    if not n:
        return signature
    marks: list[Any] = [Sink(s.idx - n, s.mask) for s in signature.sinks if s.idx >= n]
    marks += signature.sources
    for i, o in signature.forwards:
        marks.append(Forward(i - n, o) if i >= n else Source(o))
    moved = KeyReuseSignature(*marks)
    moved.sites = {i - n: text for i, text in signature.sites.items() if i >= n}
    return moved


def check_key_reuse_jaxpr(jaxpr: Jaxpr) -> None:
    """Check that a jaxpr uses each key once.

    Raises:
      KeyReuseError: a key is used twice.
    """
    jaxpr_type_signature(jaxpr)
