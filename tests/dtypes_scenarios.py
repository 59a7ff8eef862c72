"""Tables of types: promotion in every mode, conversions, classes, names; one text for each."""

import functools
import itertools
import warnings

import numpy as np
from op_cases import Programs

from jax._src import config, dtypes

NAMES = [t.name for t in dtypes._jax_types]
WEAK = "uint8 int8 int32 int64 bfloat16 float16 float32 float64 complex64 complex128".split()
CLASSES = [
    np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact,
    np.floating, np.complexfloating, np.bool_, np.character, dtypes.extended,
    dtypes.prng_key, int, float, complex, bool, dtypes.float0,
]  # fmt: skip
OF_ONE = [
    "to_numeric_dtype", "to_complex_dtype", "short_dtype_name", "itemsize_bits", "canonicalize_dtype",
    "scalar_type_of", "dtype", "check_and_canonicalize_user_dtype", "jax_dtype",
]  # fmt: skip
CASES = Programs()
scenario = CASES.define


class Value:
    """Has a type, and is weakly typed or not."""

    def __init__(self, name, weak):
        self.dtype, self.shape, self.ndim = np.dtype(name), (), 0
        self.aval = type("Aval", (), {"weak_type": weak})


VALUES = {n: Value(n, False) for n in NAMES}
VALUES |= {n + "*": Value(n, True) for n in WEAK}
VALUES |= {"True": True, "1": 1, "1.0": 1.0, "1j": 1j}
VALUES |= {t.__name__: t for t in (bool, int, float, complex)}
FEW = dict(list(VALUES.items())[::3])
VALUES |= {"dtype " + n: np.dtype(n) for n in NAMES}


def outcome(f, *args):
    try:
        result = f(*args)
    except Exception as err:
        return type(err).__name__
    return " ".join(map(str, result)) if isinstance(result, tuple) else str(result)


def table(f, *columns):
    """A line for each combination of operands, which come with their names."""
    return "\n".join(
        f"{' '.join(names)}: {outcome(f, *args)}"
        for row in itertools.product(*(column.items() for column in columns))
        for names, args in [zip(*row)]
    )


def types_in(x64, mode, explicit):
    with (
        warnings.catch_warnings(action="ignore"),
        config.enable_x64(x64),
        config.numpy_dtype_promotion(mode),
        config.explicit_x64_dtypes(explicit),
    ):
        names = {n: n for n in NAMES} | {t.__name__: t for t in (bool, int, float, complex)}
        of_dtypes = {n: np.dtype(n) for n in NAMES}
        return {
            "combine two": table(dtypes.lattice_result_type, VALUES, VALUES),
            "combine three": table(dtypes.lattice_result_type, FEW, FEW, FEW),
            "safe": table(dtypes.safe_to_cast, VALUES, VALUES),
            "promote": table(dtypes.promote_types, names, names),
        } | {name: table(getattr(dtypes, name), of_dtypes) for name in OF_ONE}


for _options in itertools.product((False, True), ("standard", "strict"), ("warn", "allow")):
    _name = f"types_{'x64' if _options[0] else 'x32'}_{_options[1]}_{_options[2]}"
    CASES.add(_name, functools.partial(types_in, *_options))


@scenario
def known_types():
    return "\n".join(sorted(map(str, dtypes._jax_dtype_set)))


@scenario
def classes():
    every = [*CLASSES, *NAMES, *(np.dtype(n).type for n in NAMES), *map(np.dtype, NAMES)]
    operands = {repr(x): x for x in every}
    return table(dtypes.issubdtype, operands, operands)


@scenario
def kinds():
    kinds = {str(k): k for k in [*dtypes._dtype_kinds, *NAMES, ("bool", "integral")]}
    return table(dtypes.isdtype, {n: n for n in NAMES}, kinds)
