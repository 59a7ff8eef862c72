"""Special cases of the elementwise functions in the Python array API standard, 2024.12."""

import math

import numpy as np
import pytest

import jax
import jax.numpy as jnp

# A line has a function and its special cases, `arguments:result`. A complex argument `(z)` and a complex result are
# given by their real and imaginary parts; "±" is before a part of any sign, "|" before a condition on a magnitude.
# Those that begin with "!" do not hold on CPUs, neither here nor in the reference: XLA's complex functions
# propagate NaN from one part to the other, and remainders take the sign of a zero from the dividend. Square roots of
# (inf, positive) and (-inf, positive) are those of C99; the standard's text exchanges them.
TABLE = """
abs nan:nan -0:0 -inf:inf
abs(z) !infinite,*:inf !*,infinite:inf nan,finite:nan finite,nan:nan nan,nan:nan
acos nan:nan >1:nan <-1:nan 1:0
acos(z) zero,0:pi/2,-0 !zero,nan:pi/2,nan finite,inf:pi/2,-inf nonzero,nan:nan,nan -inf,positive:pi,-inf
    inf,positive:0,-inf -inf,inf:3pi/4,-inf inf,inf:pi/4,-inf infinite,nan:nan,±inf nan,finite:nan,nan
    nan,inf:nan,-inf nan,nan:nan,nan
acosh nan:nan <1:nan 1:0 inf:inf
acosh(z) zero,0:0,pi/2 finite,inf:inf,pi/2 nonzero,nan:nan,nan !0,nan:nan,±pi/2 -inf,positive:inf,pi
    inf,positive:inf,0 -inf,inf:inf,3pi/4 inf,inf:inf,pi/4 infinite,nan:inf,nan nan,finite:nan,nan nan,inf:inf,nan
    nan,nan:nan,nan
add nan,*:nan *,nan:nan inf,-inf:nan -inf,inf:nan inf,inf:inf -inf,-inf:-inf inf,finite:inf -inf,finite:-inf
    finite,inf:inf finite,-inf:-inf -0,-0:-0 -0,0:0 0,-0:0 0,0:0 zero,nonzero:y nonzero,zero:x
asin nan:nan >1:nan <-1:nan 0:0 -0:-0
asinh nan:nan 0:0 -0:-0 inf:inf -inf:-inf
asinh(z) 0,0:0,0 positive,inf:inf,pi/2 finite,nan:nan,nan inf,positive:inf,0 inf,inf:inf,pi/4 !nan,0:nan,0
    nan,nonzero:nan,nan nan,inf:±inf,nan nan,nan:nan,nan
atan nan:nan 0:0 -0:-0 inf:pi/2 -inf:-pi/2
atan2 nan,*:nan *,nan:nan >0,0:pi/2 >0,-0:pi/2 0,>0:0 0,0:0 0,-0:pi 0,<0:pi -0,>0:-0 -0,0:-0 -0,-0:-pi -0,<0:-pi
    <0,0:-pi/2 <0,-0:-pi/2 >0&finite,inf:0 >0&finite,-inf:pi <0&finite,inf:-0 <0&finite,-inf:-pi inf,finite:pi/2
    -inf,finite:-pi/2 inf,inf:pi/4 inf,-inf:3pi/4 -inf,inf:-pi/4 -inf,-inf:-3pi/4
atanh nan:nan <-1:nan >1:nan -1:-inf 1:inf 0:0 -0:-0
atanh(z) 0,0:0,0 !0,nan:0,nan 1,0:inf,0 positive,inf:0,pi/2 !nonzero,nan:nan,nan inf,positive:0,pi/2
    inf,inf:0,pi/2 !inf,nan:0,nan !nan,finite:nan,nan nan,inf:±0,pi/2 !nan,nan:nan,nan
ceil inf:inf -inf:-inf 0:0 -0:-0 nan:nan
copysign nan,*:nan 1,-0:-1 1,0:1 -1,>0:1 1,<0:-1 inf,-0:-inf zero,-0:-0 zero,0:0
cos nan:nan 0:1 -0:1 inf:nan -inf:nan
cosh nan:nan 0:1 -0:1 inf:inf -inf:inf
cosh(z) 0,0:1,0 !0,inf:nan,±0 !0,nan:nan,±0 nonzero,inf:nan,nan nonzero,nan:nan,nan inf,0:inf,0 !inf,inf:±inf,nan
    !inf,nan:inf,nan nan,zero:nan,±0 nan,nonzero:nan,nan nan,nan:nan,nan
divide nan,*:nan *,nan:nan infinite,infinite:nan zero,zero:nan 0,>0:0 -0,>0:-0 0,<0:-0 -0,<0:0 >0,0:inf >0,-0:-inf
    <0,0:-inf <0,-0:inf inf,positive:inf inf,negative:-inf -inf,positive:-inf -inf,negative:inf positive,inf:0
    positive,-inf:-0 negative,inf:-0 negative,-inf:0
equal inf,inf:True -inf,-inf:True -0,zero:True 0,zero:True nan,*:False *,nan:False inf,-inf:False
    finite,infinite:False
exp nan:nan 0:1 -0:1 inf:inf -inf:0
exp(z) zero,0:1,0 finite,inf:nan,nan finite,nan:nan,nan inf,0:inf,0 !-inf,inf:0,0 !inf,inf:inf,nan !-inf,nan:0,0
    !inf,nan:inf,nan nan,0:nan,0 nan,number:nan,nan nan,nan:nan,nan
expm1 nan:nan 0:0 -0:-0 inf:inf -inf:-1
expm1(z) zero,0:0,0 finite,inf:nan,nan finite,nan:nan,nan inf,0:inf,0 !-inf,inf:-1,±0 !inf,inf:inf,nan
    !-inf,nan:-1,±0 !inf,nan:inf,nan nan,0:nan,0 nan,number:nan,nan nan,nan:nan,nan
floor inf:inf -inf:-inf 0:0 -0:-0 nan:nan
floor_divide nan,*:nan *,nan:nan infinite,infinite:nan zero,zero:nan 0,>0:0 !-0,>0:-0 0,<0:-0 !-0,<0:0 >0,0:inf
    >0,-0:-inf <0,0:-inf <0,-0:inf !inf,positive:inf !inf,negative:-inf !-inf,positive:-inf !-inf,negative:inf
    positive,inf:0 !positive,-inf:-0 !negative,inf:-0 !negative,-inf:0
isfinite infinite:False nan:False finite:True
isfinite(z) nan,*:False *,nan:False infinite,*:False *,infinite:False finite,finite:True
isinf infinite:True finite:False nan:False
isinf(z) infinite,*:True *,infinite:True finite,finite:False nan,finite:False
isnan nan:True some:False
log nan:nan <0:nan zero:-inf 1:0 inf:inf
log(z) -0,0:-inf,pi 0,0:-inf,0 finite,inf:inf,pi/2 finite,nan:nan,nan -inf,positive:inf,pi inf,positive:inf,0
    -inf,inf:inf,3pi/4 inf,inf:inf,pi/4 !infinite,nan:inf,nan nan,finite:nan,nan !nan,inf:inf,nan nan,nan:nan,nan
log1p nan:nan <-1:nan -1:-inf -0:-0 0:0 inf:inf
log1p(z) -1,0:-inf,0 finite,inf:inf,pi/2 finite,nan:nan,nan -inf,positive:inf,pi inf,positive:inf,0
    -inf,inf:inf,3pi/4 inf,inf:inf,pi/4 !infinite,nan:inf,nan nan,finite:nan,nan !nan,inf:inf,nan nan,nan:nan,nan
log2 nan:nan <0:nan zero:-inf 1:0 inf:inf
log10 nan:nan <0:nan zero:-inf 1:0 inf:inf
logaddexp nan,*:nan *,nan:nan inf,some:inf some,inf:inf
maximum nan,*:nan *,nan:nan
minimum nan,*:nan *,nan:nan
multiply nan,*:nan *,nan:nan infinite,zero:nan zero,infinite:nan inf,positive:inf inf,negative:-inf
    -inf,negative:inf positive,-inf:-inf negative,inf:-inf inf,inf:inf -inf,inf:-inf 0,negative:-0 -0,negative:0
    positive,-0:-0
nextafter nan,*:nan *,nan:nan -0,0:0 0,-0:-0
not_equal inf,-inf:True -inf,inf:True nan,*:True *,nan:True zero,zero:False
pow *,0:1 *,-0:1 nan,number:nan |>1,inf:inf |>1,-inf:0 |1,inf:1 |1,-inf:1 |<1,inf:0 |<1,-inf:inf inf,>0:inf
    inf,<0:0 -inf,>0&odd:-inf -inf,>0&even:inf -inf,<0&odd:-0 -inf,<0&even:0 0,>0:0 0,<0:inf -0,>0&odd:-0 -0,>0&even:0
    -0,<0&odd:-inf -0,<0&even:inf <0&finite,finite&broken:nan 1,some:1
remainder nan,*:nan *,nan:nan infinite,infinite:nan zero,zero:nan 0,>0:0 !-0,>0:0 !0,<0:-0 -0,<0:-0 >0,0:nan
    >0,-0:nan <0,0:nan <0,-0:nan inf,positive:nan inf,negative:nan -inf,positive:nan -inf,negative:nan positive,inf:x
    positive,-inf:y negative,inf:y negative,-inf:x
round inf:inf -inf:-inf 0:0 -0:-0 nan:nan 0.5:0 -0.5:-0 1.5:2 2.5:2 -2.5:-2
sign <0:-1 !zero:0 >0:1 nan:nan
sign(z) !zero,zero:0,0 nan,*:nan,nan *,nan:nan,nan
signbit 0:False -0:True inf:False -inf:True positive:False negative:True
sin nan:nan 0:0 -0:-0 infinite:nan
sinh nan:nan 0:0 -0:-0 inf:inf -inf:-inf
sinh(z) 0,0:0,0 !0,inf:±0,nan !0,nan:±0,nan positive,inf:nan,nan positive,nan:nan,nan inf,0:inf,0
    !inf,inf:±inf,nan !inf,nan:±inf,nan nan,0:nan,0 nan,nonzero:nan,nan nan,nan:nan,nan
sqrt nan:nan <0:nan 0:0 -0:-0 inf:inf
sqrt(z) zero,0:0,0 !*,inf:inf,inf finite,nan:nan,nan !-inf,nan:nan,±inf !inf,nan:inf,nan nan,nan:nan,nan
    -inf,positive:0,inf inf,positive:inf,0 nan,finite:nan,nan
tan nan:nan 0:0 -0:-0 infinite:nan
tanh nan:nan 0:0 -0:-0 inf:1 -inf:-1
tanh(z) 0,0:0,0 nonzero,inf:nan,nan !0,inf:0,nan nonzero,nan:nan,nan !0,nan:0,nan !inf,positive:1,0 inf,inf:1,±0
    inf,nan:1,±0 nan,0:nan,0 nan,number:nan,nan nan,nan:nan,nan
trunc inf:inf -inf:-inf 0:0 -0:-0 nan:nan
hypot infinite,*:inf *,infinite:inf nan,finite:nan finite,nan:nan nan,nan:nan zero,zero:0 -1,zero:1 zero,-1:1
isnan(z) nan,*:True *,nan:True finite,finite:False infinite,finite:False
"""
VALUES = [math.nan, math.inf, -math.inf, 0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1.5, 2.5, -2.5]
NUMBERS = {"pi": math.pi, "pi/2": math.pi / 2, "pi/4": math.pi / 4, "3pi/4": 3 * math.pi / 4}
CONDITIONS = {
    "*": lambda x: True,
    "some": lambda x: not math.isnan(x),
    "finite": math.isfinite,
    "infinite": math.isinf,
    "zero": lambda x: x == 0,
    "number": lambda x: x != 0 and not math.isnan(x),
    "nonzero": lambda x: x != 0 and math.isfinite(x),
    "positive": lambda x: x > 0 and math.isfinite(x),
    "negative": lambda x: x < 0 and math.isfinite(x),
    "odd": lambda x: x % 2 == 1,
    "even": lambda x: x % 2 != 1,
    "broken": lambda x: x % 1 != 0,
}


