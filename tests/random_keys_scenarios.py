"""Arrays of keys: methods, indexing, transformations, conversions and errors."""

import copy
import pickle

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax, random

CASES = Programs()


def is_key(x):
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def opened(tree):
    """The tree with types and raw data in place of keys."""
    return jax.tree.map(
        lambda x: (random.key_data(x), f"{x.dtype} {x.shape}") if is_key(x) else x, tree
    )


def data(keys):
    """The raw data of all keys in a tree, and the types."""
    leaves = jax.tree.leaves(keys)
    assert all(is_key(k) for k in leaves)
    return opened(leaves)


def scenario(fun):
    CASES.add(fun.__name__, lambda: opened(fun()))
    return fun


def case(name, fun, *, jit=True):
    """Scenarios that return `data(fun(keys))` for keys of shape (2, 3), as it is and compiled."""
    keys = lambda: random.split(random.key(3), (2, 3))
    CASES.add(name, lambda: data(fun(keys())))
    if jit:
        CASES.add(f"{name}_jit", lambda: data(jax.jit(fun)(keys())))


def value(name, fun, *, jit=False):
    """A scenario of arrays, texts and numbers from keys of shape (2, 3)."""
    keys = lambda: random.split(random.key(3), (2, 3))
    CASES.add(name, lambda: opened(fun(keys())))
    if jit:
        CASES.add(f"{name}_jit", lambda: opened(jax.jit(fun)(keys())))


# Indexing and shapes

INDICES = {
    "int": 1,
    "negative": -1,
    "two": (1, 2),
    "slice": slice(1),
    "column": (slice(None), 1),
    "ellipsis": (..., 0),
    "none": (None, 0),
    "array": np.array([1, 0, 1]),
    "two_arrays": (np.array([0, 1]), np.array([2, 0])),
    "out_of_bounds": np.array([5]),
}
for _name, _i in INDICES.items():
    case(f"index_{_name}", lambda k, i=_i: k[i])
