"""Pipelines in kernels for TPUs: the results of jnp, with any number of buffers, and compiled."""

import functools

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl, topologies
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import SingleDeviceSharding

WHOLE = pl.BlockSpec(memory_space=pl.ANY)
X = np.arange(24 * 128, dtype=np.float32).reshape(24, 128)


def rows(n=8, at=lambda i: (i, 0), **mode):
    return pl.BlockSpec((n, 128), at, pipeline_mode=pl.Buffered(**mode) if mode else None)


def double(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def call(body, grid, ins, out_spec, out, scratch=(), interpret=True, **options):
    """A kernel that runs a pipeline over arrays in HBM."""

    def kernel(*refs):
        n = len(ins) + 1
        pipeline = pltpu.emit_pipeline(
            body, grid=grid, in_specs=ins, out_specs=[out_spec], **options
        )
        pipeline(*refs[:n], scratches=refs[n:])

    return pl.pallas_call(
        kernel, out, in_specs=[WHOLE] * len(ins), out_specs=WHOLE, scratch_shapes=scratch, interpret=interpret
    )  # fmt: skip


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def check(expected, *args):
    np.testing.assert_array_equal(call(*args[:-1], like(np.asarray(expected)))(*args[-1]), expected)


BUFFERS = [dict(buffer_count=n, use_lookahead=a) for n in (1, 2, 3) for a in (False, True)]


@pytest.mark.parametrize("mode", BUFFERS, ids=str)
def test_buffering(mode):
    check(2 * X, double, (3,), [rows(**mode)], rows(), [X])


def product(x_ref, y_ref, o_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...] @ y_ref[...]


PRODUCT = [
    pl.BlockSpec((8, 128), at)
    for at in (lambda i, j, k: (i, k), lambda i, j, k: (k, j), lambda i, j, k: (i, j))
]


def product_specs(mode):
    spec = PRODUCT[0].replace(pipeline_mode=mode)
    return [spec, pl.BlockSpec((128, 128), lambda i, j, k: (k, j)), PRODUCT[2]]


@pytest.mark.parametrize("mode", [None, pl.Buffered(3), pl.Buffered(3, use_lookahead=True)])
@pytest.mark.parametrize("no_pipelining", [False, True])
def test_product_with_accumulation(mode, no_pipelining):
    rng = np.random.RandomState(0)
    x, y = [rng.randint(-3, 3, s).astype(np.float32) for s in ((16, 384), (384, 256))]
    x_spec, y_spec, o_spec = product_specs(mode)
    run = call(
        product, (2, 2, 3), [x_spec, y_spec], o_spec, jax.ShapeDtypeStruct((16, 256), np.float32),
        no_pipelining=no_pipelining,
    )  # fmt: skip
    np.testing.assert_array_equal(run(x, y), x @ y)


def test_last_blocks_that_are_smaller():
    check(2 * X, double, (2,), [rows(16)], rows(16), [X])
    check(2 * X[:21], double, (3,), [rows()], rows(), [X[:21]])
    x = np.arange(2400, dtype=np.float32).reshape(8, 300)
    across = pl.BlockSpec((8, 128), lambda i: (0, i))
    check(2 * x, double, (3,), [across], across, [x])
    x = x.reshape(5, 4, 120)
    deep = pl.BlockSpec((2, 4, 120), lambda i: (i, 0, 0))
    check(2 * x, double, (3,), [deep], deep, [x])


def test_kinds_of_block_dimensions():
    one = pl.BlockSpec((None, 128), lambda i: (i, 0))
    check(2 * X, double, (24,), [one], one, [X])
    element = pl.BlockSpec((pl.Element(8), 128), lambda i: (i * 4, 0))
    check(2 * X[[*range(8), *range(4, 12), *range(8, 16)]], double, (3,), [element], rows(), [X])
    bounded = pl.BlockSpec((pl.BoundedSlice(8), 128), lambda i: (pl.ds(i * 8, 8), 0))
    check(2 * X, double, (3,), [bounded], rows(), [X])
    with pytest.raises(NotImplementedError, match="no blocks with padding"):
        padded = pl.BlockSpec((pl.Element(8, (0, 1)), 128), lambda i: (i * 8, 0))
        check(2 * X, double, (3,), [padded], rows(), [X])


def test_whole_arrays_are_copied_once():
    def first_rows(x_ref, o_ref):
        o_ref[...] = x_ref[:8] + pl.program_id(0)

    check(np.tile(X[:8], (3, 1)) + np.repeat(range(3), 8)[:, None], first_rows, (3,), [pl.BlockSpec()], rows(), [X])  # fmt: skip

    def all_rows(x_ref, o_ref):
        o_ref[pl.ds(8 * pl.program_id(0), 8)] = x_ref[...]

    check(X, all_rows, (3,), [rows()], None, [X])


@pytest.mark.parametrize("count", [1, 2])
def test_results_that_are_visited_again(count):
    def add(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    again = rows(at=lambda i, j: (j, 0), buffer_count=count, revisit=pl.RevisitMode.ANY)
    total = X[:8] + X[8:16] + X[16:]
    check(np.tile(total, (3, 1)), add, (3, 3), [rows(at=lambda i, j: (i, 0))], again, [X])


def test_what_a_body_is_given():
    def body(indices, x_ref, o_ref, scratch_ref):
        scratch_ref[...] = x_ref[...] + indices[0] * pl.num_programs(0)
        o_ref[...] = jax.jit(lambda y: y + pl.program_id(0))(scratch_ref[...])

    run = call(
        body, (3,), [rows()], rows(), like(X), [pltpu.VMEM((8, 128), jnp.float32)], _explicit_indices=True
    )  # fmt: skip
    np.testing.assert_array_equal(run(X), X + np.repeat([0, 4, 8], 8)[:, None])


def indexed(order_ref, x_ref, o_ref):
    mode = pl.Buffered(3, use_lookahead=True)
    blocks = pl.BlockSpec((8, 128), lambda i: (order_ref[i], 0), pipeline_mode=mode)
    steps = order_ref[3]
    pltpu.emit_pipeline(
        double, grid=(steps,), in_specs=[blocks], out_specs=[rows()], trace_scopes=False
    )(x_ref, o_ref)


INDEXED = functools.partial(
    pl.pallas_call,
    indexed,
    in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), WHOLE],
    out_specs=WHOLE,
)


