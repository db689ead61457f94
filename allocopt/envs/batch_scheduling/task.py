"""The task of batch scheduling: an episode's state, kernels and rewards, many side by side, and the environments.

A reward is the gain of an objective over a step, so that an episode's rewards add up to the objective.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numba import boolean, float32, float64, int64, void

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.environments import About, Task, check_sizes, check_type, environments_of
from allocopt.envs.side_by_side import (
    Batch,
    Compiled,
    EpisodeTally,
    Layout,
    OfJobs,
    Own,
    Shared,
    Simulation,
    first_state,
    rewind,
)
from allocopt.errors import UsageError
from allocopt.kernels.arrays import Records
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.kernels.backfilling import backfill_queue, find_shadow, fits, is_overdue
from allocopt.simulator.kernels.events import HAPPENED, advance, insert, start_job
from allocopt.simulator.kernels.queue import dequeue, queued
from allocopt.simulator.rules import Backfill, Rules
from allocopt.simulator.schedule import SLOWDOWN_BOUND_S, Schedule
from allocopt.simulator.state import CAPACITY, FREE, NOBODY, QUEUE, STARTED, Clock, JobRecord, State
from allocopt.traces.generators import lublin_workload
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

EASY = int(Backfill.EASY)
HOUR_S = 3600.0
BOUNDED_SLOWDOWN, WAIT, MAKESPAN, UTILIZATION = range(4)  # numbers of the objectives in kernels


@dataclass(frozen=True, slots=True)
class BoundedSlowdown:
    """Minus the mean bounded slowdown: a job that starts costs ``max(1, (wait + run) / max(run, 10 s)) / n_jobs``."""

    kind: ClassVar[int] = BOUNDED_SLOWDOWN
    unit_s: ClassVar[float] = 1.0


@dataclass(frozen=True, slots=True)
class MeanWait:
    """Minus the mean wait: a job that starts costs ``wait / (unit_s * n_jobs)``; ``unit_s`` is positive."""

    unit_s: float = HOUR_S
    kind: ClassVar[int] = WAIT


@dataclass(frozen=True, slots=True)
class Makespan:
    """Minus the makespan: a job that starts costs the time by which it delays the last end, over ``unit_s`` (> 0)."""

    unit_s: float = HOUR_S
    kind: ClassVar[int] = MAKESPAN


@dataclass(frozen=True, slots=True)
class Utilization:
    """The share of all processor-seconds up to the last end that the started jobs hold; a reward is its change.

    Once all jobs have started, this is the utilization of the machine.
    """

    kind: ClassVar[int] = UTILIZATION
    unit_s: ClassVar[float] = 1.0


Reward = BoundedSlowdown | MeanWait | Makespan | Utilization


class _Tally(EpisodeTally, Protocol):
    # Over the jobs that have started. The jobset is the number of an episode's first job in the workload.
    started: int
    bounded_slowdown: float
    wait_s: float
    area: float  # processor-seconds held
    makespan_s: float  # last end; the first submission is at 0


class _Terms(Protocol):
    # The fields of `Reward`, and the number of slots.
    kind: int
    unit_s: float
    window: int


class Episode(NamedTuple):
    """One episode: ``n`` consecutive jobs of a workload."""

    state: Simulation
    tally: Own[Records[_Tally]]  # totals so far, shape ``(1,)``
    terms: Shared[Records[_Terms]]  # the reward and the window, shape ``(1,)``
    first_clock: Shared[Records[Clock]]  # before the first event, shape ``(1,)``
    pool: OfJobs[Records[JobRecord]]  # the jobs before the first event, shape ``(n,)``


LAYOUT = Layout(Episode)
episode_of = LAYOUT.episode_of


@helper()
def _count_started(state: State, total: _Tally) -> None:
    clock = state.clock[0]
    # The simulator lists the jobs that started since the last call; empty the list here.
    for i in range(clock.n_started):
        job = state.lists[STARTED, i]
        record = state.jobs[job]
        wait, run = record.start - record.release, min(record.run, record.limit)
        total.bounded_slowdown += max(1.0, (wait + run) / max(run, SLOWDOWN_BOUND_S))
        total.wait_s += wait
        total.area += run * state.request[job, 0]
        total.makespan_s = max(total.makespan_s, record.end)
    total.started += clock.n_started
    clock.n_started = 0


@helper()
def _await_job(state: State, total: _Tally) -> None:
    while state.clock[0].n_queued == 0 and total.started < state.jobs.size:
        if advance(state, np.inf) != HAPPENED:
            break
    total.over = total.started == state.jobs.size


@inlined
def _worth(total: _Tally, terms: _Terms, n_jobs: int, machine: int) -> float:
    # Objective over the jobs started so far; a reward is its change.
    if terms.kind == WAIT:
        return -total.wait_s / (terms.unit_s * n_jobs)
    if terms.kind == MAKESPAN:
        return -total.makespan_s / terms.unit_s
    if terms.kind == UTILIZATION:
        return total.area / (total.makespan_s * float(machine)) if total.makespan_s > 0 else 0.0
    return -total.bounded_slowdown / n_jobs


@helper()
def _act(episode: Episode, slot: int) -> None:
    state, total, terms = episode.state, episode.tally[0], episode.terms[0]
    n_jobs, machine = state.jobs.size, state.units[CAPACITY, 0]
    before = _worth(total, terms, n_jobs, machine)
    clock = state.clock[0]
    occupied = min(terms.window, clock.n_queued)
    total.invalid = slot >= occupied
    place = slot if slot < occupied else 0
    # The chosen job is moved to the head of the queue, where the kernels of EASY look for the reserved one: it starts
    # before all others, except those that may be backfilled.
    job = queued(state, place)
    insert(state.lists[QUEUE], clock.first, clock.first + place, job)
    while not fits(state, job, FREE):
        if state.rules[0].backfill == EASY and clock.n_queued > 1:
            # The same steps as in `allocopt.simulator.kernels.backfilling.list_pass`. For a new head ``examined`` is 0,
            # because the previous head started at once or right after a job ended.
            if is_overdue(state):
                clock.examined = 0
            if clock.examined == 0:
                find_shadow(state, queued(state, 0))
            backfill_queue(state)
            clock.examined = clock.n_queued
        _count_started(state, total)
        advance(state, np.inf)
    dequeue(state, 0)
    start_job(state, job)
    _count_started(state, total)
    _await_job(state, total)
    total.reward = _worth(total, terms, n_jobs, machine) - before


@helper()
def _begin(episode: Episode) -> None:
    rewind(episode.state, episode.first_clock, episode.pool)
    jobs, first = episode.state.jobs, episode.tally[0].jobset
    for i in range(jobs.size):
        record = jobs[i]
        # The first job is submitted at 0. Jobs do not wait for a preceding job outside the episode.
        record.submit -= episode.pool[0].submit
        record.preceding -= first
        record.dependent = record.next_dependent = NOBODY
        if record.preceding < 0 or record.preceding >= jobs.size:
            record.preceding = NOBODY
    # Go backwards, so that the dependents of a job are chained in the order of their numbers.
    for i in range(jobs.size - 1, -1, -1):
        if jobs[i].preceding != NOBODY:
            before = jobs[jobs[i].preceding]
            jobs[i].next_dependent = before.dependent
            before.dependent = i
    _await_job(episode.state, episode.tally[0])


_step_all = helper()(LAYOUT.step_function(_act, _begin))


MEANINGS = {
    "is_job": "1 if a job waits in the slot; otherwise the whole row is 0",
    "wait": "wait / (wait + 1 h)",
    "estimate": "estimate / (estimate + 1 h)",
    "size": "processors asked for / processors of the machine",
    "fits": "1 if the job fits now",
    "free": "idle processors / processors of the machine",
    "queue": "all waiting jobs / `n_jobs`",
    "wait_over_response": "wait / (wait + estimate)",
}
"""Numbers that describe a slot, in their order."""


@kernel(
    void(LAYOUT.batch_type, int64[::1], int64[::1], float64[::1], boolean[::1], float32[:, :, ::1], boolean[:, ::1])
)
def _step_and_describe_all(
    batch: Batch,
    actions: IntArray,
    jobsets: IntArray,
    rewards: FloatArray,
    over: BoolArray,
    observations: Float32Array,
    legal: BoolArray,
) -> None:
    # Step and describe in one call: a second call would take as long as the first.
    _step_all(batch, actions, jobsets, rewards, over)
    for e in range(actions.size):
        episode, observation = episode_of(batch, e), observations[e]
        state, clock = episode.state, episode.state.clock[0]
        machine = 1.0 / state.units[CAPACITY, 0]
        free = state.units[FREE, 0]
        free_share, queue_share = free * machine, clock.n_queued / state.jobs.size
        occupied = min(clock.n_queued, legal.shape[1])
        for slot in range(occupied):
            job = queued(state, slot)
            record, size = state.jobs[job], state.request[job, 0]
            wait, estimate = clock.now - record.release, record.estimate
            observation[slot, 0] = 1.0
            observation[slot, 1] = wait / (wait + HOUR_S)
            observation[slot, 2] = estimate / (estimate + HOUR_S)
            observation[slot, 3] = size * machine
            observation[slot, 4] = 1.0 if size <= free else 0.0
            observation[slot, 5] = free_share
            observation[slot, 6] = queue_share
            observation[slot, 7] = wait / (wait + estimate)
        observation[occupied:] = 0.0
        legal[e, :occupied] = True
        legal[e, occupied:] = False
        if episode.tally[0].over:
            legal[e, 0] = True


LUBLIN_PROCESSORS = 256
LUBLIN_JOBS = 10_000  # jobs drawn if no workload is given; twice as many as in an episode if that is more

BackfillName = Literal["none", "easy"]
BACKFILLS: dict[BackfillName, Backfill] = {"none": Backfill.NONE, "easy": Backfill.EASY}


class BatchSchedulingEpisodes(Compiled):
    """Episodes of consecutive jobs, over until `begin` is called; the number of a jobset is that of its first job."""

    layout = LAYOUT

    def __init__(self, task: "BatchScheduling", workload: Workload, count: int) -> None:
        self.workload, self.machine, self.n_jobs = workload, task.machine, task.n_jobs
        size, backfill = workload.processors[:, np.newaxis], BACKFILLS[task.backfill]
        state = first_state(workload, size, [self.machine], task.rules, backfill)
        jobs = np.zeros_like(np.asarray(state.jobs)[: self.n_jobs])
        one = Episode(
            state._replace(
                jobs=jobs, events=np.asarray(state.events)[: self.n_jobs], lists=state.lists[:, : self.n_jobs]
            ),
            LAYOUT.record("tally"),
            LAYOUT.record("terms", kind=task.reward.kind, unit_s=task.reward.unit_s, window=task.window),
            state.clock,
            state.jobs,
        )
        first = np.arange(len(workload) - self.n_jobs + 1)
        # Each jobset is a range of one array of jobs, so that no job is copied for every episode that holds it.
        super().__init__(count, [one], task.n_actions, task.shape, jobs=np.stack([first, first + self.n_jobs], axis=1))
        self._play(self._stay, self._stay)

    def observe(self) -> tuple[Float32Array, BoolArray]:
        return self._seen

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot)
        self._play(self._stay, self._stay)

    def _play(self, actions: IntArray, jobsets: IntArray) -> tuple[FloatArray, BoolArray]:
        results, self._seen = (np.empty(len(actions)), np.empty(len(actions), np.bool_)), self._blank()
        _step_and_describe_all(self._batch, actions, jobsets, *results, *self._seen)
        return results

    def metrics(self) -> dict[str, FloatArray]:
        tally, started = self.tally, np.maximum(self.tally["started"], 1)
        return {
            "mean_bounded_slowdown": tally["bounded_slowdown"] / started,
            "mean_wait_s": tally["wait_s"] / started,
            "makespan_s": tally["makespan_s"].copy(),
        }

    def schedule(self, e: int = 0) -> Schedule:
        """Return when the jobs of an episode start and end, in seconds from its first submission; NaN if unknown."""
        jobs = np.asarray(self.arrays(e).state.jobs)
        first = int(self.tally["jobset"][e])
        workload = self.workload.subset(slice(first, first + self.n_jobs), float(self.workload.submit[first]))
        return Schedule(workload, self.machine, jobs["release"].copy(), jobs["start"].copy(), jobs["end"].copy())


class BatchScheduling(Task[BatchSchedulingEpisodes, Float32Array]):
    """An agent chooses which waiting job starts next.

    Raises `UsageError` if a number is out of range, the size of the machine is unknown, the workload has too few jobs,
    or a job is larger than the machine; `BadFileError` if the workload cannot be read.

    Parameters
    ----------
    workload
        The jobs, or a file of them (SWF, Batsim JSON, the NSA paper's text; also .gz); each episode plays some of
        them. None: 10,000 jobs of the Lublin-Feitelson model, drawn at the first `reset` and at every `reset` with a
        ``seed``.
    processors
        Size of the machine; None for that of the workload, or for 256 if no workload is given.
    n_jobs
        Number of consecutive jobs of an episode, at least 1.
    window
        Number of waiting jobs among which the agent chooses, at least 1.
    backfill
        ``easy``: while the chosen job waits for processors, other jobs start if by the estimates they do not delay it;
        ``none``, the default of RLScheduler (Zhang et al., SC 2020): no other job starts.
    reward
        The agent's reward; None for ``BoundedSlowdown()``.
    rules
        Order of simultaneous events, and whether jobs are killed at limits and wait for preceding jobs; None for the
        defaults.
    """

    jobset_option = "offset"
    about = About(
        title="Batch scheduling",
        episode="""\
An episode schedules `n_jobs` consecutive jobs of the workload on an empty machine. Its first job, drawn at random or
given as `offset`, is submitted at 0.

The window holds the first waiting jobs in order of arrival. If the chosen job fits, it starts. If not, it gets a
reservation: time advances until it fits, and meanwhile EASY backfilling starts other jobs, also from outside the
window. The episode ends when every job has started. `allocopt.measure(env.unwrapped.episodes.schedule())`
returns all metrics of what the agent did.""",
        action="The slot whose job starts next.",
        mask="A slot with a waiting job is legal. An empty one counts as slot 0.",
        seen="One row per slot.",
        meanings={"A slot": MEANINGS},
        rewards=(BoundedSlowdown, MeanWait, Makespan, Utilization),
        example="""\
env = gymnasium.make("allocopt:allocopt/BatchScheduling-v0")
observation, info = env.reset(seed=1)
over = False
while not over:
    slots = np.flatnonzero(info["action_mask"])
    shortest = slots[observation[slots, 2].argmin()]
    observation, reward, over, _, info = env.step(shortest)
print(info["mean_bounded_slowdown"])
""",
    )

    def __init__(
        self,
        workload: Workload | Path | str | None = None,
        processors: int | None = None,
        n_jobs: int = 256,
        window: int = 128,
        backfill: BackfillName = "easy",
        reward: Reward | None = None,
        rules: Rules | None = None,
    ) -> None:
        self.workload = read_workload(workload) if isinstance(workload, str | Path) else workload
        super().__init__(None if self.workload is None else [self.workload])
        of_workload = LUBLIN_PROCESSORS if self.workload is None else self.workload.machine_processors
        machine = of_workload if processors is None else processors
        if machine is None:
            raise UsageError("the workload does not state the size of its machine; give processors")
        for name, number in (("n_jobs", n_jobs), ("window", window), ("processors", machine)):
            if number < 1:
                raise UsageError(f"{name} is {number}, must be at least 1")
        if backfill not in BACKFILLS:
            raise UsageError(f"backfill is {backfill!r}, must be one of {', '.join(BACKFILLS)}")
        self.machine, self.n_jobs, self.window, self.backfill = machine, n_jobs, window, backfill
        self.reward: Reward = BoundedSlowdown() if reward is None else reward
        check_type("reward", self.reward, Reward)
        if not self.reward.unit_s > 0:
            raise UsageError(f"the reward's unit is {self.reward.unit_s} s, must be positive")
        self.rules = Rules() if rules is None else rules
        check_type("rules", self.rules, Rules)
        self.shape, self.n_actions = (window, len(MEANINGS)), window
        if self.workload is not None:
            if len(self.workload) < n_jobs:
                raise UsageError(f"{self.workload.name} has {len(self.workload)} jobs, fewer than n_jobs={n_jobs}")
            check_sizes(self.workload, machine, "processors")

    def episodes(self, count: int, rng: np.random.Generator) -> BatchSchedulingEpisodes:
        workload = self.workload
        if workload is None:
            workload = lublin_workload(max(LUBLIN_JOBS, 2 * self.n_jobs), self.machine, rng)
        return BatchSchedulingEpisodes(self, workload, count)


BatchSchedulingEnv, BatchSchedulingVectorEnv = environments_of(BatchScheduling)
