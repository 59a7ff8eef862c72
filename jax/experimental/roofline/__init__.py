"""Estimates of what functions cost, without compiling them."""

# The function of this name, not the module, is the attribute of the package: import that first.
from jax.experimental.roofline.roofline import (
    RooflineResult as RooflineResult,
    RooflineRuleContext as RooflineRuleContext,
    RooflineShape as RooflineShape,
    register_roofline as register_roofline,
    register_standard_roofline as register_standard_roofline,
    roofline as roofline,
    roofline_and_grad as roofline_and_grad,
)
