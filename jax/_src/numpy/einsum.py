"""`einsum`: sums of products in Einstein notation, evaluated as a series of `dot_general`s."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.core import ShapedArray
from jax._src.jit.library import inline_jit
from jax._src.lax import lax, slicing
from jax._src.numpy import util
from jax._src.numpy.contraction import Labels, before_transpose, contract, plan, total
from jax._src.numpy.util import export
from jax._src.sharding_impls import canonicalize_sharding
from jax._src.transforms.explicit_sharding import auto_axes
from jax._src.typing import ArrayLike, DTypeLike

_DEFAULT_DOT_GENERAL = lax.dot_general


@export
def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: str | bool | Sequence[Any] = "auto",
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    _dot_general: Callable[..., Array] = lax.dot_general,
    out_sharding: Any = None,
) -> Array:
    """Evaluates a sum of products in Einstein notation.

    Args:
      subscripts: one letter per dimension of each operand, separated by commas, and after "->"
        those of the result; letters missing there are summed over. Without "->" the result has the
        letters that occur once, in alphabetical order. "..." stands for dimensions that broadcast.
      *operands: arrays. The alternative form is `einsum(x, labels, y, labels, ..., labels)`, where
        labels are lists of ints.
      out: must be None.
      optimize: contraction order for more than two operands: "auto", "optimal", "greedy" or any
        other strategy of `opt_einsum`; True for "optimal", False for left to right; or a path as
        returned by `einsum_path`.
      precision, preferred_element_type, out_sharding: as for `jax.numpy.dot`.

    Returns:
      An array whose dimensions have the labels of the result.

    Raises:
      ValueError: if the subscripts do not match the operands.

    >>> x, y = jnp.arange(6).reshape(2, 3), jnp.ones((3, 4), int)
    >>> jnp.einsum("ij,jk->ik", x, y).shape
    (2, 4)
    >>> jnp.einsum("ij->j", x).tolist()
    [3, 5, 7]
    >>> jnp.einsum("...i,...i", x, x).tolist()
    [5, 50]
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.einsum is not supported.")
    if type(subscripts) is not str:
        if isinstance(subscripts, str):
            subscripts = str(subscripts)  # a subclass of str, such as NumPy's strings
        else:
            subscripts, operands = _from_lists(subscripts, operands)
    operands = util.arraylike("einsum", *operands)
    if (
        optimize == "auto"
        and precision is None
        and preferred_element_type is None
        and _dot_general is _DEFAULT_DOT_GENERAL
        and out_sharding is None
    ):
        return _einsum(*operands, subscripts=subscripts)
    run = _einsum
    if _dot_general is _DEFAULT_DOT_GENERAL:
        _dot_general = None  # type: ignore[assignment]
    else:
        run = _einsum_as_it_is
    if out_sharding is not None:
        out_sharding = canonicalize_sharding(out_sharding, "einsum")
    return run(
        *operands,
        subscripts=subscripts,
        optimize=_hashable_path(optimize),
        precision=precision,
        preferred_element_type=preferred_element_type,
        dot_general=_dot_general,
        out_sharding=out_sharding,
    )


@export
def einsum_path(
    subscripts: Any, /, *operands: Any, optimize: bool | str | Sequence[tuple[int, ...]] = "auto"
) -> tuple[list[tuple[int, ...]], Any]:
    """Returns the order in which `einsum` would contract its operands.

    Args:
      subscripts, *operands, optimize: as for `einsum`.

    Returns:
      The path, which `einsum` accepts as `optimize`, and an object that prints its cost.

    >>> x, y, z = jnp.ones((2, 9)), jnp.ones((9, 9)), jnp.ones((9, 3))
    >>> path, info = jnp.einsum_path("ij,jk,kl->il", x, y, z)
    >>> path
    [(0, 1), (0, 1)]
    """
    if isinstance(optimize, bool):
        optimize = "optimal" if optimize else "auto"
    return _opt_einsum().contract_path(subscripts, *operands, optimize=optimize)


def _opt_einsum() -> Any:
    # Imported on first use, since few programs contract more than two arrays at a time.
    return importlib.import_module("opt_einsum")


def _hashable_path(optimize: Any) -> Any:
    if isinstance(optimize, (str, bool)):
        return optimize
    return tuple([p if isinstance(p, str) else tuple(p) for p in optimize])


