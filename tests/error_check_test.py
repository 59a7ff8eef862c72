"""Errors that computations record: `set_error_if`, `raise_if_error` and the checks of `jax.numpy`."""

import traceback

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src import error_check
from jax._src.error_check import JaxValueError, raise_if_error, set_error_if
from jax._src.numpy.error import error_checking_behavior
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

X = jnp.array([1.0, -1.0])


@jax.jit
def add_one(x):
    set_error_if(x < 0, "negative")
    return x + 1


@pytest.fixture(autouse=True)
def nothing_recorded():
    yield
    raise_if_error()


PROGRAMS = {
    "eager": lambda: set_error_if(X < 0, "negative"),
    "numpy": lambda: set_error_if(np.array([[False], [True]]), "negative"),
    "bool": lambda: set_error_if(True, "negative"),
    "int": lambda: set_error_if(jnp.array([0, 3]), "negative"),
    "jit": lambda: add_one(X),
    "grad": lambda: jax.grad(add_one)(-1.0),
    "vmap": lambda: jax.vmap(add_one)(X),
    "vmap_jit": lambda: jax.jit(jax.vmap(jax.vmap(add_one)))(X[None]),
    "grad_vmap": lambda: jax.grad(lambda x: jax.vmap(add_one)(x).sum())(X),
    "scan": lambda: jax.lax.scan(lambda c, x: (c, add_one(x)), 0.0, X),
    "vmap_scan": lambda: jax.vmap(lambda x: jax.lax.map(add_one, x))(X[None]),
    "cond": lambda: jax.lax.cond(X[0] > 0, add_one, lambda x: x, X),
    "while": lambda: jax.lax.while_loop(lambda x: x < 3, add_one, -1.0),
    "checkpoint": lambda: jax.grad(jax.checkpoint(add_one))(-1.0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    PROGRAMS[name]()
    with pytest.raises(JaxValueError, match="^negative$"):
        raise_if_error()
    raise_if_error()  # forgotten


def test_the_first_error_stays():
    def two(x):
        set_error_if(x > 5, "large")
        set_error_if(x < 0, "small")
        set_error_if(x < 1, "smaller than 1")

    jax.jit(two)(jnp.array([-1, 0]))
    add_one(X)
    with pytest.raises(JaxValueError, match="^small$") as info:
        raise_if_error()
    assert any(f.name == "two" for f in traceback.extract_tb(info.value.__traceback__))
    add_one(X[:1])
    with pytest.raises(ValueError, match="within a traced context"):
        jax.jit(lambda x: raise_if_error())(1)


def test_errors_are_numbered_by_place():
    errors = error_check._process_state.errors
    for _ in range(3):
        set_error_if(X[0] < 0, "not so")
    before = len(errors.all())
    for _ in range(3):
        set_error_if(X[0] < 0, "never so")
    assert len(errors.all()) == before + 1


@pytest.mark.parametrize("axis_type", [AxisType.Explicit, AxisType.Auto])
def test_meshes(axis_type):
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(axis_type,) * 2)
    x = jax.device_put(-jnp.arange(8.0), NamedSharding(mesh, P("x")))
    with jax.set_mesh(mesh):
        if axis_type is AxisType.Explicit:
            add_one(x)
        else:
            with pytest.warns(RuntimeWarning, match="communication"):
                add_one(x)
        with pytest.raises(JaxValueError, match="negative"):
            raise_if_error()
        with error_check.error_checking_context():
            set_error_if(x.sum() < 0, "sum")
            with pytest.raises(JaxValueError, match="sum"):
                raise_if_error()
            set_error_if(x.sum() < 0, "forgotten with its context")
        raise_if_error()
        jax.jit(add_one).lower(jnp.zeros(()))


def test_an_explicit_mesh_needs_no_communication():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.arange(8.0), P("x"))
        text = jax.jit(lambda x: set_error_if(x < 0, "negative")).lower(x).compile().as_text()
    assert "all-reduce" not in text and "all-gather" not in text


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit, jax.grad])
def test_shards(transform):
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    shards = jax.shard_map(add_one, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    f = transform(lambda x: shards(x).sum())
    f(jnp.arange(8.0))
    raise_if_error()
    f(jnp.arange(8.0) - 1)
    with pytest.raises(JaxValueError, match="negative"):
        raise_if_error()


def shards_of(mesh, **options):
    return jax.shard_map(add_one, mesh=mesh, in_specs=P("x"), out_specs=P("x"), **options)


def check_finds_only_negative_numbers(f, x):
    f(x + 1)
    raise_if_error()
    f(x)
    with pytest.raises(JaxValueError, match="negative"):
        raise_if_error()


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_batches_of_shards(transform):
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    f = jax.vmap(shards_of(mesh))
    x = jnp.arange(16.0).reshape(2, 8) - 1
    check_finds_only_negative_numbers(transform(f), x)
    check_finds_only_negative_numbers(transform(jax.grad(lambda x: f(x).sum())), x)


def test_shards_of_several_meshes_and_whole_arrays():
    x = jnp.arange(8.0) - 1
    for devices in (jax.devices()[:4], jax.devices()[4:6]):
        mesh = jax.make_mesh((len(devices),), ("x",), axis_types=(AxisType.Auto,), devices=devices)
        check_finds_only_negative_numbers(shards_of(mesh), x)
        check_finds_only_negative_numbers(add_one, x)


@pytest.mark.parametrize("axis_type", [AxisType.Explicit, AxisType.Auto])
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_shards_of_the_mesh_in_use(transform, axis_type):
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(axis_type,) * 2)
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.arange(8.0) - 1, P("x"))
        check_finds_only_negative_numbers(transform(shards_of(mesh)), x)
        check_finds_only_negative_numbers(transform(jax.vmap(shards_of(mesh))), x[None])
        check_finds_only_negative_numbers(jax.jit(shards_of(mesh, axis_names={"x"})), x)
        wrapped = transform(error_check.wrap_for_export(shards_of(mesh)))
        check_finds_only_negative_numbers(error_check.unwrap_from_import(wrapped), x)


