"""Kernels over cores, semaphores, references of kernels, and what back ends from outside use."""

import dataclasses

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import export
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.extend import pallas as extend_pallas
from jax.sharding import PartitionSpec as P

Semaphore = pltpu.SemaphoreType
mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
x28 = jnp.arange(16.0).reshape(2, 8)


def counts(kernel, scratch=(), size=4, **options):
    out = jax.ShapeDtypeStruct((size,), jnp.int32)
    return pl.pallas_call(kernel, out, scratch_shapes=scratch, interpret=True, **options)


def count(o_ref, sem):
    pl.semaphore_signal(sem, 3)
    o_ref[0] = pl.semaphore_read(sem)
    pl.semaphore_wait(sem, 2)
    o_ref[1] = pl.semaphore_read(sem)
    pl.semaphore_wait(sem, jnp.int8(1), decrement=False)
    o_ref[2] = pl.semaphore_read(sem)
    pl.semaphore_wait(sem)
    o_ref[3] = pl.semaphore_read(sem)


@pytest.mark.parametrize("kind", [Semaphore.REGULAR, Semaphore.BARRIER])
def test_semaphores_count(kind):
    np.testing.assert_array_equal(counts(count, [kind])(), [3, 1, 1, 0])
    of_many = counts(lambda o, s: count(o, s.at[1]), [kind((2,))])
    np.testing.assert_array_equal(of_many(), [3, 1, 1, 0])
    shown = str(jax.make_jaxpr(of_many)())
    assert "semaphore_signal b[1] 3:i32[]" in shown and "semaphore_wait[dec] b[1] 2" in shown
    assert f"{kind.dtype}[2]" in shown


def test_semaphores_in_nested_functions():
    def kernel(o_ref, sems):
        @pl.loop(0, 5)
        def _(i):
            pl.when(i > 1)(lambda: pl.semaphore_signal(sems.at[1], i))

        def scoped(sem):
            pl.semaphore_signal(sem, 7)
            pl.semaphore_signal(sems.at[0], pl.semaphore_read(sem))

        pl.run_scoped(scoped, Semaphore.REGULAR)
        o_ref[0] = pl.semaphore_read(sems.at[0])
        o_ref[1] = pl.semaphore_read(sems.at[1])

    found = counts(kernel, [Semaphore.REGULAR((2,))], grid=(2,))()
    np.testing.assert_array_equal(found[:2], [14, 18])


def test_errors_of_semaphores():
    def fails(body, message, error=ValueError):
        kernel = counts(lambda o, s: body(o, s), [Semaphore.REGULAR((2,)), ])  # fmt: skip
        with pytest.raises(error, match=message):
            kernel()

    fails(
        lambda o, s: pl.semaphore_signal(s), r"Cannot signal on a non-\(\)-shaped semaphore: \(2,"
    )
    fails(lambda o, s: pl.semaphore_wait(o.at[0]), "Must wait semaphores of .* Got int32")
    fails(lambda o, s: pl.semaphore_signal(s.at[0], jnp.ones(2)), "inc must be an integer scalar")
    fails(lambda o, s: pl.semaphore_signal(s.at[0], device_id=(1, 2)), "has 2 coordinates")
    fails(lambda o, s: pl.semaphore_signal(s.at[0], device_id={"x": 1}), r"axes \['x'\]")
    fails(lambda o, s: pl.semaphore_signal(s.at[0], core_index=1), "InterpretParams", NotImplementedError)  # fmt: skip
    with pytest.raises(ValueError, match="Must signal semaphores .* Got dma_sem"):
        counts(lambda o, s: pl.semaphore_signal(s), [Semaphore.DMA])()


