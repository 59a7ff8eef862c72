"""Scenarios of `custom_vmap`, `custom_root` and `custom_linear_solve`: see op_cases.py."""

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap, sequential_vmap

CASES = Programs()
add = CASES.group
F = np.float32
v3 = np.array([0.3, -1.2, 2.1], F)
w3 = np.array([1.5, 0.5, -0.7], F)
m23 = np.arange(6, dtype=F).reshape(2, 3) / 4 - 0.5


def make(fun=lambda x, y: jnp.sin(x) * y, rule=None):
    """A function whose rule adds 100, to tell that it was used."""
    f = custom_vmap(fun)
    f.def_vmap(rule or (lambda n, batched, *xs: (fun(*xs) + 100 * (xs[0] + 1), True)))
    return f


f = make()


def swap_rule(axis_size, in_batched, d, y):
    assert in_batched == [{"a": True, "b": False}, None], in_batched
    return [d["b"] * 2, d["a"] * 3], [False, True]


swap = make(lambda d, y: [d["b"], d["a"]], swap_rule)

add(
    "vmap",
    call=lambda: f(F(1), F(2)),
    keyword=lambda: jax.vmap(lambda x: f(x, y=F(2)))(v3),
    both=lambda: jax.vmap(f)(v3, w3),
    one=lambda: jax.vmap(f, (0, None))(v3, F(2)),
    last_axis=lambda: jax.vmap(make(lambda x: x.sum(), lambda n, b, x: (x[:, 0], True)), 1)(m23),
    out_axis=lambda: jax.vmap(make(jnp.sin), out_axes=1)(m23),
    jit=lambda: jax.jit(jax.vmap(f))(v3, w3),
    of_jit=lambda: jax.vmap(jax.jit(f))(v3, w3),
    nested=lambda: jax.vmap(jax.vmap(f, (0, None)))(m23, m23[:, 0]),
    in_cond=lambda: jax.vmap(lambda x: lax.cond(x > 0, f, lambda x, y: x, x, x))(v3),
    in_scan=lambda: jax.vmap(lambda c: lax.scan(lambda c, x: (f(c, x), c), c, w3))(v3),
    pytree=lambda: jax.vmap(swap, ({"a": 0, "b": None}, None))({"a": v3, "b": F(4)}, None),
    unbatched=lambda: jax.vmap(lambda _: f(F(1), F(2)))(v3),
    jvp=lambda: jax.jvp(f, (F(1), F(2)), (F(0.5), F(0.25))),
    jvp_of=lambda: jax.jvp(jax.vmap(f), (v3, w3), (w3, v3)),
    grad_of=lambda: jax.grad(lambda x: jax.vmap(f)(x, w3).sum())(v3),
    of_jvp=lambda: jax.vmap(lambda x, t: jax.jvp(f, (x, x), (t, t)))(v3, w3),
    tangents_only=lambda: jax.vmap(
        lambda t: jax.jvp(make(rule=lambda n, b, x, y: (x * y, any(b))), (F(1), F(2)), (t, t))
    )(w3),
    integers=lambda: jax.vmap(make(lambda x, i: x * i))(v3, np.arange(3)),
    jaxpr=lambda: str(jax.make_jaxpr(jax.vmap(f))(v3, w3)),
    no_rule=lambda: custom_vmap(jnp.sin)(F(1)),
    wrong_tree=lambda: jax.vmap(make(rule=lambda n, b, x, y: ([x], [True])))(v3, v3),
    wrong_batched=lambda: jax.vmap(make(rule=lambda n, b, x, y: (x, [True])))(v3, v3),
    no_array=lambda: f("x", F(2)),
)


def seen(transform, fun=lambda x, y: x * y):
    """What the rule is told, and the result of transforming the function."""
    calls = []

    def rule(n, batched, *xs):
        calls.append((n, *batched, *[x.shape for x in xs]))
        return fun(*xs), jax.tree.map(lambda _: any(batched), fun(*xs))

    result = transform(make(fun, rule))
    return str(calls), result


