"""Scenarios of transformations: see op_cases.py. Texts are jaxprs, the same in both."""

import functools

import numpy as np
from op_cases import Programs
from transform_functions import (
    FUNCTIONS,
    REVERSE,
    F,
    branch,
    cj,
    cube,
    cv,
    loop3,
    m23,
    poly,
    scan_sin,
    text,
    total,
    until10,
    v3,
    x1,
)

import jax
import jax.ad_checkpoint
from jax import lax

CASES = Programs()
add = CASES.group

for _name, _f in FUNCTIONS.items():
    add(
        f"forward_{_name}",
        value=functools.partial(_f, x1),
        jit=functools.partial(jax.jit(_f), x1),
        jvp=functools.partial(jax.jvp, _f, (x1,), (F(0.7),)),
        jvp_jit=functools.partial(jax.jvp, jax.jit(_f), (x1,), (F(0.7),)),
        jit_jvp=functools.partial(jax.jit(functools.partial(jax.jvp, _f)), (x1,), (F(0.7),)),
        jvp_jvp=functools.partial(
            jax.jvp, lambda x, f=_f: jax.jvp(f, (x,), (x,))[1], (x1,), (F(0.7),)
        ),
        vmap=functools.partial(jax.vmap(_f), v3),
        vmap_jvp=functools.partial(jax.vmap(lambda x, f=_f: jax.jvp(f, (x,), (lax.sin(x),))), v3),
        jvp_vmap=functools.partial(jax.jvp, jax.vmap(_f), (v3,), (v3,)),
        vmap_vmap=functools.partial(jax.vmap(jax.vmap(_f)), m23),
        linearize=lambda f=_f: jax.linearize(f, x1)[1](F(0.7)),
        jit_vmap=functools.partial(jax.jit(jax.vmap(_f)), v3),
    )
for _name, _f in REVERSE.items():
    CASES.add(
        f"reverse_{_name}_grad_weak",
        functools.partial(jax.value_and_grad(_f), 1.3),
        weak_types=_name != "map",  # there they depend on the path that derivatives take
    )
    add(
        f"reverse_{_name}",
        grad=functools.partial(jax.value_and_grad(_f), x1),
        grad_jit=functools.partial(jax.grad(jax.jit(_f)), x1),
        jit_grad=functools.partial(jax.jit(jax.grad(_f)), x1),
        vmap_grad=functools.partial(jax.vmap(jax.grad(_f)), v3),
        jit_vmap_grad=functools.partial(jax.jit(jax.vmap(jax.grad(_f))), v3),
        grad_vmap=functools.partial(jax.grad(lambda x, f=_f: total(jax.vmap(f)(x))), v3),
        hessian=functools.partial(jax.hessian(_f), x1),
        grad_grad=functools.partial(jax.grad(jax.grad(_f)), x1),
        jacfwd_grad=functools.partial(jax.jacfwd(jax.grad(_f)), x1),
        grad_remat=functools.partial(jax.grad(jax.checkpoint(_f)), x1),
        jacrev_vmap=functools.partial(jax.jacrev(jax.vmap(_f)), v3),
        grad_scan_of=functools.partial(
            jax.grad(lambda x, f=_f: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]), x1
        ),
        grad_cond_of=functools.partial(
            jax.grad(lambda x, f=_f: lax.cond(lax.lt(x, F(5)), f, lambda x: x, x)), x1
        ),
    )

# Gradients: arguments and errors

