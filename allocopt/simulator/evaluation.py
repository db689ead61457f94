"""One call that judges a rule: simulate a trace under it and return the metrics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.platform import Platform
from allocopt.cluster.reading import read_cluster
from allocopt.errors import UsageError
from allocopt.simulator.metrics import Metrics, measure
from allocopt.simulator.rules import OrderKind, QueueKeys, QueueOrder
from allocopt.simulator.scheduler import Policy, backfilled
from allocopt.simulator.shared.admission import admitted
from allocopt.simulator.simulate import simulate
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

Score = Callable[[Workload], FloatArray]
"""A function of all jobs that returns a value for each; jobs with the lowest values start first."""
Paths = str | Path | Sequence[str | Path]


def evaluate(
    rule: str | Policy | Score,
    trace: Workload | str | Path,
    cluster: int | Platform | Cluster | Paths | None = None,
    *,
    backfill: str = "easy",
    seed: int = 0,
) -> Metrics:
    """Simulate a trace under a rule and return the metrics.

    Parameters
    ----------
    rule
        A policy or its name; or a function that takes a `Workload` and returns a value for each job, such as
        ``lambda jobs: jobs.estimate * jobs.processors``. Jobs with the lowest values start first.
    trace
        The jobs, or a file of them.
    cluster
        The machine: a number of processors, a machine, or files of one, such as ``["slurm.conf", "topology.conf"]``.
        None for the size that the trace states.
    backfill
        Kind of backfilling, if the rule is a function or a queue order. The name of a policy includes its kind, as in
        ``sjf+easy``.
    seed
        Seed of random policies.

    Raises
    ------
    UsageError
        If the trace does not state the size of its machine and ``cluster`` is None, ``cluster`` is not a machine, the
        rule is a class, or the function does not return a number for each job.
    """
    if isinstance(rule, type):
        raise UsageError(f"the rule is the class {rule.__name__}, must be an object of it: {rule.__name__}()")
    workload = trace if isinstance(trace, Workload) else read_workload(trace)
    machine = _machine(workload, cluster)
    if isinstance(machine, Cluster):
        workload = admitted(workload, machine, in_nodes=False, skip_oversized=True)
    policy: str | Policy = _ByScore(rule) if callable(rule) and not isinstance(rule, Policy) else rule
    if isinstance(policy, QueueOrder):
        policy = backfilled(policy.name, policy, backfill)
    return measure(simulate(workload, machine, policy, seed=seed))


@dataclass(frozen=True, slots=True)
class _ByScore:
    """A queue order by the values of a function."""

    score: Score

    @property
    def name(self) -> str:
        return getattr(self.score, "__name__", "score")

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        values = np.asarray(self.score(workload), dtype=np.float64)
        if values.shape != (len(workload),):
            fault = f"an array of shape {values.shape}, must be a number for each of the {len(workload)} jobs"
            raise UsageError(f"the rule {self.name!r} returned {fault}")
        return QueueKeys(OrderKind.FIXED, values)


def _machine(workload: Workload, cluster: int | Platform | Cluster | Paths | None) -> int | Platform | Cluster:
    """Return the machine that is given, read, or stated by the trace."""
    if isinstance(cluster, int | Platform | Cluster):
        return cluster
    if cluster is not None:
        paths = [cluster] if isinstance(cluster, str | Path) else cluster
        if not isinstance(paths, Sequence):
            choices = "a number of processors, a Platform, a Cluster or files of one"
            raise UsageError(f"cluster is a {type(cluster).__name__}, must be {choices}")
        return read_cluster([Path(path) for path in paths])
    if workload.machine_processors is None:
        raise UsageError(f"{workload.name} does not state the size of its machine; pass it as `cluster`")
    return workload.machine_processors
