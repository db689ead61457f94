"""Queue orders: priority rules that sort the waiting jobs, and policies that start any runnable job.

All orders use what is known of a job at its submission: its estimate r in seconds, its processors n and its submit time
s. Among equal jobs, the one submitted first comes first. Orders are data for compiled schedulers. Scores, such as that
of ``evolved-formula``, also use run times of the user's earlier jobs.

WFP3 and UNICEP are those of Tang, Lan, Desai and Buettner, "Fault-aware, utility-based job scheduling on Blue Gene/P
systems", CLUSTER 2009, doi:10.1109/CLUSTR.2009.5289206; F1 to F4 those of Carastan-Santos and de Camargo, "Obtaining
dynamic scheduling policies with simulation and machine learning", SC 2017, doi:10.1145/3126908.3126955. DRF is that of
Ghodsi, Zaharia, Hindman, Konwinski, Shenker and Stoica, "Dominant resource fairness: fair allocation of multiple
resource types", NSDI 2011. ``binpacking`` and ``random-runnable`` are the BinPacking and Random of the DRAS paper,
section 5.1: a job is runnable if its request is free, and no job has a reservation.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.errors import UsageError
from allocopt.simulator.decisions import Decision, Start
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.scoring import linear_network
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload

# Replaces log2(1) = 0 in a denominator. The published codes of F1 to F4 and of RLScheduler add 1e-15 to n.
LOG2_OF_ONE = float(np.log2(1.0 + 1e-15))


def _log_submit(jobs: Workload) -> FloatArray:
    # A job submitted within the first second counts as submitted at its end, because log10(0) is not finite.
    logs: FloatArray = np.log10(np.maximum(jobs.submit, 1.0))
    return logs


def _none(jobs: Workload) -> FloatArray:
    return np.zeros(len(jobs))


_RULES: Mapping[str, tuple[OrderKind, Callable[[Workload], FloatArray]]] = MappingProxyType(
    {
        # The order in which jobs join the queue.
        "fcfs": (OrderKind.ARRIVAL, _none),
        # The user with the lowest dominant share first. The dominant share is the largest of the shares of the
        # machine's resources that the user's running jobs have. All unknown users count as one user, so a trace
        # without users is served in the order of arrival.
        "drf": (OrderKind.FAIR_SHARE, _none),
        "sjf": (OrderKind.FIXED, lambda jobs: jobs.estimate),
        "ljf": (OrderKind.FIXED, lambda jobs: -jobs.estimate),
        "smallest-area": (OrderKind.FIXED, lambda jobs: jobs.estimate * jobs.processors),
        # The bin-packing order.
        "largest": (OrderKind.FIXED, lambda jobs: -jobs.processors.astype(np.float64)),
        # The highest (wait / r)^3 n first; its cube root gives the same order.
        "wfp3": (OrderKind.AGEING, lambda jobs: np.cbrt(jobs.processors) / jobs.estimate),
        # The highest wait / (r log2 n) first. It is not defined for jobs of one processor; they come before all others
        # once they have waited, as in the published codes.
        "unicep": (
            OrderKind.AGEING,
            lambda jobs: 1.0 / (np.maximum(np.log2(jobs.processors), LOG2_OF_ONE) * jobs.estimate),
        ),
        # F1: the lowest log10(r) n + 870 log10(s) first. F2 to F4 are similar.
        "f1": (OrderKind.FIXED, lambda jobs: np.log10(jobs.estimate) * jobs.processors + 870.0 * _log_submit(jobs)),
        "f2": (OrderKind.FIXED, lambda jobs: np.sqrt(jobs.estimate) * jobs.processors + 25_600.0 * _log_submit(jobs)),
        "f3": (OrderKind.FIXED, lambda jobs: jobs.estimate * jobs.processors + 6_860_000.0 * _log_submit(jobs)),
        "f4": (OrderKind.FIXED, lambda jobs: jobs.estimate * np.sqrt(jobs.processors) + 530_000.0 * _log_submit(jobs)),
    }
)


EVOLVED_FORMULA: Mapping[str, float] = MappingProxyType({"limit": 1.0, "predicted": 0.3, "starving": -5.0})
"""The score of ``evolved-formula``: the factor of each feature that it uses (`allocopt.simulator.scoring.FEATURES`).

