"""What hosts of devices store for objects."""

from jax._src.colocated_python.obj_backend import SINGLETON_OBJECT_STORE as SINGLETON_OBJECT_STORE
