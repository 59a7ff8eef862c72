"""Matrix decompositions that only need products, QR and Cholesky decompositions."""
