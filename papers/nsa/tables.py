"""Table III: SA and NSA by steps; Table IV: NSA against the SCAS optimum, and against SCIP with a limit of 30 s.

The tables cover epochs of windows of the paper's workload file. All nodes are idle at the beginning of an epoch. Every
decision period is a window, which all methods solve; jobs start as NSA with 500 steps decides (section VI-C). The paper
does not state where in the file an epoch begins: here the file is cut into equal stretches, one per epoch. Further rows
are not in the paper: annealing as implemented here, and equal wall time.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from allocopt.arrays import Float32Array, IntArray
from allocopt.files.faults import bad_file
from allocopt.formulations.topology.integer import Paper, ScipPaper
from allocopt.heuristics.topology.annealing import Annealing, AnnealingAsPublished
from allocopt.learned.nsa.networks import FIRST, Architecture, PackedNetwork
from allocopt.learned.nsa.solver import Nsa
from allocopt.learned.nsa.training import JOBS_PER_EPOCH, PAPER_CLUSTER, PERIOD_S
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import Blocks
from allocopt.reproduction import Records
from allocopt.simulator.window import windows
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver
from allocopt.solving.result import Result, Status
from allocopt.solving.solve import prepare, solve
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload
from papers.artifact import Artifact, Asked, Number, Printed, Record, means_over, published, seed_and_name

PUBLISHED = published("nsa")
WORKLOAD = "tjap/data_large_1800_40.txt.gz"
"""The workload file of the authors' repository hpcschedule, in the folder with the data."""
LEAST_JOBS = 3_000
"""Number of jobs in all epochs of Figure 6 together; the file has 100,000."""
EPOCHS, WINDOWS = 10, 100
QUICK_EPOCHS, QUICK_WINDOWS = 2, 30
LEADER = "NSA-500"


def read_paper_workload(asked: Asked) -> Workload:
    """Read the paper's workload; raises `BadFileError` if it is missing or truncated."""
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
    """A method that solves every window, with limits per window.

    ``steps`` are None for the solver's default, ``time_limit`` in seconds is None for no limit.
    """

    solver: Solver | str
    strategy: str
    steps: int | None = None
    time_limit: float | None = None

    def solve(self, problem: TopologyProblem, seed: int) -> Result:
        """Solve a window."""
        return solve(
            problem,
            strategy=self.strategy,
            solver=self.solver,
            time_limit=self.time_limit,
            seed=seed,
            iterations=self.steps,
        )


Methods = Mapping[str, Method]
RANDOM_REPAIR = Annealing(hottest=2.5, coldest=0.0025, most_removed=2)
"""NSA without its network: the same walk, temperatures and moves."""


def nsa_500(network: str = "cnn-3") -> Method:
    """Return NSA as in the paper's comparisons: 500 steps, relaxed."""
    return Method(Nsa(network), "free", 500)


def solved_windows(
    asked: Asked, key: str, methods: Methods, timed: Methods = MappingProxyType({})
) -> Iterator[tuple[TopologyProblem, dict[str, Result]]]:
    """Yield the windows of an epoch with the answers of all methods; that of `LEADER` decides which jobs start.

    The ``timed`` methods get as many steps as fit into the time of `LEADER`, measured on the same window.
    """
    seed, epoch = seed_and_name(key)[0], epoch_of(key)
    workload = read_paper_workload(asked)
    stretch = len(workload) // EPOCHS
    jobs = workload.stretch((epoch - 1) * stretch, min(stretch, JOBS_PER_EPOCH))
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
    """Return costs per job, and milliseconds and share of proofs per window, of an epoch by method."""
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
    """Return by how many per cent one method costs less than another."""
    return 100.0 * (1.0 - cost[better] / cost[than])


AVERAGE = "Avg."


def _beside(
    gains: Callable[[Mapping[str, float]], dict[str, float]], table: Printed
) -> Callable[[Records], list[Number]]:
    """Return a function that turns records into a row per epoch and means over epochs, with the paper's values.

    ``gains`` returns the columns that compare the costs of the methods.
    """

    def columns(record: Mapping[str, Any]) -> dict[str, float]:
        if "limited" in record:
            return dict(record["limited"])
        named = {f"{name} {measure}": value for measure in ("cost", "ms") for name, value in record[measure].items()}
        return {**named, **gains(record["cost"])}

    def printed(row: str, column: str) -> float | None:
        # The paper prints seconds; the columns are in milliseconds.
        name, factor = (f"{column.removesuffix(' ms')} s", 1e3) if column.endswith(" ms") else (column, 1.0)
        return table[row][name] * factor if name in table[row] else None

    def numbers(records: Records) -> list[Number]:
        found = [
            Number(piece, column, value, printed(f"epoch {epoch_of(piece)}", column), record["windows"])
            for piece, record in records.items()
            for column, value in columns(record).items()
        ]
        means = means_over(found, lambda row: AVERAGE)
        return [*found, *(mean._replace(published=printed(AVERAGE, mean.column)) for mean in means)]

    return numbers


