"""Cases of `jax.scipy.{ndimage,interpolate,integrate,cluster.vq}`."""

import itertools

import numpy as np
import scipy.interpolate
import scipy.ndimage
from op_cases import Case, values

import jax.numpy as jnp
from jax.scipy.cluster.vq import vq
from jax.scipy.integrate import trapezoid
from jax.scipy.interpolate import RegularGridInterpolator
from jax.scipy.ndimage import map_coordinates

CASES = []


def add(name, fun, *args, **options):
    if name.startswith("grid"):
        options = {"ignore": ("eager",), "vmap": False, **options}
    CASES.append(Case(name, fun, [np.asarray(a) for a in args], **options))


def error(name, fun):
    CASES.append(Case(f"error_{name}", fun, diff="", vmap=False, any_error=True, ignore=("jit",)))


# map_coordinates
LINE = np.float32([1, 2, 4, 3, 7])
AT = np.float32([-11.3, -3.3, -1.2, -0.5, -0.4, 0.3, 0.5, 1.5, 2.6, 4.0, 4.4, 4.5, 6.7, 11, 23.4])
SCIPY_MODES = {"constant": "grid-constant", "wrap": "grid-wrap"}
MODES = ("constant", "nearest", "wrap", "mirror", "reflect")
for mode, order in itertools.product(MODES, (0, 1)):
    same = SCIPY_MODES.get(mode, mode)
    add(
        f"map_{mode}_{order}",
        lambda x, c, mode=mode, order=order: map_coordinates(x, [c], order, mode, cval=-1.5),
        LINE,
        AT,
        # SciPy rounds halves down in some modes.
        numpy=(
            lambda x, c, same=same: scipy.ndimage.map_coordinates(
                x, [c], order=1, mode=same, cval=-1.5
            )
        )
        if order
        else None,
        tol=1e-5,
        vmap=mode == "reflect",
        diff="both" if order else "",
    )
    for size in (1, 2) if order else ():
        add(
            f"map_{mode}_{order}_size_{size}",
            lambda x, c, mode=mode, order=order: map_coordinates(x, [c], order, mode),
            LINE[:size],
            AT,
            diff="",
            vmap=False,
            tol=1e-5,
        )
    add(
        f"map_{mode}_{order}_plane",
        lambda x, c, d, mode=mode, order=order: map_coordinates(x, (c, d), order, mode),
        values((4, 5), "float32", "plane"),
        AT[2:9, None],
        AT[3:6],
        vmap=False,
        diff="both" if order and mode in ("constant", "reflect") else "",
        tol=1e-5,
    )
for dtype in ("int32", "uint8", "bool", "complex64", "float16", "bfloat16", "float64"):
    x = LINE > 2 if dtype == "bool" else LINE
    for order in (0, 1):
        add(
            f"map_{dtype}_{order}",
            lambda x, c, dtype=dtype, order=order: map_coordinates(x.astype(dtype), [c], order),
            x,
            AT[2:12],
            diff="",
            vmap=False,
            x64=dtype == "float64",
        )
add("map_bool_parts", lambda x, c: map_coordinates(x, [c], 1), LINE > 2, np.float32([0.9, 1, 1.1]))
add(
    "map_integer_coordinates",
    lambda x, c: map_coordinates(x, [c], 1),
    LINE,
    np.int32([-1, 0, 4, 9]),
)
add(
    "map_rounds",
    lambda x, c: map_coordinates(x, [c], 1),
    np.int32([0, 1, -1, 3]),
    np.float32([0.5, 1.25, 1.5, 2.5]),
)
add(
    "map_narrow_coordinates",
    lambda x, c: map_coordinates(x, [c], 1),
    LINE,
    AT.astype(np.float16),
    diff="",
)
add(
    "map_of_array",
    lambda x, c: map_coordinates(x, c, 1),
    values((4, 5), "float32", "plane"),
    np.float32([[0.5, 2], [1.25, 3.5]]),
)
add(
    "map_cube",
    lambda x, c: map_coordinates(x, [c, c, c], 1, "reflect"),
    values((2, 3, 4), "float32", "c"),
    AT[3:10],
    tol=1e-5,
)
add(
    "map_nan",
    lambda x, c: map_coordinates(x, [c], 1),
    np.float32([np.nan, 1, 2]),
    np.float32([1, 1.5, -1, 0, np.nan, np.inf]),
    diff="",
    vmap=False,
)
add("map_weak", lambda: map_coordinates(jnp.asarray([1, 2]), [jnp.asarray(1.0)], 1), diff="")
error("map_order", lambda: map_coordinates(LINE, [AT], 2))
error("map_mode", lambda: map_coordinates(LINE, [AT], 1, "bad"))
error("map_rank", lambda: map_coordinates(LINE, [AT, AT], 1))
error("map_empty", lambda: map_coordinates(LINE[:0], [AT], 1))
error("map_scalar", lambda: map_coordinates(LINE[0], [], 1))
error("map_cval", lambda: map_coordinates(LINE, [AT], 1, cval=1j))
error("map_complex", lambda: map_coordinates(LINE, [AT * 1j], 1))

