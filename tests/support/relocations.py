"""Small relocation problems, and their optimum by looking at every way to place all jobs."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from allocopt.cluster.request import ClusterRequest
from allocopt.cluster.topology import FatTree, Tree
from allocopt.problems.relocation.problem import PlacedJob, Places, Relocation, RelocationProblem, WaitingGang

Held = tuple[tuple[int, int], ...] | None
"""Nodes and tasks of a job, or None if it has none."""


def request(
    size: int,
    nodes: int,
    units: int = 2,
    within: bool = False,
    segment: int = 0,
    only: Sequence[int] | None = None,
    alone: bool = False,
) -> ClusterRequest:
    """Return a request for some nodes of a cluster of ``size``, one task each, of so many units."""
    masks = np.ones((1, size), dtype=np.bool_) if only is None else np.isin(np.arange(size), only)[None]
    amounts = np.zeros(1, dtype=np.int64), np.array([units])
    return ClusterRequest(
        nodes, nodes, nodes, 1, alone, *amounts, masks, (int(within),), 0, (segment,) if segment else ()
    )


def racks(size: int, rack: int) -> Tree:
    """Return a cluster of racks of so many nodes each, the last one maybe smaller."""
    return Tree.from_levels(
        [{f"rack{at}": list(range(at, min(at + rack, size))) for at in range(0, size, rack)}], [2, 4]
    )


def problem_of(
    rack: int,
    size: int,
    running: Sequence[PlacedJob],
    waiting: Sequence[WaitingGang],
    emptied: Sequence[int] = (),
    units: int = 2,
    name: str = "small",
) -> RelocationProblem:
    """Return a problem of nodes that have so many units of one resource each."""
    capacity = np.full((size, 1), units)
    gone = np.isin(np.arange(size), emptied)
    return RelocationProblem(racks(size, rack), ("gpus",), capacity, tuple(running), tuple(waiting), gone, name)


def on(*nodes: int) -> Places:
    """Return the places of a job with a task on each of some nodes."""
    from allocopt.problems.placement.problem import NodeTasks

    return tuple(NodeTasks(node, 1) for node in nodes)


def random_problem(seed: int) -> RelocationProblem:
    """Draw a problem of at most six nodes of one resource, in racks; every fourth has a gang of flexible shape."""
    rng = np.random.default_rng(seed)
    size, rack = int(rng.integers(3, 7)), int(rng.integers(2, 4))
    units = int(rng.choice([1, 2]))
    free, is_alone = np.full(size, units), np.zeros(size, dtype=np.bool_)

    def drawn(most: int) -> ClusterRequest:
        nodes = int(rng.integers(1, most + 1))
        segment = int(rng.choice([0, 0, 1, nodes]))
        some = sorted(rng.choice(size, size=int(rng.integers(1, size + 1)), replace=False))
        only = None if rng.random() < 0.7 else some
        within, alone = bool(rng.random() < 0.4), bool(rng.random() < 0.2)
        return request(size, nodes, int(rng.integers(1, units + 1)), within, segment, only, alone)

    def cost() -> float | None:
        return None if rng.random() < 0.3 else float(rng.integers(0, 6))

    running: list[PlacedJob] = []
    for _ in range(int(rng.integers(1, 5))):
        asked = drawn(2)
        there = np.flatnonzero((free >= asked.per_node[0]) & ~is_alone & ((free == units) | (not asked.is_exclusive)))
        if len(there) < asked.tasks:
            continue
        # Where a job is, it need not keep to what it asks for anew.
        nodes = np.sort(rng.choice(there, size=asked.tasks, replace=False))
        free[nodes] -= asked.per_node[0]
        is_alone[nodes] = asked.is_exclusive
        node_cost = float(rng.integers(0, 3))
        running.append(PlacedJob(f"r{len(running)}", asked, on(*nodes.tolist()), cost(), cost(), node_cost))
    waiting = [WaitingGang(f"g{number}", drawn(3), cost()) for number in range(int(rng.integers(1, 3)))]
    if seed % 4 == 0:
        # Tasks that share nodes in several ways.
        tasks, most_tasks = int(rng.integers(2, 5)), int(rng.integers(1, 3))
        least = int(rng.integers(1, tasks + 1))
        flexible = waiting[0].request._replace(
            tasks=tasks,
            least_nodes=least,
            most_nodes=int(rng.integers(least, tasks + 1)),
            most_tasks=min(most_tasks, tasks - least + 1),
            per_task=np.array([1]),
            per_node=np.array([0]),
            segments=(),
        )
        waiting[0] = WaitingGang("g0", flexible, waiting[0].wait_cost)
    emptied = rng.choice(size, size=int(rng.choice([0, 0, 1, 2])), replace=False)
    return problem_of(rack, size, running, waiting, emptied.tolist(), units, f"random-{seed}")


def best_relocation(problem: RelocationProblem, wanted: tuple[int, frozenset[int]] | None = None) -> float:
    """Return the least cost of a relocation; infinity if there is none.

    With a number of a gang and nodes, of a relocation in which this gang gets any of these.
    """
    jobs = [*problem.running, *problem.waiting]
    choices = [list(_choices(problem, job)) for job in jobs]
    used = np.zeros_like(problem.capacity)
    users, alone = [0] * problem.size, [0] * problem.size
    best = float("inf")
    ends: list[Held] = []

    def search(number: int, cost: float) -> None:
        nonlocal best
        if cost >= best:
            return
        if number == len(jobs):
            if wanted is None or wanted[1] & {node for node, _ in ends[len(problem.running) + wanted[0]] or ()}:
                best = cost
            return
        asked = jobs[number].request
        for held, more in choices[number]:
            for node, tasks in held or ():
                used[node] += asked.per_node + tasks * asked.per_task
                users[node] += 1
                alone[node] += asked.is_exclusive
            nodes = [node for node, _ in held or ()]
            is_room = (used[nodes] <= problem.capacity[nodes]).all()
            if is_room and not any(alone[node] and users[node] > 1 for node in nodes):
                ends.append(held)
                search(number + 1, cost + more)
                ends.pop()
            for node, tasks in held or ():
                used[node] -= asked.per_node + tasks * asked.per_task
                users[node] -= 1
                alone[node] -= asked.is_exclusive

    search(0, 0.0)
    return best


def _choices(problem: RelocationProblem, job: PlacedJob | WaitingGang) -> Iterator[tuple[Held, float]]:
    """Yield every end that a job may come to, and its cost, whatever others do."""
    if isinstance(job, WaitingGang):
        if job.wait_cost is not None:
            yield None, job.wait_cost
        yield from ((held, 0.0) for held in _ways(problem, job.request))
        return
    now = {node for node, _ in job.places}
    if not any(problem.emptied[node] for node in now):
        yield tuple(job.places), 0.0
    if job.stop_cost is not None:
        yield None, job.stop_cost
    if job.move_cost is not None:
        for held in _ways(problem, job.request):
            if held != tuple(map(tuple, job.places)):
                yield held, job.move_cost + job.node_cost * len(now - {node for node, _ in held or ()})


def _ways(problem: RelocationProblem, asked: ClusterRequest) -> Iterator[Held]:
    """Yield every way to place a job, on nodes that need not be emptied, whatever else runs there."""
    assert not isinstance(problem.topology, FatTree)
    open_nodes = [node for node in range(problem.size) if not problem.emptied[node]]
    for count in range(asked.least_nodes, min(asked.most_nodes, len(open_nodes)) + 1):
        for nodes in itertools.combinations(open_nodes, count):
            if not any(all(mask[node] for node in nodes) for mask in asked.masks):
                continue
            if not _keeps_to_groups(problem, asked, nodes):
                continue
            for tasks in itertools.product(range(1, asked.most_tasks + 1), repeat=count):
                if sum(tasks) == asked.tasks:
                    yield tuple(zip(nodes, tasks, strict=True))


def _keeps_to_groups(problem: RelocationProblem, asked: ClusterRequest, nodes: Sequence[int]) -> bool:
    levels = problem.topology.to_levels() if isinstance(problem.topology, Tree) else []
    for level, most in enumerate(asked.most_groups):
        counts = [sum(node in members for node in nodes) for members in levels[level].values()]
        if most and sum(count > 0 for count in counts) > most:
            return False
        segment = asked.segments[level] if asked.segments else 0
        if segment and any(count % segment for count in counts):
            return False
    return True


def broken_rule(problem: RelocationProblem, solution: Relocation) -> str | None:
    """Carry a plan out by hand and return the first rule that is broken, at any moment; None if none is.

    After every step everything is counted anew, from who is where.
    """
    requests = {job.id: job.request for job in problem.running} | {gang.id: gang.request for gang in problem.waiting}
    where = {job.id: tuple(job.places) for job in problem.running}
    ends = {job.id: at for job, at in zip(problem.running, solution.running, strict=True)}
    ends |= {gang.id: at for gang, at in zip(problem.waiting, solution.waiting, strict=True) if at}
    away: set[str] = set()
    for action, job in solution.steps:
        if action in ("stop", "park"):
            if job not in where:
                return f"{job} cannot leave, it is nowhere"
            del where[job]
            if action == "park":
                away.add(job)
        else:
            if action == "move" and job not in where and job not in away:
                return f"{job} cannot move, it does not run"
            if action == "start" and job in where:
                return f"{job} runs already"
            away.discard(job)
            where[job] = tuple(ends[job] or ())
        if (crowded := _crowded_node(problem, requests, where)) is not None:
            return f"{crowded} after {action} {job}"
    if away:
        return f"{sorted(away)} never come back"
    if {job: tuple(at) for job, at in ends.items() if at} != where:
        return "the end is not what was said"
    late = (job for job, at in where.items() for node, _ in at if problem.emptied[node])
    return next((f"{job} is on a node to be emptied" for job in late), None)


def _crowded_node(
    problem: RelocationProblem, requests: dict[str, ClusterRequest], where: dict[str, Places]
) -> str | None:
    """Return what is wrong on the first node that has too much on it; None if none has."""
    for node in range(problem.size):
        here = [(one, tasks) for one, places in where.items() for at, tasks in places if at == node]
        for column, there in enumerate(problem.capacity[node].tolist()):
            used = sum(int(requests[one].per_node[column] + n * requests[one].per_task[column]) for one, n in here)
            if used > there:
                return f"node {node} gives {used} of {there}"
        if len(here) > 1 and any(requests[one].is_exclusive for one, _ in here):
            return f"node {node} is shared"
    return None
