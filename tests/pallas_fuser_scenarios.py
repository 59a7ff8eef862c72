"""Fusions of kernels: programs whose blocks and results must be the reference's."""

import itertools

from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import fuser

CASES = Programs()

x = jnp.arange(64.0).reshape(8, 8) / 7
y = x[::-1] * 3
wide = jnp.concatenate([x, y], 1)
v = jnp.arange(8.0)
t = jnp.arange(512.0).reshape(4, 8, 16)
X = jax.ShapeDtypeStruct((8, 8), jnp.float32)


def spec(*shape, at=lambda i, j: (i, j)):
    return pl.BlockSpec(shape, at)


def part(a, s, point):
    """The block of an array that a spec has at a point of the grid."""
    if s is pl.no_block_spec or not hasattr(s, "block_shape") or s.block_shape is None:
        return a
    slices = []
    for d, i in zip(s.block_shape, s.index_map(*point)):
        size = getattr(d, "block_size", d)
        slices.append(int(i) if size is None else slice(int(i) * size, (int(i) + 1) * size))
    return a[tuple(slices)]


def shown(s, points):
    if not hasattr(s, "block_shape"):
        return "none"
    dims = s.block_shape
    sizes = None if dims is None else [getattr(d, "block_size", d) for d in dims]
    index = None if dims is None else [[int(i) for i in s.index_map(*p)] for p in points]
    return f"{sizes} {index} {s.memory_space} {s.pipeline_mode}"


def pulled(f, args, out=spec(2, 4), grid=(4, 2), blocks=3, **options):
    """What is needed for the blocks of the result of a function, and some of the blocks."""
    points = list(itertools.product(*map(range, grid)))
    fn, values, scalars = fuser.get_fusion_values(f, *args)
    assert scalars == ()
    kernel_fn, (value_specs, *specs), kwargs = fuser.pull_block_spec(
        fn, out, grid_len=len(grid), **options
    )(values, *args)
    assert kwargs == {}
    found = [
        kernel_fn(
            p,
            (),
            tuple([part(a, s, p) for a, s in zip(values, value_specs)]),
            *[part(a, s, p) for a, s in zip(args, specs)],
        )
        for p in points[-blocks:]
    ]
    return [shown(s, points) for s in (*value_specs, *specs)], found


def pushed(f, *specs, types=None):
    points = [(0, 0), (1, 0), (2, 1)]
    types = types or [X] * len(specs)
    out = fuser.push_block_spec(f, *specs)(*types)
    leaf = lambda s: hasattr(s, "block_shape")
    return jax.tree.map(lambda s: shown(s, points), out, is_leaf=leaf)


cube = spec(1, 2, 4, at=lambda i, j, k: (i, j, k))
rows = spec(4, 8, at=lambda i: (i, 0))
column = spec(4, at=lambda i: (i,))
slab = spec(8, 16, at=lambda i: (i, 0))

# What is needed for a block

