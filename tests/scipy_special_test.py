"""`jax.scipy.special`, compared with the reference build and SciPy; known values where the reference is wrong."""

import numpy as np
import pytest
import scipy.special
from op_testing import case_tests

import jax
import jax.numpy as jnp
import jax.scipy.special as special
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

reference, test_reference, test_numpy = case_tests(__file__)

INF, NAN, MAX = np.inf, np.nan, np.finfo(float).max


@pytest.mark.parametrize(
    "name, args",
    [
        ("exp1", ([1e-30, INF, -1, NAN, 100, 0, 2],)),
        ("expi", ([0, -0.0, INF, -INF, NAN, 2, MAX, -MAX],)),
        (
            "betainc",
            (
                [0, 2, 0, 2, 0, 2, INF, 2, 0, INF, 0, INF, 0],
                [2, 0, 2, 0, 2, 0, 2, INF, INF, 0, 0, INF, -1],
                [0.5, 0.5, 0, 0, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
            ),
        ),
        ("polygamma", ([1, 2, 3, 0], [INF, INF, MAX, INF])),
        ("zeta", ([2, INF, INF, 100], [INF, 1, 0.5, MAX])),
        ("expn", ([2, 3, 1, 2, 0, 2], [0, 0, INF, NAN, INF, -1])),
        ("rel_entr", ([NAN, 1, 0, INF], [1, NAN, NAN, 1])),
        ("kl_div", ([NAN, 1, 0, INF, MAX, MAX], [1, NAN, NAN, 1, MAX, MAX / 2])),
        ("gamma", ([1e-300, 171.5, -170.5, 0.5],)),
        ("owens_t", ([0, 1, 1, 3, -1, 1, INF, 2], [1, 0, -2, 0.1, 0.5, 30, 1, INF])),
        ("spence", ([0, 1, 1.3, 1e-10, NAN],)),
        ("sici", ([0, INF, 9.5, 1e5],)),
        ("wofz", ([0, 6, -3, 30],)),
    ],
)
def test_edges(name, args):
    with jax.enable_x64(True):
        ours = getattr(special, name)(*map(np.array, args))
    want = getattr(scipy.special, name)(*args)
    for x, y in zip(ours, want) if isinstance(ours, tuple) else [(ours, want)]:
        np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize(
    "name, x",
    [("sici", [0.3, 9.5]), ("i0", [5.0, 12.0]), ("i1", [5.0, 12.0]), ("expi", [0.3, 0.9, 3.5])],
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_dtypes_are_computed_in_float32(name, x, dtype):
    x = jnp.array(x, dtype)
    want = getattr(special, name)(x.astype(np.float32))
    ours = getattr(special, name)(x)
    tolerance = float(jnp.finfo(dtype).eps)
    for y, w in zip(jax.tree.leaves(ours), jax.tree.leaves(want)):
        assert y.dtype == dtype
        np.testing.assert_allclose(y.astype(np.float32), w, rtol=4 * tolerance)


def test_incomplete_functions_of_easy_and_hard_arguments_in_one_array():
    """How many terms an element needs must not depend on its neighbors, even if theirs overflow."""
    a = np.array([1e-300, 0.001, 0.5, 1, 1.5, 10, 10, 200, 1e3, 1e5, 1e300, 3, 2])
    x = np.array([1e-300, 0.999, 1, 1, 1.5, 10, 10.01, 200, 1.1e3, 1e5, 1e-300, 1e300, np.nan])
    with jax.enable_x64(True):
        ours = special.gammainc(a, x)
        np.testing.assert_allclose(ours, scipy.special.gammainc(a, x), rtol=1e-11)
        p, q = np.array([1, 1e-3, 48, 97, 5, 6e4, 1e3]), np.array([1, 48, 5e-3, 0.035, 5, 7e4, 1e5])
        y = np.array([1e-300, 0.02, 0.98, 0.9896, 0.5, 0.461, 0.01])
        ours = special.betainc(p, q, y)
        np.testing.assert_allclose(ours, scipy.special.betainc(p, q, y), rtol=1e-9)
    single = special.gammainc(a[1:10].astype(np.float32), x[1:10].astype(np.float32))
    np.testing.assert_allclose(single, scipy.special.gammainc(a, x)[1:10], rtol=1e-4)


def test_derivatives_of_modified_bessel_functions_at_zero():
    """Those of i0 are 0 and 1/2, those of i1 are 1/2 and 0; the reference's are not, for its abs has the slope 1 there."""
    for fun, want in ((special.i0, (0, 0.5)), (special.i1, (0.5, 0))):
        slope = jax.grad(fun)
        ours = [(slope(x), jax.grad(slope)(x)) for x in (0.0, -0.0)]
        np.testing.assert_allclose(ours, [want, want], rtol=1e-6)


def test_gradient_of_spence():
    x = np.float32([0.3, 1.0, 1.3, 1.7, 3.5])
    slope = jax.vmap(jax.grad(special.spence))(x)
    divisor = np.where(x == 1, 1, 1 - x)
    np.testing.assert_allclose(slope, np.where(x == 1, -1, np.log(x) / divisor), rtol=1e-6)


def test_derivative_of_hyp1f1_by_a_negative_integer():
    """Found by differences of mpmath's function, of 40 digits."""
    slope = jax.grad(special.hyp1f1)(np.float32(-2.0), np.float32(3.0), np.float32(1.5))
    np.testing.assert_allclose(slope, 0.2387827, rtol=1e-6)


def test_hyp1f1_whose_series_overflows():
    a, b, x = np.array(
        [[7.25, 1, 3, 0.5], [5, 20.5, 63.25, 40.5], [-150, -150, -500, -170]], np.float32
    )
    ours = special.hyp1f1(a, b, x)
    np.testing.assert_allclose(ours, scipy.special.hyp1f1(*map(np.float64, (a, b, x))), rtol=5e-7)
    with jax.enable_x64(True):
        np.testing.assert_allclose(
            special.hyp1f1(30.0, 10.5, -1000.0), 3.667445205660634e-67, rtol=1e-12
        )


def test_hyp2f1_whose_power_overflows():
    args = np.array([[2, 2, 2], [20.5, 20.5, 22.25], [3, 3.25, 4], [-100, -100, -60]], np.float32)
    ours = special.hyp2f1(*args)
    np.testing.assert_allclose(ours, scipy.special.hyp2f1(*map(np.float64, args)), rtol=2e-6)


BESSEL_POINTS = np.array([0.0, 1e-200, 1e-30, 1e-5, -0.1, 1.0, -5.0, 12.5, 20.0])


def bessel(n, x):
    return np.stack([scipy.special.jv(k, x) for k in range(n + 1)])


def test_bessel_jn_of_small_numbers():
    with jax.enable_x64(True):
        ours = special.bessel_jn(BESSEL_POINTS, v=4)
    np.testing.assert_allclose(ours, bessel(4, BESSEL_POINTS), rtol=1e-12, atol=1e-15)
    x = BESSEL_POINTS.astype(np.float32)
    np.testing.assert_allclose(special.bessel_jn(x, v=4), bessel(4, x), rtol=1e-5, atol=1e-7)


def test_bessel_jn_near_zeros_and_of_large_numbers():
    with jax.enable_x64(True):
        # The numbers next to zeros of orders 0, 1 and 2, with values by mpmath
        zeros = np.array([2.404825557695773, 13.323691936314223, 36.86285651128381])
        exact = [-6.10876525973673e-17, -5.67823563614589e-17, 1.18719251333799e-16]
        ours = special.bessel_jn(zeros, v=5)[np.arange(3), np.arange(3)]
        np.testing.assert_allclose(ours, exact, rtol=1e-12)
        z = np.array([40.0, 59.5, 61.0, 1e3, 1e8, -1e3, np.inf, np.nan])
        for v in (0, 60):  # below and above some of the numbers
            with np.errstate(invalid="ignore"):
                want = np.where(np.isinf(z), 0, bessel(v, z))
            np.testing.assert_allclose(special.bessel_jn(z, v=v), want, rtol=1e-9, atol=1e-13)
        small = np.array([1e-10, 1e-5, 1e-3])
        np.testing.assert_allclose(special.bessel_jn(small, v=5), bessel(5, small), rtol=1e-14)


@pytest.mark.parametrize("derivative", [jax.jacfwd, jax.jacrev])
def test_derivatives_of_bessel_jn(derivative):
    slopes = derivative(lambda x: special.bessel_jn(x, v=3))
    curves = jax.jacfwd(slopes)
    with jax.enable_x64(True):
        for n, fun in enumerate((slopes, curves), 1):
            want = [scipy.special.jvp(k, BESSEL_POINTS, n) for k in range(4)]
            np.testing.assert_allclose(jax.vmap(fun)(BESSEL_POINTS).T, want, atol=1e-14)
    single = jax.vmap(slopes)(np.float32([25.0, 30.5, 21.0]))
    want = [scipy.special.jvp(k, [25.0, 30.5, 21.0]) for k in range(4)]
    np.testing.assert_allclose(single.T, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "fun",
    [
        special.exp1,
        special.expi,
        special.spence,
        lambda x: special.expn(2, x),
        lambda x: special.comb(x, 0.1),
        lambda x: special.hyp1f1(0.5, 1.5, x),
        lambda x: special.hyp2f1(0.5, 1.5, x, x),
        lambda x: special.bessel_jn(x, v=2)[1],
    ],
)
def test_gradients_on_explicit_axes(fun):
    mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Explicit,))
    x = np.linspace(0.2, 0.9, 6, dtype=np.float32)
    ours, pull = jax.vjp(fun, jax.device_put(x, NamedSharding(mesh, P("x"))))
    want, pull_one = jax.vjp(fun, x)
    for y, w in ((ours, want), (pull(ours)[0], pull_one(want)[0])):
        assert jax.typeof(y).sharding.spec == P("x")
        np.testing.assert_allclose(y, w, rtol=1e-5)


