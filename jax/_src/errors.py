"""The exceptions that JAX raises, each explained in its docstring: `jax.errors`."""

from __future__ import annotations

from typing import Any, TypeVar

from jax._src.lib import _jax

E = TypeVar("E", bound=Exception)


def export(cls: type[E]) -> type[E]:
    """Class decorator: makes `jax.errors` the public module of a class."""
    cls.__module__ = "jax.errors"
    return cls


# Raised by jaxlib: a computation failed to compile or to run.
JaxRuntimeError = _jax.JaxRuntimeError
JaxRuntimeError.__module__ = "jax.errors"


class ProcessesError(JaxRuntimeError):
    """Another process of the program has failed, or cannot be reached.

    It is raised in the main thread, wherever that is, as a KeyboardInterrupt is.
    """

    def __init__(self, *args: object):
        super().__init__(*args)
        # An exception that the main thread happened to handle is not the reason.
        self.__suppress_context__ = True


ProcessesError.__module__ = "jax.distributed"


class _JAXErrorMixin:
    """Ends the message with a link to the documentation of the class."""

    _page = "https://docs.jax.dev/en/latest/errors.html"

    def __init__(self, message: str):
        link = f"See {self._page}#jax.errors.{type(self).__name__}"
        super().__init__(f"{message}\n{link}")


@export
class JAXTypeError(_JAXErrorMixin, TypeError):
    """Base class of errors about values of a type that an operation does not support."""


@export
class JAXIndexError(_JAXErrorMixin, IndexError):
    """Base class of errors about indices that an operation does not support."""


@export
class ConcretizationTypeError(JAXTypeError):
    """A value was needed, but only its type is known while a function is traced.

    Under `jax.jit`, `jax.vmap`, `jax.grad` of jitted code and control flow such as `jax.lax.scan`,
    the arguments of a function are tracers. They have a shape and a dtype but no value.

    Remedies: compute what depends on the value with `jax.numpy`; make the argument static, so that
      its
    value is known while tracing; or do this step outside the transformed function.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> @jax.jit
      ... def total(x, axis):
      ...   return jnp.sum(x, axis=axis)
      >>> total(jnp.ones((2, 3)), 0)  # doctest: +IGNORE_EXCEPTION_DETAIL
      Traceback (most recent call last):
      ConcretizationTypeError: Abstract tracer value encountered where concrete value is ...

      The axis determines the compiled program, so it has to be static:

      >>> from functools import partial
      >>> @partial(jax.jit, static_argnames="axis")
      ... def total(x, axis):
      ...   return jnp.sum(x, axis=axis)
      >>> total(jnp.ones((2, 3)), axis=0)
      Array([2., 2., 2.], dtype=float32)
    """

    def __init__(self, tracer: Any, context: str = ""):
        super().__init__(
            "Abstract tracer value encountered where concrete value is expected: "
            f"{tracer._error_repr()}\n{context}{tracer._origin_msg()}\n"
        )


@export
class NonConcreteBooleanIndexError(JAXIndexError):
    """A traced boolean array was used as an index, so the result's shape is not known.

    Remedies: keep the shape and choose between values with `jnp.where`; use the argument `size` of
    operations that have it, such as `jnp.nonzero`; or select outside the traced function.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> @jax.jit
      ... def positive_sum(x):
      ...   return x[x > 0].sum()
      >>> positive_sum(jnp.array([1., -1., 2.]))  # doctest: +IGNORE_EXCEPTION_DETAIL
      Traceback (most recent call last):
      NonConcreteBooleanIndexError: Array boolean indices must be concrete; got bool[3] ...

      >>> @jax.jit
      ... def positive_sum(x):
      ...   return jnp.where(x > 0, x, 0).sum()
      >>> positive_sum(jnp.array([1., -1., 2.]))
      Array(3., dtype=float32)
    """

    def __init__(self, tracer: Any):
        super().__init__(
            f"Array boolean indices must be concrete; got {tracer.aval}. The shape of the result"
            " would depend on their values: use jnp.where, or the 'size' argument of functions"
            f" such as jnp.nonzero.{tracer._origin_msg()}\n"
        )


@export
class TracerArrayConversionError(JAXTypeError):
    """NumPy was called with a traced value, which has no data.

    Remedies: use the function of the same name in `jax.numpy`; convert a NumPy array that is
      indexed
    by a traced value to a JAX array first; or call NumPy at run time with `jax.pure_callback`.

    Example:
      >>> import jax, jax.numpy as jnp, numpy as np
      >>> jax.jit(lambda x: np.sin(x))(1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
      Traceback (most recent call last):
      TracerArrayConversionError: The numpy.ndarray conversion method __array__() was called on ...
      >>> print(jax.jit(lambda x: jnp.sin(x))(0.0))
      0.0
    """

    def __init__(self, tracer: Any):
        super().__init__(
            "The numpy.ndarray conversion method __array__() was called on "
            f"{tracer._error_repr()}{tracer._origin_msg()}"
        )


@export
class TracerIntegerConversionError(JAXTypeError):
    """Python needed a traced value as an int, for example as an index of a list or in `range`.

    Remedies: make the argument static, if it takes few values; convert the list that is indexed to
      a
    JAX array; or loop with `jax.lax.fori_loop`, whose bounds may be traced.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> items = [1, 2, 3]
      >>> jax.jit(lambda i: items[i])(0)  # doctest: +IGNORE_EXCEPTION_DETAIL
      Traceback (most recent call last):
      TracerIntegerConversionError: The __index__() method was called on traced array with shape ...
      >>> print(jax.jit(lambda i: jnp.array(items)[i])(0))
      1
    """

    def __init__(self, tracer: Any):
        super().__init__(
            f"The __index__() method was called on {tracer._error_repr()}{tracer._origin_msg()}"
        )


