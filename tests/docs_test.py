"""The pages of docs/: their examples run, their links are there."""

import doctest
import re
from pathlib import Path

import pytest

from jax._src import compilation_cache, config, xla_bridge

ROOT = Path(__file__).absolute().parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
ABSENT = "compiling_for_absent_devices"  # needs vendors' compilers

if not xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=[pytest.mark.aot] if p.stem == ABSENT else []) for p in PAGES],
    ids=lambda page: page.stem,
)
def test_examples(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    compilation_cache.reset_cache()  # what pages print is of new processes
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    examples = doctest.DocTestParser().get_doctest(page.read_text(), {}, page.name, str(page), 0)
    output = []
    mesh = config.device_context.value, config.abstract_mesh_context_manager.value
    try:
        doctest.DocTestRunner(verbose=False, optionflags=flags).run(examples, out=output.append)
    finally:
        config.device_context.set_local(mesh[0])
        config.abstract_mesh_context_manager.set_local(mesh[1])
    assert not output, "".join(output)


def test_the_pages_have_examples():
    with_examples = {page.stem for page in PAGES if ">>>" in page.read_text()}
    assert with_examples >= {
        "tracing", "derivatives", "batching", "control_flow", "sharded_types", "new_primitive"
    }  # fmt: skip


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem
)
def test_links(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page} links to {target}"
