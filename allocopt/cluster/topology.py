"""Tree topologies: how many hops lie between two nodes of a cluster.

A tree has levels 1 (leaf switch) to L (top) with hop counts ``h_1 < ... < h_L``: two nodes whose lowest common
switch is at level l are ``h_l`` hops apart. Every node belongs to one group (switch) per level, and the groups nest.
"""

import itertools
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from allocopt.arrays import IntArray
from allocopt.errors import InvalidProblemError

Pairs = Literal["ordered", "unordered"]

LARGEST_CLUSTER = 10_000_000
"""Number of nodes above which a topology is refused, so that a typing error does not exhaust the memory."""


class Topology(Protocol):
    """What a problem needs to know of a cluster."""

    @property
    def hops(self) -> tuple[int, ...]:
        """Hops between two nodes that meet at level 1, ..., L; strictly rising."""

    @property
    def pairs(self) -> Pairs:
        """Whether a pair of nodes counts twice (``ordered``, as in the NSA paper) or once."""

    @property
    def size(self) -> int:
        """Number of nodes; they are numbered ``0 .. size - 1``."""

    def groups_of(self, nodes: IntArray) -> IntArray:
        """Group of each node at the levels below the top.

        Parameters
        ----------
        nodes
            Node numbers, shape ``(m,)``.

        Returns
        -------
        IntArray
            Shape ``(L - 1, m)``; row 0 is the leaf level.
        """


@dataclass(frozen=True, slots=True)
class FatTree:
    """A pruned k-ary fat tree: pods of leaf switches of nodes, numbered from left to right.

    Parameters
    ----------
    pods, leaves_per_pod, nodes_per_leaf
        Its shape, each at least 1.
    hops
        Hops within a leaf, within a pod and across pods; 2, 4, 6 in the NSA paper (section III-A).
    pairs
        Whether a pair of nodes counts twice or once.

    Raises
    ------
    InvalidProblemError
        If a count is not a positive integer, the hops are no integers that rise, or the cluster is larger than
        ``LARGEST_CLUSTER``.
    """

    pods: int
    leaves_per_pod: int
    nodes_per_leaf: int
    hops: tuple[int, ...] = (2, 4, 6)
    pairs: Pairs = "ordered"

    def __post_init__(self) -> None:
        for field in ("pods", "leaves_per_pod", "nodes_per_leaf"):
            if not _is_whole(getattr(self, field)) or getattr(self, field) < 1:
                fault = f"is {getattr(self, field)}, must be a whole number from 1 on"
                raise InvalidProblemError(f"topology.{field}", fault)
        if len(self.hops) != 3:
            raise InvalidProblemError("topology.hops", f"has {len(self.hops)} values, a fat tree has 3 levels")
        check_hops(self.hops)
        check_size(self.size)

    @property
    def size(self) -> int:
        """Number of nodes."""
        return self.pods * self.leaves_per_pod * self.nodes_per_leaf

    def groups_of(self, nodes: IntArray) -> IntArray:
        """Leaf and pod of each node, shape ``(2, m)``."""
        return np.stack((nodes // self.nodes_per_leaf, nodes // (self.nodes_per_leaf * self.leaves_per_pod)))


def check_hops(hops: tuple[int, ...]) -> None:
    """Raise `InvalidProblemError` unless the hop counts are non-negative, strictly rising and not absurd."""
    if not hops:
        raise InvalidProblemError("topology.hops", "is empty, must hold one hop count per level")
    rising = all(map(_is_whole, hops)) and all(low < high for low, high in itertools.pairwise(hops))
    if hops[0] < 0 or hops[-1] > 1_000_000 or not rising:
        raise InvalidProblemError(
            "topology.hops", f"is {list(hops)}, must rise strictly within 0 .. 1000000, in whole numbers"
        )


def _is_whole(value: object) -> bool:
    """Whether a value is an integer, of Python or NumPy."""
    return isinstance(value, int | np.integer)


def check_size(size: int) -> None:
    """Raise `InvalidProblemError` for a cluster larger than ``LARGEST_CLUSTER``."""
    if size > LARGEST_CLUSTER:
        raise InvalidProblemError("topology", f"has {size} nodes, the largest cluster taken has {LARGEST_CLUSTER}")
