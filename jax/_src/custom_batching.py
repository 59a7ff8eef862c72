"""Functions with a custom batching rule: `custom_vmap`, `sequential_vmap`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core, dtypes, traceback_util
from jax._src.api_util import check_callable, resolve_kwargs
from jax._src.core import ClosedJaxpr, Primitive, typeof
from jax._src.custom_derivatives.common import copy_metadata
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.late_binding import late
from jax._src.lax.control_flow.common import hoist, stage
from jax._src.lax.control_flow.scans import map as lax_map
from jax._src.lax.lax import convert_element_type
from jax._src.tree_util import tree_flatten, tree_leaves, tree_structure, tree_unflatten
from jax._src.util import fun_name, wrapped_attribute

traceback_util.register_exclusion(__file__)


class custom_vmap:
    """A function with a custom `vmap` rule, used in place of batching its body.

    Args:
      fun: the function.

    Set the rule with `def_vmap`. Under `vmap`, derivatives of the function are derivatives of the
    rule. Forward mode under `vmap` applies the rule to arguments that are batched together with
    their tangents. If no argument is batched together with its tangent, the derivative of the rule,
    called with nothing batched, is mapped over the batched values. Differences from the original:
    reverse mode works, by transposing forward mode of the function or of its rule; a rule whose
    results do not have the types of the function's results is an error.

    >>> @jax.custom_batching.custom_vmap
    ... def f(x, y):
    ...   return x + y
    >>> @f.def_vmap
    ... def f_vmap(axis_size, in_batched, xs, ys):
    ...   print(axis_size, in_batched)
    ...   return xs + ys, True
    >>> jax.vmap(f, in_axes=(0, None))(jnp.arange(3.), 1.)
    3 [True, False]
    Array([1., 2., 3.], dtype=float32)
    """

    vmap_rule: Callable | None = None
    _holds_traces = True  # through the rule, the traces refer to the function

    def __init__(self, fun: Callable[..., Any]):
        check_callable(fun)
        copy_metadata(self, fun)
        self.fun = fun

    def __getattr__(self, name: str) -> Any:
        return wrapped_attribute(self, name)

    def def_vmap(self, vmap_rule: Callable[..., tuple[Any, Any]]) -> Callable:
        """Set the batching rule.

        Args:
          vmap_rule: `vmap_rule(axis_size, in_batched, *args) -> (result, out_batched)`. `in_batched` is a
            tree like the arguments with a bool for each leaf: batched leaves of `args` have the
            batch axis first. `out_batched` is the same for the results.

        Returns:
          `vmap_rule`, so that this method works as a decorator.
        """
        check_callable(vmap_rule)
        self.vmap_rule = vmap_rule
        return vmap_rule

    @traceback_util.api_boundary
    def __call__(self, *args, **kwargs):
        name = fun_name(self.fun)
        if self.vmap_rule is None:
            raise AttributeError(
                f"No batching rule defined for custom_vmap function {name} using def_vmap."
            )
        try:
            args = resolve_kwargs(self.fun, args, kwargs)
        except TypeError as e:
            raise TypeError(
                f"The input arguments to the custom_vmap-decorated function {name} could not be "
                f"resolved to positional-only arguments. Binding failed with the error:\n{e}"
            ) from None
        flat, in_tree = tree_flatten(args)
        jaxpr, consts, out_tree = stage(
            "custom_vmap", self.fun, in_tree, [typeof(x) for x in flat], args
        )
        rule = UserRule(self.vmap_rule, name, len(consts), in_tree, out_tree)
        outs = custom_vmap_p.bind(*consts, *flat, call=hoist(jaxpr), rule=rule)
        return tree_unflatten(out_tree, outs)


def sequential_vmap(f: Callable) -> custom_vmap:
    """A function that `vmap` calls once for each element of the batch, in a loop.

    Args:
      f: the function.

    Returns:
      A `custom_vmap` of `f` whose rule is a `lax.map` over the batched arguments.

    >>> @jax.custom_batching.sequential_vmap
    ... def f(x):
    ...   return jnp.sum(x) + 1
    >>> jax.vmap(f)(jnp.arange(6).reshape(3, 2))
    Array([ 2,  6, 10], dtype=int32)
    """
    f = custom_vmap(f)

    @f.def_vmap
    def rule(axis_size, in_batched, *args):
        flat, tree = tree_flatten(args)
        batched = tree_leaves(in_batched)

        def call(mapped):
            mapped = iter(mapped)
            return f(
                *tree_unflatten(tree, [next(mapped) if b else x for x, b in zip(flat, batched)])
            )

        out = lax_map(call, [x for x, b in zip(flat, batched) if b])
        out_tree = tree_structure(out)
        return out, tree_unflatten(out_tree, [True] * out_tree.num_leaves)

    return f


# Rules on flat values: `rule(axis_size, in_batched, args) -> (results, out_batched)`, with the
# batch axis in front. `consts` says which arguments are closed-over values; the user's rule does
# not get them.


class UserRule:
    """The rule given with `def_vmap`."""

    __slots__ = ("fun", "name", "consts", "in_tree", "out_tree")

    def __init__(self, fun: Callable, name: str, num_consts: int, in_tree: Any, out_tree: Any):
        self.fun, self.name, self.in_tree, self.out_tree = fun, name, in_tree, out_tree
        self.consts = (True,) * num_consts + (False,) * in_tree.num_leaves

    def __call__(self, axis_size: int, in_batched: Sequence[bool], args: Sequence[Any]):
        n = len(args) - self.in_tree.num_leaves
        if any(in_batched[:n]):
            raise self.closure_error("batched")
        result = self.fun(
            axis_size,
            list(tree_unflatten(self.in_tree, in_batched[n:])),
            *tree_unflatten(self.in_tree, args[n:]),
        )
        rule_name = fun_name(self.fun)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise TypeError(
                f"custom vmap rule ({rule_name}) of {self.name} must return a pair: the result, and the "
                f"same tree of bools saying which parts of it are batched. Got {result!r}."
            )
        outs, tree = tree_flatten(result[0])
        out_batched, batched_tree = tree_flatten(result[1])
        if tree != batched_tree:
            raise ValueError(
                "structure of output value and output batching specification returned by custom vmap "
                f"rule ({rule_name}) do not match.\nOutput values: {tree}\n"
                f"Batching spec: {batched_tree}"
            )
        if tree != self.out_tree:
            raise ValueError(
                f"structure of output returned by custom vmap rule ({rule_name}) does not match that "
                f"of original custom-vmapped function.\nOriginal output: {self.out_tree}\n"
                f"Rule output: {tree}"
            )
        return outs, [bool(b) for b in out_batched]

    def closure_error(self, what: str) -> NotImplementedError:
        return NotImplementedError(
            f"The custom_vmap function {self.name} closes over a value that is {what}, of which its rule "
            f"{fun_name(self.fun)} knows nothing. Make the value an argument of the function and of "
            "the rule."
        )

    def _key(self):
        return self.fun, self.consts, self.in_tree, self.out_tree

    def __eq__(self, other):
        return type(other) is UserRule and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())

    def __repr__(self):
        return repr(self.fun)


class JvpRule:
    """Forward mode of a rule: takes the rule's arguments and the nonzero tangents.

    The results are the tangents, preceded by the rule's results if `with_primals`.
    """

    __slots__ = ("rule", "nonzeros", "out_nonzeros", "with_primals", "consts")

    def __init__(self, rule, nonzeros, out_nonzeros, with_primals: bool):
        self.rule, self.nonzeros, self.out_nonzeros = rule, nonzeros, out_nonzeros
        self.with_primals = with_primals
        self.consts = rule.consts + tuple(c for c, nz in zip(rule.consts, nonzeros) if nz)

    def __call__(self, axis_size, in_batched, args):
        n = len(self.nonzeros)
        if any(c and nz for c, nz in zip(self.rule.consts, self.nonzeros)):
            raise self.closure_error("differentiated by, under vmap,")
        given = iter(zip(args[n:], in_batched[n:]))
        pairs = [
            (x, b, *(next(given) if nz else (None, False)))
            for x, b, nz in zip(args[:n], in_batched[:n], self.nonzeros)
        ]
        if any(in_batched) and not any(b and tb for _, b, _, tb in pairs):
            return self.call_mapped(axis_size, pairs)
        primals, tangents, batched = [], [], []
        for x, b, t, tb in pairs:
            # An argument is batched together with its tangent. The rule sees all of them as one
            # batch, so that a result that depends on two arguments has a single batch axis.
            if tb and not b:
                x = batching.broadcast(x, axis_size, 0, None)
            elif b and not tb and t is not None:
                t = batching.broadcast(t, axis_size, 0, None)
            primals.append(x)
            tangents.append(ad.zero_of(x) if t is None else t)
            batched.append(b or tb)
        return self.call(axis_size, batched, primals, tangents)

    def call(self, axis_size, batched, primals, tangents):
        out_batched: list[bool] = []

        def run(*primals):
            outs, out_batched[:] = self.rule(axis_size, batched, primals)
            return outs

        outs, out_tangents = ad.jvp(run, primals, tangents, instantiate=False)
        results = list(zip(outs, out_batched)) if self.with_primals else []
        for t, b, nz in zip(out_tangents, out_batched, self.out_nonzeros):
            if nz:
                results.append((ad.instantiate_zeros(t), b))
        return [x for x, _ in results], [b for _, b in results]

    def call_mapped(self, axis_size, pairs):
        """Map over unbatched calls, as no argument is batched together with its tangent."""
        values = [v for x, b, t, tb in pairs for v in ((x, b), (t, tb)) if v[0] is not None]

        def apply(*args):
            args = iter(args)
            primals, tangents = [], []
            for nz in self.nonzeros:
                primals.append(next(args))
                tangents.append(next(args) if nz else ad.zero_of(primals[-1]))
            return self.call(axis_size, [False] * len(primals), primals, tangents)

        return map_unbatched(apply, axis_size, values, self)

    def closure_error(self, what):
        return self.rule.closure_error(what)

    def __repr__(self):
        return f"jvp({self.rule})"


class TransposedRule:
    """Transpose of a rule: takes the nonlinear arguments and the nonzero cotangents."""

    __slots__ = ("rule", "call", "linear", "ct_nonzero", "out_nonzero", "consts")

    def __init__(self, rule, call: ClosedJaxpr, linear, ct_nonzero, out_nonzero):
        self.rule, self.call, self.linear = rule, call, linear
        self.ct_nonzero, self.out_nonzero = ct_nonzero, out_nonzero
        self.consts = tuple(c for c, lin in zip(rule.consts, linear) if not lin)
        self.consts += (False,) * sum(ct_nonzero)

    def __call__(self, axis_size, in_batched, args):
        num_known = len(self.linear) - sum(self.linear)
        known = list(zip(args[:num_known], in_batched[:num_known]))
        given = iter(zip(args[num_known:], in_batched[num_known:]))
        if any(c and lin for c, lin in zip(self.rule.consts, self.linear)):
            raise self.closure_error("differentiated by, under vmap,")
        # Each element of a batch has its own cotangent, so all linear arguments are batched.
        in_batch = any(in_batched)
        batched_aval = lambda a: core.unmapped_aval(axis_size, 0, a) if in_batch else a

        def run(*linear_args):
            linear_args, rest = iter(linear_args), iter(known)
            pairs = [(next(linear_args), in_batch) if lin else next(rest) for lin in self.linear]
            outs, batched = self.rule(axis_size, [b for _, b in pairs], [x for x, _ in pairs])
            if not in_batch:
                if any(batched):
                    raise unbatched_error(self)
                return outs
            return [batching.bdim_at_front(x, 0 if b else None, axis_size) for x, b in zip(outs, batched)]  # fmt: skip

        avals = [batched_aval(a) for a, lin in zip(self.call.in_avals, self.linear) if lin]
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(run, avals)
        cts = []
        for a, nz in zip(self.call.out_avals, self.ct_nonzero):
            if nz:
                ct, b = next(given)
                cts.append(
                    batching.bdim_at_front(ct, 0 if b else None, axis_size) if in_batch else ct
                )
            else:
                cts.append(ad.Zero(batched_aval(a.to_ct_aval())))
        undefined = [ad.UndefinedPrimal(a) for a in avals]
        cts = ad.backward_pass(jaxpr, False, consts, undefined, cts)
        outs = [ad.instantiate_zeros(ct) for ct, nz in zip(cts, self.out_nonzero) if nz]
        return outs, [in_batch] * len(outs)

    def closure_error(self, what):
        return self.rule.closure_error(what)

    def __repr__(self):
        return f"transpose({self.rule})"


class HoistedRule:
    """A rule whose function has leading arguments (hoisted tracers) that the rule does not get."""

    __slots__ = ("rule", "consts")

    def __init__(self, rule, num_consts: int):
        self.rule = rule
        self.consts = (True,) * num_consts + rule.consts

    def __call__(self, axis_size, in_batched, args):
        n = len(self.consts) - len(self.rule.consts)
        if any(in_batched[:n]):
            raise self.closure_error("batched")
        return self.rule(axis_size, in_batched[n:], args[n:])

    def closure_error(self, what):
        return self.rule.closure_error(what)

    def __repr__(self):
        return repr(self.rule)


def map_unbatched(fun: Callable, axis_size: int, values: Sequence[tuple[Any, bool]], rule: Any):
    """Map a function that calls a rule with no batched arguments.

    Args:
      fun: function of the values; returns its results and, from the rule, whether each is batched.
      axis_size: size of the batch axis.
      values: pairs of a value and whether it has the batch axis, in front.
      rule: the rule, for the error message.

    Returns:
      The results with the batch axis in front, and True for each.
    """
    out_batched: list[bool] = []

    def run(*args):
        outs, out_batched[:] = fun(*args)
        return outs

    axis = batching.AxisData(core.no_axis_name, axis_size)
    dims = [0 if b else None for _, b in values]
    mapped = batching.batch(run, axis, dims, lambda: [None if b else 0 for b in out_batched])
    try:
        outs = mapped(*[x for x, _ in values])
    except batching.SpecMatchError:
        raise unbatched_error(rule) from None
    return outs, [True] * len(outs)


def unbatched_error(rule: Any) -> ValueError:
    return ValueError(
        f"custom vmap rule {rule} says that some of its results are batched, though none of its arguments "
        "is: no argument is batched together with its tangent, so the rule is mapped over those that are. "
        "Let the second result depend on `in_batched`."
    )


custom_vmap_p = Primitive("custom_vmap_call", multiple_results=True)
custom_vmap_p.def_impl(
    lambda *args, call, rule: [late.to_array(x) for x in core.jaxpr_as_fun(call)(*args)]
)
custom_vmap_p.def_effectful_abstract_eval(lambda *_, call, rule: (call.out_avals, call.effects))
mlir.register_lowering(
    custom_vmap_p, lambda ctx, *args, call, rule: mlir.lower_jaxpr_inline(ctx, call, "", *args)
)


def _hoist(args, params):
    call, tracers = pe.hoist_tracers(params["call"])
    if tracers:
        args = (*tracers, *args)
        params = dict(call=call, rule=HoistedRule(params["rule"], len(tracers)))
    return args, params


pe.def_hoisting(custom_vmap_p, _hoist)


def _batch(axis_data, args, dims, *, call: ClosedJaxpr, rule):
    in_batched = [d is not None for d in dims]
    if not any(in_batched):
        return custom_vmap_p.bind(*args, call=call, rule=rule), [None] * len(call.out_avals)
    args = [x if d is None else batching.moveaxis(x, d, 0) for x, d in zip(args, dims)]
    with batching.axis_in_scope(axis_data):
        outs, out_batched = rule(axis_data.size, in_batched, args)
    outs = [
        _check_result(rule, i, x, core.unmapped_aval(axis_data.size, 0, a) if b else a, b)
        for i, (x, a, b) in enumerate(zip(outs, call.out_avals, out_batched))
    ]
    return outs, [0 if b else None for b in out_batched]


custom_vmap_p.axis_batch = _batch


def _check_result(rule, i: int, x: Any, want: core.ShapedArray, batched: bool) -> Any:
    got = typeof(x)
    if got.shape == want.shape:
        if got.dtype == want.dtype:
            return x
        if got.weak_type:
            return convert_element_type(x, want.dtype)
    raise TypeError(
        f"custom vmap rule {rule} returned {got.str_short()} as leaf {i} of its result, which it says is "
        f"{'batched' if batched else 'not batched'}: the result of the function has the type "
        f"{want.str_short()}{' with the batch axis in front' if batched else ''}."
    )


def _forward(call: ClosedJaxpr, tangents) -> tuple[ClosedJaxpr, tuple, tuple]:
    """The JVP jaxpr; and which arguments and which results have a nonzero tangent."""
    nonzeros = tuple(type(t) is not ad.Zero for t in tangents)
    has_tangent = [a.to_tangent_aval().dtype != dtypes.float0 for a in call.out_avals]
    jaxpr, out_nonzeros = ad.jvp_jaxpr(call, nonzeros, has_tangent)
    return jaxpr, nonzeros, tuple(out_nonzeros)


def _with_zeros(outs, tangents, out_nonzeros):
    tangents = iter(tangents)
    return [next(tangents) if nz else ad.zero_of(x) for x, nz in zip(outs, out_nonzeros)]


def _jvp(primals, tangents, *, call: ClosedJaxpr, rule):
    jaxpr, nonzeros, out_nonzeros = _forward(call, tangents)
    given = [t for t in tangents if type(t) is not ad.Zero]
    outs = custom_vmap_p.bind(
        *primals, *given, call=jaxpr, rule=JvpRule(rule, nonzeros, out_nonzeros, True)
    )
    n = len(call.out_avals)
    return outs[:n], _with_zeros(outs[:n], outs[n:], out_nonzeros)


custom_vmap_p.jvp = _jvp


def _linearize(primals, tangents, *, call: ClosedJaxpr, rule):
    # A separate application computes the tangents, so that it can be transposed.
    jaxpr, nonzeros, out_nonzeros = _forward(call, tangents)
    given = [t for t in tangents if type(t) is not ad.Zero]
    outs = custom_vmap_p.bind(*primals, call=call, rule=rule)
    used = [False] * len(outs) + [True] * sum(out_nonzeros)
    tangents_out = custom_vmap_p.bind(
        *primals,
        *given,
        call=pe.prune_closed_jaxpr_outputs(jaxpr, used),
        rule=JvpRule(rule, nonzeros, out_nonzeros, False),
    )
    return outs, _with_zeros(outs, tangents_out, out_nonzeros)


custom_vmap_p.linearize = _linearize


def _transpose(cts, *args, call: ClosedJaxpr, rule):
    linear = tuple(ad.is_undefined_primal(x) for x in args)
    ct_nonzero = tuple(type(ct) is not ad.Zero for ct in cts)
    jaxpr, out_nonzero = ad.transpose_jaxpr(call, linear, ct_nonzero)
    outs = custom_vmap_p.bind(
        *[x for x in args if not ad.is_undefined_primal(x)],
        *[ct for ct in cts if type(ct) is not ad.Zero],
        call=jaxpr,
        rule=TransposedRule(rule, call, linear, ct_nonzero, out_nonzero),
    )
    given, masks = iter(outs), iter(out_nonzero)
    return [
        (next(given) if next(masks) else ad.Zero(x.aval.to_ct_aval())) if lin else None
        for x, lin in zip(args, linear)
    ]


custom_vmap_p.transpose = _transpose