CASES.group(
    "pull",
    elements=lambda: pulled(lambda x, y: jnp.exp(jnp.where(x > y, x, y)) + x * 2 - v, (x, y)),
    converted=lambda: pulled(lambda x: lax.bitcast_convert_type(x.astype(jnp.int32), jnp.float32), (x,)),
    nested=lambda: pulled(lambda x: jax.nn.gelu(jax.nn.silu(jax.nn.relu(x))), (x,)),
    scalar=lambda: pulled(lambda x, s: x * s, (x, jnp.float32(3))),
    scalar_predicate=lambda: pulled(lambda s, x, y: lax.select_n(s, x, y), (jnp.bool_(True), x, y)),
    rows_of_vector=lambda: pulled(lambda v: jnp.broadcast_to(v, (8, 8)), (v,)),
    columns_of_vector=lambda: pulled(lambda v: jnp.broadcast_to(v[:, None], (8, 8)), (v,)),
    repeated_row=lambda: pulled(lambda v: jnp.broadcast_to(v, (8, 8)), (x[:1],)),
    squeezed_columns=lambda: pulled(lambda v: jnp.broadcast_to(v[:, None], (8, 8)), (v,), spec(None, 4), (8, 2)),
    transposed=lambda: pulled(lambda x: x.T, (x,)),
    transposed_squeezed=lambda: pulled(lambda t: t.transpose(0, 2, 1), (t,), spec(None, 4, 2, at=lambda i, j, k: (i, j, k)), (4, 4, 4)),
    squeeze=lambda: pulled(lambda x: x.squeeze(1), (x[:, None],)),
    expand=lambda: pulled(lambda x: x[..., None], (x,), spec(2, 4, 1, at=lambda i, j: (i, j, 0))),
    merged=lambda: pulled(lambda t: t.reshape(32, 16), (t,), slab, (4,)),
    merged_parts=lambda: pulled(lambda t: t.reshape(32, 16), (t,), spec(4, 16, at=lambda i: (i, 0)), (8,)),
    merged_several=lambda: pulled(lambda t: t.reshape(32, 16), (t,), spec(16, 8), (2, 2)),
    merged_last=lambda: pulled(lambda t: t.reshape(4, 128), (t,), spec(2, 32), (2, 4)),
    merged_within=lambda: pulled(lambda t: t.reshape(4, 128), (t,), spec(2, 8), (2, 16)),
    sliced=lambda: pulled(lambda x: x[:, 8:], (wide,)),
    sliced_row=lambda: pulled(lambda x: x[1], (t,), spec(2, 4), (4, 4)),
    concatenated=lambda: pulled(lambda x, y: jnp.concatenate([x, y], 1), (x, y), spec(2, 16), (4, 1)),
    stacked=lambda: pulled(lambda x, y: jnp.stack([x, y]), (x, y), spec(2, 2, 4, at=lambda k, i, j: (k, i, j)), (1, 4, 2)),
    iota=lambda: pulled(lambda x: x + lax.broadcasted_iota(jnp.float32, (8, 8), 0), (x,)),
    iota_squeezed=lambda: pulled(lambda x: x + lax.broadcasted_iota(jnp.float32, (8, 8), 1), (x,), spec(None, 4), (8, 2)),
    constant=lambda: pulled(lambda x: x + jnp.full((8, 8), 2.0), (x,)),
    sum=lambda: pulled(lambda x: x.sum(1), (x,), column, (2,)),
    sum_kept=lambda: pulled(lambda x: x.sum(0, keepdims=True), (x,), spec(1, 4, at=lambda i: (0, i)), (2,)),
    product=lambda: pulled(lambda x, y: x @ y, (x, y)),
    several=lambda: pulled(lambda x, y: (x + 1, x * y), (x, y), (spec(2, 4),) * 2),
    unused=lambda: pulled(lambda x, y: x * 2, (x, y)),
    closed_over=lambda: pulled(lambda: x * y, ()),
    spaces=lambda: pulled(lambda x: x * 2, (x,), pl.BlockSpec((2, 4), lambda i, j: (i, j), pipeline_mode=pl.Buffered(3))),
    blocked=lambda: pulled(lambda x: x.T * 2, (x,), spec(pl.Blocked(2), 4)),
    random=lambda: pulled(lambda k: jax.random.uniform(jax.random.fold_in(k, 7), (8, 8)), (jax.random.key(3),)),
)  # fmt: skip

CASES.group(
    "push",
    elements=lambda: pushed(lambda x: jnp.exp(x) * 2 + 1, spec(2, 4)),
    one=lambda: pushed(lambda x, y: x * y, spec(2, 4), pl.no_block_spec),
    transposed=lambda: pushed(lambda x: x.T, spec(2, 4)),
    broadcast=lambda: pushed(lambda x: jnp.broadcast_to(x, (4, 8, 8)), spec(2, 4)),
    expanded=lambda: pushed(lambda x: x[None], spec(2, 4)),
    sum=lambda: pushed(lambda x: x.sum(1), spec(2, 8, at=lambda i, j: (i, 0))),
    several=lambda: pushed(lambda x: dict(a=(x, x.T)), spec(2, 4)),
    nested=lambda: pushed(lambda x: jax.nn.silu(jax.nn.relu(x)), spec(2, 4)),
)  # fmt: skip


# Fusibles


