"""`jax.debug.breakpoint` and drawings of shardings, and where they do more than the reference."""

import builtins
import functools
import io
import logging
import textwrap

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config, debugger, xla_bridge as xb
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

F = np.float32
A_GLOBAL = 17


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Session:
    """A breakpoint that reads the given commands; afterwards `answers` has the answers."""

    def __init__(self, *commands, **kwargs):
        self.out = io.StringIO()
        self.breakpoint = functools.partial(
            jax.debug.breakpoint, stdin=io.StringIO("\n".join(commands) + "\n"), stdout=self.out,
            **kwargs,
        )  # fmt: skip

    @property
    def text(self):
        jax.effects_barrier()
        return self.out.getvalue()

    @property
    def answers(self):
        """What is printed after each prompt; a start of the debugger is the answer to `c`."""
        entered, *answers = self.text.split("(jdb) ")
        assert entered == "Entering jdb:\n"
        return [x.removesuffix("\n") for x in answers]


ENTERED = "Entering jdb:"


def values(session):
    return [x for x in session.answers if x not in (ENTERED, "")]


def test_expressions():
    s = Session(
        "p x", "p y", "n + 1", "pp t", "p mixed", "p none", "p nope", "p x + 's'", "p )", "p",
        "p [x for _ in t][1] is x", "p A_GLOBAL", "p jnp.sum(y)", "x = 3", "p sorted(locals())",
        "pp list(range(40))", "c",
    )  # fmt: skip

    @jax.jit
    def f(x, n):
        y = np.ones(2, F)
        t = {"b": x, "a": (n, y)}
        mixed = {1: 2, "a": 3}
        none = None
        s.breakpoint()
        return x, y, t, mixed, none

    f.__wrapped__(jnp.float32(1.5), 2)
    x = "Array(1.5, dtype=float32)"
    assert s.answers == [
        x, "array([1., 1.], dtype=float32)", "3",
        f"{{'a': (2, array([1., 1.], dtype=float32)), 'b': {x}}}", "{1: 2, 'a': 3}", "None",
        "*** NameError: name 'nope' is not defined",
        "*** TypeError: unsupported operand type(s) for +: 'jaxlib._jax.ArrayImpl' and 'str'",
        "*** SyntaxError: unmatched ')'", "*** SyntaxError: invalid syntax",
        "True", "17", "Array(2., dtype=float32)", "*** SyntaxError: invalid syntax",
        "['mixed', 'n', 'none', 's', 't', 'x', 'y']",
        "[" + ",\n ".join(map(str, range(40))) + "]", "",
    ]  # fmt: skip


def test_stack():
    s = Session("l", "bt", "u", "p x, z", "d", "d", "u", "u", "list", "where", "c", num_frames=2)

    def outer(x):
        z = x + 1
        return inner(z)

    @jax.jit
    def inner(y):
        s.breakpoint(
            ordered=True,
        )
        w = y
        return w

    jax.jit(outer)(F(1))
    path, first = outer.__code__.co_filename, outer.__code__.co_firstlineno
    in_inner = textwrap.dedent(f"""\
        > {path}({first + 6})
                @jax.jit
                def inner(y):
        ->          s.breakpoint(
                        ordered=True,
                    )
                    w = y
                    return w""")
    in_outer = textwrap.dedent(f"""\
        > {path}({first + 2})
                def outer(x):
                    z = x + 1
        ->          return inner(z)""")
    trace = (
        f'Traceback:\n  File "{path}", line {first + 2}\n    return inner(z)\n'
        f'  File "{path}", line {first + 6}\n    s.breakpoint('
    )
    at_end = "At bottommost frame.\n", "At topmost frame.\n"
    assert s.answers == [
        in_inner, trace, in_outer, "(Array(1., dtype=float32), Array(2., dtype=float32))", in_inner,
        at_end[0] + in_inner, in_outer, at_end[1] + in_outer, in_outer, trace, "",
    ]  # fmt: skip


