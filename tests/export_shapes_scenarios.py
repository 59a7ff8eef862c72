"""Symbolic dimensions: normal forms, comparisons, constraints, texts, and shapes of functions."""

import functools
import re

import numpy as np
from export_shapes_functions import ARGUMENTS, FUNCTIONS
from op_cases import Programs

import jax
from jax import export
from jax.core import max_dim, min_dim

CASES = Programs()
FORMS = """
a+b; b+a; a*b+1; 2*a-1; -a+b; 1+a+a; a*a; b*a; a*(b+1); (a+b)*(a-b); a//2; a//b; a%3; a%b; (a+4)//2; (2*a+4)//2; (2*a+1)//2
(3*a+6*b)//3; (a*b)//b; (a*b+a)//a; max(a,1); max(a,5); max(5,a); min(a,b); -min(a,b); 2*max(a,b)+1; a-a; 0*a; a**2; a**0
(a+1)%1; (4*a)%2; (a%3)%3; (a*3+1)%3; (a+3)%3; (a//2)*2+a%2; a-a%2; (a-1)//2; -a//2; a//-2; a%-2; max(max(a,b),c)
a+b+c+a*b+a*b*c+a*a+1; c*a*b; (a+b)*(c+1); a//2+b//2; (a//2)//3; -(a//2); 3*(a%2); a*(b//2); (a*a)//a; (a*a-1)//(a+1)
(a*b)%a; (a+b)//(a+b); (2*a+2*b)//(a+b); max(a,a); max(a+1,a); min(a+1,a); max(a,0); min(a,1); max(a-1,0); min(a//2,a)
6*a//4; 6*a%4; (6*a+2)//4; a//a; a%a; 0//a; 0%a; 5//a; 5%a; (2*a+3)//2; (2*a-1)//2; (8*a-3)//4; (8*a-3)%4; (-2*a+1)//2
(2*a)//-2; (2*a+1)%-2; a*b//(2*b); (4*a*b)//(2*b); (4*a*b)//(2*a*b); max(a,b)//2; (2*max(a,b))//2; (2*(a//2)+1)//2
(a//2)*(a%2)*b+a*a*b*c-a*a*a; a*b*b-a*a*b+b*c-c*c; (a//2)**2+(a%3)%2+(3*a)//2; divmod(a*b+b, b); a//0; a%0; a**-1; 2*a//1
a == b; a == a; a != b; a == 3; a >= 1; a >= 0; a >= 2; a < 1; a <= b; a+b >= 2; a+b > 2; a > 0; 2*a >= a; a%2 >= 0; a%2 < 2
a//2 >= 0; a//2 <= a; -a <= -1; a-b >= 0; a//2 >= 1; (a+1)//2 >= 1; a//2 < a; 2*(a//2) <= a; 2*(a//2)+1 >= a; a%b < b
a%b >= 0; max(a,b) >= a; min(a,b) <= a; max(a,b)+min(a,b) >= a; max(a,4) >= 4; a-min(a,b) >= 0; (a//3)*3 <= a; a+b >= a+1
a*b >= 1; (a-1)//2 >= 0; (a-5)//2 >= -2; a-2 >= 0; a//4 <= a//2; max(a-2,0) < a; (a+3)//4*4 >= a; (2*a)%5 <= 4
max(a,b) >= min(a,b); a+b > a; (a*b)//2 <= a*b; a//2+a%2 >= 1; a-2*(a//2) <= 1; -a%3 >= 0; (b-a)%3 <= 2; a == None; a == 'x'
hash(a) == hash(a+0); bool(a); int(a); float(a); +a; abs(a); a in [b, a]; np.int32(3)*a; a*np.int32(3); a @ b; a << 1; [1]*a
""".replace("\n", ";")
TEXTS = """a, b|(a,b)|(a,)|a|()||a b|2*a|a*2|a^2|a+-1|-a+1|3|a,3|max(a,b)|min(a,b)|max(a,b,c)|floordiv(a,2)|mod(a,2)|a//2|a%2|a-b-c|_|...
a, ...|a.b|1a|a,,b|a,b,|max(a)|floordiv(a)|floordiv(a,b,c)|non(a)|_a|a_|A1|0|-1|a-5|a/2|2a|4 a|a == b|a+ b|floordiv( a , 2 )|2*a*3|1.5
max(3,4)|a-a|a*0|((a))|0x1|1e3|mod|max""".replace("\n", "|").split("|")
LIKES = [
    ("_, a", (3, 4)), ("...", (3, 4)), ("a, ...", (3, 4, 5)), ("..., a", (3, 4)), (None, (2, 3)),
    ("3,a", (3, 4)), ("3,a", (4, 4)), ("a", (3, 4)), ("_,_", (None, 3)), ("a,a", (3, 4)),
    ("a,2*a", (3, 6)), ("_+1", (3,)), ("a,...", ()), ("...,...", (3,)), ("a,...", (3, None)),
    ("a", (None,)), (None, None), ("_", None), (3, (3,)), (("a", "b"), (3, 4)),
]  # fmt: skip
CONSTRAINTS = {
    "lower": ["a>=3"], "upper": ["a <= 5"], "constant": ["a==3"], "order": ["a>=b"],
    "equal": ["a==b"], "offset": ["a == b+1"], "double": ["2*a == b"], "even": ["mod(a,2)==0"],
    "half": ["floordiv(a,2)==b"], "product": ["a*b==c"], "both": ["a>=b", "b>=a"],
    "sum": ["a+b<=10"], "trivial": ["a==a"], "four": ["mod(a,4)==0", "a>=8"], "larger": ["a == max(b,c)"],
    "negative": ["-a==-b"], "odd": ["mod(a,4)==1"], "named": ["max(a,b)==b"], "multiple": ["mod(a,b)==0"],
    "relation": ["a>3"], "assignment": ["a=b"], "chain": ["a>=b>=c"], "no_relation": ["a"], "empty": [""],
    "sum_left": ["a+b==c"], "constant_left": ["3 == a"], "false": ["4<=3"], "no_list": "a>=3",
    "no_text": ["a>=3", 3],
}  # fmt: skip
QUERIES = "a>=3; a>=b; a<=5; a-b; a%2; a+b<=10; a//2; a*b; a==b; a%4; 2*a; 4*a; a//2*2; b>=a; a+3*b; (a*b)//b"


