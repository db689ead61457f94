"""An evolution strategy that finds the numbers of a queue order: its candidates schedule blocks of jobs of traces."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.cluster.cluster import Cluster
from allocopt.simulator.rules import Backfill, QueueOrder
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.variants import Interval, varied_run_times
from allocopt.traces.workload import Workload
from heuristics.scheduling.queue_orders import FirstComeFirstServed, NetworkOrder
from learned.priorities.goals import WAIT_S, Goal, Waits
from learned.priorities.network import first_parameters, network_of, parameters_of
from learned.rl.evolution import EvolutionLearner

EASY = ListScheduler(FirstComeFirstServed(), Backfill.EASY)


class Site(NamedTuple):
    """A trace and the machine that it runs on, or its number of processors."""

    workload: Workload
    machine: int | Cluster


class Family(Protocol):
    """Queue orders that differ by a vector of numbers."""

    def first(self, rng: np.random.Generator) -> FloatArray:
        """Return the numbers to begin with, about as large as the steps of evolution."""

    def order(self, parameters: FloatArray) -> QueueOrder:
        """Return the queue order of some numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    """The orders by scores of networks with so many hidden neurons, in which some features count.

    Raises ValueError if the network to begin with, if there is one, has another number of hidden neurons.
    """

    features: tuple[str, ...]
    hidden: int
    start: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.start is not None:
            parameters_of(self.start, self.features, self.hidden)

    def first(self, rng: np.random.Generator) -> FloatArray:
        """Return the numbers of the network to begin with."""
        if self.start is None:
            return first_parameters(self.features, self.hidden, rng)
        return parameters_of(self.start, self.features, self.hidden)

    def order(self, parameters: FloatArray) -> NetworkOrder:
        """Return the order by a network."""
        return NetworkOrder(network_of(parameters, self.features, self.hidden))


@dataclass(frozen=True, slots=True)
class Evolution:
    """How queue orders are evolved.

    Parameters
    ----------
    goal
        The loss of a block.
    population
        Candidates of a generation.
    blocks
        Blocks that each candidate of a generation schedules, the same for all; the traces take turns.
    block_jobs
        Consecutive jobs of a block.
    sigma
        Standard deviation of the first candidates.
    jitter
        Standard deviation of what run times are varied by, as a logarithm.
    threads
        Simulations at a time.
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
        """Return the losses of the orders of candidates on new blocks."""
        n_blocks = self._evolution.blocks
        blocks = [self.drawn(self._generations * n_blocks + at) for at in range(n_blocks)]
        return self.losses_on(list(map(self._family.order, candidates)), blocks)

    def drawn(self, number: int) -> Site:
        """Draw a block of the trace whose turn it is."""
        site = self._sites[number % len(self._sites)]
        jobs = min(self._evolution.block_jobs, len(site.workload))
        first = int(self._rng.integers(len(site.workload) - jobs + 1))
        block = varied_run_times(site.workload.stretch(first, jobs), self._rng, self._evolution.jitter)
        return Site(block, site.machine)

    def losses_on(self, orders: Sequence[QueueOrder], blocks: Sequence[Site]) -> FloatArray:
        """Return the loss of each order on each block, shape ``(orders, blocks)``."""
        # EASY first, which also compiles what is called.
        easy = [_waits(EASY, block) for block in blocks]
        _waits(scheduler_of(orders[0]), blocks[0])
        runs: list[Callable[[], Waits]] = [
            partial(_waits, scheduler_of(order), block) for order in orders for block in blocks
        ]
        # Kernels let other threads run meanwhile.
        with ThreadPoolExecutor(self._evolution.threads) as pool:
            found = list(pool.map(lambda run: run(), runs))
        losses = [self._evolution.goal.loss(waits, easy[at % len(blocks)]) for at, waits in enumerate(found)]
        return np.array(losses).reshape(len(orders), len(blocks))


def worth(order: QueueOrder, site: Site, variants: int, jitter: float, rng: np.random.Generator) -> Interval:
    """Return what an order is worth on so many variants of a trace: the mean wait over that of EASY."""
    ratios = []
    for _ in range(variants):
        variant = Site(varied_run_times(site.workload, rng, jitter), site.machine)
        easy, found = _waits(EASY, variant), _waits(scheduler_of(order), variant)
        ratios.append((found.mean_s + WAIT_S) / (easy.mean_s + WAIT_S))
    return Interval.of(np.array(ratios))


def _waits(scheduler: ListScheduler, block: Site) -> Waits:
    return Waits.of(simulate(block.workload, block.machine, scheduler))
