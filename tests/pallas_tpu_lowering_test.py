"""Kernels are lowered for TPUs as by the reference build, and refused with the line and the remedy."""

import functools
import re
from collections import Counter

import comparison
import numpy as np
import pallas_tpu_lowering_scenarios as scenarios
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl, topologies
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_kernel as splash,
    splash_attention_mask as masks,
)
from jax.sharding import Mesh, PartitionSpec as P, SingleDeviceSharding

# What the canonicalization of later jaxlibs changes of the counts of operations in the same modules: a boolean that was
# made a number is not compared with 0 to be one again, and loops start where their counters do.
LATER = {
    "booleans": {"cmpi": -1},
    "product": {"cmpi": -1, "extui": -1},
    "scalars": {"cmpi": -1},
    "is_finite": {"cmpi": -1},
    "lt_int32": {"cmpi": -1},
    "lt_uint32": {"cmpi": -1},
    "eq_bool": {"cmpi": -1},
    "convert_bool_bfloat16": {"extui": -1, "sitofp": -1, "truncf": -1, "uitofp": 1},
    "convert_bfloat16_bool": {"cmpi": -1},
    "cond": {"cmpi": -1, "extui": -1},
    "fori_loop": {"addi": -1},
    "loop_over_references": {"addi": -2, "index_cast": -1, "muli": -2},
}


def _later(changes):
    places = {(0, "operations", f"arith.{name}"): change for name, change in changes.items()}
    return functools.partial(comparison.changed_counts, changes=places)


reference, test_reference, _ = case_tests(
    __file__, later={name: _later(changes) for name, changes in LATER.items()}
)


def like(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def lower(kernel, *args, out=None, **options):
    call = pl.pallas_call(kernel, args[0] if out is None else out, **options)
    return jax.jit(call).trace(*args).lower(lowering_platforms=("tpu",))


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def spec(*shape, at=lambda i: (i, 0), **options):
    return pl.BlockSpec(shape, at, **options)


X, ANY = like(16, 128), pl.BlockSpec(memory_space=pl.ANY)


@pytest.mark.parametrize(
    "args, options, message",
    [
        ([X], dict(in_specs=[spec(2, 128)], out_specs=spec(2, 128)), "divisible by 8 and 128"),
        ([like(16, 256)], dict(in_specs=[spec(8, 64)], out_specs=spec(8, 64)), "args[0] in pallas_call copy"),
        ([like(512)], dict(in_specs=[pl.BlockSpec((64,), lambda i: i)], out_specs=pl.BlockSpec((64,), lambda i: i)), "rank 1"),
        ([like()], {}, "rank >= 1"),
        ([X], dict(in_specs=[spec(8, 128, memory_space=pl.ANY)], out_specs=spec(8, 128)), "give no block shape"),
        ([X], dict(in_specs=[ANY], out_specs=ANY, out=like(16, 128)), "pltpu.sync_copy"),
        ([X], dict(grid=(), in_specs=[spec(8, 128, at=lambda: (1, 0))], out_specs=spec(8, 128, at=lambda: (0, 0))), "grid-free"),
        (
            [X],
            dict(in_specs=[spec(8, 128, pipeline_mode=pl.Buffered(3))], out_specs=spec(8, 128)),
            "pltpu.emit_pipeline",
        ),
        ([X], dict(compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",) * 2)), "len(grid)=1"),
        ([X], dict(compiler_params=pltpu.CompilerParams(collective_id=1)), "custom barrier"),
        ([X], dict(compiler_params=pltpu.CompilerParams(flags={"a": "b"})), "invalid flag value"),
        ([like(16, 128, dtype=jnp.complex64)], {}, "complex"),
    ],
)  # fmt: skip
def test_refused_calls(args, options, message):
    options = dict(grid=(2,)) | options
    with pytest.raises((ValueError, NotImplementedError), match=re.escape(message)):
        lower(copy, *args, **options)


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: jnp.sort(x, 1), "cannot have sort"),
        (lambda x: x[::2], "ref[pl.ds(start, size, stride)]"),
        (lambda x: lax.dot(x, x.T, precision="high"), "DEFAULT or HIGHEST"),
        (lambda x: lax.scan(lambda c, y: (c, y), 0.0, x)[1], "lax.fori_loop"),
        (lambda x: lax.bitcast_convert_type(x, jnp.int16)[..., 0], "pltpu.bitcast"),
    ],
)
def test_refused_operations(function, message):
    def kernel(x_ref, o_ref):
        o_ref[...] = function(x_ref[...])

    with pytest.raises(NotImplementedError, match=re.escape(message)) as e:
        lower(kernel, X, out=jax.eval_shape(function, X))
    assert "pallas_tpu_lowering_test.py" in str(e.value) + "".join(
        getattr(e.value, "__notes__", ())
    )


