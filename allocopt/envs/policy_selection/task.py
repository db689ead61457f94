"""The task of policy selection (IRMaSim, Table I): an episode's state, kernels and rewards, and the environments."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Protocol, get_args

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray
from allocopt.cluster.irmasim import irmasim_testbed
from allocopt.cluster.multicore import Machine
from allocopt.cluster.platform_files import read_machine
from allocopt.envs.environments import About, Task, environments_of
from allocopt.envs.side_by_side import (
    OF_JOBSET,
    OWN,
    OWN_BY_JOB,
    OWN_BY_TASK,
    Compiled,
    EpisodeTally,
    Layout,
    OfJobs,
    OfJobset,
    OfTasks,
    Own,
    Place,
    Shared,
    TaskSimulation,
    put_records,
)
from allocopt.errors import UsageError
from allocopt.kernels.arrays import FloatMatrix, IntMatrix, Records
from allocopt.kernels.compiled import helper, inlined
from allocopt.simulator.multicore.policies import ACTION_NAMES, VOID, VOID_NAME, Action
from allocopt.simulator.multicore.run import OVER, STALLED, core_power, count_energy, decide, to_decision
from allocopt.simulator.multicore.simulation import MulticoreSchedule, MulticoreSimulation
from allocopt.simulator.multicore.state import (
    IDLE,
    MULTICORE,
    Execution,
    ExecutionKind,
    JobRecord,
    Multicore,
    NodeRecord,
    ProcessorRecord,
    TallyRecord,
    TaskRecord,
    new_simulation,
)
from allocopt.simulator.state import Clock
from allocopt.simulator.state import JobRecord as SimulatedTask
from allocopt.traces.tasks import TaskWorkload, npb_batch, read_irmasim

_PLACES = dict.fromkeys(Multicore._fields, OWN) | {
    "tally": Place(is_own=True, array="totals"),
    "tasks": OWN_BY_TASK,
    "jobs": OWN_BY_JOB,
    "values": OF_JOBSET,
}

RewardName = Literal[
    "makespan", "energy", "energy_delay", "flow_time", "energy_flow_time", "energy_square_flow_time", "computing"
]
REWARDS: tuple[RewardName, ...] = get_args(RewardName)
REWARD_MEANINGS: dict[str, str] = {
    "makespan": "minus the seconds from the first submission to the last end",
    "energy": "minus the energy of the whole machine in joules, idle times included: energy consumption in the paper's "
    "text",
    "energy_delay": "minus energy x makespan: energy efficiency in the paper's text",
    "flow_time": "minus the sum of C, the seconds between submission and end: makespan in Table I",
    "energy_flow_time": "minus energy x sum of C: energy consumption in Table I",
    "energy_square_flow_time": "minus energy x sum of C^2: energy efficiency in Table I",
    "computing": "*plus* the sum, over the decisions, of the billions of cycles per second computed right after each: "
    "the reward that Table I gives for the makespan; it does not measure a schedule, since it counts decisions, not "
    "time",
}
"""Objective that an episode's rewards add up to; Table I sums over jobs where the text speaks of the workload."""
MAKESPAN, ENERGY, ENERGY_DELAY, FLOW_TIME, ENERGY_FLOW_TIME, ENERGY_SQUARE_FLOW_TIME, COMPUTING = range(len(REWARDS))


class _Tally(EpisodeTally, Protocol):
    decisions: int  # actions so far
    done: float  # share of the work of all jobs, submitted or not, that is done
    total_reward: float  # sum of the rewards so far
    energy_j: float  # of the whole machine since the first submission
    makespan_s: float  # seconds since the first submission
    # Sums, over the jobs submitted so far, of the seconds from submission to end (or now), and of their squares.
    flow_time_s: float
    square_flow_time: float
    # Sum, over the actions so far, of the billions of cycles per second that were computed right after them.
    computing: float


class _Terms(Protocol):
    reward: int  # place in `REWARDS`
    level: int  # how much an agent sees: place in `LEVELS`
    most_speed: float  # speed of the fastest core, in billions of cycles per second
    most_power_w: float  # most that an active core draws, including all power that the cores of its processor share