case("index_mask", lambda k: k[np.array([True, False])], jit=False)
case("index_traced", lambda k: jax.jit(lambda q, i: q[i])(k, 1))
case("take", lambda k: jnp.take(k, np.array([2, 0]), axis=1))
case("take_along_axis", lambda k: jnp.take_along_axis(k, np.array([[2], [0]]), axis=1))
case("dynamic_slice", lambda k: lax.dynamic_slice(k, (1, 1), (1, 2)))
case("dynamic_update", lambda k: lax.dynamic_update_slice(k, k[:1, :2], (1, 1)))
case("dynamic_index", lambda k: lax.dynamic_index_in_dim(k, 1, 1, keepdims=False))
case("at_set", lambda k: k.at[0].set(k[1]))
case("at_set_one", lambda k: k.at[0, 1].set(k[1, 1]))
case("at_set_scattered", lambda k: k.at[np.array([1]), np.array([2])].set(k[0, :1]))
case("at_get", lambda k: k.at[0].get())
case("at_get_clip", lambda k: k.at[np.array([7])].get(mode="clip"))
case("at_get_fill", lambda k: k.at[np.array([7])].get(mode="fill"))
case("reshape", lambda k: k.reshape(3, 2))
case("reshape_flat", lambda k: k.reshape(-1))
case("ravel", lambda k: k.ravel())
case("flatten", lambda k: k.flatten())
case("transpose", lambda k: k.T)
case("transpose_method", lambda k: k.transpose(1, 0))
case("swapaxes", lambda k: k.swapaxes(0, 1))
case("moveaxis", lambda k: jnp.moveaxis(k, 0, 1))
case("squeeze", lambda k: k[:1].squeeze(0))
case("expand_dims", lambda k: jnp.expand_dims(k, 1))
case("take_method", lambda k: k.take(np.array([1]), axis=0))
case("method_copy", lambda k: k.copy(), jit=False)
case("stack", lambda k: jnp.stack([k, k]))
case("stack_scalars", lambda k: jnp.stack([k[0, 0], k[1, 1]]))
case("concatenate", lambda k: jnp.concatenate([k, k[:1]]))
case("hstack", lambda k: jnp.hstack([k, k]))
case("append", lambda k: jnp.append(k, k))
case("broadcast_to", lambda k: jnp.broadcast_to(k, (2, 2, 3)))
case("lax_broadcast", lambda k: lax.broadcast(k, (2,)))
case("tile", lambda k: jnp.tile(k, (2, 1)))
case("roll", lambda k: jnp.roll(k, 1, axis=0))
case("flip", lambda k: jnp.flip(k, 1))
case("rot90", lambda k: jnp.rot90(k))
case("split_arrays", lambda k: jnp.split(k, 2))
case("array_split", lambda k: jnp.array_split(k, 2, axis=1))
case("where", lambda k: jnp.where(np.array([True, False, True]), k[0], k[1]))
case("where_scalar", lambda k: jnp.where(True, k[0], k[1]))
case("select", lambda k: lax.select(np.array([True, False, True]), k[0], k[1]))
case("select_n", lambda k: lax.select_n(np.int32(1), k[0], k[1]))
case("asarray", lambda k: jnp.asarray(k))
case("array_of_list", lambda k: jnp.array([k[0, 0], k[0, 1]]))
case("array_copy", lambda k: jnp.array(k, copy=True))
case("empty_like", lambda k: jnp.empty_like(k)[:0])
case("full", lambda k: jnp.full((2,), k[0, 0]))
case("full_like", lambda k: jnp.full_like(k, k[0, 0]))
case("atleast_3d", lambda k: jnp.atleast_3d(k))
case("rev", lambda k: lax.rev(k, (0,)))
case("barrier", lambda k: lax.optimization_barrier(k))
case("iterate", lambda k: list(k))
case("unpack", lambda k: dict(zip("ab", k)))
case("convert", lambda k: lax.convert_element_type(k, k.dtype))
case("stop_gradient", lambda k: lax.stop_gradient(k))
case("insert", lambda k: jnp.insert(k[0], 1, k[1, 1]))
case("delete_column", lambda k: jnp.delete(k, 1, axis=1))
case("zeros_like", lambda k: jnp.zeros_like(k))
case("ones_like", lambda k: jnp.ones_like(k))
value("astype_key", lambda k: jnp.zeros(3, "uint32").astype(k.dtype))
value("zeros_dtype", lambda k: jnp.zeros((2,), k.dtype), jit=False)
value("empty_dtype", lambda k: jnp.empty((0,), k.dtype).shape)
value("mixed_stack", lambda k: jnp.stack([k, random.split(random.key(0, impl="rbg"), (2, 3))]))
value("mixed_with_numbers", lambda k: jnp.concatenate([k, jnp.zeros((2, 3))]))
value("where_number", lambda k: jnp.where(True, k, 0))

# Attributes, comparison

