"""Programs with functions of shards, transformed inside and outside: see op_cases.py.

Each gives the values of results and derivatives, or the class of the error.
"""

import functools

import numpy as np
from op_cases import Programs
from shard_map_scenarios import EXPLICIT, X, Y, mesh_of, smap
from sharded_values import scenarios, show

import jax
import jax.ad_checkpoint
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

CASES = Programs()
scenario = scenarios(CASES, lambda types: mesh_of(*types))


def rounded(tree):
    return [(np.asarray(x, np.float64).round(2) + 0.0).tolist() for x in jax.tree.leaves(tree)]


def program(name, f, ins, outs, *args, grad=True, checks=(True, False), eager=True, **kwargs):
    """The values of a mapped function, its gradient, and a batch of it."""
    for check in checks:
        label = f"{name}_{'checked' if check else 'unchecked'}"
        mapped = functools.partial(smap(f, ins, outs, check_vma=check, **kwargs))
        if eager:
            scenario(f"{label}_eager", lambda mapped=mapped: rounded(mapped(*args)))
        scenario(f"{label}_jit", lambda mapped=mapped: rounded(jax.jit(mapped)(*args)))
        if grad:
            at = tuple(i for i, a in enumerate(args) if np.issubdtype(a.dtype, np.floating))

            def loss(*xs, mapped=mapped):
                return sum(jnp.sum(jnp.sin(y)) for y in jax.tree.leaves(mapped(*xs)))

            both = lambda *xs, loss=loss: jax.value_and_grad(loss, at)(*xs)
            scenario(f"{label}_grad", lambda both=both: rounded(jax.jit(both)(*args)))
            if eager:
                scenario(f"{label}_eager_grad", lambda both=both: rounded(both(*args)))
            batched = [np.stack([a, a * 2]) for a in args]
            if check:
                scenario(
                    f"{label}_vmap_grad",
                    lambda loss=loss, at=at, batched=batched: rounded(
                        jax.jit(jax.vmap(jax.grad(loss, at)))(*batched)
                    ),
                )


# Collectives

program("psum", lambda x: lax.psum(x * x, "x"), P("x"), P(), X)
program("psum_both", lambda x: lax.psum(x * x, ("x", "y")), P("x", "y"), P(), X)
program("psum_one", lambda x: lax.psum(jnp.sin(x), "y"), P("x", "y"), P("x"), X)
program("pmean", lambda x: lax.pmean(x, "x") * x, P("x"), P("x"), X)
program("pmax", lambda x: lax.pmax(x, "x"), P("x"), P(), X, grad=False)
program(
    "all_gather",
    lambda x: lax.all_gather(x, "x", tiled=True) * 2,
    P("x"),
    P("y"),
    X,
    checks=(False,),
)
program(
    "all_gather_used",
    lambda x: jnp.sin(x @ lax.all_gather(x, "x", tiled=True).T),
    P("x"),
    P("x"),
    X,
)
program(
    "psum_scatter",
    lambda x: lax.psum_scatter(x, "y", scatter_dimension=1, tiled=True),
    P("x"),
    P("x", "y"),
    X,
)
program(
    "ppermute",
    lambda x: lax.ppermute(x * x, "x", [(i, (i + 1) % 4) for i in range(4)]),
    P("x"),
    P("x"),
    X,
)
program("all_to_all", lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True), P("x"), P(None, "x"), X)
program("axis_index", lambda x: x * lax.axis_index("x"), P("x"), P("x"), X)
program("axis_size", lambda x: x * lax.axis_size("x"), P("x"), P("x"), X)
program("matmul", lambda a, b: lax.psum(a @ b, "x"), (P(None, "x"), P("x")), P(), X, Y[:4])
program("layer", lambda x, w: jnp.tanh(x @ w), (P("x"), P(None, "y")), P("x", "y"), X, Y[:4])
program("loss", lambda x, w: lax.pmean(jnp.mean((x @ w) ** 2), "x"), (P("x"), P()), P(), X, Y[:4])

# Control flow

