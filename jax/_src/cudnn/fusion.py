"""Functions that cuDNN compiles to one kernel, on NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax._src import core
from jax._src.api import jit, make_jaxpr
from jax._src.core import Primitive
from jax._src.interpreters import mlir, partial_eval as pe
from jax._src.tree_util import tree_leaves, tree_structure, tree_unflatten
from jax._src.util import fun_name, wraps

cudnn_fusion_p = Primitive("cudnn_fusion", multiple_results=True)


def cudnn_fusion(f: Callable) -> Callable:
    """Make a function of matrix products a single cuDNN kernel on NVIDIA GPUs.

    cuDNN compiles it together with the program. It knows products of matrices, of several dtypes, and
    elementwise operations on their operands and results; XLA reports others as errors. On other devices the
    operations are compiled as usual. Such a function has no derivatives and cannot be mapped.

    Args:
      f: function of arrays.

    >>> from jax._src.cudnn import cudnn_fusion
    >>> @cudnn_fusion
    ... def product(x, y, z):
    ...   return jax.lax.batch_matmul(x.astype(jnp.bfloat16), y).astype(jnp.float32) + z
    >>> x, y = jnp.ones((1, 2, 2), jnp.int8), jnp.ones((1, 2, 2), jnp.bfloat16)
    >>> print(product(x, y, jnp.ones((1, 2, 2)))[0])
    [[3. 3.]
     [3. 3.]]
    """

    @wraps(f)
    def call_cudnn_fusion(*args, **kwargs):
        closed, out = make_jaxpr(f, return_shape=True)(*args, **kwargs)
        jaxpr = core.ClosedJaxpr(pe.convert_constvars_jaxpr(closed.jaxpr), ())
        operands = [*closed.consts, *tree_leaves((args, kwargs))]
        outs = cudnn_fusion_p.bind(*operands, name=fun_name(f), jaxpr=jaxpr)
        return tree_unflatten(tree_structure(out), outs)

    return jit(call_cudnn_fusion)


def _call_cudnn(ctx: Any, *operands: Any, name: str, jaxpr: core.ClosedJaxpr) -> Any:
    function, types, _ = mlir.lower_called_computation(f"{name}.impl", jaxpr, ctx.module_context)
    call = mlir.custom_call(
        "__cudnn$fusion",
        result_types=types,
        operands=operands,
        called_computations=[function.name.value],
    )
    return call.results


def _inline(ctx: Any, *operands: Any, name: str, jaxpr: core.ClosedJaxpr) -> Any:
    return mlir.lower_jaxpr_inline(ctx, jaxpr, name, *operands)


cudnn_fusion_p.def_abstract_eval(lambda *_, name, jaxpr: jaxpr.out_avals)
mlir.register_lowering(cudnn_fusion_p, _inline)
mlir.register_lowering(cudnn_fusion_p, _call_cudnn, platform="cuda")
