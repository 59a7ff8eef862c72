"""Functions with a stack of transformations, for libraries that use this interface.

A `WrappedFun` is a function and the transformations applied to it, outermost last. JAX itself
transforms plain functions; this module serves code that imports `jax.extend.linear_util`.
"""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from jax._src import config
from jax._src.core import DebugInfo
from jax._src.core.jaxpr import (
    InitialResultPaths as InitialResultPaths,
    fun_source_info,
    initial_result_paths as initial_result_paths,
    unknown_debug_info,
)
from jax._src.errors import StoreException as StoreException
from jax._src.tree_util import PyTreeDef, tree_flatten, tree_unflatten
from jax._src.util import fun_name, register_cache


class Store:
    """A cell for the auxiliary result of a transformation, which can be written once."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value: tuple = ()

    def store(self, value: Any) -> None:
        if self._value:
            raise StoreException("Store occupied: the function has been called already")
        self._value = (value,)

    def reset(self) -> None:
        self._value = ()

    @property
    def val(self) -> Any:
        if not self._value:
            raise StoreException("Store empty: the function has not been called yet")
        return self._value[0]

    def __bool__(self) -> bool:
        return bool(self._value)


class EqualStore(Store):
    """A store that may be written again with an equal value."""

    __slots__ = ()

    def store(self, value: Any) -> None:
        if self._value and self._value[0] != value:
            raise StoreException(
                f"Store occupied with a different value: {self._value[0]}, not {value}"
            )
        self._value = (value,)


class WrappedFun:
    """A function with transformations to apply to it.

    Args:
      f: the function.
      f_transformed: the function with the transformations applied.
      transforms: pairs of a transformation and its static arguments, outermost first.
      stores: the store of each transformation's auxiliary result, or None.
      params: pairs of names and values: further keyword arguments of `f`.
      in_type: types of the arguments, if they are known.
      debug_info: what the function is traced for.

    Two of them are equal if functions, transformations, static arguments, parameters and types are.
    """

    __slots__ = (
        "f", "f_transformed", "transforms", "stores", "params", "in_type", "debug_info",
        "__weakref__",
    )  # fmt: skip

    def __init__(
        self,
        f: Callable,
        f_transformed: Callable,
        transforms: tuple[tuple[Callable, tuple[Hashable, ...]], ...],
        stores: tuple[Store | None, ...],
        params: tuple[tuple[str, Hashable], ...],
        in_type: Any,
        debug_info: DebugInfo,
    ):
        self.f = f
        self.f_transformed = f_transformed
        self.transforms = transforms
        self.stores = stores
        self.params = params
        self.in_type = in_type
        self.debug_info = debug_info

    @property
    def __name__(self) -> str:
        return fun_name(self.f)

    def wrap(self, gen: Callable, gen_static_args: tuple, out_store: Store | None) -> WrappedFun:
        """Add one more transformation around the function."""
        if out_store is None:
            transformed = functools.partial(gen, self.f_transformed, *gen_static_args)
        else:
            transformed = functools.partial(gen, self.f_transformed, out_store, *gen_static_args)
        return WrappedFun(
            self.f,
            transformed,
            ((gen, gen_static_args), *self.transforms),
            (out_store, *self.stores),
            self.params,
            None,
            self.debug_info,
        )

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the transformed function."""
        return self.f_transformed(*args, **kwargs)

    __call__ = call_wrapped

    def populate_stores(self, stores: Sequence[Store | None]) -> None:
        """Fill the stores with the values that another run of an equal function stored."""
        for own, other in zip(self.stores, stores, strict=True):
            if own is not None and other is not None:
                own.store(other.val)

    def replace_debug_info(self, debug_info: DebugInfo) -> WrappedFun:
        return WrappedFun(
            self.f, self.f_transformed, self.transforms, self.stores, self.params, self.in_type,
            debug_info,
        )  # fmt: skip

    def with_unknown_names(self) -> WrappedFun:
        return self.replace_debug_info(self.debug_info.with_unknown_names())

    def _key(self) -> tuple:
        return (self.f, self.transforms, self.params, self.in_type)

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and self._key() == other._key()

    def __repr__(self) -> str:
        lines = [
            f"{i:<4}: {fun_name(gen)}   {fun_name(static_args[0]) if static_args else ''}".rstrip()
            for i, (gen, static_args) in enumerate(self.transforms)
        ]
        return "\n".join(["Wrapped function:", *lines, f"Core: {self.__name__}"]) + "\n"


