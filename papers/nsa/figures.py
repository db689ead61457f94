"""Figures 4 and 5: learning curves of the six networks, and their results. Figure 6: windows against job by job.

Figure 4 has curves without numbers; the numbers of Figures 5 and 6 are in the authors' repository.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.platform import Platform
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed
from allocopt.heuristics.topology.annealing import AnnealingAsPublished
from allocopt.learned.nsa.networks import NETWORKS
from allocopt.learned.nsa.solver import Nsa
from allocopt.learned.nsa.training import PAPER_CLUSTER, NsaTraining
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.reproduction import Records
from allocopt.simulator.held_nodes import Allocator, Share
from allocopt.simulator.rules import Backfill
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.simulator.window import TopologyAllocator, WindowScheduler
from allocopt.solving.protocol import Solver, get_solver
from allocopt.topology import OneShot
from allocopt.traces.workload import Workload
from papers.artifact import Artifact, Asked, Number, Record, mean_of, progress_of, seed_and_name
from papers.nsa.tables import (
    LEADER,
    PUBLISHED,
    RANDOM_REPAIR,
    Method,
    epoch_keys,
    epoch_of,
    epoch_record,
    improvement,
    nsa_500,
    read_paper_workload,
)

UPDATES, QUICK_UPDATES, QUICK_WINDOW_EPOCHS = 400, 6, 2
POINTS = 10
"""Number of points of a curve that become rows, each a mean over the updates since the previous one."""


def _curve_record(asked: Asked, piece: str) -> Record:
    """Train a network with few updates; ``allocopt train nsa`` writes its full curve."""
    seed, network = seed_and_name(piece)
    full, quick = NsaTraining(network, UPDATES), NsaTraining(network, QUICK_UPDATES, window_epochs=QUICK_WINDOW_EPOCHS)
    progress = progress_of(asked.size(full, quick), seed, FOUR.name)
    return {
        "returns": [point.measures["mean_return"] for point in progress],
        "samples": [point.measures["samples"] for point in progress],
    }


def _curve_numbers(records: Records) -> Iterator[Number]:
    for piece, record in records.items():
        returns, samples = np.array(record["returns"]), np.array(record["samples"])
        for part in np.array_split(np.arange(len(returns)), min(POINTS, len(returns))):
            column = f"mean return to {int(samples[part[-1]]):,} samples"
            spread = float(returns[part].std(ddof=1)) if len(part) > 1 else None
            yield Number(piece, column, float(returns[part].mean()), None, len(part), spread)


FOUR = Artifact(
    "nsa-figure4",
    "Figure 4 of the NSA paper: learning curves of the six networks",
    lambda asked: [f"seed {seed}, {network}" for seed in asked.seeds for network in NETWORKS],
    _curve_record,
    _curve_numbers,
)

STEPS, QUICK_STEPS = (500, 600, 700, 800, 900, 1000), (500, 1000)
RANDOM = "random repair"


def _methods_of_five(every_steps: Sequence[int]) -> dict[str, Method]:
    methods = {LEADER: nsa_500()}
    for steps in every_steps:
        methods[f"SA-{2 * steps}"] = Method(AnnealingAsPublished(), "free", 2 * steps)
        methods[f"{RANDOM} NSA-{steps}"] = Method(RANDOM_REPAIR, "dcas", steps)
        for network in NETWORKS:
            methods[f"{network} NSA-{steps}"] = Method(Nsa(network), "free", steps)
    return methods


def _numbers_of_five(records: Records) -> Iterator[Number]:
    every = list(records.values())
    n = sum(record["windows"] for record in every)
    for steps in (steps for steps in STEPS if f"SA-{2 * steps}" in every[0]["cost"]):
        row, walk = f"{steps} steps", f"SA-{2 * steps}"
        for network in (*NETWORKS, RANDOM):
            label, column = f"{network} NSA-{steps}", f"{network} Impr. % on {walk}"
            gains = [improvement(record["cost"], label, walk) for record in every]
            yield mean_of(row, column, gains, PUBLISHED["figure5"][row].get(network), n)
            for measure in ("cost", "ms"):
                yield mean_of(row, f"{network} {measure}", [record[measure][label] for record in every], None, n)
        for measure in ("cost", "ms"):
            yield mean_of(row, f"{walk} {measure}", [record[measure][walk] for record in every], None, n)


FIVE = Artifact(
    "nsa-figure5",
    "Figure 5 of the NSA paper: six networks with 500 to 1000 steps, against SA with twice as many",
    epoch_keys,
    lambda asked, piece: epoch_record(asked, piece, _methods_of_five(asked.size(STEPS, QUICK_STEPS))),
    _numbers_of_five,
)

JOBS = 300
"""Number of consecutive jobs of an epoch of Figure 6; each epoch begins on an idle cluster."""
PERIODS_S = (10, 20, 30, 40, 50, 60)
CLUSTER = Platform.whole_nodes(PAPER_CLUSTER)
QUEUES = {"FCFS": Backfill.NONE, "EASY": Backfill.EASY}
"""Backfilling of the methods that start jobs at every event; EASY is the paper's BF."""
JOB_BY_JOB = {"sequential": "scas", "best-fit": "free", "dp": "scas"}
"""Solver and strategy of windows with a single job."""


