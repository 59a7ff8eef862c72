"""Attention that skips blocks of the scores which a mask leaves out.

The algorithm is that of FlashAttention-2 (Dao, 2023, arXiv:2307.08691), over the blocks that a mask
known in advance has: `block_tables` lists them, `kernels` has the kernels, and `attention` the
function with its derivative.
"""
