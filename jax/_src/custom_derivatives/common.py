"""What `custom_jvp` and `custom_vjp` share: their arguments, and rules of their primitives."""

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import api_util, core, traceback_util
from jax._src.ad_util import SymbolicZero, Zero
from jax._src.interpreters import ad, mlir, partial_eval as pe

traceback_util.register_exclusion(__file__)


def resolve_kwargs(fun: Callable, args, kwargs) -> tuple:
    """Positional arguments for a call, defaults applied.

    Raises:
      TypeError: if an argument can only be passed by keyword.
    """
    sig = api_util.fun_signature(fun)
    if sig is None:
        if kwargs:
            raise TypeError(
                f"keyword arguments {sorted(kwargs)} could not be resolved to positions"
            )
        return tuple(args)
    bound = sig.bind(*args, **kwargs)
    bound.apply_defaults()
    if by_keyword := sorted(k for k in bound.kwargs if k in kwargs):
        raise TypeError(f"keyword arguments {by_keyword} could not be resolved to positions")
    return bound.args


def nondiff_positions(fun, argnums, argnames) -> tuple[int, ...]:
    sig = api_util.fun_signature(fun)
    n = len(sig.parameters) if sig is not None else None
    nums = set()
    for i in api_util.ensure_index_tuple(argnums):
        if (
            n is not None
            and not any(p.kind == p.VAR_POSITIONAL for p in sig.parameters.values())
            and not -n <= i < n
        ):
            raise ValueError(
                f"nondiff_argnums {argnums} contains {i}, but the function has {n} arguments"
            )
        nums.add(i + n if i < 0 and n is not None else i)
    for name in api_util.ensure_str_tuple(argnames):
        if sig is None or name not in sig.parameters:
            raise ValueError(f"nondiff_argnames: the function has no argument named {name!r}")
        nums.add(list(sig.parameters).index(name))
    return tuple(sorted(nums))


def split_nondiff(nums: Sequence[int], args: Sequence[Any]) -> tuple[tuple, tuple]:
    nums_set = set(nums)
    return (
        tuple(a for i, a in enumerate(args) if i in nums_set),
        tuple(a for i, a in enumerate(args) if i not in nums_set),
    )


def with_nondiff(fun: Callable, nums: Sequence[int], nondiff: Sequence[Any]) -> Callable:
    """`fun` as a function of its differentiable arguments."""
    if not nums:
        return fun

    def call(*dyn):
        fixed, rest = dict(zip(nums, nondiff)), iter(dyn)
        return fun(*[fixed[i] if i in fixed else next(rest) for i in range(len(dyn) + len(fixed))])

    return call


class BoundCustom:
    """A `custom_jvp` or `custom_vjp` function used as a method."""

    def __init__(self, custom, obj):
        self._custom, self._obj = custom, obj
        self.__wrapped__ = custom

    def __call__(self, *args, **kwargs):
        return self._custom(self._obj, *args, **kwargs)

    def __getattr__(self, name):
        return getattr(self._custom, name)


def copy_metadata(custom, fun) -> None:
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        try:
            object.__setattr__(custom, name, getattr(fun, name))
        except AttributeError:
            pass
    custom.__wrapped__ = fun


def check_leaves(what: str, name: str, flat) -> None:
    for x in flat:
        if not core.valid_jaxtype(x):
            raise TypeError(
                f"{what} function {name} was called with an argument {x!r} of type {type(x)}, which is "
                "not a valid JAX type. Mark it with nondiff_argnums."
            )


def is_zero(x) -> bool:
    return type(x) in (Zero, SymbolicZero)


# Rules of both primitives


def call_types(*avals, call_jaxpr, **_):
    return call_jaxpr.out_avals, call_jaxpr.effects


def call_dce(used_outputs, eqn):
    if not any(used_outputs) and not pe.has_effects(eqn):
        return [False] * len(eqn.invars), None
    return [True] * len(eqn.invars), eqn


def call_transpose(cts, *args, call_jaxpr, **_):
    # Where a function is used linearly, it is its own rule.
    return ad.backward_pass(call_jaxpr.jaxpr, False, call_jaxpr.consts, args, cts)


def call_lowering(ctx, *args, call_jaxpr, **_):
    return mlir.lower_jaxpr_inline(ctx, call_jaxpr, "", *args)
