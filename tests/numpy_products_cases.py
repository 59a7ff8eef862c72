"""Cases for products of arrays in jax.numpy: dot, matmul, einsum and similar functions, and vectorize."""

import numpy as np
from formula_cases import Formulas
from op_cases import Case, values

import jax.numpy as jnp

CASES = Formulas()
add, same = CASES.add, CASES.same
DTYPES = ["int8", "uint8", "int32", "float16", "bfloat16", "float32", "complex64"]
X64 = ["int64", "float64", "complex128"]


def mixed(name, fun, *dtypes, shape=(3, 3)):
    args = [values(shape, d, f"{name}{i}") for i, d in enumerate(dtypes)]
    CASES.append(Case(name, fun, args, diff="", vmap=False))


def error(name, fun, *shapes):
    args = [np.zeros(s, np.float32) for s in shapes]
    CASES.append(Case(f"error_{name}", fun, args, diff="", vmap=False))


# Matrix products

for name in ["dot", "matmul"]:
    same(f"{name}_matrices", lambda m, x, y, f=name: getattr(m, f)(x, y), (3, 4), (4, 2),
         dtypes=[d for d in DTYPES if d != "bfloat16"] + X64)  # fmt: skip
    for a, b in [
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((3,), (3, 4)),
        ((2, 3, 4), (4, 2)),
        ((3, 0), (0, 2)),
        ((0, 3), (3, 2)),
    ]:
        same(f"{name}_{a}_{b}", lambda m, x, y, f=name: getattr(m, f)(x, y), a, b, vmap=0 not in a)
same("dot_scalar", lambda m, x, y: m.dot(x, y), (), (3, 4))
same("dot_tensors", lambda m, x, y: m.dot(x, y), (2, 3, 4), (5, 4, 2))
for a, b in [((2, 3, 4), (2, 4, 5)), ((1, 3, 4), (2, 4, 5)), ((2, 3, 4), (4,)), ((3,), (2, 3, 4)),
             ((2, 1, 3, 4), (5, 4, 2)), ((1, 1, 3, 4), (1, 4, 2)), ((7, 1, 2, 3), (5, 3, 2)), ((2, 0, 3), (3, 2))]:  # fmt: skip
    same(f"matmul_{a}_{b}", lambda m, x, y: m.matmul(x, y), a, b)
add("matmul_operator", lambda x, y: jnp.asarray(x) @ y, (2, 3), (3, 2))
for name in ["dot", "matmul", "inner", "tensordot", "vdot"]:
    mixed(f"{name}_mixed", lambda x, y, f=name: getattr(jnp, f)(x, y), "int32", "float16")
    mixed(f"{name}_complex", lambda x, y, f=name: getattr(jnp, f)(x, y), "complex64", "float32")
    add(f"{name}_preferred", lambda x, y, f=name: getattr(jnp, f)(x, y, preferred_element_type="float32"), (3, 3), (3, 3),
        dtypes=["float16", "bfloat16", "int32"])  # fmt: skip
    add(f"{name}_bool", lambda x, y, f=name: getattr(jnp, f)(x, y), (3, 3), (3, 3), dtypes=["bool"])
add(
    "dot_weak",
    lambda x: (jnp.dot(x, 2.0), jnp.dot(2, 3.0), jnp.dot(2, 3)),
    (3,),
    dtypes=["float32", "int32", "bfloat16"],
)
add("dot_precision", lambda x, y: jnp.dot(x, y, precision="highest"), (3, 4), (4, 3))
same("vdot", lambda m, x, y: m.vdot(x, y), (2, 3), (3, 2), dtypes=["float32", "complex64"])
same("vecdot", lambda m, x, y: m.vecdot(x, y), (2, 3, 4), (3, 4), dtypes=["float32", "complex64"])
same("vecdot_axis", lambda m, x, y: m.vecdot(x, y, axis=0), (3, 4), (3, 1))
same("inner", lambda m, x, y: m.inner(x, y), (2, 3, 4), (5, 4))
same("inner_scalar", lambda m, x, y: m.inner(x, y), (), (5, 4))
add("matvec", lambda x, y: jnp.matvec(x, y), (2, 3, 4), (4,), dtypes=["float32", "complex64"],
    numpy=lambda x, y: x @ y)  # fmt: skip
add("matvec_batch", lambda x, y: jnp.matvec(x, y), (3, 4), (5, 4))
add("vecmat", lambda x, y: jnp.vecmat(x, y), (3,), (2, 3, 4), dtypes=["float32", "complex64"],
    numpy=lambda x, y: x.conj() @ y)  # fmt: skip
