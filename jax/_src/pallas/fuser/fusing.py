"""`fuse` finds the call of a fusible in a function, and gives it the functions around the call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core
from jax._src.core import AbstractRef, Jaxpr, JaxprEqn, Literal
from jax._src.pallas.fuser.calls import bind_call, call_primitive
from jax._src.pallas.fuser.fusion import Fusion
from jax._src.pallas.fuser.staging import eval_inlined, stage, type_of
from jax._src.tree_util import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten

# The operands are what the function closes over, and its arguments.
fusible_p = call_primitive("fusible")


def fusible(f: Any = None, *, output_fusion_prefix: Any = True) -> Any:
    """Make a function one that `fuse` can fuse with what is around its calls.

    Args:
      f: the function. For each array among its arguments it gets a `Fusion`, a function without arguments
        that computes it. Its last argument is a function of its result that computes what follows, and
        returns a tuple; it is None where nothing follows, as in calls outside of `fuse`.
      output_fusion_prefix: a tree that is a prefix of the result; there is a function, or None, for each of its
        leaves. By default one for the whole result.

    Returns:
      A function of arrays.

    >>> @fuser.fusible
    ... def double(x_fn, out_fn):
    ...   y = x_fn() * 2
    ...   return y if out_fn is None else out_fn(y)
    >>> double(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    >>> fuser.fuse(lambda x: double(x + 1) / 4)(jnp.ones(2))
    Array([1., 1.], dtype=float32)
    """
    if f is None:
        return functools.partial(fusible, output_fusion_prefix=output_fusion_prefix)

    @functools.wraps(f)
    def wrapper(*args: Any) -> Any:
        def alone(*args: Any) -> Any:
            fusions = tree_map(lambda x: Fusion(lambda: x, ((), {}), type_of(x)), args)
            return f(*fusions, tree_map(lambda _: None, output_fusion_prefix))

        staged = stage(alone, args, {}, inline=False)
        prefix = _Prefix(output_fusion_prefix)
        return bind_call(fusible_p, staged, tree_leaves(args), func=f, output_fusion_prefix=prefix)

    return wrapper


class _Prefix:
    """A tree, which need not be hashable, as a parameter."""

    def __init__(self, tree: Any):
        self.tree = tree

    def __repr__(self) -> str:
        return repr(self.tree)


def fuse(
    f: Any = None,
    *,
    resolve_fusion_dtypes: bool = True,
    debug: bool = False,
    strict_mode: bool = True,
) -> Any:
    """Fuse a function into the fusible that it calls.

    Args:
      f: function of arrays that calls a fusible. If it calls several, it is the first. It can close over
        references: what computes the fusible's arguments can read them, what follows can also write them.
      resolve_fusion_dtypes: whether to replace dtypes that have no physical representation. As all dtypes of
        JAX have one, both values mean the same.
      debug: whether to print the function's jaxpr.
      strict_mode: the `strict_mode` of the fusions, for `pull_block_spec`.

    Returns:
      A function of the same arguments, that calls the fusible with functions of what is around its call.
      Results that do not depend on the fusible are computed beside it.

    Raises:
      ValueError: if the function calls no fusible, itself or in a nested function.
    """
    if f is None:
        return functools.partial(
            fuse, resolve_fusion_dtypes=resolve_fusion_dtypes, debug=debug, strict_mode=strict_mode
        )

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        flat = tree_leaves((args, kwargs))
        name = getattr(f, "__name__", str(f))
        for x in flat:
            if isinstance(type_of(x), AbstractRef):
                raise NotImplementedError(
                    f"The fused function {name} was passed a reference, of type {type_of(x).str_short()}. Close over the "
                    "reference instead."
                )
        staged = stage(f, args, kwargs)
        if debug:
            print(f"Jaxpr before fusion:\n{staged.jaxpr}")
        outs = _Split(staged.jaxpr, [*staged.consts, *flat], strict_mode, name).call()
        return tree_unflatten(staged.out_tree, outs)

    return wrapper


class _Split:
    """A jaxpr, divided at the call of a fusible into what is before and after it."""

    def __init__(self, jaxpr: Jaxpr, args: Sequence[Any], strict: bool, name: str):
        self.jaxpr = jaxpr
        self.args = args
        self.strict = strict
        eqns = jaxpr.eqns
        at = next((i for i, e in enumerate(eqns) if e.primitive is fusible_p), None)
        if at is None:
            raise ValueError(
                f"No fusible eqn found: the function {name} calls no function that is decorated with fuser.fusible."
            )
        self.eqn: JaxprEqn = eqns[at]
        # An equation after the call that does not depend on it may be needed before it.
        self.after = _reached(eqns[at + 1 :], self.eqn.outvars)
        chosen = set(map(id, self.after))
        self.rest = [e for e in eqns if e is not self.eqn and id(e) not in chosen]
        for e in self.rest:
            if any([not isinstance(x, core.ReadEffect) for x in e.effects if _of_ref(x)]):
                raise ValueError(
                    "A write to a Ref in a fusion must depend on an output of the fusible, but one of type "
                    f"{e.invars[0].aval.str_short()} does not. Write it before or after the function that is fused."
                )

    def call(self) -> list[Any]:
        params = self.eqn.params
        operands = self.eqn.invars[params["num_consts"] :]
        in_args, _ = tree_unflatten(params["in_tree"], [self._input(v) for v in operands])
        groups, out_fusions = self._outputs()
        result = params["func"](*in_args, out_fusions)
        flat = tree_leaves(result)
        expected = [v for group in groups for v in group]
        if len(flat) != len(expected):
            raise ValueError(
                f"The fusible {params['func']} returned {len(flat)} arrays, but the results of its output fusions are "
                f"{len(expected)}. It must return what its last argument returns for its result."
            )
        found = dict(zip(expected, flat))
        others = [v for v in self.jaxpr.outvars if type(v) is not Literal and v not in found]
        found.update(zip(others, self._run(self.rest, others)))
        return [v.val if type(v) is Literal else found[v] for v in self.jaxpr.outvars]

    def _input(self, v: Any) -> Fusion[..., Any]:
        """Return the function that computes an operand of the fusible."""
        return Fusion(lambda: self._run(self.rest, [v])[0], ((), {}), v.aval, self.strict)

    def _run(self, eqns: Sequence[JaxprEqn], wanted: Sequence[Any], known: Any = ()) -> list[Any]:
        """Evaluate what equations compute, as far as it is wanted."""
        invars = [*self.jaxpr.invars, *[v for v, _ in known]]
        args = [*self.args, *[x for _, x in known]]
        needed = _needed(eqns, wanted)
        env_jaxpr = self.jaxpr.replace(
            invars=invars, outvars=list(wanted), eqns=needed, debug_info=None
        )
        return eval_inlined(env_jaxpr, (), args)

    # What follows

    def _outputs(self) -> tuple[list[list[Any]], Any]:
        """Return the results of each output fusion, and the tree of these."""
        prefix = self.eqn.params["output_fusion_prefix"].tree
        tree = tree_unflatten(self.eqn.params["out_tree"], list(self.eqn.outvars))
        treedef = tree_structure(prefix)
        groups = [tree_leaves(sub) for sub in treedef.flatten_up_to(tree)]
        outvars = [v for v in self.jaxpr.outvars if type(v) is not Literal]
        results: list[list[Any]] = []
        fusions: list[Any] = []
        seen: set[Any] = set()
        for group in groups:
            eqns = _reached(self.after, group)
            computed = {*group, *[v for e in eqns for v in e.outvars]}
            own = [v for v in outvars if v in computed]
            if seen & {*own, *map(id, eqns)}:
                raise ValueError(
                    "Outputs must be disjoint in order to use separate output fusions: a result of the fused function "
                    f"depends on several of the results of {self.eqn.params['func']} with an output fusion each. Give "
                    "fusible output_fusion_prefix=True."
                )
            seen |= {*own, *map(id, eqns)}
            if own == group and not any([e.effects for e in eqns]):
                fusions.append(None)
            else:
                fusions.append(self._output(group, own))
            results.append(own)
        # A variable that is returned twice is one result of a fusion for each time.
        return results, tree_unflatten(treedef, fusions)

    def _output(self, group: list[Any], own: list[Any]) -> Fusion[..., Any]:
        """Return the function that computes results from some of those of the fusible."""
        eqns = [*self.rest, *self.after]
        order = {id(e): i for i, e in enumerate(self.jaxpr.eqns)}
        eqns.sort(key=lambda e: order[id(e)])
        reached = {id(e) for e in _reached(self.after, group)}
        # Reads before the call are not repeated unless they are needed; writes after it always are.
        eqns = [e for e in eqns if id(e) in reached or id(e) not in {id(a) for a in self.after}]

        def follow(*xs: Any) -> tuple[Any, ...]:
            if len(xs) != len(group):
                raise TypeError(
                    f"This fusion takes {len(group)} arrays, the results of the fusible, got {len(xs)}."
                )
            return tuple(self._run(eqns, own, list(zip(group, xs))))

        types = tuple([v.aval for v in group])
        in_type: Any = (types[0] if len(types) == 1 else types, {})
        return Fusion(follow, in_type, tuple([v.aval for v in own]), self.strict)


def _of_ref(effect: Any) -> bool:
    return isinstance(effect, core.JaxprInputEffect)


def _reached(eqns: Sequence[JaxprEqn], variables: Sequence[Any]) -> list[JaxprEqn]:
    """Return the equations that depend on variables."""
    known = set(variables)
    out = []
    for e in eqns:
        if any([type(v) is not Literal and v in known for v in e.invars]):
            known.update(e.outvars)
            out.append(e)
    return out


def _needed(eqns: Sequence[JaxprEqn], wanted: Sequence[Any]) -> list[JaxprEqn]:
    """Return the equations that compute variables, and those that write."""
    known = {v for v in wanted if type(v) is not Literal}
    out = []
    for e in reversed(eqns):
        writes = any([not isinstance(x, core.ReadEffect) for x in e.effects])
        if writes or any([v in known for v in e.outvars]):
            known.update([v for v in e.invars if type(v) is not Literal])
            out.append(e)
    return out[::-1]


def evaluate(f: Callable[..., Any], *, allow_transpose: bool = True) -> Callable[..., Any]:
    """Return a function that computes what another does, and can refuse to transpose.

    Args:
      f: the function.
      allow_transpose: whether the function may transpose arrays; not all kernels can.

    Returns:
      A function of the same arguments. Nested functions are put in place of their calls.

    Raises:
      ValueError: if the function transposes an array, itself or in a nested function, and must not.

    >>> fuser.evaluate(lambda x: x * 2, allow_transpose=False)(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        staged = stage(f, args, kwargs)
        if not allow_transpose and _transposes(staged.jaxpr):
            raise ValueError(
                "Transpose not allowed: the function transposes an array. Transpose it before the function, or give "
                "allow_transpose=True."
            )
        outs = eval_inlined(staged.jaxpr, (), [*staged.consts, *tree_flatten((args, kwargs))[0]])
        return tree_unflatten(staged.out_tree, outs)

    return wrapper


def _transposes(jaxpr: Jaxpr) -> bool:
    if any([e.primitive.name == "transpose" for e in jaxpr.eqns]):
        return True
    return any([_transposes(j) for j in core.subjaxprs(jaxpr)])
