"""The check of placements: nodes, tasks, amounts, nodes that jobs have alone, and groups that they may span."""

import numpy as np

from allocopt.errors import InvalidSolutionError
from allocopt.problems.placement.problem import PlacementJob, PlacementProblem, Placements


def verify_placements(problem: PlacementProblem, solution: Placements) -> float:
    """Return the cost of placements; raise `InvalidSolutionError` for a broken rule, with job or node."""
    if len(solution.of_jobs) != len(problem.jobs):
        raise InvalidSolutionError(f"there are {len(solution.of_jobs)} placements for {len(problem.jobs)} jobs")
    used = np.zeros_like(problem.free)
    users, alone = (np.zeros(problem.size, dtype=np.int64) for _ in range(2))
    groups = problem.groups
    for job, places in zip(problem.jobs, solution.of_jobs, strict=True):
        if not places:
            continue
        nodes, tasks = np.array(places, dtype=np.int64).T
        _check_shape(problem, job, nodes.tolist(), tasks.tolist())
        if not job.request.masks[:, nodes].all(axis=1).any():
            raise InvalidSolutionError(f"job {job.id!r} has nodes outside of the sets that it may take them from")
        for level, most in enumerate(job.request.most_groups):
            spanned = len(np.unique(groups[level, nodes]))
            if 0 < most < spanned:
                fault = f"spans {spanned} groups of level {level + 1}, may span {most}"
                raise InvalidSolutionError(f"job {job.id!r} {fault}")
        used[nodes] += job.request.per_node + tasks[:, None] * job.request.per_task
        users[nodes] += 1
        alone[nodes] += job.request.is_exclusive
    for node in np.flatnonzero((alone > 0) & ((users > 1) | problem.in_use)).tolist():
        raise InvalidSolutionError(f"node {node} is shared, but a job there asks to have it alone")
    for node, resource in np.argwhere(used > problem.free).tolist():
        amounts = f"{used[node, resource]} {problem.resources[resource]}, {problem.free[node, resource]} are free"
        raise InvalidSolutionError(f"node {node} gives jobs {amounts}")
    return problem.objective(solution)


def _check_shape(problem: PlacementProblem, job: PlacementJob, nodes: list[int], tasks: list[int]) -> None:
    asked, name = job.request, f"job {job.id!r}"
    for node in nodes:
        if not 0 <= node < problem.size:
            raise InvalidSolutionError(f"{name} gets node {node}, which does not exist")
    if len(set(nodes)) < len(nodes):
        raise InvalidSolutionError(f"{name} gets a node twice")
    if not asked.least_nodes <= len(nodes) <= asked.most_nodes:
        fault = f"gets {len(nodes)} nodes, asks for {asked.least_nodes} to {asked.most_nodes}"
        raise InvalidSolutionError(f"{name} {fault}")
    if sum(tasks) != asked.tasks:
        raise InvalidSolutionError(f"{name} has {sum(tasks)} tasks placed, has {asked.tasks}")
    if min(tasks) < 1 or max(tasks) > asked.most_tasks:
        raise InvalidSolutionError(
            f"{name} has {min(tasks)} to {max(tasks)} tasks on a node, 1 to {asked.most_tasks} may be"
        )
