"""A block of a transformer, for benchmarks: sharded by annotations, and by `shard_map`.

Both divide the batch over the mesh axis "data", and heads and hidden units over "model".
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

WIDTH, HEADS, LENGTH, BATCH = 64, 4, 16, 8
X_SPEC = P("data")
SPECS = {
    "scale1": P(), "scale2": P(), "q": P(None, "model"), "k": P(None, "model"), "v": P(None, "model"),
    "out": P("model"), "up": P(None, "model"), "bias": P("model"), "down": P("model"),
}  # fmt: skip


def new_mesh() -> Any:
    """A mesh of 8 devices."""
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def arguments(mesh: Any) -> tuple[dict[str, Any], Any]:
    """Parameters and a batch, placed on the devices."""
    w = (WIDTH, WIDTH)
    shapes = {
        "scale1": (WIDTH,), "scale2": (WIDTH,), "q": w, "k": w, "v": w, "out": w,
        "up": (WIDTH, 4 * WIDTH), "bias": (4 * WIDTH,), "down": (4 * WIDTH, WIDTH),
    }  # fmt: skip
    params = {
        name: jax.device_put(np.full(shape, 0.1, np.float32), NamedSharding(mesh, SPECS[name]))
        for name, shape in shapes.items()
    }
    x = np.ones((BATCH, LENGTH, WIDTH), np.float32)
    return params, jax.device_put(x, NamedSharding(mesh, X_SPEC))


def _normalized(x: Any, scale: Any) -> Any:
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(axis=-1, keepdims=True) + 1e-6) * scale


def block(params: dict[str, Any], x: Any, total: Callable[[Any], Any]) -> Any:
    """Attention and a perceptron, each with a residual connection.

    Args:
      params: the parameters: whole, or one device's heads and hidden units.
      x: sequences of vectors.
      total: adds up the contributions of all heads, and those of all hidden units.
    """
    batch, length, _ = x.shape
    y = _normalized(x, params["scale1"])
    q, k, v = [jnp.reshape(y @ params[n], (batch, length, -1, WIDTH // HEADS)) for n in "qkv"]
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(WIDTH // HEADS)
    causal = jnp.tril(jnp.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(batch, length, -1)
    x = x + total(mixed @ params["out"])
    hidden = jax.nn.gelu(_normalized(x, params["scale2"]) @ params["up"] + params["bias"])
    return x + total(hidden @ params["down"])


def new_annotated(mesh: Any) -> Callable:
    """The gradient of a loss, jitted with shardings of arguments and results."""

    def loss(params, x):
        sharding = NamedSharding(mesh, X_SPEC)
        y = block(params, x, lambda y: lax.with_sharding_constraint(y, sharding))
        return jnp.mean(y**2)

    params = {name: NamedSharding(mesh, spec) for name, spec in SPECS.items()}
    return jax.jit(
        jax.grad(loss), in_shardings=(params, NamedSharding(mesh, X_SPEC)), out_shardings=params
    )


def new_mapped(mesh: Any) -> Callable:
    """The same, in a `shard_map`."""

    def shard_loss(params, x):
        y = block(params, x, lambda y: lax.psum(y, "model"))
        return lax.pmean(jnp.mean(y**2), "data")

    def loss(params, x):
        return jax.shard_map(shard_loss, mesh=mesh, in_specs=(SPECS, X_SPEC), out_specs=P())(
            params, x
        )

    return jax.jit(jax.grad(loss))
