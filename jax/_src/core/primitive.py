"""Primitives: the atomic operations. Each one holds all of its rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from jax._src.config import auto_pcast, check_vma
from jax._src.core.avals import AbstractValue, typeof
from jax._src.core.effects import no_effects
from jax._src.core.trace import Trace, eval_trace, trace_ctx
from jax._src.late_binding import late

if TYPE_CHECKING:
    from jax._src.core.jaxpr import JaxprEqn


class SplitRules(Protocol):
    """How applications of a primitive are divided: see `jax._src.interpreters.splitting.SplitRules`."""

    depends_on_use: bool
    repeats_effects: bool
    partial_eval_custom: Callable[..., Any] | None

    def dependence(
        self, marked: Sequence[bool], params: dict[str, Any]
    ) -> Sequence[bool] | None: ...

    def dce(
        self, used_outputs: Sequence[bool], eqn: JaxprEqn
    ) -> tuple[list[bool], JaxprEqn | None]: ...

    def is_whole(self, marked: Sequence[bool], params: dict[str, Any]) -> bool: ...

    def divide(
        self, eqn: JaxprEqn, marked: Sequence[bool], hoisting: bool
    ) -> tuple[JaxprEqn | None, JaxprEqn | None]: ...

    def in_two(self, eqn: JaxprEqn, plan: Callable[..., Any]) -> Any: ...


class Primitive:
    """An atomic operation and its rules.

    Args:
      name: the name printed in jaxprs.
      multiple_results: whether `bind` returns a list.

    The rules are plain attributes (None where there is no rule):

    - `impl(*args, **params)`: compute the results of concrete arguments.
    - `abstract_eval(*avals, **params)`: the result types.
    - `effectful_abstract_eval(*avals, **params)`: the result types and the effects.
    - `jvp(primals, tangents, **params)`: results and their tangents.
    - `linearize(primals, tangents, **params)`: like `jvp`, but work on the primals is done once.
    - `transpose(cotangent, *args, **params)`: cotangents of the linear arguments.
    - `batch(args, dims, **params)` and `axis_batch(axis_data, args, dims, **params)`.
    - `split`: how an application is divided into a known and an unknown part, or reduced to the
      results that are used; an object (`interpreters.splitting.SplitRules`). None: never divided.
    - `lowerings`: a dict from platform (None for any) to lowering rule; `lowering_flags`: from platform
      to whether a rule is applied in place, and whether its result may be shared.
    - `pp(eqn, context, settings)`, `typecheck(ctx, *in_atoms, **params)`.

    There are two caches: `eager_cache` holds the compiled program for each value of the parameters,
    `aval_cache` the result types for operand types and parameters.
    """

    __slots__ = (
        "name",
        "multiple_results",
        "impl",
        "abstract_eval",
        "effectful_abstract_eval",
        "jvp",
        "linearize",
        "transpose",
        "batch",
        "axis_batch",
        "split",
        "lowerings",
        "lowering_flags",
        "pp",
        "typecheck",
        "eager_cache",
        "aval_cache",
        "__dict__",  # external code overrides methods and sets additional attributes
        "__weakref__",
    )
    # Read by external code: whether equations have the jaxpr of a function as their parameter
    # `call_jaxpr`, and whether the results are new references. External code sets
    # `skip_canonicalization` to bind arguments without canonicalizing them.
    call_primitive = False
    ref_allocating = False
    skip_canonicalization = False
    # Whether operands must vary over the same manual mesh axes: `bind` makes them agree.
    operands_vary_alike = False
    # Whether the rule `typecheck` checks the jaxprs in the parameters, which need a context.
    checks_jaxprs = False
    # For operations on references (`jax._src.state`). `ref_primitive`: a transformation sees every
    # application, even one without operands that it tracks. `ref_boundary`: a jaxpr in the
    # parameters may use references. `ref_opaque`: such a jaxpr is not differentiated.
    # `discharge` and `ref_transpose` are the rules that discharge and transpose an application.
    ref_primitive = False
    ref_boundary = False
    ref_opaque = False
    discharge: Callable[..., Any] | None = None
    ref_transpose: Callable[..., Any] | None = None
    # For primitives with jaxprs: the types of operands, from the parameters; of mutable ones with
    # their quasi-dynamic data after the application (`AvalQDD`).
    mutates: Callable[..., Sequence[Any]] | None = None
    # The rule of `jax._src.checkify`, which looks for errors; without one there are none to find.
    error_check: Callable[..., Any] | None = None
    # For `jax.checkpoint`: `remat(policy, args, params)` returns the results, and a function of the
    # arguments that computes them again in the backward pass; or None where the policy decides.
    remat: Callable[..., Any] | None = None
    # What `jax._src.key_reuse` knows of the use of random keys: a signature, or a function from an
    # equation to one. Without one, the operands that are keys are consumed.
    key_use: Any = None
    # A user's rule for the costs, for `jax.experimental.roofline`.
    roofline: Callable[..., Any] | None = None

    def __init__(self, name: str, multiple_results: bool = False):
        self.name = name
        self.multiple_results = multiple_results
        self.impl: Callable[..., Any] = self._default_impl
        self.abstract_eval: Callable[..., Any] | None = None
        self.effectful_abstract_eval: Callable[..., Any] | None = None
        self.jvp: Callable[..., Any] | None = None
        self.linearize: Callable[..., Any] | None = None
        self.transpose: Callable[..., Any] | None = None
        self.batch: Callable[..., Any] | None = None
        self.axis_batch: Callable[..., Any] | None = None
        self.split: SplitRules | None = None
        self.lowerings: dict[str | None, Callable[..., Any]] = {}
        self.lowering_flags: dict[str | None, Any] = {}
        self.pp: Callable[..., Any] | None = None
        self.typecheck: Callable[..., Any] | None = None
        self.eager_cache: dict[Any, Any] = {}
        self.aval_cache: dict[Any, Any] = {}

    def bind(self, *args: object, **params: object) -> Any:
        """Apply the primitive to `args` in the current trace."""
        trace = trace_ctx.trace
        if trace is eval_trace:  # the most common case: a program may be compiled already
            call = self.eager_cache.get(tuple(params.items()) if params else ())
            if call is not None:
                return call(*args)
        elif check_vma.value and self.operands_vary_alike:
            args = vary_alike(args)
        return trace.process_primitive(self, args, params)

    def eager_program(self, params: dict[str, Any]) -> Callable[..., Any] | None:
        """The compiled program for applications with these parameters, or None."""
        return self.eager_cache.get(tuple(params.items()))

    def bind_with_trace(self, trace: Trace, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply the primitive in `trace`; primitives that call functions override it."""
        return trace.process_primitive(self, args, params)

    def _default_impl(self, *args: object, **params: object) -> Any:
        if self.abstract_eval is None and self.effectful_abstract_eval is None:
            raise NotImplementedError(
                f"Evaluation rule for '{self.name}' not implemented: give the primitive one with "
                "`def_impl`, or rules of abstract evaluation and lowering, by which it is compiled."
            )
        return late.apply_primitive(self, *args, **params)

    def eval_types(self, avals: Sequence[AbstractValue], params: dict[str, Any]) -> Any:
        """Result type(s) and effects of an application to operands of types `avals`."""
        if self.abstract_eval is not None:
            return self.abstract_eval(*avals, **params), no_effects
        if self.effectful_abstract_eval is not None:
            return self.effectful_abstract_eval(*avals, **params)
        raise NotImplementedError(
            f"Abstract evaluation for '{self.name}' not implemented: "
            f"give the primitive a rule with `{self.name}_p.def_abstract_eval`."
        )

    def def_impl(self, impl: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule that computes results of concrete arguments."""
        self.impl = impl
        self.eager_cache.clear()
        return impl

    def def_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule that gives the result type(s)."""
        self.abstract_eval = rule
        self.aval_cache.clear()
        return rule

    def def_effectful_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule that gives the result type(s) and the effects."""
        self.effectful_abstract_eval = rule
        return rule

    def_effectful_abstract_eval2 = def_effectful_abstract_eval

    def def_bind_with_trace(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Replace the method that applies the primitive with `rule(trace, args, params)`."""
        self.bind_with_trace = rule  # type: ignore[method-assign]
        self.bind = lambda *args, **params: rule(trace_ctx.trace, args, params)  # type: ignore[method-assign]
        return rule

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Parameters for `bind`, given those of an equation; functions go into `subfuns`."""
        return params

    def is_high(self, *avals: AbstractValue, **params: object) -> bool:
        """Whether an operand has a "high" type: one that arrays of other types represent."""
        return any([a.is_high for a in avals])

    def to_lojax(self, *args: Any, **params: Any) -> Any:
        """Apply the primitive to values of high types, by operations on arrays."""
        raise NotImplementedError(
            f"Primitive '{self.name}' is applied to values of high types"
            f" {', '.join(str(typeof(x)) for x in args)}, but has no rule `to_lojax`."
        )

    def is_effectful(self, params: dict[str, Any]) -> bool:
        return self.effectful_abstract_eval is not None

    def __repr__(self) -> str:
        return self.name


def vary_alike(args: Sequence[Any]) -> Any:
    """Make all of `args` vary over the manual mesh axes that any of them varies over.

    This is a cast of the values that do not vary, whose transpose is a sum over the axes.
    """
    varying = [getattr(typeof(x), "vma", _NO_AXES) for x in args]
    for axes in varying:
        if axes != varying[0]:
            break
    else:
        return args
    if not auto_pcast.value:
        return args
    union: frozenset[Any] = frozenset().union(*varying)
    return [
        x if axes == union else late.pvary(x, sorted_axes(union - axes))
        for x, axes in zip(args, varying)
    ]


def vary_like(x: object, example: object) -> Any:
    """Make `x` vary over the manual mesh axes that `example` varies over, too."""
    axes = getattr(typeof(example), "vma", _NO_AXES)
    if not axes:
        return x
    missing = axes - typeof(x).vma  # type: ignore[attr-defined]
    return late.pvary(x, sorted_axes(missing)) if missing else x


_NO_AXES: frozenset[Any] = frozenset()


def sorted_axes(axes: Iterable[Any]) -> tuple[Any, ...]:
    """Names of mesh axes in a fixed order."""
    return tuple(sorted(axes, key=str))


def with_subfuns(args: Sequence[Any], params: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Arguments and parameters for `bind_with_trace`: functions of `subfuns` become arguments."""
    if "subfuns" not in params:
        return args, params
    params = dict(params)
    return (*params.pop("subfuns"), *args), params


class RuleView(MutableMapping[Primitive, Callable[..., Any]]):
    """A mapping from primitives to rules, stored as one attribute of each primitive.

    Libraries register rules like `ad.primitive_jvps[p] = rule`; the rule is kept on the primitive.
    """

    def __init__(self, slot: str):
        self._slot = slot
        self._known: dict[Primitive, None] = {}

    def _find(self, primitive: object) -> Callable[..., Any] | None:
        return getattr(primitive, self._slot, None)

    def _assign(self, primitive: Primitive, rule: Callable[..., Any] | None) -> None:
        setattr(primitive, self._slot, rule)

    def __getitem__(self, primitive: Primitive) -> Callable[..., Any]:
        rule = self._find(primitive)
        if rule is None:
            raise KeyError(primitive)
        return rule

    def __setitem__(self, primitive: Primitive, rule: Callable[..., Any]) -> None:
        self._assign(primitive, rule)
        self._known[primitive] = None

    def __delitem__(self, primitive: Primitive) -> None:
        self[primitive]
        self._assign(primitive, None)
        self._known.pop(primitive, None)

    def __contains__(self, primitive: object) -> bool:
        return self._find(primitive) is not None

    def __iter__(self) -> Iterator[Primitive]:
        return iter(list(self._known))

    def __len__(self) -> int:
        return len(self._known)
