"""Machines of simulations: one pool of processors, or nodes with named resources."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from allocopt.arrays import IntArray, frozen_integers
from allocopt.cluster.topology import Topology
from allocopt.errors import InvalidProblemError

PROCESSORS, NODES = "processors", "nodes"
"""Names of the only resource: `PROCESSORS` in a pool, `NODES` in a cluster whose jobs get whole nodes."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the hierarchy node - processor - core, or several equal parts.

    Raises `InvalidProblemError` if the count is not positive, or a resource is negative.

    ``resources`` are the units that each part has itself, without the parts below it, such as ``{"memory_mb": 1}``.
    ``attributes`` are for execution models and have their unit in the name, such as ``{"clock_ghz": 3.4}``. ``parts``
    are the parts below: the processors of a node, or the cores of a processor.
    """

    count: int = 1
    resources: Mapping[str, int] = field(default_factory=dict)
    attributes: Mapping[str, float] = field(default_factory=dict)
    parts: tuple["Part", ...] = ()

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidProblemError("platform part", f"has count {self.count}, must be at least 1")
        for name, units in self.resources.items():
            if units < 0:
                raise InvalidProblemError("platform part", f"has {units} units of {name!r}, must not be negative")
        object.__setattr__(self, "resources", MappingProxyType(dict(self.resources)))
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))

    def units(self, resource: str) -> int:
        """Return the units of a resource in one of these parts, including those of the parts below it."""
        below = sum(part.count * part.units(resource) for part in self.parts)
        return self.resources.get(resource, 0) + below

    def names(self) -> Iterator[str]:
        """Yield the resources of this part and of those below it, repeated if several parts have the same one."""
        yield from self.resources
        for part in self.parts:
            yield from part.names()


@dataclass(frozen=True, slots=True, eq=False)
class Platform:
    """A machine as a simulation sees it: named resources of nodes, or of one pool.

    Raises `InvalidProblemError` if the shapes contradict each other, or a capacity is negative.

    Jobs ask for ``processors`` units of the first resource. ``capacity`` has the units of each resource per node, shape
    ``(nodes, resources)``, with one row for a pool. ``has_nodes`` says whether placement is tracked node by node, or
    units are only counted. ``parts`` are the parts of the nodes, in the order of their numbers. If unknown,
    ``topology`` is None and ``parts`` is empty.
    """

    resources: tuple[str, ...]
    capacity: IntArray
    has_nodes: bool = True
    topology: Topology | None = None
    parts: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        capacity = frozen_integers(self.capacity)
        object.__setattr__(self, "capacity", capacity)
        if capacity.ndim != 2 or not capacity.size or capacity.shape[1] != len(self.resources):
            fault = f"has shape {capacity.shape}, must be (nodes, {len(self.resources)}), at least (1, 1)"
            raise InvalidProblemError("platform capacity", fault)
        if capacity.min() < 0 or not capacity[:, 0].any():
            raise InvalidProblemError(
                "platform capacity", f"must not be negative, and some node must have {self.resources[0]}"
            )
        if self.topology is not None and self.topology.size != len(capacity):
            fault = f"connects {self.topology.size} nodes, the platform has {len(capacity)}"
            raise InvalidProblemError("platform topology", fault)

    @classmethod
    def pool(cls, processors: int, resource: str = PROCESSORS) -> "Platform":
        """Return a machine of some processors, or units of another resource, which are only counted."""
        if processors < 1:
            raise InvalidProblemError("platform", f"has {processors} processors, must have at least 1")
        return cls((resource,), np.array([[processors]]), has_nodes=False)

    @classmethod
    def whole_nodes(cls, nodes: int | Topology) -> "Platform":
        """Return a cluster in which a job gets whole nodes, given its number of nodes or its topology."""
        size, topology = (nodes, None) if isinstance(nodes, int) else (nodes.size, nodes)
        return cls((NODES,), np.ones((size, 1), dtype=np.int64), topology=topology)

    @classmethod
    def of_parts(cls, parts: Sequence[Part], topology: Topology | None = None, first: str = "cores") -> "Platform":
        """Return a cluster of nodes that jobs share, given the parts of the nodes in the order of their numbers.

        A job's number of processors is its request for the resource ``first``, which at least one node must have.
        """
        others = dict.fromkeys(name for part in parts for name in part.names() if name != first)
        names = (first, *others)
        rows = [[part.units(name) for name in names] for part in parts for _ in range(part.count)]
        capacity = np.array(rows, dtype=np.int64).reshape(len(rows), len(names))
        return cls(names, capacity, topology=topology, parts=tuple(parts))

    @property
    def size(self) -> int:
        """Units of the first resource: the number of processors or nodes."""
        return int(self.capacity[:, 0].sum())

    @property
    def total(self) -> IntArray:
        """Units of each resource, shape ``(R,)``."""
        return frozen_integers(self.capacity.sum(axis=0))

    @property
    def is_shared(self) -> bool:
        """Whether several jobs may run on one node."""
        return self.has_nodes and not (len(self.resources) == 1 and bool((self.capacity == 1).all()))