def test_code_without_source():
    s = Session("l", "p z", "bt", "c", num_frames=1)
    code = compile("def h(stop):\n  z = 3\n  stop()\nh(stop)", "<generated>", "exec")
    exec(code, {"stop": s.breakpoint})
    no_source = 'Traceback:\n  File "<generated>", line 3\n    <no source>'
    assert s.answers == ["> <generated>(3)", "3", no_source, ""]


def test_internal_frames():
    def depth(**kwargs):
        s = Session("bt", "c", **kwargs)
        jax.jit(lambda: s.breakpoint())()
        return s.answers[0].count("File")

    assert depth(num_frames=1) == 1
    assert depth(filter_frames=False) > depth() + 3
    s = Session("bt", "c", filter_frames=False, num_frames=4)
    jax.vmap(jax.grad(lambda x: (s.breakpoint(), x)[1]))(jnp.zeros(1, F))
    assert s.answers[0].count("linearize.py") == 1


def test_help():
    s = Session("help", "help u", "? q", "help EOF", "help nope", "c")
    s.breakpoint()
    listing, up, quit, eof, nope, _ = s.answers
    assert set(listing.split("=\n")[1].split()) == set(
        "EOF a args bt c cont continue d down exit h help l list ll longlist p pp q quit u up w where".split()
    )
    assert up.startswith("u(p)\n    ") and "Goes to" in up
    assert quit == eof and quit.startswith("q(uit)")
    assert nope == "*** No help on nope"


@pytest.mark.parametrize("command", ["c", "cont", "continue"])
def test_continue(command):
    s = Session(command, "p 1")
    s.breakpoint()
    assert s.answers == [""]


@pytest.mark.parametrize("command", ["q", "quit", "exit", "EOF", "p 1"])  # the input ends
def test_quit(command):
    with pytest.raises(SystemExit):
        Session(command).breakpoint()


def test_quit_in_a_program():
    s = Session("q")
    with pytest.raises(jax.errors.JaxRuntimeError, match="SystemExit"):
        jax.jit(s.breakpoint)()
        jax.effects_barrier()


def array(x):
    return f"Array({x}, dtype=float32)"


@pytest.mark.parametrize("jit", [jax.jit, lambda f: f])
@pytest.mark.parametrize("ordered", [False, True])
def test_vmap(jit, ordered):
    s = Session(*["p x, z", "c"] * 2, ordered=ordered)

    def f(x, y):
        z = x * y
        s.breakpoint()
        return z

    jit(jax.vmap(f, (0, None)))(jnp.arange(2, dtype=F), F(2))
    assert values(s) == [f"({array('0.')}, {array('0.')})", f"({array('1.')}, {array('2.')})"]


def test_derivatives():
    s = Session(*["p x, y", "c"] * 4)

    @jax.jit
    def f(x):
        y = x * x
        s.breakpoint()
        return y * 2

    assert jax.grad(f)(F(3)) == 12 and jax.jvp(f, (F(3),), (F(1),))[1] == 12
    assert jax.grad(jax.checkpoint(f.__wrapped__))(F(3)) == 12
    assert values(s)[0] == f"({array('3.')}, {array('9.')})"
    assert len(values(s)) == 4  # remat computes it twice


def test_rules_of_custom_derivatives():
    s = Session(*["p x, d", "c"] * 2, "c", "c")

    @jax.custom_jvp
    def f(x):
        return x

    @f.defjvp
    def rule(primals, tangents):
        (x,), (d,) = primals, tangents
        s.breakpoint()
        return x, d * 2

    assert jax.jit(jax.grad(f))(F(3)) == 2
    jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(F(4))
    # Backwards, the tangent never has a value.
    first, second = values(s)
    assert first.startswith(f"({array('3.')}, ") and "Tracer" in first
    assert second == f"({array('4.')}, {array('4.')})"


