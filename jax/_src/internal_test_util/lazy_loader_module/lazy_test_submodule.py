"""The module of `lazy_loader_module`."""


def a_function() -> str:
    return "a_function"
