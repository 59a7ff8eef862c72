"""Source maps of jaxprs, StableHLO and XLA's programs."""

import inspect
import json

import hypothesis
import hypothesis.strategies as st
import numpy as np
from absl import flags
from absl.testing import absltest, parameterized

import jax.numpy as jnp
from jax import lax
from jax._src import sourcemap, test_util as jtu
from jax.experimental import source_mapper
from jax.experimental.source_mapper import common, hlo, mlir

SOURCE = inspect.getsource(inspect.getmodule(lambda: None)).splitlines()
NUMBERS = st.integers(-(2**40), 2**40)
SEGMENTS = st.one_of([st.tuples(*[NUMBERS] * n) for n in (1, 4, 5)])


def f(x):
    y = jnp.sin(x)  # sine

    def body(carry, _):
        return carry * 2, jnp.cos(carry)  # loop

    total, ys = lax.scan(body, y, length=3)
    return total + jnp.tanh(ys)  # end


def lines_of(dump):
    """The source's line for each line of the dump that has one."""
    lines, last = {}, 0
    for i, segments in enumerate(dump.source_map.mappings):
        for segment in segments:
            last += segment[2]
            lines[i] = last
    generated = dump.generated_code.splitlines()
    return [(generated[i].strip(), SOURCE[line]) for i, line in lines.items()]


class SourceMapperTest(parameterized.TestCase):
    def test_passes(self):
        names = [p.name for p in source_mapper.all_passes()]
        self.assertEqual(names, ["jaxpr", "hlo:stable-hlo", "hlo:original", "hlo:optimized"])
        self.assertLen(source_mapper.filter_passes("hlo"), 3)
        self.assertLen(source_mapper.filter_passes("jaxpr$"), 1)
        with self.assertRaisesRegex(ValueError, "already a pass with the name 'jaxpr'"):
            source_mapper.register_pass(source_mapper.all_passes()[0])

    @parameterized.parameters(
        ("jaxpr", " sin ", " cos ", " tanh "),
        ("hlo:stable-hlo", "stablehlo.sine", "stablehlo.cosine", "stablehlo.tanh"),
        ("hlo:original", " sine(", " cosine(", " tanh("),
        ("hlo:optimized", " sine(", " cosine(", " tanh("),
    )
    def test_operations_and_their_lines(self, name, sine, cosine, tanh):
        generate = source_mapper.generate_sourcemaps(f, source_mapper.filter_passes(name))
        (dump,) = generate(np.ones(3, np.float32))
        self.assertEqual(dump.pass_name, name)
        self.assertEqual(dump.source_map.sources, [__file__])
        found = lines_of(dump)
        for operation, comment in ((sine, "# sine"), (cosine, "# loop"), (tanh, "# end")):
            sources = [line for text, line in found if operation in text]
            self.assertNotEmpty(sources, operation)
            for line in sources:
                self.assertEndsWith(line, comment)
        again = sourcemap.SourceMap.from_json(dump.source_map.to_json())
        self.assertEqual(again, dump.source_map)
        self.assertLen(again.mappings, len(dump.generated_code.splitlines()))

    def test_options_and_keywords(self):
        passes = source_mapper.all_passes()
        generate = source_mapper.generate_sourcemaps(
            lambda x, *, n: x**n, passes, xla_compiler_flags={"xla_backend_optimization_level": 0}
        )
        self.assertLen(generate(jnp.ones(3), n=3), 4)

    def test_compile_with_flags(self):
        flags.FLAGS.mark_as_parsed()
        before = flags.FLAGS.verbosity
        seen = []

        def f(x):
            seen.append(flags.FLAGS.verbosity)
            return x + 1

        compiled = source_mapper.compile_with_env(f, (1.0,), {}, {"verbosity": 3}, None)
        self.assertEqual((compiled(2.0), seen, flags.FLAGS.verbosity), (3.0, [3], before))
        with self.assertRaises(KeyError), common.flag_env(no_such_flag=1):
            pass

    def test_texts_of_other_versions_and_damaged_ones(self):
        text = 'a = f32[] add(b, c), metadata={op_name="x{y}" source_file="/a.py" source_line=7}'
        self.assertEqual(hlo.parse_hlo_dump(text).mappings, [[(0, 0, 6, 0)]])
        cut = "StackFrames\n1 {file_location_id=9}\n\na = add(), metadata={stack_frame_id=1}"
        self.assertEqual(hlo.parse_hlo_dump(cut).mappings, [[], [], [], []])
        cycle = '  %0 = add loc(#loc1)\n#loc1 = loc("a"(#loc2))\n#loc2 = loc("b"(#loc1))'
        self.assertEqual(mlir.create_mlir_sourcemap(cycle).mappings, [[], [], []])
        self.assertEqual(
            mlir.parse_mlir_locations(
                '#loc1 = loc("f.py":4:8 to :18)\n#loc2 = loc(callsite(#loc1 at #loc))'
            ),
            {"1": mlir.Location("f.py", 4, 8), "2": mlir.Redirect("1")},
        )


class SourceMapTest(absltest.TestCase):
    def test_numbers(self):
        # The digits that the specification's algorithm gives.
        for number, digits in ((0, b"A"), (1, b"C"), (-1, b"D"), (15, b"e"), (16, b"gB"), (-511, b"/f"), (1000, b"w+B")):  # fmt: skip
            self.assertEqual(sourcemap.encode_vlq(number), digits)
            self.assertEqual(sourcemap.decode_vlq(digits), number)

    @hypothesis.given(st.lists(st.lists(SEGMENTS, max_size=4), min_size=1, max_size=5))
    @hypothesis.settings(
        deadline=None, max_examples=50, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    def test_round_trip(self, mappings):
        text = sourcemap.serialize_mappings(mappings)
        self.assertEqual(sourcemap.deserialize_mappings(text), mappings)

    def test_damaged_texts(self):
        for text in ("AAA", "g", "AAAA,!", "AAAAAA"):
            with self.assertRaises(ValueError):
                sourcemap.deserialize_mappings(text)
        for data in ([], {"version": 2}, {"version": 3, "sources": []}):
            with self.assertRaisesRegex(ValueError, "A source map"):
                sourcemap.SourceMap.from_json(json.dumps(data))
        with self.assertRaisesRegex(ValueError, "1, 4 or 5 numbers"):
            generator = source_mapper.MappingsGenerator()
            generator.new_group()
            generator.new_segment(1, 2)


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
