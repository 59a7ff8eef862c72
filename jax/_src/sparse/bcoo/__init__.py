"""BCOO, the batched coordinate format: buffers and their primitives, and functions of arrays."""
