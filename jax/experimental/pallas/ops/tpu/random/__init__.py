"""Generators of random bits as kernels."""
