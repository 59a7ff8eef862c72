"""`jax.experimental.rnn` beside the reference (rnn_scenarios.py), and what is lowered to cuDNN."""

import re

import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax._src.lib import gpu_rnn
from jax.experimental import rnn

reference, test_reference, _ = case_tests(__file__)

F = jnp.float32
SIZES = (3, 4, 2, 0.25, True)  # inputs, hidden, layers, dropout, bidirectional


@pytest.fixture
def sizes(monkeypatch):
    """Answers of cuDNN, which is not installed: the sizes of its workspace and of its residuals."""
    asked = []

    def compute(*args):
        asked.append(args)
        return 1000, 3000

    monkeypatch.setattr(gpu_rnn, "compute_rnn_workspace_reserve_space_sizes", compute, raising=False)  # fmt: skip
    return asked


def arrays(**changed):
    shapes = {"x": (2, 5, 3), "h_0": (4, 2, 4), "c_0": (4, 2, 4), "weights": (736,)}
    args = {k: jax.ShapeDtypeStruct(s, F) for k, s in shapes.items()}
    args["seq_lengths"] = jax.ShapeDtypeStruct((2,), jnp.int32)
    return list({**args, **changed}.values())


def lstm(*args, precision=None):
    return rnn.lstm(*args, *SIZES, precision)


def cuda_text(fun, *more):
    return jax.jit(fun).trace(*arrays(), *more).lower(lowering_platforms=("cuda",)).as_text()


def test_forward_calls_cudnn(sizes):
    text = cuda_text(lstm)
    call = re.search(r"custom_call @cudnn_rnn_ffi\((.*?)\) \{(.*)\} : .* -> \((.*)\)", text)
    assert call[1] == "%arg0, %arg1, %arg2, %arg3, %arg4"
    assert call[2] == (
        r'api_version = 4 : i32, backend_config = {opaque = "\03\00\00\00\04\00\00\00\02\00\00\00\02'
        r"\00\00\00\05\00\00\00\00\00\80>\01\00\00\00\01\00\00\00\E8\03\00\00\00\00\00\00\B8\0B\00\00"
        r'\00\00\00\00"}'
    )
    assert call[3] == (
        "tensor<2x5x8xf32>, tensor<4x2x4xf32>, tensor<4x2x4xf32>, tensor<1000xf32>, tensor<3000xf32>"
    )
    assert set(sizes) == {(3, 4, 2, 2, 5, 0.25, True, True)}


def test_backward_calls_cudnn(sizes):
    def gradients(*args):
        operands, lengths, cotangents = args[:4], args[4], args[5:]
        fun = lambda *operands: lstm(*operands, lengths, precision="highest")
        return jax.vjp(fun, *operands)[1](cotangents)

    cotangents = [jax.ShapeDtypeStruct(s, F) for s in ((2, 5, 8), (4, 2, 4), (4, 2, 4))]
    text = cuda_text(gradients, *cotangents)
    assert set(sizes) == {(3, 4, 2, 2, 5, 0.25, True, False)}
    call = re.search(
        r"custom_call @cudnn_rnn_bwd_ffi\((.*?)\) \{(.*)\} : \((.*)\) -> \((.*)\)", text
    )
    *operands, y, kept, zeros, lengths = call[1].split(", ")
    assert operands == [f"%arg{i}" for i in (5, 6, 7, 0, 1, 2, 3)]
    assert (y, kept, lengths) == ("%0#0", "%0#4", "%arg4")
    scalar = re.search(rf"{zeros} = stablehlo.broadcast_in_dim (\S+),", text)[1]
    assert f"{scalar} = stablehlo.constant dense<0.000000e+00> : tensor<f32>" in text
    # The sum of the weights' gradient begins with zeros.
    assert "output_tuple_indices = [3], operand_index = 9" in call[2]
    assert call[4] == (
        "tensor<2x5x3xf32>, tensor<4x2x4xf32>, tensor<4x2x4xf32>, tensor<736xf32>, tensor<1000xf32>"
    )


