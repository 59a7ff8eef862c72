"""Python packages from the lock files of build/requirements, by hash.

    pip = use_extension("//build/bazel:pip.bzl", "pip")
    pip.hub(name = "pypi", locks = ["lock", "bazel"])
    use_repo(pip, "pypi")

makes `@pypi//numpy` a `py_library` for every package of `build/requirements/lock-<version>.txt` and
`bazel-<version>.txt`, with the packages it needs as `deps`. Each is fetched when something needs it,
by `pip download --require-hashes` for the target (Linux, the Python version): pip's own settings say
from which index. `@pypi//numpy:wheel` is the wheel's file.

JAX_BAZEL_PYTHON (in the environment, or `--repo_env`) is the interpreter that runs pip, python3 by
default; JAX_BAZEL_PYTHON_VERSION the version the packages are for, 3.11 by default.
"""

DEFAULT_PYTHON_VERSION = "3.11"

_BUILD = """\
load("@rules_python//python:defs.bzl", "py_library")

package(default_visibility = ["//visibility:public"])

# `site-packages` is a folder as one file: tests need not lay out its thousands of files one by one.
py_library(
    name = "{name}",
    data = ["site-packages"],
    imports = ["site-packages"],
    deps = {deps},
)

filegroup(
    name = "wheel",
    srcs = ["wheel/{wheel}"],
)
"""

def interpreter(ctx):
    """The path of the interpreter that repository rules run.

    Args:
      ctx: of a repository rule or module extension with JAX_BAZEL_PYTHON in its `environ`.

    Returns:
      A path.
    """
    name = ctx.os.environ.get("JAX_BAZEL_PYTHON", "") or "python3"
    path = ctx.path(name) if name.startswith("/") else ctx.which(name)
    if path == None or not path.exists:
        fail("there is no interpreter %s: set JAX_BAZEL_PYTHON to a Python 3.11 or newer with pip" % name)
    return path

def fetch_wheel(ctx, package, version, hashes, python_version, known = []):
    """Fetches a wheel by hash and unpacks it into `site-packages`.

    Args:
      ctx: of a repository rule with `_script`, the label of fetch_wheel.py.
      package: its name.
      version: its version.
      hashes: `sha256:...`, one of which the file must have.
      python_version: of the target, as "3.11".
      known: names of the packages that may be dependencies.

    Returns:
      A struct of `wheel`, the file's name, and `needs`, names of packages.
    """
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(ctx.os.arch, ctx.os.arch)
    command = [
        interpreter(ctx),
        "-I",
        ctx.path(ctx.attr._script),
        "%s==%s" % (package, version),
        "--python-version",
        python_version,
        "--machine",
        machine,
    ]
    command += ["--hash=" + value for value in hashes]
    command += ["--known=" + name for name in known]
    result = ctx.execute(command, timeout = 1200)
    if result.return_code:
        fail("\n" + result.stdout + result.stderr)
    found = json.decode(ctx.read("requirements.json"))
    return struct(wheel = found["wheel"], needs = found["needs"])

def _pip_package_impl(ctx):
    found = fetch_wheel(
        ctx,
        ctx.attr.package,
        ctx.attr.version,
        ctx.attr.hashes,
        ctx.attr.python_version,
        ctx.attr.known,
    )
    content = _BUILD.format(
        name = ctx.attr.package,
        deps = ["@@%s%s//:%s" % (ctx.name[:-len(ctx.attr.package)], name, name) for name in found.needs],
        wheel = found.wheel,
    )
    if ctx.attr.extra_build_file:
        content += "\n" + ctx.read(ctx.attr.extra_build_file)
    ctx.file("BUILD.bazel", content)

_SCRIPT = attr.label(default = Label("//build/bazel:private/fetch_wheel.py"), allow_single_file = True)

_pip_package = repository_rule(
    implementation = _pip_package_impl,
    doc = "One package of a lock file.",
    attrs = {
        "extra_build_file": attr.label(),
        "hashes": attr.string_list(),
        "known": attr.string_list(),
        "package": attr.string(),
        "python_version": attr.string(),
        "version": attr.string(),
        "_script": _SCRIPT,
    },
    environ = ["JAX_BAZEL_PYTHON"],
)

def _zig_impl(ctx):
    fetch_wheel(ctx, "ziglang", ctx.attr.version, ctx.attr.hashes, ctx.attr.python_version)
    ctx.execute(["mv", "site-packages/ziglang/zig", "site-packages/ziglang/lib", "."])
    ctx.delete("site-packages")
    ctx.delete("wheel")
    for name, content in ctx.attr.tools.items():
        ctx.file(name, content, executable = True)
    ctx.file("BUILD.bazel", ctx.read(ctx.attr.build_file).replace("{repository}", ctx.name))

_zig = repository_rule(
    implementation = _zig_impl,
    doc = "The C and C++ compiler of PyPI's package `ziglang`.",
    attrs = {
        "build_file": attr.label(default = Label("//build/bazel:toolchain/zig.BUILD")),
        "hashes": attr.string_list(),
        "python_version": attr.string(),
        "tools": attr.string_dict(),
        "version": attr.string(),
        "_script": _SCRIPT,
    },
    environ = ["JAX_BAZEL_PYTHON"],
)

