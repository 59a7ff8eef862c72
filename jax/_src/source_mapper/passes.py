"""Passes: the stages of compilation whose output can be mapped to the source."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from jax._src import api
from jax._src.sourcemap import MappingsGenerator, SourceMap


@dataclasses.dataclass(frozen=True, slots=True)
class SourceMapDump:
    """The output of a pass, and the map from its places to those of the source."""

    source_map: SourceMap
    generated_code: str
    pass_name: str


class CompileFn(Protocol):
    """Compiles a function: `(work_dir, f, f_args, f_kwargs, **options)` to anything."""

    def __call__(self, work_dir, f, f_args, f_kwargs, **kwargs: Any) -> Any: ...


class GenerateDumpFn(Protocol):
    """Makes a dump of what a `CompileFn` returned: `(compile_result, **options)`."""

    def __call__(self, compile_result: Any, **kwargs: Any) -> SourceMapDump: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Pass:
    """A stage of compilation.

    Attributes:
      name: its name.
      compile_fn: compiles a function.
      generate_dump: makes a dump of the result.
    """

    name: str
    compile_fn: CompileFn
    generate_dump: GenerateDumpFn


class SourceMapGeneratorFn(Protocol):
    """What `generate_sourcemaps` returns: takes the function's arguments, and returns a dump for each pass."""

    def __call__(self, *args: Any, **kwargs: Any) -> Sequence[SourceMapDump]: ...


_passes: dict[str, Pass] = {}


def register_pass(pass_: Pass) -> None:
    """Registers a pass.

    Raises:
      ValueError: if another one has its name.
    """
    if pass_.name in _passes:
        raise ValueError(f"There is already a pass with the name {pass_.name!r}.")
    _passes[pass_.name] = pass_


def all_passes() -> Sequence[Pass]:
    """Returns all passes, in the order of their registration."""
    return list(_passes.values())


def filter_passes(regex: str) -> Sequence[Pass]:
    """Returns the passes whose names match a regular expression from their beginning."""
    return [pass_ for name, pass_ in _passes.items() if re.match(regex, name)]


@contextlib.contextmanager
def flag_env(**kwargs: Any) -> Iterator[None]:
    """Context manager: sets flags of absl by their names."""
    from absl import flags

    before = {name: flags.FLAGS[name].value for name in kwargs}
    try:
        for name, value in kwargs.items():
            flags.FLAGS[name].value = value
        yield
    finally:
        for name, value in before.items():
            flags.FLAGS[name].value = value


def compile_with_env(
    f: Any, f_args: Any, f_kwargs: Any, env_flags: Any, compiler_flags: Any
) -> Any:
    """Compiles a function with flags of absl and options of the compiler, and returns `Compiled`."""
    with flag_env(**(env_flags or {})):
        return api.jit(lambda *args, **kwargs: f(*args, **kwargs)).lower(*f_args, **f_kwargs).compile(compiler_flags)  # fmt: skip


def generate_sourcemaps(
    f: Callable[..., Any], passes: Sequence[Pass], **pass_kwargs: Any
) -> SourceMapGeneratorFn:
    """Returns a function of the arguments of `f`, which returns a dump for each pass.

    Args:
      f: a function of arrays.
      passes: the passes, see `all_passes`.
      pass_kwargs: options of the passes, such as `xla_compiler_flags`.

    >>> from jax.experimental import source_mapper
    >>> passes = source_mapper.filter_passes("jaxpr")
    >>> dump, = source_mapper.generate_sourcemaps(jnp.sin, passes)(1.0)
    >>> dump.generated_code
    '{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }'
    """

    def generate(*args: Any, **kwargs: Any) -> Sequence[SourceMapDump]:
        compiled: dict[Any, Any] = {}
        dumps = []
        for pass_ in passes:
            if pass_.compile_fn not in compiled:
                with tempfile.TemporaryDirectory() as work_dir:
                    compiled[pass_.compile_fn] = pass_.compile_fn(
                        work_dir, f, args, kwargs, **pass_kwargs
                    )
            dumps.append(pass_.generate_dump(compiled[pass_.compile_fn], **pass_kwargs))
        return dumps

    return generate


Place = tuple[str, int, int]  # a file, a line and a column of it, counted from 1 and 0


def source_map_of(lines: Sequence[Sequence[tuple[int, Place]]]) -> SourceMap:
    """Returns the source map of a text.

    Args:
      lines: for each line the columns where something begins, and the place that it comes from.
    """
    sources: dict[str, int] = {}
    generator = MappingsGenerator()
    for line in lines:
        generator.new_group()
        for column, (file, source_line, source_column) in line:
            number = sources.setdefault(file, len(sources))
            generator.new_segment(column, number, source_line - 1, source_column)
    return SourceMap(3, list(sources), [], [], generator.mappings())
