"""All operations of jax.experimental.pallas.ops have derivatives by kernels, or are listed with the reason why not."""

import functools
import importlib
import pkgutil
import types

import pytest
from pallas_blackwell_kernels import GRADIENTS as OF_BLACKWELL
from pallas_collective_operations import GRADIENTS as COLLECTIVES
from pallas_hopper_operations import OPERATIONS as OF_HOPPER

import jax
import jax.numpy as jnp
from jax.experimental.pallas import ops, tpu as pltpu
from jax.experimental.pallas.ops.gpu import (
    attention,
    decode_attention,
    layer_norm,
    paged_attention as gpu_paged_attention,
    rms_norm,
    softmax,
)
from jax.experimental.pallas.ops.tpu import (
    all_gather,
    example_kernel,
    flash_attention,
    matmul,
    paged_attention,
    ragged_paged_attention,
    splash_attention,
)
from jax.experimental.pallas.ops.tpu.megablox import ops as megablox
from jax.sharding import AxisType, Mesh

f32, i32 = jnp.float32, jnp.int32


def like(*shape, dtype=f32):
    return jax.ShapeDtypeStruct(shape, dtype)


def by_floats(call, *args):
    """The cotangents of all arguments of a floating-point dtype, and the types of the arguments."""

    def run(*args):
        numbers = [i for i, a in enumerate(args) if jnp.issubdtype(a.dtype, jnp.floating)]

        def of_floats(*floats):
            given = dict(zip(numbers, floats))
            return call(*[given.get(i, a) for i, a in enumerate(args)])

        out, back = jax.vjp(of_floats, *[args[i] for i in numbers])
        return back(out)

    return run, args


def on_devices(collective):
    return collective.on(jax.devices())


def of_kernel(name):
    return OF_BLACKWELL[name].call, OF_BLACKWELL[name].args


def gathered(x):
    mesh = Mesh(jax.devices()[:2], ("x",), axis_types=(AxisType.Auto,))
    return all_gather.all_gather(x, mesh=mesh, axis_name="x")


def splash(make, mask, q, k):
    return by_floats(make(mask), q, k, k)


CAUSAL = splash_attention.CausalMask((128, 128))
HEADS = splash_attention.MultiHeadMask([CAUSAL] * 2)
SHARDED = dict(head_shards=1, q_seq_shards=1)
Q, K = like(2, 128, 128), like(2, 128, 128)
PAGES = like(2, 8, 16, 128)