value(
    "attributes",
    lambda k: [str(k.dtype), k.dtype.name, k.shape, k.ndim, k.size, k.itemsize, k.nbytes],
)
value("attributes_scalar", lambda k: [k[0, 0].shape, k[0, 0].size, k[0, 0].ndim, len(k)])
value("len_of_scalar", lambda k: len(k[0, 0]))
value("iterate_scalar", lambda k: list(k[0, 0]))
value("repr", lambda k: [repr(k), str(k), repr(k[0, 0]), f"{k[0]}", repr(k.dtype), repr(k.aval)])
value("repr_empty", lambda k: [repr(k[:0]), str(k[:0].shape)])
value("repr_tree", lambda k: repr({"key": k[0, 0]}))
value(
    "repr_impls",
    lambda _: [
        repr(random.key(0, impl=i)) for i in ("rbg", "unsafe_rbg", "philox2x32", "threefry4x32")
    ],
)
value("format", lambda k: format(k[0, 0], "5"))
value("tracer_repr", lambda k: jax.jit(lambda q: (repr(q).split("]")[0], jnp.zeros(()))[1])(k))
value("aval", lambda k: [k.aval.str_short(), str(jax.typeof(k)), repr(jax.typeof(k[0, 0]))])
value("shape_struct", lambda k: repr(jax.eval_shape(lambda q: q[0], k)))
value("eval_shape_of_split", lambda k: repr(jax.eval_shape(random.split, k[0, 0])))
value(
    "struct_argument",
    lambda k: repr(jax.eval_shape(random.normal, jax.ShapeDtypeStruct((), k.dtype))),
)
value(
    "jaxpr",
    lambda k: str(jax.make_jaxpr(lambda q: (random.bits(q), random.fold_in(q, 1)))(k[0, 0])),
)
value(
    "jaxpr_data",
    lambda k: str(jax.make_jaxpr(lambda d: random.wrap_key_data(d))(np.zeros(2, np.uint32))),
)
value("jaxpr_unwrap", lambda k: str(jax.make_jaxpr(lambda q: random.key_data(random.clone(q)))(k)))
value("equal", lambda k: [k == k, k == k[0], k[0, 0] == k[0, 1], k != k, k != k[::-1]], jit=True)
value("equal_number", lambda k: k == 1)
value("equal_none", lambda k: k == None)  # noqa: E711
value("equal_string", lambda k: k == "a")
value("equal_other_impl", lambda k: k[0, 0] == random.key(0, impl="rbg"))
value("equal_jnp", lambda k: [jnp.equal(k, k), jnp.not_equal(k, k[1])], jit=True)
value("array_equal", lambda k: jnp.array_equal(k, k), jit=True)
value("less", lambda k: k < k)
value("add", lambda k: k + k)
value("multiply", lambda k: 2 * k)
value("negative", lambda k: -k)
value("invert", lambda k: ~k)
value("matmul", lambda k: k @ k)
value("numpy_add", lambda k: np.add(k, 1))
value("bool", lambda k: bool(k[0, 0]))
value("int", lambda k: int(k[0, 0]))
value("float", lambda k: float(k[0, 0]))
value("index", lambda k: [1, 2][k[0, 0]])
value("tolist", lambda k: k.tolist())
value("hash", lambda k: hash(k[0, 0]))
value("in_set", lambda k: {k[0, 0]})
value("asarray_numpy", lambda k: np.asarray(k))
value("numpy_array_of_keys", lambda k: np.array([k[0, 0]]))
value("device_get", lambda k: data(jax.device_get(k)))
value(
    "dtype_hash",
    lambda k: [hash(k.dtype) == hash(random.key(1).dtype), k.dtype == random.key(1).dtype],
)
value(
    "dtype_other",
    lambda k: [
        k.dtype == random.key(1, impl="rbg").dtype,
        k.dtype == np.dtype("uint32"),
        k.dtype == 1,
    ],
)
value("dtype_compare_string", lambda k: k.dtype == "uint32")
value(
    "is_key",
    lambda k: [
        jnp.issubdtype(k.dtype, d)
        for d in (jax.dtypes.prng_key, jax.dtypes.extended, np.generic, np.number, np.uint32)
    ],
)
value(
    "is_key_types",
    lambda k: [
        jnp.issubdtype(jax.dtypes.prng_key, d)
        for d in (jax.dtypes.prng_key, jax.dtypes.extended, np.generic, np.number)
    ],
)
value(
    "raw_is_no_key",
    lambda k: [
        jnp.issubdtype(np.uint32, jax.dtypes.prng_key),
        jnp.issubdtype(random.key_data(k).dtype, jax.dtypes.extended),
    ],
)
value(
    "is_array",
    lambda k: [isinstance(k, jax.Array), isinstance(k, np.ndarray), isinstance(k, jax.core.Tracer)],
)
value("result_type", lambda k: str(jnp.result_type(k, k)))
value("result_type_mixed", lambda k: str(jnp.result_type(k, 1)))
value("dtype_kind", lambda k: k.dtype.kind)
value("dtype_type", lambda k: k.dtype.type.__name__)
value("canonical_dtype", lambda k: str(jax.dtypes.canonicalize_dtype(k.dtype)))
value(
    "canonical_extended",
    lambda k: str(jax.dtypes.canonicalize_dtype(k.dtype, allow_extended_dtype=True)),
)
value("finfo", lambda k: str(jnp.finfo(k.dtype)))
value("iscomplex", lambda k: jnp.iscomplexobj(k))
value(
    "on_device",
    lambda k: [
        k.committed,
        k.is_fully_replicated,
        k.is_fully_addressable,
        len(k.devices()),
        str(k.device),
    ],
)
value(
    "sharding",
    lambda k: [
        type(k.sharding).__name__,
        len(k.addressable_shards),
        k.addressable_shards[0].data.shape,
        str(k.addressable_data(0).dtype),
    ],
)
value("buffer_size", lambda k: [k.on_device_size_in_bytes(), k.is_deleted()])
value("ready", lambda k: k.is_ready())