docs/evolved_priority.md, section A formula, describes how they were found.
"""


@dataclass(frozen=True, slots=True)
class PriorityRule:
    """Queue order by a value of each job, the lowest first, unless the kind of order uses arrivals, waits or shares."""

    name: str  # such as ``sjf``; the comments of `_RULES` have formulas

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        """Return the value of every job."""
        kind, values = _RULES[self.name]
        return QueueKeys(kind, values(workload))


FirstComeFirstServed = partial(PriorityRule, "fcfs")
DominantResourceFairness = partial(PriorityRule, "drf")
ShortestJobFirst = partial(PriorityRule, "sjf")
LongestJobFirst = partial(PriorityRule, "ljf")
SmallestAreaFirst = partial(PriorityRule, "smallest-area")
LargestFirst = partial(PriorityRule, "largest")
Wfp3, Unicep = partial(PriorityRule, "wfp3"), partial(PriorityRule, "unicep")
F1, F2, F3, F4 = (partial(PriorityRule, f"f{number}") for number in range(1, 5))


class RandomOrder:
    """``random``: jobs in a uniformly random order that is drawn once."""

    name: ClassVar[str] = "random"

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        """Return a random number per job."""
        return QueueKeys(OrderKind.FIXED, rng.random(len(workload)))


@dataclass(frozen=True, slots=True, eq=False)
class NetworkOrder:
    """Order jobs by the score of a network, the lowest first; see `allocopt.simulator.scoring` for its weights."""

    network: FloatArray  # shape ``(F + 2, H + 1)``
    name: str = "network"

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        """Return the network."""
        return QueueKeys.by_score(len(workload), self.network)


def evolved_formula() -> NetworkOrder:
    """Order jobs by a linear score of a few features: short jobs first, but starving jobs rise."""
    return NetworkOrder(linear_network(EVOLVED_FORMULA), "evolved-formula")


def easy_plus_plus() -> ListScheduler:
    """Backfill as EASY++: by predicted run times, the shortest prediction first; time limits still end jobs.

    Tsafrir, Etsion and Feitelson, "Backfilling using system-generated predictions rather than user runtime estimates",
    TPDS 2007, 10.1109/TPDS.2007.70606.
    """
    shortest = NetworkOrder(linear_network({"predicted": 1.0}), "shortest-predicted")
    return ListScheduler(FirstComeFirstServed(), Backfill.EASY, shortest, predicts=True)


def bin_packing() -> ListScheduler:
    """Repeatedly start the largest runnable job: the queue order ``largest`` with first-fit backfilling."""
    return ListScheduler(LargestFirst(), Backfill.FIRST_FIT)


@dataclass(frozen=True, slots=True)
class RandomRunnable:
    """Repeatedly start a random runnable job, each equally likely at every scheduling point.

    In contrast, the queue order ``random`` draws one order for the whole simulation, in which an unlucky job stays
    last. Raises `UsageError` for a negative seed.
    """

    name: ClassVar[str] = "random-runnable"

    seed: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UsageError(f"the seed is {self.seed}, must not be negative")

    def schedule(self, view: View) -> Iterator[Decision]:
        """Start jobs in a random order that depends on seed and time, each if it still fits."""
        # Seeding with the bits of the time makes the order independent of other scheduling points. Adding 0.0 turns
        # -0.0, which has other bits, into 0.0.
        moment = int(np.float64(view.now + 0.0).view(np.uint64))
        queue = view.queue
        jobs = np.random.default_rng((self.seed, moment, len(queue))).permutation(queue)
        while len(jobs := jobs[view.fitting(jobs)]):
            yield Start(int(jobs[0]))
            jobs = jobs[1:]