@dataclass(frozen=True, slots=True)
class PermutedNsa(Nsa):
    """NSA with the trained weights permuted within each layer: a network that has learned nothing."""

    def loaded(self) -> tuple[Architecture, PackedNetwork]:
        """Return the architecture and its permuted weights, the same in every call."""
        architecture, network = Nsa.loaded(self)
        weights: Float32Array = network.weights.copy()
        rng = np.random.default_rng(0)
        for layer, first in zip(architecture.layers, network.layers[:, FIRST].tolist(), strict=True):
            rng.shuffle(weights[first : first + layer.n_parameters])
        return architecture, PackedNetwork(network.layers, weights)


def printed_temperature(steps: int) -> float:
    """Return the constant temperature of Algorithm 1 as printed, in hops.

    Line 11 of the algorithm lacks the step t, so that the temperature never changes after the first step.
    """
    return 2.5 * float(np.exp(-np.log(1000.0) / steps))


WALK = AnnealingAsPublished()
AS_RUN = Nsa(hottest=25.0, coldest=0.0025, sharpness=1.0, walk="published")
"""NSA in the walk of the authors' code: its temperatures, rejected moves stay, actions are drawn as in the training."""
TRIAL_STEPS = 1000
"""Number of steps that are timed on a window to find how many fit into a time."""
SAME_STEPS = "Algorithm 1, random repair, 500"
SAME_TIME = {
    "SA, time of NSA-500": Method(WALK, "free", TRIAL_STEPS),
    "annealing, time of NSA-500": Method(Annealing(), "dcas", TRIAL_STEPS),
}
IMPROVEMENTS = {
    "Impr. % on SA-1000": "SA-1000",
    **{f"Impr. % on {name.split(',')[0]} in equal time": name for name in SAME_TIME},
    "Impr. % on random repair, equal steps": SAME_STEPS,
    "Impr. % on permuted weights": "NSA-500, permuted weights",
    "Impr. % on zero weights": "NSA-500, zero weights",
}
METHODS_OF_THREE = {
    "Seq.": Method("sequential", "scas"),
    "SA-500": Method(WALK, "free", 500),
    "SA-1000": Method(WALK, "free", 1000),
    LEADER: nsa_500(),
    "NSA-500 in the published walk": Method(AS_RUN, "free", 500),
    "NSA-500, Algorithm 1 as printed": Method(
        Nsa(hottest=printed_temperature(500), coldest=printed_temperature(500), sharpness=1.0), "free", 500
    ),
    "SA-1000, Algorithm 1 as printed": Method(
        Annealing(printed_temperature(1000), printed_temperature(1000), most_removed=2), "dcas", 1000
    ),
    "NSA-500, permuted weights": Method(PermutedNsa(), "free", 500),
    # All logits are 0: uniform among the first 100 idle nodes.
    "NSA-500, zero weights": Method(Nsa(sharpness=0.0), "free", 500),
    SAME_STEPS: Method(RANDOM_REPAIR, "dcas", 500),
    "annealing-500": Method(Annealing(), "dcas", 500),
    "annealing-1000": Method(Annealing(), "dcas", 1000),
    "lns": Method("lns", "free"),
    "exact": Method("exact", "free", None, 10.0),
}

THREE = Artifact(
    "nsa-table3",
    "Table III of the NSA paper: SA and NSA over ten epochs of 100 windows",
    epoch_keys,
    lambda asked, piece: epoch_record(asked, piece, METHODS_OF_THREE, SAME_TIME),
    _beside(
        lambda cost: {column: improvement(cost, LEADER, than) for column, than in IMPROVEMENTS.items()},
        PUBLISHED["table3"],
    ),
)

OPTIMUM, SCIP = "SCAS optimum (dp)", "SCIP on the paper's model, limited"
SCIP_SUFFIX = ", SCIP"
LIMIT_S, QUICK_LIMIT_S = 30.0, 3.0
EVERY, QUICK_EVERY = 10, 15
"""SCIP solves one window out of this number."""


@dataclass(frozen=True, slots=True)
class _WatchedPaper(Paper):
    # Keeps the columns of every solution that SCIP reports, including those with cancelled jobs.
    shown: list[IntArray] = field(default_factory=list)

    def decode(self, chosen: IntArray) -> Allocation | None:
        self.shown.append(chosen)
        return Paper.decode(self, chosen)

    def started(self) -> tuple[int, float]:
        """Return the number of jobs that the last solution allocates, and their total cost."""
        if not self.shown:
            return 0, 0.0
        n_jobs, m = len(self.problem.jobs), len(self.problem.idle_nodes)
        jobs, starts = np.divmod(self.shown[-1][self.shown[-1] < n_jobs * m], m)
        rows = np.searchsorted(self.blocks.sizes, self.problem.sizes[jobs])
        return len(jobs), float(self.blocks.costs[rows, starts].sum())