program(
    "scan", lambda x: lax.scan(lambda c, y: (c + y, c * y), x[0], x), P("x"), (P("x"), P("x")), X
)
program(
    "scan_psum",
    lambda x: lax.scan(lambda c, y: (c + lax.psum(y, "x"), y), x[0] * 0, x)[1],
    P("x"),
    P("x"),
    X,
    checks=(False,),
)
program(
    "scan_carry",
    lambda x: lax.scan(lambda c, y: (c * y + 1, c), lax.pcast(jnp.ones(4), "x", to="varying"), x)[
        0
    ],
    P("x"),
    P("x"),
    X,
    checks=(True,),
)
program(
    "scan_wrong_carry",
    lambda x: lax.scan(lambda c, y: (c * y + 1, c), jnp.ones(4), x)[0],
    P("x"),
    P("x"),
    X,
    checks=(True,),
    grad=False,
)
program(
    "fori", lambda x: lax.fori_loop(0, 3, lambda i, c: c * jnp.sin(c) + i, x), P("x"), P("x"), X
)
program(
    "while",
    lambda x: lax.while_loop(lambda c: c.sum() < 40, lambda c: c * 2 + 1, x),
    P("x"),
    P("x"),
    X,
    grad=False,
)
program("cond", lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda x: x * 2, x), P("x"), P("x"), X)
program(
    "cond_same",
    lambda x: lax.cond(lax.psum(x.sum(), "x") > 0, jnp.sin, lambda x: x * 2, x),
    P("x"),
    P("x"),
    X,
)
program(
    "cond_different",
    lambda x: lax.cond(x.sum() > 0, lambda: jnp.ones(4), lambda: x[0]),
    P("x"),
    P("x"),
    X,
    checks=(True,),
    grad=False,
)
program(
    "switch",
    lambda x: lax.switch(lax.axis_index("x"), [jnp.sin, jnp.cos, lambda x: x, lambda x: x * x], x),
    P("x"),
    P("x"),
    X,
)
program("map", lambda x: lax.map(lambda r: r * r.sum(), x), P("x"), P("x"), X)
program("associative_scan", lambda x: lax.associative_scan(jnp.add, x * x), P("x"), P("x"), X)

# Transformations inside

program("inside_jit", lambda x: jax.jit(lambda x: jnp.sin(x) * 2)(x), P("x"), P("x"), X)
program("inside_grad", lambda x: jax.grad(lambda x: jnp.sum(x**3))(x), P("x"), P("x"), X)
program(
    "inside_grad_psum",
    lambda x: jax.grad(lambda x: lax.psum(jnp.sum(x**3), "x"))(x),
    P("x"),
    P("x"),
    X,
    checks=(True,),
)
program(
    "inside_grad_replicated",
    lambda x, w: jax.grad(lambda w: jnp.sum(jnp.sin(x @ w)))(w),
    (P("x"), P()),
    P(),
    X,
    Y[:4],
    checks=(True,),
)
program("inside_jvp", lambda x: jax.jvp(jnp.sin, (x,), (x,)), P("x"), (P("x"), P("x")), X)
program("inside_vjp", lambda x: jax.vjp(jnp.sin, x)[1](x)[0], P("x"), P("x"), X)
program("inside_linearize", lambda x: jax.linearize(jnp.sin, x)[1](x), P("x"), P("x"), X)
program("inside_vmap", lambda x: jax.vmap(lambda r: r * r.sum())(x), P("x"), P("x"), X)
program(
    "inside_vmap_psum",
    lambda x: jax.vmap(lambda r: lax.psum(r, ("x", "i")), axis_name="i", out_axes=None)(x),
    P("x"),
    P(),
    X,
    grad=False,
    checks=(False,),
)
program("inside_jacobian", lambda x: jax.jacrev(lambda r: r * r)(x[0]), P("x"), P("x"), X)
program("inside_hessian", lambda x: jax.hessian(lambda r: jnp.sum(r**3))(x[0]), P("x"), P("x"), X)
program(
    "inside_remat", lambda x: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x), P("x"), P("x"), X
)
program(
    "inside_remat_policy",
    lambda x: jax.checkpoint(
        lambda x: jnp.sin(x @ x.T) @ x, policy=jax.checkpoint_policies.dots_saveable
    )(x),
    P("x"),
    P("x"),
    X,
)
program(
    "inside_remat_psum",
    lambda x: jax.checkpoint(lambda x: jnp.sin(lax.psum(jnp.sin(x), "x")) * x)(x),
    P("x"),
    P("x"),
    X,
)


@jax.custom_jvp
def cube(x):
    return x * x * x


cube.defjvp(lambda p, t: (cube(*p), 3 * p[0] ** 2 * t[0]))


@jax.custom_vjp
def square(x):
    return x * x


square.defvjp(lambda x: (x * x, x), lambda x, ct: (2 * ct * x,))


@jax.custom_vjp
def scaled(x, w):
    return x * w.sum()


