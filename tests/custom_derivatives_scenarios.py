"""Programs with rules of derivatives of their own: see op_cases.py."""

import numpy as np
from op_cases import Programs
from transform_functions import FUNCTIONS, F, cube, cv, poly, total, v3, x1

import jax
import jax.ad_checkpoint
from jax import lax

CASES = Programs()
scenario, add = CASES.define, CASES.group


def symbolic_jvp():
    seen = []
    f = jax.custom_jvp(lambda x, y: lax.mul(x, y))

    def rule(primals, tangents):
        seen.append([type(t).__name__ == "SymbolicZero" for t in tangents])
        (x, y), (dx, dy) = primals, tangents
        out = lax.mul(x, y)
        return out, lax.mul(dx, y) if type(dy).__name__ == "SymbolicZero" else lax.mul(x, dy)

    f.defjvp(rule, symbolic_zeros=True)
    return jax.grad(f)(x1, F(2)), jax.grad(f, 1)(x1, F(2)), str(seen)


def symbolic_vjp():
    seen = []
    f = jax.custom_vjp(lambda x, y: (lax.mul(x, y), x))

    def fwd(x, y):
        seen.append((x.perturbed, y.perturbed))
        return (lax.mul(x.value, y.value), x.value), (x.value, y.value)

    def bwd(res, cts):
        seen.append([type(ct).__name__ == "SymbolicZero" for ct in cts])
        return lax.mul(res[1], cts[0]), None

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    grads = jax.grad(lambda x: f(x, F(2))[0])(x1), jax.jit(jax.grad(lambda x: f(x, F(2))[0]))(x1)
    return grads, jax.vmap(jax.grad(lambda x: f(x, F(2))[0]))(v3), str(seen)


def defjvps():
    f = jax.custom_jvp(poly)
    f.defjvps(lambda t, out, x, y: lax.mul(t, F(10)), None)
    return jax.grad(f, (0, 1))(x1, F(2)), jax.jvp(f, (x1, x1), (x1, x1))


def nondiff_jvp():
    f = jax.custom_jvp(lambda g, x, n: lax.mul(g(x), float(n)), nondiff_argnums=(0, 2))
    f.defjvp(lambda g, n, p, t: (f(g, p[0], n), lax.mul(t[0], F(n))))
    return jax.grad(f, 1)(lax.sin, x1, 3), jax.jit(lambda x: jax.grad(f, 1)(lax.sin, x, 3))(x1)


def nondiff_vjp():
    f = jax.custom_vjp(lambda g, x, n: lax.mul(g(x), float(n)), nondiff_argnums=(0, 2))
    f.defvjp(lambda g, x, n: (f(g, x, n), x), lambda g, n, x, ct: (lax.mul(ct, F(n)),))
    return jax.grad(f, 1)(lax.sin, x1, 3), jax.vmap(lambda x: jax.grad(f, 1)(lax.sin, x, 3))(v3)


def jitted_jvp_rule():
    f = jax.custom_jvp(lambda x: (lax.sin(x), x))
    f.defjvp(jax.jit(lambda p, t: ((lax.sin(p[0]), p[0]), (lax.mul(lax.cos(p[0]), t[0]), t[0]))))
    g = lambda x: lax.mul(*f(x))
    return jax.value_and_grad(g)(x1), jax.jit(jax.value_and_grad(g))(x1), jax.hessian(g)(x1)


def rule_by_jvp(fun):
    """Rules that push tangents through loops and branches together with the values."""

    def run():
        f = jax.custom_jvp(fun)
        f.defjvp(lambda p, t: jax.jvp(fun, p, t))
        outs = [jax.jvp(f, (x1,), (F(2),)), jax.linearize(f, x1)[1](F(2)), jax.linearize(f, x1)[0]]
        if fun is not FUNCTIONS["while_jitted"]:
            outs += [
                jax.value_and_grad(f)(x1),
                jax.jit(jax.value_and_grad(f))(x1),
                jax.hessian(f)(x1),
            ]
            outs += [jax.vmap(jax.value_and_grad(f))(v3)]
        return outs

    return run


