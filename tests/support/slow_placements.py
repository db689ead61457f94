"""Placement problems a second time: a checker, and optima by enumeration.

All of it is written from the rules of docs/placement.md alone, with exact fractions, and imports nothing of allocopt.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

Instance = dict[str, Any]
"""The JSON object of an instance file."""
Placed = dict[str, dict[int, int]]
"""Tasks by node, by the id of every job that is placed."""
Rng = np.random.Generator

MOST_SPLITS = 800
"""Ways in which the tasks of a random job can be on the nodes, at most."""


# ------------------------------------------------------------------------------------------------ what a file says


@dataclass(frozen=True)
class Job:
    """A job as docs/placement.md has it, with all defaults put in; a set is None where any node will do."""

    id: str
    tasks: int
    least_nodes: int
    most_nodes: int
    most_on_node: int
    per_task: tuple[int, ...]
    per_node: tuple[int, ...]
    exclusive: bool
    sets: tuple[frozenset[int], ...]
    most_groups: tuple[int, ...]
    segments: tuple[tuple[int, int], ...]
    """Nodes of a segment and their level, from 1 for the leaves; the largest segments first."""


@dataclass(frozen=True)
class Window:
    """A problem as docs/placement.md has it; ``groups`` are those of every node by level below the top."""

    groups: tuple[tuple[str, ...], ...]
    hops: tuple[int, ...]
    ordered: bool
    free: tuple[tuple[int, ...], ...]
    in_use: frozenset[int]
    jobs: tuple[Job, ...]
    hop_cost: Fraction
    left_out_cost: Fraction

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.free)


def window_of(obj: Instance) -> Window:
    """Return what an instance file says."""
    groups, hops = tree_of(obj["topology"])
    ordered = obj["topology"].get("pairs", "ordered") == "ordered"
    free = tuple(zip(*obj["free"].values(), strict=True))
    jobs = tuple(job_of(obj, job, len(groups)) for job in obj["jobs"])
    hop_cost = Fraction(obj.get("hop_cost", 1000.0))
    left_out_cost = obj.get("left_out_cost")
    if left_out_cost is None:
        left_out_cost = default_left_out_cost(hop_cost if ordered else hop_cost / 2, hops, jobs, len(free))
    in_use = frozenset(obj.get("in_use", ()))
    return Window(groups, hops, ordered, free, in_use, jobs, hop_cost, Fraction(left_out_cost))


def tree_of(topology: Instance) -> tuple[tuple[tuple[str, ...], ...], tuple[int, ...]]:
    """Return the groups of all nodes, by level below the top, and the hops by level."""
    hops = topology.get("hops")
    if topology["kind"] == "fat-tree":
        per_leaf, leaves = topology["nodes_per_leaf"], topology["leaves_per_pod"]
        nodes = range(topology["pods"] * leaves * per_leaf)
        leaf = tuple(f"leaf {node // per_leaf}" for node in nodes)
        pod = tuple(f"pod {node // (per_leaf * leaves)}" for node in nodes)
        return (leaf, pod), tuple(hops or (2, 4, 6))
    levels = topology["levels"]
    top_is_given = len(levels[-1]) == 1 if hops is None else len(hops) == len(levels)
    below_top = levels[:-1] if top_is_given else levels
    size = sum(len(members) for members in levels[0].values())
    groups: list[tuple[str, ...]] = []
    members_below: Sequence[int | str] = range(size)
    for level in below_top:
        groups.append(tuple(group_with(level, member) for member in members_below))
        members_below = groups[-1]
    return tuple(groups), tuple(hops or (2 * (level + 1) for level in range(len(groups) + 1)))


def group_with(level: dict[str, list[int | str]], member: int | str) -> str:
    """Return the name of the group of a level that has a node or a group of the level below."""
    return next(name for name, members in level.items() if member in members)


def job_of(obj: Instance, job: Instance, levels: int) -> Job:
    """Return what the file says of a job, on a tree with so many levels below the top."""
    tasks, least_nodes = job["tasks"], job.get("least_nodes", 1)
    most_nodes, most_on_node = job.get("most_nodes"), job.get("tasks_per_node")
    return Job(
        id=job["id"],
        tasks=tasks,
        least_nodes=least_nodes,
        most_nodes=tasks if most_nodes is None else most_nodes,
        most_on_node=min(tasks if most_on_node is None else most_on_node, tasks - least_nodes + 1),
        per_task=tuple(job.get("per_task", {}).get(resource, 0) for resource in obj["free"]),
        per_node=tuple(job.get("per_node", {}).get(resource, 0) for resource in obj["free"]),
        exclusive=job.get("exclusive", False),
        sets=tuple(frozenset(obj["node_sets"][name]) for name in job.get("only_in", ())),
        most_groups=tuple(job.get("most_groups", ())) or (0,) * levels,
        segments=segments_of(job.get("segments")),
    )


def segments_of(given: Any) -> tuple[tuple[int, int], ...]:
    """Return nodes and level of the segments that a file gives as nothing, one object or a list."""
    entries = given if isinstance(given, list) else [] if given is None else [given]
    names = {"leaf": 1, "pod": 2}
    return tuple((entry["nodes"], names.get(entry["level"], entry["level"])) for entry in entries)


def default_left_out_cost(s: Fraction, hops: tuple[int, ...], jobs: Sequence[Job], size: int) -> Fraction:
    """Return B of docs/placement.md; ``s`` is the cost of a hop, halved for unordered pairs."""
    return s + sum((s * (hops[-1] * min(job.most_nodes, size) - hops[0]) for job in jobs), Fraction(0))


# ------------------------------------------------------------------------------------------------ costs and rules


def hops_between(window: Window, a: int, b: int) -> int:
    """Return the hops between two nodes, those of the lowest level at which they are in one group."""
    for level, group in enumerate(window.groups):
        if group[a] == group[b]:
            return window.hops[level]
    return window.hops[-1]


def hop_cost_of(window: Window, nodes: Sequence[int]) -> Fraction:
    """Return the hop cost of a job on some nodes: hops of all pairs by the number of nodes."""
    hops = sum(hops_between(window, a, b) for a, b in combinations(nodes, 2))
    return window.hop_cost * (2 if window.ordered else 1) * hops / len(nodes)


def broken_alone(window: Window, job: Job, on: dict[int, int]) -> str:
    """Return which rule a job breaks with some tasks by node, all free amounts being its own; "" if none."""
    nodes = frozenset(on)
    if not all(0 <= node < window.size for node in nodes):
        return "has a node that does not exist"
    if not job.least_nodes <= len(nodes) <= job.most_nodes:
        return "rule 1: number of nodes"
    if not all(1 <= tasks <= job.most_on_node for tasks in on.values()) or sum(on.values()) != job.tasks:
        return "rule 2: tasks"
    if job.sets and not any(nodes <= allowed for allowed in job.sets):
        return "rule 3: node sets"
    if broken := broken_in_tree(window, job, nodes):
        return broken
    if job.exclusive and nodes & window.in_use:
        return "rule 5: a node is in use"
    for node, tasks in on.items():
        if any(use > free for use, free in zip(use_of(job, tasks), window.free[node], strict=True)):
            return "more than is free"
    return ""


def broken_in_tree(window: Window, job: Job, nodes: frozenset[int]) -> str:
    """Return which rule about groups of the tree a job breaks with some nodes; "" if none."""
    for most, group in zip(job.most_groups, window.groups, strict=True):
        if most and len({group[node] for node in nodes}) > most:
            return "rule 4: groups"
    return "" if is_divided(window, nodes, job.segments) else "rule 6: segments"


def is_divided(window: Window, nodes: frozenset[int], segments: tuple[tuple[int, int], ...]) -> bool:
    """Whether nodes can be divided into the first segments, each of which can be divided into the others."""
    if not nodes or not segments:
        return True
    size, level = segments[0]
    groups, first = window.groups[level - 1], min(nodes)
    others = [node for node in nodes if node != first and groups[node] == groups[first]]
    for chosen in combinations(others, size - 1):
        part = frozenset((first, *chosen))
        if is_divided(window, part, segments[1:]) and is_divided(window, nodes - part, segments):
            return True
    return False


def broken_together(window: Window, on_nodes: dict[str, dict[int, int]]) -> str:
    """Return which rule of nodes that jobs share is broken; "" if none."""
    for node in range(window.size):
        here = [(job, on_nodes[job.id][node]) for job in window.jobs if node in on_nodes.get(job.id, {})]
        if len(here) > 1 and any(job.exclusive for job, _ in here):
            return f"rule 5: a job is not alone on node {node}"
        for resource, free in enumerate(window.free[node]):
            if sum(use_of(job, tasks)[resource] for job, tasks in here) > free:
                return f"jobs use more than is free on node {node}"
    return ""


def use_of(job: Job, tasks: int) -> tuple[int, ...]:
    """Return what a job uses of every resource on a node with so many of its tasks."""
    return tuple(node + tasks * task for node, task in zip(job.per_node, job.per_task, strict=True))


def check(obj: Instance, placed: Placed) -> Fraction:
    """Return the cost of a solution; raise `ValueError`, which names a rule, if it is not valid."""
    window = window_of(obj)
    placed = {name: on for name, on in placed.items() if on}
    jobs = {job.id: job for job in window.jobs}
    cost = window.left_out_cost * (len(jobs) - len(placed))
    for name, on in placed.items():
        if name not in jobs:
            raise ValueError(f"there is no job {name}")
        if broken := broken_alone(window, jobs[name], on):
            raise ValueError(f"job {name}: {broken}")
        cost += hop_cost_of(window, sorted(on))
    if broken := broken_together(window, placed):
        raise ValueError(broken)
    return cost


# ------------------------------------------------------------------------------------------------ enumeration


@dataclass(frozen=True)
class Choice:
    """Tasks of a job by node, what they cost, and ``use`` of every resource of every node."""

    cost: Fraction
    on: dict[int, int]
    use: tuple[int, ...]


State = tuple[tuple[int, ...], frozenset[int], frozenset[int]]
"""What is left of every resource of every node, the nodes that jobs have, and those that an exclusive job has."""


def splits(tasks: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a number as a sum of so many numbers from 1 on."""
    if parts == 1:
        yield (tasks,)
        return
    for first in range(1, tasks - parts + 2):
        for others in splits(tasks - first, parts - 1):
            yield (first, *others)


