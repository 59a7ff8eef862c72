"""`composite`: a named operation with a decomposition, for compilers that do not know the name."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core, effects, traceback_util
from jax._src.core import ClosedJaxpr, Primitive, Tracer, typeof
from jax._src.errors import UnexpectedTracerError
from jax._src.interpreters import mlir
from jax._src.late_binding import late
from jax._src.lax.control_flow.common import hoist, stage
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo
from jax._src.tree_util import tree_flatten, tree_unflatten
from jax._src.util import HashableArray, wraps

traceback_util.register_exclusion(__file__)


def composite(decomposition: Callable, name: str, version: int = 0) -> Callable:
    """Define a named operation that a compiler may implement in its own way.

    The operation is neither differentiable nor batchable: call it in functions with rules from
    `jax.custom_jvp` or `jax.custom_batching.custom_vmap`. In programs exported with symbolic shapes
    it is a call of the decomposition, since the compiler does not refine the shapes of named operations.

    Args:
      decomposition: function of arrays and pytrees that defines the operation's semantics. It must
        not close over values that are being traced.
      name: name of the operation, with a namespace prefix, as in 'my_library.softmax'.
      version: version of the operation's semantics.

    Returns:
      A function whose positional arguments are operands and whose keyword arguments are attributes
      of the operation (numbers, strings, dtypes, NumPy arrays, and tuples, lists and dicts of
      them). Attributes that are None are omitted.

    Raises:
      UnexpectedTracerError: when it is called, if `decomposition` closes over a traced value.

    >>> tangent = lax.composite(lambda x: lax.sin(x) / lax.cos(x), name="my.tangent")
    >>> tangent(jnp.array([0., 0.5]))
    Array([0.       , 0.5463025], dtype=float32)
    """
    if not callable(decomposition):
        raise TypeError(f"composite takes a function as its decomposition, got {decomposition!r}")

    @wraps(decomposition)
    @traceback_util.api_boundary
    def call(*args, **kwargs):
        flat, in_tree = tree_flatten(args)
        fun = functools.partial(decomposition, **kwargs) if kwargs else decomposition
        avals = [typeof(x) for x in flat]
        jaxpr, consts, out_tree = stage(f"composite {name}", fun, in_tree, avals, args)
        if any(isinstance(c, Tracer) for c in consts):
            raise UnexpectedTracerError(
                f"Found a JAX Tracer as a constant in the decomposition for the composite op '{name}': "
                "the decomposition closes over a value that is involved in a JAX transformation. Pass it "
                "as an argument of the composite."
            )
        outs = composite_p.bind(
            *consts, *flat, name=name, attributes=_attributes(kwargs), version=version,
            jaxpr=hoist(jaxpr),
        )  # fmt: skip
        return tree_unflatten(out_tree, outs)

    return call


def _attributes(kwargs: dict[str, Any]) -> tuple:
    """Convert keyword arguments to a hashable form."""
    attributes = []
    for key, value in kwargs.items():
        leaves, tree = tree_flatten(value)
        leaves = [HashableArray(x) if isinstance(x, np.ndarray) else x for x in leaves]
        attributes.append((key, tuple(leaves), tree))
    return tuple(attributes)


composite_p = Primitive("composite", multiple_results=True)
composite_p.def_effectful_abstract_eval(lambda *_, jaxpr, **__: (jaxpr.out_avals, jaxpr.effects))
composite_p.def_impl(
    lambda *args, jaxpr, **_: [late.to_array(x) for x in core.jaxpr_as_fun(jaxpr)(*args)]
)


def _jvp(primals, tangents, *, name, **_):
    raise ValueError(
        f"JVP rule for composite not implemented: the composite op '{name}' was differentiated. Give a "
        "function that calls it a rule with jax.custom_jvp or jax.custom_vjp."
    )


composite_p.jvp = _jvp


def _lowering(ctx, *args, name, attributes, version, jaxpr: ClosedJaxpr):
    values = {}
    for key, leaves, tree in attributes:
        leaves = [x.val if isinstance(x, HashableArray) else x for x in leaves]
        values[key] = tree_unflatten(tree, leaves)
    return composite_lowering(ctx, name, jaxpr, args, values, version)


mlir.register_lowering(composite_p, _lowering)


def composite_lowering(
    ctx, name: str, jaxpr: ClosedJaxpr, args: Sequence[Any], attributes: dict, version: int = 0
) -> Sequence[Any]:
    """Emit a composite op with the given name whose decomposition is `jaxpr`; with symbolic sizes, a call of it."""
    if effects.ordered_effects.filter_in(jaxpr.effects):
        raise NotImplementedError(f"composite op '{name}': ordered effects are not supported")
    module_ctx = ctx.module_context
    # The compiler finds sizes in functions that are called, not in decompositions.
    if ctx.dim_var_values:
        outs, _ = mlir.call_lowering(
            name, jaxpr, None, module_ctx, None, ctx.avals_out, ctx.tokens_in, *args,
            dim_var_values=ctx.dim_var_values,
        )  # fmt: skip
        return outs
    func, _, _ = mlir.lower_called_computation(name, jaxpr, module_ctx, ctx.tokens_in)
    types = [mlir.aval_to_ir_types(module_ctx, a) for a in ctx.avals_out]
    attributes = {k: mlir.ir_attribute(v) for k, v in attributes.items() if v is not None}
    op = hlo.CompositeOp(
        mlir.flatten_ir_types(types),
        mlir.flatten_ir_values(args),
        name=ir.StringAttr.get(name),
        decomposition=ir.FlatSymbolRefAttr.get(func.name.value),
        composite_attributes=ir.DictAttr.get(attributes) if attributes else None,
        version=mlir.i32_attr(version) if version else None,
    )
    return mlir.unflatten_ir_values_like_types(op.results, types)
