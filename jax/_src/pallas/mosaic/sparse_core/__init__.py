"""Kernels for the SparseCores of TPUs."""
