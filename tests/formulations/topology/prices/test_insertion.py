"""Jobs are inserted where they save most, what the groups lose of their worth taken off."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.counts import counts_of_vertices, leaf_groups, patterns, saving
from support.windows import paper_window, window, windows

from allocopt.cluster.topology import FatTree
from allocopt.kernels.insertion import insertion_state
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode, group_tree
from allocopt.solving.budget import Budget
from allocopt.solving.verify import verify
from formulations.topology.prices.pricing import Pricing, Rounding, insert_at_prices


@given(windows(most_idle=9, most_jobs=4), st.integers(0, 2**32 - 1))
def test_every_job_is_inserted_best(problem: TopologyProblem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    encoding = encode(problem)
    tree = group_tree(encoding)
    worth_of = np.concatenate(([0], np.cumsum(tree.idle + 1)))[:-1]
    worth = rng.exponential(1.0, int((tree.idle + 1).sum()))
    worth[worth_of[-1] :] = 0.0
    state = insertion_state(tree, int(problem.sizes.max()))
    owners = np.full(len(problem.idle_nodes), -1)
    _, groups = leaf_groups(encoding)
    leaf_of = encoding.groups[0] if groups else np.zeros(encoding.n_idle, dtype=np.int64)
    n_leaves = len(tree.leaf_first) - 1
    for job, size in enumerate(problem.sizes.tolist()):
        idle = state.idle.copy()

        def value(pattern: tuple[int, ...], idle: np.ndarray = idle) -> float:
            left = idle - counts_of_vertices(tree, pattern)
            return saving(encoding, pattern) - float((worth[worth_of + idle] - worth[worth_of + left]).sum())

        insert_at_prices(tree, state, problem.sizes, worth, worth_of, job, job + 1, owners)
        taken = tuple(np.bincount(leaf_of[owners == job], minlength=n_leaves).tolist())
        assert sum(taken) == size
        assert (idle - state.idle).tolist() == counts_of_vertices(tree, taken).tolist()
        best = max(value(pattern) for pattern in patterns(idle[:n_leaves], size))
        # Ties of the kernel itself are broken by far less.
        assert value(taken) == pytest.approx(best, abs=1e-6)


def rounding_of(problem: TopologyProblem) -> Rounding:
    encoding = encode(problem)
    pricing = Pricing(encoding, len(encoding.groups))
    return Rounding(problem, encoding, pricing, pricing.at(np.zeros(pricing.tree.n_rows)))


@pytest.mark.parametrize("seed", range(4))
def test_in_any_order_all_jobs_get_their_nodes(seed: int) -> None:
    problem = paper_window(seed)
    rounding, rng = rounding_of(problem), np.random.default_rng(seed)
    ranks = rounding.random_ranks(rng)
    for _ in range(3):
        allocation = rounding.allocation(ranks, Budget().start())
        assert allocation is not None
        verify(problem, allocation)
        ranks = rounding.moved(ranks, rng)


@pytest.mark.parametrize(("ranks", "leaves"), [((0.3, 0.2, 0.1), 1), ((0.1, 0.2, 0.3), 2)])
def test_the_sizes_of_least_rank_are_inserted_first(ranks: tuple[float, ...], leaves: int) -> None:
    problem = window(FatTree(2, 2, 4), [0, 1, 2, 3, 4, 5, 8, 9, 10], [2, 4, 3])
    allocation = rounding_of(problem).allocation(np.array(ranks), Budget().start())
    assert allocation is not None
    # The job of 4 nodes finds the only leaf with so many if the others do not choose before it.
    assert len(set((allocation.nodes[1] // 4).tolist())) == leaves


def test_a_move_changes_one_to_three_ranks() -> None:
    rounding, rng = rounding_of(paper_window(1)), np.random.default_rng(0)
    ranks = rounding.random_ranks(rng)
    changes = {int((rounding.moved(ranks, rng) != ranks).sum()) for _ in range(50)}
    assert changes == set(range(1, 1 + min(3, len(ranks))))


def test_it_stops_when_the_time_is_over() -> None:
    rounding = rounding_of(paper_window(0))
    assert rounding.allocation(rounding.random_ranks(np.random.default_rng(0)), Budget(1e-9).start()) is None