@pytest.mark.parametrize("named", [False, True])
def test_semaphores_of_other_devices(named):
    n = len(jax.devices())
    devices = jax.make_mesh((n,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))

    def kernel(o_ref, sem):
        me = jax.lax.axis_index("d")
        pl.semaphore_signal(sem, me + 1, device_id={"d": (me + 1) % n} if named else (me + 1) % n)
        pl.semaphore_signal(sem, 100, device_id=0, device_id_type=pl.DeviceIdType.LOGICAL)
        o_ref[0] = pl.semaphore_read(sem)

    run = jax.shard_map(
        counts(kernel, [Semaphore.REGULAR], 1), mesh=devices, in_specs=(), out_specs=P("d")
    )
    expected = np.roll(np.arange(n) + 1, 1) + 100 * n * (np.arange(n) == 0)
    np.testing.assert_array_equal(jax.jit(run)(), expected)


def test_global_references():
    def kernel(o_ref):
        sem = pl.get_global(Semaphore.REGULAR)
        pl.semaphore_signal(sem)

        @pl.when(pl.program_id(0) > 0)
        def _():
            inner = pl.get_global(Semaphore.REGULAR)
            pl.semaphore_signal(inner, 5)
            o_ref[1] = pl.semaphore_read(inner)

        o_ref[0] = pl.semaphore_read(sem)

    np.testing.assert_array_equal(counts(kernel, grid=3)()[:2], [3, 10])
    with pytest.raises(ValueError, match="call it in one"):
        pl.get_global(Semaphore.REGULAR)


def square_rows(x_ref, o_ref, row_ref):
    i = jax.lax.axis_index("core")
    row_ref[...] = x_ref[i]
    o_ref[i] = row_ref[...] * row_ref[...]


scratch = [pltpu.VMEM((8,), jnp.float32)]


def test_kernel_on_cores():
    square = pl.kernel(square_rows, x28, mesh=mesh, interpret=True, scratch_types=scratch)
    np.testing.assert_array_equal(square(x28), x28**2)
    batch = jnp.stack([x28, x28 + 1])
    np.testing.assert_array_equal(jax.vmap(square)(batch), batch**2)
    np.testing.assert_array_equal(jax.jvp(square, (x28,), (x28,))[1], 2 * x28**2)

    @pl.kernel(out_type=[x28], mesh=mesh, interpret=True, scratch_types=dict(row_ref=scratch[0]))
    def in_tree(x_refs, o_ref, *, row_ref):
        square_rows(x_refs["x"], o_ref, row_ref)

    np.testing.assert_array_equal(in_tree({"x": x28})[0], x28**2)


def test_kernel_changes_references():
    x_ref, y_ref = jax.new_ref(x28), jax.new_ref(x28)

    @pl.kernel(mesh=mesh, interpret=True)
    def write(ref, row_ref):
        ref[0] = row_ref[...]
        y_ref[1] = row_ref[...]

    assert write(x_ref, jnp.ones(8)) == ()
    assert write(x_ref, jnp.full(8, 2.0)) == ()
    np.testing.assert_array_equal(x_ref[...], x28.at[0].set(2))
    np.testing.assert_array_equal(y_ref[...], x28.at[1].set(2))
    with pytest.raises(ValueError, match="only one reference"):
        pl.kernel(lambda a, b: a.__setitem__(0, b[1]), mesh=mesh, interpret=True)(x_ref, x_ref)
    with pytest.raises(ValueError, match="closed over"):
        pl.kernel(lambda a: a.__setitem__(0, x_ref[1]), mesh=mesh, interpret=True)(x_ref)


def test_core_map():
    def f(x):
        x_ref, y_ref = jax.new_ref(x), jax.new_ref(jnp.zeros_like(x))

        @pl.core_map(mesh, interpret=True, scratch_shapes=scratch)
        def _(row_ref):
            square_rows(x_ref, y_ref, row_ref)

        return y_ref[...]

    for run in (f, jax.jit(f)):
        np.testing.assert_array_equal(run(x28), x28**2)
    batch = jnp.stack([x28, x28 + 1])
    np.testing.assert_array_equal(jax.vmap(f)(batch), batch**2)
    np.testing.assert_array_equal(jax.jvp(f, (x28,), (x28,))[1], 2 * x28**2)