def check_names_add_one(run):
    assert run(4.0) == 3
    raise_if_error()
    assert run(1.0) == 0
    with pytest.raises(JaxValueError, match="negative") as info:
        raise_if_error()
    assert "add_one" in info.value.__notes__[0]


def test_exported_programs_as_bytes():
    wrapped = jax.jit(error_check.wrap_for_export(lambda x: add_one(add_one(x) - 3)))
    blob = jax.export.export(wrapped)(1.0).serialize()
    assert b"jax._src.error_check._ErrorClass" in blob  # as in those of PyPI's jax
    run = error_check.unwrap_from_import(jax.export.deserialize(blob).call)
    check_names_add_one(run)


def test_exported_programs():
    wrapped = jax.jit(error_check.wrap_for_export(lambda x: add_one(add_one(x) - 3)))
    out, _ = wrapped(1.0)  # -1 is negative
    raise_if_error()
    assert out == 0
    run = error_check.unwrap_from_import(wrapped)
    check_names_add_one(run)
    jax.jit(run)(1.0)
    with pytest.raises(JaxValueError, match="negative"):
        raise_if_error()


NAN, ZERO, OOB = "NaN encountered", "Division by zero", "Out of bounds index"
N = jnp.array([1.0, jnp.nan])
Z = jnp.zeros(2)
I = jnp.array([1, 0])
A = jnp.arange(5.0)
M = jnp.ones((3, 4))
OUTSIDE = jnp.array([1, 7])

