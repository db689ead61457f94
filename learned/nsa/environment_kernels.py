"""Many repairs at once, in one compiled call: every environment walks as annealing does, an action at a time."""

from typing import NamedTuple

import numpy as np
from numba import boolean, float32, float64, int64, types, void

from allocopt.arrays import Encoding, Float32Array, FloatArray, IntArray
from allocopt.kernels.arrays import put, tuple_type
from allocopt.kernels.compiled import helper, kernel
from heuristics.topology.annealing import (
    RULES,
    Rules,
    Walk,
    accept_or_not,
    cost_at,
    draw_below,
    insert_job,
    remove_jobs,
)
from learned.nsa.kernels import asked_by_others, write_state


class WindowPool(NamedTuple):
    """Windows of one cluster, one after the other.

    Parameters
    ----------
    position_first, job_first
        Where the idle positions and the jobs of each window begin, and where the last one ends, shape ``(W + 1,)``.
    groups
        Groups of the idle positions, window by window; in a window level by level.
    nodes
        Switch and pod of the idle positions as states show them, likewise; two values a position.
    sizes
        Nodes that the jobs ask for.
    weights
        Hop difference to the next level, per level below the top.
    bottom, top, scale
        As in `allocopt.arrays.Encoding`.
    largest
        Most nodes that a job asks for, for the scale of the features.
    """

    position_first: IntArray
    job_first: IntArray
    groups: IntArray
    nodes: Float32Array
    sizes: IntArray
    weights: FloatArray
    bottom: float
    top: float
    scale: float
    largest: float


class Repairs(NamedTuple):
    """Where E environments are; rows are as long as the largest window asks for.

    Parameters
    ----------
    window, moves, removed, placed, n_idle
        The window, moves made on it, jobs removed by the present move, jobs of these placed again, and the length of
        the idle sequence, shape ``(5, E)``.
    jobs
        Jobs in some order, the removed ones first.
    idle
        The idle sequence.
    owners
        Owner of each position in the working, the accepted and the best state, shape ``(3, E, M)``.
    costs
        Costs of the jobs in the working and the accepted state, shape ``(2, E, J)``.
    totals
        As in `heuristics.topology.annealing.Walk`, shape ``(E, 2)``.
    """

    counters: IntArray
    jobs: IntArray
    idle: IntArray
    owners: IntArray
    costs: FloatArray
    totals: FloatArray


WINDOW, MOVES, REMOVED, PLACED, N_IDLE = range(5)

WINDOW_POOL = tuple_type(
    (
        *(int64[::1], int64[::1], int64[::1], float32[::1], int64[::1], float64[::1]),
        *(float64, float64, float64, float64),
    ),
    WindowPool,
)
REPAIRS = tuple_type(
    (int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, :, ::1], float64[:, :, ::1], float64[:, ::1]), Repairs
)


@helper(allocates=True)
def encoding_of(pool: WindowPool, window: int) -> Encoding:
    """Return a window of the pool as other kernels take it."""
    first, last = pool.position_first[window], pool.position_first[window + 1]
    levels = pool.weights.size
    groups = pool.groups[levels * first : levels * last].reshape((levels, last - first))
    sizes = pool.sizes[pool.job_first[window] : pool.job_first[window + 1]]
    return Encoding(groups, sizes, pool.weights, pool.bottom, pool.top, pool.scale, sizes)


@helper(allocates=True)
def walk_of(repairs: Repairs, e: int, m: int, n_jobs: int) -> Walk:
    """Return the walk of an environment, in place."""
    return Walk(
        repairs.owners[0, e, :m],
        repairs.owners[1, e, :m],
        repairs.owners[2, e, :m],
        repairs.costs[0, e, :n_jobs],
        repairs.costs[1, e, :n_jobs],
        repairs.totals[e],
    )


@helper(allocates=True)
def start_window(pool: WindowPool, repairs: Repairs, e: int, counts: IntArray, rng: np.random.Generator) -> None:
    """Let an environment walk on a random window, from the sequential allocation."""
    repairs.counters[WINDOW, e] = draw_below(pool.job_first.size - 1, rng)
    repairs.counters[MOVES, e] = 0
    encoding = encoding_of(pool, repairs.counters[WINDOW, e])
    m, n_jobs = encoding.groups.shape[1], encoding.sizes.size
    walk = walk_of(repairs, e, m, n_jobs)
    walk.working[:] = -1
    positions = np.arange(m)
    first = 0
    for job in range(n_jobs):
        repairs.jobs[e, job] = job
        last = first + encoding.sizes[job]
        walk.working[first:last] = job
        walk.working_costs[job] = cost_at(encoding, positions[first:last], counts)
        first = last
    put(walk.working, walk.accepted)
    put(walk.working_costs, walk.accepted_costs)
    walk.totals[:] = walk.working_costs.sum()