def test_traced_grids_and_indices():
    run = INDEXED(like(X), interpret=True)
    expected = 2 * np.concatenate([X[8:16], X[8:16], X[16:]])
    np.testing.assert_array_equal(run(jnp.array([1, 1, 2, 3]), X), expected)
    np.testing.assert_array_equal(run(jnp.array([1, 1, 2, 1]), X)[:8], expected[:8])
    assert np.isnan(run(jnp.array([1, 1, 2, 0]), X)).all()


def test_allocations_for_several_runs():
    def kernel(x_ref, o_ref):
        pipeline, make = pltpu.emit_pipeline_with_allocations(
            double, grid=(3,), in_specs=[rows()], out_specs=[rows()]
        )
        buffers = make(x_ref, o_ref)
        assert [b.buffer_type.name for b in buffers] == ["INPUT", "OUTPUT"]
        assert buffers[0].window_ref.shape == (2, 8, 128) and buffers[0].sem_sends is None

        def twice(allocations):
            pipeline(x_ref, o_ref, allocations=allocations)
            pipeline(o_ref, o_ref, allocations=allocations)

        pl.run_scoped(twice, buffers)

    run = pl.pallas_call(kernel, X, in_specs=[WHOLE], out_specs=WHOLE, interpret=True)
    np.testing.assert_array_equal(run(X), 4 * X)


