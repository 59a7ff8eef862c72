"""Kernels: programs whose results and jaxprs must be the reference's. All of them are interpreted."""

import functools

from op_cases import Programs

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

CASES = Programs()
scenario = CASES.define

x8 = jnp.arange(8.0)
x48 = jnp.arange(32.0).reshape(4, 8)
call = functools.partial(pl.pallas_call, interpret=True)


def like(shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def add(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def scale(x_ref, o_ref):
    o_ref[...] = x_ref[...] * (pl.program_id(0) + 1)


def spec(*shape, at=lambda i: (i,)):
    return pl.BlockSpec(shape, at)


add_blocks = call(add, like((8,)), grid=4, in_specs=[spec(2), spec(2)], out_specs=spec(2))
scale_blocks = call(scale, like((8,)), grid=(2,), in_specs=[spec(4)], out_specs=spec(4))
rows = lambda i: (i, 0)


def copied(in_spec, shape=(4, 8), grid=(2,), out_spec=None, kernel=copy, x=x48, **options):
    out_spec = out_spec or spec(2, 8, at=rows)
    return call(
        kernel, like(shape, x.dtype), grid=grid, in_specs=[in_spec], out_specs=out_spec, **options
    )(x)


# Blocks

CASES.group(
    "blocks",
    whole=lambda: call(add, x8)(x8, x8),
    several=lambda: add_blocks(x8, x8),
    beyond_the_array=lambda: copied(spec(4), (12,), (3,), spec(4), x=jnp.arange(10.0)),
    beyond_the_array_int=lambda: copied(spec(4), (12,), (3,), spec(4), x=jnp.arange(10)),
    beyond_the_result=lambda: copied(spec(4), (10,), (3,), spec(4), x=jnp.arange(12.0)),
    number_too_large=lambda: copied(spec(4, at=lambda i: i + 5), (12,), (3,), spec(4), x=jnp.arange(12.0)),
    number_negative=lambda: copied(spec(4, at=lambda i: (-1,)), (8,), (2,), spec(4), x=x8),
    squeezed=lambda: copied(spec(None, 8, at=rows), grid=(4,), out_spec=spec(pl.squeezed, 8, at=rows)),
    not_covered=lambda: copied(spec(None, 8, at=rows), out_spec=spec(None, 8, at=rows)),
    elements=lambda: copied(spec(pl.Element(2), pl.Element(8), at=lambda i: (i * 2, 0))),
    padded_elements=lambda: copied(spec(pl.Element(2, (1, 1)), 8, at=lambda i: (i * 2, 0))),
    overlapping=lambda: copied(spec(pl.Element(2), 8, at=lambda i: (i, 0))),
    result_by_elements=lambda: copied(spec(3), (5,), (2,), spec(pl.Element(3), at=lambda i: (i * 3,)), x=x8),
    no_index_map=lambda: copied(pl.BlockSpec((2, 8))),
    no_shape=lambda: copied(pl.BlockSpec(None, lambda i: (0, 0)), kernel=lambda x, o: o.__setitem__(..., x[:2])),
    in_any_memory=lambda: copied(pl.BlockSpec(memory_space=pl.ANY), kernel=lambda x, o: o.__setitem__(..., x[1:3])),
    permuted=lambda: copied(spec(2, 8, at=lambda i: (1 - i, 0))),
    two_dimensions=lambda: copied(
        spec(2, 4, at=lambda i, j: (i, j)), grid=(2, 2), out_spec=spec(2, 4, at=lambda i, j: (j, i))
    ),
    named_grid=lambda: call(
        lambda o: o.__setitem__(..., lax.axis_size("i")), like((), jnp.int32), grid=(("i", 2),)
    )(),
    grid_of_zero=lambda: copied(spec(2, 8, at=rows), grid=(0,)),
    scalar=lambda: call(lambda x, o: o.__setitem__(..., x[...] * 2), like(()))(1.5),
    trees=lambda: call(
        lambda a, o: [o["x"].__setitem__(..., a[0][...]), o["y"].__setitem__(..., a[1][...])].clear(),
        dict(x=like((8,)), y=like((8,))),
    )((x8, x8 + 1)),
    argument_none=lambda: call(lambda a, b, o: o.__setitem__(..., a[...]), x8)(x8, None),
    jaxpr=lambda: str(jax.make_jaxpr(add_blocks)(x8, x8)),
)  # fmt: skip


@scenario
def unwritten():
    types = (
        jnp.float32,
        jnp.int32,
        jnp.uint8,
        jnp.bool_,
        jnp.bfloat16,
        jnp.int4,
        jnp.float8_e4m3fn,
    )
    outs = call(lambda *o: None, [like((2,), d) for d in types])()
    return [x.astype(jnp.float32) for x in outs]


# Kernels that write where they have been before


def accumulate(x_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


def accumulate_in_scratch(x_ref, o_ref, sum_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        sum_ref[...] = jnp.zeros_like(sum_ref)

    sum_ref[...] += x_ref[...]

    @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
    def _():
        o_ref[...] = sum_ref[...]


def increase_argument(x_ref, o_ref):
    x_ref[...] = x_ref[...] + 1
    o_ref[...] = x_ref[...]


first = lambda i: (0, 0)
CASES.group(
    "again",
    sum=lambda: copied(spec(2, 8, at=rows), (2, 8), out_spec=spec(2, 8, at=first), kernel=accumulate),
    scratch=lambda: copied(
        spec(2, 8, at=rows), (2, 8), out_spec=spec(2, 8, at=first), kernel=accumulate_in_scratch,
        scratch_shapes=[pltpu.VMEM((2, 8), jnp.float32)],
    ),
    named_scratch=lambda: copied(
        spec(2, 8, at=rows), (2, 8), out_spec=spec(2, 8, at=first), kernel=accumulate_in_scratch,
        scratch_shapes=dict(sum_ref=pltpu.VMEM((2, 8), jnp.float32)),
    ),
    argument=lambda: copied(
        spec(8, at=lambda i: (0,)), (8,), (3,), spec(8, at=lambda i: (0,)), increase_argument, x8
    ),
    aliased=lambda: call(lambda x, o: o.__setitem__(0, 7.0), x8, input_output_aliases={0: 0})(x8),
    unwritten_sum=lambda: copied(
        spec(4), (4,), (3,), spec(4, at=lambda i: (0,)), lambda x, o: o.__setitem__(..., o[...] + x[...]), jnp.arange(12.0)
    ),
)  # fmt: skip


# What kernels are written with


def with_scoped_references(x_ref, o_ref):
    def run(t, u):
        t[...] = x_ref[...]
        u[...] = t[...] * 2
        o_ref[...] = u[...]
        return 3

    o_ref[...] += pl.run_scoped(
        run, pltpu.VMEM((2, 8), jnp.float32), u=pltpu.VMEM((2, 8), jnp.float32)
    )


def with_grid_in_branches(x_ref, o_ref):
    def step(i, total):
        return total + lax.cond(pl.program_id(0) == i, lambda: x_ref[0], lambda: x_ref[1] * 0)

    o_ref[...] = jnp.broadcast_to(lax.fori_loop(0, 2, step, x_ref[0] * 0), (2, 8))


def with_jitted_function(x_ref, o_ref):
    @jax.jit
    def scaled(x):
        return x * pl.program_id(0)

    o_ref[...] = scaled(x_ref[...])


def with_loop(x_ref, o_ref):
    @pl.loop(0, 2)
    def _(i):
        o_ref[i] = x_ref[i] * 2


def with_while(x_ref, o_ref):
    def body(c):
        o_ref[0] += x_ref[0]
        return c + 1

    o_ref[...] = jnp.zeros_like(o_ref)
    lax.while_loop(lambda c: c < 2 + pl.program_id(0), body, 0)


def with_slices(x_ref, o_ref):
    o_ref[pl.ds(0, 1), pl.ds(2, 4)] = x_ref[pl.ds(1, 1), :4]
    o_ref.at[1][0] = x_ref[1, 7]


of_rows = functools.partial(copied, spec(2, 8, at=rows))
CASES.group(
    "kernel",
    scoped=lambda: of_rows(kernel=with_scoped_references),
    loop=lambda: of_rows(kernel=with_loop),
    slices=lambda: of_rows(kernel=with_slices),
    program_id=lambda: call(
        lambda o: o.__setitem__(pl.program_id(0), pl.num_programs(0)), like((5,), jnp.int32), grid=5
    )(),
    traced_grid=lambda: jax.jit(
        lambda n: call(
            lambda o: o.__setitem__(pl.program_id(0), pl.num_programs(0)), like((5,), jnp.int32), grid=(n,)
        )()
    )(3),
    loop_with_carry=lambda: call(
        lambda o: o.__setitem__(..., pl.loop(0, 8, init_carry=jnp.float32(1), step=2)(lambda i, c: c + i)), like(())
    )(),
    reciprocal=lambda: jax.jit(pl.reciprocal)(x8),
    sizes=lambda: (
        pl.cdiv(7, 2), pl.align_to(7, 4), pl.next_power_of_2(5), pl.next_power_of_2(0),
        *pl.strides_from_shape((2, 3, 4)), pl.cdiv(jnp.int32(7), 2), pl.align_to(jnp.int32(7), 4),
    ),
    broadcast_to=lambda: pl.broadcast_to(x48[:, None], (2, 4, 3, 8)),
    multiple_of=lambda: str(jax.make_jaxpr(lambda x: pl.multiple_of(x, [2, 3]))(3)),
    cost=lambda: str(pl.estimate_cost(lambda x: jnp.sin(x @ x.T), x48)),
)  # fmt: skip


# Operands of index maps


def add_scalar(s_ref, x_ref, o_ref):
    o_ref[...] = x_ref[...] + s_ref[0]


prefetching = call(
    add_scalar,
    like((4, 8)),
    grid_spec=pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(2,),
        in_specs=[spec(2, 8, at=lambda i, s: (s[i], 0))],
        out_specs=spec(2, 8, at=lambda i, s: (i, 0)),
    ),
)
order = jnp.array([1, 0])
CASES.group(
    "prefetch",
    permuted=lambda: prefetching(order, x48),
    jaxpr=lambda: str(jax.make_jaxpr(prefetching)(order, x48)),
    vmap=lambda: jax.vmap(prefetching, (None, 0))(order, jnp.stack([x48, x48 + 1])),
    vmap_of_scalars=lambda: jax.vmap(prefetching)(jnp.stack([order, 1 - order]), jnp.stack([x48, x48])),
)  # fmt: skip


# Operations of kernels for TPUs

x_int = x48.astype(jnp.int32)


def applied(f, x, out=None):
    return call(lambda x, o: o.__setitem__(..., f(x[...])), like(*(out or (x.shape, x.dtype))))(x)


CASES.group(
    "tpu",
    roll=lambda: [applied(lambda v: pltpu.roll(v, k, a), x_int) for k in (0, 2, 11) for a in (0, 1)],
    roll_traced=lambda: call(lambda s, x, o: o.__setitem__(..., pltpu.roll(x[...], s[0], 1)), x_int)(jnp.array([3]), x_int),
    roll_by_rows=lambda: applied(lambda v: pltpu.roll(v, 1, 1, stride=2, stride_axis=0), x_int),
    bitcast=lambda: applied(lambda v: pltpu.bitcast(v, jnp.int32), x48, ((4, 8), jnp.int32)),
    bitcast_narrow=lambda: applied(lambda v: pltpu.bitcast(v, jnp.int16), x48, ((8, 8), jnp.int16)),
    bitcast_wide=lambda: applied(lambda v: pltpu.bitcast(v, jnp.int32), x_int.astype(jnp.int16), ((2, 8), jnp.int32)),
    jaxprs=lambda: [
        str(jax.make_jaxpr(lambda v: pltpu.roll(v, 11, 1))(x_int)), str(jax.make_jaxpr(lambda v: pltpu.bitcast(v, jnp.int16))(x_int))
    ],
)  # fmt: skip


# Semaphores


def count(o_ref, sem):
    pl.semaphore_signal(sem, 3)
    o_ref[0] = pl.semaphore_read(sem)
    pl.semaphore_wait(sem, 2)
    o_ref[1] = pl.semaphore_read(sem)
    pl.semaphore_wait(sem)


def counting(kind):
    return call(count, like((2,), jnp.int32), scratch_shapes=[kind])


kinds = pltpu.SemaphoreType
CASES.group(
    "semaphores",
    counts=lambda: [counting(k)() for k in (kinds.REGULAR, kinds.BARRIER)],
    jaxprs=lambda: [str(jax.make_jaxpr(counting(k))()) for k in (kinds.REGULAR, kinds.BARRIER)],
    types=lambda: [str(t) for k in kinds for t in (k.get_ref_aval(), k((2,)).get_ref_aval())],
    not_one=lambda: counting(kinds.REGULAR((2,)))(),
)  # fmt: skip


# Transformations

CASES.group(
    "transformed",
    jit=lambda: jax.jit(add_blocks)(x8, x8),
    jvp=lambda: jax.jvp(lambda x: call(add, x8)(x, x), (x8,), (x8,)),
    jvp_jaxpr=lambda: str(jax.make_jaxpr(lambda x: jax.jvp(lambda x: call(add, x8)(x, x), (x,), (x,)))(x8)),
    vmap=lambda: jax.vmap(add_blocks)(jnp.stack([x8, x8 + 1]), jnp.stack([x8, x8])),
    vmap_jaxpr=lambda: str(jax.make_jaxpr(jax.vmap(add_blocks))(jnp.stack([x8, x8]), jnp.stack([x8, x8]))),
    vmap_of_one=lambda: jax.vmap(add_blocks, (0, None))(jnp.stack([x8, x8 + 1]), x8),
    vmap_of_one_jaxpr=lambda: str(jax.make_jaxpr(jax.vmap(add_blocks, (0, None)))(jnp.stack([x8, x8]), x8)),
    vmap_last=lambda: jax.vmap(scale_blocks, 1)(jnp.stack([x8, x8 + 1], 1)),
    vmap_last_jaxpr=lambda: str(jax.make_jaxpr(jax.vmap(scale_blocks, 1))(jnp.stack([x8, x8], 1))),
    vmap_twice=lambda: jax.vmap(jax.vmap(scale_blocks))(jnp.stack([x8, x8 + 1])[None]),
    scan=lambda: lax.scan(lambda c, _: (add_blocks(c, x8), None), x8, None, length=3)[0],
    checkpoint=lambda: jax.checkpoint(add_blocks)(x8, x8),
)  # fmt: skip