@helper(allocates=True)
def start_move(pool: WindowPool, repairs: Repairs, rules: Rules, e: int, rng: np.random.Generator) -> None:
    """Remove some jobs of an environment."""
    encoding = encoding_of(pool, repairs.counters[WINDOW, e])
    m, n_jobs = encoding.groups.shape[1], encoding.sizes.size
    most = min(rules.most_removed, n_jobs)
    walk = walk_of(repairs, e, m, n_jobs)
    count, n_idle = remove_jobs(encoding, walk, most, repairs.jobs[e, :n_jobs], repairs.idle[e], rng)
    repairs.counters[REMOVED, e] = count
    repairs.counters[PLACED, e] = 0
    repairs.counters[N_IDLE, e] = n_idle


@kernel(void(WINDOW_POOL, REPAIRS, RULES, types.npy_rng), allocates=True)
def start_all(pool: WindowPool, repairs: Repairs, rules: Rules, rng: np.random.Generator) -> None:
    """Start a window and a move in every environment."""
    counts = np.zeros(repairs.owners.shape[2], dtype=np.int64)
    for e in range(repairs.jobs.shape[0]):
        start_window(pool, repairs, e, counts, rng)
        # So that the environments are at different points of their walks.
        repairs.counters[MOVES, e] = draw_below(rules.steps, rng)
        start_move(pool, repairs, rules, e, rng)


@kernel(void(WINDOW_POOL, REPAIRS, int64, float32[:, ::1], int64[::1]), allocates=True)
def observe_all(pool: WindowPool, repairs: Repairs, n_features: int, states: Float32Array, n_legal: IntArray) -> None:
    """Write the state of every environment and its number of legal actions."""
    for e in range(repairs.jobs.shape[0]):
        encoding = encoding_of(pool, repairs.counters[WINDOW, e])
        m = encoding.groups.shape[1]
        first = 2 * pool.position_first[repairs.counters[WINDOW, e]]
        nodes = pool.nodes[first : first + 2 * m].reshape((2, m))
        waiting = repairs.jobs[e, repairs.counters[PLACED, e] : repairs.counters[REMOVED, e]]
        size = encoding.sizes[waiting[0]] / pool.largest
        others = asked_by_others(encoding.sizes, waiting) / pool.largest
        idle = repairs.idle[e, : repairs.counters[N_IDLE, e]]
        n_legal[e] = write_state(nodes, idle, size, others, n_features, states[e])


@kernel(void(WINDOW_POOL, REPAIRS, RULES, int64[::1], float64[::1], boolean[::1], types.npy_rng), allocates=True)
def step_all(
    pool: WindowPool,
    repairs: Repairs,
    rules: Rules,
    actions: IntArray,
    rewards: FloatArray,
    done: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Place one job in every environment.

    Where it was the last one of a move, the reward is minus the hop cost of the jobs of the move, the walk accepts or
    rejects, and the next move begins, on a new window after the last step of the walk.
    """
    counts = np.zeros(repairs.owners.shape[2], dtype=np.int64)
    block = np.empty(repairs.idle.shape[1], dtype=np.int64)
    for e in range(actions.size):
        encoding = encoding_of(pool, repairs.counters[WINDOW, e])
        walk = walk_of(repairs, e, encoding.groups.shape[1], encoding.sizes.size)
        job = repairs.jobs[e, repairs.counters[PLACED, e]]
        positions = block[: encoding.sizes[job]]
        n_idle = repairs.counters[N_IDLE, e]
        repairs.counters[N_IDLE, e] = insert_job(walk.working, job, actions[e], repairs.idle[e], n_idle, positions)
        walk.working_costs[job] = cost_at(encoding, positions, counts)
        repairs.counters[PLACED, e] += 1
        removed = repairs.counters[REMOVED, e]
        done[e] = repairs.counters[PLACED, e] == removed
        rewards[e] = 0.0
        if done[e]:
            for i in range(removed):
                rewards[e] -= walk.working_costs[repairs.jobs[e, i]]
            accept_or_not(walk, rules, repairs.counters[MOVES, e], rng)
            repairs.counters[MOVES, e] += 1
            if repairs.counters[MOVES, e] >= rules.steps:
                start_window(pool, repairs, e, counts, rng)
            start_move(pool, repairs, rules, e, rng)
