#!/usr/bin/env python3
"""Makes the pictures of the pages of docs/ from what the tools print: python docs/pictures.py [NAME ...]

It needs Chromium, and Pillow, which comes with matplotlib.
"""

import fcntl
import html
import io
import os
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).absolute().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS.parent / "tests")]

from browser import screenshot  # noqa: E402  (of the tests' folder)

_COLORS = {"error": "#c62828", "warning": "#b26a00", "note": "#1565c0", "ok": "#2e7d32"}
_TERMINAL = """<meta charset="utf-8"><style>
body { margin: 0; background: #fbfbfb; } pre { margin: 12px 16px; font: 13px/1.5 "DejaVu Sans Mono", monospace;
white-space: pre-wrap; } b { font-weight: 600; }
</style><pre>"""


def terminal(command: str, output: str) -> str:
    """A page that looks like a terminal after a command, with words such as `error` at the start of lines coloured."""
    lines = [f"<b>$ {html.escape(command)}</b>"]
    for line in output.splitlines():
        word = line.partition(" ")[0]
        text = html.escape(line)
        if word in _COLORS:
            text = f'<b style="color:{_COLORS[word]}">{word}</b>' + text[len(word) :]
        lines.append(text)
    return _TERMINAL + "\n".join(lines) + "</pre>"


def doctor(folder: Path) -> tuple[str, int, int]:
    variables = {
        "JAX_COMPILATION_CACHE_DIR": "/tmp/full/cache",
        "JAX_ENABLE_X46": "1",
        "OMP_NUM_THREADS": "64",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "90",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=flase",
        "PYTHONPATH": str(DOCS.parent),
    }
    Path("/tmp/full").touch()
    try:
        output = run("-m", "jax.doctor", variables=variables)
    finally:
        Path("/tmp/full").unlink()
    return terminal("python -m jax.doctor", output), 1000, 420


TRAINING = """
import jax, jax.numpy as jnp

@jax.jit
def step(w, batch, rate=0.1):
    return w - rate * (batch @ w)

def evaluate(w, scale):
    return jax.jit(lambda w: w.sum() * scale)(w)

w = jnp.ones(4)
with jax.debug.explain_cache_miss() as misses:
    for rows in (4, 4, 3):
        step(w[:rows], jnp.ones((rows, rows)))
    step(w, jnp.ones((4, 4)), 1)
    for scale in (1.0, 2.0):
        evaluate(w, scale)
"""


def cache_misses(folder: Path) -> tuple[str, int, int]:
    (folder / "train.py").write_text(TRAINING)
    variables = {"JAX_LOG_COMPILES": "summary", "PYTHONPATH": str(DOCS.parent)}
    # Under its relative name, so that the columns of the summary are as wide as what they have.
    program = "exec(compile(open('train.py').read(), 'train.py', 'exec'))"
    output = run("-c", program, variables=variables, folder=folder)
    return terminal("JAX_LOG_COMPILES=summary python train.py", output), 1250, 520


def jaxpr_view(folder: Path) -> tuple[str, int, int]:
    import jax
    import jax.numpy as jnp
    import jax.tools
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

    jax.config.update("jax_num_cpu_devices", 8)
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)

    def block(params, x):
        h = jax.nn.relu(x @ params["up"])
        h = jax.sharding.reshard(h, P("data", None))
        y, _ = jax.lax.scan(lambda y, _: (jnp.tanh(y), None), h @ params["down"], length=2)
        return y + x

    def put(shape, *spec):
        return jax.device_put(jnp.ones(shape), NamedSharding(mesh, P(*spec)))

    with jax.set_mesh(mesh):
        params = {"up": put((16, 64), None, "model"), "down": put((64, 16), None, None)}
        return jax.tools.view(block, params, put((32, 16), "data", None)).html, 1280, 1330


PROFILED = """
import jax, jax.numpy as jnp
TABLE = jnp.ones((500, 800))

def layer(w, x):
    return jnp.tanh(x @ w)

@jax.jit
def step(w, x):
    def loss(w):
        y, _ = jax.lax.scan(lambda c, _: (layer(w, c), None), x, length=20)
        return jnp.sum(jnp.sin(y) @ TABLE[:300])
    return w - 0.01 * jax.grad(loss)(w)

w = jnp.ones((300, 300))
for rows in (200, 200, 100, 50):
    for _ in range(3):
        w = step(w, jnp.ones((rows, 300)))
"""


def profile_report(folder: Path) -> tuple[str, int, int]:
    (folder / "train.py").write_text(PROFILED)
    variables = {"PYTHONPATH": str(DOCS.parent)}
    run(
        "-m", "jax.tools.profile", "-o", "page.html", "train.py", variables=variables, folder=folder
    )
    return (folder / "page.html").read_text().replace(f"{folder}/", ""), 1200, 860


INDICES = """
import jax, jax.numpy as jnp

table = jnp.arange(5.0)

@jax.jit
def total(indices):
    return jnp.sum(table[indices])

print(total(jnp.array([0, 7, 1])))
with jax.debug.bounds():
    print(total(jnp.array([0, 7, 1])))
"""


def bounds(folder: Path) -> tuple[str, int, int]:
    return program(folder, "model.py", INDICES), 900, 450


LOSS = """
import jax, jax.numpy as jnp

def loss(x):
    return jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0))

x = jnp.array([1.0, 0.0, 2.0, 4.0])
print(loss(x), jax.grad(loss)(x))
with jax.debug.nans(backward=True):
    jax.jit(jax.grad(loss))(x)
"""


