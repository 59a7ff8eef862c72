"""Indexing against NumPy and the reference build."""

import pickle
import warnings

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from op_testing import case_tests

import jax
import jax.numpy as jnp

reference, test_reference, test_numpy = case_tests(__file__)

SETTINGS = hypothesis.settings(
    max_examples=60, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)


@st.composite
def array_and_index(draw, repeats=True):
    """An array and an index of it that NumPy takes; without `repeats` no element is indexed twice."""
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    x = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    n_arrays = draw(st.integers(0, 2))
    spread = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
    items, axis, gap = [], 0, False
    while axis < len(shape):
        size = shape[axis]
        kinds = ["slice", "none", "stop"]
        if size:
            kinds.append("int")
        if not gap:
            kinds.append("ellipsis")
        if n_arrays and (size or 0 in spread):
            kinds.append("array")
        if n_arrays and size:
            kinds.append("mask")
        kind = draw(st.sampled_from(kinds))
        if kind == "stop":
            break
        if kind == "int":
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            ends = st.none() | st.integers(-size - 2, size + 2)
            step = draw(st.none() | st.integers(-3, 3).filter(bool))
            items.append(slice(draw(ends), draw(ends), step))
        elif kind == "none":
            items.append(None)
            axis -= 1
        elif kind == "ellipsis":
            gap = True
            rest = draw(st.integers(0, len(shape) - axis))
            items.append(...)
            axis = len(shape) - rest - 1
        elif kind == "array":
            n_arrays -= 1
            ndim = draw(st.integers(0, len(spread)))
            dims = tuple(draw(st.sampled_from([1, d])) for d in spread[len(spread) - ndim :])
            n = int(np.prod(dims, dtype=int))
            low = -size if repeats else 0
            entries = draw(st.lists(st.integers(low, max(size - 1, low)), min_size=n, max_size=n))
            items.append(
                np.array(entries, dtype=draw(st.sampled_from(["int32", "int8", "int64"]))).reshape(
                    dims
                )
            )
        else:
            n_arrays = 0
            spread = ()
            items.append(np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size))))
        axis += 1
    # With an ellipsis in the middle, what stands after it indexes the last dimensions.
    index = tuple(items)
    try:
        x[index]
    except IndexError:
        hypothesis.assume(False)
    return x, index[0] if len(index) == 1 and draw(st.booleans()) else index


def split(index):
    """An index as its arrays and integers, and a function from these to the index."""
    items = index if isinstance(index, tuple) else (index,)
    traced = [
        i
        for i in items
        if (isinstance(i, int) and not isinstance(i, bool))
        or (isinstance(i, np.ndarray) and i.dtype != bool)
    ]

    def join(values):
        values = iter(values)
        out = tuple(next(values) if any(i is t for t in traced) else i for i in items)
        return out if isinstance(index, tuple) else out[0]

    return traced, join


@SETTINGS
@hypothesis.given(array_and_index())
def test_get(case):
    x, index = case
    want = x[index]
    y = jnp.asarray(x)
    np.testing.assert_array_equal(y[index], want)
    np.testing.assert_array_equal(jax.jit(lambda x: x[index])(x), want)
    traced, join = split(index)
    with jax.enable_x64(False):
        np.testing.assert_array_equal(jax.jit(lambda x, *v: x[join(v)])(x, *traced), want)
    for mode in ("fill", "clip"):
        np.testing.assert_array_equal(y.at[index].get(mode=mode), want)


@SETTINGS
@hypothesis.given(array_and_index(), st.sampled_from(["add", "multiply", "min", "max", "subtract"]))
def test_update(case, op):
    x, index = case
    values = np.arange(x[index].size, dtype=np.float32).reshape(x[index].shape) + 2
    want = x.copy()
    ufunc = {"min": np.minimum, "max": np.maximum}.get(op) or getattr(np, op)
    ufunc.at(want, index, values)
    update = lambda x, v: getattr(x.at[index], op)(v)
    np.testing.assert_allclose(update(jnp.asarray(x), values), want, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(update)(x, values), want, rtol=1e-6)
    traced, join = split(index)
    out = jax.jit(lambda x, *v: getattr(x.at[join(v)], op)(values))(x, *traced)
    np.testing.assert_allclose(out, want, rtol=1e-6)


@SETTINGS
@hypothesis.given(array_and_index())
def test_set(case):
    x, index = case
    positions = np.arange(x.size).reshape(x.shape)[index]
    hypothesis.assume(np.unique(positions).size == positions.size)
    values = -np.arange(positions.size, dtype=np.float32).reshape(positions.shape) - 1
    want = x.copy()
    want[index] = values
    np.testing.assert_array_equal(jnp.asarray(x).at[index].set(values), want)
    np.testing.assert_array_equal(jax.jit(lambda x, v: x.at[index].set(v))(x, values), want)
    want[index] = 7
    np.testing.assert_array_equal(jnp.asarray(x).at[index].set(7), want)


