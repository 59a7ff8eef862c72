"""The option by which tables of cases compile large programs in half the time, where XLA has it.

Apart from other modules, as the stored results of these tables depend on it (see oracle_results.py).
"""

from jaxlib import _jax

_EMITTERS = "xla_cpu_use_fusion_emitters"


def _has_emitters() -> bool:
    """Whether XLA has an older generator of code for CPUs besides that of the fusion emitters."""
    options = _jax.CompileOptions()  # has to live as long as its parts are used
    build = options.executable_build_options
    return f"{_EMITTERS}: " in str(build.debug_options)


QUICKLY = {_EMITTERS: False} if _has_emitters() else {}