def wrap_init(
    f: Callable, params: dict | None = None, *, debug_info: DebugInfo | None = None
) -> WrappedFun:
    """A `WrappedFun` without transformations.

    Args:
      f: a function.
      params: further keyword arguments of `f`, hashable.
      debug_info: what the function is traced for; by default only its source location.

    Example:
      >>> wrap_init(lambda x, y: x + y, {"y": 2}).call_wrapped(1)
      3
    """
    if debug_info is None:
        debug_info = unknown_debug_info._replace(func_src_info=fun_source_info(f))
    items = tuple(sorted(params.items())) if params else ()
    bound = functools.partial(f, **params) if params else f
    return WrappedFun(f, bound, (), (), items, None, debug_info)


# Transformations


def _decorator(transform: Callable) -> Callable:
    """Lets a function `transform(gen, fun, ...)` be called with `gen` first, and with the rest later."""

    @functools.wraps(transform)
    def with_gen(gen: Callable, *rest: Any, **options: Any) -> Any:
        if rest:
            return transform(gen, *rest, **options)
        return functools.partial(transform, gen, **options)

    return with_gen


@_decorator
def transformation2(gen: Callable, fun: WrappedFun, *gen_static_args: Any) -> Any:
    """Puts the transformation `gen(f, *gen_static_args, *args, **kwargs)` around `fun`.

    Without `fun` it is a decorator of `gen`: the result takes `fun` and the static arguments.

    Example:
      >>> @transformation2
      ... def plus(f, n, *args):
      ...   return f(*args) + n
      >>> plus(wrap_init(lambda x, y: x * y), 5).call_wrapped(3, 4)
      17
    """
    return fun.wrap(gen, gen_static_args, None)


@_decorator
def transformation_with_aux2(
    gen: Callable,
    fun: WrappedFun,
    *gen_static_args: Any,
    use_eq_store: bool = False,
    unk_names: bool = False,
) -> Any:
    """Like `transformation2`, for `gen(f, store, *gen_static_args, *args, **kwargs)`.

    Args:
      use_eq_store: whether the function may run again if it stores an equal auxiliary result.
      unk_names: whether the transformation invalidates the names of arguments and results.

    Returns:
      (transformed function, aux): `aux()` returns the stored value.
    """
    store = EqualStore() if use_eq_store else Store()
    if unk_names:
        fun = fun.with_unknown_names()
    return fun.wrap(gen, gen_static_args, store), lambda: store.val


@_decorator
def transformation(gen: Callable, fun: WrappedFun, *gen_static_args: Any) -> Any:
    """Like `transformation2`, for a generator.

    `gen(*gen_static_args, *args, **kwargs)` yields arguments and keyword arguments for the
    function, is sent its result, and yields the result of the transformed function.
    """

    def run(f, *args, **kwargs):
        return _run_generator(gen, f, args, kwargs)

    return fun.wrap(_Generator(run, gen), gen_static_args, None)


@_decorator
def transformation_with_aux(gen: Callable, fun: WrappedFun, *gen_static_args: Any) -> Any:
    """Like `transformation`; `gen` finally yields a pair of the result and the auxiliary result."""
    store = Store()

    def run(f, store, *args, **kwargs):
        result, aux = _run_generator(gen, f, args, kwargs)
        store.store(aux)
        return result

    return fun.wrap(_Generator(run, gen), gen_static_args, store), lambda: store.val


class _Generator:
    """A generator as a transformation; equal if the generators are equal, as cache keys require."""

    __slots__ = ("run", "gen")

    def __init__(self, run: Callable, gen: Callable):
        self.run = run
        self.gen = gen

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Generator) and self.gen == other.gen

    def __hash__(self) -> int:
        return hash(self.gen)

    @property
    def __name__(self) -> str:
        return fun_name(self.gen)


def _run_generator(gen: Callable, f: Callable, args: tuple, kwargs: dict) -> Any:
    generator = gen(*args, **kwargs)
    inner_args, inner_kwargs = next(generator)
    try:
        result = f(*inner_args, **inner_kwargs)
    except BaseException as err:
        generator.throw(err)
        raise
    return generator.send(result)


@transformation_with_aux2
def flatten_fun(f: Callable, store: Store, in_tree: PyTreeDef, *leaves: Any) -> list:
    """Flatten arguments and result of `f(*args, **kwargs)`; stores the tree of the result."""
    args, kwargs = tree_unflatten(in_tree, leaves)
    out, tree = tree_flatten(f(*args, **kwargs))
    store.store(tree)
    return out


