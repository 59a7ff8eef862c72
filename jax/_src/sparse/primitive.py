"""A constructor of primitives on the buffers of sparse arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax._src import core
from jax._src.ad_util import Zero
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.lax import lax
from jax._src.transforms.derivatives import linear_transpose
from jax._src.transforms.vmap import vmap


def buffer_primitive(
    name: str,
    impl: Callable[..., Any],
    *,
    types: Callable[..., Any] | None = None,
    batch: Callable[..., Any] | None = None,
    linear: Sequence[int] | Mapping[int, Callable[..., Any]] = (),
    jvp: Callable[..., Any] | None = None,
    lower: Mapping[str, Any] | None = None,
    multiple_results: bool = False,
) -> core.Primitive:
    """Define a primitive by a function of arrays that JAX can trace.

    Args:
      name: name of the primitive, as jaxprs print it.
      impl: function of the buffers and parameters.
      types: function of the operands' types and parameters, which checks them and returns those of
        the results; by default `impl` is traced.
      batch: `(size, args, dims, **params)` -> operands with the mapped dimension in front, where it
        may also have size 1, the new parameters, and maybe the dimension of the results that is
        then the mapped one, by default 0. Without it, `vmap` of `impl` replaces the primitive.
      linear: the operands in each of which the first result is linear; this gives the derivatives.
        Either their numbers, so that `impl` is transposed, or for each of them the function of the
        cotangent, the operands and parameters that returns its own cotangent.
      jvp: a rule instead.
      lower: lowering rules by platform, beside that of `impl`.
      multiple_results: whether `impl` returns a tuple; results other than the first are indices.
    """
    p = core.Primitive(name, multiple_results=multiple_results)
    as_list = (lambda out: list(out)) if multiple_results else (lambda out: [out])
    flat = lambda *args, **params: as_list(impl(*args, **params))

    @p.def_abstract_eval
    def abstract_eval(*avals: Any, **params: Any) -> Any:
        if types is not None:
            return types(*avals, **params)
        out = pe.abstract_eval_fun(flat, *avals, **params)
        return out if multiple_results else out[0]

    mlir.register_lowering(p, mlir.lower_fun(impl, multiple_results=multiple_results))
    for platform, rule in (lower or {}).items():
        mlir.register_lowering(p, rule, platform=platform)

    def jvp_rule(primals: Any, tangents: Any, **params: Any) -> Any:
        outs = as_list(p.bind(*primals, **params))
        total: Any = Zero.from_primal_value(outs[0])
        for i in linear:
            if type(tangents[i]) is not Zero:
                args = [tangents[i] if j == i else x for j, x in enumerate(primals)]
                total = ad.add_tangents(total, as_list(p.bind(*args, **params))[0])
        out_tangents = [total, *map(Zero.from_primal_value, outs[1:])]
        return (outs, out_tangents) if multiple_results else (outs[0], total)

    def transpose_rule(cts: Any, *args: Any, **params: Any) -> Any:
        ct = cts[0] if multiple_results else cts
        unknown = [i for i, x in enumerate(args) if ad.is_undefined_primal(x)]
        if type(ct) is Zero:
            return [Zero(args[i].aval) if i in unknown else None for i in range(len(args))]

        if isinstance(linear, Mapping):
            results = {i: linear[i](ct, *args, **params) for i in unknown}
        else:

            def fun(*values: Any) -> Any:
                known = dict(zip(unknown, values))
                return flat(*[known.get(i, x) for i, x in enumerate(args)], **params)[0]

            found = linear_transpose(fun, *[args[i].aval for i in unknown])(ct)
            results = dict(zip(unknown, found))
        return [results.get(i) for i in range(len(args))]

    def batch_rule(axis_data: Any, args: Any, dims: Any, **params: Any) -> Any:
        if batch is None:
            if types is not None:
                # Buffers without what is mapped must fit each other, too.
                size = axis_data.size
                avals = [core.mapped_aval(size, d, core.typeof(x)) for x, d in zip(args, dims)]
                types(*avals, **params)
            outs = vmap(functools.partial(flat, **params), in_axes=tuple(dims))(*args)
            return (outs, [0] * len(outs)) if multiple_results else (outs[0], 0)
        size = axis_data.size
        new_args, new_params, *at = batch(size, args, dims, **params)
        outs = as_list(p.bind(*new_args, **new_params))
        axis = at[0] if at else 0
        # A result of size 1 depends on no mapped operand.
        kept = [out.shape[axis] == size for out in outs]
        outs = [out if k else lax.squeeze(out, [axis]) for out, k in zip(outs, kept)]
        out_dims = [axis if k else None for k in kept]
        return (outs, out_dims) if multiple_results else (outs[0], out_dims[0])

    p.jvp = jvp or jvp_rule
    p.transpose = transpose_rule
    p.axis_batch = batch_rule
    return p


def to_front(x: Any, dim: int | None) -> Any:
    """`x` with its mapped dimension in front, or with a new one of size 1."""
    if dim is None:
        return lax.expand_dims(x, (0,))
    return batching.moveaxis(x, dim, 0)


def with_batch(info: Any, size: int) -> Any:
    """`SparseInfo` of the array with one more batch dimension in front."""
    return info._replace(shape=(size, *info.shape))
