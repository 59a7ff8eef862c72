"""Random numbers from a generator with a state."""

from jax._src.random.stateful import StatefulPRNG as StatefulPRNG, stateful_rng as stateful_rng