def seen_jvp(*axes):
    """Of jvp under vmap: the primals, then the tangents."""
    values = [v3 if a == 0 else F(2) for a in axes]
    return lambda: seen(
        lambda f: jax.vmap(lambda x, y, s, t: jax.jvp(f, (x, y), (s, t)), axes)(*values)
    )


add(
    "seen",
    **{
        "".join("ub"[a == 0] for a in axes): seen_jvp(*axes)
        for axes in [
            (x, y, s, t) for x in (0, None) for y in (0, None) for s in (0, None) for t in (0, None)
        ]
        # An array batched with its tangent beside one batched alone has the wrong shape there.
        if {(0, 0), (None, None)} >= {axes[::2], axes[1::2]}
        or (0, 0) not in (axes[::2], axes[1::2])
        if 0 in axes
    },
    jit=lambda: seen(
        lambda f: jax.vmap(jax.jit(lambda t: jax.jvp(f, (F(2), F(3)), (t, F(1)))))(v3)
    ),
    one_tangent=lambda: seen(
        lambda f: jax.vmap(lambda t: jax.jvp(lambda x: f(x, F(3)), (F(2),), (t,)))(v3)
    ),
    integer=lambda: seen(
        lambda f: jax.vmap(lambda x, i: jax.jvp(lambda x: f(x, i), (x,), (F(1),)))(v3, np.arange(3))
    ),
    two_results=lambda: seen(
        lambda f: jax.vmap(lambda t: jax.jvp(f, (F(2), F(3)), (t, F(1))))(v3),
        lambda x, y: (x * y, [y * 2]),
    ),
    nested=lambda: seen(
        lambda f: jax.vmap(lambda s: jax.vmap(lambda t: jax.jvp(f, (F(2), F(3)), (t, s)))(v3))(
            w3[:2]
        )
    ),
    nested_both=lambda: seen(
        lambda f: jax.vmap(lambda x: jax.vmap(lambda t: jax.jvp(f, (x, F(3)), (t, F(1))))(v3))(w3)
    ),
    jvp_jvp=lambda: seen(
        lambda f: jax.vmap(
            lambda t: jax.jvp(lambda x: jax.jvp(lambda x: f(x, x), (x,), (F(1),))[1], (F(2),), (t,))
        )(v3)
    ),
    jacfwd=lambda: seen(lambda f: jax.jacfwd(lambda x: f(x, F(3)))(F(2))),
    jacfwd_vector=lambda: seen(lambda f: jax.jacfwd(lambda x: f(x, x))(v3)),
    jacfwd_vmap=lambda: seen(lambda f: jax.jacfwd(jax.vmap(f), argnums=(0, 1))(v3, w3)),
    jacfwd_unbatched=lambda: seen(lambda f: jax.jacfwd(jax.vmap(f, (0, None)), 1)(v3, F(2))),
    vmap_jacfwd=lambda: seen(lambda f: jax.vmap(jax.jacfwd(lambda x: f(x, x)))(m23)),
    jacfwd_jacfwd=lambda: seen(lambda f: jax.jacfwd(jax.jacfwd(lambda x: f(x, x).sum()))(v3)),
    jacfwd_both=lambda: seen(
        lambda f: jax.jacfwd(lambda z: jax.vmap(lambda x: f(x, z.sum()))(z))(v3)
    ),
    linearize=lambda: seen(lambda f: jax.linearize(jax.vmap(lambda x: f(x, F(3))), v3)[1](w3)),
    jacrev=lambda: seen(lambda f: jax.jacrev(lambda x: jax.vmap(f, (0, None))(x, F(3)))(v3)),
    always_batched=lambda: jax.jacfwd(make(lambda x: x * 2, lambda n, b, x: (x * 2, True)))(v3),
)