def test_operands_of_different_explicit_shardings():
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    x, y = np.float32([[0.2], [0.4], [0.6], [0.8]]), np.float32([0.3, 0.7])
    on_x, on_y = (
        jax.device_put(v, NamedSharding(mesh, P(*s))) for v, s in ((x, ("x", None)), (y, ("y",)))
    )
    for out in jnp.broadcast_arrays(on_x, on_y):
        assert jax.typeof(out).sharding.spec == P("x", "y")
    for name in ("xlogy", "rel_entr", "beta", "gammainc", "owens_t"):
        fun = getattr(special, name)
        out = fun(on_x, on_y)
        assert jax.typeof(out).sharding.spec == P("x", "y"), name
        np.testing.assert_allclose(out, fun(x, y), rtol=1e-6)
    out = special.boxcox(on_x, 0.5)
    assert jax.typeof(out).sharding.spec == P("x", None)


def test_logarithms_near_one_half():
    """Values of mpmath, of 40 digits."""
    with jax.enable_x64(True):
        logit = special.logit(np.float64(0.3015986344809425))
        log_ndtr = special.log_ndtr(np.float64(0.21848321750071698))
    np.testing.assert_allclose(logit, -0.83969685119357496, rtol=4e-16)
    np.testing.assert_allclose(log_ndtr, -0.53362748229407075, rtol=4e-16)


def test_gammainc_far_below_the_mean():
    with jax.enable_x64(True):
        ours = special.gammainc(19.263488788536687, 5.93510665943489e-13)
    np.testing.assert_allclose(ours, 1.1163264816490556e-253, rtol=2e-13)


def test_betainc_far_below_the_mean():
    with jax.enable_x64(True):
        ours = special.betainc(10.0, [50.0, 7.5] @ np.eye(2), 1e-20)
    np.testing.assert_allclose(ours, [6.2828356304995e-190, 1.261116846084589e-196], rtol=2e-13)
