"""The locality model: how much longer a job takes where it was put, by its kind, the policy and the GPUs it asks for.

Source: CuSH (Domeniconi, Lee and Morari, DRL4KDD 2019), section 3.1: service time = requested time + penalty, and the
penalty is a linear function of the GPUs asked for, one for each workload type and allocation policy.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.simulator.allocators import Allocator, BreadthFirst, DepthFirst
from allocopt.simulator.execution import Change
from allocopt.simulator.placement import Share


class WorkloadType(IntEnum):
    """What bounds the speed of a job."""

    COMPUTE = 0
    """Computation, as of dgemm, a product of matrices: faster on few nodes."""
    NETWORK = 1
    """The network, as of daxpy, a sum of vectors: faster on many nodes."""
    UNKNOWN = 2
    """Not known: the mean of the two."""

    @property
    def label(self) -> str:
        """Its name in files."""
        return self.name.lower()


class Policy(IntEnum):
    """On how many nodes a job is put."""

    DEPTH_FIRST = 0
    """As few as possible."""
    BREADTH_FIRST = 1
    """As many as possible."""

    @property
    def label(self) -> str:
        """Its name in files."""
        return self.name.lower().replace("_", "-")


ALLOCATORS: Mapping[Policy, Allocator] = MappingProxyType(
    {Policy.DEPTH_FIRST: DepthFirst(), Policy.BREADTH_FIRST: BreadthFirst()}
)
"""Who puts a job where its policy says."""


@dataclass(frozen=True, slots=True)
class Line:
    """A penalty that grows with the GPUs asked for.

    Parameters
    ----------
    base
        Penalty of a job without GPUs.
    per_gpu
        Penalty of each GPU.
    """

    base: float
    per_gpu: float

    def at(self, gpus: IntArray) -> FloatArray:
        """Penalties of jobs that ask for so many GPUs."""
        return self.base + self.per_gpu * gpus.astype(np.float64)


@dataclass(frozen=True, slots=True)
class PenaltyTable:
    """The coefficients of the model.

    Parameters
    ----------
    lines
        The line of every workload type and policy, in a unit of time that the user of the table knows; those of
        ``UNKNOWN`` may be left out and are then the means of the two other types'.

    Raises
    ------
    InvalidProblemError
        If a line is missing or not finite.
    """

    lines: Mapping[tuple[WorkloadType, Policy], Line]

    def __post_init__(self) -> None:
        lines = dict(self.lines)
        for policy in Policy:
            known = [lines.get((kind, policy)) for kind in (WorkloadType.COMPUTE, WorkloadType.NETWORK)]
            lines.setdefault((WorkloadType.UNKNOWN, policy), _mean([line for line in known if line is not None]))
        for kind in WorkloadType:
            for policy in Policy:
                _check((kind, policy), lines.get((kind, policy)))
        object.__setattr__(self, "lines", MappingProxyType(lines))

    def __reduce__(self) -> tuple[type["PenaltyTable"], tuple[dict[tuple[WorkloadType, Policy], Line]]]:
        """Return what copies and pickles are made of: a read-only mapping can be in neither."""
        return PenaltyTable, (dict(self.lines),)

    def in_unit(self, unit_s: float) -> "PenaltyTable":
        """Return a table in seconds as one in units of so many seconds."""
        if not unit_s > 0:
            raise UsageError(f"the unit of time is {unit_s} s, must be positive")
        lines = {key: Line(line.base / unit_s, line.per_gpu / unit_s) for key, line in self.lines.items()}
        return PenaltyTable(lines)

    def penalties(self, kinds: IntArray, gpus: IntArray) -> FloatArray:
        """Return the penalty of each job under each policy, shape ``(n, 2)``.

        Parameters
        ----------
        kinds
            The `WorkloadType` of each job, shape ``(n,)``.
        gpus
            GPUs that each of them asks for, shape ``(n,)``.
        """
        penalties = np.zeros((len(kinds), len(Policy)))
        for (kind, policy), line in self.lines.items():
            chosen = kinds == kind
            penalties[chosen, policy] = line.at(gpus[chosen])
        return penalties


@dataclass(frozen=True, slots=True)
class Penalised:
    """Every job takes longer by a penalty of its own, wherever its policy found room for it.

    Parameters
    ----------
    run
        Requested times of the jobs in seconds, shape ``(n,)``.
    penalty_s
        Seconds that they take longer, shape ``(n,)``; less where negative.

    Raises
    ------
    InvalidProblemError
        If a penalty would make a job end before it starts.
    """

    run: FloatArray
    penalty_s: FloatArray

    def __post_init__(self) -> None:
        if (self.penalty_s <= -self.run).any():
            raise InvalidProblemError("locality", "a penalty takes more than the whole run time away")

    def speeds(self, change: Change) -> Iterable[tuple[int, float]]:
        """Return the speeds of the jobs that have just started; they keep them."""
        for job in change.started.tolist():
            yield job, float(self.run[job] / (self.run[job] + self.penalty_s[job]))


@dataclass(frozen=True, slots=True)
class PenalisedByPolicy:
    """Every job takes longer by the penalty of the policy that was chosen for it.

    Parameters
    ----------
    run
        Requested times of the jobs in seconds, shape ``(n,)``.
    penalty_s
        Seconds that they take longer under each policy, shape ``(n, 2)``; less where negative.
    policies
        The policy of each job, by its number as text; known when the job starts at the latest.

    Raises
    ------
    InvalidProblemError
        If a penalty would make a job end before it starts.
    """

    run: FloatArray
    penalty_s: FloatArray
    policies: Mapping[str, Policy]

    def __post_init__(self) -> None:
        for policy in Policy:
            Penalised(self.run, self.penalty_s[:, policy])

    def speeds(self, change: Change) -> Iterable[tuple[int, float]]:
        """Return the speeds of the jobs that have just started; they keep them."""
        for job in change.started.tolist():
            yield job, float(self.run[job] / (self.run[job] + self.penalty_s[job, self.policies[str(job)]]))


@dataclass(frozen=True, slots=True)
class ByPolicy:
    """An allocator that puts every job where its own policy says.

    Parameters
    ----------
    policies
        The policy of each job, by its number as text; known when the job starts at the latest.
    """

    policies: Mapping[str, Policy]

    def place(self, names: Sequence[str], request: IntArray, free: IntArray) -> list[Share]:
        """Place one job after the other."""
        left, shares = free.copy(), []
        for name, asked in zip(names, request, strict=True):
            (share,) = ALLOCATORS[self.policies[name]].place([name], asked[np.newaxis], left)
            left[share.nodes] -= share.units
            shares.append(share)
        return shares


def _mean(lines: Sequence[Line]) -> Line:
    if not lines:
        return Line(float("nan"), float("nan"))
    return Line(sum(line.base for line in lines) / len(lines), sum(line.per_gpu for line in lines) / len(lines))


def _check(key: tuple[WorkloadType, Policy], line: Line | None) -> None:
    kind, policy = key
    place = f"locality of {kind.label} jobs, {policy.label}"
    if line is None:
        raise InvalidProblemError(place, "no line is given")
    if not np.isfinite([line.base, line.per_gpu]).all():
        raise InvalidProblemError(place, f"is {line.base} + {line.per_gpu} per GPU, must be finite")


SIERRA_TABLE = PenaltyTable(
    {
        (WorkloadType.COMPUTE, Policy.DEPTH_FIRST): Line(0.05, 0.0001),
        (WorkloadType.COMPUTE, Policy.BREADTH_FIRST): Line(12.0, 0.042),
        (WorkloadType.NETWORK, Policy.DEPTH_FIRST): Line(12.5, 0.002),
        (WorkloadType.NETWORK, Policy.BREADTH_FIRST): Line(1.9, 0.0005),
    }
)
"""Timesteps of a job without GPUs, and for each GPU that it asks for, as they come with the package.

The paper prints no numbers (its Figure 2 is a picture). These are no measurements: they were chosen, on training job
sets only, so that the baselines come in the order of Table 1; see docs/cush.md. Fit your own with
``allocopt calibrate locality``.
"""
SHARE = 0.7
"""Largest request of the paper's job sets as a share of the cluster, chosen together with the coefficients."""
