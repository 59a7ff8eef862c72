"""The tensor core and the tensor memory of Blackwell GPUs, for the machine that runs kernels' modules.

It decodes instructions and their descriptors as the device does: nothing is taken from how they are made.
"""

import re

import ml_dtypes
import numpy as np

_LANES, _COLUMNS = 128, 512
_WARPGROUP = 128
_KINDS = {
    "f16": [np.float16, ml_dtypes.bfloat16],
    "tf32": [None, None, np.float32],
    "f8f6f4": [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2],
    "i8": [np.uint8, np.int8],
}
_RESULTS = [np.float16, np.float32, np.int32]
_SCALE_DTYPES = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu]
# With scales: of which elements, of how many of them, and of how many elements an instruction has.
_EIGHT_BITS = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
_SCALED = {
    "mxf8f6f4": (_EIGHT_BITS, 32, "1X"),
    "mxf4": ([None, ml_dtypes.float4_e2m1fn], 64, "2X"),
    "mxf4nvf4": ([None, ml_dtypes.float4_e2m1fn], 64, "4X"),
}
# The lanes to which copies of rows are made.
_WARPS = np.arange(128).reshape(4, 32)
_COPIED_TO = {
    "32x128b.warpx4": _WARPS,
    "64x128b.warpx2::01_23": _WARPS[[[0, 2], [1, 3]]].reshape(2, 64),
    "128x128b": _WARPS.reshape(1, 128),
}


