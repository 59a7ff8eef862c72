"""The record of the errors that a program finds, while it is transformed or evaluated.

For each kind of error there are three results: whether there is one, the number of the check that has
found the first one, and its payload. The numbers count the checks of a program in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import ad_util, core
from jax._src.checkify.errors import Error, last_of_batch, reduced
from jax._src.checkify.exceptions import ErrorEffect, JaxException
from jax._src.core import ClosedJaxpr, Var, typeof
from jax._src.core.primitive import sorted_axes
from jax._src.interpreters import partial_eval as pe
from jax._src.late_binding import late
from jax._src.lax import lax
from jax._src.lax.parallel.sums import pvary
from jax._src.tree_util import PyTreeDef, tree_flatten

Enabled = frozenset[type[JaxException]]


class Found(NamedTuple):
    """What the last results of a program stand for: the errors that it finds.

    Attributes:
      effects: the kinds of errors. There are 2 results for each, and those of its payload.
      avals: the types of all these results.
      metadata: for each code the tree structure of its exception.
    """

    effects: tuple[ErrorEffect, ...]
    avals: tuple[Any, ...]
    metadata: tuple[PyTreeDef, ...]

    def groups(self, leaves: Sequence[Any]) -> list[tuple[ErrorEffect, Sequence[Any]]]:
        """The results of each kind."""
        start, out = 0, []
        for effect in self.effects:
            end = start + 2 + len(effect.shape_dtypes)
            out.append((effect, leaves[start:end]))
            start = end
        return out


class Record:
    """The errors that have been found so far.

    Args:
      enabled: the classes of errors to look for.
    """

    __slots__ = ("enabled", "found", "metadata", "nan_checked")

    def __init__(self, enabled: Enabled):
        self.enabled = enabled
        self.found: dict[ErrorEffect, list[Any]] = {}  # predicate, code, and payload
        self.metadata: list[PyTreeDef] = []
        self.nan_checked: set[Var] = set()  # a NaN in these has been recorded

    def add(self, pred: Any, exception: JaxException) -> None:
        """Record `exception` if `pred` is true."""
        payload, tree = tree_flatten(exception)
        code = np.int32(len(self.metadata))
        self.metadata.append(tree)
        self._put(exception.get_effect_type(), [pred, code, *payload])

    def add_found(self, found: Found, leaves: Sequence[Any]) -> None:
        """Record what a part of the program has found."""
        start = len(self.metadata)
        self.metadata.extend(found.metadata)
        for effect, (pred, code, *payload) in found.groups(leaves):
            self._put(effect, [pred, _shifted(code, start), *payload])

    def add_error(self, error: Error) -> None:
        """Record an error, as far as it is of the enabled classes."""
        error = reduced(error)
        effects = [e for e in error._pred if e.error_type in self.enabled]
        if not effects:
            return
        first, start = min(error._metadata), len(self.metadata)
        codes = sorted(error._metadata)
        contiguous = codes == list(range(first, first + len(codes)))
        self.metadata.extend(error._metadata[c] for c in codes)
        for effect in effects:
            code = error._code[effect]
            new = _shifted(code, start - first) if contiguous else _looked_up(code, codes, start)
            self._put(effect, [error._pred[effect], new, *error._payload[effect]])

    def _put(self, effect: ErrorEffect, new: list[Any]) -> None:
        old = self.found.get(effect)
        self.found[effect] = new if old is None else first_of(old, new)

    def leaves(self) -> list[Any]:
        """All results, in the order of `Found`."""
        return [x for group in self.found.values() for x in group]

    def summary(self) -> Found:
        """What the results stand for."""
        avals = tuple([typeof(x) for x in self.leaves()])
        return Found(tuple(self.found), avals, tuple(self.metadata))

    def error(self) -> Error:
        """The errors as the value that users see."""
        effects = sorted(self.found)
        parts = [self.found[e] for e in effects]
        pred, code, payload = [
            dict(zip(effects, [part(p) for p in parts]))
            for part in (lambda p: _array(p[0]), lambda p: _array(p[1]), lambda p: p[2:])
        ]
        return Error(pred, code, dict(enumerate(self.metadata)), payload)


def _array(x: Any) -> Any:
    return x if isinstance(x, core.Tracer) else late.to_array(x)


def _shifted(code: Any, offset: int) -> Any:
    if type(code) is np.int32:
        return np.int32(code + offset)
    return lax.add(code, lax.full_like(code, offset)) if offset else code


def _looked_up(code: Any, codes: Sequence[int], start: int) -> Any:
    """`start` plus the position of `code` in `codes`."""
    new = lax.full_like(code, start, np.int32)
    for i, c in enumerate(codes[1:], 1):
        is_c = lax.eq(code, lax.full_like(code, c))
        new = lax.select(is_c, lax.full_like(new, start + i), new)
    return new


def first_of(old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """The results of a kind of error, given those of the program so far and of what follows."""
    old, new = _alike(old, new)
    pred = old[0]
    return [lax.bitwise_or(pred, new[0]), *[_select(pred, x, y) for x, y in zip(old[1:], new[1:])]]


def _select(pred: Any, x: Any, y: Any) -> Any:
    shape = np.shape(x)
    if pred.ndim and len(shape) > pred.ndim:
        pred = lax.broadcast_in_dim(pred, shape, tuple(range(pred.ndim)))
    return lax.select(pred, x, y)


def _alike(old: Sequence[Any], new: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Repeat an error for each element of a batch, if the other one is of a batch."""
    shapes = np.shape(old[0]), np.shape(new[0])
    if shapes[0] == shapes[1]:
        return old, new
    if shapes[0] and shapes[1]:
        return last_of_batch(old), last_of_batch(new)
    repeat = lambda xs, shape: [lax.broadcast(x, shape) for x in xs]
    return (old, repeat(new, shapes[0])) if shapes[0] else (repeat(old, shapes[1]), new)


# Parts of programs, whose errors are additional results


def staged(fun: Callable[..., Any], in_avals: Sequence[Any], info: Any = None) -> ClosedJaxpr:
    """A jaxpr of a flat function without constants that are traced."""
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(fun, in_avals, info)
    return ClosedJaxpr(jaxpr, consts)


def initial(found: Found) -> list[Any]:
    """The results of a program that has found no errors."""
    return [vary_over(ad_util.zeros_like_aval(a), a.vma) for a in found.avals]


def vary_over(x: Any, axes: frozenset[Any]) -> Any:
    """Make a value vary over manual mesh axes."""
    missing = axes - typeof(x).vma
    return pvary(x, sorted_axes(missing)) if missing else x
