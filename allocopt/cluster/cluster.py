"""Clusters as their sites describe them: nodes and their resources, partitions, and a topology that may be a forest."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.cluster.named import NamedTree, placed_tree
from allocopt.errors import InvalidProblemError
from allocopt.files.faults import printable

CORES, MEMORY, GPUS = "cores", "memory_mib", "gpus"
ALL = "all"
"""Word that stands for all reasons why nodes take no jobs."""
UNKNOWN_MEMORY_MIB = 2**40
"""Memory in tables for a node whose memory is unknown: enough for all jobs."""
THOUSANDTHS = 1000
"""Cores and GPUs are counted in thousandths, because pods and jobs of some traces ask for fractions of them."""


@dataclass(frozen=True, slots=True)
class NodeUse:
    """The resources of a node in use: cores, MiB of memory, and GPUs by type (empty if the type is not given)."""

    cores: float = 0
    memory_mib: int = 0
    gpus: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_idle(self) -> bool:
        """Whether no job occupies any part of the node."""
        return not (self.cores or self.memory_mib or any(self.gpus.values()))


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node and what it offers to jobs.

    Parameters
    ----------
    name
        The node's name.
    cores
        Number of cores; may be a fraction.
    memory_mib
        Memory in MiB, None if memory limits no job.
    gpus
        Number of GPUs by type; the type is empty if it is not given.
    features
        Features that constraints may ask for.
    weight
        Allocation rules that use weights choose nodes of lower weight first, as Slurm does.
    away
        Reasons why the node takes no jobs, such as ``drained``; empty if it takes jobs.
    use
        The resources that running jobs occupy.
    cpus_per_core
        CPUs (threads) per core, if jobs ask for CPUs and get whole cores; otherwise 1.
    """

    name: str
    cores: float = 1
    memory_mib: int | None = None
    gpus: Mapping[str, int] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    weight: int = 1
    away: tuple[str, ...] = ()
    use: NodeUse = NodeUse()
    cpus_per_core: float = 1

    def __post_init__(self) -> None:
        for name, value in ((CORES, self.cores), (MEMORY, self.memory_mib), *self.gpus.items()):
            if value is not None and not 0 <= value < 2**40:
                raise InvalidProblemError(f"node {self.name!r}", f"{name or 'gpu'} is {value}, must be from 0 to 2^40")


