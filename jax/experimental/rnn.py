"""Recurrent neural networks: an LSTM by cuDNN."""

# Also names of helpers, which the original's module has too.
from jax import Array as Array, custom_vjp as custom_vjp, numpy as jnp
from jax._src.rnn import (
    get_num_params_in_lstm as get_num_params_in_lstm,
    init_lstm_weight as init_lstm_weight,
    lstm as lstm,
    lstm_bwd as lstm_bwd,
    lstm_fwd as lstm_fwd,
    lstm_ref as lstm_ref,
    rnn_abstract_eval as rnn_abstract_eval,
    rnn_bwd_abstract_eval as rnn_bwd_abstract_eval,
    rnn_bwd_p as rnn_bwd_p,
    rnn_fwd_p as rnn_fwd_p,
    swap_lstm_gates as swap_lstm_gates,
    unpack_lstm_weights as unpack_lstm_weights,
)
from jax.interpreters import mlir as mlir
from jax.nn import sigmoid as sigmoid, tanh as tanh
