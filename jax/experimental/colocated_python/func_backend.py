"""What hosts of devices store for functions."""

from jax._src.colocated_python.func_backend import SINGLETON_RESULT_STORE as SINGLETON_RESULT_STORE
