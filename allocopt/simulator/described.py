"""What a trace and a machine say of jobs beside a schedule: groups, and names of nodes."""

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
    """What is known of jobs beside when and where they ran.

    Parameters
    ----------
    jobs
        The jobs as the trace describes them, those of any schedule among them.
    cluster
        Whose default partition jobs have that name none; None without partitions.
    node_names
        Names of the nodes by their numbers; empty where nodes have only numbers.
    """

    jobs: Workload
    cluster: Cluster | None = None
    node_names: Sequence[str] = ()

    def labels(self, grouping: Grouping) -> dict[int, str]:
        """Return the label of each job's group by the number of the job."""
        return dict(zip(self.jobs.ids.tolist(), grouping.labels(self.jobs, self.cluster), strict=True))

    def labels_of(self, grouping: Grouping, schedule: Schedule) -> list[str]:
        """Return the label of the group of each job of a schedule, in its order."""
        labels = self.labels(grouping)
        return [labels[job] for job in schedule.workload.ids.tolist()]

    def partitions_of(self, schedule: Schedule) -> list[str]:
        """Return the partition of each job of a schedule, in its order."""
        return self.labels_of(GROUPINGS["partition"], schedule)

    def node_list(self, nodes: IntArray) -> str:
        """Write nodes as a hostlist; names that none can hold with spaces between."""
        names = [self.node_names[node] if self.node_names else str(node) for node in nodes.tolist()]
        try:
            for name in names:
                check_listable(name)
        except HostlistError:
            return " ".join(names)
        return fold_hostlist(names)
