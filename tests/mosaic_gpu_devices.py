"""What the machine of `mosaic_gpu_machine.py` does on several devices: memory of others, and of all at once.

Devices run in step, as blocks of a cluster do. What is on all devices at once has addresses of its own, in a part for each operand.
"""

import re

import ml_dtypes
import numpy as np

_EVERYWHERE = 2**45
_PART = 2**32
_HEADER = 4

_TYPES = {
    "f32": np.float32, "f16x2": np.float16, "bf16x2": ml_dtypes.bfloat16, "s32": np.int32, "u32": np.uint32, "b32": np.int32,
    "s64": np.int64, "u64": np.uint64, "b64": np.int64,
}  # fmt: skip
_REDUCTIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


class Devices:
    """Mixin of the machine.

    Attributes:
      operands: the addresses of the operands on each device.
    """

    operands = ((),)

    def _operands(self, arrays, outputs):
        """Put a device's arrays into memory, and return the addresses of the operands."""
        addresses = [
            self._allocate(a.size * np.dtype(a.dtype).itemsize) for a in (*arrays, *outputs)
        ]
        for a, at in zip(arrays, addresses):
            self.memory[at : at + a.nbytes] = np.ascontiguousarray(a).view(np.uint8).reshape(-1)
        # Between arguments and results, and again at the end: semaphores, and what the profiler records.
        zeros = [self._allocate(4 * n) for n in self.zeros]
        return [*addresses[: len(arrays)], *zeros, *addresses[len(arrays) :], *zeros]

    def _results(self, outputs, addresses):
        out = []
        for like, at in zip(outputs, addresses):
            size = int(np.prod(like.shape)) * np.dtype(like.dtype).itemsize
            out.append(self.memory[at : at + size].copy().view(like.dtype).reshape(like.shape))
        return out

    def give_operands(self, operands):
        """Put the operands' addresses into memory, and what XLA says of them, and return where they are on each device."""
        self.operands = operands
        count = len(operands[0])
        everywhere = [_EVERYWHERE + i * _PART for i in range(count)]
        out = []
        for number, own in enumerate(operands):
            tables = [*np.array(operands).T.reshape(-1), *everywhere]
            words = self._words([number, *[0] * (_HEADER - 1), *tables])
            out.append(self._words([*own, words, words]))
        return np.array(out)

    def _words(self, values):
        at = self._allocate(8 * len(values))
        self.memory[at : at + 8 * len(values)] = np.array(values, np.int64).view(np.uint8)
        return at

    def _places(self, address):
        """The addresses of a place on each device."""
        operand, offset = divmod(int(address) - _EVERYWHERE, _PART)
        return [own[operand] + offset for own in self.operands]

    def multimem(self, code, args):
        """Run an instruction for all devices at once."""
        if match := re.match(r"multimem\.st\.relaxed\.sys\.global\.(?:v(\d)\.f32|b32) ", code):
            address, *words = args
            assert len(words) == int(match[1] or 1)
            for lane in np.flatnonzero(self.mask):
                assert address[lane] % (4 * len(words)) == 0
                for at in self._places(address[lane]):
                    for i, w in enumerate(words):
                        self.memory[at + 4 * i : at + 4 * i + 4].view(np.int32)[0] = w[lane]
            return []
        if code.startswith("multimem.red.release.sys.global.add.u32"):
            assert "fence.proxy.alias" in code
            for lane in np.flatnonzero(self.mask):
                for at in self._places(args[0][lane]):
                    self.memory[at : at + 4].view(np.int32)[0] += args[1][lane]
            return []
        match = re.match(
            r"multimem\.ld_reduce\.relaxed\.sys\.global\.(\w+)(\.acc::f32)?(?:\.v(\d))?\.(\w+) ",
            code,
        )
        dtype, n = np.dtype(_TYPES[match[4]]), int(match[3] or 1)
        assert bool(match[2]) == (match[1] == "add" and dtype.itemsize == 2)
        word = np.int64 if match[4].endswith("64") else np.int32
        size = np.dtype(word).itemsize * n
        out = np.zeros((self.lanes, n), word)
        for lane in np.flatnonzero(self.mask):
            assert args[0][lane] % size == 0
            parts = [self.memory[at : at + size].view(dtype) for at in self._places(args[0][lane])]
            if match[2]:
                parts = [p.astype(np.float32) for p in parts]
            total = parts[0]
            for p in parts[1:]:
                total = _REDUCTIONS[match[1]](total, p)
            out[lane] = total.astype(dtype).view(word)
        return list(out.T) if n > 1 else out[:, 0]
