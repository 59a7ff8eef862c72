"""Solutions of equations with implicit derivatives: `custom_root` and `custom_linear_solve`.

The operands of both primitives are the constants of each of their functions in turn, followed by
the initial guess or the right-hand side. The functions are jaxprs of (constants, values).
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jax._src import core, dtypes, traceback_util
from jax._src.ad_util import Zero
from jax._src.api_util import check_callable
from jax._src.core import ClosedJaxpr, Primitive, typeof
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.late_binding import late
from jax._src.lax import lax
from jax._src.lax.control_flow.common import hoist, split_at, stage
from jax._src.tree_util import tree_flatten, tree_unflatten, treedef_children, treedef_is_leaf

traceback_util.register_exclusion(__file__)


@traceback_util.api_boundary
def custom_root(
    f: Callable, initial_guess: Any, solve: Callable[[Callable, Any], Any],
    tangent_solve: Callable[[Callable, Any], Any], has_aux: bool = False,
):  # fmt: skip
    """Find a root of a function, with derivatives by the implicit function theorem.

    Args:
      f: function whose root to find, from a pytree like `initial_guess` to one of the same
        structure. The root is differentiable with respect to the values that `f` closes over.
      initial_guess: starting point, a pytree of arrays.
      solve: function (f, initial_guess) -> root.
      tangent_solve: function (g, y) -> x such that g(x) = y, where the linear g is `f` linearized
        at the root. For scalars this is `lambda g, y: y / g(1.0)`; for vectors of moderate size
        `lambda g, y: jnp.linalg.solve(jax.jacobian(g)(y), y)`.
      has_aux: whether `solve` returns a pair of the root and auxiliary data, which has no
        derivative.

    Returns:
      The result of `solve`.

    Raises:
      TypeError: if `f`, `solve` or `tangent_solve` returns a pytree of another structure.

    >>> def square_root(x):
    ...   return jax.lax.custom_root(lambda y: y ** 2 - x, x, lambda f, y: jnp.sqrt(x),
    ...                              lambda g, y: y / g(1.))
    >>> print(square_root(4.), jax.grad(square_root)(4.))
    2.0 0.25
    """
    for fun in (f, solve, tangent_solve):
        check_callable(fun)
    flat, tree = tree_flatten((initial_guess,))
    (guess_tree,) = treedef_children(tree)
    avals = [typeof(x) for x in flat]
    f_jaxpr, f_consts, f_tree = stage("custom_root", f, tree, avals, (initial_guess,))
    _check_tree("f", f_tree, "initial_guess", guess_tree)

    def run_solve(guess):
        return solve(f, guess)

    solve_jaxpr, solve_consts, out_tree = stage(
        "custom_root solve", run_solve, tree, avals, (initial_guess,)
    )
    root_tree = _split_aux(out_tree) if has_aux else out_tree
    _check_tree("solve", root_tree, "initial_guess", guess_tree)

    def linearize_and_solve(root, y):
        _, lin = ad.linearize(lambda *x: core.eval_jaxpr(f_jaxpr, f_consts, *x), root)

        def g(x):
            leaves, x_tree = tree_flatten(x)
            _check_tree("the argument of g, in tangent_solve,", x_tree, "y", guess_tree)
            leaves = [
                t if typeof(t).dtype == a.dtype else lax.convert_element_type(t, a.dtype)
                for t, a in zip(leaves, lin.in_avals)
            ]
            outs = [ad.instantiate_zeros(t) for t in lin.apply(leaves)]
            return tree_unflatten(guess_tree, outs)

        out, tree = tree_flatten(tangent_solve(g, tree_unflatten(guess_tree, y)))
        _check_tree("tangent_solve", tree, "x", guess_tree)
        return out

    tangent_avals = [a.to_tangent_aval() for a in avals]
    n = len(avals)
    solve_closed, solve_avals = hoist(solve_jaxpr), solve_jaxpr.out_avals
    root_avals = solve_avals[:n]
    tangent, tangent_consts = None, []
    if all(core.typematch(a, b) for a, b in zip(avals, root_avals)):
        tangent, tangent_consts = pe.trace_to_closed(
            lambda *args: linearize_and_solve(args[:n], args[n:]), [*root_avals, *tangent_avals]
        )
    outs = custom_root_p.bind(
        *f_consts, *solve_consts, *tangent_consts, *flat,
        const_lengths=_RootTuple(len(f_consts), len(solve_consts), len(tangent_consts)),
        jaxprs=_RootTuple(hoist(f_jaxpr), solve_closed, tangent),
    )  # fmt: skip
    return tree_unflatten(out_tree, outs)


@traceback_util.api_boundary
def custom_linear_solve(
    matvec: Callable, b: Any, solve: Callable[[Callable, Any], Any],
    transpose_solve: Callable[[Callable, Any], Any] | None = None, symmetric: bool = False,
    has_aux: bool = False,
):  # fmt: skip
    """Solve a linear equation matvec(x) = b, with implicit derivatives.

    Args:
      matvec: linear function from a pytree like `b` to a pytree like `b`.
      b: right-hand side, a pytree of arrays.
      solve: function (matvec, b) -> x. It need not be differentiable.
      transpose_solve: function (vecmat, b) -> x that solves vecmat(x) = b, where vecmat is the
        transpose of `matvec`. Reverse mode requires it, unless `symmetric`.
      symmetric: whether `matvec` is its own transpose; then `transpose_solve` defaults to `solve`.
      has_aux: whether `solve` and `transpose_solve` return a pair of the solution and auxiliary
        data, which has no derivative.

    Returns:
      The result of `solve`, differentiable with respect to `b` and what `matvec` closes over.

    Raises:
      ValueError: if a function returns a structure or shapes other than those of `b`.

    >>> a, b = jnp.array([2., 4.]), jnp.array([1., 1.])
    >>> def solution(a):
    ...   return jax.lax.custom_linear_solve(lambda x: a * x, b, lambda f, b: b / a, symmetric=True)
    >>> print(solution(a), jax.jacobian(solution)(a).diagonal())
    [0.5  0.25] [-0.25   -0.0625]
    """
    for fun in (matvec, solve):
        check_callable(fun)
    if transpose_solve is None:
        transpose_solve = solve if symmetric else None
    else:
        check_callable(transpose_solve)
    flat, tree = tree_flatten((b,))
    (b_tree,) = treedef_children(tree)
    avals = [typeof(x) for x in flat]
    kind = "custom_linear_solve"
    matvec_jaxpr, matvec_consts, matvec_tree = stage(kind, matvec, tree, avals, (b,))
    _check_shapes("matvec", matvec_tree, matvec_jaxpr.out_avals, b_tree, avals)

    def stage_solve(name, solve, matvec):
        run = lambda b: solve(matvec, b)
        jaxpr, consts, out_tree = stage(f"{kind} {name}", run, tree, avals, (b,))
        x_tree = _split_aux(out_tree, name) if has_aux else out_tree
        _check_shapes(name, x_tree, jaxpr.out_avals[: x_tree.num_leaves], b_tree, avals)
        return hoist(jaxpr), consts, out_tree

    matvec_closed = hoist(matvec_jaxpr)
    solve_closed, solve_consts, out_tree = stage_solve("solve", solve, matvec)
    vecmat_closed, vecmat_consts, transposed, transposed_consts = None, [], None, []
    if transpose_solve is not None:
        if symmetric:
            vecmat_closed, vecmat_consts, vecmat = matvec_closed, matvec_consts, matvec
        else:
            vecmat_closed, vecmat_consts = _transposed(matvec_jaxpr, matvec_consts, avals)

            def vecmat(x):
                leaves, x_tree = tree_flatten(x)
                _check_tree("the argument of vecmat", x_tree, "b", b_tree)
                run = core.jaxpr_as_fun(vecmat_closed)
                return tree_unflatten(b_tree, run(*vecmat_consts, *leaves))

        if symmetric and transpose_solve is solve:
            transposed, transposed_consts = solve_closed, solve_consts
        else:
            transposed, transposed_consts, _ = stage_solve(
                "transpose_solve", transpose_solve, vecmat
            )
    consts = _LinearSolveTuple(matvec_consts, vecmat_consts, solve_consts, transposed_consts)
    outs = linear_solve_p.bind(
        *[c for cs in consts for c in cs],
        *flat,
        const_lengths=_LinearSolveTuple(*map(len, consts)),
        jaxprs=_LinearSolveTuple(matvec_closed, vecmat_closed, solve_closed, transposed),
    )
    return tree_unflatten(out_tree, outs)


def _transposed(jaxpr: core.Jaxpr, consts, avals) -> tuple[ClosedJaxpr, list]:
    undefined = [ad.UndefinedPrimal(a) for a in avals]

    def vecmat(*cts):
        outs = ad.backward_pass(jaxpr, True, consts, undefined, cts)
        return [ad.instantiate_zeros(ct) for ct in outs]

    return pe.trace_to_closed(vecmat, [a.to_ct_aval() for a in jaxpr.out_avals])


def _split_aux(tree, name: str = "solve"):
    """Return the structure of the first element of a pair."""
    children = [] if treedef_is_leaf(tree) else treedef_children(tree)
    if tree.node_data() is None or tree.node_data()[0] is not tuple or len(children) != 2:
        raise ValueError(
            f"{name}() produced a pytree with structure {tree}, but a pytree tuple with auxiliary "
            "output was expected because has_aux was set to True."
        )
    return children[0]


def _check_tree(what: str, tree, like: str, expected) -> None:
    if tree != expected:
        if what.isidentifier():
            what += "() output"
        raise TypeError(f"{what} pytree structure must match {like}, got {tree} and {expected}.")


def _check_shapes(name: str, tree, avals, b_tree, b_avals) -> None:
    shapes, b_shapes = [a.shape for a in avals], [a.shape for a in b_avals]
    if shapes != b_shapes:
        raise ValueError(f"{name}() output shapes must match b, got {shapes} and {b_shapes}")
    if tree != b_tree:
        raise ValueError(f"{name}() output pytree structure must match b, got {tree} and {b_tree}")


class _RootTuple(NamedTuple):
    """One value for each function of `custom_root`.

    `tangent` is None if the root's types differ from the guess's, so that it is not differentiable.
    """

    f: Any
    solve: Any
    tangent: Any


class _LinearSolveTuple(NamedTuple):
    """One value for each function of `custom_linear_solve`; None for functions not given."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transpose(self) -> "_LinearSolveTuple":
        return _LinearSolveTuple(self.vecmat, self.matvec, self.transpose_solve, self.solve)