@dataclass(frozen=True, slots=True)
class Partition:
    """A named set of nodes and its limits for a job; None means no limit.

    The memory fields are defaults for jobs that ask for none: per core, per node, or per GPU. In an exclusive partition
    a job has its nodes exclusively. Jobs in partitions of a higher tier are considered first. A job must have at least
    ``least_nodes`` nodes.
    """

    name: str
    nodes: tuple[str, ...]
    most_seconds: float | None = None
    most_nodes: int | None = None
    memory_per_core_mib: int | None = None
    memory_per_node_mib: int | None = None
    is_exclusive: bool = False
    tier: int = 1
    least_nodes: int = 1
    memory_per_gpu_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are kept for the jobs of the reservation. If it is flexible, these jobs may use other nodes, too."""

    name: str
    nodes: tuple[str, ...]
    is_flexible: bool = False


@dataclass(frozen=True, eq=False)
class Cluster:
    """Nodes, how they are connected, and partitions.

    Raises `InvalidProblemError` if the nodes are not those of the topology, or a partition names an unknown node.

    Nodes are in the order of the topology. The first partition is the default one; a cluster without partitions is one
    partition of all nodes. On an exclusive cluster all jobs have their nodes exclusively. Remarks are lines about
    oddities of the description and how they were resolved. Only active reservations are kept. ``closed`` maps
    partitions in which no job starts to the reason, such as ``is down``. ``complete`` is the cluster including the
    nodes that take no jobs; None if all nodes take jobs.
    """

    nodes: tuple[ClusterNode, ...]
    topology: NamedTree
    partitions: tuple[Partition, ...] = ()
    is_exclusive: bool = False
    remarks: tuple[str, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    closed: Mapping[str, str] = field(default_factory=dict)
    complete: "Cluster | None" = None

    def __post_init__(self) -> None:
        if tuple(node.name for node in self.nodes) != self.topology.nodes:
            raise InvalidProblemError("cluster", "nodes must be those of its topology, in the same order")
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
        reservations: Sequence[Reservation] = (),
        closed: Mapping[str, str] | None = None,
    ) -> "Cluster":
        """Return the cluster of the nodes, or with a topology, of those nodes that are also in it.

        Remarks count the nodes that are left out. Raises `InvalidProblemError` if a node is given twice, or no node is
        left.
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
            told = [f"nodes of the topology that no file describes, left out: {missing}"] * bool(missing)
            told += [f"nodes under no switch of the topology, left out: {apart}"] * bool(apart)
            remarks = [*remarks, *told, *topology.remarks]
        if found is None:
            raise InvalidProblemError("cluster", "has no node in common with its topology")
        left = {name: known[name] for name in found.nodes}
        kept, empty = _among(partitions, left, "has no node in the topology" if topology else "has no node")
        return cls(
            nodes=tuple(left.values()),
            topology=found,
            partitions=kept,
            is_exclusive=is_exclusive,
            remarks=tuple(remarks),
            reservations=tuple(reservations),
            closed={**empty, **(closed or {})},
        )

    def available(self, include: Collection[str] = ()) -> "Cluster":
        """Return the cluster of the nodes that take jobs; a remark counts the others by reason.

        Parameters
        ----------
        include
            Reasons to ignore: nodes that have no other reason are kept. ``all`` ignores every reason.

        Raises
        ------
        InvalidProblemError
            If no node takes jobs, or no node has one of the given reasons.
        """
        reasons = {why for node in self.nodes for why in node.away}
        odd = next((why for why in include if why not in (*reasons, ALL)), None)
        if odd is not None:
            known = ", ".join(sorted(reasons)) or "none"
            fault = f"no node is left out for the reason {printable(odd)!r}; the reasons are {known}"
            raise InvalidProblemError("--include-unavailable", fault)
        shut = {node.name: set(node.away) - set(include) for node in self.nodes}
        if ALL in include or not any(shut.values()):
            return self
        away = Counter(why for of_node in shut.values() for why in of_node)
        left = {node.name: node for node in self.nodes if not shut[node.name]}
        counts = ", ".join(f"{why} {count}" for why, count in sorted(away.items()))
        told = f"{len(self.nodes) - len(left)} ({counts})"
        tree = self.topology.among(left)
        if tree is None:
            raise InvalidProblemError("", f"no node takes jobs: {told}; use --include-unavailable all to include them")
        kept, empty = _among(self.partitions, left, "has no node that takes jobs")
        return replace(
            self,
            nodes=tuple(left[name] for name in tree.nodes),
            topology=tree,
            partitions=kept,
            closed={**empty, **self.closed},
            complete=self,
            remarks=(*self.remarks, f"nodes that take no jobs, left out: {told}"),
        )

    def under(self, topology: NamedTree) -> "Cluster":
        """Return the cluster of the nodes that are also in a topology; see `of`."""
        return Cluster.of(
            self.nodes,
            topology,
            self.partitions,
            is_exclusive=self.is_exclusive,
            remarks=self.remarks,
            reservations=self.reservations,
            closed=self.closed,
        )

    @classmethod
    def whole_nodes(cls, topology: NamedTree) -> "Cluster":
        """Return the cluster of nodes for which only the topology is known."""
        return cls.of(map(ClusterNode, topology.nodes), topology, is_exclusive=True)

    def reserved(self, name: str) -> tuple[frozenset[str], frozenset[str]]:
        """Return the only nodes that jobs of a reservation may use, empty if any, and the nodes that they may not use.

        The name is empty for jobs without a reservation. Some of the nodes may be missing in the cluster.
        """
        own = next((one for one in self.reservations if one.name == name), None)
        held = frozenset(own.nodes) if own is not None else frozenset()
        closed = {node for one in self.reservations if one.name != name for node in one.nodes}
        return held if own is not None and not own.is_flexible else frozenset(), frozenset(closed - held)

    def in_whole_nodes(self) -> "Cluster":
        """Return the cluster with only its topology and, for each node, whether it takes jobs and if it is in use."""
        nodes = (
            ClusterNode(one.name, away=one.away, use=NodeUse(cores=0 if one.use.is_idle else 1)) for one in self.nodes
        )
        return replace(self, nodes=tuple(nodes), partitions=(), is_exclusive=True, reservations=(), closed={})

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    @property
    def is_bare(self) -> bool:
        """Whether only the topology of the nodes is known."""
        return self.is_exclusive and not self.partitions and all(node == ClusterNode(node.name) for node in self.nodes)

    @property
    def processors(self) -> int:
        """Total number of cores of all nodes, rounded."""
        return round(self.total(CORES))

    def total(self, resource: str) -> float:
        """Return the total of a resource over all nodes: a number of cores or GPUs, or MiB of memory."""
        found = float(self.capacity[:, self.resources.index(resource)].sum())
        return found if resource == MEMORY else found / THOUSANDTHS

    def summary(self) -> str:
        """Return one line with the numbers of nodes, groups per level, hops, cores and GPUs."""
        if self.is_exclusive:
            return self.topology.summary()
        counts = ", ".join(f"{self.total(name):g} {name}" for name in (CORES, GPUS) if self.total(name))
        types: Counter[str] = Counter()
        for node in self.nodes:
            types.update(node.gpus)
        if set(types) - {""}:
            listed = (
                f"{count} {kind or 'of no type'}"
                for kind, count in sorted(types.items(), key=lambda one: one[0] or "~")
            )
            counts += f" ({', '.join(listed)})"
        partitions = ", ".join(one.name for one in self.partitions)
        return f"{self.topology.summary()}; {counts}" + (f"; partitions {partitions}" if partitions else "")

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """Names of the resources, in the order of the columns of `capacity`."""
        types = sorted({kind for node in self.nodes for kind in node.gpus if kind})
        return (CORES, MEMORY, GPUS, *(f"{GPUS}:{kind}" for kind in types))

    @cached_property
    def capacity(self) -> IntArray:
        """Resources of every node, shape ``(nodes, resources)``: MiB of memory, thousandths of cores and GPUs.

        One column counts all GPUs, and each type has a column of its own. A job that asks for GPUs of any type uses
        only the first of these columns.
        """
        table = np.zeros((self.size, len(self.resources)), dtype=np.int64)
        for row, node in zip(table, self.nodes, strict=True):
            row[:3] = (
                round(node.cores * THOUSANDTHS),
                UNKNOWN_MEMORY_MIB if node.memory_mib is None else node.memory_mib,
                sum(node.gpus.values()) * THOUSANDTHS,
            )
            for column, name in enumerate(self.resources[3:], 3):
                row[column] = node.gpus.get(name.removeprefix(f"{GPUS}:"), 0) * THOUSANDTHS
        table.flags.writeable = False
        return table

    @cached_property
    def free(self) -> IntArray:
        """Free resources of every node, counted as in `capacity`; read-only."""
        left = self.capacity.copy()
        for row, node in zip(left, self.nodes, strict=True):
            if node.use.is_idle:
                continue
            row[0] -= round(node.use.cores * THOUSANDTHS)
            row[1] -= 0 if node.memory_mib is None else node.use.memory_mib
            row[2] -= sum(node.use.gpus.values()) * THOUSANDTHS
            for column, name in enumerate(self.resources[3:], 3):
                # GPUs in use of unknown type may be of any type.
                kind = name.removeprefix(f"{GPUS}:")
                row[column] -= (node.use.gpus.get(kind, 0) + node.use.gpus.get("", 0)) * THOUSANDTHS
            # A node without free cores has nothing left to offer.
            if row[0] <= 0:
                row[:] = 0
        np.maximum(left, 0, out=left)
        left.flags.writeable = False
        return left

    @cached_property
    def cpus_per_core(self) -> FloatArray:
        """CPUs per core of every node, shape ``(nodes,)``."""
        return np.array([node.cpus_per_core for node in self.nodes], dtype=np.float64)

    @cached_property
    def in_use(self) -> BoolArray:
        """Whether jobs run on each node, shape ``(nodes,)``."""
        return np.array([not node.use.is_idle for node in self.nodes], dtype=np.bool_)

    @cached_property
    def shapes(self) -> tuple[IntArray, IntArray]:
        """Distinct rows of `capacity`, shape ``(k, resources)``, and the index of each node's row."""
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
        """Return the partition of this name, or the default one for None. If there are no partitions, return None."""
        if not self.partitions:
            return None
        if name is None:
            return self.partitions[0]
        found = next((one for one in self.partitions if one.name == name), None)
        if found is None:
            known = ", ".join(one.name for one in self.partitions)
            raise InvalidProblemError("partition", f"is {name!r}, must be one of {known}")
        return found


