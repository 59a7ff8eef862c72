"""`scan` and `map`: loops that consume and produce arrays along their leading axis."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import api_util, config, core, source_info_util, traceback_util
from jax._src.core import typeof
from jax._src.interpreters import batching
from jax._src.late_binding import late
from jax._src.lax import lax, slicing
from jax._src.lax.control_flow.common import (
    check_effects,
    check_initial,
    check_same_carry,
    hoist,
    promote_weak_types,
    stage,
    with_forwarded,
    without_results,
)
from jax._src.lax.control_flow.progress import (
    bar_of,
    finish,
    first_device,
    first_step,
    of_range,
    with_progress,
)
from jax._src.lax.control_flow.scan_primitive import scan_p
from jax._src.tree_util import (
    generate_key_paths,
    keystr,
    structure_text,
    tree_flatten,
    tree_structure,
    tree_unflatten,
    treedef_children,
    treedef_tuple,
)
from jax._src.util import without_keywords

traceback_util.register_exclusion(__file__)


@without_keywords("progress")
@traceback_util.api_boundary
def scan(
    f: Callable, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False,
    unroll: int | bool = 1, _split_transpose: bool = False, *, progress: bool | str = False,
):  # fmt: skip
    """Apply a function to slices of arrays in order, while carrying a value.

    Args:
      f: function `(carry, x) -> (carry, y)`; the new carry has the structure and types of the old
        one.
      init: initial carry, a pytree of arrays.
      xs: pytree of arrays, which are sliced along their leading axis; or None.
      length: number of steps; required if `xs` has no arrays.
      reverse: whether to iterate from the last slice to the first.
      unroll: number of steps in one iteration of the loop; True for all.
      _split_transpose: whether the backward pass computes what does not depend on the carry in a
        second loop.
      progress: whether to show a progress bar while the loop runs, or its description. Nothing is
        shown if stderr is not a terminal (or notebook) at the time of tracing, or if `unroll` leaves
        one iteration. It needs the package tqdm. PyPI's jax does not have this argument.

    Returns:
      (final carry, ys), where `ys` stacks the results `y` along a leading axis.

    Raises:
      TypeError: if the carry changes its type; it names the leaf.
      ValueError: if the leading axes of the arrays differ, or are sharded over explicit mesh axes.

    >>> carry, ys = jax.lax.scan(lambda c, x: (c + x, c * x), 0., jnp.arange(4.))
    >>> print(carry, ys)
    6.0 [0. 0. 2. 9.]
    """
    if not callable(f):
        raise TypeError("lax.scan: f argument should be a callable.")
    xs_flat, xs_tree = tree_flatten(xs)
    length = _scan_length(xs, xs_flat, length)
    bar = bar_of(progress, length)
    if config.disable_jit.value:
        return _scan_eagerly(f, init, xs_flat, xs_tree, length, reverse, bar)
    init_flat, init_tree = tree_flatten(init)
    in_tree = treedef_tuple((init_tree, xs_tree))
    check_initial("scan", "carry", "init", init_flat, init_tree)
    _check_replicated_steps(xs_flat)
    xs_avals = [core.mapped_aval(length, 0, typeof(x)) for x in xs_flat]
    init_avals = [typeof(x) for x in init_flat]

    def trace(carry_avals):
        jaxpr, consts, out_tree = stage("scan", f, in_tree, [*carry_avals, *xs_avals], (init, xs))
        children = treedef_children(out_tree)
        if len(children) != 2 or not _is_pair(out_tree):
            raise TypeError(
                "scan body output must be a pair, got "
                f"{structure_text(out_tree, [str(a) for a in jaxpr.out_avals])}."
            )
        return jaxpr, consts, *children

    jaxpr, consts, carry_tree, ys_tree = trace(init_avals)
    n = len(init_flat)
    if carry_tree == init_tree:
        new_avals = promote_weak_types(init_avals, jaxpr.out_avals[:n])
        if new_avals is not None:
            init_flat = [
                x if a is b else lax.convert_type(x, b.dtype, b.weak_type)
                for x, a, b in zip(init_flat, init_avals, new_avals)
            ]
            init_avals = new_avals
            jaxpr, consts, carry_tree, ys_tree = trace(init_avals)
    check_same_carry(
        "scan body", init_tree, init_avals, carry_tree, jaxpr.out_avals[:n], carry_name(f)
    )
    closed = hoist(jaxpr)
    check_effects("scan", closed)
    if isinstance(unroll, bool):
        unroll = max(length, 1) if unroll else 1
    if unroll < 0:
        raise ValueError(
            f"lax.scan: `unroll` must be a `bool` or a non-negative `int`, got {unroll}."
        )
    unroll = max(unroll, 1)
    if bar is not None and core.is_constant_dim(length) and length // unroll < 2:
        bar = None  # XLA leaves no loop, and its reports would come in any order
    closed, fixed, forwarded = _without_forwarded(closed, len(consts), n)
    if fixed:
        consts = [*[init_flat[i] for i in fixed], *consts]
    carry = [x for i, x in enumerate(init_flat) if i not in fixed] if fixed else init_flat
    if bar is not None:
        here = first_device()
        closed = with_progress(closed, len(consts), bar, tuple([typeof(x) for x in here]))
        consts, carry = [*here, *consts], [first_step(), *carry]
    outs = scan_p.bind(
        *consts, *carry, *xs_flat, reverse=bool(reverse), length=length, jaxpr=closed,
        num_consts=len(consts), num_carry=len(carry), unroll=unroll, _split_transpose=_split_transpose,
    )  # fmt: skip
    if bar is not None:
        steps, *outs = outs
        finish(bar, steps, here)
    if fixed or forwarded:
        given = {i: init_flat[i] for i in fixed} | {i: xs_flat[j] for i, j in forwarded.items()}
        outs = with_forwarded(outs, given)
    return tree_unflatten(treedef_tuple((carry_tree, ys_tree)), outs)


def _check_replicated_steps(xs_flat) -> None:
    specs = [
        sharding.spec
        for x in xs_flat
        if (sharding := getattr(typeof(x), "_sharding", None)) is not None
    ]
    if any(spec.partitions[0] is not None for spec in specs):
        raise ValueError(
            "0th dimension of all xs should be replicated, since each step takes a slice of it. Got"
            f" {', '.join([str(spec) for spec in specs])}. Replicate it first with `jax.sharding.reshard`."
        )


@core.cached_on_jaxpr
def _without_forwarded(closed: core.ClosedJaxpr, num_consts: int, num_carry: int):
    """Drop the results of a loop's body that are its arguments.

    Carries that never change become leading constants; slices that are results are not stacked
    again.

    Returns:
      The body, the carries that do not change, and a dict from the positions of results that are
      slices to those of xs.
    """
    invars, outvars = closed.jaxpr.invars, closed.jaxpr.outvars
    start = num_consts + num_carry
    fixed = [i for i in range(num_carry) if outvars[i] is invars[num_consts + i]]
    xs = {v: j for j, v in enumerate(invars[start:])}
    forwarded = {
        i: xs[v]
        for i, v in enumerate(outvars[num_carry:], num_carry)
        if type(v) is core.Var and v in xs
    }
    if not (fixed or forwarded):
        return closed, (), {}
    changing = [i for i in range(num_carry) if i not in fixed]
    order = [
        *[num_consts + i for i in fixed], *range(num_consts), *[num_consts + i for i in changing],
        *range(start, len(invars)),
    ]  # fmt: skip
    return without_results(closed, {*fixed, *forwarded}, order), tuple(fixed), forwarded


def _is_pair(tree) -> bool:
    node = tree.node_data()
    return node is not None and issubclass(node[0], (tuple, list))


def carry_name(f) -> str:
    sig = api_util.fun_signature(f)
    if sig is not None:
        for p in sig.parameters.values():
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                return p.name
    return "carry"


def _scan_length(xs, xs_flat, length) -> int:
    sizes = []
    for path, x in generate_key_paths(xs):
        if core.high_types_in_use.value and core.valid_jaxtype(x) and typeof(x).is_high:
            continue  # its type does not tell
        shape = np.shape(x)
        if not shape:
            raise ValueError(
                f"scan got value with no leading axis to scan over: xs{keystr(path)} is a scalar of type "
                f"{typeof(x).str_short()}."
            )
        sizes.append(shape[0])
    if length is not None:
        try:
            length = core.canonicalize_dim(length)
        except TypeError as err:
            raise core.ConcretizationTypeError(
                length,
                "The `length` argument to `scan` expects a concrete `int` value. For scan-like "
                "iteration with a dynamic length, use `while_loop` or `fori_loop`.",
            ) from err
        if not all(s == length for s in sizes):
            raise ValueError(
                f"scan got `length` argument of {length} which disagrees with leading axis sizes "
                f"{[np.shape(x)[0] for x in xs_flat]}."
            )
        return length
    unique = set(sizes)
    if len(unique) > 1:
        raise ValueError(
            "scan got values with different leading axis sizes: "
            f"{', '.join(str(np.shape(x)[0]) for x in xs_flat)}."
        )
    if not unique:
        raise ValueError("scan got no values to scan over and `length` not provided.")
    return unique.pop()


def _scan_eagerly(f, init, xs_flat, xs_tree, length, reverse, bar):
    """Run the loop in Python, under `disable_jit`."""
    if length == 0:
        raise ValueError(
            "zero-length scan is not supported in disable_jit() mode because the output type is unknown."
        )
    carry, ys = init, []
    steps = range(length)
    for i in of_range(bar, reversed(steps) if reverse else steps):
        slices = [
            x.at[i] if isinstance(x, core.Ref) else slicing.index_in_dim(x, i, keepdims=False)
            for x in xs_flat
        ]
        x = tree_unflatten(xs_tree, slices)
        carry, y = f(carry, x)
        ys.append(y)
    if reverse:
        ys.reverse()
    leaves = [tree_flatten(y)[0] for y in ys]
    stacked = [
        lax.concatenate([lax.expand_dims(late.to_array(v), (0,)) for v in column], 0)
        for column in zip(*leaves)
    ]
    return carry, tree_unflatten(tree_structure(ys[0]), stacked)


@without_keywords("progress")
@traceback_util.api_boundary
def map(f: Callable, xs: Any, *, batch_size: int | None = None, progress: bool | str = False):
    """Apply a function to each slice of arrays along their leading axis, one after the other.

    Args:
      f: function of one slice (a pytree like `xs`).
      xs: pytree of arrays.
      batch_size: number of slices to process together by `vmap`; None for one at a time.
      progress: whether to show a progress bar, or its description, as in `scan`.

    Returns:
      The results stacked along a leading axis.

    >>> print(jax.lax.map(lambda x: x ** 2, jnp.arange(3.)))
    [0. 1. 4.]
    """
    if batch_size is None:
        return scan(lambda _, x: ((), f(x)), (), xs, progress=progress)[1]
    if batch_size < 1:
        raise ValueError(f"lax.map: batch_size must be positive, got {batch_size}")
    leaves, tree = tree_flatten(xs)
    n = _scan_length(xs, leaves, None)
    groups, rest = divmod(n, batch_size)

    def part(start, stop):
        if stop - start == n:
            return leaves
        return [slicing.slice_in_dim(x, start, stop) for x in leaves]

    def together(slices):
        return _map_together(f, slices)

    outs = []
    if groups:
        grouped = [
            lax.reshape(x, (groups, batch_size, *np.shape(x)[1:]))
            for x in part(0, groups * batch_size)
        ]
        _, ys = scan(
            lambda _, x: ((), together(x)), (), tree_unflatten(tree, grouped), progress=progress
        )
        ys_leaves, ys_tree = tree_flatten(ys)
        outs.append([lax.reshape(y, (groups * batch_size, *y.shape[2:])) for y in ys_leaves])
    if rest or not groups:
        ys_leaves, ys_tree = tree_flatten(
            together(tree_unflatten(tree, part(groups * batch_size, n)))
        )
        outs.append(ys_leaves)
    joined = outs[0] if len(outs) == 1 else [lax.concatenate(list(p), 0) for p in zip(*outs)]
    return tree_unflatten(ys_tree, joined)


def _map_together(f: Callable, slices: Any) -> Any:
    """Apply `f` to several slices at once by batching, like `jax.vmap`."""
    leaves, tree = tree_flatten(slices)
    dims = [0] * len(leaves)
    out_tree = None

    def flat_fun(*args):
        nonlocal out_tree
        outs, out_tree = tree_flatten(f(tree_unflatten(tree, args)))
        return outs

    axis_data = batching.AxisData(
        core.no_axis_name, np.shape(leaves[0])[0], None, batching.mapped_mesh_axis(leaves, dims)
    )
    with source_info_util.transform_name_stack("vmap"):
        outs = batching.batch(flat_fun, axis_data, dims, lambda: [0] * out_tree.num_leaves)(*leaves)
    return tree_unflatten(out_tree, outs)