class TensorCore:
    """What a machine has besides: tensor memory for each block of the cluster."""

    def start_tensor_memory(self, blocks):
        self.tensor = np.full((blocks, _LANES, _COLUMNS), 0xFFFFFFFF, np.uint32)
        self.allocated = {}

    def end_tensor_memory(self):
        assert not self.allocated, "tensor memory that is not released"

    def tcgen05(self, op, code, args):
        name = re.match(r"tcgen05\.(\w+)", code)[1]
        if name in ("fence", "wait", "relinquish_alloc_permit"):
            return []
        return getattr(self, f"_tcgen05_{name}")(code, *args)

    def _blocks(self):
        """The blocks that run an operation, and one lane of each that does."""
        lanes = np.flatnonzero(self.mask)
        blocks, first = np.unique(self.in_cluster[lanes], return_index=True)
        return list(zip(blocks.tolist(), lanes[first].tolist()))

    def _tcgen05_alloc(self, code, pointer, count):
        assert self.mask.reshape(-1, 32).any(1).sum() == len(self.tensor), "one warp of each block"
        for block, lane in self._blocks():
            n = int(count[lane])
            assert 32 <= n <= _COLUMNS and not n & n - 1 and block not in self.allocated
            assert ("cta_group::2" in code) <= (len(self.tensor) % 2 == 0)
            self.allocated[block] = _COLUMNS - n, n
            at = int(pointer[lane])
            self.shared[at : at + 4] = np.array([_COLUMNS - n], np.int32).view(np.uint8)
        return []

    def _tcgen05_dealloc(self, code, base, count):
        for block, lane in self._blocks():
            assert self.allocated.pop(block) == (int(base[lane]), int(count[lane]))
        return []

    def _place(self, block, address, columns):
        """The lane and the column of an address, from which on there are so many columns."""
        lane, column = int(address) >> 16, int(address) & 0xFFFF
        base, n = self.allocated[block]
        assert base <= column and column + columns <= base + n, "columns beyond what is allocated"
        return lane, column

    # Copies of registers

    def _moved(self, code, address):
        """For each warp and register: the block, the lanes and the columns of each lane's words; and whether they have 16 bits."""
        assert self.mask.all(), "all lanes of the warpgroup"
        shape, times = re.search(r"aligned\.(\d+x\d+b)\.x(\d+)", code).groups()
        times, narrow = int(times), "pack::16b" in code
        lane = np.arange(32)
        if shape == "32x32b":
            registers = [(lane, np.full(32, i)) for i in range(times)]
        elif shape == "16x256b":
            registers = [
                (lane // 4 + 8 * (q // 2), 8 * r + 2 * (lane % 4) + q % 2)
                for r in range(times)
                for q in range(4)
            ]
        else:
            assert shape == "16x128b"
            registers = [
                (lane // 4 + 8 * q, 4 * r + lane % 4) for r in range(times) for q in range(2)
            ]
        width = 1 + max(int(c.max()) for _, c in registers)
        for first in range(0, self.lanes, 32):
            block, warp = first // _WARPGROUP, first % _WARPGROUP // 32
            assert (address[first : first + 32] == address[first]).all()
            row, column = self._place(block, address[first], width * (2 if narrow else 1))
            assert row in (0, 16) if shape != "32x32b" else row == 0
            for i, (r, c) in enumerate(registers):
                yield (
                    first,
                    i,
                    block,
                    32 * warp + row + r,
                    column + c * (2 if narrow else 1),
                    narrow,
                )

    def _tcgen05_ld(self, code, address):
        out = [np.zeros(self.lanes, np.uint32) for _ in range(code.count("$") - 1)]
        for first, i, block, rows, columns, narrow in self._moved(code, address):
            words = self.tensor[block, rows, columns]
            if narrow:
                words = words & 0xFFFF | self.tensor[block, rows, columns + 1] << 16
            out[i][first : first + 32] = words
        out = [x.view(np.int32) for x in out]
        return out if len(out) > 1 else out[0]

    def _tcgen05_st(self, code, address, *values):
        for first, i, block, rows, columns, narrow in self._moved(code, address):
            words = values[i].view(np.uint32)[first : first + 32]
            if narrow:
                self.tensor[block, rows, columns] = words & 0xFFFF
                self.tensor[block, rows, columns + 1] = words >> 16
            else:
                self.tensor[block, rows, columns] = words
        return []

    # Operations of the tensor core, which one lane starts

    def _starts(self):
        assert all([self.mask[self.in_cluster == b].sum() == 1 for b, _ in self._blocks()]), (
            "one lane of a block"
        )
        return self._blocks()

    def _tcgen05_cp(self, code, address, descriptor):
        pair = "cta_group::2" in code
        shape = re.search(r"(\d+x\d+b[\w.:]*)", code)[1].rstrip(" ")
        for first, lane in self._starts():
            for block in (first, first + 1) if pair else (first,):
                d = self._known(descriptor[lane])
                if shape == "128x256b":
                    words = self._matrix(
                        d, np.dtype(np.uint32), 128, 8, 0, (block - first) * self.block_size
                    )
                    lanes = np.arange(128)[None]
                else:
                    words = self._rows(d, int(shape.split("x")[0]), block - first)
                    lanes = _COPIED_TO[shape]
                row, column = self._place(block, address[lane], words.shape[1])
                assert row == 0
                for to in lanes:
                    self.tensor[block, to, column : column + words.shape[1]] = words
        return []

    def _rows(self, d, rows, away):
        """Rows of 16 bytes, of which eight are beside each other."""
        assert d >> 62 == 0, "no swizzle"
        start, stride = [((d >> at) & 0x3FFF) << 4 for at in (0, 32)]
        r = np.arange(rows)
        at = start + away * self.block_size + r // 8 * stride + r % 8 * 16
        return np.ascontiguousarray(self.shared[at[:, None] + np.arange(16)]).view(np.uint32)

    def _known(self, descriptor):
        d = int(descriptor) & (2**64 - 1)
        assert d >> 46 & 7 == 1, "the version of the descriptor"
        return d & ~(7 << 46)

    def _tcgen05_commit(self, code, pointer, mask=None):
        for block, lane in self._starts():
            to = 1 << block if mask is None else int(mask[lane])
            for b in range(len(self.tensor)):
                if to >> b & 1:
                    self._arrived(int(pointer[lane]) + (b - block) * self.block_size, 1)
        return []

    def _tcgen05_mma(self, code, target, left, right, *more):
        """A product: operands are followed by the positions of a sparse matrix, the descriptor, and scales."""
        blocks = 2 if "cta_group::2" in code else 1
        positions = more[0] if ".mma.sp." in code else None
        instruction, *scales, adds = more if positions is None else more[1:]
        kind = re.search(r"kind::(\w+)", code)[1]
        for block, lane in self._starts():
            assert blocks == 1 or block % 2 == 0
            d = int(instruction[lane]) & 0xFFFFFFFF
            field = lambda at, n: d >> at & (1 << n) - 1
            known, rows, result, each = self._decoded(kind, code, field, bool(scales))
            dtypes = [np.dtype(known[field(at, 3)]) for at in (7, 10)]
            columns = field(17, 6) << 3
            assert field(2, 1) == (positions is not None) and not field(13, 2)
            self._check_shape(kind, rows, columns, blocks)
            k = each or 32 // dtypes[0].itemsize
            wide_k = k if positions is None else 2 * k
            b = [
                self._numbers(
                    self._known(right[lane]), dtypes[1], columns // blocks, wide_k, field(16, 1), i
                )
                for i in range(blocks)
            ]
            wide = np.int32 if result is np.int32 else np.float32
            b = np.concatenate(b).astype(wide)
            for i in range(blocks):
                own = block + i
                a = self._left(code, own, left[lane], dtypes[0], rows // blocks, k, field(15, 1), i)
                a = a.astype(wide)
                if positions is not None:
                    word = positions[lane], field(0, 2)
                    a = self._dense(own, *word, a, dtypes[0].itemsize)
                of_b = b
                if scales:
                    of_scales = _SCALE_DTYPES[field(23, 1)]
                    n = int(re.search("scale_vec::(.)X", code)[1])
                    firsts = field(29, 2), field(4, 2)
                    a, of_b = [
                        x * np.repeat(self._scales(own, s[lane], f, len(x), n, of_scales), wide_k // n, 1)
                        for x, s, f in zip((a, b), scales, firsts)
                    ]  # fmt: skip
                self._add(own, target[lane], a @ of_b.T, result, adds[lane], blocks)
        return []

    def _decoded(self, kind, code, field, has_scales):
        """The dtypes of operands, the rows, the dtype of the result, and the elements of a row of the left matrix if they are known."""
        if not has_scales:
            assert not field(29, 3) and not field(3, 1)
            return _KINDS[kind], field(24, 5) << 4, _RESULTS[field(4, 2)], None
        known, k, vector = _SCALED[kind]
        assert f"block_scale.scale_vec::{vector} " in code and field(27, 2)
        assert field(23, 1) == (kind != "mxf4nvf4") and not field(3, 1) and not field(6, 1)
        assert field(29, 2) == field(4, 2) and field(4, 2) % int(vector[0]) == 0
        return known, field(27, 2) << 7, np.float32, k

    def _numbers(self, descriptor, dtype, outer, k, is_turned, away):
        away *= self.block_size
        if dtype != ml_dtypes.float4_e2m1fn:
            return self._matrix(descriptor, dtype, outer, k, is_turned, away)
        assert not is_turned
        pairs = self._matrix(descriptor, np.dtype(np.uint8), outer, k // 2, 0, away)
        return np.stack([pairs & 15, pairs >> 4], -1).reshape(outer, k).view(dtype)

    def _dense(self, block, address, part, a, size):
        """A sparse matrix, given which two of four elements are there."""
        rows, n = a.shape
        assert rows == 128 and (part < 2 if size == 2 else part == 0)
        lane, column = self._place(block, address, 2)
        words = self.tensor[block, :, column : column + 2]
        r, i = np.indices((rows, n))
        group, j = i // 2, i % 2
        if size == 2:
            # Lanes have a half of the groups of a row each, with those of a row eight further on.
            found = words[r >> 4 << 4 | group >> 2 << 3 | r & 7, part]
            at = (r >> 3 & 1) * 8 + group % 4 * 2 + j
        else:
            found, at = words[r, group // 8], group % 8 * 2 + j
        out = np.zeros((rows, 2 * n), a.dtype)
        out[r, 4 * group + (found >> (2 * at) & 3)] = a
        return out

    def _scales(self, block, address, first, rows, n, dtype):
        """The scales of rows: a lane of each warp has those of each 32th row."""
        lane, column = self._place(block, address, -(-rows // 32))
        assert lane == 0
        r = np.arange(rows)
        words = [self.tensor[block, w * 32 + r % 32, column + r // 32] for w in range(4)]
        assert all([(w == words[0]).all() for w in words]), "copies for each warp"
        out = [(words[0] >> 8 * (first + i) & 0xFF).astype(np.uint8).view(dtype) for i in range(n)]
        return np.stack(out, 1).astype(np.float32)

    def _check_shape(self, kind, rows, columns, blocks):
        assert rows in (64, 128) if blocks == 1 else rows in (128, 256)
        step = 32 if blocks == 2 else 8 if rows == 64 and kind != "i8" else 16
        assert 0 < columns <= 256 and columns % step == 0

    def _left(self, code, block, operand, dtype, rows, k, is_turned, away):
        if "[$1]" not in code:
            return self._numbers(self._known(operand), dtype, rows, k, is_turned, away)
        row, column = self._place(block, operand, 8)
        assert row == 0 and rows == 128 and not is_turned
        words = np.ascontiguousarray(self.tensor[block, :, column : column + 8])
        return words.view(dtype)

    def _add(self, block, address, product, result, adds, blocks):
        """Write a product where the tensor core does: its rows may be in half of the lanes, or its columns in both halves."""
        rows, columns = product.shape
        r, c = np.indices(product.shape)
        lane, column = r, c
        if rows == 64 and blocks == 1:
            lane = r // 16 * 32 + r % 16
        elif rows == 64:
            lane, column = r + 64 * (c // (columns // 2)), c % (columns // 2)
        first, start = self._place(block, address, int(column.max()) + 1)
        assert first == 0 or first == 16 and rows == 64 and blocks == 1
        lane, column = lane + first, column + start
        bits = np.dtype(result).itemsize * 8
        narrow = np.dtype(f"u{bits // 8}")
        if adds:
            old = self.tensor[block, lane, column].astype(narrow).view(result)
            product = old.astype(product.dtype) + product
        new = np.ascontiguousarray(product.astype(result)).view(narrow)
        self.tensor[block, lane, column] = new.astype(np.uint32)