def closing_over(make):
    """Rules that close over traced values, under every transformation of these."""
    scanned = lambda x: lambda y: lax.scan(lambda c, _: (make(x)(c), None), y, None, length=3)[0]
    return [
        jax.vmap(lambda x: jax.grad(make(x))(F(2)))(v3),
        jax.grad(lambda x: jax.grad(make(x))(F(2)))(x1),
        jax.jit(lambda x: jax.grad(make(x))(F(2)))(x1),
        jax.jit(lambda x: jax.grad(scanned(x))(F(2)))(x1),
        jax.jit(lambda x: jax.grad(jax.checkpoint(make(x)))(F(2)))(x1),
    ]


def closed_jvp(x):
    f = jax.custom_jvp(lambda y: lax.mul(y, x))
    f.defjvp(lambda p, t: (lax.mul(p[0], x), lax.mul(t[0], x)))
    return f


def closed_vjp(x):
    f = jax.custom_vjp(lambda y: lax.mul(y, x))
    f.defvjp(lambda y: (lax.mul(y, x), x), lambda r, g: (lax.mul(g, r),))
    return f


@jax.custom_gradient
def custom_gradient_fun(x, y):
    return lax.mul(x, y), lambda ct: (lax.mul(ct, F(7)), lax.mul(ct, lax.sin(x)))


def bad_jvp(rule):
    f = jax.custom_jvp(lambda x: lax.sin(x))
    f.defjvp(rule)
    return lambda: jax.grad(f)(x1)


def bad_vjp(fwd, bwd):
    f = jax.custom_vjp(lambda x, y: lax.mul(x, y))
    f.defvjp(fwd, bwd)
    return lambda: jax.grad(f)(x1, F(2))


