"""Attention by cuDNN, under the names by which outside code imports it; see `jax._src.nn.cudnn_attention`.

The checks tell outside code whether cuDNN has a kernel for its arrays on the GPUs of this process.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from jax._src import dtypes, lib, xla_bridge
from jax._src.nn.cudnn_attention import Options, attention_and_sums, check_operands
from jax._src.numpy.util import to_array

_HALVES = frozenset({np.dtype(np.float16), np.dtype(dtypes.bfloat16)})
_FP8 = frozenset({np.dtype(dtypes.float8_e4m3fn), np.dtype(dtypes.float8_e5m2)})


class AttentionLayout(enum.Enum):
    """The order of the dimensions of query, key and value."""

    BTNH = 0
    BNTH = 1


class MaskType(enum.Enum):
    """Which keys a query attends to."""

    NO_MASK = 0
    PADDING = 1
    CAUSAL = 2
    PADDING_CAUSAL = 3
    ALIBI = 4


def _normalize_layout(layout: str) -> AttentionLayout:
    """The layout of this name, in which the length may be called T or S."""
    name = layout.upper()
    if name in ("BTNH", "BSNH"):
        return AttentionLayout.BTNH
    if name in ("BNTH", "BNSH"):
        return AttentionLayout.BNTH
    raise ValueError(f"Unsupported qkv_layout: {layout}")


def check_cudnn_version() -> int:
    """The version of cuDNN, as 10000 * major + 100 * minor + patch.

    Raises:
      RuntimeError: if the CUDA plugin, which knows it, is not installed.
    """
    if lib.cuda_versions is None:
        raise RuntimeError("cuDNN is not detected.")
    return lib.cuda_versions.cudnn_get_version()


def check_compute_capability(capability: str) -> bool:
    """Whether all GPUs of this process have at least this compute capability, such as "8.0"."""
    if "cuda" not in xla_bridge.backends():
        return False
    required = _as_numbers(capability)
    gpus = xla_bridge.local_devices(backend="cuda")
    return all(_as_numbers(gpu.compute_capability) >= required for gpu in gpus)


def _as_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _sizes(x: Any, layout: AttentionLayout) -> tuple[int, int, int, int]:
    """Batch, length, heads and size of heads."""
    b, t, n, h = x.shape
    return (b, n, t, h) if layout == AttentionLayout.BNTH else (b, t, n, h)


def check_layout(
    query: Any, key: Any, value: Any, bias: Any, q_seqlen: Any, kv_seqlen: Any, q_offsets: Any,
    kv_offsets: Any, page_table_k: Any, page_table_v: Any, layout: AttentionLayout,
) -> None:  # fmt: skip
    """Check that shapes and dtypes of an attention's operands belong together.

    Args:
      query, key, value: arrays in `layout`, or blocks of keys and values if there are page tables.
      bias: array of shape (batch, heads, length of queries, length of keys), or None.
      q_seqlen, kv_seqlen: lengths, of shape (batch,) or, with offsets, (batch, segments); or None.
      q_offsets, kv_offsets: starts of packed segments, of shape (batch, segments + 1), or None.
      page_table_k, page_table_v: numbers of blocks, of shape (batch, 1, blocks, 1), or None.

    Raises:
      ValueError: if they do not.
      NotImplementedError: if cuDNN does not have the dtype.
    """
    ranks = [len(x.shape) for x in (query, key, value)]
    if ranks[0] != 4:
        raise ValueError(f"Q must have a rank of 4, got {ranks[0]}")
    if len(set(ranks)) != 1:
        raise ValueError(f"QKV rank must be same, got {ranks[0]}, {ranks[1]}, {ranks[2]}")
    kinds = [np.dtype(x.dtype) for x in (query, key, value)]
    if kinds[0] not in _HALVES | _FP8:
        raise NotImplementedError(
            f"Q must be fp16/bf16/fp8_e4m3fn/fp8_e5m2, got {dtypes.dtype_name(kinds[0])}"
        )
    if len(set(kinds)) != 1:
        names = ", ".join(map(dtypes.dtype_name, kinds))
        raise ValueError(f"QKV dtype must be same, got {names}")
    (qb, qt, _, qh), (kb, kt, kn, kh), (vb, vt, vn, _) = [
        _sizes(x, layout) for x in (query, key, value)
    ]
    if page_table_k is not None and page_table_v is not None:
        kt = _check_pages("Key", "page_table_k", key, page_table_k, kt, qb)
        vt = _check_pages("Value", "page_table_v", value, page_table_v, vt, qb)
    elif not qb == kb == vb:
        raise ValueError(f"QKV batch must be same, got {qb}, {kb}, {vb}")
    if qh != kh:
        raise ValueError(f"QK must have same head dim, got {qh} vs {kh}")
    if kn != vn:
        raise ValueError(f"KV must have same number of heads, got {kn} vs {vn}")
    if kt != vt:
        raise ValueError(f"KV must have same seq length, got {kt} vs {vt}")
    if bias is not None:
        if len(bias.shape) != 4:
            raise ValueError(f"Bias must have a rank of 4, got {len(bias.shape)}")
        for size, expected in zip(bias.shape[2:], (qt, kt)):
            if size != expected:
                raise ValueError(
                    f"Bias must have same seq length as QKV, got {bias.shape[2]} and {bias.shape[3]}"
                )
    rank = 1 if q_offsets is None and kv_offsets is None else 2
    _check_lengths("q_seqlen", q_seqlen, qb, rank)
    _check_lengths("kv_seqlen", kv_seqlen, qb, rank)
    _check_lengths("q_offsets", q_offsets, qb, 2)
    _check_lengths("kv_offsets", kv_offsets, qb, 2)


def _check_pages(name: str, table_name: str, x: Any, table: Any, block: int, batch: int) -> int:
    """The length that a table of blocks stands for."""
    if len(table.shape) != 4:
        raise ValueError(f"{table_name} must have a rank of 4, got {len(table.shape)}")
    if table.shape[1] != 1 or table.shape[3] != 1 or np.dtype(table.dtype) != np.int32:
        raise ValueError(
            f"{table_name} must be int32 of shape (batch, 1, blocks, 1), got "
            f"{dtypes.dtype_name(table.dtype)} of shape {table.shape}"
        )
    if x.shape[0] != table.shape[0] * table.shape[2]:
        raise ValueError(
            f"{name} and {table_name} must have same number of blocks, got {x.shape[0]} vs "
            f"{table.shape[0] * table.shape[2]}"
        )
    if table.shape[0] != batch:
        raise ValueError(f"{table_name} must have same batch as Q, got {table.shape[0]}")
    return block * table.shape[2]


def _check_lengths(name: str, x: Any, batch: int, rank: int) -> None:
    if x is None:
        return
    if np.dtype(x.dtype) != np.int32:
        raise ValueError(f"{name} must have int32 datatype, got {dtypes.dtype_name(x.dtype)}")
    if len(x.shape) != rank:
        raise ValueError(f"{name} must have a rank of {rank}, got {len(x.shape)}")
    if x.shape[0] != batch:
        raise ValueError(f"{name} must have same batch as Q, got {x.shape[0]}")


def check_is_flash_attention(
    query: Any, key: Any, value: Any, layout: AttentionLayout, cudnn_version: int, has_bias: bool,
    is_training: bool, is_packed: bool = False, is_paged_attention: bool = False,
    is_fp8: bool = False,
) -> None:  # fmt: skip
    """Check that cuDNN has a kernel for arrays of these shapes.

    Args:
      query, key, value: arrays in `layout`.
      cudnn_version: the version of cuDNN.
      has_bias: whether there is a bias.
      is_training: whether the gradient is needed too.
      is_packed: whether several segments are packed in a row.
      is_paged_attention: whether keys and values are in blocks; that needs no more than what is checked.
      is_fp8: whether the arrays are of 8 bits.

    Raises:
      NotImplementedError: if it has none.
    """
    (_, t, _, h), (_, s, _, _), (_, _, _, value_h) = [
        _sizes(x, layout) for x in (query, key, value)
    ]
    hopper = check_compute_capability("9.0")
    if is_fp8:
        exact = h == 128 and t % 128 == 0 and s % 128 == 0
        if not (exact if is_training else h <= 256 and h % 16 == 0):
            raise NotImplementedError(
                f"Unsupported sequence length Q {t}, KV {s} and head dim {h} for FP8."
            )
        return
    largest = 256 if hopper else 128
    if h > largest or h % 8:
        raise NotImplementedError(
            f"The head dim must be <= {largest} and a multiple of 8, but got {h}."
        )
    if value_h != h and not (hopper and cudnn_version >= 91000):
        raise NotImplementedError("mla requires cudnn version >= 9.10 and at least hopper arch.")
    if is_training and has_bias and (t % 2 or s % 2):
        raise NotImplementedError(f"Unsupported sequence length Q {t}, KV {s}.")
    if is_packed and not hopper:
        raise NotImplementedError("Packed layout requires a GPU with at least Hopper architecture.")


def dot_product_attention(
    query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, q_seqlen: Any = None,
    kv_seqlen: Any = None, q_offsets: Any = None, kv_offsets: Any = None, fp8_params: Any = None, *,
    scale: float = 1.0, mask_type: MaskType = MaskType.NO_MASK, seed: int = 42,
    dropout_rate: float = 0.0, qkv_layout: str = "BTNH", sliding_window_length: int | None = None,
    use_fp8: bool = False, return_residual: bool = False,
) -> Any:  # fmt: skip
    """Attention, computed by cuDNN.

    Args:
      query, key, value: float16 or bfloat16 arrays, in `qkv_layout`.
      bias: array that is added to the logits, of shape (B or 1, N or 1, T, S).
      mask: boolean array of that shape: which logits count.
      q_seqlen, kv_seqlen: lengths without padding, of shape (B,); used by the mask types PADDING and
        PADDING_CAUSAL.
      scale: number by which logits are multiplied.
      mask_type: which keys a query attends to.
      seed: that of the dropout.
      dropout_rate: the share of weights that are dropped.
      qkv_layout: "BTNH" or "BNTH", also of the result.
      sliding_window_length: a query attends to so many keys up to its own position; None for all.
      return_residual: whether to return the log-sum-exps of the logits too, of shape (B, N, T).
      q_offsets, kv_offsets, fp8_params, use_fp8: not supported, except by their default values.

    Returns:
      Array of the shape of `query`; with `return_residual` a pair of it and the log-sum-exps.

    Raises:
      ValueError: if shapes or dtypes do not belong together.
      NotImplementedError: for what is not supported.
    """
    refused = {
        "q_offsets": q_offsets is not None,
        "kv_offsets": kv_offsets is not None,
        "fp8_params": fp8_params is not None,
        "use_fp8": use_fp8,
    }
    if given := [name for name, is_given in refused.items() if is_given]:
        raise NotImplementedError(
            f"attention by cuDNN is implemented without {', '.join(given)}: use "
            "jax.nn.dot_product_attention, or compute it by jax.numpy"
        )
    padding = mask_type in (MaskType.PADDING, MaskType.PADDING_CAUSAL)
    if padding and (q_seqlen is None or kv_seqlen is None):
        raise ValueError("Require q_seqlen and kv_seqlen to generate padding mask")
    options = _options(
        scale, mask_type, seed, dropout_rate, qkv_layout, sliding_window_length, return_residual
    )
    lengths = (q_seqlen, kv_seqlen)
    return _attention(query, key, value, bias, mask, lengths, None, options, padding)


def paged_attention(
    query: Any, key: Any, value: Any, q_seqlen: Any, kv_seqlen: Any, page_table_k: Any,
    page_table_v: Any, bias: Any = None, mask: Any = None, fp8_params: Any = None, *,
    scale: float = 1.0, mask_type: MaskType = MaskType.NO_MASK, seed: int = 42,
    dropout_rate: float = 0.0, qkv_layout: str = "BTNH", sliding_window_length: int | None = None,
    use_fp8: bool = False, return_residual: bool = False,
) -> Any:  # fmt: skip
    """Attention to keys and values that are kept in pages, computed by cuDNN (W. Kwon et al., 2023).

    Args:
      query: float16 or bfloat16 array in `qkv_layout`.
      key, value: pages of that dtype, of shape (pages, page size, N, H) or (pages, N, page size, H)
        as `qkv_layout` says. There are B times as many as a sequence has.
      q_seqlen, kv_seqlen: lengths without padding, int32 of shape (B,).
      page_table_k, page_table_v: the numbers of the pages of each sequence, int32 of shape
        (B, 1, pages of a sequence, 1).
      bias: array that is added to the logits, of shape (B or 1, N or 1, T, S), where S is the length
        of all pages of a sequence.
      mask: boolean array of that shape: which logits count.
      scale, mask_type, seed, dropout_rate, qkv_layout, sliding_window_length, return_residual: as for
        `dot_product_attention`.
      fp8_params, use_fp8: not supported, except by their default values.

    Returns:
      Array of the shape of `query`; with `return_residual` a pair of it and the log-sum-exps. They have
      no gradient.

    Raises:
      ValueError: if shapes or dtypes do not belong together, and for numbers of 8 bits.
      NotImplementedError: if cuDNN has no kernel for the dtype or the size of heads, and where a
        gradient is taken.
    """
    if use_fp8 or fp8_params is not None:
        raise ValueError("Paged attention doesn't support fp8 for now.")
    if q_seqlen is None or kv_seqlen is None:
        raise ValueError("Require q_seqlen and kv_seqlen to generate padding mask")
    if page_table_k is None or page_table_v is None:
        raise ValueError("Require page_table_k and page_table_v: which pages are a sequence's")
    options = _options(
        scale, mask_type, seed, dropout_rate, qkv_layout, sliding_window_length, return_residual
    )
    lengths, pages = (q_seqlen, kv_seqlen), (page_table_k, page_table_v)
    return _attention(query, key, value, bias, mask, lengths, pages, options, True)


def _options(
    scale: float, mask_type: MaskType, seed: int, dropout_rate: float, layout: str,
    window: int | None, return_residual: bool,
) -> Options:  # fmt: skip
    if window is not None and window <= 0:
        raise ValueError(f"Require sliding_window_length > 0, got {window}")
    return Options(
        float(scale), mask_type.name, window or 0, _normalize_layout(layout).name,
        float(dropout_rate), int(seed), with_residual=return_residual,
    )  # fmt: skip


def _attention(
    query: Any, key: Any, value: Any, bias: Any, mask: Any, lengths: Any, pages: Any,
    options: Options, with_lengths: bool,
) -> Any:  # fmt: skip
    arrays = [to_array(x) for x in (query, key, value)]
    bias, mask, *lengths = [None if x is None else to_array(x) for x in (bias, mask, *lengths)]
    pages = None if pages is None else [to_array(x) for x in pages]
    layout = AttentionLayout[options.layout]
    check_layout(*arrays, bias, *lengths, None, None, *(pages or (None, None)), layout)
    check_operands(arrays[0])
    out, sums = attention_and_sums(
        *arrays, bias, mask, lengths if with_lengths else None, pages, options
    )
    return (out, sums) if options.with_residual else out
