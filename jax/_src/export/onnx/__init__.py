"""`jax.export.to_onnx`: exported programs as ONNX models.

`_to_onnx` has the public function, `convert` the walk over a StableHLO module, `graph` the model that is
built, `kernels` the types that runtimes compute with, `attributes` what is read from operations, `bodies`
what small regions compute. The other modules have the rules, one family of operations each.
"""

from jax._src.export.onnx._to_onnx import to_onnx as to_onnx
