"""The topologies that nodes and partitions join, according to their own lines in slurm.conf."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Affiliations:
    """The topologies that lines of nodes and partitions name (slurm.conf(5), Topology).

    Parameters
    ----------
    units
        The nodes that join a switch or block, by the topology's name and the path of names down to it.
    partitions
        The nodes of the partitions that use a topology, by its name.
    nodes
        Names of all nodes.
    """

    units: Mapping[tuple[str, tuple[str, ...]], tuple[str, ...]] = field(default_factory=dict)
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
