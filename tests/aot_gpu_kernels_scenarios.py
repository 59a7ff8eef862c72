"""Operations for GPUs, forward and backward, compiled by Triton for an H100: how many registers their kernels take."""

import re
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import aot_programs
from kernel_resources import Operations, like

import jax.numpy as jnp
from jax.experimental.pallas.ops.gpu import (
    attention,
    decode_attention,
    layer_norm,
    paged_attention,
    rms_norm,
    softmax,
)

INT = jnp.int32


def _ptxas():
    folders = map(Path, find_spec("nvidia").submodule_search_locations)
    return next(path for folder in folders for path in folder.glob("*/bin/ptxas"))


def resources(f, *args, names):
    """Registers of each thread, and bytes of them kept in memory, of the kernels with these names that take most."""
    registers, spills = [], []
    with tempfile.TemporaryDirectory() as folder:
        aot_programs.compiled(f, *args, compiler_options={"xla_dump_to": folder})
        for path in Path(folder).glob("*.ptx"):
            entries = re.findall(r"\.entry (\w+)", path.read_text())
            if not any(entry.startswith(names) for entry in entries):
                continue
            command = [_ptxas(), "-v", "-arch=sm_90a", path, "-o", "/dev/null"]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
            registers += map(int, re.findall(r"Used (\d+) registers", said))
            spills += map(int, re.findall(r"(\d+) bytes spill", said))
    return {"registers": max(registers), "spills": sum(spills)}


CASES = Operations("h100", resources)
case = CASES.operation


def _mha(size, causal, q, k, v):
    sizes = attention.BlockSizes(*[size] * 6)
    return attention.mha(q, k, v, None, 0.125, causal, sizes)


@case(*[like(2, 256, 4, 64)] * 3, names="mha", derivative=True)
def mha_causal(q, k, v):
    return _mha(64, True, q, k, v)


@case(*[like(2, 256, 4, 128)] * 3, names="mha", derivative=True)
def mha_wide(q, k, v):
    return _mha(32, False, q, k, v)


@case(like(4, 32, 128), *[like(4, 1024, 2, 128)] * 2, names=("decode", "mha"))
def decode(q, k, v):
    return decode_attention.gqa(q, k, v, block_k=128, num_warps=4)


@case(
    like(4, 32, 128),
    *[like(2, 64, 16, 128)] * 2,
    like(4, 32, dtype=INT),
    like(4, dtype=INT),
    names="paged",
)
def paged(q, k, v, pages, lengths):
    return paged_attention.paged_attention(q, k, v, pages, lengths)


@case(like(4, 16, 1024), like(1024), like(1024), names=("layer_norm", "ln_"), derivative=True)
def layer(x, weight, bias):
    return layer_norm.layer_norm(x, weight, bias)


@case(like(4, 16, 1024), like(1024), like(1024), names=("rms_", "ln_"), derivative=True)
def rms(x, weight, bias):
    return rms_norm.rms_norm(x, weight, bias)


@case(like(64, 1024), names=("softmax", "_vmappable"))
def rows(x):
    return softmax.softmax(x)
