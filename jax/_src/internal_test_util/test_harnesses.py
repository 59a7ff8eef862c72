"""Harnesses: a function with descriptions of its arguments, which tests of other compilers share.

`all_harnesses` is the table of them, for each primitive. It is made when it is first asked for, for the types that the
device and the mode of 64-bit types support then. What only the original's own loops need is not here: its functions
`_make_…_harness`, and the variables that the loops leave in its module (`axis`, `shape`, `operand`, …).
"""

from collections.abc import Sequence

from jax._src import test_util as jtu
from jax._src.internal_test_util.harness_tables.harness import (
    ArgDescriptor as ArgDescriptor,
    CustomArg as CustomArg,
    DType as DType,
    Harness as Harness,
    Limitation as Limitation,
    RandArg as RandArg,
    Rng as Rng,
    StaticArg as StaticArg,
    all_types as all_types,
    dtypes_to_str as dtypes_to_str,
    key_types as key_types,
    parameterized as parameterized,
    preferred_type_combinations as preferred_type_combinations,
    requires_xla_for_reduce as requires_xla_for_reduce,
    wrap_and_split as wrap_and_split,
)
from jax._src.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__, {"jax._src.internal_test_util.harness_tables.table": ("all_harnesses",)}
)


def define(
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
    """Append a harness to `all_harnesses`; arguments as for `Harness`, or a primitive as group."""
    __getattr__("all_harnesses").append(
        Harness(
            str(group_name),
            name,
            fun,
            arg_descriptors,
            dtype=dtype,
            rng_factory=rng_factory,
            jax_unimplemented=jax_unimplemented,
            **params,
        )
    )
