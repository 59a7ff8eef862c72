"""A sample of calls of `jax.numpy` functions with all their arguments; the calls of a family are compiled together.

A call that raises an error is represented by the error's class.
"""

import functools
import itertools
import warnings

import numpy as np
from op_cases import Programs, values
from quickly import QUICKLY

import jax
import jax.numpy as jnp

CASES = Programs()
SAMPLE = 6  # calls of a function
SHAPE = (3, 4)
X = {d: values(SHAPE, d, "calls") for d in ("float32", "int32", "bool", "complex64", "bfloat16", "uint8")}  # fmt: skip
MASK, SIDE = values(SHAPE, "bool", "mask"), values((4,), "float32", "side")
GAPS = values(SHAPE, "float32", "gaps", special=True)
REAL, NUMBERS, ANY = ["float32", "int32", "bfloat16", "uint8"], ["float32", "int32", "complex64"], list(X)  # fmt: skip
AXIS = {"axis": [None, 0, -1], "keepdims": [False, True]}
AXES = {"axis": [None, 0, -1, (0, 1), ()], "keepdims": [False, True]}
WHERE = {"where": [None, MASK]}
DTYPE = {"dtype": [None, "float32", "int16", "complex64"]}
OUT = {"out": [None, None, None, X["float32"]]}
ORDER = {"order": ["C", "F"]}
INDICES = np.array([[0, 5], [-1, 2]])