def choices(window: Window, job: Job) -> list[Choice]:
    """Return all that a job can get where it is alone, the cheapest first."""
    found = []
    for count in range(1, min(job.tasks, window.size) + 1):
        for nodes in combinations(range(window.size), count):
            for tasks in splits(job.tasks, count):
                on = dict(zip(nodes, tasks, strict=True))
                if not broken_alone(window, job, on):
                    found.append(Choice(hop_cost_of(window, nodes), on, use_of_all(window, job, on)))
    return sorted(found, key=lambda choice: choice.cost)


def use_of_all(window: Window, job: Job, on: dict[int, int]) -> tuple[int, ...]:
    """Return what a job uses of every resource of every node, one node after the other."""
    nothing = (0,) * len(job.per_node)
    return tuple(use for node in range(window.size) for use in (use_of(job, on[node]) if node in on else nothing))


def after(state: State, job: Job, choice: Choice) -> State | None:
    """Return the state when a job has got some nodes too; None if it cannot."""
    left, taken, closed = state
    nodes = frozenset(choice.on)
    if closed & nodes or (job.exclusive and taken & nodes):
        return None
    left = tuple(have - use for have, use in zip(left, choice.use, strict=True))
    if min(left) < 0:
        return None
    return left, taken | nodes, closed | nodes if job.exclusive else closed