# ---------------------------------------------------------------------------------------------------
# Subscripts

# A parsed spec: a tuple of labels per operand, and one for the result or None. `...` is a label.
Spec = tuple[tuple[Labels, ...], Labels | None]


def _from_lists(first: Any, rest: Sequence[Any]) -> tuple[Spec, list[Any]]:
    """Converts the form `x, [0, 1], y, [1, 2], [0, 2]` to labels and operands."""
    everything = [first, *rest]
    result = _list_labels(everything.pop()) if len(everything) % 2 else None
    if not everything:
        raise TypeError(
            "einsum: pass a string of subscripts, or operands alternating with lists of labels; got "
            f"{type(first)}"
        )
    operands = everything[::2]
    return (tuple([_list_labels(labels) for labels in everything[1::2]]), result), operands


def _list_labels(labels: Any) -> Labels:
    if not isinstance(labels, (list, tuple, np.ndarray)):
        raise TypeError(
            f"einsum: labels of an operand must be a list of ints and Ellipsis, got {labels!r}"
        )
    return tuple([label if label is ... else int(label) for label in labels])


@functools.lru_cache(1024)
def _parse(subscripts: str) -> Spec:
    text = subscripts.replace(" ", "").replace("\n", "")
    if text.count("->") > 1:
        raise ValueError("Subscripts can only contain one '->'.")
    left, arrow, right = text.partition("->")
    if ">" in left or (">" in right) or "-" in left or "-" in right:
        raise ValueError(
            f"einsum: subscripts can only contain '-' and '>' as '->', got {subscripts!r}"
        )
    inputs = tuple([_letters(part, subscripts) for part in left.split(",")])
    if not arrow:
        return inputs, None
    return inputs, _letters(right, subscripts)


def _letters(part: str, subscripts: str) -> Labels:
    before, dots, after = part.partition("...")
    if "." in before or "." in after:
        raise ValueError(f"einsum: invalid ellipsis in subscripts {subscripts!r}")
    return (*before, *([...] if dots else []), *after)


@functools.lru_cache(4096)
def _resolve(spec: Any, shapes: tuple[tuple, ...]) -> tuple[tuple[Labels, ...], Labels]:
    """Returns the labels of the operands and the result; ellipses become numbered pairs."""
    inputs, result = _parse(spec) if isinstance(spec, str) else spec
    if len(inputs) != len(shapes):
        raise ValueError(
            f"Number of einsum subscripts, {len(inputs)}, must be equal to the number of operands, "
            f"{len(shapes)}."
        )
    longest = 0
    expanded = []
    for i, (labels, shape) in enumerate(zip(inputs, shapes)):
        extra = len(shape) - len(labels)
        if ... in labels:
            extra += 1
            at = labels.index(...)
            if extra >= 0:
                labels = (*labels[:at], *_ellipsis(extra), *labels[at + 1 :])
                longest = max(longest, extra)
        if len(labels) != len(shape):
            raise ValueError(
                f"Einstein sum subscript '{_text(inputs[i])}' does not contain the correct number of indices "
                f"for operand {i}."
            )
        expanded.append(labels)
    _check_sizes(expanded, shapes)
    every = [label for labels in expanded for label in labels]
    if result is None:
        once = [
            label for label in every if every.count(label) == 1 and not isinstance(label, tuple)
        ]
        return tuple(expanded), (*_ellipsis(longest), *sorted(once))
    if ... in result:
        at = result.index(...)
        result = (*result[:at], *_ellipsis(longest), *result[at + 1 :])
    for label in result:
        if label not in every:
            raise ValueError(f"Output character '{label}' did not appear in the input")
        if result.count(label) > 1:
            raise ValueError(f"Output character '{label}' appeared more than once in the output.")
    return tuple(expanded), result


def _ellipsis(n: int) -> Labels:
    # Numbered from the right, because broadcasting aligns dimensions at the right.
    return tuple([(..., n - i) for i in range(n)])


def _text(labels: Labels) -> str:
    return "".join("..." if label is ... else str(label) for label in labels)