class Episode(NamedTuple):
    """One episode of ``n`` jobs with ``T`` tasks; the last fields are the simulation before the first event."""

    state: TaskSimulation
    multicore: Annotated[Multicore, MULTICORE, _PLACES]
    tally: Own[Records[_Tally]]  # shape ``(1,)``
    terms: Shared[Records[_Terms]]  # shape ``(1,)``
    actions: Shared[IntMatrix]  # the selections of jobs and cores of each action, shape ``(A, 2)``
    traits: OfJobs[FloatMatrix]  # estimate, tasks, memory and memory volume of a task, within 0 .. 1, shape ``(n, 4)``
    ranks: OfJobs[IntMatrix]  # the jobs in rising order of each trait, shape ``(n, 4)``
    first_clock: Shared[Records[Clock]]
    first_units: Shared[IntMatrix]
    first_totals: OfJobset[Records[TallyRecord]]
    first_processors: OfJobset[Records[ProcessorRecord]]
    first_nodes: Shared[Records[NodeRecord]]
    first_tasks: OfTasks[Records[SimulatedTask]]  # those of `State`
    first_records: OfTasks[Records[TaskRecord]]  # those of `Multicore`
    first_jobs: OfJobs[Records[JobRecord]]


LAYOUT = Layout(Episode, ("jobs", "tasks"))


@inlined
def _has_come(episode: Episode, job: int) -> bool:
    return bool(episode.multicore.jobs[job].first_task < episode.state.clock[0].next_submission)


@inlined
def _goes_on_by_itself(episode: Episode) -> bool:
    # An event will occur even if no job starts: a task runs, or a job is still to come.
    jobs = episode.multicore.jobs
    return bool(episode.multicore.tally[0].running > 0 or not _has_come(episode, jobs.size - 1))


@inlined
def _measure(episode: Episode) -> None:
    tally, multicore, now = episode.tally[0], episode.multicore, episode.state.clock[0].now
    tally.makespan_s = now - multicore.tally[0].began
    tally.energy_j = tally.flow_time_s = tally.square_flow_time = 0.0
    # Tasks that were killed count as done.
    tasks, done, total = episode.state.jobs, 0.0, 0.0
    for task in range(tasks.size):
        total += tasks[task].run
        if not np.isnan(tasks[task].start):
            ended = tasks[task].end <= now
            left = 0.0 if ended else tasks[task].remaining - (now - tasks[task].changed) * tasks[task].speed
            done += tasks[task].run - left
    tally.done = done / total
    for processor in range(multicore.processors.size):
        count_energy(multicore, processor, now)
        tally.energy_j += multicore.processors[processor].energy
    for job in range(multicore.jobs.size):
        # Jobs are sorted by submission: after the first one that has not come, none has.
        if not _has_come(episode, job):
            break
        record = multicore.jobs[job]
        end = now if np.isnan(record.end) else record.end
        seconds = end - episode.state.jobs[record.first_task].submit
        tally.flow_time_s += seconds
        tally.square_flow_time += seconds * seconds


@inlined
def _worth(tally: _Tally, kind: int) -> float:
    # Objective of the episode so far; a reward is its change.
    if kind == MAKESPAN:
        return float(-tally.makespan_s)
    if kind == ENERGY:
        return float(-tally.energy_j)
    if kind == ENERGY_DELAY:
        return float(-tally.energy_j * tally.makespan_s)
    if kind == FLOW_TIME:
        return float(-tally.flow_time_s)
    if kind == ENERGY_FLOW_TIME:
        return float(-tally.energy_j * tally.flow_time_s)
    if kind == ENERGY_SQUARE_FLOW_TIME:
        return float(-tally.energy_j * tally.square_flow_time)
    return float(tally.computing)


@helper()
def _act(episode: Episode, action: int) -> None:
    # If no event would ever occur again, void counts as the first policy that is not void.
    tally, actions, kind = episode.tally[0], episode.actions, episode.terms[0].reward
    tally.invalid = actions[action, 0] == VOID and not _goes_on_by_itself(episode)
    if tally.invalid:
        action = 0
        while actions[action, 0] == VOID:
            action += 1
    tally.decisions += 1
    # A reward is the change of the objective, so that rewards add up to it.
    before = _worth(tally, kind)
    episode.multicore.tally[0].last_queue = episode.state.clock[0].n_queued
    decide(episode.state, episode.multicore, actions[action, 0], actions[action, 1])
    # Billions of cycles per second of all tasks.
    speed = 0.0
    for core in range(episode.multicore.core_task.size):
        task = episode.multicore.core_task[core]
        if task != IDLE:
            speed += episode.state.jobs[task].speed
    tally.computing += speed
    # In a stalled episode the jobs would wait for ever, so the episode is over although they have not ended.
    tally.over = to_decision(episode.state, episode.multicore) in (OVER, STALLED)
    _measure(episode)
    tally.reward = _worth(tally, kind) - before
    tally.total_reward += tally.reward