@scenario
def delete():
    k = random.key(0)
    k.delete()
    return [k.is_deleted(), k.shape]


@scenario
def use_of_deleted():
    k = random.key(0)
    k.delete()
    return random.bits(k)


# Copies

case("pickle", lambda k: pickle.loads(pickle.dumps(k)), jit=False)
case("pickle_scalar", lambda k: pickle.loads(pickle.dumps({"a": k[0, 0]})), jit=False)
case("pickle_rbg", lambda _: pickle.loads(pickle.dumps(random.key(0, impl="rbg"))), jit=False)
case("copy", lambda k: copy.copy(k), jit=False)
case("deepcopy", lambda k: copy.deepcopy([k, k[0]]), jit=False)
value("pickle_dtype", lambda k: pickle.loads(pickle.dumps(k.dtype)) == k.dtype)
value("pickle_struct", lambda k: str(pickle.loads(pickle.dumps(jax.eval_shape(lambda: k))).dtype))
case("device_put", lambda k: jax.device_put(k), jit=False)
case("device_put_device", lambda k: jax.device_put(k, jax.devices()[0]), jit=False)
value(
    "device_put_commits",
    lambda k: [jax.device_put(k, jax.devices()[0]).committed, jax.device_put(k).committed],
)
case("device_put_in_jit", lambda k: jax.jit(lambda q: jax.device_put(q))(k), jit=False)
case("device_put_tree", lambda k: jax.device_put({"a": k, "b": [k[0]]}), jit=False)
case("device_put_like", lambda k: jax.device_put(k, k.sharding), jit=False)
case("jnp_copy", lambda k: jnp.copy(k))
value("block_until_ready", lambda k: data(jax.block_until_ready([k, k.block_until_ready()])))
value("host_copy", lambda k: [k.copy_to_host_async(), 1][1])
case("tree_map", lambda k: jax.tree.map(lambda q: q[0], {"a": k, "b": (k, None)}))
value("tree", lambda k: [str(jax.tree.structure(k)), len(jax.tree.leaves([k, k]))])
case(
    "tree_transpose",
    lambda k: jax.tree.transpose(jax.tree.structure([0, 0]), None, [(k, k), (k, k)]),
)
value("tree_all", lambda k: jax.tree.all(jax.tree.map(lambda a, b: (a == b).all(), k, k)))

# Transformations


def carry_loop(k):
    return lax.fori_loop(0, 3, lambda i, q: random.fold_in(q, i), k[0, 0])


def carry_while(k):
    def body(c):
        i, q, total = c
        q, sub = random.split(q)
        return i + 1, q, total + random.uniform(sub)

    i, q, total = lax.while_loop(lambda c: c[0] < 3, body, (0, k[0, 0], 0.0))
    return [random.key_data(q), total]


def carry_scan(k):
    def body(q, sub):
        return random.fold_in(q, random.bits(sub)), (sub, random.normal(sub, (2,)))

    q, (subs, normals) = lax.scan(body, k[0, 0], k[1])
    return [random.key_data(q), random.key_data(subs), normals]