i0 = np.zeros((), jax.float0)
CASES.add(
    "grad_real_of_complex",
    lambda: jax.grad(lambda z: lax.real(lax.mul(z, z)))(1 + 2j),
    weak_types=False,  # they depend on the path that derivatives take
)
add(
    "grad",
    argnums=lambda: jax.grad(poly, argnums=1)(x1, F(2)),
    argnums_tuple=lambda: jax.grad(poly, argnums=(1, 0))(x1, F(2)),
    argnums_negative=lambda: jax.grad(poly, argnums=-1)(x1, F(2)),
    kwargs=lambda: jax.grad(poly)(x1, y=F(2)),
    tree=lambda: jax.grad(lambda d: lax.mul(d["a"], d["b"][0]))({"a": x1, "b": (F(2), None)}),
    aux=lambda: jax.grad(lambda x: (cube(x), {"y": lax.sin(x)}), has_aux=True)(x1),
    value_aux=lambda: jax.value_and_grad(lambda x: (cube(x), {"y": lax.sin(x)}), has_aux=True)(x1),
    aux_objects=lambda: jax.grad(lambda x: (cube(x), "text"), has_aux=True)(x1),
    int_error=lambda: jax.grad(cube)(3),
    bool_error=lambda: jax.grad(lambda x: x)(True),
    allow_int=lambda: str(jax.grad(lambda x, n: lax.mul(x, x), (0, 1), allow_int=True)(x1, 2)[1].dtype),
    complex_error=lambda: jax.grad(cube)(1 + 2j),
    holomorphic=lambda: jax.grad(cube, holomorphic=True)(1 + 2j),
    holomorphic_error=lambda: jax.grad(cube, holomorphic=True)(1.0),
    holomorphic_out_error=lambda: jax.grad(lax.real, holomorphic=True)(1j),
    abs_of_complex=lambda: jax.grad(lax.abs)(3 + 4j),
    vector_error=lambda: jax.grad(lax.sin)(v3),
    tuple_error=lambda: jax.grad(lambda x: (x, x))(x1),
    none_error=lambda: jax.grad(lambda x: None)(x1),
    int_out_error=lambda: jax.grad(lambda x: 1)(x1),
    argnums_error=lambda: jax.grad(cube, argnums=1)(x1),
    no_aux_error=lambda: jax.grad(cube, has_aux=True)(x1),
    reduce_axes_error=lambda: jax.grad(cube, reduce_axes=("i",))(x1),
    not_callable=lambda: jax.grad(3),
    unused=lambda: jax.grad(lambda x, y: x, (0, 1))(x1, v3),
    constant=lambda: jax.grad(lambda x: F(2))(x1),
    integer_inside=lambda: jax.grad(lambda x: lax.mul(x, lax.convert_element_type(lax.floor(x), F)))(x1),
    stop=lambda: jax.grad(lambda x: lax.mul(x, lax.stop_gradient(x)))(x1),
    jvp_tree=lambda: jax.jvp(lambda d: {"o": lax.mul(d["a"], d["b"])}, ({"a": x1, "b": v3},), ({"a": x1, "b": v3},)),
    jvp_aux=lambda: jax.jvp(lambda x: (lax.sin(x), {"aux": x}), (x1,), (x1,), has_aux=True),
    jvp_float0=lambda: jax.jvp(lambda x, n: lax.mul(x, x), (x1, 2), (x1, i0)),
    jvp_tree_error=lambda: jax.jvp(poly, (x1, x1), (x1,)),
    jvp_type_error=lambda: jax.jvp(cube, x1, (x1,)),
    jvp_dtype_error=lambda: jax.jvp(cube, (x1,), (np.float16(1),)),
    jvp_shape_error=lambda: jax.jvp(cube, (x1,), (v3,)),
    vjp=lambda: jax.vjp(poly, x1, F(2))[1](F(3)),
    vjp_tree=lambda: jax.vjp(lambda x: {"a": lax.sin(x), "b": x}, v3)[1]({"a": v3, "b": v3}),
    vjp_aux=lambda: (lambda r: (r[0], r[1](x1), r[2]))(jax.vjp(lambda x: (lax.sin(x), {"z": x}), x1, has_aux=True)),
    vjp_int_result=lambda: jax.vjp(lambda x: (lax.sin(x), lax.convert_element_type(x, np.int32)), x1)[1]((x1, i0)),
    vjp_int_argument=lambda: str(jax.vjp(lambda n, x: lax.sin(x), 3, x1)[1](x1)[0].dtype),
    vjp_tree_error=lambda: jax.vjp(cube, x1)[1]((x1,)),
    vjp_shape_error=lambda: jax.vjp(cube, x1)[1](v3),
    vjp_dtype_error=lambda: jax.vjp(cube, x1)[1](np.float16(1)),
    vjp_args_error=lambda: jax.vjp(cube, x1)[1](x1, x1),
    linearize=lambda: (lambda r: (r[0], r[1](F(2), F(3))))(jax.linearize(poly, x1, F(2))),
    linearize_aux=lambda: (lambda r: (r[0], r[1](F(2)), r[2]))(jax.linearize(lambda x: (cube(x), x), x1, has_aux=True)),
    linearize_shape_error=lambda: jax.linearize(cube, x1)[1](v3),
    linearize_tree_error=lambda: jax.linearize(cube, x1)[1](x1, x1),
    linearize_vmap=lambda: jax.vmap(jax.linearize(cube, x1)[1])(v3),
    linearize_jit=lambda: jax.jit(jax.linearize(poly, x1, v3)[1])(x1, v3),
    jacfwd=lambda: jax.jacfwd(lambda x: lax.mul(x, lax.rev(x, (0,))))(v3),
    jacrev=lambda: jax.jacrev(lambda x: lax.mul(x, lax.rev(x, (0,))))(v3),
    jacfwd_tree=lambda: jax.jacfwd(lambda d: {"o": lax.mul(d["a"], d["b"])})({"a": x1, "b": v3}),
    jacrev_tree=lambda: jax.jacrev(lambda d: {"o": lax.mul(d["a"], d["b"])})({"a": x1, "b": v3}),
    jacfwd_argnums=lambda: jax.jacfwd(poly, argnums=(0, 1))(v3, v3),
    jacrev_argnums=lambda: jax.jacrev(poly, argnums=(0, 1))(v3, v3),
    jacfwd_aux=lambda: jax.jacfwd(lambda x: (lax.sin(x), {"x": lax.cos(x)}), has_aux=True)(v3),
    jacrev_aux=lambda: jax.jacrev(lambda x: (lax.sin(x), {"x": lax.cos(x)}), has_aux=True)(v3),
    jacfwd_int_error=lambda: jax.jacfwd(cube)(1),
    jacrev_int_error=lambda: jax.jacrev(cube)(1),
    jacfwd_complex_error=lambda: jax.jacfwd(cube)(1j),
    jacrev_complex_error=lambda: jax.jacrev(cube)(1j),
    jacfwd_holomorphic=lambda: jax.jacfwd(cube, holomorphic=True)(1 + 2j),
    jacrev_holomorphic=lambda: jax.jacrev(cube, holomorphic=True)(1 + 2j),
    hessian_tree=lambda: jax.hessian(lambda d: lax.mul(d["a"], total(lax.sin(d["b"]))))({"a": x1, "b": v3}),
    hessian_argnums=lambda: jax.hessian(lambda x, y: total(poly(x, y)), argnums=(0, 1))(v3, v3),
    hessian_aux=lambda: jax.hessian(lambda x: (total(cube(x)), {"x": lax.sin(x)}), has_aux=True)(v3),
    linear_transpose=lambda: jax.linear_transpose(lambda x, y: [lax.mul(x, F(2)), lax.sub(x, y)], x1, x1)([F(3), F(4)]),
    linear_transpose_struct=lambda: jax.linear_transpose(total, jax.ShapeDtypeStruct((3,), F))(F(2)),
    linear_transpose_int=lambda: jax.linear_transpose(lambda x: lax.mul(x, 2), 1)(3),
    linear_transpose_nonlinear=lambda: jax.linear_transpose(lax.sin, x1)(x1),
    linear_transpose_type=lambda: jax.linear_transpose(lambda x: lax.mul(x, F(2)), x1)(v3),
    linear_transpose_tree=lambda: jax.linear_transpose(lambda x: lax.mul(x, F(2)), x1)((x1,)),
    linear_transpose_mixed=lambda: jax.linear_transpose(lambda x, y: (x, y), 1, 2.0)((3, 4.0)),
    linear_transpose_scan=lambda: jax.linear_transpose(lambda x: lax.scan(lambda c, y: (lax.add(lax.mul(c, y), x), c), x, v3), x1)((x1, v3)),
    linear_transpose_jit=lambda: jax.linear_transpose(jax.jit(lambda x: lax.mul(x, v3)), x1)(v3),
    fwd_and_bwd=lambda: (lambda fwd, bwd: (lambda r: (r[0], bwd(r[1], F(2))))(fwd(x1, F(2))))(*jax.fwd_and_bwd(poly, argnums=0)),
    fwd_and_bwd_aux=lambda: (lambda fwd, bwd: (lambda r: (r[0], r[2], bwd(r[1], F(2))))(fwd(x1, F(2))))(
        *jax.fwd_and_bwd(lambda x, y: (poly(x, y), lax.sin(x)), argnums=(0, 1), has_aux=True)),
    fwd_and_bwd_eager=lambda: (lambda fwd, bwd: (lambda r: (r[0], bwd(r[1], F(2))))(fwd(x1, F(2))))(*jax.fwd_and_bwd(poly, argnums=1, jitted=False)),
    while_reverse_error=lambda: jax.grad(until10)(x1),
    while_reverse_jit_error=lambda: jax.jit(jax.grad(until10))(x1),
    closure_convert=lambda: jax.grad(lambda x: (lambda f, c: lax.mul(f(F(2), *c), x))(*jax.closure_convert(lambda y: lax.mul(lax.sin(x), y), F(2))))(x1),
    vjp_through_jit=lambda: jax.jit(lambda f_vjp, ct: f_vjp(ct))(jax.vjp(poly, x1, F(2))[1], F(3)),
    vjp_from_jit=lambda: jax.jit(lambda x: jax.vjp(poly, x, F(2)))(x1)[1](F(3)),
    vjp_vmap=lambda: jax.vmap(jax.vjp(poly, x1, F(2))[1])(v3),
    vjp_args_res=lambda: [str(jax.vjp(lambda x, y: lax.mul(x, y), x1, F(2))[1].args_res)],
)  # fmt: skip

