"""The gain by an allocator in a long run: the same jobs start at the same times, only their nodes differ.

Needs the folder with the data (``--data``), which is not part of the project, for the workload of the NSA authors'
repository hpcschedule. Takes some 15 minutes on an idle machine. ``--quick`` only prints the table of 2,200 jobs in
windows of 60 s.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.stats import t as student

from allocopt.arrays import FloatArray
from allocopt.cluster.platform import Platform
from allocopt.cluster.topology import FatTree
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.report.words import Cell, aligned_table
from allocopt.simulator.metrics import Trim, measure
from allocopt.simulator.rules import Backfill
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.simulator.window import TopologyAllocator, WindowScheduler
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, IncumbentCallback, Solver, get_solver
from allocopt.solving.result import Result, Status, StopReason
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload
from papers.pages import page_parser, write_page

BATCHES, BATCH, QUICK_BATCH = 20, 1000, 100
"""Number of batches whose means are compared, and of jobs of each; a further batch at either end is left out."""

TOPOLOGY = FatTree(10, 10, 10)
CLUSTER = Platform.whole_nodes(TOPOLOGY)
STEPS = 1000
CONFIDENCE = 0.95
BARS = {"sequential": 17.0, "best-fit": 4.0}
"""Savings in percent that `lns` must reach against each."""


@dataclass(frozen=True)
class Contender:
    """An allocator.

    Parameters
    ----------
    solver, strategy, steps
        The solver, its strategy, and its steps per window.
    leftover_hops
        Weight, in hops, of the weighted squares of the leftover nodes; 0 for only the hop cost of the jobs.
    """

    solver: str | Solver
    strategy: str = "free"
    steps: int | None = None
    leftover_hops: float = 0.0

    @property
    def label(self) -> str:
        name = self.solver if isinstance(self.solver, str) else self.solver.name
        if self.leftover_hops:
            return f"{name}, leftover counts"
        return name if self.strategy == "free" else f"{name} ({self.strategy})"

    def made(self) -> Solver:
        return get_solver(self.solver) if isinstance(self.solver, str) else self.solver


FAST = (
    Contender("sequential"),
    Contender("best-fit"),
    Contender("best-fit-by-level"),
    Contender("greedy"),
    Contender("lns", steps=STEPS),
    Contender("lns", steps=STEPS, leftover_hops=0.01),
)
PROOFS = (*FAST, Contender("dp", "scas"), Contender("dp", "dcas"), Contender("exact"))
"""Contenders of the run in which every window is solved to its optimum, with fewer jobs."""


@dataclass(eq=False)
class Watched:
    """A solver that records its time for each window, and the cost of the window under other solvers.

    Parameters
    ----------
    inner
        The solver that allocates.
    leftover_hops
        See `Contender`.
    others
        Further solvers, whose answers have no effect.
    seconds, costs
        Measures by window: seconds of ``inner``, hop costs of the ``others``.
    jobs
        Number of jobs of several nodes in each window.
    """

    inner: Solver
    leftover_hops: float = 0.0
    others: tuple[Contender, ...] = ()
    seconds: list[float] = field(default_factory=list)
    costs: list[list[float]] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def version(self) -> str:
        return self.inner.version

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def is_available(self) -> bool:
        return self.inner.is_available()

    def refusal(self, problem: TopologyProblem) -> str | None:
        return self.inner.refusal(problem)

    def solve(
        self,
        problem: TopologyProblem,
        budget: Budget,
        seed: int,
        warm_start: Allocation | None = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result:
        """Solve by the others, then by ``inner``, and measure its time."""
        self.jobs.append(len(problem.jobs))
        self.costs.append([_cost(problem, other, seed) for other in self.others])
        # The problem divides the squares of a leftover of m nodes by m.
        weighted = replace(problem, fragmentation_weight=self.leftover_hops * problem.n_left)
        started = time.perf_counter()
        result = self.inner.solve(weighted, budget, seed, warm_start, on_incumbent)
        self.seconds.append(time.perf_counter() - started)
        if not self.leftover_hops:
            return result
        # A proof for the combined objective proves nothing about the hop cost.
        cost = problem.objective(result.solution)
        return replace(result, objective=cost, bound=None, status=Status.FEASIBLE, stopped_by=StopReason.COMPLETED)


def _cost(problem: TopologyProblem, contender: Contender, seed: int) -> float:
    """Return the hop cost of a window with a contender."""
    asked = problem.with_strategy(contender.strategy)
    watched = Watched(contender.made(), contender.leftover_hops)
    return float(watched.solve(asked, Budget(None, contender.steps), seed).objective or 0.0)


@dataclass(frozen=True)
class Starts:
    """The rule that decides when jobs start, independently of the allocator.

    Parameters
    ----------
    period_s
        Period of the window rule in seconds; None for EASY backfilling at every event.
    """

    period_s: float | None

    @property
    def label(self) -> str:
        return "EASY" if self.period_s is None else f"{self.period_s:g} s"

    def simulate(self, workload: Workload, contender: Contender, solver: Solver) -> Schedule:
        """Simulate with a contender as the allocator."""
        if self.period_s is None:
            easy = ListScheduler(FirstComeFirstServed(), Backfill.EASY)
            allocator = TopologyAllocator(TOPOLOGY, solver, contender.strategy, None, contender.steps)
            return simulate(workload, CLUSTER, easy, allocator=allocator)
        windows = WindowScheduler(self.period_s, solver, contender.strategy, iterations=contender.steps)
        schedule = simulate(workload, CLUSTER, windows)
        assert not any(windows.log), "a window was allocated by another solver"
        return schedule


@dataclass(frozen=True)
class Outcome:
    """Results of a run.

    Parameters
    ----------
    contender, starts
        The allocator, and the start of each job.
    costs
        Mean hop cost per job of several nodes, by batch.
    fragmentation
        Mean over time at the leaves and at the pods, in percent.
    wait_s, utilization
        Mean wait in seconds, and share of the nodes that were busy.
    watched
        Measures by window.
    """

    contender: Contender
    starts: FloatArray
    costs: FloatArray
    fragmentation: tuple[float, float]
    wait_s: float
    utilization: float
    watched: Watched

    def saving(self, against: "Outcome") -> tuple[float, float]:
        """Return the mean saving in percent over the batches, and half the width of its confidence interval."""
        savings = 100 * (1 - self.costs / against.costs)
        quantile = float(student.ppf((1 + CONFIDENCE) / 2, len(savings) - 1))
        return float(savings.mean()), quantile * float(savings.std(ddof=1)) / len(savings) ** 0.5


SHOWN = ("sequential", "lns", "dp (scas)", "dp (dcas)", "exact")
"""Allocators that the page shows for the run in which every window is solved exactly."""


def outcome(workload: Workload, starts: Starts, contender: Contender, others: tuple[Contender, ...] = ()) -> Outcome:
    watched = Watched(contender.made(), contender.leftover_hops, others)
    schedule = starts.simulate(workload, contender, watched)
    left_out = 1 / (BATCHES + 2)
    metrics = measure(schedule, Trim(left_out, left_out))
    costs = schedule.hop_costs()
    fragmentation = metrics.machine.fragmentation
    assert costs is not None
    assert fragmentation is not None
    return Outcome(
        contender,
        schedule.start,
        np.nanmean(costs.reshape(BATCHES + 2, -1)[1:-1], axis=1),
        tuple(100 * (level or 0.0) for level in fragmentation),
        metrics.jobs.wait_s.mean,
        metrics.machine.utilization,
        watched,
    )


def outcomes(workload: Workload, starts: Starts, contenders: Sequence[Contender]) -> list[Outcome]:
    """Run all contenders on the same starts."""
    for contender in contenders:
        # Load kernels before the first window is timed.
        starts.simulate(workload.first(100), contender, contender.made())
    found = []
    for contender in contenders:
        found.append(outcome(workload, starts, contender))
        print(f"{starts.label}: {contender.label} {found[-1].costs.mean():,.0f}", file=sys.stderr)
    assert all((one.starts == found[0].starts).all() for one in found), "starts depend on the allocator"
    return found


HEADER = ("starts", "allocator", "hop cost", "under sequential %", "+/-", "fragm. leaf %", "ms")
DIGITS = (None, None, 0, 2, 2, 1, 2)


def rows(starts: Starts, found: list[Outcome]) -> Iterator[list[Cell]]:
    sequential = next(one for one in found if one.contender.label == "sequential")
    for one in found:
        facts = one.fragmentation[0], 1e3 * float(np.mean(one.watched.seconds))
        yield [starts.label, one.contender.label, float(one.costs.mean()), *one.saving(sequential), *facts]


def table(runs: dict[Starts, list[Outcome]]) -> str:
    return aligned_table(HEADER, [row for starts, found in runs.items() for row in rows(starts, found)], DIGITS)


def verdict(runs: dict[Starts, list[Outcome]]) -> str:
    """Return a table that compares the savings of `lns` with its goals."""
    lines: list[list[Cell]] = []
    for starts, found in runs.items():
        lns = next(one for one in found if one.contender.label == "lns")
        for other in (one for one in found if one.contender.label in BARS):
            saving, half = lns.saving(other)
            bar = BARS[other.contender.label]
            lines.append([starts.label, other.contender.label, saving, half, bar, judged(saving, half, bar)])
    header = ("starts", "`lns` under", "%", "+/-", "asked %", "reached")
    return aligned_table(header, lines, (None, None, 2, 2, 0, None))


def judged(saving: float, half: float, bar: float) -> str:
    """Return whether a saving reaches its goal, and whether the whole interval does."""
    return "yes" if saving - half >= bar else "within the interval" if saving >= bar else "NO"


def fragments(workload: Workload, starts: Starts) -> str:
    """Return a table of the costs of each allocator in the windows of runs with the others."""
    lines: list[list[Cell]] = []
    for leader in FAST:
        watched = outcome(workload, starts, leader, FAST).watched
        costs = np.array(watched.costs).sum(axis=0) / sum(watched.jobs)
        lines.append([leader.label, *costs.tolist()])
    header = ("windows left by", *(contender.label for contender in FAST))
    return aligned_table(header, lines, (None, *(0 for _ in FAST)))


def assumed(workload: Workload) -> str:
    load = float((workload.run * workload.processors).sum()) / (workload.submit[-1] * TOPOLOGY.size)
    return (
        f"The first {len(workload):,} jobs of the NSA authors' workload on their 1,000 nodes, 10 pods of 10 leaves of "
        f"10; they offer a load of {load:.2f}. Jobs start by the window rule of the NSA paper at multiples of a "
        "period, or by EASY at every event; **every allocator gets the same jobs at the same times** (checked), on "
        f"the nodes that are idle in its own run. `lns` takes {STEPS} steps a window, nothing has a time limit, seed "
        f"0. Hop costs are means over the jobs of two or more nodes in {BATCHES} batches of "
        f"{len(workload) // (BATCHES + 2):,} jobs, one more batch before and after them left out; savings are means "
        f"over the batches, +/- half the width of the {100 * CONFIDENCE:.0f} % confidence interval. Fragmentation is "
        "that of docs/simulator.md, mean over time; ms is the mean time of the solver per window. `best-fit by "
        "level` places the largest job first and keeps within pods."
    )


def main() -> None:
    options = page_parser(__doc__, data="tjap/", quick="the table of 2,200 jobs in windows of 60 s").parse_args()
    every = read_workload(options.data / "tjap" / "data_large_1800_40.txt.gz")
    workload, few = (every.first((BATCHES + 2) * batch) for batch in (BATCH, QUICK_BATCH))
    longest = Starts(60)
    if options.quick:
        print(table({longest: outcomes(few, longest, FAST)}))
        return
    runs = {starts: outcomes(workload, starts, FAST) for starts in (longest, Starts(30), Starts(10), Starts(None))}
    write_page(
        "paired_run",
        "The gain by an allocator in a long run",
        "Over 22,000 jobs that start at the same times, `lns` saves 10 to 19 % of the hop cost of sequential "
        "allocation and 8 to 14 % of that of best-fit, more with longer periods; greedy saves 9 to 16 % of that of "
        "sequential allocation. The goals for a period of 10 s and for EASY are not reached.",
        [
            table({starts: found for starts, found in runs.items() if starts.period_s in (60, None)}),
            "## Goals for `lns`",
            verdict(runs),
            f"## Do better windows leave better fragments? (period {longest.label})",
            "Each row is a run with one allocator, whose windows the others solve too: mean hop cost per job. "
            "`leftover counts`: the weighted squares of the leftover nodes in each leaf and pod count 0.01 hops.",
            fragments(workload, longest),
            f"## Every window exactly: the first {len(few):,} jobs, period {longest.label}",
            table({longest: [one for one in outcomes(few, longest, PROOFS) if one.contender.label in SHOWN]}),
        ],
        assumed(workload),
    )


if __name__ == "__main__":
    main()
