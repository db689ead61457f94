"""Machines and jobsets of the CuSH environment; each episode plays one jobset."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.platform import Part, Platform
from allocopt.envs.side_by_side import whole_number
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.simulator.locality import SHARE, Measurements, PenaltyTable, WorkloadType
from allocopt.traces.workload import Workload

CPUS, GPUS = range(2)  # columns of requests and capacities
MACHINES: Mapping[str, tuple[int, int]] = MappingProxyType({"sierra": (2, 4), "summit": (2, 6)})
"""CPUs and GPUs of a node, by machine."""
HELD_OUT = 1_000_000
"""First of the seeds that are reserved for tests: no training and no fit of the locality model may use them."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A cluster of equal nodes: the number of nodes, and the CPUs and GPUs of each.

    Raises `UsageError` if a number is not positive.
    """

    nodes: int = 128
    cpus: int = 2
    gpus: int = 4

    def __post_init__(self) -> None:
        for name in ("nodes", "cpus", "gpus"):
            whole_number(f"number of {name}", getattr(self, name), 1)

    @classmethod
    def of(cls, name: str, nodes: int = 128) -> "Machine":
        """Return a cluster with the nodes of Sierra or Summit."""
        return cls(nodes, *MACHINES[name])

    @property
    def total(self) -> tuple[int, int]:
        """CPUs and GPUs of all nodes."""
        return self.nodes * self.cpus, self.nodes * self.gpus

    @property
    def units(self) -> int:
        """CPUs and GPUs of all nodes together: the width of an image."""
        return sum(self.total)

    def platform(self) -> Platform:
        """Return the machine as `simulate` takes it; jobs ask for CPUs by their number of processors."""
        return Platform.of_parts([Part(self.nodes, {"cpus": self.cpus, "gpus": self.gpus})], first="cpus")


@dataclass(frozen=True, slots=True, eq=False)
class JobSet:
    """The n jobs of an episode with K traits each, sorted by arrival; simultaneous arrivals are sorted by length.

    Raises `InvalidProblemError` if a shape or a value is not as given below.
    """

    arrival: IntArray  #: Timestep at which each job arrives, not negative, shape ``(n,)``.
    length: FloatArray  #: Requested times in timesteps, positive, shape ``(n,)``.
    request: IntArray  #: CPUs and GPUs that each job asks for, at least one unit in total, shape ``(n, 2)``.
    service: FloatArray  #: Timesteps that each job takes under each `Policy`, positive, shape ``(n, 2)``.
    traits: FloatArray  #: Description of each job's kind that an agent sees, within 0 .. 1, shape ``(n, K)``.
    applications: IntArray | None = None  #: Number of each job's application, shape ``(n,)``; None if not known.

    def __post_init__(self) -> None:
        n = len(self.arrival)
        shapes = [np.shape(values) for values in (self.length, self.request, self.service, np.atleast_2d(self.traits))]
        if not n or shapes[:3] != [(n,), (n, 2), (n, 2)] or shapes[3][0] != n:
            raise InvalidProblemError("jobset", f"its arrays have shapes {shapes} for {n} jobs")
        order = np.lexsort((self.length, self.arrival))
        for name, kind in (("arrival", int), ("length", float), ("request", int), ("service", float)):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name)[order], dtype=kind))
        object.__setattr__(self, "traits", np.ascontiguousarray(self.traits[order], dtype=float))
        if self.applications is not None:
            object.__setattr__(self, "applications", self.applications[order])
        if self.arrival.min() < 0 or not self.length.min() > 0 or not self.service.min() > 0:
            raise InvalidProblemError("jobset", "arrivals must be >= 0, lengths and service times > 0")
        if self.request.min() < 0 or not self.request.sum(axis=1).min() > 0:
            fault = "CPUs and GPUs of each job must be >= 0, and at least one of them > 0"
            raise InvalidProblemError("jobset", fault)

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.arrival)

    @property
    def penalty(self) -> FloatArray:
        """Timesteps that each job takes longer than it requests, under each policy, shape ``(n, 2)``."""
        return self.service - self.length[:, np.newaxis]

    @property
    def better(self) -> IntArray:
        """The policy under which each job takes less time, shape ``(n,)``; the first policy if both are equal."""
        return cast(IntArray, self.service.argmin(axis=1))

    def workload(self, name: str = "jobset") -> Workload:
        """Return the jobs as `simulate` takes them; raises `InvalidProblemError` if one asks for no CPU."""
        arrival, cpus = self.arrival.astype(np.float64), self.request[:, CPUS]
        return Workload(name, np.arange(len(self)), arrival, self.length, cpus, self.length)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Distribution from which jobsets are drawn (CuSH, section 4); raises `UsageError` if a value is out of range."""

    jobs: int = 20  #: Jobs of a set, at least 1.
    arrivals: int = 10  #: Timesteps in which they arrive, from 0 on, at least 1.
    short: int = 10  #: Longest of the short jobs, which take 1 .. short timesteps.
    long: int = 20  #: Longest of the long jobs, which take short + 1 .. long timesteps.
    short_share: float = 0.75  #: Share of the jobs that are short, drawn for each job.
    share: float = SHARE  #: Largest request: CPUs and GPUs are uniform in 1 .. this share of all.
    compute_share: float = 0.5  #: Share of the jobs that are compute-bound; the others are network-bound.
    unknown_share: float = 0.0  #: Share of the jobs whose type the agent does not see.

    def __post_init__(self) -> None:
        for name in ("jobs", "arrivals", "short"):
            whole_number(name, getattr(self, name), 1)
        whole_number("long", self.long, self.short + 1)
        for name in ("short_share", "share", "compute_share", "unknown_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}, must be within 0 .. 1")

    def draw(self, machine: Machine, model: PenaltyTable | Measurements, rng: np.random.Generator) -> JobSet:
        """Draw a jobset by a locality model in timesteps, or from measured jobs.

        If ``model`` holds measured jobs, all jobs of a set run on GPUs of one type, which is drawn for the set. An
        agent sees this type, the family of each job and its batch size. The recipe's shares of types are ignored.
        """
        n = self.jobs
        arrival, length, request = self.shapes(machine, rng)
        if isinstance(model, Measurements):
            gpu_type = model.gpu_types[int(rng.integers(0, len(model.gpu_types)))]
            known = model.jobs(gpu_type)
            names = [known[job] for job in rng.integers(0, len(known), n)]
            service = model.service(gpu_type, names, length, request[:, GPUS])
            return JobSet(arrival, length, request, service, model.traits(gpu_type, names))
        kinds = np.where(rng.random(n) < self.compute_share, WorkloadType.COMPUTE, WorkloadType.NETWORK)
        told = np.where(rng.random(n) < self.unknown_share, WorkloadType.UNKNOWN, kinds)
        penalty = model.penalties(kinds, request[:, GPUS])
        traits = np.eye(len(WorkloadType))[told]
        return JobSet(arrival, length, request, length[:, np.newaxis] + penalty, traits)

    def shapes(self, machine: Machine, rng: np.random.Generator) -> tuple[IntArray, FloatArray, IntArray]:
        """Draw jobs without types: arrivals and lengths, shape ``(jobs,)``, and requests, shape ``(jobs, 2)``."""
        n = self.jobs
        is_short = rng.random(n) < self.short_share
        short, long = rng.integers(1, self.short + 1, n), rng.integers(self.short + 1, self.long + 1, n)
        most = [max(1, int(self.share * units)) for units in machine.total]
        request = np.stack([rng.integers(1, units + 1, n) for units in most], axis=1)
        return rng.integers(0, self.arrivals, n), np.where(is_short, short, long).astype(np.float64), request

    def draw_each(self, machine: Machine, model: PenaltyTable | Measurements, seeds: Sequence[int]) -> list[JobSet]:
        """Draw a jobset for each seed; see `draw`."""
        return [self.draw(machine, model, np.random.default_rng(seed)) for seed in seeds]

    def draw_runs(self, machine: Machine, table: PenaltyTable, seeds: Sequence[int], applications: int) -> list[JobSet]:
        """Draw a jobset for each seed, whose jobs are runs of a given number of applications; agents see no types.

        Applications with even numbers are compute-bound, the others network-bound; the shares of types are ignored.
        Raises `UsageError` if there is no application.
        """
        if applications < 1:
            raise UsageError(f"the number of applications is {applications}, must be at least 1")
        drawn = []
        for seed in seeds:
            rng = np.random.default_rng(seed)
            arrival, length, request = self.shapes(machine, rng)
            # `JobSet` sorts its jobs in this order; draw the applications for the sorted jobs.
            order = np.lexsort((length, arrival))
            numbers = rng.integers(0, applications, self.jobs)
            kinds = np.where(numbers % 2 == 0, WorkloadType.COMPUTE, WorkloadType.NETWORK)
            arrival, length, request = arrival[order], length[order], request[order]
            service = length[:, np.newaxis] + table.penalties(kinds, request[:, GPUS])
            told = np.tile(np.eye(len(WorkloadType))[WorkloadType.UNKNOWN], (self.jobs, 1))
            drawn.append(JobSet(arrival, length, request, service, told, numbers))
        return drawn