def test_control_flow():
    s = Session(*["p c, x", "c"] * 2, "p k", "u", "p pred", "c", *["p i", "c"] * 2)

    @jax.jit
    def f(pred):
        def body(c, x):
            s.breakpoint(ordered=True)
            return c + x, None

        def yes(c):
            k = c + 1
            s.breakpoint(ordered=True)
            return k

        def step(i, c):
            s.breakpoint(ordered=True)
            return c

        c, _ = lax.scan(body, F(0), jnp.arange(2, dtype=F))
        return lax.fori_loop(0, 2, step, lax.cond(pred, yes, lambda c: c, c))

    assert f(True) == 2
    c0, c1, k, frame, pred, i0, i1 = values(s)
    assert (c0, c1) == (f"({array('0.')}, {array('0.')})", f"({array('0.')}, {array('1.')})")
    assert (k, pred) == (array("2."), "Array(True, dtype=bool)") and "->" in frame
    assert (i0, i1) == ("Array(0, dtype=int32)", "Array(1, dtype=int32)")


def test_variables_that_change_after_the_breakpoint():
    s = Session("p l, n", "c")

    @jax.jit
    def f(x):
        l, n = [x], 1
        s.breakpoint()
        l.append(2)
        n = 5
        return l, n

    f(F(1))
    assert values(s) == [f"([{array('1.')}], 1)"]


def test_variables_without_a_value():
    s = Session("p leaked", "p o.x", "p r", "p cyclic", "c")
    leaked, cyclic = [], []
    cyclic.append(cyclic)
    jax.jit(leaked.append)(F(1))

    class Opaque:
        pass

    @jax.jit
    def f(x):
        o, r = Opaque(), jax.new_ref(x)
        o.x = x
        s.breakpoint()
        return leaked, cyclic, o, r

    jax.make_jaxpr(lambda x: (f.__wrapped__(x), 0)[1])(F(1))
    run = jax.jit(lambda x: (f.__wrapped__(x), 0)[1])
    run(F(1))
    l, o, r, c = values(s)
    assert all("Tracer" in x for x in (l, o, r)) and c == "[[...]]"


def test_programs_do_not_keep_tracers():
    s = Session("c", "c")

    def f(x):
        y = [x + 1]
        s.breakpoint()
        return y

    with jax.checking_leaks():
        jax.jit(f)(F(1))
        jax.grad(lambda x: f(x)[0])(F(1))


def test_token():
    s = Session(*["p y", "c"] * 4)

    def f(x):
        y = x * 2
        y = s.breakpoint(token={"y": y, "i": jnp.arange(2)})["y"]
        return y**2

    assert jax.jit(f)(F(3)) == 36
    assert jax.grad(f)(F(3)) == 24
    np.testing.assert_array_equal(jax.vmap(f)(jnp.arange(2, dtype=F)), [0, 4])
    assert values(s) == [array("6."), array("6."), array("0."), array("2.")]
    unused = jax.jit(lambda x: (s.breakpoint(token=x), x)[1])
    assert unused(F(1)) == 1
    assert len(values(s)) == 4


def test_arguments():
    with pytest.raises(ValueError, match="`ordered` and `token` are mutually exclusive"):
        jax.debug.breakpoint(token=1.0, ordered=True)
    with pytest.raises(ValueError, match="num_frames must be at least 1, got 0"):
        jax.debug.breakpoint(num_frames=0)
    with pytest.raises(ValueError, match=r"unknown debugger backend 'foo'; there are \['cli',"):
        jax.debug.breakpoint(backend="foo")
    with pytest.raises(TypeError, match="unexpected keyword argument 'bogus'"):
        jax.jit(lambda: jax.debug.breakpoint(bogus=1))()


