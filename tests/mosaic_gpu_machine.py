"""Runs the modules that kernels for GPUs (Mosaic GPU) become, on the CPU: all lanes of a warpgroup at once.

A value of MLIR is an array over lanes. It knows what the modules have: arithmetic, control flow, memory,
copies of tensors and products of `wgmma`, all of which are complete when they have been started. Clusters
run one after the other; their blocks, of one warpgroup each, do so in step, and so do devices. A wait for a barrier whose phase
is not complete then is an error.
"""

import operator
import re

import ml_dtypes
import numpy as np
import scipy.special
from mosaic_gpu_devices import Devices
from mosaic_gpu_memory import LANES, Memory, count_of, dtype_of, swizzled
from mosaic_gpu_tensor_core import TensorCore

import jax
from jax._src.lib.mlir import ir, passmanager
from jax._src.pallas.mosaic_gpu.lowering.launch import new_context

_MOST_SPINS = 1000


def lowered(call, *args):
    """A function as it is lowered for GPUs."""
    return jax.jit(call).trace(*args).lower(lowering_platforms=("cuda",))


def argument(rng, struct):
    """A random array of a shape and a dtype."""
    if struct.dtype.name == "uint2":  # two of four positions
        pairs = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]], np.uint8)
        chosen = rng.integers(6, size=(*struct.shape[:-1], struct.shape[-1] // 2))
        return pairs[chosen].reshape(struct.shape).astype(struct.dtype)
    if struct.dtype.name == "float8_e8m0fnu":
        return np.exp2(rng.integers(-3, 3, struct.shape)).astype(struct.dtype)
    if struct.dtype.kind == "i":
        return rng.integers(-50, 50, struct.shape, struct.dtype)
    return rng.normal(size=struct.shape).astype(struct.dtype)


def module_of(lowered):
    """The module of the one kernel of a lowered function, and its context."""
    found = []

    def look(op):
        if op.name == "stablehlo.custom_call" and "mosaic_gpu" in str(
            op.attributes["call_target_name"]
        ):
            config = ir.DictAttr(op.attributes["mhlo.backend_config"])
            found.append(ir.StringAttr(config["module"]).value_bytes)
        return ir.WalkResult.ADVANCE

    lowered.compiler_ir("stablehlo").operation.walk(look)
    (code,) = found
    context = new_context()
    context.allow_unregistered_dialects = True
    with context:
        module = ir.Module.parse(code)
        passmanager.PassManager.parse("builtin.module(mosaic_gpu-serde{serialize=false})").run(
            module.operation
        )
    return module


def printed(lowered, *arrays, outputs):
    """What the kernel of a lowered function prints, in the order in which lanes are run."""
    machine = Machine(module_of(lowered))
    machine.run([arrays], outputs)
    return "".join(machine.printed)


def run(lowered, *arrays, outputs, counters=0):
    """The arrays that the kernel of a lowered function, with some semaphores, makes of others."""
    (out,) = Machine(module_of(lowered), counters).run([arrays], outputs)
    return out


def run_profiled(lowered, *arrays, outputs, recorders, words, counters=0):
    """The arrays that a kernel makes, and what its profiler records: some words for each recorder."""
    machine = Machine(module_of(lowered), counters, recorders * words)
    (out,) = machine.run([arrays], outputs)
    at = machine.operands[0][-1]
    records = machine.memory[at : at + 4 * recorders * words].view(np.uint32)
    return out, records.reshape(recorders, words)


def run_on_devices(lowered, arrays, outputs, counters=0):
    """The arrays that a kernel on several devices makes of those of each, for each device."""
    return Machine(module_of(lowered), counters).run(arrays, outputs)


_WGMMA = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
          "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8}  # fmt: skip


def _packed(x):
    """An array as it is in memory, where several numbers of less than eight bits share a byte."""
    bits = {"float4_e2m1fn": 4, "uint2": 2}.get(x.dtype.name)
    if bits is None:
        return x
    parts = x.view(np.uint8).reshape(*x.shape[:-1], -1, 8 // bits)
    return np.bitwise_or.reduce(parts << np.arange(0, 8, bits, dtype=np.uint8), -1)


def _unsigned(x):
    return x.view(f"u{x.dtype.itemsize}") if x.dtype.kind == "i" else x


def _without_sign(function):
    return lambda x, y: function(_unsigned(x), _unsigned(y)).view(x.dtype)


def _quotient(x, y):
    return np.where(y == 0, 0, np.trunc(x / np.where(y == 0, 1, y))).astype(x.dtype)


_ARITHMETIC = {
    "addi": np.add, "subi": np.subtract, "muli": np.multiply, "andi": np.bitwise_and, "ori": np.bitwise_or,
    "xori": np.bitwise_xor, "shli": np.left_shift, "shrui": _without_sign(np.right_shift), "shrsi": np.right_shift,
    "divui": _without_sign(np.floor_divide), "remui": _without_sign(np.remainder), "divsi": _quotient,
    "remsi": np.fmod, "maxsi": np.maximum, "minsi": np.minimum, "maxui": _without_sign(np.maximum),
    "minui": _without_sign(np.minimum), "addf": np.add, "subf": np.subtract, "mulf": np.multiply,
    "divf": np.divide, "remf": np.fmod, "maximumf": np.maximum, "minimumf": np.minimum, "negf": np.negative,
    "select": lambda c, x, y: np.where(c if c.ndim == x.ndim else c[:, None], x, y),
}  # fmt: skip
_MATH = {
    "absf": np.abs, "absi": np.abs, "ceil": np.ceil, "floor": np.floor, "exp": np.exp, "exp2": np.exp2,
    "log": np.log, "log1p": np.log1p, "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "tanh": np.tanh, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "erf": scipy.special.erf,
    "erfc": scipy.special.erfc, "powf": np.power, "atan2": np.arctan2, "cbrt": np.cbrt, "roundeven": np.rint,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "ctpop": np.bitwise_count if hasattr(np, "bitwise_count") else None,
    "fma": lambda x, y, z: x * y + z,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}  # fmt: skip
_LIBRARY = {
    "fmod": np.fmod, "nextafter": np.nextafter, "erfinv": scipy.special.erfinv, "lgamma": scipy.special.gammaln,
}  # fmt: skip
_COMPARE = [operator.eq, operator.ne, *[operator.lt, operator.le, operator.gt, operator.ge] * 2]
_COMPARE_FLOATS = {
    1: operator.eq,
    2: operator.gt,
    3: operator.ge,
    4: operator.lt,
    5: operator.le,
    13: operator.ne,
}
_IGNORED = {
    "gpu.barrier", "nvvm.barrier", "nvvm.barrier0", "nvvm.fence.mbarrier.init", "nvvm.fence.proxy",
    "nvvm.bar.warp.sync", "nvvm.cluster.arrive", "nvvm.cluster.wait", "nvvm.cp.async.bulk.commit.group",
    "nvvm.cp.async.bulk.wait_group", "nvvm.wgmma.fence.aligned", "nvvm.wgmma.commit.group.sync.aligned",
    "nvvm.wgmma.wait.group.sync.aligned", "gpu.terminator", "func.return", "nvvm.setmaxregister",
}  # fmt: skip


class Machine(Memory, TensorCore, Devices):
    def __init__(self, module, counters=0, records=0):
        self.module = module
        self.zeros = [n for n in (counters, records) if n]  # sizes of arrays, in words
        self.clock = 2**32 - 25
        self.start_memory()
        self.printed = []
        self.values = {}
        self.lanes = 1
        self.mask = np.ones(1, bool)
        self.devices = 1

    def run(self, arrays_of_devices, outputs):
        operands = [
            self._operands([_packed(a) for a in arrays], outputs) for arrays in arrays_of_devices
        ]
        buffers = self.give_operands(operands)
        (host,) = [
            op
            for op in self.module.body
            if op.operation.name == "func.func" and str(op.name).endswith('_mosaic_gpu"')
        ]
        block = host.regions[0].blocks[0]
        self.devices = self.lanes = len(buffers)
        self.mask = np.ones(self.devices, bool)
        self.values = {
            block.arguments[0]: np.zeros(self.devices, np.int64),
            block.arguments[1]: buffers,
        }
        with np.errstate(all="ignore"):
            self.block(block)
        first = len(arrays_of_devices[0]) + len(self.zeros)
        return [self._results(outputs, addresses[first:]) for addresses in operands]

    # Control flow

    def block(self, block):
        for op in block:
            op = op.operation
            if op.name in ("scf.yield", "scf.condition"):
                return [self.values[x] for x in op.operands]
            self.operation(op)
        return []

    def operation(self, op):
        name = op.name
        if name in _IGNORED:
            return
        dialect, _, rest = name.partition(".")
        args = [self.values[x] for x in op.operands]
        method = getattr(self, re.sub(r"\W", "_", name), None)
        if method is not None:
            out = method(op, *args)
        elif dialect == "arith" and rest in _ARITHMETIC:
            out = self._elementwise(op, _ARITHMETIC[rest], args)
        elif dialect == "math":
            out = self._elementwise(op, _MATH[rest], args)
        else:
            raise NotImplementedError(name)
        if len(op.results) == 1:
            out = [out]
        for r, x in zip(op.results, out or ()):
            self.values[r] = x

    def _elementwise(self, op, function, args):
        dtype = dtype_of(op.results[0].type)
        if dtype.kind == "V" or dtype == ml_dtypes.bfloat16 or dtype == np.float16:
            return function(*[a.astype(np.float32) if a.dtype != bool else a for a in args]).astype(
                dtype
            )
        return function(*args).astype(dtype)

    def _masked(self, mask, block):
        before, self.mask = self.mask, mask
        out = self.block(block)
        self.mask = before
        return out

    def _where(self, mask, x, y):
        return np.where(mask if x.ndim == 1 else mask[:, None], x, y)

    def scf_if(self, op, condition):
        one, other = self.mask & condition, self.mask & ~condition
        blocks = [b for r in op.regions for b in r.blocks]
        outs = [self._masked(m, b) for m, b in zip((one, other), blocks) if m.any()]
        if len(outs) < 2:
            out = outs[0] if outs else []
        else:
            out = [self._where(one, x, y) for x, y in zip(*outs)]
        return out[0] if len(op.results) == 1 else out

    def scf_for(self, op, lower, upper, step, *carry):
        (block,) = op.regions[0].blocks
        carry = list(carry)
        for i in range(int(lower[0]), int(upper[0]), int(step[0])):
            self._give(block, [np.full_like(lower, i), *carry])
            carry = self.block(block)
        return carry[0] if len(op.results) == 1 else carry

    def _give(self, block, values):
        for a, x in zip(block.arguments, values, strict=True):
            self.values[a] = x

    def scf_while(self, op, *carry):
        before, after = op.regions[0].blocks[0], op.regions[1].blocks[0]
        carry, mask = list(carry), self.mask
        for _ in range(_MOST_SPINS):
            self._give(before, carry)
            go_on, *values = self._masked(mask, before)
            mask = mask & go_on
            if not mask.any():
                return values[0] if len(op.results) == 1 else values
            self._give(after, values)
            new = self._masked(mask, after)
            carry = [self._where(mask, x, y) for x, y in zip(new, values)]
        raise AssertionError("a loop that does not end")

    def gpu_launch(self, op, token, x, y, z, tx, ty, tz, *rest):
        assert int(tx[0]) == LANES, "kernels of one warpgroup"
        cluster = int(rest[0][0]) if len(rest) > 1 else 1
        self.block_size = (int(rest[-1][0]) + 2047) // 1024 * 1024
        host = self.lanes, self.mask, dict(self.values)
        self.lanes = LANES * cluster * self.devices
        self.mask = np.ones(self.lanes, bool)
        self.lane = np.arange(self.lanes) % LANES
        self.number = np.arange(self.lanes) // LANES  # of the block, among those that run in step
        self.in_cluster = self.number % cluster
        self.local = np.zeros((self.lanes, 2**12), np.uint8)
        for k, v in host[2].items():
            if isinstance(v, np.ndarray):
                self.values[k] = np.repeat(v, LANES * cluster, 0)
        self.waiting = list(range(0, int(x[0]), cluster))
        while self.waiting:
            self.block_id = self.waiting.pop(0) + self.in_cluster
            self.shared = np.full(self.block_size * cluster * self.devices, 0xFF, np.uint8)
            self.barriers = {}
            self.local_used = 0
            self.start_tensor_memory(cluster)
            self.block(op.regions[0].blocks[0])
            self.end_tensor_memory()
        self.lanes, self.mask, self.values = host
        return token

    # Positions

    def gpu_thread_id(self, op):
        return self.lane

    def gpu_block_id(self, op):
        return self.block_id

    def nvvm_shfl_sync(self, op, mask, x, offset, clamp):
        lane = np.arange(self.lanes)
        kind = re.search(r"shfl_kind\W(\w+)", str(op.attributes["kind"]))[1]
        source = lane ^ offset if kind == "bfly" else lane // 32 * 32 + offset
        return x[source]

    def nvvm_elect_sync(self, op):
        return self.lane % 32 == 0

    # What is printed, by each lane that does, and checks

    def gpu_printf(self, op, *values):
        text = ir.StringAttr(op.attributes["format"]).value.replace("ll", "").replace("%u", "%d")
        for lane in np.flatnonzero(self.mask):
            self.printed.append(text % tuple([v[lane].item() for v in values]))

    def cf_assert(self, op, holds):
        assert holds[self.mask].all(), ir.StringAttr(op.attributes["msg"]).value

    # Values

    def arith_constant(self, op):
        attribute, kind = op.attributes["value"], op.results[0].type
        if isinstance(attribute, ir.BoolAttr) or str(kind) == "i1":
            value = str(attribute).startswith("true")
        else:
            cls = ir.FloatAttr if isinstance(attribute, ir.FloatAttr) else ir.IntegerAttr
            value = cls(attribute).value
        return np.full(self.lanes, value, dtype_of(kind))

    llvm_mlir_constant = arith_constant

    def arith_cmpi(self, op, x, y):
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        if predicate > 5:
            x, y = _unsigned(x), _unsigned(y)
        return _COMPARE[predicate](x, y)

    def arith_cmpf(self, op, x, y):
        return _COMPARE_FLOATS[ir.IntegerAttr(op.attributes["predicate"]).value](x, y)

    def _cast(self, op, x):
        return x.astype(dtype_of(op.results[0].type))

    arith_extf = arith_truncf = arith_sitofp = arith_fptosi = arith_extsi = arith_index_cast = _cast

    def arith_trunci(self, op, x):
        dtype = dtype_of(op.results[0].type)
        return (x & 1).astype(bool) if dtype.kind == "b" else x.astype(dtype)

    def arith_extui(self, op, x):
        return _unsigned(x).astype(dtype_of(op.results[0].type))

    def arith_uitofp(self, op, x):
        return _unsigned(x).astype(dtype_of(op.results[0].type))

    def arith_fptoui(self, op, x):
        dtype = dtype_of(op.results[0].type)
        return x.astype(f"u{dtype.itemsize}").view(dtype)

    def arith_bitcast(self, op, x):
        return np.ascontiguousarray(x).view(dtype_of(op.results[0].type))

    llvm_bitcast = arith_bitcast

    def vector_broadcast(self, op, x):
        return np.repeat(x[:, None], count_of(op.results[0].type), 1)

    def vector_extract(self, op, x):
        (i,) = ir.DenseI64ArrayAttr(op.attributes["static_position"])
        return x[:, i]

    def vector_from_elements(self, op, *xs):
        return np.stack(xs, 1)

    def vector_bitcast(self, op, x):
        return np.ascontiguousarray(x).view(dtype_of(op.results[0].type))

    def builtin_unrealized_conversion_cast(self, op, x):
        return x

    def llvm_call(self, op, *args):
        name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        return _LIBRARY[name.removeprefix("__nv_").removesuffix("f")](*args).astype(args[0].dtype)

    # Instructions

    def llvm_inline_asm(self, op, *args):
        code = ir.StringAttr(op.attributes["asm_string"]).value
        if code.startswith("multimem."):
            return self.multimem(code, args)
        if code.startswith("tcgen05."):
            return self.tcgen05(op, code, args)
        if match := re.match(r"cvt\.rn\.(?:satfinite\.|f16x2\.)(e\dm\d)x2", code):
            return self._narrow(np.dtype(_WGMMA[match[1]]), "satfinite" in code, *args)
        if "clusterlaunchcontrol" in code:
            return self._take_over(code, *args)
        if "cp.async.bulk.tensor" in code:
            return self._copy_of_pair(*args)
        if code.startswith("mma.sync"):
            return self._mma_of_warps(code, *args)
        if "wgmma" in code:
            parts = []
            for lanes in np.arange(self.lanes).reshape(-1, LANES):
                parts.append(self._wgmma(code, [a[lanes] for a in args]))
            return [np.concatenate(p) for p in zip(*parts)]
        if "%" in code:
            return self._measured(op, code, *args)
        if code.startswith("mapa"):
            return args[0] + (args[1] - self.in_cluster) * self.block_size
        if "expect_tx" in code:
            self.nvvm_mbarrier_arrive(op, *args)
            return []
        if match := re.match(r"(?:st|red)\.async.*bytes\.(\w+)", code):
            return self._stored_in_block(match[1], *args)
        if "mapa" in code:
            return self._arrive_at_block(*args)
        if match := re.match(r"mbarrier.arrive.*, (\d+);", code):
            for lane in np.flatnonzero(self.mask):
                self._arrived(int(args[0][lane]), int(match[1]))
            return []
        if "mbarrier.test_wait" in code:
            phases = [self.barriers[int(p)][3] if m else 0 for p, m in zip(args[0], self.mask)]
            return (np.array(phases) % 2 != args[1]).astype(np.int32)
        if match := re.match(r"(red|ld|atom)\.", code):
            return getattr(self, f"_{match[1]}")(*args)
        return list(args) if code == "" else []

    def _measured(self, op, code, *args):
        """Read a clock of ten cycles for each reading, the time of two cycles a nanosecond, or the multiprocessor."""
        if "%smid" in code:
            return (5 + self.block_id).astype(np.int32)
        self.clock += 10
        clock = np.uint32(self.clock % 2**32).view(np.int32)
        if "%globaltimer" in code:
            return np.full(self.lanes, self.clock // 2, np.int64)
        if "st.shared.v2" not in code:
            return np.full(self.lanes, clock)
        chosen, pointer, event = args
        for lane in np.flatnonzero(chosen & self.mask):
            at = int(pointer[lane])
            assert at % 8 == 0
            self.shared[at : at + 8].view(np.int32)[:] = event[lane], clock
        return []

    def llvm_extractvalue(self, op, values):
        (i,) = ir.DenseI64ArrayAttr(op.attributes["position"])
        return values[i]

    def _wgmma(self, code, args):
        m = re.search(
            r"m64n(\d+)k(\d+)\.(\w+)\.(\w+)\.\w+ \{(.*?)\}, (\{.*?\}|\$\d+), \$\d+, p([^;]*);", code
        )
        columns, k = int(m[1]), int(m[2])
        result, dtype = m[3], np.dtype(_WGMMA[m[4]])
        n = m[5].count("$")
        flags = [int(x) for x in m[7].replace(" ", "").split(",") if x]
        turned = flags[2:] if dtype.itemsize == 2 else [0, 0]
        registers, operands = args[:n], args[n:]
        right = self._matrix(operands[-1][0], dtype, columns, k, turned[-1] if turned else 0)
        if m[6].startswith("{"):
            left = np.zeros((64, k), dtype)
            for i, x in enumerate(operands[:-1]):
                pairs = np.ascontiguousarray(x[:, None]).view(dtype)
                for lane in range(LANES):
                    row = lane // 32 * 16 + lane % 32 // 4 + 8 * (i % 2)
                    column = lane % 4 * 2 + 8 * (i // 2)
                    left[row, column : column + 2] = pairs[lane]
        else:
            left = self._matrix(operands[0][0], dtype, 64, k, turned[0])
        wide = np.int32 if result == "s32" else np.float32
        total = left.astype(wide) @ right.astype(wide).T
        lane = np.arange(LANES)
        out = []
        for i in range(columns // 2):
            row = lane // 32 * 16 + lane % 32 // 4 + 8 * (i // 2 % 2)
            out.append(total[row, i // 4 * 8 + lane % 4 * 2 + i % 2])
        if result == "f16":
            sums = [np.ascontiguousarray(r[:, None]).view(np.float16) for r in registers]
            new = [
                (s + np.stack(out[2 * i : 2 * i + 2], 1)).astype(np.float16)
                for i, s in enumerate(sums)
            ]
            return [np.ascontiguousarray(x).view(np.int32)[:, 0] for x in new]
        return [r + x for r, x in zip(registers, out)]

    def _mma_of_warps(self, code, *args):
        """Each warp multiplies 16 rows by 8 columns."""
        dtype = np.dtype(_WGMMA[re.search(r"row.col.f32.(\w+)", code)[1]])
        halves = lambda x: np.ascontiguousarray(x.reshape(-1, 32, 1)).view(dtype).astype(np.float32)
        lane = np.arange(32)
        warps = self.lanes // 32
        a, b = np.zeros((warps, 16, 16), np.float32), np.zeros((warps, 16, 8), np.float32)
        for i in range(4):
            for k in range(2):
                column = lane % 4 * 2 + 8 * (i // 2) + k
                a[:, lane // 4 + 8 * (i % 2), column] = halves(args[i])[:, :, k]
                if i < 2:
                    b[:, lane % 4 * 2 + 8 * i + k, lane // 4] = halves(args[4 + i])[:, :, k]
        product = a @ b
        return [
            x + product[:, lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2].reshape(-1)
            for i, x in enumerate(args[6:])
        ]

    def _narrow(self, dtype, to, *args):
        """Convert two numbers to, or from, eight bits, with the first operand, or part, as the high one."""
        if to:
            largest = float(ml_dtypes.finfo(dtype).max)
            high, low = [np.clip(a, -largest, largest).astype(dtype).view(np.uint8) for a in args]
            return (low | high.astype(np.uint16) << 8).view(np.int16)
        (pair,) = args
        halves = np.ascontiguousarray(pair[:, None]).view(dtype).astype(np.float16)
        return np.ascontiguousarray(halves).view(np.int32)[:, 0]

    def _take_over(self, code, *args):
        """Answer that a cluster that waits is not started, which each block is told, or read the answer."""
        if "try_cancel" in code:
            (lane,) = np.flatnonzero(self.mask)
            assert self.in_cluster[lane] == 0
            first = self.waiting.pop(0) if self.waiting else -1
            for block in range(self.lanes // LANES):
                away = block * self.block_size
                at = int(args[0][lane]) + away
                assert at % 16 == 0
                self.shared[at : at + 16] = np.array([first] * 4, np.int32).view(np.uint8)
                self._arrived(int(args[1][lane]) + away, 0, 16)
            return []
        (pointer,) = args
        answer = np.array([self.shared[p : p + 4].view(np.int32)[0] for p in pointer], np.int32)
        return [(answer >= 0).astype(np.int32), np.maximum(answer, 0)]

    def _matrix(self, descriptor, dtype, outer, inner, is_turned, away=0):
        d = int(descriptor) & (2**64 - 1)
        start, leading, stride = [((d >> s) & 0x3FFF) << 4 for s in (0, 16, 32)]
        swizzle = {1: 128, 2: 64, 3: 32}[d >> 62]
        i, k = np.indices((outer, inner))
        size = dtype.itemsize
        if is_turned:
            row = swizzle // size
            at = i // row * leading + k // 8 * stride + k % 8 * swizzle + i % row * size
        else:
            at = i // 8 * stride + i % 8 * swizzle + k * size
        at = swizzled(start + away + at, swizzle)
        return np.ascontiguousarray(self.shared[at[..., None] + np.arange(size)]).view(dtype)[
            ..., 0
        ]