same(
    "outer",
    lambda m, x, y: m.outer(x, y),
    (2, 3),
    (4,),
    dtypes=["float32", "int32", "complex64", "float16"],
)
for axes, shape in [(0, (4,)), (1, (3, 2)), (2, (4, 3))]:
    same(f"tensordot_{axes}", lambda m, x, y, a=axes: m.tensordot(x, y, a), (2, 4, 3), shape)
same("tensordot_pair", lambda m, x, y: m.tensordot(x, y, ((1, 2), (1, 0))), (2, 3, 4), (4, 3, 5))
same("tensordot_ints", lambda m, x, y: m.tensordot(x, y, (-1, 0)), (2, 3), (3, 5))
for a, b in [((2, 3), (2, 2)), ((3,), (2, 2)), ((), (2, 2)), ((2, 1, 2), (3,))]:
    same(f"kron_{a}_{b}", lambda m, x, y: m.kron(x, y), a, b)
for a, b in [((3,), (3,)), ((4, 3), (3,)), ((2, 3), (4, 1, 3))]:
    same(f"cross_{a}_{b}", lambda m, x, y: m.cross(x, y), a, b)
add("cross_2", lambda x, y: jnp.cross(x, y), (4, 2), (4, 2))
add("cross_2_3", lambda x, y: (jnp.cross(x, y), jnp.cross(y, x)), (4, 2), (4, 3))
same("cross_axes", lambda m, x, y: m.cross(x, y, axisa=0, axisb=1, axisc=0), (3, 4), (4, 3))

error("dot_sizes", lambda x, y: jnp.dot(x, y), (2, 3), (2, 3))
error("dot_precision", lambda x, y: jnp.dot(x, y, precision="foo"), (2, 3), (3, 2))
error("dot_list", lambda: jnp.dot([1], [2]))
error("matmul_scalar", lambda x, y: jnp.matmul(x, y), (), (2, 3))
error("matmul_sizes", lambda x, y: jnp.matmul(x, y), (2, 3), (2, 3))
error("matmul_batch", lambda x, y: jnp.matmul(x, y), (2, 3, 4), (3, 4, 5))
error("vdot_sizes", lambda x, y: jnp.vdot(x, y), (2,), (3,))
error("vecdot_sizes", lambda x, y: jnp.vecdot(x, y), (2,), (3,))
error("matvec_sizes", lambda x, y: jnp.matvec(x, y), (2, 3), (2,))
error("inner_sizes", lambda x, y: jnp.inner(x, y), (2,), (3,))
error("outer_out", lambda x: jnp.outer(x, x, out=x), (2,))
error("tensordot_count", lambda x, y: jnp.tensordot(x, y, 3), (2, 3), (3, 2))
error("tensordot_axes", lambda x, y: jnp.tensordot(x, y, (1, 2, 3)), (2, 3), (3, 2))
error("tensordot_lengths", lambda x, y: jnp.tensordot(x, y, ([0, 1], [0])), (2, 3), (3, 2))
error("cross_size", lambda x: jnp.cross(x, x), (4,))

# einsum

