"""An evolution strategy that finds the numbers of a queue order: its candidates schedule blocks of jobs of traces."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from cmaes import SepCMA

from allocopt.arrays import FloatArray
from allocopt.cluster.cluster import Cluster
from allocopt.errors import UsageError
from allocopt.simulator.rules import Backfill, QueueOrder
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.variants import Interval, varied_run_times
from allocopt.traces.workload import Workload
from heuristics.scheduling.queue_orders import FirstComeFirstServed, NetworkOrder
from learned.priorities.goals import WAIT_S, Goal, Waits
from learned.priorities.network import first_parameters, network_of, parameters_of

AVERAGED = 40  # latest generations that the numbers are averaged over, about
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


class PriorityLearner:
    """Evolves a queue order by CMA-ES with a diagonal covariance.

    Ros and Hansen, PPSN 2008, 10.1007/978-3-540-87700-4_30. An update (`learned.rl.workers.Learner`) is a generation.
    """

    def __init__(self, sites: Sequence[Site], evolution: Evolution, family: Family, seed: int) -> None:
        self._sites, self._evolution, self._family = sites, evolution, family
        self._rng = np.random.default_rng(seed)
        first = family.first(self._rng)
        self._strategy = SepCMA(first, evolution.sigma, seed=0, population_size=evolution.population)
        self._generations = 0
        self._average = first.copy()

    @property
    def parameters(self) -> FloatArray:
        """The numbers of the mean of the candidates, averaged over the last generations: each sees other blocks."""
        return self._average.copy()

    def update(self, share: float) -> dict[str, float]:
        """Let a generation schedule new blocks, and learn which of its candidates did best."""
        evolution, strategy = self._evolution, self._strategy
        strategy.reseed_rng(int(self._rng.integers(2**32)))
        candidates = [strategy.ask() for _ in range(evolution.population)]
        blocks = [self.drawn(self._generations * evolution.blocks + at) for at in range(evolution.blocks)]
        losses = self.losses(list(map(self._family.order, candidates)), blocks).mean(axis=1)
        if not np.isfinite(losses).all():
            raise UsageError("the training diverged: a loss is not a finite number")
        strategy.tell(list(zip(candidates, losses.tolist(), strict=True)))
        self._generations += 1
        self._average += (strategy.mean - self._average) * max(1 / self._generations, 1 / AVERAGED)
        samples = float(self._generations * evolution.population)
        return {"samples": samples, "mean_return": -float(losses.mean()), "best_return": -float(losses.min())}

    def snapshot(self) -> dict[str, Any]:
        """Return all that changes."""
        strategy = self._strategy.__getstate__()
        return {
            # Checkpoints hold Python's numbers, not numpy's.
            "strategy": {name: one.item() if isinstance(one, np.generic) else one for name, one in strategy.items()},
            "rng": self._rng.bit_generator.state,
            "generations": self._generations,
            "average": self._average.copy(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        self._strategy.__setstate__(snapshot["strategy"])
        self._rng.bit_generator.state = snapshot["rng"]
        self._generations, self._average = snapshot["generations"], snapshot["average"]

    def drawn(self, number: int) -> Site:
        """Draw a block of the trace whose turn it is."""
        site = self._sites[number % len(self._sites)]
        jobs = min(self._evolution.block_jobs, len(site.workload))
        first = int(self._rng.integers(len(site.workload) - jobs + 1))
        block = varied_run_times(site.workload.stretch(first, jobs), self._rng, self._evolution.jitter)
        return Site(block, site.machine)

    def losses(self, orders: Sequence[QueueOrder], blocks: Sequence[Site]) -> FloatArray:
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
