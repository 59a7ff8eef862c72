"""Tests that programs exported earlier still run, and that exporting them now gives the same calls."""

import dataclasses
import datetime
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import jax
from jax import export
from jax._src import core, stages, test_util as jtu
from jax._src.export._export import Exported
from jax._src.tree_util import tree_flatten, tree_structure

CURRENT_TESTDATA_VERSION = 1


@dataclasses.dataclass(frozen=True)
class CompatTestData:
    """An exported program, with arguments and their results.

    Attributes:
      testdata_version: the version of these fields.
      platform: what the program was exported for: cpu, cuda, rocm or tpu.
      custom_call_targets: the functions outside of the program that it calls.
      serialized_date: when it was exported.
      inputs, expected_outputs: arguments, and the results that they had.
      mlir_module_text: the program, for readers.
      mlir_module_serialized: the program, as a portable artifact.
      xla_call_module_version: the version of the calling convention.
      nr_devices: the number of devices that it was exported for.
    """

    testdata_version: int
    platform: str
    custom_call_targets: list[str]
    serialized_date: datetime.date
    inputs: Sequence[np.ndarray]
    expected_outputs: Sequence[np.ndarray]
    mlir_module_text: str
    mlir_module_serialized: bytes
    xla_call_module_version: int
    nr_devices: int = 1