def test_kernels_on_cores_in_other_functions():
    n = len(jax.devices())
    devices = jax.make_mesh((n,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))

    def double(x):
        ref = jax.new_ref(x)

        @pl.core_map(mesh, interpret=True)
        def _():
            i = jax.lax.axis_index("core")
            ref[i] = ref[i] * 2 + jax.lax.axis_index("d")

        return jax.freeze(ref)

    x = jnp.ones((2, n))
    specs = dict(mesh=devices, in_specs=P(None, "d"), out_specs=P(None, "d"))
    found = jax.jit(jax.shard_map(double, **specs))(x)
    np.testing.assert_array_equal(found, 2 * x + jnp.arange(n))

    ref = jax.new_ref(x28)
    view = ref.at[0]

    def step(carry, _):
        @pl.core_map(mesh, interpret=True)
        def _():
            pl.when(jax.lax.axis_index("core") == 1)(lambda: view.__setitem__(..., view[...] + 5))

        return carry, None

    jax.lax.scan(step, 0, None, length=2)
    np.testing.assert_array_equal(ref[...], x28.at[0].add(10))


class Cores:
    """A mesh of cores beside others."""

    shape = {"c": 2}
    axis_names = ("c",)

    def check_is_compatible_with(self, other):
        pass


def test_kernels_on_several_meshes():
    first = lambda x_ref, o_ref: o_ref.__setitem__(0, x_ref[0] + 1)
    second = lambda x_ref, o_ref: o_ref.__setitem__(1, x_ref[1] * 2)
    both = pl.kernel([first, second], x28, mesh=[Cores(), Cores()], interpret=True)
    np.testing.assert_array_equal(both(x28), jnp.stack([x28[0] + 1, x28[1] * 2]))
    with pytest.raises(ValueError, match="must be a sequence"):
        pl.kernel([first, second], x28, mesh=Cores(), interpret=True)
    with pytest.raises(ValueError, match="not compatible"):
        pl.kernel([first, second], x28, mesh=[mesh, mesh], interpret=True)


def test_errors_of_kernels_on_cores():
    ones = jnp.ones(8)
    with pytest.raises(ValueError, match=r"captures non-Ref constants \[f32\[8\]\]"):
        pl.kernel(lambda o: o.__setitem__(0, ones), x28, mesh=mesh, interpret=True)()
    with pytest.raises(ValueError, match="should return None"):
        pl.kernel(lambda o: 1, x28, mesh=mesh, interpret=True)()
    with pytest.raises(ValueError, match="should return None"):
        pl.core_map(mesh, interpret=True)(lambda: 1)
    with pytest.raises(ValueError, match="Only interpret mode"):
        pl.kernel(lambda o: None, x28, mesh=mesh)()
    with pytest.raises(TypeError, match="a mesh of cores"):
        pl.kernel(lambda o: None, x28, mesh=3, interpret=True)()
    with pytest.raises(TypeError, match="a back end's options"):
        pl.core_map(mesh, compiler_params=3)
    with pytest.raises(ValueError, match="got neither"):
        pltpu.create_tensorcore_mesh("core")


def test_names_of_grids_are_axis_names():
    def kernel(o_ref):
        o_ref[...] = jnp.full(2, jax.lax.axis_index("i"), jnp.int32)

    found = counts(kernel, grid=(("i", 2),), out_specs=pl.BlockSpec((2,), lambda i: i))()
    np.testing.assert_array_equal(found, [0, 0, 1, 1])


def test_select_ref():
    def kernel(x_ref, y_ref, o_ref):
        chosen = pl.select_ref(jnp.int32(1), x_ref.at[0], y_ref.at[1])
        assert (chosen.shape, chosen.dtype, chosen.multiref) == ((8,), jnp.float32, True)
        with pytest.raises(NotImplementedError, match="only copies"):
            chosen[...]
        with pytest.raises(ValueError, match="At least two refs"):
            pl.select_ref(0, x_ref)
        with pytest.raises(ValueError, match="of one type"):
            pl.select_ref(0, x_ref, y_ref.at[0])

    pl.pallas_call(kernel, x28, interpret=True)(x28, x28)


