"""Harnesses of gathers and scatters."""

from functools import partial

import numpy as np

from jax import lax, numpy as jnp
from jax._src import test_util as jtu
from jax._src.internal_test_util.harness_tables.harness import (
    Harness,
    Limitation,
    RandArg,
    StaticArg,
)
from jax._src.internal_test_util.harness_tables.naming import named, shaped

_CUBE = (10, 10, 10)

# Indices to take, by name.
_TAKEN = {
    "1": np.array(2, np.int32),
    "2": np.array([2], np.int32),
    "3": np.array([2, 4], np.int32),
    "3_uint32": np.array([2, 4], np.uint32),
    "4": np.array([[2, 4], [5, 6]], np.int32),
    "5_oob": np.array([[0], [1], [10]], np.int32),
    "6_neg": np.array([[0, 1], [2, -1]], np.int32),
    "7_neg": np.array([0, 1, 2, 3, -10], np.int32),
    "8_neg_oob": np.array([[[0], [1]], [[3], [-11]]], np.int32),
}

# Indices of cubes, by name.
_SLICED = {
    "0": (0,),
    "0_1": (0, 1),
    ":_:2_:": (slice(0, 10), 2, slice(0, 10)),
    "2:5_5": (slice(2, 5), 5),
    "-1_-5_-200": (-1, -5, -200),
    "5:-2_300": (slice(5, -2), 300),
}


def _dimensions(offset, collapsed, start, operand_batch=(), indices_batch=()):
    return lax.GatherDimensionNumbers(
        offset_dims=offset,
        collapsed_slice_dims=collapsed,
        start_index_map=start,
        operand_batching_dims=operand_batch,
        start_indices_batching_dims=indices_batch,
    )


# Shapes of operands, indices, dimensions and sizes of slices.
_GATHERS = [
    ((5,), [[0], [2]], _dimensions((), (0,), (0,)), (1,)),
    ((10,), [[0], [0], [0]], _dimensions((1,), (), (0,)), (2,)),
    ((10, 5), [[0], [2], [1]], _dimensions((1,), (0,), (0,)), (1, 3)),
    ((10, 6), [[0, 2], [1, 0]], _dimensions((1,), (0,), (0, 1)), (1, 3)),
    ((2, 5), [[[0], [2]], [[1], [1]]], _dimensions((), (1,), (1,), (0,), (0,)), (1, 1)),
    (
        (2, 3, 10),
        [[[0], [1]], [[2], [3]], [[4], [5]]],
        _dimensions((2,), (), (2,), (0, 1), (1, 0)),
        (1, 1, 3),
    ),
]
_FIRST_OF_TWO = _dimensions((1,), (0,), (0, 1))
_FIRST_OF_THREE = _dimensions((1, 2), (0,), (0, 1, 2))
_WITH_BATCHES = [
    ((4, 6), [[0, 1], [1, 2], [2, 3], [3, 2]], _FIRST_OF_TWO, (1, 3)),
    ((1, 2), [[0, 1]], _dimensions((), (0, 1), (0, 1)), (1, 1)),
    ((2, 6, 3), [[0, 1, 0], [1, 2, 0]], _FIRST_OF_THREE, (1, 3, 3)),
    ((3, 10), [[0, 0], [1, 8], [2, 0]], _FIRST_OF_TWO, (1, 5)),
    ((2, 3, 3), [[0, 1, 0], [1, 2, 1]], _FIRST_OF_THREE, (1, 3, 2)),
]
_PLACES = [[[0, 1], [1, 0], [0, 1], [1, 0]]]
_LAST_TWO = _dimensions((2, 3, 4), (), (1, 2))
_OF_CUBES = [
    (_CUBE, _PLACES, _LAST_TWO, (2, 2, 2)),
    (_CUBE, [[[-1, 1], [1, -1], [0, -1], [-1, 0]]], _LAST_TWO, (2, 2, 3)),
    (_CUBE, [[[1, 1], [1, 1], [0, 1], [2**31 - 1, 0]]], _LAST_TWO, (2, 3, 3)),
    (_CUBE, _PLACES, _dimensions((2, 3, 4), (), (2, 1)), (2, 2, 2)),
    (_CUBE, _PLACES, _LAST_TWO, _CUBE),
    (
        (10, 10, 10, 10),
        [[[[0, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]]]],
        _dimensions((1, 2, 3, 4), (), (1, 2, 3)),
        (10, 2, 2, 2),
    ),
    (_CUBE, _PLACES, _LAST_TWO, (10, 2, 2)),
]


