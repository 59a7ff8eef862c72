"""Vector quantization with SciPy's interface."""

from jax._src.scipy.cluster.vq import vq as vq