# A family: for functions, the dtypes of their first argument, other positional arguments, choices of keywords.
FAMILIES = {
    "reductions": {
        "sum prod": (ANY, [], AXES | WHERE | DTYPE | OUT | {"initial": [None, 2]}),
        "max min": (REAL, [], AXES | OUT | {"initial": [0, 3], "where": [None, MASK]}),
        "all any count_nonzero": (ANY, [], AXES),
        "mean": (ANY, [], AXES | WHERE | OUT | {"dtype": [None, "float32"]}),
        "std var": (NUMBERS, [], AXES | WHERE | {"ddof": [0, 1], "correction": [None, None, 0.5]}),
        "ptp": (REAL, [], AXIS | OUT),
        "argmax argmin": (REAL, [], AXIS | OUT),
        "median": (REAL, [], AXIS | OUT | {"overwrite_input": [False, False, True]}),
        "average": (REAL, [], {"axis": [-1, 1], "weights": [None, SIDE], "returned": [False, True], "keepdims": [False, True]}),
        "quantile percentile": (REAL, [np.float32([0.25, 0.5])], AXIS | OUT | {"method": ["linear", "lower", "midpoint", "nearest"]}),
        "cumsum cumprod": (NUMBERS, [], {"axis": [None, 0, 1]} | DTYPE | OUT),
        "cumulative_sum cumulative_prod": (NUMBERS, [], {"axis": [0, 1], "include_initial": [False, True]} | DTYPE),
        "diff": (NUMBERS, [], {"n": [0, 1, 2], "axis": [0, -1], "prepend": [None, 1], "append": [None, 0]}),
        "gradient": (["float32"], [], {"axis": [None, 0, (0, 1)]}),
        "trapezoid": (["float32"], [], {"x": [None, SIDE], "dx": [1.0, 0.5], "axis": [-1]}),
    },
    "gaps": {
        "nansum nanprod": (["gaps"], [], AXES | WHERE | OUT | {"initial": [None, 2]}),
        "nanmax nanmin": (["gaps"], [], AXES | OUT | {"initial": [None, 3], "where": [None]}),
        "nanmean": (["gaps"], [], AXES | WHERE | OUT),
        "nanstd nanvar": (["gaps"], [], AXES | WHERE | OUT | {"ddof": [0, 1]}),
        "nanmedian": (["gaps"], [], AXIS | OUT),
        "nanquantile nanpercentile": (["gaps"], [0.5], AXIS | {"method": ["linear", "higher"]}),
        "nanargmax nanargmin": (["float32"], [], AXIS | OUT),
        "nancumsum nancumprod": (["gaps"], [], {"axis": [None, 0, 1]} | OUT),
        "nan_to_num": (["gaps"], [], {"nan": [0.0, 7.0], "posinf": [None, 1.0], "neginf": [None, -1.0], "copy": [True, False]}),
    },
    "shapes": {
        "reshape": (ANY, [(2, -1)], ORDER | {"copy": [None, True]}),
        "ravel": (ANY, [], ORDER),
        "flip": (ANY, [], {"axis": [None, 0, (0, 1)]}),
        "rot90": (ANY, [], {"k": [0, 1, 3, -1], "axes": [(0, 1), (1, 0)]}),
        "roll": (ANY, [], {"shift": [1, -5, (1, 2)], "axis": [0, (0, 1)]}),
        "expand_dims": (ANY, [], {"axis": [0, -1, (0, 2)]}),
        "moveaxis": (ANY, [0, -1], {}),
        "repeat": (ANY, [2], {"axis": [None, 0, 1], "total_repeat_length": [None, 5]}),
        "tile": (ANY, [(2, 1, 2)], {}),
        "pad": (REAL, [((1, 0), (2, 1))], {"mode": ["constant", "edge", "reflect", "symmetric", "wrap", "maximum", "mean", "linear_ramp", "median", "minimum"]}),
        "array_split split": (ANY, [2], {"axis": [1]}),
        "tril triu": (ANY, [], {"k": [-1, 0, 2]}),
        "diag diagonal": (ANY, [], {}),
        "diagonal": (ANY, [], {"offset": [-1, 0, 1], "axis1": [0], "axis2": [1]}),
        "trace": (NUMBERS, [], {"offset": [-1, 0, 1]} | DTYPE | OUT),
        "delete": (ANY, [1], {"axis": [None, 0, 1]}),
        "insert": (REAL, [1, 7], {"axis": [None, 0, 1]}),
        "append": (REAL, [X["float32"]], {"axis": [None, 0, 1]}),
        "resize": (ANY, [(2, 7)], {}),
        "swapaxes": (ANY, [0, 1], {}),
        "squeeze unstack": (ANY, [], {"axis": [0]}),
    },
    "indices": {
        "take": (ANY, [INDICES], {"axis": [None, 0, 1], "mode": [None, "wrap", "clip", "fill"], "fill_value": [None, 3]} | OUT),
        "take_along_axis": (ANY, [np.array([[0, -1, 2, 1]])], {"axis": [0], "mode": [None, "fill", "clip"]}),
        "sort": (REAL, [], {"axis": [None, 0, -1], "stable": [True, False], "descending": [False, True], "kind": [None], "order": [None, None, "x"]}),
        "argsort": (REAL, [], {"axis": [None, 0, -1], "descending": [False, True], "kind": [None]}),
        "partition argpartition": (REAL, [1], {"axis": [0, -1]}),
        "searchsorted": (["line"], [X["float32"]], {"side": ["left", "right"], "method": ["scan", "scan_unrolled", "sort", "compare_all"]}),
        "digitize": (["float32"], [np.float32([-1, 0, 2])], {"right": [False, True], "method": [None, "sort"]}),
        "nonzero": (ANY, [], {"size": [3, 14], "fill_value": [None, -1]}),
        "argwhere flatnonzero": (ANY, [], {"size": [3, 14], "fill_value": [None, -1]}),
        "unique": (REAL, [], {"size": [5, 20], "return_index": [False, True], "return_inverse": [False, True], "return_counts": [False, True], "fill_value": [None, 9], "axis": [None]}),
        "bincount": (["counts"], [], {"weights": [None, np.float32([1, 2, 3, 4])], "minlength": [0, 7], "length": [6, 3]}),
        "clip": (REAL, [], {"min": [None, 0], "max": [None, 2]}),
        "round": (REAL, [], {"decimals": [0, 1, -1]} | OUT),
        "isin": (REAL, [np.int32([0, 2, 5])], {"invert": [False, True], "assume_unique": [False, True], "method": ["auto", "sort", "compare_all", "binary_search"]}),
        "histogram": (["float32"], [], {"bins": [4, np.float32([-2, 0, 1, 3])], "range": [None, (-1, 2)], "density": [None, True], "weights": [None, np.abs(X["float32"])]}),
        "interp": (["float32"], [np.float32([-1, 0, 2]), np.float32([3, 1, 5])], {"left": [None, 9.0], "right": [None, "extrapolate"], "period": [None, None, 2.5]}),
    },
    "products": {
        "dot matmul": (NUMBERS, [X["float32"].T], {"precision": [None, "highest"], "preferred_element_type": [None, "complex64"]}),
        "inner": (NUMBERS, [X["float32"]], {"precision": [None, "highest"]}),
        "vdot": (NUMBERS, [X["complex64"]], {}),
        "vecdot": (NUMBERS, [X["complex64"]], {"axis": [0, -1]}),
        "tensordot": (NUMBERS, [X["float32"].T], {"axes": [0, 1, ((0,), (1,))], "preferred_element_type": [None, "complex64"]}),
        "outer kron": (NUMBERS, [SIDE], {}),
        "cov": (["float32", "complex64"], [], {"rowvar": [True, False], "bias": [False, True], "ddof": [None, 0], "fweights": [None, np.array([1, 2, 1, 1])], "aweights": [None, np.float32([1, 2, 3, 1])]}),
        "corrcoef": (["float32", "complex64"], [], {"rowvar": [True, False]}),
        "convolve correlate": (["line"], [SIDE], {"mode": ["full", "same", "valid"]}),
        "linalg.norm": (["float32", "complex64"], [], {"ord": [None, "fro", "nuc", 1, 2, np.inf, -1], "axis": [(0, 1)], "keepdims": [False, True]}),
        "linalg.vector_norm": (["float32", "complex64"], [], {"ord": [0, 1, 2, 3.5, np.inf]} | AXES),
        "linalg.pinv": (["float32"], [], {"rtol": [None, 0.5]}),
        "vander": (["line"], [], {"N": [None, 2, 5], "increasing": [False, True]}),
        "polyval": (["line"], [SIDE], {"unroll": [1, 4]}),
        "polyfit": (["line"], [np.float32([1, 4, 2, 5, 3])], {"deg": [1, 2], "rcond": [None, 0.1], "w": [None, np.float32([1, 2, 1, 2, 1])]}),
        "fft.fft fft.ifft": (["float32", "complex64"], [], {"n": [None, 2, 6], "axis": [0, -1], "norm": [None, "ortho", "forward"]}),
        "fft.fft2 fft.irfft2": (["float32", "complex64"], [], {"s": [None, (2, 5)], "norm": [None, "ortho"]}),
    },
}  # fmt: skip
FIRST = X | {
    "gaps": GAPS,
    "line": np.float32([-2, -1, 0.5, 1, 3]),
    "counts": np.array([1, 0, 4, 1]),
}


