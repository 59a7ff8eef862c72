"""Random numbers: generators of bits, keys, and what is made of bits."""

# RUN: %python %s | %filecheck %s

from printing import print_ir, print_jaxpr

import jax
import jax.numpy as jnp
from jax import lax


# CHECK-LABEL: TEST: rng_bit_generator uint32[4]
# CHECK: %[[PAIRS:.*]] = stablehlo.reshape %arg0 : (tensor<4xui32>) -> tensor<2x2xui32>
# CHECK-NEXT: %[[STATE:.*]] = stablehlo.bitcast_convert %[[PAIRS]] : (tensor<2x2xui32>) -> tensor<2xui64>
# CHECK-NEXT: stablehlo.rng_bit_generator %[[STATE]], algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3x5xui32>)
@print_ir("uint32[4]")
def rng_bit_generator(key):
    return lax.rng_bit_generator(
        key, (3, 5), dtype=jnp.uint32, algorithm=lax.RandomAlgorithm.RNG_PHILOX
    )


# CHECK-LABEL: TEST: rbg_bits uint32[4]
# CHECK: stablehlo.rng_bit_generator {{.*}}, algorithm = DEFAULT
@print_ir("uint32[4]")
def rbg_bits(key):
    return jax.random.bits(jax.random.wrap_key_data(key, impl="rbg"), (4,))


# CHECK-LABEL: TEST: rng_uniform float32[] float32[]
# CHECK: stablehlo.rng %arg0, %arg1, {{.*}}, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi32>) -> tensor<3xf32>
@print_ir("float32[]", "float32[]")
def rng_uniform(low, high):
    return lax.rng_uniform(low, high, (3,))


# CHECK-LABEL: TEST: keys uint32[2]
# CHECK: [[KEY:.]]:key<fry>[] = random_wrap[impl=fry]
# CHECK-NEXT: [[KEYS:.]]:key<fry>[2] = random_split[shape=(2,)] [[KEY]]
# CHECK: random_fold_in {{.}} 3:u32[]
# CHECK: :u32[5] = random_bits[bit_width=32 shape=(5,)]
# CHECK: :u32[2] = random_unwrap
@print_jaxpr("uint32[2]")
def keys(data):
    key = jax.random.wrap_key_data(data)
    a, b = jax.random.split(key)
    return jax.random.bits(jax.random.fold_in(a, 3), (5,)), jax.random.key_data(b)


# CHECK-LABEL: TEST: uniform uint32[2]
# CHECK: [[BITS:.]]:u32[3] = random_bits[bit_width=32
# CHECK-NEXT: shift_right_logical [[BITS]] 9:u32[]
# CHECK: bitcast_convert_type[new_dtype=float32]
@print_jaxpr("uint32[2]")
def uniform(data):
    return jax.random.uniform(jax.random.wrap_key_data(data), (3,))
