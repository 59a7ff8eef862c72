"""Rules of what a thread asks of the GPU."""

from __future__ import annotations

from typing import Any

from jax._src.lib.mlir.dialects import nvvm
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.lowering.kernel import rule
from jax._src.pallas.mosaic_gpu.lowering.memory import resolved
from jax._src.pallas.mosaic_gpu.memory_operations import (
    griddepcontrol_launch_dependents_p,
    griddepcontrol_wait_p,
    print_layout_p,
    set_max_registers_p,
)
from jax._src.pallas.mosaic_gpu.operations import operands_of


@rule(set_max_registers_p)
def _set_max_registers(ctx: RuleContext, *flat: Any, tree: Any, n: int, action: str) -> Any:
    nvvm.setmaxregister(n, nvvm.SetMaxRegisterAction[action])
    return []


@rule(griddepcontrol_wait_p)
def _wait_for_others(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    nvvm.griddepcontrol(nvvm.GridDepActionKind.wait)
    return []


@rule(griddepcontrol_launch_dependents_p)
def _launch_dependents(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    nvvm.griddepcontrol(nvvm.GridDepActionKind.launch_dependents)
    return []


@rule(print_layout_p)
def _print_layout(ctx: RuleContext, *flat: Any, tree: Any, fmt: str) -> Any:
    (x,) = operands_of(tree, flat)
    if hasattr(x, "ref"):
        x = resolved(x)
    print(fmt.format(getattr(x, "layout", x)))
    return []
