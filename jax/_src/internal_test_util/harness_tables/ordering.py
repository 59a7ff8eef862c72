"""Harnesses of sorts, places of extrema and cumulative reductions."""

import numpy as np

from jax import lax
from jax._src import test_util as jtu
from jax._src.internal_test_util.harness_tables.harness import Harness, RandArg, StaticArg
from jax._src.internal_test_util.harness_tables.naming import named, shaped

_NAN, _INF = np.nan, np.inf
# Operands in which the place of an extremum is special.
_SPECIAL = {
    "nan_0": [_NAN, _NAN, 2, -2, -_NAN, -_NAN],
    "nan_1": [_NAN, -_NAN, 2, -2],
    "inf_0": [2, _INF, _INF, -2],
    "inf_1": [2, _INF, -_INF, -2],
    "inf_2": [2, -_INF, _INF, -2],
    "inf_3": [2, -_INF, -_INF, -2],
    "nan_inf_0": [2, _NAN, _INF, -2],
    "nan_inf_1": [2, _NAN, -_INF, -2],
    "equal": np.array([2, 2, 2], np.int32),
    "singleton": [1],
}


def _real():
    return [d for d in jtu.dtypes.all if d not in jtu.dtypes.complex]


def argminmax():
    cases = [("dtypes", dtype, RandArg((15,), dtype), 0, np.int32) for dtype in _real()]
    cases.append(("axes", np.float32, RandArg((18, 12), np.float32), 1, np.int32))
    for index in [*jtu.dtypes.all_integer, *jtu.dtypes.all_unsigned]:
        cases.append(("index_dtype", np.float32, RandArg((15,), np.float32), 0, index))
    for name, values in _SPECIAL.items():
        operand = values if isinstance(values, np.ndarray) else np.array(values, np.float32)
        cases.append((f"special_{name}", operand.dtype, operand, 0, np.int32))
    for primitive in (lax.argmin_p, lax.argmax_p):
        for head, dtype, operand, axis, index in cases:
            for enable_xla in (True, False):
                yield _argminmax_case(primitive, head, dtype, operand, (axis,), index, enable_xla)


def _argminmax_case(primitive, head, dtype, operand, axes, index, enable_xla):
    return Harness(
        str(primitive),
        named(
            head,
            shape=shaped(operand.shape, dtype),
            axes=axes,
            indexdtype=jtu.dtype_str(index),
            enable_xla=enable_xla,
        ),
        lambda operand: primitive.bind(operand, axes=axes, index_dtype=np.dtype(index)),
        [operand],
        dtype=dtype,
        shape=operand.shape,
        axes=axes,
        index_dtype=np.dtype(index),
        prim=primitive,
        enable_xla=enable_xla,
    )


def _cumulative_case(function, head, dtype, axis, reverse, associative, shape=(8, 9)):
    return Harness(
        function.__name__,
        named(
            head,
            shape=shaped(shape, dtype) + ("_associative_scan_reductions" if associative else ""),
            axis=axis,
            reverse=reverse,
        ),
        function,
        [RandArg(shape, dtype), StaticArg(axis), StaticArg(reverse)],
        dtype=dtype,
        f_jax=function,
        shape=shape,
        axis=axis,
        reverse=reverse,
        associative_scan_reductions=associative,
    )


def cumulative():
    numeric = [d for d in jtu.dtypes.all if d != np.bool_]
    smooth = [d for d in jtu.dtypes.all_floating if d in (np.float16, np.float32, np.float64)]
    for function, dtypes in (
        (lax.cummin, numeric),
        (lax.cummax, numeric),
        (lax.cumlogsumexp, smooth),
        (lax.cumsum, numeric),
        (lax.cumprod, numeric),
    ):
        cases = [("dtype_by_fun", dtype, 0, False) for dtype in dtypes]
        cases += [("axis_by_fun", np.float32, axis, False) for axis in (0, 1)]
        cases.append(("reverse", np.float32, 0, True))
        for case in cases:
            for associative in (False, True):
                yield _cumulative_case(function, *case, associative)


def top_k():
    cases = [("dtypes", d, RandArg((5, 3), d), 2) for d in _real()]
    for head, values, k in (
        ("stability", np.array([5, 7, 5, 8, 8, 5], np.int32), 3),
        ("sort_inf_nan", np.array([_INF, _NAN, -_NAN, -_INF, 3], np.float32), 5),
    ):
        cases.append((head, values.dtype, values, k))
    for head, dtype, operand, k in cases:
        yield Harness(
            "top_k",
            named(head, inshape=shaped(operand.shape, dtype), k=k),
            lax.top_k,
            [operand, StaticArg(k)],
            dtype=dtype,
            shape=operand.shape,
            k=k,
        )


def _sort_case(head, operands, dtype, dimension, stable, keys):
    shape, number = operands[0].shape, len(operands)
    return Harness(
        "sort",
        named(
            head,
            num_arrays=number,
            shape=shaped(shape, dtype),
            axis=dimension,
            isstable=stable,
            num_keys=keys,
        ),
        lambda *arguments: lax.sort_p.bind(
            *arguments[:-3],
            dimension=arguments[-3],
            is_stable=arguments[-2],
            num_keys=arguments[-1],
        ),
        [*operands, StaticArg(dimension), StaticArg(stable), StaticArg(keys)],
        dtype=dtype,
        shape=shape,
        dimension=dimension,
        is_stable=stable,
        num_keys=keys,
        num_arrays=number,
    )


def sorts():
    for dtype in jtu.dtypes.all:
        yield _sort_case("dtypes", [RandArg((5, 7), dtype)], dtype, 0, False, 1)
    for dimension in (0, 1):
        operand = RandArg((5, 7), np.float32)
        yield _sort_case("dimensions", [operand], np.float32, dimension, False, 1)
    yield _sort_case("is_stable", [RandArg((5, 7), np.float32)], np.float32, 0, True, 1)
    edges = np.array([_INF, _NAN, -_NAN, -_INF, 2], np.float32)
    yield _sort_case("edge_cases", [edges], edges.dtype, 0, False, 1)
    # Many equal keys, so that the further keys, and stability, decide.
    first = np.random.RandomState(0).randint(0, 2, size=(100,)).astype(np.int32)
    further = [RandArg((100,), np.int32), RandArg((100,), np.float32)]
    for stable in (False, True):
        for number in (2, 3):
            for keys in range(1, number + 1):
                operands = [first, *further[: number - 1]]
                yield _sort_case("multiple_arrays", operands, first.dtype, 0, stable, keys)


def approx_top_k():
    def chosen(operand, is_max):
        return (lax.approx_max_k if is_max else lax.approx_min_k)(operand, k=4)

    for is_max in (True, False):
        for dtype in jtu.dtypes.all_floating:
            for shape in ((32,), (2048,), (16, 256)):
                large = bool(np.prod(shape) > 1024)
                yield Harness(
                    "approx_top_k",
                    named(f"large={large}", max=is_max, op=shaped(shape, dtype)),
                    chosen,
                    [RandArg(shape, dtype), StaticArg(is_max)],
                    dtype=dtype,
                    is_max=is_max,
                    shape=shape,
                )