dot = sequential_vmap(lambda x, y: x @ y)
add(
    "sequential",
    both=lambda: jax.vmap(dot)(m23, m23 + 1),
    one=lambda: jax.vmap(dot, (0, None))(m23, w3),
    column=lambda: jax.vmap(dot, (1, None))(m23.T, w3),
    nested=lambda: jax.vmap(jax.vmap(dot, (None, 0)), (0, None))(m23, m23),
    jvp=lambda: jax.jvp(jax.vmap(dot), (m23, m23), (m23, m23 + 1)),
    tree=lambda: jax.vmap(sequential_vmap(lambda d: {"y": d["x"] * 2, "z": 1.0}))({"x": v3}),
    in_while=lambda: jax.vmap(lambda x: lax.fori_loop(0, 3, lambda _, x: dot(x[None], w3[:1]), x))(
        v3
    ),
)

A = np.array([[3, 1], [0.5, 2]], F)
S = A + A.T
b = np.array([1, 2], F)


def inverse(a):
    return jnp.array([[a[1, 1], -a[0, 1]], [-a[1, 0], a[0, 0]]]) / (
        a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
    )


def solve(a, b, **options):
    return lax.custom_linear_solve(lambda x: a @ x, b, lambda _, b: inverse(a) @ b, **options)


def general(a, b):
    return solve(a, b, transpose_solve=lambda vecmat, c: inverse(a).T @ c + 0 * vecmat(c))


def symmetric(a, b):
    return solve(a, b, symmetric=True)


def with_aux(a, b):
    run = lambda f, b: (inverse(a) @ b, {"norm": jnp.sum(b * b), "n": jnp.array(3)})
    return lax.custom_linear_solve(lambda x: a @ x, b, run, run, has_aux=True, symmetric=True)


def tree_solve(a, b):
    return lax.custom_linear_solve(
        lambda t: {"x": a * t["x"] + t["y"], "y": 3 * t["y"]},
        b,
        lambda f, t: {"x": (t["x"] - t["y"] / 3) / a, "y": t["y"] / 3},
        lambda f, t: {"x": t["x"] / a, "y": (t["y"] - t["x"] / a) / 3},
    )


tree_b = {"x": F(2), "y": F(3)}
bs = np.stack([b, 2 * b, b - 1])
As = np.stack([A, 2 * A, A + 1])
add(
    "linear_solve",
    value=lambda: solve(A, b),
    jit=lambda: jax.jit(general)(A, b),
    jvp=lambda: jax.jvp(solve, (A, b), (A.T, b + 1)),
    jvp_b=lambda: jax.jvp(lambda b: solve(A, b), (b,), (b + 1,)),
    grad=lambda: jax.grad(lambda a, b: general(a, b) @ b, (0, 1))(A, b),
    grad_symmetric=lambda: jax.grad(lambda a, b: symmetric(a, b) @ b, (0, 1))(S, b),
    grad_jit=lambda: jax.jit(jax.grad(lambda a, b: general(a, b) @ b, (0, 1)))(A, b),
    hessian=lambda: jax.hessian(lambda a: general(a, b) @ b)(A),
    vmap_b=lambda: jax.vmap(lambda b: general(A, b))(bs),
    vmap_b_last=lambda: jax.vmap(lambda b: general(A, b), 1, 1)(bs.T),
    vmap_a=lambda: jax.vmap(lambda a: general(a, b))(As),
    vmap_grad=lambda: jax.vmap(jax.grad(lambda a, b: general(a, b) @ b, (0, 1)))(As, bs),
    grad_vmap=lambda: jax.grad(lambda a: jax.vmap(general, (None, 0))(a, bs).sum())(A),
    aux=lambda: with_aux(S, b),
    aux_jvp=lambda: jax.jvp(lambda b: with_aux(S, b)[0], (b,), (b,)),
    aux_grad=lambda: jax.grad(lambda b: with_aux(S, b)[0].sum())(b),
    aux_vmap=lambda: jax.vmap(lambda b: with_aux(S, b))(bs),
    tree=lambda: tree_solve(F(2), tree_b),
    tree_grad=lambda: jax.grad(lambda a, b: tree_solve(a, b)["x"], (0, 1))(F(2), tree_b),
    transpose=lambda: jax.linear_transpose(lambda b: general(A, b), b)(b + 1),
    no_transpose_solve=lambda: jax.grad(lambda b: solve(A, b).sum())(b),
    matvec_shape=lambda: lax.custom_linear_solve(lambda x: x[:1], b, lambda f, b: b),
    matvec_tree=lambda: lax.custom_linear_solve(lambda x: (x, x), b, lambda f, b: b),
    solve_tree=lambda: lax.custom_linear_solve(lambda x: x, b, lambda f, b: (b, b)),
    transposed_shape=lambda: solve(A, b, transpose_solve=lambda f, b: b[:1]),
    in_scan=lambda: jax.grad(
        lambda a: lax.scan(lambda c, x: (general(a, c) + x, c), b, bs)[0].sum()
    )(A),
)


