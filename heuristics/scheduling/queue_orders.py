"""Queue orders: priority rules that say which waiting job stands first, as data that compiled schedulers follow.

All rules know of a job what its user said: its estimate r in seconds, its processors n and its submit time s. Among
equals the job submitted first stands first.

WFP3 and UNICEP are those of Tang, Lan, Desai and Buettner, "Fault-aware, utility-based job scheduling on Blue Gene/P
systems", CLUSTER 2009, doi:10.1109/CLUSTR.2009.5289206; F1 to F4 those of Carastan-Santos and de Camargo, "Obtaining
dynamic scheduling policies with simulation and machine learning", SC 2017, doi:10.1145/3126908.3126955.
"""

from typing import ClassVar

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.simulator.rules import OrderKind, QueueKeys
from allocopt.traces.workload import Workload

LOG2_OF_ONE = float(np.log2(1.0 + 1e-15))
"""What stands for log2(1) = 0 in a denominator: the published codes of F1 to F4 and of RLScheduler add 1e-15 to n."""


class ValuedOrder:
    """An order by a value of each job, the lowest first or as the kind says; a kind may look at no value."""

    name: ClassVar[str]
    kind: ClassVar[OrderKind] = OrderKind.FIXED

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        """Return the value of every job."""
        return QueueKeys(self.kind, self._values(workload))

    def _values(self, workload: Workload) -> FloatArray:
        return np.zeros(len(workload))


class FirstComeFirstServed(ValuedOrder):
    """``fcfs``: jobs in the order in which they join the queue."""

    name: ClassVar[str] = "fcfs"
    kind: ClassVar[OrderKind] = OrderKind.ARRIVAL


class DominantResourceFairness(ValuedOrder):
    """``drf``: jobs of the user with the lowest dominant share first.

    A user's dominant share is the largest of the shares of the machine's resources that the user's running jobs hold.
    Jobs of unknown users count as one user's, so that a trace without users is served as it arrives.

    Source: Ghodsi, Zaharia, Hindman, Konwinski, Shenker and Stoica, "Dominant resource fairness: fair allocation of
    multiple resource types", NSDI 2011.
    """

    name: ClassVar[str] = "drf"
    kind: ClassVar[OrderKind] = OrderKind.FAIR_SHARE


class RandomOrder:
    """``random``: jobs in an order drawn once, every one equally likely."""

    name: ClassVar[str] = "random"

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        """Return a random number per job."""
        return QueueKeys(OrderKind.FIXED, rng.random(len(workload)))


class ShortestJobFirst(ValuedOrder):
    """``sjf``: the shortest estimate first."""

    name: ClassVar[str] = "sjf"

    def _values(self, workload: Workload) -> FloatArray:
        return workload.estimate


class LongestJobFirst(ValuedOrder):
    """``ljf``: the longest estimate first."""

    name: ClassVar[str] = "ljf"

    def _values(self, workload: Workload) -> FloatArray:
        return -workload.estimate


class SmallestAreaFirst(ValuedOrder):
    """``smallest-area``: the smallest product of estimate and processors first."""

    name: ClassVar[str] = "smallest-area"

    def _values(self, workload: Workload) -> FloatArray:
        return workload.estimate * workload.processors


class LargestFirst(ValuedOrder):
    """``largest``: most processors first, the bin-packing order."""

    name: ClassVar[str] = "largest"

    def _values(self, workload: Workload) -> FloatArray:
        return -workload.processors.astype(np.float64)


class Wfp3(ValuedOrder):
    """``wfp3``: the highest (wait / r)^3 n first (Tang et al. 2009); the cube root of it orders alike."""

    name: ClassVar[str] = "wfp3"
    kind: ClassVar[OrderKind] = OrderKind.AGEING

    def _values(self, workload: Workload) -> FloatArray:
        roots: FloatArray = np.cbrt(workload.processors)
        return roots / workload.estimate


class Unicep(ValuedOrder):
    """``unicep``: the highest wait / (r log2 n) first (Tang et al. 2009).

    Jobs of one processor, for which that is not defined, stand before all others once they have waited, as in the
    published codes.
    """

    name: ClassVar[str] = "unicep"
    kind: ClassVar[OrderKind] = OrderKind.AGEING

    def _values(self, workload: Workload) -> FloatArray:
        logs = np.maximum(np.log2(workload.processors), LOG2_OF_ONE)
        return 1.0 / (logs * workload.estimate)


class F1(ValuedOrder):
    """``f1``: the lowest log10(r) n + 870 log10(s) first (Carastan-Santos and de Camargo 2017)."""

    name: ClassVar[str] = "f1"

    def _values(self, workload: Workload) -> FloatArray:
        return np.log10(workload.estimate) * workload.processors + 870.0 * _log_of_submission(workload)


class F2(ValuedOrder):
    """``f2``: the lowest sqrt(r) n + 25,600 log10(s) first (Carastan-Santos and de Camargo 2017)."""

    name: ClassVar[str] = "f2"

    def _values(self, workload: Workload) -> FloatArray:
        return np.sqrt(workload.estimate) * workload.processors + 25_600.0 * _log_of_submission(workload)


class F3(ValuedOrder):
    """``f3``: the lowest r n + 6,860,000 log10(s) first (Carastan-Santos and de Camargo 2017)."""

    name: ClassVar[str] = "f3"

    def _values(self, workload: Workload) -> FloatArray:
        return workload.estimate * workload.processors + 6_860_000.0 * _log_of_submission(workload)


class F4(ValuedOrder):
    """``f4``: the lowest r sqrt(n) + 530,000 log10(s) first (Carastan-Santos and de Camargo 2017)."""

    name: ClassVar[str] = "f4"

    def _values(self, workload: Workload) -> FloatArray:
        return workload.estimate * np.sqrt(workload.processors) + 530_000.0 * _log_of_submission(workload)


def _log_of_submission(workload: Workload) -> FloatArray:
    """Return log10(s); a job of the first second counts as submitted at its end, since log10(0) is not finite."""
    logs: FloatArray = np.log10(np.maximum(workload.submit, 1.0))
    return logs
