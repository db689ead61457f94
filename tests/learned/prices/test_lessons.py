"""What windows teach: gradients that are those of what they say they are."""

import numpy as np
import pytest
from support.windows import paper_window

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.insertion import idle_state
from allocopt.problems.topology.tables import encode, group_tree
from learned.prices.insertion import imitate, insert_priced

FADING = 0.5


def window(seed: int) -> tuple[object, IntArray, FloatArray, IntArray]:
    encoding = encode(paper_window(seed))
    tree, rng = group_tree(encoding), np.random.default_rng(seed)
    return tree, encoding.sizes, rng.normal(0.0, 0.3, len(tree.leaf_first) - 1), rng.permutation(len(encoding.sizes))


def inserted(tree: object, sizes: IntArray, worth: FloatArray, order: IntArray) -> tuple[float, IntArray]:
    counts = np.empty((len(sizes), len(worth)), dtype=np.int64)
    state = idle_state(tree, int(sizes.max()), 0.0)
    return insert_priced(tree, state, sizes, order, worth, FADING, 0.0, counts), counts


@pytest.mark.parametrize("seed", range(5))
def test_what_would_be_done_anyway_teaches_nothing(seed: int) -> None:
    tree, sizes, worth, order = window(seed)
    gradient = np.zeros(len(worth))
    known = inserted(tree, sizes, worth, order)[1]
    imitate(tree, idle_state(tree, int(sizes.max()), 0.0), sizes, order, worth, FADING, known, gradient)
    assert not gradient.any()


@pytest.mark.parametrize("seed", range(5))
def test_following_the_gradient_leads_to_the_known_allocation(seed: int) -> None:
    tree, sizes, worth, order = window(seed)
    saving, known = inserted(tree, sizes, worth, order)
    learned = np.zeros(len(worth))
    for step in range(1, 2000):
        gradient = np.zeros(len(worth))
        imitate(tree, idle_state(tree, int(sizes.max()), 0.0), sizes, order, learned, FADING, known, gradient)
        learned -= 2.0 / np.sqrt(step) * gradient
    assert inserted(tree, sizes, learned, order)[0] == pytest.approx(saving, rel=0.02)
