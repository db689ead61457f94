"""Side constraints of a job: in which groups of the tree its nodes may lie, and in which numbers.

Every rule speaks of the number A of the job's nodes in a group: A = 0 in a group that is forbidden, A = 0 or all of
them where the job has to stay within one group of a level, a multiple of the segment where it comes in segments.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import IntArray
from allocopt.cluster.topology import FatTree, Topology

Level = int | str
"""A level below the top: its number from 1 on, or ``leaf`` (1) or ``pod`` (2)."""

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
    """A job that is not within one group of this level pays a penalty, in the unit of the objective."""

    level: Level
    penalty: float


@dataclass(frozen=True, slots=True)
class Segments:
    """A job comes in segments of so many nodes, each within one group of this level.

    As for Slurm's ``--segment``, the number of nodes of the job has to be a multiple. Segments may share a group.
    """

    nodes: int
    level: Level


@dataclass(frozen=True, slots=True)
class Placement:
    """Rules for the nodes of one job; those that are left out allow everything.

    Parameters
    ----------
    only_in
        The groups that the job is pinned to: every node lies in one of them.
    not_in
        Groups in which it gets no node.
    within
        A level: all nodes lie in one group of it.
    prefer
        A level that the job would rather stay within, and what it costs if not.
    segments
        The pieces in which it comes.
    """

    only_in: tuple[Groups, ...] = ()
    not_in: tuple[Groups, ...] = ()
    within: Level | None = None
    prefer: Preference | None = None
    segments: Segments | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "only_in", tuple(self.only_in))
        object.__setattr__(self, "not_in", tuple(self.not_in))


def level_index(topology: Topology, level: Level) -> int:
    """Index of a level, 0 for the leaves.

    Raises
    ------
    ValueError
        If there is no such level below the top.
    """
    below = len(topology.hops) - 1
    names = LEVEL_NAMES[:below]
    if isinstance(level, str) and level in names:
        return names.index(level)
    if isinstance(level, int | np.integer) and not isinstance(level, bool) and 1 <= level <= below:
        return int(level) - 1
    if below == 0:
        raise ValueError(f"is {level!r}, but the tree has no level below its top")
    numbers = "1" if below == 1 else f"1..{below}"
    raise ValueError(f"is {level!r}, must be a level below the top: {numbers} or {' or '.join(names)}")


def group_numbers(topology: Topology, groups: Groups) -> IntArray:
    """Numbers of the groups.

    Raises
    ------
    ValueError
        If a group or the level does not exist.
    """
    level = level_index(topology, groups.level)
    n_groups = _n_groups(topology, level)
    names = _names(topology, level)
    numbers = []
    for group in groups.groups:
        if isinstance(group, str) and group in names:
            numbers.append(names.index(group))
        elif isinstance(group, int | np.integer) and not isinstance(group, bool) and 0 <= group < n_groups:
            numbers.append(int(group))
        else:
            known = f"a number in 0..{n_groups - 1}" + (" or a name of the level" if names else "")
            raise ValueError(f"holds {group!r}, must hold {known}")
    return np.array(numbers, dtype=np.int64)


def _n_groups(topology: Topology, level: int) -> int:
    if isinstance(topology, FatTree):
        return topology.pods * (topology.leaves_per_pod if level == 0 else 1)
    return len(_names(topology, level)) or int(topology.groups_of(np.arange(topology.size))[level].max()) + 1


def _names(topology: Topology, level: int) -> tuple[str, ...]:
    names: tuple[tuple[str, ...], ...] = getattr(topology, "names", ())
    return names[level] if level < len(names) else ()


def allowed_nodes(topology: Topology, placement: Placement, nodes: IntArray) -> NDArray[np.bool_]:
    """Whether the job may have each of the nodes at all, by ``only_in`` and ``not_in``."""
    levels = topology.groups_of(nodes)
    allowed = np.full(len(nodes), not placement.only_in)
    for wanted in placement.only_in:
        allowed |= np.isin(levels[level_index(topology, wanted.level)], group_numbers(topology, wanted))
    for forbidden in placement.not_in:
        allowed &= ~np.isin(levels[level_index(topology, forbidden.level)], group_numbers(topology, forbidden))
    return allowed


def penalty(topology: Topology, placement: Placement, nodes: IntArray) -> float:
    """Cost of the job's nodes not being within one group of the level that it prefers."""
    if placement.prefer is None:
        return 0.0
    groups = topology.groups_of(nodes)[level_index(topology, placement.prefer.level)]
    return 0.0 if bool((groups == groups[0]).all()) else float(placement.prefer.penalty)


def broken_rule(topology: Topology, placement: Placement, nodes: IntArray) -> str | None:
    """Say which group has how many nodes that it must not have; None if all rules are kept."""
    levels = topology.groups_of(nodes)
    outside = nodes[~allowed_nodes(topology, placement, nodes)]
    if len(outside):
        leaf = int(topology.groups_of(outside[:1])[0, 0]) if len(levels) else 0
        count = int((levels[0] == leaf).sum())
        return f"has {count} nodes in {_described(topology, 0, leaf)}, where it must not be"
    if placement.within is not None:
        level = level_index(topology, placement.within)
        groups, counts = np.unique(levels[level], return_counts=True)
        if len(groups) > 1:
            group = _described(topology, level, int(groups[0]))
            return f"has {counts[0]} of its {len(nodes)} nodes in {group}, must have all of them in one {_kind(level)}"
    if placement.segments is not None:
        level = level_index(topology, placement.segments.level)
        groups, counts = np.unique(levels[level], return_counts=True)
        for group, count in zip(groups.tolist(), counts.tolist(), strict=True):
            if count % placement.segments.nodes:
                where = _described(topology, level, group)
                return f"has {count} nodes in {where}, must have a multiple of {placement.segments.nodes}"
    return None


def _kind(level: int) -> str:
    return LEVEL_NAMES[level] if level < len(LEVEL_NAMES) else f"group of level {level + 1}"


def _described(topology: Topology, level: int, group: int) -> str:
    names = _names(topology, level)
    return f"{_kind(level)} {names[group]!r}" if names else f"{_kind(level)} {group}"


def placement_faults(topology: Topology, placement: Placement, n_nodes: int) -> Iterator[tuple[str, str]]:
    """Say field and fault of everything in the rules of a job of so many nodes that makes no sense."""
    for field in ("only_in", "not_in"):
        for index, groups in enumerate(getattr(placement, field)):
            if not groups.groups:
                yield f"{field}[{index}].groups", "is empty, must hold at least one group"
            yield from _faults_of(f"{field}[{index}]", partial(group_numbers, topology, groups))
    if placement.within is not None:
        yield from _faults_of("within", partial(level_index, topology, placement.within))
    if placement.prefer is not None:
        prefer = placement.prefer
        yield from _faults_of("prefer.level", partial(level_index, topology, prefer.level))
        if not 0 <= prefer.penalty <= LARGEST_PENALTY or math.isnan(prefer.penalty):
            yield "prefer.penalty", f"is {prefer.penalty}, must be within 0 .. {LARGEST_PENALTY:g}"
    if placement.segments is not None:
        segments = placement.segments
        yield from _faults_of("segments.level", partial(level_index, topology, segments.level))
        if segments.nodes < 1 or n_nodes % segments.nodes:
            yield "segments.nodes", f"is {segments.nodes}, must divide the {n_nodes} nodes of the job"


def _faults_of(field: str, resolve: Callable[[], object]) -> Iterator[tuple[str, str]]:
    try:
        resolve()
    except ValueError as error:
        yield field, str(error)