case("fori_loop", carry_loop)
value("while_loop", carry_while, jit=True)
value("scan", carry_scan, jit=True)
case(
    "scan_reverse",
    lambda k: lax.scan(lambda c, q: (c, random.fold_in(q, c)), 5, k[0], reverse=True)[1],
)
case("scan_unrolled", lambda k: lax.scan(lambda c, q: (q, c), k[0, 0], k[0], unroll=2))
case("scan_carry_array", lambda k: lax.scan(lambda c, q: (c.at[0].set(q), c[1]), k[0], k[1]))
case("cond", lambda k: lax.cond(k.size > 3, lambda q: q[0], lambda q: q[1], k))
case(
    "cond_traced", lambda k: jax.jit(lambda p, q: lax.cond(p, lambda: q[0], lambda: q[1]))(False, k)
)
case(
    "cond_vmap",
    lambda k: jax.vmap(lambda p, q: lax.cond(p, lambda: q, lambda: random.fold_in(q, 1)))(
        np.array([True, False]), k[:, 0]
    ),
)
case("switch", lambda k: lax.switch(1, [lambda q: q[0], lambda q: q[1]], k))
case(
    "switch_vmap",
    lambda k: jax.vmap(lambda i, q: lax.switch(i, [lambda: q, lambda: random.split(q)[0]]))(
        np.array([0, 1, 0]), k[0]
    ),
)
case(
    "while_vmap",
    lambda k: jax.vmap(
        lambda n, q: lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, random.split(c[1])[1]), (0, q)
        )[1]
    )(np.array([1, 3, 2]), k[0]),
)
case("map", lambda k: lax.map(lambda q: random.split(q)[0], k[0]))
case("map_batched", lambda k: lax.map(lambda q: random.fold_in(q, 2), k[0], batch_size=2))
case(
    "associative_scan",
    lambda k: lax.associative_scan(
        lambda a, b: jax.vmap(lambda x, y: random.fold_in(x, random.bits(y)))(a, b), k[0]
    ),
)
case("vmap", lambda k: jax.vmap(jax.vmap(lambda q: random.split(q)[1]))(k))
case("vmap_axes", lambda k: jax.vmap(lambda q: q[::-1], in_axes=1, out_axes=1)(k))
case("vmap_unused", lambda k: jax.vmap(lambda q, x: q[0], in_axes=(None, 0))(k, np.arange(2)))
case("vmap_index", lambda k: jax.vmap(lambda q, i: q[i])(k, np.array([2, 1])))
case("vmap_update", lambda k: jax.vmap(lambda q, i: q.at[i].set(q[0]))(k, np.array([2, 1])))
case("vmap_stack", lambda k: jax.vmap(lambda a, b: jnp.stack([a, b]))(k[0], k[1]))
case(
    "vmap_where",
    lambda k: jax.vmap(lambda p, a, b: jnp.where(p, a, b))(
        np.array([True, False, True]), k[0], k[1]
    ),
)
case("vmap_fold_in", lambda k: jax.vmap(random.fold_in, (None, 0))(k[0, 0], np.arange(3)))
case("vmap_wrap", lambda k: jax.vmap(random.wrap_key_data)(random.key_data(k[0])))
value("vmap_data", lambda k: jax.vmap(random.key_data)(k), jit=True)
value("vmap_normal", lambda k: jax.vmap(jax.vmap(random.normal))(k), jit=True)
value("vmap_out", lambda k: jax.vmap(lambda q: random.bits(q, (2,)), out_axes=1)(k[0]))
value("vmap_bad_axis", lambda k: jax.vmap(lambda q: q, in_axes=2)(k))
value("vmap_sizes", lambda k: jax.vmap(lambda q, x: q)(k, np.arange(3)))
value("vmap_raw", lambda k: jax.vmap(lambda d: random.uniform(d))(random.key_data(k[0])))
value("vmap_raw_split", lambda k: jax.vmap(lambda d: random.split(d, 2))(random.key_data(k[0])))
case("vmap_seed", lambda _: jax.vmap(random.key)(np.arange(3)))
case("vmap_seed_axis", lambda _: jax.vmap(jax.vmap(random.key))(np.arange(6).reshape(2, 3)))
case("remat", lambda k: jax.checkpoint(lambda q: random.split(q))(k[0, 0]))
value("scan_bad_carry", lambda k: lax.scan(lambda c, _: (c + 1, c), k[0, 0], None, length=2))
value(
    "scan_other_type",
    lambda k: lax.scan(lambda c, _: (random.key_data(c), None), k[0, 0], None, length=2),
)
value(
    "cond_types",
    lambda k: jax.jit(lambda p: lax.cond(p, lambda: k[0, 0], lambda: random.key(0, impl="rbg")))(
        True
    ),
)


# Derivatives


def noisy(x, k):
    return (x * random.normal(k, x.shape)).sum()


