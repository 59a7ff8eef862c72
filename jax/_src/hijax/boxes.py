"""Mutable values: `Box` holds a pytree of arrays, `Log` collects arrays under names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jax._src import ad_util
from jax._src.ad_util import Zero
from jax._src.core import AvalQDD, QuasiDynamicData, Tracer, aval_method, cur_qdd, typeof
from jax._src.core.effects import (
    Effect,
    control_flow_allowed_effects,
    custom_derivatives_allowed_effects,
    remat_allowed_effects,
)
from jax._src.hijax.primitives import HiPrimitive
from jax._src.hijax.types import MutableHiType, register_hitype
from jax._src.interpreters import ad
from jax._src.tree_util import tree_flatten, tree_unflatten
from jax._src.tree_util.flat_tree import FlatTree


class BoxEffect(Effect):
    """A mutable value is changed or read."""

    __slots__ = ()


box_effect = log_effect = BoxEffect()
for _allowed in (
    control_flow_allowed_effects,
    custom_derivatives_allowed_effects,
    remat_allowed_effects,
):
    _allowed.add_type(BoxEffect)


@dataclass(frozen=True)
class BoxTypeState(QuasiDynamicData):
    """What is known of a box: the structure of the pytree in it, and the types of its leaves."""

    leaf_avals: tuple[Any, ...]
    treedef: Any

    def to_tangent_qdd(self) -> BoxTypeState:
        return BoxTypeState(tuple([a.to_tangent_aval() for a in self.leaf_avals]), self.treedef)

    def normalize(self) -> BoxTypeState:
        return BoxTypeState(tuple([a.normalize() for a in self.leaf_avals]), self.treedef)


class BoxTy(MutableHiType):
    """The type of boxes."""

    get = aval_method(lambda box: box_get(box))
    set = aval_method(lambda box, val: box_set(box, val))

    def __hash__(self) -> int:
        return hash(BoxTy)

    def __eq__(self, other: object) -> bool:
        return type(other) is BoxTy

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return "BoxTy"

    def lo_ty_qdd(self, box_state: Any) -> list[Any]:
        return [lo for a in box_state.leaf_avals for lo in a.lo_ty()]

    def new_from_loval(self, box_state: Any, /, *lo_vals: Any) -> Box:
        box = Box._new()
        self.update_from_loval(box_state, box, *lo_vals)
        return box

    def read_loval(self, box_state: Any, box: Any, /) -> list[Any]:
        leaves = tree_flatten(box._val)[0]
        return [lo for a, x in zip(box_state.leaf_avals, leaves) for lo in a.lower_val(x)]

    def update_from_loval(self, box_state: Any, box: Any, /, *lo_vals: Any) -> None:
        it = iter(lo_vals)
        leaves = [a.raise_val(*[next(it) for _ in a.lo_ty()]) for a in box_state.leaf_avals]
        box._val = tree_unflatten(box_state.treedef, leaves)

    def to_tangent_aval(self) -> BoxTy:
        return BoxTy()


class _MutableMeta(type):
    """Lets `isinstance` hold for tracers of the values of a class."""

    _aval_type: type

    def __instancecheck__(cls, instance: object) -> bool:
        return type.__instancecheck__(cls, instance) or (
            isinstance(instance, Tracer) and type(instance.aval) is cls._aval_type
        )


class Box(metaclass=_MutableMeta):
    """A mutable value that holds a pytree of arrays, of any types.

    Functions that are transformed can take boxes as arguments, close over them, and make new ones. A
    tangent cannot be put into a box.

    Args:
      init_val: what it holds at first; by default nothing (None).

    >>> from jax._src.hijax import Box
    >>> box = Box(1.)
    >>> @jax.jit
    ... def add(x):
    ...   box.set(box.get() + x)
    >>> add(2.)
    >>> print(box.get())
    3.0
    """

    _aval_type = BoxTy
    _val: Any

    def __new__(cls, init_val: Any = None) -> Any:
        box = new_box()
        if init_val is not None:
            box_set(box, init_val)
        return box

    @classmethod
    def _new(cls) -> Box:
        box = object.__new__(cls)
        box._val = None
        return box

    def get(self) -> Any:
        """What the box holds."""
        return box_get(self)

    def set(self, val: Any) -> None:
        """Put a pytree of arrays into the box, instead of what it holds."""
        box_set(self, val)

    def cur_qdd(self) -> BoxTypeState:
        """The structure of the pytree that the box holds, and the types of its leaves."""
        leaves, tree = tree_flatten(self._val)
        return BoxTypeState(tuple(map(typeof, leaves)), tree)

    type_state = cur_qdd

    @property
    def ty(self) -> BoxTy:
        """The type of the box."""
        return BoxTy()


register_hitype(Box, lambda box: BoxTy())


def _check_no_tangents(operation: str, tangents: Sequence[Any]) -> None:
    if any(type(t) is not Zero for t in tangents):
        raise TypeError(
            f"can't differentiate the operation {operation}: apply jax.lax.stop_gradient to what it"
            " stores, or return it from the function (has_aux)."
        )


class NewBox(HiPrimitive):
    """Makes an empty box."""

    def abstract_eval(self, *avals: Any, treedef: Any) -> Any:
        return AvalQDD(BoxTy(), BoxTypeState((), treedef)), {box_effect}

    def to_lojax(self, *args: Any, treedef: Any) -> Any:
        return Box._new()

    def jvp(self, primals: Any, tangents: Any, *, treedef: Any) -> Any:
        box = new_box_p.bind(treedef=treedef)
        return box, ad.zero_of(box)


class BoxGet(HiPrimitive):
    """Reads a box; `avals` are the types of the leaves in it."""

    multiple_results = True

    def is_effectful(self, params: Any) -> bool:
        return True

    def abstract_eval(self, box_ty: Any, *, avals: Any) -> Any:
        return list(avals), {box_effect}

    def to_lojax(self, box: Any, *, avals: Any) -> Any:
        return tree_flatten(box._val)[0]

    def jvp(self, primals: Any, tangents: Any, *, avals: Any) -> Any:
        outs = box_get_p.bind(*primals, avals=avals)
        return outs, [ad.zero_of(x) for x in outs]


class BoxSet(HiPrimitive):
    """Puts leaves into a box."""

    multiple_results = True

    def is_effectful(self, params: Any) -> bool:
        return True

    def abstract_eval(self, box_ty: Any, *leaf_avals: Any, treedef: Any) -> Any:
        box_ty.mutable_qdd.update(BoxTypeState(tuple(leaf_avals), treedef))
        return [], {box_effect}

    def to_lojax(self, box: Any, *leaves: Any, treedef: Any) -> Any:
        box._val = tree_unflatten(treedef, leaves)
        return []

    def jvp(self, primals: Any, tangents: Any, *, treedef: Any) -> Any:
        _check_no_tangents("Box.set", tangents)
        return box_set_p.bind(*primals, treedef=treedef), []


new_box_p = NewBox("new_box")
box_get_p = BoxGet("box_get")
box_set_p = BoxSet("box_set")
# A transformation sees every application: what is put into a box may have a tangent.
for _p in (new_box_p, box_get_p, box_set_p):
    _p.ref_primitive = True


def new_box() -> Any:
    """A box that holds nothing (None)."""
    return new_box_p.bind(treedef=tree_flatten(None)[1])


def box_get(box: Any) -> Any:
    """What a box holds."""
    state = cur_qdd(box)
    return tree_unflatten(state.treedef, box_get_p.bind(box, avals=tuple(state.leaf_avals)))


def box_set(box: Any, val: Any) -> None:
    """Put a pytree of arrays into a box."""
    leaves, tree = tree_flatten(val)
    box_set_p.bind(box, *leaves, treedef=tree)


# Logs


class LogTy(MutableHiType):
    """The type of logs: they are only written to, so that a function is not given what they hold."""

    is_writer = True

    append = aval_method(lambda log, key, val: log_append(log, key, val))
    extend = aval_method(lambda log, dct: log_extend(log, dct))
    read = aval_method(lambda log: log_read(log))

    def __hash__(self) -> int:
        return hash(LogTy)

    def __eq__(self, other: object) -> bool:
        return type(other) is LogTy

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return "Log"

    def to_tangent_aval(self) -> LogTy:
        return LogTy()

    def lo_ty_qdd(self, state: Any, /) -> list[Any]:
        return []

    def read_loval_in(self, state: Any, log: Any, /) -> list[Any]:
        return []

    def read_loval_out(self, state: Any, log: Any, /) -> FlatTree:
        return FlatTree.flatten(log._dct)

    def new_from_loval(self, state: Any, /, *vals: Any) -> Log:
        return Log._new()

    def update_from_loval2(self, state: Any, log: Any, lo_vals_ft: FlatTree, /) -> None:
        log_extend(log, lo_vals_ft.unflatten())


class Log(metaclass=_MutableMeta):
    """A mutable value that collects arrays under names.

    Functions that are transformed write to it by closing over it or as an argument. What the steps of
    a `scan` write is stacked.

    >>> from jax._src.hijax import Log
    >>> log = Log()
    >>> @jax.jit
    ... def double(x):
    ...   log.append("x", x)
    ...   return 2 * x
    >>> _ = double(3.)
    >>> print(log.read()[0])
    3.0
    """

    _aval_type = LogTy
    _dct: dict[Any, list[Any]]

    def __new__(cls) -> Any:
        return new_log()

    @classmethod
    def _new(cls) -> Log:
        log = object.__new__(cls)
        log._dct = {}
        return log

    def cur_qdd(self) -> Any:
        """Nothing is known of what a log holds."""
        return ()

    def append(log, key: Any, val: Any) -> None:
        """Add a pytree of arrays under a name."""
        log_append(log, key, val)

    def extend(log, dct: dict[Any, Sequence[Any]]) -> None:
        """Add, for each name, the pytrees of a list."""
        log_extend(log, dct)

    def read(log) -> list[Any]:
        """All arrays, by name and then in order."""
        return log_read(log)


register_hitype(Log, lambda log: LogTy())


class NewLog(HiPrimitive):
    """Makes an empty log."""

    def abstract_eval(self, *avals: Any) -> Any:
        return AvalQDD(LogTy(), ()), {log_effect}

    def to_lojax(self, *args: Any) -> Any:
        return Log._new()

    def jvp(self, primals: Any, tangents: Any) -> Any:
        log = new_log_p.bind()
        return log, ad.zero_of(log)


class LogExtend(HiPrimitive):
    """Adds the leaves of a dict of lists to a log."""

    multiple_results = True

    def is_effectful(self, params: Any) -> bool:
        return True

    def abstract_eval(self, log_ty: Any, *val_tys: Any, treedef: Any) -> Any:
        return [], {log_effect}

    def to_lojax(self, log: Any, *vals: Any, treedef: Any) -> Any:
        for key, values in tree_unflatten(treedef, vals).items():
            log._dct.setdefault(key, []).extend(values)
        return []

    def jvp(self, primals: Any, tangents: Any, *, treedef: Any) -> Any:
        _check_no_tangents("Log.append", tangents)
        return log_extend_p.bind(*primals, treedef=treedef), []


class ReadLog(HiPrimitive):
    """Reads a log that the same function has made."""

    multiple_results = True

    def abstract_eval(self, log_ty: Any) -> Any:
        raise TypeError("a log cannot be read in a traced function: read it outside")

    def to_lojax(self, log: Any) -> Any:
        return tree_flatten(log._dct)[0]


new_log_p = NewLog("new_log")
log_extend_p = LogExtend("log_extend")
log_read_p = ReadLog("log_read")
for _p in (new_log_p, log_extend_p):
    _p.ref_primitive = True


def new_log() -> Any:
    """An empty log."""
    return new_log_p.bind()


def log_append(log: Any, key: Any, val: Any) -> None:
    """Add a pytree of arrays to a log, under a name."""
    log_extend(log, {key: [val]})


def log_extend(log: Any, dct: Any) -> None:
    """Add to a log, for each name, the pytrees of a list."""
    leaves, tree = tree_flatten(dct)
    log_extend_p.bind(log, *leaves, treedef=tree)


def log_read(log: Any) -> list[Any]:
    """All arrays in a log, by name and then in order."""
    leaves: list[Any] = log_read_p.bind(log)
    return leaves


def _zero_of_mutable(aval: Any) -> Any:
    """What stands for the zero tangent of a mutable value, which has none."""
    return Box._new() if type(aval) is BoxTy else Log._new()


ad_util.aval_zeros_likers[BoxTy] = ad_util.aval_zeros_likers[LogTy] = _zero_of_mutable
