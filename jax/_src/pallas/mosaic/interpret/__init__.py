"""Runs kernels for TPUs without one: their memories, copies, semaphores, cores and devices."""
