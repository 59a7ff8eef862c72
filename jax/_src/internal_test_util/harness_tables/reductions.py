"""Harnesses of reductions, of whole dimensions and of windows."""

import numpy as np

from jax import lax, numpy as jnp
from jax._src import test_util as jtu
from jax._src.internal_test_util.harness_tables.harness import (
    Harness,
    Limitation,
    RandArg,
    StaticArg,
    requires_xla_for_reduce,
)
from jax._src.internal_test_util.harness_tables.naming import named, shaped, spelled
from jax._src.lax.windowed_reductions import select_and_gather_add_p, select_and_scatter_add_p


def reducers():
    numeric = [d for d in jtu.dtypes.all if d != np.bool_]
    for primitive, dtypes in (
        (lax.reduce_sum_p, numeric),
        (lax.reduce_prod_p, numeric),
        (lax.reduce_max_p, jtu.dtypes.all),
        (lax.reduce_min_p, jtu.dtypes.all),
        (lax.reduce_or_p, jtu.dtypes.boolean),
        (lax.reduce_and_p, jtu.dtypes.boolean),
    ):
        public = getattr(lax, str(primitive))
        for dtype in dtypes:
            yield Harness(
                str(primitive),
                named("dtypes", shape=shaped((2, 3), dtype)),
                lambda operand, public=public: public(operand, axes=(0,)),
                [RandArg((2, 3), dtype)],
                dtype=dtype,
                prim=primitive,
                shape=(2, 3),
                axes=(0,),
            )


def _add(x, y):
    return x + y


def _max_and_min(xs, ys):
    return jnp.maximum(xs[0], ys[0]), jnp.minimum(xs[1], ys[1])


def _reduce_case(head, operands, function, dtype, dimensions, shape=(4, 6), init=3):
    def reducer(operand, places):
        first = np.array(init, dtype)
        if operands == 1:
            return lax.reduce(operand, first, function, dimensions)
        return lax.reduce((operand, places), (first, np.int32(0)), function, dimensions)

    return Harness(
        "reduce",
        named(
            head,
            shape=shaped(shape, dtype),
            initvalue=init,
            nr_operands=operands,
            dimensions=dimensions,
        ),
        reducer,
        [RandArg(shape, dtype), RandArg(shape, np.int32)],
        dtype=dtype,
        shape=shape,
        init_value=init,
        computation=function,
        dimensions=dimensions,
    )


def reduce_():
    for dtype in jtu.dtypes.all:
        for head, operands, function in (
            ("gen_add_scalar", 1, _add),
            ("gen_max_min", 2, _max_and_min),
        ):
            if dtype != np.bool_ or function is _max_and_min:
                for dimensions in ((0,), (1,), (0, 1)) if dtype == np.int32 else ((0,),):
                    yield _reduce_case(head, operands, function, dtype, dimensions)


def _identity(dtype, smallest: bool):
    """The least or greatest value of a type: the identity of maxima or minima."""
    if jnp.issubdtype(dtype, np.inexact):
        return np.array(-np.inf if smallest else np.inf, dtype)
    if dtype == np.bool_:
        return np.array(not smallest, dtype)
    limits = np.iinfo(dtype)
    return np.array(limits.min if smallest else limits.max, dtype)


_FUNCTIONS = {"min": lax.min, "max": lax.max, "add": lax.add, "mul": lax.mul}


def _window(dimensions, strides, padding, base, dilation):
    """The parameters that say which elements are in a window."""
    return dict(
        window_dimensions=dimensions,
        window_strides=strides,
        padding=padding,
        base_dilation=base,
        window_dilation=dilation,
    )


def _selecting(primitive):
    """A function of a (co)tangent, an operand, and the parameters of `primitive`, by their places."""
    names = ("select_prim", "window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")  # fmt: skip
    return lambda x, operand, *values: primitive.bind(x, operand, **dict(zip(names, values)))


def _window_case(
    head,
    name,
    dtype,
    init,
    shape=(4, 6),
    *,
    dimensions=(2, 2),
    strides=(1, 1),
    padding=((0, 0), (0, 0)),
    base=(1, 1),
    dilation=(1, 1),
    enable_xla=True,
):
    value, function = np.array(init, dtype), _FUNCTIONS[name]
    window = _window(dimensions, strides, padding, base, dilation)
    return Harness(
        f"reduce_window_{name}",
        named(
            head,
            shape=shaped(shape, dtype),
            initvalue=init,
            **spelled(window),
            enablexla=enable_xla,
        ),
        lax.reduce_window,
        # The identities must be static, for the reduction to be one that has derivatives.
        [RandArg(shape, dtype), *map(StaticArg, (value, function, *window.values()))],
        dtype=dtype,
        shape=shape,
        init_value=value,
        computation=function,
        **window,
        enable_xla=enable_xla,
    )


def _window_cases(head, name, dtype, init, *arguments, only_xla=False, **parameters):
    """A case with XLA, and one without where converters have a reduction for it."""
    only_xla = only_xla or requires_xla_for_reduce(name, dtype)
    for enable_xla in (True,) if only_xla else (True, False):
        yield _window_case(head, name, dtype, init, *arguments, enable_xla=enable_xla, **parameters)


def windows_by_type():
    numeric = [d for d in jtu.dtypes.all if d != np.bool_]
    for dtype in jtu.dtypes.all:
        cases = [("min", _identity(dtype, smallest=False))]
        cases += [("max", _identity(dtype, smallest=True)), ("max", 1)]
        if dtype in numeric:
            cases += [("add", init) for init in (0, 1)]
            cases += [("mul", init) for init in (0, 1, 2)]
        for name, init in cases:
            yield from _window_cases("dtypes", name, dtype, init)


