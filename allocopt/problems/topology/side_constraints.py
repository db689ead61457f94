"""Side constraints of a job: the groups of the tree in which its nodes may lie, and how many in each.

Every rule restricts the number A of the job's nodes in a group. A is 0 in a forbidden group. A is 0 or all of the job's
nodes if the job has to stay within one group of the level. A is a multiple of the segment size if the level has one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.topology import FatTree, Topology
from allocopt.errors import InvalidProblemError
from allocopt.problems.base import check_range

Level = int | str  # a level below the top: its number from 1 on, or ``leaf`` (1) or ``pod`` (2)
LEVEL_NAMES = ("leaf", "pod")
LARGEST_PENALTY = 1e15


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of one level, by their numbers from 0 on or, in a tree of named groups, by their names."""

    level: Level
    groups: tuple[int | str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(self.groups))


@dataclass(frozen=True, slots=True)
class Preference:
    """A level, and the cost of a job that is not within one group of it, in the unit of the objective."""

    level: Level
    penalty: float


@dataclass(frozen=True, slots=True)
class Segments:
    """Parts of equal size into which a job is divided, each within one group of a level.

    The number of nodes of the job has to be a multiple of the size, as for Slurm's ``--segment``. Segments may share a
    group.
    """

    nodes: int
    level: Level


def segment_sizes(segments: Sequence[Segments], topology: Topology, place: str = "") -> tuple[int, ...]:
    """Return the segment size by level below the top, from the leaves; 0 for levels without segments.

    ``segments`` has the largest first. Raises `InvalidProblemError`, which names the place, unless each size divides
    the one before it and each level is below the one before it.
    """
    sizes = [0] * (len(topology.hops) - 1)
    for index, each in enumerate(segments):
        # A single entry is an object in files, not a list.
        where = place if len(segments) == 1 else f"{place}[{index}]"
        level = level_index(topology, each.level, f"{where}.level")
        if each.nodes < 1:
            raise InvalidProblemError(f"{where}.nodes", f"is {each.nodes}, must be at least 1")
        if index > 0:
            before = segments[index - 1]
            above = level_index(topology, before.level)
            if level >= above:
                fault = f"is level {level + 1}, must be below level {above + 1} of the segments before it"
                raise InvalidProblemError(f"{where}.level", fault)
            if before.nodes % each.nodes:
                fault = f"is {each.nodes}, must divide the {before.nodes} nodes of the segments before it"
                raise InvalidProblemError(f"{where}.nodes", fault)
        sizes[level] = each.nodes
    return tuple(sizes)


