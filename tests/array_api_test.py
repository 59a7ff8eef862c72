"""jax.numpy as a namespace of the Python array API standard, 2024.12: names, parameters, metadata, types of results."""

import inspect

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src import test_util as jtu

jtu.request_cpu_devices(8)

# For each form: the number of positional parameters, "*" for any number; names of the others; functions.
FUNCTIONS = """
1 dtype device copy: asarray
3 stop step dtype device: arange
1 shape dtype device: empty ones zeros
1 dtype device: empty_like ones_like zeros_like
2 k dtype device: eye
1 device copy: from_dlpack
2 shape fill_value dtype device: full
2 fill_value dtype device: full_like
3 num dtype device endpoint: linspace
* indexing: meshgrid
1 k: tril triu
2 copy device: astype
*: broadcast_arrays result_type
2 shape: broadcast_to
2: can_cast add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal
2: floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum
2: multiply nextafter not_equal pow remainder subtract matmul tile
2: linalg.matmul linalg.matrix_power linalg.outer linalg.solve
1: finfo iinfo abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf
1: isnan log log1p log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan
1: tanh trunc matrix_transpose nonzero unique_all unique_counts unique_inverse unique_values linalg.det linalg.eigh
1: linalg.eigvalsh linalg.inv linalg.matrix_transpose linalg.slogdet linalg.svdvals
2 kind: isdtype
3 min max: clip
2 axis: take take_along_axis vecdot expand_dims repeat squeeze linalg.cross linalg.vecdot
0: __array_namespace_info__
2 axes: tensordot permute_dims linalg.tensordot
1 axis: concat flip stack unstack
3: moveaxis where
2 shape copy: reshape
2 shift axis: roll
1 axis keepdims: argmax argmin count_nonzero max mean min all any
2 side sorter: searchsorted
1 axis descending stable: argsort sort
1 axis dtype include_initial: cumulative_sum cumulative_prod
1 axis dtype keepdims: prod sum
1 axis correction keepdims: std var
1 axis n prepend append: diff
1 upper: linalg.cholesky
1 offset: linalg.diagonal
1 keepdims ord: linalg.matrix_norm
1 rtol: linalg.matrix_rank linalg.pinv
1 mode: linalg.qr
1 full_matrices: linalg.svd
1 offset dtype: linalg.trace
1 axis keepdims ord: linalg.vector_norm
1 n axis norm: fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft
1 s axes norm: fft.fftn fft.ifftn fft.rfftn fft.irfftn
1 d dtype device: fft.fftfreq fft.rfftfreq
1 axes: fft.fftshift fft.ifftshift
"""
OPERATORS = "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor"
METHODS = """
T mT device dtype ndim shape size to_device __abs__ __array_namespace__ __bool__ __complex__ __dlpack__
__dlpack_device__ __eq__ __float__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__ __lt__ __ne__ __neg__
__pos__
"""
SIGNED, UNSIGNED = ("int8", "int16", "int32"), ("uint8", "uint16", "uint32")


def forms():
    for line in FUNCTIONS.strip().splitlines():
        form, names = line.split(":")
        count, *parameters = form.split()
        for name in names.split():
            yield pytest.param(name, count, parameters, id=name)


@pytest.mark.parametrize("name, count, parameters", [*forms()])
def test_parameters(name, count, parameters):
    fun = jnp
    for part in name.split("."):
        fun = getattr(fun, part)
    if isinstance(fun, jnp.ufunc):
        assert fun.nin == int(count)
        return
    have = inspect.signature(fun).parameters
    assert set(parameters) <= set(have)
    kinds = [p.kind for p in have.values()]
    if count == "*":
        assert inspect.Parameter.VAR_POSITIONAL in kinds
    elif inspect.Parameter.VAR_POSITIONAL not in kinds:
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        assert sum(k in positional for k in kinds) >= int(count)


def test_methods():
    x = jnp.ones((2, 2))
    for name in METHODS.split():
        assert hasattr(x, name), name
    for name in OPERATORS.split():
        assert hasattr(x, f"__{name}__") and hasattr(x, f"__r{name}__"), name


def test_constants_and_dtypes():
    for name in ("e", "inf", "nan", "pi"):
        assert getattr(jnp, name) == getattr(np, name) or name == "nan"
    assert jnp.newaxis is None
    for name in (*SIGNED, *UNSIGNED, "float32", "complex64", "bool"):
        assert jnp.zeros(2, dtype=getattr(jnp, name)).dtype == getattr(jnp, name)


@pytest.mark.parametrize("version", [None, "2021.12", "2022.12", "2023.12", "2024.12"])
def test_namespace_of_arrays_and_tracers(version):
    f = lambda x: x if x.__array_namespace__(api_version=version) is jnp else 0
    assert f(jnp.float32(1)) == jax.jit(f)(1.0) == 1
    assert jnp.__array_api_version__ == "2024.12"


def test_unknown_version():
    with pytest.raises(ValueError, match=r"api_version='2030.12' is not available"):
        jnp.ones(2).__array_namespace__(api_version="2030.12")


def test_capabilities_and_devices():
    info = jnp.__array_namespace_info__()
    want = {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}
    assert info.capabilities() == want
    assert info.default_device() is None
    assert info.devices() == [None, *jax.devices()]
    for device in info.devices():
        assert jnp.zeros(2, device=device).device == (device or jax.devices()[0])