@transformation_with_aux2
def flatten_fun_nokwargs(f: Callable, store: Store, in_tree: PyTreeDef, *leaves: Any) -> list:
    """Like `flatten_fun`, for functions that take positional arguments only."""
    out, tree = tree_flatten(f(*tree_unflatten(in_tree, leaves)))
    store.store(tree)
    return out


def argnums_partial(
    f: WrappedFun,
    dyn_argnums: int | Sequence[int],
    args: Sequence[Any],
    require_static_args_hashable: bool = True,
) -> tuple[WrappedFun, tuple]:
    """`f` as a function of the arguments `dyn_argnums` only, with the others fixed.

    Raises:
      ValueError: if a fixed argument is not hashable, unless `require_static_args_hashable` is False.
    """
    nums = dyn_argnums if isinstance(dyn_argnums, Sequence) else (dyn_argnums,)
    nums = sorted({i + len(args) if i < 0 else i for i in nums})
    fixed = [_Fixed(x) for i, x in enumerate(args) if i not in nums]
    if require_static_args_hashable:
        for x in fixed:
            x.check_hashable()
    f = f.wrap(_call_with_fixed, (tuple(nums), len(args), tuple(fixed)), None)
    return f, tuple(args[i] for i in nums)


class _Fixed:
    """A fixed argument: compared by value if it is hashable, otherwise by identity."""

    __slots__ = ("val",)

    def __init__(self, val: Any):
        self.val = val

    def check_hashable(self) -> None:
        try:
            hash(self.val)
        except TypeError:
            raise ValueError(
                "Non-hashable static arguments are used in a jit-transformed function: "
                f"{self.val!r} of type {type(self.val)}. Make it hashable, or pass it as a dynamic "
                "argument."
            ) from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Fixed):
            return False
        return self.val is other.val or (
            type(self.val) is type(other.val)
            and hash(self) == hash(other)
            and self.val == other.val
        )

    def __hash__(self) -> int:
        try:
            return hash(self.val)
        except TypeError:
            return id(self.val)


def _call_with_fixed(f, nums, num_args, fixed, *dyn_args, **kwargs):
    static, dynamic = iter(fixed), iter(dyn_args)
    args = [next(dynamic) if i in nums else next(static).val for i in range(num_args)]
    return f(*args, **kwargs)


def merge_linear_aux(aux1: Callable, aux2: Callable) -> tuple[bool, Any]:
    """Select from two auxiliary results the one that was stored.

    Returns:
      (True, aux1()) or (False, aux2()).

    Raises:
      StoreException: if neither or both were stored.
    """
    try:
        first = aux1()
    except StoreException:
        try:
            return False, aux2()
        except StoreException:
            raise StoreException("neither store occupied") from None
    try:
        aux2()
    except StoreException:
        return True, first
    raise StoreException("both stores occupied")


def cache(call: Callable, *, explain: Callable | None = None) -> Callable:
    """Memoize `call(fun: WrappedFun, *args)` for as long as `fun.f` is alive.

    Args:
      call: a function of a `WrappedFun` and hashable arguments.
      explain: called at a cache miss with the function, whether it is new, its cached results, the
        key and the elapsed seconds.

    Returns:
      The memoized function. A cache hit fills the stores of its `fun` as the first call did.
    """
    results: weakref.WeakKeyDictionary[Callable, dict] = weakref.WeakKeyDictionary()
    lock = threading.Lock()

    @functools.wraps(call)
    def cached(fun: WrappedFun, *args: Any) -> Any:
        with lock:
            is_new = fun.f not in results
            of_fun = results.setdefault(fun.f, {})
        key = (fun.transforms, fun.params, fun.in_type, args, config.trace_context())
        hit = of_fun.get(key)
        if hit is not None:
            result, stores = hit
            fun.populate_stores(stores)
            return result
        start = time.perf_counter()
        result = call(fun, *args)
        if explain is not None and config.explain_cache_misses.value:
            explain(fun, is_new, of_fun, key, time.perf_counter() - start)
        of_fun[key] = result, fun.stores
        return result

    def clear_cache() -> None:
        with lock:
            results.clear()

    cached.cache_clear = clear_cache  # type: ignore[attr-defined]
    register_cache(cached, f"linear_util.cache of {fun_name(call)}")
    return cached