# Rules that both primitives share


def _parts(args: Sequence[Any], const_lengths) -> tuple[Any, list]:
    """Split operands into the constants of each function, and the rest."""
    *consts, rest = split_at(args, *const_lengths)
    return type(const_lengths)(*consts), rest


def _solve(*args, const_lengths, jaxprs):
    consts, rest = _parts(args, const_lengths)
    return [late.to_array(x) for x in core.jaxpr_as_fun(jaxprs.solve)(*consts.solve, *rest)]


def solve_operands(const_lengths, num_operands: int) -> list[int]:
    """Return the positions of the operands that `solve` takes."""
    start = sum(const_lengths[: const_lengths._fields.index("solve")])
    return [
        *range(start, start + const_lengths.solve), *range(sum(const_lengths), num_operands)
    ]  # fmt: skip


def _types(*avals, const_lengths, jaxprs):
    effects = jaxprs.solve.effects
    if effects:
        effects = core.reindexed_effects(effects, solve_operands(const_lengths, len(avals)))
    return jaxprs.solve.out_avals, effects


def _lowering(ctx, *args, const_lengths, jaxprs):
    consts, rest = _parts(args, const_lengths)
    return mlir.lower_jaxpr_inline(ctx, jaxprs.solve, "", *consts.solve, *rest)


