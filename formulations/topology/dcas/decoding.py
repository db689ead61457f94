"""Placing the jobs one after the other in random orders, each on the block of least excess, or nearly so."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import float64, int64, types

from allocopt.arrays import IntArray
from allocopt.kernels.compiled import inlined, kernel
from allocopt.problems.encoding import allocation_of_owners
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.run import Run
from formulations.topology.dcas.bounds import REACH, Prices, Reach
from formulations.topology.dcas.window import CLASSES, SEQUENCE, Classes, Sequence


class Decoding(NamedTuple):
    """Working space of the decoder, and the best it has found.

    Parameters
    ----------
    classes
        Class of every job's block, shape ``(J,)``.
    order
        The order of the jobs, shape ``(J,)``.
    left
        Positions that are still idle, in order, shape ``(m,)``.
    owners, best_owners
        Block that owns each position, ``J`` for the leftover, now and in the best allocation.
    in_leaf, in_pod
        Nodes of a block by leaf and by pod; all 0 between two blocks.
    random
        State of the random numbers, one entry.
    """

    classes: IntArray
    order: IntArray
    left: IntArray
    owners: IntArray
    best_owners: IntArray
    in_leaf: IntArray
    in_pod: IntArray
    random: IntArray


DECODING = types.NamedUniTuple(int64[::1], 8, Decoding)


def decoding_of(sequence: Sequence, classes: Classes) -> Decoding:
    """Allocate the working space of a window."""
    m = len(sequence.leaf)
    jobs = np.repeat(np.arange(len(classes.sizes)), classes.counts)[classes.factor.repeat(classes.counts) > 0]
    return Decoding(
        classes=jobs,
        order=np.arange(len(jobs)),
        left=np.zeros(m, dtype=np.int64),
        owners=np.zeros(m, dtype=np.int64),
        best_owners=np.zeros(m, dtype=np.int64),
        in_leaf=np.zeros(len(sequence.pod), dtype=np.int64),
        in_pod=np.zeros(len(sequence.pod_start) - 1, dtype=np.int64),
        random=np.ones(1, dtype=np.int64),
    )


@inlined
def _uniform(state: IntArray) -> float:
    """Draw a number in 0 .. 1 by a multiplicative congruential generator, modulo 2^31 - 1."""
    state[0] = state[0] * 48271 % 2147483647
    return float(state[0] / 2147483647.0)


@inlined
def _shuffle(decoding: Decoding) -> None:
    """Put the jobs into a random order."""
    for index in range(decoding.order.size - 1, 0, -1):
        other = int(_uniform(decoding.random) * (index + 1))
        held = decoding.order[index]
        decoding.order[index] = decoding.order[other]
        decoding.order[other] = held


@inlined
def _count(sequence: Sequence, reach: Reach, decoding: Decoding, position: int, by: int, factor: float) -> float:
    """Add a node to the block, or take it away; return by how much its cost less savings rises, prices paid."""
    leaf = sequence.leaf[position]
    pod = sequence.pod[leaf]
    x, y = decoding.in_leaf[leaf], decoding.in_pod[pod]
    decoding.in_leaf[leaf] += by
    decoding.in_pod[pod] += by
    saving = sequence.weights[0] * (2 * by * x + 1) + sequence.weights[1] * (2 * by * y + 1)
    return float(by * reach.price[leaf] - factor * saving)


@inlined
def _best_start(
    sequence: Sequence, reach: Reach, decoding: Decoding, n_left: int, n: int, factor: float, noise: float
) -> tuple[int, float]:
    """Block of n nodes of the circle of the positions left whose excess, plus noise, is least; and its value."""
    value = 0.0
    for index in range(n):
        value += _count(sequence, reach, decoding, decoding.left[index], 1, factor)
    best, best_value, least = 0, value, np.inf
    for start in range(n_left):
        disturbed = value + noise * _uniform(decoding.random)
        if disturbed < least:
            best, best_value, least = start, value, disturbed
        entering = start + n
        if entering >= n_left:
            entering -= n_left
        value += _count(sequence, reach, decoding, decoding.left[start], -1, factor)
        value += _count(sequence, reach, decoding, decoding.left[entering], 1, factor)
    for leaf in range(decoding.in_leaf.size):
        decoding.in_leaf[leaf] = 0
    for pod in range(decoding.in_pod.size):
        decoding.in_pod[pod] = 0
    return best, best_value


@inlined
def _take(decoding: Decoding, n_left: int, start: int, n: int, block: int) -> int:
    """Give a block of positions to a job; return how many are left."""
    for index in range(start, start + n):
        decoding.owners[decoding.left[index % n_left]] = block
    kept = 0
    for index in range(n_left):
        if decoding.owners[decoding.left[index]] != block:
            decoding.left[kept] = decoding.left[index]
            kept += 1
    return kept


@inlined
def _place(sequence: Sequence, classes: Classes, reach: Reach, decoding: Decoding, noise: float, most: float) -> float:
    """Place all jobs in the order; return the excess, or infinity once it reaches ``most``."""
    n_left, excess = sequence.leaf.size, 0.0
    for position in range(n_left):
        decoding.left[position] = position
        decoding.owners[position] = decoding.order.size
    for index in range(decoding.order.size):
        block = decoding.order[index]
        c = decoding.classes[block]
        n = classes.sizes[c]
        start, value = _best_start(sequence, reach, decoding, n_left, n, classes.factor[c], noise)
        excess += value + reach.best[c]
        if excess >= most:
            return np.inf
        n_left = _take(decoding, n_left, start, n, block)
    if n_left > 0:
        for index in range(n_left):
            excess += reach.price[sequence.leaf[decoding.left[index]]]
        excess += reach.best[reach.best.size - 1]
    return excess


@kernel(float64(SEQUENCE, CLASSES, REACH, DECODING, float64, float64, int64))
def decode(
    sequence: Sequence, classes: Classes, reach: Reach, decoding: Decoding, noise: float, most: float, times: int
) -> float:
    """Place the jobs so many times; return the least excess, with its allocation in ``best_owners``.

    Parameters
    ----------
    sequence, classes, reach
        The window and its prices.
    decoding
        Working space.
    noise
        Largest noise, in the unit of cost; every time a random part of it is used.
    most
        Excess that is too much.
    times
        How often.
    """
    for _ in range(times):
        _shuffle(decoding)
        strength = _uniform(decoding.random)
        excess = _place(sequence, classes, reach, decoding, noise * strength * strength, most)
        if excess < most:
            most = excess
            for position in range(decoding.owners.size):
                decoding.best_owners[position] = decoding.owners[position]
    return most


NOISE = 0.012
"""Largest noise on the cost of a block, relative to the bound of the window."""

SLICE = 100_000
"""Positions looked at between two looks at the clock: a few milliseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Decoder:
    """Places the jobs of a window one after the other.

    Parameters
    ----------
    problem
        The window.
    sequence, classes
        The same as kernels take it.
    cut
        Idle position with which the sequence begins.
    space
        Working space.
    """

    problem: TopologyProblem
    sequence: Sequence
    classes: Classes
    cut: int
    space: Decoding

    @classmethod
    def of(cls, problem: TopologyProblem, sequence: Sequence, classes: Classes, cut: int) -> "Decoder":
        """Allocate the working space of a window."""
        return cls(problem, sequence, classes, cut, decoding_of(sequence, classes))

    def improve(self, prices: Prices, times: int, run: Run) -> None:
        """Place all jobs so many times under prices, or until the time runs out; offer what beats the incumbent."""
        reach = Reach(prices.leaf, prices.best, np.empty(0), *(np.empty(0, dtype=np.int64) for _ in range(2)))
        per_slice = max(1, SLICE // (len(self.problem.jobs) * len(self.sequence.leaf)))
        for done in range(0, times, per_slice):
            if run.clock.expired() or run.objective is None or run.is_proved():
                return
            most = run.objective - prices.bound
            repeats = min(per_slice, times - done)
            noise = NOISE * abs(prices.bound)
            if decode(self.sequence, self.classes, reach, self.space, noise, most, repeats) < most:
                self.offer(self.space.best_owners, run)

    def offer(self, owners: IntArray, run: Run) -> None:
        """Offer an allocation given by the block that owns each position, blocks numbered by rising size."""
        jobs = np.append(np.argsort(self.problem.sizes, kind="stable"), -1)
        run.offer(allocation_of_owners(self.problem, np.roll(jobs[owners], self.cut)))
