"""Which functions docs/accuracy.md has rows of."""

from pathlib import Path

import accuracy_rows
import numpy as np

import jax
import jax.numpy as jnp
import jax.scipy.special

REFERENCE = Path(__file__).absolute().parent.parent / "benchmarks/accuracy_reference.npz"


def test_no_function_is_worse_than_the_oracle():
    rows = accuracy_rows.published()
    with np.load(REFERENCE) as reference:
        names = reference.files
    keys = {key.removesuffix(":values") for key in names if key.endswith(":values")}
    assert rows.keys() == keys
    worse = {
        key for key, (ours, theirs) in rows.items() if theirs is not None and ours > theirs + 1
    }
    assert not worse


# Functions without rows: other names, exact or once-rounded results, and sums and products of many numbers.
ALIASES = "abs arccos arccosh arcsin arcsinh arctan arctan2 arctanh swish hard_swish"
EXACT = "add subtract multiply negative maximum minimum relu relu6 hard_tanh identity one_hot"
EXACT += " bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor"
SUMS = "standardize dot_product_attention get_scaled_dot_general_config scaled_dot_general scaled_matmul"


def test_every_function_has_rows():
    rows = {tuple(key.split(":")) for key in accuracy_rows.published()}
    names = {name for name in dir(jnp) if isinstance(getattr(jnp, name), jnp.ufunc)}
    for module in (jax.scipy.special, jax.nn):
        public = {name for name in dir(module) if not name.startswith("_")}
        names |= {name for name in public if callable(getattr(module, name))}
    others = {*ALIASES.split(), *EXACT.split(), *SUMS.split()}
    real, complex_only = ("float32", "float64"), ("complex64", "complex128")
    for name in names - others:
        dtypes = complex_only if name == "wofz" else real
        assert all((name, dtype) in rows for dtype in dtypes), name
