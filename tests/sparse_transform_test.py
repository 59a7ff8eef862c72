"""`sparsify`: functions applied to sparse arrays do what they do with dense ones."""

import functools
import operator

import numpy as np
from absl.testing import absltest, parameterized

import jax
import jax.numpy as jnp
import jax.scipy.special
from jax import lax
from jax._src import test_util as jtu
from jax.experimental import sparse
from jax.experimental.sparse import transform

jax.config.parse_flags_with_absl()


def _dense(*shape):
    rng = np.random.default_rng(sum(shape))
    return (rng.integers(1, 9, shape) * (rng.random(shape) < 0.5)).astype(np.float32)


def _bcoo(x, **layout):
    return sparse.BCOO.fromdense(x, **layout)


_A, _B, _S = _dense(3, 4), _dense(4, 3).T, _dense(4, 4)
_V = np.arange(4, dtype=np.float32)
_X = np.arange(12, dtype=np.float32).reshape(3, 4)
_M, _N, _Q = _bcoo(_A), _bcoo(_B, nse=8), _bcoo(_S)
_ROWS = _bcoo(_A, n_batch=1)
_WIDE = _bcoo(_A, n_dense=1)
_CUBE = _bcoo(_dense(2, 3, 4))
_COMPLEX = _bcoo(_A * np.complex64(1 + 2j))
_INTS = _bcoo(_A.astype(np.int32))
# Two of its elements are at the same place.
_TWICE = sparse.BCOO(
    (np.array([0.45, -0.9, 0.75], np.float32), np.array([[0, 1], [0, 1], [2, 2]])), shape=(3, 4)
)
_R, _R2 = sparse.BCSR.fromdense(_A), sparse.BCSR.fromdense(_B, nse=8)
_R3 = sparse.BCSR.fromdense(_dense(2, 3, 4), n_batch=1)
_RTWICE = sparse.BCSR((_TWICE.data, np.array([1, 1, 2]), np.array([0, 2, 2, 3])), shape=(3, 4))

# The result of each is sparse; operands after the function.
_ELEMENTWISE = [
    *[
        (f, _bcoo(_A / 10))
        for f in (
            lax.abs, lax.asin, lax.asinh, lax.atan, lax.atanh, lax.bessel_i1e, lax.cbrt, lax.ceil,
            lax.erf, lax.erf_inv, lax.expm1, lax.floor, lax.log1p, lax.neg, lax.round, lax.sign,
            lax.sin, lax.sinh, lax.square, lax.stop_gradient, lax.tan, lax.tanh, jnp.copy,
            jax.scipy.special.erfinv,
        )
    ],
    (lax.sqrt, _M, _ROWS, _WIDE, _R),
    (lax.abs, _TWICE, _RTWICE),
    (lax.neg, _TWICE, _RTWICE),
    *[(f, _COMPLEX) for f in (lax.conj, lax.real, lax.imag)],
    (lambda m: m**3, _M, _TWICE),
    (lambda m: (4 * m).astype(jnp.int32), _M, _TWICE, _RTWICE),
    (lambda m: m.astype(jnp.float32), _INTS),
    (lambda m: 2 * m, _M, _INTS, _R),
    (lambda m: m / 2, _M, _TWICE, _R, _INTS),
    (lambda m: m * m, _M, _TWICE, _R),
    (lambda m: m + 3 * m, _M, _TWICE, _RTWICE, _INTS),
    (lambda m: m - 3 * m, _M),
    (lambda m: m * _X, _M, _ROWS, _WIDE, _R),
    (lambda m: _V * m, _M, _ROWS, _R),
    (lambda m: m / (_X + 1), _M, _R),
]  # fmt: skip

_JOINED = [
    (jnp.add, (_M, _N), (_R, _R2), (_R, _N)),
    (jnp.subtract, (_M, _N)),
    (jnp.multiply, (_M, _N), (_R, _R2), (_ROWS, _N)),
    (lambda a, b: jnp.concatenate([a, b]), (_M, _N), (_R, _R2), (_R3, _R3)),
    (lambda a, b: jnp.concatenate([a, b], 1), (_M, _N)),
    (lambda a, b: jnp.stack([a, b]), (_M, _N), (_R, _R2), (_R3, _R3)),
    (lambda a, b: jnp.stack([a, b], 1), (_M, _N)),
    (lambda a, b: a @ b.T, (_M, _N)),
]

