"""Compiles kernels for a Blackwell GPU that is not there, and prints their PTX: a program of its own.

The compiler keeps the architecture of the first kernel that it compiles, which is another one in other tests.
"""

import os
import sys

MARK = "// kernel: "


def main(names):
    """Print the PTX of kernels, each after a line with its name; of those that cannot be compiled, the error."""
    from aot_programs import topology
    from pallas_blackwell_kernels import KERNELS, SPECIALIZED

    import jax

    sharding = jax.sharding.SingleDeviceSharding(topology("b200").devices[0])
    for name in names:
        kernel = {**KERNELS, "specialized": SPECIALIZED}[name]
        args = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in kernel.args]
        print(f"{MARK}{name}", flush=True)
        try:
            text = jax.jit(kernel.call).lower(*args).compile().as_text()
        except Exception as e:
            print(f"error: {e}")
            continue
        assert "mosaic_gpu_v2" in text


if __name__ == "__main__":
    os.environ["MOSAIC_GPU_DUMP_PTX"] = "1"
    main(sys.argv[1:])
