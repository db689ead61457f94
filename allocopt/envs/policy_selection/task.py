"""The task of policy selection: its arguments, its episodes side by side, and its environments."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from allocopt.arrays import BoolArray, Float32Array, FloatArray
from allocopt.cluster.irmasim import heterogeneous
from allocopt.cluster.multicore import Machine
from allocopt.cluster.reading import read_machine
from allocopt.envs.environments import About, SingleEnv, Task, VectorizedEnv
from allocopt.envs.fields import records
from allocopt.envs.policy_selection.dynamics import LAYOUT, Episode, Tally, Terms, step_all
from allocopt.envs.policy_selection.observation import LEVELS, MEANINGS, Level, LevelName, describe_all, size_of, traits
from allocopt.envs.policy_selection.reward import REWARD_MEANINGS, REWARDS, RewardKind, RewardName
from allocopt.envs.side_by_side import Compiled
from allocopt.errors import UsageError
from allocopt.simulator.multicore.policies import ACTION_NAMES, VOID_NAME, Action, get_actions
from allocopt.simulator.multicore.simulation import MulticoreSchedule, MulticoreSimulation
from allocopt.simulator.multicore.state import IDLE, Execution, ExecutionKind, new_simulation
from allocopt.traces.irmasim import read_irmasim
from allocopt.traces.npb import npb_batch
from allocopt.traces.tasks import TaskWorkload

METRICS = ("makespan_s", "energy_j", "flow_time_s")
DRAWN_JOBSETS, DRAWN_JOBS = 16, 100
"""Job sets drawn by the seed of a reset where none are given, and jobs of each."""

Jobs = Sequence[TaskWorkload] | TaskWorkload | Path | str


@dataclass(frozen=True, slots=True)
class Options:
    """What episodes have in common besides machine and execution.

    Parameters
    ----------
    level
        How much an agent is told: ``normal``, ``small`` (nothing of cores) or ``minimal`` (the waiting jobs only).
    reward
        What it is rewarded for, see `RewardKind`.
    actions
        Names of the policies among which it chooses; all 37 by default.

    Raises
    ------
    UsageError
        If there is no such level, reward or policy, one is named twice, or none starts jobs.
    """

    level: LevelName = "small"
    reward: RewardName = "energy"
    actions: tuple[str, ...] = ACTION_NAMES

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise UsageError(f"the level is {self.level!r}, must be one of {', '.join(LEVELS)}")
        if self.reward not in REWARDS:
            raise UsageError(f"the reward is {self.reward!r}, must be one of {', '.join(REWARDS)}")
        if isinstance(self.actions, str) or not all(isinstance(name, str) for name in self.actions or ()):
            raise UsageError(f"the actions are {self.actions!r}, must be a sequence of names")
        names = tuple(action.name for action in get_actions(self.actions))
        if names == (VOID_NAME,):
            raise UsageError("the only policy is void, one at least must start jobs")
        object.__setattr__(self, "actions", names)

    @property
    def policies(self) -> tuple[Action, ...]:
        """The policies among which an agent chooses, in the order of the actions."""
        return get_actions(self.actions)


class Episodes(Compiled):
    """Independent episodes on machines that are alike.

    Parameters
    ----------
    jobsets
        The jobs of which an episode takes one set.
    machine
        The machine.
    count
        Episodes side by side, E, at least 1; all of them are over until `begin` is called.
    execution
        How jobs run; None for contention.
    options
        Level, reward and policies; None for the defaults.
    seed
        Fixes what policies choose at random.

    Raises
    ------
    UsageError
        If there are no job sets or episodes.
    InvalidProblemError
        If a set holds no jobs, or one that can never start; it is named.
    """

    layout = LAYOUT
    kernel = staticmethod(step_all)

    def __init__(
        self,
        jobsets: Sequence[TaskWorkload],
        machine: Machine,
        count: int = 1,
        execution: Execution | None = None,
        options: Options | None = None,
        seed: int = 0,
    ) -> None:
        if not jobsets or count < 1:
            raise UsageError(f"there are {len(jobsets)} job sets and {count} episodes, must be at least 1 of each")
        self.options = Options() if options is None else options
        self.machine = machine
        self.execution = Execution() if execution is None else execution
        self.jobsets = tuple(jobsets)
        self._level = Level[self.options.level.upper()]
        jobs, tasks = [len(one) for one in jobsets], [int(one.tasks.sum()) for one in jobsets]
        one = _with_room(jobsets, machine, self.execution, self.options, max(jobs), max(tasks))
        batch = LAYOUT.side_by_side(count, one, jobs=jobs, tasks=tasks)
        super().__init__(len(jobsets), len(self.options.actions), batch, (size_of(self._level, machine),))
        self.seed(np.random.default_rng(seed))

    @property
    def size(self) -> int:
        """Number of values of an observation."""
        return self.shape[0]

    def seed(self, rng: np.random.Generator) -> None:
        """Draw anew what the random policies of each episode draw from."""
        self._batch.word[:, 0] = rng.integers(0, 2**64, self.n_environments, dtype=np.uint64)

    def _describe(self, seen: Float32Array, legal: BoolArray) -> None:
        describe_all(self._batch, int(self._level), seen, legal)

    def metrics(self) -> dict[str, FloatArray]:
        """Return what the episodes have come to so far: makespan, energy, flow time, energy-delay; shapes ``(E,)``."""
        found = {name: self.tally[name].copy() for name in METRICS}
        return found | {"energy_delay_js": found["energy_j"] * found["makespan_s"]}

    def schedule(self, episode: int) -> MulticoreSchedule:
        """Return when and where the jobs of an episode ran, and the energy.

        Raises
        ------
        SchedulerError
            If not all of them have ended.
        """
        jobset = self.jobsets[int(self.tally["jobset"][episode])]
        simulation = MulticoreSimulation(self.machine, jobset, self.execution)
        simulation.multicore = LAYOUT.one(self._batch, episode).multicore
        return simulation.schedule()


def _with_room(
    jobsets: Sequence[TaskWorkload], machine: Machine, execution: Execution, options: Options, jobs: int, tasks: int
) -> Episode:
    """Return an episode with room for so many jobs and tasks, and the jobs and tasks of all sets."""
    states, multicores = zip(*(new_simulation(machine, one, execution) for one in jobsets), strict=True)
    state, multicore = states[0], multicores[0]
    described = [traits(one, machine) for one in jobsets]

    def all_of(values: Sequence[Any]) -> Any:
        return np.concatenate([np.asarray(one) for one in values])

    return Episode(
        state._replace(
            jobs=np.zeros(tasks, state.jobs.dtype),
            request=all_of([one.request for one in states]),
            lists=np.zeros((len(state.lists), tasks), dtype=np.int64),
            held=np.zeros_like(state.held),
            least=state.least[:, :0],
        ),
        multicore._replace(
            tasks=np.zeros(tasks, multicore.tasks.dtype),
            jobs=np.zeros(jobs, multicore.jobs.dtype),
            core_task=np.full_like(multicore.core_task, IDLE),
            dirty=np.zeros_like(multicore.dirty),
            word=np.zeros_like(multicore.word),
            values=np.stack([np.pad(one.values, ((0, 0), (0, tasks - one.values.shape[1]))) for one in multicores]),
        ),
        records(Tally),
        terms(machine, execution, options),
        np.array([action.codes for action in options.policies], dtype=np.int64),
        np.concatenate(described),
        np.concatenate([np.argsort(one, axis=0, kind="stable") for one in described]),
        state.clock,
        state.units,
        np.stack([np.asarray(one.tally) for one in multicores]),
        np.stack([np.asarray(one.processors) for one in multicores]),
        multicore.nodes,
        all_of([one.jobs for one in states]),
        all_of([one.tasks for one in multicores]),
        all_of([one.jobs for one in multicores]),
    )


def terms(machine: Machine, execution: Execution, options: Options) -> Any:
    """Return what kernels need to know of the machine and the options."""
    shares = execution.kind is ExecutionKind.CONTENTION
    powers = [processor.power for processor in machine.processors() if processor.power is not None]
    watts = [power.core_w + (power.processor_w if shares else 0.0) for power in powers]
    speed = max(processor.core_speed for processor in machine.processors())
    return records(
        Terms, reward=RewardKind[options.reward.upper()], most_speed=speed, most_power_w=max(watts, default=0.0)
    )


class PolicySelection(Task[Episodes, Float32Array]):
    """An agent names the policy by which waiting jobs start (IRMaSim, section IV).

    Parameters
    ----------
    machine
        The machine, or a platform file; None for the paper's heterogeneous cluster.
    jobs
        One or several sets of jobs of which an episode takes one, or a file of one; None for 16 batches of 100 NPB jobs
        that are drawn by the seed of `reset`.
    execution
        How they run; None for contention.
    options
        Level, reward and policies; None for the defaults.

    Raises
    ------
    UsageError
        If there are no job sets.
    BadFileError
        If a file is not right.
    InvalidProblemError
        If a job can never start; it is named.
    """

    about = About(
        title="Policies on a multicore machine (IRMaSim)",
        episode="""\