# vmap: arguments and errors

add_ = lambda x, y: lax.add(x, y)
col = np.array([1.0, 2.0], F)
add(
    "vmap",
    axes=lambda: jax.vmap(lambda x, y: lax.mul(x, y), (1, None), 1)(m23, F(2)),
    axes_negative=lambda: jax.vmap(lax.sin, -1, -1)(m23),
    axes_tree=lambda: jax.vmap(lambda d: lax.add(d["a"], d["b"]), ({"a": 0, "b": None},))({"a": v3, "b": x1}),
    axes_prefix=lambda: jax.vmap(lambda d: lax.add(d["a"], d["b"]), (1,))({"a": m23, "b": m23}),
    axes_list=lambda: jax.vmap(add_, [0, None])(v3, x1),
    out_tree=lambda: jax.vmap(lambda x: {"a": x, "b": (x, x)}, 0, {"a": 1, "b": 0})(m23),
    out_none=lambda: jax.vmap(lambda x: (x, F(2)), 0, (0, None))(v3),
    out_broadcast=lambda: jax.vmap(lambda x: F(2))(v3),
    kwargs=lambda: jax.vmap(lambda x, y: lax.mul(x, y))(v3, y=v3),
    kwargs_none_axes=lambda: jax.vmap(lambda x, y: lax.mul(x, y), in_axes=None)(x1, y=v3),
    axis_size=lambda: jax.vmap(lambda: F(2), axis_size=3)(),
    axis_size_none=lambda: jax.vmap(lambda x: x, in_axes=None, axis_size=3)(x1),
    nested=lambda: jax.vmap(jax.vmap(lambda x, y: lax.mul(x, y), (0, None)), (None, 0))(v3, col),
    axis_name=lambda: jax.vmap(lambda x: lax.sub(x, lax.psum(x, "i")), axis_name="i")(v3),
    axis_names=lambda: jax.vmap(jax.vmap(lambda x: lax.psum(x, ("i", "j")), axis_name="j"), axis_name="i")(m23),
    axis_index=lambda: jax.vmap(lambda x: lax.axis_index("i"), axis_name="i")(v3),
    axis_size_named=lambda: jax.vmap(lambda x: lax.axis_size("i"), axis_name="i")(v3),
    axis_unbound=lambda: lax.psum(x1, "i"),
    pmax=lambda: jax.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(v3),
    all_gather=lambda: jax.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(v3),
    ppermute=lambda: jax.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)]), axis_name="i")(v3),
    psum_grad=lambda: jax.grad(lambda x: total(jax.vmap(lambda y: lax.mul(y, lax.psum(y, "i")), axis_name="i")(x)))(v3),
    psum_jit=lambda: jax.jit(jax.vmap(jax.jit(lambda x: lax.psum(x, "i")), axis_name="i"))(v3),
    psum_scan=lambda: jax.vmap(lambda x: lax.scan(lambda c, _: (lax.psum(c, "i"), None), x, None, length=2)[0], axis_name="i")(v3),
    psum_custom=lambda: jax.vmap(lambda x: jax.grad(cj)(lax.psum(x, "i")), axis_name="i")(v3),
    sizes_error=lambda: jax.vmap(add_)(v3, col),
    rank_error=lambda: jax.vmap(add_, (0, 1))(v3, v3),
    none_error=lambda: jax.vmap(lambda x: x, in_axes=None)(v3),
    length_error=lambda: jax.vmap(lambda x: x, in_axes=(0, 0))(v3),
    prefix_error=lambda: jax.vmap(lambda x: x, in_axes=({"a": 0},))({"b": v3}),
    type_error=lambda: jax.vmap(lambda x: x, in_axes="a")(v3),
    float_axis_error=lambda: jax.vmap(lambda x: x, in_axes=1.0)(v3),
    out_type_error=lambda: jax.vmap(lambda x: x, out_axes="a")(v3),
    out_none_error=lambda: jax.vmap(lambda x: x, out_axes=None)(v3),
    out_prefix_error=lambda: jax.vmap(lambda x: (x, x), out_axes=(0, 1, 2))(v3),
    out_range_error=lambda: jax.vmap(lambda x: x, out_axes=1)(v3),
    no_arguments_error=lambda: jax.vmap(lambda: 1.0)(),
    axis_size_error=lambda: jax.vmap(lambda x: x, axis_size=2)(v3),
    not_callable=lambda: jax.vmap(3),
    scalar_error=lambda: jax.vmap(lambda x: x)(x1),
    while_predicate=lambda: jax.vmap(until10)(np.array([0.5, 4.0, 20.0], F)),
    while_mixed=lambda: jax.vmap(lambda n, x: lax.while_loop(lambda c: lax.lt(c[0], n), lambda c: (lax.add(c[0], 1), lax.mul(c[1], F(2)), c[2]), (0, x, F(1))), (0, None))(np.array([1, 3, 2]), x1),
    while_constant_predicate=lambda: jax.vmap(lambda x: lax.fori_loop(0, np.int32(3), lambda i, c: lax.add(c, x), x))(v3),
    while_body_const=lambda: jax.vmap(lambda x, n: lax.while_loop(lambda c: lax.lt(c[0], n), lambda c: (lax.add(c[0], F(1)), lax.add(c[1], x)), (F(0), F(0))), (0, None))(v3, F(3)),
    cond_predicate=lambda: jax.vmap(branch)(v3),
    cond_operand=lambda: jax.vmap(lambda x: lax.cond(True, lax.sin, cube, x))(v3),
    cond_predicate_tree=lambda: jax.vmap(lambda p, x: lax.cond(p, lambda x: {"a": x, "b": F(1)}, lambda x: {"a": F(2), "b": x}, x))(np.array([True, False, True]), v3),
    switch_index=lambda: jax.vmap(lambda i, x: lax.switch(i, [lax.sin, lax.cos, cube], x))(np.array([-1, 1, 5]), v3),
    switch_index_only=lambda: jax.vmap(lambda i: lax.switch(i, [lambda: F(1), lambda: F(2)]))(np.array([0, 1, 0])),
    scan_constant=lambda: jax.vmap(lambda x: lax.scan(lambda c, y: (lax.add(c, lax.mul(x, y)), c), F(0), v3))(v3),
    scan_xs=lambda: jax.vmap(lambda ys: lax.scan(lambda c, y: (lax.add(c, y), c), F(0), ys), 1)(m23),
    scan_out_axes=lambda: jax.vmap(lambda x: lax.scan(lambda c, y: (c, lax.add(x, y)), F(0), v3), 0, (None, 1))(col),
    map_batched=lambda: jax.vmap(lambda r: lax.map(cube, r))(m23),
    spmd=lambda: jax.vmap(lax.sin, spmd_axis_name="x")(v3),
    in_jit=lambda: jax.jit(jax.vmap(jax.vmap(lambda x, y: lax.mul(x, y), (0, None)), (None, 0)))(v3, col),
    random=lambda: jax.vmap(lambda k: jax.random.uniform(k, (2,)))(jax.random.split(jax.random.key(0), 3)),
)  # fmt: skip

