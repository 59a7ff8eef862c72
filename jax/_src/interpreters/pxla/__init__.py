"""Compiling a jaxpr to a program for devices, and calling it.

computation = lower(closed_jaxpr, Request(name, args, in_shardings, ...))   # MeshComputation: StableHLO
executable = computation.compile(options)                            # MeshExecutable
outs = executable.call(*args)            # checks types and placement; `unsafe_call` does not
data = fastpath_data(executable, outs, out_tree, args)    # for calls through the native cache
"""

from typing import TYPE_CHECKING

from jax._src.interpreters.pxla.transfers import (
    global_aval_to_result_handler as global_aval_to_result_handler,
    global_result_handlers as global_result_handlers,
    shard_arg_fallback as shard_arg_fallback,
    shard_arg_handlers as shard_arg_handlers,
    shard_args as shard_args,
)
from jax._src.lazy_names import lazy_names
from jax._src.lib import _jax as _jax
from jax._src.named_sharding import UNSPECIFIED as UNSPECIFIED, UnspecifiedValue as UnspecifiedValue

if TYPE_CHECKING:
    from jax._src.interpreters.pxla._compat import (
        Mesh as Mesh,
        ResultsHandler as ResultsHandler,
        cc_shard_arg as cc_shard_arg,
        clear_in_memory_compilation_cache as clear_in_memory_compilation_cache,
        global_avals_to_results_handler as global_avals_to_results_handler,
        prune_unused_inputs as prune_unused_inputs,
    )
    from jax._src.interpreters.pxla.executable import (
        ExecuteReplicated as ExecuteReplicated,
        MeshExecutable as MeshExecutable,
        MeshExecutableFastpathData as MeshExecutableFastpathData,
        ProgramInfo as ProgramInfo,
        check_arg_avals_for_call as check_arg_avals_for_call,
        check_placement as check_placement,
        compile_lowered as compile_lowered,
        create_compile_options as create_compile_options,
        fastpath_data as fastpath_data,
        raise_no_execution as raise_no_execution,
    )
    from jax._src.interpreters.pxla.lowering import (
        MeshComputation as MeshComputation,
        Request as Request,
        lower as lower,
        prune_unused as prune_unused,
    )
    from jax._src.interpreters.pxla.placement import (
        Placement as Placement,
        arg_sharding as arg_sharding,
        check_divisible as check_divisible,
        find_placement as find_placement,
        jaxpr_shardings as jaxpr_shardings,
        placement_key as placement_key,
        resolve_in_layouts as resolve_in_layouts,
        resolve_in_shardings as resolve_in_shardings,
    )

batched_device_put = _jax.batched_device_put

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax._src.interpreters.pxla._compat": (
            "Mesh", "ResultsHandler", "cc_shard_arg", "clear_in_memory_compilation_cache",
            "global_avals_to_results_handler", "prune_unused_inputs",
        ),
        "jax._src.interpreters.pxla.executable": (
            "ExecuteReplicated", "MeshExecutable", "MeshExecutableFastpathData",
            "ProgramInfo", "check_arg_avals_for_call", "check_placement", "compile_lowered",
            "create_compile_options", "fastpath_data", "raise_no_execution",
        ),
        "jax._src.interpreters.pxla.lowering": (
            "MeshComputation", "Request", "lower", "prune_unused",
        ),
        "jax._src.interpreters.pxla.placement": (
            "Placement", "arg_sharding", "check_divisible", "find_placement", "jaxpr_shardings",
            "placement_key", "resolve_in_layouts", "resolve_in_shardings",
        ),
    },
)  # fmt: skip
