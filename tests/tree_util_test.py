"""Pytrees: flattening, registering, key paths, prefixes and their errors."""

import collections
import copy
import dataclasses
import functools
import operator
import pickle

import hypothesis
import hypothesis.strategies as st
from absl.testing import absltest, parameterized

from jax._src import tree, tree_util as tu

Point = collections.namedtuple("Point", "x y")
Three = collections.namedtuple("Three", "x y z")


class Pair:
    def __init__(self, a, b, name="pair"):
        self.a, self.b, self.name = a, b, name

    def __eq__(self, other):
        return type(other) is Pair and vars(self) == vars(other)

    def __repr__(self):
        return f"Pair({self.a}, {self.b})"


tu.register_pytree_node(
    Pair, lambda p: ((p.a, p.b), p.name), lambda name, children: Pair(*children, name)
)


@tu.register_pytree_with_keys_class
class Keyed:
    def __init__(self, left, right):
        self.left, self.right = left, right

    def tree_flatten_with_keys(self):
        return ((tu.GetAttrKey("left"), self.left), (tu.GetAttrKey("right"), self.right)), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)

    def __eq__(self, other):
        return type(other) is Keyed and vars(self) == vars(other)


@tu.register_pytree_node_class
class Single:
    def __init__(self, item):
        self.item = item

    def tree_flatten(self):
        return (self.item,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)

    def __eq__(self, other):
        return type(other) is Single and self.item == other.item


@tu.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    name: str = tree.static(default="layer")
    bias: object = 0


@tu.register_static
class Tag(str):
    pass


TREES = [
    (1, [1]),
    (None, []),
    ((), []),
    ([1, (2, None), {}], [1, 2]),
    ({"b": 1, "a": [2, 3]}, [2, 3, 1]),
    (collections.OrderedDict([("b", 1), ("a", 2)]), [1, 2]),
    (collections.defaultdict(list, {"b": 1, "a": 2}), [2, 1]),
    (Point(1, Point(2, 3)), [1, 2, 3]),
    (Pair(1, [2, 3]), [1, 2, 3]),
    (Keyed(1, {"q": 2}), [1, 2]),
    (Single((1, 2)), [1, 2]),
    (Layer(1, "n", 2), [1, 2]),
    (Tag("x"), []),
    ([Tag("x"), 5], [5]),
]

trees = st.recursive(
    st.integers() | st.none(),
    lambda children: (
        st.lists(children, max_size=3)
        | st.lists(children, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), children, max_size=3)
        | st.tuples(children, children).map(lambda c: Point(*c))
        | st.tuples(children, children).map(lambda c: Pair(*c))
    ),
    max_leaves=8,
)


