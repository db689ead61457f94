"""Tree topologies: hops between two nodes of a cluster, and hop costs of jobs.

A tree has levels 1 (leaf switch) to L (top) with hop counts ``h_1 < ... < h_L``: two nodes whose lowest common
switch is at level l are ``h_l`` hops apart. Every node belongs to one group (switch) per level, and the groups nest.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from allocopt.arrays import FloatArray, IntArray, frozen_integers
from allocopt.errors import InvalidProblemError

Pairs = Literal["ordered", "unordered"]

NamedGroups = Mapping[str, Sequence[int | str]]
"""Groups of one level by name: the members are node numbers at the leaf level, names of lower groups above it."""

LARGEST_CLUSTER = 10_000_000
"""Largest number of nodes of a topology, so that a typing error does not exhaust the memory."""

_SMALL_TABLE = 10_000  # largest number of owners times groups for which a table of counts is faster


class Topology(Protocol):
    """Hops and groups of a cluster, as problems use them."""

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
        """Return the group of each of m nodes at the levels below the top, shape ``(L - 1, m)``, leaf level first."""


@dataclass(frozen=True, slots=True)
class FatTree:
    """A pruned k-ary fat tree: pods of leaf switches of nodes, numbered from left to right.

    The counts are at least 1. The hops within a leaf, within a pod and across pods are integers that increase; they are
    2, 4 and 6 in the NSA paper (section III-A). ``pairs`` says whether a pair of nodes counts twice or once. Raises
    `InvalidProblemError` if a value is invalid, or the cluster is larger than ``LARGEST_CLUSTER``.
    """

    pods: int
    leaves_per_pod: int
    nodes_per_leaf: int
    hops: tuple[int, ...] = (2, 4, 6)
    pairs: Pairs = "ordered"

    def __post_init__(self) -> None:
        for field in ("pods", "leaves_per_pod", "nodes_per_leaf"):
            count = getattr(self, field)
            if not isinstance(count, int | np.integer) or count < 1:
                raise InvalidProblemError(f"topology.{field}", f"is {count}, must be a whole number >= 1")
        if len(self.hops) != 3:
            raise InvalidProblemError("topology.hops", f"has {len(self.hops)} values, a fat tree has 3 levels")
        _check(self)

    @property
    def size(self) -> int:
        """Number of nodes."""
        return self.pods * self.leaves_per_pod * self.nodes_per_leaf

    def groups_of(self, nodes: IntArray) -> IntArray:
        """Return the leaf and the pod of each node, shape ``(2, m)``."""
        return np.stack((nodes // self.nodes_per_leaf, nodes // (self.nodes_per_leaf * self.leaves_per_pod)))


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree of any number of levels.

    ``groups`` has the group of every node, shape ``(L - 1, size)``, and ``names`` the names of the groups; both are by
    level below the top, leaves first. ``hops`` are those between two nodes that meet at level 1, ..., L. ``pairs`` says
    whether a pair of nodes counts twice or once.
    """

    groups: IntArray
    names: tuple[tuple[str, ...], ...]
    hops: tuple[int, ...]
    pairs: Pairs = "ordered"

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", frozen_integers(self.groups))
        if self.groups.ndim != 2 or self.groups.shape[0] != len(self.hops) - 1 or self.groups.shape[1] < 1:
            fault = f"groups have shape {self.groups.shape}, must be (levels - 1, nodes)"
            raise InvalidProblemError("topology.levels", fault)
        _check(self)
        for depth in range(1, len(self.groups)):
            # Levels nest if no group of the lower one occurs with two groups of the upper one.
            pairs = np.unique(self.groups[depth - 1 : depth + 1], axis=1)
            if len(np.unique(pairs[0])) != pairs.shape[1]:
                raise InvalidProblemError(f"topology.levels[{depth}]", "splits a group of the level below")

    @property
    def size(self) -> int:
        """Number of nodes."""
        return int(self.groups.shape[1])

    def groups_of(self, nodes: IntArray) -> IntArray:
        """Return the group of each node at the levels below the top, shape ``(L - 1, m)``."""
        return self.groups[:, nodes]

    @staticmethod
    def default_hops(below_top: int) -> tuple[int, ...]:
        """Return the hops 2, 4, 6, ... of a tree, given its number of levels below the top."""
        return tuple(range(2, 2 * below_top + 3, 2))

    @classmethod
    def from_levels(
        cls, levels: Sequence[NamedGroups], hops: Sequence[int] | None = None, pairs: Pairs = "ordered"
    ) -> "Tree":
        """Build a tree from named groups per level, leaves first, and one hop count per level (default 2, 4, 6, ...).

        Leaf groups hold node numbers, which must be ``0 .. size - 1``, each once; groups above hold names of groups of
        the level below, each once. The top level, a single group, may be left out unless it is the only one. Raises
        `InvalidProblemError` if a node or a group is missing, unknown or given twice, or hops do not match the levels.
        """
        if not levels or not levels[0]:
            raise InvalidProblemError("topology.levels", "is empty, must hold the groups of at least the leaf level")
        # The top level may be named or left out; if hops are given, their number decides.
        names_top = len(levels[-1]) == 1 if hops is None else len(hops) == len(levels)
        if names_top and len(levels[-1]) != 1:
            fault = (
                f"is the top level, as there are as many levels as hops; it has {len(levels[-1])} groups, must have 1"
            )
            raise InvalidProblemError(f"topology.levels[{len(levels) - 1}]", fault)
        below = len(levels) - names_top
        steps = cls.default_hops(below) if hops is None else tuple(hops)
        if len(steps) != below + 1:
            fault = (
                f"has {len(steps)} values for {len(levels)} named levels, must have one for each and one for the top"
            )
            raise InvalidProblemError("topology.hops", fault)
        rows = [_owners(levels[0], range(sum(len(members) for members in levels[0].values())), 0)]
        for depth in range(1, len(levels)):
            # A node belongs to the group that contains its group of the level below.
            rows.append(_owners(levels[depth], list(levels[depth - 1]), depth)[rows[-1]])
        return cls(np.stack(rows)[:below], tuple(tuple(level) for level in levels[:below]), steps, pairs)

    def to_levels(self) -> list[dict[str, list[int | str]]]:
        """Return named groups per level for `from_levels`, without the top level unless it is the only one."""
        if not self.names:
            return [{"top": list(range(self.size))}]
        levels: list[dict[str, list[int | str]]] = [{name: [] for name in names} for names in self.names]
        for node, leaf in enumerate(self.groups[0].tolist()):
            levels[0][self.names[0][leaf]].append(node)
        for depth in range(1, len(self.names)):
            pairs = np.unique(self.groups[depth - 1 : depth + 1], axis=1).T
            for below, above in pairs.tolist():
                levels[depth][self.names[depth][above]].append(self.names[depth - 1][below])
        return levels


