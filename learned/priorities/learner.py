"""An evolution strategy for the numbers of a queue order; each candidate schedules blocks of jobs of traces."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.cluster.cluster import Cluster
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed, NetworkOrder
from allocopt.learned.priorities.goals import WAIT_S, Goal, Waits
from allocopt.learned.priorities.network import first_parameters, network_of, parameters_of
from allocopt.learned.rl.evolution import EvolutionLearner
from allocopt.simulator.rules import Backfill, QueueOrder
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.variants import Interval, varied_run_times
from allocopt.traces.workload import Workload

EASY = ListScheduler(FirstComeFirstServed(), Backfill.EASY)


class Site(NamedTuple):
    """A trace and its machine, which is a cluster or a number of processors."""

    workload: Workload
    machine: int | Cluster


class Family(Protocol):
    """Queue orders that differ by a vector of numbers."""

    def first(self, rng: np.random.Generator) -> FloatArray:
        """Return the initial numbers; the numbers are scaled so that the same step size suits all of them."""

    def order(self, parameters: FloatArray) -> QueueOrder:
        """Return the queue order with these numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    """Queue orders by the scores of networks that use some features and have ``hidden`` hidden neurons.

    ``start`` is the initial network, None for the default. Raises ValueError if it has another number of hidden
    neurons.
    """

    features: tuple[str, ...]
    hidden: int
    start: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.start is not None:
            parameters_of(self.start, self.features, self.hidden)

    def first(self, rng: np.random.Generator) -> FloatArray:
        """Return the numbers of the initial network."""
        if self.start is None:
            return first_parameters(self.features, self.hidden, rng)
        return parameters_of(self.start, self.features, self.hidden)

    def order(self, parameters: FloatArray) -> NetworkOrder:
        """Return the order by the network with these numbers."""
        return NetworkOrder(network_of(parameters, self.features, self.hidden))


@dataclass(frozen=True, slots=True)
class Evolution:
    """Settings of the evolution of queue orders.

    Parameters
    ----------
    goal
        The loss of a block.
    population
        Number of candidates of a generation.
    blocks
        Number of blocks per generation, drawn from the traces in turn; every candidate schedules all of them.
    block_jobs
        Number of consecutive jobs of a block.
    sigma
        Standard deviation of the first candidates.
    jitter
        Standard deviation of the logarithm of the factors by which run times are varied.
    threads
        Number of simulations that run in parallel.
    """

    goal: Goal
    population: int
    blocks: int
    block_jobs: int
    sigma: float
    jitter: float
    threads: int


def scheduler_of(order: QueueOrder) -> ListScheduler:
    """Return EASY backfilling in an order."""
    return ListScheduler(order, Backfill.EASY)


class PriorityLearner(EvolutionLearner):
    """Evolves a queue order; a case is a block of jobs of one of the sites."""

    def __init__(self, sites: Sequence[Site], evolution: Evolution, family: Family, seed: int) -> None:
        self._sites, self._evolution, self._family = sites, evolution, family
        rng = np.random.default_rng(seed)
        super().__init__(family.first(rng), evolution.population, evolution.sigma, rng)

    def losses(self, candidates: Sequence[FloatArray]) -> FloatArray:
        """Return the losses of the candidates' orders on new blocks."""
        n_blocks = self._evolution.blocks
        blocks = [self.drawn(self._generations * n_blocks + at) for at in range(n_blocks)]
        return self.losses_on(list(map(self._family.order, candidates)), blocks)

    def drawn(self, number: int) -> Site:
        """Draw block ``number``; successive blocks come from the traces in turn."""
        site = self._sites[number % len(self._sites)]
        jobs = min(self._evolution.block_jobs, len(site.workload))
        first = int(self._rng.integers(len(site.workload) - jobs + 1))
        block = varied_run_times(site.workload.stretch(first, jobs), self._rng, self._evolution.jitter)
        return Site(block, site.machine)

    def losses_on(self, orders: Sequence[QueueOrder], blocks: Sequence[Site]) -> FloatArray:
        """Return the loss of each order on each block, shape ``(orders, blocks)``."""
        # Run EASY first; this also compiles the kernels before threads start.
        easy = [_waits(EASY, block) for block in blocks]
        _waits(scheduler_of(orders[0]), blocks[0])
        runs: list[Callable[[], Waits]] = [
            partial(_waits, scheduler_of(order), block) for order in orders for block in blocks
        ]
        # Kernels release the GIL, so that threads run in parallel.
        with ThreadPoolExecutor(self._evolution.threads) as pool:
            found = list(pool.map(lambda run: run(), runs))
        losses = [self._evolution.goal.loss(waits, easy[at % len(blocks)]) for at, waits in enumerate(found)]
        return np.array(losses).reshape(len(orders), len(blocks))


def worth(order: QueueOrder, site: Site, variants: int, jitter: float, rng: np.random.Generator) -> Interval:
    """Return the mean wait of an order over that of EASY, with its interval over ``variants`` variants of a trace."""
    ratios = []
    for _ in range(variants):
        variant = Site(varied_run_times(site.workload, rng, jitter), site.machine)
        easy, found = _waits(EASY, variant), _waits(scheduler_of(order), variant)
        ratios.append((found.mean_s + WAIT_S) / (easy.mean_s + WAIT_S))
    return Interval.of(np.array(ratios))


def _waits(scheduler: ListScheduler, block: Site) -> Waits:
    return Waits.of(simulate(block.workload, block.machine, scheduler))