class FlattenTest(parameterized.TestCase):
    @parameterized.parameters(*TREES)
    def test_round_trip(self, value, leaves):
        flat, treedef = tu.tree_flatten(value)
        self.assertEqual(flat, leaves)
        self.assertEqual(tu.tree_leaves(value), leaves)
        self.assertEqual(tu.tree_structure(value), treedef)
        self.assertEqual(treedef.num_leaves, len(leaves))
        rebuilt = tu.tree_unflatten(treedef, flat)
        self.assertEqual(rebuilt, value)
        self.assertIs(type(rebuilt), type(value))
        with_path, treedef2 = tu.tree_flatten_with_path(value)
        self.assertEqual([leaf for _, leaf in with_path], leaves)
        self.assertEqual(treedef2, treedef)
        self.assertEqual(hash(treedef2), hash(treedef))

    @parameterized.parameters(*TREES)
    def test_pickle_of_structures(self, value, _):
        treedef = tu.tree_structure(value)
        self.assertEqual(pickle.loads(pickle.dumps(treedef)), treedef)
        self.assertEqual(copy.deepcopy(treedef), treedef)

    @hypothesis.given(trees)
    @hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
    def test_any_tree(self, value):
        leaves, treedef = tu.tree_flatten(value)
        self.assertEqual(tu.tree_unflatten(treedef, leaves), value)
        self.assertEqual(tu.tree_map(lambda x: x, value), value)
        self.assertEqual(tu.tree_broadcast(value, value), value)
        self.assertEqual(tu.prefix_errors(value, value), [])
        self.assertEqual(list(tu.equality_errors(value, value)), [])
        for path, leaf in tu.tree_leaves_with_path(value):
            self.assertIs(functools.reduce(_follow, path, value), leaf)

    def test_is_leaf(self):
        value = {"a": [1, 2], "b": None}
        is_list = lambda x: isinstance(x, list)
        self.assertEqual(tu.tree_leaves(value, is_leaf=is_list), [[1, 2]])
        self.assertEqual(tu.tree_leaves(value, is_leaf=lambda x: x is None), [1, 2, None])
        self.assertEqual(
            tu.tree_flatten_with_path(value, is_list)[0], [((tu.DictKey("a"),), [1, 2])]
        )
        by_path = lambda path, _: len(path) == 1
        self.assertEqual(
            tu.tree_leaves_with_path(value, by_path, is_leaf_takes_path=True),
            [((tu.DictKey("a"),), [1, 2]), ((tu.DictKey("b"),), None)],
        )

    def test_errors_of_unflatten(self):
        treedef = tu.tree_structure([1, 2])
        with self.assertRaisesRegex(ValueError, "Too few leaves.*expected 2, got 1"):
            tu.tree_unflatten(treedef, [1])
        with self.assertRaisesRegex(ValueError, "Too many leaves.*expected 2"):
            tu.tree_unflatten(treedef, [1, 2, 3])

    def test_keys_that_cannot_be_sorted(self):
        for value in ({"a": 1, 3: 2}, collections.defaultdict(int, {"a": 1, 3: 2})):
            with self.assertRaises(ValueError):
                tu.tree_flatten(value)

    def test_none_leaf_registry(self):
        leaves, treedef = tu.none_leaf_registry.flatten([None, Pair(1, None)])
        self.assertEqual(leaves, [None, 1, None])
        self.assertEqual(treedef.unflatten(leaves), [None, Pair(1, None)])

    def test_structures(self):
        treedef = tu.tree_structure([1, (2, 3)])
        self.assertEqual(str(treedef), "PyTreeDef([*, (*, *)])")
        self.assertEqual(
            tu.treedef_children(treedef), [tu.tree_structure(0), tu.tree_structure((0, 0))]
        )
        self.assertFalse(tu.treedef_is_leaf(treedef))
        self.assertTrue(tu.treedef_is_leaf(tu.tree_structure(0)))
        self.assertTrue(tu.treedef_is_leaf(tu.tree_structure(None)))
        self.assertFalse(tu.treedef_is_strict_leaf(tu.tree_structure(None)))
        self.assertEqual(
            tu.treedef_tuple((treedef, treedef)), tu.tree_structure(([1, (2, 3)],) * 2)
        )
        self.assertEqual(
            tu.tree_structure(Layer(1)),
            tu.treedef_tuple([tu.tree_structure(Layer(1))]).children()[0],
        )

    def test_one_level(self):
        self.assertEqual(tu.flatten_one_level({"b": 1, "a": [2]}), (([2], 1), ("a", "b")))
        self.assertEqual(tu.flatten_one_level_with_keys([5]), (((tu.SequenceKey(0), 5),), None))
        for f in (tu.flatten_one_level, tu.flatten_one_level_with_keys):
            with self.assertRaisesRegex(ValueError, "can't tree-flatten type: <class 'int'>"):
                f(3)

    def test_is_tree_node(self):
        for kind in (list, tuple, dict, type(None), Point, Pair, Layer, Tag, tu.Partial):
            self.assertTrue(tu.is_tree_node(kind), kind)
        for kind in (int, str, set, object):
            self.assertFalse(tu.is_tree_node(kind), kind)

    def test_all_leaves(self):
        self.assertTrue(tu.all_leaves([1, "a", object()]))
        self.assertFalse(tu.all_leaves([1, [2]]))
        self.assertFalse(tu.all_leaves([None]))
        self.assertTrue(tu.all_leaves([None, 1], is_leaf=lambda x: x is None))
        self.assertTrue(tu.all_leaves([[1], 1], is_leaf=lambda x: isinstance(x, list)))
        self.assertTrue(tu.all_leaves([]))


