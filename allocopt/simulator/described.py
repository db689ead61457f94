"""Information on jobs and nodes that a schedule does not hold: groups of jobs, and names of nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

from allocopt.arrays import IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.hostlist import HostlistError, check_listable, fold_hostlist
from allocopt.simulator.groups import GROUPINGS, Grouping
from allocopt.simulator.schedule import Schedule
from allocopt.traces.workload import Workload


@dataclass(frozen=True, slots=True)
class Described:
    """Information from a trace and a machine, in addition to a schedule.

    Parameters
    ----------
    jobs
        The jobs of the trace; they must include the jobs of every schedule.
    cluster
        The cluster; jobs that name no partition are in its default partition. None if there are no partitions.
    node_names
        Names of the nodes by their numbers; empty if nodes have only numbers.
    """

    jobs: Workload
    cluster: Cluster | None = None
    node_names: Sequence[str] = ()

    def labels(self, grouping: Grouping) -> dict[int, str]:
        """Return the label of each job's group, by the number of the job."""
        return dict(zip(self.jobs.ids.tolist(), grouping.labels(self.jobs, self.cluster), strict=True))

    def labels_of(self, grouping: Grouping, schedule: Schedule) -> list[str]:
        """Return the label of the group of each job of a schedule, in its order."""
        labels = self.labels(grouping)
        return [labels[job] for job in schedule.workload.ids.tolist()]

    def partitions_of(self, schedule: Schedule) -> list[str]:
        """Return the partition of each job of a schedule, in its order."""
        return self.labels_of(GROUPINGS["partition"], schedule)

    def node_list(self, nodes: IntArray) -> str:
        """Return nodes as a hostlist; separated by spaces if a hostlist cannot hold their names."""
        names = [self.node_names[node] if self.node_names else str(node) for node in nodes.tolist()]
        try:
            for name in names:
                check_listable(name)
        except HostlistError:
            return " ".join(names)
        return fold_hostlist(names)
