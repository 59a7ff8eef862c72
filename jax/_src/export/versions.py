"""The calling conventions of exported modules, and the version of StableHLO they are stored in.

Since version 9, `main` takes a platform index if there are several platforms, then a token for each
ordered effect, then the arguments that are used; it returns the tokens, then the results. Version 10
stores shardings in Shardy's form.
"""

from __future__ import annotations

from jax._src import config
from jax._src.lib.mlir.dialects import hlo

minimum_supported_calling_convention_version = 9
maximum_supported_calling_convention_version = 10


def requested_calling_convention() -> int:
    """The version of the option `jax_export_calling_convention_version`, if it is supported."""
    version = config.export_calling_convention_version.value
    if not _is_supported(version):
        raise ValueError(
            f"The requested export calling convention version {version} is outside the range of "
            f"supported versions {_RANGE}: set jax_export_calling_convention_version."
        )
    return version


def check_calling_convention(version: int, fun_name: str) -> int:
    """Raises ValueError if programs with this calling convention cannot be called; else returns it."""
    if not _is_supported(version):
        raise ValueError(
            f"'{fun_name}' was exported with the calling convention version {version}, outside the "
            f"range of supported versions {_RANGE}: export it again."
        )
    return version


_RANGE = (
    f"[{minimum_supported_calling_convention_version}"
    f"..{maximum_supported_calling_convention_version}]"
)


def _is_supported(version: int) -> bool:
    low = minimum_supported_calling_convention_version
    return low <= version <= maximum_supported_calling_convention_version


def stablehlo_version() -> str:
    """The StableHLO version of new exports: one that consumers of three weeks ago understand."""
    if config.export_ignore_forward_compatibility.value:
        return hlo.get_current_version()
    return hlo.get_version_from_compatibility_requirement(
        hlo.StablehloCompatibilityRequirement.WEEK_4
    )
