"""Groups of jobs: by partition, GPU type, user, account or size. Each way of grouping is registered once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from allocopt.arrays import BoolArray
from allocopt.cluster.cluster import CORES, GPUS, Cluster
from allocopt.errors import UsageError
from allocopt.simulator.metrics import (
    NO_TRIM,
    STARVATION_S,
    JobStatistics,
    Trim,
    backlog,
    is_overloaded,
    measured_jobs,
    size_classes,
)
from allocopt.simulator.schedule import ClusterSchedule, Schedule
from allocopt.traces.workload import Workload

UNKNOWN = "-"
"""Label of jobs whose group the trace does not state."""
NO_GPUS, ANY_GPUS = "none", "any"
"""Labels of jobs that ask for no GPUs, and for GPUs of any type."""


def _by_jobs(label: str) -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Grouping:
    """A way of grouping jobs.

    Parameters
    ----------
    name
        Name in ``--by``, and in the column ``by`` of rows.
    title
        Title of the column of groups in tables.
    labels
        Returns the label of the group of every job, in the order of a workload; the cluster may be None.
    rank
        Returns a number from the label of a group. Groups are sorted by it, ascending, then by size, descending.
    """

    name: str
    title: str
    labels: Callable[[Workload, Cluster | None], list[str]]
    rank: Callable[[str], float] = _by_jobs

    def ordered(self, labels: Sequence[str]) -> list[str]:
        """Return the distinct labels of jobs in the order in which groups are shown."""
        counts: dict[str, int] = {}
        for label in labels:
            counts[label] = counts.get(label, 0) + 1
        return sorted(counts, key=lambda label: (self.rank(label), -counts[label], label))


def _partitions(workload: Workload, cluster: Cluster | None) -> list[str]:
    default = cluster.partitions[0].name if cluster is not None and cluster.partitions else UNKNOWN
    return [(asked.partition if asked is not None else None) or default for asked in workload.requests]


def _gpu_types(workload: Workload, cluster: Cluster | None) -> list[str]:
    def label(kinds: Sequence[str]) -> str:
        return "+".join(sorted({kind or ANY_GPUS for kind in kinds})) or NO_GPUS

    return [
        UNKNOWN
        if asked is None
        else label([kind for kind, count in (*asked.gpus_per_node, *asked.gpus_per_task) if count])
        for asked in workload.requests
    ]


def _users(workload: Workload, cluster: Cluster | None) -> list[str]:
    return [label or UNKNOWN for label in workload.user_labels]


def _accounts(workload: Workload, cluster: Cluster | None) -> list[str]:
    return [account or UNKNOWN for account in workload.accounts]


def _sizes(workload: Workload, cluster: Cluster | None) -> list[str]:
    fewest, most = size_classes(workload.processors)
    return [str(low) if low == high else f"{low}-{high}" for low, high in zip(fewest, most, strict=True)]


def _least(label: str) -> float:
    return float(label.partition("-")[0])


GROUPINGS: Mapping[str, Grouping] = MappingProxyType(
    {
        one.name: one
        for one in (
            Grouping("partition", "partition", _partitions),
            Grouping("gpus", "GPU type", _gpu_types),
            Grouping("user", "user", _users),
            Grouping("account", "account", _accounts),
            Grouping("size", "size", _sizes, _least),
        )
    }
)
"""The ways of grouping jobs, by name. Sizes are those in the trace (processors or nodes), in powers of four."""


def grouping_names() -> list[str]:
    """Return the names of all groupings."""
    return list(GROUPINGS)


def groupings_named(texts: Sequence[str]) -> tuple[Grouping, ...]:
    """Return groupings by their names, which commas may separate, each once; raise `UsageError` for an unknown name."""
    names = dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip())
    unknown = next((name for name in names if name not in GROUPINGS), None)
    if unknown is not None:
        raise UsageError(f"--by: there is no grouping {unknown!r}; there are {', '.join(GROUPINGS)}")
    return tuple(GROUPINGS[name] for name in names)


def measure_groups(
    schedule: Schedule,
    labels: Sequence[str],
    grouping: Grouping,
    trim: Trim = NO_TRIM,
    starvation_s: float = STARVATION_S,
) -> dict[str, JobStatistics]:
    """Return statistics of the jobs of each group that are not trimmed; ``labels`` are in the order of the schedule."""
    kept = np.zeros(len(labels), dtype=np.bool_)
    kept[trim.kept(len(labels))] = True
    measured, held = measured_jobs(schedule, starvation_s), np.array(labels, dtype=np.object_)
    return {label: measured.statistics(kept & (held == label)) for label in grouping.ordered(held[kept].tolist())}


def overloaded_jobs(schedule: Schedule, partitions: Sequence[str]) -> BoolArray:
    """Return whether the queue of each job is overloaded, see `is_overloaded`; shape ``(n,)``.

    On a cluster with partitions, each partition has a queue. It is overloaded if the backlog for the cores or for the
    GPUs of its nodes is too long. Otherwise there is one queue for the whole machine. ``partitions`` has the partition
    of every job.
    """
    submit, found = schedule.workload.submit, np.zeros(len(partitions), dtype=np.bool_)
    quarters = np.linspace(float(submit.min()), float(submit.max()), 5)
    if not isinstance(schedule, ClusterSchedule) or not schedule.cluster.partitions:
        held, size = next(iter(schedule.used.values()))
        return found | is_overloaded(backlog(schedule, held, size, quarters))
    cluster, parts = schedule.cluster, np.array(partitions, dtype=np.object_)
    for name, members in cluster.members.items():
        which = parts == name
        for column, resource in enumerate(cluster.resources):
            size = float(cluster.capacity[members, column].sum())
            if resource in (CORES, GPUS) and size:
                waiting = backlog(schedule, schedule.amounts[:, column], size, quarters, which)
                found |= which & is_overloaded(waiting)
    return found
