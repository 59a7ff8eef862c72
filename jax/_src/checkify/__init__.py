"""Functional error checks: a program computes the errors that it finds, as additional results.

`exceptions` has the kinds of errors, `errors` their arrays and the primitive `check`, `record` puts
together what the parts of a program find, `transform` evaluates jaxprs with checks, by the rules in
`operations` and `control`.
"""

from typing import TypeVar

from jax._src.checkify import control, operations
from jax._src.checkify.errors import (
    Error,
    JaxRuntimeError,
    check,
    check_error,
    check_p,
    debug_check,
    init_error,
    is_scalar_pred,
)
from jax._src.checkify.exceptions import (
    BatchedError,
    DivisionByZeroError,
    ErrorCategory,
    ErrorEffect,
    FailedCheckError,
    JaxException,
    NaNError,
    OOBError,
    all_checks,
    automatic_checks,
    div_checks,
    float_checks,
    index_checks,
    nan_checks,
    user_checks,
)
from jax._src.checkify.transform import checkify

# Messages show these classes under the name by which users can import them.
for _class in (
    Error, JaxRuntimeError, ErrorEffect, JaxException, FailedCheckError, NaNError, OOBError,
    DivisionByZeroError, BatchedError,
):  # fmt: skip
    _class.__module__ = __name__

Out = TypeVar("Out")  # a name that outside code imports, for annotations: what a function returns
