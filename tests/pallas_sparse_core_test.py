"""Kernels for SparseCores: interpreted, lowered, refused, and compiled for devices that are not there."""

import functools
import re

import numpy as np
import pallas_tpu_lowering_scenarios as scenarios
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl, topologies
from jax.experimental.pallas import tpu as pltpu, tpu_sc as plsc
from jax.sharding import AbstractMesh, SingleDeviceSharding, use_abstract_mesh

f32, i32 = jnp.float32, jnp.int32
MESH = plsc.VectorSubcoreMesh(
    core_axis_name="c", subcore_axis_name="s", num_cores=2, num_subcores=4
)
SCALARS = plsc.ScalarSubcoreMesh(axis_name="c", num_cores=2)
TPU = pltpu.InterpretParams()
DMA = pltpu.SemaphoreType.DMA
INTERLEAVED, COMPRESSED = plsc.PackFormat.INTERLEAVED, plsc.PackFormat.COMPRESSED


def like(*shape, dtype=f32):
    return jax.ShapeDtypeStruct(shape, dtype)


def vmem(*shape, dtype=f32):
    return pltpu.VMEM(shape, dtype)


def worker():
    return lax.axis_index("c") * 4 + lax.axis_index("s")


def count():
    return lax.iota(i32, 8)


# Operations on vectors


def test_scans_and_sorts():
    x = np.array([3, 3, 1, 3, 1, 2, 2, 3], np.int32)
    mask = np.array([0, 1, 1, 1, 0, 1, 1, 1], bool)
    np.testing.assert_array_equal(plsc.cumsum(x), np.cumsum(x))
    np.testing.assert_array_equal(plsc.cumsum(x, mask=mask), np.cumsum(np.where(mask, x, 0)))
    # Before the first element that counts, the elements themselves.
    np.testing.assert_array_equal(
        plsc.cummax(np.float32([9, 8, 1, 3, 2]), mask=np.arange(5) > 1), [9, 8, 1, 3, 3]
    )
    counts, last = plsc.scan_count(x, mask)
    np.testing.assert_array_equal(counts[mask], [1, 1, 2, 1, 2, 3])
    np.testing.assert_array_equal(last, np.array([0, 0, 1, 0, 0, 0, 1, 1], bool))
    keys, values, valid = plsc.sort_key_val(x, np.arange(8), mask=mask, descending=True)
    np.testing.assert_array_equal(keys[:6], [3, 3, 3, 2, 2, 1])
    np.testing.assert_array_equal(keys, x[values])
    np.testing.assert_array_equal(valid, np.arange(8) < 6)
    np.testing.assert_array_equal(plsc.sort_key_val(np.float32(x), x)[1], np.sort(x))
    np.testing.assert_array_equal(plsc.all_reduce_ffs(mask, reduce=4), [1, 1])
    np.testing.assert_array_equal(plsc.all_reduce_ffs(np.zeros(4, bool)), [4] * 4)
    np.testing.assert_array_equal(plsc.all_reduce_population_count(mask), [6] * 8)


def test_widths_of_elements():
    x, y = np.arange(8, dtype=np.int32) - 4, np.arange(8, dtype=np.int32) * 300
    for format in (INTERLEAVED, COMPRESSED):
        packed = plsc.pack(x, y, format=format)
        assert packed.dtype == jnp.int16
        assert packed.shape == ((16,) if format is INTERLEAVED else (8, 2))
        for got, want in zip(plsc.unpack(packed, format=format), (x, y)):
            np.testing.assert_array_equal(got, want)
    z = np.float32([1.5, 2, -3, 0])
    assert plsc.pack(z, z, format=INTERLEAVED).dtype == jnp.bfloat16
    np.testing.assert_array_equal(plsc.bitcast(z, jnp.int16), z.view(np.int16))
    np.testing.assert_array_equal(plsc.bitcast(plsc.bitcast(z, jnp.int8), f32), z)


X = np.arange(8, dtype=np.int32)


