"""Code shared by `custom_jvp` and `custom_vjp`: arguments, and rules of their primitives."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import api_util, core, dtypes, literals, traceback_util
from jax._src.ad_util import SymbolicZero, Zero
from jax._src.api_util import check_callable
from jax._src.array_impl import ArrayImpl
from jax._src.core import eval_trace, trace_ctx, typeof
from jax._src.interpreters import ad, mlir
from jax._src.late_binding import late
from jax._src.tree_util import (
    SequenceKey,
    paths_of,
    structure_text,
    tree_flatten,
    tree_leaves,
    tree_structure,
    tree_unflatten,
    treedef_tuple,
)
from jax._src.util import fun_name, wrapped_attribute

traceback_util.register_exclusion(__file__)


def nondiff_positions(sig, argnums, argnames) -> tuple[int, ...]:
    params = list(sig.parameters.values()) if sig is not None else []
    n = None if sig is None or any(p.kind == p.VAR_POSITIONAL for p in params) else len(params)
    nums = set()
    for i in api_util.ensure_index_tuple(argnums):
        if n is not None and not -n <= i < n:
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
    """`fun` as a function of its differentiable arguments only."""
    if not nums:
        return fun

    def call(*dyn):
        fixed, rest = dict(zip(nums, nondiff)), iter(dyn)
        return fun(*[fixed[i] if i in fixed else next(rest) for i in range(len(dyn) + len(fixed))])

    return call


class CustomFunction:
    """The base class of `custom_jvp` and `custom_vjp` functions."""

    _holds_traces = True  # through its rules, the traces refer to the function

    kind: str
    ready: bool  # whether the rule is set

    def __init__(
        self,
        fun: Callable,
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ):
        check_callable(fun)
        copy_metadata(self, fun)
        self.fun = fun
        self.ready = False
        sig = api_util.fun_signature(fun)
        self._signature = sig
        self._arity = _fixed_arity(sig)
        self.nondiff_argnums = nondiff_positions(sig, nondiff_argnums, nondiff_argnames)

    def __getattr__(self, name):
        return wrapped_attribute(self, name)

    def __get__(self, obj, owner=None):
        if obj is None:
            return self
        return BoundCustom(self, obj)

    @traceback_util.api_boundary
    def __call__(self, *args, **kwargs):
        if (
            trace_ctx.trace is eval_trace
            and self.ready
            and not kwargs
            and not self.nondiff_argnums
            and _plain_values.issuperset(types := [type(x) for x in args])
        ):  # the common case: a call on arrays outside of any transformation
            if np.ndarray in types:
                args = tuple([_canonical(x) if type(x) is np.ndarray else x for x in args])
            out = self.fun(*args)
            if type(out) is not ArrayImpl:
                for x in tree_leaves(out):
                    typeof(x)
            return out
        if not self.ready:
            rule = self.kind.removeprefix("custom_")
            raise AttributeError(
                f"No {rule.upper()} defined for {self.kind} function {fun_name(self)} using def{rule}."
            )
        return self.bind(self._positional(args, kwargs))

    def bind(self, args: tuple):
        """Apply the primitive to positional arguments."""
        raise NotImplementedError

    def _positional(self, args: tuple, kwargs: dict) -> tuple:
        if not kwargs and len(args) == self._arity:
            return args
        try:
            return api_util.resolve_by_signature(self._signature, args, kwargs)
        except TypeError as e:
            raise TypeError(
                f"The input arguments to the {self.kind}-decorated function {fun_name(self)} could not "
                f"be resolved to positional-only arguments. {e}"
            ) from None


def _canonical(x: np.ndarray) -> np.ndarray:
    """The array with the dtype it has in computations."""
    return x.astype(dtypes.canonicalize_dtype(x.dtype), copy=False)


# Types of arguments that need no processing other than `_canonical`.
_plain_values = frozenset({ArrayImpl, np.ndarray, float, int, bool, complex})


def _fixed_arity(sig) -> int:
    """The number of arguments of a call that is purely positional; -1 if it is not fixed."""
    if sig is None:
        return -1
    n = 0
    for p in sig.parameters.values():
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            n += 1
        elif p.kind == p.VAR_POSITIONAL or (p.kind == p.KEYWORD_ONLY and p.default is p.empty):
            return -1
    return n


class BoundCustom:
    """A `custom_jvp` or `custom_vjp` function used as a method."""

    def __init__(self, custom, obj):
        self._custom, self._obj = custom, obj
        self.__wrapped__ = custom

    def __call__(self, *args, **kwargs):
        return self._custom(self._obj, *args, **kwargs)

    def __getattr__(self, name):
        return getattr(self._custom, name)


def typed(args: Sequence[Any]) -> list[Any]:
    """Arguments with Python numbers, except booleans, as scalars that have a shape and a dtype."""
    return [_TYPED[type(x)](x) if type(x) in _TYPED else x for x in args]


_TYPED: dict[type, Callable[[Any], Any]] = {
    int: lambda x: literals.TypedInt(x, dtypes.scalar_type_to_dtype(int, x)),
    float: lambda x: literals.TypedFloat(x, dtypes.scalar_type_to_dtype(float)),
    complex: lambda x: literals.TypedComplex(x, dtypes.scalar_type_to_dtype(complex)),
    np.ndarray: _canonical,
}


class Subfun:
    """The function of an equation, which libraries call as they do those of `linear_util`."""

    __slots__ = ("_fun", "__name__")

    def __init__(self, closed: core.ClosedJaxpr):
        self._fun = core.jaxpr_as_fun(closed)
        self.__name__ = closed.jaxpr.debug_info.func_name

    def __call__(self, *args: Any) -> Any:
        return self._fun(*args)

    call_wrapped = __call__


class OnArrays:
    """A rule called for an equation: literals among its operands are converted to arrays."""

    def __init__(self, rule: Callable):
        self.rule = rule

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["rule"], name)

    def __call__(self, *args: Any) -> Any:
        return self.rule(
            *[late.to_array(x) if isinstance(x, (int, float, complex)) else x for x in args]
        )

    call_wrapped = __call__


class FlatFun:
    """A function of a tree of positional arguments, as a function of flat arguments.

    Attributes:
      out_tree, out_avals: tree and types of the results of the last call; None before the first.
    """

    __slots__ = ("fun", "original", "kind", "in_tree", "_paths", "out_tree", "out_avals")

    def __init__(self, kind: str, fun: Callable, original: Callable, in_tree, args: tuple):
        self.kind, self.fun, self.original = kind, fun, original
        self.in_tree = in_tree
        self._paths = paths_of(args, in_tree)
        self.out_tree: Any = None
        self.out_avals: Any = None

    def __call__(self, *flat):
        out, tree = tree_flatten(self.fun(*tree_unflatten(self.in_tree, typed(flat))))
        self.out_avals = [typeof(x) for x in out]
        self.out_tree = tree
        return out

    @property
    def debug_info(self):
        tree = treedef_tuple((self.in_tree, tree_structure({})))
        paths = lambda: [(SequenceKey(0), *path) for path in self._paths()]
        return core.DebugInfo(
            f"{self.kind} fun",
            core.fun_source_info(self.original),
            api_util.arg_names_thunk(self.original, tree, paths=paths),
        )

    def mismatch(self, tree, avals) -> str:
        """How results of a rule differ from those of the function (if known); '' if they do not."""
        if self.out_tree is None:
            return ""
        if tree != self.out_tree:
            what = "of the same container/pytree structure", "container/pytree structure"
            seen, wanted = str(tree), str(self.out_tree)
        elif all(
            a.shape == b.shape and a.dtype == b.dtype
            for a, b in zip(avals, self.out_avals)
            if isinstance(a, core.ShapedArray) and isinstance(b, core.ShapedArray)
        ):
            return ""
        else:
            what = "with leaves of the same shape/dtype", "shapes/dtypes"
            seen, wanted = (
                structure_text(tree, [a.str_short() for a in types])
                for types in (avals, self.out_avals)
            )
        name = fun_name(self.original)
        return (
            f"the first element represents the primal output (equal to the output of the {self.kind}-"
            f"decorated function {name}, and in particular {what[0]}), but instead the rule output's "
            f"first element had {what[1]}:\n    {seen}\nwhile the {self.kind}-decorated function {name} "
            f"had output {what[1]}:\n    {wanted}"
        )


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


# Rules shared by both primitives


def call_types(*avals, call_jaxpr, **_):
    return call_jaxpr.out_avals, call_jaxpr.effects


def call_transpose(cts, *args, call_jaxpr, **_):
    # A function that is applied to linear arguments is transposed itself; the rule is not used.
    return ad.backward_pass(call_jaxpr.jaxpr, False, call_jaxpr.consts, args, cts)


def call_lowering(ctx, *args, call_jaxpr, **_):
    return mlir.lower_jaxpr_inline(ctx, call_jaxpr, "", *args)
