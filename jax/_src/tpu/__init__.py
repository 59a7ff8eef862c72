"""Algorithms for TPUs, composed of general operations because TPUs have no kernels for them."""