def _among(
    partitions: Iterable[Partition], nodes: Collection[str], why: str
) -> tuple[tuple[Partition, ...], dict[str, str]]:
    """Return the partitions with any of the nodes, reduced to these; and ``why`` by name for each other partition."""
    kept = [replace(one, nodes=tuple(name for name in one.nodes if name in nodes)) for one in partitions]
    return tuple(one for one in kept if one.nodes), {one.name: why for one in kept if not one.nodes}


def amounts_in_words(resources: Sequence[str], amounts: IntArray) -> str:
    """Return amounts in words, such as ``4 cores, 16 GiB, 1 a100 GPU``; amounts of 0 are left out.

    Amounts are counted as in `Cluster.capacity`. GPUs of a type are not counted again as GPUs of any type.
    """
    found = dict(zip(resources, amounts.tolist(), strict=True))
    of_types = {name: amount for name, amount in found.items() if name.startswith(f"{GPUS}:")}
    found[GPUS] = found.get(GPUS, 0) - sum(of_types.values())
    words = []
    for name, amount in found.items():
        number = f"{amount / THOUSANDTHS:g}"
        if amount and name == MEMORY:
            words.append(f"{amount / 1024:g} GiB" if amount % 1024 == 0 else f"{amount} MiB")
        elif amount and name == CORES:
            words.append(f"{number} core{'' if number == '1' else 's'}")
        elif amount:
            kind = name.removeprefix(GPUS).removeprefix(":")
            words.append(f"{number} {kind}{' ' if kind else ''}GPU{'' if number == '1' else 's'}")
    return ", ".join(words)
