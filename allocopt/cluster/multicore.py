"""Multicore machines: clusters, nodes, and processors, with their power and the memory channels that cores share."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from math import inf, isfinite

from allocopt.cluster.platform import Part, Platform
from allocopt.errors import InvalidProblemError

MOST_CORES = 10_000_000  # largest number of cores of a machine
MOST_WATTS = 1e12
LEAST_SPEED, MOST_SPEED = 1e-9, 1e9
"""Limits of the speed of a core in operations per nanosecond; with `MOST_WATTS` they keep energies finite."""


@dataclass(frozen=True, slots=True)
class ContentionConstants:
    """Constants of the memory slowdown of a processor (IRMaSim, Eq. 2 and 3); rates in MB/s."""

    b: float  # change of the speed factor per MB/s; negative
    c: float  # total rate of all tasks; above it, they slow each other down; positive
    da: float  # `da` to `dd` are constants of the least speed factor; `db` and `dd` not negative, `dc` positive
    db: float
    dc: float
    dd: float

    def __post_init__(self) -> None:
        _check_finite("contention", self)
        _check("contention", "b", self.b, self.b < 0, "negative")
        for name in ("c", "dc"):
            _check("contention", name, getattr(self, name), getattr(self, name) > 0, "positive")
        for name in ("db", "dd"):
            _check("contention", name, getattr(self, name), getattr(self, name) >= 0, "at least 0")


@dataclass(frozen=True, slots=True)
class PowerConstants:
    """Watts of a processor: ``core_w * n + processor_w`` with n active cores, ``idle_w`` with none (IRMaSim, Eq. 5)."""

    core_w: float  # of an active core (pa)
    processor_w: float  # of the parts that the cores share, while a core is active (pb)
    idle_w: float = 0.0  # of a processor without an active core
    stalled: float = 1.0  # share of `core_w` that a core draws while it waits for memory, 0 to 1; 1 in the paper

    def __post_init__(self) -> None:
        _check_finite("power", self)
        for name in ("core_w", "processor_w", "idle_w"):
            value = getattr(self, name)
            _check("power", name, value, 0 <= value <= MOST_WATTS, f"from 0 to {MOST_WATTS:g}")
        _check("power", "stalled", self.stalled, 0 <= self.stalled <= 1, "from 0 to 1")


@dataclass(frozen=True, slots=True)
class Processor:
    """A type of processor, whose cores share its memory channels."""

    name: str
    cores: int
    clock_ghz: float
    operations_per_cycle: float = 1.0  # that a core completes if it executes one instruction per cycle
    bandwidth_mb_s: float | None = None  # of the memory channels; None means `contention.c`, if known
    contention: ContentionConstants | None = None
    power: PowerConstants | None = None

    def __post_init__(self) -> None:
        for name in ("cores", "clock_ghz", "operations_per_cycle", "bandwidth_mb_s"):
            value = getattr(self, name)
            _check(f"processor {self.name!r}", name, value, value is None or 0 < value < inf, "positive")
        # A run time is work divided by speed: outside of this range, run times or energies overflow.
        in_range = LEAST_SPEED <= self.core_speed <= MOST_SPEED
        right = f"from {LEAST_SPEED:g} to {MOST_SPEED:g}"
        _check(f"processor {self.name!r}", "clock_ghz x operations_per_cycle", self.core_speed, in_range, right)

    @property
    def core_speed(self) -> float:
        """Operations per nanosecond of a core that executes one instruction per cycle."""
        return self.clock_ghz * self.operations_per_cycle

    @property
    def bandwidth(self) -> float:
        """Bandwidth of the memory channels in MB/s; infinite if unknown."""
        if self.bandwidth_mb_s is not None:
            return self.bandwidth_mb_s
        return inf if self.contention is None else self.contention.c


@dataclass(frozen=True, slots=True)
class Node:
    """A node with at least one processor; its memory is None if it limits no job."""

    name: str
    processors: tuple[Processor, ...]
    memory_mb: float | None = None

    def __post_init__(self) -> None:
        place = f"node {self.name!r}"
        _check(place, "processors", len(self.processors), bool(self.processors), "at least 1")
        _check(place, "memory_mb", self.memory_mb, self.memory_mb is None or 0 < self.memory_mb < inf, "positive")

    @property
    def cores(self) -> int:
        """Number of cores."""
        return sum(processor.cores for processor in self.processors)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A named group of at least one node."""

    name: str
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        _check(f"cluster {self.name!r}", "nodes", len(self.nodes), bool(self.nodes), "at least 1")


@dataclass(frozen=True, slots=True)
class Machine:
    """The root of the hierarchy: at least one cluster; all nodes have distinct names."""

    name: str
    clusters: tuple[Cluster, ...]

    def __post_init__(self) -> None:
        _check(f"platform {self.name!r}", "clusters", len(self.clusters), bool(self.clusters), "at least 1")
        if self.cores > MOST_CORES:
            fault = f"has {self.cores} cores, must be at most {MOST_CORES}"
            raise InvalidProblemError(f"platform {self.name!r}", fault)
        names: set[str] = set()
        for node in self.nodes():
            if node.name in names:
                raise InvalidProblemError(f"platform {self.name!r}", f"has two nodes called {node.name!r}")
            names.add(node.name)

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes in the order of their numbers."""
        return (node for cluster in self.clusters for node in cluster.nodes)

    def processors(self) -> Iterator[Processor]:
        """Yield the processors in the order of their numbers."""
        return (processor for node in self.nodes() for processor in node.processors)

    @property
    def cores(self) -> int:
        """Number of cores."""
        return sum(node.cores for node in self.nodes())

    def platform(self) -> Platform:
        """Return the machine as nodes with cores and memory, for schedulers and models written in Python."""
        parts = []
        for node in self.nodes():
            processors = []
            for kind in node.processors:
                attributes = {"clock_ghz": kind.clock_ghz, "operations_per_cycle": kind.operations_per_cycle}
                processors.append(Part(1, {}, attributes, (Part(kind.cores, {"cores": 1}),)))
            memory = {} if node.memory_mb is None else {"memory_mb": int(node.memory_mb)}
            parts.append(Part(1, memory, {}, tuple(processors)))
        return Platform.of_parts(parts)


def _check(place: str, name: str, value: float | None, holds: bool, right: str) -> None:
    if not holds:
        raise InvalidProblemError(place, f"{name} is {value:g}, must be {right}")


def _check_finite(place: str, constants: ContentionConstants | PowerConstants) -> None:
    for field in fields(constants):
        value = getattr(constants, field.name)
        _check(place, field.name, value, isfinite(value), "a finite number")
