"""The Lagrangian relaxation of the count rows: shortest paths over the positions of the circle, blocks priced.

A path goes from position to position. A step by one leaves a node idle; an arc of size r from i to ``i + n_r`` places a
block at its cost less the price of its size. The cut of the circle lies before position 0. Case 0 is the line from 0 to
m without a block across the cut. Case k begins at k and ends with a block that covers the last positions and the first
k.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import float64, int64, types, uint8, void
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.arrays import FloatMatrix, record_type
from allocopt.kernels.compiled import helper, kernel
from allocopt.problems.topology.tables import Blocks
from allocopt.solving.budget import Clock

MaskArray = NDArray[np.uint8]

FAST = {"nnan", "nsz", "reassoc"}  # minima and sums may be taken in any order; infinities are respected
ROUNDING = 1e-11  # relative; exceeds what rounding can add to a value
FAIR_SHARE, LARGE_SHARE = 0.1, 0.5  # least shares of the promised gain to move the centre, and to increase the radius
MOST_BALANCING_STEPS = 2000
SLICE = 4_000_000  # labels times sizes that are filled between two looks at the clock: a few milliseconds
EQUAL = 1e-12  # relative tolerance for differences of labels that count as equal


class _Circle(NamedTuple):
    costs: FloatMatrix  # costs of the blocks by size and first position, shape (R, m)
    arrivals: FloatMatrix  # the same by the position after the last one, then by size, shape (m + 1, R)
    sizes: IntArray  # increasing, shape (R,)


CIRCLE = record_type(_Circle)


@kernel(void(CIRCLE))
def _arrange_by_end(circle: _Circle) -> None:
    """Fill the arrivals: ``arrivals[i, r] = costs[r, i - n_r]``."""
    # Inner loops over sizes then read memory in order. Blocks that straddle the cut are left out: infinity.
    for i in range(circle.arrivals.shape[0]):
        for r in range(circle.sizes.size):
            size = circle.sizes[r]
            circle.arrivals[i, r] = circle.costs[r, i - size] if i >= size else np.inf


@kernel(void(CIRCLE, float64[::1], int64, int64, int64, float64[::1]), fastmath=FAST)
def _fill_labels(circle: _Circle, prices: FloatArray, start: int, first: int, last: int, labels: FloatArray) -> None:
    """Fill ``labels[first .. last]`` with the shortest distances from ``start``; earlier labels must be filled."""
    arrivals, sizes = circle.arrivals, circle.sizes
    if first == start:
        labels[start] = 0.0
        first += 1
    fitting = 0
    for i in range(first, last + 1):
        while fitting < sizes.size and sizes[fitting] <= i - start:
            fitting += 1
        best = labels[i - 1]
        for r in range(fitting):
            best = min(best, labels[i - sizes[r]] + arrivals[i, r] - prices[r])
        labels[i] = best


@kernel(void(float64[:, ::1], int64[::1], float64[::1], int64, float64[::1]), fastmath=FAST)
def _fill_labels_to_end(
    departures: FloatArray,  # costs of the blocks by their first position, shape (m, R)
    sizes: IntArray,
    prices: FloatArray,
    first: int,
    labels: FloatArray,
) -> None:
    """Fill ``labels[first .. m]`` with the shortest distances to the end, given in ``labels`` the cost to end there."""
    m = departures.shape[0]
    fitting = 0
    for i in range(m - 1, first - 1, -1):
        while fitting < sizes.size and sizes[fitting] <= m - i:
            fitting += 1
        best = min(labels[i], labels[i + 1])
        for r in range(fitting):
            best = min(best, labels[i + sizes[r]] + departures[i, r] - prices[r])
        labels[i] = best


@helper()
def _least_straddling(circle: _Circle, prices: FloatArray, k: int, labels: FloatArray) -> float:
    """Return the length of the shortest path of case k, if ``labels`` are the distances from position k."""
    costs, sizes = circle.costs, circle.sizes
    m = costs.shape[1]
    least = np.inf
    for r in range(sizes.size):
        if sizes[r] > k:
            end = m - sizes[r] + k
            least = min(least, labels[end] + costs[r, end] - prices[r])
    return least


@helper()
def _bound_labels_from(circle: _Circle, prices: FloatArray, k: int, line: FloatArray, labels: FloatArray) -> None:
    """Fill ``labels[k .. m]`` with the distances from position k, or with lower bounds within `EQUAL` of them."""
    # `line` has the distances from 0. If the distances from k and from 0 differ by exactly d on n_R consecutive
    # positions, they differ by d everywhere after, because no block is longer.
    m = line.size - 1
    largest = circle.sizes[-1]
    first = k
    while first <= m:
        last = min(m, first + largest - 1)
        _fill_labels(circle, prices, k, first, last, labels)
        least, most = np.inf, -np.inf
        for i in range(first, last + 1):
            least = min(least, labels[i] - line[i])
            most = max(most, labels[i] - line[i])
        if last < m and most - least <= EQUAL * (abs(line[last]) + abs(labels[last])):
            for i in range(last + 1, m + 1):
                labels[i] = line[i] + least
            return
        first = last + 1


@kernel(types.UniTuple(int64, 2)(CIRCLE, *(float64[::1],) * 4, int64, int64, int64))
def _solve_cases(
    circle: _Circle,
    prices: FloatArray,
    line: FloatArray,  # written: the distances from position 0, shape (m + 1,)
    labels: FloatArray,  # working space, shape (m + 1,)
    values: FloatArray,  # written: lengths of paths, or lower bounds on them, by case, shape (n_R,)
    first: int,
    shortest: int,
    most_filled: int,  # labels times sizes after which no other case is begun
) -> tuple[int, int]:
    """Find the shortest path over the cases from ``first`` on; ``shortest`` is the best earlier case.

    Return the next case to be solved and the best case so far.
    """
    m, n_sizes = line.size - 1, circle.sizes.size
    if first == 0:
        _fill_labels(circle, prices, 0, 0, m, line)
        values[0] = line[m]
        first, shortest = 1, 0
    filled = 0
    for k in range(first, values.size):
        if filled > most_filled:
            return k, shortest
        filled += n_sizes
        # By the triangle inequality, the distance from k to e is at least line[e] - line[k]. Most cases are no shorter
        # than the best one even by this bound, and need no labels.
        values[k] = _least_straddling(circle, prices, k, line) - line[k]
        if values[k] < values[shortest]:
            _bound_labels_from(circle, prices, k, line, labels)
            filled += m * n_sizes
            values[k] = _least_straddling(circle, prices, k, labels)
            if values[k] < values[shortest]:
                shortest = k
    return values.size, shortest


@kernel(int64(CIRCLE, float64[::1], int64, float64[::1], int64[:, ::1]))
def _trace_path(circle: _Circle, prices: FloatArray, k: int, labels: FloatArray, path: IntArray) -> int:
    """Write size and first position of the blocks of the shortest path of case k, last block first; return how many."""
    costs, sizes = circle.costs, circle.sizes
    m = costs.shape[1]
    n_blocks = 0
    position = m
    if k > 0:
        least = np.inf
        for r in range(sizes.size):
            end = m - sizes[r] + k
            if sizes[r] > k and labels[end] + costs[r, end] - prices[r] < least:
                least = labels[end] + costs[r, end] - prices[r]
                path[0, 0], path[1, 0] = r, end
        n_blocks, position = 1, path[1, 0]
    while position > k:
        if labels[position - 1] <= labels[position]:
            position -= 1
            continue
        best, chosen = np.inf, 0
        for r in range(sizes.size):
            if sizes[r] > position - k:
                break
            length = labels[position - sizes[r]] + circle.arrivals[position, r] - prices[r]
            if length < best:
                best, chosen = length, r
        position -= sizes[chosen]
        path[0, n_blocks], path[1, n_blocks] = chosen, position
        n_blocks += 1
    return n_blocks


@kernel(void(CIRCLE, float64[::1], int64, float64[::1], float64[::1], float64, uint8[:, ::1]))
def _mark_survivors(
    circle: _Circle,
    prices: FloatArray,
    k: int,
    labels: FloatArray,  # distances from position k
    labels_to_end: FloatArray,  # distances to the end of the case
    longest: float,
    survives: MaskArray,  # shape (R, m)
) -> None:
    """Mark the blocks on paths of case k that are no longer than ``longest``; other marks are kept."""
    costs, sizes = circle.costs, circle.sizes
    m = costs.shape[1]
    for r in range(sizes.size):
        for i in range(k, m - sizes[r] + 1):
            if labels[i] + costs[r, i] - prices[r] + labels_to_end[i + sizes[r]] <= longest:
                survives[r, i] = 1
        if sizes[r] > k > 0:
            end = m - sizes[r] + k
            if labels[end] + costs[r, end] - prices[r] <= longest:
                survives[r, end] = 1


@kernel(int64(float64[:, ::1], float64[::1], float64, float64[::1], float64[::1], int64, float64, int64))
def _balance_weights(
    gram: FloatArray,  # scalar products of the cuts' gradients, at least (n_cuts, n_cuts)
    errors: FloatArray,  # linearization errors, not negative
    radius: float,
    weights: FloatArray,  # starting point, overwritten with the answer
    slopes: FloatArray,  # working space
    n_cuts: int,
    tolerance: float,
    most_steps: int,
) -> int:
    """Minimize ``radius / 2 * w' gram w + errors' w`` over weights, none negative, that sum to 1; return the steps."""
    # Each step moves weight from the cut of largest slope to the one of smallest, as far as it pays.
    for i in range(n_cuts):
        slope = errors[i]
        for j in range(n_cuts):
            slope += radius * gram[i, j] * weights[j]
        slopes[i] = slope
    for step in range(most_steps):
        giver, taker = -1, 0
        for i in range(n_cuts):
            if weights[i] > 0.0 and (giver < 0 or slopes[i] > slopes[giver]):
                giver = i
            if slopes[i] < slopes[taker]:
                taker = i
        gain = slopes[giver] - slopes[taker]
        if gain <= tolerance:
            return step
        curvature = radius * (gram[giver, giver] - 2.0 * gram[giver, taker] + gram[taker, taker])
        # Move to the minimum along this direction, at most all weight of the giver.
        moved = weights[giver]
        if curvature > 0.0:
            moved = min(moved, gain / curvature)
        weights[taker] += moved
        weights[giver] = weights[giver] - moved if moved < weights[giver] else 0.0
        for i in range(n_cuts):
            slopes[i] += radius * moved * (gram[i, taker] - gram[i, giver])
    return most_steps


RELAXATION_KERNELS = (
    *(_arrange_by_end, _fill_labels, _fill_labels_to_end, _mark_survivors, _solve_cases, _trace_path),
    _balance_weights,
)


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """A shortest path around the circle for some prices."""

    case: int  # number of first positions that the block across the cut covers, or 0
    sizes: IntArray  # index of the size of each block on the path
    starts: IntArray  # first position of each block
    used: IntArray  # number of blocks of each size, shape (R,)
    value: float  # value of the relaxation: a lower bound on the cost of every packing


class Relaxation:
    """Bounds by shortest paths at prices of the sizes; methods may raise `TimeoutError` once the time is over."""

    def __init__(self, blocks: Blocks, clock: Clock) -> None:
        self.blocks, self._clock = blocks, clock
        n_sizes, m = blocks.costs.shape
        self._circle = _Circle(blocks.costs, np.empty((m + 1, n_sizes)), blocks.sizes)
        _arrange_by_end(self._circle)
        self._line, self._labels = np.zeros(m + 1), np.zeros(m + 1)
        self._case_values = np.zeros(int(blocks.sizes[-1]))
        self._path = np.zeros((2, m), dtype=np.int64)

    def path(self, prices: FloatArray) -> Path:
        """Return a shortest path for the prices of the sizes, shape ``(R,)``."""
        blocks, case, labels = self.blocks, self._solve_cases(prices), self._line
        if case > 0:
            labels = self._labels
            _fill_labels(self._circle, prices, case, case, len(labels) - 1, labels)
        n = _trace_path(self._circle, prices, case, labels, self._path)
        sizes, starts = self._path[:, :n].copy()
        used = np.bincount(sizes, minlength=len(blocks.sizes))
        spent, length = float(prices @ blocks.counts), float(self._case_values[case])
        # Subtract what rounding may have added.
        return Path(case, sizes, starts, used, spent + length - ROUNDING * (abs(spent) + abs(length)))

    def labels(self, prices: FloatArray) -> FloatArray:
        """Return the shortest distances from position 0 for the prices of the sizes, shape ``(m + 1,)``."""
        labels = np.empty(len(self._line))
        _fill_labels(self._circle, prices, 0, 0, len(labels) - 1, labels)
        return labels

    def survivors(self, prices: FloatArray, most: float, limit: int) -> IntArray | None:
        """Return the blocks that a packing of cost at most ``most`` can use; None if they have too many nonzeros."""
        # Every such packing is a path of some case with the right counts. The shortest path of a case through a block
        # is the sum of the length to the block, its own length and the length from it.
        blocks, m = self.blocks, self.blocks.costs.shape[1]
        self._solve_cases(prices)
        spent = float(prices @ blocks.counts)
        longest = most - spent + ROUNDING * (abs(most) + abs(spent))
        departures = np.ascontiguousarray(blocks.costs.T)
        survives: MaskArray = np.zeros(blocks.costs.shape, dtype=np.uint8)
        to_end = np.empty(m + 1)
        for case in np.flatnonzero(self._case_values <= longest).tolist():
            _fill_labels(self._circle, prices, case, case, m, self._labels)
            to_end[:] = np.inf
            if case == 0:
                to_end[m] = 0.0
            else:
                crossing = np.flatnonzero(blocks.sizes > case)
                ends = m - blocks.sizes[crossing] + case
                to_end[ends] = blocks.costs[crossing, ends] - prices[crossing]
            _fill_labels_to_end(departures, blocks.sizes, prices, case, to_end)
            _mark_survivors(self._circle, prices, case, self._labels, to_end, longest, survives)
            nonzeros = int(survives.sum(axis=1, dtype=np.int64) @ (blocks.sizes + 1))
            if nonzeros > limit:
                return None
            if self._clock.expired():
                raise TimeoutError
        return np.flatnonzero(survives)

    def _solve_cases(self, prices: FloatArray) -> int:
        first = shortest = 0
        while first < len(self._case_values):
            if self._clock.expired():
                raise TimeoutError
            first, shortest = _solve_cases(
                self._circle, prices, self._line, self._labels, self._case_values, first, shortest, SLICE
            )
        return shortest


class Bundle:
    """Prices of the sizes by a proximal bundle method: steps to where the cuts so far promise the best bound.

    Every path gives a cut: at prices p the bound is at most ``value + (counts - used) @ (p - p_path)``. The next prices
    maximize the least of the cuts less ``|p - centre|^2 / (2 radius)``. If the bound rises by a fair share of the
    promise, they become the new centre; otherwise only their cut is added (Kiwiel, Mathematical Programming 46, 1990).

    ``scale`` has the unit in which steps measure each price, shape ``(R,)``. At most ``most_cuts`` cuts are kept.
    """

    def __init__(self, relaxation: Relaxation, prices: FloatArray, scale: FloatArray, most_cuts: int) -> None:
        self._relaxation, self._scale, self.prices = relaxation, scale, prices
        self.path: Path = relaxation.path(prices)
        self.value = self.path.value  # the best bound so far
        self.promise = np.inf
        gradient = self._gradient(self.path)
        self._radius = 0.1 * abs(self.value) / max(1.0, float(gradient @ gradient))
        self._gradients, self._gram = np.zeros((most_cuts, len(prices))), np.zeros((most_cuts, most_cuts))
        self._errors, self._weights, self._slopes = np.zeros((3, most_cuts))
        self._n_cuts = self._nulls = 0
        self._add(gradient, 0.0)

    def step(self) -> Path:
        """Take one step, and return the path at the prices that it tried; `promise` becomes the promised gain."""
        n, tolerance = self._n_cuts, 1e-10 * abs(self.value)
        _balance_weights(
            *(self._gram, self._errors, self._radius, self._weights, self._slopes),
            *(n, tolerance, MOST_BALANCING_STEPS),
        )
        weights = self._weights[:n] / self._weights[:n].sum()
        direction, error = weights @ self._gradients[:n], float(weights @ self._errors[:n])
        self.promise = self._radius * float(direction @ direction) + error
        prices = self.prices + self._radius * self._scale * direction
        path = self._relaxation.path(prices)
        gain = path.value - self.value
        if n == len(self._gradients):
            # Keep half of the cuts, those of largest weight and of equal ones of smallest error, and the mean of all.
            kept = np.lexsort((self._errors[:n], -self._weights[:n]))[: n // 2]
            cuts = list(zip(self._gradients[kept], self._errors[kept].tolist(), strict=True))
            self._n_cuts = 0
            for kept_gradient, kept_error in [(direction, error), *cuts]:
                self._add(kept_gradient, kept_error)
        gradient, moved = self._gradient(path), (prices - self.prices) / self._scale
        if gain >= FAIR_SHARE * self.promise:
            n = self._n_cuts
            self._errors[:n] = np.maximum(0.0, self._errors[:n] + self._gradients[:n] @ moved - gain)
            # Linearization errors are relative to the centre, which moves.
            self.prices, self.path, self.value = prices, path, path.value
            self._radius *= 2.0 if gain >= LARGE_SHARE * self.promise else 1.0
            self._nulls = 0
            self._add(gradient, 0.0)
            return path
        error = max(0.0, path.value - float(gradient @ moved) - self.value)
        self._nulls += 1
        # Large linearization errors mean that the step was too long.
        if error > self.promise and self._nulls >= 3:
            self._radius *= 0.5
            self._nulls = 0
        self._add(gradient, error)
        return path

    def _gradient(self, path: Path) -> FloatArray:
        return self._scale * (self._relaxation.blocks.counts - path.used)

    def _add(self, gradient: FloatArray, error: float) -> None:
        n = self._n_cuts
        self._gradients[n] = gradient
        products = self._gradients[: n + 1] @ gradient
        self._gram[n, : n + 1], self._gram[: n + 1, n] = products, products
        self._errors[n] = error
        self._weights[n] = 1.0 if n == 0 else 0.0
        self._n_cuts = n + 1
