"""Where the C++ headers of onnxruntime are, which its wheel lacks."""

import os
from pathlib import Path


def headers() -> Path | None:
    """The folder of the headers, as ci/onnxruntime_headers.sh prints it; None if there is none."""
    cache = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
    unpacked = Path(cache) / "jax-build" / "onnxruntime-headers"
    places = [
        Path("/usr/include/onnxruntime"),
        Path(os.environ.get("JAX_ONNXRUNTIME_HEADERS", unpacked)),
    ]
    return next((p for p in places if (p / "onnxruntime_cxx_api.h").exists()), None)
