"""Functions on dtypes and shapes, print options, and `load`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.util import export, lower_jax_array
from jax._src.typing import DTypeLike
from jax._src.util import canonicalize_axis_tuple


@export
def issubdtype(arg1: DTypeLike, arg2: DTypeLike) -> bool:
    """Tests whether the dtype `arg1` is equal to or a subtype of `arg2`.

    >>> jnp.issubdtype(jnp.bfloat16, jnp.floating)
    True
    """
    return dtypes.issubdtype(arg1, arg2)


@export
def result_type(*args: Any) -> np.dtype:
    """Returns the dtype that arrays, scalars and dtypes promote to.

    Python scalars are weakly typed: they do not raise the precision of the other arguments, only
    their kind.

    Raises:
      ValueError: if there are no arguments.

    >>> jnp.result_type(jnp.int32, jnp.float16), jnp.result_type(jnp.int8, 2.0)
    (dtype('float16'), dtype('float32'))
    """
    return dtypes.result_type(*args)


@export
def iscomplexobj(x: Any) -> bool:
    """Tests whether an array, scalar or dtype is complex.

    >>> jnp.iscomplexobj(1j), jnp.iscomplexobj(jnp.zeros(2))
    (True, False)
    """
    if x is None:
        return False
    try:
        dtype = x.dtype
        if isinstance(dtype, dtypes.ExtendedDType):
            return False
        return dtypes.issubdtype(dtype, np.complexfloating)
    except AttributeError:
        return np.iscomplexobj(x)


@export
def isrealobj(x: Any) -> bool:
    """Tests whether an array, scalar or dtype is not complex.

    >>> jnp.isrealobj(1j), jnp.isrealobj(jnp.zeros(2))
    (False, True)
    """
    return not iscomplexobj(x)


@export
def isscalar(element: Any) -> bool:
    """Tests whether `element` is a scalar: a Python or NumPy number, or an array of rank 0.

    >>> jnp.isscalar(1), jnp.isscalar(jnp.ones(2))
    (True, False)
    """
    if np.isscalar(element):
        return True
    element = lower_jax_array(element)
    return hasattr(element, "ndim") and hasattr(element, "dtype") and element.ndim == 0


@export
def ndim(a: Any) -> int:
    """Returns the number of dimensions of an array.

    >>> jnp.ndim(jnp.ones((2, 3)))
    2
    """
    return np.ndim(lower_jax_array(a))


@export
def shape(a: Any) -> tuple[int, ...]:
    """Returns the shape of an array.

    >>> jnp.shape(jnp.ones((2, 3)))
    (2, 3)
    """
    return np.shape(lower_jax_array(a))


@export
def size(a: Any, axis: Any = None) -> int:
    """Returns the number of elements of an array, or along one or more axes.

    Args:
      a: array or scalar.
      axis: an axis, several axes, or None for all.

    Raises:
      ValueError: if an axis is out of range.

    >>> jnp.size(jnp.ones((2, 3))), jnp.size(jnp.ones((2, 3)), axis=1)
    (6, 3)
    """
    sizes = np.shape(lower_jax_array(a))
    return math.prod([sizes[i] for i in canonicalize_axis_tuple(axis, len(sizes))])


# Printing and loading arrays


@export
def get_printoptions() -> dict[str, Any]:
    """Returns the print options of arrays: alias of `numpy.get_printoptions`.

    >>> jnp.get_printoptions()["precision"]
    8
    """
    return np.get_printoptions()


@export
def set_printoptions(*args: Any, **kwargs: Any) -> None:
    """Sets the print options of arrays: alias of `numpy.set_printoptions`."""
    np.set_printoptions(*args, **kwargs)


@export
def printoptions(*args: Any, **kwargs: Any) -> Any:
    """Context manager that sets the print options of arrays: alias of `numpy.printoptions`.

    >>> with jnp.printoptions(precision=2):
    ...   print(jnp.array([1.23456]))
    [1.23]
    """
    return np.printoptions(*args, **kwargs)


@export
def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Loads an array that `jnp.save` wrote, or several by name; see `numpy.load`.

    Args:
      file: path or open file.
      *args, **kwargs: as for `numpy.load`.

    Returns:
      An array; for files of several arrays or of non-numeric elements, the result of `numpy.load`.
      Small float types other than bfloat16 are loaded as raw bytes; use `view` to restore their
      dtype.

    >>> import io
    >>> f = io.BytesIO()
    >>> jnp.save(f, jnp.arange(3)); _ = f.seek(0)
    >>> jnp.load(f)
    Array([0, 1, 2], dtype=int32)
    """
    out = np.load(file, *args, **kwargs)
    if isinstance(out, np.ndarray):
        if out.dtype.kind == "V" and out.dtype.names is None:
            # NumPy saves ml_dtypes' floats as raw bytes, without their dtype.
            if out.dtype == np.dtype("V2"):
                out = out.view(dtypes.bfloat16)
        if out.dtype.kind in "OSUmM" or out.dtype.type is np.void:
            return out  # JAX arrays cannot hold such elements
        return asarray(out)
    return out


# Abstract scalar types
character = np.character
complexfloating = np.complexfloating
flexible = np.flexible
floating = np.floating
generic = np.generic
inexact = np.inexact
integer = np.integer
number = np.number
object_ = np.object_
signedinteger = np.signedinteger
unsignedinteger = np.unsignedinteger
