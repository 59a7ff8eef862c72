"""Functions of NumPy arrays with the accuracy of mpmath, which has to be installed, as references."""

from collections.abc import Callable
from typing import Any

import numpy as np


class vectorize_with_mpmath(np.vectorize):
    """`numpy.vectorize` of a function of mpmath's numbers.

    Args:
      pyfunc: function of mpmath's numbers.
      mpmath: the module.
      extra_prec_multiplier: the numbers have so many times more bits than the arrays' dtype.
      extra_prec: a number of further bits.
      others: see `numpy.vectorize`.
    """

    map_float_to_complex = {
        "float16": "complex32", "float32": "complex64", "float64": "complex128",
        "float128": "complex256", "longdouble": "clongdouble",
    }  # fmt: skip
    map_complex_to_float = {v: k for k, v in map_float_to_complex.items()}
    float_prec = {"float16": 11, "float32": 24, "float64": 53}
    float_minexp = {"float16": -14, "float32": -126, "float64": -1022, "float128": -16382}
    float_maxexp = {"float16": 16, "float32": 128, "float64": 1024, "float128": 16384}

    def __init__(self, *args, **kwargs):
        self.mpmath = kwargs.pop("mpmath", None)
        if self.mpmath is None:
            raise ValueError("vectorize_with_mpmath: no mpmath argument specified")
        self.extra_prec_multiplier = kwargs.pop("extra_prec_multiplier", 0)
        self.extra_prec = kwargs.pop("extra_prec", 0)
        self.contexts: dict[str, Any] = {}
        self.contexts_inv: dict[Any, str] = {}
        for name, precision in self.float_prec.items():
            context = self.mpmath.mp.clone()
            context.prec = precision * (1 + self.extra_prec_multiplier) + self.extra_prec
            self.contexts[name] = context
            self.contexts_inv[context] = name
        super().__init__(*args, **kwargs)

    def get_context(self, x: Any) -> Any:
        """The context of mpmath for an array or a scalar of a floating or complex dtype."""
        if not isinstance(x, (np.ndarray, np.generic)):
            raise NotImplementedError(f"get mpmath context from {type(x).__name__} instance")
        name = str(x.dtype)
        name = self.map_complex_to_float.get(name, name)
        if name not in self.contexts:
            raise NotImplementedError(f"get mpmath context from an array of dtype {name}")
        return self.contexts[name]

    def nptomp(self, x: Any) -> Any:
        """Convert an array or a scalar to mpmath's numbers."""
        if isinstance(x, np.ndarray):
            return np.fromiter(map(self.nptomp, x.flatten()), dtype=object, count=x.size).reshape(
                x.shape
            )
        if isinstance(x, np.complexfloating):
            return self.get_context(x).mpc(self.nptomp(x.real), self.nptomp(x.imag))
        if not isinstance(x, np.floating):
            raise NotImplementedError(f"convert {type(x).__name__} instance to mpmath number type")
        context = self.get_context(x)
        if np.isposinf(x):
            return context.inf
        if np.isneginf(x):
            return context.ninf
        return context.nan if np.isnan(x) else context.mpf(float(x))

    def mptonp(self, x: Any) -> Any:
        """Convert mpmath's numbers to arrays and scalars; subnormal numbers become zero."""
        if isinstance(x, tuple):
            return tuple(map(self.mptonp, x))
        if isinstance(x, np.ndarray) and x.dtype.kind == "O":
            converted = [self.mptonp(v) for v in x.flatten()]
            return np.array(converted, dtype=converted[0].dtype).reshape(x.shape)
        context = getattr(x, "context", None)
        if context not in self.contexts_inv:
            raise NotImplementedError(f"convert {type(x)} instance to numpy floating point type")
        name = self.contexts_inv[context]
        if isinstance(x, context.mpc):
            dtype = np.dtype(self.map_float_to_complex[name]).type
            return dtype(complex(self.mptonp(x.real), self.mptonp(x.imag)))
        return self._float(x, name)

    def _float(self, x: Any, name: str) -> Any:
        context, dtype = x.context, np.dtype(name).type
        if not context.isfinite(x):
            return dtype(float(x))
        _, exponent = context.frexp(x)
        if x and exponent <= self.float_minexp[name]:
            return dtype(0)
        if exponent > self.float_maxexp[name]:
            return dtype(np.inf if x > 0 else -np.inf)
        return dtype(float(x)) if name != "float64" else np.float64(x)

    def __call__(self, *args, **kwargs):
        args = tuple(self.nptomp(a) if isinstance(a, (np.ndarray, np.generic)) else a for a in args)
        return self.mptonp(super().__call__(*args, **kwargs))


