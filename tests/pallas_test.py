"""`jax.experimental.pallas`: beside the reference, and what we do besides."""

import functools

import numpy as np
import pallas_scenarios as s
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import export
from jax.experimental import checkify, pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P

reference, test_reference, _ = case_tests(__file__)
x8 = s.x8


def product(x_ref, y_ref, o_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...] @ y_ref[...]


def blocked_product(x, y, block=4):
    (m, k), n = x.shape, y.shape[1]
    return s.call(
        product,
        s.like((m, n), x.dtype),
        grid=(m // block, n // block, k // block),
        in_specs=[
            s.spec(block, block, at=lambda i, j, k: (i, k)),
            s.spec(block, block, at=lambda i, j, k: (k, j)),
        ],
        out_specs=s.spec(block, block, at=lambda i, j, k: (i, j)),
    )(x, y)


def test_derivatives_of_kernels_on_grids():
    r = np.random.RandomState(0)
    x, y, tx, ty = (jnp.asarray(r.randn(8, 8), jnp.float32) for _ in range(4))
    found = jax.jvp(blocked_product, (x, y), (tx, ty))
    np.testing.assert_allclose(found[0], x @ y, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1], tx @ y + x @ ty, rtol=1e-5, atol=1e-5)
    second = jax.jvp(
        lambda x: jax.jvp(lambda x: blocked_product(x, x), (x,), (tx,))[1], (x,), (ty,)
    )
    np.testing.assert_allclose(second[1], tx @ ty + ty @ tx, rtol=1e-5, atol=1e-5)
    batched = jax.vmap(lambda t: jax.jvp(blocked_product, (x, y), (t, ty))[1])(jnp.stack([tx, ty]))
    np.testing.assert_allclose(batched[1], ty @ y + x @ ty, rtol=1e-5, atol=1e-5)


def test_derivatives_of_scratch_aliases_and_integers():
    def square(x_ref, o_ref, kept_ref):
        kept_ref[...] = x_ref[...] * x_ref[...]
        o_ref[...] = kept_ref[...]

    f = s.call(square, x8, scratch_shapes=[pltpu.VMEM((8,), jnp.float32)])
    np.testing.assert_array_equal(jax.jvp(f, (x8,), (x8,))[1], 2 * x8 * x8)

    def scoped(x_ref, o_ref):
        def run(kept_ref):
            kept_ref[...] = x_ref[...] * x_ref[...]
            o_ref[...] = kept_ref[...]

        pl.run_scoped(run, pltpu.VMEM((8,), jnp.float32))

    np.testing.assert_array_equal(jax.jvp(s.call(scoped, x8), (x8,), (x8,))[1], 2 * x8 * x8)

    aliased = s.call(lambda x, y, o: o.__setitem__(0, y[0]), x8, input_output_aliases={0: 0})
    tangent = jax.jvp(lambda y: aliased(x8, y), (x8,), (x8 + 1,))[1]
    np.testing.assert_array_equal(tangent, np.eye(8, dtype=np.float32)[0])
    ints = s.call(
        lambda x, o: o.__setitem__(..., x[...].astype(jnp.int32)), s.like((8,), jnp.int32)
    )
    assert jax.jvp(ints, (x8,), (x8,))[1].dtype == jax.dtypes.float0
    with pytest.raises(ValueError, match="no reverse-mode derivative.*jax.custom_vjp"):
        jax.grad(lambda x: s.add_blocks(x, x).sum())(x8)


def test_grid_in_nested_functions():
    x, of_rows = s.x48, s.of_rows
    found = of_rows(kernel=s.with_grid_in_branches)
    np.testing.assert_array_equal(found, x[jnp.array([0, 0, 2, 2])])
    np.testing.assert_array_equal(of_rows(kernel=s.with_jitted_function)[2:], x[2:])
    found = of_rows(kernel=s.with_while)
    np.testing.assert_array_equal(found[::2], x[::2] * np.array([[2], [3]]))
    np.testing.assert_array_equal(found[1::2], 0)