def _hoist(args, params):
    """Turn tracers among the constants of jaxprs into operands."""
    const_lengths, jaxprs = params["const_lengths"], params["jaxprs"]
    if not any(isinstance(c, core.Tracer) for j in jaxprs if j is not None for c in j.consts):
        return args, params
    consts, rest = _parts(args, const_lengths)
    pairs = [(None, []) if j is None else pe.hoist_tracers(j) for j in jaxprs]
    consts = [[*tracers, *cs] for (_, tracers), cs in zip(pairs, consts)]
    kind = type(const_lengths)
    params = dict(const_lengths=kind(*map(len, consts)), jaxprs=kind(*[j for j, _ in pairs]))
    return (*[c for cs in consts for c in cs], *rest), params


def _batch(prim: Primitive, axis_data, args, dims, *, const_lengths, jaxprs):
    """Batch every function; the solution and the last operands have the same batched leaves."""
    args = [x if d is None else batching.moveaxis(x, d, 0) for x, d in zip(args, dims)]
    consts, given = _parts(args, const_lengths)
    const_batched, given_batched = _parts([d is not None for d in dims], const_lengths)
    n = len(given)

    def run(closed, flags, batched):
        if closed is None:
            return None, ()
        copies = (len(closed.in_avals) - len(flags)) // n if n else 0
        instantiate = [*batched, *[False] * (len(closed.out_avals) - n)]
        return batching.batch_jaxpr(closed, axis_data, [*flags, *batched * copies], instantiate)

    batched, new = given_batched, None
    while new != batched:
        batched = new or given_batched
        runs = type(jaxprs)(*[run(j, fs, batched) for j, fs in zip(jaxprs, const_batched)])
        new = [any(flags) for flags in zip(batched, *[fs[:n] for _, fs in runs if fs])]
    given = [
        batching.bdim_at_front(x, 0 if was else None, axis_data.size) if now else x
        for x, was, now in zip(given, given_batched, batched)
    ]
    outs = prim.bind(
        *[c for cs in consts for c in cs], *given, const_lengths=const_lengths,
        jaxprs=type(jaxprs)(*[j for j, _ in runs]),
    )  # fmt: skip
    return outs, [0 if b else None for b in runs.solve[1]]


