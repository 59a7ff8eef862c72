"""`fused`: a function that the compiler must turn into one kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jax._src.core import ClosedJaxpr, Primitive
from jax._src.interpreters import ad, mlir
from jax._src.interpreters.calls import with_zeros
from jax._src.interpreters.mlir.functions import lower_called_computation
from jax._src.interpreters.split_rules import positions
from jax._src.interpreters.splitting import dce_closed_jaxpr
from jax._src.lib.mlir import ir
from jax._src.memory import MemorySpace
from jax._src.staged_calls import SpacedCallRules, check_function, stage_call
from jax._src.traceback_util import api_boundary, register_exclusion
from jax._src.tree_util import tree_unflatten
from jax._src.util import wraps

register_exclusion(__file__)


def fused(*, out_spaces: Sequence[MemorySpace]) -> Callable:
    """Make a decorator that has the compiler turn a function into one kernel, on NVIDIA GPUs.

    Inside the function, arrays are in `jax.memory.Space.Any`: its operands may be in the memory of
    the device or of the host.

    Args:
      out_spaces: a sequence of `jax.memory.Space`: where each of the function's results, as
        flattened, is stored.

    Returns:
      A decorator for functions of arrays and pytrees.

    Raises:
      TypeError: `out_spaces` is not a sequence of memory spaces.
      ValueError: when the function is called, if its number is not that of the results.
      NotImplementedError: when it is compiled for another platform.

    Example:
      >>> from jax.experimental.fused import fused
      >>> f = fused(out_spaces=(jax.memory.Space.Device,))(lambda x: jnp.sin(x) * 2)
      >>> print(jax.make_jaxpr(f)(1.0).out_avals)
      [ShapedArray(float32[], weak_type=True)]
    """
    if not isinstance(out_spaces, (tuple, list)) or not all(
        isinstance(space, MemorySpace) for space in out_spaces
    ):
        raise TypeError(
            "fused takes a tuple with the memory space (jax.memory.Space) of each result as"
            f" out_spaces, got {out_spaces!r}."
        )
    spaces = tuple(out_spaces)

    def wrap(f: Callable) -> Callable:
        check_function("fused", f)

        @wraps(f)
        @api_boundary
        def wrapped(*args, **kwargs):
            closed, operands, out_tree = stage_call("fused", f, args, kwargs, MemorySpace.Any)
            if len(closed.out_avals) != len(spaces):
                raise ValueError(
                    f"fused got {len(spaces)} out_spaces for a function with"
                    f" {len(closed.out_avals)} results, {out_tree}."
                )
            outs = fused_p.bind(*operands, jaxpr=closed, out_spaces=spaces)
            return tree_unflatten(out_tree, outs)

        return wrapped

    return wrap


fused_p = Primitive("fused_call", multiple_results=True)


class _FusedRules(SpacedCallRules):
    """Like other calls, but the derivative computes again what it needs, inside its own kernel."""

    def linearize(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        closed = params["jaxpr"]
        nonzeros = tuple([type(t) is not ad.Zero for t in tangents])
        jvp, nonzero_outs = ad.jvp_jaxpr(closed, nonzeros)
        n = len(closed.out_avals)
        wanted = (False,) * n + (True,) * sum(nonzero_outs)
        tangent = dce_closed_jaxpr(jvp, wanted, (True,) * len(jvp.in_avals))
        results = self.call(primals, params, closed, range(len(primals)), range(n))
        out_tangents: list[Any] = []
        if any(nonzero_outs):
            kept = positions(nonzeros)
            out_tangents = self.call(
                [*primals, *[tangents[i] for i in kept]], params, tangent,
                [*range(len(primals)), *kept], positions(nonzero_outs),
            )  # fmt: skip
        return results, with_zeros(out_tangents, nonzero_outs, closed)


_FusedRules(fused_p, "out_spaces", hands_on=False).install()


def _lowering(ctx: Any, *args: Any, jaxpr: ClosedJaxpr, out_spaces: Sequence[MemorySpace]) -> Any:
    module_ctx = ctx.module_context
    func, _, _ = lower_called_computation("fused", jaxpr, module_ctx, ctx.tokens_in)
    types = [mlir.aval_to_ir_types(module_ctx, a) for a in ctx.avals_out]
    spaces = ir.ArrayAttr.get([ir.StringAttr.get(str(space)) for space in out_spaces])
    config = ir.DictAttr.get(
        {
            "out_spaces": spaces,
            "inlineable": ir.BoolAttr.get(False),
            "MUST_FUSE": ir.BoolAttr.get(True),
        }
    )
    call = mlir.custom_call(
        "fused",
        result_types=mlir.flatten_ir_types(types),
        operands=mlir.flatten_ir_values(args),
        called_computations=[func.name.value],
        api_version=1,
        extra_attributes={"mhlo.backend_config": config},
    )
    return mlir.unflatten_ir_values_like_types(call.results, types)


def _unsupported(ctx: Any, *_: Any, **__: Any) -> NoReturn:
    raise NotImplementedError(
        "fused makes kernels for NVIDIA GPUs only, but the program is for the platform "
        f"{', '.join(ctx.module_context.platforms)}: call the function without fused "
        "there, for example by `jax.lax.platform_dependent`."
    )


mlir.register_lowering(fused_p, _unsupported)
mlir.register_lowering(fused_p, _lowering, platform="cuda")