def _check_sizes(inputs, shapes):
    sizes: dict[Any, Any] = {}
    for i, (labels, shape) in enumerate(zip(inputs, shapes)):
        seen: dict[Any, Any] = {}
        for label, size in zip(labels, shape):
            if label in seen and not core.definitely_equal(seen[label], size):
                raise ValueError(
                    f"Dimensions of operand {i} with the same label '{label}' have sizes {seen[label]} and "
                    f"{size}."
                )
            seen[label] = size
            known = sizes.get(label, 1)
            if core.definitely_equal(known, 1):
                sizes[label] = size
            elif not core.definitely_equal_one_of_dim(size, (1, known)):
                raise ValueError(
                    f"Size of label '{label}' for operand {i} ({known}) does not match previous terms "
                    f"({size})."
                )


# ---------------------------------------------------------------------------------------------------
# Contraction order

# What a dimension without a known size counts as where the order is chosen.
_SYMBOLIC_SIZE = 64


@functools.lru_cache(4096)
def _path(
    inputs: tuple[Labels, ...], result: Labels, shapes: tuple[tuple, ...], optimize: Any
) -> tuple[tuple[int, ...], ...]:
    """Returns the operands to contract in each step; each result is appended to the list."""
    n = len(inputs)
    if n <= 2:
        return (tuple(range(n)),)
    if not isinstance(optimize, (str, bool)):
        steps = optimize[1:] if optimize and optimize[0] == "einsum_path" else optimize
        return tuple([tuple(map(int, step)) for step in steps])
    if optimize is False:
        return ((0, 1), *[(n - 2 - i, 0) for i in range(n - 2)])
    module = _opt_einsum()
    letters: dict[Any, str] = {}
    for labels in (*inputs, result):
        for label in labels:
            letters.setdefault(label, module.get_symbol(len(letters)))
    text = ",".join("".join(letters[label] for label in labels) for labels in inputs)
    text += "->" + "".join(letters[label] for label in result)
    # any order is correct, and most symbolic dimensions are batches or lengths
    sizes = [
        tuple(d if core.is_constant_dim(d) else _SYMBOLIC_SIZE for d in shape) for shape in shapes
    ]
    path, _ = module.contract_path(
        text, *sizes, shapes=True, optimize="optimal" if optimize is True else optimize
    )
    return tuple([tuple(step) for step in path])


# ---------------------------------------------------------------------------------------------------
# Evaluation


def _einsum_as_it_is(
    *operands: ArrayLike,
    subscripts: Any,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
    dot_general: Any = None,
    out_sharding: Any = None,
) -> Array:
    if len(operands) == 2:
        a, b = (getattr(x, "aval", None) for x in operands)
        if type(a) is ShapedArray and type(b) is ShapedArray and a.dtype == b.dtype:
            p = _pair_plan(subscripts, a.shape, b.shape)
            if (
                p is not None
                and preferred_element_type is None
                and a.weak_type is b.weak_type is False
                and not (p.lhs[0] or p.rhs[0])
            ):
                return contract(*operands, p, precision, a.dtype, out_sharding, dot_general)
    util.check_arraylike("einsum", *operands)
    if out_sharding is not None and len(operands) > 2:
        return _without_shardings(
            operands,
            out_sharding,
            subscripts=subscripts,
            optimize=optimize,
            precision=precision,
            preferred_element_type=preferred_element_type,
            dot_general=dot_general,
        )
    arrays = [util.lower_jax_array(x) for x in operands]
    shapes = tuple([np.shape(x) for x in arrays])
    inputs, result = _resolve(subscripts, shapes)
    if preferred_element_type is None:
        preferred, weak_type = dtypes.result_type(*arrays, return_weak_type_flag=True)
    else:
        preferred = dtypes.check_and_canonicalize_user_dtype(preferred_element_type, "einsum")
        weak_type = False
    # Keep the operands' dtypes: dot_general accepts mixed ones.
    terms = list(zip(map(util.to_array, arrays), inputs))
    path = _path(inputs, result, shapes, optimize)
    for step in path:
        # Delete from the end, so that the remaining positions stay valid.
        chosen = [terms[i] for i in step]
        for i in sorted(step, reverse=True):
            del terms[i]
        terms.append(
            _contract_all(
                chosen,
                result,
                [labels for _, labels in terms],
                (precision, preferred, out_sharding, dot_general),
            )
        )
    while len(terms) > 1:
        a, b, *terms = terms
        rest = [labels for _, labels in terms]
        terms.append(
            _contract_all([a, b], result, rest, (precision, preferred, out_sharding, dot_general))
        )
    ((out, labels),) = terms
    if labels != result:
        out, _ = _single(out, labels, result, out_sharding)
    aval = getattr(out, "aval", None)
    if aval is not None and aval.dtype == preferred and aval.weak_type == weak_type:
        return out
    return lax.convert_type(out, preferred, weak_type)


