#!/usr/bin/env python3
"""Makes the pictures of the pages of docs/ from what the tools print: python docs/pictures.py [NAME ...]

It needs Chromium, and Pillow, which comes with matplotlib.
"""

import html
import os
import subprocess
import sys
import tempfile
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


def run(*arguments: str, variables: dict[str, str], folder: Path = DOCS) -> str:
    environment = os.environ | variables
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=folder, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    ).stdout  # fmt: skip


PICTURES: dict[str, Callable[[Path], tuple[str, int, int]]] = {
    "cache_misses": cache_misses,
    "doctor": doctor,
    "jaxpr_view": jaxpr_view,
    "profile_report": profile_report,
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