def calls(names, dtypes, others, choices):
    """Descriptions and calls, of which a sample is drawn that does not depend on the rest of the table."""
    options = list(itertools.product(dtypes, *choices.values()))
    for name in names.split():
        rng = np.random.RandomState(len(name) + len(options))
        picked = rng.permutation(len(options))[:SAMPLE]
        fun = functools.reduce(getattr, name.split("."), jnp)
        for i in picked:
            dtype, *chosen = options[i]
            keywords = {k: v for k, v in zip(choices, chosen) if v is not None}
            # NumPy's arrays would be known to functions, as those of a compiled function are not.
            yield f"{name} {dtype} {i}", lambda x, k=keywords, f=fun: f(x, *others, **k), dtype


def family(name):
    funs, errors = {}, []
    run = lambda arrays: {text: call(arrays[dtype]) for text, (call, dtype) in funs.items()}
    with warnings.catch_warnings(action="ignore"):  # of conversions that lose imaginary parts
        for names, (dtypes, others, choices) in FAMILIES[name].items():
            for text, call, dtype in calls(names, dtypes, others, choices):
                try:
                    jax.eval_shape(call, FIRST[dtype])
                    funs[text] = call, dtype
                except Exception as err:
                    errors.append(f"{text}: {type(err).__name__}")
        first = {k: jnp.asarray(x) for k, x in FIRST.items()}
        return jax.jit(run, compiler_options=QUICKLY)(first), errors


for name in FAMILIES:
    CASES.add(name, functools.partial(family, name), tol=2e-5)