def test_aliases_in_vmap():
    aliased = s.call(lambda x, y, o: o.__setitem__(0, y[0]), x8, input_output_aliases={0: 0})
    out = jax.vmap(aliased, (None, 0))(x8, jnp.stack([x8 + 5, x8 + 6]))
    np.testing.assert_array_equal(out, np.stack([x8, x8]) + np.eye(8)[0] * np.array([[5], [6]]))


def test_vmap_of_traced_grid():
    def count(n):
        write = lambda o: o.__setitem__(pl.program_id(0), pl.num_programs(0))
        return s.call(write, s.like((4,), jnp.int32), grid=(n,))()

    out = np.asarray(jax.jit(jax.vmap(count))(jnp.array([1, 3])))
    least = np.iinfo(np.int32).min
    np.testing.assert_array_equal(out, [[1, least, least, least], [3, 3, 3, least]])


def test_starts_of_elements_up_to_the_last():
    out = s.copied(s.spec(pl.Element(3), at=lambda i: (7,)), (3,), (1,), s.spec(3), x=x8)
    np.testing.assert_array_equal(out, [7, np.nan, np.nan])


def test_operations_for_tpus_are_transformed():
    x, w = s.x48, jnp.cos(s.x48)
    shifted = lambda x: pltpu.roll(x, 3, 1, stride=2, stride_axis=0)
    expected = np.stack([np.roll(r, 3 + 2 * i) for i, r in enumerate(np.asarray(x))])
    np.testing.assert_array_equal(shifted(x), expected)
    back = np.stack([np.roll(r, -3 - 2 * i) for i, r in enumerate(np.asarray(w))])
    np.testing.assert_array_equal(jax.grad(lambda x: (shifted(x) * w).sum())(x), back)
    np.testing.assert_array_equal(jax.vmap(shifted)(x[None])[0], expected)
    rolled = jax.vmap(lambda r, k: pltpu.roll(r, k, 0))(x, jnp.arange(4))
    np.testing.assert_array_equal(rolled, [np.roll(r, k) for k, r in enumerate(np.asarray(x))])
    bits = jax.vmap(lambda x: pltpu.bitcast(x, jnp.int16), 2)(jnp.stack([x, x + 1], 2))
    np.testing.assert_array_equal(bits[1], pltpu.bitcast(x + 1, jnp.int16))


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: pltpu.roll(s.x48, -1, 1), ValueError, "shift must be non-negative"),
        (lambda: pltpu.roll(s.x48, 1.5, 1), TypeError, "integer scalar, got float32"),
        (lambda: pltpu.roll(s.x48, 1, 2), ValueError, "axis is out of range"),
        (lambda: pltpu.roll(s.x48, 1, 1, stride=2), ValueError, "both specified or not"),
        (lambda: pltpu.roll(s.x48, 1, 1, stride=2, stride_axis=1), ValueError, "are different"),
        (lambda: pltpu.bitcast(x8, jnp.int16), ValueError, "bitcast 1D"),
        (lambda: pltpu.bitcast(s.x_int[:3].astype(jnp.int16), jnp.int32), ValueError, "perfectly packed"),
    ],
)  # fmt: skip
def test_errors_of_operations_for_tpus(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_kernels_are_staged_once():
    staged = []

    def kernel(x_ref, o_ref):
        staged.append(x_ref.shape)
        o_ref[...] = x_ref[...]

    copy = s.call(kernel, x8)
    for _ in range(3):
        copy(x8)
    jax.jit(lambda x: copy(x) + 1)(x8)
    assert staged == [(8,)]


def test_empty_arrays():
    assert s.call(s.copy, s.like((0, 4)))(jnp.zeros((0, 4))).shape == (0, 4)


def add_one(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1


def test_grids_without_points():
    block = pl.BlockSpec((8,), lambda *_: (0,))
    for grid in [0, (2, 0), (-1, -2)]:
        specs = dict(grid=grid, in_specs=[block], out_specs=block, input_output_aliases={0: 0})
        for interpret in (True, pltpu.InterpretParams()):
            add = pl.pallas_call(add_one, x8, interpret=interpret, **specs)
            np.testing.assert_array_equal(add(x8), x8)
        # Compiled for a device, such an application is no call of a kernel.
        add = jax.jit(pl.pallas_call(add_one, x8, **specs))
        for platform in ("tpu", "cuda", "rocm"):
            lowered = add.trace(x8).lower(lowering_platforms=(platform,)).as_text()
            assert "custom_call" not in lowered
    batched = jax.vmap(pl.pallas_call(add_one, x8))
    lowered = jax.jit(batched).trace(jnp.zeros((0, 8))).lower(lowering_platforms=("cuda",))
    assert "custom_call" not in lowered.as_text()


def test_blocks_of_an_empty_dimension():
    block = pl.BlockSpec((0, 8), lambda i: (i, 0))
    for interpret in (True, pltpu.InterpretParams()):
        add = pl.pallas_call(
            add_one, s.like((0, 8)), grid=2, in_specs=[block], out_specs=block, interpret=interpret
        )
        assert add(jnp.zeros((0, 8))).shape == (0, 8)


def test_options_and_references_outside_of_kernels():
    options = pltpu.CompilerParams(dimension_semantics=["parallel"], flags={"a": 1})
    same = pltpu.CompilerParams(dimension_semantics=("parallel",), flags={"a": 1})
    assert options == same and hash(options) == hash(same)
    assert isinstance(options, pl.CompilerParams)
    np.testing.assert_array_equal(s.call(s.copy, x8, compiler_params=options)(x8), x8)
    with pytest.raises(TypeError, match="compiler_params, got 3"):
        s.call(s.copy, x8, compiler_params=3)
    found = jax.make_jaxpr(lambda: pl.empty_ref_like(pltpu.VMEM((3,), jnp.float32))[...])()
    assert "Ref<vmem>{f32[3]} = new_ref[kind=None memory_space=vmem]" in str(found)
    with pytest.raises(ValueError, match="empty_ref_like does not support.*list"):
        pl.empty_ref_like([x8])


def test_debug_checks():
    def kernel(x_ref, o_ref):
        pl.debug_check(x_ref[0] > 0, "not positive")
        o_ref[...] = x_ref[...]

    with pl.enable_debug_checks(True):
        assert "check" in str(jax.make_jaxpr(s.call(kernel, x8))(x8))
    assert "check" not in str(jax.make_jaxpr(s.call(kernel, x8))(x8))


def test_shard_map():
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    f = jax.shard_map(
        lambda x: s.call(lambda x, o: o.__setitem__(..., x[...] * 2), jax.typeof(x))(x),
        mesh=mesh, in_specs=P("d"), out_specs=P("d"),
    )  # fmt: skip
    np.testing.assert_array_equal(jax.jit(f)(x8), x8 * 2)


def test_explicitly_sharded_arguments():
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,))
    x = jax.device_put(x8, jax.NamedSharding(mesh, P("d")))
    double = s.call(lambda x, o: o.__setitem__(..., x[...] * 2), s.like((8,)))
    for f in (double, jax.jit(double)):
        with pytest.raises(ValueError, match="all mesh axes to be Manual.*jax.shard_map"):
            f(x)
    sharded = s.call(lambda x, o: o.__setitem__(..., x[...] * 2), s.like((2,)))
    found = jax.shard_map(sharded, mesh=mesh, in_specs=P("d"), out_specs=P("d"))(x)
    np.testing.assert_array_equal(found, x8 * 2)


