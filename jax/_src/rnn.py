"""Recurrent neural networks: an LSTM with two biases, by cuDNN and in plain operations.

S. Hochreiter, J. Schmidhuber, "Long short-term memory" (1997), with a forget gate (F. A. Gers et al.,
2000). cuDNN's names and its order of gates: input, forget, cell, output. A *pseudo-layer* is one
direction of one layer: with two directions, layer `i` consists of pseudo-layers `2i` (forward) and
`2i + 1` (reverse). cuDNN packs all parameters in one vector: `W_ih`, `W_hh` of every pseudo-layer, then
`b_ih`, `b_hh` of every pseudo-layer.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes, lib
from jax._src.api import jit
from jax._src.basearray import Array
from jax._src.custom_derivatives import custom_vjp
from jax._src.interpreters import mlir
from jax._src.lax import control_flow, lax, slicing
from jax._src.lax.lax.precision import (
    DotAlgorithmPreset,
    Precision,
    PrecisionLike,
    canonicalize_precision,
)
from jax._src.lib.mlir import ir
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.array_creation import zeros_like
from jax._src.numpy.indexing.functions import take_along_axis
from jax._src.numpy.manipulation.joining import concatenate, stack
from jax._src.numpy.selecting import where
from jax._src.numpy.tensor_products import matmul
from jax._src.random.uniform import uniform

_Weights = dict[int, Array]


# ---------------------------------------------------------------------------------------------------
# Parameters


def _parameters(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Yields (kind, pseudo-layer, shape) in cuDNN's order; kinds count W_ih, W_hh, b_ih, b_hh."""
    directions = 2 if bidirectional else 1
    gates = 4 * hidden_size
    for i in range(num_layers * directions):
        inputs = input_size if i < directions else hidden_size * directions
        yield 0, i, (gates, inputs)
        yield 1, i, (gates, hidden_size)
    for i in range(num_layers * directions):
        yield 2, i, (gates,)
        yield 3, i, (gates,)