F = np.float32
X = F([1, 2, 3])
value("grad", lambda k: jax.grad(noisy)(X, k[0, 0]), jit=True)
value("value_and_grad", lambda k: jax.value_and_grad(noisy)(X, k[0, 0]))
value("grad_of_key", lambda k: jax.grad(noisy, argnums=1)(X, k[0, 0]))
value(
    "grad_of_key_allowed",
    lambda k: str(jax.grad(noisy, argnums=1, allow_int=True)(X, k[0, 0]).dtype),
)
value("grad_vmap", lambda k: jax.vmap(jax.grad(noisy), (None, 0))(X, k[0]), jit=True)
value("jacfwd", lambda k: jax.jacfwd(lambda x: x * random.normal(k[0, 0], (3,)))(X))
value("jacrev", lambda k: jax.jacrev(lambda x: x * random.normal(k[0, 0], (3,)))(X))
value("hessian", lambda k: jax.hessian(lambda x: (x**2 * random.normal(k[0, 0], (3,))).sum())(X))
value("grad_remat", lambda k: jax.grad(jax.checkpoint(noisy))(X, k[0, 0]), jit=True)
value(
    "grad_scan",
    lambda k: jax.grad(lambda x: lax.scan(lambda c, q: (c * random.uniform(q), None), x, k[0])[0])(
        F(2)
    ),
    jit=True,
)
value(
    "grad_scan_split",
    lambda k: jax.grad(
        lambda x: lax.scan(
            lambda c, _: ((c[0] * random.uniform(c[1]), random.split(c[1])[0]), None),
            (x, k[0, 0]),
            None,
            length=3,
        )[0][0]
    )(F(2)),
    jit=True,
)
value(
    "grad_while",
    lambda k: jax.jvp(
        lambda x: lax.fori_loop(
            0, 3, lambda i, c: c * random.uniform(random.fold_in(k[0, 0], i)), x
        ),
        (2.0,),
        (1.0,),
    ),
)
value(
    "grad_cond",
    lambda k: jax.grad(
        lambda x: lax.cond(x > 0, lambda q: x * random.normal(q), lambda q: x, k[0, 0])
    )(2.0),
)
value(
    "grad_has_aux",
    lambda k: [
        data(a) if i else a
        for i, a in enumerate(
            jax.grad(lambda x: ((x * random.normal(k[0, 0])), random.split(k[0, 0])), has_aux=True)(
                2.0
            )
        )
    ],
)
value("vjp", lambda k: [str(x.dtype) for x in jax.vjp(noisy, X, k[0, 0])[1](1.0)])
value(
    "vjp_key_out",
    lambda k: [
        str(x.dtype)
        for x in jax.vjp(lambda x, q: (x * 2, q), X, k)[1]((X, np.zeros((2, 3), jax.dtypes.float0)))
    ],
)
value("jvp", lambda k: jax.jvp(noisy, (X, k[0, 0]), (X, np.zeros((), jax.dtypes.float0))))
value(
    "jvp_key_out",
    lambda k: str(jax.jvp(lambda q: q[0], (k,), (np.zeros((2, 3), jax.dtypes.float0),))[1].dtype),
)
value("jvp_key_tangent", lambda k: jax.jvp(noisy, (X, k[0, 0]), (X, k[0, 0])))
value("linearize", lambda k: jax.linearize(lambda x: noisy(x, k[0, 0]), X)[1](X))
value(
    "closure_convert",
    lambda k: jax.grad(
        lambda x: jax.closure_convert(lambda y: y * random.normal(k[0, 0]), x)[0](x)
    )(2.0),
)


@jax.custom_vjp
def scaled(x, k):
    return x * random.normal(k)


scaled.defvjp(lambda x, k: (scaled(x, k), k), lambda k, g: (2 * g * random.normal(k), None))
value("custom_vjp", lambda k: jax.grad(scaled)(2.0, k[0, 0]), jit=True)


@jax.custom_jvp
def tripled(x, k):
    return x * random.normal(k)