def number(text):
    sign = -1.0 if text.startswith("-") else 1.0
    text = text.lstrip("-±")
    return sign * (NUMBERS[text] if text in NUMBERS else float(text))


def same(x, y):
    if math.isnan(y) or math.isinf(y) or y == 0:
        signs = math.isnan(y) or math.copysign(1, x) == math.copysign(1, y)
        return signs and (x == y or math.isnan(x) and math.isnan(y))
    return math.isclose(x, y, rel_tol=1e-5)


def holds(condition, x):
    if condition.startswith("|"):
        condition, x = condition[1:], abs(x)
    for part in condition.split("&"):
        if part in CONDITIONS:
            ok = CONDITIONS[part](x)
        elif part[0] in "<>":
            ok = x < number(part[1:]) if part[0] == "<" else x > number(part[1:])
        else:
            ok = same(x, number(part))
        if not ok:
            return False
    return True


def agrees(result, parts, args):
    """Whether the parts of a result are as a row says."""
    wanted = result.split(",")
    if len(wanted) == 1 and result in ("True", "False"):
        return parts[0] == (result == "True")
    return len(wanted) == len(parts) and all(
        same(abs(x), abs(y)) if w.startswith("±") else same(x, y)
        for w, x in zip(wanted, parts)
        for y in [args["xy".index(w)] if w in ("x", "y") else number(w)]
    )