def test_export_and_printing(capfd):
    exported = jax.export.export(jax.jit(s.add_blocks))(x8, x8)
    np.testing.assert_array_equal(jax.export.deserialize(exported.serialize()).call(x8, x8), 2 * x8)

    def printing(x_ref, o_ref):
        pl.debug_print("block {} has {}", pl.program_id(0), x_ref[0])
        o_ref[...] = x_ref[...]

    s.copied(s.spec(4), (8,), (2,), s.spec(4), kernel=printing, x=x8)
    jax.effects_barrier()
    assert capfd.readouterr().out == "block 0 has 0.0\nblock 1 has 4.0\n"


def test_debug_prints_the_kernel(capsys):
    s.call(s.copy, x8, debug=True, name="copying")(x8)
    text = capsys.readouterr().out
    assert text.startswith("The kernel jaxpr for pallas_call copying for kernel function copy at ")
    assert "<- a[...]" in text


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: pl.pallas_call(s.copy, x8)(x8), ValueError, "Only interpret mode.*copy at .*pallas_scenarios"),
        (lambda: s.copied(s.spec(2)), ValueError, r"Block shape for args\[0\] .* the same number of dimensions .*\(4, 8\)"),
        (lambda: s.copied(s.spec(2, 8)), ValueError, r"for args\[0\] must return 2 values.* returning 1 values"),
        (lambda: s.copied(s.spec(2, 8, at=lambda i: (i * 1.5, 0))), ValueError, r"integer scalars. Output\[0\] has type float32"),
        (lambda: s.copied(s.spec(2, 8, at=lambda i: (order[i], 0))), ValueError, "must not capture constants.*PrefetchScalarGridSpec"),
        (
            lambda: s.copied(s.spec(0, 8)),
            ValueError,
            r"args\[0\] must have positive sizes, got 0 in dimension 0 of \(0, 8\), for an array of shape \(4, 8\).* 4 for all",
        ),
        (lambda: s.copied(s.spec(-2, 8)), ValueError, "positive sizes, got -2 in dimension 0"),
        (lambda: s.copied(s.spec(8, pl.Element(0))), ValueError, "positive sizes, got 0 in dimension 1"),
        (lambda: s.copied(s.spec(8, pl.BoundedSlice(0))), ValueError, "positive sizes, got 0 in dimension 1"),
        (lambda: s.copied(s.spec(8, pl.Blocked(4.0))), ValueError, "that are integers, got 4.0 in dimension 1"),
        (lambda: s.call(s.copy, s.like((-8, 8))), ValueError, r"out_shape has the shape \(-8, 8\), whose dimension 0 has a neg"),
        (lambda: pltpu.VMEM((8, -1), jnp.float32), ValueError, r"type of references .* \(8, -1\), whose dimension 1"),
        (
            lambda: s.call(s.copy, x8, scratch_shapes=[pltpu.VMEM((2,), jnp.float32)])(x8),
            TypeError,
            r"pallas_call copy at .*pallas_scenarios.py.* to arguments \(Ref.*float32\[8\].*\); to results \(.*\); to scratch arrays "
            r"\(Ref<vmem>.*float32\[2\].*\), but copy\(\) takes 2 positional arguments but 3 were given",
        ),
        (lambda: s.call(s.add, x8)(x8), TypeError, r"but add\(\) missing 1 required .*'o_ref'. Give it a parameter for each"),
        (lambda: s.call(needs_more, x8)(x8), TypeError, r"^add\(\) missing 2 required"),
        (
            lambda: s.copied(s.spec(2, 8, at=lambda i, j: (i, j))),
            TypeError,
            r"<lambda> at .*pallas_test.py:\d+ for args\[0\] is called with 1 indices of the grid, but .* missing 1 required .*'j'",
        ),
        (lambda: s.copied(pl.BlockSpec(2, lambda i: i)), TypeError, r"args\[0\] must be a tuple of .*\(4, 8\), got 2"),
        (lambda: s.call(s.copy, x8, in_specs=s.spec(8))(x8), ValueError, "`in_specs` must be a tuple or a list.*Found: BlockSpec"),
        (lambda: s.copied(s.spec("a", 8)), ValueError, "Unsupported block dim type.*str"),
        (lambda: pl.BlockSpec(lambda i: i, (2, 8)), TypeError, "must be a function.*The shape comes first"),
        (lambda: s.add_blocks(x8), ValueError, "`in_specs` and `inputs` do not match"),
        (lambda: s.call(s.copy, x8, grid=(2,), grid_spec=pl.GridSpec(grid=(2,)))(x8), ValueError, "`grid` must be `\\(\\)`"),
        (lambda: s.call(s.copy, x8, grid=(1.5,))(x8), ValueError, "Grid must be a tuple of integers"),
        (lambda: s.call(s.copy, x8, input_output_aliases={3: 0})(x8), ValueError, "'3:0' with input index 3 outside"),
        (lambda: s.call(s.copy, s.like((8,), jnp.int32), input_output_aliases={0: 0})(x8), ValueError, "same shape and dtype"),
        (lambda: s.call(lambda o: 1, x8)(), ValueError, "should return None.*Write results"),
        (lambda: s.call(lambda o: o.__setitem__(..., x8 + 0), x8)(), ValueError, r"captures constants \[f32\[8\]\]"),
        (lambda: s.call(s.copy, (3,))(x8), ValueError, "Invalid out_shape type.*int"),
        (lambda: s.call(s.copy, x8, scratch_shapes=[3])(x8), TypeError, "scratch_shapes must be types of references"),
        (lambda: s.call(s.copy, s.like((8,), jnp.int32))(x8), ValueError, "Invalid dtype for `swap`"),
        (lambda: pl.program_id(0), ValueError, "only known in a kernel"),
        (lambda: s.call(lambda o: pl.program_id(1), x8, grid=5)(), ValueError, r"Axis 1 is out of bounds for grid \(5,\)"),
    ],
)  # fmt: skip
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()


