"""The analysis of `jax.experimental.roofline`, for libraries that import it from here."""

from jax._src.roofline.analysis import (
    roofline as roofline,
    roofline_and_grad as roofline_and_grad,
)
from jax._src.roofline.results import (
    RooflineResult as RooflineResult,
    RooflineRuleContext as RooflineRuleContext,
    RooflineShape as RooflineShape,
    ValidRooflineDtype as ValidRooflineDtype,
)
from jax._src.roofline.rules import (
    register_roofline as register_roofline,
    register_standard_roofline as register_standard_roofline,
)

# Names that the original's module has besides.
from dataclasses import dataclass as dataclass, field as field  # isort: skip
from jax import numpy as jnp  # isort: skip
from jax._src.api import make_jaxpr as make_jaxpr  # isort: skip
from jax._src.interpreters.partial_eval import dce_jaxpr as dce_jaxpr  # isort: skip
from jax._src.mesh import AbstractMesh as AbstractMesh, Mesh as Mesh  # isort: skip
from jax._src.named_sharding import NamedSharding as NamedSharding  # isort: skip
from jax._src.shard_map import shard_map as shard_map, shard_map_p as shard_map_p  # isort: skip
from jax._src.tree_util import (  # isort: skip
    broadcast_prefix as broadcast_prefix,
    tree_flatten as tree_flatten,
    tree_map as tree_map,
    tree_unflatten as tree_unflatten,
)
from jax._src.util import foreach as foreach, safe_map as map  # isort: skip

__all__ = ["jnp", "map"]