class MapTest(parameterized.TestCase):
    def test_map(self):
        self.assertEqual(tu.tree_map(operator.neg, [1, {"a": 2}]), [-1, {"a": -2}])
        self.assertEqual(tu.tree_map(operator.add, (1, [2]), (10, [20])), (11, [22]))
        self.assertEqual(tu.tree_map(lambda x, y: (x, y), [1], [{"a": 2}]), [(1, {"a": 2})])
        is_none = lambda x: x is None
        self.assertEqual(tu.tree_map(is_none, [None, 1], is_leaf=is_none), [True, False])
        self.assertEqual(tu.tree_map(lambda x, y: y, [None], [7], is_leaf=is_none), [7])

    def test_map_does_not_hide_exceptions(self):
        def stop(_):
            raise StopIteration

        with self.assertRaises(StopIteration):
            tu.tree_map(stop, [1, 2])
        with self.assertRaises(StopIteration):
            tu.tree_map(lambda x, y: stop(x), [1, 2], [3, 4])

    def test_map_with_path(self):
        show = lambda path, *xs: (tu.keystr(path), *xs)
        self.assertEqual(tu.tree_map_with_path(show, {"a": [1]}), {"a": [("['a'][0]", 1)]})
        self.assertEqual(
            tu.tree_map_with_path(show, {"a": [1]}, {"a": [[2]]}), {"a": [("['a'][0]", 1, [2])]}
        )

    @parameterized.parameters(
        ([1, 2], [1], r"different lengths of list at key path\n    tree_map tree"),
        ([1, 2], (1, 2), r"different types at key path\n    tree_map tree"),
        (
            {"a": 1, "b": 2},
            {"a": 1},
            r"different numbers of pytree children[\s\S]*are? is\n    b|b$",
        ),
        (
            {"a": [1, 2]},
            {"a": [1]},
            r"different lengths of list at key path\n    tree_map tree\['a'\]",
        ),
        ({"a": 1}, {"b": 1}, r"different pytree metadata at key path"),
        (Pair(1, 2, "m"), Pair(1, 2, "n"), r"different pytree metadata[\s\S]*- m\n    \+ n"),
        (None, 1, r"different types[\s\S]*None is a pytree without leaves"),
    )
    def test_mismatches(self, first, second, expected):
        with self.assertRaisesRegex(ValueError, expected):
            tu.tree_map(lambda x, y: x, first, second)
        with self.assertRaisesRegex(ValueError, "pytree structure error"):
            tu.tree_map_with_path(lambda p, x, y: x, first, second)
        with self.assertRaisesRegex(ValueError, "argument 1 of `rest`"):
            tu.tree_map(lambda x, y, z: x, first, first, second)

    def test_reduce(self):
        self.assertEqual(tu.tree_reduce(operator.add, [1, (2, 3)]), 6)
        self.assertEqual(tu.tree_reduce(operator.add, [1, (2, 3)], 10), 16)
        self.assertEqual(tu.tree_reduce(operator.add, [], 10), 10)
        self.assertIsNone(tu.tree_reduce(operator.add, [], None))
        self.assertEqual(
            tu.tree_reduce(
                lambda a, b: a + len(b),
                [[1, 2], [3]],
                0,
                is_leaf=lambda x: (
                    x and x[0] in (1, 3)
                    if isinstance(x, list) and not isinstance(x[0], list)
                    else False
                ),
            ),
            3,
        )
        with self.assertRaisesRegex(TypeError, "no initial value"):
            tu.tree_reduce(operator.add, [])

    def test_reduce_associative(self):
        pair = lambda a, b: (a, b)
        self.assertEqual(tu.tree_reduce_associative(pair, [1]), 1)
        self.assertEqual(tu.tree_reduce_associative(pair, [1, 2, 3, 4, 5]), ((1, 2), (3, (4, 5))))
        self.assertEqual(tu.tree_reduce_associative(pair, [], identity=0), 0)
        with self.assertRaisesRegex(TypeError, "identity"):
            tu.tree_reduce_associative(pair, [])

    def test_all(self):
        self.assertTrue(tu.tree_all([]))
        self.assertTrue(tu.tree_all([True, {"a": 1}]))
        self.assertFalse(tu.tree_all([True, {"a": 0}]))
        self.assertTrue(tu.tree_all([[False]], is_leaf=lambda x: isinstance(x, list)))

    def test_transpose(self):
        outer, inner = tu.tree_structure([0, 0]), tu.tree_structure({"a": 0, "b": (0, 0)})
        value = [{"a": 1, "b": (2, 3)}, {"a": 4, "b": (5, 6)}]
        expected = {"a": [1, 4], "b": ([2, 5], [3, 6])}
        self.assertEqual(tu.tree_transpose(outer, inner, value), expected)
        self.assertEqual(tu.tree_transpose(outer, None, value), expected)
        with self.assertRaisesRegex(TypeError, r"Mismatch[\s\S]*key path \[1\]"):
            tu.tree_transpose(outer, inner, [value[0], 3])
        with self.assertRaisesRegex(TypeError, "cannot be inferred"):
            tu.tree_transpose(tu.tree_structure([]), None, [])

    def test_broadcast(self):
        full = {"a": [1, 2], "b": (3, None)}
        self.assertEqual(tu.tree_broadcast(0, full), {"a": [0, 0], "b": (0, None)})
        self.assertEqual(tu.tree_broadcast({"a": 0, "b": 1}, full), {"a": [0, 0], "b": (1, None)})
        self.assertEqual(tu.tree_broadcast(None, [1, 2], is_leaf=lambda x: x is None), [None, None])
        with self.assertRaisesRegex(ValueError, r"prefix_tree\['a'\]"):
            tu.tree_broadcast({"a": [0], "b": 1}, full)
        self.assertEqual(tu.broadcast_prefix([1, 2], [[0, 0], 0]), [1, 1, 2])
        structure = tu.tree_structure
        self.assertEqual(
            tu.broadcast_flattened_prefix_with_treedef(
                [1, 2], structure([0, 0]), structure([[0, 0], 0])
            ),
            [1, 1, 2],
        )
        with self.assertRaisesRegex(ValueError, "not a prefix"):
            tu.broadcast_flattened_prefix_with_treedef([1], structure([0]), structure((0,)))

    def test_leaves_checked(self):
        self.assertEqual(tu.tree_leaves_checked(tu.tree_structure([0, 0]), [1, 2]), [1, 2])
        with self.assertRaisesRegex(TypeError, r"the lengths do not match"):
            tu.tree_leaves_checked(tu.tree_structure([0, 0]), [1])


