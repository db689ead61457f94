"""The hot loops of policy selection: an episode begins, a policy starts jobs, time goes on to the next decision."""

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.envs.policy_selection.batch import BATCH, MASK, Batch, Episode
from allocopt.envs.policy_selection.rewards import RewardKind
from allocopt.envs.side_by_side import STAY
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.multicore.policies import VOID
from allocopt.simulator.multicore.rates import count_energy
from allocopt.simulator.multicore.run import OVER, STALLED, decide, to_decision
from allocopt.simulator.multicore.state import IDLE, Multicore
from allocopt.simulator.state import State

MAKESPAN, ENERGY, ENERGY_DELAY, FLOW_TIME = (
    int(RewardKind[name]) for name in ("MAKESPAN", "ENERGY", "ENERGY_DELAY", "FLOW_TIME")
)
ENERGY_FLOW_TIME, ENERGY_SQUARE_FLOW_TIME = int(RewardKind.ENERGY_FLOW_TIME), int(RewardKind.ENERGY_SQUARE_FLOW_TIME)


@inlined
def episode_of(batch: Batch, e: int) -> Episode:
    """Take an episode out of the batch."""
    jobset = batch.tally[e, 0].jobset
    first, end = batch.bounds[jobset], batch.bounds[jobset + 1]
    first_task, end_task = batch.task_bounds[jobset], batch.task_bounds[jobset + 1]
    state = State(
        batch.clock[e],
        batch.rules,
        batch.records[e, : end_task - first_task],
        batch.request[first_task:end_task],
        batch.lists[e],
        batch.units[e],
        batch.held[e],
        batch.steps,
        batch.unpromised,
        batch.least,
    )
    multicore = Multicore(
        batch.totals[e],
        batch.processors[e],
        batch.nodes[e],
        batch.tasks[e, : end_task - first_task],
        batch.jobs[e, : end - first],
        batch.core_task[e],
        batch.dirty[e],
        batch.word[e],
        batch.values[jobset],
    )
    return Episode(
        state,
        multicore,
        batch.tally[e],
        batch.terms,
        batch.actions,
        batch.traits[first:end],
        batch.ranks[first:end],
    )


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
def computed(episode: Episode) -> float:
    """Billions of cycles per second that all tasks compute now."""
    total = 0.0
    for core in range(episode.multicore.core_task.size):
        task = episode.multicore.core_task[core]
        if task != IDLE:
            total += episode.state.jobs[task].speed
    return total


@inlined
def share_done(episode: Episode) -> float:
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
def measure(episode: Episode) -> None:
    """Add up what the episode has come to by now."""
    tally, multicore, now = episode.tally[0], episode.multicore, episode.state.clock[0].now
    tally.makespan_s = now - multicore.tally[0].began
    tally.energy_j = tally.flow_time_s = tally.square_flow_time = 0.0
    tally.done = share_done(episode)
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
def value(episode: Episode) -> float:
    """Say what the episode so far is worth; rewards are its changes."""
    tally, kind = episode.tally[0], episode.terms[0].reward
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


@inlined
def first_that_starts(episode: Episode) -> int:
    """First action that is not void; there is one."""
    action = 0
    while episode.actions[action, 0] == VOID:
        action += 1
    return action


@helper()
def act(episode: Episode, action: int) -> None:
    """Start waiting jobs by a policy, and go on to the next decision.

    Where nothing would ever happen again, void stands for the first policy that is not.
    """
    tally, actions = episode.tally[0], episode.actions
    tally.reward = 0.0
    if tally.over:
        return
    tally.invalid = actions[action, 0] == VOID and not goes_on_by_itself(episode)
    if tally.invalid:
        action = first_that_starts(episode)
    tally.decisions += 1
    before = value(episode)
    episode.multicore.tally[0].last_queue = episode.state.clock[0].n_queued
    decide(episode.state, episode.multicore, actions[action, 0], actions[action, 1])
    tally.computing += computed(episode)
    # The jobs of a stalled episode would wait for ever: it is over, although they have not ended.
    tally.over = to_decision(episode.state, episode.multicore) in (OVER, STALLED)
    measure(episode)
    tally.reward = value(episode) - before
    tally.total_reward += tally.reward


@helper()
def reset(batch: Batch, e: int, jobset: int) -> None:
    """Put an episode back before the first event of a job set."""
    tally = batch.tally[e, 0]
    tally.jobset = jobset
    tally.over = tally.invalid = tally.decisions = 0
    tally.energy_j = tally.makespan_s = tally.flow_time_s = tally.square_flow_time = tally.computing = 0.0
    tally.done = 0.0
    tally.reward = tally.total_reward = 0.0
    batch.clock[e, 0] = batch.first_clock[0]
    batch.totals[e, 0] = batch.first_totals[jobset, 0]
    for row in range(batch.first_units.shape[0]):
        batch.units[e, row, 0] = batch.first_units[row, 0]
    batch.held[e] = 0
    batch.core_task[e] = IDLE
    for processor in range(batch.processors.shape[1]):
        batch.processors[e, processor] = batch.first_processors[jobset, processor]
    for node in range(batch.nodes.shape[1]):
        batch.nodes[e, node] = batch.first_nodes[node]
    first, first_task = batch.bounds[jobset], batch.task_bounds[jobset]
    for job in range(batch.bounds[jobset + 1] - first):
        batch.jobs[e, job] = batch.job_pool[first + job]
    for task in range(batch.task_bounds[jobset + 1] - first_task):
        batch.records[e, task] = batch.pool[first_task + task]
        batch.tasks[e, task] = batch.task_pool[first_task + task]


@helper()
def begin(batch: Batch, e: int, jobset: int) -> None:
    """Begin an episode with a job set, and go on to the first decision."""
    reset(batch, e, jobset)
    episode = episode_of(batch, e)
    to_decision(episode.state, episode.multicore)
    measure(episode)


@kernel(void(BATCH, int64[::1]))
def begin_all(batch: Batch, jobsets: IntArray) -> None:
    """Begin an episode wherever a job set is named."""
    for e in range(jobsets.size):
        if jobsets[e] != STAY:
            begin(batch, e, jobsets[e])


@kernel(void(BATCH, int64[::1], float64[::1], MASK))
def step_all(batch: Batch, actions: IntArray, rewards: FloatArray, ended: BoolArray) -> None:
    """Act in every episode, and where that ends it begin the one that follows, if any."""
    for e in range(actions.size):
        act(episode_of(batch, e), actions[e])
        tally = batch.tally[e, 0]
        rewards[e], ended[e] = tally.reward, tally.over != 0
        if tally.over:
            batch.last[e, 0] = tally
            if batch.following[e] != STAY:
                begin(batch, e, batch.following[e])
