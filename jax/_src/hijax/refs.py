"""References to values of high types: one reference to each of the arrays that represent the value."""

from __future__ import annotations

from typing import Any

from jax._src.core import AbstractRef, Ref, typeof
from jax._src.state.primitives import free_ref_p, freeze_p, get_p, new_ref_p, swap_p


def _new_ref(x: Any, *, memory_space: Any, kind: Any) -> Ref:
    aval = typeof(x)
    refs = [new_ref_p.bind(a, memory_space=memory_space, kind=kind) for a in aval.lower_val(x)]
    return Ref(AbstractRef(aval, memory_space, kind), aval.raise_val(*refs))


def _get(ref: Any, *idx: Any, tree: Any) -> Any:
    aval: Any = typeof(ref)
    return aval.inner_aval.raise_val(*[get_p.bind(r, tree=tree) for r in aval.lower_val(ref)])


def _swap(ref: Any, value: Any, *idx: Any, tree: Any) -> Any:
    aval: Any = typeof(ref)
    values = aval.inner_aval.lower_val(value)
    old = [swap_p.bind(r, x, tree=tree) for r, x in zip(aval.lower_val(ref), values, strict=True)]
    return aval.inner_aval.raise_val(*old)


def _freeze(ref: Any) -> Any:
    aval: Any = typeof(ref)
    refs, ref._buffer = aval.lower_val(ref), None
    return aval.inner_aval.raise_val(*[freeze_p.bind(r) for r in refs])


def _free_ref(ref: Any) -> list[Any]:
    aval: Any = typeof(ref)
    refs, ref._buffer = aval.lower_val(ref), None
    for r in refs:
        free_ref_p.bind(r)
    return []


new_ref_p.to_lojax = _new_ref  # type: ignore[method-assign]
get_p.to_lojax = _get  # type: ignore[method-assign]
swap_p.to_lojax = _swap  # type: ignore[method-assign]
freeze_p.to_lojax = _freeze  # type: ignore[method-assign]
free_ref_p.to_lojax = _free_ref  # type: ignore[method-assign]
