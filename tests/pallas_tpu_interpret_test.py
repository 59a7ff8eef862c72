"""Kernels for TPUs that are interpreted: memories, copies, semaphores, cores, devices, and races."""

import itertools

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src.pallas.mosaic.interpret.memory import padded_shape
from jax._src.pallas.threaded.params import LoggingMode
from jax.experimental import checkify, pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P

Params = pltpu.InterpretParams
Semaphore = pltpu.SemaphoreType
f32 = jnp.float32
x = jnp.arange(8.0 * 128).reshape(8, 128)
ANY = pl.BlockSpec(memory_space=pl.ANY)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
MODES = [Params(), Params(dma_execution_mode="eager", detect_races=True)]


def like(shape, dtype=f32):
    return jax.ShapeDtypeStruct(shape, dtype)


def call(kernel, out, interpret=Params(), **options):
    return pl.pallas_call(kernel, out, interpret=interpret, **options)


def test_options():
    assert Params() == Params() and hash(Params()) == hash(Params())
    assert Params(num_cores_or_threads=2).num_cores_per_device == 2
    # The oracle's answers.
    sizes = [Params(num_cores_or_threads=c).get_vector_clock_size(n) for n in (1, 2, 4) for c in (1, 2)]  # fmt: skip
    assert sizes == [2, 4, 4, 8, 8, 16]
    assert Params(vector_clock_size=5).get_vector_clock_size(4) == 5
    for fails, message in (
        (lambda: Params(num_cores_or_threads=0), "at least 1, but got 0"),
        (lambda: Params(vector_clock_size=1).get_vector_clock_size(4), r"\(1\) must be greater"),
        (lambda: Params(out_of_bounds_reads="no"), "out_of_bounds_reads must be"),
        (lambda: Params(uninitialized_memory="no"), "uninitialized_memory must be"),
        (lambda: Params(dma_execution_mode="no"), "dma_execution_mode must be"),
        (lambda: Params(buffer_bounds="no"), "buffer_bounds must be"),
    ):
        with pytest.raises(ValueError, match=message):
            fails()


def test_uninitialized_memory():
    # What memory holds is what the oracle's holds.
    types = [f32, jnp.bfloat16, jnp.int32, jnp.uint8, jnp.int8, jnp.bool_]

    def kernel(*refs):
        for o, s in zip(refs[: len(types)], refs[len(types) :]):
            o[...] = s[...]

    scratch = [pltpu.VMEM((8, 128), t) for t in types]
    run = lambda params: call(kernel, [like((8, 128), t) for t in types], params, scratch_shapes=scratch)()  # fmt: skip
    found = [np.unique(np.asarray(a).astype(np.float64)) for a in run(Params())]
    expected = [np.nan, np.nan, 2**31 - 1, 255, 127, 1]
    np.testing.assert_array_equal(found, np.array(expected)[:, None])
    assert not any(np.asarray(a).any() for a in run(Params(uninitialized_memory="zero")))
    assert np.isnan(call(lambda x_ref, o_ref: None, x)(x)).all()


def matmul(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], precision="highest")

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...]