tripled.defjvp(lambda p, t: (tripled(*p), 3 * t[0] * random.normal(p[1])))
value("custom_jvp", lambda k: jax.grad(tripled)(2.0, k[0, 0]), jit=True)
value("grad_of_choice", lambda k: jax.grad(lambda x: random.choice(k[0, 0], x, (2,)).sum())(X))
value(
    "grad_of_permutation",
    lambda k: jax.grad(lambda x: (X * random.permutation(k[0, 0], x)).sum())(X),
)
value(
    "grad_of_key_array_update",
    lambda k: jax.grad(lambda x: x * random.uniform(k.at[0].set(k[1])[0, 0]))(2.0),
)


# Compilation


@scenario
def static_key():
    return jax.jit(lambda k: random.bits(k), static_argnums=0)(random.key(0))


@scenario
def closed_over():
    k = random.key(7)
    return jax.jit(lambda x: x + random.bits(k))(np.uint32(1))


@scenario
def closed_over_array():
    k = random.split(random.key(7), 3)
    return jax.jit(lambda i: random.bits(k[i]))(1)


@scenario
def donated():
    k = random.split(random.key(0), 2)
    f = jax.jit(lambda q: q[::-1], donate_argnums=0)
    out = data(f(k))
    return [out, k.is_deleted()]


@scenario
def donated_reuse():
    k = random.split(random.key(0), 2)
    jax.jit(lambda q: q[::-1], donate_argnums=0)(k)
    return random.bits(k[0])


@scenario
def ahead_of_time():
    f = jax.jit(lambda k: (random.split(k), random.bits(k)))
    compiled = f.lower(random.key(0)).compile()
    keys, bits = compiled(random.key(1))
    return [data(keys), bits, [str(x.dtype) for x in f.lower(random.key(0)).out_info]]


@scenario
def compiled_with_other_impl():
    compiled = jax.jit(random.bits).lower(random.key(0)).compile()
    return compiled(random.key(0, impl="rbg"))


@scenario
def lowered_from_struct():
    struct = jax.ShapeDtypeStruct((2,), random.key(0).dtype)
    return jax.jit(lambda k: k[0]).lower(struct).compile()(random.split(random.key(0))).shape


@scenario
def out_shardings():
    dev = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return data(jax.jit(random.split, in_shardings=dev, out_shardings=dev)(random.key(0)))


@scenario
def named_sharding():
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    s = jax.sharding.NamedSharding(mesh, jax.P("x"))
    k = jax.device_put(random.split(random.key(0), 4), s)
    out = jax.jit(jax.vmap(lambda q: random.fold_in(q, 1)), out_shardings=s)(k)
    return [
        data(out),
        str(out.sharding.spec),
        str(k.sharding.spec),
        str(random.key_data(k).sharding.spec),
    ]


@scenario
def explicit_sharding():
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        k = jax.device_put(random.split(random.key(0), 4), jax.P("x"))
        return [
            str(jax.typeof(k)),
            str(jax.typeof(random.key_data(k))),
            str(jax.typeof(random.split(random.key(0), 3))),
        ]


@scenario
def pure_callback():
    f = lambda k: jax.pure_callback(
        lambda d: np.asarray(d), jax.ShapeDtypeStruct((2,), np.uint32), random.key_data(k)
    )
    return jax.jit(f)(random.key(3))


@scenario
def cost():
    f = jax.jit(lambda k, x: x)
    return [f(random.key(0), 1), f(random.key(1), 1), f._cache_size()]


@scenario
def named_call_args():
    return jax.jit(lambda *, key, shape=(2,): random.bits(key, shape))(key=random.key(0))


# Configuration


@scenario
def default_impl():
    with jax.default_prng_impl("rbg"):
        keys = [random.key(1), random.wrap_key_data(np.arange(4, dtype=np.uint32))]
        raw = random.PRNGKey(1)
        return [data(keys), raw, random.bits(raw), random.key_impl(raw), str(random.key_dtype())]


@scenario
def default_impl_of_raw():
    raw = random.PRNGKey(1)
    with jax.default_prng_impl("rbg"):
        return random.bits(raw)


@scenario
def default_impl_typed():
    k = random.key(1)
    with jax.default_prng_impl("rbg"):
        return [random.bits(k), data(random.split(k))]


