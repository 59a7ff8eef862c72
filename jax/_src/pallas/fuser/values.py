"""The arrays that a fusion closes over: what a kernel that computes it takes besides its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core
from jax._src.core import AbstractRef, ClosedJaxpr, Jaxpr, Literal
from jax._src.interpreters import partial_eval as pe
from jax._src.pallas.fuser.staging import Staged, stage, type_of
from jax._src.state.discharge import discharged_jaxpr, written
from jax._src.tree_util import tree_flatten, tree_unflatten


class FusedFunction:
    """A function of the arrays that a fusion closes over, and of its arguments.

    Args:
      jaxpr: takes the operands of index maps, the other arrays, and the leaves of the arguments.
      scalars: the operands of index maps.
      num_values: the number of the other arrays.
      staged: the fusion.
      num_written: the number of references whose new values the function returns besides.
    """

    def __init__(
        self, jaxpr: Jaxpr, scalars: Sequence[Any], num_values: int, staged: Staged, num_written: int
    ):  # fmt: skip
        self.jaxpr = jaxpr
        self.scalars = tuple(scalars)
        self._num_values = num_values
        self._staged = staged
        self._num_written = num_written

    def __call__(self, values: Any, /, *args: Any, **kwargs: Any) -> Any:
        flat = self.flat_arguments(values, args, kwargs)
        return self.result(core.eval_jaxpr(self.jaxpr, (), *self.scalars, *flat))

    def flat_arguments(self, values: Any, args: Any, kwargs: Any) -> list[Any]:
        """Return the leaves of the arguments, after checking their types."""
        values = list(values)
        flat, tree = tree_flatten((tuple(args), dict(kwargs)))
        expected = self.jaxpr.invars[len(self.scalars) :]
        if len(values) != self._num_values or tree != self._staged.in_tree:
            raise TypeError(
                f"This function takes a sequence of {self._num_values} values and arguments of the structure "
                f"{self._staged.in_tree}, got {len(values)} values and {tree}. Give it what get_fusion_values returned, and "
                "the arguments that get_fusion_values was given."
            )
        for i, (x, v) in enumerate(zip([*values, *flat], expected)):
            aval: Any = type_of(x)
            aval = aval.inner_aval if isinstance(aval, AbstractRef) else aval
            if (aval.shape, aval.dtype) != (v.aval.shape, v.aval.dtype):
                raise TypeError(
                    f"Operand {i} of this function must be of type {v.aval.str_short()}, as it was for "
                    f"get_fusion_values, got {aval.str_short()}."
                )
        return [*values, *flat]

    def result(self, outs: Sequence[Any]) -> Any:
        """Return flat results as the function returns them."""
        if not self._num_written:
            return tree_unflatten(self._staged.out_tree, outs)
        n = len(outs) - self._num_written
        return tree_unflatten(self._staged.out_tree, outs[:n]), tuple(outs[n:])


def get_fusion_values(fusion: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Return what a fusion closes over, and a function that takes it as arguments.

    Args:
      fusion: a `Fusion` or another function.
      args, kwargs: its arguments, or `jax.ShapeDtypeStruct`s of such.

    Returns:
      A function of the sequence of values and the arguments; the values, a tuple; and a tuple of those
      which say where dynamic slices start, and are operands of index maps.

    >>> bias = jnp.arange(4.)
    >>> f, values, scalars = fuser.get_fusion_values(lambda x: x + bias, jnp.ones(4))
    >>> f(values, jnp.ones(4)), scalars
    (Array([1., 2., 3., 4.], dtype=float32), ())
    """
    staged = stage(fusion, args, kwargs)
    if any([isinstance(type_of(c), AbstractRef) for c in staged.consts]):
        raise ValueError(
            "The fusion reads or writes a reference, which get_fusion_values does not take. Use "
            "get_stateful_input_fusion_values or get_stateful_output_fusion_values."
        )
    return _separate(staged, staged.jaxpr, 0)[:3]


