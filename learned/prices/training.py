"""Training ``lns-prices``: on replays on clusters of many shapes, and on synthetic windows with many idle nodes."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from allocopt.cluster.options import FatTreeOptions
from allocopt.cluster.topology import FatTree
from allocopt.errors import UsageError
from allocopt.learned.rl.training import DeclaredTraining, Trained, option
from allocopt.learned.rl.workers import Workers
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.generate import drawn_window
from allocopt.simulator.window import solver_allocator, windows
from allocopt.solving.protocol import get_solver
from allocopt.solving.solve import solve
from allocopt.traces.generators import uniform_workload

if TYPE_CHECKING:
    from allocopt.learned.prices.learner import PriceLearner

MOST_IDLE = 4000  # Idle nodes of the largest training windows
MOST_EXACT, STATES = 8, 50_000  # Most jobs of a window for which ``exact`` is tried, and its limit of states
EVALUATION_SEEDS = range(1_000_000, 2_000_000)  # Seeds of windows that no training uses, besides the shipped windows
UNSEEN = FatTree(25, 4, 10)  # Cluster of the NSA paper's repository, from which no training window comes
ALLOCATORS = (("greedy", "free"), ("best-fit", "free"), ("sequential", "scas"), ("annealing", "dcas"))


@dataclass(frozen=True)
class LnsPricesTraining(DeclaredTraining["PriceLearner"]):
    """Trains the network of `lns-prices` on windows of the paper's workload on clusters of many shapes."""

    updates: int = option(12_000, least=1)
    windows: int = option(1500, least=1)  # Windows of the paper's cluster; as many come from clusters of other shapes
    large_windows: int = option(300, least=0)  # Windows of 300 to 4,000 idle nodes
    # Steps of the search that finds allocations to imitate in windows that ``exact`` does not solve
    label_steps: int = option(20_000, least=1)

    name: ClassVar[str] = "lns-prices"

    @property
    def n_updates(self) -> int:
        return self.updates

    def check_seed(self, seed: int) -> None:
        super().check_seed(seed)
        if seed in EVALUATION_SEEDS:
            raise UsageError(f"seed {seed} is reserved for evaluation; take one below {EVALUATION_SEEDS.start}")

    def card_settings(self) -> dict[str, Any]:
        from allocopt.learned.prices.learner import Settings

        return {**asdict(self), **asdict(Settings())}

    def result(self, learner: "PriceLearner") -> Trained:
        return "prices", learner.network.weights()._asdict(), {}

    def _learner(self, seed: int, workers: Workers) -> "PriceLearner":
        from allocopt.learned.prices.learner import Case, PriceLearner

        rng = np.random.default_rng(seed)
        few = [*_paper_like(rng, self.windows), *_of_any_shape(rng, self.windows)]
        many = _large(rng, self.large_windows, MOST_IDLE)
        cases: list[Case] = []
        large: list[Case] = []
        for problems, known in ((few, cases), (many, large)):
            for problem in problems:
                if len(problem.jobs) <= MOST_EXACT:
                    result = solve(
                        problem, strategy="free", solver=get_solver("exact", {"states": STATES}), time_limit=None
                    )
                else:
                    result = solve(problem, strategy="free", solver="lns", time_limit=None, iterations=self.label_steps)
                known.append(Case(problem, result.found()))
        return PriceLearner(cases, large, seed)


def _replayed(rng: np.random.Generator, topology: FatTree, count: int, most: int = 40) -> Iterator[TopologyProblem]:
    # Replay the NSA paper's workload, with jobs of at most ``most`` nodes, under a random simple allocator.
    name, strategy = ALLOCATORS[int(rng.integers(len(ALLOCATORS)))]
    allocate = solver_allocator(name, strategy, 100, rng)
    # Make the cluster as busy as the paper's: arriving jobs ask for a fifth more than it has.
    scale = 1000 * most / (40 * topology.size)
    gap_s = (max(1, round(5 * scale)), max(2, round(30 * scale)))
    workload = uniform_workload(40 * count + 400, rng, (1, most), gap_s=gap_s).fitting(topology.size)
    skip = int(rng.integers(10, 100))
    yield from islice(windows(workload, topology, 60.0, allocate, skip=skip, max_jobs=40), count)


def _paper_like(rng: np.random.Generator, count: int) -> Iterator[TopologyProblem]:
    """Yield windows of the paper's cluster."""
    while count > 0:
        some = min(count, 100)
        yield from _replayed(rng, FatTree(10, 10, 10), some)
        count -= some


def _of_any_shape(rng: np.random.Generator, count: int) -> Iterator[TopologyProblem]:
    """Yield windows of fat trees of random shapes, never those of `UNSEEN`."""
    found = 0
    while found < count:
        pods, leaves, nodes = int(rng.integers(3, 21)), int(rng.integers(2, 17)), int(rng.integers(4, 33))
        topology = FatTree(pods, leaves, nodes)
        if (pods, leaves) == (UNSEEN.pods, UNSEEN.leaves_per_pod) or not 300 <= topology.size <= 4000:
            continue
        for problem in _replayed(rng, topology, 10, int(rng.integers(15, 61))):
            found += 1
            yield problem


def _large(rng: np.random.Generator, count: int, most_idle: int) -> Iterator[TopologyProblem]:
    """Yield synthetic windows of 300 to ``most_idle`` idle nodes, which are a quarter to half of the cluster."""
    for _ in range(count):
        n_idle = int(np.exp(rng.uniform(np.log(300), np.log(most_idle))))
        nodes, leaves = int(rng.integers(10, 41)), int(rng.integers(8, 41))
        pods = max(4, round(n_idle * rng.uniform(2.0, 4.0) / (nodes * leaves)))
        most = int(rng.integers(20, 80))
        mean = (2 + most) / 2
        n_jobs = max(4, round(n_idle * rng.uniform(0.8, 1.0) / mean))
        idle, mean_run = min(n_idle, pods * leaves * nodes), float(rng.uniform(3.0, 15.0))
        tree = FatTreeOptions(pods, leaves, nodes)
        yield drawn_window("synthetic", rng, idle, n_jobs, 2, most, mean_run, tree=tree)
