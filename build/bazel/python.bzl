"""An interpreter that is there already, as a toolchain: JAX_BAZEL_PYTHON.

For `--config=local_python`, which `--config=offline` includes; otherwise rules_python's own is used.
"""

load("//build/bazel/toolchain:zig.bzl", "ZIG_TARGETS")
load(":pip.bzl", "interpreter")

_PROBE = """\
import json, os, sys, sysconfig
print(json.dumps({
    "executable": os.path.realpath(sys._base_executable),
    "version": "%d.%d" % sys.version_info[:2],
    "include": sysconfig.get_path("include", vars={"base": sys.base_prefix, "installed_base": sys.base_prefix}),
    "multiarch": sysconfig.get_config_var("MULTIARCH") or "",
    "platinclude": sysconfig.get_config_var("INCLUDEPY"),
}))
"""

_BUILD = """\
load("@rules_cc//cc:defs.bzl", "cc_library")
load("@rules_python//python:defs.bzl", "py_runtime")
load("@rules_python//python:py_runtime_pair.bzl", "py_runtime_pair")

package(default_visibility = ["//visibility:public"])

py_runtime(
    name = "runtime",
    interpreter_path = "{executable}",
    python_version = "PY3",
    # the host may have no python3 on the path of actions
    stub_shebang = "#!{executable}",
)

py_runtime_pair(
    name = "runtime_pair",
    py3_runtime = ":runtime",
)

toolchain(
    name = "toolchain",
    toolchain = ":runtime_pair",
    toolchain_type = "@bazel_tools//tools/python:toolchain_type",
)

cc_library(
    name = "headers",
    hdrs = glob(
        [
            "include/**/*.h",
            "multiarch/**/*.h",
        ],
        allow_empty = True,
    ),
    includes = [
        "include",
        "multiarch",
    ],
)
"""

def _local_python_impl(ctx):
    result = ctx.execute([interpreter(ctx), "-I", "-c", _PROBE])
    if result.return_code:
        fail(result.stderr)
    found = json.decode(result.stdout)
    wanted = ctx.os.environ.get("JAX_BAZEL_PYTHON_VERSION", "") or "3.11"
    if found["version"] != wanted:
        fail("JAX_BAZEL_PYTHON (%s) is Python %s, and the build is for %s (JAX_BAZEL_PYTHON_VERSION)" % (
            found["executable"],
            found["version"],
            wanted,
        ))
    headers = [found["platinclude"], found["include"]]
    headers = [path for path in headers if ctx.path(path + "/Python.h").exists]
    if headers:
        ctx.symlink(headers[0], "include")

    # where Debian keeps pyconfig.h, which that in `include` only points to, by the machine that is compiled
    # for: to the compiler the two machines are the same
    folder = "/usr/include/%s/python%s" % (found["multiarch"], found["version"])
    if found["multiarch"] and ctx.path(folder + "/pyconfig.h").exists:
        for machine in ZIG_TARGETS:
            ctx.symlink(folder, "multiarch/%s-linux-gnu/python%s" % (machine, found["version"]))
    ctx.file("BUILD.bazel", _BUILD.format(executable = found["executable"]))

local_python = repository_rule(
    implementation = _local_python_impl,
    environ = ["JAX_BAZEL_PYTHON", "JAX_BAZEL_PYTHON_VERSION"],
    local = True,
)

def _extension_impl(_ctx):
    local_python(name = "local_python")

extension = module_extension(implementation = _extension_impl)
