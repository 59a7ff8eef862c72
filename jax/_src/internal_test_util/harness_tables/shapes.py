"""Harnesses of operations on shapes and places of elements."""

import numpy as np

import jax
from jax import lax
from jax._src import test_util as jtu
from jax._src.internal_test_util.harness_tables.harness import (
    CustomArg,
    Harness,
    RandArg,
    StaticArg,
)
from jax._src.internal_test_util.harness_tables.naming import named, shaped


def _of_all(head, *values):
    """Cases for each type."""
    return [(head, dtype, *values) for dtype in jtu.dtypes.all]


def reshape():
    cases = _of_all("dtypes", (2, 3), (3, 2), (0, 1))
    for sizes in ((3, 20), (4, 15)):
        cases.append(("new_sizes", np.float32, (3, 4, 5), sizes, (0, 1, 2)))
    for dimensions in ((2, 1, 0), (2, 0, 1)):
        cases.append(("dimensions", np.float32, (3, 4, 5), (3, 20), dimensions))
    for head, dtype, shape, sizes, dimensions in cases:
        yield Harness(
            "reshape",
            named(head, shape=shaped(shape, dtype), newsizes=sizes, dimensions=dimensions),
            lax.reshape,
            [RandArg(shape, dtype), StaticArg(sizes), StaticArg(dimensions)],
            dtype=dtype,
            shape=shape,
            new_sizes=sizes,
            dimensions=dimensions,
        )


def rev():
    cases = _of_all("dtypes", (4, 5), (0,))
    cases += [
        ("dimensions", np.float32, (3, 4, 5), dimensions)
        for dimensions in ((), (0, 2), (0, 1, 2), (2, 0, 1))
    ]
    for head, dtype, shape, dimensions in cases:
        yield Harness(
            "rev",
            named(head, shape=shaped(shape, dtype), dimensions=dimensions),
            lax.rev,
            [RandArg(shape, dtype), StaticArg(dimensions)],
            dtype=dtype,
            shape=shape,
            dimensions=dimensions,
        )


def device_put():
    shape = (3, 4)

    def put(device):
        return lambda operand: jax.device_put(operand, device and jax.devices(device)[0])

    for head, dtype, device in [*_of_all("dtypes", None), ("devices", np.float32, "cpu")]:
        yield Harness(
            "device_put",
            named(head, shape=shaped(shape, dtype), device=device)
            + ("" if device is None else "_"),
            put(device),
            [RandArg(shape, dtype)],
            dtype=dtype,
            shape=shape,
            device=device,
        )


def iota():
    cases = [case for case in _of_all("dtypes", (2, 3), 0) if case[1] != np.bool_]
    cases += [("broadcasting", np.float32, (4, 8, 1, 1), dimension) for dimension in (1, 2)]
    for head, dtype, shape, dimension in cases:
        yield Harness(
            "iota",
            named(head, shape=shaped(shape, dtype), dimension=dimension),
            lax.broadcasted_iota,
            [StaticArg(dtype), StaticArg(shape), StaticArg(dimension)],
            dtype=dtype,
            shape=shape,
            dimension=dimension,
            sharding=None,
        )


def broadcast_in_dim():
    cases = _of_all("dtypes", (2,), (2,), (0,))
    cases += [
        ("parameter_combinations", np.float32, *case)
        for case in (
            ((2,), (3, 2), (1,)),
            ((2,), (2, 3), (0,)),
            ((), (2, 3), ()),
            ((1, 2), (4, 3, 2), (0, 2)),
        )
    ]
    for head, dtype, shape, out, dimensions in cases:
        yield Harness(
            "broadcast_in_dim",
            named(head, shape=shaped(shape, dtype), outshape=out, broadcastdimensions=dimensions),
            lambda operand, out=out, dimensions=dimensions: lax.broadcast_in_dim(
                operand, out, dimensions
            ),
            [RandArg(shape, dtype)],
            dtype=dtype,
            shape=shape,
            outshape=out,
            broadcast_dimensions=dimensions,
        )