def test_further_debuggers(monkeypatch):
    from jax._src.debugger import breakpoints

    monkeypatch.setattr(breakpoints, "_debuggers", dict(breakpoints._debuggers))
    seen = []
    mine = lambda frames, thread, color="red": seen.append((frames[0], thread, color))
    debugger.register_debugger("mine", mine, 5)
    with pytest.raises(ValueError, match="'mine' already"):
        debugger.register_debugger("mine", mine, 5)

    def f(x):
        jax.debug.breakpoint(color="blue")
        return x

    f(1)
    (frame, thread, color) = seen.pop()
    assert frame.locals["x"] == 1 and frame.source[frame.offset].endswith('color="blue")')
    assert frame.filename == __file__ and frame.globals["F"] is F
    assert isinstance(thread, int) and color == "blue"


def test_standard_input(monkeypatch, capsys):
    answers = iter(["p 1 + 1", "c"])
    monkeypatch.setattr(builtins, "input", lambda prompt: next(answers))
    jax.debug.breakpoint()
    assert capsys.readouterr().out == "Entering jdb:\n2\n"


# Drawings of shardings


@pytest.fixture
def mesh():
    devices = xb.devices("cpu")
    if len(devices) < 8:
        pytest.skip("needs 8 CPU devices")
    return Mesh(np.array(devices[:8]).reshape(4, 2), ("a", "b"))


def drawing(text):
    return textwrap.dedent(text).strip("\n") + "\n"


DRAWINGS = {
    ("blocks", (8192, 8192), P("a", "b")): """
        ┌──────────┬──────────┐
        │  CPU 0   │  CPU 1   │
        ├──────────┼──────────┤
        │  CPU 2   │  CPU 3   │
        ├──────────┼──────────┤
        │  CPU 4   │  CPU 5   │
        ├──────────┼──────────┤
        │  CPU 6   │  CPU 7   │
        └──────────┴──────────┘
        """,
    ("replicas", (8, 8), P("a")): """
        ┌───────────────────────┐
        │        CPU 0,1        │
        ├───────────────────────┤
        │        CPU 2,3        │
        ├───────────────────────┤
        │        CPU 4,5        │
        ├───────────────────────┤
        │        CPU 6,7        │
        └───────────────────────┘
        """,
    ("one_dimension", (8,), P("a")): """
        ┌───────┬───────┬───────┬───────┐
        │CPU 0,1│CPU 2,3│CPU 4,5│CPU 6,7│
        └───────┴───────┴───────┴───────┘
        """,
    ("high", (16, 8), P(None, ("b"))): """
        ┌───────────┬───────────┐
        │           │           │
        │           │           │
        │           │           │
        │           │           │
        │CPU 0,2,4,6│CPU 1,3,5,7│
        │           │           │
        │           │           │
        │           │           │
        │           │           │
        └───────────┴───────────┘
        """,
    ("empty", (0,), P()): """
        ┌───────────────────┐
        │CPU 0,1,2,3,4,5,6,7│
        └───────────────────┘
        """,
}


@pytest.mark.parametrize("case", DRAWINGS, ids=lambda case: case[0])
def test_visualize_sharding(case, mesh, capsys):
    pytest.importorskip("rich")
    _, shape, spec = case
    jax.debug.visualize_sharding(shape, NamedSharding(mesh, spec), use_color=False)
    assert capsys.readouterr().out == drawing(DRAWINGS[case])


def test_sizes_of_drawings(mesh, capsys):
    pytest.importorskip("rich")

    def size(shape, spec, **kwargs):
        jax.debug.visualize_sharding(shape, NamedSharding(mesh, spec), use_color=False, **kwargs)
        lines = capsys.readouterr().out.splitlines()
        return len(lines), len(lines[0])

    assert size((8, 8), P()) == (11, 25)
    assert size((8, 8), P(), scale=2.0) == (21, 50)
    assert size((8, 800), P()) == (11, 80)
    assert size((8, 800), P(), max_width=40) == (11, 40)
    assert size((8, 8), P(), min_width=30) == (11, 30)
    assert size((8,), P("a"), min_width=30) == (3, 4 * 28 + 5)
    assert size((8, 800), P(None, "a"), max_width=60)[1] <= 60


