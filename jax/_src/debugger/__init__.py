"""The debugger for compiled programs: `jax.debug.breakpoint`."""

from jax._src.debugger.breakpoints import (
    Debugger as Debugger,
    breakpoint as breakpoint,
    get_debugger as get_debugger,
    register_debugger as register_debugger,
)
from jax._src.debugger.frames import DebuggerFrame as DebuggerFrame
