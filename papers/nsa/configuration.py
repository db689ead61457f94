"""The instances of the NSA paper's comparisons: epochs of windows of its workload file, advanced by NSA.

All nodes are idle when an epoch begins, and every decision period is a window, which all methods solve; jobs start as
NSA with 500 steps decides (section VI-C). The paper does not print where in the file an epoch begins: here the file is
cut into as many equal stretches as there are epochs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType

from allocopt.files.faults import bad_file
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.simulator.window import windows
from allocopt.solving.protocol import Solver
from allocopt.solving.result import Result
from allocopt.solving.solve import solve
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload
from heuristics.topology.annealing import Annealing
from learned.nsa.solver import Nsa
from learned.nsa.windows import JOBS_PER_EPOCH, PAPER_CLUSTER, PERIOD_S, epoch_workload
from papers.artifact import Asked, Record, published, seed_and_name

PUBLISHED = published("nsa")

WORKLOAD = "tjap/data_large_1800_40.txt.gz"
"""The workload file of the authors' repository hpcschedule, in the folder with the data."""

LEAST_JOBS = 3_000
"""Jobs that the epochs of Figure 6 take together; the file has 100,000."""

EPOCHS, WINDOWS = 10, 100
QUICK_EPOCHS, QUICK_WINDOWS = 2, 30
LEADER = "NSA-500"


def read_paper_workload(asked: Asked) -> Workload:
    """Read the paper's workload; raises `BadFileError` where it is missing or cut."""
    workload = read_workload(asked.data / WORKLOAD)
    if len(workload) < LEAST_JOBS:
        raise bad_file(asked.data / WORKLOAD, f"holds {len(workload):,} jobs, must hold at least {LEAST_JOBS:,}")
    return workload


def epoch_keys(asked: Asked) -> list[str]:
    """Return the keys of all epochs for all seeds."""
    n = asked.size(EPOCHS, QUICK_EPOCHS)
    return [f"seed {seed}, epoch {epoch}" for seed in asked.seeds for epoch in range(1, n + 1)]


def epoch_of(key: str) -> int:
    """Return the epoch of a key, counted from 1."""
    return int(seed_and_name(key)[1].split(",")[0].removeprefix("epoch "))


@dataclass(frozen=True, slots=True)
class Method:
    """A method that solves every window: with how many steps, None for its own default, and seconds for a window."""

    solver: Solver | str
    strategy: str
    steps: int | None = None
    time_limit: float | None = None

    def solve(self, problem: TopologyProblem, seed: int) -> Result:
        """Solve a window."""
        return solve(problem, self.strategy, self.solver, self.time_limit, seed, iterations=self.steps)


Methods = Mapping[str, Method]
RANDOM_REPAIR = Annealing(hottest=2.5, coldest=0.0025, most_removed=2)
"""NSA without its network: the same walk, temperatures and moves."""


def nsa_500(network: str = "cnn-3") -> Method:
    """NSA as the paper compares it: 500 steps, relaxed."""
    return Method(Nsa(network), "free", 500)


def solved_windows(
    asked: Asked, key: str, methods: Methods, timed: Methods = MappingProxyType({})
) -> Iterator[tuple[TopologyProblem, dict[str, Result]]]:
    """Yield the windows of an epoch with the answers of all methods, `LEADER` among them, which decides what starts.

    Those that are ``timed`` get as many steps as fit the time of `LEADER`, measured on the window itself.
    """
    seed, epoch = seed_and_name(key)[0], epoch_of(key)
    workload = read_paper_workload(asked)
    stretch = len(workload) // EPOCHS
    jobs = epoch_workload(workload, (epoch - 1) * stretch, min(stretch, JOBS_PER_EPOCH))
    answers: dict[str, Result] = {}

    def allocate(problem: TopologyProblem) -> Allocation:
        chosen: Allocation = answers[LEADER].found()
        return chosen

    every = windows(jobs, PAPER_CLUSTER, PERIOD_S, allocate, min_jobs=1)
    for number, problem in enumerate(islice(every, asked.size(WINDOWS, QUICK_WINDOWS))):
        of_window = 1000 * seed + number
        answers = {name: method.solve(problem, of_window) for name, method in methods.items()}
        shares = {name: answers[LEADER].runtime_s / one.solve(problem, 0).runtime_s for name, one in timed.items()}
        for name, share in shares.items():
            steps = max(1, int((timed[name].steps or 0) * share))
            answers[name] = replace(timed[name], steps=steps).solve(problem, of_window)
        yield problem, answers


def epoch_record(asked: Asked, key: str, methods: Methods, timed: Methods = MappingProxyType({})) -> Record:
    """Return costs per job, milliseconds and share of proofs per window of an epoch, by method."""
    costs, seconds, proved = (dict[str, float]() for _ in range(3))
    jobs = n_windows = 0
    for problem, answers in solved_windows(asked, key, methods, timed):
        jobs += len(problem.jobs)
        n_windows += 1
        for name, result in answers.items():
            costs[name] = costs.get(name, 0.0) + float(result.objective or 0.0)
            seconds[name] = seconds.get(name, 0.0) + result.runtime_s
            proved[name] = proved.get(name, 0) + (result.status == "OPTIMAL")
    return {
        "windows": n_windows,
        "jobs": jobs,
        "cost": {name: cost / max(1, jobs) for name, cost in costs.items()},
        "ms": {name: 1e3 * s / max(1, n_windows) for name, s in seconds.items()},
        "proved": {name: n / max(1, n_windows) for name, n in proved.items()},
    }


def improvement(cost: Mapping[str, float], better: str, than: str) -> float:
    """By how many per cent one method costs less than another."""
    return 100.0 * (1.0 - cost[better] / cost[than])
