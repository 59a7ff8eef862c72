"""Programs that `jax.export.to_onnx` converts, in groups: the functions of a group become one model."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import jax
import jax.numpy as jnp
from jax import lax, nn

SIZES = (1, 3)  # of the symbolic dimension b


@dataclasses.dataclass
class Group:
    """Functions of the same arguments.

    Attributes:
      arguments: for each, its dtype and shape, with "b" where the size is symbolic, and what to do with
        numbers of a normal distribution to get its values.
      functions: the functions, by name.
      tolerance: relative and absolute, of float32; 16-bit results are compared by their own precision.
      x64: whether 64-bit types are enabled.
    """

    arguments: dict[str, tuple[Any, tuple[Any, ...], Callable[[np.ndarray], np.ndarray]]]
    functions: dict[str, Callable[..., Any]]
    tolerance: float = 1e-5
    x64: bool = False

    def symbolic(self) -> bool:
        return any("b" in shape for _, shape, _ in self.arguments.values())

    def values(self, size: int) -> list[np.ndarray]:
        rng = np.random.default_rng(7)
        arrays = []
        for dtype, shape, change in self.arguments.values():
            numbers = rng.normal(size=[size if n == "b" else n for n in shape])
            arrays.append(np.asarray(change(numbers)).astype(dtype))
        return arrays


def same(x):
    return x


def scaled(factor):
    return lambda x: np.round(x * factor)


def within(limit):
    return lambda x: np.floor(np.abs(x) * 1000) % limit


def special(x):
    flat = x.reshape(-1)
    numbers = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, 1e30, -1e-30]
    flat[: len(numbers)] = numbers
    return flat.reshape(x.shape)


def of_first(f):
    return lambda x, *_: f(x)


f32, i32 = np.float32, np.int32

UNARY = {
    "abs": of_first(jnp.abs), "arccos": lambda x, y: jnp.arccos(jnp.tanh(x)), "arcsinh": of_first(jnp.arcsinh), "arctan": of_first(jnp.arctan),
    "arctanh": lambda x, y: jnp.arctanh(jnp.tanh(x)), "arcsin": lambda x, y: jnp.arcsin(jnp.sin(x)),
    "arccosh": lambda x, y: jnp.arccosh(1.5 + x * x), "cbrt": of_first(jnp.cbrt), "ceil": of_first(jnp.ceil), "cos": of_first(jnp.cos), "cosh": of_first(jnp.cosh),
    "erf": of_first(lax.erf), "erfc": of_first(lax.erfc), "exp": of_first(jnp.exp), "exp2": of_first(jnp.exp2), "expm1": of_first(jnp.expm1), "floor": of_first(jnp.floor),
    "isfinite": of_first(jnp.isfinite), "isnan": of_first(jnp.isnan), "log1p_of_abs": lambda x, y: jnp.log1p(jnp.abs(x)),
    "log_of_abs": lambda x, y: jnp.log(jnp.abs(x)), "logistic": of_first(lax.logistic), "negative": of_first(jnp.negative),
    "reciprocal": of_first(jnp.reciprocal), "round": of_first(jnp.round), "round_half_away": of_first(lax.round), "rsqrt": lambda x, y: lax.rsqrt(jnp.abs(x)),
    "sign": of_first(jnp.sign), "sin": of_first(jnp.sin), "sinh": of_first(jnp.sinh), "sqrt": lambda x, y: jnp.sqrt(jnp.abs(x)), "square": of_first(jnp.square),
    "tan": of_first(jnp.tan), "tanh": of_first(jnp.tanh), "trunc": of_first(jnp.trunc),
}  # fmt: skip
BINARY = {
    "add": jnp.add, "arctan2": jnp.arctan2, "clip": lambda x, y: jnp.clip(x, -0.5, y), "divide": jnp.divide,
    "equal": jnp.equal, "floor_divide": jnp.floor_divide, "fmod": jnp.fmod, "greater": jnp.greater,
    "greater_equal": jnp.greater_equal, "hypot": jnp.hypot, "less": jnp.less, "less_equal": jnp.less_equal,
    "logaddexp": jnp.logaddexp, "maximum": jnp.maximum, "minimum": jnp.minimum, "mod": jnp.mod, "multiply": jnp.multiply,
    "not_equal": jnp.not_equal, "power": lambda x, y: jnp.abs(x) ** y, "subtract": jnp.subtract,
    "where": lambda x, y: jnp.where(x > y, x, 2 * y), "integer_pow": lambda x, y: x**3 - y**-2,
    "nan_to_num": lambda x, y: jnp.nan_to_num(x), "with_scalar": lambda x, y: 3 * x + 1.5,
    "to_int8": lambda x, y: (x * 100).astype(jnp.int8), "to_uint16": lambda x, y: (x * 100).astype(jnp.uint16),
    "to_bool": lambda x, y: x.astype(bool),
}  # fmt: skip
INTEGERS = {
    "and": jnp.bitwise_and, "or": jnp.bitwise_or, "xor": jnp.bitwise_xor, "not": lambda i, j: ~i, "divide": lax.div,
    "floor_divide": jnp.floor_divide, "remainder": lax.rem, "mod": jnp.mod, "abs": lambda i, j: jnp.abs(i),
    "left_shift": lambda i, j: i << jnp.abs(j), "right_shift": lambda i, j: i >> jnp.abs(j),
    "shift_by_constant": lambda i, j: (i << 3) + (i >> 2), "right_shift_logical": lambda i, j: lax.shift_right_logical(i, jnp.abs(j) % 40),
    "sign": lambda i, j: jnp.sign(i), "popcount": lambda i, j: lax.population_count(i), "clz": lambda i, j: lax.clz(i),
    "wrap_int8": lambda i, j: i.astype(jnp.int8) * j.astype(jnp.int8), "uint8": lambda i, j: i.astype(jnp.uint8) - j.astype(jnp.uint8),
    "uint32_divide": lambda i, j: i.astype(jnp.uint32) // j.astype(jnp.uint32),
    "uint32_less": lambda i, j: i.astype(jnp.uint32) < j.astype(jnp.uint32), "uint16": lambda i, j: i.astype(jnp.uint16) * 300,
    "negative_uint32": lambda i, j: -i.astype(jnp.uint32), "int16_shift": lambda i, j: i.astype(jnp.int16) >> 2,
    "max": jnp.maximum, "min_int8": lambda i, j: jnp.minimum(i.astype(jnp.int8), j.astype(jnp.int8)),
    "bools": lambda i, j: [(i > 0) & (j > 0), (i > 0) | (j > 0), (i > 0) ^ (j > 0), ~(i > 0), (i > 0) < (j > 0)],
    "sum_int8": lambda i, j: i.astype(jnp.int8).sum(0, dtype=jnp.int8), "prod": lambda i, j: i.prod(0),
    "or_along": lambda i, j: jnp.bitwise_or.reduce(i, axis=1), "xor_along": lambda i, j: jnp.bitwise_xor.reduce(i, axis=1),
    "argmax_uint8": lambda i, j: i.astype(jnp.uint8).argmax(1), "argmin_uint32": lambda i, j: i.astype(jnp.uint32).argmin(1),
    "int_power": lambda i, j: i**2,
}  # fmt: skip
SHAPES = {
    "broadcast_to": lambda x, m: jnp.broadcast_to(x[:, :1], (x.shape[0], 7, 4)), "concatenate": lambda x, m: jnp.concatenate([x, 2 * x, x], axis=1),
    "concatenate_batch": lambda x, m: jnp.concatenate([x, x]), "expand_dims": lambda x, m: x[:, None, :, None], "flip": lambda x, m: jnp.flip(x, (0, 2)),
    "iota": lambda x, m: x + jnp.arange(4) + jnp.arange(x.shape[0])[:, None, None], "pad": lambda x, m: jnp.pad(x, ((0, 0), (1, 2), (0, 1)), constant_values=7),
    "pad_edge": lambda x, m: jnp.pad(m, 1, mode="edge"), "pad_reflect": lambda x, m: jnp.pad(m, 2, mode="reflect"),
    "pad_interior": lambda x, m: lax.pad(x, 0.0, ((0, 0, 0), (1, -1, 2), (0, 2, 1))), "pad_batch": lambda x, m: jnp.pad(x, ((1, 2), (0, 0), (0, 0))),
    "ravel": lambda x, m: x.reshape(-1), "reshape_merge": lambda x, m: x.reshape(x.shape[0], -1), "reshape_batch": lambda x, m: x.reshape(x.shape[0] * 3, 4),
    "repeat": lambda x, m: jnp.repeat(x, 2, axis=1), "roll": lambda x, m: jnp.roll(x, 1, axis=2), "slice": lambda x, m: x[:, 1:, ::2],
    "slice_negative": lambda x, m: x[:, ::-1, -2:], "split": lambda x, m: jnp.split(x, 2, axis=2), "squeeze": lambda x, m: jnp.squeeze(x[:, :1], 1),
    "stack": lambda x, m: jnp.stack([x, -x], axis=2), "swapaxes": lambda x, m: jnp.swapaxes(x, 0, 2), "tile": lambda x, m: jnp.tile(m, (2, 3)),
    "transpose": lambda x, m: x.transpose(2, 0, 1), "tril": lambda x, m: jnp.tril(x), "triu": lambda x, m: jnp.triu(m, 1), "eye": lambda x, m: m @ jnp.eye(4),
    "diagonal": lambda x, m: jnp.diagonal(m), "meshgrid": lambda x, m: jnp.meshgrid(m[0], m[:, 1]), "size": lambda x, m: jnp.float32(x.shape[0]) * m,
    "full_like": lambda x, m: jnp.full_like(x, 3), "moveaxis": lambda x, m: jnp.moveaxis(x, 0, -1), "linspace": lambda x, m: jnp.linspace(0, 1, 5) * m[0, 0],
    "constant_result": lambda x, m: jnp.arange(6.0).reshape(2, 3), "empty": lambda x, m: jnp.zeros((0, 4)) + m[0], "sum_of_nothing": lambda x, m: jnp.broadcast_to(m[0], (0, 4)).sum(0),
}  # fmt: skip
REDUCTIONS = {
    "sum": lambda x: x.sum(1), "sum_all": lambda x: x.sum(), "mean_batch": lambda x: x.mean(0), "max": lambda x: x.max((1, 2)), "min_batch": lambda x: x.min(0),
    "prod": lambda x: x.prod(2), "var": lambda x: x.var(2), "std": lambda x: x.std(1), "any": lambda x: (x > 1).any(1), "all": lambda x: (x > -1).all(2),
    "argmax": lambda x: x.argmax(2), "argmax_batch": lambda x: x.argmax(0), "argmin": lambda x: x.argmin(1), "argmax_flat": lambda x: x.argmax(),
    "cumsum": lambda x: x.cumsum(1), "cumsum_batch": lambda x: x.cumsum(0), "associative_scan_batch": lambda x: lax.associative_scan(jnp.multiply, x), "shift_batch": lambda x: [lax.pad(x, 5.0, ((n, m, 0), (0, 0, 0), (0, 0, 0))) for n, m in ((2, -2), (-2, 3), (-9, 9), (2**30, -(2**30)))], "cumsum_batch_reverse": lambda x: lax.cumsum(x, axis=0, reverse=True), "cumsum_reverse": lambda x: lax.cumsum(x, axis=2, reverse=True), "cumprod": lambda x: x.cumprod(2),
    "cummax": lambda x: lax.cummax(x, axis=1), "cummin": lambda x: lax.cummin(x, axis=2, reverse=True), "cumlogsumexp": lambda x: lax.cumlogsumexp(x, axis=1),
    "logsumexp": lambda x: nn.logsumexp(x, axis=1), "norm": lambda x: jnp.linalg.norm(x, axis=2), "ptp": lambda x: jnp.ptp(x, axis=1), "average": lambda x: jnp.average(x, axis=1, weights=jnp.arange(1.0, 4)),
    "count_nonzero": lambda x: jnp.count_nonzero(x > 0, axis=1), "nanmax": lambda x: jnp.nanmax(jnp.where(x > 0, x, jnp.nan), axis=2, initial=-1), "nansum": lambda x: jnp.nansum(jnp.where(x > 0, x, jnp.nan), axis=1),
    "custom": lambda x: lax.reduce(x, 1.0, lambda a, b: a * b + 0 * a, (1,)), "cumsum_bool": lambda x: jnp.cumsum(x > 0, axis=1), "diff": lambda x: jnp.diff(x, axis=2),
    "logaddexp": lambda x: jnp.logaddexp.reduce(x, axis=1),
}  # fmt: skip
WINDOWS = {
    "max_pool": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    "max_pool_same": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 1, 1), "SAME"),
    "max_pool_dilated": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "VALID", window_dilation=(1, 2, 3, 1)),
    "max_pool_dilated_same": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 1, 1), (1, 1, 1, 1), "SAME", window_dilation=(1, 3, 1, 1)),
    "max_pool_of_padding": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 1, 1), (1, 1, 1, 1), ((0, 0), (5, 5), (0, 0), (0, 0)), window_dilation=(1, 3, 1, 1)),
    "min_pool": lambda x: lax.reduce_window(x, jnp.inf, lax.min, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    "sum_pool": lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 2, 1), (1, 2, 2, 1), "SAME"),
    "sum_pool_base_dilated": lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 2, 1), (1, 1, 1, 1), "VALID", base_dilation=(1, 2, 1, 1)),
    "max_pool_int": lambda x: lax.reduce_window((9 * x).astype(jnp.int32), -(2**31), lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    "from_finite": lambda x: lax.reduce_window(x, 0.5, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    "pool_three": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 2), (1, 1, 1, 1), "VALID"),
    "avg_pool": lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4,
}  # fmt: skip
SORTING = {
    "sort": lambda x: jnp.sort(x, axis=1), "sort_descending": lambda x: jnp.sort(x, axis=1, descending=True), "argsort": lambda x: jnp.argsort(x, axis=1),
    "argsort_descending": lambda x: jnp.argsort(x, axis=1, descending=True), "sort_batch": lambda x: jnp.sort(x, axis=0), "sort_two_keys": lambda x: lax.sort((jnp.round(x), -x, x), dimension=1, num_keys=2),
    "sort_with_values": lambda x: lax.sort((jnp.round(x), jnp.arange(8) + 0 * x.astype(jnp.int32)), dimension=1, num_keys=1), "top_k": lambda x: lax.top_k(x, 3), "top_k_of_equals": lambda x: lax.top_k(jnp.round(x), 5),
    "approx_max_k": lambda x: (lax.approx_max_k(x, 3), lax.approx_max_k(x.astype(jnp.bfloat16), 1, reduction_dimension=0)),
    "approx_min_k": lambda x: (lax.approx_min_k(x, 3), lax.approx_min_k(x.astype(jnp.float16), 1, reduction_dimension=0)),
    "sort_int8": lambda x: jnp.sort((x * 40).astype(jnp.int8), axis=1), "sort_uint32": lambda x: jnp.sort((x * 40).astype(jnp.int32).astype(jnp.uint32), axis=1), "sort_bool": lambda x: jnp.sort(x > 0, axis=1),
    "median": lambda x: jnp.median(x, axis=1), "quantile": lambda x: jnp.quantile(x, 0.3, axis=1), "lexsort": lambda x: jnp.lexsort((x, jnp.round(x)), axis=1), "searchsorted": lambda x: jnp.searchsorted(jnp.arange(4.0), x),
    "unique": lambda x: jnp.unique(jnp.round(x[0]), size=6), "sort_float16": lambda x: jnp.sort(x.astype(jnp.float16), axis=1), "top_k_int": lambda x: lax.top_k((x * 9).astype(jnp.int32), 2),
    "partition": lambda x: jnp.sort(jnp.partition(x, 3, axis=1)[:, :3], axis=1),
}  # fmt: skip
INDEXING = {
    "rows": lambda x, i, j: x[i], "columns": lambda x, i, j: x[:, i], "pairs": lambda x, i, j: x[i, j % 4], "middle": lambda x, i, j: x[:, i, 1:3], "apart": lambda x, i, j: x[i[:3], :, j[:3]],
    "take_fill": lambda x, i, j: jnp.take(x, j * 3 - 4, axis=1, mode="fill"), "take_clip": lambda x, i, j: jnp.take(x, j * 3 - 4, axis=1, mode="clip"), "take_wrap": lambda x, i, j: jnp.take(x, j * 3, axis=1, mode="wrap"),
    "take_along_axis": lambda x, i, j: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1), "negative": lambda x, i, j: x[:, -i - 1], "vmap": lambda x, i, j: jax.vmap(lambda a, k: a[k])(x[:3], i[:3]),
    "vmap_slice": lambda x, i, j: jax.vmap(lambda a, k: lax.dynamic_slice(a, (k, 1), (2, 3)))(x[:3], i[:3]), "dynamic_slice": lambda x, i, j: lax.dynamic_slice(x, (i[0], i[1], i[2]), (2, 2, 4)),
    "dynamic_update_slice": lambda x, i, j: lax.dynamic_update_slice(x, 2 * x[:2, :1], (i[0], i[1], i[2])), "dynamic_index": lambda x, i, j: lax.dynamic_index_in_dim(x, i[3], 1), "scalar": lambda x, i, j: x[i[0], i[1]],
    "boolean_where": lambda x, i, j: jnp.where(x[..., :1] > 0, x, 0), "set": lambda x, i, j: x.at[i].set(7.0), "add": lambda x, i, j: x.at[i].add(1.5), "mul": lambda x, i, j: x.at[:, i].mul(2.0), "max": lambda x, i, j: x.at[i, i].max(0.3),
    "min": lambda x, i, j: x.at[:, i, 1:3].min(0.0), "add_drop": lambda x, i, j: x.at[j * 3 - 2].add(1.0, mode="drop"), "set_slice": lambda x, i, j: x.at[1:3].set(0.0), "set_strided": lambda x, i, j: x.at[::2, 1].set(9.0),
    "vmap_set": lambda x, i, j: jax.vmap(lambda a, k: a.at[k].set(0.0))(x[:3], i[:3]), "vmap_update": lambda x, i, j: jax.vmap(lambda a, k: lax.dynamic_update_slice(a, 3 * a[:1, :2], (k, k)))(x[:3], i[:3]),
    "one_hot": lambda x, i, j: nn.one_hot(i, 5), "segment_sum": lambda x, i, j: jax.ops.segment_sum(x[0, i], i, 4), "segment_max": lambda x, i, j: jax.ops.segment_max(x[0, i], i, 4), "bincount": lambda x, i, j: jnp.bincount(j, length=6),
    "add_int8": lambda x, i, j: (9 * x).astype(jnp.int8).at[i].add(1), "set_bool": lambda x, i, j: (x > 0).at[i].set(True), "out_of_bounds": lambda x, i, j: x.at[jnp.array([70, -90, 2])].set(5.0), "interp": lambda x, i, j: jnp.interp(x[0], jnp.arange(4.0), x[0, 0]),
    "roll_by": lambda x, i, j: jnp.roll(x, i[0], axis=1), "embedding": lambda x, i, j: jnp.arange(30.0).reshape(10, 3)[j], "digitize": lambda x, i, j: jnp.digitize(x, jnp.array([-1.0, 0.0, 1.0])), "choose": lambda x, i, j: jnp.choose(j % 3, [x[0, 0, 0], x[0, 0, 1], x[0, 0, 2]], mode="clip"),
    "bfloat16_set": lambda x, i, j: x.astype(jnp.bfloat16).at[i].set(2).astype(jnp.float32), "mask": lambda x, i, j: jnp.where(jnp.arange(4)[:, None] >= i[0], x, -1),
}  # fmt: skip
SYMBOLIC_INDEXING = {
    "roll": lambda x, t, i: jnp.roll(x, 1, axis=0),
    "many_equal": lambda x, t, i: jnp.zeros((10, 64)).at[jnp.arange(5000) ** 2 % 7].add(x[0, 0, 0]),
    "pairs_dropped": lambda x, t, i: t.at[i * 4, i].add(1.0, mode="drop"),
    "pairs_with_batch": lambda x, t, i: x.at[jnp.arange(x.shape[0]), i[:, 0], 2].multiply(3.0),
    "length_modulo": lambda x, t, i: [1 % jnp.asarray(x.shape[0]), (1 // jnp.asarray(x.shape[0])) * jnp.asarray(x.shape[0])],
    "rows_of_table": lambda x, t, i: t[i], "columns": lambda x, t, i: x[:, i[0]], "one_of_each": lambda x, t, i: jnp.take_along_axis(x, i[:, :, None] * 0 + i[:, :, None], axis=1),
    "vmap": lambda x, t, i: jax.vmap(lambda a, k: a[k[0]])(x, i), "last": lambda x, t, i: x[-1], "set_column": lambda x, t, i: x.at[:, 1].set(0.0), "add_rows": lambda x, t, i: t.at[i].add(1.0), "argmax_row": lambda x, t, i: x[x[:, 0, 0].argmax()],
    "vmap_set": lambda x, t, i: jax.vmap(lambda a, k: a.at[k].set(0.0))(x, i), "one_hot": lambda x, t, i: nn.one_hot(i, 4), "dynamic_row": lambda x, t, i: lax.dynamic_index_in_dim(x, i[0, 0] * 0, 0), "take_fill": lambda x, t, i: jnp.take(t, i * 5, axis=0, mode="fill", fill_value=-1),
    "cumprod_batch": lambda x, t, i: jnp.cumprod(x, axis=0), "cummax_batch": lambda x, t, i: lax.cummax(x, axis=0), "cummin_reverse": lambda x, t, i: lax.cummin(ints(x), axis=0, reverse=True),
    "cumlogsumexp_batch": lambda x, t, i: lax.cumlogsumexp(x, axis=0), "cumprod_repeated": lambda x, t, i: jnp.cumprod(jnp.concatenate([x] * 5), axis=0),
    "update_first": lambda x, t, i: lax.dynamic_update_slice(x, jnp.zeros((1, 2, 4)), (i[0, 0] * 0, i[0, 1], 0)),
}  # fmt: skip


def scan_loop(x, n):
    return lax.scan(lambda c, row: (0.5 * c + row, (2 * c, row.sum())), x[0], x)


def scan_reverse(x, n):
    return lax.scan(lambda c, row: (c + row, c), x[0], x, reverse=True)


def rnn(x, n):
    weights = jnp.linspace(-0.5, 0.5, 16).reshape(4, 4)

    def cell(h, row):
        h = jnp.tanh(h @ weights + row)
        return h, h

    return lax.scan(cell, jnp.zeros(4), x)


def nested(x, n):
    def outer(i, c):
        return lax.cond(
            i % 2 == 0, lambda: lax.fori_loop(0, i, lambda _, d: d * 1.1, c), lambda: c - 1
        )

    return lax.fori_loop(0, 5, outer, x)


def newton(x, n):
    def step(s):
        return s[0] + 1, 0.5 * (s[1] + jnp.abs(x) / s[1]), s[1]

    def unfinished(s):
        return (s[0] < 30) & jnp.any(jnp.abs(s[1] - s[2]) > 1e-6 * s[1])

    start = jnp.ones_like(x)
    return lax.while_loop(unfinished, step, (0, 1 + jnp.abs(x), start))[1]


CONTROL_FLOW = {
    "scan": scan_loop, "scan_reverse": scan_reverse, "rnn": rnn, "nested": nested, "newton": newton,
    "while": lambda x, n: lax.while_loop(lambda s: s[1].sum() < 100, lambda s: (s[0] + 1, 1.5 * s[1] + 1), (0, jnp.abs(x))),
    "fori_known": lambda x, n: lax.fori_loop(0, 7, lambda i, c: c.at[i % 3].add(i * x[i % 3]), x), "fori_unknown": lambda x, n: lax.fori_loop(0, n, lambda i, c: c + i, x),
    "cond": lambda x, n: lax.cond(n > 2, lambda x: (x + 1, x.sum()), lambda x: (x - 1, x.max()), x), "cond_negative": lambda x, n: lax.cond(n < 2, jnp.sin, jnp.cos, x),
    "switch": lambda x, n: [lax.switch(n + k, [jnp.sin, jnp.cos, jnp.tanh, lambda x: 2 * x], x) for k in (-9, -1, 0, 9)], "map": lambda x, n: lax.map(lambda row: jnp.sort(row).cumsum(), x),
    "vmap_while": lambda x, n: jax.vmap(lambda r: lax.while_loop(lambda v: v.sum() < 9, lambda v: v + 1, r))(x), "associative_scan": lambda x, n: lax.associative_scan(jnp.add, x, axis=1),
    "no_iteration": lambda x, n: lax.fori_loop(0, n - n, lambda i, c: c + 1, x), "vmap_cond": lambda x, n: jax.vmap(lambda r: lax.cond(r[0] > 0, jnp.sin, jnp.cos, r))(x),
}  # fmt: skip
CONTRACTIONS = {
    "matmul": lambda x, y, q: x @ y, "matvec": lambda x, y, q: x @ y[:, 0], "vecmat": lambda x, y, q: y[:, 0] @ y, "inner": lambda x, y, q: y[:, 0] @ y[:, 1], "outer": lambda x, y, q: jnp.outer(y[0], y[1]), "tensordot": lambda x, y, q: jnp.tensordot(x, y, 1),
    "batched": lambda x, y, q: jnp.einsum("bij,bkj->bik", x, x), "batch_last": lambda x, y, q: jnp.einsum("bij,jk->kbi", x, y), "two_contracted": lambda x, y, q: jnp.einsum("bij,bij->b", x, x), "no_contracted": lambda x, y, q: jnp.einsum("bi,bj->bij", x[:, 0], x[:, 1]),
    "many_free": lambda x, y, q: jnp.einsum("bij,cj->bic", x, y), "heads": lambda x, y, q: jnp.einsum("bqhd,bkhd->bhqk", x.reshape(x.shape[0], 3, 2, 2), x.reshape(x.shape[0], 3, 2, 2)), "trace": lambda x, y, q: jnp.einsum("ii->", y), "vmap": lambda x, y, q: jax.vmap(lambda a: a @ y)(x),
    "int8": lambda x, y, q: lax.dot_general(q, q.T, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32), "int32": lambda x, y, q: q.astype(jnp.int32) @ q.T.astype(jnp.int32), "quantized": lambda x, y, q: lax.dot(jnp.clip(jnp.round(x[:, 0] * 20), -127, 127).astype(jnp.int8), q, preferred_element_type=jnp.int32) / 400.0,
    "bfloat16": lambda x, y, q: x.astype(jnp.bfloat16) @ y.astype(jnp.bfloat16), "float16": lambda x, y, q: x.astype(jnp.float16) @ y.astype(jnp.float16), "bfloat16_to_float32": lambda x, y, q: jnp.matmul(x.astype(jnp.bfloat16), y.astype(jnp.bfloat16), preferred_element_type=jnp.float32),
    "kron": lambda x, y, q: jnp.kron(y[:2], y[:2]), "matrix_power": lambda x, y, q: jnp.linalg.matrix_power(y, 3), "cross": lambda x, y, q: jnp.cross(y[:, :3], y[:, 1:]), "vander": lambda x, y, q: jnp.vander(y[0]),
}  # fmt: skip
NHWC = ("NHWC", "HWIO", "NHWC")


def conv(x, w, strides=(1, 1), padding="SAME", **options):
    return lax.conv_general_dilated(
        x, w, strides, padding, **{"dimension_numbers": NHWC, **options}
    )


def ints(v):
    return jnp.round(9 * v).astype(jnp.int32)


CONVOLUTIONS = {
    "same": lambda x, w, d: conv(x, w), "valid_strided": lambda x, w, d: conv(x, w, (2, 1), "VALID"), "padded": lambda x, w, d: conv(x, w, padding=((1, 2), (0, 3))), "dilated": lambda x, w, d: conv(x, w, padding="VALID", rhs_dilation=(2, 3)),
    "input_dilated": lambda x, w, d: conv(x, w, padding=((1, 2), (0, 1)), lhs_dilation=(2, 1)), "negative_padding": lambda x, w, d: conv(x, w, padding=((-1, 2), (0, -1))), "grouped": lambda x, w, d: conv(x, d[:, :, :2], feature_group_count=3),
    "depthwise": lambda x, w, d: conv(x, d[:, :, :1], feature_group_count=6), "nchw": lambda x, w, d: lax.conv(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), (1, 1), "SAME"), "one_dimension": lambda x, w, d: lax.conv_general_dilated(x[:, 0], w[0], (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
    "three_dimensions": lambda x, w, d: lax.conv_general_dilated(x[:, None], w[None], (1, 1, 2), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")), "transposed": lambda x, w, d: lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=NHWC), "transposed_kernel": lambda x, w, d: lax.conv_transpose(x, d, (2, 1), "VALID", dimension_numbers=NHWC, transpose_kernel=False),
    "int32": lambda x, w, d: conv(ints(x), ints(w), (1, 2)), "int8": lambda x, w, d: conv(ints(x).astype(jnp.int8), ints(w).astype(jnp.int8), preferred_element_type=jnp.int32), "int32_grouped": lambda x, w, d: conv(ints(x[:2]), ints(d[:, :, :2]), feature_group_count=3) if isinstance(x.shape[0], int) else ints(x),
    "float16": lambda x, w, d: conv(x.astype(jnp.float16), w.astype(jnp.float16)), "patches": lambda x, w, d: lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "SAME", dimension_numbers=NHWC), "convolve": lambda x, w, d: jnp.convolve(w[0, 0, :, 0], w[0, 1, :, 1]), "bias_relu": lambda x, w, d: nn.relu(conv(x, w) + jnp.arange(4.0) / 4),
}  # fmt: skip


SYMBOLIC_IMAGES = {
    "same": lambda x: conv(x, jnp.ones((3, 3, 2, 3))),
    "same_strided": lambda x: conv(x, jnp.ones((3, 3, 2, 3)), (2, 2)),
    "same_strided_int": lambda x: conv(ints(x), jnp.ones((3, 3, 2, 3), jnp.int32), (2, 2)),
    "dilated": lambda x: conv(x, jnp.ones((2, 3, 2, 3)), (1, 2), rhs_dilation=(2, 1)),
    "pool": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 1), (1, 1, 2, 1), "VALID"),
}


def attention(q, mask=None):
    heads = q.reshape(q.shape[0], 6, 2, 4)
    return nn.dot_product_attention(heads, heads, heads, is_causal=mask is None, mask=mask)


def layer_norm(x):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-6) * jnp.arange(1.0, 9) + 0.5


def transformer_layer(x):
    weights = jnp.sin(jnp.arange(64.0)).reshape(8, 8) / 4
    x = x + attention(layer_norm(x) @ weights).reshape(x.shape)
    return x + nn.gelu(layer_norm(x) @ weights) @ weights.T


NETWORKS = {
    "softmax": lambda x: nn.softmax(x), "softmax_axis": lambda x: nn.softmax(x, axis=1), "softmax_where": lambda x: nn.softmax(x, where=x > -1), "log_softmax": lambda x: nn.log_softmax(x), "relu": nn.relu, "relu6": nn.relu6, "gelu": nn.gelu, "gelu_exact": lambda x: nn.gelu(x, approximate=False), "silu": nn.silu,
    "softplus": nn.softplus, "sigmoid": nn.sigmoid, "log_sigmoid": nn.log_sigmoid, "elu": nn.elu, "selu": nn.selu, "celu": nn.celu, "leaky_relu": nn.leaky_relu, "hard_swish": nn.hard_swish, "hard_tanh": nn.hard_tanh, "mish": nn.mish, "glu": nn.glu, "soft_sign": nn.soft_sign, "squareplus": nn.squareplus,
    "standardize": nn.standardize, "layer_norm": layer_norm, "rms_norm": lambda x: x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6), "attention_causal": attention, "attention_mask": lambda x: attention(x, jnp.tril(jnp.ones((6, 6), bool))[None, None]), "transformer_layer": transformer_layer, "cross_entropy": lambda x: -jnp.take_along_axis(nn.log_softmax(x), jnp.argmax(x, -1, keepdims=True), -1),
    "rope": lambda x: jnp.concatenate([-x[..., 4:], x[..., :4]], -1) * jnp.sin(jnp.arange(6.0))[:, None], "dropout_off": lambda x: jnp.where(jnp.ones(8, bool), x / 0.9, 0), "resize": lambda x: jax.image.resize(x[0], (12, 16), "bilinear"),
}  # fmt: skip
BITS = {
    "float_to_int": lambda x, i: lax.bitcast_convert_type(x, jnp.int32), "int_to_float": lambda x, i: lax.bitcast_convert_type(i + 0x3F800000, jnp.float32), "float16": lambda x, i: lax.bitcast_convert_type(x.astype(jnp.float16), jnp.uint16), "bfloat16": lambda x, i: lax.bitcast_convert_type(x.astype(jnp.bfloat16), jnp.int16),
    "int_to_uint": lambda x, i: lax.bitcast_convert_type(i, jnp.uint32), "signbit": lambda x, i: jnp.signbit(x), "copysign": lambda x, i: jnp.copysign(x, i), "nextafter": lambda x, i: jnp.nextafter(x, 2 * x), "frexp": lambda x, i: jnp.frexp(x), "constant": lambda x, i: i + lax.bitcast_convert_type(jnp.float32(1), jnp.int32),
}  # fmt: skip
NARROW = {
    "float16": lambda x: jnp.tanh(x.astype(jnp.float16)) + 1, "bfloat16": lambda x: jnp.tanh(x.astype(jnp.bfloat16)) + 1, "float16_softmax": lambda x: nn.softmax(x.astype(jnp.float16)), "bfloat16_layer_norm": lambda x: layer_norm(jnp.tile(x, 2).astype(jnp.bfloat16)), "reduce_precision": lambda x: lax.reduce_precision(x, 8, 7),
    "float8": lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32), "float8_e5m2": lambda x: x.astype(jnp.float8_e5m2).astype(jnp.float32), "float16_where": lambda x: jnp.where(x > 0, x.astype(jnp.float16), 0), "bfloat16_max": lambda x: x.astype(jnp.bfloat16).max(1), "bfloat16_broadcast": lambda x: jnp.broadcast_to(x[:, :1].astype(jnp.bfloat16), (x.shape[0], 3)), "float16_pad": lambda x: jnp.pad(x.astype(jnp.float16), ((0, 0), (1, 1))),
    "float16_argmax": lambda x: x.astype(jnp.float16).argmax(1), "bfloat16_cumsum": lambda x: x.astype(jnp.bfloat16).cumsum(1), "float16_loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c * jnp.float16(0.5), x.astype(jnp.float16)), "bfloat16_cond": lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x.astype(jnp.bfloat16)),
}  # fmt: skip
WIDE = {
    "functions": lambda x, i: [f(x) for f in (jnp.sin, jnp.exp, jnp.tanh, jnp.arctan, jnp.tan, lax.erf, jnp.arcsinh, jnp.cbrt, jnp.expm1, jnp.log1p)], "matmul": lambda x, i: x @ x.T, "sort": lambda x, i: jnp.sort(x, 1), "int64": lambda x, i: i * 3_000_000_000 // 7, "uint64_compare": lambda x, i: i.astype(jnp.uint64) < 5, "uint64_sum": lambda x, i: i.astype(jnp.uint64).sum(1),
    "uint64_shift": lambda x, i: i.astype(jnp.uint64) >> 60, "to_int64": lambda x, i: (x * 1e12).astype(jnp.int64), "conv": lambda x, i: lax.conv_general_dilated(x[None, None], x[None, None, :2, :2], (1, 1), "SAME"), "arctan2": lambda x, i: jnp.arctan2(x, x[::-1]), "sign_of_arctan": lambda x, i: 1 / jnp.arctan(jnp.array([0.0, -0.0]) * x[:, :1] ** 2), "bitcast": lambda x, i: lax.bitcast_convert_type(x, jnp.int64), "argmax": lambda x, i: x.argmax(1), "softmax": lambda x, i: nn.softmax(x),
}  # fmt: skip


_xy = {"x": (f32, ("b", 4), same), "y": (f32, ("b", 4), same)}
_special = {"x": (f32, (6, 4), special), "y": (f32, (6, 4), lambda x: special(x)[::-1, ::-1])}
_image = {"x": (f32, ("b", 7, 6, 6), same)}
GROUPS = {
    "unary": Group(_xy, UNARY),
    "binary": Group(_xy, BINARY),
    "special_values": Group(
        _special,
        {f"{name}_of_special": f for name, f in BINARY.items() if name not in ("to_uint16", "integer_pow", "power")}
        | {
            f"{name}_of_special": UNARY[name]
            for name in ("abs", "ceil", "exp", "expm1", "isfinite", "isnan", "logistic", "round", "sign", "tanh", "cbrt")
        }
        | {"max_of_special": of_first(lambda x: x.max(1)), "argmax_of_special": of_first(lambda x: x.argmax(1)), "argmin_of_special": of_first(lambda x: x.argmin(1))}
        | {"sort_of_special": lambda x, y: jnp.sort(x, axis=1), "argsort_of_special": lambda x, y: jnp.argsort(x, axis=0)}
        | {"cummax_of_special": lambda x, y: lax.cummax(x, axis=1), "softmax_of_special": lambda x, y: nn.softmax(x)}
        | {"pool_of_special": lambda x, y: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 2), "SAME"), "pool_of_infinities": lambda x, y: lax.reduce_window(jnp.where(x > 0, x, -jnp.inf), -jnp.inf, lax.max, (1, 2), (1, 1), "SAME")}
        | {"angles_of_zeros": lambda x, y: jnp.arctan2(jnp.array([0.0, -0.0]) * x[:, :1] ** 2, jnp.array([1.0, -1.0, 0.0, -0.0])[:, None, None]), "sign_of_arctan": lambda x, y: 1 / jnp.arctan2(x, 2.0)},
    ),
    "integers": Group({"i": (i32, ("b", 4), scaled(60)), "j": (i32, ("b", 4), scaled(3))}, INTEGERS),
    "shapes": Group({"x": (f32, ("b", 3, 4), same), "m": (f32, (4, 4), same)}, SHAPES),
    "reductions": Group({"x": (f32, ("b", 3, 4), same)}, REDUCTIONS),
    "windows": Group(_image, WINDOWS),
    "sorting": Group({"x": (f32, ("b", 8), same)}, SORTING),
    "indexing": Group({"x": (f32, (5, 4, 4), same), "i": (i32, (6,), within(3)), "j": (i32, (6,), within(5))}, INDEXING),
    "symbolic_indexing": Group({"x": (f32, ("b", 3, 4), same), "t": (f32, (7, 2), same), "i": (i32, ("b", 2), within(3))}, SYMBOLIC_INDEXING),
    "control_flow": Group({"x": (f32, (3, 4), same), "n": (i32, (), lambda x: 3 + 0 * x)}, CONTROL_FLOW),
    "contractions": Group({"x": (f32, ("b", 3, 4), same), "y": (f32, (4, 4), same), "q": (np.int8, (4, 4), scaled(50))}, CONTRACTIONS),
    "symbolic_images": Group({"x": (f32, (1, "b", 8, 2), same)}, SYMBOLIC_IMAGES, 1e-4),
    "convolutions": Group(_image | {"w": (f32, (3, 2, 6, 4), same), "d": (f32, (2, 2, 6, 6), same)}, CONVOLUTIONS, 1e-4),
    "networks": Group({"x": (f32, ("b", 6, 8), same)}, NETWORKS),
    "bits": Group({"x": (f32, (3, 4), same), "i": (i32, (3, 4), scaled(1e5))}, BITS),
    "narrow": Group({"x": (f32, ("b", 4), same)}, NARROW),
    "wide": Group({"x": (np.float64, (3, 4), same), "i": (np.int64, (3, 4), scaled(100))}, WIDE, 1e-12, x64=True),
}  # fmt: skip
