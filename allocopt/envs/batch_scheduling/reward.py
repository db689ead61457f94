"""What an agent is rewarded for: the gain of an objective over each step, so that an episode's rewards add up to it."""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Protocol

from allocopt.kernels.compiled import inlined

HOUR_S = 3600.0


class RewardKind(IntEnum):
    """The objectives that the kernels compute."""

    BOUNDED_SLOWDOWN = 0
    WAIT = 1
    MAKESPAN = 2
    UTILIZATION = 3


WAIT, MAKESPAN, UTILIZATION = int(RewardKind.WAIT), int(RewardKind.MAKESPAN), int(RewardKind.UTILIZATION)


class Reward(Protocol):
    """What an agent is rewarded for."""

    @property
    def kind(self) -> RewardKind:
        """The objective."""

    @property
    def unit_s(self) -> float:
        """Seconds that count as 1, where the objective is a time."""


@dataclass(frozen=True, slots=True)
class BoundedSlowdown:
    """Minus the mean bounded slowdown: at its start a job costs ``max(1, (wait + run) / max(run, 10 s)) / n_jobs``."""

    kind: ClassVar[RewardKind] = RewardKind.BOUNDED_SLOWDOWN
    unit_s: ClassVar[float] = 1.0


@dataclass(frozen=True, slots=True)
class MeanWait:
    """Minus the mean wait: at its start a job costs ``wait / (unit_s * n_jobs)``; ``unit_s`` is positive."""

    unit_s: float = HOUR_S
    kind: ClassVar[RewardKind] = RewardKind.WAIT


@dataclass(frozen=True, slots=True)
class Makespan:
    """Minus the makespan: a start costs the time by which it moves the last end, over ``unit_s``, which is positive."""

    unit_s: float = HOUR_S
    kind: ClassVar[RewardKind] = RewardKind.MAKESPAN


@dataclass(frozen=True, slots=True)
class Utilization:
    """The share of the processor-seconds up to the last end that the jobs started so far hold; a step gains its change.

    That is the utilization of the machine once all jobs have started.
    """

    kind: ClassVar[RewardKind] = RewardKind.UTILIZATION
    unit_s: ClassVar[float] = 1.0


class Goal(Protocol):
    """The fields of `Reward`."""

    kind: int
    unit_s: float


class Sums(Protocol):
    """What rewards are made of, over the jobs that have started."""

    started: int
    bounded_slowdown: float
    wait_s: float
    area: float
    """Processor-seconds held."""
    makespan_s: float
    """Last end; the first submission is at 0."""


@inlined
def worth(total: Sums, goal: Goal, n_jobs: int, machine: int) -> float:
    """Worth of the jobs started so far; rewards are its changes."""
    if goal.kind == WAIT:
        return -total.wait_s / (goal.unit_s * n_jobs)
    if goal.kind == MAKESPAN:
        return -total.makespan_s / goal.unit_s
    if goal.kind == UTILIZATION:
        return total.area / (total.makespan_s * float(machine)) if total.makespan_s > 0 else 0.0
    return -total.bounded_slowdown / n_jobs
