"""The debuggers in a browser and in a notebook: their packages are stood in for, with the same interface."""

import io
import sys
import types

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src.debugger import breakpoints, web_debugger

F = np.float32
TAIL = 3


class Console:
    """What `web_pdb.WebConsole` is for a debugger: a file of commands and output."""

    closed = False

    def __init__(self, host, port, debugger):
        self.address, self.commands, self.output, self.pages = (host, port), [], "", []

    def readline(self):
        return self.commands.pop(0) + "\n"

    def write(self, text):
        self.output += text
        self.pages.append(self._debugger.get_current_frame_data())

    def flush(self):
        pass

    def close(self):
        pass


@pytest.fixture
def web(monkeypatch):
    monkeypatch.setitem(sys.modules, "web_pdb", types.SimpleNamespace(WebConsole=Console))
    monkeypatch.setattr(web_debugger, "_consoles", {})
    console = web_debugger._consoles["", 5555] = Console("", 5555, None)
    return console


@jax.jit
def program(x, *, backend="web"):
    y = x + TAIL
    jax.debug.breakpoint(backend=backend)
    return y * 2


def caller(x, **options):
    return program.__wrapped__(x, **options)


def test_web(web, capsys):
    web.commands = ["p y", "u", "c"]
    run = jax.jit(caller)
    assert run(F(1)) == 8
    jax.effects_barrier()
    assert "Array(4., dtype=float32)" in web.output
    assert "http://localhost:5555" in capsys.readouterr().out
    first, *_, last = web.pages
    assert first["filename"] == "debugger_backends_test.py" and first["dirname"].endswith("/")
    assert (
        "jax.debug.breakpoint(backend=backend)"
        in (first["file_listing"].splitlines()[first["current_line"] - 1])
    )
    assert "y = Array(4., dtype=float32)" in first["locals"] and "TAIL = 3" in first["globals"]
    assert "program.__wrapped__" in last["file_listing"].splitlines()[last["current_line"] - 1]
    web.commands = ["c"]
    run(F(2))  # the page is that of the first breakpoint
    jax.effects_barrier()
    assert not web.commands and list(web_debugger._consoles) == [("", 5555)]


def test_web_at_another_address(web):
    Console.readline, kept = lambda self: "c\n", Console.readline
    try:
        jax.debug.breakpoint(backend="web", host="127.0.0.1", port=5678)
    finally:
        Console.readline = kept
    assert web_debugger._consoles["127.0.0.1", 5678].address == ("127.0.0.1", 5678)


def test_absent_packages(monkeypatch):
    for name in ("web_pdb", "IPython", "IPython.display"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install web-pdb"):
        jax.jit(lambda x: program.__wrapped__(x))(F(1))
    for backend in ("notebook", "colab"):
        with pytest.raises(ImportError, match="needs IPython"):
            jax.debug.breakpoint(backend=backend)


@pytest.fixture
def notebook(monkeypatch):
    shown = []
    display = types.SimpleNamespace(display=lambda data, raw: shown.append(data))
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def test_notebook(notebook, monkeypatch, capsys):
    commands = iter(["p y", "up", "c"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(commands))
    jax.vmap(lambda x: caller(x, backend="notebook"))(jnp.ones(1))
    jax.effects_barrier()
    inner, outer = notebook
    assert "<mark>" in inner["text/html"] and "y = x + TAIL" in inner["text/html"]
    assert "Array(4., dtype=float32)" in inner["text/html"] and "frame 1 of" in inner["text/html"]
    assert "program.__wrapped__" in outer["text/plain"]
    assert "Array(4., dtype=float32)" in capsys.readouterr().out


def test_notebook_in_colab(notebook, monkeypatch):
    assert breakpoints.get_debugger() is breakpoints._cli
    monkeypatch.setitem(sys.modules, "google.colab", types.SimpleNamespace())
    assert breakpoints.get_debugger() is breakpoints.get_debugger("colab")


def test_commands():
    out = io.StringIO()

    def function(first, second=2, *rest, keyword=3, **others):
        local = first
        jax.debug.breakpoint(stdin=io.StringIO("a\nll\nh l\np local\nc\n"), stdout=out)
        return local

    function(1, 2, 3, other=4)
    args, listing, help_text, value, _ = out.getvalue().split("(jdb) ")[1:]
    assert args.split() == (
        "first = 1 second = 2 keyword = 3 rest = (3,) others = {'other': 4}".split()
    )
    assert "def function(" in listing and "return local" in listing
    assert "l(ist)" in help_text and value == "1\n"
    out.truncate(0)

    def shadowed(a, h):
        jax.debug.breakpoint(stdin=io.StringIO("a\nh + 1\nc\n"), stdout=out)

    shadowed(5, 6)
    assert out.getvalue().split("(jdb) ")[1:3] == ["5\n", "7\n"]
