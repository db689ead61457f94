"""The repair of the NSA paper as an environment to train in (section V-B)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.encoding import encode
from heuristics.topology.annealing import Rules
from learned.networks.layers import Shape
from learned.nsa.environment_kernels import Repairs, WindowPool, observe_all, start_all, step_all
from learned.nsa.features import LARGEST_JOB, node_features

REWARD_SCALE = 0.01
"""What hops are multiplied by in a reward, so that most lie between -5 and 0."""

WALK_STEPS = 100
"""Steps of the walks that training states come from."""


def window_pool(problems: Sequence[TopologyProblem]) -> WindowPool:
    """Put windows of one cluster and one hop cost into arrays."""
    encodings = [encode(problem) for problem in problems]
    first = encodings[0]
    return WindowPool(
        _offsets([encoding.n_idle for encoding in encodings]),
        _offsets([len(encoding.sizes) for encoding in encodings]),
        np.concatenate([encoding.groups.ravel() for encoding in encodings]),
        np.concatenate([node_features(problem).ravel() for problem in problems]),
        np.concatenate([encoding.sizes for encoding in encodings]),
        first.weights,
        first.bottom,
        first.top,
        first.scale,
        float(LARGEST_JOB),
    )


def _offsets(lengths: Sequence[int]) -> IntArray:
    """Where each part begins, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


class RepairEnvironment:
    """E walks by annealing, each on a window of its own, whose repairs are the episodes.

    An episode places the jobs that a move removed, one an action. Its reward is 0 but for the last action, where it is
    minus their hop cost, in hops times `REWARD_SCALE`. Then the walk accepts or rejects, as in Algorithm 1, so that
    states are those that the solver meets; after its last step it begins anew on a random window.

    Parameters
    ----------
    problems
        Windows of one cluster.
    shape
        Features and nodes of a state.
    n_environments
        Number of walks E.
    seed
        Fixes every random choice.
    most_removed
        Jobs removed in a move, at most (n_D).
    hottest, coldest
        Temperatures, as multiples of the cost of a hop.
    """

    def __init__(
        self,
        problems: Sequence[TopologyProblem],
        shape: Shape,
        n_environments: int,
        seed: int,
        most_removed: int = 2,
        hottest: float = 2.5,
        coldest: float = 0.0025,
    ) -> None:
        self.n_environments = n_environments
        self._shape = shape
        self._pool = window_pool(problems)
        self._reward_scale = REWARD_SCALE / self._pool.scale
        temperatures = hottest * self._pool.scale, coldest * self._pool.scale
        self._rules = Rules(*temperatures, WALK_STEPS, most_removed, False, True)
        most_idle = int(np.diff(self._pool.position_first).max())
        most_jobs = int(np.diff(self._pool.job_first).max())
        self._repairs = Repairs(
            np.zeros((5, n_environments), dtype=np.int64),
            np.zeros((n_environments, most_jobs), dtype=np.int64),
            np.zeros((n_environments, most_idle + int(self._pool.sizes.max())), dtype=np.int64),
            np.zeros((3, n_environments, most_idle), dtype=np.int64),
            np.zeros((2, n_environments, most_jobs)),
            np.zeros((n_environments, 2)),
        )
        self._rng = np.random.default_rng(seed)
        start_all(self._pool, self._repairs, self._rules, self._rng)

    def observe(self) -> tuple[Float32Array, BoolArray]:
        """Return states and legal actions; see `learned.training.environment.Environment.observe`."""
        n_features, n_actions = self._shape
        states = np.empty((self.n_environments, n_features * n_actions), dtype=np.float32)
        n_legal = np.empty(self.n_environments, dtype=np.int64)
        observe_all(self._pool, self._repairs, n_features, states, n_legal)
        return states.reshape(-1, n_features, n_actions), np.arange(n_actions) < n_legal[:, None]

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        """Place a job in every walk; see `learned.training.environment.Environment.step`."""
        rewards = np.empty(self.n_environments)
        done = np.empty(self.n_environments, dtype=np.bool_)
        step_all(self._pool, self._repairs, self._rules, actions, rewards, done, self._rng)
        return rewards * self._reward_scale, done

    def snapshot(self) -> dict[str, Any]:
        """Return all that changes."""
        arrays = {name: array.copy() for name, array in self._repairs._asdict().items()}
        return {**arrays, "generator": self._rng.bit_generator.state}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        for name, array in self._repairs._asdict().items():
            array[:] = snapshot[name]
        self._rng.bit_generator.state = snapshot["generator"]