def _define(prim: Primitive) -> None:
    prim.def_impl(_solve)
    prim.def_effectful_abstract_eval(_types)
    mlir.register_lowering(prim, _lowering)
    prim.axis_batch = functools.partial(_batch, prim)
    pe.def_hoisting(prim, _hoist)


# custom_root

custom_root_p = Primitive("custom_root", multiple_results=True)
_define(custom_root_p)


def _root_jvp(primals, tangents, *, const_lengths, jaxprs):
    outs = custom_root_p.bind(*primals, const_lengths=const_lengths, jaxprs=jaxprs)
    consts, guess = _parts(primals, const_lengths)
    f_tangents = tangents[: const_lengths.f]
    nonzeros = [type(t) is not Zero for t in f_tangents]
    zeros = [ad.zero_of(x) for x in outs]
    n = len(guess)
    root = outs[:n]
    if not any(nonzeros):
        return outs, zeros
    if jaxprs.tangent is None:
        pairs = ", ".join(
            f"{typeof(r).str_short()} for {typeof(g).str_short()}" for r, g in zip(root, guess)
        )
        raise TypeError(
            "custom_root cannot be differentiated: solve() returned a root of other types than those "
            f"of initial_guess: {pairs}. Give an initial_guess of the types of the root."
        )
    # f(a, x(a)) = 0 implies d_x f . dx = -d_a f . da for the tangents.
    f_jvp, f_nonzero = ad.jvp_jaxpr(jaxprs.f, [*nonzeros, *[False] * n], True)
    f_tangents = [t for t in f_tangents if type(t) is not Zero]
    f_outs = core.jaxpr_as_fun(f_jvp)(*consts.f, *root, *f_tangents)[n:]
    dx = core.jaxpr_as_fun(jaxprs.tangent)(*consts.tangent, *root, *f_outs)
    for x, t in zip(root, dx):
        want, got = typeof(x).to_tangent_aval(), typeof(t)
        if not core.typematch(want, got):
            raise TypeError(
                "tangent_solve() output must have the types of the root's tangents, got "
                f"{got.str_short()} for {want.str_short()}."
            )
    dx = [
        Zero(typeof(x).to_tangent_aval())
        if typeof(x).to_tangent_aval().dtype == dtypes.float0
        else lax.neg(t)
        for x, t in zip(root, dx)
    ]
    return outs, [*dx, *zeros[n:]]


