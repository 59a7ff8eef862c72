"""Kernels for GPUs by Triton: the modules are the reference's; where kernels are interpreted, and errors."""

import functools

import comparison
import numpy as np
import pallas_triton_scenarios as s
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu, triton as plgpu

# The canonicalization of later jaxlibs knows that a number shifted right by itself is 0.
SHIFTS = {
    (f"{name} {dtype}", operation): -1
    for name, shift in (("right", "arith.shrui"), ("arithmetic", "arith.shrsi"))
    for dtype in ("int16", "int32", "uint8")
    for operation in (shift, "tt.load")
}
reference, test_reference, _ = case_tests(
    __file__,
    later={"functions_of_integers": functools.partial(comparison.changed_counts, changes=SHIFTS)},
)


def interpreted(kernel, out, *args):
    return pl.pallas_call(kernel, out, interpret=True)(*args)


def test_masked_access_beyond_the_end():
    def kernel(x_ref, o_ref):
        start = 8 * (x_ref[0].astype(jnp.int32) + 1)
        inside = jnp.arange(8) < 2
        o_ref[...] = jnp.zeros(10)
        x = plgpu.load(x_ref.at[pl.ds(start, 8)], mask=inside, other=-1.0)
        plgpu.store(o_ref.at[pl.ds(start, 8)], x, mask=inside)

    out = interpreted(kernel, s.like(10), jnp.arange(10.0))
    np.testing.assert_array_equal(out, [*[0] * 8, 8, 9])


def test_printing():
    def prints(fmt):
        def kernel(x_ref, o_ref):
            pl.debug_print(fmt, x_ref[...], x_ref[0])
            o_ref[...] = x_ref[...]

        return s.kernel_of(kernel, s.like(16), s.like(16))[0]["tt.print"]

    assert prints("x {} and {:x}") == 2
    assert prints("x {} and {} here") == 3
    with pytest.raises(NotImplementedError, match="in the order of a format"):
        prints("{1} and {0}")


def test_masks_and_others_are_broadcast():
    def kernel(x_ref, o_ref):
        rows = jnp.arange(4)[:, None] < 2
        o_ref[...] = plgpu.load(x_ref, mask=rows, other=7)

    x = jnp.arange(8.0).reshape(4, 2)
    np.testing.assert_array_equal(interpreted(kernel, x, x), [[0, 1], [2, 3], [7, 7], [7, 7]])


def test_elements_that_are_masked_do_not_overwrite_others():
    def kernel(i_ref, mask_ref, o_ref):
        o_ref[...] = jnp.zeros(4)
        values = lax.broadcasted_iota(jnp.float32, (3,), 0) + 1
        plgpu.store(o_ref.at[i_ref[...]], values, mask=mask_ref[...])

    out = interpreted(kernel, s.like(4), jnp.array([3, 3, 1]), jnp.array([True, False, True]))
    np.testing.assert_array_equal(out, [0, 3, 0, 1])


