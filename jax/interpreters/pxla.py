"""Compiling lowered programs."""

from jax._src.interpreters.pxla import create_compile_options as create_compile_options
