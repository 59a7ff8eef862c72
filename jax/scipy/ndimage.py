"""Processing of images with SciPy's interface."""

from jax._src.scipy.ndimage import map_coordinates as map_coordinates