ATOMICS = dict(
    add=lambda a, b: a + b, max=np.maximum, min=np.minimum, xchg=lambda a, b: b,
    **{"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor},
)  # fmt: skip


@pytest.mark.parametrize("name", ATOMICS)
def test_atomic_operations(name):
    def kernel(x_ref, y_ref, new_ref, old_ref):
        new_ref[...] = x_ref[...]
        atomic = getattr(plgpu, f"atomic_{name}")
        old_ref[...] = atomic(new_ref, (pl.ds(0, 8),), y_ref[...], mask=y_ref[...] > 1)

    x, y = np.array([5, 1, 7, 2, 9, 0, 3, 4], np.int32), np.arange(8, dtype=np.int32)
    new, old = interpreted(kernel, (x, x), x, y)
    np.testing.assert_array_equal(new, np.where(y > 1, ATOMICS[name](x, y), x))
    np.testing.assert_array_equal(old, x)


def test_atomic_sum_of_an_element_that_is_selected_twice():
    def kernel(i_ref, o_ref):
        o_ref[...] = jnp.zeros(4)
        plgpu.atomic_add(o_ref, (i_ref[...],), 1.0)

    np.testing.assert_array_equal(
        interpreted(kernel, s.like(4), jnp.array([2, 2, 0])), [1, 0, 2, 0]
    )


def test_derivative_of_masked_access():
    def kernel(x_ref, o_ref):
        inside = lax.broadcasted_iota(jnp.int32, (4,), 0) < 2
        plgpu.store(o_ref, 3 * plgpu.load(x_ref, mask=inside, other=1.0))

    apply = pl.pallas_call(kernel, s.like(4), interpret=True)
    primal, tangent = jax.jvp(apply, (jnp.ones(4),), (jnp.ones(4),))
    np.testing.assert_array_equal(primal, [3, 3, 3, 3])
    np.testing.assert_array_equal(tangent, [3, 3, 0, 0])


def sum_of_blocks(x_ref, o_ref, space=pl.ANY):
    def add_up(sum_ref):
        sum_ref[...] = jnp.zeros_like(sum_ref)

        @pl.loop(0, 4)
        def _(i):
            sum_ref[...] += x_ref[pl.ds(i * 16, 16)]

        @pl.when(x_ref[0] > 0)
        def _():
            sum_ref[...] *= 2

        o_ref[...] = sum_ref[...]
        return sum_ref[...].sum()

    total = pl.run_scoped(add_up, space((16,), jnp.float32))
    o_ref[...] += total


def test_scoped_references_are_in_registers():
    x = np.arange(1, 65, dtype=np.float32)
    out = interpreted(sum_of_blocks, s.like(16), x)
    total = 2 * x.reshape(4, 16).sum(0)
    np.testing.assert_array_equal(out, total + total.sum())
    found = s.kernel_of(sum_of_blocks, s.like(16), s.like(64))[0]
    # The first element, the block of a step, and the result that is added to.
    assert (found["tt.load"], found["tt.store"]) == (3, 2), found
    assert (found["scf.for"], found["scf.if"]) == (1, 1), found


def test_parts_of_scoped_references():
    def kernel(write, x_ref, o_ref):
        def add_parts(ref):
            ref[...] = x_ref[...]
            if write:
                ref[pl.ds(3, 8)] = jnp.zeros(8)
            o_ref[...] = ref[pl.ds(0, 8)] + ref[pl.ds(8, 8)]

        pl.run_scoped(add_parts, pl.ANY((16,), jnp.float32))

    found = s.kernel_of(functools.partial(kernel, False), s.like(8), s.like(16))[0]
    assert (found["tt.load"], found["tt.split"], found["tt.store"]) == (1, 1, 1), found
    with pytest.raises(NotImplementedError, match="dynamic_update_slice") as raised:
        s.kernel_of(functools.partial(kernel, True), s.like(8), s.like(16))
    assert any("in registers" in note for note in raised.value.__notes__)


def _applied(function, *args, **options):
    return lambda: s.applied(function, *args, **options)


@pytest.mark.parametrize(
    "function, error, words",
    [
        (_applied(lambda x: x + 1, s.like(15)), ValueError, r"powers of 2.*\(15,\).*\(16,\).*mask"),
        (_applied(lambda x: x + 1, s.like(2048, 1024)), ValueError, "at most 1048576 elements.*smaller blocks"),
        (_applied(jnp.sort, s.like(16)), NotImplementedError, "cannot have sort of .*pallas_triton_scenarios.py"),
        (_applied(lambda x: x + 1, s.like(16, dtype=jnp.complex64)), NotImplementedError, "dtype complex64, only"),
        (_applied(lambda x: jnp.concatenate([x, x[:8]]), s.like(16)), NotImplementedError, "arrays of one shape"),
        (lambda: plgpu.dot(jnp.ones(2), jnp.ones((2, 2))), ValueError, "must be 2D arrays"),
        (
            lambda: plgpu.dot(jnp.ones((2, 2)), jnp.ones((2, 2)), allow_tf32=True, precision="highest"),
            ValueError,
            "Only one of allow_tf32 and precision",
        ),
        (
            lambda: interpreted(
                lambda x, o: plgpu.store(o, plgpu.load(x.at[pl.ds(0, 8)], mask=x[...] > 0)), s.like(8), jnp.ones(16)
            ),
            ValueError,
            r"Cannot broadcast mask shape \(16,\) to load shape \(8,\)",
        ),
        (
            lambda: s.kernel_of(lambda x, o: o.__setitem__(..., plgpu.load(x, cache_modifier=".zz")), s.like(8), s.like(8)),
            ValueError,
            "unsupported cache modifier: .zz",
        ),
        (
            lambda: s.kernel_of(
                lambda x, o, t: None, s.like(8), s.like(8), scratch_shapes=[pl.ANY((8,), jnp.float32)]
            ),
            NotImplementedError,
            "no scratch arrays.*pl.run_scoped",
        ),
        (
            lambda: s.kernel_of(functools.partial(sum_of_blocks, space=pltpu.VMEM), s.like(16), s.like(64)),
            NotImplementedError,
            r"in registers, of type pl.ANY.*not Ref<vmem>",
        ),
    ],
)  # fmt: skip
def test_errors(function, error, words):
    with pytest.raises(error, match=f"(?s){words}"):
        function()


@pytest.mark.parametrize("preset", [p for p in lax.DotAlgorithmPreset if "F8" in p.name])
def test_algorithms_for_floats_of_eight_bits(preset):
    dot = functools.partial(lax.dot, precision=preset, preferred_element_type=jnp.float32)
    x, y = [s.like(32, 32, dtype=t) for t in (jnp.float8_e4m3fn, jnp.float8_e5m2)]
    operations = s.applied(dot, x, y)
    assert operations["tt.dot tensor<32x32xf8E4M3FN> tensor<32x32xf32> 2 : i32"] == 1, operations
    with pytest.raises(NotImplementedError, match=f"by the algorithm {preset.name}"):
        s.applied(dot, s.like(32, 32), s.like(32, 32))


def test_errors_name_the_line_of_the_kernel():
    with pytest.raises(ValueError) as raised:
        s.applied(lambda x: x.sum(), s.like(16, 3))
    assert any("pallas_triton" in note and "get at" in note for note in raised.value.__notes__)