def _owners(level: NamedGroups, members: Sequence[int | str], depth: int) -> IntArray:
    position: dict[int | str, int] = {member: index for index, member in enumerate(members)}
    owners = np.full(len(members), -1, dtype=np.int64)
    for group, (name, held) in enumerate(level.items()):
        place = f"topology.levels[{depth}].{name}"
        if not held:
            raise InvalidProblemError(place, "is empty, must hold at least one member")
        for member in held:
            if member not in position:
                node = f"a node number in 0..{len(members) - 1} (nodes are numbered without gaps)"
                raise InvalidProblemError(place, f"holds {member!r}, which is not {'a group below' if depth else node}")
            if owners[position[member]] >= 0:
                raise InvalidProblemError(place, f"holds {member!r}, which is in another group already")
            owners[position[member]] = group
    if len(owners) and owners.min() < 0:
        missing = members[int(np.argmin(owners))]
        raise InvalidProblemError(f"topology.levels[{depth}]", f"no group holds {missing!r}")
    return owners


def _check(topology: Topology) -> None:
    hops = topology.hops
    if not hops:
        raise InvalidProblemError("topology.hops", "is empty, must hold one hop count per level")
    are_whole = all(isinstance(hop, int | np.integer) for hop in hops)
    rising = are_whole and all(low < high for low, high in itertools.pairwise(hops))
    if hops[0] < 0 or hops[-1] > 1_000_000 or not rising:
        fault = f"is {list(hops)}, must be strictly increasing whole numbers from 0 to 1000000"
        raise InvalidProblemError("topology.hops", fault)
    if (size := topology.size) > LARGEST_CLUSTER:
        raise InvalidProblemError("topology", f"has {size} nodes, must have at most {LARGEST_CLUSTER}")


