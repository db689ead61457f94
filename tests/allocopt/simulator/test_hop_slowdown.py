"""Jobs that run the slower, the farther apart their nodes are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.platform import Platform
from allocopt.cluster.topology import FatTree, Pairs
from allocopt.errors import UsageError
from allocopt.simulator.execution import HopSlowdown
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload


def hops(tree: FatTree, first: int, second: int) -> int:
    a, b = tree.groups_of(np.array([first, second])).T
    return tree.hops[0] if a[0] == b[0] else tree.hops[1] if a[1] == b[1] else tree.hops[2]


@given(st.integers(1, 8), st.floats(0, 3), st.sampled_from(["ordered", "unordered"]))
def test_a_job_takes_longer_by_the_mean_hops_of_its_pairs(nodes: int, share: float, pairs: Pairs) -> None:
    tree = FatTree(2, 2, 2, (1, 3, 6), pairs)
    workload = Workload("one", np.array([1]), np.zeros(1), np.array([100.0]), np.array([nodes]), np.array([1e6]))
    schedule = simulate(workload, Platform.whole_nodes(tree), execution=HopSlowdown(tree, share))
    distances = [hops(tree, a, b) for a in range(nodes) for b in range(a)]
    longer = share * (np.mean(distances) / tree.hops[0] - 1) if distances else 0.0
    assert schedule.end[0] == pytest.approx(100 * (1 + longer), rel=1e-9)


def test_a_share_out_of_range_and_a_tree_without_hops_are_refused() -> None:
    for share in (-0.1, 1e9, float("nan")):
        with pytest.raises(UsageError, match="the slowdown by hops is"):
            HopSlowdown(FatTree(1, 1, 2), share)
    with pytest.raises(UsageError, match="at least one hop within a leaf"):
        HopSlowdown(FatTree(1, 1, 2, (0, 1, 2)), 0.1)


def test_a_pool_of_processors_has_no_hops() -> None:
    workload = Workload("one", np.array([1]), np.zeros(1), np.ones(1), np.array([2]), np.ones(1))
    with pytest.raises(UsageError, match="needs a platform with nodes"):
        simulate(workload, 4, execution=HopSlowdown(FatTree(1, 1, 4), 0.1))
