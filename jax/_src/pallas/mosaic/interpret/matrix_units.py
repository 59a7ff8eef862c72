"""The units for products where kernels for TPUs are interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.core import JaxprEqn
from jax._src.pallas.mosaic.interpret.machine import RULES as rule, Core, Machine, MatrixUnit
from jax._src.pallas.mosaic.matrix_units import (
    SUBLANES,
    matmul_acc_lhs_p,
    matmul_pop_p,
    matmul_push_rhs_p,
)
from jax._src.pallas.threaded.threads import Run


def _unit(core: Core, eqn: JaxprEqn) -> MatrixUnit:
    return core.matrix_units.setdefault(eqn.params["mxu_index"], MatrixUnit())


@rule(matmul_push_rhs_p)
def _push(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    register, staged = eqn.params["staging_register"], _unit(core, eqn).staged
    if register in staged:
        raise ValueError(
            f"matmul_push_rhs: the staging register {register} has an operand that was not loaded."
        )
    rhs = np.array(values[0])
    staged[register] = rhs.T if eqn.params["transpose"] else rhs
    return []


@rule(matmul_acc_lhs_p)
def _accumulate(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    unit, register = _unit(core, eqn), eqn.params["load_staged_rhs"]
    if register is not None:
        if register not in unit.staged:
            raise ValueError(f"matmul_acc_lhs: the staging register {register} is empty.")
        unit.rhs = unit.staged.pop(register)
    if unit.rhs is None:
        raise ValueError("matmul_acc_lhs: the unit has loaded no right operand.")
    lhs = np.asarray(values[0])
    wide = np.float32 if dtypes.issubdtype(lhs.dtype, np.floating) else np.int32
    product = lhs.astype(wide) @ unit.rhs.astype(wide)
    for i in range(0, len(product), SUBLANES):
        address = eqn.params["acc_addr"] + i // SUBLANES
        rows = product[i : i + SUBLANES]
        old = unit.accumulators.get(address)
        unit.accumulators[address] = rows if old is None else old + rows
    return []


@rule(matmul_pop_p)
def _pop(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    accumulators, (rows, columns) = _unit(core, eqn).accumulators, eqn.params["shape"]
    out = np.zeros((rows, columns), eqn.params["dtype"])
    for i in range(0, rows, SUBLANES):
        held = accumulators.pop(eqn.params["acc_addr"] + i // SUBLANES, None)
        if held is not None:
            out[i : i + SUBLANES] = held[:, :columns]
    return [out]