ok_fwd = lambda x, y: (lax.mul(x, y), (x, y))
ok_bwd = lambda r, g: (lax.mul(g, r[1]), lax.mul(g, r[0]))
add(
    "custom",
    symbolic_jvp=symbolic_jvp, symbolic_vjp=symbolic_vjp, defjvps=defjvps,
    nondiff_jvp=nondiff_jvp, nondiff_vjp=nondiff_vjp, jitted_jvp_rule=jitted_jvp_rule,
    **{f"jvp_rule_{k}": rule_by_jvp(FUNCTIONS[k]) for k in ("scan", "cond", "fori", "remat", "jitted_jitted", "scan_cond", "while_jitted", "vmap_scan")},
    closure_jvp=lambda: closing_over(closed_jvp),
    closure_vjp=lambda: closing_over(closed_vjp),
    closure_vjp_error=lambda: jax.grad(lambda x: lax.scan(lambda c, _: (closed_vjp(x)(c), None), F(2), None, length=3)[0])(x1),
    vjp=lambda: [jax.value_and_grad(cv)(x1), jax.grad(jax.jit(cv))(x1), jax.jit(jax.grad(cv))(x1), jax.vmap(jax.grad(cv))(v3)],
    vjp_scan=lambda: jax.value_and_grad(lambda x: lax.scan(lambda c, y: (cv(lax.mul(c, y)), cv(y)), x, v3)[0])(x1),
    vjp_cond=lambda: jax.vmap(jax.value_and_grad(lambda x: lax.cond(lax.gt(x, F(0)), cv, cube, x)))(v3),
    vjp_remat=lambda: [jax.grad(jax.checkpoint(cv))(x1), jax.vmap(jax.grad(jax.checkpoint(cv)))(v3)],
    vjp_vmap_jit=lambda: jax.grad(lambda x: total(jax.jit(jax.vmap(cv))(x)))(v3),
    vjp_unbatched=lambda: jax.vmap(jax.grad(lambda y, x: lax.mul(cv(y), x)), (None, 0))(x1, v3),
    vjp_hessian=lambda: [jax.grad(jax.grad(cv))(x1), jax.jacfwd(jax.grad(cv))(x1), jax.hessian(cv)(x1)],
    vjp_while=lambda: lax.while_loop(lambda x: lax.gt(x, F(0.5)), cv, x1),
    vjp_jvp_error=lambda: jax.jvp(cv, (x1,), (x1,)),
    vjp_jit_jvp_error=lambda: jax.jit(lambda x: jax.jvp(cv, (x,), (x,)))(x1),
    vjp_jacfwd_error=lambda: jax.jacfwd(cv)(x1),
    vjp_linearize_error=lambda: jax.linearize(cv, x1)[1](x1),
    jvp_no_rule=lambda: jax.custom_jvp(cube)(x1),
    vjp_no_rule=lambda: jax.custom_vjp(cube)(x1),
    jvp_bad_pair=bad_jvp(lambda p, t: p[0]),
    jvp_bad_tree=bad_jvp(lambda p, t: (p[0], (t[0], t[0]))),
    jvp_bad_primal_tree=bad_jvp(lambda p, t: ((p[0],), (t[0],))),
    jvp_bad_shape=bad_jvp(lambda p, t: (p[0], v3)),
    jvp_bad_dtype=bad_jvp(lambda p, t: (p[0], np.float16(1))),
    vjp_bad_fwd=bad_vjp(lambda x, y: lax.mul(x, y), ok_bwd),
    vjp_bad_fwd_tree=bad_vjp(lambda x, y: ((x, y), x), ok_bwd),
    vjp_bad_bwd_length=bad_vjp(ok_fwd, lambda r, g: (g,)),
    vjp_bad_bwd_shape=bad_vjp(ok_fwd, lambda r, g: (v3, None)),
    vjp_bad_bwd_scalar=bad_vjp(ok_fwd, lambda r, g: g),
    vjp_bad_args=lambda: jax.custom_vjp(cube)(object()),
    vjp_none=bad_vjp(ok_fwd, lambda r, g: (g, None)),
    vjp_residual_tree=bad_vjp(lambda x, y: (lax.mul(x, y), {"a": (x, None), "b": 3.0}), lambda r, g: (lax.mul(g, r["b"]), None)),
    vjp_nondiff_tracer=lambda: jax.grad(lambda x: jax.custom_vjp(lambda n, y: y, nondiff_argnums=(0,))(x, x))(x1),
    vjp_kwargs=lambda: (lambda f: (f.defvjp(ok_fwd, ok_bwd), jax.grad(lambda x: f(y=F(2), x=x))(x1))[1])(jax.custom_vjp(lambda x, y: lax.mul(x, y))),
    vjp_default=lambda: (lambda f: (f.defvjp(ok_fwd, ok_bwd), jax.grad(f)(x1))[1])(jax.custom_vjp(lambda x, y=2.0: lax.mul(x, y))),
    vjp_int_argument=lambda: (lambda f: (f.defvjp(lambda n, x: (lax.mul(x, x), x), lambda r, g: (None, lax.mul(g, r))), jax.grad(f, 1)(3, x1))[1])(jax.custom_vjp(lambda n, x: lax.mul(x, x))),
    vjp_int_result=lambda: (lambda f: (f.defvjp(lambda x: ((x, 3), x), lambda r, g: (lax.mul(g[0], r),)), jax.grad(lambda x: f(x)[0])(x1))[1])(jax.custom_vjp(lambda x: (x, 3))),
    gradient=lambda: [jax.grad(custom_gradient_fun, (0, 1))(x1, F(2)), jax.jit(jax.grad(custom_gradient_fun))(x1, F(2)), jax.vmap(jax.grad(custom_gradient_fun, 1))(v3, v3)],
    jvp_float0=lambda: (lambda f: (f.defjvp(lambda p, t: (p[0], t[0])), jax.grad(f)(x1, 3))[1])(jax.custom_jvp(lambda x, n: x)),
)  # fmt: skip
