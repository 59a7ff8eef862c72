"""The check of functions and jaxprs for random keys that are used twice."""

from jax._src.errors import KeyReuseError as KeyReuseError
from jax._src.key_reuse.analysis import (
    check_key_reuse_jaxpr as check_key_reuse_jaxpr,
    jaxpr_type_signature as jaxpr_type_signature,
    key_reuse_signature_from_eqn as key_reuse_signature_from_eqn,
    unknown_signature as unknown_signature,
)
from jax._src.key_reuse.api import (
    check_key_reuse as check_key_reuse,
    function_type_signature as function_type_signature,
)
from jax._src.key_reuse.assertions import (
    assert_consumed as assert_consumed,
    assert_unconsumed as assert_unconsumed,
    consume as consume,
    consume_p as consume_p,
)
from jax._src.key_reuse.rules import key_reuse_signatures as key_reuse_signatures
from jax._src.key_reuse.signatures import (
    Forward as Forward,
    KeyReuseSignature as KeyReuseSignature,
    Sink as Sink,
    Source as Source,
)
