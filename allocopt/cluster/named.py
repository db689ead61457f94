"""Trees whose nodes have names, made of switches that name the nodes or switches below them.

A leaf switch, which has nodes, is at level 1; any other switch is one level above its highest switch, as in Slurm. Two
nodes are as far apart as the level of the lowest switch above both. What has several switches on top gets a level more.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from allocopt.cluster.hostlist import check_listable, fold_hostlist
from allocopt.cluster.topology import Topology, Tree
from allocopt.errors import InvalidProblemError

MOST_LEVELS = 64  # levels of switches beyond which a topology is refused


@dataclass(frozen=True, slots=True, eq=False)
class NamedTree:
    """A cluster as its site describes it: a tree, and the names of its nodes.

    Parameters
    ----------
    tree
        The tree; its nodes are numbered so that those of a switch stand together.
    nodes
        Name of every node, by its number.
    remarks
        Oddities of the description, and how they were decided, a line each.

    Raises
    ------
    InvalidProblemError
        If the number of names is not that of the nodes, or a name is given twice or cannot be printed on one line.
    """

    tree: Tree
    nodes: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    _numbers: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        numbers = {name: number for number, name in enumerate(self.nodes)}
        object.__setattr__(self, "_numbers", numbers)
        if len(self.nodes) != self.tree.size or len(numbers) < len(self.nodes):
            fault = f"{len(numbers)} distinct names are given to {self.tree.size} nodes, must be one each"
            raise InvalidProblemError("topology nodes", fault)
        # Whoever reads lines takes what stands behind a line's end for another one.
        broken = next((name for name in self.nodes if not name.isprintable()), None)
        if broken is not None:
            raise InvalidProblemError("topology nodes", f"node {broken!r} has a control character in its name")

    def numbers(self, names: Iterable[str]) -> list[int]:
        """Return the numbers of nodes; raise `InvalidProblemError` if there is no node of a name."""
        try:
            return [self._numbers[name] for name in names]
        except KeyError as error:
            raise InvalidProblemError("topology nodes", f"there is no node {error.args[0]!r}") from None

    def is_like(self, topology: Topology) -> bool:
        """Whether a topology has as many nodes, and puts the same neighbours by number into one group at each level."""
        if topology.size != self.tree.size:
            return False
        # Numbers of groups may differ; what matters is where a group ends and the next begins.
        own, other = self.tree.groups, topology.groups_of(np.arange(topology.size))
        return own.shape == other.shape and np.array_equal(np.diff(own) != 0, np.diff(other) != 0)

    def hostlist(self, numbers: Iterable[int]) -> str:
        """Write nodes as one hostlist, by their numbers; raise `HostlistError` for a name that would be misread."""
        names = [self.nodes[number] for number in sorted(numbers)]
        for name in names:
            check_listable(name)
        return fold_hostlist(names)

    def summary(self) -> str:
        """Count nodes, groups per level and hops in a line."""
        levels = ", ".join(f"{len(names)} at level {level}" for level, names in enumerate(self.tree.names, 1))
        hops = ", ".join(map(str, self.tree.hops))
        return f"{self.tree.size} nodes; groups: {levels or 'one'}; hops {hops}"


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch as a description names it, with its nodes or the switches below it.

    ``place`` is where it is described, such as ``line 3``.
    """

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    place: str = ""


def tree_of_switches(switches: Sequence[Switch]) -> NamedTree:
    """Make the tree of some switches in any order, with hops 2, 4, 6, ...

    A node or switch that stands below two switches stays with the first; a switch without nodes below it is left out.
    Both are remarked. Nodes are numbered from the first switch on top downwards.

    Raises `InvalidProblemError`, whose place names the switch, if one is given twice, has both nodes and switches below
    it, is its own ancestor, or has more than `MOST_LEVELS` below it, if one is not there, or no node is left.
    """
    known: dict[str, Switch] = {}
    for switch in switches:
        if switch.name in known:
            earlier = known[switch.name].place
            raise InvalidProblemError(switch.place, f"switch {switch.name!r} is given twice, before at {earlier}")
        if switch.nodes and switch.switches:
            fault = f"switch {switch.name!r} has both nodes and switches below it, must have one of them"
            raise InvalidProblemError(switch.place, fault)
        known[switch.name] = switch
    nodes, _, of_nodes = _owned({name: switch.nodes for name, switch in known.items()}, "node")
    for name, switch in known.items():
        for child in switch.switches:
            if child not in known:
                raise InvalidProblemError(switch.place, f"switch {name!r} has {child!r} below it, which is not given")
    below, above, of_switches = _owned({name: switch.switches for name, switch in known.items()}, "switch")
    _check_no_circle(known, above)
    heights: dict[str, int] = {}
    for root in (name for name in known if name not in above):
        _measure(known[root], nodes, below, heights)
    # A switch on top whose nodes all went to switches before it has the height 0.
    roots = [name for name in known if name not in above and heights[name]]
    if not roots:
        raise InvalidProblemError("", "no switch connects any node")
    fault = "has no nodes left below it: it is left out"
    empty = [f"{known[name].place}: switch {name} {fault}" for name, height in heights.items() if not height]
    remarks = [
        f"{lines[0]} (the first of {len(lines)} {noun})" if len(lines) > 1 else lines[0]
        for lines, noun in (
            (of_nodes, "nodes under two switches"),
            (of_switches, "switches under two switches"),
            (empty, "switches without nodes"),
        )
        if lines
    ]
    if len(roots) > 1:
        shown = ", ".join(roots[:4]) + (", ..." if len(roots) > 4 else "")
        remarks.append(f"{len(roots)} switches have none above them ({shown}): joined by a level on top")
    return _numbered_tree(roots, below, nodes, heights, tuple(remarks))


