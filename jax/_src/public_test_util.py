"""Checks of derivatives against finite differences."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import jax
from jax._src import dtypes
from jax._src.tree_util import tree_flatten, tree_map, tree_reduce

EPS = 1e-4

_EXACT = (
    "bool", "int1", "int2", "int4", "int8", "int16", "int32", "int64",
    "uint1", "uint2", "uint4", "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip
_SMALL_FLOATS = {
    "float4_e2m1fn": 1.0, "float8_e3m4": 1e-1, "float8_e4m3": 1e-1, "float8_e8m0fnu": 1.0,
    "float8_e4m3b11fnuz": 1e-1, "float8_e4m3fn": 1e-1, "float8_e4m3fnuz": 1e-1,
    "float8_e5m2": 1e-1, "float8_e5m2fnuz": 1e-1,
}  # fmt: skip


def _by_dtype(tolerances: dict[str, float]) -> dict[np.dtype, float]:
    return {np.dtype(getattr(ml_dtypes, name, name)): tol for name, tol in tolerances.items()}


# Tolerances for values of each dtype, and for derivatives.
_default_tolerance = {dtypes.float0: 0} | _by_dtype(
    dict.fromkeys(_EXACT, 0)
    | _SMALL_FLOATS
    | {"bfloat16": 1e-2, "float16": 1e-3, "float32": 1e-6, "float64": 1e-15}
    | {"complex64": 1e-6, "complex128": 1e-15}
)
default_gradient_tolerance = _by_dtype(
    _SMALL_FLOATS
    | {"bfloat16": 1e-1, "float16": 1e-2, "float32": 2e-3, "float64": 1e-5}
    | {"complex64": 1e-3, "complex128": 1e-5}
)


def default_tolerance() -> dict[np.dtype, float]:
    """The tolerances for values of each dtype."""
    return _default_tolerance


def is_python_scalar(val: Any) -> bool:
    return isinstance(val, (bool, int, float, complex)) and not isinstance(val, np.generic)


def _python_type(x: Any) -> Any:
    """The type of a Python scalar: literals of traced programs have types derived from these."""
    return next(t for t in (bool, int, float, complex) if isinstance(x, t))


def _dtype(x: Any) -> np.dtype:
    """The dtype of an array, or of the array that NumPy makes of something else."""
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype


def tolerance(dtype: np.dtype, tol: int | float | dict[np.dtype, int | float] | None = None):
    """The tolerance for a dtype, as the types of arrays are: float64 is float32 without x64.

    Args:
      dtype: a dtype.
      tol: a number; or a dictionary by dtype, for others than which the default holds; or None.

    Raises:
      KeyError: arrays cannot have the dtype.
    """
    if tol is not None and not isinstance(tol, dict):
        return tol
    dtype = np.dtype(dtype)
    if dtype != dtypes.float0:
        dtype = np.dtype(dtypes.canonicalize_dtype(dtype))
    return _merge_tolerance(tol, _default_tolerance)[dtype]


def _merge_tolerance(tol: Any, default: dict) -> Any:
    """Tolerances by dtype with defaults for those not given; a number is returned as it is."""
    if tol is None:
        return default
    if not isinstance(tol, dict):
        return tol
    return default | {np.dtype(dtype): value for dtype, value in tol.items()}


def _to_float(x: np.ndarray) -> np.ndarray:
    """Convert small and extended floats to float32, so that NumPy can compare them."""
    if x.dtype.kind == "V" or x.dtype.name.startswith(
        ("bfloat", "float8_", "float4_", "float6_", "int4", "int2", "uint4", "uint2")
    ):
        return x.astype(np.float32)
    return x


def _assert_numpy_allclose(a, b, atol=None, rtol=None, err_msg=""):
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype == dtypes.float0 or b.dtype == dtypes.float0:
        if a.dtype != b.dtype or a.shape != b.shape:
            raise AssertionError(
                f"float0 arrays differ: {a.dtype}{a.shape} {b.dtype}{b.shape} {err_msg}"
            )
        return
    kwargs: dict = {}
    if atol:  # otherwise NumPy's own
        kwargs["atol"] = atol
    if rtol:
        kwargs["rtol"] = rtol
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(_to_float(a), _to_float(b), **kwargs, err_msg=err_msg)


def _assert_numpy_close(a, b, atol=None, rtol=None, err_msg=""):
    """Check that two arrays have one shape and are close, for sums of as many terms as elements."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        raise AssertionError(f"shapes differ: {a.shape} and {b.shape} {err_msg}")
    atol = max(tolerance(a.dtype, atol), tolerance(b.dtype, atol))
    rtol = max(tolerance(a.dtype, rtol), tolerance(b.dtype, rtol))
    _assert_numpy_allclose(a, b, atol=atol * a.size, rtol=rtol * b.size, err_msg=err_msg)


