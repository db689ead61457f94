"""Prices of the sizes by a proximal bundle method: steps to where the cuts seen so far promise the best bound.

Every path gives a cut: at prices p its value is at most ``value + (counts - used) @ (p - p_path)``. The next prices
maximize the least of the cuts less ``|p - centre|^2 / (2 radius)``; where the bound rises by a fair share of what was
promised they become the new centre, else their cut is learned (Kiwiel, Mathematical Programming 46, 1990).
"""

import numpy as np
from numba import float64, int64

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import kernel
from formulations.topology.lagrangian.relaxation import Path, Relaxation

FAIR_SHARE, LARGE_SHARE = 0.1, 0.5
MOST_BALANCING_STEPS = 2000


@kernel(int64(float64[:, ::1], float64[::1], float64, float64[::1], float64[::1], int64, float64, int64))
def balance_weights(
    gram: FloatArray,
    errors: FloatArray,
    radius: float,
    weights: FloatArray,
    slopes: FloatArray,
    n_cuts: int,
    tolerance: float,
    most_steps: int,
) -> int:
    """Minimize ``radius / 2 * w' gram w + errors' w`` over weights that are not negative and sum to 1.

    Every step moves weight from the cut of the steepest slope to that of the flattest, as far as it pays.

    Parameters
    ----------
    gram, errors
        Scalar products of the cuts' gradients, at least ``(n_cuts, n_cuts)``, and linearization errors, not negative.
    radius
        Weight of the quadratic term.
    weights, slopes
        The start, and the answer; working space.
    n_cuts
        Number of cuts.
    tolerance, most_steps
        Stop when two slopes differ by no more, or after so many steps; return their number.
    """
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
        moved = weights[giver]
        if curvature > 0.0:
            moved = min(moved, gain / curvature)
        weights[taker] += moved
        weights[giver] = weights[giver] - moved if moved < weights[giver] else 0.0
        for i in range(n_cuts):
            slopes[i] += radius * moved * (gram[i, taker] - gram[i, giver])
    return most_steps


class Bundle:
    """The centre of the search, and the cuts around it.

    Parameters
    ----------
    relaxation
        What is bounded.
    prices, scale
        Where to begin, and units in which the steps measure each price, shape ``(R,)``.
    most_cuts
        Number of cuts that are kept.
    """

    def __init__(self, relaxation: Relaxation, prices: FloatArray, scale: FloatArray, most_cuts: int) -> None:
        self._relaxation = relaxation
        self._counts: IntArray = relaxation.blocks.counts
        self._scale = scale
        self.prices = prices
        self.path: Path = relaxation.path(prices)
        self.promise = np.inf
        gradient = self._gradient(self.path)
        self._radius = 0.1 * abs(self.path.value) / max(1.0, float(gradient @ gradient))
        self._gradients = np.zeros((most_cuts, len(prices)))
        self._gram = np.zeros((most_cuts, most_cuts))
        self._errors, self._weights, self._slopes = (np.zeros(most_cuts) for _ in range(3))
        self._n_cuts = 0
        self._nulls = 0
        self._add(gradient, 0.0)

    @property
    def value(self) -> float:
        """The best bound so far."""
        return self.path.value

    def step(self) -> Path:
        """Take one step, and return the path at the prices that it tried; `promise` is what it promised to gain."""
        n = self._n_cuts
        tolerance = 1e-10 * abs(self.value)
        balance_weights(
            *(self._gram, self._errors, self._radius, self._weights, self._slopes),
            *(n, tolerance, MOST_BALANCING_STEPS),
        )
        weights = self._weights[:n] / self._weights[:n].sum()
        direction = weights @ self._gradients[:n]
        error = float(weights @ self._errors[:n])
        squared = float(direction @ direction)
        self.promise = self._radius * squared + error
        prices = self.prices + self._radius * self._scale * direction
        path = self._relaxation.path(prices)
        gain = path.value - self.value
        if n == len(self._gradients):
            self._compress(direction, error)
        if gain >= FAIR_SHARE * self.promise:
            self._move(prices, path, gain)
        else:
            self._learn(prices, path)
        return path

    def _gradient(self, path: Path) -> FloatArray:
        return self._scale * (self._counts - path.used)

    def _move(self, prices: FloatArray, path: Path, gain: float) -> None:
        n = self._n_cuts
        moved = self._gradients[:n] @ ((prices - self.prices) / self._scale)
        self._errors[:n] = np.maximum(0.0, self._errors[:n] + moved - gain)
        self.prices, self.path = prices, path
        if gain >= LARGE_SHARE * self.promise:
            self._radius *= 2.0
        self._nulls = 0
        self._add(self._gradient(path), 0.0)

    def _learn(self, prices: FloatArray, path: Path) -> None:
        gradient = self._gradient(path)
        error = max(0.0, path.value + float(gradient @ ((self.prices - prices) / self._scale)) - self.value)
        self._nulls += 1
        if error > self.promise and self._nulls >= 3:
            self._radius *= 0.5
            self._nulls = 0
        self._add(gradient, error)

    def _add(self, gradient: FloatArray, error: float) -> None:
        n = self._n_cuts
        self._gradients[n] = gradient
        products = self._gradients[: n + 1] @ gradient
        self._gram[n, : n + 1], self._gram[: n + 1, n] = products, products
        self._errors[n] = error
        self._weights[n] = 1.0 if n == 0 else 0.0
        self._n_cuts = n + 1

    def _compress(self, direction: FloatArray, error: float) -> None:
        """Make room: keep the half of the cuts that weigh most or lie nearest, and one that stands for their mean."""
        n, half = self._n_cuts, self._n_cuts // 2
        kept = np.lexsort((self._errors[:n], -self._weights[:n]))[:half]
        gradients, errors = self._gradients[kept], self._errors[kept]
        self._n_cuts = 0
        self._add(direction, error)
        for gradient, kept_error in zip(gradients, errors, strict=True):
            self._add(gradient, float(kept_error))
