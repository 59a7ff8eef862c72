"""Kernels for TPUs, which Mosaic compiles."""
