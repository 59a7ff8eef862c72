"""Runs kernels for GPUs without one."""
