"""The version of jaxlib. Kept so that older code can import it; its other names were removed."""

from jax._src.lib import version_str as __version__