_SHAPES = [
    (lambda m: m.T, _M, _Q),
    (lambda m: jnp.transpose(m, (2, 0, 1)), _CUBE),
    (lambda m: m.reshape(2, 6), _M),
    (jnp.ravel, _M),
    (lambda m: m.sum(0), _M, _ROWS, _R),
    (lambda m: m.sum(1, keepdims=True), _M, _R),
    (lambda m: m.mean(0), _M),
    (lambda m: jnp.squeeze(m[None], 0), _M),
    (lambda m: m[1:, ::2], _M, _ROWS),
    (lambda m: m[::-1], _M),
    (lambda m: m[1], _M),
    (lambda m: jnp.flip(m), _M),
    (lambda m: m[:, None], _M),
    (lambda m: lax.dynamic_slice(m, (1, 1), (2, 2)), _M),
    (lambda m: jnp.broadcast_to(m, (2, 3, 4)), _M, _R),
    (lambda m: lax.broadcast_in_dim(m, (3, 1, 4), (0, 2)), _M),
    (lambda m: jnp.tile(m, (2, 1)), _M),
    (lambda m: [2 * row for row in m], _M, _ROWS),
    (lambda m: lax.unstack(m, 1), _M),
    (lambda m: lax.optimization_barrier([m, 2 * m]), _M, _R),
]

_DENSE = [
    (jnp.sum, _M, _TWICE, _R, _bcoo(_V)),
    (sparse.todense, _M, _R),
    (lambda m: m @ _V, _M, _R, _TWICE, _CUBE),
    (lambda m: m + _X, _M, _R),
    (lambda m: _X.T @ m, _M),
    (lambda m: jnp.tensordot(m, _X, 2), _M),
    (lambda m: jnp.einsum("ij,kj->ik", m, _X), _M),
    (lambda m: jnp.convolve(sparse.todense(m), _V), _bcoo(_V)),
    (lambda m: sum(row.sum() for row in m), _M),
    (lambda m: lax.fori_loop(0, 3, lambda i, x: m @ x, _V), _Q),
    (lambda m: lax.map(lambda x: m @ x, jnp.ones((2, 4))), _M, _R),
    (lambda m: lax.scan(lambda c, x: (c + x, m @ c), _V, jnp.arange(3.0)), _M),
]


@jax.custom_jvp
def _triple(x):
    return 3 * x


_triple.defjvp(lambda p, t: (_triple(*p), 3 * t[0]))

_CONTROL_FLOW = [
    (lambda m: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, m))[1],
     _M, _R),
    (lambda m: lax.fori_loop(0, 3, lambda i, m: m * 2, m), _M, _R),
    # The body keeps the elements at their places, in another order.
    (lambda m: lax.fori_loop(0, 3, lambda i, m: m.T, m), _Q),
    (lambda m: lax.cond(True, lambda m: m * 2, lambda m: -m, m), _M, _R),
    (lambda m: lax.switch(2, [lambda m: m, lambda m: m * 2, lambda m: m * 3], m), _M),
    (lambda m: lax.scan(lambda c, x: (c * x, c), m, jnp.arange(1.0, 4.0)), _M, _R),
    (lambda m: lax.scan(lambda c, x: (c, 2 * x), 0.0, m)[1], _ROWS, _R3),
    (lambda m: jax.jit(lambda m: (m * 2, m))(m), _M, _R),
    (jax.checkpoint(lambda m: jnp.sin(m) * 2), _M, _R),
    (_triple, _M, _R),
    (lambda m: jax.vmap(lambda x: 2 * x)(m), _M),
]  # fmt: skip


def _todense(tree):
    is_leaf = lambda x: isinstance(x, sparse.JAXSparse)
    return jax.tree.map(lambda x: x.todense() if is_leaf(x) else x, tree, is_leaf=is_leaf)


