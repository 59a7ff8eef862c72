"""The version of this package and the minimum version of jaxlib."""

__version__ = "0.10.2"
_minimum_jaxlib_version = "0.10.2"


def _version_as_tuple(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3])


__version_info__ = _version_as_tuple(__version__)
_minimum_jaxlib_version_info = _version_as_tuple(_minimum_jaxlib_version)
_version = _release_version = __version__


# Names that outside code imports


def _get_version_string() -> str:
    return __version__


def _get_version_for_build() -> str:
    return __version__
