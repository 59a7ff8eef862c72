from jax._src.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {},
    modules=(
        "ann", "composite", "convolution", "fft", "other", "scaled_dot", "special",
        "windowed_reductions",
    ),
)  # fmt: skip