def windows_by_parameter():
    for head, parameters in (
        ("window_dimensions", {"dimensions": (1, 1)}),
        ("window_strides", {"strides": (1, 2)}),
        ("padding", {"padding": ((1, 2), (0, 3)), "only_xla": True}),
        ("base_dilation", {"base": (1, 2), "only_xla": True}),
        ("window_dilation", {"dilation": (1, 2)}),
    ):
        yield from _window_cases(head, "add", np.float32, 0, **parameters)


def windows_of_images():
    for shape, dimensions in (
        ((2,), (2,)),
        ((2, 1), (2, 1)),
        ((1, 2), (1, 2)),
        ((1, 2, 1), (1, 2, 1)),
        ((2, 4), (2, 2)),
        ((1, 2, 4, 1), (1, 2, 2, 1)),
        ((2, 4, 3), (2, 2, 2)),
        ((1, 4, 3, 2, 1), (1, 2, 2, 2, 1)),
    ):
        ones = (1,) * len(shape)
        yield from _window_cases(
            "batch_channel_dims", "max", np.float32, -np.inf, shape, dimensions=dimensions,
            strides=ones, padding=((0, 0),) * len(shape), base=ones, dilation=ones,
            only_xla=sum(n > 1 for n in dimensions) > 2,
        )  # fmt: skip
    for name, init in (("max", -np.inf), ("min", np.inf), ("add", 0.0)):
        yield from _window_cases(
            "same_padding", name, np.float32, init, (112, 112), dimensions=(3, 3), strides=(2, 2),
            padding="SAME",
        )  # fmt: skip
    for dimensions, strides in (((2, 2), (1, 1)), ((3, 3), (2, 2)), ((13, 13), (5, 6))):
        yield from _window_cases(
            "manual_padding", "add", np.float32, 0.0, (12, 12), dimensions=dimensions,
            strides=strides, padding="SAME",
        )  # fmt: skip
    yield from _window_cases(
        "init_value_1d", "min", np.float32, 1.0, (1, 1600), dimensions=[1, 401],
        strides=[1, 160], padding="VALID",
    )  # fmt: skip


def _select_and_scatter_case(
    head,
    dtype,
    *,
    primitive=lax.ge_p,
    dimensions=(2, 2, 2),
    strides=(1, 1, 1),
    padding=((0, 0), (0, 0), (0, 0)),
    inactive=0,
):
    shape = (2, 4, 6)
    padded = [n + low + high for n, (low, high) in zip(shape, padding, strict=True)]
    windows = zip(padded, dimensions, strides, strict=True)
    cotangent = tuple((n - window) // stride + 1 for n, window, stride in windows)
    parameters = dict(
        select_prim=primitive,
        window_dimensions=dimensions,
        window_strides=strides,
        padding=padding,
    )
    return Harness(
        "select_and_scatter_add",
        named(head, shape=shaped(shape, dtype), **spelled(parameters)),
        _selecting(select_and_scatter_add_p),
        [RandArg(cotangent, dtype), RandArg(shape, dtype), *map(StaticArg, parameters.values())],
        dtype=dtype,
        jax_unimplemented=[
            Limitation(
                "works only for 2 or more inactive dimensions",
                devices="tpu",
                enabled=inactive < 2,
            )
        ],
        shape=shape,
        **parameters,
    )


def select_and_scatter_add():
    real = [d for d in jtu.dtypes.all if d not in jtu.dtypes.complex]
    for dtype in real:
        yield _select_and_scatter_case("dtypes", dtype)
    for head, parameters in (
        ("select_prim", {"primitive": lax.le_p}),
        ("padding", {"padding": ((1, 1), (1, 1), (1, 1))}),
        ("window_dimensions", {"dimensions": (1, 2, 3)}),
        ("window_strides", {"strides": (1, 2, 3)}),
    ):
        yield _select_and_scatter_case(head, np.float32, **parameters)
    for dtype in real:
        if dtype not in (np.bool_, np.int8, np.uint8):
            yield _select_and_scatter_case(
                "tpu_dtypes", dtype, dimensions=(1, 3, 1), strides=(1, 2, 1), inactive=2
            )


def _select_and_gather_case(
    head,
    dtype,
    *,
    primitive=lax.le_p,
    dimensions=(2, 2),
    strides=(1, 1),
    padding=((0, 0), (0, 0)),
    base=(1, 1),
    dilation=(1, 1),
):
    shape = (4, 6)
    window = _window(dimensions, strides, padding, base, dilation)
    return Harness(
        "select_and_gather_add",
        named(head, shape=shaped(shape, dtype), selectprim=primitive, **spelled(window)),
        _selecting(select_and_gather_add_p),
        [
            RandArg(shape, dtype),
            RandArg(shape, dtype),
            *map(StaticArg, (primitive, *window.values())),
        ],
        dtype=dtype,
        shape=shape,
        **window,
    )


def select_and_gather_add():
    for dtype in jtu.dtypes.all_floating:
        for primitive in (lax.ge_p, lax.le_p):
            yield _select_and_gather_case("dtypes", dtype, primitive=primitive)
    for head, parameters in (
        ("select_prim", {"primitive": lax.ge_p}),
        ("window_dimensions", {"dimensions": (2, 3)}),
        ("window_strides", {"strides": (2, 3)}),
        ("padding", {"padding": ((0, 1), (0, 1))}),
        ("dilations", {"base": (2, 3)}),
        ("dilations", {"dilation": (2, 3)}),
        ("dilations", {"base": (2, 3), "dilation": (3, 2)}),
    ):
        yield _select_and_gather_case(head, np.float32, **parameters)
