"""Prints, checks and pauses in kernels for GPUs (Mosaic GPU): interpreted, and run by a machine."""

import re

import mosaic_gpu_machine
import numpy as np
import pytest
from mosaic_gpu_machine import lowered
from pallas_mosaic_gpu_kernels import bf16, f32, i32, like

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu


def kernel_of(action, interpret=False, **options):
    """A kernel that does something with an array, and copies it."""

    def body(x_ref, o_ref):
        x = x_ref[...]
        action(x)
        o_ref[...] = x

    options["interpret"] = plgpu.InterpretParams() if interpret else False
    return plgpu.kernel(body, out_type=like(2, 128), **options)


def printed(action, x, **options):
    return mosaic_gpu_machine.printed(
        lowered(kernel_of(action, **options), x), x, outputs=[like(2, 128)]
    )


X = np.arange(256, dtype=np.float32).reshape(2, 128) - 1


def numbers(x):
    pl.debug_print("100% {{}} {} of {}", x[0].sum(), jax.lax.axis_index("i"))
    pl.debug_print("{} {:.1f} {:x}", x[0, 0] < 0, x[0, 0].astype(bf16), x[0, 0].astype(i32))
    pl.debug_print("plain")


def test_numbers_are_printed_by_one_lane_of_each_block():
    found = printed(numbers, X, grid=(2,), grid_names=("i",))
    want = "100% {{}} {:f} of {}\n1 -1.0 {:x}\nplain\n"
    assert found == "".join([want.format(X[0].sum(), i, 2**64 - 1) for i in range(2)]).replace(
        "f" * 16, "-1"
    )


@pytest.mark.parametrize("dtype", [f32, bf16, i32])
@pytest.mark.parametrize("equal", [False, True])
def test_arrays_are_printed_by_their_elements(dtype, equal):
    part = lambda x: jnp.full((128,), 3, dtype) if equal else x[0].astype(dtype)
    found = printed(lambda x: pl.debug_print("x{}!", part(x)), X).splitlines()
    values = dict(re.fullmatch(r"x\[(\d+)\]: ([-\d.]+)!", line).groups() for line in found)
    assert len(found) == len(values) == 128
    want = np.full(128, 3.0) if equal else X[0]
    np.testing.assert_array_equal([float(values[str(i)]) for i in range(128)], want)


def test_matrices_are_printed_with_rows_and_columns():
    found = printed(lambda x: pl.debug_print("{:.0f}", x), X).splitlines()
    assert sorted(found) == sorted(
        [f"[{i}, {j}]: {X[i, j]:.0f}" for i in range(2) for j in range(128)]
    )


@pytest.mark.parametrize(
    "action, message",
    [
        (lambda x: pl.debug_print("{} {}", x, x), "either numbers or one array"),
        (lambda x: pl.debug_print("{a}", a=x[0, 0]) , "unexpected keyword"),
        (lambda x: jax.debug.print("{a}", a=x[0, 0]), "in order, by placeholders"),
        (lambda x: jax.debug.print("{:>8}", x[0, 0]), "in order, by placeholders"),
        (lambda x: pl.debug_print("{:d}", x[0, 0]), "floating-point numbers are printed by f, e or g"),
    ],
)  # fmt: skip
def test_refuses_prints(action, message):
    with pytest.raises((NotImplementedError, ValueError, TypeError), match=message):
        lowered(kernel_of(action), X)


def test_refuses_to_print_references():
    def body(x_ref, o_ref):
        pl.debug_print("{}", x_ref)

    with pytest.raises(NotImplementedError, match=r"not the reference .*read it"):
        lowered(plgpu.kernel(body, out_type=like(2, 128)), X)


def checks(x):
    pl.debug_check(x[0].sum() > 0, "not positive")


def test_checks_are_compiled_where_they_are_enabled():
    run = lambda x: mosaic_gpu_machine.run(lowered(kernel_of(checks), x), x, outputs=[like(2, 128)])
    run(-X)
    with pl.enable_debug_checks(True):
        run(X)
        with pytest.raises(AssertionError, match=r"not positive, at .*debugging_test.py:\d+"):
            run(-X)


def test_pauses():
    module = mosaic_gpu_machine.module_of(lowered(kernel_of(lambda x: pl.delay(100)), X))
    assert "nanosleep.u32" in str(module)


def test_interpreted(capfd):
    def action(x):
        pl.delay(100)
        pl.debug_print("sum {}", x[0].sum())

    jax.block_until_ready(kernel_of(action, True)(X))
    jax.effects_barrier()
    assert capfd.readouterr().out == f"sum {X[0].sum()}\n"
    with (
        pl.enable_debug_checks(True),
        pytest.raises(jax.errors.JaxRuntimeError, match="not positive"),
    ):
        jax.block_until_ready(kernel_of(checks, True)(-X))
