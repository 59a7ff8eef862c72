"""`vectorize`: turns functions of scalars or small arrays into functions that broadcast."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from jax._src import api, traceback_util
from jax._src.lax import lax
from jax._src.numpy import util
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.util import export
from jax._src.tree_util import tree_map
from jax._src.util import wraps

_DIMENSION = r"\w+"
_CORE = rf"\((?:{_DIMENSION}(?:,{_DIMENSION})*)?\)"
_ARGUMENTS = rf"{_CORE}(?:,{_CORE})*"
_SIGNATURE = re.compile(rf"^{_ARGUMENTS}->{_ARGUMENTS}$")

CoreDims = tuple[str, ...]


@export
def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """Makes a function that applies `pyfunc` to all elements, with `vmap` and broadcasting.

    Args:
      pyfunc: function of arrays.
      excluded: positions and names of arguments that are passed on unchanged.
      signature: core dimensions of one call, such as "(m,n),(n)->(m)"; the dimensions before them
        are vectorized over. None means that arguments and results are scalars.

    Returns:
      A function of arrays whose leading dimensions broadcast. Arguments that are None are passed on
      unchanged.

    Raises (when the result is called):
      ValueError: if a shape does not match the signature.
      TypeError: if the number of arguments or results does not match.

    >>> @jnp.vectorize
    ... def larger(a, b):
    ...   return lax.cond(a > b, lambda: a, lambda: b)
    >>> larger(jnp.arange(3), 1).tolist()
    [1, 1, 2]
    >>> matvec = jnp.vectorize(jnp.dot, signature="(m,n),(n)->(m)")
    >>> matvec(jnp.ones((5, 2, 3)), jnp.ones(3)).shape
    (5, 2)
    """
    if any(not isinstance(e, (int, str)) for e in excluded):
        raise TypeError(
            f"jax.numpy.vectorize can only exclude integer or string arguments, but excluded={ ({*excluded})!r}"
        )
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(f"excluded={excluded!r} contains negative numbers")
    context = f"on vectorized function with {excluded=!r} and {signature=!r}"

    @wraps(pyfunc)
    @traceback_util.api_boundary
    def wrapped(*args, **kwargs):
        mapped = [i for i in range(len(args)) if i not in excluded]
        names = sorted(k for k in kwargs if k not in excluded)
        values = [args[i] for i in mapped] + [kwargs[k] for k in names]
        given = [v is not None for v in values]

        def fun(*arrays):
            it = iter(arrays)
            full = [next(it) if g else None for g in given]
            positional = list(args)
            for i, x in zip(mapped, full):
                positional[i] = x
            keywords = dict(kwargs, **dict(zip(names, full[len(mapped) :])))
            return pyfunc(*positional, **keywords)

        if signature is None:
            input_core: list[CoreDims] = [()] * len(values)
            output_core = None
        else:
            inputs, output_core = _parse(signature)
            if len(values) != len(inputs):
                raise TypeError(
                    f"wrong number of positional arguments: expected {len(inputs)}, got {len(values)} {context}"
                )
            for v, core in zip(values, inputs):
                if v is None and core:
                    raise ValueError(
                        f"None stands for an argument with core dimensions {core!r} {context}"
                    )
            input_core = list(inputs)
        input_core = [core for core, g in zip(input_core, given) if g]
        arrays = [_array(v) for v in values if v is not None]
        return _apply(fun, arrays, input_core, output_core, context)

    return wrapped


def _array(x: Any) -> Any:
    return asarray(x) if isinstance(x, (list, tuple)) else util.to_array(x)


@functools.lru_cache(1024)
def _parse(signature: str) -> tuple[list[CoreDims], list[CoreDims]]:
    if not _SIGNATURE.match(signature):
        raise ValueError(f"not a valid gufunc signature: {signature}")
    inputs, outputs = [
        [tuple(re.findall(_DIMENSION, core)) for core in re.findall(_CORE, side)]
        for side in signature.split("->")
    ]
    return inputs, outputs


def _apply(fun, arrays, input_core, output_core, context):
    sizes: dict[str, Any] = {}
    loops = []
    for x, core in zip(arrays, input_core):
        n = len(x.shape) - len(core)
        if n < 0:
            raise ValueError(
                f"input with shape {x.shape} does not have enough dimensions for all core dimensions "
                f"{core} {context}"
            )
        loops.append(x.shape[:n])
        _bind_sizes(sizes, core, x.shape[n:], context)
    loop = lax.broadcast_shapes(*loops) if loops else ()
    if output_core is not None:
        fun = _checked(fun, sizes, output_core, context)
    squeezed, present = [], []
    for x, shape in zip(arrays, loops):
        missing = len(loop) - len(shape)
        ones = [i for i, d in enumerate(shape) if d == 1]
        squeezed.append(lax.squeeze(x, ones))
        present.append([i >= missing and (i - missing) not in ones for i in range(len(loop))])
    new = []
    for i in reversed(range(len(loop))):
        axes = tuple([0 if p[i] else None for p in present])
        if all(a is None for a in axes):
            new.append(i)
        else:
            fun = api.vmap(fun, in_axes=axes)
    out = fun(*squeezed)
    return tree_map(lambda x: lax.expand_dims(util.to_array(x), new), out) if new else out


def _bind_sizes(sizes, core, shape, context):
    for name, size in zip(core, shape):
        known = sizes.setdefault(name, size)
        if known != size:
            raise ValueError(
                f"inconsistent size for core dimension {name!r}: {size} vs {known} {context}"
            )


def _checked(fun, sizes, output_core, context):
    """Wraps `fun` to check its results against the signature."""

    def checked(*args):
        out = fun(*args)
        single = len(output_core) == 1
        if single and isinstance(out, (tuple, list)) and len(out) != 1:
            raise TypeError(
                f"wrong number of output arguments: expected 1, got {len(out)} {context}"
            )
        if not single and not isinstance(out, (tuple, list)):
            raise TypeError(
                f"output must be a tuple when multiple outputs are expected, got: {out!r}\n{context}"
            )
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        if len(outs) != len(output_core):
            raise TypeError(
                f"wrong number of output arguments: expected {len(output_core)}, got {len(outs)} {context}"
            )
        known = dict(sizes)
        for x, core in zip(outs, output_core):
            shape = np.shape(x)
            if len(shape) != len(core):
                raise ValueError(
                    f"output shape {shape} does not match core dimensions {core} {context}"
                )
            _bind_sizes(known, core, shape, context)
        return out

    return checked