@dataclass(frozen=True, slots=True)
class HopFormula:
    """Coefficients of the hop cost of a job as a function of the number of its nodes in each group.

    NSA paper, Eq. 1 (read as in the project's errata: ordered pairs of the job's own nodes), in terms of counts:
    ``(hop_cost / n) * (h_L n^2 - h_1 n - sum_{l<L} (h_{l+1} - h_l) * sum_g A_lg^2)`` where ``A_lg`` is the number of
    the job's n nodes in group g of level l. For hops 2/4/6: ``(6n^2 - 2n - 2 sum A_pod^2 - 2 sum A_leaf^2) / n``.

    ``weights`` are ``h_{l+1} - h_l`` by level; ``scale`` is the cost of a hop, halved if a pair of nodes counts once.
    """

    bottom: int
    top: int
    weights: tuple[int, ...]
    scale: float

    @classmethod
    def of(cls, topology: Topology, hop_cost: float) -> "HopFormula":
        """Return the coefficients if one hop costs ``hop_cost``."""
        hops = topology.hops
        weights = tuple(high - low for low, high in itertools.pairwise(hops))
        # Eq. 1 sums over ordered pairs; if a pair counts once, a hop costs half.
        return cls(hops[0], hops[-1], weights, hop_cost if topology.pairs == "ordered" else hop_cost / 2)


def hop_costs(topology: Topology, hop_cost: float, node_sets: Sequence[IntArray]) -> FloatArray:
    """Return the hop cost of every node set, shape ``(sets,)``; an empty set costs nothing."""
    formula = HopFormula.of(topology, hop_cost)
    # Floats, because the hops of the largest clusters do not fit 64-bit integers; smaller sums are exact.
    sizes = np.array([len(nodes) for nodes in node_sets], dtype=np.float64)
    n_owners = len(node_sets)
    owners = np.repeat(np.arange(n_owners), sizes.astype(np.int64))
    groups = topology.groups_of(np.concatenate(node_sets))
    hops = formula.top * sizes * sizes - formula.bottom * sizes
    for weight, level in zip(formula.weights, groups, strict=True):
        # For every owner, sum the squared numbers of its nodes in each group.
        width = int(level.max()) + 1
        keys = owners * width + level
        if n_owners * width <= _SMALL_TABLE:
            table = np.bincount(keys, minlength=n_owners * width).reshape(n_owners, width).astype(np.float64)
            squares = np.asarray((table * table).sum(axis=1))
        else:
            # The keys are mostly sorted already, because the nodes of an owner are; a stable sort makes use of that.
            keys = np.sort(keys, kind="stable")
            first = np.append(0, np.flatnonzero(keys[1:] != keys[:-1]) + 1)
            counts = np.append(first[1:], len(keys)) - first
            # Weighted counts are floats, which are exact here: a count is at most 10^7, its square below 2^53.
            squares = np.bincount(keys[first] // width, counts * counts, n_owners).astype(np.float64)
        hops = hops - weight * squares
    costs: FloatArray = formula.scale * hops / np.maximum(sizes, 1)
    return costs
