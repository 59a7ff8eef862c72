"""`scaled_dot`: contraction of block-scaled operands, lowered to a composite op."""

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.interpreters import batching, partial_eval as pe
from jax._src.lax import lax
from jax._src.lax.composite import composite_lowering
from jax._src.lax.lax.dot import sharding_of_product
from jax._src.lax.rules import standard_primitive, with_sharding
from jax._src.mesh import empty_abstract_mesh, use_abstract_mesh
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.typing import Array


def scaled_dot(
    lhs: Array, rhs: Array, *, lhs_scale: Array | None = None, rhs_scale: Array | None = None,
    dimension_numbers: Any = None, preferred_element_type: Any = None,
) -> Array:  # fmt: skip
    """Contract (lhs * lhs_scale) with (rhs * rhs_scale).

    Args:
      lhs, rhs: operands of the same rank, at least two.
      lhs_scale, rhs_scale: scales of the operands' rank, or None. In a contracted dimension the
        operand's size is a multiple of the scale's size, at least twice; each scale applies to a
        block of consecutive elements. Other dimensions have the operand's size.
      dimension_numbers: ((lhs contracting, rhs contracting), (lhs batch, rhs batch)); by default
        those of a matrix product, whose batch dimensions are the leading ones.
      preferred_element_type: dtype of the computation and of the result; bfloat16 by default.

    Returns:
      An array with the dimensions that `lax.dot_general` returns. It is not differentiable.

    Raises:
      TypeError: if ranks or sizes do not match.

    >>> x = jnp.ones((2, 4), jnp.float8_e4m3fn)
    >>> scale = jnp.array([[1, 2], [4, 8]], jnp.float8_e8m0fnu)
    >>> print(lax.scaled_dot(x, x.T, lhs_scale=scale, preferred_element_type=jnp.float32))
    [[ 6.  6.]
     [24. 24.]]
    """
    ndim = np.ndim(lhs)
    if preferred_element_type is None:
        preferred_element_type = dtypes.bfloat16
    dtype = dtypes.check_and_canonicalize_user_dtype(preferred_element_type, "scaled_dot")
    if ndim < 2 or np.ndim(rhs) < 2:
        raise TypeError("scaled_dot does not support 0-rank and 1-rank operands.")
    if dimension_numbers is None:
        batch = tuple(range(ndim - 2))
        dimension_numbers = (((ndim - 1,), (ndim - 2,)), (batch, batch))
    (lc, rc), (lb, rb) = dimension_numbers
    dims = tuple((tuple(map(int, a)), tuple(map(int, b))) for a, b in ((lc, rc), (lb, rb)))
    if lhs_scale is None:
        lhs_scale = _unit_scale(lhs, dims[0][0])
    if rhs_scale is None:
        rhs_scale = _unit_scale(rhs, dims[0][1])
    return scaled_dot_p.bind(
        lhs, rhs, lhs_scale, rhs_scale, dimension_numbers=dims, preferred_element_type=dtype
    )


def _unit_scale(x, contracting) -> Array:
    shape = [1 if i in contracting else d for i, d in enumerate(np.shape(x))]
    return lax.full(shape, 1, dtypes.float8_e8m0fnu)


