from jax._src.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {},
    modules=("comparing", "einsum", "index_tricks", "matrices", "quantiles", "ufuncs_special"),
)
