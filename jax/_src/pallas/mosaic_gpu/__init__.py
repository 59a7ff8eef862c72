"""Kernels for GPUs from NVIDIA's Hopper generation on (Mosaic GPU)."""
