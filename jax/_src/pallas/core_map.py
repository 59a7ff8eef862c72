"""Kernels over the cores of a device: `core_map`, and `kernel`, which has arguments and results.

Both apply a kernel whose grid is a mesh of cores, and whose blocks are whole arrays. References that
it closes over or is given are read before, and what it leaves in them is written back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from jax._src import core, traceback_util
from jax._src.api import NotSpecified, jit
from jax._src.core import AbstractRef, Jaxpr, ShapedArray, typeof
from jax._src.interpreters import partial_eval as pe
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.compiler_params import CompilerParams, check_compiler_params
from jax._src.pallas.cost_estimate import CostEstimate
from jax._src.pallas.forced import interpret_option
from jax._src.pallas.grids import GridSpec, grid_in_scope, grid_mapping
from jax._src.pallas.memory import MemorySpace, ref_avals_of
from jax._src.pallas.pallas_call import out_aval, pallas_call_p, trace_kernel
from jax._src.pallas.values import as_array
from jax._src.state.discharge import written
from jax._src.state.primitives import ref_get, ref_set
from jax._src.tree_util import tree_flatten, tree_structure, tree_unflatten

traceback_util.register_exclusion(__file__)


class Mesh(Protocol):
    """The cores that a kernel is run on, such as `pltpu.create_tensorcore_mesh(...)`.

    Attributes:
      shape: the sizes of its axes by name.
      axis_names: the names.
    """

    @property
    def shape(self) -> Mapping[Any, int]: ...

    @property
    def axis_names(self) -> Sequence[Any]: ...


_not_specified = NotSpecified()


# What `core_map` and `kernel` pass on to `pallas_call`.
class _Options:
    def __init__(
        self, compiler_params: Any, interpret: Any, debug: bool, cost_estimate: Any,
        name: str | None, metadata: Mapping[str, str] | None,
    ):  # fmt: skip
        check_compiler_params(compiler_params, "A kernel over cores")
        self.params = dict(
            compiler_params=compiler_params,
            interpret=interpret,
            debug=debug,
            cost_estimate=cost_estimate,
            name=name,
            metadata=None if metadata is None else tuple(sorted(metadata.items())),
        )
        self.debug = debug


def core_map(
    mesh: Mesh, *, compiler_params: CompilerParams | None = None, interpret: Any = False,
    debug: bool = False, cost_estimate: CostEstimate | None = None, name: str | None = None,
    metadata: dict[str, str] | None = None, scratch_shapes: Any = (),
) -> Callable[[Callable[..., None]], None]:  # fmt: skip
    """Return a decorator that runs a function at once on every core of a mesh.

    The function works on the references that it closes over.

    Args:
      mesh: the cores. In the function, `jax.lax.axis_index` of its axes says which core runs it.
      compiler_params: options of the back end.
      interpret: whether to run it as a program of XLA, one core after the other, or the parameters of
        an interpreter.
      debug: whether to print its jaxpr.
      cost_estimate: what it costs.
      name: its name in place of the function's.
      metadata: strings that the compiled kernel carries.
      scratch_shapes: a sequence or a dictionary of types of references, which the function is given,
        by position or by name.

    Raises:
      ValueError: if the function returns a value, or closes over an array.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> x_ref = jax.new_ref(jnp.arange(6.).reshape(2, 3))
    >>> @pl.core_map(pltpu.create_tensorcore_mesh("core", num_cores=2), interpret=True)
    ... def _():
    ...   i = jax.lax.axis_index("core")
    ...   x_ref[i] = x_ref[i] * 2
    >>> x_ref[...]
    Array([[ 0.,  2.,  4.],
           [ 6.,  8., 10.]], dtype=float32)
    """
    options = _Options(compiler_params, interpret, debug, cost_estimate, name, metadata)

    def run(f: Callable[..., None]) -> None:
        if hasattr(mesh, "run_on_cores"):  # cores that are parts of the one that runs this
            mesh.run_on_cores(f)
            return
        staged = _StagedKernel("core_map", f, mesh, (), (), scratch_shapes, name)
        staged.apply([], options)

    return run


def kernel(
    body: Any = _not_specified, out_type: Any = (), *, mesh: Any, scratch_types: Any = (),
    compiler_params: CompilerParams | None = None, interpret: Any = False,
    cost_estimate: CostEstimate | None = None, debug: bool = False, name: str | None = None,
    metadata: dict[str, str] | None = None,
) -> Any:  # fmt: skip
    """Return a function of arrays that runs a kernel on every core of a mesh.

    Args:
      body: function of references to the arguments, to the results, and to scratch arrays; the blocks are
        whole arrays. Without it, `kernel` is a decorator. A sequence of functions runs on as many
        meshes.
      out_type: a tree of types of the results, such as `jax.ShapeDtypeStruct`.
      mesh: the cores, or for several functions a sequence of meshes. In a function, `jax.lax.axis_index`
        of the mesh's axes says which core runs it.
      scratch_types: a sequence or a dictionary of types of references, given to the function by position
        or by name.
      compiler_params: options of the back end.
      interpret: whether to run it as a program of XLA, one core after the other, or the parameters of
        an interpreter.
      cost_estimate: what it costs.
      debug: whether to print its jaxpr.
      name: its name in place of the function's.
      metadata: strings that the compiled kernel carries.

    Returns:
      A function of positional arguments, arrays or references. References, also those that the kernel
      closes over, are changed in place.

    Raises:
      ValueError: if the kernel returns a value, or closes over an array.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    >>> x = jnp.arange(6.).reshape(2, 3)
    >>> @pl.kernel(out_type=x, mesh=mesh, interpret=True)
    ... def double(x_ref, o_ref):
    ...   i = jax.lax.axis_index("core")
    ...   o_ref[i] = x_ref[i] * 2
    >>> double(x)
    Array([[ 0.,  2.,  4.],
           [ 6.,  8., 10.]], dtype=float32)
    """
    options = _Options(compiler_params, interpret, debug, cost_estimate, name, metadata)
    if isinstance(body, NotSpecified):
        return lambda f: _kernel_on_meshes(f, out_type, mesh, scratch_types, options)
    return _kernel_on_meshes(body, out_type, mesh, scratch_types, options)


def _kernel_on_meshes(
    body: Any, out_type: Any, mesh: Any, scratch_types: Any, options: _Options
) -> Callable[..., Any]:
    bodies, meshes = _bodies_and_meshes(body, mesh)
    name = options.params["name"]
    if len(bodies) > 1 and not interpret_option(options.params["interpret"]):
        raise NotImplementedError(
            "pl.kernel with functions for several meshes is only interpreted: give it interpret=True."
        )
    out_type = tuple(out_type) if isinstance(out_type, list) else out_type
    flat_out, out_tree = tree_flatten(out_type)
    out_avals = [out_aval(x) for x in flat_out]

    # Calls of what is returned stage the kernel once, and are compiled once.
    @functools.partial(jit, inline=True)
    def apply(*args: Any) -> Any:
        outs: list[Any] = []
        for f, m in zip(bodies, meshes):
            outs = _StagedKernel(
                "kernel", f, m, args, (out_avals, out_tree), scratch_types, name
            ).apply(outs, options)
        return tree_unflatten(out_tree, outs)

    return apply


def _bodies_and_meshes(body: Any, mesh: Any) -> tuple[list[Callable[..., None]], list[Any]]:
    if not isinstance(body, (list, tuple)):
        if not callable(body):
            raise TypeError(f"pl.kernel takes a function, got {body!r} of type {type(body)}.")
        if isinstance(mesh, (list, tuple)):
            raise ValueError("mesh must not be a sequence when body is one callable.")
        return [body], [mesh]
    if not isinstance(mesh, (list, tuple)):
        raise ValueError("mesh must be a sequence when body is a sequence of callables.")
    if len(body) != len(mesh) or not body:
        raise ValueError(f"There are {len(body)} functions for {len(mesh)} meshes.")
    for i, m in enumerate(mesh):
        for other in mesh[i + 1 :]:
            m.check_is_compatible_with(other)
    return list(body), list(mesh)


class _StagedKernel:
    """A kernel over a mesh, with the types of its arguments, results and scratch references.

    Args:
      what: the function that was called, for errors.
      f: function of references to them.
      mesh: the cores.
      args: the arguments: a tuple of trees of arrays and references.
      out: the types of the results and their structure; () for none.
      scratch_types: types of scratch references.
      name: the kernel's name, or None.
    """

    def __init__(
        self, what: str, f: Callable[..., None], mesh: Any, args: Any, out: Any,
        scratch_types: Any, name: str | None,
    ):  # fmt: skip
        if not hasattr(mesh, "shape"):
            raise TypeError(
                f"{what} takes a mesh of cores, such as pltpu.create_tensorcore_mesh(...), got {mesh!r} of type "
                f"{type(mesh)}."
            )
        self.mesh = mesh
        space = getattr(mesh, "default_memory_space", MemorySpace.ANY)
        flat, in_tree = tree_flatten(args)
        self.args = [x if isinstance(typeof(x), AbstractRef) else as_array(x) for x in flat]
        self.out_avals, out_tree = out if out else ([], tree_structure(()))
        self.scratch_avals, scratch_tree = ref_avals_of(scratch_types, "the types of scratch")
        in_space = lambda a: AbstractRef(a.strip_weak_type(), space)
        arg_avals = [_ref_aval(typeof(x), in_space) for x in self.args]
        avals = arg_avals, [*map(in_space, self.out_avals)], self.scratch_avals
        self.grid = tuple(mesh.shape.values())
        self.names = tuple(mesh.shape)
        with grid_in_scope(self.grid, self.names, ()):
            jaxpr, consts = trace_kernel(what, f, name, avals, (in_tree, out_tree, scratch_tree))
        arrays = [typeof(c) for c in consts if not isinstance(typeof(c), AbstractRef)]
        if arrays:
            shown = ", ".join([a.str_short(short_dtypes=True) for a in arrays])
            raise ValueError(
                f"The kernel function in the {what} {jaxpr.debug_info.func_src_info} captures non-Ref constants [{shown}]. You should pass them "
                "as inputs, or in references."
            )
        # The operands: references that are closed over, then arguments.
        self.operands = [*consts, *self.args]
        self.operand_avals = [_ref_aval(typeof(x), in_space) for x in self.operands]
        self.jaxpr = pe.convert_constvars_jaxpr(jaxpr)

    def apply(self, initial: Sequence[Any], options: _Options) -> list[Any]:
        """Run the kernel, write to the references that it changes, and return its results.

        Args:
          initial: what the results hold before: nothing, or all of them.
          options: parameters of the application.
        """
        n, m = len(self.operands), len(self.out_avals)
        is_ref = [isinstance(typeof(x), AbstractRef) for x in self.operands]
        found = written(self.jaxpr)
        changed = [i for i in range(n) if is_ref[i] and i in found]
        values = [ref_get(x) if r else x for x, r in zip(self.operands, is_ref)]
        values += initial
        out_avals = [*self.out_avals, *[typeof(values[i]).strip_weak_type() for i in changed]]
        aliases = [(n + k, k) for k in range(len(initial))]
        aliases += [(i, m + k) for k, i in enumerate(changed)]
        jaxpr, mapping = self._over_grid(values, out_avals, changed)
        if options.debug:
            print(f"The kernel jaxpr for {jaxpr.debug_info.func_src_info}:\n{jaxpr}")
        outs = pallas_call_p.bind(
            *values, jaxpr=jaxpr, grid_mapping=mapping, input_output_aliases=tuple(sorted(aliases)),
            out_avals=tuple(out_avals), mesh=self.mesh,
            **dict(options.params, interpret=interpret_option(options.params["interpret"])),
        )  # fmt: skip
        for i, x in zip(changed, outs[m:]):
            ref_set(self.operands[i], None, x)
        return outs[:m]

    def _over_grid(
        self, values: Sequence[Any], out_avals: Sequence[ShapedArray], changed: Sequence[int]
    ) -> tuple[Jaxpr, Any]:
        """Return the kernel with references to operands and results, and the mapping of its grid."""
        n, m, more = len(self.operands), len(self.out_avals), len(values) - len(self.operands)
        own = [v.aval for v in self.jaxpr.invars]
        out_refs = [*own[n : n + m], *[self.operand_avals[i] for i in changed]]
        avals = [*self.operand_avals, *own[n : n + more], *out_refs, *own[n + m :]]

        def run(*refs: Any) -> Any:
            ins, outs = list(refs[:n]), refs[n + more :]
            for k, i in enumerate(changed):
                ins[i] = outs[m + k]
            scratch = refs[n + more + len(out_refs) :]
            core.eval_jaxpr(self.jaxpr, (), *ins, *outs[:m], *scratch)
            return []

        specs = [BlockSpec(memory_space=a.memory_space) for a in avals]  # type: ignore[attr-defined]
        k = n + more
        spec = GridSpec(
            tuple(zip(self.names, self.grid)),
            tuple(specs[:k]),
            tuple(specs[k : k + len(out_refs)]),
            tuple(self.scratch_avals),
        )
        with grid_in_scope(self.grid, self.names, ()):
            jaxpr, _, _ = pe.trace_to_jaxpr_dynamic(run, avals, self.jaxpr.debug_info)
        mapping = grid_mapping(
            spec, [typeof(x).strip_weak_type() for x in values], tree_structure(tuple(values)),
            [f"operands[{i}]" for i in range(len(values))],
            out_avals, tree_structure(tuple(out_avals)),
            [f"outputs[{i}]" for i in range(len(out_avals))],
        )  # fmt: skip
        return jaxpr, mapping


def _ref_aval(aval: Any, in_space: Callable[[Any], AbstractRef]) -> AbstractRef:
    """Return the type of the kernel's reference to an operand."""
    if isinstance(aval, AbstractRef):
        return in_space(aval.inner_aval) if aval.memory_space is None else aval
    return in_space(aval)
