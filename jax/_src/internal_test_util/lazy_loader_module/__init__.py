"""A package whose module is imported when it is first used."""

from jax._src.lazy_names import lazy_names

__all__ = ["lazy_test_submodule"]
__getattr__, _ = lazy_names(__name__, {}, modules=__all__)


def __dir__() -> list[str]:
    return __all__
