"""Generating test cases from products of arguments: the same cases, under the same names, in every run."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from absl.testing import parameterized

from jax._src import config
from jax._src.test_util.environment import sanitize_test_name

NUM_GENERATED_CASES = config.int_flag(
    "jax_num_generated_cases",
    int(os.getenv("JAX_NUM_GENERATED_CASES", "10")),
    "Number of cases that each parametrized test is run on, at most.",
)
SKIP_SLOW_TESTS = config.bool_flag(
    "jax_skip_slow_tests",
    config.bool_env("JAX_SKIP_SLOW_TESTS", False),
    "Whether tests that take long, and look at this option, are skipped.",
)
_MAX_CASES_SAMPLING_RETRIES = config.int_flag(
    "max_cases_sampling_retries",
    int(os.getenv("JAX_MAX_CASES_SAMPLING_RETRIES", "100")),
    "Number of samples in succession that give no new case, before `named_cases_from_sampler` stops.",
)


def _choice(n: int, m: int) -> np.ndarray:
    """`m` of the numbers below `n`, always the same ones, in random order."""
    return np.random.RandomState(42).choice(n, size=m, replace=False)


def sample_product_testcases(*args, **kw) -> list[dict]:
    """Sample combinations of one dictionary of each positional list and one value of each keyword.

    Returns:
      At most `jax_num_generated_cases` dictionaries.
    """
    groups: list[list[dict]] = [list(a) for a in args]
    groups += [[{name: value} for value in values] for name, values in kw.items()]
    sizes = [len(group) for group in groups]
    total = math.prod(sizes)
    cases = []
    for choice in _choice(total, min(total, NUM_GENERATED_CASES.value)):
        case: dict = {}
        for i, group in zip(np.unravel_index(choice, sizes, order="F") if sizes else (), groups):
            case.update(group[i])
        cases.append(case)
    return cases


def sample_product(*args, **kw):
    """Decorator: run a test on sampled parameters (see `sample_product_testcases`).

    Args:
      *args: lists of dictionaries of parameters that belong together; one is chosen of each list.
      **kw: lists of values of a parameter.
    """
    return parameterized.parameters(*sample_product_testcases(*args, **kw))


def parameterized_filterable(
    *,
    kwargs: Sequence[dict[str, Any]],
    testcase_name: Callable[[dict[str, Any]], str] | None = None,
    one_containing: str | None = None,
):
    """Decorator: named parameters, with names that options such as pytest's `-k` can select.

    Args:
      kwargs: the parameters of each case, with the name of the case as `testcase_name`, if any.
      testcase_name: makes the name of a case of its parameters; by default they are printed, sorted.
        The name is appended to the test's: an underscore between is only added after `test_…`.
      one_containing: run only the first case whose name contains this, under the test's own name.

    Raises:
      AssertionError: no name contains `one_containing`.
    """

    def default_name(parameters: dict[str, Any]) -> str:
        if "testcase_name" in parameters:
            return parameters["testcase_name"]
        return "_".join(f"{name}={value}" for name, value in sorted(parameters.items()))

    name_of = testcase_name or default_name
    cases = [{**k, "testcase_name": sanitize_test_name(str(name_of(k)))} for k in kwargs]
    if one_containing is not None:
        names = [case["testcase_name"] for case in cases]
        for case in cases:
            if one_containing in case["testcase_name"]:
                return parameterized.named_parameters({**case, "testcase_name": ""})
        raise AssertionError(
            f"No testcase_name contains {one_containing!r}. The names are:\n  " + "\n  ".join(names)
        )
    return parameterized.named_parameters(*cases)


def cases_from_gens(*gens) -> Iterator[tuple]:
    """Cases of increasing size: `gen(size)` makes a value; the names say the size and a number."""
    sizes = [1, 3, 10]
    per_size = NUM_GENERATED_CASES.value // len(sizes) + 1
    for size in sizes:
        for i in range(per_size):
            yield (f"_{size}_{i}", *(gen(size) for gen in gens))


def named_cases_from_sampler(gen) -> Iterator[dict]:
    """Cases of `gen(sample)`, where `sample(values)` is a list of one of the values."""
    seen: set[str] = set()
    retries = 0
    rng = np.random.RandomState(42)

    def sample(values):
        values = list(values)
        return [values[rng.randint(len(values))]]

    while len(seen) < NUM_GENERATED_CASES.value and retries < _MAX_CASES_SAMPLING_RETRIES.value:
        retries += 1
        for case in gen(sample):
            if case["testcase_name"] not in seen:
                retries = 0
                seen.add(case["testcase_name"])
                yield case
