"""Counting and listing the equations of a jaxpr: for tests, and to find what makes a program large."""

from __future__ import annotations

import collections
import gzip
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax._src import core, source_info_util
from jax._src.core import Jaxpr, JaxprEqn, Var
from jax._src.interpreters import mlir
from jax._src.jaxpr_view import view
from jax._src.protobuf import message, varint


def all_eqns(jaxpr: Jaxpr, revisit_inner_jaxprs: bool = True) -> Iterator[tuple[Jaxpr, JaxprEqn]]:
    """The equations of a jaxpr, then those of the jaxprs in it, each with the jaxpr that it is in.

    Args:
      jaxpr: the jaxpr.
      revisit_inner_jaxprs: whether a jaxpr that several equations call counts for each of them.
    """
    return _all_eqns(jaxpr, None if revisit_inner_jaxprs else set())


def _all_eqns(jaxpr: Jaxpr, visited: set[Jaxpr] | None) -> Iterator[tuple[Jaxpr, JaxprEqn]]:
    for eqn in jaxpr.eqns:
        yield jaxpr, eqn
    for sub in core.subjaxprs(jaxpr):
        if visited is None or sub not in visited:
            if visited is not None:
                visited.add(sub)
            yield from _all_eqns(sub, visited)


@core.cached_on_jaxpr
def count_eqns(jaxpr: Jaxpr | core.ClosedJaxpr) -> int:
    """The number of equations of a jaxpr and of those in it, which count for each of their calls."""
    inner = jaxpr.jaxpr if isinstance(jaxpr, core.ClosedJaxpr) else jaxpr
    return len(inner.eqns) + sum(map(count_eqns, core.subjaxprs(inner)))


def collect_eqns(jaxpr: Jaxpr, key: Callable[[JaxprEqn], Any]) -> dict[Any, list[JaxprEqn]]:
    """All equations by the value of `key`."""
    found: dict[Any, list[JaxprEqn]] = collections.defaultdict(list)
    for _, eqn in all_eqns(jaxpr):
        found[key(eqn)].append(eqn)
    return dict(found)


def histogram(
    jaxpr: Jaxpr, key: Callable[[JaxprEqn], Any], key_fmt: Callable[[Any], Any] = lambda key: key
) -> dict[Any, int]:
    """The number of equations for each value of `key`, which `key_fmt` formats."""
    return {key_fmt(k): len(eqns) for k, eqns in collect_eqns(jaxpr, key).items()}


def primitives(jaxpr: Jaxpr) -> dict[str, int]:
    """The number of equations of each primitive.

    >>> from jax._src.jaxpr_util import primitives
    >>> primitives(jax.make_jaxpr(lambda x: jnp.sin(jnp.sin(x)) + 1)(1.).jaxpr)
    {'sin': 2, 'add': 1}
    """
    return histogram(jaxpr, lambda eqn: eqn.primitive.name)


def primitives_by_source(jaxpr: Jaxpr) -> dict[str, int]:
    """The number of equations of each primitive on each line of the program."""
    return histogram(
        jaxpr, lambda eqn: (eqn.primitive.name, _source(eqn)), lambda key: " @ ".join(key)
    )


def primitives_by_shape(jaxpr: Jaxpr) -> dict[str, int]:
    """The number of equations of each primitive with results of each type."""

    def shapes(eqn: JaxprEqn) -> tuple[str, str]:
        types = " ".join([v.aval.strip_weak_type().str_short() for v in eqn.outvars])
        return eqn.primitive.name, types

    return histogram(jaxpr, shapes, lambda key: " :: ".join(key))


def source_locations(jaxpr: Jaxpr) -> dict[str, int]:
    """The number of equations that come from each line of the program."""
    return histogram(jaxpr, _source)


def _source(eqn: JaxprEqn) -> str:
    return source_info_util.summarize(eqn.source_info)


# Variables


def var_defs_and_refs(jaxpr: Jaxpr) -> Any:
    """Where each variable is defined and used.

    Returns:
      For a jaxpr without others in it, a pair of the jaxpr and a list of tuples: a variable, the
      equation that computes it (None of an argument), and a list of the equations that use it, in
      which None stands for the result of the jaxpr. Otherwise a list of this pair and, for each inner
      jaxpr, the same.
    """
    defs: dict[Any, JaxprEqn | None] = {v: None for v in (*jaxpr.constvars, *jaxpr.invars)}
    refs: dict[Any, list[JaxprEqn | None]] = {v: [] for v in defs}
    for eqn in jaxpr.eqns:
        for v in dict.fromkeys(x for x in eqn.invars if type(x) is Var):
            refs[v].append(eqn)
        for v in eqn.outvars:
            defs[v] = eqn
            refs.setdefault(v, [])
    for v in dict.fromkeys(x for x in jaxpr.outvars if type(x) is Var):
        refs[v].append(None)
    own = (jaxpr, [(v, defs[v], refs[v]) for v in defs])
    inner = [var_defs_and_refs(sub) for sub in core.subjaxprs(jaxpr)]
    return [own, *inner] if inner else own


