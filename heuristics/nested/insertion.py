"""Best windows of the ring, by counts that slide along it."""

from typing import NamedTuple

import numpy as np
from numba import float64, int64, types

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import inlined
from heuristics.nested.circle import Circle, Ring


class Slide(NamedTuple):
    """Working space of the insertion.

    Parameters
    ----------
    counts
        Nodes of the window by group, all 0 between two insertions, shape ``(V,)``.
    price
        What a job pays for a node of each group of the lowest level, in hops, shape ``(V,)``.
    best
        First position of the best window.
    least
        Cost of the best window less what is the same for all windows, prices paid; and the squares it saves.
    """

    counts: IntArray
    price: FloatArray
    best: IntArray
    least: FloatArray


SLIDE = types.NamedTuple((int64[::1], float64[::1], int64[::1], float64[::1]), Slide)


@inlined
def begin(slide: Slide) -> None:
    """Forget the best window."""
    slide.least[0] = np.inf


@inlined
def count_node(circle: Circle, slide: Slide, position: int) -> float:
    """Add a node to the window; return by how much its weighted squares rise."""
    rise = 0.0
    for level in range(circle.weights.size):
        group = circle.groups[position, level]
        rise += circle.weights[level] * (2 * slide.counts[group] + 1)
        slide.counts[group] += 1
    return rise


@inlined
def exchange_nodes(circle: Circle, slide: Slide, leaving: int, entering: int) -> float:
    """Let the window lose one node and gain another; return by how much its weighted squares rise."""
    rise = 0.0
    for level in range(circle.weights.size):
        group = circle.groups[leaving, level]
        other = circle.groups[entering, level]
        if group != other:
            slide.counts[group] -= 1
            rise += 2 * circle.weights[level] * (slide.counts[other] - slide.counts[group])
            slide.counts[other] += 1
    return rise


@inlined
def clear_window(circle: Circle, ring: Ring, slide: Slide, position: int, held: int) -> None:
    """Take the nodes of a window from the counts."""
    for _ in range(held):
        for level in range(circle.weights.size):
            slide.counts[circle.groups[position, level]] -= 1
        position = ring.after[position]


@inlined
def scan_windows(circle: Circle, ring: Ring, slide: Slide, job: int, start: int, n_windows: int) -> None:
    """Look at so many windows of the ring, from the one that begins at a position on; keep the best one.

    It ends before a window that holds the barrier.
    """
    n = circle.sizes[job]
    per_node = 1.0 / n
    squares, paid, held = 0.0, 0.0, 0
    leaving, entering = start, start
    while held < n and entering != circle.barrier:
        squares += count_node(circle, slide, entering)
        paid += slide.price[circle.groups[entering, 0]]
        held += 1
        entering = ring.after[entering]
    for _ in range(n_windows if held == n else 0):
        value = paid - squares * per_node
        if value < slide.least[0]:
            slide.least[0], slide.least[1], slide.best[0] = value, squares, leaving
        if entering == circle.barrier:
            break
        paid += slide.price[circle.groups[entering, 0]] - slide.price[circle.groups[leaving, 0]]
        squares += exchange_nodes(circle, slide, leaving, entering)
        leaving, entering = ring.after[leaving], ring.after[entering]
    clear_window(circle, ring, slide, leaving, held)