class CompatTestBase(jtu.JaxTestCase):
    """Base class of tests of programs that were exported earlier."""

    def default_jax_backend(self) -> str:
        """The platform under test, as exported programs name it: `cuda` or `rocm`, not `gpu`."""
        backend = jax.default_backend()
        return "rocm" if jtu.is_device_rocm() else "cuda" if backend == "gpu" else backend

    def starter_data(self, inputs: Sequence[np.ndarray]) -> CompatTestData:
        """Data for a new test, which fails and prints what to store."""
        return CompatTestData(
            testdata_version=CURRENT_TESTDATA_VERSION,
            platform=self.default_jax_backend(),
            custom_call_targets=[],
            serialized_date=datetime.date.today(),
            inputs=list(inputs),
            expected_outputs=[],
            mlir_module_text="",
            mlir_module_serialized=b"",
            xla_call_module_version=0,
        )

    def load_testdata(self, testdata_dict: dict[str, Any]) -> CompatTestData:
        """Stored data.

        Raises:
          NotImplementedError: the data are of another version.
        """
        version = testdata_dict["testdata_version"]
        if version != CURRENT_TESTDATA_VERSION:
            raise NotImplementedError(f"testdata_version {version} is not supported")
        return CompatTestData(**testdata_dict)

    def load_testdata_nested(self, testdata_nest) -> Iterable[CompatTestData]:
        """The stored data in nested dictionaries and sequences."""
        if isinstance(testdata_nest, dict):
            if "testdata_version" in testdata_nest:
                yield self.load_testdata(testdata_nest)
                return
            testdata_nest = testdata_nest.values()
        elif not isinstance(testdata_nest, (list, tuple)):
            raise TypeError(f"test data in dictionaries and sequences, got {type(testdata_nest)}")
        for nested in testdata_nest:
            yield from self.load_testdata_nested(nested)

    def run_one_test(
        self,
        func: Callable[..., jax.Array] | stages.Wrapped,
        data: CompatTestData,
        polymorphic_shapes: Sequence[str] | None = None,
        prepare_inputs: Callable[[Sequence[np.ndarray]], Sequence[Any]] | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        allow_unstable_custom_call_targets: Sequence[str] = (),
        check_results: Callable[..., None] | None = None,
        expect_current_custom_calls: Sequence[str] | None = None,
    ):
        """Check that a stored program and the function have the stored results.

        Args:
          func: the function that the program was exported from, jitted or not.
          data: the stored program and results.
          polymorphic_shapes: for each argument, its shape if sizes are symbolic.
          prepare_inputs: makes arguments of the stored inputs, such as arrays in shardings.
          rtol, atol: tolerances.
          allow_unstable_custom_call_targets: functions that the exported program may call besides
            those whose behaviour is fixed.
          check_results: `check_results(results, expected, rtol=, atol=)`, instead of comparing them.
          expect_current_custom_calls: the functions that `func` calls now; by default the stored ones.
        """
        if self.default_jax_backend() != data.platform:
            self.skipTest(f"Test enabled only for {data.platform}")
        if jax.device_count() < data.nr_devices:
            self.skipTest(f"Test enabled only for {data.nr_devices} devices")
        now = _as_arrays(self.run_current(func, data, prepare_inputs))
        serialized, text, version, nr_devices = self.serialize(
            func,
            data,
            polymorphic_shapes=polymorphic_shapes,
            allow_unstable_custom_call_targets=allow_unstable_custom_call_targets,
        )
        targets = _custom_call_targets(text)
        if not data.mlir_module_serialized:
            found = dataclasses.replace(
                data,
                custom_call_targets=targets,
                expected_outputs=now,
                mlir_module_text=text,
                mlir_module_serialized=serialized,
                xla_call_module_version=version,
                nr_devices=nr_devices,
            )
            self.fail(
                f"There is no stored program yet. Store this one:\n{dataclasses.asdict(found)}"
            )
        check = check_results or (lambda *pair, **tol: self.assertAllClose(*pair, **tol))
        expected = list(data.expected_outputs)
        check(now, expected, rtol=rtol, atol=atol)
        wanted = data.custom_call_targets
        if expect_current_custom_calls is not None:
            wanted = expect_current_custom_calls
        self.assertEqual(sorted(targets), sorted(set(wanted)), "functions that are called now")
        stored = _as_arrays(self.run_serialized(data, polymorphic_shapes))
        check(stored, expected, rtol=rtol, atol=atol)

    def run_current(
        self,
        func: Callable | stages.Wrapped,
        data: CompatTestData,
        prepare_inputs: Callable[[Sequence[np.ndarray]], Sequence[Any]] | None = None,
    ):
        """The results of the function, compiled as it is now."""
        args = data.inputs if prepare_inputs is None else prepare_inputs(data.inputs)
        return _jitted(func)(*args)

    def serialize(
        self,
        func: Callable | stages.Wrapped,
        data: CompatTestData,
        *,
        polymorphic_shapes: Sequence[str] | None = None,
        allow_unstable_custom_call_targets: Sequence[str] = (),
    ) -> tuple[bytes, str, int, int]:
        """Export the function for the platform of the data.

        Returns:
          The module, its text, the version of the calling convention, and the number of devices.
        """
        checks = [
            export.DisabledSafetyCheck.custom_call(target)
            for target in allow_unstable_custom_call_targets
        ]
        specs = export.symbolic_args_specs(data.inputs, polymorphic_shapes)
        exported = export.export(
            _jitted(func), platforms=(self.default_jax_backend(),), disabled_checks=checks
        )(*specs)
        version = exported.calling_convention_version
        text = str(exported.mlir_module())
        return exported.mlir_module_serialized, text, version, exported.nr_devices

    def run_serialized(self, data: CompatTestData, polymorphic_shapes: Sequence[str] | None = None):
        """The results of the stored program."""
        specs = export.symbolic_args_specs(data.inputs, polymorphic_shapes)
        in_avals, in_tree = tree_flatten((tuple(map(_aval, specs)), {}))
        out_avals = tuple(_aval(x) for x in data.expected_outputs)
        exported = Exported(
            fun_name="run_serialized",
            in_tree=in_tree,
            in_avals=tuple(in_avals),
            out_tree=tree_structure(data.expected_outputs),
            out_avals=out_avals,
            _has_named_shardings=False,
            _in_named_shardings=(None,) * len(in_avals),
            _out_named_shardings=(None,) * len(out_avals),
            in_shardings_hlo=(None,) * len(in_avals),
            out_shardings_hlo=(None,) * len(out_avals),
            nr_devices=data.nr_devices,
            platforms=(data.platform,),
            ordered_effects=(),
            unordered_effects=(),
            disabled_safety_checks=(),
            mlir_module_serialized=data.mlir_module_serialized,
            calling_convention_version=data.xla_call_module_version,
            module_kept_var_idx=tuple(range(len(in_avals))),
            uses_global_constants=polymorphic_shapes is not None,
            _get_vjp=None,
        )
        if data.nr_devices == 1:
            return exported.call(*data.inputs)
        mesh = jax.sharding.Mesh(np.array(jax.devices()[: data.nr_devices]), ("_",))
        replicated = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        return jax.jit(exported.call)(*jax.device_put(list(data.inputs), replicated))


def _jitted(func: Callable | stages.Wrapped) -> Any:
    return func if isinstance(func, stages.Wrapped) else jax.jit(func)


def _aval(x: Any) -> core.ShapedArray:
    return core.ShapedArray(x.shape, np.dtype(x.dtype))


def _as_arrays(results: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in tree_flatten(results)[0]]


def _custom_call_targets(text: str) -> list[str]:
    """The functions outside of a program that it calls, without those of the partitioner."""
    ignored = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}
    return sorted(set(re.findall(r"custom_call\s+@([^(]+)\(", text)) - ignored)
