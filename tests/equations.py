"""The equations of a program as text that does not depend on how it is divided into functions.

Nested jits are inlined, and equations are listed in the order the results ask for them, so that two
builds print the same where they compute the same with the same types.
"""

import re

import numpy as np

import jax

_INLINED = ("jit", "pjit", "closed_call")
_LEFT_OUT = ("name", "out_sharding", "sharding")


def equations(fun, *args):
    """The equations of `fun(*args)`; arguments are arrays or ShapeDtypeStructs."""
    closed = jax.make_jaxpr(fun)(*args)
    return _text(closed.jaxpr, [_constant(c, c) for c in closed.consts])


def _text(jaxpr, consts):
    lines, names = [], {}

    def name(node):
        if isinstance(node, str):
            return node
        head, operands, aval = node
        text = " ".join([head, *map(name, operands)])
        if text not in names:
            names[text] = f"v{len(names)}"
            lines.append(f"{names[text]}:{_type(aval)} = {text}")
        return names[text]

    inputs = [f"in{i}:{_type(v.aval)}" for i, v in enumerate(jaxpr.invars)]
    outs = [name(node) for node in _nodes(jaxpr, consts, inputs)]
    return "\n".join([*lines, "-> " + " ".join(outs)])


def _nodes(jaxpr, consts, args):
    """The results: texts of inputs and literals, or (operation, operands, type)."""
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args]))
    read = lambda x: _constant(x.val, x.aval) if hasattr(x, "val") else env[x]
    for eqn in jaxpr.eqns:
        operands = [read(x) for x in eqn.invars]
        inner = eqn.params.get("jaxpr")
        if eqn.primitive.name in _INLINED:
            outs = _nodes(inner.jaxpr, [_constant(c, c) for c in inner.consts], operands)
        elif (
            eqn.primitive.name == "convert_element_type"
            and isinstance(operands[0], str)
            and not operands[0].startswith("in")
        ):
            outs = [f"{operands[0].split(':')[0]}:{_type(eqn.outvars[0].aval)}"]
        else:
            params = " ".join(
                f"{k}={_param(v)}"
                for k, v in sorted(eqn.params.items())
                if v is not None and k not in _LEFT_OUT
            )
            head = f"{eqn.primitive.name}[{params}]"
            outs = [
                (head if i == 0 else f"{head}#{i}", tuple(operands), v.aval)
                for i, v in enumerate(eqn.outvars)
            ]
        env.update(zip(eqn.outvars, outs))
    return [read(x) for x in jaxpr.outvars]


def _type(aval):
    weak = "*" if getattr(aval, "weak_type", False) else ""
    return f"{aval.dtype}{list(aval.shape)}{weak}"


def _constant(value, aval):
    array = np.asarray(value)
    if array.dtype.kind == "c":
        return f"{array.tolist()}:{_type(aval)}"
    return f"{array.astype(np.float64).tolist()}:{_type(aval)}"


def _param(value):
    if hasattr(value, "consts") and hasattr(value, "jaxpr"):
        return "{" + _text(value.jaxpr, [_constant(c, c) for c in value.consts]) + "}"
    if hasattr(value, "eqns"):
        return "{" + _text(value, [f"c{i}" for i, _ in enumerate(value.constvars)]) + "}"
    if isinstance(value, (tuple, list)):
        return "(" + ",".join(map(_param, value)) + ")"
    if callable(value) and not isinstance(value, type):
        return "function"
    return re.sub(r" at 0x\w+", "", str(value))
