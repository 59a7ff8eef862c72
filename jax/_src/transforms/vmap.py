"""`vmap`: turns a function of one example into a function of a batch."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import api_util, core, source_info_util, traceback_util
from jax._src.api_util import check_callable, flatten_axes, flatten_fun
from jax._src.core import typeof
from jax._src.interpreters import batching, partial_eval as pe, vmappables
from jax._src.interpreters.operand_meshes import operands
from jax._src.tree_util import (
    keystr,
    leaf_key_paths,
    paths_of,
    tree_flatten,
    tree_leaves,
    tree_unflatten,
    treedef_children,
)
from jax._src.util import wraps

traceback_util.register_exclusion(__file__)
api_boundary = traceback_util.api_boundary


def vmap(
    fun: Callable, in_axes: Any = 0, out_axes: Any = 0, axis_name: Any = None,
    axis_size: int | None = None, spmd_axis_name: Any = None, sum_match: bool = False,
) -> Callable:  # fmt: skip
    """Map a function over an axis of its arguments.

    Args:
      fun: function of arrays and pytrees.
      in_axes: the axis of each positional argument to map: an int, None for arguments shared by all
        examples, or a tree prefix of the tuple of arguments.
      out_axes: the position of the mapped axis in the results: an int, None or a tree prefix.
      axis_name: a name for the axis, for collectives such as `jax.lax.psum`.
      axis_size: the size of the axis; needed only if nothing is mapped.
      spmd_axis_name: the mesh axis (or axes) that the mapped axis is sharded over.
      sum_match: whether results whose out_axes is None are summed over the axis.

    Returns:
      A function of arguments with an additional axis; keyword arguments are mapped over axis 0.

    Raises:
      ValueError: if sizes disagree or axes do not fit the arguments; the message names them.

    >>> print(jax.vmap(jnp.dot, in_axes=(0, None))(jnp.eye(2), jnp.array([1., 2.])))
    [1. 2.]
    """
    check_callable(fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    kinds = (int, tuple, core.MappingSpec)
    if not (in_axes is None or isinstance(in_axes, kinds) or vmappables.is_spec(in_axes)):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional "
            f"arguments passed to the function, but got {in_axes}."
        )
    if not all(_is_axis(leaf) for leaf in tree_leaves(in_axes)):
        raise TypeError(
            "vmap in_axes must be an int, None, or (nested) container with those types as leaves, but "
            f"got {in_axes}."
        )
    if not all(_is_axis(leaf) for leaf in tree_leaves(out_axes)):
        raise TypeError(
            "vmap out_axes must be an int, None, or (nested) container with those types as leaves, but "
            f"got {out_axes}."
        )
    spmd = spmd_axis_name
    if spmd is not None and not isinstance(spmd, tuple):
        spmd = (spmd,)
    docstr = (
        "Vectorized version of {fun}. Takes similar arguments as {fun} but with additional array axes "
        "over which {fun} is mapped."
    )
    name = core.no_axis_name if axis_name is None else axis_name

    @wraps(fun, docstr=docstr)
    @api_boundary
    def vmap_f(*args, **kwargs):
        _check_count(in_axes, args)
        registered = bool(vmappables.vmappables)
        if registered:
            # Beside the tuple of both, these two are no containers.
            flat, in_tree = vmappables.flatten((args, kwargs), roots=3)
            if vmappables.any_in(flat):
                return call_with_containers(flat, in_tree, args, kwargs)
        else:
            flat, in_tree = tree_flatten((args, kwargs))
        if kwargs:
            in_axes_flat = flatten_axes("vmap in_axes", in_tree, (in_axes, 0), kws=True)
        else:
            in_axes_flat = flatten_axes("vmap in_axes", treedef_children(in_tree)[0], in_axes)
        size = mapped_axis_size("vmap", fun, in_tree, flat, in_axes_flat, axis_size)
        in_axes_flat = [vmappables.from_front(a, x) for a, x in zip(in_axes_flat, flat)]
        _check_references(fun, flat, args, kwargs)
        mesh_axis = batching.mapped_mesh_axis(flat, in_axes_flat)
        axis_data = batching.AxisData(name, size, spmd, mesh_axis)
        if registered:
            return run_with_containers(flat, in_tree, axis_data, in_axes_flat)
        flat_fun, out_tree = flatten_fun(fun, in_tree)

        def dests():
            return flatten_axes("vmap out_axes", out_tree(), out_axes)

        try:
            with source_info_util.transform_name_stack("vmap"), operands(flat):
                outs = batching.batch(flat_fun, axis_data, in_axes_flat, dests, sum_match)(*flat)
        except batching.SpecMatchError as err:
            raise ValueError(_out_axes_error(fun, out_tree(), err)) from None
        return tree_unflatten(out_tree(), outs)

    def call_with_containers(flat, in_tree, args, kwargs):
        axes = flatten_axes("vmap in_axes", in_tree, (in_axes, 0), kws=True)
        dims = [None if vmappables.is_vmappable(x) else a for x, a in zip(flat, axes)]
        # Containers that are arrays themselves have the mapped axis in their shape.
        sized = [a if vmappables.is_array(x) else d for x, a, d in zip(flat, axes, dims)]
        size = mapped_axis_size("vmap", fun, in_tree, flat, sized, axis_size)
        _check_references(fun, flat, args, kwargs)
        mesh_axis = batching.mapped_mesh_axis(flat, dims)
        axis_data = batching.AxisData(name, size, spmd, mesh_axis)
        return run_with_containers(flat, in_tree, axis_data, axes)

    def run_with_containers(flat, in_tree, axis_data, axes):
        out_tree = None

        def flat_fun(*flat):
            nonlocal out_tree
            args, kwargs = tree_unflatten(in_tree, flat)
            outs, out_tree = vmappables.flatten_result(fun(*args, **kwargs))
            return outs

        def dests():
            return flatten_axes("vmap out_axes", out_tree, out_axes)

        try:
            with source_info_util.transform_name_stack("vmap"), operands(flat):
                outs = vmappables.batch(flat_fun, axis_data, axes, dests, sum_match)(*flat)
        except batching.SpecMatchError as err:
            raise ValueError(_out_axes_error(fun, out_tree, err)) from None
        return tree_unflatten(out_tree, outs)

    return vmap_f


def _check_count(in_axes, args) -> None:
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise ValueError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
            "positional arguments passed to the function, but got "
            f"len(in_axes)={len(in_axes)}, len(args)={len(args)}"
        )


def _check_references(fun, flat, args, kwargs) -> None:
    if any([isinstance(x, core.Ref) for x in flat]):
        names = lambda: api_util.debug_info("vmap", fun, args, kwargs).arg_names
        pe.check_ref_aliasing("vmap", fun, flat, (), names)


def _is_axis(x) -> bool:
    if x is None or (isinstance(x, (int, np.integer)) and not isinstance(x, bool)):
        return True
    return isinstance(x, core.MappingSpec) or vmappables.is_spec(x)


def _out_axes_error(fun, tree, err: batching.SpecMatchError) -> str:
    path = "" if err.index is None else keystr(leaf_key_paths(tree)[err.index])
    where = f" at tree path result{path}" if path else ""
    if err.dst_spec is not None:
        return (
            f"vmap out_axes{where} is {err.dst_spec}, but the result has a high type and is mapped as"
            f" {err.src_spec}: its out_axes must be equal to that."
        )
    return (
        f"vmap has mapped output but out_axes is None{where}: the result of "
        f"{getattr(fun, '__name__', fun)} varies over the mapped axis, so its out_axes must be an int."
    )


def mapped_axis_size(
    api_name: str, fun: Callable, tree, vals: Sequence[Any], dims: Sequence[Any], given: int | None
) -> int:  # fmt: skip
    """The common size of the mapped axes.

    Args:
      api_name: the function that maps, such as "vmap".
      fun, tree: the mapped function, and the tree of its arguments.
      vals: the flat arguments, or their types.
      dims: the mapped axis of each, or None.
      given: the size that the user gave, or None.

    Raises:
      ValueError: if sizes differ, an argument does not have its axis, or there is no size.
      TypeError: if an argument is no array.
    """
    sizes = []
    for i, (x, d) in enumerate(zip(vals, dims)):
        if d is None or isinstance(d, core.MappingSpec):  # which does not tell the size
            continue
        try:
            shape = _shape(x)
            sizes.append(shape[d])
        except (IndexError, TypeError):
            if not (isinstance(x, core.AbstractValue) or core.valid_jaxtype(x)):
                raise TypeError(
                    f"{api_name}: {_arg_path(fun, tree, vals, i)} is {x!r} of type {type(x)}, which is not "
                    "a valid JAX type."
                ) from None
            ndim = len(_shape(x))
            path = _arg_path(fun, tree, vals, i)
            min_rank = d + 1 if d >= 0 else -d
            raise ValueError(
                f"{api_name} was requested to map its argument along axis {d}, which implies that its "
                f"rank should be at least {min_rank}, but is only {ndim} "
                f"(its shape is {_shape(x)}). The argument is {path}."
            ) from None
    if not sizes:
        if given is not None:
            return given
        if not vals:
            raise ValueError(
                f"{api_name} wrapped function must be passed at least one argument containing an array "
                "or axis_size must be specified, got no arguments"
            )
        raise ValueError(
            f"{api_name} must have at least one non-None value in in_axes or axis_size must be "
            "specified"
        )
    if given is not None:
        sizes.append(given)
    if len(set(sizes)) == 1:
        return sizes[0]
    if given is not None:
        sizes.pop()
    lines = [f"{api_name} got inconsistent sizes for array axes to be mapped:"]
    groups: dict[int, list[str]] = {}
    for i, (x, d) in enumerate(zip(vals, dims)):
        if d is not None:
            text = f"axis {d} of {_arg_path(fun, tree, vals, i)} of type {_type(x)}"
            groups.setdefault(_shape(x)[d], []).append(text)
    if given is not None:
        groups.setdefault(given, []).append("the argument axis_size")
    for size, items in sorted(groups.items(), key=lambda kv: -len(kv[1])):
        if len(items) == 1:
            lines.append(f"  * one axis had size {size}: {items[0]};")
        else:
            shown = items[:3] + (["..."] if len(items) > 3 else [])
            lines.append(
                f"  * most axes ({len(items)} of them) had size {size}, e.g. {', '.join(shown)};"
            )
    raise ValueError("\n".join(lines)[:-1] + ".")


def _shape(x) -> tuple[int, ...]:
    return x.shape if isinstance(x, core.AbstractValue) else np.shape(x)


def _type(x) -> str:
    if isinstance(x, core.AbstractValue):
        return x.str_short()
    # Containers, such as sparse arrays, have no type of their own.
    return typeof(x).str_short() if core.valid_jaxtype(x) else repr(x)


def _arg_path(fun, tree, vals, index: int) -> str:
    paths = paths_of(tree_unflatten(tree, vals), tree)
    name = api_util.arg_names_thunk(fun, tree, paths=paths)()[index]
    return f"argument {name}" if name else f"argument number {index}"
