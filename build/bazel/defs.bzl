"""The macros of this repository's BUILD files.

| macro | makes |
| --- | --- |
| `jax_py_library` | a Python library |
| `jax_multiplatform_test` | a pytest file's tests on each kind of device, `<name>_cpu`, `<name>_gpu`, ... |
| `jax_py_test` | a pytest file's tests, once |
| `jax_mypy_test` | mypy's check of packages |
| `nanobind_extension` | a Python module in C++ |
| `ffi_library` | XLA FFI handlers in C++ |
| `cc_fuzz_test` | a fuzz target with the driver that feeds it |
| `jax_wheel` | a wheel, and the test that installs it |

BUILD files of `jax/` and the `deps` of tests are written by build/build_files.py from what the sources import.
"""

load("@pypi//:python.bzl", "PYTHON_VERSION")
load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")
load("@rules_python//python:defs.bzl", "py_library", "py_test")
load("//build/bazel/toolchain:zig.bzl", "ZIG_TARGETS", "manylinux_tag")
load(":wheel.bzl", "wheel")

_BACKENDS = ["cpu", "gpu", "tpu"]

# The vendors' compilers, which compile for devices that are absent.
_COMPILERS = {
    "cuda_compile": [
        "@accelerators//jax-cuda13-pjrt",
        "@accelerators//jax-cuda13-plugin",
        "@accelerators//nvidia-cuda-nvcc",
    ],
    "tpu_compile": ["@accelerators//libtpu"],
}
_PYTEST = "//build/bazel:pytest_main.py"
_TEST_DATA = ["//:conftest.py", "//:pyproject.toml"]
_TEST_DEPS = ["@pypi//pytest", "@pypi//hypothesis"]

def jax_py_library(name, srcs = None, data = None, deps = None, **kwargs):
    """A Python library of this repository, found by its path from the repository's root.

    Args:
      name: of the target.
      srcs: Python files.
      data: other files that are read at run time.
      deps: the targets of everything that `srcs` import.
      **kwargs: attributes of `py_library`.
    """
    py_library(
        name = name,
        srcs = srcs or [],
        data = data or [],
        deps = deps or [],
        **kwargs
    )

def _of(choice, backend, default):
    """What a backend gets of an argument: the value for all, or that under its name in a dictionary."""
    if choice == None:
        return default
    if type(choice) == "dict" and [key for key in choice if key in _BACKENDS or key in _COMPILERS]:
        return choice.get(backend, default)
    return choice