def test_refused_references():
    def scalar_to_vmem(x_ref, o_ref):
        o_ref[0, 0] = 1.0

    def array_from_smem(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    def array_index(x_ref, o_ref):
        o_ref[...] = x_ref[jnp.arange(16)]

    def transposed(x_ref, o_ref):
        o_ref[...] = x_ref.T[...].T

    smem = [pl.BlockSpec(memory_space=pltpu.SMEM)]
    for kernel, specs, message in [
        (scalar_to_vmem, None, "Cannot store scalars to VMEM"),
        (array_from_smem, smem, "Can only load scalars from SMEM"),
        (array_index, None, "jnp.take_along_axis"),
        (transposed, None, "transpose the array"),
    ]:
        options = {} if specs is None else dict(in_specs=specs)
        with pytest.raises((ValueError, NotImplementedError), match=re.escape(message)):
            lower(kernel, X, **options)


def tpu_operations(fun, *args):
    """The operations of kernels that are not arithmetic or views, and what XLA is told."""
    ((call, config, module),) = scenarios.lowered(fun, *args)
    counts = scenarios.operations(module.operation, Counter())
    chosen = {k[4:]: n for k, n in counts.items() if k.startswith("tpu.") and "memref" not in k}
    return chosen, config["custom_call_config"], str(call.attributes["mhlo.frontend_attributes"])


def test_masked_store():
    def kernel(x_ref, o_ref):
        x = x_ref[...]
        pltpu.store(o_ref.at[...], x, mask=x > 0)

    ((_, _, module),) = scenarios.lowered(pl.pallas_call(kernel, X), X)
    assert re.search(r"tpu.vector_store .* masked %", str(module))


def test_named_scopes():
    """Profiles show parts of kernels, in loops and nested functions too, as with PyPI's build."""

    def kernel(x_ref, o_ref):
        with jax.named_scope("outer"):
            y = jax.jit(lambda x: x * 3)(x_ref[...])
            with jax.named_scope("inner"):

                @pl.loop(0, 2)
                def _(i):
                    with jax.named_scope("step"):
                        o_ref[pl.ds(8 * i, 8)] = x_ref[pl.ds(8 * i, 8)]

        o_ref[...] = y

    def call(x):
        with jax.named_scope("around"):
            return pl.pallas_call(kernel, X)(x)

    ((_, _, module),) = scenarios.lowered(call, X)
    operations = (
        r'trace_start.*?message = "(\w+)"|tpu\.(trace_stop)|(mulf|scf\.for|scf\.yield|vector_store)'
    )
    found = [next(filter(None, groups)) for groups in re.findall(operations, str(module))]
    assert " ".join([f for f in found if f != "scf.yield"]) == (
        "outer mulf inner scf.for step vector_store trace_stop trace_stop trace_stop vector_store"
    )


def test_copies_of_parts():
    def kernel(x_ref, o_ref):
        def body(v_ref, sems):
            copy = pltpu.make_async_copy(x_ref.at[pl.ds(8, 8)], v_ref.at[0], sems.at[1])
            copy.start(priority=1)
            copy.wait()
            pltpu.sync_copy(v_ref.at[0], o_ref.at[0:8])

        pl.run_scoped(body, pltpu.VMEM((2, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA((2,)))

    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    found, *_ = tpu_operations(pl.pallas_call(kernel, X, in_specs=[hbm], out_specs=hbm), X)
    assert found == {"region": 2, "sem_alloc": 2, "enqueue_dma": 2, "wait_dma2": 2, "yield": 2}


def test_copies_between_devices():
    """The numbers of operations and what XLA is told are PyPI's."""

    def kernel(x_ref, o_ref, send, recv):
        barrier = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(barrier, 1, device_id=(1, 2))
        pl.semaphore_signal(barrier, 1, device_id={"b": 1})
        pl.semaphore_wait(barrier, 2)
        to = (0, lax.axis_index("b"))
        copy = pltpu.make_async_remote_copy(x_ref, o_ref, send, recv, device_id=to)
        copy.start()
        copy.wait_send()
        copy.wait_recv()

    def call(x, kernel=kernel, **options):
        scratch = [pltpu.SemaphoreType.DMA] * 2
        return pl.pallas_call(
            kernel, X, in_specs=[ANY], out_specs=ANY, scratch_shapes=scratch, **options
        )(x)

    mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("a", "b"))
    mapped = functools.partial(
        jax.shard_map, mesh=mesh, in_specs=P("a", "b"), out_specs=P("a", "b"), check_vma=False
    )
    params = pltpu.CompilerParams(collective_id=3, has_side_effects=True)
    found, config, attributes = tpu_operations(
        mapped(functools.partial(call, compiler_params=params)), like(32, 512)
    )
    names = dict(sem_barrier=1, sem_signal=2, sem_wait=1, device_id=1, enqueue_dma=1, wait_dma2=2)
    assert found == names
    assert (config["has_communication"], config["collective_id"]) == (True, 3)
    assert r"mesh_axes\22:\22[\\\22b\\\22]" in attributes
    with pytest.raises(ValueError, match="collective_id has to be specified"):
        tpu_operations(mapped(call), like(32, 512))

    def by_number(x_ref, o_ref, send, recv):
        logical = pl.DeviceIdType.LOGICAL
        pltpu.async_remote_copy(x_ref, o_ref, send, recv, 3, logical).wait()

    with pytest.raises(ValueError, match="without shard_map"):
        tpu_operations(functools.partial(call, kernel=by_number), X)
    found, *_ = tpu_operations(mapped(functools.partial(call, kernel=by_number)), like(32, 512))
    assert found == dict(enqueue_dma=1, wait_dma2=2)


def test_copies_that_are_interpreted():
    def around(x_ref, o_ref, send, recv):
        device = lax.rem(lax.axis_index("x") + 1, 8)
        copy = pltpu.make_async_remote_copy(x_ref, o_ref, send, recv, device_id=(device,))
        copy.start()
        copy.wait()

    scratch = [pltpu.SemaphoreType.DMA] * 2
    one = like(1, 4)
    call = pl.pallas_call(around, one, scratch_shapes=scratch, interpret=True)
    mesh = Mesh(np.array(jax.devices()[:8]), ("x",))
    mapped = jax.shard_map(call, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    x = np.arange(32.0, dtype=np.float32).reshape(8, 4)
    np.testing.assert_array_equal(jax.jit(mapped)(x), np.roll(x, 1, 0))

    def local(x_ref, o_ref, sem):
        o_ref[...] = jnp.ones_like(o_ref)
        copy = pltpu.async_copy(x_ref.at[1:3], o_ref.at[0:2], sem, add=True)
        copy.wait()
        pltpu.sync_copy(x_ref.at[0], o_ref.at[3])

    call = pl.pallas_call(local, like(4, 4), scratch_shapes=scratch[:1], interpret=True)
    want = np.ones((4, 4))
    want[:2] += x[1:3]
    want[3] = x[0]
    np.testing.assert_array_equal(call(x[:4]), want)


def test_packed_elements():
    x = np.array([1.5, -2.25, 3e38, 0], np.float32)
    y = np.array([-1.0, 0.5, -0.0, 7], np.float32)
    packed = pltpu.pack_elementwise([x, y], packed_dtype=jnp.bfloat16)
    for i, values in enumerate((x, y)):
        back = pltpu.unpack_elementwise(
            packed, index=i, packed_dtype=jnp.bfloat16, unpacked_dtype=jnp.float32
        )
        np.testing.assert_array_equal(back, values.astype(jnp.bfloat16).astype(np.float32))
    n = np.array([1, -2, 7, -8], np.int8)
    packed = pltpu.pack_elementwise([n, n[::-1]], packed_dtype=jnp.int4)
    for i, values in enumerate((n, n[::-1])):
        back = pltpu.unpack_elementwise(
            packed, index=i, packed_dtype=jnp.int4, unpacked_dtype=jnp.int8
        )
        np.testing.assert_array_equal(back, values)
    third = np.full(2**14, 1 + 2**-9, np.float32)  # a quarter of the way to the next bfloat16
    bits = jax.random.bits(jax.random.key(0), third.shape, jnp.uint32)
    rounded = pltpu.stochastic_round(third, bits, target_dtype=jnp.bfloat16).astype(jnp.float32)
    assert abs(float(jnp.mean(rounded)) - (1 + 2**-9)) < 2e-4
    with pytest.raises(ValueError, match="takes 2 arrays"):
        pltpu.pack_elementwise([x], packed_dtype=jnp.bfloat16)
    with pytest.raises(ValueError, match="index 2 of 2"):
        pltpu.unpack_elementwise(
            packed.astype(np.uint32), index=2, packed_dtype=jnp.int16, unpacked_dtype=jnp.int32
        )


def test_chips():
    info = pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V5P, 2)
    assert (info.num_cores, info.is_megacore, info.sparse_core.num_subcores) == (2, True, 16)
    assert info.is_matmul_supported(jnp.int8, jnp.int8) and not info.is_matmul_supported(
        jnp.int8, "float32"
    )
    assert [info.get_sublane_tiling(d) for d in ("float32", "bfloat16", "int8", "int4")] == [
        8,
        8,
        32,
        64,
    ]
    assert (
        pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_7X, 1).get_sublane_tiling("bfloat16")
        == 16
    )
    with pytest.raises(ValueError, match="Megacore"):
        pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V6E, 2)
    with pytest.raises(ValueError, match="Unsupported TPU device kind: cpu"):
        pltpu.get_tpu_info()
    assert not pltpu.is_tpu_device()


