"""Queue orders: priority rules that say which waiting job stands first, and policies that start whatever is runnable.

All orders know of a job what its user said: its estimate r in seconds, its processors n and its submit time s. Among
equals the job submitted first stands first. They are data that compiled schedulers follow.

WFP3 and UNICEP are those of Tang, Lan, Desai and Buettner, "Fault-aware, utility-based job scheduling on Blue Gene/P
systems", CLUSTER 2009, doi:10.1109/CLUSTR.2009.5289206; F1 to F4 those of Carastan-Santos and de Camargo, "Obtaining
dynamic scheduling policies with simulation and machine learning", SC 2017, doi:10.1145/3126908.3126955. ``binpacking``
and ``random-runnable`` are the BinPacking and Random of the DRAS paper, section 5.1: a job is runnable if what it asks
for is free, and nothing is promised to the others.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.errors import UsageError
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys
from allocopt.simulator.scheduler import Decision, ListScheduler, Start
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload

# What stands for log2(1) = 0 in a denominator: the published codes of F1 to F4 and of RLScheduler add 1e-15 to n.
LOG2_OF_ONE = float(np.log2(1.0 + 1e-15))


class _ValuedOrder:
    """An order by a value of each job, the lowest first or as the kind says; a kind may look at no value."""

    name: ClassVar[str]
    kind: ClassVar[OrderKind]
    _values: ClassVar[Callable[[Workload], FloatArray]]

    def __init_subclass__(
        cls,
        *,
        name: str,
        values: Callable[[Workload], FloatArray] = lambda jobs: np.zeros(len(jobs)),
        kind: OrderKind = OrderKind.FIXED,
    ) -> None:
        super().__init_subclass__()
        cls.name, cls.kind, cls._values = name, kind, staticmethod(values)

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        """Return the value of every job."""
        return QueueKeys(self.kind, type(self)._values(workload))


def _log_submit(jobs: Workload) -> FloatArray:
    # A job of the first second counts as submitted at its end, since log10(0) is not finite.
    logs: FloatArray = np.log10(np.maximum(jobs.submit, 1.0))
    return logs


class FirstComeFirstServed(_ValuedOrder, name="fcfs", kind=OrderKind.ARRIVAL):
    """``fcfs``: jobs in the order in which they join the queue."""


class DominantResourceFairness(_ValuedOrder, name="drf", kind=OrderKind.FAIR_SHARE):
    """``drf``: jobs of the user with the lowest dominant share first.

    A user's dominant share is the largest of the shares of the machine's resources that the user's running jobs hold.
    Jobs of unknown users count as one user's, so that a trace without users is served as it arrives.

    Source: Ghodsi, Zaharia, Hindman, Konwinski, Shenker and Stoica, "Dominant resource fairness: fair allocation of
    multiple resource types", NSDI 2011.
    """


class ShortestJobFirst(_ValuedOrder, name="sjf", values=lambda jobs: jobs.estimate):
    """``sjf``: the shortest estimate first."""


class LongestJobFirst(_ValuedOrder, name="ljf", values=lambda jobs: -jobs.estimate):
    """``ljf``: the longest estimate first."""


class SmallestAreaFirst(_ValuedOrder, name="smallest-area", values=lambda jobs: jobs.estimate * jobs.processors):
    """``smallest-area``: the smallest product of estimate and processors first."""


class LargestFirst(_ValuedOrder, name="largest", values=lambda jobs: -jobs.processors.astype(np.float64)):
    """``largest``: most processors first, the bin-packing order."""


class Wfp3(
    _ValuedOrder, name="wfp3", kind=OrderKind.AGEING, values=lambda jobs: np.cbrt(jobs.processors) / jobs.estimate
):
    """``wfp3``: the highest (wait / r)^3 n first (Tang et al. 2009); the cube root of it orders alike."""


class Unicep(
    _ValuedOrder,
    name="unicep",
    kind=OrderKind.AGEING,
    values=lambda jobs: 1.0 / (np.maximum(np.log2(jobs.processors), LOG2_OF_ONE) * jobs.estimate),
):
    """``unicep``: the highest wait / (r log2 n) first (Tang et al. 2009).

    Jobs of one processor, for which that is not defined, stand before all others once they have waited, as in the
    published codes.
    """


class F1(
    _ValuedOrder,
    name="f1",
    values=lambda jobs: np.log10(jobs.estimate) * jobs.processors + 870.0 * _log_submit(jobs),
):
    """``f1``: the lowest log10(r) n + 870 log10(s) first (Carastan-Santos and de Camargo 2017)."""


class F2(
    _ValuedOrder,
    name="f2",
    values=lambda jobs: np.sqrt(jobs.estimate) * jobs.processors + 25_600.0 * _log_submit(jobs),
):
    """``f2``: the lowest sqrt(r) n + 25,600 log10(s) first (Carastan-Santos and de Camargo 2017)."""


class F3(
    _ValuedOrder, name="f3", values=lambda jobs: jobs.estimate * jobs.processors + 6_860_000.0 * _log_submit(jobs)
):
    """``f3``: the lowest r n + 6,860,000 log10(s) first (Carastan-Santos and de Camargo 2017)."""


class F4(
    _ValuedOrder,
    name="f4",
    values=lambda jobs: jobs.estimate * np.sqrt(jobs.processors) + 530_000.0 * _log_submit(jobs),
):
    """``f4``: the lowest r sqrt(n) + 530,000 log10(s) first (Carastan-Santos and de Camargo 2017)."""


class RandomOrder:
    """``random``: jobs in an order drawn once, every one equally likely."""

    name: ClassVar[str] = "random"

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        """Return a random number per job."""
        return QueueKeys(OrderKind.FIXED, rng.random(len(workload)))


def bin_packing() -> ListScheduler:
    """Start the largest runnable job, again and again: the queue order ``largest`` with first-fit backfilling."""
    return ListScheduler(LargestFirst(), Backfill.FIRST_FIT)


@dataclass(frozen=True, slots=True)
class RandomRunnable:
    """Start a random runnable job, again and again, every one equally likely at every scheduling point.

    The queue order ``random`` draws one order for the whole simulation instead, in which an unlucky job stays last. A
    negative seed is a `UsageError`.
    """

    name: ClassVar[str] = "random-runnable"

    seed: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UsageError(f"the seed is {self.seed}, must not be negative")

    def schedule(self, view: View) -> Iterator[Decision]:
        """Start jobs in an order drawn from seed and time, each if it still fits."""
        # The bits of the time: what is drawn at a moment depends on no other one. -0.0 has other bits than 0.0.
        moment = int(np.float64(view.now + 0.0).view(np.uint64))
        queue = view.queue
        jobs = np.random.default_rng((self.seed, moment, len(queue))).permutation(queue)
        while len(jobs := jobs[view.fitting(jobs)]):
            yield Start(int(jobs[0]))
            jobs = jobs[1:]
