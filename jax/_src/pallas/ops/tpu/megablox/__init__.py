"""Products of the rows of groups with a matrix for each group.

Gale et al., "MegaBlocks: Efficient Sparse Training with Mixture-of-Experts" (2022, arXiv:2211.15841), compute
a layer of experts so, without dropping or padding tokens. Here the tiles of rows and the groups that have rows
in them are listed first (`metadata`), and the kernels go through the list.
"""
