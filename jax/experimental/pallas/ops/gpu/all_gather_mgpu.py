"""Arrays of all devices joined on each, over NVLink, by Mosaic GPU."""

from jax._src.pallas.ops.gpu.collectives import all_gather as all_gather
