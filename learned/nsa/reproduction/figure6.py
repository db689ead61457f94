"""Figure 6: allocation by windows against FCFS and EASY, which allocate job by job; the paper prints no numbers.

Ten epochs of 300 consecutive jobs of the authors' workload, each alone on an idle cluster. FCFS and EASY (the paper's
BF) start jobs at every event and place them one after the other; windows start them at multiples of the period.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.platform import Platform
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.simulator.allocators import Allocator
from allocopt.simulator.metrics import job_hop_costs
from allocopt.simulator.placement import Share
from allocopt.simulator.rules import Backfill
from allocopt.simulator.schedule import job_times
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.simulator.topology_allocator import TopologyAllocator
from allocopt.simulator.window import WindowScheduler
from allocopt.solving.protocol import Solver
from allocopt.solving.registry import get_solver
from allocopt.topology import OneShot
from allocopt.traces.workload import Workload
from heuristics.scheduling.queue_orders import FirstComeFirstServed
from learned.nsa.reproduction.epochs import QUICK_EPOCHS, epoch_keys, parse_key, read_paper_workload
from learned.nsa.reproduction.published import EPOCHS
from learned.nsa.windows import PAPER_CLUSTER, epoch_workload

NAME = "nsa-figure6"
JOBS = 300
PERIODS_S = (10, 20, 30, 40, 50, 60)
CLUSTER = Platform.whole_nodes(PAPER_CLUSTER)

JOB_BY_JOB = (("sequential", "scas"), ("best-fit", "free"), ("dp", "scas"))
"""Solver and strategy of a window that is one job."""

QUEUES = (("FCFS", Backfill.NONE), ("EASY", Backfill.EASY))


@dataclass(frozen=True)
class JobByJob:
    """Places jobs that start together one after the other, each without regard to the next."""

    allocator: Allocator

    def place(self, names: Sequence[str], request: IntArray, free: IntArray) -> list[Share]:
        """Give every job its nodes, then the next job its own of those that are left."""
        left, shares = free.copy(), []
        for job, name in enumerate(names):
            shares += self.allocator.place([name], request[job : job + 1], left)
            left[shares[-1].nodes] = 0
        return shares


class OneByOne(OneShot):
    """Allocates the jobs of a window one after the other, each at the least cost under SCAS (solver ``dp``)."""

    name = "dp one by one"
    strategies = frozenset({Strategy.FREE})

    def allocate(self, problem: TopologyProblem, rng: np.random.Generator) -> Allocation:
        """Place the jobs in their order."""
        free = np.zeros((PAPER_CLUSTER.size, 1), dtype=np.int64)
        free[problem.idle_nodes] = 1
        one_job = JobByJob(TopologyAllocator(PAPER_CLUSTER, get_solver("dp"), "scas"))
        shares = one_job.place([job.id for job in problem.jobs], problem.sizes[:, None], free)
        return Allocation(tuple(share.nodes for share in shares))


def windowed() -> tuple[tuple[str | Solver, str, int | None], ...]:
    """Return solver, strategy and steps of the windowed methods."""
    return (
        ("sequential", "scas", None),
        (OneByOne(), "free", None),
        ("annealing", "dcas", 1000),
        ("nsa", "free", 500),
        ("dp", "scas", None),
    )


def measured(
    workload: Workload, scheduler: ListScheduler | WindowScheduler, allocator: Allocator | None
) -> dict[str, float]:
    """Simulate an epoch; return the mean hop cost of the jobs of two or more nodes, and the mean wait of all."""
    schedule = simulate(workload, CLUSTER, scheduler, allocator=allocator)
    costs = job_hop_costs(schedule)
    assert costs is not None
    return {"cost": float(np.nanmean(costs)), "wait s": float(job_times(schedule).wait_s.mean())}


class FigureSixReproduction:
    """Figure 6 of the NSA paper."""

    name = NAME
    title = "Figure 6 of the NSA paper: windows of 10 to 60 s against FCFS and EASY"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return the epochs."""
        return epoch_keys(request)

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Simulate the jobs of an epoch by every method."""
        seed, epoch = parse_key(piece)
        workload = epoch_workload(read_paper_workload(request), JOBS * (epoch - 1), JOBS)
        found = {}
        for method, backfill in QUEUES:
            scheduler = ListScheduler(FirstComeFirstServed(), backfill)
            for solver, strategy in JOB_BY_JOB:
                allocator = JobByJob(TopologyAllocator(PAPER_CLUSTER, get_solver(solver), strategy))
                found[f"{method}, {solver}"] = measured(workload, scheduler, allocator)
        for chosen, strategy, steps in windowed():
            name = chosen if isinstance(chosen, str) else chosen.name
            for period in PERIODS_S:
                windows = WindowScheduler(period, chosen, strategy, iterations=steps, seed=seed)
                found[f"windows of {period} s, {name}"] = measured(workload, windows, None)
        return found

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return means and standard deviations over the epochs."""
        n = JOBS * (QUICK_EPOCHS if request.is_quick else EPOCHS) * len(request.seeds)
        rows = []
        for method in next(iter(records.values())):
            for measure in ("cost", "wait s"):
                values = [record[method][measure] for record in records.values()]
                spread = stdev(values) if len(values) > 1 else None
                rows.append(ReproductionRow(NAME, method, measure, None, fmean(values), spread, n))
        return rows