def jax_multiplatform_test(
        name,
        srcs = None,
        deps = None,
        data = None,
        backends = None,
        cpu_devices = None,
        shard_count = None,
        size = "medium",
        tags = None,
        args = None,
        env = None,
        cases = None,
        with_kernels = None,
        **kwargs):
    """The tests of a pytest file, once for each kind of device.

    Makes `<name>_cpu` (and `<name>_cpu_8` where 8 virtual devices are asked for besides 1), `<name>_gpu` and
    `<name>_tpu`. The latter two are built and run with `--config=cuda`, `rocm` or `tpu` only, one test at a
    time on each device, and fail where that is not JAX's default backend. `bazel test //tests:cpu_tests` runs
    the former of all files.

    With "tpu_compile" or "cuda_compile" among `backends` there is also `<name>_tpu_compile`, or with CUDA, which has
    that vendor's compiler and no device, and runs the tests marked `aot` that are for it (conftest.py):
    `bazel test --config=aot //tests:tpu_compile_tests`, or `:aot_tests` for both.

    `tags`, `args`, `env` and `shard_count` are for all backends, or dictionaries with one value per backend.

    Args:
      name: of the area: `sort` for sort_test.py.
      srcs: the test file first, then what else belongs to it; `[<name>_test.py]` by default.
      deps: libraries that it imports.
      data: files that it reads.
      backends: on what it runs, of "cpu", "gpu", "tpu", "tpu_compile" and "cuda_compile"; the first three by default.
      cpu_devices: with how many virtual devices it runs on the CPU: [8] (the default, as in conftest.py), [1] or [1, 8].
      shard_count: into how many processes its tests are split.
      size: how long it takes, in Bazel's words: small, medium, large, enormous.
      tags: Bazel's tags; each test is also tagged with its backend.
      args: arguments of pytest.
      env: environment variables.
      cases: a table of cases or scenarios; the answers of PyPI's jax are beside it, in `testdata`.
      with_kernels: arguments of pytest with which `<name>_with_kernels_cpu` runs the tests once more, on a CPU with
        jaxlib-ext: [] for all of them; by default there is no such test.
      **kwargs: attributes of `py_test`.
    """
    data = (data or []) + _TEST_DATA
    if cases:
        data = data + [cases, "testdata/" + cases.removesuffix(".py") + ".xz"]
    cpu_devices = cpu_devices or [8]
    variants = []  # suffix of the name, backend, virtual devices, arguments, libraries
    for backend in backends or _BACKENDS:
        if backend == "cpu":
            for devices in cpu_devices:
                suffix = "cpu" if devices == cpu_devices[0] else "cpu_%d" % devices
                variants.append((suffix, backend, devices, [], []))
        elif backend in _COMPILERS:
            variants.append((backend, backend, 8, ["-m", "aot"], _COMPILERS[backend]))
        else:
            variants.append((backend, backend, None, [], ["//build/bazel:%s_plugin" % backend]))
    if with_kernels != None:
        plugin = ["-p", "require_kernels"]
        variants.append(("with_kernels_cpu", "cpu", cpu_devices[0], plugin + with_kernels, [":require_kernels"]))
    for suffix, backend, devices, more_args, more_deps in variants:
        own = {"JAX_PLATFORMS": {"gpu": "cuda,rocm,cpu", "tpu": "tpu,cpu"}.get(backend, "cpu")}
        compatible = []
        pool = {"test.Pool": "cpu" if backend in _COMPILERS else backend}
        if backend == "cpu" or backend in _COMPILERS:
            own["JAX_NUM_CPU_DEVICES"] = str(devices)
        else:
            # where the device does not start, JAX goes on with the CPU, and tests must not (conftest.py)
            own["JAX_TEST_BACKEND"] = backend
            compatible = select({
                "//build/bazel:with_" + backend: [],
                "//conditions:default": ["@platforms//:incompatible"],
            })
        _pytest(
            name = "%s_%s" % (name, suffix),
            srcs = srcs or [name + "_test.py"],
            deps = (deps or []) + more_deps,
            data = data,
            args = _of(args, backend, []) + more_args,
            env = own | _of(env, backend, {}),
            shard_count = _of(shard_count, backend, None),
            size = size,
            tags = _of(tags, backend, []) + [backend] + (["aot"] if backend in _COMPILERS else []),
            target_compatible_with = compatible,
            exec_properties = pool if backend != "gpu" else select({
                # containers get NVIDIA's driver by the latter
                "//build/bazel:with_cuda": pool | {"test.Accelerator": "cuda", "test.dockerRuntime": "nvidia"},
                "//build/bazel:with_rocm": pool | {"test.Accelerator": "rocm"},
                "//conditions:default": pool,
            }),
            **kwargs
        )

def jax_py_test(name, srcs = None, deps = None, data = None, tags = None, args = None, env = None, **kwargs):
    """The tests of a pytest file, once, on the CPU.

    Args:
      name: of the area: `build` for build_test.py; the target is `<name>_test`.
      srcs: the test file first; `[<name>_test.py]` by default.
      deps: libraries that it imports.
      data: files that it reads.
      tags: Bazel's tags.
      args: arguments of pytest.
      env: environment variables.
      **kwargs: attributes of `py_test`.
    """
    _pytest(
        name = name + "_test",
        srcs = srcs or [name + "_test.py"],
        deps = deps or [],
        data = (data or []) + _TEST_DATA,
        args = args or [],
        env = {"JAX_PLATFORMS": "cpu"} | (env or {}),
        tags = (tags or []) + ["cpu"],
        **kwargs
    )