def test_colors(mesh, capsys, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    seen = []
    red = lambda x: (seen.append(x), (x, 0.0, 0.0, 1.0))[1]
    sharding = NamedSharding(mesh, P("a"))
    jax.debug.visualize_sharding((8,), sharding, color_map=red)
    out = capsys.readouterr().out
    assert sorted(seen) == [0, 0.25, 0.5, 0.75]
    assert "48;2;191;0;0m" in out and "CPU 4,5" in out and "│" not in out
    jax.debug.visualize_sharding((8,), sharding)
    assert len(set(capsys.readouterr().out.split("48;2;")[1:])) >= 4
    jax.debug.visualize_sharding((8,), sharding, use_color=False)
    assert "48;2" not in capsys.readouterr().out


def test_visualize_array_sharding(mesh, capsys):
    pytest.importorskip("rich")
    x = jax.device_put(np.ones((8, 8), F), NamedSharding(mesh, P("a", "b")))
    jax.debug.visualize_array_sharding(x, use_color=False)
    blocks = drawing(next(iter(DRAWINGS.values())))
    assert capsys.readouterr().out == blocks

    @jax.jit
    def f(x):
        jax.debug.visualize_array_sharding(x * 2, use_color=False)
        return x

    f(x)
    assert capsys.readouterr().out == blocks
    f(x)
    assert capsys.readouterr().out == ""


def test_visualize_errors(mesh, monkeypatch):
    pytest.importorskip("rich")
    sharding = NamedSharding(mesh, P("a"))
    for shape in [(), (2, 2, 2)]:
        with pytest.raises(ValueError, match="only works for shapes with 1 and 2 dimensions"):
            jax.debug.visualize_sharding(shape, sharding)
    with pytest.raises(ValueError, match="axis 0 is partitioned 4 times"):
        jax.debug.visualize_sharding((7,), sharding)

    real = builtins.__import__

    def without_rich(name, *args, **kwargs):
        if name.startswith("rich"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_rich)
    with pytest.raises(ImportError, match="pip install rich"):
        jax.debug.visualize_sharding((8,), sharding)
    with pytest.raises(ImportError, match="pip install rich"):
        jax.jit(lambda x: jax.debug.visualize_array_sharding(x))(np.ones(3))


def test_inspect_array_sharding(mesh):
    seen = []
    sharding = NamedSharding(mesh, P("a", "b"))
    x = jax.device_put(np.ones((8, 8), F), sharding)
    look = lambda v: jax.debug.inspect_array_sharding(v, callback=seen.append)
    look({"x": x, "n": F(1)})
    assert sharding in seen and any(isinstance(s, SingleDeviceSharding) for s in seen)
    seen.clear()
    f = jax.jit(lambda x: (look(x + 1), x)[1])
    f.lower(x).compile()
    (found,) = seen
    assert found.is_equivalent_to(sharding, 2)
    f(x), f(x)
    assert len(seen) <= 2
    seen.clear()
    jax.grad(lambda x: (look(x), x.sum())[1])(x)
    assert seen and seen[0].is_equivalent_to(sharding, 2)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(
    ("constraint", "axes", "spec"),
    [(None, {"a", "b"}, P()), (None, {"a"}, P()), (P(None, "b"), {"a"}, P(None, "b"))],
)
def test_inspect_array_sharding_in_shard_map(mesh, constraint, axes, spec, jit):
    seen = []

    def body(x):
        y = x if constraint is None else jax.lax.with_sharding_constraint(x, constraint)
        jax.debug.inspect_array_sharding(y, callback=seen.append)
        return y

    f = jax.shard_map(body, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names=axes)
    (jax.jit(f) if jit else f)(np.ones((8, 8), F))
    assert set(seen) == {NamedSharding(mesh, spec)}


@pytest.mark.parametrize("ordered", [False, True])
def test_errors_outside_of_programs_are_those_of_the_callback(ordered):
    def fails(x):
        raise LookupError(f"no {x}")

    with pytest.raises(LookupError, match="no 1.0"):
        jax.debug.callback(fails, F(1), ordered=ordered)
    with pytest.raises(ValueError, match="Unknown format code 's'"):
        jax.debug.print("{:s}", 1, ordered=ordered)
    with pytest.raises(ValueError, match="Unknown format code 's'"):
        jax.jvp(lambda x: jax.debug.print("{:s}", x, ordered=ordered), (1.0,), (1.0,))


@pytest.mark.parametrize(
    ("fmt", "x", "error"),
    [
        ("{x.q}", 1.0, AttributeError),
        ("{x[b]}", {"a": 1.0}, KeyError),
        ("{x[a].q}", {"a": 1.0}, AttributeError),
        ("{x[1]}", [1.0], IndexError),
    ],
)
def test_missing_attributes_and_items_are_errors_of_the_call(fmt, x, error):
    for transform in (lambda f: f, jax.jit, jax.make_jaxpr):
        with pytest.raises(error):
            transform(lambda x: jax.debug.print(fmt, x=x))(x)
    jaxpr = jax.make_jaxpr(lambda x: jax.debug.print("{x[0]} {x.shape[0]}", x=x))(np.ones(3))
    assert len(jaxpr.eqns) == 1  # the item is looked up when the text is printed


@pytest.mark.parametrize("check_vma", [True, False])
def test_callbacks_of_a_shard_map_without_operands_and_results(check_vma):
    """The reference does not compile it: XLA rejects the call."""
    mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    found = []

    def body():
        jax.debug.callback(lambda i: found.append(int(i)), lax.axis_index("i"))
        return ()

    jax.jit(jax.shard_map(body, mesh=mesh, in_specs=(), out_specs=(), check_vma=check_vma))()
    jax.effects_barrier()
    assert sorted(found) == [0, 1, 2, 3]


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", ["reduce", "reduce_window", "scatter_apply"])
def test_functions_of_scalars_cannot_print(name, jit):
    def f(x, y=1.0):
        jax.debug.print("{}", x)
        return x * y + 1

    x = jnp.arange(3.0)
    calls = {
        "reduce": lambda x: lax.reduce(x, 0.0, f, (0,)),
        "reduce_window": lambda x: lax.reduce_window(x, 0.0, f, (2,), (1,), "VALID"),
        "scatter_apply": lambda x: x.at[0].apply(f),
    }
    with pytest.raises(NotImplementedError, match=rf"given to {name} has effects \(Debug\)"):
        (jax.jit if jit else lambda f: f)(calls[name])(x)


def test_a_checkpoint_that_is_not_compiled_prints_in_the_order_of_the_program(capsys):
    @jax.checkpoint
    def f(x):
        jax.debug.print("x")
        y = jnp.sin(x)
        jax.debug.print("y {}", y)
        z = jnp.sin(y)
        jax.debug.print("none")
        jax.debug.print("x again {}", x)
        return z

    _, backward = jax.vjp(f, 0.0)
    forward = capsys.readouterr().out
    assert [line.split()[0] for line in forward.splitlines()] == ["x", "y", "none", "x"]
    backward(1.0)
    jax.effects_barrier()
    assert capsys.readouterr().out == forward


def test_log_with_options_and_no_text(caplog):
    with caplog.at_level(logging.INFO, "jax._src.debugging"):
        assert jax.debug.log(ordered=True)("x is {}", jnp.float32(2)) is None
        jax.debug.log("y is {y}", y=jnp.int32(3))
        jax.effects_barrier()
    assert [r.getMessage() for r in caplog.records] == ["x is 2.0", "y is 3"]