scaled.defvjp(
    lambda x, w: (x * w.sum(), (x, w)),
    lambda res, ct: (ct * res[1].sum(), lax.psum((ct * res[0]).sum(), "x") * jnp.ones_like(res[1])),
)


@jax.custom_batching.custom_vmap
def double(x):
    return x * 2


double.def_vmap(lambda size, batched, x: (x * 2, batched[0]))

program("inside_custom_jvp", cube, P("x"), P("x"), X)
program("inside_custom_vjp", square, P("x"), P("x"), X)
program("inside_custom_vjp_psum", scaled, (P("x"), P()), P("x"), X, Y[:4], checks=(True,))
program("inside_custom_vmap", lambda x: jax.vmap(double)(x), P("x"), P("x"), X, grad=False)
program("inside_relu", lambda x: jax.nn.relu(x), P("x"), P("x"), X)
program("inside_softmax", lambda x: jax.nn.softmax(x), P("x"), P("x"), X)
program("inside_logsumexp", lambda x: jax.nn.logsumexp(x, axis=1), P("x"), P("x"), X)

# Transformations outside

F = smap(lambda x: jnp.sin(x) * lax.psum(x.sum(), "x"), P("x"), P("x"))
scenario("outside_jvp", lambda: rounded(jax.jvp(F, (X,), (X,))))
scenario("outside_linearize", lambda: rounded(jax.linearize(F, X)[1](X)))
scenario("outside_vjp", lambda: rounded(jax.vjp(F, X)[1](X)))
scenario("outside_jit_vjp", lambda: rounded(jax.jit(lambda x: jax.vjp(F, x)[1](x))(X)))
scenario("outside_jacfwd", lambda: rounded(jax.jit(jax.jacfwd(F))(X).sum((2, 3))))
scenario("outside_jacrev", lambda: rounded(jax.jit(jax.jacrev(F))(X).sum((0, 1))))
scenario("outside_hessian", lambda: rounded(
    jax.jit(jax.hessian(lambda x: F(x).sum()))(X).sum((2, 3))))  # fmt: skip
scenario("outside_grad_of_grad", lambda: rounded(jax.jit(
    jax.grad(lambda x: jnp.sum(jax.grad(lambda x: F(x).sum())(x) ** 2)))(X)))  # fmt: skip
scenario("outside_eager_grad_of_grad", lambda: rounded(
    jax.grad(lambda x: jnp.sum(jax.grad(lambda x: F(x).sum())(x) ** 2))(X)))  # fmt: skip
scenario("outside_vmap", lambda: rounded(jax.vmap(F)(np.stack([X, 2 * X]))))
scenario("outside_vmap_last", lambda: rounded(
    jax.vmap(F, in_axes=2, out_axes=1)(np.stack([X, 2 * X], 2))))  # fmt: skip
scenario("outside_vmap_spmd", lambda: rounded(jax.jit(
    jax.vmap(F, spmd_axis_name="y"))(np.stack([X, 2 * X]))))  # fmt: skip
scenario("outside_vmap_spmd_jaxpr", lambda: jax.make_jaxpr(jax.vmap(
    smap(lambda x: x * x, P("x"), P("x")), spmd_axis_name="y"))(np.stack([X, 2 * X])))  # fmt: skip
scenario("outside_vmap_spmd_mixed", lambda: rounded(jax.jit(jax.vmap(
    smap(lambda x, y: (x * y, y), P("x"), P("x")), in_axes=(0, None), out_axes=(0, None),
    spmd_axis_name="y"))(np.stack([X, 2 * X]), X)))  # fmt: skip
scenario("outside_vmap_spmd_grad", lambda: rounded(jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(
    jax.vmap(F, spmd_axis_name="y")(x)))))(np.stack([X, 2 * X]))))  # fmt: skip
scenario("outside_vmap_spmd_unchecked", lambda: rounded(jax.jit(jax.vmap(smap(
    lambda x: x * lax.psum(x.sum(), "x"), P("x"), P("x"), check_vma=False), spmd_axis_name="y"
))(np.stack([X, 2 * X]))))  # fmt: skip
scenario("outside_vmap_spmd_used", lambda: jax.vmap(
    smap(lambda x: x, P("x"), P("x")), spmd_axis_name="x")(np.stack([X, 2 * X])))  # fmt: skip
