"""`check_key_reuse`: the check of a function for keys that are used twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax._src import api, traceback_util
from jax._src.key_reuse import rules as _rules  # noqa: F401 - sets the rules of primitives
from jax._src.key_reuse.analysis import closed_signature, jaxpr_type_signature
from jax._src.key_reuse.signatures import KeyReuseSignature

traceback_util.register_exclusion(__file__)


def function_type_signature(fun: Callable[..., Any], *args: Any) -> KeyReuseSignature:
    """The use of keys by a function: positions are those of flat arguments and results.

    Args:
      fun: function of trees of arrays.
      args: its arguments.

    Raises:
      KeyReuseError: the function uses a key twice.

    >>> from jax.experimental.key_reuse import _core
    >>> _core.function_type_signature(jax.random.split, jax.random.key(0))
    KeyReuseSignature(Sink(0), Source(0))
    """
    closed = api.make_jaxpr(fun)(*args)
    jaxpr_type_signature(closed.jaxpr)
    return closed_signature(closed)


def check_key_reuse(fun: Callable[..., Any], /, *args: Any) -> None:
    """Checks, without running it, that a function uses each random key once.

    Args:
      fun: function of trees of arrays.
      args: its arguments. Only typed keys, `jax.random.key`, are looked at.

    Raises:
      KeyReuseError: a key is used twice.

    >>> from jax.experimental.key_reuse import _core
    >>> _core.check_key_reuse(lambda k: jax.random.normal(k), jax.random.key(0))
    """
    function_type_signature(fun, *args)