class RegistrationTest(parameterized.TestCase):
    def test_twice(self):
        for register in (
            lambda: tu.register_pytree_node(Pair, lambda x: ((), None), lambda a, c: None),
            lambda: tu.register_static(Tag),
            lambda: tu.register_dataclass(Layer, ["weight", "bias"], ["name"]),
        ):
            with self.assertRaisesRegex(ValueError, "Duplicate"):
                register()

    def test_not_a_class(self):
        with self.assertRaisesRegex(TypeError, "must be a class"):
            tu.register_pytree_node(3, None, None)

    def test_subclasses_are_not_included(self):
        class Sub(Pair):
            pass

        self.assertEqual(len(tu.tree_leaves(Sub(1, 2))), 1)

    def test_with_keys_and_own_flatten(self):
        class Box:
            pass

        calls = []
        tu.register_pytree_with_keys(
            Box,
            lambda b: (((tu.GetAttrKey("item"), 1),), None),
            lambda _, c: Box(),
            lambda b: calls.append(b) or ((1,), None),
        )
        self.assertEqual(tu.tree_leaves(Box()), [1])
        self.assertLen(calls, 1)
        self.assertEqual(tu.keystr(tu.tree_leaves_with_path(Box())[0][0]), ".item")

    def test_dataclass(self):
        paths, treedef = tu.tree_flatten_with_path(Layer([1], "n", 2))
        self.assertEqual([tu.keystr(p) for p, _ in paths], [".weight[0]", ".bias"])
        self.assertNotEqual(treedef, tu.tree_structure(Layer([1], "m", 2)))
        self.assertEqual(tu.tree_map(lambda x: x + 1, Layer(1, "n", 2)), Layer(2, "n", 3))

    def test_dataclass_by_names(self):
        class Plain:
            def __init__(self, a, b):
                self.a, self.b = a, b

        self.assertIs(tu.register_dataclass(Plain, ["a"], ["b"]), Plain)
        out = tu.tree_map(lambda x: x * 2, Plain(3, "s"))
        self.assertEqual((out.a, out.b), (6, "s"))

    def test_dataclass_drops_fields(self):
        @dataclasses.dataclass
        class Cached:
            x: int
            cache: int = 7
            computed: int = dataclasses.field(default=1, init=False)

        tu.register_dataclass(Cached, ["x"], [], drop_fields=["cache"])
        self.assertEqual(tu.tree_map(lambda x: x, Cached(1, 2)), Cached(1, 7))

    @parameterized.parameters(
        (["x"], None, (), TypeError, "give both data_fields and meta_fields"),
        (None, ["x"], (), TypeError, "give both"),
        (["x"], [], (), ValueError, r"Missing fields: \{'y'\}"),
        (["x", "y", "q"], [], (), ValueError, r"Unexpected fields: \{'q'\}"),
        (["x", "y", "late"], [], (), ValueError, r"Unexpected fields: \{'late'\}"),
        (["x", "y"], ["y"], (), ValueError, r"Overlapping fields.*\{'y'\}"),
        (["x", "x", "y"], [], (), ValueError, "duplicates"),
        ("xy", [], (), TypeError, "sequence of names"),
    )
    def test_dataclass_errors(self, data, meta, drop, error, message):
        @dataclasses.dataclass
        class Some:
            x: int
            y: int
            late: int = dataclasses.field(default=0, init=False)

        with self.assertRaisesRegex(error, message):
            tu.register_dataclass(Some, data, meta, drop)
        tu.register_dataclass(Some)  # a failed call leaves nothing behind
        self.assertEqual(tu.tree_leaves(Some(1, 2)), [1, 2])

    def test_dataclass_of_something_else(self):
        with self.assertRaisesRegex(TypeError, "required when nodetype is not a"):
            tu.register_dataclass(int)

    def test_static_field_keeps_metadata(self):
        field = tree.static(default=3, metadata={"doc": "d"})
        self.assertEqual(dict(field.metadata), {"doc": "d", "static": True})
        self.assertEqual(field.default, 3)