# Control flow: arguments and errors

pair = lambda c, x: (lax.add(c, x), lax.mul(c, x))
big = np.arange(7, dtype=F) / 3
add(
    "control",
    scan=lambda: lax.scan(pair, F(0), big),
    scan_reverse=lambda: lax.scan(pair, F(0), big, reverse=True),
    **{f"scan_unroll_{u}": lambda u=u: [lax.scan(pair, F(0), big, unroll=u), lax.scan(pair, F(0), big, reverse=True, unroll=u)] for u in (1, 2, 3, 7, 10, True)},
    scan_length_0=lambda: lax.scan(pair, F(2), big[:0]),
    scan_length_0_grad=lambda: jax.grad(lambda x: lax.scan(pair, x, big[:0])[0])(x1),
    scan_length_1=lambda: lax.scan(pair, F(2), big[:1]),
    scan_length=lambda: lax.scan(lambda c, _: (lax.mul(c, F(2)), c), F(1), None, length=4),
    scan_trees=lambda: lax.scan(lambda c, x: ({"a": lax.add(c["a"], x[0])}, (x[1], None, c)), {"a": F(0)}, (big, big)),
    scan_weak=lambda: lax.scan(lambda c, x: (lax.add(c, x), x), 0.0, big),
    scan_weak_pass=lambda: lax.scan(lambda c, x: (c, x), 0.0, big),
    scan_int_weak_error=lambda: lax.scan(lambda c, x: (lax.mul(lax.convert_element_type(c, F), x), x), 0, big),
    scan_split_transpose=lambda: jax.grad(lambda x: lax.scan(lambda c, y: (lax.sin(lax.mul(c, x)), None), F(1), big, _split_transpose=True)[0])(x1),
    scan_carry_dtype_error=lambda: lax.scan(lambda c, x: (lax.convert_element_type(c, np.int32), x), F(1), big),
    scan_carry_shape_error=lambda: lax.scan(lambda c, x: (v3, x), F(1), big),
    scan_carry_tree_error=lambda: lax.scan(lambda c, x: ((c, c), x), F(1), big),
    scan_pair_error=lambda: lax.scan(lambda c, x: c, F(1), big),
    scan_sizes_error=lambda: lax.scan(pair, F(0), (big, v3)),
    scan_length_error=lambda: lax.scan(pair, F(0), big, length=3),
    scan_no_length_error=lambda: lax.scan(pair, F(0), None),
    scan_callable_error=lambda: lax.scan(3, F(0), big),
    scan_traced_length_error=lambda: jax.jit(lambda n: lax.scan(pair, F(0), None, length=n))(3),
    scan_int_carry_grad=lambda: jax.grad(lambda x: lax.scan(lambda c, y: ((lax.add(c[0], 1), lax.mul(c[1], lax.convert_element_type(c[0], F))), None), (1, x), big)[0][1])(x1),
    scan_grad_xs=lambda: jax.grad(lambda xs: total(lax.scan(pair, F(1), xs)[1]))(big),
    scan_grad_closure=lambda: jax.grad(lambda w: lax.scan(lambda c, x: (lax.sin(lax.add(lax.mul(w, c), x)), None), F(0), big)[0])(x1),
    scan_grad_all=lambda: jax.grad(lambda w, c, xs: (lambda r: lax.add(r[0], total(r[1])))(lax.scan(lambda c, x: (lax.sin(lax.mul(w, lax.mul(c, x))), lax.mul(w, c)), c, xs)), (0, 1, 2))(x1, F(0.5), big),
    scan_dce=lambda: text(lambda x: lax.scan(lambda c, y: ((lax.add(c[0], y), lax.sin(c[1])), c[0]), (x, x), v3)[0][0], x1),
    map=lambda: lax.map(lambda x: {"a": cube(x)}, big),
    map_tree=lambda: lax.map(lambda d: lax.add(d["a"], d["b"]), {"a": big, "b": big}),
    **{f"map_batch_{b}": lambda b=b: lax.map(cube, big, batch_size=b) for b in (1, 2, 3, 7, 10)},
    map_empty=lambda: lax.map(cube, big[:0]),
    cond=lambda: [lax.cond(True, lax.sin, cube, x1), lax.cond(0, lax.sin, cube, x1), lax.cond(np.array(2.0), lax.sin, cube, x1)],
    cond_no_operand=lambda: lax.cond(True, lambda: F(1), lambda: F(2)),
    cond_operand=lambda: lax.cond(True, lambda x: x, lambda x: x, operand=None),
    cond_tree=lambda: lax.cond(False, lambda a, b: {"x": a, "y": b}, lambda a, b: {"x": b, "y": a}, x1, F(2)),
    cond_weak=lambda: lax.cond(True, lambda x: x, lambda x: 2.0, x1),
    cond_weak_int=lambda: lax.cond(True, lambda x: 1, lambda x: 2, x1),
    cond_closure=lambda: jax.grad(lambda w: lax.cond(True, lambda x: lax.mul(w, x), lambda x: lax.mul(lax.sin(w), x), x1))(F(2)),
    cond_jit=lambda: jax.jit(branch)(x1),
    cond_predicate_error=lambda: lax.cond(v3, lax.sin, cube, x1),
    cond_predicate_none_error=lambda: lax.cond(None, lax.sin, cube, x1),
    cond_predicate_str_error=lambda: lax.cond("a", lax.sin, cube, x1),
    cond_callable_error=lambda: lax.cond(True, 1, 2, x1),
    cond_tree_error=lambda: lax.cond(True, lambda x: x, lambda x: (x, x), x1),
    cond_type_error=lambda: lax.cond(True, lambda x: x, lambda x: lax.convert_element_type(x, np.int32), x1),
    cond_operand_error=lambda: lax.cond(True, lambda x: x, lambda x: x, "a"),
    switch=lambda: [lax.switch(i, [lax.sin, lax.cos, cube], x1) for i in (-1, 0, 1, 2, 3)],
    switch_one=lambda: lax.switch(5, [lax.sin], x1),
    switch_empty_error=lambda: lax.switch(0, [], x1),
    switch_float_error=lambda: lax.switch(1.0, [lax.sin, lax.cos], x1),
    switch_vector_error=lambda: lax.switch(np.array([0, 1]), [lax.sin, lax.cos], x1),
    switch_callable_error=lambda: lax.switch(0, [1, 2], x1),
    switch_type_error=lambda: lax.switch(0, [lambda x: x, lambda x: v3], x1),
    while_=lambda: until10(x1),
    while_tree=lambda: lax.while_loop(lambda d: lax.lt(d["i"], 5), lambda d: {"i": lax.add(d["i"], 1), "x": lax.mul(d["x"], F(2))}, {"i": 0, "x": v3}),
    while_weak=lambda: lax.while_loop(lambda x: lax.lt(x, F(5)), lambda x: lax.add(x, F(1)), 0.0),
    while_closure=lambda: jax.jvp(lambda w: lax.while_loop(lambda x: lax.lt(x, F(9)), lambda x: lax.mul(w, x), w), (F(2),), (F(1),)),
    while_never=lambda: lax.while_loop(lambda x: False, lambda x: lax.add(x, F(1)), x1),
    while_cond_error=lambda: lax.while_loop(lambda x: x, lambda x: x, x1),
    while_cond_tree_error=lambda: lax.while_loop(lambda x: (True, True), lambda x: x, x1),
    while_cond_shape_error=lambda: lax.while_loop(lambda x: np.ones(2, bool), lambda x: x, x1),
    while_body_tree_error=lambda: lax.while_loop(lambda x: True, lambda x: (x, x), x1),
    while_body_type_error=lambda: lax.while_loop(lambda x: True, lambda x: v3, x1),
    while_callable_error=lambda: lax.while_loop(1, 2, x1),
    while_value_error=lambda: lax.while_loop(lambda x: False, lambda x: x, "a"),
    fori=lambda: [lax.fori_loop(0, 4, lambda i, x: lax.add(x, i), 0), lax.fori_loop(2, 2, lambda i, x: lax.add(x, i), 0), lax.fori_loop(4, 0, lambda i, x: lax.add(x, i), 0)],
    fori_dynamic=lambda: jax.jit(lambda a, b: lax.fori_loop(a, b, lambda i, x: lax.add(x, i), 0))(1, 5),
    fori_float_error=lambda: lax.fori_loop(0.0, 4, lambda i, x: x, 0),
    fori_unroll=lambda: lax.fori_loop(0, 7, lambda i, x: lax.add(x, i), 0, unroll=3),
    fori_unroll_error=lambda: jax.jit(lambda n: lax.fori_loop(0, n, lambda i, x: x, 0, unroll=3))(7),
    fori_grad=lambda: jax.grad(lambda x: lax.fori_loop(0, 3, lambda i, c: lax.mul(c, lax.sin(x)), x))(x1),
    fori_reverse_error=lambda: jax.grad(lambda x: lax.fori_loop(0, lax.convert_element_type(x, np.int32), lambda i, c: lax.mul(c, F(2)), x))(x1),
    disable_jit=lambda: _disabled(lambda: [lax.scan(pair, F(0), big), until10(x1), branch(x1), loop3(x1), lax.switch(1, [lax.sin, lax.cos], x1), lax.map(cube, big)]),
    disable_jit_grad=lambda: _disabled(lambda: [jax.grad(loop3)(x1), jax.grad(branch)(x1), jax.vmap(branch)(v3), jax.vmap(until10)(v3), jax.grad(jax.jit(cube))(x1)]),
    disable_jit_scan_0=lambda: _disabled(lambda: lax.scan(pair, F(0), big[:0])),
)  # fmt: skip