def outcome(text, **sizes):
    functions = {"max": max_dim, "min": min_dim, "np": np}
    try:
        result = eval(text, functions, sizes)
    except Exception as err:
        return type(err).__name__
    return f"{result} {type(result).__name__.strip('_')}"


@CASES.define
def forms():
    a, b, c = export.symbolic_shape("a, b, c")
    return {t.strip(): outcome(t.strip(), a=a, b=b, c=c) for t in FORMS.split(";") if t.strip()}


@CASES.define
def order_of_names():
    names = export.symbolic_shape("n, batch, h, H, a1, a10, a2, _x, B")
    return str(sum(names)), str(sum(n * m for n in names for m in names))


def shape_of(text, **options):
    try:
        shape = export.symbolic_shape(text, **options)
    except Exception as err:
        return type(err).__name__
    return str(shape), [type(d).__name__.strip("_") for d in shape]


@CASES.define
def texts():
    return {t: shape_of(t) for t in TEXTS}


@CASES.define
def placeholders():
    return [shape_of(t, like=like) for t, like in LIKES]


def constrained(constraints):
    shape = shape_of("a, b, c", constraints=constraints)
    if isinstance(shape, str):
        return shape
    a, b, c = export.symbolic_shape("a, b, c", constraints=constraints)
    return shape, {q.strip(): outcome(q.strip(), a=a, b=b, c=c) for q in QUERIES.split(";")}


for name, constraints in CONSTRAINTS.items():
    CASES.add(f"constraints_{name}", functools.partial(constrained, constraints))


@CASES.define
def arguments():
    args = {"x": np.ones((4, 3), np.float32), "y": [np.int32(3), np.ones((3,), np.int8)]}
    pair = args["x"], args["x"]
    results = []
    for of, specs, options in [
        (args, None, {}), (args, "...", {}), (args, "a, ...", {}), (args["x"], "a,a,a", {}),
        (args, {"x": "a, b", "y": [None, "b"]}, {}), (args, {"x": "a, b", "y": None}, {}),
        (args, {"x": "a, b"}, {}), (pair, ("a,_", "_,a"), {"constraints": ["a>=2"]}),
        (pair, ["a,_", "_,a"], {}), (args["x"], "a,4", {}), (args["x"], 3, {}), (args["x"], "a", {}),
        ((jax.ShapeDtypeStruct((None, 3), np.float32),), "a,_", {}),
    ]:  # fmt: skip
        try:
            results.append(str(export.symbolic_args_specs(of, specs, **options)))
        except Exception as err:
            results.append(type(err).__name__)
    return results


def shapes(name):
    fun, *args = FUNCTIONS[name]
    a, b = export.symbolic_shape("a, b", constraints=["a>=4", "b>=4"])
    sizes = {"a": a, "b": b}
    specs = [
        jax.ShapeDtypeStruct(tuple(sizes.get(d, d) for d in shape), dtype)
        for shape, dtype in (ARGUMENTS[x] for x in args)
    ]
    outs = jax.tree.leaves(jax.eval_shape(fun, *specs))
    return [re.sub(r"\s+", " ", f"{x.dtype} {x.shape}") for x in outs]


for name in FUNCTIONS:
    CASES.add(f"shape_{name}", functools.partial(shapes, name))
