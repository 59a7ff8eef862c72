"""Effects: what an equation does besides computing its results."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax._src.core.jaxpr import JaxprEqn, Var


class Effect:
    """A side effect. Equal instances are one effect; each kind of effect is a subclass.

    Attributes:
      is_exported: whether programs of `jax.export` have it. Those that run them elsewhere have to
        know its class.
    """

    __slots__ = ()
    is_exported = True


class JaxprInputEffect(Effect):
    """An effect on one input of a jaxpr, named by its position."""

    __slots__ = ("input_index",)

    def __init__(self, input_index: int):
        self.input_index = input_index

    def replace(self, *, input_index: int | None = None) -> JaxprInputEffect:
        return type(self)(self.input_index if input_index is None else input_index)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.input_index == other.input_index

    def __hash__(self) -> int:
        return hash((type(self), self.input_index))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.input_index})"


class EffectTypeSet:
    """A set of effect classes: an effect belongs to it when its class derives from a member."""

    def __init__(self) -> None:
        self._types: set[type[Effect]] = set()
        self._frozen: tuple[type[Effect], ...] = ()

    def add_type(self, effect_type: type[Effect]) -> None:
        """Add a class of effects to the set."""
        self._types.add(effect_type)
        self._frozen = tuple(self._types)

    def types(self) -> tuple[type[Effect], ...]:
        """The member classes."""
        return self._frozen

    def contains(self, effect: Effect) -> bool:
        """Whether `effect` is an instance of a member class."""
        return isinstance(effect, self._frozen)

    def filter_in(self, effects: Iterable[Effect]) -> list[Effect]:
        """The effects that belong to the set."""
        return [e for e in effects if self.contains(e)]

    def filter_not_in(self, effects: Iterable[Effect]) -> list[Effect]:
        """The effects that do not belong to the set."""
        return [e for e in effects if not self.contains(e)]


Effects = frozenset[Effect]
no_effects: Effects = frozenset()

ordered_effects = EffectTypeSet()
shardable_ordered_effects = EffectTypeSet()
lowerable_effects = EffectTypeSet()
control_flow_allowed_effects = EffectTypeSet()
custom_derivatives_allowed_effects = EffectTypeSet()
custom_derivatives_allowed_effects.add_type(JaxprInputEffect)
remat_allowed_effects = EffectTypeSet()
# Effects that must happen exactly as often as the program says. Batching a `cond` or `while_loop`
# may run a branch or an iteration for elements of the batch that do not take it: not with these.
exact_effects = EffectTypeSet()
partial_eval_kept_effects = EffectTypeSet()


def allow_everywhere(*effect_types: type[Effect]) -> None:
    """Lets transformations drop or repeat such effects, as they do with the operations around them."""
    for allowed in (
        lowerable_effects,
        control_flow_allowed_effects,
        custom_derivatives_allowed_effects,
        remat_allowed_effects,
    ):
        for effect_type in effect_types:
            allowed.add_type(effect_type)


class NamedAxisEffect(Effect):
    """The use of a named axis that an enclosing `vmap` or `shard_map` binds."""

    __slots__ = ("name",)

    def __init__(self, name: Hashable) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedAxisEffect) and self.name == other.name

    def __hash__(self) -> int:
        return hash((NamedAxisEffect, self.name))

    def __repr__(self) -> str:
        return f"NamedAxisEffect({self.name})"


allow_everywhere(NamedAxisEffect)


def reindexed_effects(effects: Iterable[Effect], positions: Sequence[int | None]) -> Effects:
    """`effects` after operand `i` has moved to `positions[i]`; None drops the effects on it."""
    out: set[Effect] = set()
    for e in effects:
        if isinstance(e, JaxprInputEffect):
            position = positions[e.input_index]
            if position is not None:
                out.add(e.replace(input_index=position))
        else:
            out.add(e)
    return frozenset(out)


def effects_of_eqns(
    constvars: Sequence[Var], invars: Sequence[Var], eqns: Iterable[JaxprEqn]
) -> Effects:
    """The effects of equations, as the caller of their jaxpr sees them.

    Effects on arguments name them by position. Constants precede them, at negative positions.
    """
    found: set[Any] = set()
    index: dict[Any, int] = {}
    for eqn in eqns:
        for e in eqn.effects:
            if not isinstance(e, JaxprInputEffect):
                found.add(e)
                continue
            if not index:
                n = len(constvars)
                index = {v: i - n for i, v in enumerate((*constvars, *invars))}
            i = index.get(eqn.invars[e.input_index])
            if i is not None:
                found.add(e.replace(input_index=i))
    return frozenset(found)
