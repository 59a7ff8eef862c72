"""Keys where kernels for TPUs are interpreted: they are held as their words."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.core import JaxprEqn
from jax._src.pallas.mosaic.interpret.machine import RULES as rule, Core, Machine
from jax._src.pallas.mosaic.packing import prng_random_bits_p, prng_seed_p
from jax._src.pallas.mosaic.random import pallas_impl, stateful_impl
from jax._src.pallas.threaded.threads import Run
from jax._src.pallas.threaded.views import int_of
from jax._src.pallas.values import as_typed, is_key, words_of
from jax._src.random import prng


@rule(prng_seed_p)
def _seed(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    _seed_generator(core, values)
    return []


def _seed_generator(core: Core, words: Any) -> None:
    core.random = np.random.default_rng([int_of(x) & 0xFFFFFFFF for x in words])


@rule(prng_random_bits_p)
def _random_bits(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    return [_draw(core, eqn.params["shape"], 32).view(np.int32)]


def _draw(core: Core, shape: Any, bit_width: int) -> np.ndarray:
    dtype = np.dtype(f"uint{bit_width}")
    return np.asarray(core.random.integers(0, 2**bit_width, shape, dtype))


@rule(
    prng.random_seed_p,
    prng.random_fold_in_p,
    prng.random_split_p,
    prng.random_bits_p,
    prng.random_clone_p,
    prng.random_wrap_p,
    prng.random_unwrap_p,
)
def _keyed(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    aval = eqn.invars[0].aval
    impl = aval.dtype._impl if is_key(aval.dtype) else None
    if eqn.primitive is prng.random_bits_p and impl in (pallas_impl, stateful_impl):
        if aval.shape:
            raise NotImplementedError(
                f"random_bits draws with one key, not with {aval.str_short()}."
            )
        if impl is pallas_impl:
            _seed_generator(core, np.ravel(values[0]))
        return [_draw(core, eqn.params["shape"], eqn.params["bit_width"])]
    args = [as_typed(np.asarray(x), v.aval) for x, v in zip(values, eqn.invars)]
    return [np.asarray(words_of(eqn.primitive.bind(*args, **eqn.params)))]