@scenario
def default_impl_unknown():
    with jax.default_prng_impl("nothing"):
        return random.key(0)


@scenario
def default_impl_in_jit():
    f = jax.jit(lambda: random.key_data(random.key(3)))
    a = f()
    with jax.default_prng_impl("philox4x32"):
        return [a, f()]


@scenario
def custom_prng():
    with jax.enable_custom_prng(True):
        k = random.PRNGKey(3)
        return [str(k.dtype), k.shape, data(random.split(k)), random.uniform(k)]


@scenario
def partitionable():
    out = []
    for flag in (True, False):
        with jax.threefry_partitionable(flag):
            k = random.key(3)
            out += [random.bits(k, (3,)), data(random.split(k)), jax.jit(random.normal)(k)]
    return out


@scenario
def legacy_error():
    with jax.legacy_prng_key("error"):
        return random.bits(random.PRNGKey(0))


@scenario
def legacy_typed():
    with jax.legacy_prng_key("error"):
        return random.bits(random.key(0))


# Raw keys, conversions

value("raw_split", lambda _: random.split(random.PRNGKey(3), (2, 2)), jit=True)
value("raw_fold_in", lambda _: random.fold_in(random.PRNGKey(3), 5), jit=True)
value("raw_clone", lambda _: random.clone(random.PRNGKey(3)), jit=True)
value("raw_numpy", lambda _: random.normal(np.array([0, 3], np.uint32), (2,)), jit=True)
value("raw_data", lambda _: random.key_data(random.PRNGKey(3)))
value("raw_impl", lambda _: random.key_impl(random.PRNGKey(3)))
value("raw_batch_data", lambda k: random.key_data(random.key_data(k)))
value("impl", lambda k: [random.key_impl(k), random.key_impl(random.key(0, impl="rbg"))])
value("impl_in_jit", lambda k: jax.jit(lambda q: jnp.zeros(len(random.key_impl(q))))(k))
case("wrap", lambda k: random.wrap_key_data(random.key_data(k)))
case(
    "wrap_impl",
    lambda k: random.wrap_key_data(np.arange(8, dtype=np.uint32).reshape(2, 4), impl="rbg"),
)
case("wrap_dtype", lambda k: random.wrap_key_data(random.key_data(k), dtype=k.dtype))
case("key_of_dtype", lambda k: random.key(5, dtype=k.dtype))
case("key_of_dtype_name", lambda _: random.key(5, dtype="rbg"))
case("key_of_impl_of", lambda k: random.key(5, impl=random.key_impl(k)))
case("clone", lambda k: random.clone(k))
case("split_many", lambda k: random.split(k[0, 0], (2, 0, 3)))
value("split_batch", lambda k: random.split(k))
value("fold_in_batch", lambda k: random.fold_in(k, 1))
value("fold_in_array", lambda k: random.fold_in(k[0, 0], np.arange(2)))
value("fold_in_negative", lambda k: random.fold_in(k[0, 0], -1))
value("fold_in_large", lambda k: random.fold_in(k[0, 0], 2**32))
value("fold_in_unsigned", lambda k: random.key_data(random.fold_in(k[0, 0], 2**32 - 1)), jit=True)
value(
    "fold_in_array_negative",
    lambda k: random.key_data(random.fold_in(k[0, 0], np.int32(-1))),
    jit=True,
)
value("seed_traced", lambda _: jax.jit(lambda s: random.key_data(random.key(s)))(7))
value("seed_large", lambda _: random.key_data(random.key(2**40 + 3)))
value("seed_huge", lambda _: random.key_data(random.key(2**64)))
value("seed_array", lambda _: random.key(np.arange(2)))
value("seed_key", lambda k: random.key(k[0, 0]))


def _three():
    return jax.random.split(jax.random.key(0), 3)


CASES.add("set_to_number", lambda: _three().at[0].set(1))
CASES.add("set_to_other_keys", lambda: _three().at[0].set(jax.random.key(0, impl="rbg")))
CASES.add("imag", lambda: _three().imag)
CASES.add("conj", lambda: _three().conj())
CASES.add(
    "promotion_with_none",
    lambda: str((jnp.promote_types(None, "int32"), jnp.promote_types("float32", None))),
)
