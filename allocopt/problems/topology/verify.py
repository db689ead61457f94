"""The check of an allocation: its nodes, the rules of its jobs, and continuity (NSA paper, section III-B)."""

from collections.abc import Sequence

import numpy as np

from allocopt.arrays import IntArray
from allocopt.errors import InvalidSolutionError
from allocopt.problems.base import Strategy
from allocopt.problems.topology.problem import Allocation, TopologyProblem


def verify_allocation(problem: TopologyProblem, solution: Allocation) -> float:
    """Return the cost of an allocation; raise `InvalidSolutionError` for a broken rule of its strategy or jobs."""
    owners = _owners(problem, solution)
    if problem.strategy is Strategy.SCAS:
        seen: set[int] = set()
        # A job's block begins wherever its owner differs from the position before, around the circle. An owner that
        # begins twice has been cut in two.
        for position in np.flatnonzero(owners != np.roll(owners, 1)):
            owner = int(owners[position])
            if owner in seen:
                where = f"it is cut at node {problem.idle_nodes[position]}"
                raise InvalidSolutionError(f"scas: job {problem.jobs[owner].id!r} is not contiguous: {where}")
            if owner >= 0:
                seen.add(owner)
    elif problem.strategy is Strategy.DCAS:
        check_non_crossing(problem, owners)
    for job, nodes in zip(problem.jobs, solution.nodes, strict=True):
        fault = None if job.placement is None else job.placement.broken_rule(problem.topology, nodes)
        if fault is not None:
            raise InvalidSolutionError(f"job {job.id!r} {fault}")
    return problem.objective(solution)


def check_non_crossing(problem: TopologyProblem, owners: IntArray) -> None:
    """Raise `InvalidSolutionError` unless jobs and leftover are a non-crossing partition of the circle.

    That is exactly when the jobs can be placed in some order, each contiguous in the then current circular sequence
    of idle nodes: see ``docs/dcas.md`` for the theorem and its proof. ``owners`` has the job index, or -1 for the
    leftover, of every idle position, shape ``(m,)``.
    """
    # Positions of every block that are still to come, that of the leftover (-1) first.
    left = np.bincount(owners + 1, minlength=len(problem.jobs) + 1)
    open_blocks: list[int] = []
    for position, owner in enumerate(owners.tolist()):
        # Brackets: a block closes with its last position; one that goes on must be the innermost that is open.
        while open_blocks and left[open_blocks[-1] + 1] == 0:
            open_blocks.pop()
        if owner in open_blocks and open_blocks[-1] != owner:
            one, other = (
                f"job {problem.jobs[block].id!r}" if block >= 0 else "the leftover"
                for block in (owner, open_blocks[-1])
            )
            where = f"dcas: {one} and {other} cross at node {problem.idle_nodes[position]}"
            raise InvalidSolutionError(f"{where}: neither can be placed first")
        if not open_blocks or open_blocks[-1] != owner:
            open_blocks.append(owner)
        left[owner + 1] -= 1


def allocation_order(problem: TopologyProblem, allocation: Allocation) -> tuple[int, ...]:
    """Return an order of the jobs in which each one's nodes are consecutive in the then current circular sequence.

    The jobs are ordered by the last of their nodes in the sequence that begins with an idle node that is left over (if
    there is one): whatever lies in the gaps of a job is then placed before it. The allocation obeys all other rules.
    Raises `InvalidSolutionError` if there is no such order.
    """
    owners = allocation.owners(problem)
    check_non_crossing(problem, owners)
    turned = np.roll(owners, -int(np.argmax(owners < 0)))
    last = np.zeros(len(problem.jobs), dtype=np.int64)
    # Where an index comes several times, the last value stays.
    last[turned[turned >= 0]] = np.flatnonzero(turned >= 0)
    return tuple(np.argsort(last).tolist())


def check_order(problem: TopologyProblem, allocation: Allocation, order: Sequence[str]) -> None:
    """Raise `InvalidSolutionError` unless each job's nodes are consecutive among the idle ones when it is placed.

    ``order`` has the job ids; the allocation obeys all other rules.
    """
    index = {job.id: job_index for job_index, job in enumerate(problem.jobs)}
    missing = dict(index)
    for job_id in order:
        if job_id not in index:
            raise InvalidSolutionError(f"order: job {job_id!r} is not in the instance")
        if missing.pop(job_id, None) is None:
            raise InvalidSolutionError(f"order: job {job_id!r} is named twice")
    for job_id in missing:
        raise InvalidSolutionError(f"order: job {job_id!r} is missing")
    m = len(problem.idle_nodes)
    owners = allocation.owners(problem).tolist()
    after, before = [*range(1, m), 0], [m - 1, *range(m - 1)]
    for place, job_id in enumerate(order):
        job = index[job_id]
        first = last = int(np.searchsorted(problem.idle_nodes, allocation.nodes[job][0]))
        count = 1
        while count < problem.jobs[job].nodes and owners[before[first]] == job:
            first, count = before[first], count + 1
        while count < problem.jobs[job].nodes and owners[after[last]] == job:
            last, count = after[last], count + 1
        if count < problem.jobs[job].nodes:
            node = problem.idle_nodes[after[last]]
            raise InvalidSolutionError(
                f"order: job {job_id!r}, placed as number {place + 1}, is not contiguous: node {node} is between its "
                "nodes and not yet taken"
            )
        after[before[first]], before[after[last]] = after[last], before[first]


def _owners(problem: TopologyProblem, allocation: Allocation) -> IntArray:
    counts = [len(nodes) for nodes in allocation.nodes]
    if counts == [job.nodes for job in problem.jobs]:
        nodes = np.concatenate(allocation.nodes)
        positions = np.searchsorted(problem.idle_nodes, nodes) % len(problem.idle_nodes)
        owners = np.full(len(problem.idle_nodes), -1, dtype=np.int64)
        owners[positions] = np.repeat(np.arange(len(counts)), counts)
        if (problem.idle_nodes[positions] == nodes).all() and np.count_nonzero(owners >= 0) == len(nodes):
            return owners
    raise InvalidSolutionError(_fault(problem, allocation))


def _fault(problem: TopologyProblem, allocation: Allocation) -> str:
    if len(allocation.nodes) != len(problem.jobs):
        return f"there are {len(allocation.nodes)} node sets for {len(problem.jobs)} jobs"
    owners = np.full(len(problem.idle_nodes), -1, dtype=np.int64)
    for index, (job, nodes) in enumerate(zip(problem.jobs, allocation.nodes, strict=True)):
        if len(nodes) != job.nodes:
            return f"job {job.id!r} gets {len(nodes)} nodes, asks for {job.nodes}"
        positions = np.searchsorted(problem.idle_nodes, nodes)
        for node in nodes[problem.idle_nodes[positions % len(owners)] != nodes]:
            return f"job {job.id!r} gets node {node}, which is not idle"
        for node in nodes[owners[positions] >= 0]:
            other = problem.jobs[int(owners[np.searchsorted(problem.idle_nodes, node)])]
            return f"job {job.id!r} gets node {node}, which job {other.id!r} has already"
        owners[positions] = index
        if len(np.unique(positions)) < len(positions):
            break
    return f"job {job.id!r} gets a node twice"
