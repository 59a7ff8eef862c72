"""A random number generator that counts its draws in a reference."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core
from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.numpy.array_constructors import asarray
from jax._src.random import keys
from jax._src.random.continuous import normal
from jax._src.random.uniform import randint, uniform
from jax._src.state.primitives import new_ref
from jax._src.tree_util import register_dataclass
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import set_module


@register_dataclass
@set_module("jax.experimental.random")
@dataclasses.dataclass(frozen=True)
class StatefulPRNG:
    """A generator of random numbers, made by `stateful_rng`. Each draw changes its state.

    The key of draw number i is `jax.random.fold_in(base_key, i)`.
    """

    _base_key: Array
    _counter: core.Ref

    def key(self, shape: int | Sequence[int] = ()) -> Array:
        """Returns a new key, or an array of keys of this shape."""
        if self._base_key.ndim:
            raise ValueError(
                "StatefulPRNG: the generators made by split() must be mapped over, for example by "
                f"jax.vmap, before they are used; their shape is {self._base_key.shape}"
            )
        key = keys.fold_in(self._base_key, self._counter[...])
        self._counter[...] += 1
        shape = _shape(shape)
        return keys.split(key, shape) if shape else key

    def random(self, size: int | Sequence[int] | None = None, dtype: DTypeLike = float):
        """Draws floats from [0, 1), of shape `size`: by default one."""
        return uniform(self.key(), _shape(size), dtype)

    def uniform(
        self,
        low: ArrayLike = 0,
        high: ArrayLike = 1,
        size: int | Sequence[int] | None = None,
        *,
        dtype: DTypeLike = float,
    ) -> Array:
        """Draws floats from [low, high), of shape `size`: by default that of the bounds."""
        low, high = asarray(low), asarray(high)
        return uniform(self.key(), _shape(size, low, high), dtype, minval=low, maxval=high)

    def normal(
        self,
        loc: ArrayLike = 0,
        scale: ArrayLike = 1,
        size: int | Sequence[int] | None = None,
        *,
        dtype: DTypeLike = float,
    ) -> Array:
        """Draws from normal distributions, of shape `size`: by default that of the parameters."""
        loc, scale = asarray(loc), asarray(scale)
        out = normal(self.key(), _shape(size, loc, scale), dtype)
        loc, scale = (
            lax.broadcast_to(lax.convert_element_type(x, out.dtype), out.shape)
            for x in (loc, scale)
        )
        return loc + scale * out

    def integers(
        self,
        low: ArrayLike,
        high: ArrayLike | None = None,
        size: int | Sequence[int] | None = None,
        *,
        dtype: DTypeLike = int,
    ) -> Array:
        """Draws integers from [low, high), or from [0, low) without `high`."""
        if high is None:
            low, high = 0, low
        low, high = asarray(low), asarray(high)
        return randint(self.key(), _shape(size, low, high), low, high, dtype)

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """Returns independent generators of this shape as one object, to be mapped over.

        >>> from jax.experimental import random
        >>> rngs = random.stateful_rng(0).split(3)
        >>> jax.vmap(lambda rng: rng.normal(size=2))(rngs).shape
        (3, 2)
        """
        new = self.key(num)
        return StatefulPRNG(new, new_ref(lax.full(new.shape, 0, np.int32)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """Returns a list of independent generators."""
        new = self.key((n_children,))
        return [StatefulPRNG(new[i], new_ref(0)) for i in range(n_children)]


def _shape(size: Any, *params: Any) -> tuple[int, ...]:
    if size is None:
        return core.broadcast_shapes(*[np.shape(p) for p in params])
    return tuple(size) if np.ndim(size) else (core.canonicalize_dim(size),)


@set_module("jax.experimental.random")
def stateful_rng(seed: ArrayLike | None = None, *, impl: Any = None) -> StatefulPRNG:
    """Makes a generator of random numbers whose methods change its state.

    Args:
      seed: an integer. Without it, which is possible only outside of transformed functions, the seed
        comes from the operating system.
      impl: the implementation, as in `jax.random.key`.

    Raises:
      TypeError: if there is no seed in a transformed function, or it is not an integer.

    A generator is a pytree with a reference (`jax.new_ref`): functions under `jit` can use it and take
    it as an argument, but cannot return it.

    >>> from jax.experimental import random
    >>> rng = random.stateful_rng(0)
    >>> bool(rng.uniform() == rng.uniform())
    False
    >>> jax.jit(lambda: rng.integers(10, size=3))().shape
    (3,)
    """
    if seed is None:
        if not core.trace_state_clean():
            raise TypeError(
                "jax.experimental.random.stateful_rng: a transformed function needs an explicit seed. "
                "Pass an integer, or make the generator outside and use it inside."
            )
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    return StatefulPRNG(keys.key(seed, impl=impl), new_ref(0))