order = jnp.array([1, 0])


def needs_more(x_ref, o_ref):
    s.add(x_ref)


def test_helpers_refuse():
    with pytest.raises(ValueError, match="non-negative integer"):
        pl.next_power_of_2(-1)
    with pytest.raises(ValueError, match="Incompatible shapes"):
        pl.broadcast_to(x8, (3,))
    with pytest.raises(ValueError, match="positive step"):
        pl.loop(0, 3, step=0)(lambda i: None)
    with pytest.raises(TypeError, match="integers"):
        pl.multiple_of(1.5, 2)
    with pytest.raises(ValueError, match="must be ints"):
        pl.CostEstimate(1.5, 0, 0)


def test_cost_of_loops():
    loop = functools.partial(jax.lax.fori_loop, 0, 3, lambda i, c: c * 2)
    assert pl.estimate_cost(loop, x8).flops >= 24


def by(dim, index_map):
    return pl.BlockSpec((dim,), index_map)


def test_bounded_slices():
    # The original's interpreter has none. Elements after a slice have no value, or are not written.
    blocks, x = by(4, lambda i: i), jnp.arange(16.0)
    growing = by(pl.BoundedSlice(4), lambda i: (pl.ds(i * 4, i + 1),))
    expected = np.where(np.tri(4, dtype=bool).reshape(-1), x, np.nan)
    for in_spec, out_spec in [(growing, blocks), (blocks, growing)]:
        copy = s.call(s.copy, x, grid=4, in_specs=[in_spec], out_specs=out_spec)
        np.testing.assert_array_equal(copy(x), expected)
        batch = jnp.stack([x, x + 1])
        np.testing.assert_array_equal(jax.vmap(copy)(batch), [expected, expected + 1])
    beyond = by(pl.BoundedSlice(4), lambda i: (pl.ds(i * 5, 4),))
    found = s.call(s.copy, x, grid=4, in_specs=[beyond], out_specs=blocks)(x)
    np.testing.assert_array_equal(found[10:], [12, 13, 15, np.nan, np.nan, np.nan])


