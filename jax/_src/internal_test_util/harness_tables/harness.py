"""What harnesses are made of: a function with descriptions of its arguments, which tests of other compilers share."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl.testing import parameterized as absl_parameterized

from jax import random
from jax._src import dtypes, test_util as jtu

Rng = Any  # a random generator of NumPy
DType = Any


class RandArg(NamedTuple):
    """An argument of random numbers, by its shape and dtype."""

    shape: tuple[int, ...]
    dtype: DType


class CustomArg(NamedTuple):
    """An argument that a function makes with a random generator."""

    make: Callable[[Rng], Any]


class StaticArg(NamedTuple):
    """An argument that is not an array, and the same in every test."""

    value: Any


class Limitation:
    """Where a harness does not work.

    Args:
      description: what does not work.
      enabled: whether the limitation applies at all.
      devices: the kinds of devices that it applies to.
      dtypes: the dtypes that it applies to; none stands for all.
      skip_run: whether the harness must not even be tried.
    """

    def __init__(
        self,
        description: str,
        *,
        enabled: bool = True,
        devices: str | Sequence[str] = ("cpu", "gpu", "tpu"),
        dtypes: Sequence[DType] = (),
        skip_run: bool = False,
    ):
        self.description = description
        self.enabled = enabled
        self.devices = (devices,) if isinstance(devices, str) else tuple(devices)
        self.dtypes = tuple(dtypes)
        self.skip_run = skip_run

    def __str__(self) -> str:
        names = [np.dtype(d).name for d in self.dtypes]
        return f'"{self.description}" devices={self.devices} dtypes={names}'

    __repr__ = __str__

    def filter(self, device: str | None = None, dtype: DType | None = None) -> bool:
        """Whether the limitation applies to a device and a dtype; None stands for any."""
        return (
            self.enabled
            and (device is None or device in self.devices)
            and (dtype is None or not self.dtypes or dtype in self.dtypes)
        )


class Harness:
    """A function, with descriptions of arguments to test it with.

    Args:
      group_name: the name of a group, such as that of a primitive.
      name: the name in the group.
      fun: the function.
      arg_descriptors: for each argument a value, or a `RandArg`, `CustomArg` or `StaticArg`.
      dtype: the dtype that the harness is about.
      rng_factory: makes the random numbers of `RandArg`, like `jtu.rand_default`.
      jax_unimplemented: where JAX itself does not implement the function.
      params: what else tests may want to know about the harness.
    """

    def __init__(
        self,
        group_name,
        name,
        fun,
        arg_descriptors,
        *,
        dtype,
        rng_factory=jtu.rand_default,
        jax_unimplemented: Sequence[Limitation] = (),
        **params,
    ):
        self.group_name = jtu.sanitize_test_name(group_name)
        self.name = jtu.sanitize_test_name(name)
        self.fullname = f"{self.group_name}_{self.name}"
        self.fun = fun
        self.arg_descriptors = arg_descriptors
        self.dtype = dtype
        self.rng_factory = rng_factory
        self.jax_unimplemented = jax_unimplemented
        self.params = params

    def __str__(self) -> str:
        return self.fullname

    def _arg_maker(self, arg_descriptor, rng: Rng):
        if isinstance(arg_descriptor, StaticArg):
            return arg_descriptor.value
        if isinstance(arg_descriptor, CustomArg):
            return arg_descriptor.make(rng)
        if isinstance(arg_descriptor, RandArg):
            return self.rng_factory(rng)(arg_descriptor.shape, arg_descriptor.dtype)
        return arg_descriptor

    def args_maker(self, rng: Rng) -> Sequence:
        """All arguments."""
        return [self._arg_maker(d, rng) for d in self.arg_descriptors]

    def dyn_args_maker(self, rng: Rng) -> Sequence:
        """The arguments that are not static."""
        return [
            self._arg_maker(d, rng) for d in self.arg_descriptors if not isinstance(d, StaticArg)
        ]

    def dyn_fun(self, *dyn_args):
        """The function of the arguments that are not static."""
        return self.fun(*self._args_from_dynargs(dyn_args))

    def _args_from_dynargs(self, dyn_args: Sequence) -> Sequence:
        number = sum(not isinstance(d, StaticArg) for d in self.arg_descriptors)
        if len(dyn_args) != number:
            raise ValueError(
                f"{self} has {number} arguments that are not static, got {len(dyn_args)}"
            )
        given = iter(dyn_args)
        return [d.value if isinstance(d, StaticArg) else next(given) for d in self.arg_descriptors]

    def filter(
        self,
        device_under_test: str,
        *,
        include_jax_unimpl: bool = False,
        one_containing: str | None = None,
    ) -> bool:
        """Whether to test the harness on a device.

        Args:
          device_under_test: the kind of device.
          include_jax_unimpl: whether to test what JAX does not implement there.
          one_containing: test harnesses whose name contains this only.
        """
        unimplemented = any(
            limit.filter(device=device_under_test, dtype=self.dtype)
            for limit in self.jax_unimplemented
        )
        if unimplemented and not include_jax_unimpl:
            return False
        return one_containing is None or one_containing in self.fullname


# Types of the arguments of harnesses that are chosen by type.
all_types = [
    *jtu.dtypes.all_integer, *jtu.dtypes.all_unsigned, *jtu.dtypes.all_floating, *jtu.dtypes.complex,
]  # fmt: skip
key_types = [((4,), np.uint32)]  # shapes and types of raw keys


def _wider(*types: DType) -> list[tuple[DType, DType]]:
    return [(t, u) for i, t in enumerate(types) for u in types[i:]]


# Types of operands of products, and types to accumulate in that can hold the results.
preferred_type_combinations = [
    *_wider(np.float16, np.float32, np.float64)[:3],
    *_wider(dtypes.bfloat16, np.float32, np.float64),
    *_wider(np.int8, np.int16, np.int32, np.int64),
    *_wider(np.complex64, np.complex128),
    *[
        (t, u)
        for t in (np.int8, np.int16)
        for u in (np.float16, dtypes.bfloat16, np.float32, np.float64)
    ],
    *[(np.int32, u) for u in (np.float32, np.float64)],
    (np.int64, np.float64),
]


# The reductions that TensorFlow has for a type, which need no XLA there.
_FLOATS = (dtypes.bfloat16, np.float16, np.float32, np.float64)
_TENSORFLOW_REDUCES = {
    "add": _FLOATS,
    "min": (*_FLOATS, np.int8, np.int16, np.int32, np.int64),
    "max": (*_FLOATS, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16),
}


def requires_xla_for_reduce(name: str, dtype: DType) -> bool:
    """Whether a converter to TensorFlow needs XLA for a windowed reduction.

    Args:
      name: "add", "min", "max" or another operation.
      dtype: the type of the operand.
    """
    return dtype not in _TENSORFLOW_REDUCES.get(name, ())


def wrap_and_split():
    """A key that is wrapped and split: the two raw keys."""
    return random.key_data(random.split(random.key(42)))


_SIGNED = [np.int8, np.int16, np.int32, np.int64]
_UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]

ArgDescriptor = RandArg | StaticArg | CustomArg | Any


def parameterized(
    harnesses: Iterable[Harness],
    *,
    one_containing: str | None = None,
    include_jax_unimpl: bool = False,
):
    """Decorator: run a test, with an argument `harness`, on harnesses for the device under test.

    Args:
      harnesses: the harnesses.
      one_containing: run the first whose name contains this only, under the test's own name; by
        default the variable JAX_TEST_HARNESS_ONE_CONTAINING.
      include_jax_unimpl: whether to run what JAX does not implement.

    Raises:
      ValueError: no harness is left.
    """
    one_containing = one_containing or os.environ.get("JAX_TEST_HARNESS_ONE_CONTAINING") or None
    device = jtu.device_under_test()
    kept = [
        h
        for h in harnesses
        if h.filter(device, include_jax_unimpl=include_jax_unimpl, one_containing=one_containing)
    ]
    if not kept:
        raise ValueError(f"there are no harnesses for {device}, {one_containing=}")
    if one_containing is not None:
        return absl_parameterized.named_parameters({"testcase_name": "", "harness": kept[0]})
    cases = [{"testcase_name": f"_{h.fullname}", "harness": h} for h in kept]
    return absl_parameterized.named_parameters(*cases)


def dtypes_to_str(dtype_list: Sequence[DType], empty_means_all=False) -> str:
    """The names of dtypes for readers, with one name for all of a kind.

    Args:
      dtype_list: the dtypes.
      empty_means_all: whether none stands for all.
    """
    if not dtype_list:
        return "all" if empty_means_all else ""
    left = {np.dtype(d) for d in dtype_list}
    kinds = {
        "floating": [dtypes.bfloat16, np.float16, np.float32, np.float64],
        "complex": [np.complex64, np.complex128],
        "integer": _SIGNED + _UNSIGNED,
        "signed": _SIGNED,
        "unsigned": _UNSIGNED,
    }
    names = []
    for kind, of_kind in kinds.items():
        whole = {np.dtype(d) for d in of_kind}
        if whole <= left:
            names.append(kind)
            left -= whole
    return ", ".join(sorted([*names, *(d.name for d in left)]))
