"""The transformation `sparsify`, by interpretation of jaxprs or by tracers.

Each primitive with a sparse operand is applied by a rule, `rule(spenv, *spvalues, **params)`, which
returns a list of values. Primitives whose operands are all dense are bound as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import api_util, core, source_info_util, tree_util
from jax._src.core import Literal, Primitive, ShapedArray, Trace, Tracer, typeof
from jax._src.interpreters import partial_eval as pe
from jax._src.sparse.transform.values import (
    MODULE,
    SparsifyEnv,
    SparsifyValue,
    arrays_to_spvalues,
    is_sparse_array,
    is_spvalue,
    spvalues_to_arrays,
    spvalues_to_avals,
)
from jax._src.util import set_module, wraps

Rule = Callable[..., Sequence[SparsifyValue]]

sparse_rules_bcoo: dict[Primitive, Rule] = {}
sparse_rules_bcsr: dict[Primitive, Rule] = {}

# Primitives that map zero to other values.
densifying: set[Primitive] = set()

DENSE = (
    "because it would result in dense output. "
    "If this is your intent, use sparse.todense() to convert"
)


def apply(
    spenv: SparsifyEnv, primitive: Primitive, spvalues: Sequence[SparsifyValue], params: Any
) -> Sequence[SparsifyValue]:
    """Apply a primitive to values of which at least one is sparse.

    Raises:
      NotImplementedError: if there is no rule for the primitive.
    """
    bcsr = any(v.is_bcsr() for v in spvalues)
    rule = (sparse_rules_bcsr if bcsr else sparse_rules_bcoo).get(primitive)
    if rule is not None:
        return rule(spenv, *spvalues, **params)
    if primitive in densifying:
        raise NotImplementedError(
            f"sparse rule for {primitive.name} is not implemented {DENSE} your arguments to dense "
            "matrices."
        )
    operands = ", ".join(
        f"{'BCSR' if v.is_bcsr() else 'BCOO' if v.is_bcoo() else 'dense'}{list(v.shape)}"
        for v in spvalues
    )
    raise NotImplementedError(
        f"sparse rule for {primitive.name} is not implemented. Its operands are {operands}; use "
        "sparse.todense() to convert sparse arguments to dense arrays."
    )


@set_module(MODULE)
def eval_sparse(
    jaxpr: core.Jaxpr,
    consts: Sequence[Any],
    spvalues: Sequence[SparsifyValue],
    spenv: SparsifyEnv,
) -> list[SparsifyValue]:
    """Evaluate a jaxpr of dense arrays on dense and sparse values.

    Args:
      jaxpr: the jaxpr.
      consts: arrays for its constants.
      spvalues: values for its arguments.
      spenv: the buffers of these values, to which those of the results are added.

    Returns:
      The values of its results.
    """
    env: dict[Any, SparsifyValue] = {}
    env.update(zip(jaxpr.constvars, map(spenv.dense, consts)))
    env.update(zip(jaxpr.invars, spvalues))

    def read(v: Any) -> SparsifyValue:
        return spenv.dense(v.val) if type(v) is Literal else env[v]

    for eqn in jaxpr.eqns:
        info = eqn.source_info
        stack = source_info_util.current_name_stack() + info.name_stack
        values = [read(v) for v in eqn.invars]
        with source_info_util.user_context(info.traceback, name_stack=stack), eqn.ctx.manager:
            if any(v.is_sparse() for v in values):
                outs = apply(spenv, eqn.primitive, values, eqn.params)
            else:
                params = eqn.primitive.get_bind_params(eqn.params)
                found = eqn.primitive.bind(*map(spenv.data, values), **params)
                outs = [
                    spenv.dense(x) for x in (found if eqn.primitive.multiple_results else [found])
                ]
        env.update(zip(eqn.outvars, outs))
    return [read(v) for v in jaxpr.outvars]


def _flatten(args: Any) -> tuple[list[Any], Any]:
    return tree_util.tree_flatten(args, is_leaf=is_sparse_array)


@set_module(MODULE)
def sparsify_raw(f: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of trees of values, given one of trees of arrays.

    Returns:
      `wrapped(spenv, *spvalues, **params)`, which returns the flat values of the results and their
      tree; keyword arguments are not converted.

    >>> from jax.experimental.sparse.transform import SparsifyEnv, sparsify_raw
    >>> env = SparsifyEnv()
    >>> (value,), tree = sparsify_raw(jnp.sin)(env, env.dense(jnp.zeros(2)))
    >>> env.data(value)
    Array([0., 0.], dtype=float32)
    """

    def wrapped(spenv: SparsifyEnv, *spvalues: Any, **params: Any) -> Any:
        flat, in_tree = tree_util.tree_flatten(spvalues, is_leaf=is_spvalue)
        out_tree = None

        def flat_fun(*args: Any) -> Any:
            nonlocal out_tree
            outs, out_tree = tree_util.tree_flatten(
                f(*tree_util.tree_unflatten(in_tree, args), **params)
            )
            return outs

        avals = spvalues_to_avals(spenv, flat)
        info = api_util.debug_info("sparsify", f, tree_util.tree_unflatten(in_tree, avals), {})
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(flat_fun, avals, info)
        return eval_sparse(jaxpr, consts, flat, spenv), out_tree

    return wrapped


