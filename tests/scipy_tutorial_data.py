"""The data of the programs of SciPy's user guide (scipy_tutorial_*_scenarios.py)."""

import numpy as np

RNG = np.random.RandomState(5)
RADII, ANGLES = np.linspace(0, 1, 6, dtype=np.float32), np.linspace(0, 6, 5, dtype=np.float32)
DRUM_ZERO = 3.8317059702075125  # the first positive zero of J1
HEIGHTS = RNG.gamma(3.0, 2.0, 120).astype(np.float32)
OTHERS = (RNG.randn(40) * 1.3 + 6).astype(np.float32)
COUNTS = np.float32([16, 18, 16, 14, 12, 12])
FACE = RNG.rand(12, 10).astype(np.float32)
TIME = np.arange(256, dtype=np.float32) / 64
TONE = np.sin(2 * np.pi * 9 * TIME) + 0.3 * TIME + RNG.randn(256).astype(np.float32) / 8
ECHO = np.roll(TONE, 17)
GRID = tuple(np.linspace(0, 1, n, dtype=np.float32) for n in (9, 7))
SURFACE = np.sin(3 * GRID[0])[:, None] * np.cos(2 * GRID[1])
SITES = RNG.rand(11, 2).astype(np.float32)
MATRIX = (RNG.randn(5, 5) + 4 * np.eye(5)).astype(np.float32)
SYMMETRIC = MATRIX @ MATRIX.T
SIDE = RNG.randn(5, 2).astype(np.float32)
OBSERVED = np.concatenate([RNG.randn(20, 2) + c for c in ([0, 0], [6, 1], [-3, 7])]).astype(
    np.float32
)
CODES = np.float32([[1, 1], [5, 2], [-2, 5]])
VECTORS = np.float32([[1, 0, 0], [0.2, -0.5, 2]])
HARMONICS = [(0, 0), (1, 0), (2, 1), (3, -2), (4, 4)]
TABLE = np.float32([[20, 15, 9], [7, 12, 18], [11, 10, 8]])
P, Q = np.float32([[0.36, 0.48, 0.1, 0.06], [0.3, 0.2, 0.4, 0.1]])
CROSS = np.float32([[0, 1, 0], [1, -4, 1], [0, 1, 0]])
GRID_EDGES = np.array(
    [(i, i + 1) for i in range(12) if i % 4 < 3] + [(i, i + 4) for i in range(8)], np.int32
)
LINKS = (RNG.rand(24, 24) < 0.2) | np.eye(24, k=1, dtype=bool) | np.eye(24, k=-23, dtype=bool)
LINKS = (LINKS & ~np.eye(24, dtype=bool)).astype(np.float32)
LINK_COUNT = int(LINKS.sum())
