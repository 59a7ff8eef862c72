"""Effects inside kernels."""

from __future__ import annotations

from jax._src.core.effects import (
    Effect,
    control_flow_allowed_effects,
    custom_derivatives_allowed_effects,
)


class KernelEffect(Effect):
    """An operation of a kernel that changes something other than its references, such as a wait.

    The application of the kernel does not have the effect.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "KernelEffect()"


class LaunchEffect(KernelEffect):
    """An operation that finds positions in the whole grid of a launch, which `vmap` cannot extend."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "LaunchEffect()"


kernel_effect = KernelEffect()
launch_effect = LaunchEffect()
for _allowed in (control_flow_allowed_effects, custom_derivatives_allowed_effects):
    _allowed.add_type(KernelEffect)
    _allowed.add_type(LaunchEffect)
