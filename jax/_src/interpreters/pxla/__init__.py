"""From a jaxpr to a program on devices.

computation = lower(closed_jaxpr, args=..., in_shardings=..., ...)   # MeshComputation: StableHLO
executable = computation.compile(options)                            # MeshExecutable
outs = executable.call(*args)            # checks types and placement; `unsafe_call` does not
data = fastpath_data(executable, outs, out_tree, args)    # lets the native cache call it
"""

from jax._src.interpreters.pxla.executable import (
    ExecuteReplicated,
    MeshExecutable,
    MeshExecutableFastpathData,
    ProgramInfo,
    check_arg_avals_for_call,
    check_placement,
    compile_lowered,
    fastpath_data,
)
from jax._src.interpreters.pxla.lowering import MeshComputation, lower, prune_unused
from jax._src.interpreters.pxla.placement import (
    Placement,
    arg_sharding,
    find_placement,
    jaxpr_shardings,
    placement_key,
    resolve_in_layouts,
    resolve_in_shardings,
)
from jax._src.interpreters.pxla.transfers import (
    array_layer,
    global_aval_to_result_handler,
    global_result_handlers,
    shard_arg_fallback,
    shard_arg_handlers,
    shard_args,
)
from jax._src.lib import _jax
from jax._src.named_sharding import UNSPECIFIED, UnspecifiedValue

batched_device_put = _jax.batched_device_put
