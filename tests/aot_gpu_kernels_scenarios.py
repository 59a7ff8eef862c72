"""Operations for GPUs, forward and backward, compiled by Triton for an H100: how many registers their kernels take."""

import functools
import re
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import aot_programs
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.gpu import (
    attention,
    decode_attention,
    layer_norm,
    paged_attention,
    rms_norm,
    softmax,
)

CASES = Programs()

BF16, INT = jnp.bfloat16, jnp.int32


def like(*shape, dtype=BF16):
    return jax.ShapeDtypeStruct(shape, dtype)


def _ptxas():
    folders = map(Path, find_spec("nvidia").submodule_search_locations)
    return next(path for folder in folders for path in folder.glob("*/bin/ptxas"))


def _compile_as_users_do(lowered, folder):
    quickly = jax.config.values["jax_disable_most_optimizations"]  # as tests do
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        lowered.compile(compiler_options={"xla_dump_to": folder})
    finally:
        jax.config.update("jax_disable_most_optimizations", quickly)


def resources(names, f, *args):
    """Registers of each thread, and bytes of them kept in memory, of the kernels with these names that take most."""
    place = jax.sharding.SingleDeviceSharding(aot_programs.topology("h100").devices[0])
    placed = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place)
    lowered = jax.jit(f).lower(*jax.tree.map(placed, args))
    registers, spills = [], []
    with tempfile.TemporaryDirectory() as folder:
        _compile_as_users_do(lowered, folder)
        for path in Path(folder).glob("*.ptx"):
            entries = re.findall(r"\.entry (\w+)", path.read_text())
            if not any(entry.startswith(names) for entry in entries):
                continue
            command = [_ptxas(), "-v", "-arch=sm_90a", path, "-o", "/dev/null"]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
            registers += map(int, re.findall(r"Used (\d+) registers", said))
            spills += map(int, re.findall(r"(\d+) bytes spill", said))
    return {"registers": max(registers), "spills": sum(spills)}


def case(names, *args, derivative=False):
    """A decorator that adds an operation, and its derivative by all arguments that are floating-point numbers."""

    def add(f):
        CASES.add(f.__name__, functools.partial(resources, names, f, *args))
        if derivative:
            total = lambda *args: f(*args).astype(jnp.float32).sum()
            by = [i for i, x in enumerate(args) if jnp.issubdtype(x.dtype, jnp.floating)]
            name = f"{f.__name__}_and_derivative"
            CASES.add(name, functools.partial(resources, names, jax.grad(total, by), *args))
        return f

    return add


def _mha(size, causal, q, k, v):
    sizes = attention.BlockSizes(*[size] * 6)
    return attention.mha(q, k, v, None, 0.125, causal, sizes)


@case("mha", *[like(2, 256, 4, 64)] * 3, derivative=True)
def mha_causal(q, k, v):
    return _mha(64, True, q, k, v)


@case("mha", *[like(2, 256, 4, 128)] * 3, derivative=True)
def mha_wide(q, k, v):
    return _mha(32, False, q, k, v)


@case(("decode", "mha"), like(4, 32, 128), *[like(4, 1024, 2, 128)] * 2)
def decode(q, k, v):
    return decode_attention.gqa(q, k, v, block_k=128, num_warps=4)


@case("paged", like(4, 32, 128), *[like(2, 64, 16, 128)] * 2, like(4, 32, dtype=INT), like(4, dtype=INT))  # fmt: skip
def paged(q, k, v, pages, lengths):
    return paged_attention.paged_attention(q, k, v, pages, lengths)


@case(("layer_norm", "ln_"), like(4, 16, 1024), like(1024), like(1024), derivative=True)
def layer(x, weight, bias):
    return layer_norm.layer_norm(x, weight, bias)


@case(("rms_", "ln_"), like(4, 16, 1024), like(1024), like(1024), derivative=True)
def rms(x, weight, bias):
    return rms_norm.rms_norm(x, weight, bias)


@case(("softmax", "_vmappable"), like(64, 1024))
def rows(x):
    return softmax.softmax(x)
