"""Circles of positions with blocks of any integer costs, and what can be said of them slowly."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from allocopt.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Circle:
    """Costs of the block of every distinct size at every position, shape ``(R, m)``, and the sizes, rising."""

    costs: FloatArray
    sizes: IntArray

    @property
    def m(self) -> int:
        """Number of positions."""
        return int(self.costs.shape[1])


@st.composite
def circles(draw: st.DrawFn, most_positions: int = 12) -> Circle:
    """Draw a circle with up to four sizes; integer costs, so that there are ties."""
    m = draw(st.integers(1, most_positions))
    sizes = sorted(draw(st.sets(st.integers(1, m), min_size=1, max_size=4)))
    costs = draw(st.lists(st.integers(0, 40), min_size=len(sizes) * m, max_size=len(sizes) * m))
    return Circle(np.array(costs, dtype=np.float64).reshape(len(sizes), m), np.array(sizes))


def prices_for(circle: Circle) -> st.SearchStrategy[FloatArray]:
    """Draw integer prices of the sizes, some of them negative."""
    n = len(circle.sizes)
    return st.lists(st.integers(-10, 60), min_size=n, max_size=n).map(lambda prices: np.array(prices, dtype=np.float64))


def distances(circle: Circle, prices: FloatArray) -> FloatArray:
    """All shortest distances between positions 0 .. m of the line, by Floyd and Warshall."""
    m = circle.m
    between = np.full((m + 1, m + 1), np.inf)
    np.fill_diagonal(between, 0.0)
    for i in range(m):
        between[i, i + 1] = 0.0
        for r, n in enumerate(circle.sizes.tolist()):
            if i + n <= m:
                between[i, i + n] = min(between[i, i + n], circle.costs[r, i] - prices[r])
    for k in range(m + 1):
        between = np.minimum(between, between[:, [k]] + between[[k], :])
    return between


def packings(circle: Circle, counts: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """All packings with so many blocks of each size: indices of sizes and starts, sizes in order."""
    sizes = np.repeat(np.arange(len(counts)), counts)
    for starts in itertools.product(range(circle.m), repeat=len(sizes)):
        same_order = all(
            a < b for (r, a), (q, b) in itertools.pairwise(zip(sizes.tolist(), starts, strict=True)) if r == q
        )
        covered = [(i + x) % circle.m for r, i in zip(sizes, starts, strict=True) for x in range(int(circle.sizes[r]))]
        if same_order and len(set(covered)) == len(covered):
            yield sizes, np.array(starts, dtype=np.int64)
