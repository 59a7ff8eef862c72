"""Fourier transforms."""

# RUN: %python %s | %filecheck %s

from printing import print_ir, print_jaxpr

import jax
import jax.numpy as jnp
from jax import lax


# CHECK-LABEL: TEST: fft complex64[3,8]
# CHECK: stablehlo.fft %arg0, type = FFT, length = [8] : (tensor<3x8xcomplex<f32>>) -> tensor<3x8xcomplex<f32>>
@print_ir("complex64[3,8]")
def fft(x):
    return jnp.fft.fft(x)


# CHECK-LABEL: TEST: rfft2 float32[4,6]
# CHECK: stablehlo.fft %arg0, type = RFFT, length = [4, 6] : (tensor<4x6xf32>) -> tensor<4x4xcomplex<f32>>
@print_ir("float32[4,6]")
def rfft2(x):
    return jnp.fft.rfft2(x)


# CHECK-LABEL: TEST: irfft complex64[5]
# CHECK: stablehlo.fft %arg0, type = IRFFT, length = [8] : (tensor<5xcomplex<f32>>) -> tensor<8xf32>
@print_ir("complex64[5]")
def irfft(x):
    return jnp.fft.irfft(x)


# CHECK-LABEL: TEST: spectrum float32[8]
# CHECK: :c64[5] = fft[fft_lengths=(8,) fft_type=2]
@print_jaxpr("float32[8]")
def spectrum(x):
    return lax.fft(x, "RFFT", (8,))


# CHECK-LABEL: TEST: gradient float32[8]
# CHECK: :c64[5] = fft[fft_lengths=(8,) fft_type=2]
# CHECK: [[OUT:.]]:f32[8] = fft[fft_lengths=(8,) fft_type=3]
# CHECK-NEXT: mul [[OUT]] 8.0
@print_jaxpr("float32[8]")
def gradient(x):
    return jax.grad(lambda x: jnp.abs(jnp.fft.rfft(x)).sum())(x)
