"""The C and C++ compiler: Zig, from PyPI's package `ziglang`, on each kind of host and for each kind of target.

    zig = use_extension("//build/bazel/toolchain:zig.bzl", "zig")
    zig.release(lock = "bazel")
    use_repo(zig, "zig_linux_x86_64", ...)

makes a repository for each of ZIG_HOSTS, by the hashes of `build/requirements/bazel-<version>.txt`; what is
fetched is the one that a build's actions run on. Each has a toolchain for every one of ZIG_TARGETS.
"""

load("//build/bazel:pip.bzl", "DEFAULT_PYTHON_VERSION", "FETCH_ATTRS", "fetch_wheel", "read_lock")

# The oldest C library that what is built runs with.
GLIBC = (2, 27)

# Where the compiler runs: as constraints of @platforms, and as platform tag of its wheel, if not manylinux.
ZIG_HOSTS = {
    "linux_aarch64": struct(os = "linux", cpu = "aarch64", machine = "aarch64", tag = None),
    "linux_x86_64": struct(os = "linux", cpu = "x86_64", machine = "x86_64", tag = None),
    "macos_aarch64": struct(os = "macos", cpu = "aarch64", machine = "arm64", tag = "macosx_13_0_arm64"),
    "macos_x86_64": struct(os = "macos", cpu = "x86_64", machine = "x86_64", tag = "macosx_13_0_x86_64"),
}

# The Linux machines that it compiles for, and Bazel's old names of them.
ZIG_TARGETS = {
    "aarch64": "aarch64",
    "x86_64": "k8",
}

def manylinux_tag(machine):
    """The platform tag of wheels for a machine.

    Args:
      machine: of ZIG_TARGETS.

    Returns:
      As `manylinux_2_27_x86_64`.
    """
    return "manylinux_%d_%d_%s" % (GLIBC[0], GLIBC[1], machine)

# Zig keeps the C and C++ libraries that it builds for a target, addressed by content: the first link
# takes a minute, and the place has to outlive an action. See --sandbox_writable_path in .bazelrc.
_TOOL = """\
#!/bin/sh
here=${{0%/*}}
{prelude}export ZIG_LIB_DIR="$here/lib"
export ZIG_GLOBAL_CACHE_DIR=/var/tmp/jax-zig-cache-$(id -u) ZIG_LOCAL_CACHE_DIR=/var/tmp/jax-zig-cache-$(id -u)
exec "$here/zig" {command} "$@"
"""

# Bazel has one compiler for both languages and for linking.
_LANGUAGE = """\
command=c++
for argument; do
    case $argument in *.c) command=cc ;; esac
done
"""

def _repository_impl(ctx):
    fetch_wheel(
        ctx,
        "ziglang",
        ctx.attr.version,
        ctx.attr.hashes,
        ctx.attr.python_version,
        machine = ctx.attr.machine,
        platform = ctx.attr.platform,
    )
    moved = ctx.execute(["mv", "site-packages/ziglang/zig", "site-packages/ziglang/lib", "."])
    if moved.return_code:
        fail("the wheel of ziglang %s is not laid out as expected: %s" % (ctx.attr.version, moved.stderr))
    ctx.delete("site-packages")
    ctx.delete("wheel")
    for name in ("ar", "objcopy"):
        ctx.file(name, _TOOL.format(prelude = "", command = name), executable = True)
    for machine in ZIG_TARGETS.keys():
        target = "%s-linux-gnu.%d.%d" % (machine, GLIBC[0], GLIBC[1])
        tool = _TOOL.format(prelude = _LANGUAGE, command = '"$command" -target ' + target)
        ctx.file("cc_" + machine, tool, executable = True)
    ctx.file("BUILD.bazel", ctx.read(ctx.attr._build_file).replace("{repository}", ctx.name))

_repository = repository_rule(
    implementation = _repository_impl,
    doc = "Zig for one kind of host.",
    attrs = FETCH_ATTRS | {
        "machine": attr.string(),
        "platform": attr.string(),
        "_build_file": attr.label(default = Label("//build/bazel/toolchain:zig.BUILD")),
    },
    # without `environ`: what is fetched is the same by any interpreter, and what it has compiled stays
)

def _zig_impl(ctx):
    for module in ctx.modules:
        for release in module.tags.release:
            version, hashes = read_lock(ctx, release.lock)["ziglang"]
            for name, host in ZIG_HOSTS.items():
                _repository(
                    name = "zig_" + name,
                    hashes = hashes,
                    machine = host.machine,
                    platform = host.tag or "",
                    python_version = DEFAULT_PYTHON_VERSION,  # its wheel is for all, and so is what it compiles
                    version = version,
                )

zig = module_extension(
    implementation = _zig_impl,
    doc = "See the module's docstring.",
    tag_classes = {
        "release": tag_class(
            doc = "The version that a lock file has.",
            attrs = {"lock": attr.string(mandatory = True)},
        ),
    },
    environ = ["JAX_BAZEL_PYTHON_VERSION"],
)
