"""Tree structures in checkpoints."""

# Names of helpers, which the original's module has too.
import logging
from concurrent.futures import Future as Future
from types import ModuleType as ModuleType
from typing import TypeVar

from jax._src.array_serialization.pytree import (
    PyTreeFuture as PyTreeFuture,
    deserialize_pytreedef as deserialize_pytreedef,
    serialize_pytreedef as serialize_pytreedef,
)
from jax._src.tree_util.serialization import (
    register_namedtuple_serialization as register_namedtuple_serialization,
    register_pytree_node_serialization as register_pytree_node_serialization,
)

PickleModule = ModuleType
T = TypeVar("T")
logger = logging.getLogger(__name__)
