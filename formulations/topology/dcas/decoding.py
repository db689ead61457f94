"""Placing the jobs one after the other in random orders, each on the block of least excess, or nearly so."""

from typing import NamedTuple

import numpy as np
from numba import float64, int64

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.arrays import put, record_type
from allocopt.kernels.compiled import inlined, kernel
from allocopt.kernels.random import lehmer_uniform
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.run import Run
from formulations.topology.dcas.bounds import Prices
from formulations.topology.dcas.window import WINDOW, Window

NOISE = 0.012  # largest noise on the cost of a block, relative to the bound of the window
SLICE = 100_000  # positions looked at between two looks at the clock: a few milliseconds


class _Decoding(NamedTuple):
    price: FloatArray  # as in `Prices`
    best: FloatArray
    classes: IntArray  # of every job's block, shape (J,)
    order: IntArray  # of the jobs
    left: IntArray  # positions that are still idle, in order, shape (m,)
    owners: IntArray  # block that owns each position, J for the leftover
    best_owners: IntArray
    in_leaf: IntArray  # nodes of a block by leaf and by pod; all 0 between two blocks
    in_pod: IntArray
    random: IntArray  # state of the random numbers, one entry


@inlined
def _count(window: Window, decoding: _Decoding, position: int, by: int, factor: float) -> float:
    # By how much the block's cost less savings rises, prices paid, as a node is added or taken away.
    leaf = window.leaf[position]
    pod = window.pod[leaf]
    x, y = decoding.in_leaf[leaf], decoding.in_pod[pod]
    decoding.in_leaf[leaf] += by
    decoding.in_pod[pod] += by
    saving = window.weights[0] * (2 * by * x + 1) + window.weights[1] * (2 * by * y + 1)
    return float(by * decoding.price[leaf] - factor * saving)


@inlined
def _best_start(
    window: Window, decoding: _Decoding, n_left: int, n: int, factor: float, noise: float
) -> tuple[int, float]:
    """Block of n nodes of the circle of the positions left whose excess, plus noise, is least; and its value."""
    value = 0.0
    for index in range(n):
        value += _count(window, decoding, decoding.left[index], 1, factor)
    best, best_value, least = 0, value, np.inf
    for start in range(n_left):
        disturbed = value + noise * lehmer_uniform(decoding.random)
        if disturbed < least:
            best, best_value, least = start, value, disturbed
        entering = start + n
        if entering >= n_left:
            entering -= n_left
        value += _count(window, decoding, decoding.left[start], -1, factor)
        value += _count(window, decoding, decoding.left[entering], 1, factor)
    for leaf in range(decoding.in_leaf.size):
        decoding.in_leaf[leaf] = 0
    for pod in range(decoding.in_pod.size):
        decoding.in_pod[pod] = 0
    return best, best_value


@inlined
def _place(window: Window, decoding: _Decoding, noise: float, most: float) -> float:
    # Returns the excess, or infinity once it reaches ``most``.
    n_left, excess = window.leaf.size, 0.0
    for position in range(n_left):
        decoding.left[position] = position
        decoding.owners[position] = decoding.order.size
    for index in range(decoding.order.size):
        block = decoding.order[index]
        c = decoding.classes[block]
        n = window.sizes[c]
        start, value = _best_start(window, decoding, n_left, n, window.factor[c], noise)
        excess += value + decoding.best[c]
        if excess >= most:
            return np.inf
        for taken in range(start, start + n):
            decoding.owners[decoding.left[taken % n_left]] = block
        kept = 0
        for place in range(n_left):
            if decoding.owners[decoding.left[place]] != block:
                decoding.left[kept] = decoding.left[place]
                kept += 1
        n_left = kept
    if n_left > 0:
        for index in range(n_left):
            excess += decoding.price[window.leaf[decoding.left[index]]]
        excess += decoding.best[decoding.best.size - 1]
    return excess


@kernel(float64(WINDOW, record_type(_Decoding), float64, float64, int64))
def decode(window: Window, decoding: _Decoding, noise: float, most: float, times: int) -> float:
    """Place the jobs so many times; return the least excess, with its allocation in ``best_owners``.

    An excess of ``most`` is too much. Every time a random part of the noise is used, which is in the unit of cost.
    """
    for _ in range(times):
        for index in range(decoding.order.size - 1, 0, -1):
            other = int(lehmer_uniform(decoding.random) * (index + 1))
            held = decoding.order[index]
            decoding.order[index] = decoding.order[other]
            decoding.order[other] = held
        strength = lehmer_uniform(decoding.random)
        excess = _place(window, decoding, noise * strength * strength, most)
        if excess < most:
            most = excess
            put(decoding.owners, decoding.best_owners)
    return most


class Decoder:
    """Places the jobs of a window, cut before a position, one after the other, and offers what it finds to the run."""

    def __init__(self, problem: TopologyProblem, window: Window, cut: int) -> None:
        self._problem, self._window, self._cut = problem, window, cut
        m = len(window.leaf)
        jobs = np.repeat(np.arange(len(window.sizes)), window.counts)[window.factor.repeat(window.counts) > 0]
        left, owners, best_owners = (np.zeros(m, dtype=np.int64) for _ in range(3))
        in_leaf, in_pod = np.zeros(len(window.pod), dtype=np.int64), np.zeros(len(window.pod_start) - 1, dtype=np.int64)
        self.space = _Decoding(
            *(np.zeros(len(window.pod)), np.zeros(len(window.sizes)), jobs, np.arange(len(jobs)), left, owners),
            *(best_owners, in_leaf, in_pod, np.ones(1, dtype=np.int64)),
        )

    def improve(self, prices: Prices, times: int, run: Run) -> None:
        """Place all jobs so many times under prices, or until the time runs out; offer what beats the incumbent."""
        self.space.price[:], self.space.best[:] = prices.leaf, prices.best
        per_slice = max(1, SLICE // (len(self._problem.jobs) * len(self._window.leaf)))
        for done in range(0, times, per_slice):
            if run.clock.expired() or run.objective is None or run.is_proved():
                return
            most = run.objective - prices.bound
            repeats = min(per_slice, times - done)
            if decode(self._window, self.space, NOISE * abs(prices.bound), most, repeats) < most:
                self.offer(self.space.best_owners, run)

    def offer(self, owners: IntArray, run: Run) -> None:
        """Offer an allocation given by the block that owns each position, blocks numbered by rising size."""
        jobs = np.append(np.argsort(self._problem.sizes, kind="stable"), -1)
        run.offer(Allocation.of_owners(self._problem, np.roll(jobs[owners], self._cut)))