def pad():
    shape = (2, 3)
    for dtype in jtu.dtypes.all:
        for pads in (
            [(0, 0, 0), (0, 0, 0)],
            [(1, 1, 0), (2, 2, 0)],
            [(1, 2, 1), (0, 1, 0)],
            [(0, 0, 0), (-1, -1, 0)],
            [(0, 0, 0), (-2, -2, 4)],
            [(0, 0, 0), (-2, -3, 1)],
        ):
            for enable_xla in (True, False):
                yield Harness(
                    "pad",
                    named(f"inshape={shaped(shape, dtype)}", pads=pads, enable_xla=enable_xla),
                    lax.pad,
                    [RandArg(shape, dtype), np.array(0, dtype), StaticArg(pads)],
                    rng_factory=jtu.rand_small,
                    dtype=dtype,
                    arg_shape=shape,
                    pads=pads,
                    enable_xla=enable_xla,
                )


def select_n():
    shape = (2, 3)
    selectors = (np.bool_, np.int32)
    cases = [("dtypes", which, shape, d, shape) for d in jtu.dtypes.all for which in selectors]
    cases += [("shapes", which, (), np.float32, (18,)) for which in selectors]
    for head, which, which_shape, dtype, shape in cases:
        if which == np.bool_:
            selector, number = RandArg(which_shape, which), 2
        else:
            number = 3
            selector = CustomArg(
                # Of the shape of what it selects from, also where the name has a scalar.
                lambda rng, size=shape: rng.randint(0, high=3, size=size, dtype=np.int32)
            )
        yield Harness(
            "select_n",
            named(head, shapepred=shaped(which_shape, which), shapeargs=shaped(shape, dtype)),
            lax.select_n,
            [selector, *[RandArg(shape, dtype)] * number],
            dtype=dtype,
            shape_pred=which_shape,
            shape_args=shape,
        )


def transpose():
    cases = _of_all("dtypes", (2, 3), (1, 0))
    cases += [("permutations", np.float32, (2, 3, 4), p) for p in ((0, 1, 2), (1, 2, 0))]
    for head, dtype, shape, permutation in cases:
        yield Harness(
            "transpose",
            named(head, shape=shaped(shape, dtype), permutation=permutation),
            lambda operand, permutation=permutation: lax.transpose_p.bind(
                operand, permutation=permutation
            ),
            [RandArg(shape, dtype)],
            dtype=dtype,
            shape=shape,
            permutation=permutation,
        )


def slice_():
    cases = _of_all("dtypes", (3,), (1,), (2,), None)
    cases += [
        ("shapes", np.float32, *case)
        for case in (
            ((3,), (1,), (2,), None),
            ((7,), (4,), (7,), None),
            ((5,), (1,), (5,), (2,)),
            ((8,), (1,), (6,), (2,)),
            ((5, 3), (1, 1), (3, 2), None),
            ((5, 3), (1, 1), (3, 1), None),
            ((7, 5, 3), (4, 0, 1), (7, 1, 3), None),
            ((5, 3), (1, 1), (2, 1), (1, 1)),
            ((5, 3), (1, 1), (5, 3), (2, 1)),
        )
    ]
    for head, dtype, shape, start, limit, strides in cases:
        yield Harness(
            "slice",
            named(
                head, a=shaped(shape, dtype), start_indices=start, limit_indices=limit,
                strides=strides,
            ),
            lax.slice,
            [RandArg(shape, dtype), StaticArg(start), StaticArg(limit), StaticArg(strides)],
            dtype=dtype,
            shape=shape,
            start_indices=start,
            limit_indices=limit,
        )  # fmt: skip


def _unsigned(value):
    """Indices, each one of a few types."""
    return [(np.array(value, dtype),) for dtype in (np.uint32, np.uint8)]


