"""`jax.tools.view`: lines, types, placements, costs and residuals of equations, and the page in a browser."""

import functools
import re

import browser
import numpy as np
import pytest
from primitive_rows import ROWS

import jax
import jax.numpy as jnp
import jax.tools
from jax import lax
from jax._src import config, core
from jax._src.ad_checkpoint import saved_residuals
from jax._src.jaxpr_view import costs
from jax._src.jaxpr_view.residuals import find_residuals
from jax._src.pages import Html, Page, bytes_text, element, number_text, table
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

if not jax._src.xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

W, X = np.ones((4, 3), np.float32), np.ones((2, 4), np.float32)


def model(w, x):
    h = jnp.tanh(x @ w)
    return jnp.sum(h * jax.nn.sigmoid(h))


def gradient(w, x, g):
    out, pull = jax.vjp(model, w, x)
    return out, pull(g)


def control_flow(w, x):
    def step(c, _):
        return jnp.tanh(c @ w.T @ w @ jnp.ones((3, 4)) @ jnp.ones((4, 3))[:4, :3]), c.sum()

    c, ys = lax.scan(step, x @ w, None, length=5)
    c = lax.cond(ys[0] > 0, lambda c: jnp.sin(c) * 2, jnp.cos, c)
    c = lax.while_loop(lambda c: c.sum() < 0, lambda c: c + 1, c)
    return jax.jit(lambda c: jax.checkpoint(jnp.sin)(c))(c).sum()


def closed(f, *args):
    return jax.make_jaxpr(f)(*args)


def residual_bytes(residuals):
    return costs.nbytes(a for avals in residuals.values() for a in avals)


# Costs


@pytest.mark.parametrize(
    "f, args",
    [
        (model, (W, X)),
        (gradient, (W, X, np.float32(2))),
        (lambda x: lax.conv(x, x[:2], (1, 1), "SAME"), (np.ones((2, 3, 5, 5), np.float32),)),
        (lambda x: jnp.cumsum(jnp.exp(x), 1) / jnp.var(x), (X,)),
    ],
    ids=["model", "gradient", "convolution", "elementwise"],
)
def test_flops_are_those_of_the_whole_program(f, args):
    whole = jax.jit(f).lower(*args).cost_analysis()
    expected = whole.get("flops", 0) + whole.get("transcendentals", 0)
    assert costs.jaxpr_flops(closed(f, *args).jaxpr) == pytest.approx(expected)


def test_flops_of_control_flow():
    step = lambda c: jnp.tanh(c)
    of = lambda f, *args: costs.jaxpr_flops(closed(f, *args).jaxpr)
    one = of(step, X)
    assert one == 8
    assert of(lambda x: lax.scan(lambda c, _: (step(c), None), x, None, length=7)[0], X) == 7 * one
    assert of(lambda x: lax.while_loop(lambda c: True, step, x), X) == one
    assert of(lambda x: lax.cond(True, step, lambda c: step(step(c)), x), X) == 2 * one
    assert of(lambda x: jax.jit(jax.checkpoint(step))(x), X) == one


def test_bytes():
    def of(f, *args):
        return [costs.traffic(eqn) for eqn in closed(f, *args).eqns]

    assert of(lambda x: jnp.sin(x) + x, X) == [2 * 32, 3 * 32]
    assert of(lambda x: x * x, X) == [2 * 32]  # one operand
    assert of(lambda x: lax.scan(lambda c, _: (-c, None), x, None, length=7)[0], X) == [7 * 64]


# Residuals


@pytest.mark.parametrize("f", [model, control_flow, jax.jit(model), jax.checkpoint(model)])
def test_residuals_are_those_of_the_function(f):
    found, reason = find_residuals(closed(f, W, X))
    assert reason is None
    expected = costs.nbytes(a for a, _ in saved_residuals(f, W, X))
    # `jit` forwards an argument that it was given; the page lists it at the argument as well
    assert residual_bytes(found) == expected


