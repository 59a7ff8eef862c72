"""Effects, under the module name that libraries import."""

from jax._src.core.effects import (
    Effect,
    Effects,
    EffectTypeSet,
    JaxprInputEffect,
    NamedAxisEffect,
    allow_everywhere,
    control_flow_allowed_effects,
    custom_derivatives_allowed_effects,
    exact_effects,
    lowerable_effects,
    no_effects,
    ordered_effects,
    partial_eval_kept_effects,
    remat_allowed_effects,
    shardable_ordered_effects,
)
