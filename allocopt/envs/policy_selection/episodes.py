"""Episodes of policy selection side by side, each over a job set of its own, stepped in one compiled call."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.cluster.multicore import Machine
from allocopt.envs.asked import actions_of
from allocopt.envs.policy_selection.batch import TALLY_DTYPE, TERMS_DTYPE, Batch
from allocopt.envs.policy_selection.describe import LEVELS, Level, LevelName, describe_all, size_of, traits
from allocopt.envs.policy_selection.kernels import begin_all, step_all
from allocopt.envs.policy_selection.rewards import REWARDS, RewardName, kind_of
from allocopt.envs.side_by_side import STAY, SideBySide
from allocopt.errors import UsageError
from allocopt.simulator.multicore.policies import ACTION_NAMES, VOID_NAME, Action, get_actions
from allocopt.simulator.multicore.simulation import MulticoreSchedule, MulticoreSimulation
from allocopt.simulator.multicore.state import IDLE, Execution, ExecutionKind, Multicore, new_simulation
from allocopt.simulator.state import State
from allocopt.traces.tasks import TaskWorkload

METRICS = ("makespan_s", "energy_j", "flow_time_s")


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


class Episodes(SideBySide[Batch]):
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

    changing = (
        *("clock", "records", "lists", "units", "held", "totals", "processors", "nodes", "tasks", "jobs"),
        *("core_task", "dirty", "word", "tally", "following", "last"),
    )

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
        super().__init__(len(jobsets), count, new_batch(jobsets, machine, count, self.execution, self.options))
        self.seed(np.random.default_rng(seed))

    @property
    def size(self) -> int:
        """Number of values of an observation."""
        return size_of(self._level, self.machine)

    def seed(self, rng: np.random.Generator) -> None:
        """Draw anew what the random policies of each episode draw from."""
        self._batch.word[:, 0] = rng.integers(0, 2**64, self.n_environments, dtype=np.uint64)

    def snapshot(self) -> dict[str, Any]:
        """Return all that changes, as arrays of numbers that every checkpoint can hold."""
        kept = super().snapshot()
        return {**kept, "word": kept["word"].view(np.int64)}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        super().restore({**snapshot, "word": snapshot["word"].view(np.uint64)})

    def _begin(self, jobsets: IntArray) -> None:
        """Begin episodes over job sets that there are."""
        begin_all(self._batch, jobsets)

    def observe(self) -> tuple[Float32Array, BoolArray]:
        """Return what the agents see and which actions are legal; new arrays.

        Returns
        -------
        Float32Array, BoolArray
            Shapes ``(E, size)`` and ``(E, A)``. Of an episode that is over, zeros, and the first action is legal and
            does nothing.
        """
        seen = np.empty((self.n_environments, self.size), dtype=np.float32)
        legal = np.empty((self.n_environments, len(self.options.actions)), dtype=np.bool_)
        describe_all(self._batch, int(self._level), seen, legal)
        return seen, legal

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        """Let a policy start waiting jobs in each episode, and go on to its next decision.

        Parameters
        ----------
        actions
            Numbers of policies, in the order of the options, shape ``(E,)``.

        Returns
        -------
        FloatArray, BoolArray
            Rewards, and which episodes have ended, shape ``(E,)``; new arrays.

        Raises
        ------
        UsageError
            If there is no such action.
        """
        chosen = actions_of(actions, self.n_environments, len(self.options.actions))
        rewards, ended = np.empty(self.n_environments), np.empty(self.n_environments, dtype=np.bool_)
        step_all(self._batch, chosen, rewards, ended)
        return rewards, ended

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
        jobset = int(self.tally["jobset"][episode])
        n, tasks = len(self.jobsets[jobset]), int(self.jobsets[jobset].tasks.sum())
        batch = self._batch
        multicore = Multicore(
            *(batch.totals[episode], batch.processors[episode], batch.nodes[episode]),
            *(batch.tasks[episode, :tasks], batch.jobs[episode, :n]),
            *(batch.core_task[episode], batch.dirty[episode], batch.word[episode], batch.values[jobset]),
        )
        simulation = MulticoreSimulation(self.machine, self.jobsets[jobset], self.execution)
        simulation.multicore = multicore
        return simulation.schedule()


def new_batch(
    jobsets: Sequence[TaskWorkload], machine: Machine, count: int, execution: Execution, options: Options
) -> Batch:
    """Return the arrays of episodes of which none has begun."""
    first = [new_simulation(machine, jobs, execution) for jobs in jobsets]
    state, multicore = first[0]
    tasks = [jobs.tasks.sum() for jobs in jobsets]
    described = [traits(jobs, machine) for jobs in jobsets]
    tally = np.zeros((count, 1), dtype=TALLY_DTYPE)
    tally["over"] = 1
    most_jobs, most_tasks = (max(map(int, counts)) for counts in ([len(jobs) for jobs in jobsets], tasks))
    return Batch(
        **_playing(state, multicore, count, most_jobs, most_tasks),
        tally=tally,
        following=np.full(count, STAY),
        last=np.zeros((count, 1), dtype=TALLY_DTYPE),
        rules=state.rules,
        steps=state.steps,
        unpromised=state.unpromised,
        least=state.least[:, :0],
        terms=terms(machine, execution, options),
        actions=np.array([action.codes for action in options.policies], dtype=np.int64),
        first_clock=state.clock,
        first_units=state.units,
        first_totals=np.stack([np.asarray(one.tally) for _, one in first]),
        first_processors=np.stack([np.asarray(one.processors) for _, one in first]),
        first_nodes=multicore.nodes,
        values=np.stack([_padded(one.values, most_tasks) for _, one in first]),
        pool=np.concatenate([np.asarray(one.jobs) for one, _ in first]),
        request=np.concatenate([one.request for one, _ in first]),
        task_pool=np.concatenate([np.asarray(one.tasks) for _, one in first]),
        job_pool=np.concatenate([np.asarray(one.jobs) for _, one in first]),
        traits=np.concatenate(described),
        ranks=np.concatenate([np.argsort(one, axis=0, kind="stable") for one in described]),
        bounds=np.concatenate(([0], np.cumsum([len(jobs) for jobs in jobsets]))).astype(np.int64),
        task_bounds=np.concatenate(([0], np.cumsum(tasks))).astype(np.int64),
    )


def _playing(state: State, multicore: Multicore, count: int, jobs: int, tasks: int) -> dict[str, Any]:
    """Return the arrays of episodes with at most so many jobs and tasks."""
    return {
        "clock": _many(state.clock, count, 1),
        "records": _many(state.jobs, count, tasks),
        "lists": np.zeros((count, len(state.lists), tasks), dtype=np.int64),
        "units": np.tile(state.units, (count, 1, 1)),
        "held": np.zeros((count, *state.held.shape), dtype=np.int64),
        "totals": _many(multicore.tally, count, 1),
        "processors": _many(multicore.processors, count, multicore.processors.size),
        "nodes": _many(multicore.nodes, count, multicore.nodes.size),
        "tasks": _many(multicore.tasks, count, tasks),
        "jobs": _many(multicore.jobs, count, jobs),
        "core_task": np.full((count, len(multicore.core_task)), IDLE),
        "dirty": np.zeros((count, len(multicore.dirty)), dtype=np.int64),
        "word": np.zeros((count, 1), dtype=np.uint64),
    }


def _padded(values: FloatArray, length: int) -> FloatArray:
    """Return rows with zeros behind them."""
    return np.pad(values, ((0, 0), (0, length - values.shape[1])))


def _many(records: Any, count: int, length: int) -> Any:
    """Return rows of zeros of the same kind of record."""
    return np.zeros((count, length), dtype=records.dtype)


def terms(machine: Machine, execution: Execution, options: Options) -> Any:
    """Return what kernels need to know of the machine and the options."""
    numbers = np.zeros(1, dtype=TERMS_DTYPE)
    numbers["reward"] = kind_of(options.reward)
    numbers["most_speed"] = max(processor.core_speed for processor in machine.processors())
    shares = execution.kind is ExecutionKind.CONTENTION
    powers = [processor.power for processor in machine.processors() if processor.power is not None]
    watts = [power.core_w + (power.processor_w if shares else 0.0) for power in powers]
    numbers["most_power_w"] = max(watts, default=0.0)
    return numbers