# The derivative of each operation, with the types of its arguments.
DIFFERENTIABLE = {
    "gpu.all_gather_mgpu.all_gather": on_devices(COLLECTIVES["gather_gradient"]),
    "gpu.attention.mha": by_floats(lambda q: attention.mha(q, q, q, None), like(1, 128, 2, 64)),
    "gpu.attention_mgpu.attention": OF_HOPPER["attention_gradient"],
    "gpu.attention_mgpu.attention_with_pipeline_emitter": OF_HOPPER["attention_pipelined_gradient"],
    "gpu.blackwell_matmul_mgpu.matmul_kernel": of_kernel("matmul_gradient"),
    "gpu.blackwell_ragged_dot_mgpu.ragged_dot_kernel": of_kernel("ragged_gradient"),
    "gpu.collective_matmul_mgpu.all_gather_lhs_matmul": on_devices(COLLECTIVES["product_gradient"]),
    "gpu.decode_attention.gqa": by_floats(
        decode_attention.gqa, like(1, 8, 64), like(1, 256, 2, 64), like(1, 256, 2, 64)
    ),
    "gpu.decode_attention.mqa": by_floats(
        decode_attention.mqa, like(1, 8, 64), like(1, 512, 64), like(1, 512, 64)
    ),
    "gpu.hopper_matmul_mgpu.matmul": OF_HOPPER["matmul_gradient"],
    "gpu.hopper_mixed_type_matmul_mgpu.mixed_matmul_kernel": OF_HOPPER["mixed_float8_gradient"],
    "gpu.layer_norm.layer_norm": by_floats(layer_norm.layer_norm, like(8, 64), like(64), like(64)),
    "gpu.paged_attention.paged_attention": by_floats(
        gpu_paged_attention.paged_attention, like(1, 8, 64), like(2, 8, 16, 64), like(2, 8, 16, 64),
        like(1, 128, dtype=i32), like(1, dtype=i32),
    ),
    "gpu.ragged_dot_mgpu.ragged_dot": OF_HOPPER["ragged_gradient"],
    "gpu.reduce_scatter_mgpu.reduce_scatter": on_devices(COLLECTIVES["reduce_bfloat16_gradient"]),
    "gpu.rms_norm.rms_norm": by_floats(rms_norm.rms_norm, like(8, 64), like(64), like(64)),
    "gpu.softmax.softmax": by_floats(softmax.softmax, like(8, 64)),
    "gpu.transposed_ragged_dot_mgpu.transposed_ragged_dot": OF_HOPPER["ragged_transposed_gradient"],
    "tpu.all_gather.all_gather": by_floats(gathered, like(64, 128)),
    "tpu.example_kernel.double": by_floats(example_kernel.double, like(8, 128)),
    "tpu.flash_attention.flash_attention": by_floats(
        flash_attention.flash_attention, *[like(1, 2, 128, 128)] * 3
    ),
    "tpu.matmul.matmul": by_floats(
        functools.partial(matmul.matmul, block_shape=(128, 128)), like(128, 256), like(256, 128)
    ),
    "tpu.megablox.ops.gmm": by_floats(
        megablox.gmm, like(256, 128), like(2, 128, 128), like(2, dtype=i32)
    ),
    "tpu.paged_attention.paged_attention": by_floats(
        functools.partial(paged_attention.paged_attention, pages_per_compute_block=2),
        like(2, 4, 128), PAGES, PAGES, like(2, dtype=i32), like(2, 4, dtype=i32),
    ),
    "tpu.ragged_paged_attention.ragged_paged_attention": by_floats(
        functools.partial(
            ragged_paged_attention.ragged_paged_attention, num_kv_pages_per_block=1, num_queries_per_block=8
        ),
        like(16, 4, 128), like(8, 16, 4, 128), like(2, dtype=i32), like(2, 4, dtype=i32), like(3, dtype=i32), like(1, dtype=i32),
    ),
    **{
        f"tpu.splash_attention.{name}": splash(functools.partial(getattr(splash_attention, name), **options), *args)
        for name, options, *args in (
            ("make_splash_mha", SHARDED, HEADS, Q, K),
            ("make_splash_mqa", SHARDED, HEADS, Q, like(128, 128)),
            ("make_splash_mha_single_device", {}, HEADS, Q, K),
            ("make_splash_mqa_single_device", {}, HEADS, Q, like(128, 128)),
        )
    },
}  # fmt: skip

