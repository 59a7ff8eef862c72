"""Cases for the window functions of jax.numpy."""

import numpy as np
from formula_cases import Formulas

import jax.numpy as jnp

CASES = Formulas()
given, error = CASES.given, CASES.error

for name in ["bartlett", "blackman", "hamming", "hanning"]:
    for n in [0, 1, 2, 7]:
        given(
            f"{name}_{n}",
            lambda f=name, n=n: getattr(jnp, f)(n),
            numpy=lambda f=name, n=n: getattr(np, f)(n),
        )
given("kaiser", lambda b: jnp.kaiser(7, b), np.float32(3.0), numpy=lambda b: np.kaiser(7, b))
error("kaiser_complex", lambda: jnp.kaiser(4, 1j))
