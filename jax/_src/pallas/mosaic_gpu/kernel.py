"""`kernel`: runs a function of references on the threads of a GPU."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from jax._src import traceback_util
from jax._src.api import NotSpecified
from jax._src.pallas.core_map import kernel as kernel_on_mesh
from jax._src.pallas.mosaic_gpu.core import CompilerParams, Mesh
from jax._src.pallas.primitives import run_scoped

traceback_util.register_exclusion(__file__)
_not_given = NotSpecified()


def kernel(
    body: Any = _not_given, out_shape: Any = _not_given, *, out_type: Any = _not_given,
    scratch_types: Any = _not_given, scratch_shapes: Any = _not_given,
    compiler_params: CompilerParams | None = None, grid: tuple[int, ...] = (),
    grid_names: tuple[str, ...] = (), cluster: tuple[int, ...] = (),
    cluster_names: tuple[str, ...] = (), num_threads: int | None = None,
    thread_name: str | None = None, interpret: Any = None, **mesh_kwargs: Any,
) -> Any:  # fmt: skip
    """Return a function of arrays that runs a kernel on the threads of a GPU.

    Args:
      body: function of references to the arguments and the results, in global memory, and to scratch
        memory. Without it, `kernel` is a decorator.
      out_shape, scratch_shapes: other names of `out_type` and `scratch_types`, not to be used any more.
      out_type: a tree of types of the results, such as `jax.ShapeDtypeStruct`.
      scratch_types: a sequence of types of references of a block, given by position, or a dictionary of
        such, given by name.
      compiler_params: options: `plgpu.CompilerParams`.
      grid, grid_names: how many clusters there are along each axis, and the axes' names.
      cluster, cluster_names: how many blocks a cluster has along each axis, and their names.
      num_threads, thread_name: how many threads a block has, each of them a warpgroup, and the name of
        their axis. In the kernel, `jax.lax.axis_index` of a name is the thread's position.
      interpret: `plgpu.InterpretParams()`, or `True`, to run the kernel without a GPU.
      **mesh_kwargs: other fields of `plgpu.Mesh`: kernel_name.

    Returns:
      A function of positional arguments.

    Raises:
      ValueError: if sizes and names do not match, or an argument is given under both of its names.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> def add_index(x_ref, o_ref):
    ...   i = jax.lax.axis_index("block")
    ...   o_ref[i] = x_ref[i] + i
    >>> x = jnp.zeros((2, 3), jnp.int32)
    >>> plgpu.kernel(add_index, out_type=x, grid=(2,), grid_names=("block",), interpret=True)(x)
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int32)
    """
    out_type = _renamed(out_type, out_shape, "out_type", "out_shape")
    scratch_types = _renamed(scratch_types, scratch_shapes, "scratch_types", "scratch_shapes")
    mesh = Mesh(
        grid=grid, grid_names=grid_names, cluster=cluster, cluster_names=cluster_names,
        num_threads=num_threads, thread_name=thread_name, **mesh_kwargs,
    )  # fmt: skip
    options = dict(
        out_type=out_type, mesh=mesh, compiler_params=CompilerParams() if compiler_params is None else compiler_params,
        interpret=False if interpret is None else interpret, name=mesh.kernel_name,
    )  # fmt: skip

    def make(f: Callable[..., None]) -> Callable[..., Any]:
        if not callable(f):
            raise TypeError(f"plgpu.kernel takes a function, got {f!r} of type {type(f)}.")
        return kernel_on_mesh(_with_scratch(f, scratch_types, thread_name), **options)

    return make if isinstance(body, NotSpecified) else make(body)


def _renamed(value: Any, old: Any, name: str, old_name: str) -> Any:
    """Return an argument that has two names."""
    if isinstance(old, NotSpecified):
        return () if isinstance(value, NotSpecified) else value
    if not isinstance(value, NotSpecified):
        raise ValueError(f"plgpu.kernel takes {name} or its old name {old_name}, got both.")
    warnings.warn(
        f"The argument {old_name} of plgpu.kernel is deprecated: use {name}.",
        DeprecationWarning, stacklevel=4,
    )  # fmt: skip
    return old


def _with_scratch(
    f: Callable[..., None], scratch_types: Any, thread_name: str | None
) -> Callable[..., None]:
    """Return a function of references to arguments and results, whose threads share the scratch memory."""
    if not scratch_types and not hasattr(scratch_types, "get_ref_aval"):
        return f
    axes = () if thread_name is None else (thread_name,)

    @functools.wraps(f)
    def run(*refs: Any) -> None:
        def with_scratch(*scratch: Any, **named: Any) -> None:
            result = f(*refs, *scratch, **named)
            if result is not None:
                raise ValueError(
                    f"A kernel should return None: write results to references. It returns {result}."
                )

        if isinstance(scratch_types, dict):
            run_scoped(with_scratch, collective_axes=axes, **scratch_types)
        else:
            many = isinstance(scratch_types, (tuple, list))
            types = scratch_types if many else (scratch_types,)
            run_scoped(with_scratch, *types, collective_axes=axes)

    return run


def as_torch_kernel(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Make a kernel callable with tensors of PyTorch.

    Args:
      fn: function that applies one kernel to its arguments, and does nothing else.

    Returns:
      A function of tensors; the results are tensors on the device of the arguments.

    Raises:
      ImportError: when it is called, if PyTorch is not installed.
    """
    from jax._src.dlpack import from_dlpack
    from jax._src.tree_util import tree_map

    @functools.wraps(fn)
    def run(*tensors: Any) -> Any:
        import torch  # type: ignore[import-not-found]

        is_tensor = lambda x: isinstance(x, torch.Tensor)
        arrays = tree_map(
            lambda x: from_dlpack(x.contiguous()) if is_tensor(x) else x, tensors, is_leaf=is_tensor
        )
        return tree_map(torch.from_dlpack, fn(*arrays))

    return run