@SETTINGS
@hypothesis.given(array_and_index())
def test_gradient_of_get_is_an_addition(case):
    x, index = case
    ct = np.cos(np.arange(x[index].size, dtype=np.float32)).reshape(x[index].shape)
    want = np.zeros_like(x)
    np.add.at(want, index, ct)
    _, pull = jax.vjp(lambda x: x[index], x)
    np.testing.assert_allclose(pull(ct)[0], want, rtol=1e-5, atol=1e-6)


@SETTINGS
@hypothesis.given(array_and_index())
def test_vmap(case):
    x, index = case
    xs = np.stack([x, x + 100, -x])
    want = np.stack([y[index] for y in xs])
    np.testing.assert_array_equal(jax.vmap(lambda x: x[index])(xs), want)
    traced, join = split(index)
    if traced:
        out = jax.vmap(lambda x, *v: x[join(v)], (0, *[None] * len(traced)))(xs, *traced)
        np.testing.assert_array_equal(out, want)
        many = [np.stack([np.asarray(t)] * 3) for t in traced]
        np.testing.assert_array_equal(jax.vmap(lambda x, *v: x[join(v)])(xs, *many), want)


def test_traces_of_static_indices_are_slices():
    x = np.ones((4, 5), np.float32)
    for index, want in {
        np.s_[
            0
        ]: "b:f32[1,5] = slice[limit_indices=(1, 5) start_indices=(0, 0) strides=None] a c:f32[5] = "
        "squeeze[dimensions=(0,)] b in (c,)",
        np.s_[...]: "let in (a,)",
        np.s_[None]: "b:f32[1,4,5] = broadcast_in_dim[broadcast_dimensions=(1, 2)] a in (b,)",
    }.items():
        text = " ".join(str(jax.make_jaxpr(lambda x, index=index: x[index])(x)).split())
        assert want in text, text


def test_whole_arrays_are_not_copied():
    x = jnp.arange(4)
    assert x[:] is x and x[...] is x and x[()] is x and x[0:9] is x


def test_one_program_for_all_positions():
    x = jnp.arange(100.0)
    for index in (0, slice(0, 3), (slice(None, None, 2),)):
        x[index]
    from jax._src.numpy.indexing import getting

    n = getting._take_row._cache_size()
    for i in range(50):
        assert x[i] == i
        assert x[-i - 1] == 99 - i
    assert getting._take_row._cache_size() <= n + 1


def test_positions_out_of_reach_of_their_dtype():
    x = jnp.arange(300)
    assert x[jnp.int8(-1)] == 299
    np.testing.assert_array_equal(x[np.array([-1, 5], np.int8)], [299, 5])
    np.testing.assert_array_equal(x.at[np.array([-1], np.int8)].set(7)[-2:], [298, 7])
    assert x[jnp.uint8(255)] == 255
    assert x[2**40] == 299 and x[-(2**40)] == 0
    np.testing.assert_array_equal(x[np.array([2**40, -(2**40)])], [299, 0])
    np.testing.assert_array_equal(x.at[np.array([2**32 + 1])].set(-1), x)


def test_empty_axes():
    x = jnp.zeros((0, 3))
    with pytest.raises(IndexError, match="index is out of bounds for axis 0 with size 0"):
        x[0]
    with pytest.raises(TypeError, match=r"axis 0 of the array of shape \(0, 3\) has size 0"):
        x[np.array([1])]
    np.testing.assert_array_equal(x.at[np.array([1])].get(mode="fill", fill_value=7), [[7, 7, 7]])
    assert x[np.zeros(0, int)].shape == (0, 3)
    assert x.at[np.array([1])].set(3).shape == (0, 3)


def test_masks_of_new_dimensions_stand_where_numpy_puts_them():
    x = np.arange(24.0).reshape(2, 3, 4)
    for index in (
        np.s_[:, True, None, False],
        np.s_[True],
        np.s_[:, np.array(True), [0, 1]],
        np.s_[np.True_],
    ):
        np.testing.assert_array_equal(jnp.asarray(x)[index], x[index])


def test_one_hot_mode():
    x = jnp.arange(12.0).reshape(4, 3)
    index = np.array([1, 7, -1])
    np.testing.assert_array_equal(
        x.at[index].get(mode="one_hot"), x.at[index].get(mode="fill", fill_value=0)
    )
    np.testing.assert_array_equal(x.at[2, index].get(mode="one_hot"), [7, 0, 8])


def test_apply_is_differentiable_where_indices_are_unique():
    x = np.arange(4, dtype=np.float32) + 0.5

    def f(x):
        return x.at[1:3].apply(jnp.sin).sum()

    np.testing.assert_allclose(jax.grad(f)(x), [1, np.cos(1.5), np.cos(2.5), 1], rtol=1e-6)


def test_multiply_is_differentiable_where_indices_repeat():
    x, i = np.array([2.0, 3.0, 5.0], np.float32), np.array([0, 0, 2])

    def f(x, y):
        return (x.at[i].multiply(y) * np.array([1.0, 10.0, 100.0], np.float32)).sum()

    gx, gy = jax.grad(f, (0, 1))(x, np.array([7.0, 0.0, 2.0], np.float32))
    np.testing.assert_allclose(gx, [0, 10, 200])
    np.testing.assert_allclose(gy, [0, 14, 500])