def backward_nans(folder: Path) -> tuple[str, int, int]:
    return program(folder, "model.py", LOSS), 1080, 550


def program(folder: Path, name: str, text: str) -> str:
    """A program with the numbers of its lines, and what it prints in a terminal."""
    (folder / name).write_text(text.lstrip())
    output = run(name, variables={"PYTHONPATH": str(DOCS.parent)}, folder=folder)
    numbered = [f"{i:3}  {line}" for i, line in enumerate(text.strip().splitlines(), 1)]
    listing = f'<pre style="color:#455a64">{html.escape(chr(10).join(numbered))}</pre>'
    output = output.replace(f"{folder}/", "")
    return terminal(f"python {name}", output).replace("<pre>", listing + "<pre>", 1)


LOOPS = """
import jax, jax.numpy as jnp
from jax import lax

@jax.jit
def simulate(state):
    day = lambda _, state: lax.fori_loop(0, 24, lambda _, s: jnp.tanh(s @ s), state)
    return lax.fori_loop(0, 1000, day, state, progress="ten years")

simulate(jnp.eye(200)).block_until_ready()
root = lambda c: (c[0] + 1, (c[1] + 2 / c[1]) / 2 + 1e-3 * jnp.sum(jnp.sin(jnp.ones((300, 300)) * c[1])) * 0)
lax.while_loop(lambda c: c[0] < 5000, root, (0, 1.0), progress="newton")[1].block_until_ready()
"""


def progress(folder: Path) -> tuple[str, int, int]:
    (folder / "loops.py").write_text(LOOPS)
    frames = in_terminal(folder, "loops.py")
    bars = [frame for frame in frames if frame.startswith("ten years")]
    counts = [frame for frame in frames if frame.startswith("newton")]
    lines = [bars[i * (len(bars) - 1) // 3] for i in range(4)] + [counts[len(counts) // 2]]
    return (
        terminal("python loops.py     # the bar at four times, and a while_loop", "\n".join(lines)),
        1000,
        150,
    )


def in_terminal(folder: Path, name: str) -> list[str]:
    """What a program shows on the lines of a terminal of 90 columns, one after another."""
    terminal_end, program_end = os.openpty()
    size = struct.pack("HHHH", 24, 90, 0, 0)
    fcntl.ioctl(program_end, termios.TIOCSWINSZ, size)
    environment = os.environ | {"PYTHONPATH": str(DOCS.parent), "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, name], env=environment, cwd=folder, stdin=program_end, stdout=program_end,
        stderr=program_end,
    )  # fmt: skip
    os.close(program_end)
    shown = b""
    while True:
        try:
            shown += os.read(terminal_end, 65536)
        except OSError:  # the program has ended
            break
    os.close(terminal_end)
    process.wait()
    return [line.strip() for line in re.split(r"[\r\n]+", shown.decode()) if line.strip()]


def differentiable_while_loops(folder: Path) -> tuple[str, int, int]:
    import matplotlib.pyplot as plt

    import jax
    import jax.numpy as jnp
    from jax import lax

    n = 10_000
    x = jax.ShapeDtypeStruct((n,), jnp.float32)

    def fori_loop(w, x, max_steps):
        return lax.fori_loop(0, max_steps, lambda _, c: jnp.sin(c * w), x)

    def while_loop(w, x, max_steps):
        cond, body = lambda c: c[0] < max_steps, lambda c: (c[0] + 1, jnp.sin(c[1] * w))
        return lax.while_loop(cond, body, (0, x), max_steps=max_steps)[1]

    def copies(loop, max_steps: int) -> float:
        slope = jax.grad(lambda w, x: jnp.sum(loop(w, x, max_steps)), (0, 1))
        compiled = jax.jit(slope).lower(x, x).compile()
        return compiled.memory_analysis().temp_size_in_bytes / (4 * n)

    steps = [4, 16, 64, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
    figure, axes = plt.subplots(figsize=(7.5, 3.4), layout="constrained")
    few = [s for s in steps if s <= 10_000]
    for loop, counts, line, color, label in (
        (fori_loop, few, "o--", "#c62828", "fori_loop: every step is kept"),
        (while_loop, steps, "o-", "#1565c0", "while_loop(max_steps=...)"),
    ):
        axes.loglog(counts, [copies(loop, s) for s in counts], line, color=color, label=label)
    axes.set_xlabel("max_steps")
    axes.set_ylabel("copies of the carry")
    axes.set_title("Memory of the compiled gradient", loc="left", fontsize=11)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    text = io.StringIO()
    figure.savefig(text, format="svg")
    return f'<meta charset="utf-8"><body style="margin:0">{text.getvalue()}', 720, 330


def run(*arguments: str, variables: dict[str, str], folder: Path = DOCS) -> str:
    environment = os.environ | variables
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=folder, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    ).stdout  # fmt: skip


PICTURES: dict[str, Callable[[Path], tuple[str, int, int]]] = {
    "backward_nans": backward_nans,
    "bounds": bounds,
    "cache_misses": cache_misses,
    "differentiable_while_loops": differentiable_while_loops,
    "doctor": doctor,
    "jaxpr_view": jaxpr_view,
    "profile_report": profile_report,
    "progress": progress,
}


def main(names: list[str]) -> None:
    for name in names or PICTURES:
        with tempfile.TemporaryDirectory() as folder:
            page, width, height = PICTURES[name](Path(folder))
        file = DOCS / f"{name}.png"
        screenshot(page, file, width, height)
        image = Image.open(file).convert("RGB").quantize(256, dither=Image.Dither.NONE)
        image.save(file, optimize=True)
        print(f"{file}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