@core.cached_on_jaxpr
def sparse_jaxpr(
    closed: core.ClosedJaxpr, spvalues: tuple[SparsifyValue, ...], avals: tuple[Any, ...]
) -> tuple[core.ClosedJaxpr, tuple[SparsifyValue, ...]]:
    """Transform a jaxpr to one of buffers.

    Args:
      closed: jaxpr of dense arrays.
      spvalues: values of the arguments, whose references are positions in `avals`.
      avals: the types of the buffers.

    Returns:
      A jaxpr from the buffers to new buffers; and the values of its results, whose references are
      positions in all buffers, old ones first.
    """
    outs: tuple[SparsifyValue, ...] = ()

    def run(*buffers: Any) -> list[Any]:
        nonlocal outs
        spenv = SparsifyEnv(buffers)
        found = eval_sparse(closed.jaxpr, closed.consts, spvalues, spenv)
        numbers = {i: i for i in range(len(buffers))}
        for v in found:
            for r in v.refs:
                numbers.setdefault(r, len(numbers))
        outs = tuple([v.map_refs(numbers.__getitem__) for v in found])
        return [spenv.buffer(r) for r in list(numbers)[len(buffers) :]]

    info = closed.jaxpr.debug_info.with_unknown_names()
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(run, avals, info)
    return core.ClosedJaxpr(jaxpr, consts), outs


@set_module(MODULE)
class SparseTracer(Tracer):
    """A tracer of a dense or sparse array.

    Args:
      trace: the trace.
      spvalue: the value, whose buffers are in the trace's environment.
    """

    __slots__ = ("_spvalue",)
    _trace: SparseTrace

    def __init__(self, trace: SparseTrace, *, spvalue: SparsifyValue):
        self._trace = trace
        self._spvalue = spvalue
        aval = typeof(trace.spenv.data(spvalue))
        if spvalue.is_sparse():
            aval = ShapedArray(spvalue.shape, aval.dtype, aval.weak_type)
        self.aval = aval

    @property
    def spenv(self) -> SparsifyEnv:
        """The buffers of all values of the trace."""
        return self._trace.spenv

    def to_concrete_value(self) -> Any:
        if self._spvalue.is_sparse():
            return None
        return core.to_concrete_value(self.spenv.data(self._spvalue))

    def _contents(self) -> Any:
        return [("spvalue", self._spvalue)]

    def __repr__(self) -> str:
        return f"SparseTracer({spvalues_to_arrays(self.spenv, self._spvalue)!r})"

    __str__ = __repr__


core.register_tracer_class(SparseTracer)