def dynamic_slice():
    cases = _of_all("dtypes", (3,), (1,), (2,))
    plain = [
        ((3,), (1,), (2,)), ((7,), (4,), (7,)), ((5,), (1,), (5,)), ((8,), (1,), (6,)),
        ((5, 3), (1, 1), (3, 2)), ((7, 5, 3), (4, 0, 1), (7, 1, 3)), ((5, 3), (1, 1), (2, 1)),
        *[((3,), *indices) for indices in zip(_unsigned(1), _unsigned(2), strict=True)],
    ]  # fmt: skip
    outside = [
        (-1, 0), (-1, 1), (-4, -2), (-5, -2), (-6, -5), (-10, -9), (-100, -99), (5, 6), (10, 11),
        (3, 6),
    ]  # fmt: skip
    plain += [((5,), (start,), (limit,)) for start, limit in outside]
    cases += [("shapes", np.float32, *case) for case in plain]
    for head, dtype, shape, start, limit in cases:
        for enable_xla in (False, True):
            sizes = tuple(high - low for low, high in zip(start, limit, strict=True))
            yield Harness(
                "dynamic_slice",
                named(
                    head, a=shaped(shape, dtype), start_indices=start, limit_indices=limit,
                    enablexla=enable_xla,
                ),
                lax.dynamic_slice,
                [RandArg(shape, dtype), np.array(list(start)), StaticArg(sizes)],
                dtype=dtype,
                shape=shape,
                start_indices=start,
                limit_indices=limit,
                enable_xla=enable_xla,
            )  # fmt: skip


def dynamic_update_slice():
    cases = _of_all("dtypes", (3,), (1,), (1,))
    cases += [
        ("shapes", np.float32, *case)
        for case in (
            ((3,), (1,), (1,)),
            ((5, 3), (1, 1), (3, 1)),
            ((7, 5, 3), (4, 1, 0), (2, 0, 1)),
            *[((3,), start, (1,)) for start in _unsigned(1)],
            ((3,), (-1,), (1,)),
            ((3,), (10,), (1,)),
            ((3,), (10,), (2,)),
        )
    ]
    for head, dtype, shape, start, update in cases:
        for enable_xla in (False, True):
            yield Harness(
                "dynamic_update_slice",
                named(
                    head, operand=shaped(shape, dtype), update=shaped(update, dtype),
                    start_indices=start, enable_xla=enable_xla,
                ),
                lax.dynamic_update_slice,
                [RandArg(shape, dtype), RandArg(update, dtype), np.array(list(start))],
                dtype=dtype,
                shape=shape,
                start_indices=start,
                update_shape=update,
                enable_xla=enable_xla,
            )  # fmt: skip


def squeeze():
    cases = _of_all("dtypes", (1, 2), (0,))
    cases += [
        ("shapes", np.float32, *case)
        for case in (
            ((1,), (0,)),
            ((1,), (-1,)),
            ((2, 1, 4), (1,)),
            ((2, 1, 4), (-2,)),
            ((2, 1, 3, 1), (1,)),
            ((2, 1, 3, 1), (1, 3)),
            ((2, 1, 3, 1), (3,)),
            ((2, 1, 3, 1), (1, -1)),
        )
    ]
    for head, dtype, shape, dimensions in cases:
        yield Harness(
            "squeeze",
            named(head, inshape=shaped(shape, dtype), dimensions=dimensions),
            lax.squeeze,
            [RandArg(shape, dtype), StaticArg(dimensions)],
            dtype=dtype,
            arg_shape=shape,
            dimensions=dimensions,
        )


def concatenate():
    cases = _of_all("dtypes", [(2, 3), (2, 3)], 0)
    cases.append(("dimension", np.float32, [(2, 3), (2, 3)], 1))
    cases.append(("nb_operands", np.float32, [(2, 3, 4), (3, 3, 4), (4, 3, 4)], 0))
    for head, dtype, shapes, dimension in cases:
        yield Harness(
            "concatenate",
            named(
                head,
                shapes="_".join(shaped(shape, dtype) for shape in shapes),
                dimension=dimension,
            ),
            lambda *operands, dimension=dimension: lax.concatenate(operands, dimension),
            [RandArg(shape, dtype) for shape in shapes],
            dtype=dtype,
            shapes=shapes,
            dimension=dimension,
        )
