"""Policies ``dras-ppo``, ``dras-a2c``, ``dras-pg``, ``dras-dql`` and ``decima-pg``: trained agents as schedulers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from allocopt.arrays import Float32Array
from allocopt.envs.dras.reward import Weights
from allocopt.envs.dras.task import Observing, Options
from allocopt.errors import BadFileError, UsageError
from allocopt.simulator.rules import Reservations
from allocopt.simulator.scheduler import Decision
from allocopt.simulator.two_level import TwoLevelLog, TwoLevelScheduler
from allocopt.simulator.view import View
from learned.dras.dynamic import LEAST_JOBS, Adaptation, ended_jobs
from learned.dras.jobsets import DAY_S
from learned.rl.slots import SlotPolicy, pack_slots
from learned.rl.training import check_torch
from learned.weights import find_weights, load_weights


@dataclass(frozen=True, slots=True, eq=False)
class Agent:
    """A trained compact network."""

    weights: dict[str, Float32Array]  # Its parameters by name
    window: int  # Waiting jobs among which it chooses
    reward: Weights  # What it was trained for

    def policy(self) -> SlotPolicy:
        """Return what takes the choices that the agent likes best."""
        return SlotPolicy(pack_slots(self.weights))


def load_agent(name: str, weights: str) -> Agent:
    """Read the agent of a training such as ``dras-ppo``: one of `shipped_weights`, or a file that a training wrote.

    Raises `UsageError` if there is no such file, `BadFileError` if it cannot be read, or is of another agent.
    """
    path = find_weights(name, weights)
    held, card = load_weights(path, name)
    try:
        pack_slots(held)
        return Agent(held, int(card.settings["window"]), Weights(**card.settings["reward"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BadFileError(f"{path}: {error}") from None


@dataclass(frozen=True, slots=True)
class AgentScheduler:
    """A trained agent; raises `UsageError` if there are no such weights, `BadFileError` if they cannot be read."""

    # Machine that it was trained for, ``theta``, ``sdsc-sp2`` or ``generic``, or a file that a training wrote
    weights: str = "theta"
    _scheduler: TwoLevelScheduler = field(init=False, repr=False, compare=False)

    name: ClassVar[str]
    reservations: ClassVar[Reservations] = Reservations.KEPT

    def __post_init__(self) -> None:
        agent = load_agent(self.name, self.weights)
        object.__setattr__(self, "_scheduler", self._scheduler_of(agent, agent.policy()))

    @property
    def log(self) -> TwoLevelLog:
        """What happened in the last simulation."""
        return self._scheduler.log

    def schedule(self, view: View) -> Iterator[Decision]:
        """Decide what starts; see `allocopt.simulator.two_level.TwoLevelScheduler.schedule`."""
        return self._scheduler.schedule(view)

    def _scheduler_of(self, agent: Agent, policy: SlotPolicy) -> TwoLevelScheduler:
        selector = Observing(policy, Options(window=agent.window, reservations=self.reservations))
        return TwoLevelScheduler(selector, agent.window, self.reservations)


@dataclass(frozen=True, slots=True)
class DrasA2c(AgentScheduler):
    """``dras-a2c``; see `AgentScheduler`."""

    name: ClassVar[str] = "dras-a2c"


@dataclass(frozen=True, slots=True)
class DrasPg(AgentScheduler):
    """``dras-pg``; see `AgentScheduler`."""

    name: ClassVar[str] = "dras-pg"


@dataclass(frozen=True, slots=True)
class DrasDql(AgentScheduler):
    """``dras-dql``; see `AgentScheduler`."""

    name: ClassVar[str] = "dras-dql"


@dataclass(frozen=True, slots=True)
class DecimaPg(AgentScheduler):
    """``decima-pg``: no reservations and no second level, the ablation of the DRAS paper; see `AgentScheduler`."""

    name: ClassVar[str] = "decima-pg"
    reservations: ClassVar[Reservations] = Reservations.NONE


@dataclass(slots=True, eq=False)
class _Operation:
    # An agent that learns in operation: the simulation that it takes part in, what it has become there, when it was
    # trained last, and how many times it was trained and changed.
    weights: dict[str, Float32Array]
    policy: SlotPolicy
    view: View | None = None
    last_s: float = 0.0
    trained: int = 0
    changed: int = 0


@dataclass(frozen=True, slots=True)
class DrasPpo(AgentScheduler):
    """``dras-ppo``, static or *dynamic*; see `AgentScheduler`.

    Raises `UsageError` if a number is out of range, `MissingPackageError` if it is to learn and torch is not installed.
    """

    dynamic: bool = False  # Whether it goes on learning in operation; see `learned.dras.dynamic`. Needs torch.
    # Days between two updates, and days back to which ended jobs are looked at
    period_days: float = 7.0
    memory_days: float = 14.0
    seed: int = 0  # Fixes every random choice of these updates
    _agent: Agent = field(init=False, repr=False, compare=False)
    _operation: _Operation = field(init=False, repr=False, compare=False)

    name: ClassVar[str] = "dras-ppo"

    def __post_init__(self) -> None:
        if not (self.period_days > 0 and self.memory_days > 0) or self.seed < 0:
            raise UsageError("period_days and memory_days must be positive, the seed not negative")
        if self.dynamic:
            check_torch()
        agent = load_agent(self.name, self.weights)
        policy = agent.policy()
        object.__setattr__(self, "_agent", agent)
        object.__setattr__(self, "_operation", _Operation(agent.weights, policy))
        object.__setattr__(self, "_scheduler", self._scheduler_of(agent, policy))

    @property
    def operation(self) -> tuple[int, int]:
        """How many times it learned in the last simulation, and how many times that changed it."""
        return self._operation.trained, self._operation.changed

    def schedule(self, view: View) -> Iterator[Decision]:
        """Learn if that is due, and decide what starts; see `TwoLevelScheduler.schedule`."""
        if self.dynamic:
            operation = self._operation
            if operation.view is not view:
                operation.view, operation.last_s, operation.trained, operation.changed = view, view.now, 0, 0
                self._follow(self._agent.weights)
            if view.now - operation.last_s >= self.period_days * DAY_S:
                self._learn(view)
        return self._scheduler.schedule(view)

    def _learn(self, view: View) -> None:
        operation = self._operation
        operation.last_s = view.now
        jobs = ended_jobs(view, view.now - self.memory_days * DAY_S)
        if len(jobs) < LEAST_JOBS:
            return
        options = Options(window=self._agent.window, reward=self._agent.reward, skips_forced=True)
        machine = int(view.platform.total[0])
        before = operation.weights
        learned = Adaptation(seed=self.seed).adapted(before, jobs, machine, options, operation.trained)
        operation.trained += 1
        operation.changed += any(not np.array_equal(learned[name], before[name]) for name in before)
        self._follow(learned)

    def _follow(self, weights: dict[str, Float32Array]) -> None:
        self._operation.weights, self._operation.policy.network = weights, pack_slots(weights)