scenario("outside_vmap_spmd_used_by_jit", lambda: jax.vmap(jax.jit(
    lambda x: x, out_shardings=NamedSharding(mesh_of(), P("x"))), spmd_axis_name="x"
)(np.stack([X] * 4)))  # fmt: skip
scenario("outside_vmap_spmd_used_by_constraint", lambda: jax.vmap(
    lambda x: lax.with_sharding_constraint(x, NamedSharding(mesh_of(), P("x"))),
    spmd_axis_name="x")(np.stack([X] * 4)))  # fmt: skip
scenario("outside_remat", lambda: rounded(jax.jit(jax.grad(
    lambda x: jax.checkpoint(F)(x).sum()))(X)))  # fmt: skip
scenario("outside_remat_eager", lambda: rounded(jax.grad(lambda x: jax.checkpoint(F)(x).sum())(X)))
for _policy in ("everything_saveable", "nothing_saveable", "dots_saveable"):
    scenario(f"outside_remat_{_policy}", lambda _policy=_policy: rounded(jax.jit(jax.grad(
        lambda x: jax.checkpoint(
            smap(lambda x: jnp.sin(x @ x.T) @ x, P("x"), P("x")),
            policy=getattr(jax.checkpoint_policies, _policy))(x).sum()))(X)))  # fmt: skip
scenario("outside_remat_names", lambda: rounded(jax.jit(jax.grad(lambda x: jax.checkpoint(
    smap(lambda x: jnp.sin(jax.ad_checkpoint.checkpoint_name(jnp.sin(x), "a")), P("x"), P("x")),
    policy=jax.checkpoint_policies.save_only_these_names("a"))(x).sum()))(X)))  # fmt: skip
scenario("outside_scan", lambda: rounded(jax.jit(
    lambda x: lax.scan(lambda c, _: (F(c) / 4, c.sum()), x, None, length=3))(X)))  # fmt: skip
scenario("outside_scan_grad", lambda: rounded(jax.jit(jax.grad(lambda x: lax.scan(
    lambda c, _: (F(c) / 4, c.sum()), x, None, length=3)[0].sum()))(X)))  # fmt: skip
scenario("outside_cond", lambda: rounded(jax.jit(
    lambda x: lax.cond(x.sum() > 0, F, lambda x: x, x))(X)))  # fmt: skip
scenario("outside_while", lambda: rounded(jax.jit(lambda x: lax.while_loop(
    lambda c: c[0, 0] < 3, lambda c: smap(lambda x: x + 1, P("x"), P("x"))(c), x))(X)))  # fmt: skip
scenario("outside_eval_shape", lambda: str(jax.eval_shape(F, X)))
scenario("outside_linear_transpose", lambda: rounded(jax.linear_transpose(
    smap(lambda x: lax.psum(x * 2, "x"), P("x"), P()), X)(X[:2])))  # fmt: skip
scenario("closed_over_tracer", lambda: rounded(jax.jit(jax.grad(
    lambda w: smap(lambda x: x * w, P("x"), P("x"))(X).sum()))(np.float32(2.0))))  # fmt: skip
scenario("closed_over_tracer_eager", lambda: rounded(jax.grad(
    lambda w: smap(lambda x: x * w, P("x"), P("x"))(X).sum())(np.float32(2.0))))  # fmt: skip
scenario("closed_over_batch", lambda: rounded(jax.vmap(
    lambda w: smap(lambda x: x * w, P("x"), P("x"))(X))(np.arange(2.0, dtype=np.float32))))  # fmt: skip
scenario("integers", lambda: show(jax.jit(jax.grad(lambda x, i: smap(
    lambda x, i: x * i, P("x"), P("x"))(x, i).sum()))(X, np.ones((8, 1), np.int32))))  # fmt: skip
scenario("some_results_integers", lambda: rounded(jax.jit(jax.grad(lambda x: smap(
    lambda x: (x * x, x.astype(int)), P("x"), P("x"))(x)[0].sum()))(X)))  # fmt: skip

# Nested

