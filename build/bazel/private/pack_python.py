"""Copies an interpreter into a folder from which it runs on any Linux whose C library is new enough.

    python pack_python.py FOLDER PATCHELF       (run by the interpreter that is packed)

makes FOLDER/bin/python3.X and FOLDER/lib: the standard library, with bytecode, and the shared
libraries that its modules use and that are not part of the C library. Packages in site-packages, and
what tests of this project do not import (Python's own tests, windows), are left out.
"""

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

VERSION = "{}.{}".format(*sys.version_info)
LEFT_OUT = ("site-packages", "dist-packages", "test", "idlelib", "turtledemo", "tkinter", "lib2to3")
UNUSED = re.compile(r"_tkinter\.|_test|_xxtestfuzz|xxlimited")
# Of the C library, which has to fit the kernel and the other machine's programs.
C_LIBRARY = re.compile(
    r"(ld-linux.*|linux-vdso|libc|libm|libdl|libpthread|librt|libutil|libresolv)\.so"
)


def main() -> int:
    folder, patchelf = Path(sys.argv[1]), sys.argv[2]
    executable = Path(sys._base_executable).resolve()
    library = folder / "lib" / f"python{VERSION}"
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / f"python{VERSION}"
    shutil.copy(executable, program)
    shutil.copytree(sysconfig.get_path("stdlib"), library, symlinks=False, ignore=_ignored)
    modules = sorted(library.rglob("*.so"))
    for path in _libraries([executable, *modules]):
        shutil.copy(path, folder / "lib" / path.name)
    # Libraries of the interpreter are looked for beside it, also on behalf of others: an RPATH, not
    # a RUNPATH, and none in what is copied.
    edit = [patchelf, "--force-rpath", "--set-rpath", "$ORIGIN/../lib", str(program)]
    subprocess.run(edit, check=True)
    for path in [*modules, *(folder / "lib").glob("*.so*")]:
        subprocess.run([patchelf, "--remove-rpath", str(path)], check=True)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(library, quiet=2, stripdir=str(folder), invalidation_mode=mode)
    return subprocess.run(
        [program, "-I", "-c", "import ssl, ctypes, sqlite3"], check=False
    ).returncode


def _ignored(folder: str, names: list[str]) -> list[str]:
    return [
        name
        for name in names
        if name in (*LEFT_OUT, "__pycache__")
        or name.startswith("config-")
        or UNUSED.search(name)
        or not os.path.exists(os.path.join(folder, name))
    ]


def _libraries(files: list[Path]) -> list[Path]:
    """Those that the dynamic linker finds for `files`."""
    found: dict[str, Path] = {}
    for file in files:
        listing = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
        for name, path in re.findall(r"(\S+) => (/\S+)", listing):
            if not C_LIBRARY.match(name):
                found.setdefault(name, Path(path))
    return [path.parent / name for name, path in sorted(found.items())]


if __name__ == "__main__":
    sys.exit(main())