def _shape(lhs, rhs, lhs_scale, rhs_scale, *, dimension_numbers, preferred_element_type):
    ranks = [x.ndim for x in (lhs, rhs, lhs_scale, rhs_scale)]
    if len(set(ranks)) != 1:
        raise TypeError(
            "All input tensors must have the same rank. Got lhs rank: {} rhs rank: {} lhs_scale rank: {} "
            "rhs_scale rank: {}.".format(*ranks)
        )
    (lc, rc), (lb, rb) = dimension_numbers
    for what, ls, rs in (("contracting", lc, rc), ("batch", lb, rb)):
        if len(ls) != len(rs):
            raise TypeError(f"scaled_dot: LHS has {len(ls)} {what} dims, RHS {len(rs)}.")
        for i, j in zip(ls, rs):
            if not (0 <= i < lhs.ndim and 0 <= j < rhs.ndim):
                raise TypeError(
                    f"scaled_dot: {what} dims {i} and {j} are out of range for operands of rank {lhs.ndim}."
                )
            if lhs.shape[i] != rhs.shape[j]:
                raise TypeError(
                    f"LHS {what} dim {i} of size {lhs.shape[i]} does not match RHS {what} dim {j} of "
                    f"size {rhs.shape[j]}."
                )
    for side, x, scale, contracting in (
        ("LHS", lhs, lhs_scale, lc),
        ("RHS", rhs, rhs_scale, rc),
    ):
        for i, (size, num) in enumerate(zip(x.shape, scale.shape)):
            if i not in contracting:
                if size != num:
                    raise TypeError(
                        f"{side} dim {i} of size {size} does not match scale dim size {num}."
                    )
                continue
            if num == 0 or size % num:
                raise TypeError(
                    f"{side} contracting dim {i} of size {size} must be divisible by its scale's dim "
                    f"size {num}."
                )
            if size // num < 2:
                raise TypeError(
                    f"The ratio of {side} contracting dim {i} to its scale's dim size ({size // num}) "
                    "must be at least 2."
                )
    free = lambda x, used: [d for i, d in enumerate(x.shape) if i not in used]
    return (
        *[lhs.shape[i] for i in lb],
        *free(lhs, (*lc, *lb)),
        *free(rhs, (*rc, *rb)),
    )


def _dtype(*_, preferred_element_type, **__):
    return preferred_element_type


def _sharding(lhs, rhs, *scales, dimension_numbers, **_):
    if lhs._sharding is None and rhs._sharding is None:  # only a scale has a sharding
        mesh = next(a._sharding.mesh for a in scales if a._sharding is not None)
        lhs = lhs.update(sharding=NamedSharding(mesh, PartitionSpec()))
    remedy = "Replicate one of the operands first with `jax.sharding.reshard`."
    return sharding_of_product("scaled_dot", lhs, rhs, dimension_numbers, remedy=remedy)


def _decomposed(lhs, rhs, lhs_scale, rhs_scale, *, dimension_numbers, preferred_element_type):
    (lc, rc), _ = dimension_numbers
    dtype = preferred_element_type
    return lax.dot_general(
        _scaled(lhs, lhs_scale, lc, dtype),
        _scaled(rhs, rhs_scale, rc, dtype),
        dimension_numbers,
        preferred_element_type=dtype,
    )


def _scaled(x, scale, contracting, dtype):
    for i in contracting:
        num, size = scale.shape[i], x.shape[i]
        if num != size:
            shape = (*scale.shape[: i + 1], size // num, *scale.shape[i + 1 :])
            dims = tuple(d for d in range(len(shape)) if d != i + 1)
            scale = lax.broadcast_in_dim(scale, shape, dims)
            scale = lax.reshape(scale, (*scale.shape[:i], size, *scale.shape[i + 2 :]))
    return lax.mul(lax.convert_element_type(x, dtype), lax.convert_element_type(scale, dtype))


def _batch(axis_data, args, dims, *, dimension_numbers, preferred_element_type):
    """Batching rule: adds a leading batch dimension."""
    args = [batching.bdim_at_front(x, d, axis_data.size) for x, d in zip(args, dims)]
    shifted = lambda ds: tuple(d + 1 for d in ds)
    (lc, rc), (lb, rb) = dimension_numbers
    out = scaled_dot_p.bind(
        *args,
        dimension_numbers=(
            (shifted(lc), shifted(rc)),
            ((0, *shifted(lb)), (0, *shifted(rb))),
        ),
        preferred_element_type=preferred_element_type,
    )
    return out, 0


def _lowering(ctx, *args, **params):
    plain = [a.update(sharding=None) for a in ctx.avals_in]
    # The compiler propagates shardings inside the composite.
    with use_abstract_mesh(empty_abstract_mesh):
        jaxpr, consts = pe.trace_to_closed(lambda *xs: [_decomposed(*xs, **params)], plain)
    assert not consts
    (out,) = composite_lowering(ctx, "xla.scaled_dot", jaxpr, args, params)
    return [with_sharding(ctx, out, ctx.avals_out[0])]


scaled_dot_p = standard_primitive(
    "scaled_dot", shape=_shape, dtype=_dtype, sharding=_sharding, lower=_lowering
)
scaled_dot_p.axis_batch = _batch
