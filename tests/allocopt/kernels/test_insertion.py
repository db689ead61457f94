"""Kernels of arrays: costs of blocks, insertion, orders and random words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from support.brute_force import hop_matrix, pairwise_cost, single_job_costs, switches_above
from support.windows import fat_trees, paper_window, trees, window, windows

from allocopt.arrays import FloatArray, IntArray, WordArray
from allocopt.cluster.topology import FatTree, hop_costs
from allocopt.kernels.arrays import stable_order
from allocopt.kernels.insertion import insert_jobs, insertion_state, single_job_savings
from allocopt.kernels.random import bell, below, folded, random_words, uniform
from allocopt.kernels.tree import circular_block_costs
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import encode, group_tree


def inserted(problem: TopologyProblem, sizes: list[int], *, one_by_one: bool = False) -> IntArray:
    """Return the owner of every idle position after the insertion of jobs of falling sizes."""
    tree = group_tree(encode(problem))
    state = insertion_state(tree, sizes[0])
    owners = np.full(len(problem.idle_nodes), -1, dtype=np.int64)
    slices = [(job, job + 1) for job in range(len(sizes))] if one_by_one else [(0, len(sizes))]
    for first, last in slices:
        insert_jobs(tree, state, np.array(sizes), first, last, owners)
    return owners


def tie_price(problem: TopologyProblem, positions: np.ndarray | tuple[int, ...]) -> int:
    """Sum over the positions of the idle nodes of their leaf."""
    above = switches_above(problem.topology)
    leaves = [above[node][0] if above[node] else "top" for node in problem.idle_nodes]
    return sum(leaves.count(leaves[position]) for position in positions)


def without(problem: TopologyProblem, positions: np.ndarray) -> np.ndarray:
    return np.delete(problem.idle_nodes, positions)


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@given(st.data())
def test_a_single_job_reaches_the_least_cost_on_trees_of_every_depth(levels: int, data: st.DataObject) -> None:
    problem = data.draw(windows(most_idle=10, topologies=trees(levels=levels)))
    size = data.draw(st.integers(1, len(problem.idle_nodes)))
    chosen = np.flatnonzero(inserted(problem, [size]) == 0)
    assert len(chosen) == size
    sets, costs = single_job_costs(problem, size)
    cost = pairwise_cost(problem, hop_matrix(problem), chosen.tolist())
    assert cost == pytest.approx(costs.min(), rel=1e-9, abs=1e-9)
    ties = [s for s, value in zip(sets, costs, strict=True) if value == pytest.approx(costs.min(), rel=1e-9, abs=1e-9)]
    assert tie_price(problem, chosen) == min(tie_price(problem, positions) for positions in ties)


@given(windows(most_idle=9, topologies=fat_trees | trees()))
def test_the_saving_of_every_size_is_the_largest_there_is(problem: TopologyProblem) -> None:
    encoding = encode(problem)
    m = len(problem.idle_nodes)
    savings = single_job_savings(group_tree(encoding), insertion_state(group_tree(encoding), m), m)
    assert savings[0] == 0
    for n in range(1, m + 1):
        cost = encoding.scale * (encoding.top * n * n - encoding.bottom * n - savings[n]) / n
        assert cost == pytest.approx(single_job_costs(problem, n)[1].min(), rel=1e-9, abs=1e-9)


@given(windows(most_idle=14, most_jobs=6))
def test_after_other_jobs_an_insertion_costs_what_it_costs_in_a_fresh_state(problem: TopologyProblem) -> None:
    sizes = sorted(problem.sizes.tolist(), reverse=True)
    owners = inserted(problem, sizes, one_by_one=True)
    taken = np.array([], dtype=np.int64)
    for job, size in enumerate(sizes):
        left = window(problem.topology, without(problem, taken), [size], problem.hop_cost)
        chosen = np.flatnonzero(owners == job)
        fresh = np.flatnonzero(inserted(left, [size]) == 0)
        positions = np.searchsorted(left.idle_nodes, problem.idle_nodes[chosen])
        costs = hop_costs(problem.topology, problem.hop_cost, [left.idle_nodes[positions], left.idle_nodes[fresh]])
        assert costs[0] == pytest.approx(costs[1], rel=1e-9, abs=1e-9)
        assert tie_price(left, positions) == tie_price(left, fresh)
        taken = np.concatenate((taken, chosen))


@given(windows(most_idle=14, most_jobs=6))
def test_jobs_inserted_together_get_what_they_get_one_by_one(problem: TopologyProblem) -> None:
    sizes = sorted(problem.sizes.tolist(), reverse=True)
    together, one_by_one = inserted(problem, sizes), inserted(problem, sizes, one_by_one=True)
    assert together.tolist() == one_by_one.tolist()
    assert np.bincount(together + 1, minlength=len(sizes) + 1)[1:].tolist() == sizes


@pytest.mark.parametrize("seed", range(5))
def test_no_swap_of_a_node_improves_an_insertion_of_the_papers_size(seed: int) -> None:
    problem = paper_window(seed)
    size = int(problem.sizes.max())
    single = window(problem.topology, problem.idle_nodes, [size])
    owners = inserted(single, [size])
    best = single.objective(Allocation.of_owners(single, owners))
    for inside in np.flatnonzero(owners == 0):
        for outside in np.flatnonzero(owners < 0):
            swapped = owners.copy()
            swapped[[inside, outside]] = -1, 0
            assert single.objective(Allocation.of_owners(single, swapped)) >= best - 1e-6


def test_of_two_leaves_that_cost_the_same_the_emptier_of_idle_nodes_is_taken() -> None:
    problem = window(FatTree(2, 1, 5), [0, 1, 2, 3, 5, 6, 7], [2])
    assert np.flatnonzero(inserted(problem, [2]) == 0).tolist() == [4, 5]


@given(windows(most_idle=12))
def test_a_sliding_block_costs_what_its_nodes_cost(problem: TopologyProblem) -> None:
    m = len(problem.idle_nodes)
    sizes = np.arange(1, m + 1)
    blocks = [problem.idle_nodes[(start + np.arange(size)) % m] for size in sizes.tolist() for start in range(m)]
    alone = hop_costs(problem.topology, problem.hop_cost, blocks).reshape(m, m)
    assert circular_block_costs(encode(problem), sizes) == pytest.approx(alone, rel=1e-9, abs=1e-9)


@given(keys=st.lists(st.integers(-3, 3)) | st.lists(st.floats(allow_nan=False)))
def test_equal_keys_keep_their_order(keys: list[int] | list[float]) -> None:
    array = np.array(keys)
    assert stable_order(array).tolist() == np.argsort(array, kind="stable").tolist()


MASK = 2**64 - 1


@njit
def drawn(words: WordArray, count: int) -> FloatArray:
    numbers = np.empty((3, count))
    for i in range(count):
        numbers[0, i] = uniform(words)
        numbers[1, i] = bell(words)
        numbers[2, i] = below(words, 6)
    return numbers


def reference(seed: int, count: int) -> list[int]:
    """Draw by the published programs, in whole numbers of Python."""
    state = []
    for i in range(1, 5):
        z = (seed + i * 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        state.append(z ^ z >> 31)

    def rotated(x: int, bits: int) -> int:
        return (x << bits | x >> 64 - bits) & MASK

    numbers = []
    for _ in range(count):
        numbers.append((rotated((state[0] + state[3]) & MASK, 23) + state[0]) & MASK)
        t = (state[1] << 17) & MASK
        state[2] ^= state[0]
        state[3] ^= state[1]
        state[1] ^= state[2]
        state[0] ^= state[3]
        state[2] ^= t
        state[3] = rotated(state[3], 45)
    return numbers


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2**62 + 3])
def test_it_draws_what_the_published_generator_draws(seed: int) -> None:
    numbers = drawn(random_words(seed), 10)
    assert numbers[0].tolist() == [(x >> 11) / 2**53 for x in reference(seed, 30)[::3]]


def test_numbers_are_even_and_nearly_normal() -> None:
    numbers = drawn(random_words(7), 100_000)
    assert 0.0 <= numbers[0].min() <= numbers[0].max() < 1.0
    assert numbers[0].mean() == pytest.approx(0.5, abs=0.005)
    assert numbers[1].mean() == pytest.approx(0.0, abs=0.015)
    assert numbers[1].std() == pytest.approx(1.0, abs=0.01)
    assert (np.abs(numbers[1]) < 1.0).mean() == pytest.approx(0.68, abs=0.02)
    assert np.bincount(numbers[2].astype(int)) / 100_000 == pytest.approx(np.full(6, 1 / 6), abs=0.006)


def test_seeds_of_any_size_are_taken() -> None:
    assert folded(5) == 5
    assert random_words(folded(2**200 + 1)).tolist() != random_words(folded(2)).tolist()
