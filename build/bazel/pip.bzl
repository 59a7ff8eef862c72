"""Python packages from the lock files of build/requirements, by hash.

    pip = use_extension("//build/bazel:pip.bzl", "pip")
    pip.hub(name = "pypi", locks = ["lock", "bazel"])
    use_repo(pip, "pypi")

makes `@pypi//numpy` a `py_library` for every package of `build/requirements/lock-<version>.txt` and
`bazel-<version>.txt`, with the packages it needs as `deps`. Each is fetched when something needs it,
by `pip download --require-hashes` for Linux, the Python version and the host's machine: pip's own settings
say from which index. A build for another machine takes headers from them only, which are the same.
`@pypi//numpy:wheel` is the wheel's file.

JAX_BAZEL_PYTHON (in the environment, or `--repo_env`) is the interpreter that runs pip, python3 by
default; JAX_BAZEL_PYTHON_VERSION the version the packages are for, 3.11 by default.
"""

DEFAULT_PYTHON_VERSION = "3.11"

_BUILD = """\
load("@rules_python//python:defs.bzl", "py_library")

package(default_visibility = ["//visibility:public"])

# `site-packages` is a folder as one file: tests need not lay out its thousands of files one by one. With remote
# execution they have to: Bazel puts files of such a folder where they are, and not among a test's own.
py_library(
    name = "{name}",
    data = select({{
        "@@//build/bazel:with_listed_files": glob(["site-packages/**"]),
        "//conditions:default": ["site-packages"],
    }}),
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

def fetch_wheel(ctx, package, version, hashes, python_version, known = [], machine = None, platform = None):
    """Fetches a wheel by hash and unpacks it into `site-packages`.

    Args:
      ctx: of a repository rule with `_script`, the label of fetch_wheel.py.
      package: its name.
      version: its version.
      hashes: `sha256:...`, one of which the file must have.
      python_version: of the target, as "3.11".
      known: names of the packages that may be dependencies.
      machine: what it is for, as "aarch64"; the host's by default.
      platform: the wheel's platform tag, as "macosx_13_0_arm64"; that of a Linux by default.

    Returns:
      A struct of `wheel`, the file's name, and `needs`, names of packages.
    """
    host = {"amd64": "x86_64", "arm64": "aarch64"}.get(ctx.os.arch, ctx.os.arch)
    command = [
        interpreter(ctx),
        "-I",
        ctx.path(ctx.attr._script),
        "%s==%s" % (package, version),
        "--python-version",
        python_version,
        "--machine",
        machine or host,
    ]
    command += ["--platform=" + platform] if platform else []
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

# What a repository rule that calls fetch_wheel has.
FETCH_ATTRS = {
    "hashes": attr.string_list(),
    "python_version": attr.string(),
    "version": attr.string(),
    "_script": attr.label(default = Label("//build/bazel:private/fetch_wheel.py"), allow_single_file = True),
}

_pip_package = repository_rule(
    implementation = _pip_package_impl,
    doc = "One package of a lock file.",
    attrs = FETCH_ATTRS | {
        "extra_build_file": attr.label(),
        "known": attr.string_list(),
        "package": attr.string(),
    },
    environ = ["JAX_BAZEL_PYTHON"],
)

_HUB_BUILD = """\
package(default_visibility = ["//visibility:public"])

alias(
    name = "{package}",
    actual = select({{
        "@@//build/bazel:without_packages": "@@//build/bazel:no_package",
        "//conditions:default": "{repository}{package}",
    }}),
)
"""

def _hub_impl(ctx):
    for package in ctx.attr.packages:
        repository = "@@%s_%s//:" % (ctx.name, package)
        content = _HUB_BUILD.format(package = package, repository = repository)
        for name in ["wheel"] + ctx.attr.extra.get(package, []):
            content += '\nalias(\n    name = "%s",\n    actual = "%s%s",\n)\n' % (name, repository, name)
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

def target_python_version(ctx):
    """The version of Python that the build is for.

    Args:
      ctx: of a module extension with JAX_BAZEL_PYTHON_VERSION in its `environ`.

    Returns:
      As "3.11".
    """
    return ctx.os.environ.get("JAX_BAZEL_PYTHON_VERSION", "") or DEFAULT_PYTHON_VERSION

def read_lock(ctx, lock):
    """Reads a lock file of build/requirements.

    Args:
      ctx: of a module extension with JAX_BAZEL_PYTHON_VERSION in its `environ`.
      lock: its name without the version.

    Returns:
      What `parse_lock` makes of it.
    """
    python_version = target_python_version(ctx)
    path = Label("//build/requirements:%s-%s.txt" % (lock, python_version))
    if not ctx.path(path).exists:
        fail("there is no lock file %s: JAX_BAZEL_PYTHON_VERSION=%s is not among the versions" % (path, python_version))
    return parse_lock(ctx.read(path))

def _pip_impl(ctx):
    python_version = target_python_version(ctx)
    for module in ctx.modules:
        for hub in module.tags.hub:
            packages = {}
            for lock in hub.locks:
                packages |= read_lock(ctx, lock)
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
    },
    environ = ["JAX_BAZEL_PYTHON_VERSION"],
)
