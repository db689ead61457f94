"""Switches that name what is below them become a tree with levels.

A leaf switch, which has nodes, is at level 1; any other switch is one level above its highest switch, as in Slurm. Two
nodes are as far apart as the level of the lowest switch above both. What has several switches on top gets a level more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from allocopt.cluster.named import NamedTree
from allocopt.cluster.topology import Pairs
from allocopt.cluster.tree import Tree
from allocopt.errors import InvalidProblemError

MOST_LEVELS = 64
"""Levels of switches beyond which a topology is refused."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch as a description names it.

    Parameters
    ----------
    name
        Its name.
    nodes
        Names of the nodes that it connects; empty for a switch above others.
    switches
        Names of the switches below it.
    place
        Where it is described, such as ``line 3``.
    """

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    place: str = ""


@dataclass(slots=True)
class _Forest:
    """Switches by name, each with what it keeps when every node and switch has one place only."""

    switches: dict[str, Switch]
    nodes: dict[str, list[str]] = field(default_factory=dict)
    below: dict[str, list[str]] = field(default_factory=dict)
    heights: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def tree_of_switches(
    switches: Sequence[Switch], hops: Sequence[int] | None = None, pairs: Pairs = "ordered"
) -> NamedTree:
    """Make the tree of some switches.

    A node or switch that stands below two switches stays with the first; a switch without nodes below it is left out.
    Both are remarked. Nodes are numbered from the first switch on top downwards.

    Parameters
    ----------
    switches
        All switches, in any order.
    hops
        One hop count per level, the top included; 2, 4, 6, ... if None.
    pairs
        Whether a pair of nodes counts twice or once.

    Raises
    ------
    InvalidProblemError
        If a switch is given twice, has both nodes and switches below it, is its own ancestor, or has more than
        `MOST_LEVELS` below it, if one below another is not there, or no node is left; its place names the switch.
    """
    forest = _Forest(_by_name(switches))
    _give_nodes(forest)
    roots = _roots(forest)
    for root in roots:
        _measure(forest, root)
    _check_levels(forest, roots)
    roots = [root for root in roots if forest.heights[root]]
    if not roots:
        raise InvalidProblemError("", "no switch connects any node")
    _remark_left_out(forest)
    if len(roots) > 1:
        shown = ", ".join(roots[:4]) + (", ..." if len(roots) > 4 else "")
        forest.remarks.append(f"{len(roots)} switches have none above them ({shown}): joined by a level on top")
    return _named_tree(forest, roots, hops, pairs)


def _check_levels(forest: _Forest, roots: list[str]) -> None:
    """Raise `InvalidProblemError` for a switch with too many levels below it."""
    for root in roots:
        if forest.heights[root] > MOST_LEVELS:
            fault = (
                f"switch {root!r} and those below it have {forest.heights[root]} levels, must be at most {MOST_LEVELS}"
            )
            raise InvalidProblemError(forest.switches[root].place, fault)


def _by_name(switches: Sequence[Switch]) -> dict[str, Switch]:
    """Switches by name; each may be given once, and has either nodes or switches below it."""
    found: dict[str, Switch] = {}
    for switch in switches:
        if switch.name in found:
            earlier = found[switch.name].place
            raise InvalidProblemError(switch.place, f"switch {switch.name!r} is given twice, before at {earlier}")
        if switch.nodes and switch.switches:
            fault = f"switch {switch.name!r} has both nodes and switches below it, must have one of them"
            raise InvalidProblemError(switch.place, fault)
        found[switch.name] = switch
    return found


def _give_nodes(forest: _Forest) -> None:
    """Give every node to the first switch that names it."""
    owner: dict[str, str] = {}
    again: dict[str, str] = {}
    for name, switch in forest.switches.items():
        for node in switch.nodes:
            if owner.setdefault(node, name) != name:
                again.setdefault(node, f"node {node} is under {owner[node]} and {name}: it stays under {owner[node]}")
        forest.nodes[name] = [node for node in dict.fromkeys(switch.nodes) if owner[node] == name]
    forest.remarks += _first_of(list(again.values()), "nodes under two switches")


def _roots(forest: _Forest) -> list[str]:
    """Give every switch to the first one above it, and return those that have none above them."""
    above: dict[str, str] = {}
    again: list[str] = []
    for name, switch in forest.switches.items():
        for child in dict.fromkeys(switch.switches):
            if child not in forest.switches:
                raise InvalidProblemError(switch.place, f"switch {name!r} has {child!r} below it, which is not given")
            if above.setdefault(child, name) != name:
                again.append(f"switch {child} is under {above[child]} and {name}: it stays under {above[child]}")
        forest.below[name] = [child for child in dict.fromkeys(switch.switches) if above[child] == name]
    forest.remarks += _first_of(again, "switches under two switches")
    _check_no_circle(forest, above)
    return [name for name in forest.switches if name not in above]


def _check_no_circle(forest: _Forest, above: dict[str, str]) -> None:
    """Raise `InvalidProblemError` for a switch that is its own ancestor."""
    safe: set[str] = set()
    for name in forest.switches:
        path: dict[str, None] = {}
        at: str | None = name
        while at is not None and at not in safe:
            if at in path:
                circle = " under ".join([*list(path)[list(path).index(at) :], at])
                raise InvalidProblemError(forest.switches[at].place, f"switches run in a circle: {circle}")
            path[at] = None
            at = above.get(at)
        safe.update(path)


def _measure(forest: _Forest, root: str) -> None:
    """Set the level of a switch and all below it, 0 for those without nodes, which are left out."""
    for name in reversed(list(_downwards(forest, root))):
        forest.below[name] = [child for child in forest.below[name] if forest.heights[child]]
        highest = max((forest.heights[child] for child in forest.below[name]), default=0)
        forest.heights[name] = 1 if forest.nodes[name] else highest + 1 if highest else 0


def _downwards(forest: _Forest, root: str) -> Iterator[str]:
    """Yield a switch and all below it, each before those below it, in their order."""
    left = [root]
    while left:
        name = left.pop()
        yield name
        left.extend(reversed(forest.below[name]))


def _remark_left_out(forest: _Forest) -> None:
    """Remark on switches without nodes."""
    empty = [name for name, height in forest.heights.items() if not height]
    lines = [
        f"{forest.switches[name].place}: switch {name} has no nodes left below it: it is left out" for name in empty
    ]
    forest.remarks += _first_of(lines, "switches without nodes")


def _named_tree(forest: _Forest, roots: list[str], hops: Sequence[int] | None, pairs: Pairs) -> NamedTree:
    """Give the nodes numbers, and a group at every level below the top."""
    below_top = max(forest.heights[root] for root in roots) - (len(roots) == 1)
    names: list[dict[str, int]] = [{} for _ in range(below_top)]
    columns: list[list[int]] = []
    nodes: list[str] = []
    for path in (path for root in roots for path in _paths(forest, (root,))):
        groups = [_highest(forest, path, level) for level in range(1, below_top + 1)]
        column = [numbers.setdefault(group, len(numbers)) for numbers, group in zip(names, groups, strict=True)]
        held = forest.nodes[path[-1]]
        nodes += held
        columns += [column] * len(held)
    matrix = np.array(columns, dtype=np.int64).reshape(len(nodes), below_top).T
    steps = tuple(range(2, 2 * below_top + 3, 2)) if hops is None else tuple(hops)
    if len(steps) != below_top + 1:
        raise InvalidProblemError("hops", f"{len(steps)} are given, the tree has {below_top + 1} levels")
    tree = Tree(matrix, tuple(tuple(numbers) for numbers in names), steps, pairs)
    return NamedTree(tree, tuple(nodes), tuple(forest.remarks))


def _paths(forest: _Forest, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the switches from the top down to each leaf switch."""
    if not forest.below[path[-1]]:
        yield path
    for child in forest.below[path[-1]]:
        yield from _paths(forest, (*path, child))


def _highest(forest: _Forest, path: tuple[str, ...], level: int) -> str:
    """Highest switch of a path that is at a level or below: where a path skips levels, a switch stands for several."""
    return next(name for name in path if forest.heights[name] <= level)


def _first_of(lines: list[str], noun: str) -> list[str]:
    """Return the first remark of a kind, with the number of all where there are several."""
    if len(lines) < 2:
        return lines
    return [f"{lines[0]} (the first of {len(lines)} {noun})"]
