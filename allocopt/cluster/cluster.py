"""Clusters as their sites describe them: nodes and what they have, partitions, and a topology that may be a forest."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.named import NamedTree, placed_tree
from allocopt.errors import InvalidProblemError

CORES, MEMORY, GPUS = "cores", "memory_mib", "gpus"
THOUSANDTHS = 1000
"""Cores and GPUs are counted in thousandths: Kubernetes and its traces share them in fractions."""


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node and what jobs may have of it.

    Cores are fractions where a site counts in these; memory is in MiB, None where it limits no job; GPUs are by type,
    an empty one where none is told; features are what constraints ask for. Nodes of lower weight are taken first where
    the rule of allocation looks at it, as in Slurm.
    """

    name: str
    cores: float = 1
    memory_mib: int | None = None
    gpus: Mapping[str, int] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    weight: int = 1

    def __post_init__(self) -> None:
        for name, value in ((CORES, self.cores), (MEMORY, self.memory_mib), *self.gpus.items()):
            if value is not None and not 0 <= value < 2**40:
                raise InvalidProblemError(f"node {self.name!r}", f"{name or 'gpu'} is {value}, must be from 0 to 2^40")


@dataclass(frozen=True, slots=True)
class Partition:
    """Nodes that jobs ask for by one name, and the limits of a job there; None for no limit.

    The memory is that of a job that asks for none. A job has its nodes alone where the partition is exclusive; jobs of
    partitions of a higher tier are looked at first.
    """

    name: str
    nodes: tuple[str, ...]
    most_seconds: float | None = None
    most_nodes: int | None = None
    memory_per_core_mib: int | None = None
    memory_per_node_mib: int | None = None
    is_exclusive: bool = False
    tier: int = 1