def check_close(xs: Any, ys: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
    """Raise AssertionError unless two trees of arrays are close."""
    check = functools.partial(_assert_numpy_close, atol=atol, rtol=rtol, err_msg=err_msg)
    tree_map(check, xs, ys)


def _check_dtypes_match(xs: Any, ys: Any) -> None:
    """Checks that two trees of arrays and numbers have the same dtypes, leaf by leaf."""

    def check(x: Any, y: Any) -> None:
        found = tuple([dtypes.canonicalize_dtype(_dtype(v)) for v in (x, y)])
        if found[0] != found[1]:
            raise AssertionError(f"dtypes differ: {found[0]} != {found[1]}")

    tree_map(check, xs, ys)


def scalar_mul(xs: Any, a: Any) -> Any:
    """A tree of arrays and numbers, multiplied by `a` and converted to the types that they had."""

    def scale(x):
        return (
            _python_type(x)(x * a) if is_python_scalar(x) else np.multiply(x, a).astype(_dtype(x))
        )

    return tree_map(scale, xs)


def _preserve_input_types(f: Callable) -> Callable:
    """A function whose result has the dtype of its first argument, and is a Python scalar if that is."""

    @functools.wraps(f)
    def wrapped(*args):
        out = np.asarray(f(*args), dtype=_dtype(args[0]))
        return out.item() if all(is_python_scalar(x) for x in args) else out

    return wrapped


def _jvp_from_lin(f: Callable, primals: Sequence, tangents: Sequence) -> tuple[Any, Any]:
    """`jax.jvp`, by way of `jax.linearize`."""
    out, f_lin = jax.linearize(f, *primals)
    return out, f_lin(*tangents)


def check_eq(xs: Any, ys: Any, err_msg: str = "") -> None:
    """Raise AssertionError unless two trees of arrays are equal."""
    tree_map(lambda x, y: np.testing.assert_array_equal(x, y, err_msg=err_msg), xs, ys)


def inner_prod(xs: Any, ys: Any):
    def contract(x, y):
        return np.real(np.dot(np.conj(x).reshape(-1), np.asarray(y).reshape(-1)))

    return tree_reduce(np.add, tree_map(contract, xs, ys))


def _safe_subtract(x, y, *, dtype):
    """Subtract; infinities of the same sign give zero instead of NaN."""
    with np.errstate(invalid="ignore"):
        return np.where(np.equal(x, y), np.array(0, dtype), np.subtract(x, y, dtype=dtype))


def _shift(xs, ys, scale):
    def shift(x, y):
        if type(x) in (float, complex):  # points of Python numbers are not rounded to a dtype
            return x + scale * y
        x = np.asarray(x)
        if x.dtype == dtypes.float0 or np.asarray(y).dtype == dtypes.float0:
            return x
        y = np.asarray(y)
        return x + np.asarray(
            scale * y, y.dtype
        )  # rounded twice, as functions of their dtype see it

    return tree_map(shift, xs, ys)


def numerical_jvp(f: Callable, primals: Any, tangents: Any, eps: float = EPS):
    """The Jacobian-vector product of a function, by central differences."""
    f_pos = f(*_shift(primals, tangents, eps))
    f_neg = f(*_shift(primals, tangents, -eps))

    def difference(a, b):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype == dtypes.float0 or (
            not np.issubdtype(a.dtype, np.inexact) and a.dtype.kind != "V"
        ):
            return np.zeros(a.shape, dtypes.float0)
        return np.asarray(_safe_subtract(a, b, dtype=a.dtype) * (0.5 / eps), a.dtype)

    return tree_map(difference, f_pos, f_neg)


def rand_like(rng: np.random.RandomState, x: Any) -> Any:
    """Normally distributed numbers with the shape and dtype of `x`; those for integers are truncated.

    The result for a Python scalar is one.
    """
    if is_python_scalar(x):
        kind, draw = _python_type(x), rng.randn()
        return complex(draw, rng.randn()) if kind is complex else kind(draw)
    dtype = _dtype(x)
    out = rng.randn(*np.shape(x))
    if dtypes.issubdtype(dtype, np.complexfloating):
        out = out + 1j * rng.randn(*np.shape(x))
    return np.asarray(out, dtype=dtype)


def _random_tangent(rng: np.random.RandomState, x: Any) -> Any:
    """`rand_like` for values with tangents, `float0` for others."""
    tangent_dtype = jax.typeof(x).to_tangent_aval().dtype
    if tangent_dtype == dtypes.float0:
        return np.zeros(np.shape(x), dtypes.float0)
    return rand_like(rng, x)


def _check_differentiable(args: Any) -> None:
    """Raise TypeError unless there are arguments, and all have derivatives: else nothing is checked."""
    leaves = tree_flatten(args)[0]
    if not leaves:
        raise TypeError("there are no arguments to differentiate by")
    for x in leaves:
        aval = jax.typeof(x)
        if aval.to_tangent_aval().dtype == dtypes.float0:
            raise TypeError(
                "derivatives are checked by floating-point and complex arguments, but there is one of "
                f"type {aval.str_short()}: close over it"
            )


def check_jvp(
    f: Callable, f_jvp: Callable, args: Sequence, atol=None, rtol=None, eps: float = EPS, err_msg=""
):
    """Check a Jacobian-vector product against finite differences.

    Args:
      f: function.
      f_jvp: `f_jvp(primals, tangents) -> (result, tangent)`.
      args: tuple of arguments.
      atol, rtol: tolerances: numbers, or dictionaries by dtype.
      eps: step size of the differences.
      err_msg: text added to error messages.

    Raises:
      AssertionError: the product is wrong.
      TypeError: an argument has no derivative, or there is none.
    """
    _check_differentiable(args)
    atol = atol or default_gradient_tolerance  # looked up by the dtype of the compared values
    rtol = rtol or default_gradient_tolerance
    rng = np.random.RandomState(0)
    tangent = tree_map(lambda x: _random_tangent(rng, x), args)
    v_out, t_out = f_jvp(args, tangent)
    v_expected = f(*args)
    t_expected = numerical_jvp(f, args, tangent, eps=eps)
    # Values may differ by rounding under jit, derivatives by the error of the differences.
    check_close(
        v_out,
        v_expected,
        atol=atol,
        rtol=rtol,
        err_msg=f"{err_msg} primal" if err_msg else "primal",
    )
    check_close(
        t_out,
        t_expected,
        atol=atol,
        rtol=rtol,
        err_msg=f"{err_msg} tangent" if err_msg else "tangent",
    )


def check_vjp(
    f: Callable, f_vjp: Callable, args: Sequence, atol=None, rtol=None, eps: float = EPS, err_msg=""
):
    """Check a vector-Jacobian product against finite differences; arguments as for `check_jvp`.

    `f_vjp(*args) -> (result, vjp_fun)`.
    """
    _check_differentiable(args)
    atol = atol or default_gradient_tolerance  # looked up by the dtype of the compared values
    rtol = rtol or default_gradient_tolerance
    rng = np.random.RandomState(0)
    v_out, vjpfun = f_vjp(*args)
    v_expected = f(*args)
    check_close(
        v_out,
        v_expected,
        atol=atol,
        rtol=rtol,
        err_msg=f"{err_msg} primal" if err_msg else "primal",
    )
    tangent = tree_map(lambda x: _random_tangent(rng, x), args)
    tangent_out = numerical_jvp(f, args, tangent, eps=eps)
    cotangent = tree_map(lambda x: _random_tangent(rng, x), v_out)
    cotangent_out = tree_map(np.asarray, vjpfun(tree_map(_conj, cotangent)))
    ip = _inner(tangent, cotangent_out)
    ip_expected = _inner(tangent_out, tree_map(_conj, cotangent))
    check_close(
        ip,
        ip_expected,
        atol=atol,
        rtol=rtol,
        err_msg=f"{err_msg} cotangent projection" if err_msg else "cotangent projection",
    )


def _conj(x):
    return np.conj(x) if np.iscomplexobj(x) else x


def _inner(xs, ys) -> np.ndarray:
    """The real inner product of a tangent and a cotangent, summed over leaves."""
    total: Any = 0
    for x, y in zip(tree_flatten(xs)[0], tree_flatten(ys)[0]):
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype == dtypes.float0 or y.dtype == dtypes.float0:
            continue
        total = total + np.real(np.dot(x.reshape(-1), y.reshape(-1)))
    return np.asarray(total)


def check_grads(
    f: Callable, args: Sequence, order: int, modes: str | Sequence[str] = ("fwd", "rev"), atol=None, rtol=None,
    eps: float | None = None,
) -> None:  # fmt: skip
    """Check derivatives of a function, up to a given order, against finite differences.

    Args:
      f: function of arrays and pytrees. Results without derivatives, such as integers, are not compared.
      args: tuple of arguments, of floating-point or complex types.
      order: the highest order of derivatives.
      modes: 'fwd', 'rev', or a sequence or string with both; other modes are refused, since nothing
        would be checked.
      atol, rtol: tolerances: numbers, or dictionaries by dtype.
      eps: step size of the differences.

    Raises:
      AssertionError: if a derivative is wrong.
      TypeError: an argument has no derivative, or there is none.
      ValueError: a mode is not known.

    >>> from jax.test_util import check_grads
    >>> check_grads(jnp.sin, (0.5,), order=2)
    """
    args = tuple(args)
    eps = eps or EPS
    if isinstance(modes, str):
        modes = [m for m in ("fwd", "rev") if m in modes] or [modes]
    unknown = set(modes) - {"fwd", "rev"}
    if unknown:
        raise ValueError(f"check_grads modes must be 'fwd' and 'rev', got {sorted(unknown)}")

    _check_differentiable(args)

    def recur(f, args, order, path):
        if "fwd" in modes:
            name = f"JVP of {path}" if path else "JVP"
            f_jvp = functools.partial(jax.jvp, f)
            check_jvp(f, f_jvp, args, atol, rtol, eps, err_msg=name)
            if order > 1:
                recur(f_jvp, (args, _own_tangents(args)), order - 1, name)
        if "rev" in modes:
            name = f"VJP of {path}" if path else "VJP"
            check_vjp(f, functools.partial(jax.vjp, f), args, atol, rtol, eps, err_msg=name)
            if order > 1:

                def f_vjp(*xs):
                    out, vjp_fun = jax.vjp(f, *xs)
                    return vjp_fun(_own_tangents(out))

                recur(f_vjp, args, order - 1, name)

    recur(f, args, order, "")


def _own_tangents(xs):
    """The values as their own tangents, so that the next order also differentiates by tangents."""

    def tangent(x):
        aval = jax.typeof(x).to_tangent_aval()
        return np.zeros(aval.shape, aval.dtype) if aval.dtype == dtypes.float0 else x

    return tree_map(tangent, xs)
