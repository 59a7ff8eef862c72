"""Sparse arrays: batched COO and CSR formats, their operations and derivatives."""