def test_residuals_belong_to_equations():
    def f(x, n):
        y = jnp.sin(x)
        return jax.jit(lambda y: jnp.exp(y) * n)(y)

    program = closed(f, X, np.float32(3))
    found, _ = find_residuals(program)
    jit = next(i for i, eqn in enumerate(program.eqns) if eqn.primitive.name == "jit")
    inner = program.eqns[jit].params["jaxpr"].eqns
    at = lambda name, eqns: next(i for i, e in enumerate(eqns) if e.primitive.name == name)
    assert set(found) == {
        (at("sin", program.eqns),),  # its cosine
        (jit, at("exp", inner)),
        ("argument", 1),
    }


def test_functions_without_derivatives():
    found, reason = find_residuals(closed(lambda n: n + 1, 3))
    assert found == {} and "no arguments or no results of floating-point types" in reason

    def refuses(x):
        raise ZeroDivisionError("no")

    f = jax.custom_vjp(lambda x: x)
    f.defvjp(refuses, lambda _, g: (g,))
    view = jax.tools.view(f, X)
    assert "it cannot be differentiated (ZeroDivisionError: no)" in view.html


# The page


def cells(html, primitive):
    """The texts of the row of the first equation with a primitive."""
    row = re.search(rf"<tr id=[^>]*data-text=\"{primitive} .*?</tr>", html)[0]
    return [re.sub("<.*?>", "", cell) for cell in re.findall(r"<td.*?</td>", row)]


def test_rows():
    html = jax.tools.view(model, W, X).html
    number, equation, kind, placement, line, flops, size, kept = cells(html, "dot_general")
    assert number == "0" and equation.startswith("c = dot_general[dimension_numbers=")
    assert equation.endswith("b a") and kind == "f32[2,3]" and placement == ""
    assert line == f"jaxpr_view_test.py:{model.__code__.co_firstlineno + 1}"
    assert (flops, size, kept) == ("48", "104 B", "")
    assert cells(html, "tanh")[-1].startswith("48 B: f32[2,3], f32[2,3]")
    assert f"{model.__code__.co_filename}:{model.__code__.co_firstlineno}" in html


@pytest.mark.parametrize(
    "what, args",
    [
        (jax.jit(model), (W, X)),
        (jax.jit(model).trace(W, X), ()),
        (jax.make_jaxpr(model)(W, X), ()),
        (jax.make_jaxpr(model)(W, X).jaxpr, ()),
        (model, (jax.ShapeDtypeStruct(W.shape, W.dtype), X)),
    ],
    ids=["jitted", "traced", "closed jaxpr", "jaxpr", "types"],
)
def test_what_can_be_viewed(what, args):
    view = jax.tools.view(what, *args)
    plain = jax.tools.view(model, W, X)
    assert repr(view).partition(":")[2] == repr(plain).partition(":")[2]
    assert re.fullmatch(
        r"<JaxprView of model: \d+ equations, [\d.]+ flops, .* kept for the backward pass>",
        repr(view),
    )


@pytest.mark.parametrize("fun", [jnp.sin, jax.nn.relu])
def test_functions_of_the_library(fun):
    text = repr(jax.tools.view(fun, X))
    assert text.startswith(f"<JaxprView of {fun.__name__}: ") and "kept for the backward" in text


def test_wrappers_are_more_than_what_they_wrap():
    @jax.custom_jvp
    @jax.jit
    def custom(x):
        return jnp.sin(x)

    custom.defjvps(lambda t, out, x: 2 * t)
    for fun in (custom, functools.wraps(jax.jit(jnp.cos))(lambda x: custom(x))):
        assert [e.primitive.name for e in jax.tools.view(fun, X).jaxpr.eqns] == ["custom_jvp_call"]


def test_wrong_arguments():
    with pytest.raises(TypeError, match="view takes a function or a jaxpr, got 3"):
        jax.tools.view(3)
    with pytest.raises(TypeError, match="has been traced already"):
        jax.tools.view(closed(model, W, X), W, X)


def test_constants_and_empty_programs():
    html = jax.tools.view(lambda x: x * jnp.asarray(X), X).html
    assert "constant" in html
    assert "no equations" in jax.tools.view(lambda x: x, X).html


def test_large_programs_have_no_graph():
    def f(x):
        for _ in range(500):
            x = x + 1.0
        return x

    html = jax.tools.view(f, X).html
    assert "not drawn: 500 equations, of at most" in html and "<svg" not in html