def block_product(x_fn, y_fn, out_fn, block=4):
    """A product by blocks, fused with what is around it."""
    (m, k), n = x_fn.shape, y_fn.shape[1]
    is_alone = out_fn is None
    out_fn = out_fn or (lambda z: (z,))
    args = []
    for fn, s in ((x_fn, spec(block, k, at=lambda i, j: (i, 0))), (y_fn, spec(k, block, at=lambda i, j: (0, j)))):  # fmt: skip
        f, values, _ = fuser.get_fusion_values(fn)
        kernel_fn, (specs,), _ = fuser.pull_block_spec(f, s, grid_len=2)(values)
        args.append((kernel_fn, values, specs))
    out = spec(block, block)
    z_type = jax.ShapeDtypeStruct((m, n), x_fn.dtype)
    f, z_values, _ = fuser.get_fusion_values(out_fn, z_type)
    out_types = jax.eval_shape(f, z_values, z_type)
    out_specs = fuser.push_block_spec(f, (pl.no_block_spec,) * len(z_values), out)(z_values, z_type)
    z_fn, (z_specs, _), _ = fuser.pull_block_spec(f, out_specs, grid_len=2)(z_values, z_type)

    def kernel(x_refs, y_refs, z_refs, *o_refs):
        at = (pl.program_id(0), pl.program_id(1))
        read = lambda refs: tuple([r[...] for r in refs])
        product = args[0][0](at, (), read(x_refs)) @ args[1][0](at, (), read(y_refs))
        for ref, o in zip(o_refs, z_fn(at, (), read(z_refs), product)):
            ref[...] = o

    outs = pl.pallas_call(
        kernel,
        out_types,
        grid=(m // block, n // block),
        in_specs=[args[0][2], args[1][2], z_specs],
        out_specs=out_specs,
        interpret=True,
    )(args[0][1], args[1][1], z_values)
    return outs[0] if is_alone else outs


product = fuser.fusible(block_product)


@fuser.fusible(output_fusion_prefix=(True, True))
def pair(x_fn, out_fns):
    outs = (x_fn(), x_fn() + 1)
    return tuple([o if f is None else f(o) for o, f in zip(outs, out_fns)])


def types_of_fusions(f, *args):
    seen = []

    @fuser.fusible
    def called(x_fn, y_fn, out_fn):
        seen.append((str(x_fn.type), x_fn.in_type, y_fn.shape, str(y_fn.dtype), x_fn.strict_mode))
        if out_fn is not None:
            seen.append((str(out_fn.in_type), str(out_fn.type), out_fn.in_shape, out_fn.shape))
        z = x_fn() @ y_fn()
        return z if out_fn is None else out_fn(z)

    out = fuser.fuse(lambda *args: f(called, *args))(*args)
    return str(seen[-2:]), out


CASES.group(
    "fuse",
    alone=lambda: product(x, y),
    around=lambda: fuser.fuse(lambda x, y: jax.nn.relu(product(x * 2, y.T)) / 3)(x, y),
    bias=lambda: fuser.fuse(lambda x, y, b: product(x, y) + jnp.broadcast_to(b, (8, 8)))(x, y, v),
    several=lambda: fuser.fuse(lambda x, y: (lambda z: (z, z * 2))(product(x, y)))(x, y),
    several_twice=lambda: fuser.fuse(lambda x: (lambda z: dict(a=z[0] * 2, b=z[1] * 3))(pair(x)))(x),
    several_swapped=lambda: fuser.fuse(lambda x: pair(x)[::-1])(x),
    one_of_several=lambda: fuser.fuse(lambda x: pair(x)[1] * 2)(x),
    types=lambda: types_of_fusions(lambda p, x, y: p(x * 2, y) + v, x, y),
    jit=lambda: jax.jit(fuser.fuse(lambda x, y: product(x + 1, y) * 2))(x, y),
    vmap=lambda: jax.vmap(fuser.fuse(lambda x: pair(x * 2)[0] + 1))(x),
    jaxpr=lambda: str(jax.make_jaxpr(fuser.fuse(lambda x: pair(x * 2)[0] + 1))(x)),
    evaluate=lambda: fuser.evaluate(lambda x: jnp.tanh(x) + x.T)(x),
)  # fmt: skip


def written(f):
    ref = jax.new_ref(x)
    fn, values, _, aliases = fuser.get_stateful_output_fusion_values(lambda z: f(ref, z), y)
    return fn([x] * len(values), y), str(aliases)


def write(ref, z):
    ref[...] = ref[...] + z * 2
    return z + 1


def fused_write():
    ref, other = jax.new_ref(x), jax.new_ref(y)

    @fuser.fusible
    def plain(x_fn, y_fn, out_fn):
        z = x_fn() @ y_fn()
        return z if out_fn is None else out_fn(z)

    def f(a):
        z = plain(ref[...] + a, y) * 2
        other[...] = z
        return z + 1

    return fuser.fuse(f)(x), other[...]


CASES.group(
    "state",
    written=lambda: written(write),
    read=lambda: written(lambda r, z: r[...] * z),
    fused=fused_write,
)


def turned(block):
    return block.replace(
        block_shape=tuple(block.block_shape)[::-1],
        block_index_transform=lambda *at: block.block_index_transform(*at)[::-1],
    )


@fuser.custom_fusion
def scaled(x, s):
    return x.T * s


scaled.def_pull_block_spec(lambda blocks: (turned(blocks[0]), blocks[0]))
scaled.def_eval_rule(lambda ctx, x, s: (x.T * s + ctx.out_block_indices[0][0],))
scaled.def_push_block_spec(lambda specs: (specs[1],))

CASES.group(
    "custom",
    called=lambda: jax.jit(scaled)(x, y),
    pulled=lambda: pulled(lambda x, y: scaled(x, y) + 1, (x, y)),
    pulled_twice=lambda: pulled(lambda x, y, z: scaled(scaled(x, v * y), z), (x, y, x + 1)),
    pushed=lambda: pushed(scaled, pl.no_block_spec, spec(2, 4)),
    evaluated=lambda: fuser.evaluate(lambda x: scaled(x, y))(x),
)
