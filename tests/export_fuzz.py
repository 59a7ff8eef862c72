"""Damaged exported programs: each is a ValueError, or is read as another program.

python tests/export_fuzz.py 100000              # so many damaged files, from a fixed seed
python tests/export_fuzz.py modules 100000      # files of damaged modules, with the right checksums
python tests/export_fuzz.py programs 5000       # compiles and runs what was read of damaged modules
"""

import dataclasses
import faulthandler
import random
import struct
import sys
import time
import tracemalloc
import zipfile

from export_files import archive

import jax
from jax import export

MARK = b"crc32:"


def seeds():
    """The files of all programs, without checksums, which would hide what the reader does."""
    out = []
    for name in ("own", "oracle"):
        with zipfile.ZipFile(archive(name)) as file:
            out += [without_checksum(file.read(entry)) for entry in file.namelist()]
    return out


def without_checksum(data):
    return data[:-10] if data[-10:-4] == MARK else data


def damage(data, rng):
    """The bytes with something wrong: cut, changed, or with offsets and lengths that lead elsewhere."""
    kind = rng.randrange(7)
    data = bytearray(data)
    end = len(data)
    if kind == 0:
        return data[: rng.randrange(end)]
    if kind == 1:
        for _ in range(rng.choice((1, 2, 8))):
            data[rng.randrange(end)] ^= 1 << rng.randrange(8)
    elif kind == 2:  # an offset or length
        at = rng.randrange(0, end - 4) & ~3
        value = rng.choice(
            (0, 1, 2**31, 2**32 - 1, end, end - at, 0x7FFFFFF0, rng.randrange(2**32))
        )
        struct.pack_into("<I", data, at, value)
    elif kind == 3:  # backwards, or to itself
        at = rng.randrange(0, end - 4) & ~3
        struct.pack_into("<i", data, at, -rng.randrange(end))
    elif kind == 4:  # a part of it somewhere else
        n = rng.choice((2, 4, 8, 16, 64))
        a, b = rng.randrange(end - n), rng.randrange(end - n)
        data[a : a + n] = data[b : b + n]
    elif kind == 5:
        n = rng.choice((1, 4, 32))
        at = rng.randrange(end)
        data[at : at + n] = b""
    else:
        at = rng.randrange(0, end - 2) & ~1
        struct.pack_into("<H", data, at, rng.choice((0, 1, 3, 4, 0xFFFF, rng.randrange(2**16))))
    return data


def run(count, seed=0):
    """Reads damaged files; returns how many were errors, and the largest use of memory by size."""
    rng = random.Random(seed)
    files = seeds()
    errors, largest = 0, 0.0
    for data in files:  # what is imported for the first one takes memory, too
        export.deserialize(data)
    tracemalloc.start()
    try:
        for _ in range(count):
            data = bytes(damage(rng.choice(files), rng))
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                export.deserialize(data)
            except ValueError:
                errors += 1
            peak = tracemalloc.get_traced_memory()[1] - before
            largest = max(largest, (peak - 100_000) / max(len(data), 1))
    finally:
        tracemalloc.stop()
    return errors, largest


def programs():
    """All programs and their derivatives."""
    out = []
    for data in seeds():
        program = export.deserialize(data)
        if not any(program.in_shardings_hlo):
            out += [program, program.vjp()] if program.has_vjp() else [program]
    return out


def run_modules(count, seed=0):
    """Reads files with damaged modules, and these; returns how many were errors, and the longest time.

    A crash of the compiler's reader ends the process.
    """
    originals = programs()
    errors, longest = 0, 0.0
    for i in range(count):
        rng = random.Random(f"{seed} {i}")
        program = rng.choice(originals)
        module = bytes(damage(program.mlir_module_serialized, rng))
        start = time.process_time()
        try:
            changed = dataclasses.replace(program, mlir_module_serialized=module, _get_vjp=None)
            export.deserialize(changed.serialize()).mlir_module(serialized=False)
        except ValueError:
            errors += 1
        except BaseException:
            print(f"the damaged module {i} of the seed {seed}", file=sys.stderr)
            raise
        longest = max(longest, time.process_time() - start)
    return errors, longest


def run_programs(count, seed=0):
    """Compiles and runs programs with damaged modules; returns how many of them there were, and ran.

    They may fail, but a crash of the compiler or of the program ends the process.
    """
    originals = [
        p
        for p in programs()
        if "cpu" in p.platforms and p.nr_devices == 1 and "while" not in p.mlir_module()
    ]
    found = ran = 0
    for i in range(count):
        rng = random.Random(f"program {seed} {i}")
        program = rng.choice(originals)
        module = bytearray(program.mlir_module_serialized)
        for _ in range(rng.choice((1, 1, 2))):
            at, other = rng.randrange(len(module)), rng.randrange(len(module))
            module[at] = rng.choice((module[at] ^ 1 << rng.randrange(8), module[other]))
        changed = dataclasses.replace(program, mlir_module_serialized=bytes(module), _get_vjp=None)
        shapes = [[d if isinstance(d, int) else 2 for d in a.shape] for a in changed.in_avals]
        print(i, file=sys.stderr)  # which one the last was, if there are no others
        try:
            changed.mlir_module(serialized=False)
            found += 1
            flat = [jax.numpy.ones(s, a.dtype) for s, a in zip(shapes, changed.in_avals)]
            args, kwargs = jax.tree.unflatten(changed.in_tree, flat)
            jax.block_until_ready(jax.jit(changed.call)(*args, **kwargs))
            ran += 1
        except Exception:  # of the compiler, or of a check of arguments
            continue
    return found, ran


if __name__ == "__main__":
    faulthandler.enable()
    if sys.argv[1] == "modules":
        print(*run_modules(*map(int, sys.argv[2:])))
    elif sys.argv[1] == "programs":
        print(*run_programs(*map(int, sys.argv[2:])))
    else:
        print(run(*map(int, sys.argv[1:])))
