"""The task of policy selection: its arguments, its episodes side by side, and its environments."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from allocopt.arrays import Float32Array, FloatArray
from allocopt.cluster.irmasim import irmasim_testbed
from allocopt.cluster.multicore import Machine
from allocopt.cluster.platform_files import read_machine
from allocopt.envs.environments import About, Task, environments_of
from allocopt.envs.policy_selection.dynamics import (
    GB_IN_MB,
    HOUR_S,
    LAYOUT,
    LEVELS,
    MEANINGS,
    N_QUANTILES,
    N_TRAITS,
    PER_CORE,
    REWARD_MEANINGS,
    REWARDS,
    TB_IN_MB,
    Episode,
    LevelName,
    RewardName,
    describe_all,
    step_all,
)
from allocopt.envs.side_by_side import Compiled
from allocopt.errors import UsageError
from allocopt.simulator.multicore.policies import ACTION_NAMES, VOID_NAME, Action
from allocopt.simulator.multicore.simulation import MulticoreSchedule, MulticoreSimulation
from allocopt.simulator.multicore.state import Execution, ExecutionKind, new_simulation
from allocopt.traces.tasks import TaskWorkload, npb_batch, read_irmasim

DRAWN_JOBSETS, DRAWN_JOBS = 16, 100  # job sets drawn by the seed of a reset where none are given, and jobs of each

Jobs = Sequence[TaskWorkload] | TaskWorkload | Path | str


@dataclass(frozen=True, slots=True)
class Options:
    """Options of all episodes besides machine and execution.

    Raises `UsageError` if there is no such level, reward or policy, one is named twice, or none starts jobs.

    Parameters
    ----------
    level
        How much an agent is told: ``normal``, ``small`` (nothing of cores) or ``minimal`` (the waiting jobs only).
    reward
        What it is rewarded for: a name of the table below.
    actions
        Names of the policies among which it chooses; all 37 by default.
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
        names = tuple(action.name for action in Action.several(self.actions))
        if names == (VOID_NAME,):
            raise UsageError("the only policy is void, one at least must start jobs")
        object.__setattr__(self, "actions", names)

    @property
    def policies(self) -> tuple[Action, ...]:
        """The policies among which an agent chooses, in the order of the actions."""
        return Action.several(self.actions)

    def size(self, machine: Machine) -> int:
        """Return the number of values of an observation of a machine."""
        size = N_TRAITS * N_QUANTILES + 1
        if self.level != "minimal":
            size += len(list(machine.nodes())) + len(list(machine.processors()))
        return size + (PER_CORE * machine.cores if self.level == "normal" else 0)


class Episodes(Compiled):
    """Independent episodes on machines that are alike, all of them over until `begin` is called.

    The seed fixes what policies choose at random. Raises `UsageError` if there are no job sets or episodes,
    `InvalidProblemError` if a set holds no jobs, or one that can never start; it is named.
    """

    layout = LAYOUT
    kernel, describe = staticmethod(step_all), staticmethod(describe_all)

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
        self.machine, self.jobsets = machine, tuple(jobsets)
        self.execution, self.options = execution or Execution(), options or Options()
        episodes = [self._episode(jobs) for jobs in jobsets]
        jobs, tasks = [len(one) for one in jobsets], [int(one.tasks.sum()) for one in jobsets]
        shape = (self.options.size(machine),)
        super().__init__(count, episodes, len(self.options.actions), shape, jobs=jobs, tasks=tasks)
        self.seed(np.random.default_rng(seed))

    def _episode(self, jobs: TaskWorkload) -> Episode:
        state, multicore = new_simulation(self.machine, jobs, self.execution)
        shares = self.execution.kind is ExecutionKind.CONTENTION
        powers = [processor.power for processor in self.machine.processors() if processor.power is not None]
        watts = [power.core_w + (power.processor_w if shares else 0.0) for power in powers]
        terms = LAYOUT.record(
            "terms",
            reward=REWARDS.index(self.options.reward),
            level=LEVELS.index(self.options.level),
            most_speed=max(processor.core_speed for processor in self.machine.processors()),
            most_power_w=max(watts, default=0.0),
        )
        told = np.stack(
            [
                jobs.estimate / (jobs.estimate + HOUR_S),
                jobs.tasks / self.machine.cores,
                jobs.memory_mb / (jobs.memory_mb + GB_IN_MB),
                jobs.volume_mb / (jobs.volume_mb + TB_IN_MB),
            ],
            axis=1,
        )
        return Episode(
            state._replace(least=state.least[:, :0]),
            multicore,
            LAYOUT.record("tally"),
            terms,
            np.array([action.codes for action in self.options.policies], dtype=np.int64),
            np.ascontiguousarray(told),
            np.argsort(told, axis=0, kind="stable"),
            state.clock,
            state.units,
            multicore.tally,
            multicore.processors,
            multicore.nodes,
            state.jobs,
            multicore.tasks,
            multicore.jobs,
        )

    @property
    def size(self) -> int:
        """Number of values of an observation."""
        return self.shape[0]

    def seed(self, rng: np.random.Generator) -> None:
        self._batch.word[:, 0] = rng.integers(0, 2**64, self.n_environments, dtype=np.uint64)

    def metrics(self) -> dict[str, FloatArray]:
        """Return makespan, energy, flow time and energy-delay so far, shapes ``(E,)``."""
        found = {name: self.tally[name].copy() for name in ("makespan_s", "energy_j", "flow_time_s")}
        return found | {"energy_delay_js": found["energy_j"] * found["makespan_s"]}

    def schedule(self, episode: int = 0) -> MulticoreSchedule:
        """Return when and where the jobs of an episode ran, and the energy; raise `SchedulerError` before its end."""
        jobset = self.jobsets[int(self.tally["jobset"][episode])]
        simulation = MulticoreSimulation(self.machine, jobset, self.execution)
        simulation.multicore = self.arrays(episode).multicore
        return simulation.schedule()