def test_unsafe_casts_of_values_warn():
    x = jnp.arange(4)
    for update in (lambda: x.at[0].set(1.5), lambda: x.at[np.array([0])].add(np.float32(1.5))):
        for _ in range(2):  # also when the program is there already
            with pytest.warns(FutureWarning, match="scatter inputs have incompatible types"):
                update()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.at[0].set(1)
        x.at[0].set(True)
        jnp.ones(3).at[0].set(1)
        jnp.ones(3).at[0].set(np.float64(1))


def test_lists_of_traced_values():
    f = jax.jit(lambda i, v: jnp.zeros(3).at[0:2].set([v, 1]) + jnp.arange(3)[[i, 0, 0],])
    np.testing.assert_array_equal(f(2, 5.0), [7, 1, 0])


def test_at_prints_and_pickles_nothing():
    x = jnp.arange(3)
    assert repr(x.at) == f"_IndexUpdateHelper({x!r})"
    assert repr(x.at[0]) == f"_IndexUpdateRef({x!r}, 0)"
    assert pickle.loads(pickle.dumps(x))[1] == 1


def test_traced_masks_name_the_remedy():
    with pytest.raises(jax.errors.NonConcreteBooleanIndexError, match="jnp.where"):
        jax.jit(lambda x: x[x > 0])(np.ones(3))
    with pytest.raises(IndexError, match="dynamic_slice"):
        jax.jit(lambda x, i: x[i : i + 1])(np.ones(3), 0)


def test_mask_dimensions_of_size_zero_fit_any_size():
    x = jnp.ones((4, 6))
    for mask, shape in [((0,), (0, 6)), ((0, 6), (0,)), ((4, 0), (0,)), ((0, 0), (0,))]:
        assert x[np.zeros(mask, bool)].shape == shape
        assert x.at[np.zeros(mask, bool)].set(2.0).sum() == 24
    for mask in [(0, 5), (5, 0), (1, 0), (0, 0, 0)]:
        with pytest.raises(IndexError):
            x[np.zeros(mask, bool)]


def test_traced_masks_of_too_many_dimensions():
    with pytest.raises(IndexError, match="Too many indices"):
        jax.jit(lambda x, mask: x[:, mask])(np.ones((4, 6)), np.ones((4, 6), bool))


def test_many_threads():
    from concurrent.futures import ThreadPoolExecutor

    x = jnp.arange(1000.0)
    with ThreadPoolExecutor(4) as pool:
        outs = list(pool.map(lambda i: float(x[i]) + float(x.at[i].add(1)[i]), range(200)))
    assert outs == [2.0 * i + 1 for i in range(200)]


@pytest.mark.parametrize("index", [np.uint32(4_000_000_000), np.uint16(60_000), np.uint8(200)])
def test_traced_unsigned_positions_count_in_their_own_dtype(index):
    x = jnp.arange(5.0)
    traced = jax.make_jaxpr(lambda x, i: x[i])(x, index)
    assert [e.primitive.name for e in traced.eqns] == ["dynamic_slice", "squeeze"]
    for f in (lambda x, i: x[i], lambda x, i: x[jax.ds(i, 1)][0]):
        assert jax.jit(f)(x, index) == 4.0
        assert jax.vmap(f, (None, 0))(x, jnp.array([index]))[0] == 4.0


def test_traced_positions_that_cannot_count_the_elements():
    x = jnp.arange(300.0)
    assert jax.jit(lambda x, i: x[i])(x, np.int8(-1)) == 299.0
    assert jax.jit(lambda x, i, j: x.reshape(3, 100)[i, j])(x, np.uint8(2), np.int8(-1)) == 299.0


@pytest.mark.parametrize("i", [2**31, 3_000_000_000, 2**32 - 1])
def test_large_unsigned_indices_are_out_of_bounds(i):
    """And do not count from the end, as the negative numbers of their bits would."""
    x, index = jnp.arange(5.0), jnp.array([i], jnp.uint32)
    for f, expected in [
        (lambda i: jnp.take(x, i), [np.nan]),
        (lambda i: jnp.take(x, i, mode="clip"), [4.0]),
        (lambda i: jnp.take(x, i, mode="wrap"), [i % 5]),
        (lambda i: jnp.put(x, i, 9.0, inplace=False), [0, 1, 2, 3, 9]),
        (lambda i: jnp.put_along_axis(x, i, 9.0, 0, inplace=False), [0, 1, 2, 3, 4]),
        (lambda i: jnp.insert(x, i, 9.0), [0, 1, 2, 3, 4, 9]),
        (lambda i: jnp.ravel_multi_index((i, i), (2, 3), mode="clip"), [5]),
        (lambda i: jnp.ravel_multi_index((i, i), (2, 3), mode="wrap"), [i % 2 * 3 + i % 3]),
    ]:
        np.testing.assert_array_equal(f(index), expected)
        np.testing.assert_array_equal(jax.jit(f)(index), expected)
