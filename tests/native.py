"""Compiles C++ of the tests and of `jaxlib/` against jaxlib's headers, and loads it."""

import ctypes
import functools
import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator

import jax
import jax.ffi
from jax._src.lib import native_kernels

HERE = pathlib.Path(__file__).absolute().parent
ROOT = HERE.parent


def compiler() -> str:
    found = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if found is None:
        raise RuntimeError("the tests of native code need a C++ compiler: set CXX, or install g++")
    return found


@functools.cache
def load(source: str) -> ctypes.CDLL:
    """The library made of `source`, a file beside this one."""
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder) / "library.so"
        _compile([HERE / source], library, "-std=c++17", "-O1")
        return ctypes.CDLL(str(library))


def _compile(sources: list[pathlib.Path], library: pathlib.Path, *flags: str) -> None:
    command = [compiler(), *flags, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}"]
    command += ["-isystem", jax.ffi.include_dir(), *map(str, sources), "-o", str(library)]
    subprocess.run(command, check=True)


@functools.cache
def extension() -> types.ModuleType:
    """The module `jaxlib_ext`: the one that is installed, or one made of this checkout's sources.

    The latter sorts without vector instructions, as their library is not at hand outside of Bazel's builds. It is
    kept among pytest's files until a source changes.
    """
    if importlib.util.find_spec("jaxlib_ext") is not None:
        import jaxlib_ext

        return jaxlib_ext
    kernels = ctypes.CDLL(str(_kernels_library()))
    module = types.ModuleType("jaxlib_ext._kernels")
    module.handlers = lambda: {
        "jaxlib_ext_attention": jax.ffi.pycapsule(kernels.JaxlibExtAttention),
        "jaxlib_ext_attention_gradient": jax.ffi.pycapsule(kernels.JaxlibExtAttentionGradient),
        "jaxlib_ext_bcoo_product": jax.ffi.pycapsule(kernels.JaxlibExtBcooProduct),
        "jaxlib_ext_coo_product": jax.ffi.pycapsule(kernels.JaxlibExtCooProduct),
        "jaxlib_ext_csr_product": jax.ffi.pycapsule(kernels.JaxlibExtCsrProduct),
        "jaxlib_ext_sort": jax.ffi.pycapsule(kernels.JaxlibExtSort),
        "jaxlib_ext_top_k": jax.ffi.pycapsule(kernels.JaxlibExtTopK),
        "jaxlib_ext_cumulative": jax.ffi.pycapsule(kernels.JaxlibExtCumulative),
        "jaxlib_ext_threefry_bits": jax.ffi.pycapsule(kernels.JaxlibExtThreefryBits),
        "jaxlib_ext_threefry_bits_of_floats": jax.ffi.pycapsule(kernels.JaxlibExtThreefryBits),
        "jaxlib_ext_scatter_add": jax.ffi.pycapsule(kernels.JaxlibExtScatterAdd),
        "jaxlib_ext_elementwise": jax.ffi.pycapsule(kernels.JaxlibExtElementwise),
        "jaxlib_ext_erf_inv": jax.ffi.pycapsule(kernels.JaxlibExtErfInv),
        "jaxlib_ext_determinants_3x3": jax.ffi.pycapsule(kernels.JaxlibExtDeterminants3x3),
        "jaxlib_ext_search_sorted": jax.ffi.pycapsule(kernels.JaxlibExtSearchSorted),
    }
    module.vector_target = lambda: "none"
    sys.modules["jaxlib_ext._kernels"] = module
    spec = importlib.util.spec_from_file_location(
        "jaxlib_ext", ROOT / "jaxlib" / "jaxlib_ext" / "__init__.py"
    )
    package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return package


def extension_in_use() -> Iterator[None]:
    """The body of a fixture that has jax use `extension()`."""
    installed = sys.modules.get("jaxlib_ext")
    sys.modules["jaxlib_ext"] = extension()
    native_kernels._load_once.cache_clear()
    jax.clear_caches()
    yield
    jax.clear_caches()
    if installed is None:
        del sys.modules["jaxlib_ext"]
    native_kernels._load_once.cache_clear()


def _kernels_library() -> pathlib.Path:
    folder = ROOT / "jaxlib" / "kernels"
    # Highway, of which there is none outside of Bazel, is what the others of these are without.
    with_highway = {s.name.replace("_portable", "") for s in folder.glob("*_portable.cc")}
    sources = [s for s in sorted(folder.glob("*.cc")) if s.name not in with_highway]
    # -O3 takes three times as long, and Bazel's library, which has it, is tested too.
    flags = ("-std=c++20", "-Og")
    settings = f"{compiler()} {flags} {jax.ffi.include_dir()} {sys.platform}"
    digest = hashlib.sha256(settings.encode())
    for file in sorted(folder.iterdir()):
        digest.update(file.read_bytes())
    library = ROOT / ".pytest_cache" / "d" / f"jaxlib_ext-{digest.hexdigest()[:20]}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as temporary:
            made = pathlib.Path(temporary) / "library.so"
            _compile(sources, made, *flags)
            made.replace(library)  # whole or not at all, also where several tests make it
    return library