class PolicySelection(Task[Episodes, Float32Array]):
    """An agent names the policy by which waiting jobs start (IRMaSim, section IV).

    Raises `UsageError` if there are no job sets; `BadFileError` if a file is not right; `InvalidProblemError` if a job
    can never start; it is named.

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
    """

    about = About(
        title="Policies on a multicore machine (IRMaSim)",
        episode="""\
The policy starts jobs until the next one does not fit. Then time advances until a job waits and a core is idle. The
episode ends when all jobs have ended. `episodes.schedule()` returns when and where the jobs ran, and the energy.""",
        action="The number of a policy of [irmasim.md](irmasim.md#policies), in the order of `options.actions`.",
        mask="""\
`void`, which starts nothing, is legal while a task runs or a job is still to come; otherwise it counts as the first
policy that is not `void`. All other policies are legal.""",
        seen="""\
With N nodes, P processors and C cores, level `normal` has N + P + 3 C + 21 numbers: nodes, processors, cores, queue;
`small` N + P + 21, without the cores; `minimal` 21, of the queue. The paper's sizes count one value per processor but
list none; here it is the bandwidth.""",
        meanings={"Parts, in this order": MEANINGS},
        rewards=REWARD_MEANINGS,
        options=Options,
    )

    def __init__(
        self,
        machine: Machine | Path | str | None = None,
        jobs: Jobs | None = None,
        execution: Execution | None = None,
        options: Options | None = None,
    ) -> None:
        machine = irmasim_testbed() if machine is None else machine
        machine = read_machine(machine) if isinstance(machine, Path | str) else machine
        if not isinstance(machine, Machine):
            raise UsageError(f"the machine is {machine!r}, must be a Machine or a platform file")
        self.machine = machine
        self.execution = Execution() if execution is None else execution
        self.options = Options() if options is None else options
        if not (isinstance(self.execution, Execution) and isinstance(self.options, Options)):
            raise UsageError("the execution must be an Execution and the options must be Options, or None")
        if jobs is not None:
            jobs = read_irmasim(jobs) if isinstance(jobs, Path | str) else jobs
            jobs = (jobs,) if isinstance(jobs, TaskWorkload) else jobs
            if not (isinstance(jobs, Sequence) and all(isinstance(one, TaskWorkload) for one in jobs)):
                raise UsageError("the jobs must be a TaskWorkload or several, a workload file, or None")
        super().__init__(jobs)
        self.shape, self.n_actions = (self.options.size(machine),), len(self.options.actions)

    def episodes(self, count: int, rng: np.random.Generator) -> Episodes:
        jobsets = self.jobsets or [npb_batch(DRAWN_JOBS, rng) for _ in range(DRAWN_JOBSETS)]
        return Episodes(jobsets, self.machine, count, self.execution, self.options)


PolicySelectionEnv, PolicySelectionVectorEnv = environments_of(PolicySelection)
