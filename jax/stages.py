"""The stages of a jitted function: `Wrapped`, `Traced`, `Lowered`, `Compiled`."""

from jax._src.stages import (
    ArgInfo as ArgInfo,
    Compiled as Compiled,
    CompilerOptions as CompilerOptions,
    Lowered as Lowered,
    Traced as Traced,
    Wrapped as Wrapped,
)