def takes():
    for dtype in jtu.dtypes.all:
        yield Harness(
            "gather",
            named("dtypes", shape=shaped((10,), dtype), axis=0, enable_xla=True),
            lambda operand, indices, axis: jnp.take(operand, indices, axis=axis),
            [RandArg((10,), dtype), np.array(2, np.int32), StaticArg(0)],
            dtype=dtype,
            enable_xla=True,
        )
    cube = np.arange(1000, dtype=np.float32).reshape(_CUBE)
    for name, indices in _TAKEN.items():
        for axis in range(3):
            for enable_xla in (True, False):
                for mode in ("clip", "fill"):
                    yield Harness(
                        "gather",
                        named(
                            f"from_take_indices_name={name}", axis=axis, enable_xla=enable_xla,
                            mode=mode,
                        ),
                        lambda operand, indices, axis, mode: jnp.take(
                            operand, indices, axis=axis, mode=mode
                        ),
                        [cube, indices, StaticArg(axis), StaticArg(mode)],
                        dtype=cube.dtype,
                        enable_xla=enable_xla,
                        index_oob="oob" in name,
                        mode=mode,
                    )  # fmt: skip
    for name, index in _SLICED.items():
        for enable_xla in (False, True):
            yield Harness(
                "gather",
                named(f"from_slicing_name={name}", enable_xla=enable_xla),
                lambda operand, index: jnp.array(operand)[index],
                [cube, StaticArg(index)],
                dtype=cube.dtype,
                enable_xla=enable_xla,
            )


def _gather_case(name, shape, indices, dimensions, sizes, enable_xla):
    return Harness(
        "gather",
        named(name, slice_sizes=sizes, enable_xla=enable_xla),
        lambda operand, indices, dimensions, sizes: lax.gather(
            operand, indices, dimension_numbers=dimensions, slice_sizes=sizes
        ),
        [RandArg(shape, np.float32), indices, StaticArg(dimensions), StaticArg(sizes)],
        dtype=np.float32,
        enable_xla=enable_xla,
    )


def gathers():
    for shape, places, dimensions, sizes in _GATHERS:
        indices = np.array(places)
        name = f"shape={shape}_idxs_shape={indices.shape}_dnums={dimensions}"
        for enable_xla in (True, False) if shape == (5,) else (True,):
            yield _gather_case(name, shape, indices, dimensions, sizes, enable_xla)
    for shape, places, dimensions, sizes in _WITH_BATCHES:
        indices = np.array(places)
        name = named("batchdims", shape=shape, start_indices_shape=indices.shape)
        for enable_xla in (True, False):
            yield _gather_case(name, shape, indices, dimensions, sizes, enable_xla)
    for shape, places, dimensions, sizes in _OF_CUBES:
        indices = np.array(places)
        name = named(
            "op",
            shape=shape,
            offset_dims=dimensions.offset_dims,
            start_index_map=dimensions.start_index_map,
            start_indices_shape=indices.shape,
        )
        for enable_xla in (True, False):
            yield _gather_case(name, shape, indices, dimensions, sizes, enable_xla)


_SCATTERS = (lax.scatter, lax.scatter_add, lax.scatter_mul, lax.scatter_max, lax.scatter_min)
_FILL, _IN_BOUNDS = lax.GatherScatterMode.FILL_OR_DROP, lax.GatherScatterMode.PROMISE_IN_BOUNDS