class PartialTest(absltest.TestCase):
    def test_tree(self):
        p = tu.Partial(operator.add, 1)
        self.assertEqual(p(2), 3)
        self.assertEqual(tu.tree_leaves(tu.Partial(print, 1, end=[2])), [1, 2])
        doubled = tu.tree_map(lambda x: x * 2, p)
        self.assertIsInstance(doubled, tu.Partial)
        self.assertEqual(doubled(2), 4)
        self.assertEqual(tu.tree_structure(p), tu.tree_structure(tu.Partial(operator.add, 5)))
        self.assertNotEqual(tu.tree_structure(p), tu.tree_structure(tu.Partial(operator.sub, 1)))

    def test_of_partials(self):
        inner = functools.partial(operator.add, [0])
        outer = tu.Partial(inner, [1])
        self.assertEqual(tu.tree_leaves(outer), [1])  # what `inner` binds is static
        self.assertEqual(outer(), [0, 1])
        self.assertEqual(tu.tree_structure(outer), tu.tree_structure(tu.Partial(inner, [2])))
        nested = tu.Partial(tu.Partial(operator.add, 1), 2)
        self.assertEqual(nested(), 3)
        self.assertEqual(tu.tree_leaves(nested), [2])

    def test_pickle(self):
        p = pickle.loads(pickle.dumps(tu.Partial(operator.add, 1)))
        self.assertIsInstance(p, tu.Partial)
        self.assertEqual(p(2), 3)

    def test_errors(self):
        with self.assertRaises(TypeError):
            tu.Partial()
        with self.assertRaises(TypeError):
            tu.Partial(3)


class KeyPathTest(parameterized.TestCase):
    def test_keys(self):
        self.assertEqual(str(tu.SequenceKey(3)), "[3]")
        self.assertEqual(str(tu.DictKey("a")), "['a']")
        self.assertEqual(str(tu.GetAttrKey("a")), ".a")
        self.assertEqual(str(tu.FlattenedIndexKey(3)), "[<flat index 3>]")
        self.assertEqual(repr(tu.DictKey("a")), "DictKey(key='a')")
        self.assertEqual(tu.DictKey(2), tu.DictKey(2))
        self.assertNotEqual(tu.DictKey(2), tu.SequenceKey(2))
        self.assertEqual(hash(tu.DictKey(2)), hash(tu.DictKey(2)))
        self.assertEqual(pickle.loads(pickle.dumps(tu.DictKey("a"))), tu.DictKey("a"))

    def test_keystr(self):
        path = (
            tu.DictKey("a"),
            tu.SequenceKey(3),
            tu.GetAttrKey("q"),
            tu.FlattenedIndexKey(2),
            "own",
        )
        self.assertEqual(tu.keystr(path), "['a'][3].q[<flat index 2>]own")
        self.assertEqual(tu.keystr(path, simple=True, separator="."), "a.3.q.2.own")
        self.assertEqual(tu.keystr(path[:2], separator="/"), "['a']/[3]")
        self.assertEqual(tu.keystr(()), "")

    def test_kinds_of_nodes(self):
        value = {"d": [Point(1, Pair(2, 3)), Keyed(4, 5)], "o": collections.OrderedDict(z=6)}
        self.assertEqual(
            [tu.keystr(p) for p, _ in tu.tree_leaves_with_path(value)],
            [
                "['d'][0].x",
                "['d'][0].y[<flat index 0>]",
                "['d'][0].y[<flat index 1>]",
                "['d'][1].left",
                "['d'][1].right",
                "['o']['z']",
            ],
        )
        self.assertEqual(tu._child_keys(Point(1, 2)), (tu.GetAttrKey("x"), tu.GetAttrKey("y")))


