"""The `tensorstore` package, which only checkpoints need, and the settings all of them share."""

try:
    import tensorstore as tensorstore
except ModuleNotFoundError as err:
    if err.name != "tensorstore":
        raise
    raise ModuleNotFoundError(
        "jax.experimental.array_serialization needs the package tensorstore:"
        " pip install tensorstore",
        name="tensorstore",
    ) from None

_CONCURRENCY = {
    "file_io_concurrency": {"limit": 128},
    "data_copy_concurrency": {"limit": 128},
}
_CACHE = {"total_bytes_limit": 10_000_000_000}

CONTEXT = tensorstore.Context(
    {**_CONCURRENCY, "cache_pool": _CACHE, "cache_pool#remote": _CACHE},
)
CHUNK_LAYOUT = tensorstore.ChunkLayout(
    {"read_chunk": {"elements": 100_000_000}, "write_chunk": {"elements": 100_000_000}}
)

CHUNK_CACHE = "cache_pool#chunks"
_INDEX_CACHE = {"total_bytes_limit": 100_000_000}


def fresh_context() -> tensorstore.Context:
    """A context that knows nothing of the files, which others may have replaced since.

    It caches indices of databases, but no chunks of arrays.
    """
    return tensorstore.Context(
        {"cache_pool": _INDEX_CACHE, CHUNK_CACHE: {"total_bytes_limit": 0}}, CONTEXT
    )


def chunk_caching_context(context: tensorstore.Context) -> tensorstore.Context:
    """A context like one made by `fresh_context`, which caches chunks as well."""
    return tensorstore.Context({CHUNK_CACHE: _CACHE}, context)