@export
class TracerBoolConversionError(ConcretizationTypeError):
    """Python needed the truth value of a traced value, as in `if`, `while`, `and` or `max`.

    Remedies: choose between values with `jnp.where`; choose between computations with
      `jax.lax.cond`;
    loop with `jax.lax.while_loop`; combine conditions with `&`, `|` and `~`; or make the argument
    that the condition depends on static.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> @jax.jit
      ... def relu(x):
      ...   return x if x > 0 else 0.0
      >>> relu(1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
      Traceback (most recent call last):
      TracerBoolConversionError: Attempted boolean conversion of traced array with shape bool[] ...

      >>> @jax.jit
      ... def relu(x):
      ...   return jnp.where(x > 0, x, 0.0)
      >>> print(relu(1.0))
      1.0
    """

    def __init__(self, tracer: Any):
        JAXTypeError.__init__(
            self,
            f"Attempted boolean conversion of {tracer._error_repr()}.{tracer._origin_msg()}",
        )


@export
class UnexpectedTracerError(JAXTypeError):
    """A traced value was used after the traced function had returned: it leaked.

    A transformed function must return what it computes. A traced value that it stores in a global
    variable, an attribute or a list has no meaning after the function has returned.

    Remedies: return the value; pass state in and out as arguments and results. To find the place,
    set the environment variable JAX_CHECK_TRACER_LEAKS or use `jax.checking_leaks()`.

    Example:
      >>> import jax
      >>> seen = []
      >>> @jax.jit
      ... def double(x):
      ...   seen.append(x)
      ...   return 2 * x
      >>> _ = double(1.0)
      >>> seen[0] + 1  # doctest: +IGNORE_EXCEPTION_DETAIL
      Traceback (most recent call last):
      UnexpectedTracerError: Encountered an unexpected tracer. ...

      >>> @jax.jit
      ... def double(x):
      ...   return 2 * x, x
      >>> y, x = double(1.0)
      >>> print(x + 1)
      2.0
    """

    def __init__(self, msg: str):
        super().__init__(msg)


@export
class KeyReuseError(JAXTypeError):
    """A random key was used twice while `jax_debug_key_reuse` is set.

    The numbers generated from two uses of a key are not independent. Remedy: make a new key for
    each use with `jax.random.split` or `jax.random.fold_in`.

    Example:
      >>> import jax
      >>> key = jax.random.key(0)
      >>> key, subkey = jax.random.split(key)
      >>> x = jax.random.uniform(subkey)
      >>> key, subkey = jax.random.split(key)
      >>> y = jax.random.uniform(subkey)
    """

    def __init__(self, message: str):
        super().__init__(message)


@export
class JaxprTypeError(TypeError):
    """A jaxpr is not well typed: the message names the equation and the reason."""


@export
class InconclusiveDimensionOperation(Exception):
    """A comparison of symbolic dimensions is neither true nor false for all their values.

    Raised when a function is traced for `jax.export` with symbolic shapes. Remedy: state the
    constraints that hold in `jax.export.symbolic_shape(..., constraints=...)`.
    """


# Errors of single modules, which re-export them


class ShardingTypeError(Exception):
    """Shardings of operands conflict, or the sharding of a result cannot be determined."""


class IndivisibleError(ValueError):
    """A dimension cannot be split evenly."""


class DuplicateSpecError(Exception):
    """A partition spec uses a mesh axis twice. Has the attributes `message`, `mesh` and `pspec`."""

    def __init__(self, message, mesh, pspec):
        super().__init__(message)
        self.message = message
        self.mesh = mesh
        self.pspec = pspec

    def __str__(self):
        return self.message


class NonUniformShardingError(ValueError):
    """A dimension is not split uniformly among processes."""


class InternalFloatingPointError(Exception):
    """A result has a NaN or an infinity while jax_debug_nans or jax_debug_infs is set."""

    def __init__(self, name: str, ty: str):
        super().__init__(name, ty)
        self.name = name
        self.ty = ty

    def __str__(self) -> str:
        return f"invalid value ({self.ty}) encountered in {self.name}"


class TypePromotionError(ValueError):
    """The dtypes of operands have no common dtype to be promoted to.

    Raised for small floats and integers, which are never promoted implicitly, and for any two
    different dtypes if `jax_numpy_dtype_promotion` is 'strict'.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> with jax.numpy_dtype_promotion("strict"):
      ...   jnp.float32(1) + jnp.int32(1)  # doctest: +IGNORE_EXCEPTION_DETAIL
      Traceback (most recent call last):
      TypePromotionError: Input dtypes ('float32', 'int32') have no available implicit dtype ...
      >>> jnp.float32(1) + jnp.int32(1).astype("float32")
      Array(2., dtype=float32)
    """


TypePromotionError.__module__ = "jax.dtypes"


class InvalidInputException(TypeError):
    """An argument is neither an array nor a scalar; raised by jaxlib, and explained by `jit`."""


class StoreException(Exception):
    """An auxiliary result was read before the function ran, or written twice."""
