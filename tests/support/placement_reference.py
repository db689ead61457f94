"""Placement problems a second time: random instance files, a checker and optima by enumeration.

All of it is written from the rules of docs/placement.md alone, with exact fractions, and imports nothing of allocopt.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

Instance = dict[str, Any]
"""The JSON object of an instance file."""
Placed = dict[str, dict[int, int]]
"""Tasks by node, by the id of every job that is placed."""
Rng = np.random.Generator

MOST_SPLITS = 800
"""Ways in which the tasks of a random job can be on the nodes, at most."""
MOST_DRAWS = 5
"""How often a job that fits nowhere, or an instance whose jobs do not compete, is drawn, for the most part."""


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
    )


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
    for most, group in zip(job.most_groups, window.groups, strict=True):
        if most and len({group[node] for node in nodes}) > most:
            return "rule 4: groups"
    if job.exclusive and nodes & window.in_use:
        return "rule 5: a node is in use"
    for node, tasks in on.items():
        if any(use > free for use, free in zip(use_of(job, tasks), window.free[node], strict=True)):
            return "more than is free"
    return ""


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


# ------------------------------------------------------------------------------------------------ random instances

THEMES = ("mixed", "exclusive", "exclusive", "groups", "groups", "groups", "sets", "scarce", "counts")
"""What a random instance has more of."""


def random_window(rng: Rng) -> Instance:
    """Return an instance of 2 to 7 nodes and 1 to 5 jobs, of any fields of the format; often one whose jobs compete."""
    drawn = [random_instance(rng) for _ in range(1 if chance(rng, 0.3) else MOST_DRAWS)]
    return next((obj for obj in drawn if compete(obj)), drawn[-1])


def compete(obj: Instance) -> bool:
    """Return whether not every job can have what is best for it alone."""
    return best_cost(obj) > alone_cost(obj)


def random_instance(rng: Rng) -> Instance:
    """Return an instance of any fields of the format."""
    theme = pick(rng, THEMES)
    topology = random_fat_tree(rng) if chance(rng, 0.3) else random_tree(rng, int(rng.integers(2, 8)))
    groups, _ = tree_of(topology)
    size = number_of_nodes(topology)
    obj: Instance = {"format": "allocopt-instance", "version": 1, "kind": "placement", "name": "random"}
    obj["topology"] = topology
    units = {name: pick(rng, (1, 1, 1000, 2**38)) for name in ("cores", "memory", "gpus")[: pick(rng, (1, 1, 2, 2, 3))]}
    obj["free"] = {name: random_free(rng, theme, size, unit) for name, unit in units.items()}
    if chance(rng, 0.5):
        obj["in_use"] = some_nodes(rng, size, 0 if chance(rng, 0.1) else 1, max(1, size // 2))
    if theme == "sets" or chance(rng, 0.5):
        obj["node_sets"] = random_sets(rng, size)
    sets = list(obj.get("node_sets", ()))
    levels = [len(set(group)) for group in groups]
    obj["jobs"] = []
    for name in "abcde"[: pick(rng, (1, 2, 3, 3, 4, 4, 5))]:
        jobs = [random_job(rng, theme, name, size, units, sets, levels) for _ in range(MOST_DRAWS)]
        obj["jobs"].append(next((job for job in jobs if chance(rng, 0.2) or fits(obj, job)), jobs[-1]))
    if chance(rng, 0.5):
        obj["hop_cost"] = pick(rng, (1.0, 2.5, 0.1, 7.0, 1000.0, 1e6))
    if chance(rng, 0.6):
        obj["left_out_cost"] = random_left_out_cost(rng, obj.get("hop_cost", 1000.0))
    return obj


def fits(obj: Instance, job: Instance) -> bool:
    """Return whether a job can get nodes of an instance, where it is alone."""
    return bool(choices(*alone_in(obj, job)))


def alone_in(obj: Instance, job: Instance) -> tuple[Window, Job]:
    """Return an instance with one job alone, and that job."""
    window = window_of(obj | {"jobs": [job]})
    return window, window.jobs[0]


def pick(rng: Rng, values: Sequence[Any]) -> Any:
    """Return one of some values."""
    return values[int(rng.integers(len(values)))]


def chance(rng: Rng, probability: float) -> bool:
    """Return true with a probability."""
    return bool(rng.random() < probability)


def some_nodes(rng: Rng, size: int, least_number: int, most_number: int) -> list[int]:
    """Return from so many to so many nodes, in any order."""
    return [int(node) for node in rng.permutation(size)[: int(rng.integers(least_number, most_number + 1))]]


def random_hops(rng: Rng, levels: int) -> list[int]:
    """Return hops by level that rise, odd ones as well."""
    return [int(hops) for hops in np.cumsum(rng.integers(1, 4, size=levels))]


def random_fat_tree(rng: Rng) -> Instance:
    """Return a fat tree of 2 to 7 nodes."""
    shapes = [(p, v, n) for p in range(1, 8) for v in range(1, 8) for n in range(1, 8) if 2 <= p * v * n <= 7]
    pods, leaves_per_pod, nodes_per_leaf = pick(rng, shapes)
    topology: Instance = {"kind": "fat-tree", "pods": pods}
    topology |= {"leaves_per_pod": leaves_per_pod, "nodes_per_leaf": nodes_per_leaf}
    if chance(rng, 0.5):
        topology["hops"] = random_hops(rng, 3)
    return with_pairs(rng, topology)


def random_tree(rng: Rng, size: int) -> Instance:
    """Return a tree with 1 to 3 levels below the top, seldom none, and groups of any sizes."""
    members: list[int] | list[str] = [int(node) for node in rng.permutation(size)]
    levels: list[dict[str, list[Any]]] = []
    for level in range(0 if chance(rng, 0.03) else int(rng.integers(1, 4))):
        number = int(rng.integers(min(2, len(members)), len(members) + 1)) if chance(rng, 0.8) else 1
        levels.append(parts(rng, members, [f"L{level}.{group}" for group in range(number)]))
        members = [str(name) for name in rng.permutation(list(levels[-1]))]
    topology: Instance = {"kind": "tree", "levels": levels}
    if chance(rng, 0.5):
        topology["hops"] = random_hops(rng, len(levels) + 1)
    if not levels or chance(rng, 0.3) or ("hops" not in topology and len(levels[-1]) == 1):
        levels.append({"top": members})
    return with_pairs(rng, topology)


def parts(rng: Rng, members: Sequence[Any], names: Sequence[str]) -> dict[str, list[Any]]:
    """Return members of groups with some names, at least one of each."""
    cuts = sorted(int(cut) for cut in rng.permutation(len(members) - 1)[: len(names) - 1] + 1)
    ends = zip([0, *cuts], [*cuts, len(members)], strict=True)
    return {name: list(members[start:end]) for name, (start, end) in zip(names, ends, strict=True)}


def with_pairs(rng: Rng, topology: Instance) -> Instance:
    """Return a topology that counts pairs twice or once."""
    if chance(rng, 0.5):
        topology["pairs"] = pick(rng, ("ordered", "unordered", "unordered"))
    return topology


def number_of_nodes(topology: Instance) -> int:
    """Return the number of nodes of a topology."""
    if topology["kind"] == "fat-tree":
        return int(topology["pods"] * topology["leaves_per_pod"] * topology["nodes_per_leaf"])
    return sum(len(members) for members in topology["levels"][0].values())


def random_free(rng: Rng, theme: str, size: int, unit: int) -> list[int]:
    """Return what the nodes have free of a resource: all the same, uneven, or little and often nothing."""
    style = "little" if theme == "scarce" and chance(rng, 0.7) else pick(rng, ("same", "uneven", "uneven", "little"))
    if style == "same":
        return [unit * int(rng.integers(2, 8))] * size
    most = 8 if style == "uneven" else 3
    return [unit * int(amount) for amount in rng.integers(0, most + 1, size=size)]


def random_sets(rng: Rng, size: int) -> dict[str, list[int]]:
    """Return sets of nodes of any sizes that overlap, seldom an empty one."""
    number = int(rng.integers(1, 5))
    return {f"s{name}": some_nodes(rng, size, 0 if chance(rng, 0.03) else 1, size) for name in range(number)}


def random_job(
    rng: Rng, theme: str, name: str, size: int, units: dict[str, int], sets: Sequence[str], levels: Sequence[int]
) -> Instance:
    """Return a job; ``levels`` are the numbers of groups by level."""
    job: Instance = {"id": name}
    exclusive = chance(rng, 0.6 if theme == "exclusive" else 0.15)
    job["tasks"] = random_tasks(rng, size, most=8 if exclusive or chance(rng, 0.4) else 4)
    job |= random_counts(rng, theme, size, job["tasks"], exclusive)
    job |= random_amounts(rng, units)
    if exclusive or chance(rng, 0.1):
        job["exclusive"] = exclusive
    if sets and chance(rng, 0.8 if theme == "sets" else 0.3):
        job["only_in"] = [str(name) for name in rng.permutation(list(sets))[: int(rng.integers(1, 4))]]
    if levels and chance(rng, 0.9 if theme == "groups" else 0.25):
        job["most_groups"] = [pick(rng, (1, 1, 2, 2, 3)) if chance(rng, 0.6) else 0 for _ in levels]
    return job


def random_tasks(rng: Rng, size: int, most: int) -> int:
    """Return a number of tasks that can be on the nodes in not too many ways."""
    most = max(tasks for tasks in range(1, most + 1) if comb(size + tasks - 1, tasks) <= MOST_SPLITS)
    return int(rng.integers(max(1, most - 3) if chance(rng, 0.5) else 1, most + 1))


def random_counts(rng: Rng, theme: str, size: int, tasks: int, exclusive: bool) -> Instance:
    """Return numbers of nodes and of tasks on a node, some of them left out or null."""
    counts: Instance = {}
    given = 0.8 if exclusive or theme in ("counts", "groups") else 0.45
    least_nodes = 1
    if chance(rng, given):
        least_nodes = int(rng.integers(1, min(tasks, 4 if exclusive else size + 1) + 1))
        if theme == "groups":
            least_nodes = max(least_nodes, int(rng.integers(1, min(tasks, size) + 1)))
        counts["least_nodes"] = least_nodes
    if chance(rng, given):
        most_nodes = least_nodes if chance(rng, 0.3) else int(rng.integers(least_nodes, tasks + 1))
        counts["most_nodes"] = most_nodes
    elif chance(rng, 0.1):
        counts["most_nodes"] = None
    if chance(rng, given * 0.8):
        counts["tasks_per_node"] = pick(rng, (1, 2, 2, 3, tasks))
    elif chance(rng, 0.1):
        counts["tasks_per_node"] = None
    return counts


def random_amounts(rng: Rng, units: dict[str, int]) -> Instance:
    """Return amounts of a job a task and a node."""
    amounts: Instance = {}
    per_task = {name: unit * pick(rng, (0, 1, 1, 2, 2, 3)) for name, unit in units.items() if chance(rng, 0.7)}
    per_node = {name: unit * pick(rng, (0, 1, 1, 2, 3)) for name, unit in units.items() if chance(rng, 0.25)}
    if per_task:
        amounts["per_task"] = per_task
    if per_node:
        amounts["per_node"] = per_node
    return amounts


def random_left_out_cost(rng: Rng, hop_cost: float) -> float | None:
    """Return a cost of a job that is left out: nothing, little, that of some hops, much, or the default."""
    few_hops = hop_cost * pick(rng, (0.5, 1.0, 2.0, 3.5, 6.0, 10.0))
    costs: tuple[float | None, ...] = (None, 0.0, 3.0, 20.0, few_hops, few_hops, few_hops, hop_cost * 1000, 1e6, 1e9)
    return costs[int(rng.integers(len(costs)))]


# ------------------------------------------------------------------------------------------------ coverage


def without(obj: Instance, field: str) -> Instance:
    """Return an instance whose jobs are all without a field; what it costs to leave one out stays as it was."""
    changed = obj | {"left_out_cost": float(window_of(obj).left_out_cost)}
    if field in obj:
        changed.pop(field)
    return changed | {"jobs": [{key: job[key] for key in job if key != field} for job in obj["jobs"]]}


def jobs_with(holds: Callable[[Instance], bool]) -> Callable[[Instance], bool]:
    """Return whether something holds for some job of an instance."""
    return lambda obj: any(holds(job) for job in obj["jobs"])


def groups_given(obj: Instance) -> list[list[int]]:
    """Return the limits of groups of every job that has some, without the zeros."""
    return [[most for most in job.get("most_groups", ()) if most] for job in obj["jobs"]]


def odd_hops(obj: Instance) -> bool:
    """Return whether some number of hops is odd."""
    return any(hops % 2 for hops in obj["topology"].get("hops", ()))


FIELDS: dict[str, tuple[str, Callable[[Instance], bool]]] = {
    "in_use": ("in_use", lambda obj: bool(obj.get("in_use"))),
    "only_in, one set": ("only_in", jobs_with(lambda job: len(job.get("only_in", ())) == 1)),
    "only_in, two sets": ("only_in", jobs_with(lambda job: len(job.get("only_in", ())) == 2)),
    "only_in, three sets": ("only_in", jobs_with(lambda job: len(job.get("only_in", ())) == 3)),
    "exclusive": ("exclusive", jobs_with(lambda job: job.get("exclusive", False))),
    "least_nodes": ("least_nodes", jobs_with(lambda job: job.get("least_nodes", 1) > 1)),
    "most_nodes": ("most_nodes", jobs_with(lambda job: (job.get("most_nodes") or job["tasks"]) < job["tasks"])),
    "tasks_per_node": ("tasks_per_node", jobs_with(lambda job: bool(job.get("tasks_per_node")))),
    "per_task": ("per_task", jobs_with(lambda job: any(job.get("per_task", {}).values()))),
    "per_node": ("per_node", jobs_with(lambda job: any(job.get("per_node", {}).values()))),
    "most_groups of 1": ("most_groups", lambda obj: any(1 in given for given in groups_given(obj))),
    "most_groups of 2": ("most_groups", lambda obj: any(2 in given for given in groups_given(obj))),
    "most_groups of 3": ("most_groups", lambda obj: any(3 in given for given in groups_given(obj))),
    "most_groups of several levels": ("most_groups", lambda obj: any(len(given) > 1 for given in groups_given(obj))),
}
"""What can bind: the field to leave out, and whether an instance has it."""


def wide_exclusive(job: Instance) -> bool:
    """Return whether a job is exclusive, on 2 nodes or more, with more tasks than nodes."""
    most_nodes = job.get("most_nodes") or job["tasks"]
    return bool(job.get("exclusive", False) and job.get("least_nodes", 1) >= 2 and job["tasks"] > most_nodes)


SHAPES: dict[str, Callable[[Instance], bool]] = {
    "fat tree": lambda obj: obj["topology"]["kind"] == "fat-tree",
    "tree, no level below the top": lambda obj: len(tree_of(obj["topology"])[0]) == 0,
    "tree, 1 level below the top": lambda obj: len(tree_of(obj["topology"])[0]) == 1,
    "tree or fat tree, 2 levels": lambda obj: len(tree_of(obj["topology"])[0]) == 2,
    "tree, 3 levels": lambda obj: len(tree_of(obj["topology"])[0]) == 3,
    "hops left out": lambda obj: "hops" not in obj["topology"],
    "odd hops": odd_hops,
    "unordered pairs": lambda obj: obj["topology"].get("pairs") == "unordered",
    "2 resources": lambda obj: len(obj["free"]) == 2,
    "3 resources": lambda obj: len(obj["free"]) == 3,
    "nothing free of a resource on a node": lambda obj: any(0 in free for free in obj["free"].values()),
    "exclusive, 2 nodes or more, more tasks": jobs_with(wide_exclusive),
    "hop_cost": lambda obj: "hop_cost" in obj,
    "left_out_cost by default": lambda obj: obj.get("left_out_cost") is None,
    "left_out_cost 0": lambda obj: obj.get("left_out_cost") == 0,
    "left_out_cost 3 or 20": lambda obj: obj.get("left_out_cost") in (3.0, 20.0),
    "jobs compete": compete,
    "a job fits nowhere": lambda obj: any(not choices(window_of(obj), job) for job in window_of(obj).jobs),
}
"""What an instance has that cannot bind."""


def binds(obj: Instance, field: str) -> bool:
    """Return whether the least cost is lower without a field."""
    return best_cost(without(obj, field)) < best_cost(obj)


def coverage(objs: Sequence[Instance]) -> str:
    """Return a table: in how many instances each field is drawn, and in how many of them it binds."""
    lines = [f"{'of ' + str(len(objs)) + ' instances':45}{'drawn':>8}{'binds':>8}"]
    for name, holds in SHAPES.items():
        lines.append(f"{name:45}{sum(map(holds, objs)):8}{'':>8}")
    for name, (field, holds) in FIELDS.items():
        having = [obj for obj in objs if holds(obj)]
        lines.append(f"{name:45}{len(having):8}{sum(binds(obj, field) for obj in having):8}")
    return "\n".join(lines)
