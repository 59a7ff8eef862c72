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
from mosaic_gpu_tensor_core import TensorCore

import jax
from jax._src.lib.mlir import ir, passmanager
from jax._src.pallas.mosaic_gpu.lowering.launch import new_context

LANES = 128
_LOCAL = 2**50  # addresses of memory that each lane has for itself
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


def run_on_devices(lowered, arrays, outputs, counters=0):
    """The arrays that a kernel on several devices makes of those of each, for each device."""
    return Machine(module_of(lowered), counters).run(arrays, outputs)


_DTYPES = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2, "i1": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "index": np.int64,
}  # fmt: skip
_WGMMA = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
          "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8}  # fmt: skip


def _dtype(kind):
    text = str(kind)
    if text.startswith("vector"):
        return np.dtype(_DTYPES[re.match(r"vector<\d+x(\w+)>", text)[1]])
    return np.dtype(np.int64) if text.startswith("!llvm.ptr") else np.dtype(_DTYPES[text])


def _packed(x):
    """An array as it is in memory, where several numbers of less than eight bits share a byte."""
    bits = {"float4_e2m1fn": 4, "uint2": 2}.get(x.dtype.name)
    if bits is None:
        return x
    parts = x.view(np.uint8).reshape(*x.shape[:-1], -1, 8 // bits)
    return np.bitwise_or.reduce(parts << np.arange(0, 8, bits, dtype=np.uint8), -1)


def _count(kind):
    match = re.match(r"vector<(\d+)x", str(kind))
    return int(match[1]) if match else None


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


class Machine(TensorCore, Devices):
    def __init__(self, module, counters=0):
        self.module = module
        self.counters = counters
        self.memory = np.zeros(2**16, np.uint8)
        self.free = 4096
        self.shared = None  # of all blocks of the cluster, one after the other
        self.block_size = 0
        self.barriers = {}
        self.local = None
        self.local_used = 0
        self.descriptors = {}
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
        first = len(arrays_of_devices[0]) + bool(self.counters)
        return [self._results(outputs, addresses[first:]) for addresses in operands]

    def _allocate(self, size):
        at = self.free
        self.free = -(-(at + size) // 256) * 256
        if self.free > len(self.memory):
            self.memory = np.concatenate([self.memory, np.zeros(2 * self.free, np.uint8)])
        return at

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
        dtype = _dtype(op.results[0].type)
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
        return np.full(self.lanes, value, _dtype(kind))

    llvm_mlir_constant = arith_constant

    def arith_cmpi(self, op, x, y):
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        if predicate > 5:
            x, y = _unsigned(x), _unsigned(y)
        return _COMPARE[predicate](x, y)

    def arith_cmpf(self, op, x, y):
        return _COMPARE_FLOATS[ir.IntegerAttr(op.attributes["predicate"]).value](x, y)

    def _cast(self, op, x):
        return x.astype(_dtype(op.results[0].type))

    arith_extf = arith_truncf = arith_sitofp = arith_fptosi = arith_extsi = arith_index_cast = _cast

    def arith_trunci(self, op, x):
        dtype = _dtype(op.results[0].type)
        return (x & 1).astype(bool) if dtype.kind == "b" else x.astype(dtype)

    def arith_extui(self, op, x):
        return _unsigned(x).astype(_dtype(op.results[0].type))

    def arith_uitofp(self, op, x):
        return _unsigned(x).astype(_dtype(op.results[0].type))

    def arith_fptoui(self, op, x):
        dtype = _dtype(op.results[0].type)
        return x.astype(f"u{dtype.itemsize}").view(dtype)

    def arith_bitcast(self, op, x):
        return np.ascontiguousarray(x).view(_dtype(op.results[0].type))

    llvm_bitcast = arith_bitcast

    def vector_broadcast(self, op, x):
        return np.repeat(x[:, None], _count(op.results[0].type), 1)

    def vector_extract(self, op, x):
        (i,) = ir.DenseI64ArrayAttr(op.attributes["static_position"])
        return x[:, i]

    def vector_from_elements(self, op, *xs):
        return np.stack(xs, 1)

    def vector_bitcast(self, op, x):
        return np.ascontiguousarray(x).view(_dtype(op.results[0].type))

    def builtin_unrealized_conversion_cast(self, op, x):
        return x

    # Memory

    def llvm_mlir_undef(self, op):
        return np.zeros(self.lanes, np.int64)

    def gpu_dynamic_shared_memory(self, op):
        return self.number * self.block_size

    def memref_extract_aligned_pointer_as_index(self, op, x):
        return x

    def llvm_call(self, op, *args):
        name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        return _LIBRARY[name.removeprefix("__nv_").removesuffix("f")](*args).astype(args[0].dtype)

    def llvm_insertvalue(self, op, struct, value):
        """Of what memrefs are, only where they begin is kept: sizes and strides are in their types."""
        (field, *_) = ir.DenseI64ArrayAttr(op.attributes["position"])
        return value if field == 1 else struct

    def _element(self, op, ref, index):
        kind = ir.MemRefType(op.operands[-1 - len(index)].type)
        strides, offset = kind.get_strides_and_offset()
        flat = sum([i * s for i, s in zip(index, strides)], offset)
        return ref + flat * _dtype(kind.element_type).itemsize, str(kind.memory_space)

    def memref_load(self, op, ref, *index):
        at, space = self._element(op, ref, index)
        memory = self.shared if "workgroup" in space else self.memory
        dtype = _dtype(op.results[0].type)
        at = np.where(self.mask, at, 0)[:, None] + np.arange(dtype.itemsize)
        return np.ascontiguousarray(memory[at]).view(dtype)[:, 0]

    def memref_store(self, op, value, ref, *index):
        at, space = self._element(op, ref, index)
        memory = self.shared if "workgroup" in space else self.memory
        at = at[:, None] + np.arange(value.dtype.itemsize)
        data = np.ascontiguousarray(value[:, None]).view(np.uint8)
        memory[at[self.mask]] = data[self.mask]

    def llvm_inttoptr(self, op, x):
        return x

    llvm_ptrtoint = llvm_inttoptr

    def llvm_getelementptr(self, op, base, *dynamic):
        (i,) = ir.DenseI32ArrayAttr(op.attributes["rawConstantIndices"])
        kind = str(ir.TypeAttr(op.attributes["elem_type"]).value)
        size = 8 if kind.startswith("!llvm") else np.dtype(_DTYPES[kind]).itemsize
        if dynamic and dynamic[0].dtype == np.int32:
            assert (dynamic[0][self.mask] >= 0).all()
        return base + (dynamic[0].astype(np.int64) if dynamic else i) * size

    def llvm_alloca(self, op, count):
        kind = str(ir.TypeAttr(op.attributes["elem_type"]).value)
        match = re.match(r"!llvm.array<(\d+) x i8>", kind)
        size = int(count[0]) * (int(match[1]) if match else np.dtype(_DTYPES[kind]).itemsize)
        if self.lanes == self.devices:
            return np.array([self._allocate(size) for _ in range(self.lanes)])
        at = self.local_used
        self.local_used += size
        return np.full(self.lanes, _LOCAL + at)

    def _bytes(self, op, pointer, kind):
        """Rows of bytes: the memory, the row of each lane in it, and the places in the row."""
        dtype, n = _dtype(kind), _count(kind) or 1
        at = pointer[:, None] + np.arange(dtype.itemsize * n)
        pointer_kind = str(op.operands[-1].type)
        alignment = op.attributes["alignment"] if "alignment" in op.attributes else None
        if alignment is not None:
            assert not (pointer[self.mask] % ir.IntegerAttr(alignment).value).any(), "alignment"
        if "<3>" in pointer_kind or "<7>" in pointer_kind:
            return self.shared[None], 0, at
        if pointer[0] >= _LOCAL:
            return self.local, np.arange(self.lanes)[:, None], at - _LOCAL
        return self.memory[None], 0, at

    def llvm_load(self, op, pointer):
        kind = op.results[0].type
        if str(kind).startswith("!llvm.array"):
            return pointer  # of descriptors: these are known by where they are
        memory, row, at = self._bytes(op, pointer, kind)
        at = np.where(self.mask[:, None], at, 0)
        if isinstance(row, np.ndarray):
            row = row[: len(at)]
        out = np.ascontiguousarray(memory[row, at]).view(_dtype(kind))
        return out if _count(kind) else out[:, 0]

    def llvm_store(self, op, value, pointer):
        memory, row, at = self._bytes(op, pointer, op.operands[0].type)
        data = np.ascontiguousarray(value if value.ndim == 2 else value[:, None]).view(np.uint8)
        if isinstance(row, np.ndarray):
            memory[row[self.mask], at[self.mask]] = data[self.mask]
        else:
            memory[row, at[self.mask]] = data[self.mask]

    def llvm_atomicrmw(self, op, pointer, value):
        kind = op.operands[1].type
        names = {
            1: np.add,
            3: np.bitwise_and,
            5: np.bitwise_or,
            6: np.bitwise_xor,
            7: np.maximum,
            8: np.minimum,
        }
        names |= {11: np.add, 13: np.maximum, 14: np.minimum, 9: np.maximum, 10: np.minimum}
        function = names[ir.IntegerAttr(op.attributes["bin_op"]).value]
        dtype = _dtype(kind)
        memory = self.shared if "<3>" in str(op.operands[0].type) else self.memory
        out = np.zeros(self.lanes, dtype)
        for lane in np.flatnonzero(self.mask):
            part = memory[pointer[lane] : pointer[lane] + dtype.itemsize].view(dtype)
            out[lane] = part[0]
            part[0] = function(part[0], value[lane])
        return out

    # Copies

    def func_call(self, op, pointer, base, code, rank, sizes, strides, swizzle, box):
        array = lambda at: self.memory[at : at + 8 * rank[0]].view(np.int64).tolist()
        for i, at in enumerate(pointer):
            self.descriptors[int(at)] = (
                int(base[i]), int(code[i]), array(sizes[i]), array(strides[i]), int(swizzle[i]), array(box[i]),
            )  # fmt: skip

    # Barriers: how many arrive in a phase, how many are missing, how many bytes are, and the number of the phase

    def nvvm_mbarrier_init(self, op, pointer, count):
        for lane in np.flatnonzero(self.mask):
            self.barriers[int(pointer[lane])] = [int(count[lane])] * 2 + [0, 0]

    def nvvm_mbarrier_inval(self, op, pointer):
        for lane in np.flatnonzero(self.mask):
            del self.barriers[int(pointer[lane])]

    def nvvm_mbarrier_arrive(self, op, pointer, size=None):
        for lane in np.flatnonzero(self.mask):
            at = int(pointer[lane])
            self.barriers[at][2] += 0 if size is None else int(size[lane])
            self._arrived(at, 1)
        return np.zeros(self.lanes, np.int64)

    nvvm_mbarrier_arrive_expect_tx = nvvm_mbarrier_arrive

    def _arrived(self, at, arrivals, size=0):
        barrier = self.barriers[at]
        assert barrier[1] >= arrivals, "more arrivals than the barrier has"
        barrier[1] -= arrivals
        barrier[2] -= size
        if not barrier[1] and not barrier[2]:
            barrier[1], barrier[3] = barrier[0], barrier[3] + 1

    def nvvm_mbarrier_try_wait_parity(self, op, pointer, parity, ticks):
        for lane in np.flatnonzero(self.mask):
            phase = self.barriers[int(pointer[lane])][3]
            assert phase % 2 != parity[lane], "a wait for arrivals that do not come"

    def _box(self, descriptor, smem, start):
        """Addresses of the elements of a box in global and shared memory, and which are in the array."""
        base, code, sizes, strides, swizzle, box = descriptor
        if together := {0: 2, 8: 4}.get(code):  # elements that share a byte
            last = lambda values: [*values[:-1], values[-1] // together]
            sizes, box, start = last(sizes), last(box), last(start)
            strides, code = [*[s // together for s in strides[:-1]], 1], 1
        itemsize = {1: 1, 2: 2, 3: 4, 4: 8, 5: 2, 6: 4, 7: 2}[code]
        index = np.indices(box).reshape(len(box), -1)
        at = index + np.array(start)[:, None]
        inside = ((at >= 0) & (at < np.array(sizes)[:, None])).all(0)
        gmem = base + (at * np.array(strides)[:, None]).sum(0) * itemsize
        place = swizzled(smem + np.arange(index.shape[1]) * itemsize, swizzle)
        return gmem, place, inside, itemsize

    def _coordinates(self, values, lane):
        return [int(v[lane]) for v in reversed(values)]

    def nvvm_cp_async_bulk_tensor_shared_cluster_global(self, op, smem, descriptor, *rest):
        n, extra = len(self.descriptors[int(descriptor[0])][2]), rest
        sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        assert sizes[2] == n and sizes[-1] == 1
        coordinates, barrier, chosen = extra[:n], extra[n], extra[-1] & self.mask
        lanes = np.flatnonzero(chosen)
        assert len(set(self.number[lanes])) == len(lanes), "one lane of each block"
        for lane in lanes:
            start = self._coordinates(coordinates, lane)
            own = self.in_cluster[lane]
            to = 1 << int(own) if sizes[-3] == 0 else int(extra[-2][lane])
            assert to < 1 << self.lanes // LANES
            for block in [b for b in range(16) if to >> b & 1]:
                away = int(block - own) * self.block_size
                gmem, place, inside, size = self._box(
                    self.descriptors[int(descriptor[lane])], int(smem[lane]) + away, start
                )
                for b in range(size):
                    data = self.memory[np.where(inside, gmem, 0) + b]
                    self.shared[place + b] = np.where(inside, data, 0)
                self._arrived(int(barrier[lane]) + away, 0, size * len(place))

    def nvvm_cp_async_bulk_tensor_global_shared_cta(self, op, descriptor, smem, *rest):
        n = len(self.descriptors[int(descriptor[0])][2])
        coordinates, chosen = rest[:n], rest[-1] & self.mask
        for lane in np.flatnonzero(chosen):
            start = self._coordinates(coordinates, lane)
            gmem, place, inside, size = self._box(
                self.descriptors[int(descriptor[lane])], int(smem[lane]), start
            )
            for b in range(size):
                self.memory[gmem[inside] + b] = self.shared[place[inside] + b]

    def nvvm_cp_async_bulk_tensor_prefetch(self, op, descriptor, *coordinates):
        (lane,) = np.flatnonzero(self.mask)
        known = self.descriptors[int(descriptor[0])]
        *_, inside, _ = self._box(known, 0, self._coordinates(coordinates, lane))
        assert inside.any()

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

    def _arrive_at_block(self, chosen, pointer, block):
        for lane in np.flatnonzero(chosen & self.mask):
            away = int(block[lane] - self.in_cluster[lane]) * self.block_size
            self._arrived(int(pointer[lane]) + away, 1)
        return []

    def _word(self, pointer, lane):
        return self.memory[pointer[lane] : pointer[lane] + 4].view(np.int32)

    def _red(self, pointer, value):
        for lane in np.flatnonzero(self.mask):
            self._word(pointer, lane)[:] += value[lane]
        return []

    def _ld(self, pointer):
        out = np.zeros(self.lanes, np.int32)
        for lane in np.flatnonzero(self.mask):
            out[lane] = self._word(pointer, lane)[0]
        return out

    def _atom(self, pointer, expected, new):
        out = self._ld(pointer)
        for lane in np.flatnonzero(self.mask):
            word = self._word(pointer, lane)
            if word[0] == expected[lane]:
                word[:] = new[lane]
        return out

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

    def _stored_in_block(self, what, address, *values):
        *words, barrier = values
        for lane in np.flatnonzero(self.mask):
            for i, w in enumerate(words):
                at = int(address[lane]) + 4 * i
                place = self.shared[at : at + 4].view(np.int32)
                place[0] = w[lane] + (place[0] if what == "add" else 0)
            self._arrived(int(barrier[lane]), 0, 4 * len(words))
        return []

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

    def _copy_of_pair(self, chosen, barrier, leader, smem, descriptor, *coordinates):
        for lane in np.flatnonzero(chosen & self.mask):
            start = self._coordinates(coordinates, lane)
            known = self.descriptors[int(descriptor[0])]
            gmem, place, inside, size = self._box(known, int(smem[lane]), start)
            for b in range(size):
                data = self.memory[np.where(inside, gmem, 0) + b]
                self.shared[place + b] = np.where(inside, data, 0)
            away = int(leader[lane] - self.in_cluster[lane]) * self.block_size
            self._arrived(int(barrier[lane]) + away, 0, size * len(place))
        return []

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


def swizzled(address, swizzle):
    """Where a byte of shared memory is whose pieces of 16 bytes are permuted in rows of some bytes."""
    return address if swizzle == 16 else address ^ (address >> 7 & swizzle // 16 - 1) << 4
