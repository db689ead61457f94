"""Trees of any number of levels, given by named groups per level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import IntArray, frozen_integers
from allocopt.cluster.topology import Pairs, check_hops, check_size
from allocopt.errors import InvalidProblemError

NamedGroups = Mapping[str, Sequence[int | str]]
"""Groups of one level: of node numbers at the leaf level, of names of the level below above it."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree of any number of levels.

    Parameters
    ----------
    groups
        Group of every node at each level below the top, shape ``(L - 1, size)``, row 0 the leaf level.
    names
        Name of every group, per level below the top.
    hops
        Hops between two nodes that meet at level 1, ..., L.
    pairs
        Whether a pair of nodes counts twice or once.
    """

    groups: IntArray
    names: tuple[tuple[str, ...], ...]
    hops: tuple[int, ...]
    pairs: Pairs = "ordered"

    def __post_init__(self) -> None:
        check_hops(self.hops)
        object.__setattr__(self, "groups", frozen_integers(self.groups))
        if self.groups.ndim != 2 or self.groups.shape[0] != len(self.hops) - 1 or self.groups.shape[1] < 1:
            raise InvalidProblemError(
                "topology.levels", f"groups have shape {self.groups.shape}, must be (levels - 1, nodes)"
            )
        check_size(self.size)
        _check_nested(self.groups)

    @property
    def size(self) -> int:
        """Number of nodes."""
        return int(self.groups.shape[1])

    def groups_of(self, nodes: IntArray) -> IntArray:
        """Group of each node at the levels below the top, shape ``(L - 1, m)``."""
        return self.groups[:, nodes]

    @classmethod
    def from_levels(
        cls, levels: Sequence[NamedGroups], hops: Sequence[int] | None = None, pairs: Pairs = "ordered"
    ) -> "Tree":
        """Build a tree from named groups per level.

        Parameters
        ----------
        levels
            From the leaf level upwards; the top level, a single group, may be left out unless it is the only one.
            Leaf groups hold node numbers, which must be ``0 .. size - 1``, each once; groups above hold names of
            groups of the level below, each once.
        hops
            One hop count per level, the top included; 2, 4, 6, ... if None.
        pairs
            Whether a pair of nodes counts twice or once.

        Raises
        ------
        InvalidProblemError
            If a node or a group is missing, unknown or given twice, or the number of levels does not match the hops.
        """
        if not levels or not levels[0]:
            raise InvalidProblemError("topology.levels", "is empty, must hold the groups of at least the leaf level")
        below = _levels_below_top(levels, hops)
        hops = tuple(range(2, 2 * below + 3, 2)) if hops is None else tuple(hops)
        if len(hops) != below + 1:
            fault = f"has {len(hops)} values for {len(levels)} named levels: one each, and one for a top without name"
            raise InvalidProblemError("topology.hops", fault)
        return cls(_group_matrix(levels)[:below], tuple(tuple(level) for level in levels[:below]), hops, pairs)

    def to_levels(self) -> list[dict[str, list[int | str]]]:
        """Named groups per level, as `from_levels` takes them, the top level left out unless it is the only one."""
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


def _levels_below_top(levels: Sequence[NamedGroups], hops: Sequence[int] | None) -> int:
    """Count the levels below the top: all that are named, or all but the last where that one is the top."""
    names_top = len(levels[-1]) == 1 if hops is None else len(hops) == len(levels)
    if names_top and len(levels[-1]) != 1:
        raise InvalidProblemError(
            f"topology.levels[{len(levels) - 1}]", f"is the top level by the hops, but has {len(levels[-1])} groups"
        )
    return len(levels) - names_top


def _group_matrix(levels: Sequence[NamedGroups]) -> IntArray:
    """Group of every node at every named level, shape ``(len(levels), size)``."""
    rows = [_owners(levels[0], range(sum(len(members) for members in levels[0].values())), 0)]
    for depth in range(1, len(levels)):
        rows.append(_owners(levels[depth], list(levels[depth - 1]), depth)[rows[-1]])
    return np.stack(rows)


def _owners(level: NamedGroups, members: Sequence[int | str], depth: int) -> IntArray:
    """Index of the group that holds each of ``members``; each must stand in exactly one group."""
    position: dict[int | str, int] = {member: index for index, member in enumerate(members)}
    owners = np.full(len(members), -1, dtype=np.int64)
    for group, (name, held) in enumerate(level.items()):
        place = f"topology.levels[{depth}].{name}"
        if not held:
            raise InvalidProblemError(place, "is empty, must hold at least one member")
        for member in held:
            if member not in position:
                raise InvalidProblemError(place, f"holds {member!r}, which is not {_expected(depth, len(members))}")
            if owners[position[member]] >= 0:
                raise InvalidProblemError(place, f"holds {member!r}, which is in another group already")
            owners[position[member]] = group
    if len(owners) and owners.min() < 0:
        missing = members[int(np.argmin(owners))]
        raise InvalidProblemError(f"topology.levels[{depth}]", f"no group holds {missing!r}")
    return owners


def _expected(depth: int, count: int) -> str:
    """Say what a group of this level may hold."""
    return f"a node number in 0..{count - 1} (nodes are numbered without holes)" if depth == 0 else "a group below"


def _check_nested(groups: IntArray) -> None:
    """Raise `InvalidProblemError` unless every group lies inside one group of the next level."""
    for depth in range(1, groups.shape[0]):
        pairs = np.unique(groups[depth - 1 : depth + 1], axis=1)
        if len(np.unique(pairs[0])) != pairs.shape[1]:
            raise InvalidProblemError(f"topology.levels[{depth}]", "splits a group of the level below")