nested = lambda f, ins, outs, axis: jax.shard_map(
    f, in_specs=ins, out_specs=outs, axis_names={axis}
)
program(
    "nested",
    lambda x: nested(lambda x: x * lax.psum(x.sum(), ("x", "y")), P(None, "y"), P(None, "y"), "y")(
        x
    ),
    P("x"),
    P("x"),
    X,
    axis_names={"x"},
    checks=(True,),
    eager=False,
    grad=False,
)
scenario(
    "nested_jaxpr",
    lambda: jax.make_jaxpr(
        smap(
            lambda x: nested(lambda x: x * 2, P("y"), P("y"), "y")(x),
            P("x"),
            P("x"),
            axis_names={"x"},
        )
    )(X),
)
scenario(
    "nested_eager",
    lambda: rounded(
        smap(
            lambda x: nested(lambda x: x * 2, P("y"), P("y"), "y")(x),
            P("x"),
            P("x"),
            axis_names={"x"},
        )(X)
    ),
)
scenario(
    "nested_all",
    lambda: rounded(
        jax.jit(
            smap(
                lambda x: jax.shard_map(lambda x: x * 2, in_specs=P("y"), out_specs=P("y"))(x),
                P("x"),
                P("x"),
                axis_names={"x"},
            )
        )(X)
    ),
)
scenario(
    "nested_same_axis",
    lambda: jax.jit(
        smap(
            lambda x: nested(lambda x: x, P("x"), P("x"), "x")(x), P("x"), P("x"), axis_names={"x"}
        )
    )(X),
)
# Random numbers

KEY = lambda: jax.random.key(7)
scenario(
    "key_split",
    lambda: rounded(
        jax.jit(smap(lambda k: jax.random.uniform(k[0], (3,)), P("x"), P("x")))(
            jax.random.split(KEY(), 4)
        )
    ),
)
scenario(
    "key_split_eager",
    lambda: rounded(
        smap(lambda k: jax.random.uniform(k[0], (3,)), P("x"), P("x"))(jax.random.split(KEY(), 4))
    ),
)
scenario(
    "key_replicated",
    lambda: rounded(jax.jit(smap(lambda k: jax.random.normal(k, (3,)), P(), P()))(KEY())),
)
scenario(
    "key_folded",
    lambda: rounded(
        jax.jit(
            smap(
                lambda k: jax.random.normal(jax.random.fold_in(k, lax.axis_index("x")), (3,)),
                P(),
                P("x"),
            )
        )(KEY())
    ),
)
scenario(
    "key_result",
    lambda: show(
        jax.jit(smap(lambda k: jax.random.split(k[0], 2), P("x"), P("x")))(
            jax.random.split(KEY(), 4)
        )
    ),
)
scenario(
    "key_raw",
    lambda: rounded(
        jax.jit(smap(lambda k: jax.random.uniform(k[0], (3,)), P("x"), P("x")))(
            jax.random.split(jax.random.PRNGKey(3), 4)
        )
    ),
)
scenario(
    "key_closed_over",
    lambda: rounded(
        jax.jit(lambda k: smap(lambda x: x + jax.random.uniform(k, (2, 4)), P("x"), P("x"))(X))(
            KEY()
        )
    ),
)
scenario(
    "dropout_grad",
    lambda: rounded(
        jax.jit(
            jax.grad(
                lambda x: smap(
                    lambda x, k: jnp.where(jax.random.bernoulli(k[0], 0.5, x.shape), x * x, 0),
                    (P("x"), P("x")),
                    P("x"),
                )(x, jax.random.split(KEY(), 4)).sum()
            )
        )(X)
    ),
)

# Callbacks


def collected(f, jit):
    seen = []

    def log(v):
        seen.append(np.asarray(v, np.float64).round(2).tolist())

    g = smap(lambda x: f(log, x), P("x"), P("x"))
    out = (jax.jit(g) if jit else g)(X)
    jax.effects_barrier()
    return rounded([out]), sorted({str(s) for s in seen})


for _jit in (True, False):
    _label = "jit" if _jit else "eager"
    scenario(
        f"callback_debug_{_label}",
        lambda _jit=_jit: collected(lambda log, x: (jax.debug.callback(log, x.sum()), x)[1], _jit),
    )
    scenario(
        f"callback_pure_{_label}",
        lambda _jit=_jit: collected(
            lambda log, x: jax.pure_callback(lambda v: (log(v), v * 2)[1], jax.typeof(x), x), _jit
        ),
    )
    scenario(
        f"callback_io_{_label}",
        lambda _jit=_jit: collected(
            lambda log, x: jax.experimental.io_callback(
                lambda v: (log(v), v * 2)[1], jax.typeof(x), x
            ),
            _jit,
        ),
    )

# References

program(
    "ref_inside",
    lambda x: (r := jax.new_ref(x), r.__setitem__((0,), r[0] * 2), r[...])[2],
    P("x"),
    P("x"),
    X,
    eager=False,
)
program(
    "ref_accumulated",
    lambda x: (
        r := jax.new_ref(jnp.zeros_like(x[0])),
        [r.__setitem__(..., r[...] + x[i]) for i in range(2)],
        r[...],
    )[2],
    P("x"),
    P("x"),
    X,
    eager=False,
    checks=(False,),
)