def test_placements():
    mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(AxisType.Explicit,) * 2)

    def f(x, w):
        y = jax.sharding.reshard(x @ w, P("a", None))
        total = jax.shard_map(
            lambda y: lax.psum(y.sum(), "a"), in_specs=P("a", None), out_specs=P()
        )(y)
        return total * 2

    with jax.set_mesh(mesh):
        put = lambda shape, *spec: jax.device_put(
            np.ones(shape, np.float32), NamedSharding(mesh, P(*spec))
        )
        html = jax.tools.view(f, put((4, 8), "a", None), put((8, 4), None, "b")).html
    assert cells(html, "dot_general")[3] == "P(a, b)"
    assert cells(html, "reshard")[3] == "P(a, None)"
    assert cells(html, "reduce_sum")[3] == "varies over a"
    assert cells(html, "mul")[3] == "replicated"
    # the nodes of what moves data are outlined
    nodes = re.findall(r"<title>([^<:]*):[^<]*</title><rect[^>]*stroke=\"#c5221f\"", html)
    assert nodes == ["reshard", "shard_map", "psum_invariant"]


def test_placements_of_arrays_and_constraints():
    mesh = jax.make_mesh((4,), ("a",), axis_types=(AxisType.Auto,))
    split = NamedSharding(mesh, P(None, "a"))

    def f(x):
        return lax.with_sharding_constraint(jnp.sin(x), split)

    html = jax.tools.view(f, jax.ShapeDtypeStruct(X.shape, X.dtype)).html
    assert cells(html, "sin")[3] == ""  # the compiler's choice, about which types say nothing
    html = jax.tools.view(f, jax.device_put(X, split)).html
    assert cells(html, "sharding_constraint")[3] == "P(None, a)"
    assert html.index("P(None, a)") < html.index("<h2>Equations")  # of the argument


def test_placements_that_the_compiler_chooses():
    mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)

    def f(x, w):
        y = jnp.tanh(x @ w)
        y = jax.jit(lambda y: jnp.exp(y))(y)
        c, ys = lax.scan(lambda c, y: (c + y, c.sum()), y[0], y)
        return jnp.sort(ys), c

    put = lambda shape, *spec: jax.device_put(
        np.ones(shape, np.float32), NamedSharding(mesh, P(*spec))
    )
    x, w = put((8, 4), "a", None), put((4, 6), None, "b")
    view = jax.tools.view(f, x, w)
    for name, placement in dict(
        dot_general="P(a, b)", tanh="P(a, b)", exp="P(a, b)", squeeze="P(b)"
    ).items():
        assert cells(view.html, name)[3] == placement, name
    assert "that Shardy propagates" in view.html
    assert "sdy.sharding_per_value" not in jax.jit(f).lower(x, w).as_text()  # a copy was changed


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_primitive(row):
    with jax.enable_x64(True):
        args = [jnp.asarray(x) for x in row.args]
        view = jax.tools.view(row.call, *args)
        names = {e.primitive.name for e in _equations(view.jaxpr.jaxpr)}
        assert all(f'data-text="{name} ' in view.html for name in names)
        assert len(re.findall(r'<tr id="', view.html)) == sum(1 for _ in _equations(view.jaxpr.jaxpr))  # fmt: skip
        differentiable = row.diff and "rev" in row.modes
        if differentiable and any(jnp.issubdtype(x.dtype, jnp.inexact) for x in args):
            assert "cannot be differentiated" not in view.html


def _equations(jaxpr):
    yield from jaxpr.eqns
    for inner in core.subjaxprs(jaxpr):
        yield from _equations(inner)


# Pieces of pages


def test_text_is_escaped():
    evil = "<script>alert(1)</script>"

    def f(x):
        with jax.named_scope(evil):
            return jax.jit(lambda x: x[evil] + 1)(x)

    f.__name__ = f.__qualname__ = "<img src=x onerror=alert(2)>"
    html = jax.tools.view(f, {evil: X}).html
    assert "&lt;script&gt;" in html and "&lt;img" in html
    assert "alert(1)</script>" not in html and "<img" not in html
    assert element("b", evil, title='"&') == (
        '<b title="&quot;&amp;">&lt;script&gt;alert(1)&lt;/script&gt;</b>'
    )
    assert "&lt;script" in table((evil,), [(evil,), ((evil, 0.5),)]) and evil not in table(
        (evil,), [(evil,)]
    )
    assert "&lt;script&gt;alert" in Page(evil, Html("")).html