@dataclass(frozen=True, eq=False)
class Cluster:
    """Nodes, how they are connected, and partitions.

    Raises `InvalidProblemError` if the nodes are not those of the topology, or a partition names one that is not there.

    The nodes are in the order of the tree, or forest, of their names. The default partition is the first one; none is
    one partition of all nodes. Jobs have their nodes alone everywhere where the cluster is exclusive. Remarks tell what
    of the description is odd and was decided, a line each.
    """

    nodes: tuple[ClusterNode, ...]
    topology: NamedTree
    partitions: tuple[Partition, ...] = ()
    is_exclusive: bool = False
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if tuple(node.name for node in self.nodes) != self.topology.nodes:
            raise InvalidProblemError("cluster", "nodes are not those of its topology, in their order")
        for partition in self.partitions:
            self.topology.numbers(partition.nodes)

    @classmethod
    def of(
        cls,
        nodes: Iterable[ClusterNode],
        topology: NamedTree | None,
        partitions: Sequence[Partition] = (),
        *,
        is_exclusive: bool = False,
        remarks: Sequence[str] = (),
    ) -> "Cluster":
        """Return the cluster of the nodes that the topology, if there is one, has too; nodes left out are remarked.

        Raises `InvalidProblemError` if a node is given twice, or none is left.
        """
        known: dict[str, ClusterNode] = {}
        for node in nodes:
            if not node.name:
                raise InvalidProblemError("cluster", "a node has no name")
            if known.setdefault(node.name, node) is not node:
                raise InvalidProblemError("cluster", f"node {node.name!r} is given twice")
        if topology is None:
            found = placed_tree(dict.fromkeys(known, ())) if known else None
        else:
            found = topology.among(known)
            missing = len(topology.nodes) - (found.tree.size if found else 0)
            apart = len(known) + missing - len(topology.nodes)
            told = [f"nodes of the topology that are described nowhere, left out: {missing}"] * bool(missing)
            told += [f"nodes under no switch of the topology, left out: {apart}"] * bool(apart)
            remarks = [*remarks, *told, *topology.remarks]
        if found is None:
            raise InvalidProblemError("cluster", "has no node that its topology has too")
        left = {name: known[name] for name in found.nodes}
        kept = (replace(one, nodes=tuple(name for name in one.nodes if name in left)) for one in partitions)
        inhabited = tuple(one for one in kept if one.nodes)
        return cls(tuple(left.values()), found, inhabited, is_exclusive, tuple(remarks))

    def under(self, topology: NamedTree) -> "Cluster":
        """Return the cluster of those of its nodes that a topology has; see `of`."""
        return Cluster.of(self.nodes, topology, self.partitions, is_exclusive=self.is_exclusive, remarks=self.remarks)

    @classmethod
    def whole_nodes(cls, topology: NamedTree) -> "Cluster":
        """Return the cluster of nodes of which nothing is known but how they are connected."""
        return cls.of(map(ClusterNode, topology.nodes), topology, is_exclusive=True)

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    @property
    def is_bare(self) -> bool:
        """Whether nothing is known of the nodes but how they are connected."""
        return self.is_exclusive and not self.partitions and all(node == ClusterNode(node.name) for node in self.nodes)

    @property
    def processors(self) -> int:
        """Cores of all nodes together, rounded."""
        return round(self.total(CORES))

    def total(self, resource: str) -> float:
        """Return how many cores or GPUs the nodes have together, or MiB of memory."""
        found = float(self.capacity[:, self.resources.index(resource)].sum())
        return found if resource == MEMORY else found / THOUSANDTHS

    def summary(self) -> str:
        """Count nodes, groups per level, hops, cores and GPUs in a line."""
        if self.is_exclusive:
            return self.topology.summary()
        counts = ", ".join(f"{self.total(name):g} {name}" for name in (CORES, GPUS) if self.total(name))
        partitions = ", ".join(one.name for one in self.partitions)
        return f"{self.topology.summary()}; {counts}" + (f"; partitions {partitions}" if partitions else "")

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """Names of what jobs share, in the order of the columns of `capacity`."""
        types = sorted({kind for node in self.nodes for kind in node.gpus if kind})
        return (CORES, MEMORY, GPUS, *(f"{GPUS}:{kind}" for kind in types))

    @cached_property
    def capacity(self) -> IntArray:
        """What every node has, shape ``(nodes, resources)``: MiB of memory, thousandths of cores and GPUs.

        Beside a column for each type of GPU one counts all: a job that asks for any type takes of the latter only.
        """
        table = np.zeros((self.size, len(self.resources)), dtype=np.int64)
        for row, node in zip(table, self.nodes, strict=True):
            row[:3] = (
                round(node.cores * THOUSANDTHS),
                2**40 if node.memory_mib is None else node.memory_mib,
                sum(node.gpus.values()) * THOUSANDTHS,
            )
            for column, name in enumerate(self.resources[3:], 3):
                row[column] = node.gpus.get(name.removeprefix(f"{GPUS}:"), 0) * THOUSANDTHS
        table.flags.writeable = False
        return table

    @cached_property
    def shapes(self) -> tuple[IntArray, IntArray]:
        """Rows of `capacity` that differ, shape ``(k, resources)``, and which of them each node has."""
        rows, row_of = np.unique(self.capacity, axis=0, return_inverse=True)
        return rows, row_of.reshape(-1)

    @cached_property
    def members(self) -> dict[str, BoolArray]:
        """Which nodes are in each partition, by its name."""
        found = {one.name: np.zeros(self.size, dtype=np.bool_) for one in self.partitions}
        for one in self.partitions:
            found[one.name][self.topology.numbers(one.nodes)] = True
        return found

    def partition(self, name: str | None) -> Partition | None:
        """Return the partition of a name, for None the default one; None where there are no partitions."""
        if not self.partitions:
            return None
        if name is None:
            return self.partitions[0]
        found = next((one for one in self.partitions if one.name == name), None)
        if found is None:
            known = ", ".join(one.name for one in self.partitions)
            raise InvalidProblemError("partition", f"is {name!r}, must be one of {known}")
        return found
