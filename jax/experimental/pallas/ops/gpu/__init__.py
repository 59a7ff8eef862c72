"""Kernels for GPUs, compiled by Triton."""