def root(x, guess=F(1), **options):
    return lax.custom_root(
        lambda y: y**2 - x,
        guess,
        lambda f, y: lax.fori_loop(0, 20, lambda _, y: y - f(y) / (2 * y), y),
        lambda g, y: y / g(1.0),
        **options,
    )


def vector_root(a):
    """The solution of a @ y + y ** 3 = 1."""

    def f(y):
        return a @ y + y**3 - 1

    def newton(f, y):
        return lax.fori_loop(0, 20, lambda _, y: y - inverse(jax.jacfwd(f)(y)) @ f(y), y)

    return lax.custom_root(f, b, newton, lambda g, y: inverse(jax.jacfwd(g)(y)) @ y)


def root_aux(x):
    return lax.custom_root(
        lambda y: y**2 - x,
        F(1),
        lambda f, y: (jnp.sqrt(x), {"twice": 2 * x}),
        lambda g, y: y / g(F(1)),
        has_aux=True,
    )


ones = lambda f, y: y
add(
    "root",
    value=lambda: root(F(4)),
    grad=lambda: jax.grad(root)(F(4)),
    grad_of_grad=lambda: jax.grad(jax.grad(root))(F(4)),
    jvp=lambda: jax.jvp(root, (F(4),), (F(1),)),
    jit=lambda: jax.jit(jax.value_and_grad(root))(F(4)),
    vmap=lambda: jax.vmap(root)(np.array([1, 4, 9], F)),
    vmap_guess=lambda: jax.vmap(lambda g: root(F(4), g))(np.array([1, 4, 9], F)),
    vmap_grad=lambda: jax.vmap(jax.grad(root))(np.array([1, 4, 9], F)),
    vector=lambda: vector_root(A),
    vector_jacobians=lambda: (jax.jacfwd(vector_root)(A), jax.jacrev(vector_root)(A)),
    vector_vmap=lambda: jax.vmap(jax.jacfwd(vector_root))(As),
    aux=lambda: root_aux(F(4)),
    aux_grad=lambda: jax.grad(root_aux, has_aux=True)(F(4)),
    aux_jvp=lambda: jax.jvp(root_aux, (F(4),), (F(1),)),
    guess_grad=lambda: jax.grad(lambda g: root(F(4), g))(F(3)),
    f_tree=lambda: lax.custom_root(lambda y: (y, y), F(1), ones, ones),
    solve_tree=lambda: lax.custom_root(lambda y: y, F(1), lambda f, y: (y, y), ones),
    tangent_tree=lambda: lax.custom_root(lambda y: y, F(1), ones, lambda g, y: (y, y)),
    tangent_shape=lambda: jax.grad(
        lambda x: lax.custom_root(lambda y: y - x, F(1), ones, lambda g, y: jnp.ones(2))
    )(F(1)),
    aux_missing=lambda: lax.custom_root(lambda y: y, F(1), ones, ones, has_aux=True),
)
