"""The instances of the NSA paper's comparisons: epochs of windows of its workload file, advanced by NSA.

All nodes are idle when an epoch begins, and every decision period is a window, which all methods solve; jobs start as
NSA with 500 steps decides (section VI-C). The paper does not print where in the file an epoch begins: here the file is
cut into as many equal stretches as there are epochs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from allocopt.files.faults import bad_file
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.reproduction import ReproductionRequest
from allocopt.simulator.trace_windows import windows
from allocopt.solving.protocol import Solver
from allocopt.solving.result import Result
from allocopt.solving.solve import solve
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload
from learned.nsa.reproduction.published import EPOCHS, WINDOWS
from learned.nsa.solver import Nsa
from learned.nsa.windows import JOBS_PER_EPOCH, PAPER_CLUSTER, PERIOD_S, epoch_workload

WORKLOAD = "tjap/data_large_1800_40.txt.gz"
"""The workload file of the authors' repository hpcschedule, in the folder with the data."""

LEAST_JOBS = 3_000
"""Jobs that the epochs of Figure 6 take together; the file has 100,000."""

LEADER = "NSA-500"
QUICK_EPOCHS, QUICK_WINDOWS = 2, 30


def read_paper_workload(request: ReproductionRequest) -> Workload:
    """Read the paper's workload; raises `BadFileError` where it is missing or cut."""
    workload = read_workload(request.data / WORKLOAD)
    if len(workload) < LEAST_JOBS:
        raise bad_file(request.data / WORKLOAD, f"holds {len(workload):,} jobs, must hold at least {LEAST_JOBS:,}")
    return workload


def epoch_keys(request: ReproductionRequest) -> list[str]:
    """Keys of all epochs for all seeds."""
    n = QUICK_EPOCHS if request.is_quick else EPOCHS
    return [f"seed {seed}, epoch {epoch}" for seed in request.seeds for epoch in range(1, n + 1)]


def parse_key(key: str) -> tuple[int, int]:
    """Return seed and epoch of a key, the epoch counted from 1."""
    seed, epoch = (int(part.split()[-1]) for part in key.split(",")[:2])
    return seed, epoch


@dataclass(frozen=True, slots=True)
class Method:
    """A method that solves every window.

    Parameters
    ----------
    solver, strategy
        Who solves, and which node sets it may choose.
    steps
        Its steps; None for its own default.
    time_limit
        Seconds for a window, or None.
    """

    solver: Solver
    strategy: str
    steps: int | None = None
    time_limit: float | None = None

    def solve(self, problem: TopologyProblem, seed: int) -> Result:
        """Solve a window."""
        return solve(problem, self.strategy, self.solver, self.time_limit, seed, iterations=self.steps)


Solved = Mapping[str, Result]
"""Answers to a window, by method."""


def solved_windows(
    request: ReproductionRequest, key: str, methods: Callable[[TopologyProblem, int], Solved]
) -> Iterator[tuple[TopologyProblem, Solved]]:
    """Yield the windows of an epoch with the answers of all methods; the cluster goes on as NSA decides.

    Parameters
    ----------
    request
        Data and size.
    key
        One of `epoch_keys`.
    methods
        Solves a window with a seed by every method, `LEADER` among them.
    """
    seed, epoch = parse_key(key)
    workload = read_paper_workload(request)
    stretch = len(workload) // EPOCHS
    jobs = epoch_workload(workload, (epoch - 1) * stretch, min(stretch, JOBS_PER_EPOCH))
    answers: Solved = {}

    def allocate(problem: TopologyProblem) -> Allocation:
        chosen: Allocation = answers[LEADER].found()
        return chosen

    every = windows(jobs, PAPER_CLUSTER, PERIOD_S, allocate, min_jobs=1)
    for number, problem in enumerate(islice(every, QUICK_WINDOWS if request.is_quick else WINDOWS)):
        answers = methods(problem, 1000 * seed + number)
        yield problem, answers


def nsa_500(network: str = "cnn-3") -> Method:
    """NSA as the paper compares it: 500 steps, relaxed."""
    return Method(Nsa(network), "free", 500)


def solve_all(methods: Mapping[str, Method], problem: TopologyProblem, seed: int) -> dict[str, Result]:
    """Solve a window by every method."""
    return {name: method.solve(problem, seed) for name, method in methods.items()}


class Tally:
    """Sums over the windows of an epoch."""

    def __init__(self) -> None:
        self._costs: dict[str, float] = {}
        self._seconds: dict[str, float] = {}
        self._proved: dict[str, int] = {}
        self._jobs = 0
        self._windows = 0

    def add(self, problem: TopologyProblem, answers: Solved) -> None:
        """Take the answers to a window."""
        self._jobs += len(problem.jobs)
        self._windows += 1
        for name, result in answers.items():
            self._costs[name] = self._costs.get(name, 0.0) + float(result.objective or 0.0)
            self._seconds[name] = self._seconds.get(name, 0.0) + result.runtime_s
            self._proved[name] = self._proved.get(name, 0) + (result.status == "OPTIMAL")

    def record(self) -> dict[str, Any]:
        """Return costs per job, milliseconds and share of proofs per window, by method."""
        return {
            "windows": self._windows,
            "jobs": self._jobs,
            "cost": {name: cost / max(1, self._jobs) for name, cost in self._costs.items()},
            "ms": {name: 1e3 * seconds / max(1, self._windows) for name, seconds in self._seconds.items()},
            "proved": {name: proved / max(1, self._windows) for name, proved in self._proved.items()},
        }


def improvement(cost: Mapping[str, float], better: str, than: str) -> float:
    """By how many per cent one method costs less than another."""
    return 100.0 * (1.0 - cost[better] / cost[than])
