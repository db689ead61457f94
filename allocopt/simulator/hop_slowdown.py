"""Jobs that run the slower, the farther apart their nodes are."""

from collections.abc import Iterable
from dataclasses import dataclass

from allocopt.cluster.topology import HopFormula, Topology, hop_costs
from allocopt.errors import UsageError
from allocopt.simulator.execution import Change


@dataclass(frozen=True, slots=True)
class HopSlowdown:
    """A job's run time grows with the mean number of hops between two of its nodes.

    With h the mean over its pairs of nodes and h_1 the hops within a leaf, it takes ``1 + share * (h / h_1 - 1)`` times
    as long as recorded: no longer within one leaf, and ``1 + share`` times as long where pairs are twice as far apart.

    Parameters
    ----------
    topology
        How the nodes are connected; its hops are at least 1.
    share
        See above; not negative.

    Raises
    ------
    UsageError
        If the share is negative, or nodes of one leaf are no hop apart.
    """

    topology: Topology
    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1000:
            raise UsageError(f"the slowdown by hops is {self.share:g}, must be within 0 .. 1000")
        if self.topology.hops[0] < 1:
            raise UsageError("a slowdown by hops needs a topology with at least one hop within a leaf")

    def speeds(self, change: Change) -> Iterable[tuple[int, float]]:
        """Return the speeds of the jobs that have just started; they keep them."""
        if change.placement is None:
            raise UsageError("a slowdown by hops needs a platform with nodes")
        unit = HopFormula.of(self.topology, 1.0).scale
        for job in change.started.tolist():
            share = change.placement.shares[job]
            assert share is not None, "a job that runs holds something"
            if len(share.nodes) > 1:
                mean = hop_costs(self.topology, 1.0 / unit, [share.nodes])[0] / (len(share.nodes) - 1)
                yield job, float(1.0 / (1.0 + self.share * (mean / self.topology.hops[0] - 1.0)))
