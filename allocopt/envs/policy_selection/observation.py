"""Observations of policy selection (IRMaSim, section IV-B1), every number within 0 .. 1."""

from typing import Literal, get_args

import numpy as np

from allocopt.arrays import BoolArray, Float32Array
from allocopt.envs.policy_selection.dynamics import LAYOUT, Episode, goes_on_by_itself, has_come
from allocopt.kernels.compiled import helper, inlined
from allocopt.simulator.multicore.policies import VOID
from allocopt.simulator.multicore.run import core_power
from allocopt.simulator.multicore.state import IDLE

LevelName = Literal["normal", "small", "minimal"]
LEVELS: tuple[LevelName, ...] = get_args(LevelName)
NORMAL, _, MINIMAL = range(len(LEVELS))
"""How much is told: of queue, nodes, processors and cores; not of cores; of the queue alone."""
MEANINGS = {
    "node": "of each node: its free memory / its memory; 1 where that is not limited",
    "processor": "of each processor: memory bandwidth that its tasks do not ask for / its bandwidth; 1 if not known",
    "core": "of each core: speed now (of an idle core its speed) / that of the fastest",
    "power": "power now, with its share of what the cores of its processor share / the most that any core can draw",
    "left": "what is left of its task by the estimate / the estimate; 0 when that is over",
    "queue": "of the waiting jobs, minimum, quartiles and maximum of: the estimate, x / (x + 1 h)",
    "tasks": "tasks / cores of the machine",
    "memory": "memory of a task, x / (x + 1 GB)",
    "memory_volume": "memory volume of a task, x / (x + 1 TB)",
    "variation": "length of the queue / (length + length at the decision before)",
}
"""What is seen, in its order; the numbers of a part are repeated for each node, processor and core."""
N_TRAITS, N_QUANTILES, PER_CORE = 4, 5, 3  # of waiting jobs: estimate, tasks, memory and memory volume of a task
HOUR_S, GB_IN_MB, TB_IN_MB = 3600.0, 1e3, 1e6
"""What counts as a half, where times, memory and volumes are squeezed into 0 .. 1."""


@inlined
def _within(number: float) -> float:
    return min(max(number, 0.0), 1.0)


@helper()
def _describe_queue(episode: Episode, seen: Float32Array) -> None:
    # Minimum, quartiles and maximum of each trait of the waiting jobs, and how the queue's length changes. The jobs are
    # sorted by each trait once, before the first event: here their order is only gone through.
    waiting, before = episode.state.clock[0].n_queued, episode.multicore.tally[0].last_queue
    seen[:] = 0.0
    for trait in range(N_TRAITS):
        rank = 0
        for place in range(episode.ranks.shape[0]):
            job = episode.ranks[place, trait]
            if not (has_come(episode, job) and np.isnan(episode.multicore.jobs[job].start)):
                continue
            for quantile in range(N_QUANTILES):
                # Ranks are whole numbers: between two of them the quantile is interpolated.
                share = 1.0 - abs(quantile * (waiting - 1) / (N_QUANTILES - 1.0) - rank)
                if share > 0.0:
                    seen[N_QUANTILES * trait + quantile] += share * episode.traits[job, trait]
            rank += 1
    seen[N_TRAITS * N_QUANTILES] = waiting / (waiting + before) if waiting + before > 0 else 0.5


@inlined
def _describe_cores(episode: Episode, seen: Float32Array) -> None:
    multicore, terms, now = episode.multicore, episode.terms[0], episode.state.clock[0].now
    for processor in range(multicore.processors.size):
        record = multicore.processors[processor]
        for core in range(record.first_core, record.first_core + record.cores):
            task, at = multicore.core_task[core], PER_CORE * core
            # An idle core draws its share of the idle power of its processor.
            factor, power, left = 1.0, record.idle_w / record.cores, 0.0
            if task != IDLE:
                factor = multicore.tasks[task].factor
                power = core_power(multicore, processor, factor) + record.processor_w / record.active
                estimate = episode.state.jobs[task].estimate
                left = (episode.state.jobs[task].start + estimate - now) / estimate
            seen[at] = _within(factor * record.speed / terms.most_speed)
            seen[at + 1] = _within(power / terms.most_power_w) if terms.most_power_w > 0.0 else 0.0
            seen[at + 2] = _within(left)


@helper()
def _describe(episode: Episode, seen: Float32Array) -> None:
    first, level = 0, episode.terms[0].level
    if episode.tally[0].over:
        seen[:] = 0.0
        return
    if level != MINIMAL:
        nodes, processors = episode.multicore.nodes, episode.multicore.processors
        first = nodes.size + processors.size
        for node in range(nodes.size):
            limited = nodes[node].memory_mb < np.inf
            seen[node] = _within(nodes[node].free_mb / nodes[node].memory_mb) if limited else 1.0
        for processor in range(processors.size):
            record = processors[processor]
            known = record.bandwidth > 0.0
            seen[nodes.size + processor] = _within(1.0 - record.demand / record.bandwidth) if known else 1.0
    if level == NORMAL:
        end = first + PER_CORE * episode.multicore.core_task.size
        _describe_cores(episode, seen[first:end])
        first = end
    _describe_queue(episode, seen[first:])


@helper()
def _mark_legal(episode: Episode, legal: BoolArray) -> None:
    # Void, while something happens by itself, and all others; when over, the first.
    over = episode.tally[0].over != 0
    for action in range(legal.size):
        legal[action] = not over and (episode.actions[action, 0] != VOID or goes_on_by_itself(episode))
    if over:
        legal[0] = True


describe_all = LAYOUT.describe_kernel(_mark_legal, _describe, 1)
