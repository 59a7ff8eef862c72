"""High types: programs whose results and jaxprs must be the reference's."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import export, lax
from jax._src import core, hijax as hijax_src
from jax.experimental.hijax import (
    HiPrimitive,
    HiPspec,
    HiType,
    ShapedArray,
    VJPHiPrimitive,
    Zero,
    register_hitype,
)
from jax.interpreters import batching
from jax.sharding import PartitionSpec as P

CASES = Programs()
scenario = CASES.define


# Quantized matrices: tangents are arrays


@dataclass(frozen=True)
class QArray:
    arr: Any
    scale: Any


@dataclass(frozen=True)
class QTy(HiType):
    shape: tuple

    def lo_ty(self):
        return [
            ShapedArray(self.shape, jnp.dtype("int8")),
            ShapedArray((self.shape[0],), jnp.dtype("float32")),
        ]

    def lower_val(self, val):
        return [val.arr, val.scale]

    def raise_val(self, arr, scale):
        return QArray(arr, scale)

    def to_tangent_aval(self):
        return ShapedArray(self.shape, jnp.dtype("float32"))


register_hitype(QArray, lambda q: QTy(q.arr.shape))


class ToQ(HiPrimitive):
    def abstract_eval(self, x):
        return QTy(x.shape), set()

    def to_lojax(self, x):
        scale = jnp.max(jnp.abs(x), axis=1) / 127
        return QArray(jnp.round(x / scale[:, None]).astype(jnp.int8), scale)

    def jvp(self, primals, tangents):
        return to_q(*primals), tangents[0]

    def transpose(self, ct, x):
        return [ct]


class FromQ(HiPrimitive):
    def abstract_eval(self, q):
        return ShapedArray(q.shape, jnp.dtype("float32")), set()

    def to_lojax(self, q):
        return q.arr.astype(jnp.float32) * q.scale[:, None]

    def jvp(self, primals, tangents):
        return from_q(*primals), tangents[0]

    def transpose(self, ct, q):
        return [ct]


to_q_p, from_q_p = ToQ("to_q"), FromQ("from_q")


def to_q(x):
    return to_q_p.bind(x)


def from_q(q):
    return from_q_p.bind(q)


def matrix():
    return jnp.arange(6.0).reshape(2, 3)


def quantized():
    return to_q(matrix())


def rounded(x):
    return from_q(to_q(x))


def parts(q):
    return q.arr, q.scale


def scaled(q, n=3):
    def body(c, _):
        return to_q(from_q(c) * 2), from_q(c).sum()

    return lax.scan(body, q, None, length=n)


def loss(x):
    return jnp.sum(rounded(x) ** 2)


CASES.group(
    "q",
    eager=lambda: parts(quantized()),
    type=lambda: str(jax.typeof(quantized())),
    jit=lambda: jax.jit(rounded)(matrix()),
    jit_result=lambda: parts(jax.jit(to_q)(matrix())),
    jit_argument=lambda: jax.jit(from_q)(quantized()),
    jaxpr=lambda: str(jax.make_jaxpr(rounded)(matrix())),
    jaxpr_jit=lambda: str(jax.make_jaxpr(jax.jit(to_q))(matrix())),
    is_high=lambda: str(
        [jax.make_jaxpr(f)(matrix()).is_high for f in (rounded, jax.jit(to_q), jnp.sin)]
    ),
    eval_shape=lambda: str(jax.eval_shape(to_q, matrix())),
    grad=lambda: jax.grad(loss)(matrix()),
    grad_jit=lambda: jax.grad(jax.jit(loss))(matrix()),
    jit_grad=lambda: jax.jit(jax.grad(loss))(matrix()),
    grad_argument=lambda: jax.grad(lambda q: jnp.sum(from_q(q) ** 2))(quantized()),
    jvp=lambda: jax.jvp(rounded, (matrix(),), (matrix(),)),
    jvp_argument=lambda: jax.jvp(from_q, (quantized(),), (matrix(),)),
    vjp=lambda: jax.vjp(from_q, quantized())[1](matrix()),
    linearize=lambda: jax.linearize(rounded, matrix())[1](matrix()),
    lowered=lambda: jax.jit(from_q).lower(quantized()).as_text().count("%arg"),
    compiled=lambda: jax.jit(from_q).lower(quantized()).compile()(quantized()),
    while_loop=lambda: parts(
        lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, to_q(from_q(c[1]) * 2)), (0, quantized())
        )[1]
    ),
    fori_loop=lambda: parts(
        lax.fori_loop(0, 3, lambda i, q: to_q(from_q(q) * 2), quantized())
    ),
    cond=lambda: parts(
        lax.cond(True, lambda q: to_q(from_q(q) * 3), lambda q: q, quantized())
    ),
    switch=lambda: parts(
        lax.switch(1, [lambda q: q, lambda q: to_q(from_q(q) * 3)], quantized())
    ),
    remat=lambda: jax.grad(jax.remat(loss))(matrix()),
    constant=lambda: jax.jit(lambda y, q=quantized(): from_q(q) + y)(matrix()),
    scan_grad=lambda: jax.grad(lambda x: from_q(scaled(to_q(x))[0]).sum())(matrix()),
    while_jvp=lambda: jax.jvp(
        lambda x: from_q(lax.fori_loop(0, 3, lambda i, q: to_q(from_q(q) * 2), to_q(x))),
        (matrix(),), (matrix(),),
    ),
    cond_grad=lambda: jax.grad(
        lambda x: from_q(
            lax.cond(True, lambda q: to_q(from_q(q) * 3), lambda q: q, to_q(x))
        ).sum()
    )(matrix()),
    no_batch_rule=lambda: jax.vmap(rounded)(matrix()[None]),
)  # fmt: skip


@scenario
def q_scan():
    q, sums = scaled(quantized())
    return parts(q), sums


@scenario
def q_stacked_results():
    return parts(lax.scan(lambda c, _: (c, quantized()), jnp.zeros(()), None, length=2)[1])


@scenario
def q_custom_vjp():
    @jax.custom_vjp
    def f(q):
        return from_q(q) * 2

    f.defvjp(lambda q: (f(q), None), lambda res, ct: (ct * 7,))
    grad = jax.grad(lambda x: f(to_q(x)).sum())(matrix())
    return f(quantized()), jax.jit(f)(quantized()), grad


@scenario
def rules_of_the_wrapped_function():
    f = hijax_src.custom_vjp3(jax.custom_batching.custom_vmap(lambda x, y: jnp.sin(x) * y))
    same = f.defvjp(lambda x, y: (f(x, y), y), lambda y, g: (g * 2 * y, g * 3)) is f
    rule = f.def_vmap(lambda size, batched, x, y: (x * 10 + y, True))
    x = jnp.arange(3.0)
    over = jax.vmap(f, (0, None))
    grads = jax.grad(lambda x: over(x, 2.0).sum())(x), jax.vmap(jax.grad(f), (0, None))(x, 2.0)
    outs = f(1.0, 2.0), over(x, 2.0), jax.jit(over)(x, 2.0), jax.vmap(jax.jit(f))(x, x)
    return same, rule(3, [True, True], 1.0, 2.0), f.f(1.0, 2.0), outs, grads


@scenario
def attributes_of_custom_vjp3():
    f = hijax_src.custom_vjp3(lambda n, x: n * x, nondiff_argnames=("n",))
    before = f.symz, f.opt_remat, f.fwd, f.bwd, sorted(f.static_argnums)
    f.defvjp(lambda n, x: (n * x, None), lambda n, _, g: (g * n,), optimize_remat=True)
    g = hijax_src.custom_vjp3(lambda x: x)
    g.defvjp(lambda x: (x.value, None), lambda _, g: (2 * g,), symbolic_zeros=True)
    after = f.symz, f.opt_remat, g.symz, g.opt_remat
    return before, after, jax.grad(f, 1)(2, 3.0), jax.grad(g)(3.0)


@scenario
def rules_that_the_wrapped_function_cannot_have():
    kinds = []
    for method in ("def_vmap", "def_transpose"):
        try:
            getattr(hijax_src.custom_vjp3(lambda x: x), method)(lambda *_: None)
        except AttributeError as e:
            kinds.append(str(e))
    return kinds


@scenario
def q_custom_jvp():
    @jax.custom_jvp
    def f(q):
        return from_q(q) * 2

    f.defjvp(lambda p, t: (f(*p), t[0] * 5))
    grad = jax.grad(lambda x: f(to_q(x)).sum())(matrix())
    return f(quantized()), jax.jit(f)(quantized()), grad


# Exported programs, where values are lists of arrays


def exported(fun, *args, **kwargs):
    e = export.export(jax.jit(fun))(*args, **kwargs)
    text = [str(x) for x in (e.in_tree, e.in_avals, e.out_tree, e.out_avals, e.module_kept_var_idx)]
    lists = [jax.tree.unflatten(e.in_tree, [np.ones(a.shape, a.dtype) for a in e.in_avals])]
    out = e.call(*lists[0][0], **lists[0][1])
    return text, out, export.deserialize(e.serialize()).call(*lists[0][0], **lists[0][1])


CASES.group(
    "q_exported",
    returned=lambda: exported(to_q, matrix()),
    taken=lambda: exported(from_q, quantized()),
    type=lambda: exported(from_q, QTy((2, 3))),
    both=lambda: exported(lambda q, x: (q, x, None), quantized(), matrix()),
    array_returned=lambda: exported(lambda q, x: x, quantized(), matrix()),
    tree=lambda: exported(lambda x: {"a": to_q(x), "b": (x,)}, matrix()),
    keyword=lambda: exported(lambda x, *, q: from_q(q) + x, matrix(), q=quantized()),
    inside=lambda: exported(lambda x: from_q(to_q(x)), matrix()),
)


# References


def changed(q):
    ref = jax.new_ref(q)
    old = jax.ref.swap(ref, ..., to_q(from_q(ref[...]) * 2))
    ref[...] = to_q(from_q(ref[...]) + from_q(old))
    return ref[...]


def set_doubled(ref):
    ref[...] = to_q(from_q(ref[...]) * 2)


@scenario
def ref_argument():
    ref = jax.new_ref(quantized())
    set_doubled(ref)
    jax.jit(set_doubled)(ref)
    jax.jit(lambda: set_doubled(ref))()
    return parts(ref[...]), str(jax.typeof(ref))


CASES.group(
    "ref",
    eager=lambda: parts(changed(quantized())),
    jit=lambda: parts(jax.jit(changed)(quantized())),
    jaxpr=lambda: str(jax.make_jaxpr(lambda q: set_doubled(jax.new_ref(q)))(quantized())),
    freeze=lambda: parts(jax.freeze(jax.new_ref(quantized()))),
    freeze_jit=lambda: parts(jax.jit(lambda q: jax.freeze(jax.new_ref(q)))(quantized())),
    text=lambda: repr(jax.new_ref(quantized())),
)


# Tuples: tangents are tuples, too


@dataclass(frozen=True)
class Tup:
    vals: tuple


@dataclass(frozen=True)
class TupTy(HiType):
    tys: tuple

    def __repr__(self):
        return "Tup{" + ",".join(a.str_short() for a in self.tys) + "}"

    def lo_ty(self):
        return list(self.tys)

    def lower_val(self, val):
        return list(val.vals)

    def raise_val(self, *vals):
        return Tup(vals)

    def to_tangent_aval(self):
        return TupTy(tuple(t.to_tangent_aval().strip_weak_type() for t in self.tys))

    def to_ct_aval(self):
        return self.to_tangent_aval()

    def vspace_zero(self):
        return Tup(tuple(jnp.zeros(t.shape, t.dtype) for t in self.tys))

    def vspace_add(self, x, y):
        return tup(*[item(x, i) + item(y, i) for i in range(len(self.tys))])

    def _map(self, method, size, spec):
        return TupTy(tuple(getattr(t, method)(size, s) for t, s in zip(self.tys, spec.axes)))

    def dec_rank(self, size, spec):
        return self._map("dec_rank", size, spec)

    def inc_rank(self, size, spec):
        return self._map("inc_rank", size, spec)

    def leading_axis_spec(self):
        return TupSpec((0,) * len(self.tys))

    def shard(self, mesh, manual_axes, check_vma, spec):
        parts = zip(self.tys, spec.specs)
        return TupTy(tuple(t.shard(mesh, manual_axes, check_vma, s) for t, s in parts))

    def unshard(self, mesh, check_vma, spec):
        parts = zip(self.tys, spec.specs)
        return TupTy(tuple(t.unshard(mesh, check_vma, s) for t, s in parts))


@dataclass(frozen=True)
class TupSpec(hijax_src.MappingSpec):
    axes: tuple


@dataclass(frozen=True)
class TupP(HiPspec):
    specs: tuple

    def to_lo(self):
        return self.specs

    def to_tangent_spec(self):
        return self

    def to_ct_spec(self):
        return self


register_hitype(Tup, lambda t: TupTy(tuple(jax.typeof(x) for x in t.vals)))


class MakeTup(HiPrimitive):
    def abstract_eval(self, *avals):
        return TupTy(avals), set()

    def to_lojax(self, *vals):
        return Tup(vals)

    def jvp(self, primals, tangents):
        zeros = [
            jnp.zeros(t.aval.shape, t.aval.dtype) if isinstance(t, Zero) else t for t in tangents
        ]
        return tup(*primals), tup(*zeros)

    def transpose(self, ct, *vals):
        return [item(ct, i) for i in range(len(vals))]


class Item(HiPrimitive):
    def abstract_eval(self, t, *, i):
        return t.tys[i], set()

    def to_lojax(self, t, *, i):
        return t.vals[i]

    def jvp(self, primals, tangents, *, i):
        return item(*primals, i), item(*tangents, i)

    def transpose(self, ct, t, *, i):
        zeros = [jnp.zeros(a.shape, a.dtype) for a in t.aval.tys]
        return [tup(*[ct if j == i else z for j, z in enumerate(zeros)])]


make_tup_p, item_p = MakeTup("make_tup"), Item("item")
batching.primitive_batchers[make_tup_p] = lambda args, dims: (tup(*args), TupSpec(tuple(dims)))
batching.primitive_batchers[item_p] = lambda args, dims, *, i: (
    item(args[0], i),
    dims[0].axes[i],
)


def tup(*vals):
    return make_tup_p.bind(*vals)


def item(t, i):
    return item_p.bind(t, i=i)


def one_device():
    return jax.make_mesh((1,), ("x",))


def a_tup():
    return tup(jnp.arange(3.0), jnp.ones(3) * 2)


CASES.group(
    "tup",
    vmap=lambda: jax.vmap(lambda x: item(tup(x, x * 2), 1))(jnp.arange(3.0)),
    vmap_argument=lambda: jax.vmap(lambda t: item(t, 0), in_axes=(TupSpec((0, 0)),), axis_size=3)(
        a_tup()
    ),
    vmap_result=lambda: (
        jax.vmap(lambda x: tup(x, x), out_axes=TupSpec((0, 0)), axis_size=3)(jnp.arange(3.0)).vals
    ),
    vmap_partly=lambda: (
        jax.vmap(lambda x: tup(x, jnp.ones(())), out_axes=TupSpec((0, None)), axis_size=3)(
            jnp.arange(3.0)
        ).vals
    ),
    vmap_wrong_result=lambda: jax.vmap(lambda x: tup(x, x), axis_size=3)(jnp.arange(3.0)),
    vmap_no_size=lambda: jax.vmap(lambda t: item(t, 0), in_axes=(TupSpec((0, 0)),))(a_tup()),
    vmap_int=lambda: jax.vmap(lambda t: item(t, 0))(a_tup()),
    grad_unused=lambda: jax.grad(lambda t: 1.0)(tup(3.0, 4.0)).vals,
    shard_map=lambda: jax.jit(
        jax.shard_map(
            lambda t: item(t, 0),
            mesh=one_device(),
            in_specs=TupP((P("x"), P("x"))),
            out_specs=P("x"),
        )
    )(a_tup()),
    shard_map_result=lambda: (
        jax.jit(
            jax.shard_map(
                lambda t: tup(item(t, 1), item(t, 0)),
                mesh=one_device(),
                in_specs=TupP((P("x"), P("x"))),
                out_specs=TupP((P("x"), P("x"))),
            )
        )(a_tup()).vals
    ),
    scan_no_length=lambda: lax.scan(lambda c, t: (c, item(t, 0)), 0.0, a_tup()),
)


# Operations on pytrees with derivatives of their own


class Square(VJPHiPrimitive):
    def __init__(self, aval, factor=1):
        self.in_avals, self.out_aval, self.params = (aval,), aval, dict(factor=factor)
        super().__init__()

    def expand(self, x):
        return x * x * self.factor

    def vjp_fwd(self, nzs_in, x):
        return self(x), x

    def vjp_bwd_retval(self, x, g):
        return (2 * x * g * self.factor,)

    def jvp(self, primals, tangents):
        return self(*primals), tangents[0] * 7

    def batch(self, axis_data, args, dims):
        return Square(jax.typeof(args[0]), self.factor)(*args), dims[0]


def square(x):
    return Square(jax.typeof(x))(x)


CASES.group(
    "square",
    call=lambda: square(jnp.array(3.0)),
    jit=lambda: jax.jit(square)(3.0),
    jaxpr=lambda: str(jax.make_jaxpr(square)(3.0)),
    grad=lambda: jax.grad(square)(3.0),
    grad_jit=lambda: jax.grad(jax.jit(square))(3.0),
    jvp=lambda: jax.jvp(square, (jnp.array(3.0),), (jnp.array(1.0),)),
    vmap=lambda: jax.vmap(square)(jnp.arange(3.0)),
    vmap_axes=lambda: jax.vmap(square, 1, 1)(jnp.arange(6.0).reshape(2, 3)),
    vmap_jit=lambda: jax.vmap(jax.jit(square))(jnp.arange(3.0)),
    vmap_grad=lambda: jax.vmap(jax.grad(square))(jnp.arange(3.0)),
    scan_grad=lambda: jax.grad(
        lambda x: lax.scan(lambda c, _: (square(c), None), x, None, length=2)[0]
    )(2.0),
    cond_grad=lambda: jax.grad(lambda x: lax.cond(True, square, square, x))(2.0),
)


class TwoResults(VJPHiPrimitive):
    def __init__(self, a, b):
        self.in_avals, self.out_aval, self.params = ({"a": a}, b), (a, {"o": b}), {}
        super().__init__()

    def expand(self, d, b):
        return d["a"] * b, {"o": b + 1}

    def vjp_fwd(self, nzs_in, d, b):
        return self(d, b), (d, b)

    def vjp_bwd_retval(self, res, g):
        d, b = res
        g0 = 0.0 if isinstance(g[0], Zero) else g[0]
        g1 = 0.0 if isinstance(g[1]["o"], Zero) else g[1]["o"]
        return {"a": g0 * b}, g0 * d["a"] + g1

    def batch_dim_rule(self, axis_data, dims):
        return 0, {"o": 0}


def two(a, b):
    return TwoResults(jax.typeof(a), jax.typeof(b))({"a": a}, b)


X = np.arange(2.0, dtype=np.float32) + 2
CASES.group(
    "two",
    call=lambda: two(jnp.array(2.0), jnp.array(3.0)),
    jit=lambda: jax.jit(two)(2.0, 3.0),
    grad=lambda: jax.grad(lambda a, b: two(a, b)[0], (0, 1))(2.0, 3.0),
    grad_one=lambda: jax.grad(lambda a, b: two(a, b)[1]["o"] * 2, 1)(2.0, 3.0),
    grad_jit=lambda: jax.jit(jax.grad(lambda a, b: two(a, b)[0], (0, 1)))(2.0, 3.0),
    vmap=lambda: jax.vmap(two)(X, X),
    vmap_vmap=lambda: jax.vmap(jax.vmap(two))(X[None], X[None]),
    vmap_grad=lambda: jax.grad(lambda a, b: jax.vmap(two)(a, b)[0].sum(), (0, 1))(X, X),
    vmap_axes=lambda: jax.vmap(two, (1, 1))(X[None], X[None]),
)


class Linearized(VJPHiPrimitive):
    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval,), aval, {}
        super().__init__()

    def expand(self, x):
        return jnp.sin(x)

    def lin(self, nzs_in, x):
        return self(x), jnp.cos(x)

    def linearized(self, res, t):
        return res * t

    def transpose(self, ct, accum):
        accum.accum(3 * ct)


CASES.group(
    "linearized",
    apply=lambda: jax.linearize(Linearized(jax.typeof(1.0)), 1.0)[1](2.0),
    jit=lambda: jax.jit(lambda x: jax.linearize(Linearized(jax.typeof(x)), x)[1](x))(1.0),
    transpose=lambda: jax.linear_transpose(Linearized(jax.typeof(1.0)), 1.0)(jnp.array(2.0)),
)


# Boxes and logs


def new_box(x):
    return hijax_src.Box(jnp.asarray(x))


@jax.jit
def add_to(box, x):
    box.set(box.get() + x)


@scenario
def box_eager():
    box = new_box(jnp.arange(3.0))
    first = box.get()
    box.set((jnp.ones(2), {"a": jnp.zeros(1)}))
    return first, box.get(), str(core.cur_qdd(box)), str(jax.typeof(box))


@scenario
def box_jit():
    box = new_box(1.0)
    add_to(box, 2.0)
    add_to(box, 3.0)
    add_to(box, jnp.ones(2))
    return box.get()


CASES.group(
    "box",
    jaxpr=lambda: str(jax.make_jaxpr(add_to)(new_box(1.0), 2.0)),
    qdds=lambda: str(
        [
            getattr(jax.make_jaxpr(lambda b: b.set(jnp.ones(2)))(new_box(1.0)), name)
            for name in ("in_aval_qdds", "final_aval_qdds")
        ]
    ),
    made_inside=lambda: jax.jit(lambda x: hijax_src.Box(x * 2).get())(jnp.array(3.0)),
    made_inside_jaxpr=lambda: str(jax.make_jaxpr(lambda x: hijax_src.Box(x * 2).get())(3.0)),
)


def _after(run):
    """A program that returns what a box holds after `run`, which gets the box."""

    def program():
        box = new_box(2.0)
        out = run(box)
        return out, box.get()

    return program


def _steps(box):
    def body(c, x):
        box.set(box.get() + x)
        return c, box.get()

    return lax.scan(body, jnp.zeros(()), jnp.arange(3.0))[1]


def _doubled(box):
    lax.while_loop(lambda c: c < 3, lambda c: (box.set(box.get() * 2), c + 1)[1], 0)


CASES.group(
    "box_after",
    scan=_after(_steps),
    scan_jit=_after(jax.jit(_steps)),
    while_loop=_after(_doubled),
    while_loop_jit=_after(jax.jit(_doubled)),
    cond=_after(lambda b: lax.cond(True, lambda: b.set(4.0), lambda: b.set(5.0))),
    cond_jit=_after(
        lambda b: jax.jit(lambda p: lax.cond(p, lambda: b.set(4.0), lambda: b.set(5.0)))(False)
    ),
    closed_over=_after(lambda b: jax.jit(lambda x: b.set(b.get() + x))(jnp.ones(2))),
    structure=_after(lambda b: jax.jit(lambda b: b.set({"x": b.get(), "y": (1, 2)}))(b)),
    donated=_after(lambda b: jax.jit(lambda b: b.set(b.get() * 2), donate_argnums=0)(b)),
    stopped_grad=_after(
        lambda b: jax.grad(jax.jit(lambda x: (b.set(lax.stop_gradient(x)), x * b.get())[1]))(3.0)
    ),
)


def _logged(log):
    def step(c, x):
        log.append("x", x)
        return c + x, None

    return lax.scan(step, jnp.zeros(()), jnp.arange(3.0))[0]


def _written(run):
    def program():
        log = hijax_src.Log()
        return run(log), log.read()

    return program


CASES.group(
    "log",
    eager=_written(
        lambda log: (log.append("a", jnp.ones(2)), log.extend({"b": [jnp.ones(1)]}))[2:]
    ),
    jit=_written(lambda log: jax.jit(lambda x: (log.append("a", x), x)[1])(jnp.ones(2))),
    argument=_written(
        lambda log: jax.jit(lambda log, x: (log.append("a", x), x)[1])(log, jnp.ones(2))
    ),
    scan=_written(_logged),
    scan_jit=_written(jax.jit(_logged)),
)