The policy is applied to the queue until the job that is next does not fit. Then time goes on until a job waits
and a core is idle. The episode ends when all jobs have ended; under one policy it is the simulation under that
policy. `schedule()` tells when and where the jobs ran, and the energy.""",
        action="The number of a policy of [irmasim.md](irmasim.md), in the order of `options.actions`.",
        mask="""\
All policies are legal but `void`, which starts nothing: that is legal while a task runs or a job is to come.
Where neither is so, nothing would ever happen again, and it stands for the first policy that is not void.""",
        seen="""\
The parts one after the other. With N nodes, P processors and C cores, level `normal` has N + P + 3 C + 21
numbers: nodes, processors, cores, queue; `small` N + P + 21, without the cores; `minimal` 21, of the queue. The
paper's sizes count one value per processor but list none; the bandwidth is what its contention model turns on.""",
        meanings={"Parts, in this order": MEANINGS},
        rewards=REWARD_MEANINGS,
        options=Options,
        example="[irmasim_agents.md](irmasim_agents.md) plays an episode.",
    )

    def __init__(
        self,
        machine: Machine | Path | str | None = None,
        jobs: Jobs | None = None,
        execution: Execution | None = None,
        options: Options | None = None,
    ) -> None:
        machine = heterogeneous() if machine is None else machine
        machine = read_machine(machine) if isinstance(machine, Path | str) else machine
        if not isinstance(machine, Machine):
            raise UsageError(f"the machine is {machine!r}, must be a Machine or a platform file")
        self.machine = machine
        self.execution = Execution() if execution is None else execution
        self.options = Options() if options is None else options
        if not (isinstance(self.execution, Execution) and isinstance(self.options, Options)):
            raise UsageError("the execution must be an Execution and the options must be Options, or None")
        super().__init__(_jobsets(jobs))

    def episodes(self, count: int, rng: np.random.Generator) -> Episodes:
        """Return episodes that have not begun."""
        jobsets = self.jobsets or [npb_batch(DRAWN_JOBS, rng) for _ in range(DRAWN_JOBSETS)]
        return Episodes(jobsets, self.machine, count, self.execution, self.options)

    def observation_space(self) -> Box:
        """Return the space of what an agent sees."""
        return Box(0.0, 1.0, (size_of(Level[self.options.level.upper()], self.machine),), np.float32)

    def action_space(self) -> Discrete:
        """Return the space of policies."""
        return Discrete(len(self.options.actions))

    def reseed(self, episodes: Episodes, rng: np.random.Generator) -> None:
        """Draw anew what random policies draw from."""
        episodes.seed(rng)


def _jobsets(jobs: Jobs | None) -> tuple[TaskWorkload, ...] | None:
    if jobs is None:
        return None
    jobs = read_irmasim(jobs) if isinstance(jobs, Path | str) else jobs
    sets = (jobs,) if isinstance(jobs, TaskWorkload) else jobs
    if not (isinstance(sets, Sequence) and all(isinstance(one, TaskWorkload) for one in sets)):
        raise UsageError("the jobs must be a TaskWorkload or several, a workload file, or None")
    return tuple(sets)


class PolicySelectionEnv(SingleEnv[Episodes, Float32Array, np.int64]):
    """One episode of `PolicySelection` at a time."""

    task = PolicySelection

    def schedule(self) -> MulticoreSchedule:
        """Return when and where the jobs of the episode ran, and the energy.

        Raises
        ------
        SchedulerError
            If not all of them have ended.
        UsageError
            If no episode has begun.
        """
        return self.episodes.schedule(0)


class PolicySelectionVectorEnv(VectorizedEnv[Episodes, Float32Array]):
    """Many episodes of `PolicySelection` side by side."""

    task = PolicySelection
