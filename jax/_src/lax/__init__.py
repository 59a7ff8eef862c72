from jax._src.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {"jax._src.lax.slicing": ("index_in_dim",)},  # a name that outside code imports
    modules=(
        "ann", "composite", "convolution", "fft", "other", "scaled_dot", "special",
        "windowed_reductions",
    ),
)  # fmt: skip
