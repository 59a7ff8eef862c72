"""CPU kernels that jax uses where this package is installed.

The names here are for jax alone, which checks `INTERFACE_VERSION`; they change without notice.
"""

from jaxlib_ext._kernels import handlers as handlers, vector_target as vector_target

__version__ = "0.10.2"

# As in jax/_src/lib/native_kernels.py.
INTERFACE_VERSION = 3


def batch_partitionable_targets() -> list[str]:
    """The targets that treat dimensions of their operands, as many as a call says, as a batch."""
    return [
        "jaxlib_ext_attention",
        "jaxlib_ext_attention_gradient",
        "jaxlib_ext_cumulative",
        "jaxlib_ext_sort",
        "jaxlib_ext_top_k",
    ]
