"""Memory of the machine that runs kernels for GPUs (`mosaic_gpu_machine.py`): global, shared and of a lane, copies and barriers."""

import re

import ml_dtypes
import numpy as np

from jax._src.lib.mlir import ir

LANES = 128  # of a block
_LOCAL = 2**50  # addresses of memory that each lane has for itself

_DTYPES = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2, "i1": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "index": np.int64,
}  # fmt: skip


def dtype_of(kind):
    text = str(kind)
    if text.startswith("vector"):
        return np.dtype(_DTYPES[re.match(r"vector<\d+x(\w+)>", text)[1]])
    return np.dtype(np.int64) if text.startswith("!llvm.ptr") else np.dtype(_DTYPES[text])


def count_of(kind):
    match = re.match(r"vector<(\d+)x", str(kind))
    return int(match[1]) if match else None


class Memory:
    """What a machine has besides: memory, in which a value of MLIR has the bytes of its dtype."""

    def start_memory(self):
        self.memory = np.zeros(2**16, np.uint8)
        self.free = 4096
        self.shared = None  # of all blocks of the cluster, one after the other
        self.block_size = 0
        self.barriers = {}
        self.local = None
        self.local_used = 0
        self.descriptors = {}

    def _allocate(self, size):
        at = self.free
        self.free = -(-(at + size) // 256) * 256
        if self.free > len(self.memory):
            self.memory = np.concatenate([self.memory, np.zeros(2 * self.free, np.uint8)])
        return at

    def llvm_mlir_undef(self, op):
        return np.zeros(self.lanes, np.int64)

    def gpu_dynamic_shared_memory(self, op):
        return self.number * self.block_size

    def memref_extract_aligned_pointer_as_index(self, op, x):
        return x

    def llvm_insertvalue(self, op, struct, value):
        """Of what memrefs are, only where they begin is kept: sizes and strides are in their types."""
        (field, *_) = ir.DenseI64ArrayAttr(op.attributes["position"])
        return value if field == 1 else struct

    def _element(self, op, ref, index):
        kind = ir.MemRefType(op.operands[-1 - len(index)].type)
        strides, offset = kind.get_strides_and_offset()
        flat = sum([i * s for i, s in zip(index, strides)], offset)
        return ref + flat * dtype_of(kind.element_type).itemsize, str(kind.memory_space)

    def memref_load(self, op, ref, *index):
        at, space = self._element(op, ref, index)
        memory = self.shared if "workgroup" in space else self.memory
        dtype = dtype_of(op.results[0].type)
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
        dtype, n = dtype_of(kind), count_of(kind) or 1
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
        out = np.ascontiguousarray(memory[row, at]).view(dtype_of(kind))
        return out if count_of(kind) else out[:, 0]

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
        dtype = dtype_of(kind)
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

    def _load_box(self, descriptor, smem, start, barrier):
        """Copy a box to shared memory, zeros for what is beyond the array, and say so to a barrier."""
        gmem, place, inside, size = self._box(self.descriptors[int(descriptor)], smem, start)
        for b in range(size):
            data = self.memory[np.where(inside, gmem, 0) + b]
            self.shared[place + b] = np.where(inside, data, 0)
        self._arrived(barrier, 0, size * len(place))

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
                places = int(smem[lane]) + away, start, int(barrier[lane]) + away
                self._load_box(descriptor[lane], *places)

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

    def _copy_of_pair(self, chosen, barrier, leader, smem, descriptor, *coordinates):
        for lane in np.flatnonzero(chosen & self.mask):
            start = self._coordinates(coordinates, lane)
            away = int(leader[lane] - self.in_cluster[lane]) * self.block_size
            self._load_box(descriptor[lane], int(smem[lane]), start, int(barrier[lane]) + away)
        return []

    # Instructions

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

    def _stored_in_block(self, what, address, *values):
        *words, barrier = values
        for lane in np.flatnonzero(self.mask):
            for i, w in enumerate(words):
                at = int(address[lane]) + 4 * i
                place = self.shared[at : at + 4].view(np.int32)
                place[0] = w[lane] + (place[0] if what == "add" else 0)
            self._arrived(int(barrier[lane]), 0, 4 * len(words))
        return []


def swizzled(address, swizzle):
    """Where a byte of shared memory is whose pieces of 16 bytes are permuted in rows of some bytes."""
    return address if swizzle == 16 else address ^ (address >> 7 & swizzle // 16 - 1) << 4
