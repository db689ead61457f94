"""The topologies that nodes and partitions join, according to their own lines in slurm.conf."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Affiliations:
    """The topologies that the NodeName and PartitionName lines of slurm.conf name (their key Topology).

    Parameters
    ----------
    units
        For each switch or block, the nodes that join it. The key is the name of the topology, and the names on the path
        down to the switch or block.
    partitions
        For the name of each topology, the nodes of the partitions that use it.
    nodes
        Names of all nodes.
    """

    units: Mapping[tuple[str, tuple[str, ...]], tuple[str, ...]] = field(default_factory=dict)
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
