"""Rotations with SciPy's interface."""

from jax._src.scipy.spatial.transform import Rotation as Rotation, Slerp as Slerp