@pytest.mark.parametrize(
    "precision, default, tf32",
    [
        (None, None, True),
        (None, "highest", False),
        ("high", "highest", True),
        ("highest", "default", False),
        (("high", "highest"), None, True),
        ("F32_F32_F32", None, False),  # the reference build uses TensorFloat-32 for all algorithms
        ("TF32_TF32_F32", None, True),
    ],
)
def test_precision(sizes, precision, default, tf32):
    with jax.default_matmul_precision(default):
        jax.eval_shape(lambda *args: lstm(*args, precision=precision), *arrays())
    assert sizes[0][-1] is tf32


@pytest.mark.parametrize("precision", ["default", "bfloat16", "BF16_BF16_F32"])
def test_lower_precisions_are_refused(sizes, precision):
    with pytest.raises(NotImplementedError, match="cuDNN computes in float32 or TensorFloat-32"):
        jax.eval_shape(lambda *args: lstm(*args, precision=precision), *arrays())


@pytest.mark.parametrize(
    "changed, error, match",
    [
        ({"x": ((2, 5), F)}, ValueError, r"x needs shape"),
        ({"x": ((2, 5, 9), F)}, ValueError, r"x needs shape \(2, *5, *3\)"),
        ({"h_0": ((3, 2, 4), F)}, ValueError, r"h_0 needs shape \(4, *2, *4\)"),
        ({"c_0": ((2, 4), F)}, ValueError, r"c_0 needs shape"),
        ({"weights": ((7,), F)}, ValueError, r"weights needs shape \(736,?\)"),
        ({"seq_lengths": ((3,), jnp.int32)}, ValueError, r"seq_lengths needs shape"),
        ({"seq_lengths": ((2,), F)}, NotImplementedError, "`seq_lengths` can only be int32"),
        ({"x": ((2, 5, 3), jnp.float16)}, NotImplementedError, "x of dtype float16"),
    ],
)
def test_operands_that_do_not_fit(sizes, changed, error, match):
    changed = {k: jax.ShapeDtypeStruct(*v) for k, v in changed.items()}
    with pytest.raises(error, match=match):
        jax.eval_shape(lstm, *arrays(**changed))


def test_other_platforms_and_vmap(sizes):
    args = [jnp.zeros(a.shape, a.dtype) for a in arrays()]
    with pytest.raises(NotImplementedError, match="platform cpu: use lstm_ref"):
        lstm(*args)
    with pytest.raises(NotImplementedError, match="rnn_fwd"):
        jax.vmap(lstm)(*[a[None] for a in args])


def test_kernels_that_are_not_installed(monkeypatch):
    monkeypatch.delattr(gpu_rnn, "compute_rnn_workspace_reserve_space_sizes", raising=False)
    avals = [jax.core.ShapedArray(a.shape, a.dtype) for a in arrays()]
    with pytest.raises(RuntimeError, match="CUDA kernels of jax are not installed"):
        rnn.rnn_abstract_eval(*avals, *SIZES, cudnn_allow_tf32=True)


def test_errors_of_lstm_ref():
    x, state, lengths = jnp.zeros((2, 5, 3)), jnp.zeros((1, 2, 4)), jnp.array([5, 5])
    weights = rnn.unpack_lstm_weights(jnp.zeros(144), 3, 4, 1, False)
    with pytest.raises(NotImplementedError, match="Dropout not supported in LSTM reference"):
        rnn.lstm_ref(x, state, state, *weights, lengths, 3, 4, 1, 0.5, False)
    with pytest.raises(ValueError, match="h_0 needs one row for each of 1 pseudo-layers"):
        rnn.lstm_ref(x, state[:0], state, *weights, lengths, 3, 4, 1, 0.0, False)
    for function in (rnn.unpack_lstm_weights, rnn.swap_lstm_gates):
        with pytest.raises(TypeError, match="has a vector of 144 parameters"):
            function(jnp.zeros(145), 3, 4, 1, False)