def _disabled(fun):
    with jax.disable_jit():
        return fun()


# Jaxprs as texts

add(
    "text",
    constant=lambda: text(lambda x: 3, x1),
    nothing=lambda: text(lambda x: None, x1),
    no_arguments=lambda: text(lambda: ()),
    tree=lambda: text(lambda x: {"a": (x, lax.add(x, 1.0))}, x1),
    closed_array=lambda: text(lambda x: lax.add(x, v3), v3),
    vector=lambda: text(lambda x: total(lax.mul(x, lax.sin(x))), v3),
    long=lambda: text(lambda x: functools.reduce(lambda y, _: lax.sin(y), range(30), x), x1),
    jit=lambda: text(jax.jit(lambda x: lax.mul(x, lax.sin(x))), x1),
    jit_twice=lambda: text(lambda x: (lambda f: f(f(x)))(jax.jit(lax.sin)), x1),
    jit_inline=lambda: text(jax.jit(cube, inline=True), x1),
    jit_donated=lambda: text(jax.jit(lambda x: x, donate_argnums=0), x1),
    jit_named=lambda: text(lambda x: jax.jit(_named_function)(x), x1),
    grad=lambda: text(jax.grad(lambda x, y: poly(x, y), (0, 1)), x1, x1),
    grad_vector=lambda: text(jax.grad(lambda x: total(lax.sin(x))), v3),
    grad_unused=lambda: text(jax.grad(lambda x, y: x, (0, 1)), x1, x1),
    grad_weak=lambda: text(jax.grad(lambda x, y: lax.sin(x), (0, 1)), 1.0, v3),
    vmap=lambda: text(jax.vmap(lambda x, y: lax.add(x, y), (0, None)), v3, x1),
    vmap_grad=lambda: text(jax.vmap(jax.grad(lax.sin)), v3),
    jvp=lambda: text(lambda x: jax.jvp(cube, (x,), (x,)), x1),
    jvp_constant=lambda: text(lambda x: jax.jvp(lambda x: F(3), (x,), (x,)), x1),
    linearized=lambda: text(jax.linearize(lax.sin, x1)[1], x1),
    scan=lambda: text(lambda x: scan_sin(x), x1),
    cond=lambda: text(branch, x1),
    while_=lambda: text(lambda x: lax.while_loop(lambda c: lax.lt(c[0], 3), lambda c: (lax.add(c[0], 1), lax.sin(c[1])), (0, x)), x1),
    fori=lambda: text(loop3, x1),
    fori_dynamic=lambda: text(lambda n, x: lax.fori_loop(0, n, lambda i, c: lax.sin(c), x), 3, x1),
    map=lambda: text(lambda x: lax.map(lax.sin, x), v3),
    checkpoint=lambda: text(jax.checkpoint(lambda x: lax.sin(lax.sin(x))), x1),
    checkpoint_grad=lambda: text(jax.grad(jax.checkpoint(lambda x: lax.sin(lax.sin(x)))), x1),
    custom_jvp=lambda: text(cj, x1),
    custom_jvp_vmap=lambda: text(jax.vmap(cj), v3),
    custom_vjp=lambda: text(cv, x1),
    custom_vjp_grad=lambda: text(jax.grad(cv), x1),
    custom_vjp_vmap=lambda: text(jax.vmap(cv), v3),
    stop_gradient=lambda: text(lax.stop_gradient, x1),
    dtypes=lambda: text(lambda a, b, c, d: (a, b, c, d), np.int8(1), True, 1j, np.float16(1)),
    ops=lambda: text(lambda x: (lax.dot(x, x), lax.select(lax.gt(x, v3), x, v3), lax.convert_element_type(x, np.int32)), v3),
    reduce=lambda: text(lambda x: lax.reduce(x, F(0), lax.add, (0,)), v3),
    no_shapes=lambda: jax.make_jaxpr(cube)(x1).pretty_print(print_shapes=False),
    return_shape=lambda: str(jax.make_jaxpr(cube, return_shape=True)(x1)[1]),
    static=lambda: text(lambda x: jax.make_jaxpr(lambda y, n: lax.mul(y, float(n)), static_argnums=1)(x, 3).jaxpr.eqns[0].invars[1].val, x1),
    axis_env=lambda: str(jax.make_jaxpr(lambda x: lax.axis_index("i"), axis_env=[("i", 4)])(x1)),
)  # fmt: skip


