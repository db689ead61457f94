"""Instance files of placement problems at random, of every field of the format, and counts of what was drawn."""

from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import numpy as np
from support.slow_placements import (
    MOST_SPLITS,
    Instance,
    Job,
    Rng,
    Window,
    alone_cost,
    best_cost,
    choices,
    segments_of,
    tree_of,
    window_of,
)

MOST_DRAWS = 5
"""How often a job that fits nowhere, or an instance whose jobs do not compete, is drawn, for the most part."""

THEMES = ("mixed", "exclusive", "exclusive", "groups", "groups", "groups", "sets", "scarce", "counts")
"""What a random instance has more of."""


def random_window(rng: Rng) -> Instance:
    """Return an instance of 2 to 7 nodes and 1 to 5 jobs, of any fields of the format; often one whose jobs compete."""
    return with_segments(rng.spawn(1)[0], window_without_segments(rng))


def window_without_segments(rng: Rng) -> Instance:
    """Return an instance of any fields of the format but segments; often one whose jobs compete."""
    drawn = [random_instance(rng) for _ in range(1 if chance(rng, 0.3) else MOST_DRAWS)]
    return next((obj for obj in drawn if compete(obj)), drawn[-1])


def with_segments(rng: Rng, obj: Instance) -> Instance:
    """Return an instance in which some jobs come in segments."""
    levels = len(tree_of(obj["topology"])[0])
    given = pick(rng, (0.0, 0.3, 0.8)) if levels else 0.0
    jobs = []
    for job in obj["jobs"]:
        drawn = [job | random_segments(rng, job, levels) for _ in range(MOST_DRAWS if chance(rng, given) else 0)]
        jobs.append(next((one for one in drawn if chance(rng, 0.2) or fits(obj, one)), drawn[-1] if drawn else job))
    return obj | {"jobs": jobs}


def random_segments(rng: Rng, job: Instance, levels: int) -> Instance:
    """Return segments at some of so many levels below the top, of which the job may have a whole number."""
    least, most = job.get("least_nodes", 1), job.get("most_nodes") or job["tasks"]
    numbers = [number for number in range(1, most + 1) if most // number * number >= least]
    entries: list[Instance] = []
    for level in range(levels, 0, -1):
        if chance(rng, 0.6):
            numbers = [number for number in numbers if not entries or entries[-1]["nodes"] % number == 0]
            # Sizes of 1 are seldom, for they say nothing.
            size = pick(rng, numbers) if chance(rng, 0.2) else pick(rng, numbers[-2:])
            name: int | str = ("leaf", "pod")[level - 1] if level < 3 and chance(rng, 0.3) else level
            entries.append({"nodes": size, "level": name})
    if not entries:
        return {}
    return {"segments": entries[0] if len(entries) == 1 and chance(rng, 0.5) else entries}


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


def segments_given(obj: Instance) -> list[list[tuple[int, int]]]:
    """Return the segments of every job, without those of one node."""
    return [[each for each in segments_of(job.get("segments")) if each[0] > 1] for job in obj["jobs"]]


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
    "segments of one level": ("segments", lambda obj: any(len(given) == 1 for given in segments_given(obj))),
    "segments of several levels": ("segments", lambda obj: any(len(given) > 1 for given in segments_given(obj))),
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
