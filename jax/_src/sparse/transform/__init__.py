"""`sparsify`: functions of dense arrays applied to sparse ones."""