def _named_function(x):
    return lax.sin(x)


def _scoped(x):
    with jax.named_scope("outer"):
        x = lax.sin(x)
        with jax.named_scope("inner"):
            return lax.cos(x)


# jit: arguments and errors

times = lambda x, n: lax.mul(x, float(n))
add(
    "jit",
    static=lambda: jax.jit(times, static_argnums=1)(x1, 3),
    static_name=lambda: [jax.jit(times, static_argnames="n")(x1, 3), jax.jit(times, static_argnames=("n",))(x1, n=3)],
    static_num_by_name=lambda: jax.jit(times, static_argnums=1)(x1, n=3),
    static_negative=lambda: jax.jit(times, static_argnums=-1)(x1, 3),
    static_default=lambda: jax.jit(lambda x, n=2: times(x, n), static_argnames="n")(x1),
    static_keyword_only=lambda: jax.jit(lambda x, *, n: times(x, n), static_argnames="n")(x1, n=3),
    static_varargs=lambda: jax.jit(lambda *a: times(a[0], a[1]), static_argnums=1)(x1, 3),
    static_unhashable=lambda: jax.jit(lambda x, n: x, static_argnums=1)(x1, [3]),
    static_unhashable_name=lambda: jax.jit(lambda x, n: x, static_argnames="n")(x1, n=[3]),
    static_range_error=lambda: jax.jit(cube, static_argnums=3),
    static_name_error=lambda: jax.jit(cube, static_argnames="foo"),
    static_type_error=lambda: jax.jit(cube, static_argnums="x"),
    static_name_type_error=lambda: jax.jit(cube, static_argnames=1),
    static_donated_error=lambda: jax.jit(times, static_argnums=1, donate_argnums=1),
    donate_range_error=lambda: jax.jit(cube, donate_argnums=3),
    missing_argument=lambda: jax.jit(times)(x1),
    argument_error=lambda: jax.jit(cube)("a"),
    argument_nested_error=lambda: jax.jit(lambda d: x1)({"k": object()}),
    result_error=lambda: jax.jit(lambda x: "a")(x1),
    not_callable=lambda: jax.jit(3),
    generator=lambda: jax.jit(lambda: (yield)),
    staticmethod_=lambda: jax.jit(staticmethod(cube)),
    unknown_option=lambda: jax.jit(cube, foo=1),
    device_and_backend=lambda: jax.jit(cube, device=jax.devices()[0], backend="cpu"),
    in_shardings_kwargs=lambda: jax.jit(lambda x: x, in_shardings=(None,))(x=v3),
    in_shardings_prefix=lambda: jax.jit(lambda x, y: x, in_shardings=(None,))(v3, v3),
    out_shardings_prefix=lambda: jax.jit(lambda x: x, out_shardings=(None, None))(v3),
    in_shardings_type=lambda: jax.jit(lambda x: x, in_shardings="a")(v3),
    partial=lambda: jax.jit(functools.partial(times, n=3))(x1),
    decorator=lambda: jax.jit(static_argnums=1)(times)(x1, 3),
    trees=lambda: jax.jit(lambda d: {"o": [d["a"], (d["b"], None)]})({"a": x1, "b": v3}),
    weak=lambda: [jax.jit(lambda x: x)(1.0), jax.jit(lambda x: lax.add(x, 1.0))(2.0), jax.jit(lambda x: lax.add(x, x1))(2.0)],
    identity=lambda: jax.jit(lambda x: (x, x))(v3),
    constants=lambda: jax.jit(lambda: (F(2), v3, 3, True))(),
    closure_array=lambda: jax.jit(lambda x: lax.add(x, v3))(v3),
    closure_tracer=lambda: jax.jit(lambda x: jax.jit(lambda y: lax.mul(x, y))(x))(x1),
    closure_vmap=lambda: jax.vmap(lambda x: jax.jit(lambda y: lax.mul(x, y))(F(2)))(v3),
    closure_grad=lambda: jax.grad(lambda x: jax.jit(lambda y: lax.mul(x, y))(F(2)))(x1),
    if_error=lambda: jax.jit(lambda x: x if x > 0 else -x)(x1),
    while_error=lambda: jax.jit(_python_loop)(x1),
    int_error=lambda: jax.jit(lambda x: int(x))(1),
    float_error=lambda: jax.jit(lambda x: float(x))(x1),
    index_error=lambda: jax.jit(lambda i: [1, 2][i])(1),
    array_error=lambda: jax.jit(lambda x: np.asarray(x))(x1),
    range_error=lambda: jax.jit(lambda n: len(range(n)))(3),
    shape_error=lambda: jax.jit(lambda n: lax.full((n,), 0.0))(3),
    bool_vector_error=lambda: jax.jit(lambda x: bool(x))(v3),
    item_error=lambda: jax.jit(lambda x: x.item())(x1),
    hash_error=lambda: jax.jit(lambda x: hash(x))(x1),
    iter_=lambda: jax.jit(lambda x: [lax.sin(y) for y in x])(v3),
    setitem_error=lambda: jax.jit(_set_item)(v3),
    compiled_dtype_error=lambda: jax.jit(cube).lower(x1).compile()(1),
    compiled_shape_error=lambda: jax.jit(cube).lower(x1).compile()(v3),
    compiled_tree_error=lambda: jax.jit(cube).lower(x1).compile()(x1, x1),
    compiled_tracer_error=lambda: jax.jit(jax.jit(cube).lower(x1).compile())(x1),
    compiled=lambda: jax.jit(cube).lower(x1).compile()(x1),
    compiled_kwargs=lambda: jax.jit(poly).lower(x1, y=x1).compile()(x1, y=x1),
    compiled_static=lambda: jax.jit(times, static_argnums=1).lower(x1, 3).compile()(x1),
    compiled_options=lambda: jax.jit(cube).lower(x1).compile({"xla_cpu_enable_fast_math": True})(x1),
    compiled_options_error=lambda: jax.jit(cube).lower(x1).compile({"xla_no_such_flag": True}),
    options_error=lambda: jax.jit(cube, compiler_options={"xla_no_such_flag": 1})(x1),
    lower_error=lambda: jax.jit(cube).lower("a"),
    eval_shape=lambda: [str(jax.eval_shape(poly, x1, v3)), str(jax.jit(poly).eval_shape(x1, v3)), str(jax.eval_shape(jax.jit(poly), v3, 1.0))],
    eval_shape_error=lambda: jax.eval_shape(lambda x: lax.add(x, m23), v3),
    trace_infos=lambda: (lambda t: [str(t.out_info), str(t.args_info), str(t.in_avals), str(t.jaxpr), t.fun_name])(jax.jit(poly).trace(x1, v3)),
    named_call=lambda: jax.jit(jax.named_call(cube, name="c"))(x1),
    named_scope_error=lambda: jax.named_scope(3).__enter__(),
    deleted_error=lambda: (lambda a: (a.delete(), jax.jit(cube)(a)))(jax.device_put(v3)),
    donated_error=lambda: (lambda a: (jax.jit(lambda x: lax.add(x, x), donate_argnums=0)(a), jax.jit(cube)(a)))(jax.device_put(v3)),
    leak_jit=lambda: _leak(lambda keep: jax.jit(keep)(x1)),
    leak_vmap=lambda: _leak(lambda keep: jax.vmap(keep)(v3)),
    leak_grad=lambda: _leak(lambda keep: jax.grad(keep)(x1)),
    leak_scan=lambda: _leak(lambda keep: lax.scan(lambda c, x: (keep(c), x), x1, v3)),
    compile_time=lambda: jax.jit(_compile_time)(x1),
)  # fmt: skip