def _without_shardings(operands, out_sharding, **options):
    """Contracts more than two operands, leaving the intermediate shardings to the compiler."""
    fun = functools.partial(_einsum_as_it_is, **options)
    return auto_axes(fun, out_sharding=out_sharding)(*operands)


@functools.lru_cache(4096)
def _pair_plan(subscripts: Any, lhs_shape: tuple, rhs_shape: tuple) -> Any:
    """Returns the plan for contracting two operands, or None if one has a diagonal to take."""
    (lhs, rhs), result = _resolve(subscripts, (lhs_shape, rhs_shape))
    if len({*lhs}) < len(lhs) or len({*rhs}) < len(rhs):
        return None
    return plan(lhs, lhs_shape, rhs, rhs_shape, result)


_einsum = inline_jit(
    _einsum_as_it_is,
    static_argnames=(
        "subscripts", "optimize", "precision", "preferred_element_type", "dot_general", "out_sharding",
    ),
)  # fmt: skip


def _contract_all(terms, result, others, options):
    """Multiplies terms, summing over labels that neither the result nor another term has."""
    (x, labels), *rest = terms
    while rest:
        (y, other), *rest = rest
        wanted = {*result}.union(*others, *[more for _, more in rest])
        x, labels = _diagonals(x, labels, wanted)
        y, other = _diagonals(y, other, wanted)
        last = not others and not rest
        out = result if last else _natural_order(labels, other, wanted)
        p = plan(labels, np.shape(x), other, np.shape(y), out)
        if p.lhs[0] or p.rhs[0]:
            x, y = _widened(x, options[1]), _widened(y, options[1])
        x = contract(x, y, p, *options)
        labels = out
    if len(terms) == 1:
        wanted = (
            result
            if not others
            else tuple(
                [
                    label
                    for label in dict.fromkeys(labels)
                    if any(label in o for o in (result, *others))
                ]
            )
        )
        out_sharding = None if others else options[2]
        x, labels = _single(_widened(x, options[1]), labels, wanted, out_sharding)
    return x, labels


def _widened(x, dtype):
    """Converts `x` to the accumulation dtype if that is wider."""
    own = dtypes.dtype(x)
    if own == dtype or dtypes.promote_types(own, dtype) != dtype:
        return x
    return lax.convert_element_type(x, dtype)


def _natural_order(lhs, rhs, wanted):
    """Returns the order of labels in which a dot product has its result."""
    both = [label for label in lhs if label in rhs and label in wanted]
    left = [label for label in lhs if label not in rhs and label in wanted]
    return (*both, *left, *[label for label in rhs if label not in lhs and label in wanted])


def _single(x, labels, wanted, out_sharding):
    """Reduces a single operand: takes diagonals, sums and transposes."""
    x, labels = _diagonals(x, labels, wanted)
    axes = tuple([i for i, label in enumerate(labels) if label not in wanted])
    labels = tuple([label for label in labels if label in wanted])
    permutation = tuple(map(labels.index, wanted))
    if axes:
        if out_sharding is not None:
            out_sharding = before_transpose(out_sharding, permutation)
        x = total(util.to_array(x), axes, out_sharding)
    return lax.transpose(x, permutation), tuple(wanted)


def _diagonals(x, labels, wanted):
    """Takes diagonals of dimensions that share a label."""
    if len(set(labels)) == len(labels):
        return x, labels
    x = util.to_array(x)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            kept = [d for d in range(len(labels)) if d not in (i, j)]
            x = lax.transpose(x, [*kept, i, j])
            n = x.shape[-1]
            # Elements of the diagonal are n + 1 apart in the flattened matrix.
            x = lax.reshape(x, (*x.shape[:-2], n * n))
            if core.definitely_equal(n, 0) is False:
                x = slicing.slice_in_dim(x, 0, n * n, stride=n + 1, axis=x.ndim - 1)
            labels = (*[labels[d] for d in kept], label)
    return x, labels