@dataclass(frozen=True)
class JobByJob:
    """Places jobs that start together: one after the other, each without regard to the next."""

    allocator: Allocator

    @classmethod
    def by(cls, solver: str, strategy: str) -> "JobByJob":
        """Return an instance that places every job by a solver, as its own window."""
        return cls(TopologyAllocator(PAPER_CLUSTER, get_solver(solver), strategy))

    def place(self, names: Sequence[str], request: IntArray, free: IntArray) -> list[Share]:
        """Allocate nodes to every job in turn, from those that are left."""
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
        shares = JobByJob.by("dp", "scas").place([job.id for job in problem.jobs], problem.sizes[:, None], free)
        return Allocation(tuple(share.nodes for share in shares))


WINDOWED: dict[str, tuple[str | Solver, str, int | None]] = {
    "sequential": ("sequential", "scas", None),
    OneByOne.name: (OneByOne(), "free", None),
    "annealing": ("annealing", "dcas", 1000),
    "nsa": ("nsa", "free", 500),
    "dp": ("dp", "scas", None),
}
"""Solver, strategy and steps of the windowed methods."""


@dataclass(frozen=True)
class Compared:
    """A method of Figure 6: a queue or ``windows`` with their period, and its allocation."""

    method: str
    allocation: str
    period_s: int | None
    scheduler: ListScheduler | WindowScheduler
    allocator: Allocator | None = None

    def measure(self, workload: Workload) -> dict[str, float]:
        """Simulate an epoch; return the mean hop cost of the jobs of two or more nodes, and the mean wait of all."""
        schedule = simulate(workload, CLUSTER, self.scheduler, allocator=self.allocator)
        costs = schedule.hop_costs()
        assert costs is not None
        return {"cost": float(np.nanmean(costs)), "wait s": float(schedule.job_times.wait_s.mean())}


def compared(seed: int = 0) -> Iterator[Compared]:
    """Yield the methods of Figure 6: FCFS and EASY with every allocator, windows with every solver and period."""
    for queue, backfill in QUEUES.items():
        for name, strategy in JOB_BY_JOB.items():
            scheduler = ListScheduler(FirstComeFirstServed(), backfill)
            yield Compared(queue, name, None, scheduler, JobByJob.by(name, strategy))
    for name, (solver, strategy, steps) in WINDOWED.items():
        for period in PERIODS_S:
            windows = WindowScheduler(period, solver, strategy, iterations=steps, seed=seed)
            yield Compared("windows", name, period, windows)


def _record_of_six(asked: Asked, piece: str) -> Record:
    workload = read_paper_workload(asked).stretch(JOBS * (epoch_of(piece) - 1), JOBS)
    found = {}
    for one in compared(seed_and_name(piece)[0]):
        of = "" if one.period_s is None else f" of {one.period_s} s"
        found[f"{one.method}{of}, {one.allocation}"] = one.measure(workload)
    return found


def _numbers_of_six(records: Records) -> Iterator[Number]:
    for method in next(iter(records.values())):
        for measure in ("cost", "wait s"):
            values = [record[method][measure] for record in records.values()]
            yield mean_of(method, measure, values, None, JOBS * len(records))


SIX = Artifact(
    "nsa-figure6",
    "Figure 6 of the NSA paper: windows of 10 to 60 s against FCFS and EASY",
    epoch_keys,
    _record_of_six,
    _numbers_of_six,
)
