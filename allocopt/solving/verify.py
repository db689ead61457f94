"""The checker outside every solver: feasibility and objective from the raw problem and solution, nothing else."""

from typing import Any

import numpy as np

from allocopt.arrays import IntArray
from allocopt.errors import InvalidSolutionError, WrongAnswerError
from allocopt.problems.base import Problem, Strategy
from allocopt.problems.coallocation.problem import CoallocationProblem
from allocopt.problems.knapsack import KnapsackProblem
from allocopt.problems.side import broken_rule
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.coallocation import verify_coallocation
from allocopt.solving.continuity import check_blocks, check_non_crossing
from allocopt.solving.result import EQUAL_RELATIVE, Result, Status
from allocopt.solving.selection import verify_selection


def verify(problem: Problem, solution: Any) -> float:
    """Check a solution against every rule of its problem and return its objective.

    Raises
    ------
    InvalidSolutionError
        If a rule is broken; it names the job, the node or the amount.
    """
    if isinstance(problem, TopologyProblem):
        return _verify_allocation(problem, solution)
    if isinstance(problem, KnapsackProblem):
        return verify_selection(problem, solution)
    if isinstance(problem, CoallocationProblem):
        return verify_coallocation(problem, solution)
    raise InvalidSolutionError(f"there is no checker for {problem.kind} problems")


def _verify_allocation(problem: TopologyProblem, solution: Any) -> float:
    """Check an allocation against the rules of its strategy and return its cost."""
    if not isinstance(solution, Allocation):
        raise InvalidSolutionError(f"the solution is a {type(solution).__name__}, must be an Allocation")
    owners = _owners(problem, solution)
    if problem.strategy is Strategy.SCAS:
        check_blocks(problem, owners)
    elif problem.strategy is Strategy.DCAS:
        check_non_crossing(problem, owners)
    _check_placements(problem, solution)
    return problem.objective(solution)


def _check_placements(problem: TopologyProblem, allocation: Allocation) -> None:
    """Raise `InvalidSolutionError` for the first rule of a job that is broken."""
    for job, nodes in zip(problem.jobs, allocation.nodes, strict=True):
        if job.placement is not None:
            fault = broken_rule(problem.topology, job.placement, nodes)
            if fault is not None:
                raise InvalidSolutionError(f"job {job.id!r} {fault}")


def verify_result(problem: Problem, result: Result) -> None:
    """Check a solver's answer: its solution, the objective it states, its bound and its status.

    Raises
    ------
    WrongAnswerError
        If the solution breaks a rule, the objective is not the solution's, or bound or status contradict it.
    """
    if not isinstance(result, Result):
        raise WrongAnswerError(f"the solver returned {type(result).__name__}, must return a Result")
    try:
        _check_result(problem, result)
    except InvalidSolutionError as error:
        raise WrongAnswerError(f"solver {result.solver!r} returned a wrong answer: {error}") from None


def _check_result(problem: Problem, result: Result) -> None:
    """Raise `InvalidSolutionError` for what `verify_result` names."""
    if result.solution is None:
        if result.status in (Status.OPTIMAL, Status.FEASIBLE):
            raise InvalidSolutionError(f"it says {result.status} and returns no solution")
        return
    if result.status in (Status.INFEASIBLE, Status.UNKNOWN):
        raise InvalidSolutionError(f"it says {result.status} and returns a solution")
    objective = verify(problem, result.solution)
    check_stated(objective, result.objective, result.bound, 1.0 if problem.sense == "min" else -1.0)
    if result.status is Status.OPTIMAL and (result.gap is None or result.gap > EQUAL_RELATIVE):
        raise InvalidSolutionError(f"it says OPTIMAL, but its bound is {result.bound}")


def check_stated(objective: float, stated: float | None, bound: float | None, sign: float = 1.0) -> None:
    """Compare a recomputed objective with a stated one and its bound.

    Parameters
    ----------
    objective
        Recomputed from the raw solution.
    stated
        What the solver or the file says; None says nothing.
    bound
        The bound that it says; None says nothing.
    sign
        1 where the objective is minimized, -1 where it is maximized.

    Raises
    ------
    InvalidSolutionError
        If they differ by more than 1e-6 relative, or the bound excludes the solution.
    """
    tolerance = EQUAL_RELATIVE * max(1e-9, abs(objective))
    if stated is None or not abs(stated - objective) <= tolerance:
        raise InvalidSolutionError(f"the stated objective is {stated}, recomputed it is {objective:.12g}")
    if bound is not None and not sign * (bound - objective) <= tolerance:
        raise InvalidSolutionError(f"the stated bound {bound} excludes the solution of objective {objective:.12g}")


def _owners(problem: TopologyProblem, allocation: Allocation) -> IntArray:
    """Job index (or -1) of every idle position, checking counts, idleness and exclusivity."""
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
    """Say which job has nodes that are too few or too many, not idle, or given twice."""
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