class numpy_with_mpmath:
    """NumPy's universal functions, evaluated by mpmath: `numpy_with_mpmath(mpmath).sin(array)`.

    Args: as for `vectorize_with_mpmath`.
    """

    # What mpmath calls a function, where it is not NumPy's name.
    _mp_names = {
        "abs": "absmin", "absolute": "absmin", "log": "ln", "arcsin": "asin", "arccos": "acos",
        "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    }  # fmt: skip
    _provides = [
        "abs", "absolute", "sqrt", "exp", "expm1", "exp2", "log", "log1p", "log10", "log2", "sin",
        "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh",
        "arctanh", "square", "positive", "negative", "conjugate", "sign", "sinc",
    ]  # fmt: skip

    def __init__(self, mpmath, extra_prec_multiplier=0, extra_prec=0):
        self.mpmath = mpmath
        for name in self._provides:
            function = getattr(self, name, None) or self._of_mpmath(name)
            vectorized = vectorize_with_mpmath(
                function,
                mpmath=mpmath,
                extra_prec_multiplier=extra_prec_multiplier,
                extra_prec=extra_prec,
            )
            setattr(self, name, vectorized)

    def square(self, x):
        return x * x

    def positive(self, x):
        return x

    def negative(self, x):
        return -x

    def sqrt(self, x):
        return x.context.sqrt(x)

    def expm1(self, x):
        return x.context.expm1(x)

    def log1p(self, x):
        return x.context.log1p(x)

    def log2(self, x):
        return x.context.ln(x) / x.context.ln2

    def log10(self, x):
        return x.context.ln(x) / x.context.ln10

    def exp2(self, x):
        return x.context.exp(x * x.context.ln2)

    def tan(self, x):
        return x.context.tan(x)

    def tanh(self, x):
        return x.context.tanh(x)

    def arcsin(self, x):
        return x.context.asin(x)

    def arccos(self, x):
        return x.context.acos(x)

    def arctan(self, x):
        return x.context.atan(x)

    def arcsinh(self, x):
        return x.context.asinh(x)

    def arccosh(self, x):
        return x.context.acosh(x)

    def arctanh(self, x):
        return x.context.atanh(x)

    def _of_mpmath(self, name: str) -> Callable:
        mp_name = self._mp_names.get(name, name)
        return lambda x: getattr(x.context, mp_name)(x)

    def normalize(self, exact: Any, reference: Any, value: Any) -> tuple[Any, Any]:
        """The bits of `reference` and `value` in which `exact` and `reference` agree.

        Both are scaled by the same power of two, to be below one, unless some are not finite.

        Args:
          exact: an accurate result.
          reference: a result of lower accuracy, which limits what `value` can be compared in.
          value: a result that is to be compared with `reference`.
        """
        exact, reference, value = np.asarray(exact), np.asarray(reference), np.asarray(value)
        if exact.dtype.kind != "c":
            return _agreeing_bits(exact, reference, value)
        re = _agreeing_bits(exact.real, reference.real, value.real)
        im = _agreeing_bits(exact.imag, reference.imag, value.imag)
        parts = [np.asarray(r + 1j * i).astype(exact.dtype) for r, i in zip(re, im)]
        return parts[0], parts[1]


def _agreeing_bits(
    exact: np.ndarray, reference: np.ndarray, value: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    precision = np.finfo(exact.dtype).nmant + 1
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(exact) & np.isfinite(reference) & np.isfinite(value)
        numbers = [np.where(finite, x, 0).astype(np.float64) for x in (exact, reference, value)]
    mantissas, exponents = zip(*(np.frexp(x) for x in numbers))
    scale = np.maximum.reduce(exponents)
    bits = [np.ldexp(m, precision).astype(np.int64) for m in mantissas[:2]]
    # The position of the first bit that differs; the whole number if the exponents or signs do.
    comparable = (exponents[0] == exponents[1]) & (np.sign(bits[0]) == np.sign(bits[1]))
    _, differing = np.frexp((bits[0] ^ bits[1]).astype(np.float64))
    agreed = np.where(comparable, precision - differing, 0)
    quantum = np.maximum(exponents[0], exponents[1]) - agreed
    same = numbers[0] == numbers[1]
    results = []
    for given, x in zip((reference, value), numbers[1:]):
        kept = np.where(same, x, np.ldexp(np.trunc(np.ldexp(x, -quantum)), quantum))
        results.append(np.where(finite, np.ldexp(kept, -scale), given).astype(given.dtype))
    return results[0], results[1]