@pytest.mark.parametrize("cores", [1, 2])
def test_blocks_of_a_grid(cores):
    x = np.random.default_rng(0).normal(size=(24, 32)).astype(np.float32)
    y = np.random.default_rng(1).normal(size=(32, 20)).astype(np.float32)
    run = call(
        matmul, like((24, 20)), Params(num_cores_or_threads=cores, random_seed=1, detect_races=True),
        grid=(3, 2, 2),
        in_specs=[pl.BlockSpec((8, 16), lambda i, j, k: (i, k)), pl.BlockSpec((16, 16), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((8, 16), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((8, 16), f32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )  # fmt: skip
    np.testing.assert_allclose(jax.jit(run)(x, y), x @ y, rtol=1e-5, atol=1e-5)


def test_kinds_of_blocks():
    def copy(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    rows = jnp.array([3, 0, 2, 9], jnp.int32)

    def indirect(rows_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    for kernel, out, specs, args, expected in (
        # With elements before and after the array.
        (copy, like((3, 4, 128)), (pl.BlockSpec((pl.Element(4, (2, 2)), 128), lambda i: (4 * i, 0)),
         pl.BlockSpec((None, 4, 128), lambda i: (i, 0, 0))), (x,),
         np.pad(x, ((2, 2), (0, 0)), constant_values=np.nan).reshape(3, 4, 128)),
        # The last block is partly beyond the array.
        (copy, like((9, 128)), (pl.BlockSpec((3, 128), lambda i: (i, 0)), pl.BlockSpec((3, 128), lambda i: (i, 0))),
         (x,), np.concatenate([x, np.full((1, 128), np.nan)])),
    ):  # fmt: skip
        run = call(kernel, out, grid=(3,), in_specs=[specs[0]], out_specs=specs[1])
        np.testing.assert_array_equal(run(*args), expected)
    spec = pltpu.PrefetchScalarGridSpec(
        1, (1,), [pl.BlockSpec((pl.Indirect(4), 128), lambda i, rows: (rows[...], 0))],
        pl.BlockSpec((4, 128), lambda i, rows: (0, 0)),
    )  # fmt: skip
    found = call(indirect, like((4, 128)), grid_spec=spec)(rows, x)
    np.testing.assert_array_equal(found, np.concatenate([x[jnp.array([3, 0, 2])], np.full((1, 128), np.nan)]))  # fmt: skip


def test_transformations():
    def double(x_ref, o_ref):
        o_ref[...] = x_ref[...] * x_ref[...]

    run = call(double, like((4,)), grid=2, in_specs=[pl.BlockSpec((2,), lambda i: i)], out_specs=pl.BlockSpec((2,), lambda i: i))  # fmt: skip
    y = jnp.arange(4.0)
    out, tangent = jax.jvp(run, (y,), (jnp.ones(4),))
    np.testing.assert_array_equal([out, tangent], [y * y, 2 * y])
    batch = jnp.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(jax.vmap(run)(batch), batch * batch)

    def copied(x_ref, o_ref):
        pltpu.sync_copy(x_ref, o_ref)

    far = call(copied, like((4,)), in_specs=[ANY], out_specs=ANY)
    np.testing.assert_array_equal(jax.vmap(far, in_axes=1, out_axes=1)(batch.T), batch.T)
    twice = call(lambda x_ref, o_ref: None, like((4,)), input_output_aliases={0: 0})
    np.testing.assert_array_equal(twice(y), np.full(4, np.nan))  # its block is not read
    aliased = call(lambda x_ref, o_ref: pltpu.sync_copy(x_ref.at[:2], o_ref.at[2:]), like((4,)), in_specs=[ANY], out_specs=ANY, input_output_aliases={0: 0})  # fmt: skip
    np.testing.assert_array_equal(aliased(y), [0, 1, 0, 1])


def scale_in_chunks(x_ref, o_ref, ins, outs, in_sems, out_sems):
    """Multiplies by two, chunk by chunk, while the next one is fetched and the last one written."""
    n = x_ref.shape[0]
    fetch = lambda i, slot: pltpu.make_async_copy(x_ref.at[i], ins.at[slot], in_sems.at[slot])
    put = lambda i, slot: pltpu.make_async_copy(outs.at[slot], o_ref.at[i], out_sems.at[slot])
    fetch(0, 0).start()

    @pl.loop(0, n)
    def _(i):
        slot = lax.rem(i, 2)
        pl.when(i + 1 < n)(lambda: fetch(i + 1, 1 - slot).start())
        fetch(i, slot).wait()
        pl.when(i >= 2)(lambda: put(i - 2, slot).wait())
        outs[slot] = ins[slot] * 2
        put(i, slot).start()

    put(n - 2, n % 2).wait()
    put(n - 1, (n - 1) % 2).wait()


@pytest.mark.parametrize("params", MODES, ids=["on_wait", "eager"])
def test_double_buffering(params, capsys):
    y = jnp.arange(5.0 * 8 * 128).reshape(5, 8, 128)
    scratch = [pltpu.VMEM((2, 8, 128), f32)] * 2 + [Semaphore.DMA((2,))] * 2
    run = call(scale_in_chunks, like(y.shape), params, in_specs=[ANY], out_specs=ANY, scratch_shapes=scratch)  # fmt: skip
    np.testing.assert_array_equal(jax.jit(run)(y), 2 * y)
    assert capsys.readouterr().out == ""


def test_copies_and_counts(capsys):
    def kernel(x_ref, o_ref, n_ref, buffer, sem):
        copy = pltpu.make_async_copy(x_ref, buffer, sem)
        copy.start()
        n_ref[0] = pl.semaphore_read(sem)
        copy.wait()
        n_ref[1] = pl.semaphore_read(sem)
        pltpu.async_copy(buffer.at[:4], o_ref.at[4:], sem).wait()
        pltpu.sync_copy(buffer.at[4:], o_ref.at[:4])
        pltpu.sync_copy(buffer.at[:2], o_ref.at[:2], add=True)

    options = dict(
        in_specs=[ANY], out_specs=[ANY, SMEM], scratch_shapes=[pltpu.VMEM(x.shape, f32), Semaphore.DMA],
    )  # fmt: skip
    expected = np.concatenate([x[4:6] + x[:2], x[6:], x[:4]])
    for params, count in zip(MODES, (0, x.nbytes)):
        out, counts = call(kernel, [x, like((2,), jnp.int32)], params, **options)(x)
        np.testing.assert_array_equal(out, expected)
        assert counts.tolist() == [count, 0]

    def not_waited_for(x_ref, o_ref, sem):
        pltpu.make_async_copy(x_ref, o_ref, sem).start()

    options = dict(in_specs=[ANY], out_specs=ANY, scratch_shapes=[Semaphore.DMA])
    assert np.isnan(call(not_waited_for, x, MODES[0], **options)(x)).all()
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(call(not_waited_for, x, MODES[1], **options)(x), x)
    assert f"has the count {x.nbytes} where not_waited_for" in capsys.readouterr().out


def from_row(i_ref, x_ref, o_ref):
    o_ref[...] = x_ref[pl.ds(i_ref[0], 8)]


def to_row(i_ref, x_ref, o_ref):
    o_ref[pl.ds(i_ref[0], 8)] = x_ref[...]


def test_out_of_bounds():
    options = dict(in_specs=[SMEM, pl.BlockSpec()])
    four = jnp.array([4])
    error = r"elements 4 to 12 of dimension 0 of the block of args\[1\] of core 0"
    with pytest.raises(jax.errors.JaxRuntimeError, match=error):
        call(from_row, x, **options)(four, x).block_until_ready()
    for zero, fill in (("nan", np.nan), ("zero", 0)):
        params = Params(out_of_bounds_reads="uninitialized", uninitialized_memory=zero)
        found = call(from_row, x, params, **options)(four, x)
        np.testing.assert_array_equal(found, np.concatenate([x[4:], np.full((4, 128), fill)]))
    with pytest.raises(jax.errors.JaxRuntimeError, match="elements 4 to 12 of dimension 0"):
        params = Params(out_of_bounds_reads="uninitialized")
        call(to_row, x, params, **options)(four, x).block_until_ready()
    # There is no error where the next kernel runs.
    np.testing.assert_array_equal(call(from_row, x, **options)(jnp.array([0]), x), x)


def test_bounds_of_tiles():
    # The oracle's buffers end at the same elements.
    device = jax.sharding.AbstractDevice(platform="tpu", device_kind="TPU v5 lite", num_cores=1)
    mesh = jax.sharding.AbstractMesh((1,), ("tpu",), abstract_device=device)
    chip = pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V5E, 1)
    for dtype, shape, expected in (
        (f32, (5, 100), (8, 128)), (f32, (1, 100), (1, 128)), (f32, (2, 10), (2, 128)),
        (jnp.bfloat16, (3, 128), (4, 128)), (jnp.bfloat16, (1, 128), (2, 128)),
        (jnp.bfloat16, (9, 130), (16, 256)), (jnp.int8, (3, 128), (4, 128)),
        (jnp.int8, (17, 128), (24, 128)), (jnp.int8, (33, 128), (40, 128)), (f32, (100,), (128,)),
    ):  # fmt: skip
        assert padded_shape(shape, jnp.dtype(dtype), chip) == expected

    def kernel(i_ref, x_ref, o_ref):
        o_ref[...] = jnp.zeros((5, 128))
        o_ref[pl.ds(i_ref[0], 5)] = x_ref[pl.ds(i_ref[0], 5)]

    run = call(kernel, like((5, 128)), Params(buffer_bounds="padded"), in_specs=[SMEM, pl.BlockSpec()])  # fmt: skip
    with jax.sharding.use_abstract_mesh(mesh):
        assert pltpu.get_tpu_info() == chip and pltpu.is_tpu_device()
        expected = np.concatenate([np.zeros((3, 128)), x[3:5]])
        np.testing.assert_array_equal(run(jnp.array([3]), x[:5]), expected)
        with pytest.raises(jax.errors.JaxRuntimeError, match="elements 4 to 9"):
            run(jnp.array([4]), x[:5]).block_until_ready()
    with pytest.raises(ValueError, match="Unsupported TPU device kind: cpu"):
        run(jnp.array([3]), x[:5])


def test_control_flow_and_references(capsys):
    def kernel(n_ref, x_ref, o_ref, counts_ref):
        i = pl.program_id(0)
        sem = pl.get_global(Semaphore.REGULAR)
        pl.semaphore_signal(sem)
        counts_ref[0] = pl.semaphore_read(sem)

        def double(carry):
            k, total = carry
            o_ref[k] = x_ref[k] * 2
            return k + 1, total + o_ref[k, 0]

        k, total = lax.while_loop(lambda c: c[0] < n_ref[0], double, (0, 0.0))

        def add(carry, k):
            o_ref[k] += 1.0
            return carry + 1, k

        k, ks = lax.scan(add, k, jnp.arange(2), reverse=True)
        state = pl.run_state(lambda r: r.__setitem__(1, r[0] + total))(jnp.ones(2))
        o_ref[3] = lax.cond(k == 6, lambda: x_ref[0] + state[1], lambda: x_ref[1])
        pl.debug_print("{} of {}", i, pl.num_programs(0))

    spec = lambda *at: pl.BlockSpec((4, 128), lambda i: (i, 0))
    run = lambda size: call(
        kernel, [x, like((1,), jnp.int32)], grid=(size,), in_specs=[SMEM, spec()], out_specs=[spec(), SMEM],
    )(jnp.array([4]), x)  # fmt: skip
    out, counts = jax.jit(run)(2)
    expected = np.array(2 * x)
    for b in (0, 4):
        expected[b + 3] = x[b] + 1 + 2 * x[b : b + 4, 0].sum()
        expected[b : b + 2] += 1
    np.testing.assert_allclose(out, expected)
    assert counts.tolist() == [2]
    jax.effects_barrier()
    printed = capsys.readouterr().out
    assert "0 of 2" in printed and "1 of 2" in printed and "has the count 2" in printed

    def checked(x_ref, o_ref):
        checkify.check(x_ref[0, 0] > 0, "too small")

    with pytest.raises(NotImplementedError, match="give pallas_call interpret=True"):
        checkify.checkify(call(checked, x))(x)


def test_errors_before_it_runs():
    def scoped(o_ref):
        pl.run_scoped(lambda h: pltpu.sync_copy(h, o_ref), pltpu.HBM(x.shape, f32))

    def barrier(o_ref):
        pl.semaphore_wait(pltpu.get_barrier_semaphore())

    def reads(o_ref):
        o_ref[...]

    def nothing(o_ref):
        pass

    late = pltpu.CompilerParams(dimension_semantics=("arbitrary", "parallel"))
    for message, kernel, options in (
        ("Cannot allocate HBM in `run_scoped`", scoped, dict(out_specs=ANY)),
        ("get_p: Buffers with a memory space of HBM or ANY", reads, dict(out_specs=ANY)),
        ("get_barrier_semaphore .*collective_id", barrier, {}),
        ("parallel semantics must form a prefix", nothing, dict(grid=(2, 2), compiler_params=late)),
    ):
        with pytest.raises(ValueError, match=message):
            call(kernel, x, **options)()
    allowed = Params(allow_hbm_allocation_in_run_scoped=True)
    assert np.isnan(call(scoped, x, allowed, out_specs=ANY)()).all()


def test_all_cores_wait():
    def kernel(o_ref, sem):
        pl.semaphore_wait(sem, 2)

    run = call(kernel, x, scratch_shapes=[Semaphore.REGULAR])
    with pytest.raises(jax.errors.JaxRuntimeError, match="core 0 of .* waits for scratch 0.*count is 0, to be 2"):  # fmt: skip
        run().block_until_ready()
    pltpu.reset_tpu_interpret_mode_state()


def test_order_of_points():
    def points(grid, semantics, **options):
        found = []

        def record(token, point, core):
            found.append((tuple(int(i) for i in point), int(core)))
            return token

        def nothing(o_ref):
            pass

        call(
            nothing, x, Params(grid_point_recorder=record, **options), grid=grid,
            compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
        )().block_until_ready()  # fmt: skip
        return found

    every = lambda *grid: list(itertools.product(*map(range, grid)))
    in_order = [(p, 0) for p in every(2, 3)]
    assert points((2, 3), ("parallel", "arbitrary")) == in_order
    assert points((2, 3), None, num_cores_or_threads=2, random_seed=4) == in_order
    shuffled = points((4, 2), ("parallel", "arbitrary"), random_seed=3)
    assert sorted(shuffled) == [(p, 0) for p in every(4, 2)] != shuffled
    assert all(a[0][0] == b[0][0] and b[0][1] == 1 for a, b in zip(shuffled[::2], shuffled[1::2]))
    # As many for each core as the oracle has.
    shared = points((3, 3), ("parallel", "parallel"), num_cores_or_threads=2)
    assert sorted(p for p, _ in shared) == every(3, 3)
    assert [c for _, c in shared].count(0) == 5


def test_floating_point_operations_are_skipped():
    def kernel(x_ref, o_ref, i_ref):
        o_ref[...] = jnp.sin(x_ref[...])
        i_ref[...] = lax.broadcasted_iota(jnp.int32, (8, 128), 0) + 1

    out, i = call(kernel, [x, like((8, 128), jnp.int32)], Params(skip_floating_point_ops=True))(x)
    assert np.isposinf(out).all() and (i[2] == 3).all()


def test_modes_for_all_kernels():
    def kernel(x_ref, o_ref, sem):
        o_ref[...] = x_ref[...] + 1
        pl.semaphore_signal(sem)

    run = pl.pallas_call(kernel, x, scratch_shapes=[Semaphore.REGULAR])
    with pltpu.force_tpu_interpret_mode(Params(uninitialized_memory="zero")):
        np.testing.assert_array_equal(run(x), x + 1)
    pltpu.set_tpu_interpret_mode()
    try:
        np.testing.assert_array_equal(run(x), x + 1)
    finally:
        pltpu.set_tpu_interpret_mode(None)
    with pytest.raises(ValueError, match="Only interpret mode is supported on CPU"):
        run(x)


def test_random_bits_and_masks():
    def kernel(x_ref, o_ref, bits_ref, again_ref):
        pltpu.prng_seed(3)
        bits_ref[...] = pltpu.prng_random_bits((8, 128))
        pltpu.prng_seed(3)
        again_ref[...] = pltpu.prng_random_bits((8, 128))
        o_ref[...] = jnp.zeros((8, 128))
        pltpu.store(o_ref, x_ref[...], mask=x_ref[...] > 5)

    out, bits, again = call(kernel, [x, *[like((8, 128), jnp.int32)] * 2])(x)
    np.testing.assert_array_equal(out, np.where(x > 5, x, 0))
    np.testing.assert_array_equal(bits, again)
    assert len(np.unique(bits)) > 1000


# Several cores and devices

MESH = pltpu.create_tensorcore_mesh("core", num_cores=2)


def test_cores_wait_for_each_other(capsys):
    def kernel(x_ref, o_ref, buffer, sem):
        i = lax.axis_index("core")
        rows = pl.ds(i * 4, 4)
        pltpu.sync_copy(x_ref.at[rows], buffer)
        buffer[...] *= 2
        pltpu.sync_copy(buffer, o_ref.at[rows])
        pltpu.touch(buffer)
        pltpu.core_barrier(sem, core_axis_name="core")
        # Each core adds to what the other one has written.
        rows = pl.ds((1 - i) * 4, 4)
        pltpu.sync_copy(o_ref.at[rows], buffer)
        buffer[...] += 1
        pltpu.sync_copy(buffer, o_ref.at[rows])

    scratch = [pltpu.VMEM((4, 128), f32), Semaphore.REGULAR]
    for params in MODES:
        run = pl.kernel(kernel, x, mesh=MESH, scratch_types=scratch, interpret=params)
        np.testing.assert_array_equal(run(x), 2 * x + 1)
    assert capsys.readouterr().out == ""


def test_references_changed_by_cores():
    def run():
        ref = jax.new_ref(x)

        @pl.core_map(MESH, interpret=Params(detect_races=True))
        def _():
            i = lax.axis_index("core")
            rows = ref.at[pl.ds(4 * i, 4)]

            def scoped(buffer):
                pltpu.sync_copy(rows, buffer)
                buffer[...] += i
                pltpu.sync_copy(buffer, rows)

            pl.run_scoped(scoped, pltpu.VMEM((4, 128), f32))

        return ref[...]

    np.testing.assert_array_equal(jax.jit(run)(), np.concatenate([x[:4], x[4:] + 1]))


def test_a_reference_of_all_cores(capsys):
    def kernel(x_ref, o_ref, sem):
        first = lax.axis_index("core") == 0

        def scoped(buffer):
            @pl.when(first)
            def _():
                pltpu.sync_copy(x_ref, buffer)
                pl.semaphore_signal(sem, core_index=1)

            @pl.when(~first)
            def _():
                pl.semaphore_wait(sem)
                pltpu.sync_copy(buffer, o_ref)

        pl.run_scoped(scoped, pltpu.VMEM((8, 128), f32), collective_axes="core")

    params = Params(detect_races=True, logging_mode=LoggingMode.SEMAPHORE)
    out = pl.kernel(kernel, x, mesh=MESH, scratch_types=[Semaphore.REGULAR], interpret=params)(x)
    np.testing.assert_array_equal(out, x)
    printed = capsys.readouterr().out
    assert "core 1 of the device waits for 1 of scratch 0" in printed and "RACE" not in printed


def on_devices(kernel, n, out, params, *args, **options):
    devices = jax.devices()[:n]
    mesh = jax.make_mesh((n,), ("d",), devices=devices, axis_types=(jax.sharding.AxisType.Auto,))
    f = call(kernel, out, params, **options)
    specs = dict(in_specs=P("d"), out_specs=P("d"), check_vma=False)
    return jax.jit(jax.shard_map(f, mesh=mesh, **specs))(*args)


@pytest.mark.parametrize("params", MODES, ids=["on_wait", "eager"])
@pytest.mark.parametrize("named", [lambda i: (i,), lambda i: {"d": i}])
def test_ring(params, named, capsys):
    n = 4

    def gather(x_ref, o_ref, copy_sem, send_sem, recv_sems):
        i = lax.axis_index("d")
        barrier = pltpu.get_barrier_semaphore()
        right = lax.rem(i + 1, n)
        pl.semaphore_signal(barrier, device_id=named(right), device_id_type=pl.DeviceIdType.MESH)
        pl.semaphore_wait(barrier)
        pltpu.async_copy(x_ref, o_ref.at[i], copy_sem).wait()

        @pl.loop(0, n - 1)
        def _(step):
            slot = lax.rem(i - step + n, n)
            copy = pltpu.make_async_remote_copy(
                o_ref.at[slot], o_ref.at[slot], send_sem, recv_sems.at[step], device_id=named(right)
            )
            copy.start()
            copy.wait()

    y = jnp.arange(n * 8.0 * 128).reshape(n * 8, 128)
    out = on_devices(
        gather, n, like((n, 8, 128)), params, y, in_specs=[ANY], out_specs=ANY,
        scratch_shapes=[Semaphore.DMA, Semaphore.DMA, Semaphore.DMA((n - 1,))],
        compiler_params=pltpu.CompilerParams(collective_id=0),
    )  # fmt: skip
    np.testing.assert_array_equal(out, np.tile(np.reshape(y, (n, 8, 128)), (n, 1, 1)))
    assert capsys.readouterr().out == ""


def test_remote_copies_of_blocks_on_all_devices():
    n = len(jax.devices())

    def kernel(x_ref, o_ref, send_sem, recv_sem):
        other = n - 1 - lax.axis_index("d")
        copy = pltpu.make_async_remote_copy(
            x_ref, o_ref, send_sem, recv_sem, other, pl.DeviceIdType.LOGICAL
        )
        copy.start()
        copy.wait_send()
        copy.wait_recv()
        o_ref[...] = jnp.dot(o_ref[...], jnp.ones((128, 128)))

    y = jnp.arange(n * 8.0)[:, None] * jnp.ones(128)
    scratch = [Semaphore.DMA] * 2
    out = on_devices(kernel, n, x, Params(detect_races=True), y, scratch_shapes=scratch)
    expected = np.reshape(y, (n, 8, 128))[::-1].reshape(y.shape) * 128
    np.testing.assert_array_equal(out, expected)


def test_no_such_device():
    def kernel(o_ref, sem):
        pl.semaphore_signal(sem, device_id=(5,))

    with pytest.raises(jax.errors.JaxRuntimeError, match="no core or device at"):
        mesh = jax.make_mesh((2,), ("d",), devices=jax.devices()[:2], axis_types=(jax.sharding.AxisType.Auto,))  # fmt: skip
        run = call(kernel, x, scratch_shapes=[Semaphore.REGULAR])
        jax.block_until_ready(jax.shard_map(run, mesh=mesh, in_specs=(), out_specs=P("d"), check_vma=False)())  # fmt: skip


# Races


def races(capsys, kernel, *args, scratch, **options):
    jax.block_until_ready(call(kernel, x, Params(detect_races=True), scratch_shapes=scratch, **options)(*args))  # fmt: skip
    return capsys.readouterr().out.count("RACE DETECTED")


def test_races_of_copies(capsys):
    def started(x_ref, o_ref, buffer, sem, then, where=slice(None)):
        copy = pltpu.make_async_copy(x_ref, buffer.at[:4], sem)
        copy.start()
        then(buffer)
        copy.wait()
        o_ref[...] = buffer[...]

    def write(buffer):
        buffer[0:1] = jnp.zeros((1, 128))

    def write_elsewhere(buffer):
        buffer[4:] = jnp.zeros((4, 128))

    def read(buffer):
        buffer[...] = buffer[3:4] + jnp.zeros((8, 128))

    scratch = [pltpu.VMEM((8, 128), f32), Semaphore.DMA]
    found = [
        races(capsys, lambda *refs, f=f: started(*refs, f), x[:4], scratch=scratch, in_specs=[ANY])
        for f in (write, write_elsewhere, read, lambda buffer: None)
    ]
    assert found[0] == 1 and found[1] == 0 and found[2] >= 1 and found[3] == 0

    def two_copies(x_ref, o_ref, sems, first):
        copies = [pltpu.make_async_copy(x_ref, o_ref.at[pl.ds(i, 4)], sems.at[i]) for i in (0, 1)]
        copies[0].start()
        if first:
            copies[0].wait()
        copies[1].start()
        copies[1].wait()
        if not first:
            copies[0].wait()

    options = dict(scratch=[Semaphore.DMA((2,))], in_specs=[ANY], out_specs=ANY)
    assert races(capsys, lambda *refs: two_copies(*refs, True), x[:4], **options) == 0
    assert races(capsys, lambda *refs: two_copies(*refs, False), x[:4], **options) == 1


def test_races_of_cores_and_devices(capsys):
    def kernel(x_ref, o_ref, buffer, sem, waits):
        i = lax.axis_index("core")
        # The second core writes what the first one has written.
        if waits:
            pl.when(i == 1)(lambda: pl.semaphore_wait(sem))
        pltpu.sync_copy(x_ref.at[pl.ds(i, 4)], o_ref.at[pl.ds(i, 4)])
        if waits:
            pl.when(i == 0)(lambda: pl.semaphore_signal(sem, core_index=1))

    scratch = [pltpu.VMEM((8, 128), f32), Semaphore.REGULAR]
    params = Params(detect_races=True)
    for waits in (True, False):
        body = lambda *refs, waits=waits: kernel(*refs, waits)
        run = pl.kernel(body, x, mesh=MESH, scratch_types=scratch, interpret=params)
        jax.block_until_ready(run(x))
        assert capsys.readouterr().out.count("RACE DETECTED") == (not waits)

    def overwritten(x_ref, o_ref, buffer, send_sem, recv_sem):
        buffer[...] = x_ref[...]
        other = (1 - lax.axis_index("d"),)
        copy = pltpu.make_async_remote_copy(x_ref, buffer, send_sem, recv_sem, device_id=other)
        copy.start()
        copy.wait()
        o_ref[...] = buffer[...]

    y = jnp.concatenate([x, -x])
    scratch = [pltpu.VMEM((8, 128), f32), *[Semaphore.DMA] * 2]
    # A device may copy before the other one has written.
    jax.block_until_ready(on_devices(overwritten, 2, x, params, y, scratch_shapes=scratch))
    assert "RACE DETECTED in scratch 0 of core 0 of device" in capsys.readouterr().out


def test_blocks_that_cores_share(capsys):
    def kernel(o_ref):
        o_ref[...] = jnp.zeros((8, 128))

    parallel = pltpu.CompilerParams(dimension_semantics=("parallel",))
    for index_map, n in ((lambda i: (i, 0), 0), (lambda i: (0, 0), 1)):
        params = Params(num_cores_or_threads=2, detect_races=True)
        run = call(
            kernel, like((16, 128)), params, grid=(2,), compiler_params=parallel,
            out_specs=pl.BlockSpec((8, 128), index_map),
        )  # fmt: skip
        jax.block_until_ready(run())
        assert capsys.readouterr().out.count("RACE DETECTED") == n