def _python_loop(x):
    while x < 10:
        x = lax.add(x, F(1))
    return x


def _set_item(x):
    x[0] = 1
    return x


def _leak(run):
    kept = []

    def keep(x):
        kept.append(lax.sin(x))
        return x

    run(keep)
    return lax.add(kept[0], F(1))


def _compile_time(x):
    with jax.ensure_compile_time_eval():
        n = int(total(np.arange(4)))
    return lax.mul(x, F(n))


arrays = lambda tree: str([isinstance(x, jax.Array) for x in jax.tree.leaves(tree)])


def zero_cotangent(shape, dtype):
    f = jax.custom_vjp(lambda x: lax.sin(x))
    zero = jax.custom_derivatives.SymbolicZero(jax.core.ShapedArray(shape, np.dtype(dtype)))
    f.defvjp(lambda x: (f(x), None), lambda res, ct: (zero,))
    return jax.grad(f)(x1), jax.jit(jax.grad(f))(x1)


add(
    "given",
    jvp=lambda: arrays(jax.jvp(lambda x, y: (x, (y, x + 1)), (2.0, v3), (1.0, v3))),
    vjp=lambda: arrays(jax.vjp(lambda x, y: (x, y), 2.0, v3)[1]((1.0, v3))),
    value_and_grad=lambda: arrays(jax.value_and_grad(lambda x: (x, v3), has_aux=True)(2.0)),
    zero=lambda: zero_cotangent((), "float32"),
    zero_of_wrong_shape=lambda: zero_cotangent((3,), "float32"),
    zero_of_wrong_dtype=lambda: zero_cotangent((), "int32"),
)