@helper()
def _begin(episode: Episode) -> None:
    state, multicore = episode.state, episode.multicore
    put_records(episode.first_clock, state.clock)
    put_records(episode.first_tasks, state.jobs)
    put_records(episode.first_totals, multicore.tally)
    put_records(episode.first_processors, multicore.processors)
    put_records(episode.first_nodes, multicore.nodes)
    put_records(episode.first_records, multicore.tasks)
    put_records(episode.first_jobs, multicore.jobs)
    for row in range(state.units.shape[0]):
        state.units[row, 0] = episode.first_units[row, 0]
    state.held[:] = 0
    multicore.core_task[:] = IDLE
    to_decision(state, multicore)
    _measure(episode)


step_all = LAYOUT.step_kernel(_act, _begin)


LevelName = Literal["normal", "small", "minimal"]
LEVELS: tuple[LevelName, ...] = get_args(LevelName)
NORMAL, _, MINIMAL = range(len(LEVELS))
"""How much an agent sees: queue, nodes, processors and cores; the same without cores; only the queue."""
MEANINGS = {
    "node": "for each node: free memory / memory; 1 if its memory is unlimited",
    "processor": "for each processor: memory bandwidth that its tasks do not ask for / its bandwidth; 1 if unknown",
    "core": "for each core: current speed (nominal speed if it is idle) / speed of the fastest core",
    "power": "current power (with the core's part of the power that the cores of a processor share) / the most that "
    "any core can draw",
    "left": "estimated time left of the core's task / the task's estimate; 0 once the estimate is over",
    "queue": "over the waiting jobs, minimum, quartiles and maximum of: the estimate, x / (x + 1 h)",
    "tasks": "tasks / cores of the machine",
    "memory": "memory of a task, x / (x + 1 GB)",
    "memory_volume": "memory volume of a task, x / (x + 1 TB)",
    "variation": "length of the queue / (length + length at the decision before)",
}
"""Parts of an observation, in order; the numbers of a part are repeated for each node, processor and core."""
N_TRAITS, N_QUANTILES, PER_CORE = 4, 5, 3  # of waiting jobs: estimate, tasks, memory and memory volume of a task
HOUR_S, GB_IN_MB, TB_IN_MB = 3600.0, 1e3, 1e6
"""Values that are mapped to 0.5 when times, memory and volumes are squeezed into 0 .. 1."""


@inlined
def _within(number: float) -> float:
    return min(max(number, 0.0), 1.0)


@helper()
def _describe_queue(episode: Episode, seen: Float32Array) -> None:
    # Write minimum, quartiles and maximum of each trait of the waiting jobs, and how the queue's length changes. Jobs
    # are sorted by each trait once, before the first event; here they are only visited in this order.
    waiting, before = episode.state.clock[0].n_queued, episode.multicore.tally[0].last_queue
    seen[:] = 0.0
    for trait in range(N_TRAITS):
        rank = 0
        for place in range(episode.ranks.shape[0]):
            job = episode.ranks[place, trait]
            if not (_has_come(episode, job) and np.isnan(episode.multicore.jobs[job].start)):
                continue
            for quantile in range(N_QUANTILES):
                # Ranks are whole numbers; a quantile between two ranks is interpolated.
                share = 1.0 - abs(quantile * (waiting - 1) / (N_QUANTILES - 1.0) - rank)
                if share > 0.0:
                    seen[N_QUANTILES * trait + quantile] += share * episode.traits[job, trait]
            rank += 1
    seen[N_TRAITS * N_QUANTILES] = waiting / (waiting + before) if waiting + before > 0 else 0.5