custom_root_p.jvp = _root_jvp


# custom_linear_solve

linear_solve_p = Primitive("custom_linear_solve", multiple_results=True)
_define(linear_solve_p)


def _linear_solve_jvp(primals, tangents, *, const_lengths, jaxprs):
    params = dict(const_lengths=const_lengths, jaxprs=jaxprs)
    outs = linear_solve_p.bind(*primals, **params)
    consts, b = _parts(primals, const_lengths)
    const_tangents, b_tangents = _parts(tangents, const_lengths)
    n = len(b)
    zeros = [ad.zero_of(x) for x in outs]
    # A x = b implies A dx = db - dA x.
    rhs = list(b_tangents)
    nonzeros = [type(t) is not Zero for t in const_tangents.matvec]
    if any(nonzeros):
        jvp, out_nonzeros = ad.jvp_jaxpr(jaxprs.matvec, [*nonzeros, *[False] * n])
        given = [t for t in const_tangents.matvec if type(t) is not Zero]
        parts = iter(core.jaxpr_as_fun(jvp)(*consts.matvec, *outs[:n], *given)[n:])
        rhs = [ad.add_tangents(t, lax.neg(next(parts))) if nz else t for t, nz in zip(rhs, out_nonzeros)]  # fmt: skip
    if all(type(t) is Zero for t in rhs):
        return outs, zeros
    is_float = [typeof(x).to_tangent_aval().dtype != dtypes.float0 for x in b]
    rhs = [ad.instantiate_zeros(t) if f else lax.zeros_like_array(x) for x, t, f in zip(b, rhs, is_float)]  # fmt: skip
    dx = linear_solve_p.bind(*[c for cs in consts for c in cs], *rhs, **params)[:n]
    return outs, [t if f else zero for t, f, zero in zip(dx, is_float, zeros)] + zeros[n:]


linear_solve_p.jvp = _linear_solve_jvp


def _linear_solve_transpose(cts, *args, const_lengths, jaxprs):
    if jaxprs.transpose_solve is None:
        raise TypeError(
            "transpose_solve required for backwards mode automatic differentiation of "
            "custom_linear_solve"
        )
    consts, b = _parts(args, const_lengths)
    if any(ad.is_undefined_primal(c) for cs in consts for c in cs):
        raise NotImplementedError(
            "custom_linear_solve cannot be transposed by what its functions close over."
        )
    n = len(b)
    consts, const_lengths = _LinearSolveTuple(*consts).transpose(), const_lengths.transpose()
    outs = linear_solve_p.bind(
        *[c for cs in consts for c in cs], *map(ad.instantiate_zeros, cts[:n]),
        const_lengths=const_lengths, jaxprs=jaxprs.transpose(),
    )  # fmt: skip
    return [None] * sum(const_lengths) + [
        ct if ad.is_undefined_primal(x) else None for x, ct in zip(b, outs)
    ]


linear_solve_p.transpose = _linear_solve_transpose