def test_block_mappings_and_slices():
    index = jax.core.ShapedArray((), jnp.int32)
    tree = jax.tree.structure(((0,), {}))
    aval = jax.core.ShapedArray((8, 4), jnp.float32)
    options = dict(index_map_avals=(index,), index_map_tree=tree, grid=(4,), vmapped_dims=())
    mapping = pl.BlockSpec((2, 4), lambda i: (i, 0)).to_block_mapping("x", aval, **options)
    assert mapping.block_shape == (pl.Blocked(2), pl.Blocked(4))
    table = jnp.arange(4)
    spec = pl.BlockSpec((2, 4), lambda i: (table[i], 0))
    with pytest.raises(ValueError, match="must not capture constants"):
        spec.to_block_mapping("x", aval, **options)
    mapping = spec.to_block_mapping("x", aval, allow_captured_consts=True, **options)
    assert len(mapping.index_map_jaxpr.consts) == 1
    start = object()
    parts = pl.Slice(start, 2, 3).tree_flatten()
    assert parts == ((start, None), (None, 2, 3))
    assert pl.Slice.tree_unflatten(parts[1], parts[0]) == pl.Slice(start, 2, 3)


def test_back_ends_from_outside():
    @dataclasses.dataclass(frozen=True)
    class Params:
        pass

    def rule(ctx, x, *, grid_mapping, jaxpr, **params):
        grid_mapping.check_invariants()
        assert grid_mapping.static_grid == (2,) and grid_mapping.num_scratch_operands == 1
        assert grid_mapping.in_shapes == [jax.ShapeDtypeStruct((8,), jnp.float32)]
        kinds = jaxpr.invars[grid_mapping.slice_scratch_ops]
        assert [v.aval.memory_space for v in kinds] == [pltpu.VMEM]
        return [x]

    platform = jax.default_backend()
    extend_pallas.register_lowering_rule(Params, rule, platform)
    options = dict(grid=(2,), scratch_shapes=scratch)
    copy = pl.pallas_call(lambda *_: None, x28[0], compiler_params=Params(), **options)
    np.testing.assert_array_equal(copy(x28[0]), x28[0])


def test_lower_as_mlir():
    text = pl.lower_as_mlir(
        lambda x, n: x + n, x28, 3, static_argnames=("n",), dynamic_shapes=True, platforms=["tpu"]
    )
    assert "stablehlo.add" in text and "module @jit" in text


def test_symbolic_sizes_of_blocks_of_compiled_kernels():
    x = jax.ShapeDtypeStruct(export.symbolic_shape("8 * n, 128"), jnp.float32)
    whole = pl.BlockSpec(memory_space=pl.ANY)
    rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
    copied = lambda x: pl.pallas_call(pltpu.sync_copy, x, in_specs=[whole], out_specs=whole)(x)
    write = lambda x, o: o.__setitem__(..., x[...])
    blocked = lambda x: pl.pallas_call(
        write, x, grid=x.shape[0] // 8, in_specs=[rows], out_specs=rows
    )(x)
    lowered = lambda f, **kwargs: pl.lower_as_mlir(f, x, platforms=["tpu"], **kwargs)
    assert "tpu_custom_call" in lowered(blocked)
    for _ in range(2):  # also after it was lowered with the option
        with pytest.raises(ValueError, match=r"static sizes.*args\[0\].*dynamic_shapes=True"):
            lowered(copied)
        assert "tpu_custom_call" in lowered(copied, dynamic_shapes=True)
    with pytest.raises(NotImplementedError, match="have a size that is known"):
        lowered(lambda x: pl.pallas_call(write, x)(x), dynamic_shapes=True)