# RegularGridInterpolator
GRID = np.float32([0, 1, 3]), np.float32([0, 2, 4, 5])
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4) ** 2
POINTS = np.float32([[0.5, 1], [2, 4.5], [3, 5], [0, 0], [-1, 2], [2, 6], [1, 2], [1.25, 0.5]])
for method in ("linear", "nearest"):
    for fill in (np.nan, None, 7.0):
        add(
            f"grid_{method}_{fill}",
            lambda v, x, m=method, f=fill: RegularGridInterpolator(GRID, v, m, fill_value=f)(x),
            TABLE,
            POINTS,
            numpy=lambda v, x, m=method, f=fill: scipy.interpolate.RegularGridInterpolator(
                GRID, v, m, bounds_error=False, fill_value=f
            )(x),
            tol=1e-5,
            vmap=False,
            diff="both" if fill != 7 else "",
        )
interpolate = lambda *args, **options: RegularGridInterpolator(*args, **options)
add("grid_method_of_call", lambda v, x: interpolate(GRID, v)(x, "nearest"), TABLE, POINTS, diff="")
add(
    "grid_traced",
    lambda p, q, v, x: interpolate((p, q), v)(x),
    *GRID,
    TABLE,
    POINTS[:4] + np.float32(0.1),
    tol=1e-5,
    vmap=False,
)
add("grid_trailing", lambda v, x: interpolate(GRID, v)(x), np.stack([TABLE, 2 * TABLE], -1), POINTS)
add("grid_fewer", lambda v, x: interpolate(GRID[:1], v)(x), TABLE, POINTS[:, :1])
add(
    "grid_tuple",
    lambda v, x, y: interpolate(GRID, v)((x, y)),
    TABLE,
    np.float32([[0.5], [1]]),
    np.float32([1, 2]),
)
add("grid_batch", lambda v, x: interpolate(GRID, v)(x), TABLE, POINTS.reshape(2, 4, 2))
add("grid_empty", lambda v, x: interpolate(GRID, v)(x), TABLE, POINTS[:0], diff="", vmap=False)
add("grid_line", lambda v, x: interpolate(GRID[:1], v)(x), TABLE[:, 0], np.float32([0.5, 2]))
add(
    "grid_ties",
    lambda v, x: interpolate((np.arange(4.0, dtype=np.float32),), v, "nearest")(x),
    np.float32([1, 2, 3, 4]),
    np.float32([0.5, 1.5, 2.5]),
    vmap=False,
)
for dtype in ("int32", "complex64", "float16", "float64"):
    add(
        f"grid_{dtype}",
        lambda v, x, d=dtype: interpolate(GRID, v.astype(d))(x),
        TABLE,
        POINTS,
        diff="",
        vmap=False,
        x64=dtype == "float64",
    )
error("grid_method", lambda: interpolate(GRID, TABLE, "cubic"))
error("grid_bounds", lambda: interpolate(GRID, TABLE, bounds_error=True))
error("grid_too_many", lambda: interpolate(GRID * 2, TABLE))
error("grid_fill", lambda: interpolate(GRID, TABLE, fill_value=1j))
error("grid_dimension", lambda: interpolate(GRID, TABLE)(np.ones((2, 3), np.float32)))

# trapezoid
PLANE = values((3, 4), "float32", "plane")
add("trapezoid", lambda y: trapezoid(y), PLANE)
add("trapezoid_dx", lambda y: trapezoid(y, dx=0.5, axis=0), PLANE)
add("trapezoid_x", lambda y, x: trapezoid(y, x), PLANE, np.float32([0, 1, 3, 4.5]))
add("trapezoid_x_axis", lambda y, x: trapezoid(y, x, axis=0), PLANE, np.float32([0, 1, 4]))
add("trapezoid_integers", lambda y, x: trapezoid(y, x), np.int32([1, 2, 3]), np.int32([1, 2, 4]))
add("trapezoid_complex", lambda y: trapezoid(y), values((4,), "complex64", "c"))
error("trapezoid_list", lambda: trapezoid([1, 2, 3]))
error("trapezoid_axis", lambda: trapezoid(PLANE, axis=2))

# vq
OBSERVED, CODES = np.float32([[1, 1.5], [2, 2.1], [3.1, 2.9]]), np.float32([[1, 1], [3, 3]])
add("vq", lambda x, c: vq(x, c), OBSERVED, CODES)
add(
    "vq_line",
    lambda x, c: vq(x, c, check_finite=False),
    OBSERVED[:, 0],
    CODES[:, 0] + np.float32(0.25),
)
add("vq_integers", lambda x, c: vq(x, c), np.int32([[1, 1], [2, 3]]), np.int32([[0, 0], [3, 3]]))
add("vq_mixed", lambda x, c: vq(x, c), OBSERVED.astype(np.float16), CODES, diff="")
add("vq_complex", lambda x, c: vq(x, c), OBSERVED * np.complex64(1 + 1j), CODES, diff="")
add(
    "vq_ties_and_nan",
    lambda x, c: vq(x, c),
    np.float32([[2, 2], [np.nan, 1]]),
    CODES,
    diff="",
    vmap=False,
)
add("vq_empty", lambda x, c: vq(x, c), OBSERVED[:0], CODES, diff="", vmap=False)
add("vq_float64", lambda x, c: vq(x, c), OBSERVED.astype(float), CODES.astype(float), x64=True)
error("vq_rank", lambda: vq(OBSERVED, CODES[:, 0]))
error("vq_3d", lambda: vq(OBSERVED[None], CODES[None]))
error("vq_no_codes", lambda: vq(OBSERVED, CODES[:0]))
error("vq_list", lambda: vq([[1.0]], [[1.0]]))