@helper()
def _describe(episode: Episode, seen: Float32Array) -> None:
    multicore, terms, first = episode.multicore, episode.terms[0], 0
    processors = multicore.processors
    if terms.level != MINIMAL:
        nodes = multicore.nodes
        first = nodes.size + processors.size
        for node in range(nodes.size):
            limited = nodes[node].memory_mb < np.inf
            seen[node] = _within(nodes[node].free_mb / nodes[node].memory_mb) if limited else 1.0
        for processor in range(processors.size):
            record = processors[processor]
            known = record.bandwidth > 0.0
            seen[nodes.size + processor] = _within(1.0 - record.demand / record.bandwidth) if known else 1.0
    if terms.level == NORMAL:
        jobs, now = episode.state.jobs, episode.state.clock[0].now
        for processor in range(processors.size):
            record = processors[processor]
            for core in range(record.first_core, record.first_core + record.cores):
                task, at = multicore.core_task[core], first + PER_CORE * core
                # An idle core draws its share of the idle power of its processor.
                factor, power, left = 1.0, record.idle_w / record.cores, 0.0
                if task != IDLE:
                    factor = multicore.tasks[task].factor
                    power = core_power(multicore, processor, factor) + record.processor_w / record.active
                    left = (jobs[task].start + jobs[task].estimate - now) / jobs[task].estimate
                seen[at] = _within(factor * record.speed / terms.most_speed)
                seen[at + 1] = _within(power / terms.most_power_w) if terms.most_power_w > 0.0 else 0.0
                seen[at + 2] = _within(left)
        first += PER_CORE * multicore.core_task.size
    _describe_queue(episode, seen[first:])


@helper()
def _mark_legal(episode: Episode, legal: BoolArray) -> None:
    # Void is legal while an event will occur without it; all other policies always are.
    for action in range(legal.size):
        legal[action] = episode.actions[action, 0] != VOID or _goes_on_by_itself(episode)


describe_all = LAYOUT.describe_kernel(_mark_legal, _describe, 1)


DRAWN_JOBSETS, DRAWN_JOBS = 16, 100  # number of jobsets that the seed of a reset draws if none is given; jobs of each

Jobs = Sequence[TaskWorkload] | TaskWorkload | Path | str


@dataclass(frozen=True, slots=True)
class PolicySelectionOptions:
    """Options of all episodes besides machine and execution.

    Raises `UsageError` if there is no such level, reward or policy, a policy is named twice, or none starts jobs.
    """

    level: LevelName = "small"  #: ``normal``, ``small`` (without cores) or ``minimal`` (only the queue).
    reward: RewardName = "energy"  #: The agent's reward.
    actions: tuple[str, ...] = ACTION_NAMES  #: Names of the policies among which an agent chooses; by default all 37.

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise UsageError(f"the level is {self.level!r}, must be one of {', '.join(LEVELS)}")
        if self.reward not in REWARDS:
            raise UsageError(f"the reward is {self.reward!r}, must be one of {', '.join(REWARDS)}")
        if isinstance(self.actions, str) or not all(isinstance(name, str) for name in self.actions or ()):
            raise UsageError(f"the actions are {self.actions!r}, must be a sequence of names")
        names = tuple(action.name for action in Action.several(self.actions))
        if names == (VOID_NAME,):
            raise UsageError("the only policy is void; add at least one that starts jobs")
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


