"""Training of NSA: the repair as compiled environments side by side (section V-B), and the networks in torch.

Only changes of switch numbers carry information, but neighbouring switches differ by only a hundredth. So the initial
filters of the first two features have zero mean, to see only changes, and large weights, so that small changes drive
the hyperbolic tangent. The training may still find any other weights.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
import torch
from numba import boolean, float32, float64, int64, types, void
from torch import nn

from allocopt.arrays import BoolArray, Encoding, Float32Array, FloatArray, IntArray
from allocopt.heuristics.topology.annealing import (
    RULES,
    Rules,
    Walk,
    accept_or_not,
    cost_at,
    draw_below,
    insert_job,
    remove_jobs,
)
from allocopt.kernels.arrays import FloatMatrix, IntMatrix, put, record_type
from allocopt.kernels.compiled import helper, kernel
from allocopt.learned.nsa.networks import CONVOLUTION, DENSE, Architecture, Shape
from allocopt.learned.nsa.solver import node_features, write_state
from allocopt.learned.rl.workers import Stateful
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode

REWARD_SCALE = 0.01  # Factor of hops in a reward, so that most rewards lie between -5 and 0
WALK_STEPS, MOST_REMOVED = 100, 2  # Steps of training walks, and most jobs that a move removes (n_D)
GAINS = (200.0, 60.0, 2.0, 2.0, 2.0)  # Factors of torch's initial weights, by feature
N_NUMBERS = 2  # Number of features that are numbers of groups; they come first
SPAN = 5  # Number of neighbouring weights whose mean is subtracted from each weight of a dense layer
HOTTEST, COLDEST = 2.5, 0.0025  # Temperatures of training walks, as multiples of the cost of a hop


class _WindowPool(NamedTuple):
    """Windows of one cluster, one after the other."""

    # First position and first job of each window, and the ends of the last one, shape ``(W + 1,)``
    position_first: IntArray
    job_first: IntArray
    groups: IntArray  # Groups of the idle positions, window by window, and within a window level by level
    # Features of the idle positions by `node_features`, window by window: the switches of all positions, then the pods
    nodes: Float32Array
    sizes: IntArray  # Number of nodes of each job
    weights: FloatArray  # Hop difference to the next level, per level below the top
    # As in `allocopt.arrays.Encoding`
    bottom: float
    top: float
    scale: float


class _Repairs(NamedTuple):
    """State of E environments; rows are as long as the largest window needs."""

    # Window, moves made on it, jobs removed by the current move, how many of these are placed again, length of the idle
    # sequence
    counters: IntMatrix
    jobs: IntMatrix  # Jobs in some order, the removed ones first
    idle: IntMatrix  # The idle sequence
    # Owner of each position in the working, the accepted and the best state, shape ``(3, E, M)``
    owners: Annotated[IntArray, 3]
    costs: Annotated[FloatArray, 3]  # Costs of the jobs in the working and the accepted state, shape ``(2, E, J)``
    totals: FloatMatrix  # As in `allocopt.heuristics.topology.annealing.Walk`, shape ``(E, 2)``


WINDOW, MOVES, REMOVED, PLACED, N_IDLE = range(5)
WINDOW_POOL, REPAIRS = record_type(_WindowPool), record_type(_Repairs)


@helper(allocates=True)
def _encoding_of(pool: _WindowPool, window: int) -> Encoding:
    first, last = pool.position_first[window], pool.position_first[window + 1]
    levels = pool.weights.size
    groups = pool.groups[levels * first : levels * last].reshape((levels, last - first))
    sizes = pool.sizes[pool.job_first[window] : pool.job_first[window + 1]]
    return Encoding(groups, sizes, pool.weights, pool.bottom, pool.top, pool.scale, sizes)


@helper(allocates=True)
def _walk_of(repairs: _Repairs, e: int, m: int, n_jobs: int) -> Walk:
    owners, costs = repairs.owners, repairs.costs
    working, accepted, best = owners[0, e, :m], owners[1, e, :m], owners[2, e, :m]
    return Walk(working, accepted, best, costs[0, e, :n_jobs], costs[1, e, :n_jobs], repairs.totals[e])


@helper(allocates=True)
def _start_window(pool: _WindowPool, repairs: _Repairs, e: int, counts: IntArray, rng: np.random.Generator) -> None:
    # Start a random window with the sequential allocation.
    repairs.counters[WINDOW, e] = draw_below(pool.job_first.size - 1, rng)
    repairs.counters[MOVES, e] = 0
    encoding = _encoding_of(pool, repairs.counters[WINDOW, e])
    m, n_jobs = encoding.groups.shape[1], encoding.sizes.size
    walk = _walk_of(repairs, e, m, n_jobs)
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
def _start_move(pool: _WindowPool, repairs: _Repairs, rules: Rules, e: int, rng: np.random.Generator) -> None:
    encoding = _encoding_of(pool, repairs.counters[WINDOW, e])
    m, n_jobs = encoding.groups.shape[1], encoding.sizes.size
    most = min(rules.most_removed, n_jobs)
    walk = _walk_of(repairs, e, m, n_jobs)
    count, n_idle = remove_jobs(encoding, walk, most, repairs.jobs[e, :n_jobs], repairs.idle[e], rng)
    repairs.counters[REMOVED, e] = count
    repairs.counters[PLACED, e] = 0
    repairs.counters[N_IDLE, e] = n_idle


@kernel(void(WINDOW_POOL, REPAIRS, RULES, types.npy_rng), allocates=True)
def _start_all(pool: _WindowPool, repairs: _Repairs, rules: Rules, rng: np.random.Generator) -> None:
    counts = np.zeros(repairs.owners.shape[2], dtype=np.int64)
    for e in range(repairs.jobs.shape[0]):
        _start_window(pool, repairs, e, counts, rng)
        # Start the environments at different points of their walks.
        repairs.counters[MOVES, e] = draw_below(rules.steps, rng)
        _start_move(pool, repairs, rules, e, rng)


@kernel(void(WINDOW_POOL, REPAIRS, int64, float32[:, ::1], int64[::1]), allocates=True)
def _observe_all(
    pool: _WindowPool, repairs: _Repairs, n_features: int, states: Float32Array, n_legal: IntArray
) -> None:
    for e in range(repairs.jobs.shape[0]):
        encoding = _encoding_of(pool, repairs.counters[WINDOW, e])
        m = encoding.groups.shape[1]
        first = 2 * pool.position_first[repairs.counters[WINDOW, e]]
        nodes = pool.nodes[first : first + 2 * m].reshape((2, m))
        waiting = repairs.jobs[e, repairs.counters[PLACED, e] : repairs.counters[REMOVED, e]]
        idle = repairs.idle[e, : repairs.counters[N_IDLE, e]]
        n_legal[e] = write_state(nodes, idle, encoding.sizes, waiting, n_features, states[e])


@kernel(void(WINDOW_POOL, REPAIRS, RULES, int64[::1], float64[::1], boolean[::1], types.npy_rng), allocates=True)
def _step_all(
    pool: _WindowPool,
    repairs: _Repairs,
    rules: Rules,
    actions: IntArray,
    rewards: FloatArray,
    done: np.ndarray,
    rng: np.random.Generator,
) -> None:
    counts = np.zeros(repairs.owners.shape[2], dtype=np.int64)
    block = np.empty(repairs.idle.shape[1], dtype=np.int64)
    for e in range(actions.size):
        encoding = _encoding_of(pool, repairs.counters[WINDOW, e])
        walk = _walk_of(repairs, e, encoding.groups.shape[1], encoding.sizes.size)
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
                _start_window(pool, repairs, e, counts, rng)
            _start_move(pool, repairs, rules, e, rng)


class RepairEnvironment(Stateful):
    """E annealing walks, each on a window of one cluster; every repair of a walk is an episode.

    An episode places the jobs that a move removed, one per action. The reward of the last action is minus their hop
    cost, in hops times `REWARD_SCALE`; all other rewards are 0. Then the walk accepts or rejects the move as in
    Algorithm 1, so that the training sees the same states as the solver. After its last step a walk restarts on a
    random window.
    """

    state = ("_repairs", "_rng")

    def __init__(self, problems: Sequence[TopologyProblem], shape: Shape, n_environments: int, seed: int) -> None:
        self.n_environments = n_environments
        self._shape = shape
        encodings = [encode(problem) for problem in problems]
        first = encodings[0]
        n_idle, n_jobs = [each.n_idle for each in encodings], [len(each.sizes) for each in encodings]
        self._pool = _WindowPool(
            np.cumsum([0, *n_idle], dtype=np.int64),
            np.cumsum([0, *n_jobs], dtype=np.int64),
            np.concatenate([each.groups.ravel() for each in encodings]),
            np.concatenate([node_features(problem).ravel() for problem in problems]),
            np.concatenate([each.sizes for each in encodings]),
            *(first.weights, first.bottom, first.top, first.scale),
        )
        self._reward_scale = REWARD_SCALE / first.scale
        self._rules = Rules(HOTTEST * first.scale, COLDEST * first.scale, WALK_STEPS, MOST_REMOVED, False, True)
        most_idle, most_jobs = max(n_idle), max(n_jobs)
        self._repairs = _Repairs(
            np.zeros((5, n_environments), dtype=np.int64),
            np.zeros((n_environments, most_jobs), dtype=np.int64),
            np.zeros((n_environments, most_idle + int(self._pool.sizes.max())), dtype=np.int64),
            np.zeros((3, n_environments, most_idle), dtype=np.int64),
            np.zeros((2, n_environments, most_jobs)),
            np.zeros((n_environments, 2)),
        )
        self._rng = np.random.default_rng(seed)
        _start_all(self._pool, self._repairs, self._rules, self._rng)

    def observe(self) -> tuple[Float32Array, BoolArray]:
        """Return states and legal actions; see `allocopt.learned.rl.workers.Environment.observe`."""
        n_features, n_actions = self._shape
        states = np.empty((self.n_environments, n_features * n_actions), dtype=np.float32)
        n_legal = np.empty(self.n_environments, dtype=np.int64)
        _observe_all(self._pool, self._repairs, n_features, states, n_legal)
        return states.reshape(-1, n_features, n_actions), np.arange(n_actions) < n_legal[:, None]

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        """Place a job in every walk; see `allocopt.learned.rl.workers.Environment.step`."""
        rewards = np.empty(self.n_environments)
        done = np.empty(self.n_environments, dtype=np.bool_)
        _step_all(self._pool, self._repairs, self._rules, actions, rewards, done, self._rng)
        return rewards * self._reward_scale, done


class FeedForward(nn.Sequential):
    """An architecture as a module: maps ``(batch, channels, length)`` to ``(batch, outputs)``."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        for kind, inputs, outputs, width, stride in architecture.layers:
            if kind == CONVOLUTION:
                self.append(nn.Conv1d(inputs, outputs, width, stride))
            else:
                self.append(nn.Linear(inputs, outputs) if kind == DENSE else nn.Tanh())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        values = inputs
        for module in self:
            if isinstance(module, nn.Linear):
                values = values.flatten(1)
            values = module(values)
        return values.flatten(1)

    def sharpen_first_layer(self, n_features: int) -> None:
        """Scale the first layer's weights, and make those of switches and pods see only changes."""
        first = self[0]
        assert isinstance(first, nn.Linear | nn.Conv1d)
        with torch.no_grad():
            weight = first.weight.view(len(first.weight), n_features, -1)
            for feature in range(n_features):
                values = weight[:, feature]
                if feature < N_NUMBERS and isinstance(first, nn.Linear):
                    padded = nn.functional.pad(values[:, None], (SPAN // 2, SPAN // 2), mode="replicate")
                    values = values - nn.functional.avg_pool1d(padded, SPAN, 1)[:, 0]
                elif feature < N_NUMBERS:
                    values = values - values.mean(1, keepdim=True)
                weight[:, feature] = values * GAINS[feature]
