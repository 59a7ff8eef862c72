"""Reductions of the arrays of all devices, over NVLink, by Mosaic GPU."""

from jax._src.pallas.ops.gpu.collectives import reduce_scatter as reduce_scatter