def best_cost(obj: Instance) -> Fraction:
    """Return the least cost of a valid solution: every choice of a job with the best of those after it.

    The choices of a job come by cost, so the rest of them is skipped where even the least cost of the jobs after it,
    each alone, would not make them better.
    """
    window = window_of(obj)
    options = {job: choices(window, job) for job in window.jobs}
    jobs = sorted(window.jobs, key=lambda job: len(options[job]))
    alone = [least(window, options[job]) for job in jobs]
    known: dict[tuple[int, State], Fraction] = {}

    def best_from(number: int, state: State) -> Fraction:
        if number == len(jobs):
            return Fraction(0)
        if (number, state) in known:
            return known[number, state]
        job, later = jobs[number], sum(alone[number + 1 :], Fraction(0))
        best = window.left_out_cost + best_from(number + 1, state)
        for choice in options[job]:
            if choice.cost + later >= best:
                break
            following = after(state, job, choice)
            if following is not None:
                best = min(best, choice.cost + best_from(number + 1, following))
        known[number, state] = best
        return best

    everything = tuple(amount for amounts in window.free for amount in amounts)
    return best_from(0, (everything, frozenset(), frozenset()))


def least(window: Window, options: Sequence[Choice]) -> Fraction:
    """Return the least cost of a job that is alone, from its choices."""
    return min([window.left_out_cost, *(choice.cost for choice in options)])


def alone_cost(obj: Instance) -> Fraction:
    """Return the sum of the least costs of all jobs, each alone on the nodes: a bound of the least cost."""
    window = window_of(obj)
    return sum((least(window, choices(window, job)) for job in window.jobs), Fraction(0))