# Unreduced and reduced axes

put = lambda x, *spec, **kwargs: jax.device_put(x, P(*spec, **kwargs))
FE = lambda f, outs, **kwargs: jax.shard_map(f, out_specs=outs, **kwargs)
scenario(
    "unreduced_result",
    lambda: jax.make_jaxpr(FE(lambda x: lax.pcast(x, "x", to="unreduced"), P(unreduced={"x"})))(
        put(X, "x")
    ),
    (EXPLICIT, EXPLICIT),
)
scenario(
    "unreduced_round",
    lambda: show(
        jax.jit(
            lambda x: jax.reshard(
                FE(lambda x: lax.pcast(x, "x", to="unreduced"), P(unreduced={"x"}))(x), P()
            )
        )(put(X, "x"))
    ),
    (EXPLICIT, EXPLICIT),
)
scenario(
    "reduced_argument",
    lambda: jax.make_jaxpr(FE(lambda x: x, P(reduced={"x"})))(put(X, reduced={"x"})),
    (EXPLICIT, EXPLICIT),
)
scenario(
    "reduced_grad",
    lambda: str(
        jax.make_jaxpr(
            jax.grad(
                lambda x: jnp.sum(FE(lambda x: lax.pcast(x, "x", to="varying") * 2, P("x"))(x))
            )
        )(put(X, reduced={"x"})).out_avals
    ),
    (EXPLICIT, EXPLICIT),
)

# Memory, donation, names

scenario(
    "host_result",
    lambda: show(
        jax.jit(smap(lambda x: jax.device_put(x * 2, jax.memory.Space.Host), P("x"), P("x")))(X)
    ),
)
scenario(
    "host_argument",
    lambda: jax.make_jaxpr(smap(lambda x: x, P("x"), P("x")))(
        jax.device_put(X, jax.memory.Space.Host)
    ),
)
scenario(
    "donated",
    lambda: rounded(
        jax.jit(smap(lambda x: x * 2, P("x"), P("x")), donate_argnums=0)(
            jax.device_put(X, NamedSharding(mesh_of(), P("x")))
        )
    ),
)
scenario(
    "named_scope",
    lambda: jax.make_jaxpr(smap(lambda x: jax.named_scope("a")(jnp.sin)(x), P("x"), P("x")))(X),
)
scenario(
    "sharding_constraint",
    lambda: rounded(
        jax.jit(
            smap(
                lambda x: lax.with_sharding_constraint(x * 2, P(None, "y")),
                P("x"),
                P("x"),
                axis_names={"x"},
            )
        )(X)
    ),
)
scenario(
    "sharding_constraint_manual",
    lambda: jax.jit(smap(lambda x: lax.with_sharding_constraint(x * 2, P("x")), P("x"), P("x")))(X),
)
scenario(
    "in_out_shardings",
    lambda: show(
        jax.jit(
            smap(lambda x: x * 2, P("x"), P("x")),
            in_shardings=NamedSharding(mesh_of(), P("y")),
            out_shardings=NamedSharding(mesh_of(), P("x", "y")),
        )(X)
    ),
)
scenario("disable_jit", lambda: rounded(_disabled()))


def _disabled():
    with jax.disable_jit():
        return jax.jit(
            smap(lambda x: jax.jit(jnp.sin)(x) * lax.psum(x.sum(), "x"), P("x"), P("x"))
        )(X)


scenario("debug_nans", lambda: _nans())


def _nans():
    with jax.debug_nans(True):
        return smap(lambda x: jnp.log(x), P("x"), P("x"))(X)


scenario(
    "eager_constant_folding",
    lambda: rounded(smap(lambda x: x + jnp.arange(3.0).sum(), P("x"), P("x"))(X)),
)
scenario("weak_types", lambda: show(smap(lambda x: x * 2, P(), P())(2.0)))
scenario("bool", lambda: show(smap(lambda x: x > 0, P("x"), P("x"))(X)))
scenario(
    "bfloat16",
    lambda: rounded(
        smap(lambda x: lax.psum(x.astype(jnp.bfloat16), "x"), P("x"), P())(X).astype(np.float32)
    ),
)
scenario(
    "complex", lambda: str(jax.jit(smap(lambda x: lax.psum(x * 1j, "x"), P("x"), P()))(X)[0, 0])
)
scenario("no_arguments", lambda: show(smap(lambda: lax.axis_index("x")[None], (), P("x"))()))
scenario("no_results", lambda: show(smap(lambda x: (), P("x"), P("x"))(X)))