def test_pages_load_nothing():
    html = jax.tools.view(control_flow, W, X).html
    assert not re.search(r"https?://|@import|url\(|<link|src=", html)
    assert "default-src 'none'" in html


def test_save(tmp_path):
    view = jax.tools.view(model, W, X)
    view.save(tmp_path / "view.html")
    assert (tmp_path / "view.html").read_text(encoding="utf-8") == view.html


def test_units():
    assert [bytes_text(n) for n in (0, 999, 1000, 999_600, 2.5e15)] == [
        "0 B", "999 B", "1 kB", "1 MB", "2.5e+03 TB"
    ]  # fmt: skip
    assert number_text(12) == "12" and number_text(45_678) == "45.7 k"


# In a browser


@pytest.mark.browser
def test_page_in_a_browser():
    script = """
    const q = s => [...document.querySelectorAll(s)];
    const click = text => q("button").find(b => b.textContent === text).click();
    const ids = q("[id]").map(e => e.id);
    const result = {rows: q("tr[data-text]").length, details: q("details").length};
    result.openAtFirst = q("details[open]").length;
    click("fold all"); result.folded = q("details[open]").length;
    click("unfold all"); result.unfolded = q("details[open]").length;
    result.duplicates = ids.filter((id, i) => ids.indexOf(id) !== i);
    result.brokenLinks = q("a").map(a => a.getAttribute("href")).filter(h => !document.getElementById(h.slice(1)));
    const input = document.querySelector("input");
    input.value = "TANH"; input.dispatchEvent(new Event("input"));
    result.found = q("tr[data-text]:not(.hidden)").map(r => r.querySelector("b").textContent);
    input.value = ""; input.dispatchEvent(new Event("input"));
    result.all = q("tr[data-text]:not(.hidden)").length;
    const name = q(".equations .var")[0];
    name.dispatchEvent(new Event("mouseenter"));
    result.lit = q(".var.lit").length; result.names = new Set(q(".var.lit").map(v => v.dataset.var)).size;
    name.dispatchEvent(new Event("mouseleave"));
    result.dark = q(".var.lit").length;
    result.overlaps = 0;
    for (const svg of q("svg")) {
      const boxes = [...svg.querySelectorAll("rect")].map(r => r.getBBox());
      result.overlaps += boxes.filter((a, i) => boxes.some((b, j) =>
        j > i && a.y === b.y && a.x < b.x + b.width && b.x < a.x + a.width)).length;
    }
    result.visible = q("td").every(td => td.getBoundingClientRect().height > 0);
    return result;
    """
    result = browser.run_in_page(jax.tools.view(control_flow, W, X).html, script)
    assert result["unfolded"] == result["details"] > 4
    assert (
        result["openAtFirst"] == result["details"] - 1
    )  # all but the graph of the jitted function
    assert result["folded"] == 0
    assert result["duplicates"] == [] and result["brokenLinks"] == []
    assert result["found"] == ["tanh"] and result["all"] == result["rows"]
    assert result["lit"] >= 1 and result["names"] == 1 and result["dark"] == 0
    assert result["overlaps"] == 0 and result["visible"]


@pytest.mark.browser
def test_notebooks_show_the_page_in_a_frame():
    view = jax.tools.view(model, W, X)
    script = """
    const frame = document.querySelector("iframe");
    const size = frame.getBoundingClientRect();
    return {source: frame.srcdoc, sandbox: frame.getAttribute("sandbox"), height: size.height,
            styles: document.querySelectorAll("style").length, color: getComputedStyle(document.body).fontSize};
    """
    result = browser.run_in_page(f"<body>{view._repr_html_()}</body>", script)
    assert result["source"] == view.html and result["sandbox"] == "allow-scripts"
    assert result["height"] >= 600 and result["styles"] == 0
