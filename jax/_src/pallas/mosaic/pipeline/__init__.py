"""Pipelines in kernels for TPUs: loops over blocks that are copied while others are worked on."""
