"""`FlatTree` beside the reference, and where it asserts."""

import pytest
from flat_tree_scenarios import static_args, tree
from op_testing import case_tests

from jax._src.tree_util import SequenceKey
from jax.experimental.scheduling_groups import FlatTree

reference, test_reference, _ = case_tests(__file__)


def test_indices():
    assert (tree()[0], tree()[-1], tree()[1:]) == (1, 3, (2, 3))


def test_paths_beside_static_values():
    assert list(static_args().paths) == [(SequenceKey(0),), (SequenceKey(2), SequenceKey(0))]


def test_dictionaries_of_trees():
    packed = FlatTree.pack_args(tree(), k=FlatTree.flatten(4))
    assert packed.unflatten() == (({"a": 1, "b": (2, 3)},), {"k": 4})


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: tree().update([1]), ValueError, "got 1 leaves for a structure with 3"),
        (lambda: tree().map2(max, [1]), ValueError, "got 1 leaves for a structure with 3"),
        (lambda: tree().map3(max, tree(), [1]), ValueError, "got 1 leaves"),
        (lambda: tree().filter_with_mask([True]), ValueError, "got 1 leaves"),
        (lambda: tree().unzip2(), TypeError, "unpack"),
        (lambda: tree().unfilter(), ValueError, "was not made by"),
        (lambda: FlatTree.flatten((1, 2)).unpack_aux(), ValueError, "was not made by"),
        (lambda: FlatTree.pack((tree(), 3)), TypeError, "got 3 .* flatten it with"),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
