"""Arrays of eight-bit integers with a scale for each row."""

from jax._src.pallas.ops.tpu.paged_attention.quantization import (
    MAX_INT8 as MAX_INT8,
    QuantizedTensor as QuantizedTensor,
    from_int8 as from_int8,
    get_quantization_scales as get_quantization_scales,
    quantize_to_int8 as quantize_to_int8,
    to_int8 as to_int8,
    unquantize_from_int8 as unquantize_from_int8,
)
