"""Policies ``dras-ppo``, ``dras-a2c``, ``dras-pg``, ``dras-dql`` and ``decima-pg``: trained agents as schedulers.

``dras-ppo`` may continue learning in operation (DRAS paper, sections 3.3 and 6.5: *dynamic*). From time to time, it is
trained further on jobs that were submitted in the last weeks and have ended: the jobsets are variants of these jobs
with their real run times. This happens in simulation, so that the agent never experiments on the machine. With a gate,
the new weights are kept only if they are significantly better on other variants; the paper describes no gate. Only this
learning needs torch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from allocopt.arrays import BoolArray, Float32Array
from allocopt.envs.dras.dynamics import Weights
from allocopt.envs.dras.task import DrasOptions, Observing
from allocopt.errors import UsageError
from allocopt.learned.dras.environment import ActingPolicy, JobsetEnvironment, Validator
from allocopt.learned.dras.jobsets import RUN_JITTER
from allocopt.learned.dras.network_kinds import KINDS, NetworkKind
from allocopt.learned.rl.slots import CompactNetwork, SlotPolicy
from allocopt.learned.rl.training import PpoSettings, check_torch
from allocopt.learned.weights import Card, find_weights, load_weights
from allocopt.simulator.decisions import Decision
from allocopt.simulator.rules import Reservations
from allocopt.simulator.two_level import TwoLevelLog, TwoLevelScheduler
from allocopt.simulator.view import View
from allocopt.traces.variants import varied_run_times
from allocopt.traces.weekly_cycle import DAY_S
from allocopt.traces.workload import Workload

LEAST_JOBS = 100  # Least number of ended jobs from which an agent learns
ADAPTED_EPISODES = 16  # Episodes side by side, divided evenly among the variants for training


@dataclass(frozen=True, slots=True, eq=False)
class Agent:
    """A trained network."""

    kind: NetworkKind
    weights: dict[str, Float32Array]  # Its parameters by name
    window: int  # Number of waiting jobs among which it chooses
    reward: Weights  # Reward of its training

    @classmethod
    def load(cls, name: str, weights: str) -> "Agent":
        """Read a shipped agent, or one from a file; raises `UsageError` if there is none, `BadFileError` if broken."""
        return load_weights(find_weights(name, weights), name, cls.of)

    @classmethod
    def of(cls, weights: dict[str, Float32Array], card: Card) -> "Agent":
        """Make an agent of weights and their card; see `load`."""
        agent = cls(KINDS[card.network], weights, int(card.settings["window"]), Weights(**card.settings["reward"]))
        agent.policy()
        return agent

    def options(self, reservations: Reservations = Reservations.KEPT) -> DrasOptions:
        """Return the options of the environment in which the agent acts."""
        return DrasOptions(self.window, reservations, observation=self.kind.observation)

    def policy(self) -> ActingPolicy:
        """Return the policy that makes the choices of the greatest value."""
        return self.kind.policy(self.weights, self.options())


@dataclass(slots=True)
class _Acting:
    """The policy of an agent; learning in operation replaces it."""

    policy: ActingPolicy

    def __call__(self, observation: Float32Array, legal: BoolArray) -> int:
        return self.policy(observation, legal)


@dataclass(frozen=True, slots=True)
class AgentScheduler:
    """A trained agent; raises `UsageError` if there are no such weights, `BadFileError` if they cannot be read."""

    # Machine for which it was trained, ``theta``, ``sdsc-sp2`` or ``generic``, or a file that a training wrote
    weights: str = "theta"
    _agent: Agent = field(init=False, repr=False, compare=False)
    _acting: _Acting = field(init=False, repr=False, compare=False)
    _scheduler: TwoLevelScheduler = field(init=False, repr=False, compare=False)

    name: ClassVar[str]
    reservations: ClassVar[Reservations] = Reservations.KEPT

    def __post_init__(self) -> None:
        agent = Agent.load(self.name, self.weights)
        acting = _Acting(agent.policy())
        selector = Observing(acting, agent.options(self.reservations))
        object.__setattr__(self, "_agent", agent)
        object.__setattr__(self, "_acting", acting)
        object.__setattr__(self, "_scheduler", TwoLevelScheduler(selector, agent.window, self.reservations))

    @property
    def log(self) -> TwoLevelLog:
        """Log of the last simulation."""
        return self._scheduler.log

    def schedule(self, view: View) -> Iterator[Decision]:
        """Decide which jobs start; see `allocopt.simulator.two_level.TwoLevelScheduler.schedule`."""
        return self._scheduler.schedule(view)


def _of(class_name: str, name: str, reservations: Reservations = Reservations.KEPT) -> type[AgentScheduler]:
    doc = f"``{name}``; see `AgentScheduler`."
    own = {"__doc__": doc, "__module__": __name__, "name": name, "reservations": reservations}
    return type(class_name, (AgentScheduler,), own)


DrasA2c, DrasPg, DrasDql = _of("DrasA2c", "dras-a2c"), _of("DrasPg", "dras-pg"), _of("DrasDql", "dras-dql")
# Without reservations and second level: the ablation of the DRAS paper.
DecimaPg = _of("DecimaPg", "decima-pg", Reservations.NONE)


def _adapted(
    weights: Mapping[str, Float32Array],
    jobs: Workload,
    machine: int,
    options: DrasOptions,
    seeds: tuple[int, int],
    *,
    updates: int = 10,
    learning_rate: float = 2e-4,  # A tenth of the training's
    variants: int = 4,
    judging: int = 16,
    gated: bool = True,
) -> dict[str, Float32Array]:
    # Train an agent further on variants of jobs that have ended. Return the new weights; with a gate, return the old
    # ones unless the new ones are better on other variants.
    import torch

    from allocopt.learned.dras.experience import JobsetCollector
    from allocopt.learned.rl.algorithms import PpoLearner
    from allocopt.learned.rl.networks import SlotActorCritic, set_weights, weights_of

    rng = np.random.default_rng(seeds)
    seed = int(rng.integers(2**31))
    trained, judges = ([varied_run_times(jobs, rng, RUN_JITTER) for _ in range(n)] for n in (variants, judging))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = SlotActorCritic(CompactNetwork.of(weights))
    set_weights(model, weights)
    environment = JobsetEnvironment([(trained, 1.0)], machine, ADAPTED_EPISODES, options, seed)
    settings = PpoSettings(n_epochs=2, batch_size=2048, learning_rate=learning_rate, ent_coef=0.001)
    learner = PpoLearner(model, environment, settings, seed, JobsetCollector(groups=variants))
    for update in range(updates):
        learner.update(update / updates)
    new = weights_of(model)
    if not gated:
        return new
    validator = Validator(judges, machine, options)
    return new if validator.waits(new).are_better_than(validator.waits(weights)) else dict(weights)


def _ended_jobs(view: View, since_s: float) -> Workload:
    # Return the ended jobs that were submitted since a time, with their real run times.
    start, end, release = view.start, view.end, view.release
    rows = np.flatnonzero(np.isfinite(end) & (release >= since_s))
    run = np.maximum(end[rows] - start[rows], 1.0)
    submit = release[rows] - release[rows].min(initial=np.inf)
    return Workload("seen", np.arange(len(rows)), submit, run, view.as_pool.request[rows, 0], view.estimate[rows])


@dataclass(slots=True, eq=False)
class _Operation:
    # Current weights, current simulation, time of the last training, number of trainings, and how many changed weights.
    weights: dict[str, Float32Array]
    view: View | None = None
    last_s: float = 0.0
    trained: int = 0
    changed: int = 0


@dataclass(frozen=True, slots=True)
class DrasPpo(AgentScheduler):
    """``dras-ppo``, static or *dynamic*; see `AgentScheduler`. Needs torch if dynamic (`MissingPackageError`)."""

    dynamic: bool = False  # Whether it continues learning in operation, which needs torch
    # Whether new weights are kept only if they are better on other variants of the jobs. If False, they are always
    # kept, as in the paper.
    gated: bool = True
    # Days between two updates, and age in days of the oldest jobs used
    period_days: float = 7.0
    memory_days: float = 14.0
    seed: int = 0  # Seed of all random choices of these updates
    _operation: _Operation = field(init=False, repr=False, compare=False)

    name: ClassVar[str] = "dras-ppo"

    def __post_init__(self) -> None:
        if not (self.period_days > 0 and self.memory_days > 0) or self.seed < 0:
            raise UsageError("period_days and memory_days must be > 0, and the seed must be >= 0")
        if self.dynamic:
            check_torch()
        AgentScheduler.__post_init__(self)
        if self.dynamic and self._agent.kind.observation != "slots":
            raise UsageError("only agents with the compact network can learn in operation; use dynamic=false")
        object.__setattr__(self, "_operation", _Operation(self._agent.weights))

    @property
    def operation(self) -> tuple[int, int]:
        """Numbers of trainings in the last simulation, and of those that changed the weights."""
        return self._operation.trained, self._operation.changed

    def schedule(self, view: View) -> Iterator[Decision]:
        if not self.dynamic:
            return self._scheduler.schedule(view)
        operation, agent = self._operation, self._agent
        if operation.view is not view:
            operation.view, operation.last_s, operation.trained, operation.changed = view, view.now, 0, 0
            operation.weights, self._acting.policy = agent.weights, agent.policy()
        if view.now - operation.last_s >= self.period_days * DAY_S:
            operation.last_s = view.now
            jobs = _ended_jobs(view, view.now - self.memory_days * DAY_S)
            if len(jobs) >= LEAST_JOBS:
                options = DrasOptions(window=agent.window, reward=agent.reward, skips_forced=True)
                machine, before = view.as_pool.platform.size, operation.weights
                seeds = (self.seed, operation.trained)
                learned = _adapted(before, jobs, machine, options, seeds, gated=self.gated)
                operation.trained += 1
                operation.changed += any(not np.array_equal(learned[name], before[name]) for name in before)
                operation.weights, self._acting.policy = learned, SlotPolicy.of(learned)
        return self._scheduler.schedule(view)