class PolicySelectionEpisodes(Compiled):
    """Independent episodes on equal machines; the seed fixes the random choices of policies.

    Raises `UsageError` without jobsets or episodes, `InvalidProblemError` if a job can never start or a set is empty.
    """

    layout = LAYOUT
    kernel, describe = staticmethod(step_all), staticmethod(describe_all)

    def __init__(
        self,
        jobsets: Sequence[TaskWorkload],
        machine: Machine,
        count: int = 1,
        execution: Execution | None = None,
        options: PolicySelectionOptions | None = None,
        seed: int = 0,
    ) -> None:
        self.machine, self.jobsets = machine, tuple(jobsets)
        self.execution, self.options = execution or Execution(), options or PolicySelectionOptions()
        shares = self.execution.kind is ExecutionKind.CONTENTION
        powers = [processor.power for processor in machine.processors() if processor.power is not None]
        watts = [power.core_w + (power.processor_w if shares else 0.0) for power in powers]
        terms = LAYOUT.record(
            "terms",
            reward=REWARDS.index(self.options.reward),
            level=LEVELS.index(self.options.level),
            most_speed=max(processor.core_speed for processor in machine.processors()),
            most_power_w=max(watts, default=0.0),
        )
        actions = np.array([action.codes for action in self.options.policies], dtype=np.int64)
        episodes = []
        for jobs in jobsets:
            state, multicore = new_simulation(machine, jobs, self.execution)
            parts = (jobs.estimate, HOUR_S), (jobs.memory_mb, GB_IN_MB), (jobs.volume_mb, TB_IN_MB)
            estimate, memory, volume = (values / (values + half) for values, half in parts)
            told = np.stack([estimate, jobs.tasks / machine.cores, memory, volume], axis=1)
            episodes.append(
                Episode(
                    state._replace(least=state.least[:, :0]),
                    multicore,
                    LAYOUT.record("tally"),
                    terms,
                    actions,
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
            )
        sizes = {"jobs": [len(jobs) for jobs in jobsets], "tasks": [int(jobs.tasks.sum()) for jobs in jobsets]}
        super().__init__(count, episodes, len(self.options.actions), (self.options.size(machine),), **sizes)
        self.seed(np.random.default_rng(seed))

    def seed(self, rng: np.random.Generator) -> None:
        self._batch.word[:, 0] = rng.integers(0, 2**64, self.n_environments, dtype=np.uint64)

    def metrics(self) -> dict[str, FloatArray]:
        found = {name: self.tally[name].copy() for name in ("makespan_s", "energy_j", "flow_time_s")}
        return found | {"energy_delay_js": found["energy_j"] * found["makespan_s"]}

    def schedule(self, episode: int = 0) -> MulticoreSchedule:
        """Return the schedule of an episode, with its energy; raise `SchedulerError` before its end."""
        jobset = self.jobsets[int(self.tally["jobset"][episode])]
        simulation = MulticoreSimulation(self.machine, jobset, self.execution)
        simulation.multicore = self.arrays(episode).multicore
        return simulation.schedule()


class PolicySelection(Task[PolicySelectionEpisodes, Float32Array]):
    """An agent chooses the policy by which waiting jobs start (IRMaSim, section IV).

    Raises `UsageError` if there are no jobsets; `BadFileError` if a file is invalid; `InvalidProblemError`, which names
    the job, if a job can never start.

    Parameters
    ----------
    machine
        The machine, or a platform file; None for the paper's heterogeneous cluster.
    jobs
        A set of jobs, a file of one, or several sets, of which each episode plays one; None for 16 batches of 100 NPB
        jobs, drawn by the seed of `reset`.
    execution
        Execution model of the jobs; None for contention.
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
`void` starts nothing. It is legal while a task runs or a job is still to come; otherwise it counts as the first policy
that is not `void`. All other policies are always legal.""",
        seen="""\
With N nodes, P processors and C cores, level `normal` has N + P + 3 C + 21 numbers: nodes, processors, cores, queue.
Level `small` has N + P + 21 numbers, without the cores, and `minimal` has the 21 numbers of the queue. The paper's
sizes count one value per processor, but the paper does not name it; here it is the bandwidth.""",
        meanings={"Parts, in this order": MEANINGS},
        rewards=REWARD_MEANINGS,
    )

    def __init__(
        self,
        machine: Machine | Path | str | None = None,
        jobs: Jobs | None = None,
        execution: Execution | None = None,
        options: PolicySelectionOptions | None = None,
    ) -> None:
        machine = irmasim_testbed() if machine is None else machine
        machine = read_machine(machine) if isinstance(machine, Path | str) else machine
        if not isinstance(machine, Machine):
            raise UsageError(f"the machine is {machine!r}, must be a Machine, a platform file or None")
        self.machine = machine
        self.execution = Execution() if execution is None else execution
        self.options = PolicySelectionOptions() if options is None else options
        if not (isinstance(self.execution, Execution) and isinstance(self.options, PolicySelectionOptions)):
            raise UsageError(
                "execution must be an Execution or None, and options must be PolicySelectionOptions or None"
            )
        if jobs is not None:
            jobs = read_irmasim(jobs) if isinstance(jobs, Path | str) else jobs
            jobs = (jobs,) if isinstance(jobs, TaskWorkload) else jobs
            if not (isinstance(jobs, Sequence) and all(isinstance(one, TaskWorkload) for one in jobs)):
                raise UsageError("the jobs must be a TaskWorkload or several, a workload file, or None")
        super().__init__(jobs)
        self.shape, self.n_actions = (self.options.size(machine),), len(self.options.actions)

    def episodes(self, count: int, rng: np.random.Generator) -> PolicySelectionEpisodes:
        jobsets = self.jobsets or [npb_batch(DRAWN_JOBS, rng) for _ in range(DRAWN_JOBSETS)]
        return PolicySelectionEpisodes(jobsets, self.machine, count, self.execution, self.options)


PolicySelectionEnv, PolicySelectionVectorEnv = environments_of(PolicySelection)