def get_num_params_in_lstm(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> int:
    """Returns the number of parameters of an LSTM.

    Args:
      input_size: number of features of the input.
      hidden_size: number of features of the hidden state.
      num_layers: number of layers.
      bidirectional: whether each layer also runs backwards in time.

    Returns:
      The size of the vector of parameters.

    >>> from jax.experimental import rnn
    >>> rnn.get_num_params_in_lstm(3, 4, num_layers=1, bidirectional=False)
    144
    """
    shapes = _parameters(input_size, hidden_size, num_layers, bidirectional)
    return sum(math.prod(shape) for _, _, shape in shapes)


def init_lstm_weight(
    rng: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """Draws the parameters of an LSTM from the uniform distribution on ±1 / sqrt(hidden_size).

    Args:
      rng: PRNG key.
      input_size, hidden_size, num_layers, bidirectional: see `get_num_params_in_lstm`.

    Returns:
      Vector of `get_num_params_in_lstm(...)` float32 numbers, in cuDNN's order.

    >>> from jax.experimental import rnn
    >>> rnn.init_lstm_weight(jax.random.key(0), 3, 4, num_layers=1, bidirectional=False).shape
    (144,)
    """
    bound = math.sqrt(1.0 / hidden_size)
    shape = (get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional),)
    return uniform(rng, shape, np.float32, -bound, bound)


def _check_size(name: str, weights: Array, size: int) -> None:
    if weights.shape != (size,):
        raise TypeError(
            f"{name}: an LSTM of these sizes has a vector of {size} parameters, got an array of shape "
            f"{weights.shape}. See get_num_params_in_lstm."
        )


def unpack_lstm_weights(
    weights: Array, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[_Weights, _Weights, _Weights, _Weights]:
    """Splits the vector of an LSTM's parameters into matrices and biases.

    Args:
      weights: vector of `get_num_params_in_lstm(...)` numbers, in cuDNN's order.
      input_size, hidden_size, num_layers, bidirectional: see `get_num_params_in_lstm`.

    Returns:
      `(W_ih, W_hh, b_ih, b_hh)`: dictionaries from the number of a pseudo-layer (one direction of one
      layer) to arrays of shapes `(4 * hidden_size, inputs)`, `(4 * hidden_size, hidden_size)` and
      twice `(4 * hidden_size,)`, in which the gates (input, forget, cell, output) are stacked.

    Raises:
      TypeError: if the vector has another size.

    >>> from jax.experimental import rnn
    >>> W_ih, W_hh, b_ih, b_hh = rnn.unpack_lstm_weights(jnp.zeros(144), 3, 4, 1, False)
    >>> W_ih[0].shape, W_hh[0].shape, b_ih[0].shape
    ((16, 3), (16, 4), (16,))
    """
    sizes = (input_size, hidden_size, num_layers, bidirectional)
    weights = asarray(weights)
    _check_size("unpack_lstm_weights", weights, get_num_params_in_lstm(*sizes))
    parts: tuple[_Weights, ...] = ({}, {}, {}, {})
    start = 0
    for kind, layer, shape in _parameters(*sizes):
        stop = start + math.prod(shape)
        parts[kind][layer] = lax.reshape(slicing.slice(weights, (start,), (stop,)), shape)
        start = stop
    return parts  # type: ignore[return-value]


def swap_lstm_gates(
    weights: Array, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """Swaps the cell gate and the output gate, which cuDNN and MIOpen have in different order.

    Args:
      weights: vector of `get_num_params_in_lstm(...)` numbers.
      input_size, hidden_size, num_layers, bidirectional: see `get_num_params_in_lstm`.

    Returns:
      The vector with the last two of the four gates swapped in all matrices and biases.

    Raises:
      TypeError: if the vector has another size.

    >>> from jax.experimental import rnn
    >>> rnn.swap_lstm_gates(jnp.arange(16.0), 1, 1, 1, False).tolist()[:8]
    [0.0, 1.0, 3.0, 2.0, 4.0, 5.0, 7.0, 6.0]
    """
    sizes = (input_size, hidden_size, num_layers, bidirectional)
    weights = asarray(weights)
    _check_size("swap_lstm_gates", weights, get_num_params_in_lstm(*sizes))
    parts = []
    start = 0
    for _, _, shape in _parameters(*sizes):
        gate = math.prod(shape) // 4
        bounds = [start + i * gate for i in range(5)]
        for i, j in ((0, 2), (3, 4), (2, 3)):
            parts.append(slicing.slice(weights, (bounds[i],), (bounds[j],)))
        start = bounds[4]
    return lax.concatenate(parts, 0) if parts else weights


# ---------------------------------------------------------------------------------------------------
# In plain operations


@functools.partial(jit, static_argnums=(8, 9, 10, 11, 12))
def lstm_ref(
    x: Array,
    h_0: Array,
    c_0: Array,
    W_ih: dict[int, Array],
    W_hh: dict[int, Array],
    b_ih: dict[int, Array],
    b_hh: dict[int, Array],
    seq_lengths: Array,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
) -> tuple[Array, Array, Array]:
    """Computes an LSTM in operations that run on every platform; see `lstm`.

    Args:
      x: array of shape (batch, length, input_size).
      h_0, c_0: initial states, arrays of shape (directions * num_layers, batch, hidden_size).
      W_ih, W_hh, b_ih, b_hh: parameters, as `unpack_lstm_weights` returns them.
      seq_lengths: integer array of shape (batch,): what follows in a sequence is padding.
      input_size, hidden_size, num_layers, bidirectional: see `get_num_params_in_lstm`.
      dropout: must be 0: cuDNN's random numbers are not known.

    Returns:
      `(y, h_n, c_n)`: the hidden states of the last layer, of shape (batch, length, directions *
      hidden_size), zero in the padding; and the states after the last step, of the shape of `h_0`.

    Raises:
      NotImplementedError: if `dropout` is not 0.
      ValueError: if the initial states do not have a row for each pseudo-layer.

    >>> from jax.experimental import rnn
    >>> weights = rnn.unpack_lstm_weights(0.1 * jnp.ones(144), 3, 4, 1, False)
    >>> state = jnp.zeros((1, 2, 4))
    >>> lengths = jnp.array([5, 2])
    >>> y, h, c = rnn.lstm_ref(jnp.ones((2, 5, 3)), state, state, *weights, lengths, 3, 4, 1, 0.0, False)
    >>> y.shape, bool((y[1, 2:] == 0).all()), bool((y[1, 1] == h[0, 1]).all())
    ((2, 5, 4), True, True)
    """
    if not isinstance(dropout, (int, float)) or dropout != 0:
        raise NotImplementedError(
            "Dropout not supported in LSTM reference because we cannot determine CUDNN dropout mask."
        )
    directions = 2 if bidirectional else 1
    for name, state in (("h_0", h_0), ("c_0", c_0)):
        if state.shape[:1] != (num_layers * directions,):
            raise ValueError(
                f"lstm_ref: {name} needs one row for each of {num_layers * directions} pseudo-layers "
                f"(layers times directions), got shape {state.shape}"
            )
    steps = lax.broadcasted_iota(seq_lengths.dtype, (*seq_lengths.shape, x.shape[1]), 1)
    valid = (steps < seq_lengths[:, None])[..., None]
    # The steps of each sequence in reverse; the padding stays behind.
    reversal = ((seq_lengths[:, None] - 1 - steps) % max(x.shape[1], 1))[..., None]
    last = seq_lengths - 1
    last = where(last < 0, last + x.shape[1], last)[:, None, None]
    h_n, c_n = [], []
    y = x
    for layer in range(num_layers):
        outputs = []
        for i in range(layer * directions, (layer + 1) * directions):
            backward = i % directions == 1
            inputs = take_along_axis(y, reversal, 1) if backward else y
            hs, cs = _layer(inputs, h_0[i], c_0[i], W_ih[i], W_hh[i], b_ih[i], b_hh[i])
            for states, results in ((hs, h_n), (cs, c_n)):
                results.append(take_along_axis(states, last, 1, mode="clip")[:, 0])
            outputs.append(where(valid, take_along_axis(hs, reversal, 1) if backward else hs, 0))
        y = concatenate(outputs, axis=2) if bidirectional else outputs[0]
    return y, stack(h_n) if h_n else h_0, stack(c_n) if c_n else c_0


def _layer(x, h, c, w_ih, w_hh, b_ih, b_hh):
    """Returns all hidden and cell states of a pseudo-layer, of shape (batch, length, size)."""

    def step(carry, from_input):
        h, c = carry
        gates = from_input + matmul(h, w_hh.T)
        size = gates.shape[-1] // 4
        i, f, g, o = (
            slicing.slice_in_dim(gates, k * size, (k + 1) * size, axis=1) for k in range(4)
        )
        c = lax.logistic(f) * c + lax.logistic(i) * lax.tanh(g)
        h = lax.logistic(o) * lax.tanh(c)
        return (h, c), (h, c)

    # What does not depend on the state is one product for all steps.
    from_input = matmul(x, w_ih.T) + (b_ih + b_hh)
    _, states = control_flow.scan(step, (h, c), from_input.transpose(1, 0, 2))
    return [s.transpose(1, 0, 2) for s in states]


# ---------------------------------------------------------------------------------------------------
# cuDNN


@functools.partial(custom_vjp, nondiff_argnums=(5, 6, 7, 8, 9, 10))
def lstm(
    x: Array,
    h_0: Array,
    c_0: Array,
    weights: Array,
    seq_lengths: Array,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: PrecisionLike = None,
) -> tuple[Array, Array, Array]:
    """Computes an LSTM by cuDNN, on NVIDIA GPUs only; `lstm_ref` runs everywhere.

    Args:
      x: float32 array of shape (batch, length, input_size).
      h_0, c_0: initial states, float32 arrays of shape (directions * num_layers, batch, hidden_size).
      weights: vector of `get_num_params_in_lstm(...)` float32 numbers, in cuDNN's order.
      seq_lengths: int32 array of shape (batch,): what follows in a sequence is padding.
      input_size, hidden_size, num_layers, bidirectional: see `get_num_params_in_lstm`.
      dropout: probability with which inputs of the layers after the first are set to zero.
      precision: 'highest' computes in float32, others may use TensorFloat-32; None means the value
        of `jax.default_matmul_precision`.

    Returns:
      `(y, h_n, c_n)`: the hidden states of the last layer, of shape (batch, length, directions *
      hidden_size), zero in the padding; and the states after the last step, of the shape of `h_0`.
      They are differentiable in reverse mode.

    Raises:
      NotImplementedError: for dtypes other than the above, a precision below TensorFloat-32, and
        platforms other than NVIDIA GPUs.
      RuntimeError: if cuDNN's kernels are not installed.
      ValueError: if shapes do not fit.

    >>> from jax.experimental import rnn
    >>> def model(weights, x, state, lengths):
    ...     return rnn.lstm(x, state, state, weights, lengths, 3, 4, 1, 0.0, False)
    """
    (y, h_n, c_n), _ = lstm_fwd(
        x, h_0, c_0, weights, seq_lengths, input_size, hidden_size, num_layers, dropout,
        bidirectional, precision,
    )  # fmt: skip
    return y, h_n, c_n


def lstm_fwd(
    x: Array,
    h_0: Array,
    c_0: Array,
    w: Array,
    seq_lengths: Array,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: PrecisionLike,
) -> tuple[tuple[Array, Array, Array], tuple[Array, ...]]:
    """Returns the results of `lstm` and the residuals that `lstm_bwd` needs."""
    y, h_n, c_n, reserve_space = rnn_fwd_p.bind(
        x, h_0, c_0, w, seq_lengths,
        input_size=input_size, hidden_size=hidden_size, num_layers=num_layers, dropout=dropout,
        bidirectional=bidirectional, cudnn_allow_tf32=_allows_tf32(precision),
    )  # fmt: skip
    return (y, h_n, c_n), (x, h_0, c_0, w, seq_lengths, y, reserve_space)


def lstm_bwd(
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: PrecisionLike,
    residuals: Sequence[Array],
    gradients: Sequence[Array],
) -> tuple[Array, Array, Array, Array, Array]:
    """Returns the cotangents of the arrays that `lstm` takes."""
    x, h_0, c_0, w, seq_lengths, y, reserve_space = residuals
    dy, dh_n, dc_n = gradients
    dx, dh_0, dc_0, dw = rnn_bwd_p.bind(
        dy, dh_n, dc_n, x, h_0, c_0, w, y, reserve_space, seq_lengths,
        input_size=input_size, hidden_size=hidden_size, num_layers=num_layers, dropout=dropout,
        bidirectional=bidirectional, cudnn_allow_tf32=_allows_tf32(precision),
    )  # fmt: skip
    return dx, dh_0, dc_0, dw, zeros_like(seq_lengths)


lstm.defvjp(lstm_fwd, lstm_bwd)

# Whether cuDNN may round factors to TensorFloat-32. It has no LSTM of lower precision.
_TF32_OF_PRECISIONS = {
    Precision.HIGHEST: False,
    Precision.HIGH: True,
    DotAlgorithmPreset.F32_F32_F32: False,
    DotAlgorithmPreset.TF32_TF32_F32: True,
}


def _allows_tf32(precision: PrecisionLike) -> bool:
    chosen: Any = canonicalize_precision(precision)
    if chosen is None:
        return True
    chosen = chosen[0] if isinstance(chosen, tuple) else chosen
    if chosen not in _TF32_OF_PRECISIONS:
        raise NotImplementedError(
            f"lstm: cuDNN computes in float32 or TensorFloat-32, not in precision {chosen}. Choose "
            "'highest' or 'high'."
        )
    return _TF32_OF_PRECISIONS[chosen]


def _space_sizes(
    x_aval: Any, input_size, hidden_size, num_layers, dropout, bidirectional, cudnn_allow_tf32
) -> tuple[int, int]:
    """Asks cuDNN for the sizes, in numbers, of its workspace and of what its gradient keeps."""
    sizes = getattr(lib.gpu_rnn, "compute_rnn_workspace_reserve_space_sizes", None)
    if sizes is None:
        raise RuntimeError(
            "lstm needs cuDNN on an NVIDIA GPU, but the CUDA kernels of jax are not installed (package "
            "jax-cuda13-plugin). lstm_ref runs on all platforms."
        )
    batch, length = x_aval.shape[:2]
    return sizes(
        input_size, hidden_size, num_layers, batch, length, dropout, bidirectional, cudnn_allow_tf32
    )


def rnn_abstract_eval(
    x_aval,
    h_0_aval,
    c_0_aval,
    w_aval,
    seq_lengths_aval,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    cudnn_allow_tf32: bool,
):
    """Returns the avals of y, h_n, c_n and of what the gradient keeps; checks shapes and dtypes."""
    directions = 2 if bidirectional else 1
    if seq_lengths_aval.dtype != np.int32:
        raise NotImplementedError("`seq_lengths` can only be int32.")
    batch, length = x_aval.shape[:2] if x_aval.ndim == 3 else ("batch", "length")
    state = (num_layers * directions, batch, hidden_size)
    size = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    for name, aval, shape in (
        ("x", x_aval, (batch, length, input_size)),
        ("h_0", h_0_aval, state),
        ("c_0", c_0_aval, state),
        ("weights", w_aval, (size,)),
        ("seq_lengths", seq_lengths_aval, (batch,)),
    ):
        # cuDNN would read memory that does not belong to the array.
        if aval.shape != shape:
            raise ValueError(
                f"lstm: {name} needs shape ({', '.join(map(str, shape))}), got {aval.shape}"
            )
        if aval is not seq_lengths_aval and aval.dtype != np.float32:
            raise NotImplementedError(
                f"lstm: cuDNN's kernel computes in float32, got {name} of dtype "
                f"{dtypes.dtype_name(aval.dtype)}"
            )
    _, reserve = _space_sizes(
        x_aval, input_size, hidden_size, num_layers, dropout, bidirectional, cudnn_allow_tf32
    )
    y = core.ShapedArray((batch, length, directions * hidden_size), x_aval.dtype)
    return (
        y,
        core.ShapedArray(h_0_aval.shape, h_0_aval.dtype),
        core.ShapedArray(c_0_aval.shape, c_0_aval.dtype),
        core.ShapedArray((reserve,), np.float32),
    )


def rnn_bwd_abstract_eval(
    dy_aval,
    dhn_aval,
    dcn_aval,
    x_aval,
    h0_aval,
    c0_aval,
    w_aval,
    y_aval,
    reserve_space_aval,
    seq_lengths_aval,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    cudnn_allow_tf32: bool,
):
    """Returns the avals of the cotangents of x, h_0, c_0 and the weights."""
    return [core.ShapedArray(a.shape, a.dtype) for a in (x_aval, h0_aval, c0_aval, w_aval)]


rnn_fwd_p = core.Primitive("rnn_fwd")
rnn_fwd_p.multiple_results = True
rnn_fwd_p.def_abstract_eval(rnn_abstract_eval)

rnn_bwd_p = core.Primitive("rnn_bwd")
rnn_bwd_p.multiple_results = True
rnn_bwd_p.def_abstract_eval(rnn_bwd_abstract_eval)


def _custom_call(ctx, target, operands, x_aval, aliases, workspace_first, params):
    """Emits a call of cuDNN, and returns its results without the workspace."""
    sizes = _space_sizes(x_aval, **params)
    batch, length = x_aval.shape[:2]
    # The C struct that the kernel reads. Importing the module of sizes has registered the kernel.
    descriptor = struct.pack(
        "=5if2i2Q", params["input_size"], params["hidden_size"], params["num_layers"], batch, length,
        params["dropout"], params["bidirectional"], params["cudnn_allow_tf32"], *sizes,
    )  # fmt: skip
    types = [mlir.aval_to_ir_type(ctx.module_context, a) for a in ctx.avals_out]
    workspace = core.ShapedArray((sizes[0],), np.dtype(np.float32))
    position = 3 if workspace_first else len(types)
    types.insert(position, mlir.aval_to_ir_type(ctx.module_context, workspace))
    results = list(
        mlir.custom_call(
            target,
            result_types=types,
            operands=operands,
            backend_config={"opaque": ir.StringAttr.get(descriptor)},
            api_version=4,
            operand_output_aliases=aliases,
        ).results
    )
    del results[position]
    return results


def _lower_fwd(ctx, *operands, **params):
    x = ctx.avals_in[0]
    return _custom_call(ctx, "cudnn_rnn_ffi", operands, x, None, True, params)


def _lower_bwd(ctx, *operands, **params):
    x, w = ctx.avals_in[3], ctx.avals_in[6]
    # The kernel adds to the weights' gradient: a buffer of zeros becomes the result.
    operands = [*operands[:-1], mlir.full_like_aval(ctx, 0, w), operands[-1]]
    return _custom_call(ctx, "cudnn_rnn_bwd_ffi", operands, x, {9: 3}, False, params)


def _unsupported(ctx, *_, **__):
    raise NotImplementedError(
        "lstm is computed by cuDNN on NVIDIA GPUs only, but the program is for the platform "
        f"{', '.join(ctx.module_context.platforms)}: use lstm_ref there."
    )


for _primitive, _rule in ((rnn_fwd_p, _lower_fwd), (rnn_bwd_p, _lower_bwd)):
    mlir.register_lowering(_primitive, _unsupported)
    mlir.register_lowering(_primitive, _rule, platform="cuda")