PLAIN = "computed by XLA, and differentiated as other functions are"
PART = "part of a derivative"
IN_KERNEL = "called in a kernel, not on arrays"
OF_INTEGERS = "of integers"
NO_ARRAYS = "of no arrays that are differentiated by"
WITHOUT = {
    "gpu.attention.mha_reference": PLAIN,
    "gpu.attention.segment_mask": OF_INTEGERS,
    "gpu.attention_mgpu.attention_reference": PLAIN,
    "gpu.blackwell_ragged_dot_mgpu.ragged_dot_reference": PLAIN,
    "gpu.blackwell_ragged_dot_mgpu.sample_group_sizes": OF_INTEGERS,
    "gpu.collective_matmul_mgpu.is_nvshmem_used": NO_ARRAYS,
    "gpu.decode_attention.gqa_reference": PLAIN,
    "gpu.decode_attention.mha_reference": PLAIN,
    "gpu.decode_attention.mqa_reference": PLAIN,
    "gpu.hopper_matmul_mgpu.kernel": IN_KERNEL,
    "gpu.hopper_mixed_type_matmul_mgpu.reference": PLAIN,
    "gpu.layer_norm.layer_norm_backward": PART,
    "gpu.layer_norm.layer_norm_forward": PART,
    "gpu.layer_norm.layer_norm_reference": PLAIN,
    "gpu.paged_attention.paged_attention_reference": PLAIN,
    "gpu.rms_norm.rms_norm_backward": PART,
    "gpu.rms_norm.rms_norm_forward": PART,
    "gpu.rms_norm.rms_norm_reference": PLAIN,
    "gpu.transposed_ragged_dot_mgpu.ref_transposed_ragged_dot": PLAIN,
    "tpu.all_gather.ag_kernel": IN_KERNEL,
    "tpu.all_gather.get_neighbor": OF_INTEGERS,
    "tpu.example_kernel.double_kernel": IN_KERNEL,
    "tpu.flash_attention.below_or_on_diag": IN_KERNEL,
    "tpu.flash_attention.mha_reference": PLAIN,
    "tpu.flash_attention.mha_reference_bwd": PART,
    "tpu.flash_attention.mha_reference_no_custom_vjp": PLAIN,
    "tpu.megablox.gmm": "the forward pass of megablox.ops.gmm",
    "tpu.megablox.gmm.gmm": "the forward pass of megablox.ops.gmm",
    "tpu.megablox.gmm.make_group_metadata": OF_INTEGERS,
    "tpu.megablox.gmm.tgmm": PART,
    "tpu.paged_attention.util.grouped_query_attention_reference": PLAIN,
    "tpu.ragged_paged_attention.dynamic_validate_inputs": OF_INTEGERS,
    "tpu.ragged_paged_attention.static_validate_inputs": OF_INTEGERS,
    "tpu.splash_attention.make_masked_mha_reference": PLAIN,
    "tpu.splash_attention.make_masked_mqa_reference": PLAIN,
    "tpu.splash_attention.splash_attention_kernel.attention_reference": PLAIN,
    "tpu.splash_attention.splash_attention_kernel.make_attention_reference": PLAIN,
    "tpu.splash_attention.splash_attention_kernel.from_head_minor": OF_INTEGERS,
    "tpu.splash_attention.splash_attention_kernel.get_kernel_name": NO_ARRAYS,
    "tpu.ragged_paged_attention.ref_ragged_paged_attention": PLAIN,
    "tpu.splash_attention.make_causal_mask": OF_INTEGERS,
    "tpu.splash_attention.make_local_attention_mask": OF_INTEGERS,
    "tpu.splash_attention.make_random_mask": OF_INTEGERS,
}
# Modules of helpers: masks, checks, tables, quantization, and generators of random bits.
OF_HELPERS = (
    "tpu.megablox.common.", "tpu.paged_attention.quantization_utils.", "tpu.random.",
    "tpu.splash_attention.splash_attention_mask.", "tpu.splash_attention.splash_attention_mask_info.",
    "tpu.ragged_paged_attention.tuned_block_sizes.",
)  # fmt: skip


def functions():
    """The names of all public functions below jax.experimental.pallas.ops, after that name; each object's shortest one."""
    found = {}
    prefix = ops.__name__ + "."
    for info in pkgutil.walk_packages(ops.__path__, prefix):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            is_function = callable(value) and not isinstance(value, (type, types.ModuleType))
            if is_function and not name.startswith("_"):
                full = f"{info.name.removeprefix(prefix)}.{name}"
                found.setdefault(id(value), []).append(full)
    return sorted([min(names, key=lambda n: (n.count("."), n)) for names in found.values()])


def test_every_operation_is_listed():
    names = [n for n in functions() if not n.startswith(OF_HELPERS)]
    listed = {*DIFFERENTIABLE, *WITHOUT}
    missing = [n for n in names if n not in listed]
    assert not missing, f"{missing} need a derivative in DIFFERENTIABLE, or a reason in WITHOUT"
    assert not DIFFERENTIABLE.keys() & WITHOUT.keys()


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivative(name):
    """It is traced, with kernels."""
    call, args = DIFFERENTIABLE[name]
    with pltpu.force_tpu_interpret_mode(False):
        text = str(jax.make_jaxpr(call)(*args))
    assert "pallas_call" in text or "core_map" in text or "mosaic_gpu" in text
