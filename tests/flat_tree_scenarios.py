"""Trees of `FlatTree` beside the reference: see op_cases.py."""

from op_cases import Programs

import jax
from jax.experimental.scheduling_groups import FlatTree

CASES = Programs()
TREE = {"a": 1, "b": (2, 3)}
ARGS = (1, "s", [2])


def show(t):
    """A tree, or a tuple of them, as text."""
    if isinstance(t, tuple):
        return [show(x) for x in t]
    return f"{t} {len(t)} {list(t)} {t.unflatten()}"


def tree():
    return FlatTree.flatten(TREE)


def static_args(nums=(1,)):
    return FlatTree.flatten_static_argnums(ARGS, nums)


def static_both():
    return FlatTree.flatten_static_argnums_argnames((1, "t"), {"a": 2, "b": "s"}, (1,), ("b",))


CASES.group(
    "made",
    flatten=lambda: show(tree()),
    is_leaf=lambda: show(FlatTree.flatten((1, None, (2,)), is_leaf=lambda x: x is None)),
    none_is_leaf=lambda: show(
        FlatTree.flatten((1, None), registry=jax._src.tree_util.none_leaf_registry)
    ),
    singleton=lambda: show(FlatTree.singleton((1, 2))),
    list=lambda: show(FlatTree.flatten_list([1, (2, 3)])),
    args=lambda: show(FlatTree.flatten_args(1, [2, 3])),
    static_args=lambda: [show(static_args(nums)) for nums in ((1,), (-2,), (5,), ())],
    static_kwargs=lambda: show(FlatTree.flatten_static_argnames({"b": 1, "a": "s"}, ("a", "z"))),
    static_both=lambda: show(static_both()),
    without_statics=lambda: [
        str(t.tree_without_statics) for t in (tree(), static_args(), static_both())
    ],
    paths=lambda: [list(map(str, t.paths)) for t in (tree(), FlatTree.flatten_args(1, [2]))],
    equal=lambda: [
        tree() == tree(), tree() == tree().map(str), tree() == FlatTree.flatten((1, 2, 3)),
        hash(tree()) == hash(tree()), static_args() == FlatTree.flatten_static_argnums((1, "t", [2]), (1,)),
        hash(static_args()) == hash(static_args()), tree() == 3,
    ],
)  # fmt: skip
CASES.group(
    "leaves",
    map=lambda: show(tree().map(lambda x: (x, x))),
    map_static=lambda: show(static_args().map(lambda x: x * 10)),
    map2=lambda: show(tree().map2(lambda x, y: x + y, tree().map(lambda x: 10 * x))),
    map3=lambda: show(tree().map3(lambda x, y, z: x + y * z, [4, 5, 6], tree())),
    update=lambda: show(tree().update(range(3))),
    enumerate=lambda: show(tree().enumerate()),
    unzip2=lambda: show(tree().map(lambda x: (x, -x)).unzip2()),
    unzip2_empty=lambda: show(FlatTree.flatten(()).unzip2()),
    filter=lambda: [str(tree().filter(lambda x: x > n)) for n in range(4)],
    unfilter=lambda: show(tree().filter(lambda x: x > 1).map(lambda x: x * 10).unfilter()),
    unfilter_static=lambda: show(static_args().filter(lambda x: x > 1).unfilter()),
    mask=lambda: show(tree().filter_with_mask([True, False, True]).map(str).unfilter()),
    mask_tree=lambda: show(tree().filter_with_mask(tree().map(lambda x: x == 2)).unfilter()),
)
CASES.group(
    "trees",
    pack=lambda: show(FlatTree.pack((tree(), (FlatTree.flatten([5]), ())))),
    pack_one=lambda: FlatTree.pack(tree()) == tree(),
    pack_args=lambda: show(FlatTree.pack_args(tree(), static_args())),
    unpack=lambda: [show(t.unpack()) for t in (tree(), static_args(), static_both())],
    unpack_leaf=lambda: FlatTree.flatten(1).unpack(),
    repacked=lambda: show(FlatTree.pack(static_args().unpack())),
    aux=lambda: show(tree().with_aux("a").map(lambda x: x * 2).unpack_aux()[0]),
    aux_value=lambda: tree().with_aux("a").with_aux("b").unpack_aux()[1],
    aux_equal=lambda: [tree().with_aux("a") == tree().with_aux(x) for x in ("a", "b")],
)