def test_accumulators():
    def kernel(x_ref, o_ref):
        def add(x_ref, o_ref):
            o_ref[...] += x_ref[...]

        pipeline = pltpu.emit_pipeline(add, grid=(3,), in_specs=[rows()], out_specs=[rows()])
        buffers = (
            pltpu.BufferedRef.input(rows(), jnp.float32),
            pltpu.BufferedRef.input_output(rows(), jnp.float32),
        )
        pl.run_scoped(lambda a: pipeline(x_ref, o_ref, allocations=a), buffers)

    run = pl.pallas_call(
        kernel, X, in_specs=[WHOLE], out_specs=WHOLE, input_output_aliases={0: 0}, interpret=True
    )
    np.testing.assert_array_equal(run(X), 2 * X)


@pytest.mark.parametrize("grid", [(4,), (3, 4), (3, 5)])
def test_grids_divided_among_cores(grid):
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    at = lambda *i: (i + (0,))[:2]
    block = pl.BlockSpec((8, 128), at)

    def kernel(o_ref):
        def body(o_ref):
            core = jax.lax.axis_index("core")
            value = 100 * core + 10 * pl.program_id(len(grid) - 1) + pl.num_programs(len(grid) - 1)
            o_ref[...] = jnp.full((8, 128), value, jnp.int32)

        pltpu.emit_pipeline(
            body, grid=grid, out_specs=[block], core_axis_name="core", dimension_semantics=(pltpu.PARALLEL,) * len(grid)
        )(o_ref)  # fmt: skip

    sizes = (*grid, 1)[:2]
    out = jax.ShapeDtypeStruct((8 * sizes[0], 128 * sizes[1]), jnp.int32)
    found = np.asarray(pl.kernel(kernel, out_type=out, mesh=mesh, interpret=True)())[::8, ::128]
    n = grid[-1]
    first = -(-n // 2)
    row = [100 * (i >= first) + 10 * i + (first if i < first else n - first) for i in range(n)]
    np.testing.assert_array_equal(found.reshape(grid), np.broadcast_to(row, grid))


def test_errors():
    def fails(error, message, f, *args, **kwargs):
        with pytest.raises(error, match=message):
            f(*args, **kwargs)

    out = like(X)
    run = lambda *args, **options: call(double, *args, out, **options)(X)
    fails(ValueError, "strictly positive", run, (0,), [rows()], rows())
    fails(NotImplementedError, "Buffer count >2", run, (3,), [rows()], rows(buffer_count=3))
    fails(ValueError, "lookahead", run, (3,), [rows()], rows(buffer_count=2, use_lookahead=True))
    fails(ValueError, "Unsupported buffer memory space: any", run, (3,), [WHOLE], rows())
    fails(ValueError, "must have the same number of dim", run, (3,), [pl.BlockSpec((8,), lambda i: i)], rows())  # fmt: skip
    fails(ValueError, "returns 1 values", run, (3,), [rows(at=lambda i: i)], rows())
    fails(ValueError, "cannot both", run, (3,), [rows()], rows(), core_axis=0, core_axis_name="c")
    fails(ValueError, "Block shape must be", pltpu.BufferedRef.input, pl.BlockSpec(), np.float32)


EQUATIONS = [
    ("a(bc)->abc", (10, 20), dict(b=4)),
    ("abc->(ba)c", (4, 5, 6), {}),
    ("ab(cd)->cabd", (2, 3, 8), dict(c=2)),
    ("a b -> b a", (2, 3), {}),
    ("a()b->ba()", (2, 1, 3), {}),
]


def test_einshape():
    shapes = [(10, 4, 5), (20, 6), (2, 2, 3, 4), (3, 2), (3, 2, 1)]
    for (equation, shape, sizes), expected in zip(EQUATIONS, shapes):
        assert pltpu.einshape(equation, jnp.zeros(shape), **sizes).shape == expected
    x = np.arange(24).reshape(2, 12)
    moved = pltpu.einshape("a(bc)->b(ca)", jnp.asarray(x), b=3)
    np.testing.assert_array_equal(moved, x.reshape(2, 3, 4).transpose(1, 2, 0).reshape(3, 8))
    for equation, message in [
        ("ab", "one '->'"), ("ab->abc", "same names"), ("aab->ab", "twice"), ("a(bc)->abc", "not known"),
        ("((ab)c)->abc", r"Unexpected '\('"), ("a(b->ab", "Unmatched"), ("a->a", "for 1 dimensions"), ("a1->a", "Unexpected"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            pltpu.einshape(equation, jnp.zeros((2, 6)))
    with pytest.raises(ValueError, match="is not divided"):
        pltpu.einshape("a(bc)->abc", jnp.zeros((2, 6)), b=4)
    with pytest.raises(ValueError, match=r"\['q'\]"):
        pltpu.einshape("ab->ba", jnp.zeros((2, 6)), q=4)


def test_einshape_that_keeps_tiles():
    def in_kernel(equation, shape, **sizes):
        def kernel(x_ref):
            pltpu.einshape(equation, x_ref[...], True, **sizes)

        jax.eval_shape(pl.pallas_call(kernel, (), interpret=True), jnp.zeros(shape))

    in_kernel("(ab)c->abc", (16, 128), a=2)
    in_kernel("a(bc)->bac", (8, 256), b=2)
    for equation, sizes in [("(ab)c->abc", dict(a=4)), ("ab->ba", {}), ("a(bc)->bac", dict(b=2))]:
        with pytest.raises(ValueError, match="moves elements of tiles"):
            in_kernel(equation, (16, 128), **sizes)


def hinted(x_ref, o_ref):
    pltpu.touch(o_ref)
    pltpu.touch(x_ref.at[:8])
    pltpu.trace_value("first", jnp.sum(x_ref[...]))
    o_ref[...] = x_ref[...]


def test_hints():
    np.testing.assert_array_equal(pl.pallas_call(hinted, like(X), interpret=True)(X), X)
    lowered = jax.jit(pl.pallas_call(hinted, like(X))).trace(X).lower(lowering_platforms=("tpu",))
    assert "tpu_custom_call" in lowered.as_text()
    with pytest.raises(ValueError, match="scalar of type int32 or float32"):
        pltpu.trace_value("x", jnp.zeros(2))


@pytest.mark.parametrize("cores", [1, 2])
def test_cores_that_wait_for_each_other(cores):
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=cores)

    def kernel(o_ref, sem):
        @pltpu.run_on_first_core("core")
        def _():
            pltpu.sync_copy(o_ref.at[0], o_ref.at[1])

        pltpu.core_barrier(sem, core_axis_name="core")
        pltpu.core_barrier(sem, core_axis_name="core")

    run = pl.kernel(
        kernel, out_type=jax.ShapeDtypeStruct((2, 128), jnp.float32), mesh=mesh, interpret=pltpu.InterpretParams(),
        scratch_types=[pltpu.SemaphoreType.REGULAR],
    )  # fmt: skip
    assert run().shape == (2, 128)


def compiled(call, *args):
    device = topologies.get_topology_desc("v5e:2x2", "tpu").devices[0]
    sharding = SingleDeviceSharding(device)
    args = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in args]
    assert "tpu_custom_call" in jax.jit(call).lower(*args).compile().as_text()


@pytest.mark.aot("tpu")
@pytest.mark.parametrize("mode", BUFFERS[2:], ids=str)
def test_compiled_for_v5e(mode):
    x_spec, y_spec, o_spec = product_specs(pl.Buffered(**mode))
    x, y = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((16, 384), (384, 256))]
    out = jax.ShapeDtypeStruct((16, 256), np.float32)
    compiled(call(product, (2, 2, 3), [x_spec, y_spec], o_spec, out, interpret=False), x, y)


@pytest.mark.aot("tpu")
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int8])
def test_smaller_blocks_compiled_for_v5e(dtype):
    x = jax.ShapeDtypeStruct((200, 300), dtype)
    block = pl.BlockSpec((64, 128), lambda i, j: (i, j))
    body = double if dtype != jnp.int8 else lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...])
    compiled(call(body, (4, 3), [block], block, x, interpret=False), x)
    compiled(INDEXED(like(X)), jax.ShapeDtypeStruct((4,), jnp.int32), like(X))
