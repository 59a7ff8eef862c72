"""Kernels for common operations."""