@dataclass(frozen=True, slots=True)
class SideConstraints:
    """Rules for the nodes of one job; a rule that is left out allows everything."""

    only_in: tuple[Groups, ...] = ()  # every node must lie in one of these groups
    not_in: tuple[Groups, ...] = ()  # no node may lie in one of these groups
    within: Level | None = None  # all nodes must lie in one group of this level
    prefer: Preference | None = None  # a level of which the job should stay within one group, and the cost if not
    # Parts into which the job is divided, the largest first. Each further entry divides the parts of the one before it:
    # its size divides theirs, and its level is below theirs.
    segments: tuple[Segments, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "only_in", tuple(self.only_in))
        object.__setattr__(self, "not_in", tuple(self.not_in))
        object.__setattr__(self, "segments", tuple(self.segments))

    def allowed(self, topology: Topology, nodes: IntArray) -> BoolArray:
        """Return whether ``only_in`` and ``not_in`` allow each of the nodes, shape of ``nodes``."""
        levels = topology.groups_of(nodes)
        allowed = np.full(len(nodes), not self.only_in)
        for wanted in self.only_in:
            allowed |= np.isin(levels[level_index(topology, wanted.level)], _group_numbers(topology, wanted))
        for forbidden in self.not_in:
            allowed &= ~np.isin(levels[level_index(topology, forbidden.level)], _group_numbers(topology, forbidden))
        return allowed

    def penalty(self, topology: Topology, nodes: IntArray) -> float:
        """Return the penalty if the nodes are not within one group of the preferred level, otherwise 0."""
        if self.prefer is None:
            return 0.0
        groups = topology.groups_of(nodes)[level_index(topology, self.prefer.level)]
        return 0.0 if bool((groups == groups[0]).all()) else float(self.prefer.penalty)

    def broken_rule(self, topology: Topology, nodes: IntArray) -> str | None:
        """Return the first broken rule as text, with the group and its number of nodes; None if no rule is broken."""
        levels = topology.groups_of(nodes)
        outside = nodes[~self.allowed(topology, nodes)]
        if len(outside):
            leaf = int(topology.groups_of(outside[:1])[0, 0]) if len(levels) else 0
            count = int((levels[0] == leaf).sum())
            return f"has {count} nodes in {_described(topology, 0, leaf)}, which its rules do not allow"
        if self.within is not None:
            level = level_index(topology, self.within)
            groups, counts = np.unique(levels[level], return_counts=True)
            if len(groups) > 1:
                held = f"has {counts[0]} of its {len(nodes)} nodes in {_described(topology, level, int(groups[0]))}"
                return f"{held}, must have all of them in one {_kind(level)}"
        # Sizes divide each other and levels are nested. So nodes can be divided into nested parts if and only if their
        # number in every group is a multiple of the size.
        for level, size in enumerate(segment_sizes(self.segments, topology)):
            groups, counts = np.unique(levels[level], return_counts=True)
            for group, count in zip(groups.tolist(), counts.tolist(), strict=True) if size else ():
                if count % size:
                    where = _described(topology, level, group)
                    return f"has {count} nodes in {where}, must have a multiple of {size}"
        return None

    def check(self, place: str, topology: Topology, n_nodes: int) -> None:
        """Raise `InvalidProblemError`, which names the place, unless the rules are valid for a job of ``n_nodes``."""
        for field in ("only_in", "not_in"):
            for index, groups in enumerate(getattr(self, field)):
                where = f"{place}.{field}[{index}]"
                if not groups.groups:
                    raise InvalidProblemError(f"{where}.groups", "is empty, must hold at least one group")
                _group_numbers(topology, groups, where)
        if self.within is not None:
            level_index(topology, self.within, f"{place}.within")
        if self.prefer is not None:
            level_index(topology, self.prefer.level, f"{place}.prefer.level")
            check_range(f"{place}.prefer.penalty", self.prefer.penalty, 0.0, LARGEST_PENALTY)
        size = max(segment_sizes(self.segments, topology, f"{place}.segments"), default=0)
        if size and n_nodes % size:
            where = f"{place}.segments" if len(self.segments) == 1 else f"{place}.segments[0]"
            raise InvalidProblemError(f"{where}.nodes", f"is {size}, must divide the {n_nodes} nodes of the job")


def level_index(topology: Topology, level: Level, place: str = "") -> int:
    """Return the index of a level, 0 for the leaves; raise `InvalidProblemError` if it is not below the top."""
    below = len(topology.hops) - 1
    names = LEVEL_NAMES[:below]
    if isinstance(level, str) and level in names:
        return names.index(level)
    if isinstance(level, int | np.integer) and not isinstance(level, bool) and 1 <= level <= below:
        return int(level) - 1
    if below == 0:
        raise InvalidProblemError(place, f"is {level!r}, but the tree has no level below its top")
    numbers = "1" if below == 1 else f"1..{below}"
    fault = f"is {level!r}, must be a level below the top: {numbers} or {' or '.join(names)}"
    raise InvalidProblemError(place, fault)


def _group_numbers(topology: Topology, groups: Groups, place: str = "") -> list[int]:
    level = level_index(topology, groups.level, place)
    names, numbers = _names(topology, level), []
    if isinstance(topology, FatTree):
        n_groups = topology.pods * (topology.leaves_per_pod if level == 0 else 1)
    else:
        # For other classes of topologies, the groups of the nodes are the only way to count groups.
        n_groups = len(names) or int(topology.groups_of(np.arange(topology.size))[level].max()) + 1
    for group in groups.groups:
        if isinstance(group, str) and group in names:
            numbers.append(names.index(group))
        elif isinstance(group, int | np.integer) and not isinstance(group, bool) and 0 <= group < n_groups:
            numbers.append(int(group))
        else:
            known = f"a number in 0..{n_groups - 1}" + (" or a name of the level" if names else "")
            raise InvalidProblemError(place, f"holds {group!r}, must hold {known}")
    return numbers


def _names(topology: Topology, level: int) -> tuple[str, ...]:
    names: tuple[tuple[str, ...], ...] = getattr(topology, "names", ())
    return names[level] if level < len(names) else ()


def _kind(level: int) -> str:
    return LEVEL_NAMES[level] if level < len(LEVEL_NAMES) else f"group of level {level + 1}"


def _described(topology: Topology, level: int, group: int) -> str:
    names = _names(topology, level)
    return f"{_kind(level)} {names[group]!r}" if names else f"{_kind(level)} {group}"
