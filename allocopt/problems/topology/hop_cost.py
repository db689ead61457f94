"""The hop cost of one job: a function of how many of its nodes lie in each group.

NSA paper, Eq. 1 (read as in the project's errata: ordered pairs of the job's own nodes), brought to counts:
``(hop_cost / n) * (h_L n^2 - h_1 n - sum_{l<L} (h_{l+1} - h_l) * sum_g A_lg^2)`` where ``A_lg`` is the number of the
job's nodes in group g of level l. For hops 2/4/6 that is ``(6n^2 - 2n - 2 sum A_pod^2 - 2 sum A_leaf^2) / n``.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import Topology

SMALL_TABLE = 10_000
"""Owners times groups up to which a table of all counts is faster than sorting them."""


@dataclass(frozen=True, slots=True)
class HopFormula:
    """Coefficients of the hop cost of a topology.

    Parameters
    ----------
    bottom, top
        Hops at the lowest and the highest level.
    weights
        ``h_{l+1} - h_l`` for every level l below the top.
    scale
        Cost of one hop, halved where a pair of nodes counts once.
    """

    bottom: int
    top: int
    weights: tuple[int, ...]
    scale: float

    @classmethod
    def of(cls, topology: Topology, hop_cost: float) -> "HopFormula":
        """Coefficients for ``topology``, ``hop_cost`` being the cost of one hop."""
        hops = topology.hops
        weights = tuple(high - low for low, high in itertools.pairwise(hops))
        return cls(hops[0], hops[-1], weights, hop_cost if topology.pairs == "ordered" else hop_cost / 2)


def hop_costs(topology: Topology, hop_cost: float, node_sets: Sequence[IntArray]) -> FloatArray:
    """Hop cost of every node set, each in one expression over the counts of its groups.

    Parameters
    ----------
    topology
        The tree in which the nodes lie.
    hop_cost
        Cost of one hop.
    node_sets
        Nodes of each job, disjoint or not; an empty set costs nothing.

    Returns
    -------
    FloatArray
        One cost per set, in the order given.
    """
    formula = HopFormula.of(topology, hop_cost)
    # Floats: the hops of the largest cluster that is taken do not fit 64 bits, and all others are exact.
    sizes = np.array([len(nodes) for nodes in node_sets], dtype=np.float64)
    owners = np.repeat(np.arange(len(node_sets)), sizes.astype(np.int64))
    groups = topology.groups_of(np.concatenate(node_sets))
    hops = formula.top * sizes * sizes - formula.bottom * sizes
    for weight, level in zip(formula.weights, groups, strict=True):
        hops = hops - weight * _squared_counts(owners, level, len(node_sets))
    costs: FloatArray = formula.scale * hops / np.maximum(sizes, 1)
    return costs


def _squared_counts(owners: IntArray, groups: IntArray, n_owners: int) -> FloatArray:
    """Sum over groups of the squared number of nodes that each owner has there, shape ``(n_owners,)``."""
    width = int(groups.max()) + 1
    keys = owners * width + groups
    if n_owners * width <= SMALL_TABLE:
        table = np.bincount(keys, minlength=n_owners * width).reshape(n_owners, width).astype(np.float64)
        return np.asarray((table * table).sum(axis=1))
    # Where the nodes of every owner rise, as they mostly do, the keys are sorted already, and a stable sort sees that.
    keys = np.sort(keys, kind="stable")
    first = np.append(0, np.flatnonzero(keys[1:] != keys[:-1]) + 1)
    counts = np.append(first[1:], len(keys)) - first
    squares: FloatArray = np.bincount(keys[first] // width, counts * counts, n_owners).astype(np.float64)
    return squares