class ErrorsTest(parameterized.TestCase):
    def errors(self, prefix, full, **kw):
        return [str(make("in_axes")) for make in tu.prefix_errors(prefix, full, **kw)]

    @parameterized.parameters(
        ([1, 2], [1, 2, 3], "different lengths of list at key path\n    in_axes\n"),
        ((1, 2), [1, 2], "different types at key path\n    in_axes\n"),
        ([None], [1], "different types at key path\n    in_axes[0]\n"),
        (Point(1, 2), Three(1, 2, 3), "different types at key path\n    in_axes\n"),
        ({"a": {"b": [1]}}, {"a": {"b": [1, 2]}}, "    in_axes['a']['b']\n"),
        (Pair([1], 2), Pair([1, 2], 2), "    in_axes[<flat index 0>]\n"),
        (Keyed([1], 2), Keyed([1, 2], 2), "    in_axes.left\n"),
        (Layer(1, "m"), Layer(1, "n"), "different pytree metadata at key path\n    in_axes\n"),
        ({"a": 1, "c": 1}, {"a": 1, "b": 2, "d": 3}, "key sets is\n    c b d"),
        ({"{}": [1]}, {"{}": [1, 2]}, "in_axes['{}']"),
    )
    def test_one_error(self, prefix, full, expected):
        (error,) = self.errors(prefix, full)
        self.assertStartsWith(error, "pytree structure error: ")
        self.assertIn(expected, error)

    def test_several(self):
        errors = self.errors([[1, 2], (3, 4), 5], [[1, 2, 3], [3, 4], 5])
        self.assertLen(errors, 2)
        self.assertIn("in_axes[0]", errors[0])
        self.assertIn("in_axes[1]", errors[1])

    def test_is_leaf(self):
        self.assertEqual(self.errors([None], [[1, 2]], is_leaf=lambda x: x is None), [])

    @parameterized.parameters(
        ([1, 2], [1, 2, 3], "", "list of length 2", "list of length 3", "lengths"),
        ((1,), [1], "", "<class 'tuple'>", "<class 'list'>", "Python types"),
        ({"a": [1]}, {"a": 1}, "['a']", "<class 'list'>", "<class 'int'>", "Python types"),
        ({"a": 1}, {"b": 1}, "", "('a',)", "('b',)", "metadata"),
        ({"a": 1}, {"a": 1, "b": 1}, "", "1 child", "2 children", "{'b'}"),
        ([Pair(1, 2, "m")], [Pair(1, 2, "n")], "[0]", "metadata m", "metadata n", "metadata"),
    )
    def test_equality(self, tree1, tree2, path, thing1, thing2, why):
        ((got_path, got1, got2, got_why),) = tu.equality_errors(tree1, tree2)
        self.assertEqual(tu.keystr(got_path), path)
        self.assertIn(thing1, got1)
        self.assertIn(thing2, got2)
        self.assertIn(why, got_why)
        by_structure = tu.equality_errors_pytreedef(*map(tu.tree_structure, (tree1, tree2)))
        self.assertLen(list(by_structure), 1)

    def test_equality_of_trees_that_refuse_dummies(self):
        class Picky:
            pass

        def unflatten(_, children):
            raise AssertionError

        tu.register_pytree_node(Picky, lambda p: ((1,), None), unflatten)
        structure = tu.tree_structure
        self.assertLen(
            list(tu.equality_errors_pytreedef(structure(Picky()), structure([Picky()]))), 1
        )
        self.assertEmpty(list(tu.equality_errors_pytreedef(structure(Picky()), structure(Picky()))))


def _follow(value, key):
    match key:
        case tu.SequenceKey(idx=i) | tu.DictKey(key=i):
            return value[i]
        case tu.GetAttrKey(name=name):
            return getattr(value, name)
        case tu.FlattenedIndexKey(key=i):
            return tu.flatten_one_level(value)[0][i]


if __name__ == "__main__":
    absltest.main()