@pytest.mark.parametrize(
    "use, error, message",
    [
        (lambda: plsc.cumsum(X[None]), NotImplementedError, "one dimension"),
        (lambda: plsc.cumsum(X > 1), NotImplementedError, "uint32, int32, float32"),
        (lambda: plsc.cummax(X, mask=X), TypeError, "mask must be an array of booleans"),
        (lambda: plsc.scan_count(X, mask=X[:4] > 1), ValueError, "mask must have the shape"),
        (lambda: plsc.sort_key_val(X, X[:4]), ValueError, "values of shape (4,)"),
        (lambda: plsc.sort_key_val(X.astype(np.int16), X), NotImplementedError, "uint32, int32"),
        (lambda: plsc.all_reduce_ffs(X), TypeError, "takes booleans"),
        (lambda: plsc.all_reduce_ffs(X > 1, reduce=3), ValueError, "does not divide"),
        (lambda: plsc.bitcast(X[:3].astype(np.int16), i32), ValueError, "not divisible"),
        (lambda: plsc.bitcast(X > 1, i32), ValueError, "Cannot bitcast booleans"),
        (lambda: plsc.pack(X, X[:4], format=INTERLEAVED), ValueError, "two vectors of one shape"),
        (lambda: plsc.pack(X, np.float32(X), format=INTERLEAVED), TypeError, "the same dtype"),
        (lambda: plsc.pack(X, X, format="interleaved"), TypeError, "Unexpected format"),
        (lambda: plsc.pack(X, X, format=INTERLEAVED, preferred_element_type=jnp.int8), ValueError, "must have 16 bits"),
        (lambda: plsc.unpack(X, format=INTERLEAVED), NotImplementedError, "Only unpacking"),
        (lambda: plsc.unpack(X.astype(np.int16), format=COMPRESSED), ValueError, "shape (N, 2)"),
        (lambda: plsc.parallel_loop(0, 8, 0)(print), ValueError, "step must be positive"),
        (lambda: plsc.parallel_loop(0, 8, unroll=0)(print), ValueError, "unroll must be positive"),
        (lambda: plsc.parallel_loop(0.0, 8)(print), TypeError, "lower must be an integer"),
        (plsc.get_sparse_core_info, ValueError, "Unsupported TPU device kind"),
        (lambda: MESH.check_is_compatible_with(plsc.VectorSubcoreMesh(core_axis_name="c", subcore_axis_name="s", num_cores=1, num_subcores=1)), ValueError, "two different VectorSubcoreMeshes"),
    ],
)  # fmt: skip
def test_refused(use, error, message):
    with pytest.raises(error, match=re.escape(message)):
        use()


@pytest.mark.parametrize(
    "use, message",
    [
        (lambda v, s: plsc.load_gather(v, [count(), count()]), "2 indices for a reference of 1"),
        (lambda v, s: plsc.load_gather(v, [count()[None]]), "vectors of one size"),
        (lambda v, s: plsc.load_gather(v, [count().astype(f32)]), "must be integers"),
        (lambda v, s: plsc.store_scatter(v, [count()], count()), "for a reference to float32"),
        (lambda v, s: plsc.store_scatter(v, [count()], jnp.zeros(4)), "must have the shape (8,)"),
        (lambda v, s: plsc.addupdate(v, jnp.zeros(4)), "must have the shape (16,)"),
        (lambda v, s: plsc.store_compressed(v, jnp.zeros(16), mask=count() > 1), "mask must have the shape"),
        (lambda v, s: plsc.fetch_and_add(v.at[0], 1, subcore_id=0), "takes references in SMEM"),
        (lambda v, s: plsc.fetch_and_add(s, 1, subcore_id=0), "of one number"),
    ],
)  # fmt: skip
def test_refused_references(use, message):
    body = lambda x_ref, o_ref, v, s: use(v, s) and None
    scratch = [vmem(16), pltpu.SMEM((2,), i32)]
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        jax.eval_shape(pl.kernel(body, like(8), mesh=MESH, scratch_types=scratch), like(8))


def test_meshes():
    assert (MESH.size, MESH.axis_names, SCALARS.size) == (8, ("c", "s"), 2)
    MESH.check_is_compatible_with(SCALARS)
    device = jax.sharding.AbstractDevice("TPU v6 lite", 1, "tpu")
    with use_abstract_mesh(AbstractMesh((1,), ("x",), abstract_device=device)):
        info = plsc.get_sparse_core_info()
        assert (info.num_cores, info.num_subcores, info.num_lanes) == (2, 16, 8)
        assert plsc.ScalarSubcoreMesh(axis_name="c").num_cores == 2
    with pytest.raises(ValueError, match="must have positive sizes"):
        plsc.ScalarSubcoreMesh(axis_name="c", num_cores=0)
    with pytest.raises(ValueError, match="must have different names"):
        plsc.VectorSubcoreMesh(
            core_axis_name="c", subcore_axis_name="c", num_cores=2, num_subcores=4
        )