for spec, *shapes in [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ij,jk->ki", (2, 3), (3, 4)), ("ij->ji", (2, 3)),
    ("ij->", (2, 3)), ("ij->j", (2, 3)), ("ii", (3, 3)), ("ii->i", (3, 3)), ("iij->j", (3, 3, 2)),
    ("iii->i", (3, 3, 3)), ("i,i", (3,), (3,)), ("i,i->i", (3,), (3,)), ("i,j->ji", (3,), (2,)),
    ("ij,ij->i", (2, 3), (2, 3)), ("i,j->", (3,), (2,)), ("ij,k->i", (2, 3), (4,)), (",i->i", (), (3,)),
    (",->", (), ()), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
    ("bhqk,bkhd->bqhd", (2, 2, 3, 5), (2, 5, 2, 4)), ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
    ("...i,...i", (2, 3), (2, 3)), ("...->...", (2, 3)), ("i...->...i", (2, 3, 4)), ("...,...", (2, 3), (3,)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("ij,jk,kl,lm->im", (2, 3), (3, 4), (4, 2), (2, 3)),
    ("i,ij,j->", (2,), (2, 3), (3,)), ("ii,ij->j", (3, 3), (3, 2)), ("ij,ij->ij", (1, 3), (2, 3)),
    ("ij,ij->j", (1, 3), (2, 3)), ("i,i->", (0,), (0,)), ("ii->", (0, 0)), (" i j , j k -> k i ", (2, 3), (3, 4)),
    ("abc,cd,bde->ea", (2, 3, 4), (4, 5), (3, 5, 2)),
]:  # fmt: skip
    same(f"einsum_{spec}_{shapes}", lambda m, *xs, s=spec: m.einsum(s, *xs), *shapes, tol=1e-4)
same("einsum_dtypes", lambda m, x, y: m.einsum("ij,jk->ik", x, y), (2, 3), (3, 4),
     dtypes=["int32", "uint8", "float16", "complex64", *X64])  # fmt: skip
add(
    "einsum_bool",
    lambda x, y: (jnp.einsum("ij,jk->ik", x, y), jnp.einsum("ij->i", x)),
    (2, 3),
    (3, 4),
    dtypes=["bool"],
)
mixed("einsum_mixed", lambda x, y: jnp.einsum("ij,jk->ik", x, y), "int32", "float16")
add("einsum_preferred", lambda x, y: jnp.einsum("ij,jk->i", x, y, preferred_element_type="float32"), (2, 3), (3, 4),
    dtypes=["float16", "bfloat16", "uint8"], tol=3e-2)  # fmt: skip
add(
    "einsum_sum_preferred",
    lambda x: jnp.einsum("ij->i", x * 50, preferred_element_type="int32"),
    (2, 30),
    dtypes=["uint8"],
)
add("einsum_weak", lambda: (jnp.einsum(",->", 2.0, 3), jnp.einsum("->", 2)))
add("einsum_lists", lambda x, y: jnp.einsum(x, [0, 1], y, [1, 2], [2, 0]), (2, 3), (3, 4))
add("einsum_lists_implicit", lambda x, y: jnp.einsum(x, [..., 1], y, [1, 2]), (2, 3), (3, 4))
for optimize in [True, False, "greedy", "auto", [(0, 1), (0, 1)]]:
    add(f"einsum_optimize_{optimize}", lambda x, y, z, o=optimize: jnp.einsum("ij,jk,kl->il", x, y, z, optimize=o),
        (2, 3), (3, 4), (4, 2), tol=1e-4, vmap=False)  # fmt: skip
add("einsum_precision", lambda x, y: jnp.einsum("ij,jk", x, y, precision="highest"), (2, 3), (3, 4))
error("einsum_sizes", lambda x: jnp.einsum("ij,jk->ik", x, x), (2, 3))
error("einsum_count", lambda x: jnp.einsum("ij,jk->ik", x), (2, 3))
error("einsum_rank", lambda x: jnp.einsum("ijk->i", x), (2, 3))
error("einsum_output", lambda x: jnp.einsum("ij->k", x), (2, 3))
error("einsum_output_twice", lambda x: jnp.einsum("ij->ii", x), (2, 3))
error("einsum_arrows", lambda x: jnp.einsum("ij->i->j", x), (2, 3))
error("einsum_out", lambda x: jnp.einsum("ij->i", x, out=x), (2, 3))
error("einsum_list", lambda x: jnp.einsum("i,i", [1.0, 2.0], x), (2,))

# vectorize

add("vectorize", lambda x, y: jnp.vectorize(lambda a, b: a * b + 1)(x, y), (3, 1), (4,))
add(
    "vectorize_dot",
    lambda x, y: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(x, y),
    (2, 1, 3),
    (4, 3),
)
add(
    "vectorize_matvec",
    lambda x, y: jnp.vectorize(jnp.dot, signature="(n,m),(m)->(n)")(x, y),
    (5, 2, 3),
    (3,),
)
add(
    "vectorize_two",
    lambda x: jnp.vectorize(lambda a: (a, a.sum()), signature="(n)->(n),()")(x),
    (2, 3),
)
add("vectorize_excluded", lambda x: jnp.vectorize(lambda a, k: a * k, excluded=(1,))(x, 3), (2, 3))
add(
    "vectorize_excluded_name",
    lambda x: jnp.vectorize(lambda a, k=1: a * k, excluded=("k",))(x, k=3),
    (2, 3),
)
add(
    "vectorize_new",
    lambda x: jnp.vectorize(lambda a: jnp.stack([a, a]), signature="()->(k)")(x),
    (2, 3),
)
add(
    "vectorize_none",
    lambda x: jnp.vectorize(lambda a, b: a, signature="(n),()->(n)")(x, None),
    (2, 3),
)
error(
    "vectorize_size", lambda x, y: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(x, y), (3,), (4,)
)
error("vectorize_rank", lambda x: jnp.vectorize(jnp.sum, signature="(n)->()")(x), ())
error("vectorize_output", lambda x: jnp.vectorize(jnp.sum, signature="(n)->(n)")(x), (3,))
error("vectorize_signature", lambda x: jnp.vectorize(jnp.sum, signature="foo")(x), (3,))
error("vectorize_arguments", lambda x: jnp.vectorize(jnp.dot, signature="(n)->()")(x, x), (3,))
error("vectorize_excluded", lambda: jnp.vectorize(jnp.sum, excluded={1.5}))
