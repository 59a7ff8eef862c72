from jax._src.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__, {}, modules=("ad_checkpoint", "callback", "debugger", "debugging", "visualize")
)
