"""Types of operations of other tables in shard_map where operands vary over a mesh axis; see op_cases.py."""

import re

import fft_cases
import lax_dot_conv_cases
import lax_elementwise_cases
import lax_linalg_cases
import lax_reductions_cases
import lax_shape_cases
import lax_slicing_cases
import lax_sort_cases
import nn_cases
import numpy as np
import numpy_manipulation_cases
import numpy_reductions_cases
import numpy_sorting_cases
import random_cases
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, AxisType, PartitionSpec as P

CASES = Programs()
MESH = AbstractMesh((2,), ("i",), (AxisType.Auto,))
TABLES = (
    lax_elementwise_cases,
    lax_shape_cases,
    lax_reductions_cases,
    lax_slicing_cases,
    lax_sort_cases,
    lax_dot_conv_cases,
    lax_linalg_cases,
    fft_cases,
    numpy_manipulation_cases,
    numpy_sorting_cases,
    numpy_reductions_cases,
    nn_cases,
    random_cases,
)
# One case of each operation: not those of other dtypes, and of errors.
LEFT_OUT = re.compile(
    r"error|bool|int\d|float(16|64|8)|bfloat|complex|x64|special|_fmt|philox|rbg|4x32|dtypes|_p$|(eq|lt|le)_to"
)
# The oracle raises errors for these, or its types of what is sorted by varying keys do not vary, or (of empty arrays) they do.
DIFFERENT = re.compile(
    r"compress|nomial|sort_key_val|argsort|(search|int_)sort|searchsorted_(int_)?sort|one_hot_named|mapped_|piecewise|barrier|gamma|"
    r"dirichlet|beta|^f$|^t$|chisquare|empty|permutation|choice|qdwh|poisson_rates|digitize_none|argwhere_scalar|generalized_normal"
)
TOGETHER = 20


def types(fun, args, varies):
    found = []

    def body(*xs):
        xs = [lax.pcast(x, "i", to="varying") if v else x for x, v in zip(xs, varies)]
        found.extend(str(jax.typeof(y)) for y in jax.tree.leaves(fun(*xs)))
        return jnp.zeros(())

    try:
        jax.make_jaxpr(jax.shard_map(body, mesh=MESH, in_specs=P(), out_specs=P()))(*args)
    except Exception as err:
        return type(err).__name__
    return ", ".join(found)


def inexact(x):
    return np.issubdtype(x.dtype, np.inexact)


def pulled(fun, args):
    """Cotangents of the floating-point arguments for the results as cotangents."""
    at = [i for i, a in enumerate(args) if inexact(a)]

    def run(*xs):
        def of_inexact(*ys):
            full = list(xs)
            for i, y in zip(at, ys):
                full[i] = y
            return [y for y in jax.tree.leaves(fun(*full)) if jnp.issubdtype(y.dtype, np.inexact)]

        outs, pull = jax.vjp(of_inexact, *[xs[i] for i in at])
        return pull(outs)

    return run


def variants(n):
    yield "none", [False] * n
    if n:
        yield "all", [True] * n
    if n > 1:
        for i in range(n):
            yield str(i), [i == j for j in range(n)]


def lines(cases):
    out = []
    for case in cases:
        differentiable = case.diff in ("both", "fwd") and any(inexact(a) for a in case.args)
        for label, varies in variants(len(case.args)):
            out.append(f"{case.name} {label}: {types(case.fun, case.args, varies)}")
            if differentiable and label != "none":
                out.append(
                    f"{case.name} {label} grad: {types(pulled(case.fun, case.args), case.args, varies)}"
                )
    return "\n".join(out)


for table in TABLES:
    cases = [
        c for c in table.CASES
        if not (c.program or c.x64 or c.warns or LEFT_OUT.search(c.name) or DIFFERENT.search(c.name))
    ]  # fmt: skip
    for start in range(0, len(cases), TOGETHER):
        CASES.add(
            f"{table.__name__}_{start}", lambda part=cases[start : start + TOGETHER]: lines(part)
        )
