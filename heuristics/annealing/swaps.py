"""Annealing on counts as a kernel: nodes of one job change places with as many of another job, or with idle ones.

A job of n nodes that gives up k nodes of group u and gets k of group v, of which it has A_u and A_v, saves
``2 k w (A_v - A_u + k) / n`` hops more, w being the hops between the groups' level and the next: a move costs the same
on a window of any size. What nobody has is one more owner, whose size is infinite.
"""

from typing import NamedTuple

import numpy as np
from numba import float64, int32, int64, types, void
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import inlined, kernel

MODULUS = 2**31 - 1
"""Of the generator; its states are ``1 .. MODULUS - 1``."""


class Swapping(NamedTuple):
    """Where the walk is.

    Parameters
    ----------
    owners
        Row of each idle position: its job, or J where it has none, shape ``(m,)``.
    counts
        Nodes of each owner by group, the groups of all levels numbered through, shape ``(J + 1, V)``.
    groups
        Group of each idle position at each level, shape ``(m, levels)``.
    members, first
        The positions of group u of the lowest level are ``members[first[u] : first[u + 1]]``.
    weights
        What a squared count saves at each level, in hops, shape ``(levels,)``.
    per_node
        One over the size of each job, and 0 for the last row, shape ``(J + 1,)``.
    saving
        Hops that the present state saves more than the first one, shape ``(1,)``.
    random
        State of the random numbers, one entry.
    """

    owners: IntArray
    counts: NDArray[np.int32]
    groups: IntArray
    members: IntArray
    first: IntArray
    weights: FloatArray
    per_node: FloatArray
    saving: FloatArray
    random: IntArray


SWAPPING = types.NamedTuple(
    (
        *(int64[::1], int32[:, ::1], int64[:, ::1], int64[::1], int64[::1]),
        *(float64[::1], float64[::1], float64[::1], int64[::1]),
    ),
    Swapping,
)


@inlined
def uniform(state: IntArray) -> float:
    """Draw a number in 0 .. 1 by a multiplicative congruential generator."""
    state[0] = state[0] * 48271 % MODULUS
    return float(state[0] / MODULUS)


@inlined
def change_of_swap(swapping: Swapping, p: int, q: int, k: int) -> float:
    """Return how many hops more are saved when k nodes of p's owner and group and k of q's change owners."""
    a, b = swapping.owners[p], swapping.owners[q]
    of_a, of_b = 0.0, 0.0
    for level in range(swapping.weights.size):
        u, v = swapping.groups[p, level], swapping.groups[q, level]
        if u != v:
            of_a += swapping.weights[level] * (swapping.counts[a, v] - swapping.counts[a, u] + k)
            of_b += swapping.weights[level] * (swapping.counts[b, u] - swapping.counts[b, v] + k)
    return float(2 * k * (of_a * swapping.per_node[a] + of_b * swapping.per_node[b]))


@inlined
def hand_over(swapping: Swapping, a: int, b: int, group: int, k: int) -> None:
    """Give k positions of an owner in a group of the lowest level to another one."""
    index = swapping.first[group]
    while k > 0:
        position = swapping.members[index]
        index += 1
        if swapping.owners[position] == a:
            swapping.owners[position] = b
            k -= 1


@inlined
def swap_owners(swapping: Swapping, p: int, q: int, k: int) -> None:
    """Let k nodes of p's owner and group and k of q's change owners."""
    a, b = swapping.owners[p], swapping.owners[q]
    for level in range(swapping.weights.size):
        u, v = swapping.groups[p, level], swapping.groups[q, level]
        swapping.counts[a, u] -= k
        swapping.counts[a, v] += k
        swapping.counts[b, v] -= k
        swapping.counts[b, u] += k
    hand_over(swapping, a, b, swapping.groups[p, 0], k)
    hand_over(swapping, b, a, swapping.groups[q, 0], k)


@kernel(void(SWAPPING, int64, float64, float64))
def anneal_by_swaps(swapping: Swapping, steps: int, hottest: float, coldest: float) -> None:
    """Take some steps of the walk, which changes in place.

    Parameters
    ----------
    swapping
        Where the walk is.
    steps
        Pairs of positions drawn; those of one owner or one group change nothing.
    hottest, coldest
        Temperatures at the first of them, and behind the last one, in hops.
    """
    m = swapping.owners.size
    temperature, cooling = hottest, np.exp(np.log(coldest / hottest) / steps)
    for _ in range(steps):
        temperature *= cooling
        p, q = int(uniform(swapping.random) * m), int(uniform(swapping.random) * m)
        a, b, u, v = swapping.owners[p], swapping.owners[q], swapping.groups[p, 0], swapping.groups[q, 0]
        if a == b or u == v:
            continue
        k = 1 + int(uniform(swapping.random) * min(swapping.counts[a, u], swapping.counts[b, v]))
        change = change_of_swap(swapping, p, q, k)
        if change >= 0 or uniform(swapping.random) < np.exp(change / temperature):
            swap_owners(swapping, p, q, k)
            swapping.saving[0] += change
