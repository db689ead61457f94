"""What an episode of policy selection holds, and its hot loops.

It begins, a policy starts jobs, time goes on to the next decision.
"""

from typing import Annotated, NamedTuple, Protocol

import numpy as np

from allocopt.envs.policy_selection.reward import Sums, worth
from allocopt.envs.side_by_side import (
    Batch,
    EpisodeTally,
    Layout,
    OfJobs,
    OfJobset,
    OfTasks,
    Own,
    Shared,
    TaskSimulation,
    cleared,
    put_records,
    step_kernel,
)
from allocopt.kernels.arrays import FloatMatrix, IntMatrix
from allocopt.kernels.compiled import helper, inlined
from allocopt.simulator.multicore.policies import VOID
from allocopt.simulator.multicore.rates import count_energy
from allocopt.simulator.multicore.run import OVER, STALLED, decide, to_decision
from allocopt.simulator.multicore.state import (
    IDLE,
    MULTICORE,
    JobRecord,
    Multicore,
    NodeRecord,
    ProcessorRecord,
    TallyRecord,
    TaskRecord,
)
from allocopt.simulator.state import Clock, Records
from allocopt.simulator.state import JobRecord as SimulatedTask

_PLACES = dict.fromkeys(Multicore._fields, "[e]") | {
    "tally": "totals[e]",
    "tasks": "[e, : end_tasks - first_tasks]",
    "jobs": "[e, : end_jobs - first_jobs]",
    "values": "[jobset]",
}


class Tally(EpisodeTally, Sums, Protocol):
    """Where an episode stands, and what it has come to."""

    decisions: int  # actions so far
    done: float  # share of the work of all jobs, submitted or not, that is done
    total_reward: float  # sum of the rewards so far


class Terms(Protocol):
    """What the episodes have in common."""

    reward: int  # place in `REWARDS`
    level: int  # how much is told: place in `LEVELS`
    most_speed: float  # speed of the fastest core, in billions of cycles per second
    most_power_w: float  # most that an active core draws, all of what its processor's cores share counted


class Episode(NamedTuple):
    """One episode of ``n`` jobs with ``T`` tasks; the last fields are the simulation before the first event."""

    state: TaskSimulation
    multicore: Annotated[Multicore, MULTICORE, _PLACES]
    tally: Own[Records[Tally]]  # shape ``(1,)``
    terms: Shared[Records[Terms]]  # shape ``(1,)``
    actions: Shared[IntMatrix]  # the selections of jobs and cores of each action, shape ``(A, 2)``
    traits: OfJobs[FloatMatrix]  # see `allocopt.envs.policy_selection.observation.traits`, shape ``(n, 4)``
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
episode_of = LAYOUT.episode_of


@inlined
def has_come(episode: Episode, job: int) -> bool:
    """Whether a job has been submitted."""
    return bool(episode.multicore.jobs[job].first_task < episode.state.clock[0].next_submission)


@inlined
def goes_on_by_itself(episode: Episode) -> bool:
    """Whether something will happen although no job starts: a task runs, or a job is to come."""
    jobs = episode.multicore.jobs
    return bool(episode.multicore.tally[0].running > 0 or not has_come(episode, jobs.size - 1))


@inlined
def _share_done(episode: Episode) -> float:
    """Share of the work of all tasks that is done by now; tasks that were killed count as done."""
    tasks, now = episode.state.jobs, episode.state.clock[0].now
    done = total = 0.0
    for task in range(tasks.size):
        record = tasks[task]
        total += record.run
        if not np.isnan(record.start):
            ended = record.end <= now
            left = 0.0 if ended else record.remaining - (now - record.changed) * record.speed
            done += record.run - left
    return done / total


@inlined
def _measure(episode: Episode) -> None:
    tally, multicore, now = episode.tally[0], episode.multicore, episode.state.clock[0].now
    tally.makespan_s = now - multicore.tally[0].began
    tally.energy_j = tally.flow_time_s = tally.square_flow_time = 0.0
    tally.done = _share_done(episode)
    for processor in range(multicore.processors.size):
        count_energy(multicore, processor, now)
        tally.energy_j += multicore.processors[processor].energy
    for job in range(multicore.jobs.size):
        if not has_come(episode, job):
            break
        record = multicore.jobs[job]
        end = now if np.isnan(record.end) else record.end
        seconds = end - episode.state.jobs[record.first_task].submit
        tally.flow_time_s += seconds
        tally.square_flow_time += seconds * seconds


@inlined
def _computed(episode: Episode) -> float:
    """Billions of cycles per second that all tasks compute now."""
    total = 0.0
    for core in range(episode.multicore.core_task.size):
        task = episode.multicore.core_task[core]
        if task != IDLE:
            total += episode.state.jobs[task].speed
    return total


@helper()
def act(episode: Episode, action: int) -> None:
    """Start waiting jobs by a policy, and go on to the next decision.

    Where nothing would ever happen again, void stands for the first policy that is not.
    """
    tally, actions, kind = episode.tally[0], episode.actions, episode.terms[0].reward
    tally.invalid = actions[action, 0] == VOID and not goes_on_by_itself(episode)
    if tally.invalid:
        action = 0
        while actions[action, 0] == VOID:
            action += 1
    tally.decisions += 1
    before = worth(tally, kind)
    episode.multicore.tally[0].last_queue = episode.state.clock[0].n_queued
    decide(episode.state, episode.multicore, actions[action, 0], actions[action, 1])
    tally.computing += _computed(episode)
    # The jobs of a stalled episode would wait for ever: it is over, although they have not ended.
    tally.over = to_decision(episode.state, episode.multicore) in (OVER, STALLED)
    _measure(episode)
    tally.reward = worth(tally, kind) - before
    tally.total_reward += tally.reward


@helper()
def begin(batch: Batch, e: int, jobset: int) -> None:
    """Begin an episode with a job set, and go on to the first decision."""
    cleared(batch, e, jobset)
    episode = episode_of(batch, e)
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


step_all = step_kernel(LAYOUT, act, begin)
