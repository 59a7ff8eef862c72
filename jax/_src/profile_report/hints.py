"""What to do about what a report shows, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from jax._src import config
from jax._src.compile_summary import duration
from jax._src.pages import bytes_text
from jax._src.profile_report.collector import Collected

_MEGABYTE = 1e6
_SLOW_COMPILATION = 5.0  # seconds
_LARGE_RESIDUALS = 0.2  # of the peak of memory


def hints(collected: Collected) -> list[str]:
    return [hint for source in _SOURCES for hint in source(collected)]


def _recompilations(collected: Collected) -> Iterator[str]:
    again: dict[tuple[str, str], list] = {}
    for miss in collected.misses:
        if miss.kind != "first" and not miss.is_within:
            again.setdefault((miss.name, miss.cause), []).append(miss)
    for (name, cause), misses in sorted(again.items(), key=lambda item: -len(item[1]))[:5]:
        first = misses[0]
        times = f"{len(misses)} times" if len(misses) > 1 else "once"
        yield f"{name} missed its cache {times} ({cause}; {first.called_at}). Remedy: {first.remedy}"


def _constants(collected: Collected) -> Iterator[str]:
    large = [c for c in collected.constants if c.nbytes >= _MEGABYTE]
    for constant in sorted(set(large), key=lambda c: -c.nbytes)[:3]:
        yield (
            f"{constant.function} captures {constant.type} ({bytes_text(constant.nbytes)}), which"
            f" {constant.line or 'a result'} reads: pass it as an argument"
        )


def _residuals(collected: Collected) -> Iterator[str]:
    by_function: dict[str, dict] = {}
    for residual in collected.residuals:
        by_function.setdefault(residual.function, {})[residual] = residual.nbytes
    for function, sizes in by_function.items():
        total = sum(sizes.values())
        if total < max(_LARGE_RESIDUALS * collected.peak_bytes, 10 * _MEGABYTE):
            continue
        biggest = max(sizes, key=sizes.__getitem__)
        yield (
            f"{function} keeps {bytes_text(total)} for its backward pass, most of it {biggest.type} at {biggest.line}:"
            " jax.checkpoint around the function of that line computes it again instead"
        )


def _compilation(collected: Collected) -> Iterator[str]:
    seconds = collected.stage_seconds.get("compile", 0.0)
    if seconds >= _SLOW_COMPILATION and not config.compilation_cache_dir.value:
        yield (
            f"compiling took {duration(seconds)}: keep programs for the next start, by"
            " export JAX_COMPILATION_CACHE_DIR=auto"
        )


_SOURCES = (_recompilations, _constants, _residuals, _compilation)
