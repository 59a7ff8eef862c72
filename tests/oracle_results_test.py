"""How the oracle's results are stored, and told out of date."""

import lzma

import ml_dtypes
import numpy as np
import oracle_results
import pytest

TABLE = "import helper\nfrom op_cases import Case\nCASES = []\n"
ARRAYS = [
    np.arange(6, dtype=np.int16).reshape(2, 3),
    np.array([1.5, -0.0, np.nan, np.inf], np.float32),
    np.array(2 + 3j, np.complex128),
    np.array([True, False]),
    np.array([1, -2], ml_dtypes.int4),
    np.array([0.5, 3], ml_dtypes.bfloat16),
    np.array([0.5, 3], ml_dtypes.float8_e4m3fn),
    np.zeros((2, 0), np.uint32),
    np.zeros((2,), oracle_results.FLOAT0),
    np.array(["a", "bcd"]),
]


@pytest.fixture
def table(tmp_path):
    (tmp_path / "helper.py").write_text("x = 1\n")
    path = tmp_path / "some_cases.py"
    path.write_text(TABLE)
    return path


def store(table, results):
    oracle_results.write(table, results, oracle_results.fingerprint(table))
    return oracle_results.stored_at(table)


def test_what_is_read_is_what_was_written(table):
    results = {
        "case": {"eager": (ARRAYS, [False] * len(ARRAYS)), "jit": ("TypeError",)},
        "scenario": ("returned", "PyTreeDef(*)", ["a text", (ARRAYS[0], True)]),
    }
    store(table, results)
    back = oracle_results.read(table)
    (arrays, weak), error = back["case"]["eager"], back["case"]["jit"]
    assert (weak, error) == ([False] * len(ARRAYS), ["TypeError"])
    for array, want in zip(arrays, ARRAYS, strict=True):
        assert (array.dtype, array.shape) == (want.dtype, want.shape)
        assert array.tobytes() == want.tobytes()
    kind, tree, (text, (array, is_weak)) = back["scenario"]
    assert (kind, tree, text, is_weak) == ("returned", "PyTreeDef(*)", "a text", True)
    assert array is arrays[0]  # stored once


def test_the_same_results_give_the_same_bytes(table):
    results = {"case": {"eager": (ARRAYS, [False] * len(ARRAYS))}}
    first = store(table, results).read_bytes()
    assert store(table, results).read_bytes() == first


def test_only_plain_data_is_stored(table):
    with pytest.raises(AssertionError, match="cannot be stored"):
        store(table, {"case": object()})
    with pytest.raises(AssertionError, match="objects"):
        store(table, {"case": np.array([None])})


def test_results_that_are_missing_or_of_other_sources(table):
    command = "build.py oracle --update tests/some_cases.py"
    with pytest.raises(oracle_results.ResultsError, match=f"no results.*{command}"):
        oracle_results.read(table)
    assert not oracle_results.is_current(table)
    path = store(table, {})
    assert oracle_results.is_current(table)
    assert oracle_results.read(table) == {}
    helper = table.parent / "helper.py"
    for source in (table, helper):
        text = source.read_text()
        source.write_text(text + "# changed\n")
        with pytest.raises(oracle_results.ResultsError, match=f"has changed.*{command}"):
            oracle_results.read(table)
        assert not oracle_results.is_current(table)
        source.write_text(text)
    assert oracle_results.is_current(table)
    path.write_bytes(b"another format\n" + path.read_bytes())
    assert not oracle_results.is_current(table)


def test_damaged_results(table):
    path = store(table, {"case": ARRAYS})
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises((lzma.LZMAError, EOFError)):
        oracle_results.read(table)


def test_this_checkouts_jax_is_not_the_oracle():
    with pytest.raises(SystemExit, match="the oracle's Python has to run this"):
        oracle_results._evaluate(oracle_results.HERE / "fft_cases.py")


def test_tables():
    names = [path.name for path in oracle_results.tables()]
    assert "fft_cases.py" in names
    assert not {"op_cases.py", "formula_cases.py"} & set(names)