def _pytest(name, srcs, deps, data, args, env, **kwargs):
    py_test(
        name = name,
        srcs = srcs + [_PYTEST],
        main = _PYTEST,
        imports = ["."],
        args = ["$(rootpath %s)" % srcs[0]] + args,
        deps = deps + [dep for dep in _TEST_DEPS if dep not in deps],
        data = data + srcs[:1] + ["//build/bazel/toolchain:cc", "//build/bazel/toolchain:cc_files"],
        # what is compiled in a test is compiled by the toolchain, not by what the host has
        env = {"CXX": "$(rootpath //build/bazel/toolchain:cc)"} | env,
        legacy_create_init = False,
        **kwargs
    )

def jax_mypy_test(name, deps, **kwargs):
    """mypy's check, with the settings of pyproject.toml.

    Args:
      name: of the test.
      deps: the libraries that pyproject.toml's `files` belong to.
      **kwargs: attributes of `py_test`.
    """
    py_test(
        name = name,
        srcs = ["//build/bazel:mypy_main.py"],
        main = "//build/bazel:mypy_main.py",
        data = ["//:pyproject.toml"],
        legacy_create_init = False,
        deps = deps + ["@pypi//mypy"],
        **kwargs
    )

_CXX = [
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-Wextra",
    "-Wno-unused-parameter",
]

def nanobind_extension(name, srcs, deps = None, copts = None, package_dir = "", **kwargs):
    """A Python module in C++, with nanobind and the C++ library linked in.

    From Python 3.12 on it keeps to the stable ABI and runs on every later version. It has no symbol for
    others but what Python calls to import it.

    Args:
      name: of the module, which `NB_MODULE` in `srcs` names too; `<name>.so` is the file.
      srcs: C++ files.
      deps: C++ libraries.
      copts: flags of the compiler.
      package_dir: the folder under this package in which Python looks for it.
      **kwargs: attributes of both targets.
    """
    stable = PYTHON_VERSION != "3.11"
    file = (package_dir + "/" if package_dir else "") + name + (".abi3.so" if stable else ".so")
    cc_binary(
        name = file,
        srcs = srcs,
        # nanobind's headers name `stderr`, which Python's bring along outside of the stable ABI only
        copts = _CXX + ["-include", "stdio.h"] + (copts or []),
        additional_linker_inputs = [
            "//build/bazel:module_symbols.map",
            "//build/bazel/toolchain:cxx_library.so",  # which takes as long as the rest, and is made beside it
        ],
        linkopts = ["-Wl,--version-script=$(location //build/bazel:module_symbols.map)"],
        linkshared = True,
        linkstatic = True,
        deps = (deps or []) + ["@pypi//nanobind:cc"],
        **kwargs
    )
    py_library(
        name = name,
        data = [file],
        **kwargs
    )

def ffi_library(name, srcs, hdrs = None, deps = None, copts = None, **kwargs):
    """Handlers of XLA's FFI in C++: a library that has jaxlib's headers, whose symbols stay in what it is linked into.

    Args:
      name: of the target.
      srcs: C++ files.
      hdrs: its headers.
      deps: other C++ libraries.
      copts: flags of the compiler.
      **kwargs: attributes of `cc_library`.
    """
    cc_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs or [],
        copts = _CXX + (copts or []),
        deps = (deps or []) + ["//build/bazel/toolchain:ffi_headers"],
        **kwargs
    )

def cc_fuzz_test(name, srcs, deps = None, runs = 20000, copts = None, **kwargs):
    """A fuzz target: `LLVMFuzzerTestOneInput`, fed by a driver that makes inputs up and mutates them.

    The driver is a plain program, so it runs under every toolchain: `--config=asan` and `ubsan` find what
    an input breaks. What it feeds depends on `--test_env=FUZZ_SEED` alone; a failing input is kept under the
    test's undeclared outputs, and `bazel run <name> -- FILE` runs it again.

    Args:
      name: of the test.
      srcs: C++ files with the function.
      deps: C++ libraries.
      runs: how many inputs it makes.
      copts: flags of the compiler.
      **kwargs: attributes of `cc_test`.
    """
    cc_test(
        name = name,
        srcs = srcs + ["//build/bazel:fuzz_driver.cc"],
        args = ["-runs=%d" % runs],
        copts = copts or [],
        tags = kwargs.pop("tags", []) + ["fuzz"],
        deps = deps or [],
        **kwargs
    )

