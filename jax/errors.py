"""The exceptions that JAX raises; their docstrings describe causes and remedies."""

from jax._src.core import JaxprTypeError as JaxprTypeError
from jax._src.errors import (
    ConcretizationTypeError as ConcretizationTypeError,
    InconclusiveDimensionOperation as InconclusiveDimensionOperation,
    JAXIndexError as JAXIndexError,
    JaxRuntimeError as JaxRuntimeError,
    JAXTypeError as JAXTypeError,
    KeyReuseError as KeyReuseError,
    NonConcreteBooleanIndexError as NonConcreteBooleanIndexError,
    TracerArrayConversionError as TracerArrayConversionError,
    TracerBoolConversionError as TracerBoolConversionError,
    TracerIntegerConversionError as TracerIntegerConversionError,
    UnexpectedTracerError as UnexpectedTracerError,
)
