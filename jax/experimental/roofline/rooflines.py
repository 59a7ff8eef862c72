"""The rules of `jax.experimental.roofline`: `jax._src.roofline.rules` has them."""

# Names that the original's module has.
from collections import defaultdict as defaultdict
from dataclasses import replace as replace

from jax._src.lax.windowed_reductions import select_and_gather_add_p as prim
from jax.experimental import roofline as roofline

__all__ = ["prim"]
