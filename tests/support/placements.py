"""Placement problems for tests, and their optima by looking at every solution."""

import itertools
from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from allocopt.arrays import IntArray
from allocopt.cluster.request import ClusterRequest
from allocopt.cluster.topology import FatTree, Tree
from allocopt.placement import PlacementJob, PlacementProblem


def request(
    problem_size: tuple[int, int, int], tasks: int = 1, nodes: tuple[int, int] = (1, 1), most_tasks: int | None = None,
    per_task: tuple[int, ...] = (1, 0), per_node: tuple[int, ...] = (0, 0), *, alone: bool = False,
    sets: tuple[tuple[int, ...], ...] = (), most_groups: tuple[int, ...] | None = None,
    segments: tuple[int, ...] = (),
) -> ClusterRequest:  # fmt: skip
    """Return a request for so many nodes, resources and levels below the top."""
    size, _, levels = problem_size
    masks = np.array([[node in chosen for node in range(size)] for chosen in sets or (range(size),)])
    least, most = nodes
    limits = (0,) * levels if most_groups is None else most_groups
    amounts = np.array(per_task, dtype=np.int64), np.array(per_node, dtype=np.int64)
    return ClusterRequest(
        tasks, least, most, min(most_tasks or tasks, tasks - least + 1), alone, *amounts, masks, limits, 0, segments
    )


def placements(problem: PlacementProblem, job: int) -> Iterator[dict[int, int]]:
    """All ways to place a job that has the nodes for itself: tasks by node."""
    asked, groups = problem.jobs[job].request, problem.groups
    for count in range(asked.least_nodes, asked.most_nodes + 1):
        for nodes in itertools.combinations(range(problem.size), count):
            spans = [len({int(row[node]) for node in nodes}) for row in groups]
            if any(most and span > most for span, most in zip(spans, asked.most_groups, strict=True)):
                continue
            if not any(all(mask[node] for node in nodes) for mask in asked.masks):
                continue
            inside = [(size, groups[level, list(nodes)]) for level, size in enumerate(asked.segments) if size]
            if any((np.bincount(row) % size).any() for size, row in inside):
                continue
            # Ways to cut the tasks, which stand in a row, into as many parts.
            for cuts in itertools.combinations(range(1, asked.tasks), count - 1):
                shares = np.diff((0, *cuts, asked.tasks)).tolist()
                if max(shares) <= asked.most_tasks:
                    yield dict(zip(nodes, shares, strict=True))


def hop_cost_of(problem: PlacementProblem, nodes: list[int]) -> float:
    """Hop cost of a node set, pair by pair."""
    total, groups = 0, problem.groups
    for one, other in itertools.combinations(nodes, 2):
        same = [level for level, row in enumerate(groups) if row[one] == row[other]]
        total += problem.topology.hops[same[0] if same else -1] * (2 if problem.topology.pairs == "ordered" else 1)
    return problem.hop_cost * total / len(nodes)


def best_cost(problem: PlacementProblem) -> float:
    """Least cost of all solutions."""
    n = len(problem.jobs)
    ways = [[(hop_cost_of(problem, list(way)), way) for way in placements(problem, job)] for job in range(n)]

    def rest(job: int, free: IntArray, users: dict[int, bool]) -> float:
        if job == n:
            return 0.0
        asked, best = problem.jobs[job].request, float(problem.left_out_cost or 0) + rest(job + 1, free, users)
        for cost, way in ways[job]:
            left, after = free.copy(), dict(users)
            for node, tasks in way.items():
                left[node] -= asked.per_node + tasks * asked.per_task
            clash = any(node in users and (asked.is_exclusive or users[node]) for node in way)
            if cost < best and not clash and (left >= 0).all():
                after.update(dict.fromkeys(way, asked.is_exclusive))
                best = min(best, cost + rest(job + 1, left, after))
        return best

    return rest(0, problem.free.copy(), dict.fromkeys(np.flatnonzero(problem.in_use).tolist(), False))


@st.composite
def small_placements(draw: st.DrawFn, most_jobs: int = 3, most_nodes: int = 5) -> PlacementProblem:
    """Small problems of every kind of request, some that fit nowhere among them."""
    leaves = draw(st.lists(st.integers(1, 2), min_size=1, max_size=3))
    row = [leaf for leaf, size in enumerate(leaves) for _ in range(size)][:most_nodes]
    names = tuple(f"leaf-{leaf}" for leaf in sorted(set(row)))
    tree = Tree(np.array([row]), (names,), (2, 4), draw(st.sampled_from(["ordered", "unordered"])))
    size = len(row)
    jobs = []
    for number in range(draw(st.integers(1, most_jobs))):
        least = draw(st.integers(1, min(2, size)))
        most = draw(st.integers(least, min(3, size)))
        tasks = draw(st.integers(most, 4))
        made = request(
            (size, 2, 1), tasks, (least, most), draw(st.none() | st.integers(1, 3)),
            draw(st.sampled_from([(1, 0), (2, 1), (0, 0), (1, 2)])), draw(st.sampled_from([(0, 0), (0, 2), (1, 0)])),
            segments=draw(st.sampled_from([(), (2,)])) if least <= 2 <= most else (),
            alone=draw(st.integers(0, 3)) == 0, most_groups=(draw(st.sampled_from([0, 0, 1, 2])),),
            sets=draw(st.sampled_from([(), (), tuple((node,) for node in range(size)), (tuple(range(1, size)),)])),
        )  # fmt: skip
        jobs.append(PlacementJob(str(number), made))
    free = np.array([[draw(st.integers(0, 5)), draw(st.sampled_from([0, 3, 9]))] for _ in range(size)])
    in_use = np.array([draw(st.integers(0, 3)) == 0 for _ in range(size)])
    return PlacementProblem(
        tree, ("cores", "memory_mib"), free, in_use, tuple(jobs), draw(st.sampled_from([1000.0, 1.0])),
        draw(st.sampled_from([None, None, 3.0])), "drawn",
    )  # fmt: skip


def four_pairs(**changes: object) -> PlacementProblem:
    """Return a problem on eight nodes of four cores, two a leaf and two leaves a pod, with one job of one task."""
    tree = FatTree(2, 2, 2)
    parts: dict[str, object] = {
        "free": np.full((8, 2), 4), "in_use": np.zeros(8, dtype=np.bool_),
        "jobs": (PlacementJob("a", request((8, 2, 2))),),
    }  # fmt: skip
    return PlacementProblem(tree, ("cores", "memory_mib"), **(parts | changes))  # type: ignore[arg-type]