def rows():
    text = TABLE.replace("\n    ", " ")
    return [
        pytest.param(*line.split(maxsplit=1), id=line.split()[0])
        for line in text.strip().splitlines()
    ]


@pytest.mark.parametrize("name, cases", rows())
def test_special_cases(name, cases):
    fun, values = getattr(jnp, name.removesuffix("(z)")), np.array(VALUES, np.float32)
    cases = [case.split(":") for case in cases.split()]
    two = "," in cases[0][0]
    points = np.stack(np.meshgrid(values, values, indexing="ij"), -1) if two else values[:, None]
    args = [points[..., i] for i in range(points.shape[-1])]
    if name.endswith("(z)"):
        args = [jax.lax.complex(*args)]
    out = np.asarray(jax.jit(fun)(*args))
    parts = np.stack([out.real, out.imag] if np.iscomplexobj(out) else [out], -1)
    points, parts = (
        points.reshape(-1, points.shape[-1]).tolist(),
        parts.reshape(len(points) ** (1 + two), -1).tolist(),
    )
    for condition, result in cases:
        found = [
            (p, r)
            for p, r in zip(points, parts)
            if all(map(holds, condition.lstrip("!").split(","), p))
        ]
        assert found, condition
        wrong = [(p, r) for p, r in found if not agrees(result, r, p)]
        assert condition.startswith("!") or not wrong, f"{name} {condition}:{result}, got {wrong}"
