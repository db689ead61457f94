"""What nodes and partitions say of themselves about the topologies that they belong to."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Affiliations:
    """What the lines of nodes and partitions say about topologies.

    Parameters
    ----------
    units
        By the name of a topology and a path of names of switches, or a block, the nodes that join it.
    partitions
        By the name of a topology the nodes of the partitions that use it.
    nodes
        Names of all nodes.
    """

    units: Mapping[tuple[str, tuple[str, ...]], tuple[str, ...]] = field(default_factory=dict)
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