class SparsifyTest(jtu.JaxTestCase):
    def _check(self, programs, result):
        """The programs with sparse and dense operands, in one compilation."""
        programs = [(f, x if isinstance(x, tuple) else (x,)) for f, *xs in programs for x in xs]

        @functools.partial(jax.jit, static_argnums=1)
        def run(operands, use_tracer):
            funs = [sparse.sparsify(f, use_tracer) for f, _ in programs]
            return [f(*x) for f, x in zip(funs, operands)]

        @jax.jit
        def expected(operands):
            return [f(*_todense(x)) for (f, _), x in zip(programs, operands)]

        operands = [x for _, x in programs]
        want = expected(operands)
        for use_tracer in (False, True):
            got = run(operands, use_tracer)
            for x in jax.tree.leaves(got, is_leaf=lambda x: isinstance(x, sparse.JAXSparse)):
                self.assertIsInstance(x, result)
            got = _todense(got)
            self.assertEqual(jax.tree.structure(got), jax.tree.structure(want))
            for i, (x, y) in enumerate(zip(got, want)):
                with self.subTest(program=i, use_tracer=use_tracer):
                    self.assertAllClose(x, y, atol=1e-5, rtol=1e-5)

    @parameterized.named_parameters(
        ("elementwise", _ELEMENTWISE, sparse.JAXSparse),
        ("joined", _JOINED, sparse.JAXSparse),
        ("shapes", _SHAPES, sparse.JAXSparse),
        ("dense", _DENSE, jax.Array),
        ("control_flow", _CONTROL_FLOW, sparse.JAXSparse),
    )
    def test_as_dense(self, programs, result):
        self._check(programs, result)

    def test_formats(self):
        f = sparse.sparsify(lambda m: (jnp.sin(m), m + m, m * m))
        for m in (_M, _R, _WIDE):
            for out in f(m):
                self.assertIs(type(out), type(m))
                self.assertEqual((out.n_batch, out.n_dense, out.nse), (m.n_batch, m.n_dense, m.nse))
                self.assertEqual(out.unique_indices, m.unique_indices)
        # Arrays with the same indices are added without new ones.
        self.assertEqual(sparse.sparsify(jnp.add)(_M, _N).nse, _M.nse + _N.nse)
        # A loop gives only the promises that its body keeps.
        out = sparse.sparsify(lambda m: lax.fori_loop(0, 2, lambda i, m: m.T, m))(_Q)
        self.assertFalse(out.indices_sorted)
        self.assertTrue(out.unique_indices)

    @parameterized.parameters(False, True)
    def test_trees(self, use_tracer):
        sparsify = functools.partial(sparse.sparsify, use_tracer=use_tracer)
        f = sparsify(lambda d, *, y: {"a": d["x"] * y, "b": (d["z"], None, 3)})
        out = f({"x": _M, "z": _V}, y=2.0)
        self.assertArraysEqual(out["a"].todense(), jnp.asarray(2 * _A))
        self.assertArraysEqual(out["b"][0], jnp.asarray(_V))
        self.assertIsNone(out["b"][1])
        self.assertEqual(out["b"][2], 3)
        # Constants of the function may be sparse.
        self.assertArraysEqual(sparsify(lambda x: _M @ x)(_V), jnp.asarray(_A @ _V))
        self.assertEqual(sparsify(lambda m: m)(_M).nse, _M.nse)

    def test_tracer(self):
        seen = []

        def f(m, v, *, n):
            seen.append((m, v))
            return v.sum() * m + n if float(v.sum()) < 0 else m * 2 + n

        out = sparse.sparsify(f, use_tracer=True)(_M, jnp.asarray(_V), n=_N)
        self.assertArraysEqual(out.todense(), jnp.asarray(2 * _A + _B))
        m, v = seen[0]
        self.assertIsInstance(m, sparse.SparseTracer)
        self.assertEqual((m.shape, m.dtype), ((3, 4), np.float32))
        self.assertIn("BCOO(float32[3, 4]", repr(m))
        self.assertIsInstance(v, sparse.SparseTracer)

    @parameterized.parameters(False, True)
    def test_transformations(self, use_tracer):
        f = sparse.sparsify(lambda m, v: jnp.sum(jnp.sin(m) @ v * 2), use_tracer)
        g = lambda x, v: jnp.sum(jnp.sin(x) @ v * 2)
        v = jnp.asarray(_V)
        self.assertAllClose(jax.jit(f)(_M, v), g(_A, v), rtol=1e-5)
        of_m, of_v = sparse.grad(f, (0, 1))(_M, v)
        want = jax.grad(g, (0, 1))(jnp.asarray(_A), v)
        self.assertAllClose(of_m.todense(), jnp.where(_A != 0, want[0], 0), rtol=1e-5)
        self.assertAllClose(of_v, want[1], rtol=1e-5)
        tangent = jax.jvp(lambda v: f(_R, v), (v,), (v,))[1]
        self.assertAllClose(tangent, jax.jvp(lambda v: g(_A, v), (v,), (v,))[1], rtol=1e-5)
        vs = jnp.stack([v, 2 * v])
        mapped = jax.vmap(f, (None, 0))(_M, vs)
        self.assertAllClose(mapped, jax.vmap(g, (None, 0))(_A, vs), rtol=1e-5)
        rows = jax.vmap(sparse.sparsify(lambda r: 2 * r.sum(), use_tracer))(_ROWS)
        self.assertAllClose(rows, 2 * _A.sum(1))
        # Inside, they see dense arrays.
        inner = jax.vmap(lambda x: x, in_axes=1, out_axes=1)
        self.assertArraysEqual(sparse.sparsify(inner, use_tracer)(_M).todense(), jnp.asarray(_A))
        total = jax.grad(lambda x: (_M @ x).sum())
        self.assertAllClose(sparse.sparsify(total, use_tracer)(v), _A.sum(0))

    @parameterized.parameters(False, True)
    def test_errors(self, use_tracer):
        nse = "the carry must be stored in the same way"
        for kind, message, f, *args in [
            (NotImplementedError, "exp is not implemented because it would", jnp.exp, _M),
            (NotImplementedError, "exp is not implemented because it would", jnp.exp, _R),
            (NotImplementedError, "non-positive exponent", lambda m: lax.integer_pow(m, -1), _M),
            (NotImplementedError, "rule for reduce_max is not implemented", jnp.max, _M),
            (NotImplementedError, r"operands are BCSR\[3, 4\]", lambda m: m.T, _R),
            (NotImplementedError, "Division by a sparse array", lambda m: 2 / m, _M),
            (NotImplementedError, "Subtraction between", lambda m: m - _X, _M),
            (NotImplementedError, "output shape is larger", lambda m: m + 1, _M),
            (NotImplementedError, "eq is not implemented because", operator.eq, _M, _N),
            (ValueError, r"BCOO\[3, 4\], dense\[3, 4\]", lambda a, b: jnp.stack([a, b]), _M, _X),
            (ValueError, r"BCSR\[3, 4\], BCOO", lambda a, b: jnp.concatenate([a, b]), _R, _M),
            (TypeError, nse, lambda m: lax.fori_loop(0, 2, lambda i, y: y @ m, m), _Q),
            (TypeError, nse, lambda m: lax.while_loop(lambda m: True, lambda y: y @ m, m), _Q),
            (TypeError, "branches must return arrays that are stored in the same way",
             lambda m, n: lax.cond(True, lambda a, b: a, lambda a, b: b, m, n), _M, _N),
            (NotImplementedError, "scan over a sparse array without batch",
             lambda m: lax.scan(lambda c, x: (c, x), 0.0, m), _M),
        ]:  # fmt: skip
            with self.subTest(message=message), self.assertRaisesRegex(kind, message):
                sparse.sparsify(f, use_tracer)(*args)

    def test_values(self):
        env = transform.SparsifyEnv()
        tree = {"m": _M, "v": _V, "r": _R}
        values = transform.arrays_to_spvalues(env, tree)
        self.assertTrue(values["m"].is_bcoo() and values["r"].is_bcsr() and values["v"].is_dense())
        self.assertEqual(values["m"].shape, (3, 4))
        self.assertArraysEqual(env.indices(values["m"]), _M.indices)
        self.assertArraysEqual(env.indptr(values["r"]), _R.indptr)
        avals = transform.spvalues_to_avals(env, values)
        self.assertEqual(
            {k: (a.shape, a.dtype) for k, a in avals.items()},
            {k: (x.shape, x.dtype) for k, x in tree.items()},
        )
        arrays = transform.spvalues_to_arrays(env, values)
        for name, kind in (("m", sparse.BCOO), ("v", jax.Array), ("r", sparse.BCSR)):
            self.assertIsInstance(arrays[name], kind)
        double = env.sparse(
            (3, 4), 2 * _M.data, indices_ref=values["m"].indices_ref, unique_indices=True
        )
        outs, out_tree = transform.sparsify_raw(operator.add)(env, values["m"], double)
        (out,) = transform.spvalues_to_arrays(env, outs)
        self.assertEqual((out.nse, out_tree.num_leaves), (_M.nse, 1))
        self.assertArraysEqual(out.todense(), jnp.asarray(3 * _A))
        closed = jax.make_jaxpr(lambda x: 2 * x)(_A)
        (out,) = transform.eval_sparse(closed.jaxpr, closed.consts, [double], env)
        self.assertArraysEqual(env.data(out), 4 * _M.data)
        (out,) = transform.sparsify_fun(lambda x: [x * 2], [_M])
        self.assertEqual(type(out), sparse.BCOO)
        with self.assertRaisesRegex(ValueError, "not both"):
            env.sparse((3,), _V, _V, data_ref=0)
        with self.assertRaisesRegex(ValueError, "needs indices"):
            env.sparse((3,), _V)


if __name__ == "__main__":
    absltest.main()