def test_indirect_dimensions():
    def copy(at_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    def run(shape, in_spec, out_spec, at, x):
        grid = pltpu.PrefetchScalarGridSpec(1, (2,), [in_spec], out_spec)
        return s.call(copy, s.like(shape), grid_spec=grid)(jnp.array(at), x)

    x = jnp.arange(64.0).reshape(8, 8)
    both = s.spec(pl.Indirect(2), pl.Indirect(3), at=lambda i, at: (at[i], jnp.arange(3) + i))
    plain = s.spec(None, 2, 3, at=lambda i, at: (i, 0, 0))
    found = run((2, 2, 3), both, plain, [[1, 3], [-1, 7]], x)
    np.testing.assert_array_equal(found[0], x[np.ix_([1, 3], [0, 1, 2])])
    np.testing.assert_array_equal(found[1], [[np.nan] * 3, x[7, 1:4]])
    values = jnp.arange(12.0).reshape(2, 2, 3)
    rows = s.spec(pl.Indirect(2), pl.BoundedSlice(3), at=lambda i, at: (at[i], pl.ds(1, 2)))
    found = run((8, 8), plain, rows, [[1, 3], [9, 7]], values)
    expected = np.full((8, 8), np.nan)
    expected[[1, 3], 1:3], expected[7, 1:3] = values[0, :, :2], values[1, 1, :2]
    np.testing.assert_array_equal(found, expected)


def test_errors_of_irregular_blocks():
    def fails(dim, index_map, message, error=ValueError):
        with pytest.raises(error, match=message):
            s.call(s.copy, x8, grid=2, in_specs=[by(dim, index_map)])(x8)

    fails(pl.BoundedSlice(4), lambda i: (i,), "must return a slice for BoundedSlice")
    fails(pl.Indirect(4), lambda i: (i,), "must return an array of 4 integers")
    fails(4, lambda i: (pl.ds(i, 4),), "must return integer scalars")
    fails(pl.BoundedSlice(4), lambda i: (pl.ds(i, 1.0),), "integer scalar", TypeError)
    for index in (lambda n: x8[pl.ds(0, n)], lambda n: jax.new_ref(x8)[pl.ds(0, n)]):
        with pytest.raises(TypeError, match="static integer"):
            jax.jit(index)(3)


def checked_copy(x_ref, o_ref):
    checkify.check(x_ref[0] < 3, "{x} is too large", x=x_ref[0])
    o_ref[...] = x_ref[...]


def test_checks_in_kernels():
    # The original has no checks in kernels that are interpreted. NaNs of elements without a value are none.
    blocks = by(2, lambda i: i)
    copy = s.call(checked_copy, x8, grid=4, in_specs=[blocks], out_specs=blocks)
    for errors in (checkify.user_checks, checkify.all_checks):
        check = checkify.checkify(copy, errors)
        for run in (check, jax.jit(check)):
            error, out = run(x8)
            assert "4.0 is too large" in error.get()
            np.testing.assert_array_equal(out, x8)
        assert check(x8 / 8)[0].get() is None
    assert "4.0 is too large" in jax.vmap(check)(jnp.stack([x8 / 8, x8 + 2]))[0].get()
    error, _ = checkify.checkify(copy, checkify.float_checks)(x8)
    assert error.get() is None
    debug = s.call(lambda x, o: pl.debug_check(x[0] < 0, "no"), x8, grid=2)
    with pl.enable_debug_checks(True):
        assert "no" in checkify.checkify(debug)(x8)[0].get()
    compiled = pl.pallas_call(checked_copy, x8, grid=4, in_specs=[blocks], out_specs=blocks)
    with pytest.raises(NotImplementedError, match="kernels that are compiled"):
        checkify.checkify(compiled)(x8)


def test_symbolic_sizes_of_blocks():
    (n,) = export.symbolic_shape("n")

    def rows(x):
        spec = pl.BlockSpec((1, x.shape[1]), lambda i: (i, 0))
        return s.call(s.scale, x, grid=2, in_specs=[spec], out_specs=spec)(x)

    def halves(x):
        spec = by(x.shape[0] // 2, lambda i: i)
        return s.call(s.scale, x, grid=2, in_specs=[spec], out_specs=spec)(x)

    exported = export.export(jax.jit(rows))(s.like((2, n)))
    for x in (x8.reshape(2, 4), jnp.ones((2, 3))):
        np.testing.assert_array_equal(exported.call(x), x * jnp.array([[1], [2]]))
    exported = export.export(jax.jit(halves))(s.like((2 * n,)))
    np.testing.assert_array_equal(exported.call(x8), x8 * np.repeat([1, 2], 4))