def get_stateful_input_fusion_values(
    fusion: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[Any, ...]:
    """The same as `get_fusion_values`, of a fusion that may read references.

    Args:
      fusion: the function.
      args, kwargs: its arguments, or types of such.

    Returns:
      The same; references are among the values, and the function takes arrays in place of them.
    """
    staged = stage(fusion, args, kwargs)
    jaxpr, finals = _discharged(staged)
    if finals:
        raise ValueError(
            "The fusion writes to a reference, but what computes the arguments of a fusible can only read. Write "
            "a value that depends on a result of the fusible."
        )
    return _separate(staged, jaxpr, 0)[:3]


def get_stateful_output_fusion_values(
    fusion: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[Any, ...]:
    """The same as `get_fusion_values`, of a fusion that may read and write references.

    Args:
      fusion: the function.
      args, kwargs: its arguments, or types of such.

    Returns:
      The function, the values, and the operands of index maps; and a dictionary from the numbers of
      results to the numbers of values: those of the new values of references that the function writes.
      If it writes any, it returns a pair of its result and a tuple of the new values.

    >>> ref = jax.new_ref(jnp.zeros(2))
    >>> def write(x):
    ...   ref[...] = x * 2
    >>> f, values, _, aliases = fuser.get_stateful_output_fusion_values(write, jnp.ones(2))
    >>> f([jnp.zeros(2)], jnp.ones(2)), aliases
    ((None, (Array([2., 2.], dtype=float32),)), {0: 0})
    """
    staged = stage(fusion, args, kwargs)
    jaxpr, finals = _discharged(staged)
    fn, values, scalars, position = _separate(staged, jaxpr, len(finals))
    n = len(jaxpr.outvars) - len(finals)
    return fn, values, scalars, {n + k: position[i] for k, i in enumerate(finals)}


def _discharged(staged: Staged) -> tuple[Jaxpr, list[int]]:
    """Return the jaxpr with arrays in place of references, and which of them it writes."""
    closed = ClosedJaxpr(staged.jaxpr, ())
    which = tuple([isinstance(a, AbstractRef) for a in closed.in_avals])
    if not any(which):
        return staged.jaxpr, []
    finals = sorted(written(closed))
    new = discharged_jaxpr(closed, which, tuple(finals), True)
    if new.consts:
        raise NotImplementedError(
            "Reads and writes of references in fusions with indices that are arrays of constants: make the "
            "indices before the function that is fused."
        )
    return new.jaxpr, finals


def _separate(
    staged: Staged, jaxpr: Jaxpr, num_written: int
) -> tuple[FusedFunction, tuple[Any, ...], tuple[Any, ...], dict[int, int]]:
    """Put operands of index maps first; return the position of each other constant, too."""
    n = len(staged.consts)
    needed = scalar_variables(jaxpr)
    scalar = [v in needed for v in jaxpr.invars[:n]]
    first = [i for i in range(n) if scalar[i]]
    rest = [i for i in range(n) if not scalar[i]]
    old = jaxpr.invars
    order = [*[old[i] for i in first], *[old[i] for i in rest], *old[n:]]
    run = lambda *xs: eval_in_order(jaxpr, order, xs)
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(run, [v.aval for v in order])
    if consts:
        raise NotImplementedError(f"fusions with constants of types {[type_of(c) for c in consts]}")
    values = tuple([staged.consts[i] for i in rest])
    scalars = tuple([staged.consts[i] for i in first])
    fn = FusedFunction(jaxpr, scalars, len(values), staged, num_written)
    return fn, values, scalars, {i: k for k, i in enumerate(rest)}


def eval_in_order(jaxpr: Jaxpr, invars: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
    """Evaluate a jaxpr whose arguments are given in another order."""
    given = dict(zip(invars, xs))
    return core.eval_jaxpr(jaxpr, (), *[given[v] for v in jaxpr.invars])


def scalar_variables(jaxpr: Jaxpr) -> set[Any]:
    """Return the variables from which the starts of dynamic slices are computed."""
    needed: set[Any] = set()
    for eqn in reversed(jaxpr.eqns):
        if eqn.primitive.name == "dynamic_slice":
            needed.update([v for v in eqn.invars[1:] if type(v) is not Literal])
        if any([v in needed for v in eqn.outvars]):
            needed.update([v for v in eqn.invars if type(v) is not Literal])
    return needed


def make_scalar_prefetch_handler(*args: int) -> Callable[..., Any]:
    """Return a function that finds a fusion's operands of index maps among all of a kernel's.

    Args:
      args: the path to the fusion's operands: numbers or keys, from the outermost on. None of them means
        that all operands are the fusion's.

    >>> fuser.make_scalar_prefetch_handler(1)(("a", "b"), ("c",))
    ('c',)
    """

    def handler(*operands: Any) -> Any:
        found: Any = operands
        for key in args:
            found = found[key]
        return found

    return handler