@set_module(MODULE)
class SparseTrace(Trace):
    """Applies each operation to values as it is traced.

    Args:
      parent_trace: the trace of operations on buffers.
      tag: identity of the transformation.
      spenv: environment of the values.
    """

    __slots__ = ("parent_trace", "tag", "spenv")

    def __init__(self, parent_trace: Trace, tag: Any, spenv: SparsifyEnv):
        super().__init__()
        self.parent_trace = parent_trace
        self.tag = tag
        self.spenv = spenv

    def to_sparse_tracer(self, val: Any) -> SparseTracer:
        """`val` as a tracer of this trace."""
        if self.owns(val):
            return val  # type: ignore[no-any-return]
        return SparseTracer(self, spvalue=self.spenv.dense(val))

    def owns(self, x: object) -> bool:
        """Whether `x` is a tracer of this trace."""
        return type(x) is SparseTracer and x._trace is self

    def _values(self, args: Sequence[Any]) -> tuple[list[Any], bool]:
        """Dense arrays if all are dense, else values."""
        sparse = any(self.owns(x) and x._spvalue.is_sparse() for x in args)
        if sparse:
            return [self.to_sparse_tracer(x)._spvalue for x in args], True
        return [self.spenv.data(x._spvalue) if self.owns(x) else x for x in args], False

    def _tracers(self, outs: Sequence[Any], sparse: bool) -> list[Any]:
        return [SparseTracer(self, spvalue=x if sparse else self.spenv.dense(x)) for x in outs]

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        values, sparse = self._values(args)
        with core.set_current_trace(self.parent_trace):
            if sparse:
                outs = apply(self.spenv, primitive, values, params)
            else:
                outs = primitive.bind_with_trace(self.parent_trace, values, params)
                outs = outs if primitive.multiple_results else [outs]
        tracers = self._tracers(outs, sparse)
        return tracers if primitive.multiple_results else tracers[0]

    def process_custom_jvp_call(
        self, primitive: Primitive, fun: Any, jvp: Any, args: Sequence[Any], *, symbolic_zeros: bool
    ) -> Any:
        values, sparse = self._values(args)
        if sparse:
            return fun(*args)
        params = dict(symbolic_zeros=symbolic_zeros)
        with core.set_current_trace(self.parent_trace):
            outs = primitive.bind_with_trace(self.parent_trace, (fun, jvp, *values), params)
        return self._tracers(outs, False)

    def process_custom_vjp_call(
        self, primitive: Primitive, fun: Any, fwd: Any, bwd: Any, args: Sequence[Any], *,
        out_trees: Any, symbolic_zeros: bool,
    ) -> Any:  # fmt: skip
        values, sparse = self._values(args)
        params = dict(out_trees=out_trees, symbolic_zeros=symbolic_zeros)
        with core.set_current_trace(self.parent_trace):
            if sparse:
                outs = apply(self.spenv, primitive, values, params)
            else:
                operands = (fun, fwd, bwd, *values)
                outs = primitive.bind_with_trace(self.parent_trace, operands, params)
        return self._tracers(outs, sparse)


def _call_traced(fun: Callable[..., Any], args: Sequence[Any]) -> list[Any]:
    """Call a function of flat arrays with tracers."""
    spenv = SparsifyEnv()
    trace = SparseTrace(core.trace_ctx.trace, core.TraceTag(), spenv)
    tracers = [SparseTracer(trace, spvalue=v) for v in arrays_to_spvalues(spenv, list(args))]
    with core.set_current_trace(trace, check_leaks=True):
        outs = [trace.to_sparse_tracer(x)._spvalue for x in fun(*tracers)]
        del tracers
    trace.invalidate()
    return spvalues_to_arrays(spenv, outs)  # type: ignore[no-any-return]


@set_module(MODULE)
def sparsify_fun(wrapped_fun: Any, args: Sequence[Any]) -> list[Any]:
    """Call a flat function of dense arrays on dense and sparse arrays.

    Args:
      wrapped_fun: a `WrappedFun` or other function of flat arguments, which returns a list.
      args: its arguments.

    Returns:
      A list of dense and sparse arrays.
    """
    return _call_traced(getattr(wrapped_fun, "call_wrapped", wrapped_fun), args)


def _with_tracer(fun: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    flat, in_tree = _flatten((args, kwargs))
    out_tree = None

    def flat_fun(*flat: Any) -> Any:
        nonlocal out_tree
        new_args, new_kwargs = tree_util.tree_unflatten(in_tree, flat)
        outs, out_tree = tree_util.tree_flatten(fun(*new_args, **new_kwargs))
        return outs

    outs = _call_traced(flat_fun, flat)
    return tree_util.tree_unflatten(out_tree, outs)


def _with_interpreter(fun: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    spenv = SparsifyEnv()
    spvalues = arrays_to_spvalues(spenv, args)
    outs, out_tree = sparsify_raw(fun)(spenv, *spvalues, **kwargs)
    return tree_util.tree_unflatten(out_tree, spvalues_to_arrays(spenv, outs))


@set_module(MODULE)
def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """Make a function of dense arrays accept and return sparse arrays.

    Args:
      f: function of arrays and trees of arrays, made of operations that have a sparse rule.
      use_tracer: apply rules while `f` is traced, not to its jaxpr. Then values of dense arrays are
        known to `f`, and keyword arguments may be sparse, too.

    Returns:
      A function of dense and sparse arrays. Where a result of `f` would be sparse, it is a sparse
      array.

    Raises:
      NotImplementedError: from the call, if an operation has no rule for sparse operands, for
        example since most of its results were not zero.

    >>> from jax.experimental import sparse
    >>> @sparse.sparsify
    ... def f(M, v):
    ...   return 2 * M.T @ v
    >>> M = sparse.BCOO.fromdense(jnp.arange(12).reshape(3, 4))
    >>> f(M, jnp.array([3, 4, 2]))
    Array([ 64,  82, 100, 118], dtype=int32)
    """
    run = _with_tracer if use_tracer else _with_interpreter

    @wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return run(f, args, kwargs)

    return wrapped
