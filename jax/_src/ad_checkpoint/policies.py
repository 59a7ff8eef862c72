"""Policies, which decide what `checkpoint` stores: `policy(primitive, *avals, **params)`.

A policy returns a bool, or `Recompute`, `Saveable` or an `Offloadable`. It is not called for
operations that contain functions (`jit`, `cond`, `scan`, `checkpoint`), but for the operations in
these functions. Policies defined here are equal if their arguments are, so that splits of a
function, which are cached by policy, can be reused.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from jax._src.ad_checkpoint.names import name_p


def everything_saveable(*_, **__) -> bool:
    """Store all intermediate values, as if there were no `checkpoint`."""
    return True


def nothing_saveable(*_, **__) -> bool:
    """Store nothing but the arguments (the default)."""
    return False


class Offloadable:
    """A policy's decision to store a value in another memory space."""

    __slots__ = ("src", "dst")

    def __init__(self, src: str, dst: str):
        self.src, self.dst = src, dst

    def __repr__(self) -> str:
        return f"Offloadable(src={self.src!r}, dst={self.dst!r})"


class RecomputeType:
    """A policy's decision to recompute a value, like False."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "Recompute"


class SaveableType:
    """A policy's decision to store a value, like True."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Saveable"


Recompute = RecomputeType()
Saveable = SaveableType()
Decision = RecomputeType | SaveableType | Offloadable


class _Policy:
    """A policy that is equal to those of its class with the same values of the slots."""

    __slots__: tuple[str, ...] = ()

    def __init__(self, *values: Any):
        for name, value in zip(self.__slots__, values, strict=True):
            setattr(self, name, value)

    def _key(self) -> tuple:
        return tuple([getattr(self, name) for name in self.__slots__])

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({values})"


class DotsSaveable(_Policy):
    """Store results of matrix products without batch dimensions, or of all and of convolutions."""

    __slots__ = ("only_if_no_batch_dims",)

    def __call__(self, prim, *_, **params) -> bool:
        if not self.only_if_no_batch_dims:
            return prim.name in ("dot_general", "conv_general_dilated")
        if prim.name != "dot_general":
            return False
        _, (lhs_batch, rhs_batch) = params["dimension_numbers"]
        return not lhs_batch and not rhs_batch


dots_saveable = DotsSaveable(False)
dots_with_no_batch_dims_saveable = DotsSaveable(True)


class SaveAnythingExceptTheseNames(_Policy):
    __slots__ = ("names",)

    def __call__(self, prim, *_, **params) -> bool:
        return not (prim is name_p and params["name"] in self.names)


def save_anything_except_these_names(*names_not_to_save: str) -> Callable:
    """Store all values, named or not, except those with these names."""
    return SaveAnythingExceptTheseNames(frozenset(names_not_to_save))


class SaveAnyNamesButThese(_Policy):
    __slots__ = ("names",)

    def __call__(self, prim, *_, **params) -> bool:
        return prim is name_p and params["name"] not in self.names


def save_any_names_but_these(*names_not_to_save: str) -> Callable:
    """Store only named values, except those with these names."""
    return SaveAnyNamesButThese(frozenset(names_not_to_save))


class SaveOnlyTheseNames(_Policy):
    __slots__ = ("saveable_names",)

    def __call__(self, prim, *_, **params) -> bool:
        return prim is name_p and params["name"] in self.saveable_names


def save_only_these_names(*names_which_can_be_saved: str) -> Callable:
    """Store only values with these names (see `checkpoint_name`)."""
    return SaveOnlyTheseNames(frozenset(names_which_can_be_saved))


class SaveAndOffloadOnlyTheseNames(_Policy):
    __slots__ = ("saved", "offloaded", "src", "dst")

    def __call__(self, prim, *_, **params) -> Decision:
        name = params["name"] if prim is name_p else None
        if name in self.offloaded:
            return Offloadable(src=self.src, dst=self.dst)
        return Saveable if name in self.saved else Recompute


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
    return SaveAndOffloadOnlyTheseNames(saved, offloaded, offload_src, offload_dst)


class OffloadDotWithNoBatchDims(_Policy):
    __slots__ = ("src", "dst")

    def __call__(self, prim, *avals, **params) -> Decision:
        if dots_with_no_batch_dims_saveable(prim, *avals, **params):
            return Offloadable(src=self.src, dst=self.dst)
        return Recompute


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Callable:
    """Store results of matrix products without batch dimensions in another memory space."""
    return OffloadDotWithNoBatchDims(offload_src, offload_dst)


class SaveFromBothPolicies(_Policy):
    __slots__ = ("policy_1", "policy_2")

    def __call__(self, prim, *args, **params) -> bool:
        first, second = [p(prim, *args, **params) for p in (self.policy_1, self.policy_2)]
        if not isinstance(first, bool) or not isinstance(second, bool):
            raise ValueError(
                "save_from_both_policies: the policies must return booleans, got "
                f"{first} and {second}. Write a policy that decides between offloading and storing."
            )
        return first or second


def save_from_both_policies(policy_1: Callable, policy_2: Callable) -> Callable:
    """Store what either policy stores; they must return bools."""
    return SaveFromBothPolicies(policy_1, policy_2)


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
