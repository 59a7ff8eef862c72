"""NumPy API (being built)."""
