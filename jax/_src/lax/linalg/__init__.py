"""Linear algebra: decompositions of (batches of) matrices, and systems of equations."""
