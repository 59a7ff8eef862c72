"""Names of harnesses."""

from jax._src import test_util as jtu

shaped = jtu.format_shape_dtype_string


def named(head, **parts) -> str:
    """A name that begins with `head`, and says key and value of each part."""
    return "_".join([head, *(f"{key}={value}" for key, value in parts.items())])


def spelled(parameters) -> dict:
    """Parameters by their names in names: without underscores."""
    return {key.replace("_", ""): value for key, value in parameters.items()}


def sides(head, shapes, dtype) -> str:
    """A name of two operands of a type."""
    lhs, rhs = shapes
    return named(head, lhs=shaped(lhs, dtype), rhs=shaped(rhs, dtype))
