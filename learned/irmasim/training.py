"""Training ``irmasim``: an agent that selects policies (IRMaSim, section IV); its reward is relative to fixed policies.

Trained agents are read from files and act without torch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.cluster.irmasim import irmasim_testbed
from allocopt.cluster.multicore import Machine
from allocopt.cluster.platform_files import read_machine
from allocopt.envs.policy_selection.task import LevelName, PolicySelectionEpisodes, PolicySelectionOptions, RewardName
from allocopt.errors import BadFileError, UsageError
from allocopt.learned.rl.training import A2cSettings, DeclaredTraining, PgSettings, Trained, option
from allocopt.learned.rl.workers import Environment, Stateful, Workers
from allocopt.learned.weights import Card, dense_layers, load_weights
from allocopt.simulator.multicore.policies import ACTION_NAMES
from allocopt.simulator.multicore.simulation import MulticoreSchedule
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.traces.tasks import TaskWorkload, npb_batch, read_irmasim

if TYPE_CHECKING:
    from allocopt.learned.rl.algorithms import BestKept

HIDDEN = 32  # Neurons of the hidden layer, with hyperbolic tangents (IRMaSim, Figure 5)
PG, A2C = "pg", "a2c"
AGENTS = (PG, A2C)
USUAL_RATES = {PG: 2e-2, A2C: 1e-2}  # Default learning rates
EVERY = 10  # Updates between two evaluations of the greedy actor
SHARE = "share of "  # Prefix of the columns of a learning curve that show how often each policy was chosen
HETEROGENEOUS, HOMOGENEOUS = "heterogeneous", "homogeneous"
SUBSET = (
    "first-high_gflops",
    "first-high_cores",
    "first-low_power",
    "low_mem_bw-high_gflops",
    "low_mem_bw-high_cores",
    "low_mem_bw-low_power",
)
"""The small subset of policies among which agents choose by default."""
PAPERS: Mapping[str, Machine] = MappingProxyType(
    {HETEROGENEOUS: irmasim_testbed(), HOMOGENEOUS: irmasim_testbed({3.4: 15})}
)
"""The clusters on which IRMaSim was validated."""


class _Played(NamedTuple):
    # Schedule of an agent, and the policies that it chose.
    schedule: MulticoreSchedule
    shares: Mapping[str, float]  # Share of the decisions for each policy that was ever chosen, by its name


@dataclass(frozen=True, slots=True, eq=False)
class Agent:
    """An actor network, and the options of its environment."""

    weights: Mapping[str, Float32Array]  # Its parameters by name
    options: PolicySelectionOptions  # Level, reward and policies that it was trained with

    @classmethod
    def load(cls, path: Path | str) -> "Agent":
        """Read an agent that ``allocopt train irmasim`` wrote; raises `BadFileError` for any other file."""
        return load_weights(Path(path), "irmasim", cls.of)

    @classmethod
    def of(cls, weights: Mapping[str, Float32Array], card: Card) -> "Agent":
        """Make an agent of weights and their card; see `load`."""
        settings = card.settings
        options = PolicySelectionOptions(settings["level"], settings["objective"], tuple(settings["actions"]))
        outputs = weights["2.weight"].shape[0]
        if outputs != len(options.actions):
            raise ValueError(f"has {outputs} outputs for {len(options.actions)} policies")
        return cls(weights, options)

    def choose(self, seen: Float32Array, legal: BoolArray) -> IntArray:
        """Return the legal policies with the greatest logits, the first of equal ones, shape ``(E,)``."""
        return np.asarray(np.where(legal, dense_layers(self.weights, seen, np.tanh), -np.inf).argmax(axis=1))

    def play(self, machine: Machine, jobs: TaskWorkload, execution: Execution | None = None, seed: int = 0) -> _Played:
        """Simulate jobs by the policies that the agent prefers; the seed fixes the choices of random policies.

        Raises `BadFileError` if the agent is for a machine of another size, `InvalidProblemError` if a job can never
        start.
        """
        episodes = PolicySelectionEpisodes([jobs], machine, 1, execution, self.options, seed)
        inputs, (size,) = self.weights["0.weight"].shape[1], episodes.shape
        if inputs != size:
            raise BadFileError(f"the agent takes {inputs} values, an observation of this machine has {size}")
        named = np.zeros(len(self.options.actions))

        def choose(seen: Float32Array, legal: BoolArray) -> IntArray:
            action = self.choose(seen, legal)
            named[action] += 1
            return action

        episodes.play(choose)
        shares = zip(self.options.actions, (named / named.sum()).tolist(), strict=True)
        return _Played(episodes.schedule(0), {name: share for name, share in shares if share > 0})


class _WholeEpisodes(Stateful, Environment):
    """Episodes on the same random jobset; all restart together after as many steps as the longest episode can have.

    The reference of a jobset is a total reward. The gain of a step is its reward divided by the absolute value of the
    reference, plus the share of the work done in the step. Over an episode the gains add up to the share by which its
    cost stays below the reference. The reward for a step is its gain minus the mean gain of all episodes in this step.
    """

    state = ("episodes", "_rng", "_at")

    def __init__(
        self,
        jobsets: Sequence[TaskWorkload],
        machine: Machine,
        execution: Execution,
        options: PolicySelectionOptions,
        references: FloatArray,
        count: int,
        seed: int,
    ) -> None:
        self.episodes = PolicySelectionEpisodes(jobsets, machine, count, execution, options, seed)
        self.n_environments = count
        # If memory is no limit, every policy starts a serial job whenever a core is idle: one decision per job.
        always = all(action.jobs is not None for action in options.policies)
        # Most decisions of an episode: one per submission, and one more per end of a task if not all jobs are serial.
        self.horizon = 0
        for jobs in jobsets:
            most_mb = jobs.memory_mb.max()
            has_room = all(node.memory_mb is None or node.cores * most_mb <= node.memory_mb for node in machine.nodes())
            is_serial = always and has_room and int(jobs.tasks.max()) == 1
            self.horizon = max(self.horizon, len(jobs) if is_serial else len(jobs) + int(jobs.tasks.sum()))
        self._references = -references
        self._rng = np.random.default_rng((seed, 1))
        self._at = 0
        self._taken = np.zeros(len(options.actions), dtype=np.int64)
        self.shares = np.zeros(len(options.actions))
        """Share of the decisions for each policy in the episodes that ended last, shape ``(A,)``."""
        self.totals = np.zeros(count)  # Total reward by the objective in these episodes, shape ``(E,)``

    def observe(self) -> tuple[Float32Array, BoolArray]:
        if self._at == 0:
            self._taken[:] = 0
            jobset = int(self._rng.integers(0, len(self.episodes.jobsets)))
            self.episodes.begin(np.full(self.n_environments, jobset))
        return self.episodes.observe()

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        tally = self.episodes.tally
        was_over, before = tally["over"] != 0, tally["done"].copy()
        self._taken += np.bincount(actions[~was_over], minlength=len(self._taken))
        rewards, over = self.episodes.step(actions)
        self._at = (self._at + 1) % self.horizon
        if self._at == 0:
            self.shares = self._taken / self._taken.sum()
            self.totals = tally["total_reward"].copy()
        gained = rewards / self._references[tally["jobset"]] + tally["done"] - before
        return gained - gained.mean(), over & ~was_over

    def score(self, choose: Callable[[Float32Array, BoolArray], IntArray]) -> float:
        """Play every jobset once; return the mean share by which costs stay below the references."""
        mine = self.episodes
        played = PolicySelectionEpisodes(mine.jobsets, mine.machine, len(mine.jobsets), mine.execution, mine.options)
        played.play(choose)
        return float(1 + (played.tally["total_reward"] / self._references).mean())


def policy_rewards(
    jobsets: Sequence[TaskWorkload],
    machine: Machine,
    execution: Execution,
    options: PolicySelectionOptions,
    seed: int = 0,
) -> FloatArray:
    """Return the total reward of each jobset if always the same policy is chosen, shape ``(S, A)``; NaN for void."""
    n_actions = len(options.actions)
    actions = np.tile(np.arange(n_actions), len(jobsets))
    episodes = PolicySelectionEpisodes(jobsets, machine, len(actions), execution, options, seed)
    episodes.play(lambda seen, legal: actions, np.repeat(np.arange(len(jobsets)), n_actions))
    rewards = episodes.tally["total_reward"].reshape(len(jobsets), n_actions).copy()
    rewards[:, [action.jobs is None for action in options.policies]] = np.nan
    return np.asarray(rewards)


@dataclass(frozen=True)
class IrmasimTraining(DeclaredTraining["BestKept"]):
    """Trains an agent that chooses the policy by which waiting jobs start."""

    platform: str = HETEROGENEOUS  # ``heterogeneous`` or ``homogeneous``, the paper's clusters, or a platform file
    types: str = ""  # Folder of IRMaSim's library of types, if the platform file does not define them; empty for none
    trace: str = ""  # Workload of tasks, or several separated by commas; empty for a batch of NPB jobs
    # Number of jobs of this batch, and the seed that draws it
    jobs: int = option(100, least=1)
    batch: int = option(100, least=0)
    objective: str = "energy"  # ``energy``, ``makespan``, ``energy_delay``, or another reward of the environment
    level: str = "minimal"  # How much the agent sees: ``normal``, ``small`` or ``minimal``
    agent: str = option(PG, among=AGENTS)  # ``pg``: REINFORCE, or ``a2c``: actor-critic
    model: str = ExecutionKind.CONTENTION.value  # ``contention`` or ``baseline``
    policies: str = ""  # Names separated by commas, or ``all``; empty for `SUBSET`
    episodes: int = 4800  # Episodes of the training, at least ``environments``
    environments: int = 16  # Episodes side by side, which make one update; at least 2
    # Learning rate of Adam at the start; it falls linearly to a twentieth. 0 for the usual one.
    learning_rate: float = option(0.0, least=0)
    # Weight of the policy's entropy; small, because rewards are shares of the objective, about 1e-4 per decision
    ent_coef: float = option(6e-5, least=0)

    name: ClassVar[str] = "irmasim"
    paths: ClassVar[tuple[str, ...]] = ("trace", "platform", "types")
    renamed_options: ClassVar[Mapping[str, str]] = {"entropy": "ent_coef"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.environments < 2 or self.episodes < self.environments:
            fault = f"episodes is {self.episodes} and environments is {self.environments}"
            raise UsageError(f"{fault}; environments must be at least 2, and episodes at least as many as environments")
        self.options()
        self.execution()

    @property
    def label(self) -> str:
        return f"{self.name}-{self.agent}-{self.objective}-{self.model}"

    @property
    def updates(self) -> int:
        """Number of updates, which follows from the number of episodes."""
        return self.episodes // self.environments

    n_updates = updates

    def options(self) -> PolicySelectionOptions:
        """Return level, reward and policies of the environment."""
        names = tuple(self.policies.split(",")) if self.policies else SUBSET
        level, reward = cast(LevelName, self.level), cast(RewardName, self.objective)
        return PolicySelectionOptions(level, reward, ACTION_NAMES if self.policies == "all" else names)

    def execution(self) -> Execution:
        """Return the execution model."""
        return Execution(cast(ExecutionKind, self.model))

    def machine(self) -> Machine:
        """Return the platform; raise `UsageError` if there is none, `BadFileError` if its file is invalid."""
        if self.platform in PAPERS:
            return PAPERS[self.platform]
        if not Path(self.platform.partition("#")[0]).exists():
            known = ", ".join(PAPERS)
            raise UsageError(f"there is no platform {self.platform!r}; must be one of {known}, or a file")
        return read_machine(self.platform, self.types or None)

    def jobsets(self) -> tuple[TaskWorkload, ...]:
        """Read the workloads of tasks; if ``trace`` is empty, draw NPB jobs by the seed ``batch``."""
        if not self.trace:
            return (npb_batch(self.jobs, np.random.default_rng(self.batch)),)
        return tuple(read_irmasim(path) for path in self.trace.split(","))

    def _learner(self, seed: int, workers: Workers) -> "BestKept":
        from torch import nn

        from allocopt.learned.rl.algorithms import LEARNERS, BestKept
        from allocopt.learned.rl.networks import ActorCritic, dense, scale_last_layer

        environment = self.environment(seed)
        (size,), steps = environment.episodes.shape, environment.horizon
        rate = self.learning_rate or USUAL_RATES[self.agent]
        actor = dense(size, HIDDEN, len(environment.episodes.options.actions), activation=nn.Tanh())
        scale_last_layer(actor, 0.01)
        is_pg = self.agent == PG
        settings = (PgSettings if is_pg else A2cSettings)(n_steps=steps, learning_rate=rate, ent_coef=self.ent_coef)
        model = actor if is_pg else ActorCritic(actor, dense(size, HIDDEN, 1, activation=nn.Tanh()))
        inner = LEARNERS[type(settings)](model, environment, settings, seed)

        class Watched(BestKept):
            more_is_better = True

            def judge(self, weights: Mapping[str, Float32Array]) -> dict[str, float]:
                return {"score": environment.score(Agent(weights, environment.episodes.options).choose)}

            def update(self, share: float) -> dict[str, float]:
                measures = super().update(share)
                del measures["score"]
                shares = zip(environment.episodes.options.actions, environment.shares.tolist(), strict=True)
                return {
                    "episodes": float(self._updates * environment.n_environments),
                    **measures,
                    # Report total rewards: the rewards of the training are relative and 0 on average.
                    "mean_return": float(environment.totals.mean()),
                    **{SHARE + name: value for name, value in shares},
                }

        return Watched(inner, actor, EVERY)

    def result(self, learner: "BestKept") -> Trained:
        told = {"score": float(learner.best_score), "actions": list(self.options().actions)}
        return "dense", learner.best, told

    def environment(self, seed: int) -> _WholeEpisodes:
        """Return the environment; the references are the mean total rewards of policies that are always chosen."""
        machine, jobsets = self.machine(), self.jobsets()
        options, execution = self.options(), self.execution()
        references = np.nanmean(policy_rewards(jobsets, machine, execution, options), axis=1)
        return _WholeEpisodes(jobsets, machine, execution, options, references, self.environments, seed)
