"""Fusions: functions that a fusible gets in place of its arguments, and of what follows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from jax._src.tree_util import tree_map

A = ParamSpec("A")
K = TypeVar("K")


@dataclasses.dataclass
class Fusion(Generic[A, K]):
    """A function of known types, which can be computed block by block.

    Args:
      func: the function.
      in_type: the types of its positional arguments, and a dictionary of those of its keyword arguments.
      out_type: the types of its result.
      strict_mode: whether blocks that several operations need of one array must be proved to be the same.
    """

    func: Callable[A, K]
    in_type: tuple[tuple[Any, ...], dict[str, Any]]
    out_type: Any
    strict_mode: bool = True

    def __call__(self, *args: A.args, **kwargs: A.kwargs) -> K:
        return self.func(*args, **kwargs)

    @property
    def type(self) -> Any:
        """The types of the result."""
        return self.out_type

    @property
    def shape(self) -> Any:
        """The shapes of the result."""
        return tree_map(lambda t: t.shape, self.out_type)

    @property
    def dtype(self) -> Any:
        """The dtypes of the result."""
        return tree_map(lambda t: t.dtype, self.out_type)

    @property
    def in_shape(self) -> Any:
        """The shapes of the arguments."""
        return tree_map(lambda t: t.shape, self.in_type)

    @property
    def in_dtype(self) -> Any:
        """The dtypes of the arguments."""
        return tree_map(lambda t: t.dtype, self.in_type)
