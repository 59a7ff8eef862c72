"""A stand-in for the module that `bazel mod tidy` takes its editor from."""

def _empty_impl(ctx):
    ctx.file("BUILD.bazel", "")

_empty = repository_rule(implementation = _empty_impl)

def _extension_impl(_ctx):
    _empty(name = "buildozer_binary")

buildozer_binary = module_extension(implementation = _extension_impl)