def test_copies_have_no_derivative():
    def body(x_ref, o_ref):
        pltpu.sync_copy(x_ref, o_ref)

    run = pl.kernel(body, like(8), mesh=MESH, interpret=True)
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'dma_start'"):
        jax.grad(lambda x: run(x).sum())(jnp.ones(8))


def test_parallel_loop():
    run = jax.jit(
        lambda lower, upper: plsc.parallel_loop(lower, upper, 3, carry=(0, 1.0))(
            lambda i, c: (c[0] + i, c[1] * 2)
        )
    )
    for lower, upper in ((0, 10), (2, 2), (5, 3), (-4, 5)):
        rounds = list(range(lower, upper, 3))
        assert [float(x) for x in run(lower, upper)] == [sum(rounds), 2.0 ** len(rounds)]


# Kernels


def use_memory(x_ref, o_ref, a, b):
    w = worker()
    pltpu.sync_copy(x_ref.at[w], a)
    i = count()
    b[...] = jnp.zeros(16)
    plsc.store_scatter(b, [15 - i], plsc.load_gather(a, [i * 2]), mask=i > 1)
    plsc.addupdate_scatter(b, [i // 2], plsc.load_gather(a, [i]))
    plsc.addupdate(b.at[pl.ds(0, 8)], a[pl.ds(8, 8)])
    plsc.store_compressed(b.at[pl.ds(4, 8)], a[pl.ds(0, 8)], mask=i % 2 == 1)
    plsc.addupdate_compressed(b.at[pl.ds(8, 8)], a[pl.ds(0, 8)], mask=i % 3 == 1)
    y = plsc.load_expanded(a.at[pl.ds(3, 8)], mask=i % 2 == 0)
    b[pl.ds(0, 8)] = b[pl.ds(0, 8)] + jnp.where(i % 2 == 0, y, 0.0)

    @plsc.parallel_loop(0, 16, 8, unroll=2)
    def _(j):
        b[pl.ds(j, 8)] = b[pl.ds(j, 8)] * 2

    pltpu.sync_copy(b, o_ref.at[w])


def memory_used(a):
    b = np.zeros(16, np.float32)
    for k in range(2, 8):
        b[15 - k] = a[2 * k]
    for k in range(8):
        b[k // 2] += a[k]
    b[:8] += a[8:]
    b[4:8] = a[1:8:2]
    b[8:11] += a[1:8:3]
    b[:8:2] += a[3:7]
    return b * 2


@pytest.mark.parametrize("interpret", [True, pltpu.InterpretParams(detect_races=True)], ids=str)
def test_memory(interpret, capfd):
    x = np.asarray(jax.random.normal(jax.random.key(1), (8, 16)))
    scratch = [vmem(16), vmem(16)]
    run = pl.kernel(use_memory, x, mesh=MESH, scratch_types=scratch, interpret=interpret)
    np.testing.assert_allclose(run(x), [memory_used(row) for row in x], rtol=1e-6)
    assert "RACE" not in capfd.readouterr().out


def gather(x_ref, i_ref, o_ref, at, rows, sem, ignored=None):
    w = worker()
    pltpu.sync_copy(i_ref.at[w], at)
    rows[...] = jnp.full((8, 16), -5.0)
    positions = at if ignored is None else plsc.Indices(at, ignored_value=ignored)
    pltpu.async_copy(x_ref.at[positions], rows, sem).wait()
    pltpu.sync_copy(rows, o_ref.at[w])


ROWS = [vmem(8, dtype=i32), vmem(8, 16), DMA]


@pytest.mark.parametrize("interpret", [True, TPU], ids=["XLA", "TPU"])
def test_gathers_by_copies(interpret):
    x = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
    at = np.asarray(jax.random.randint(jax.random.key(0), (8, 8), 0, 64))
    at = np.where(np.arange(8) == 3, 7, at).astype(np.int32)
    for ignored in (None, 7):
        body = functools.partial(gather, ignored=ignored)
        out = like(8, 8, 16)
        run = pl.kernel(body, out, mesh=MESH, scratch_types=ROWS, interpret=interpret)
        want = x[at] if ignored is None else np.where((at == 7)[..., None], -5, x[at])
        np.testing.assert_array_equal(run(x, at), want)


def add_rows(x_ref, i_ref, o_ref, at, rows, shared, sem):
    c, s = lax.axis_index("c"), lax.axis_index("s")

    @pl.when(s == 0)
    def _():
        rows[...] = jnp.zeros((8, 16))
        for j in range(4):
            pltpu.sync_copy(rows, shared.at[pl.ds(8 * j, 8)])

    plsc.subcore_barrier()
    pltpu.sync_copy(i_ref.at[worker()], at)
    pltpu.sync_copy(x_ref.at[worker()], rows)
    positions = plsc.Indices(at, ignored_value=7)
    pltpu.async_copy(rows, shared.at[positions], sem, add=True).wait()
    plsc.subcore_barrier()

    @pl.when(s == 0)
    def _():
        pltpu.sync_copy(shared, o_ref.at[c])


ADDED = [*ROWS[:2], pltpu.VMEM_SHARED((32, 16), f32), DMA]


def test_shared_memory():
    x = np.asarray(jax.random.normal(jax.random.key(1), (8, 8, 16)))
    at = np.asarray(jax.random.randint(jax.random.key(0), (8, 8), 0, 32)).astype(np.int32)
    out = like(2, 32, 16)
    run = pl.kernel(add_rows, out, mesh=MESH, scratch_types=ADDED, interpret=TPU)
    want = np.zeros(out.shape, np.float32)
    for w in range(8):
        for k in range(8):
            want[w // 4, at[w, k]] += x[w, k] * (at[w, k] != 7)
    np.testing.assert_allclose(run(x, at), want, rtol=1e-5, atol=1e-6)


def ask_subcores(x_ref, o_ref, numbers):
    numbers[0] = 0
    plsc.subcore_barrier()
    numbers[1] = plsc.fetch_and_add(numbers.at[0], lax.axis_index("s") + 1, subcore_id=1)
    plsc.subcore_barrier()
    pltpu.sync_copy(numbers, o_ref.at[worker()])


NUMBERS = [pltpu.SMEM((2,), i32)]


def test_other_subcores():
    kernel = functools.partial(pl.kernel, ask_subcores, like(8, 2, dtype=i32), mesh=MESH)
    out = np.asarray(kernel(scratch_types=NUMBERS, interpret=TPU)(jnp.zeros(2)))
    np.testing.assert_array_equal(out[:, 0], [0, 10, 0, 0] * 2)
    # What was there before: the sums of what came earlier.
    for core in (out[:4, 1], out[4:, 1]):
        order = np.argsort(core)
        np.testing.assert_array_equal(core[order], np.cumsum([0, *(order + 1)[:-1]]))
    with pytest.raises(NotImplementedError, match=r"interpreted with pltpu.InterpretParams\(\)"):
        kernel(scratch_types=NUMBERS, interpret=True)(jnp.zeros(2))


def add_numbers(x_ref, o_ref, numbers, sem):
    c = lax.axis_index("c")
    pltpu.async_copy(x_ref.at[c], numbers, sem).wait()
    numbers[0] = numbers[0] + numbers[1] + c
    pltpu.sync_copy(numbers, o_ref.at[c])


@pytest.mark.parametrize("interpret", [True, TPU], ids=["XLA", "TPU"])
def test_scalar_subcores(interpret):
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    scratch = [pltpu.SMEM((3,), i32), DMA]
    run = pl.kernel(add_numbers, x, mesh=SCALARS, scratch_types=scratch, interpret=interpret)
    np.testing.assert_array_equal(run(x), [[1, 1, 2], [8, 4, 5]])


# Lowering: operations, attributes and configurations are those of PyPI's build.

NO_LAYOUTS = pltpu.CompilerParams(needs_layout_passes=False)


def on_vectors(use, lanes=8, **options):
    """A kernel with a vector of each type."""

    def body(x_ref, o_ref, a, b):
        use(a, b, lax.iota(i32, lanes), pl.ds(0, lanes))

    scratch = [vmem(64), vmem(64, dtype=i32)]
    options.setdefault("compiler_params", NO_LAYOUTS)
    return pl.kernel(body, like(64), mesh=MESH, scratch_types=scratch, **options)


def store(f):
    def use(a, b, i, at):
        out = f(a, b, i, at)
        target = b if out.dtype == i32 else a
        target[at] = out

    return use


def sort(a, b, i, at):
    k, v, m = plsc.sort_key_val(a[at], b[at], mask=i > 2, descending=True)
    a[at], b[at] = k, jnp.where(m, v, 0)


def pack(a, b, i, at):
    packed = plsc.pack(a[at], a[at], format=INTERLEAVED)
    x, y = plsc.unpack(packed, format=INTERLEAVED)
    a[at] = x + y


def loop(a, b, i, at):
    @plsc.parallel_loop(0, 64, step=i.shape[0], unroll=2)
    def _(j):
        at = pl.ds(j, i.shape[0])
        a[at] = a[at] * 2.0


OPERATIONS = {
    "gather": (store(lambda a, b, i, at: plsc.load_gather(a, [i], mask=i > 2)), "tpu.vector_load_idx %[%] masked %"),
    "scatter": (lambda a, b, i, at: plsc.store_scatter(a, [i], a[at]), "tpu.vector_store_idx %[%], %"),
    "scatter_add": (lambda a, b, i, at: plsc.addupdate_scatter(a, [i], a[at], mask=i > 2), "tpu.vector_store_idx %[%], % masked % {add = true}"),
    "add": (lambda a, b, i, at: plsc.addupdate(a.at[at], a[at]), "tpu.vector_store %[%], % {add = true"),
    "compressed": (lambda a, b, i, at: plsc.store_compressed(a.at[at], a[at], mask=i > 2), "tpu.vector_store %[%], % masked % {strides"),
    "expanded": (store(lambda a, b, i, at: plsc.load_expanded(a.at[at], mask=i > 2)), "tpu.vector_load %[%] masked % {strides"),
    "ffs": (store(lambda a, b, i, at: plsc.all_reduce_ffs(i > 2)), "tpu.all_reduce % {dim = 0 : i64, kind = #tpu.reduction_kind<find_first_set>}"),
    "count": (store(lambda a, b, i, at: plsc.all_reduce_population_count(i > 2)), "tpu.all_reduce % {dim = 0 : i64, kind = #tpu.reduction_kind<sum>}"),
    "cumsum": (store(lambda a, b, i, at: plsc.cumsum(a[at], mask=i > 2)), "tpu.scan <sum>, % masked %"),
    "cummax": (store(lambda a, b, i, at: plsc.cummax(b[at])), "tpu.scan <max>, % masked %"),
    "sum": (store(lambda a, b, i, at: a[at] + jnp.sum(a[at])), "tpu.scan <sum>, % masked %"),
    "scan_count": (store(lambda a, b, i, at: plsc.scan_count(b[at])[0]), "tpu.scan_count mask(%"),
    "sort": (sort, "tpu.sort %, % masked % {descending = true}"),
    "jnp.sort": (store(lambda a, b, i, at: jnp.sort(a[at])), "tpu.sort %, % masked %"),
    "pack": (pack, "tpu.pack_subelements %, % {pack_format = #tpu.pack_format<interleaved>, positions = array<i32: 0, 1>}"),
    "bitcast": (store(lambda a, b, i, at: plsc.bitcast(a[at], i32)), '"vector.bitcast"(%)'),
    "barrier": (lambda a, b, i, at: plsc.subcore_barrier(), "tpu.barrier barrier_id(%)"),
    "loop": (loop, "{sc.loop_unroll_factor = 2 : i64, sc.parallel_access}"),
}  # fmt: skip


def lowered(fun, *args):
    ((_, config, module),) = scenarios.lowered(fun, *args)
    return config, module.operation.get_asm(enable_debug_info=False)


@pytest.mark.parametrize("name", OPERATIONS)
def test_lowered(name):
    use, operation = OPERATIONS[name]
    text = re.sub(r"%\w+(#\d+)?", "%", lowered(on_vectors(use), like(64))[1])
    # Later versions of the dialect name the type that is compared.
    assert operation in text.replace("<maxui>", "<max>")


def test_lowered_kernels():
    config, text = lowered(on_vectors(loop), like(64))
    assert config["sparse_core_config"] == {"tiling": "TILING_COMPACT"}
    assert config["device_type"] == "DEVICE_TYPE_SPARSECORE"
    assert "needs_layout_passes" not in config["custom_call_config"]
    for part in (
        "dimension_semantics = [#tpu.dimension_semantics<core_parallel>, #tpu.dimension_semantics<subcore_parallel>]",
        "iteration_bounds = array<i64: 2, 4>",
        "tpu.core_type = #tpu.core_type<sc_vector_subcore>",
        "window_params = [{transform_indices = #map}, {transform_indices = #map}]",
    ):
        assert part in text
    own = pltpu.CompilerParams(use_tc_tiling_on_sc=False)
    config, _ = lowered(on_vectors(loop, compiler_params=own), like(64))
    assert config["sparse_core_config"] == {"tiling": "TILING_SPARSE_CORE"}
    assert config["custom_call_config"]["needs_layout_passes"]
    body = functools.partial(gather, ignored=7)
    call = pl.kernel(body, like(8, 8, 16), mesh=MESH, scratch_types=ROWS, name="gather")
    text = lowered(call, like(64, 16), like(8, 8, dtype=i32))[1]
    assert re.search(r"tpu.enqueue_indirect_dma .* offsets\(.*\) offset_filter\(", text)
    assert "tpu.wait_indirect_dma" in text
    call = pl.kernel(add_rows, like(2, 32, 16), mesh=MESH, scratch_types=ADDED)
    text = lowered(call, like(8, 8, 16), like(8, 8, dtype=i32))[1]
    assert re.search(r"tpu.enqueue_indirect_dma .*vmem_shared.* \{add = true\}", text)


def test_not_lowered():
    for use, error, message in (
        (store(lambda a, b, i, at: a[at] * (a[at] @ a[at])), NotImplementedError, "SparseCores cannot have dot_general"),
        (store(lambda a, b, i, at: a[pl.ds(0, 8, 2)]), NotImplementedError, "plsc.load_gather"),
        (store(lambda a, b, i, at: lax.cumsum(a[at], reverse=True)), NotImplementedError, "no reversed cumsum"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            lowered(on_vectors(use), like(64))
    with pytest.raises(ValueError, match="do not support dimension_semantics"):
        params = pltpu.CompilerParams(dimension_semantics=("parallel",) * 2)
        lowered(on_vectors(loop, compiler_params=params), like(64))

    def on_tensor_core(x_ref, o_ref):
        o_ref[...] = plsc.cumsum(x_ref[...])

    with pytest.raises(NotImplementedError, match="cannot have masked_cumsum"):
        lowered(pl.pallas_call(on_tensor_core, like(128)), like(128))


@pytest.mark.aot("tpu")
@pytest.mark.parametrize("name, lanes", [("v5p:2x2x1", 8), ("v6e:2x2", 8), ("tpu7x:2x2x1", 16)])
def test_compiled(name, lanes):
    device = topologies.get_topology_desc(name, "tpu").devices[0]
    on = lambda *shape, dtype=f32: jax.ShapeDtypeStruct(
        shape, dtype, sharding=SingleDeviceSharding(device)
    )

    def several(a, b, i, at):
        for use, _ in OPERATIONS.values():
            use(a, b, i, at)

    def copied(x_ref, i_ref, o_ref, at, rows, sem):
        pltpu.sync_copy(i_ref.at[lax.axis_index("s")], at)
        pltpu.async_copy(x_ref.at[plsc.Indices(at, ignored_value=7)], rows, sem).wait()
        pltpu.sync_copy(rows, o_ref.at[lax.axis_index("s")])

    scratch = [vmem(8, dtype=i32), vmem(8, 128), DMA]
    call = pl.kernel(copied, like(4, 8, 128), mesh=MESH, scratch_types=scratch)
    jax.jit(call).lower(on(64, 128), on(4, 8, dtype=i32)).compile()

    def counted(x_ref, o_ref, numbers):
        numbers[0] = 0
        plsc.subcore_barrier()
        numbers[1] = plsc.fetch_and_add(numbers.at[0], 3, subcore_id=1)

    call = pl.kernel(counted, like(8), mesh=MESH, scratch_types=NUMBERS)
    jax.jit(call).lower(on(8)).compile()
    jax.jit(on_vectors(several, lanes)).lower(on(64)).compile()
