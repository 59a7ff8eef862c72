"""What may be exported, and with which arguments an exported program may be called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jax._src.lib.mlir import ir
from jax._src.tree_util import (
    PyTreeDef,
    equality_errors_pytreedef,
    keystr,
    tree_flatten_with_path,
    tree_unflatten,
    treedef_children,
)

_CUSTOM_CALL = "custom_call:"
_PLATFORM = "platform"
_SHAPE_ASSERTIONS = "shape_assertions"


class DisabledSafetyCheck:
    """A safety check of exported programs that is skipped.

    Make one with `DisabledSafetyCheck.platform` or `DisabledSafetyCheck.custom_call`.

    >>> from jax import export
    >>> export.DisabledSafetyCheck.custom_call("my_target")
    custom_call:my_target
    """

    def __init__(self, _impl: str):
        self._impl = _impl

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Allows calls on platforms that the program was not exported for."""
        return cls(_PLATFORM)

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Allows the export of programs that call a native function without a stability promise.

        Args:
          target_name: the name under which the function is registered.
        """
        return cls(_CUSTOM_CALL + target_name)

    @classmethod
    def _shape_assertions(cls) -> DisabledSafetyCheck:
        return cls(_SHAPE_ASSERTIONS)  # in files of earlier versions; it has no effect

    def is_custom_call(self) -> str | None:
        """The target that the check of custom calls lets pass, or None."""
        if self._impl.startswith(_CUSTOM_CALL):
            return self._impl[len(_CUSTOM_CALL) :]
        return None

    def __str__(self) -> str:
        return self._impl

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DisabledSafetyCheck) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash(self._impl)


def ignores_platform(checks: Sequence[DisabledSafetyCheck]) -> bool:
    """Whether calls on other platforms are allowed."""
    return DisabledSafetyCheck.platform() in checks


# Native functions whose names and arguments stay: programs that call them can be run by later
# versions of jaxlib.
_LAPACK = "|".join(
    (
        "[sdcz](getrf|potrf|gesdd|geqrf|geev|gees|gehrd|gtsv|trsm)", "[sd](syevd|orgqr|sytrd)",
        "[cz](heevd|ungqr|hetrd)",
    )
)  # fmt: skip
_SOLVERS = "geqrf|getrf|gesvd|gesvdj|orgqr|potrf|syevd|sytrd"
_STABLE_TARGETS = re.compile(
    "|".join(
        (
            # placement
            "Sharding|SPMDFullToShardShape|SPMDShardToFullShape|annotate_device_placement",
            # the CPU
            f"lapack_({_LAPACK})_ffi",
            # GPUs
            f"cusolver_({_SOLVERS})_ffi|hipsolver_({_SOLVERS})_ffi|cusparse_gtsv2_ffi",
            "(cu|hip)_threefry2x32_ffi|(cu|hip)_lu_pivots_to_permutation|mosaic_gpu_v2",
            # TPUs
            "Qr|ProductOfElementaryHouseholderReflectors|Eigh|LuDecomposition|tpu_custom_call",
            # the compiler
            "ApproxTopK|AllocateBuffer|shape_assertion|tf\\.call_tf_function",
            "stablehlo\\.dynamic_(reduce_window|rng_bit_generator|top_k|approx_top_k)",
        )
    )
)
_MAX_SHOWN = 5


def custom_calls(module: Any, artifact: bytes) -> list[tuple[str, Any]]:
    """The native functions that a module calls, and the locations of the calls.

    Args:
      module: the `ir.Module`.
      artifact: its bytes.
    """
    found: list[tuple[str, Any]] = []
    if b"custom_call_v" not in artifact:  # most have none, and a walk takes time
        return found

    def visit(op: Any) -> Any:
        if op.name == "stablehlo.custom_call":
            found.append((ir.StringAttr(op.attributes["call_target_name"]).value, op.location))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def check_custom_calls(
    module: Any, artifact: bytes, disabled: Sequence[DisabledSafetyCheck]
) -> None:
    """Raises ValueError if a module calls native functions that later versions may not have.

    Args:
      module, artifact: the `ir.Module`, and its bytes.
      disabled: the checks that are skipped.
    """
    allowed = {c.is_custom_call() for c in disabled}
    refused = [
        f"{target}, at {location}"
        for target, location in custom_calls(module, artifact)
        if target not in allowed and not _STABLE_TARGETS.fullmatch(target)
    ]
    if refused:
        shown = "\n  ".join(refused[:_MAX_SHOWN])
        more = f"\n  and {len(refused) - _MAX_SHOWN} more" if len(refused) > _MAX_SHOWN else ""
        raise ValueError(
            "Cannot serialize code with custom calls whose targets have no compatibility guarantees:"
            " a later version might not have the native function, or with other arguments.\n"
            f"  {shown}{more}\nTo export it all the same, pass to jax.export.export: disabled_checks="
            "[jax.export.DisabledSafetyCheck.custom_call(name), ...]."
        )


def check_tree(fun_name: str, exported: PyTreeDef, called: PyTreeDef) -> None:
    """Raises ValueError if the arguments' tree differs from the one the program was exported for."""
    if exported == called:
        return
    lines = [
        f"   - {name}{keystr(path)} is {now} in the invocation and {was} when exported, so {why}."
        for name, was_tree, now_tree in zip(
            ("args", "kwargs"), treedef_children(exported), treedef_children(called)
        )
        for path, was, now, why in equality_errors_pytreedef(was_tree, now_tree)
    ]
    raise ValueError(
        "The invocation args and kwargs must have the same pytree structure as when the function "
        f"'{fun_name}' was exported, but they have the following structural differences:\n"
        + "\n".join(lines)
    )


def argument_path(in_tree: PyTreeDef, index: int) -> str:
    """The path of a flat argument, such as `args[0]['x']`."""
    return argument_paths(in_tree)[index]


def argument_paths(in_tree: PyTreeDef) -> list[str]:
    """The paths of all flat arguments."""
    tree = tree_unflatten(in_tree, list(range(in_tree.num_leaves)))
    paths = [path for path, _ in tree_flatten_with_path(tree)[0]]
    return [("args" if p[0].idx == 0 else "kwargs") + keystr(p[1:]) for p in paths]
