"""Windows that a scheduler would see in a trace: every period the waiting jobs that fit, allocated to go on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from allocopt.cluster.platform import Platform
from allocopt.cluster.topology import Topology
from allocopt.errors import InvalidProblemError, NoSolutionError, UsageError
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.simulator.allocators import DepthFirst
from allocopt.simulator.engine import Simulation
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys, Rules
from allocopt.simulator.scheduler import Decision, Wait
from allocopt.simulator.setup import new_state
from allocopt.simulator.view import View
from allocopt.simulator.window import WindowRule
from allocopt.solving.registry import get_solver
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify
from allocopt.traces.workload import Workload

Allocate = Callable[[TopologyProblem], Allocation]
"""Decides where the jobs of a window go, so that the cluster can go on to the next."""


def windows(
    workload: Workload,
    topology: Topology,
    period_s: float,
    allocate: Allocate,
    *,
    hop_cost: float = 1000.0,
    min_jobs: int = 2,
    max_jobs: int | None = None,
    skip: int = 0,
    prefix: str = "window",
) -> Iterator[TopologyProblem]:
    """Replay a workload through the window rule: see `allocopt.simulator.window.WindowRule`.

    One-node jobs take the first idle nodes, at no cost; the others are a problem over the idle nodes that remain. Jobs
    run as long as was recorded and wait for no other job.

    Parameters
    ----------
    workload
        Jobs that count whole nodes, none larger than the cluster: see `Workload.in_nodes`, `Workload.fitting`.
    topology
        The cluster, all its nodes idle at time 0.
    period_s
        Length of a period in seconds, positive.
    allocate
        Allocates every window, those that are not yielded too, but not the ones after the last that is asked for.
    hop_cost
        Cost of one hop.
    min_jobs, max_jobs
        Least (1 or more) and greatest number of jobs of a window that is yielded; None for no upper limit.
    skip
        How many such windows to leave out at the beginning.
    prefix
        What their names begin with; a number follows, 000 for the first one yielded.

    Yields
    ------
    TopologyProblem
        Windows in order of time, strategy ``free``.

    Raises
    ------
    UsageError
        If the period or a limit makes no sense.
    InvalidProblemError
        If a job is larger than the cluster.
    InvalidSolutionError
        If ``allocate`` gives a node away that is not idle, or not as many as a job asks for.
    """
    _check_limits(min_jobs, max_jobs, skip)
    _check_sizes(workload, topology.size)
    largest = len(workload) if max_jobs is None else max_jobs
    rule = WindowRule(period_s)
    simulation = _simulation(workload, topology)
    found = -skip
    while simulation.advance():
        due = rule.due(simulation.view.now)
        if due > simulation.view.now:
            simulation.python_pass(_Decided((Wait(due),)))
            continue
        window = rule.window(simulation.view, topology, hop_cost, f"{prefix}-{max(found, 0):03d}")
        allocation = Allocation(())
        if window.problem is not None:
            if min_jobs <= len(window.jobs) <= largest:
                if found >= 0:
                    yield window.problem
                found += 1
            allocation = allocate(window.problem)
            verify(window.problem, allocation)
        simulation.python_pass(_Decided(window.starts(allocation)))


@dataclass(frozen=True, slots=True)
class _Decided:
    decisions: tuple[Decision, ...]

    def schedule(self, view: View) -> tuple[Decision, ...]:
        """Return them."""
        return self.decisions


def _simulation(workload: Workload, topology: Topology) -> Simulation:
    platform = Platform.whole_nodes(topology)
    arrival = QueueKeys(OrderKind.ARRIVAL, np.zeros(len(workload)))
    rules = Rules(kill_at_limit=False, dependencies=False)
    state = new_state(workload, workload.processors[:, None].copy(), platform.total, rules, Backfill.NONE, arrival)
    return Simulation(workload, platform, state, DepthFirst(), None)


def _check_sizes(workload: Workload, size: int) -> None:
    if len(workload) and workload.processors.max() > size:
        job = int(np.argmax(workload.processors > size))
        asked = workload.processors[job]
        raise InvalidProblemError(f"job {workload.ids[job]}", f"asks for {asked} nodes, the cluster has {size}")


def _check_limits(min_jobs: int, max_jobs: int | None, skip: int) -> None:
    if min_jobs < 1:
        raise UsageError(f"the least number of jobs of a window is {min_jobs}, must be at least 1")
    if max_jobs is not None and max_jobs < min_jobs:
        raise UsageError(f"the greatest number of jobs of a window, {max_jobs}, is below the least, {min_jobs}")
    if skip < 0:
        raise UsageError(f"the number of windows to skip is {skip}, must not be negative")


LARGEST_SEED = 2**31


def solver_allocator(name: str, strategy: str, iterations: int, rng: np.random.Generator) -> Allocate:
    """Make an allocator of an installed solver.

    Parameters
    ----------
    name
        Name of the solver.
    strategy
        Strategy under which it allocates: ``scas``, ``dcas`` or ``free``.
    iterations
        Its budget per window. There is no time limit, so that the same generator state gives the same windows.
    rng
        Source of the seed of each window.

    Raises
    ------
    UsageError
        If there is no such solver, or it does not take the strategy; when called, if it does not take the window.
    MissingPackageError
        If the solver needs a package that is not installed.
    """
    solver = get_solver(name)
    if strategy not in solver.capabilities.strategies:
        able = ", ".join(sorted(solver.capabilities.strategies))
        raise UsageError(f"solver {name!r} does not take {strategy}; it takes {able}")

    def allocate(problem: TopologyProblem) -> Allocation:
        seed = int(rng.integers(LARGEST_SEED))
        result = solve(problem, strategy, solver, None, seed, iterations=iterations)
        allocation = result.solution
        if not isinstance(allocation, Allocation):
            raise NoSolutionError(f"solver {name!r} found no allocation of window {problem.name!r}")
        return allocation

    return allocate
