"""Uses of keys by programs while they run, under `jax_debug_key_reuse`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import source_info_util, traceback_util
from jax._src.core import typeof
from jax._src.key_reuse import rules as _rules  # noqa: F401 - sets the rules of primitives
from jax._src.key_reuse.analysis import REMEDY, is_keys, jaxpr_type_signature, masked, new_keys
from jax._src.key_reuse.signatures import Keys, is_key_array

traceback_util.register_exclusion(__file__)


def use_keys(params: dict[str, Any], args: Sequence[Any]) -> Callable[[Sequence[Any]], None] | None:
    """Check the keys that a compiled program gets, before it runs.

    Args:
      params: the parameters of `jit_p`.
      args: the arguments.

    Returns:
      A function to call with the results, once the program has run: it marks keys as consumed.

    Raises:
      KeyReuseError: the program uses a key twice, or one that has been consumed before.
    """
    closed = params["jaxpr"]
    values = [*closed.consts, *args]
    signature = jaxpr_type_signature(closed.jaxpr)
    if not signature._args and not any(map(is_keys, closed.out_avals)):
        return None
    states: dict[int, Keys] = {}  # by array: one that is passed twice has one state
    operands = [_state(x, states) for x in values]
    first = len(closed.consts)

    def failed(idx: int) -> str:
        where = source_info_util.summarize(source_info_util.current())
        used = signature.sites.get(idx)
        if idx < first:
            which, key = "closed over", f"a constant of type {typeof(values[idx]).str_short()}"
        else:
            which = f"at index {idx - first}"
            key = f"an argument of type {typeof(values[idx]).str_short()}"
        return (
            f"Previously-consumed key passed to {_called(closed.jaxpr, params['name'])} {which}\n"
            f"The key, {key}, is passed at {where}" + (f", and used by {used}" if used else "")
            + f". It has been used before.\n{REMEDY}"
        )  # fmt: skip

    outs = signature.apply(operands, len(closed.out_avals), failed)

    def ran(results: Sequence[Any]) -> None:
        for x in values:
            keys = states.get(id(x))
            if keys is not None:
                x._consumed = masked(keys, x.shape)
        for x, keys in zip(results, outs):
            if is_key_array(x) and keys is not None and id(x) not in states:
                same = keys.size == x.size
                x._consumed = masked(keys, x.shape) if same else keys.overlaps(True)

    return ran


def _state(x: Any, states: dict[int, Keys]) -> Keys | None:
    if not is_key_array(x):
        return None
    if id(x) not in states:
        keys = new_keys(typeof(x))
        assert keys is not None
        states[id(x)] = Keys(keys.size, x._consumed)
    return states[id(x)]


def _called(jaxpr: Any, name: str) -> str:
    """What the user called: an operation, or a function."""
    if len(jaxpr.eqns) == 1 and jaxpr.eqns[0].primitive.name in (name, name.rstrip("2")):
        return name
    return "jit-compiled function"
