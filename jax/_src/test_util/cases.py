"""Generating test cases from products of arguments."""

import itertools
import math
import os
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl.testing import absltest, parameterized


def num_generated_cases() -> int:
    """The number of combinations that `sample_product` samples."""
    return int(os.getenv("JAX_NUM_GENERATED_CASES", "10"))


def _choice(n: int, m: int, seed: int) -> list[int]:
    if n <= m:
        return list(range(n))
    rng = np.random.RandomState(seed)
    return sorted(rng.choice(n, size=m, replace=False).tolist())


def sample_product_testcases(*args: Sequence[dict], **kwargs: Sequence[Any]) -> list[dict]:
    """Sample combinations: one dictionary per positional list and one value per keyword."""
    named = [[{k: v} for v in vs] for k, vs in kwargs.items()]
    groups = [list(a) for a in args] + named
    sizes = [len(g) for g in groups]
    total = math.prod(sizes)
    seed = zlib.adler32(repr(sorted(kwargs)).encode())
    cases = []
    for flat in _choice(total, num_generated_cases(), seed):
        case: dict = {}
        for group, size in zip(groups, sizes):
            flat, i = divmod(flat, size)
            case.update(group[i])
        cases.append(case)
    return cases


def sample_product(*args, **kwargs):
    """Decorator: run a test on sampled parameters (see `sample_product_testcases`)."""
    return parameterized.parameters(*sample_product_testcases(*args, **kwargs))


def parameterized_filterable(
    *,
    kwargs: Sequence[dict],
    testcase_name: Callable | None = None,
    one_containing: str | None = None,
):
    """Decorator: named parameters, so that tests can be selected by name."""
    if testcase_name is None:
        testcase_name = lambda kw: "_".join(f"{k}={v}" for k, v in kw.items())
    named = [
        dict(
            kw,
            testcase_name=f"_{i}_{re.sub(r'[^A-Za-z0-9_.=-]', '_', str(kw.get('testcase_name') or testcase_name(kw)))}",
        )
        for i, kw in enumerate(kwargs)
    ]
    if one_containing is not None:
        named = [kw for kw in named if one_containing in kw["testcase_name"]][:1]
    return parameterized.named_parameters(*named)


def cases_from_list(xs):
    """Sample elements of a list."""
    xs = list(xs)
    return [xs[i] for i in _choice(len(xs), num_generated_cases(), 42)]


def cases_from_gens(*gens):
    sizes = [1, 3, 10]
    for size in itertools.islice(itertools.cycle(sizes), num_generated_cases()):
        yield (f"_{size}", *(g() for g in gens))


def named_cases_from_sampler(gen):
    """Cases of a generator function, which is given `sample(list) -> list of one element`."""
    seen: set = set()
    retries = 0
    rng = np.random.RandomState(42)

    def sample(x):
        x = list(x)
        return [x[rng.randint(len(x))]] if x else []

    while len(seen) < num_generated_cases() and retries < 1000:
        retries += 1
        for case in gen(sample):
            if case["testcase_name"] in seen:
                continue
            retries = 0
            seen.add(case["testcase_name"])
            yield case


class JaxTestLoader(absltest.TestLoader):
    """Loads tests; JAX_TEST_TARGETS and JAX_EXCLUDE_TEST_TARGETS are regular expressions."""

    def getTestCaseNames(self, testCaseClass):
        names = list(super().getTestCaseNames(testCaseClass))
        targets = os.getenv("JAX_TEST_TARGETS", "")
        if targets:
            names = [n for n in names if re.search(targets, f"{testCaseClass.__name__}.{n}")]
        excluded = os.getenv("JAX_EXCLUDE_TEST_TARGETS", "")
        if excluded:
            names = [n for n in names if not re.search(excluded, f"{testCaseClass.__name__}.{n}")]
        return names