# Shapes of operands, indices, shapes of updates and dimensions.
_Target = tuple[tuple, list, tuple, tuple]
_POINTS: _Target = ((5,), [[0], [2]], (2,), ((), (0,), (0,)))
_OUTSIDE: _Target = ((1, 5), [10], (1,), ((0,), (1,), (1,)))
_OVERLAPS: list[_Target] = [
    ((10,), [[0], [0], [0]], (3, 2), ((1,), (), (0,))),
    ((10, 5), [[0], [2], [1]], (3, 3), ((1,), (0,), (0,))),
    (
        (2, 3, 10),
        [[[0], [1]], [[2], [3]], [[4], [5]]],
        (3, 2, 3),
        ((2,), (), (2,), (0, 1), (1, 0)),
    ),
]
_DISTINCT: list[_Target] = [
    ((1,), [0], (), ((), (0,), (0,))),
    ((1, 1), [0], (1,), ((0,), (0,), (0,))),
    ((1, 1, 1), [0], (1, 1), ((0, 1), (0,), (0,))),
    ((1, 50, 3), [32], (1, 3), ((0, 1), (1,), (1,))),
    ((1, 2, 3), [1], (1, 3), ((0, 1), (1,), (1,))),
    ((1, 2, 3), [0], (2, 3), ((0, 1), (0,), (0,))),
    ((1, 2, 3), [1, 2], (1,), ((0,), (1, 2), (1, 2))),
    ((4, 2, 3), [3, 2], (2,), ((0,), (0, 2), (0, 2))),
    ((4, 2, 3, 5), [0, 4], (4, 3), ((0, 1), (1, 3), (1, 3))),
    ((5, 6, 7), [[0, 1], [2, 3]], (2, 7), ((1,), (0, 1), (0, 1))),
    ((5, 6, 7), [[[0], [1]], [[2], [3]]], (5, 2, 2, 7), ((0, 3), (1,), (1,))),
    (
        (5, 6, 7),
        [[[0, 1], [2, 3]], [[4, 0], [1, 2]]],
        (5, 2, 2),
        ((0,), (1, 2), (1, 2)),
    ),
    ((1, 125), [0], (1,), ((0,), (1,), (1,))),
]
_REPEATED: list[_Target] = [
    ((1,), [[0], [0]], (2,), ((), (0,), (0,))),
    ((3,), [[1], [0], [1]], (3,), ((), (0,), (0,))),
    ((2, 3), [[[2], [2], [2]]], (2, 1, 3), ((0,), (1,), (1,))),
    ((3, 5, 40), [[1], [1]], (3, 5, 2), ((0, 1), (2,), (2,))),
    ((3, 5, 4), [[1], [1]], (3, 2, 4), ((0, 2), (1,), (1,))),
]


def _scatter_case(
    function, head, target, dtype, *, sort=False, unique=False, mode=_FILL, enable_xla=True
):
    shape, places, update, dimensions = target
    indices = np.array(places)
    numbers = lax.ScatterDimensionNumbers(*dimensions)
    return Harness(
        function.__name__,
        named(
            head,
            shape=shaped(shape, dtype),
            scatterindices=indices.tolist(),
            updateshape=update,
            dimension_numbers=numbers,
            indicesaresorted=sort,
            uniqueindices=unique,
            mode=mode,
            enablexla=enable_xla,
        ),
        partial(function, indices_are_sorted=sort, unique_indices=unique, mode=mode),
        [RandArg(shape, dtype), StaticArg(indices), RandArg(update, dtype), StaticArg(numbers)],
        dtype=dtype,
        jax_unimplemented=[
            Limitation(
                "unimplemented",
                dtypes=[np.bool_],
                enabled=function in (lax.scatter_add, lax.scatter_mul),
            )
        ],
        f_lax=function,
        shape=shape,
        scatter_indices=indices,
        update_shape=update,
        dimension_numbers=numbers,
        indices_are_sorted=sort,
        unique_indices=unique,
        mode=mode,
        enable_xla=enable_xla,
    )


def scatters():
    for dtype in jtu.dtypes.all:
        for function in _SCATTERS:
            yield _scatter_case(function, "dtypes", _POINTS, dtype)
    for target in _OVERLAPS:
        yield _scatter_case(lax.scatter_min, "shapes_and_dimension_numbers", target, np.float32)
    yield _scatter_case(lax.scatter_min, "indices_are_sorted", _POINTS, np.float32, sort=True)


def scatters_by_mode():
    for mode in (_IN_BOUNDS, _FILL):
        for function in (*_SCATTERS[1:], lax.scatter):
            yield _scatter_case(function, "modes_in_bounds", _POINTS, np.float32, mode=mode)
            for enable_xla in (True, False):
                yield _scatter_case(
                    function, "modes_out_of_bounds", _OUTSIDE, np.float32, mode=mode,
                    enable_xla=enable_xla,
                )  # fmt: skip


def scatters_without_xla():
    """Scatters that converters to other compilers have means for besides XLA's."""
    dtypes = [
        *jtu.dtypes.all_floating, *jtu.dtypes.all_integer, *jtu.dtypes.all_unsigned,
    ]  # fmt: skip
    for head, targets, functions, unique in (
        ("no_xla_unique_indices", _DISTINCT, (*_SCATTERS[1:], lax.scatter), True),
        ("no_xla_non_unique_indices", _REPEATED, _SCATTERS[1:], False),
    ):
        for dtype in dtypes:
            for function in functions:
                for target in targets:
                    for mode in (_IN_BOUNDS, _FILL):
                        for enable_xla in (True, False):
                            yield _scatter_case(
                                function, head, target, dtype, unique=unique, mode=mode,
                                enable_xla=enable_xla,
                            )  # fmt: skip