def attention(sharding=None, **options):
    """Attention by the blocks of a mask, and its derivative, with arguments."""
    mask = masks.MultiHeadMask(
        [masks.CausalMask((256, 256)), masks.LocalMask((256, 256), (50, 0), 0)]
    )
    names = "block_q block_kv block_kv_compute block_q_dkv block_kv_dkv block_kv_dkv_compute"
    sizes = splash.BlockSizes(**dict.fromkeys(names.split(), 128), **options)
    call = splash.make_splash_mha(mask, head_shards=1, q_seq_shards=1, block_sizes=sizes)
    ids = splash.SegmentIds(*[jax.ShapeDtypeStruct((256,), jnp.int32, sharding=sharding)] * 2)
    x = jax.ShapeDtypeStruct((2, 256, 128), jnp.float32, sharding=sharding)
    loss = lambda q, k, v, ids: call(q, k, v, ids).sum()
    return jax.value_and_grad(loss, (0, 1, 2)), (x, x, x, ids)


def test_attention():
    fun, args = attention(block_q_dq=128, block_kv_dq=128)
    assert len(scenarios.lowered(fun, *args)) == 3
    fun, args = attention(use_fused_bwd_kernel=True)
    with pytest.raises(NotImplementedError, match="block_q_dq and block_kv_dq"):
        scenarios.lowered(fun, *args)


@pytest.mark.aot("tpu")
def test_attention_compiled_for_v5e():
    device = topologies.get_topology_desc("v5e:2x2", "tpu").devices[0]
    fun, args = attention(SingleDeviceSharding(device), block_q_dq=128, block_kv_dq=128)
    assert jax.jit(fun).lower(*args).compile().as_text().count("tpu_custom_call") == 3


@pytest.mark.aot("tpu")
@pytest.mark.parametrize("name", ["v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2"])
def test_compiled(name):
    device = topologies.get_topology_desc(name, "tpu").devices[0]
    x = jax.ShapeDtypeStruct((256, 256), jnp.float32, sharding=SingleDeviceSharding(device))
    blocks = [
        pl.BlockSpec((128, 128), at)
        for at in (lambda i, j, k: (i, k), lambda i, j, k: (k, j), lambda i, j, k: (i, j))
    ]
    call = pl.pallas_call(
        scenarios.product, like(256, 256), grid=(2, 2, 2), in_specs=blocks[:2], out_specs=blocks[2]
    )
    assert "tpu_custom_call" in jax.jit(call).lower(x, x).compile().as_text()
