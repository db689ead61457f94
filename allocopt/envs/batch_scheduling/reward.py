"""What an agent is rewarded for: the gain of an objective over each step, so that an episode's rewards add up to it."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from allocopt.kernels.compiled import inlined

HOUR_S = 3600.0


BOUNDED_SLOWDOWN, WAIT, MAKESPAN, UTILIZATION = range(4)  # what the kernels know the objectives by


@dataclass(frozen=True, slots=True)
class BoundedSlowdown:
    """Minus the mean bounded slowdown: at its start a job costs ``max(1, (wait + run) / max(run, 10 s)) / n_jobs``."""

    kind: ClassVar[int] = BOUNDED_SLOWDOWN
    unit_s: ClassVar[float] = 1.0


@dataclass(frozen=True, slots=True)
class MeanWait:
    """Minus the mean wait: at its start a job costs ``wait / (unit_s * n_jobs)``; ``unit_s`` is positive."""

    unit_s: float = HOUR_S
    kind: ClassVar[int] = WAIT


@dataclass(frozen=True, slots=True)
class Makespan:
    """Minus the makespan: a start costs the time by which it moves the last end, over ``unit_s``, which is positive."""

    unit_s: float = HOUR_S
    kind: ClassVar[int] = MAKESPAN


@dataclass(frozen=True, slots=True)
class Utilization:
    """The share of the processor-seconds up to the last end that the jobs started so far hold; a step gains its change.

    That is the utilization of the machine once all jobs have started.
    """

    kind: ClassVar[int] = UTILIZATION
    unit_s: ClassVar[float] = 1.0


Reward = BoundedSlowdown | MeanWait | Makespan | Utilization


class Goal(Protocol):
    """The fields of `Reward`."""

    kind: int
    unit_s: float


class Sums(Protocol):
    """What rewards are made of, over the jobs that have started."""

    started: int
    bounded_slowdown: float
    wait_s: float
    area: float  # processor-seconds held
    makespan_s: float  # last end; the first submission is at 0


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