def _owned(members: Mapping[str, Sequence[str]], noun: str) -> tuple[dict[str, list[str]], dict[str, str], list[str]]:
    # What is below each switch when everything has one place only, the switch above each, and what was below two.
    above: dict[str, str] = {}
    again: dict[str, str] = {}
    held = {}
    for name, below in members.items():
        for one in below:
            if above.setdefault(one, name) != name:
                again.setdefault(one, f"{noun} {one} is under {above[one]} and {name}: it stays under {above[one]}")
        held[name] = [one for one in dict.fromkeys(below) if above[one] == name]
    return held, above, list(again.values())


def _check_no_circle(switches: Mapping[str, Switch], above: Mapping[str, str]) -> None:
    safe: set[str] = set()
    for name in switches:
        path: dict[str, None] = {}
        at: str | None = name
        while at is not None and at not in safe:
            if at in path:
                circle = " under ".join([*list(path)[list(path).index(at) :], at])
                raise InvalidProblemError(switches[at].place, f"switches run in a circle: {circle}")
            path[at] = None
            at = above.get(at)
        safe.update(path)


def _measure(
    root: Switch, nodes: Mapping[str, Sequence[str]], below: dict[str, list[str]], heights: dict[str, int]
) -> None:
    # Notes how high the switches from a root downwards are, 0 without nodes; those are cut off.
    downwards, left = [], [root.name]
    while left:
        downwards.append(left.pop())
        left.extend(reversed(below[downwards[-1]]))
    # From the leaves upwards without recursion: a description may be deeper than Python's stack.
    for name in reversed(downwards):
        below[name] = [child for child in below[name] if heights[child]]
        highest = max((heights[child] for child in below[name]), default=0)
        heights[name] = 1 if nodes[name] else highest + 1 if highest else 0
    if heights[root.name] > MOST_LEVELS:
        fault = f"have {heights[root.name]} levels, must be at most {MOST_LEVELS}"
        raise InvalidProblemError(root.place, f"switch {root.name!r} and those below it {fault}")


def _numbered_tree(
    roots: Sequence[str],
    below: Mapping[str, Sequence[str]],
    nodes: Mapping[str, Sequence[str]],
    heights: Mapping[str, int],
    remarks: tuple[str, ...],
) -> NamedTree:
    below_top = max(heights[root] for root in roots) - (len(roots) == 1)
    numbers: list[dict[str, int]] = [{} for _ in range(below_top)]
    columns: list[list[int]] = []
    order: list[str] = []
    for path in (path for root in roots for path in _paths(below, (root,))):
        # Where a path skips levels, a switch stands for several.
        groups = [next(name for name in path if heights[name] <= level) for level in range(1, below_top + 1)]
        column = [known_by.setdefault(group, len(known_by)) for known_by, group in zip(numbers, groups, strict=True)]
        order += nodes[path[-1]]
        # All nodes of a leaf switch share the groups above it.
        columns += [column] * len(nodes[path[-1]])
    matrix = np.array(columns, dtype=np.int64).reshape(len(order), below_top).T
    tree = Tree(matrix, tuple(map(tuple, numbers)), Tree.default_hops(below_top))
    return NamedTree(tree, tuple(order), remarks)


def _paths(below: Mapping[str, Sequence[str]], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not below[path[-1]]:
        yield path
    for child in below[path[-1]]:
        yield from _paths(below, (*path, child))