@dataclass(frozen=True)
class _WatchedScip(ScipPaper):
    cancel: bool = True
    models: list[_WatchedPaper] = field(default_factory=list, repr=False, compare=False)

    def formulate(self, problem: TopologyProblem, blocks: Blocks, known: float | None = None) -> _WatchedPaper:
        self.models.append(_WatchedPaper(problem, blocks, self.cancel))
        return self.models[-1]


class Limited(NamedTuple):
    """Result of SCIP on a window in a limited time: cost of the allocated jobs, number of jobs left out, and others."""

    cost: float
    jobs: int
    cancelled: int
    is_proved: bool
    seconds: float


def solve_limited(problem: TopologyProblem, seconds: float) -> Limited:
    """Solve the paper's model of a window by SCIP."""
    solver, n_jobs = _WatchedScip(), len(problem.jobs)
    window = problem.with_strategy("scas")
    if solver.refusal(window) is not None:
        # The model is too large to build: no job is allocated within the limit.
        return Limited(0.0, n_jobs, n_jobs, False, seconds)
    prepare(solver, [window])
    result = solver.solve(window, Budget(seconds), 0).unless_interrupted()
    if result.status is Status.OPTIMAL:
        # If the cheapest blocks of all jobs are the optimum, the window is solved without SCIP.
        return Limited(float(result.objective or 0.0), n_jobs, 0, True, result.runtime_s)
    # On a busy machine the time may be over before the model is built.
    started, cost = solver.models[-1].started() if solver.models else (0, 0.0)
    return Limited(cost, n_jobs, n_jobs - started, False, result.runtime_s)


EXACT = {
    "SCIP on the pack model": Method("scip", "scas", None, 60.0),
    "HiGHS on the pack model": Method("highs", "scas", None, 60.0),
    "dp": Method("dp", "scas", None, 60.0),
}
"""Exact methods for the windows that SCIP solves with the paper's model: with the pack model, and without a model."""

METHODS_OF_FOUR = {
    OPTIMUM: Method("dp", "scas", None, 60.0),
    LEADER: nsa_500(),
    **{name: METHODS_OF_THREE[name] for name in ("SA-1000", "annealing-1000", "lns", "exact")},
}


def _keys_of_four(asked: Asked) -> list[str]:
    # SCIP with a limit solves only the epochs of the first seed.
    keys = epoch_keys(asked)
    return [*keys, *(key + SCIP_SUFFIX for key in keys if seed_and_name(key)[0] == asked.seeds[0])]


def _record_of_four(asked: Asked, piece: str) -> Record:
    if not piece.endswith(SCIP_SUFFIX):
        return epoch_record(asked, piece, METHODS_OF_FOUR)
    every, limit = asked.size((EVERY, LIMIT_S), (QUICK_EVERY, QUICK_LIMIT_S))
    solved, exact = [], []
    for number, (problem, _) in enumerate(solved_windows(asked, piece, {LEADER: nsa_500()}), 1):
        if number % every == 0:
            solved.append(solve_limited(problem, limit))
            exact.append({name: method.solve(problem, 0) for name, method in EXACT.items()})
    jobs = sum(window.jobs for window in solved)
    cancelled = sum(window.cancelled for window in solved)
    return {
        "windows": len(solved),
        "limited": {
            f"{SCIP} cost": sum(window.cost for window in solved) / max(1, jobs - cancelled),
            f"{SCIP} cancelled": cancelled / max(1, jobs),
            f"{SCIP} ms": 1e3 * fmean(window.seconds for window in solved),
            f"{SCIP} share finished": fmean(window.is_proved for window in solved),
            "SCAS optimum of the same windows cost": sum(one["dp"].objective or 0.0 for one in exact) / max(1, jobs),
            **{f"{name}, same windows ms": 1e3 * fmean(one[name].runtime_s for one in exact) for name in EXACT},
            **{
                f"{name}, same windows share proved": fmean(one[name].status is Status.OPTIMAL for one in exact)
                for name in EXACT
            },
        },
    }


FOUR = Artifact(
    "nsa-table4",
    "Table IV of the NSA paper: NSA against SCIP, over ten epochs of 100 windows",
    _keys_of_four,
    _record_of_four,
    _beside(
        lambda cost: {
            f"Impr. % of {name} on {OPTIMUM}": improvement(cost, name, OPTIMUM) for name in cost if name != OPTIMUM
        },
        PUBLISHED["table4"],
    ),
)