def eqns_using_var_with_invar_index(jaxpr: Jaxpr, invar: Var) -> Iterator[tuple[JaxprEqn, int]]:
    """The equations of the jaxpr that have a variable as an operand, and its position there."""
    for eqn in jaxpr.eqns:
        for i, v in enumerate(eqn.invars):
            if v is invar:
                yield eqn, i
                break


def jaxpr_and_binder_in_params(params: dict[str, Any], index: int) -> Iterator[tuple[Jaxpr, Var]]:
    """The jaxprs in the parameters of an equation, and their arguments at a position.

    Raises:
      RuntimeError: if a jaxpr has no such argument.
    """
    for jaxpr in core.jaxprs_in_params(params):
        if index >= len(jaxpr.invars):
            raise RuntimeError(
                f"operand {index} is no argument of an inner jaxpr, which has {len(jaxpr.invars)}."
            )
        yield jaxpr, jaxpr.invars[index]


def eqns_using_var(jaxpr: Jaxpr, invar: Var) -> Iterator[JaxprEqn]:
    """The equations that use a variable, also those in calls and loops, but not these themselves."""
    for eqn, index in eqns_using_var_with_invar_index(jaxpr, invar):
        inner = list(core.jaxprs_in_params(eqn.params))
        if not inner:
            yield eqn
        for sub, var in jaxpr_and_binder_in_params(eqn.params, index) if inner else ():
            yield from eqns_using_var(sub, var)


# Reports


def jaxpr_to_html(jaxpr: Jaxpr) -> str:
    """A page that shows a jaxpr, with the line of the program of each equation; see `jax.tools.view`."""
    return view(jaxpr).html


def maybe_dump_jaxpr_to_file(fun_name: str, jaxpr: Jaxpr) -> str | None:
    """Write a jaxpr to a file in `jax_dump_ir_to`, if `jax_dump_ir_modes` includes "jaxpr".

    Args:
      fun_name: the name of the function, which is part of that of the file.
      jaxpr: the jaxpr.

    Returns:
      The name of the file; None if the options do not ask for it.
    """
    return mlir.dump_jaxpr_to_file(jaxpr, fun_name)  # type: ignore[arg-type]


def pprof_equation_profile(jaxpr: Jaxpr, *, workspace_root: str | None = None) -> bytes:
    """The numbers of equations by the stack of the program that made them, as a profile for `pprof`.

    The stack of an equation in an inner jaxpr is that of the calls, too.

    Args:
      jaxpr: the jaxpr.
      workspace_root: a folder; the names of functions in it are qualified by their module.

    Returns:
      A protocol buffer of pprof's format, compressed by gzip.
    """
    counts: collections.Counter[Any] = collections.Counter()
    _count_stacks(jaxpr, (), counts)
    return _pprof_profile(counts, workspace_root)


def _count_stacks(jaxpr: Jaxpr, caller: tuple[Any, ...], counts: collections.Counter[Any]) -> None:
    for eqn in jaxpr.eqns:
        frames = tuple(source_info_util.user_frames(eqn.source_info.traceback))
        stack = frames or caller
        counts[stack, eqn.primitive.name] += 1
        for sub in core.jaxprs_in_params(eqn.params):
            _count_stacks(sub, stack, counts)


# pprof's format: https://github.com/google/pprof/blob/main/proto/profile.proto


class _Table:
    """Numbers values in the order in which they are first seen."""

    def __init__(self, first: int, values: Sequence[Any] = ()) -> None:
        self._first = first
        self._index: dict[Any, int] = {}
        for value in values:
            self[value]

    def __getitem__(self, value: Any) -> int:
        return self._index.setdefault(value, len(self._index) + self._first)

    def items(self) -> Iterator[tuple[Any, int]]:
        return iter(list(self._index.items()))


def _pprof_profile(counts: dict[Any, int], workspace_root: str | None) -> bytes:
    strings, functions, locations = _Table(0, [""]), _Table(1), _Table(1)
    value_type = message((1, strings["equations"]), (2, strings["count"]))
    samples = []
    for (stack, primitive), count in counts.items():
        ids = b"".join([varint(locations[frame]) for frame in stack])
        label = message((1, strings["primitive"]), (2, strings[primitive]))
        samples.append(message((1, ids), (2, varint(count)), (3, label)))
    location_messages = []
    for frame, i in locations.items():
        name = _qualified(frame, workspace_root)
        line = message((1, functions[name, frame.file_name]), (2, frame.start_line))
        location_messages.append(message((1, i), (4, line)))
    function_messages = [
        message((1, i), (2, strings[name]), (4, strings[file]))
        for (name, file), i in functions.items()
    ]
    fields: list[tuple[int, int | bytes]] = [(1, value_type)]
    fields += [(2, s) for s in samples] + [(4, s) for s in location_messages]
    fields += [(5, s) for s in function_messages]
    fields += [(6, text.encode()) for text, _ in strings.items()]
    return gzip.compress(message(*fields))


def _qualified(frame: Any, workspace_root: str | None) -> str:
    name: str = frame.function_name
    if workspace_root is None:
        return name
    root = workspace_root.rstrip("/") + "/"
    if not frame.file_name.startswith(root):
        return name
    module = frame.file_name.removeprefix(root).removesuffix(".py").replace("/", ".")
    return f"{module}.{name}"