@pytest.mark.parametrize("x64", [False, True])
def test_dtypes_of_the_namespace(x64):
    wide = (lambda *names: names) if x64 else lambda *names: ()
    kinds = {
        "bool": ("bool",),
        "signed integer": SIGNED + wide("int64"),
        "unsigned integer": UNSIGNED + wide("uint64"),
        "real floating": ("float32", *wide("float64")),
        "complex floating": ("complex64", *wide("complex128")),
    }
    kinds["integral"] = kinds["signed integer"] + kinds["unsigned integer"]
    kinds["numeric"] = kinds["integral"] + kinds["real floating"] + kinds["complex floating"]
    kinds[None] = kinds["numeric"] + kinds["bool"]
    kinds["bool", "real floating"] = kinds["bool"] + kinds["real floating"]
    kinds[()] = ()
    with jax.enable_x64(x64):
        info = jnp.__array_namespace_info__()
        for kind, names in kinds.items():
            for device in (None, jax.devices()[1]):
                found = info.dtypes(kind=kind, device=device)
                assert found == {name: np.dtype(name) for name in names}
            for dtype in found.values():
                assert kind is None or jnp.isdtype(dtype, kind)
        for kind, dtype in info.default_dtypes(device=jax.devices()[0]).items():
            value = {"r": 1.0, "c": 1j, "i": 1}[kind[0]]
            assert jnp.asarray(value).dtype == dtype
        assert jnp.argmax(jnp.ones(2)).dtype == info.default_dtypes()["indexing"]


@pytest.mark.parametrize("kind", ["float", ("bool", "float"), 3, (None,), ["bool"]])
def test_unknown_kinds(kind):
    with pytest.raises(ValueError, match="unknown kind .* the kinds are 'bool', 'signed integer'"):
        jnp.__array_namespace_info__().dtypes(kind=kind)


def test_unknown_devices():
    info = jnp.__array_namespace_info__()
    for method in (info.dtypes, info.default_dtypes):
        with pytest.raises(TypeError, match=r"device must be a jax.Device, .*, got 'cpu:0'"):
            method(device="cpu:0")


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED, "float32", "complex64"])
def test_dtypes_of_sums_and_products(dtype):
    x = jnp.ones((2, 3), dtype)
    want = {"i": "int32", "u": "uint32"}.get(dtype[0], dtype)
    for fun in (jnp.sum, jnp.prod, jnp.cumulative_sum, jnp.cumulative_prod):
        options = {"axis": 0} if "cumulative" in fun.__name__ else {}
        assert fun(x, dtype=dtype, **options).dtype == dtype
        # Narrow integers stay narrow in the reference's cumulative products, against the standard.
        assert fun(x, **options).dtype == (dtype if fun is jnp.cumulative_prod else want)
    assert jnp.linalg.trace(x).dtype == want
    assert jnp.count_nonzero(x).dtype == jnp.int32


@pytest.mark.parametrize(
    "name", ["add", "multiply", "pow", "maximum", "copysign", "less", "bitwise_and"]
)
def test_scalar_operands(name):
    """Since 2024.12, functions of two arrays take a Python scalar on either side, which has no dtype of its own."""
    dtype = "int8" if name == "bitwise_and" else "float32"
    fun, x = getattr(jnp, name), jnp.array([1, 2, 3], dtype)
    y = np.array(2, dtype)
    for args, full in (((x, 2), (x, y)), ((2, x), (y, x))):
        out, want = fun(*args), fun(*full)
        np.testing.assert_array_equal(out, want, strict=True)
    assert jnp.where(x > 1, x, 0).dtype == jnp.where(x > 1, 0, x).dtype == x.dtype
    assert jnp.clip(x, 2, None).dtype == jnp.clip(x, max=2).dtype == x.dtype
    assert jnp.result_type(x, 2) == x.dtype


def test_fields_of_results():
    a = jnp.array([[2.0, 1], [1, 3]])
    fields = {
        jnp.unique_all: "values indices inverse_indices counts",
        jnp.unique_counts: "values counts",
        jnp.unique_inverse: "values inverse_indices",
        jnp.linalg.eigh: "eigenvalues eigenvectors",
        jnp.linalg.qr: "Q R",
        jnp.linalg.slogdet: "sign logabsdet",
        jnp.linalg.svd: "U S Vh",
    }
    for fun, names in fields.items():
        assert fun(a)._fields == tuple(names.split())
    assert jnp.unique_inverse(a).inverse_indices.shape == a.shape
    for name in ("bits", "eps", "max", "min", "smallest_normal", "dtype"):
        assert hasattr(jnp.finfo(jnp.float32), name)
    assert (jnp.iinfo(jnp.int8).bits, jnp.iinfo(jnp.int8).max, jnp.iinfo(jnp.int8).min) == (
        8,
        127,
        -128,
    )


def test_copies():
    x = jnp.arange(3.0)
    for copy in (
        jnp.asarray(x, copy=True),
        jnp.astype(x, x.dtype, copy=True),
        jnp.reshape(x, (3, 1), copy=True),
    ):
        assert copy.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    assert jnp.asarray(x, copy=False) is x
    assert x.to_device(x.device).device == x.device


def test_assignments_bind_new_arrays():
    x = before = jnp.arange(3)
    x += 1
    x <<= 2
    x %= 5
    assert before.tolist() == [0, 1, 2] and x.tolist() == [4, 3, 2]
