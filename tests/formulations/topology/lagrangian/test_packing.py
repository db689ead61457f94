"""Packings: complete, apart, best among what was tried, and each move saves what it says."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.circles import Circle, packings
from support.clocks import LooksBudget

from allocopt.arrays import IntArray
from allocopt.problems.topology.tables import Blocks
from allocopt.solving.budget import Budget
from formulations.topology.lagrangian import packing as module
from formulations.topology.lagrangian.packing import Packing, Stretches, excess, improve_packing
from formulations.topology.lagrangian.relaxation import Path, Relaxation


def is_packing(blocks: Blocks, sizes: IntArray, starts: IntArray) -> bool:
    ends = starts + blocks.sizes[sizes]
    following = np.append(starts[1:], starts[0] + blocks.costs.shape[1])
    counts: IntArray = np.bincount(sizes, minlength=len(blocks.sizes))
    return bool((ends <= following).all() and (counts == blocks.counts).all())


def insert_missing(blocks: Blocks, sizes: IntArray, starts: IntArray) -> Packing:
    packing = Packing.completed(blocks, sizes, starts, Budget().start())
    assert packing is not None
    return packing


def packing_of_path(blocks: Blocks, path: Path) -> Packing:
    packing = Packing.of_path(blocks, path, Budget().start())
    assert packing is not None
    return packing


def random_blocks(seed: int, m: int, most_jobs: int, largest: int, *, full: bool = False) -> Blocks:
    """Random costs, and random jobs that fit; with ``full`` no gap is left."""
    rng = np.random.default_rng(seed)
    jobs: list[int] = []
    while len(jobs) < most_jobs and sum(jobs) < m:
        jobs.append(min(int(rng.integers(1, largest + 1)), m - sum(jobs)))
    if full:
        jobs[-1] += m - sum(jobs)
    sizes, counts = np.unique(jobs, return_counts=True)
    return Blocks(sizes, counts, rng.integers(1, 100, size=(len(sizes), m)).astype(np.float64) * sizes[:, None])


def random_part(blocks: Blocks, seed: int) -> tuple[IntArray, IntArray]:
    """Draw some blocks of a packing, apart."""
    rng = np.random.default_rng(seed)
    m = blocks.costs.shape[1]
    free, left = np.ones(m, dtype=bool), blocks.counts.copy()
    sizes, starts = [], []
    for _ in range(50):
        r, i = int(rng.integers(len(left))), int(rng.integers(m))
        covered = (i + np.arange(blocks.sizes[r])) % m
        if left[r] and free[covered].all():
            free[covered] = False
            left[r] -= 1
            sizes.append(r)
            starts.append(i)
    keep = rng.random(len(sizes)) < 0.7
    return np.array(sizes, dtype=np.int64)[keep], np.array(starts, dtype=np.int64)[keep]


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 12), st.integers(1, 9), st.booleans())
def test_what_is_missing_is_always_inserted(seed: int, m: int, most_jobs: int, largest: int, full: bool) -> None:
    blocks = random_blocks(seed, m, most_jobs, largest, full=full)
    packing = insert_missing(blocks, *random_part(blocks, seed))
    assert is_packing(blocks, packing.sizes, packing.starts)
    assert packing.cost == pytest.approx(blocks.costs[packing.sizes, packing.starts % m].sum())


@given(st.integers(0, 10**6))
def test_a_block_goes_to_its_cheapest_free_place_and_moves_no_other(seed: int) -> None:
    blocks = random_blocks(seed, 30, 4, 4)
    m, r = 30, 0
    left = blocks.counts.copy()
    left[r] -= 1
    present = np.repeat(np.arange(len(left)), left)
    if len(present) == 0:
        return
    starts = np.cumsum(blocks.sizes[present] + 1) - blocks.sizes[present]
    packing = insert_missing(blocks, present, starts)
    taken = {(i + x) % m for q, i in zip(present, starts, strict=True) for x in range(int(blocks.sizes[q]))}
    free = [i for i in range(m) if not taken & {(i + x) % m for x in range(int(blocks.sizes[r]))}]
    least = min(blocks.costs[r, i] for i in free)
    before = blocks.costs[present, starts % m].sum()
    assert packing.cost == pytest.approx(before + least)
    assert set(starts % m) <= set(packing.starts % m)


def test_a_block_that_fits_no_gap_is_pushed_in_where_the_fewest_move() -> None:
    sizes = np.array([2, 3])
    blocks = Blocks(sizes, np.array([4, 1]), np.ones((2, 14)))
    # Gaps of 2, 2, 1 and 1: one block must move by one, for no gap holds three.
    packing = insert_missing(blocks, np.zeros(4, dtype=np.int64), np.array([0, 4, 8, 11]))
    assert is_packing(blocks, packing.sizes, packing.starts)
    moved = {0, 4, 8, 11} - set((packing.starts[packing.sizes == 0] % 14).tolist())
    assert len(moved) == 1


def test_a_path_keeps_its_cheapest_blocks_of_every_size() -> None:
    costs = np.array([[5.0, 9, 1, 9, 3, 9, 7, 9]])
    blocks = Blocks(np.array([2]), np.array([2]), costs)
    path = Path(0, np.array([0, 0, 0, 0]), np.array([6, 4, 2, 0]), np.array([4]), 0.0)
    assert path.imbalance(blocks) == 4
    packing = packing_of_path(blocks, path)
    assert packing.starts_by_size(blocks) == [[2, 4]]
    assert packing.cost == 4


@given(st.integers(0, 10**6), st.integers(2, 40), st.booleans())
def test_every_path_becomes_a_packing(seed: int, m: int, full: bool) -> None:
    blocks = random_blocks(seed, m, 10, 6, full=full)
    prices = np.random.default_rng(seed).uniform(0.0, 1.0, size=len(blocks.sizes)) * blocks.costs.max(axis=1)
    packing = packing_of_path(blocks, Relaxation(blocks, Budget().start()).path(prices))
    assert is_packing(blocks, packing.sizes, packing.starts)


def improved(
    blocks: Blocks, packing: Packing, most_taken: int, moves: int, entries: int = 4096
) -> tuple[Packing, float]:
    work = Stretches.of(blocks, most_taken + 4, entries)
    work.block_sizes[:], work.block_starts[:] = packing.sizes, packing.starts
    saved = improve_packing(work, most_taken, moves, np.random.default_rng(0))
    return Packing.of(blocks, work.block_sizes, work.block_starts), saved


@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(2, 6), st.booleans(), st.sampled_from([8, 64, 4096]))
def test_moves_keep_a_packing_and_save_what_they_say(
    seed: int, m: int, most_taken: int, full: bool, entries: int
) -> None:
    blocks = random_blocks(seed, m, 14, 6, full=full)
    start = insert_missing(blocks, *random_part(blocks, seed))
    if len(start.sizes) < 2:
        return
    packing, saved = improved(blocks, start, most_taken, 40, entries)
    assert is_packing(blocks, packing.sizes, packing.starts)
    assert saved >= 0
    assert start.cost - packing.cost == pytest.approx(saved, abs=1e-6)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.booleans())
def test_after_enough_moves_no_block_can_be_held_and_the_others_placed_better(seed: int, full: bool) -> None:
    blocks = random_blocks(seed, 9, 4, 4, full=full)
    start = insert_missing(blocks, *random_part(blocks, seed))
    if len(start.sizes) < 2:
        return
    packing, _ = improved(blocks, start, 6, 600)
    m = blocks.costs.shape[1]
    held = set(zip(packing.sizes.tolist(), (packing.starts % m).tolist(), strict=True))
    for sizes, starts in packings(Circle(blocks.costs, blocks.sizes), blocks.counts):
        if held & set(zip(sizes.tolist(), starts.tolist(), strict=True)):
            assert packing.cost <= blocks.costs[sizes, starts].sum() + 1e-9


def test_stretches_exchange_blocks_across_the_circle() -> None:
    # Blocks of 2 are cheap in the first half and blocks of 3 in the second; each lies where it is dear, and there is
    # no gap to move through.
    sizes, m = np.array([2, 3]), 30
    costs = np.array([np.where(np.arange(m) < 15, 1.0, 50.0), np.where(np.arange(m) < 15, 50.0, 1.0)])
    blocks = Blocks(sizes, np.array([6, 6]), costs)
    order = np.array([1] * 5 + [0] * 6 + [1])
    start = Packing.of(blocks, order, np.cumsum(sizes[order]) - sizes[order])
    packing, _ = improved(blocks, start, 8, 2000)
    assert is_packing(blocks, packing.sizes, packing.starts)
    best = min(
        Packing.of(blocks, ordered, turn + np.cumsum(sizes[ordered]) - sizes[ordered]).cost
        for turn, ordered in itertools.product(range(m), (np.array([0] * 6 + [1] * 6), np.array([1] * 6 + [0] * 6)))
    )
    assert packing.cost <= best


def test_inserting_stops_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE", 1)
    blocks = random_blocks(1, 60, 8, 5)
    nothing = np.zeros(0, dtype=np.int64)
    n_jobs = int(blocks.counts.sum())
    assert Packing.completed(blocks, nothing, nothing, LooksBudget(looks=n_jobs - 1).start()) is None
    packing = Packing.completed(blocks, nothing, nothing, LooksBudget(looks=n_jobs).start())
    assert packing is not None
    assert packing.cost == insert_missing(blocks, nothing, nothing).cost


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.booleans())
def test_the_excesses_of_a_packing_add_up_to_what_it_is_longer_than_the_shortest_path(seed: int, full: bool) -> None:
    m = 40
    blocks = random_blocks(seed, m, 8, 6, full=full)
    order = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(blocks.sizes)), blocks.counts))
    starts = np.cumsum(blocks.sizes[order]) - blocks.sizes[order]
    work = Stretches.of(blocks, 8, 64)
    work.prices[:] = blocks.costs.mean(axis=1)
    work.labels[:] = Relaxation(blocks, Budget().start()).labels(work.prices)
    work.block_sizes[:], work.block_starts[:] = order, starts
    excesses = [excess(work, i) for i in range(len(order))]
    length = Packing.of(blocks, order, starts).cost - float(work.prices @ blocks.counts)
    assert min(excesses) >= -1e-9
    assert sum(excesses) == pytest.approx(length - work.labels[m])
    work.block_starts[-1] = m - blocks.sizes[order[-1]] + 1
    across = excess(work, len(order) - 1)
    assert blocks.sizes[order[-1]] == 1 or across == 0.0
