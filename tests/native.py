"""Compiles a C++ file of the tests against jaxlib's headers, once a process."""

import ctypes
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile

import jax.ffi

HERE = pathlib.Path(__file__).resolve().parent


@functools.cache
def load(source: str) -> ctypes.CDLL:
    """The library made of `source`, a file beside this one."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        raise RuntimeError("the tests of native code need a C++ compiler: set CXX, or install g++")
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder) / "library.so"
        command = [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
        command += ["-isystem", jax.ffi.include_dir(), str(HERE / source), "-o", str(library)]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(library))