# (what is checked, function, the error or None)
CHECKS = {
    "log": ("nan", lambda: jnp.log(-X), NAN),
    "sqrt": ("nan", lambda: jnp.sqrt(X), NAN),
    "sin": ("nan", lambda: jnp.sin(X / 0), NAN),
    "arccos": ("nan", lambda: jnp.arccos(2 * X), NAN),
    "power": ("nan", lambda: jnp.power(X, 0.5), NAN),
    "add": ("nan", lambda: N + 1, NAN),
    "subtract": ("nan", lambda: X / 0 - X / 0, NAN),
    "multiply": ("nan", lambda: jnp.full(2, jnp.inf) * Z, NAN),
    "divide_nan": ("nan", lambda: Z / Z, NAN),
    "mod": ("nan", lambda: X % Z, NAN),
    "hypot": ("nan", lambda: jnp.hypot(N, X), NAN),
    "float_power": ("nan", lambda: jnp.float_power(X, 0.5), NAN),
    "modf": ("nan", lambda: jnp.modf(N), NAN),
    "spacing": ("nan", lambda: jnp.spacing(N), NAN),
    "sinc": ("nan", lambda: jnp.sinc(N), NAN),
    "i0": ("nan", lambda: jnp.i0(N), NAN),
    "norm": ("nan", lambda: jnp.linalg.norm(N), NAN),
    "norm_of_matrix": ("nan", lambda: jnp.linalg.norm(N[None], axis=(0, 1)), NAN),
    "jit": ("nan", lambda: jax.jit(jnp.log)(-X), NAN),
    "vmap": ("nan", lambda: jax.vmap(jnp.log)(-X), NAN),
    "no_nan": ("nan", lambda: (jnp.log(jnp.abs(X)), jnp.divmod(I, I + 1), 1 / X), None),
    "not_made": ("nan", lambda: (jnp.exp(N), -N, jnp.isnan(N), N[0], jnp.where(True, N, 1)), None),
    "divide": ("divide", lambda: X / Z, ZERO),
    "by_number": ("divide", lambda: X / 0, ZERO),
    "of_number": ("divide", lambda: 1 / Z, ZERO),
    "floor_divide": ("divide", lambda: I // I, ZERO),
    "remainder": ("divide", lambda: I % I, ZERO),
    "divmod": ("divide", lambda: jnp.divmod(X, Z), ZERO),
    "true_divide": ("divide", lambda: jax.jit(jnp.divide)(I, I), ZERO),
    "average": ("divide", lambda: jnp.average(X, weights=X), ZERO),
    "no_zero": ("divide", lambda: (I / X, X // 2, jnp.log(Z), jnp.power(Z, -1.0)), None),
    "indices": ("oob", lambda: A[OUTSIDE], OOB),
    "index": ("oob", lambda: A[jnp.array(-6)], OOB),
    "indices_jit": ("oob", lambda: jax.jit(lambda a, i: a[i])(A, OUTSIDE), OOB),
    "of_columns": ("oob", lambda: M[:, OUTSIDE], OOB),
    "pairs": ("oob", lambda: M[jnp.array([0, 2]), jnp.array([0, 4])], OOB),
    "unsigned": ("oob", lambda: A[jnp.array([7], "uint8")], OOB),
    "at_get": ("oob", lambda: A.at[OUTSIDE].get(), OOB),
    "inside": ("oob", lambda: (A[-I], A[jnp.array(-5)], M[..., 3], A[A > 2], A[2:9], A[9]), None),
    "small_dtype": ("oob", lambda: jnp.zeros(300)[jnp.array([-128, 127], "int8")], None),
    # What happens out of bounds was chosen.
    "modes": (
        "oob",
        lambda: (A.at[OUTSIDE].get(mode="fill"), A.at[OUTSIDE].set(0.0), jnp.take(A, OUTSIDE)),
        None,
    ),  # fmt: skip
}


@pytest.mark.parametrize("name", CHECKS)
def test_checks(name):
    category, fun, message = CHECKS[name]
    fun()
    raise_if_error()
    with error_checking_behavior(**{category: "raise"}):
        fun()
    if message is None:
        raise_if_error()
    else:
        with pytest.raises(JaxValueError, match=message):
            raise_if_error()


def test_choice_of_checks():
    with error_checking_behavior(all="raise", nan="ignore"):
        jnp.log(-X)
        raise_if_error()
        with error_checking_behavior(divide="ignore"):
            assert jax.config.jax_error_checking_behavior_oob == "raise"
            X / Z
        raise_if_error()
        X / Z
    with pytest.raises(JaxValueError, match=ZERO):
        raise_if_error()
    assert jax.config.jax_error_checking_behavior_oob == "ignore"
    for option in ("all", "nan", "divide", "oob"):
        with pytest.raises(ValueError, match="must be in"):
            with error_checking_behavior(**{option: "x"}):
                pass
    assert jax.config.jax_error_checking_behavior_nan == "ignore"
