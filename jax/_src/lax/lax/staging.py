"""Operations that concern tracing: protecting unused values from DCE, and shapes as values."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, effects, tree_util
from jax._src.ad_util import Zero
from jax._src.interpreters import mlir
from jax._src.lax.lax.convert import convert_element_type
from jax._src.lax.lax.joining import concatenate
from jax._src.lax.lax.shape import reshape
from jax._src.lib.mlir.dialects import hlo
from jax._src.typing import ArrayLike, Shape


class NoDCEEffect(effects.Effect):
    """The effect of equations that DCE must keep although their results are unused."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NoDCEEffect()"


no_dce_effect = NoDCEEffect()
for _allowed in (
    effects.control_flow_allowed_effects,
    effects.custom_derivatives_allowed_effects,
    effects.lowerable_effects,
    effects.partial_eval_kept_effects,
    effects.remat_allowed_effects,
):
    _allowed.add_type(NoDCEEffect)


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Keep the computation of `val` in the traced program even if its result is unused.

    Args:
      val: pytree of arrays.
      prevent_mlir_dce: whether the compiler must keep it as well, not only the jaxpr.

    >>> jax.make_jaxpr(lambda x: lax.dce_sink(lax.sin(x)))(1.0)
    { lambda ; a:f32[]. let
        b:f32[] = sin a
        dce_sink[prevent_mlir_dce=False] b
      in () }
    """
    for leaf in tree_util.tree_leaves(val):
        dce_sink_p.bind(leaf, prevent_mlir_dce=bool(prevent_mlir_dce))


def _dce_sink_jvp(primals, tangents, *, prevent_mlir_dce):
    dce_sink_p.bind(*primals, prevent_mlir_dce=prevent_mlir_dce)
    (t,) = tangents
    if type(t) is not Zero:
        dce_sink_p.bind(t, prevent_mlir_dce=prevent_mlir_dce)
    return [], []


def _dce_sink_lower(ctx, x, *, prevent_mlir_dce):
    if prevent_mlir_dce:
        hlo.custom_call([], [x], call_target_name="dce_sink", has_side_effect=True)
    return []


dce_sink_p = core.Primitive("dce_sink", multiple_results=True)
dce_sink_p.def_impl(lambda x, *, prevent_mlir_dce: [])
dce_sink_p.def_effectful_abstract_eval(lambda x, *, prevent_mlir_dce: ([], {no_dce_effect}))
dce_sink_p.jvp = _dce_sink_jvp
dce_sink_p.transpose = lambda cts, x, *, prevent_mlir_dce: [Zero(x.aval)]
dce_sink_p.batch = lambda args, dims, **params: (dce_sink_p.bind(*args, **params), [])
mlir.register_lowering(dce_sink_p, _dce_sink_lower)


def shape_as_value(shape: Shape) -> ArrayLike:
    """Convert a shape, which may have symbolic dimensions, to an int32 array.

    Args:
      shape: sequence of dimension sizes.

    Returns:
      An int32 array of shape `(len(shape),)`.

    >>> lax.shape_as_value((2, 3))
    array([2, 3], dtype=int32)
    """
    if core.is_constant_shape(shape):
        return np.array(shape, np.int32)
    return concatenate(
        [
            np.array([d], np.int32)
            if core.is_constant_dim(d)
            else reshape(convert_element_type(d.dimension_as_value(), np.int32), (1,))
            for d in shape
        ],
        0,
    )