def jax_wheel(
        name,
        pyproject,
        deps,
        top_level,
        strip_prefix = "",
        native_code = False,
        requires = None,
        notices = None,
        readme = "//:README.md",
        without = None,
        absent = None,
        smoke = None,
        sdist = False):
    """A wheel, and `<name>_test`, which checks it, installs it into an empty environment and runs a program there.

    The wheel has the Python files and data of `deps` that are this repository's. Its metadata is the `[project]`
    table of a pyproject.toml; its version MODULE.bazel's. The same inputs give the same bytes.

    Args:
      name: of the target, the distribution's name with `_`.
      pyproject: the pyproject.toml.
      deps: libraries.
      top_level: folders that the wheel may have at its top: anything elsewhere is an error.
      strip_prefix: a folder that is left out of the paths.
      native_code: whether there is machine code in it, which ties the wheel to the target's Linux and Python.
      requires: labels of wheels that are installed beside it for the test.
      notices: labels of the licences of what is linked in, with names.
      readme: the description that pyproject.toml's `readme` means.
      without: libraries that `deps` stand on and that other wheels have.
      absent: distributions that it requires and that the test does without.
      smoke: a Python file, run where it is installed.
      sdist: whether to make `<name>_sdist` too, an archive of the sources.
    """
    short = PYTHON_VERSION.replace(".", "")
    interpreter = "cp311-cp311" if short == "311" else "cp312-abi3"
    version = native.module_version()
    tags = {
        "//build/bazel/toolchain:on_linux_" + machine: "%s-%s" % (interpreter, manylinux_tag(machine))
        for machine in ZIG_TARGETS
    } if native_code else {"//conditions:default": "py3-none-any"}
    remedy = "a wheel with machine code is for Linux: --config=x86_64 or --config=aarch64"
    common = dict(
        pyproject = pyproject,
        license = "//:LICENSE",
        notices = notices or {},
        readme = readme,
        native_code = native_code,
        without = without or [],
        strip_prefix = strip_prefix,
        top_level = top_level,
        version = version,
        visibility = ["//visibility:public"],
        deps = deps,
    )
    wheel(
        name = name,
        filename = select(
            {setting: "%s-%s-%s.whl" % (name, version, tag) for setting, tag in tags.items()},
            no_match_error = remedy,
        ),
        tag = select(tags, no_match_error = remedy),
        **common
    )
    wheels = [":" + name] + (requires or [])
    arguments = ["--wheel=$(rootpath :%s)" % name]
    arguments += ["--requires=$(rootpath %s)" % label for label in requires or []]
    arguments += ["--absent=" + distribution for distribution in absent or []]
    if sdist:
        wheel(
            name = name + "_sdist",
            filename = "%s-%s.tar.gz" % (name, version),
            sdist = True,
            **common
        )
        wheels.append(":%s_sdist" % name)
        arguments.append("--sdist=$(rootpath :%s_sdist)" % name)
        wheels.append("@pypi//setuptools:wheel")
        arguments.append("--setuptools=$(rootpath @pypi//setuptools:wheel)")
    if smoke:
        arguments.append("--smoke=$(rootpath %s)" % smoke)
    py_test(
        name = name + "_test",
        srcs = ["//build/bazel:wheel_test.py"],
        main = "//build/bazel:wheel_test.py",
        args = arguments,
        data = wheels + ([smoke] if smoke else []),
        legacy_create_init = False,
        tags = ["wheel"],
        deps = ["@pypi//auditwheel", "@pypi//packaging", "@pypi//pip", "@pypi//pyelftools"],
    )
