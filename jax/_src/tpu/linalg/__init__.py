"""Decompositions that need nothing but products, QR and Cholesky decompositions."""