# Zig keeps the C and C++ libraries that it builds for a target, addressed by content: the first link
# takes a minute, and the place has to outlive an action. See --sandbox_writable_path in .bazelrc.
_ZIG_TOOL = """\
#!/bin/sh
here=${{0%/*}}
{prelude}export ZIG_LIB_DIR="$here/lib"
export ZIG_GLOBAL_CACHE_DIR=/var/tmp/jax-zig-cache-$(id -u) ZIG_LOCAL_CACHE_DIR=/var/tmp/jax-zig-cache-$(id -u)
exec "$here/zig" {command} "$@"
"""

# Bazel has one compiler for both languages and for linking.
_ZIG_LANGUAGE = """\
command=c++
for argument; do
    case $argument in *.c) command=cc ;; esac
done
"""

def _hub_impl(ctx):
    for package in ctx.attr.packages:
        repository = "@@%s_%s//:" % (ctx.name, package)
        names = {package: package, "wheel": "wheel"}
        names |= {name: name for name in ctx.attr.extra.get(package, [])}
        content = 'package(default_visibility = ["//visibility:public"])\n'
        for name, actual in names.items():
            content += '\nalias(\n    name = "%s",\n    actual = "%s%s",\n)\n' % (name, repository, actual)
        ctx.file(package + "/BUILD.bazel", content)
    ctx.file("BUILD.bazel", "")
    ctx.file("python.bzl", "PYTHON_VERSION = %r\n" % ctx.attr.python_version)

_hub = repository_rule(
    implementation = _hub_impl,
    doc = "The packages of one set of lock files, by their names.",
    attrs = {
        "extra": attr.string_list_dict(),
        "packages": attr.string_list(),
        "python_version": attr.string(),
    },
)

def parse_lock(text):
    """Reads a lock file of hashes.

    Args:
      text: its content.

    Returns:
      A dictionary: name → (version, hashes).
    """
    packages = {}
    for line in text.replace("\\\n", " ").split("\n"):
        words = line.split("#")[0].split(" ")
        words = [word for word in words if word]
        if not words:
            continue
        name, _, version = words[0].partition("==")
        hashes = [word[len("--hash="):] for word in words[1:] if word.startswith("--hash=")]
        packages[name.replace("_", "-").replace(".", "-").lower()] = (version, hashes)
    return packages

def _pip_impl(ctx):
    python_version = ctx.os.environ.get("JAX_BAZEL_PYTHON_VERSION", "") or DEFAULT_PYTHON_VERSION
    for module in ctx.modules:
        for hub in module.tags.hub:
            packages = {}
            for lock in hub.locks:
                path = Label("//build/requirements:%s-%s.txt" % (lock, python_version))
                if not ctx.path(path).exists:
                    fail("there is no lock file %s: JAX_BAZEL_PYTHON_VERSION=%s is not among the versions" % (path, python_version))
                packages |= parse_lock(ctx.read(path))
            extra = {
                extension.package: extension
                for extension in module.tags.extend
                if extension.package in packages
            }
            for package, (version, hashes) in packages.items():
                _pip_package(
                    name = "%s_%s" % (hub.name, package),
                    package = package,
                    version = version,
                    hashes = hashes,
                    known = packages.keys(),
                    python_version = python_version,
                    extra_build_file = extra[package].build_file if package in extra else None,
                )
            _hub(
                name = hub.name,
                packages = packages.keys(),
                extra = {name: tag.targets for name, tag in extra.items()},
                python_version = python_version,
            )
        for zig in module.tags.zig:
            path = Label("//build/requirements:%s-%s.txt" % (zig.lock, python_version))
            version, hashes = parse_lock(ctx.read(path))["ziglang"]
            tools = {
                "ar": _ZIG_TOOL.format(prelude = "", command = "ar"),
                "cc": _ZIG_TOOL.format(prelude = _ZIG_LANGUAGE, command = '"$command" -target ' + zig.target),
                "objcopy": _ZIG_TOOL.format(prelude = "", command = "objcopy"),
            }
            _zig(
                name = zig.name,
                version = version,
                hashes = hashes,
                python_version = python_version,
                tools = tools,
            )

pip = module_extension(
    implementation = _pip_impl,
    doc = "See the module's docstring.",
    tag_classes = {
        "extend": tag_class(
            doc = "More targets for a package, in a BUILD file beside the macros.",
            attrs = {
                "build_file": attr.label(mandatory = True),
                "package": attr.string(mandatory = True),
                "targets": attr.string_list(mandatory = True),
            },
        ),
        "hub": tag_class(
            doc = "A repository with all packages of some lock files; later ones win.",
            attrs = {
                "locks": attr.string_list(mandatory = True),
                "name": attr.string(mandatory = True),
            },
        ),
        "zig": tag_class(
            doc = "A C/C++ compiler for a target, as `x86_64-linux-gnu.2.27`.",
            attrs = {
                "lock": attr.string(mandatory = True),
                "name": attr.string(mandatory = True),
                "target": attr.string(mandatory = True),
            },
        ),
    },
    environ = ["JAX_BAZEL_PYTHON_VERSION"],
)
