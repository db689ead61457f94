"""Environments that train and validate agents of DRAS: episodes side by side over jobsets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.dras.task import DrasEpisodes, DrasOptions
from allocopt.envs.side_by_side import STAY
from allocopt.learned.rl.slots import SlotPolicy
from allocopt.learned.rl.workers import Environment, Stateful
from allocopt.simulator.rules import Reservations
from allocopt.traces.weekly_cycle import HOUR_S
from allocopt.traces.workload import Workload

DOUBT = 2.0  # Number of standard errors by which waits must be shorter to count as better
MOST_WEIGHT = 4.0  # Largest factor by which the rewards of a quiet jobset count more than usual


class ActingPolicy(Protocol):
    """A network that acts, without torch."""

    def __call__(self, observation: Float32Array, legal: BoolArray) -> int:
        """Return the best legal slot."""

    def choose(self, observations: Float32Array, legal: BoolArray, uniform: FloatArray | None = None) -> IntArray:
        """Return the best legal slots of many states, or slots drawn by ``uniform`` random numbers."""


Phase = tuple[Sequence[Workload], float]
"""Jobsets of a training phase, and its positive share of the training; shares are scaled to a sum of 1."""


class JobsetEnvironment(Stateful, Environment):
    """Episodes over random jobsets of the current phase.

    An episode that ends is followed by one of a new jobset, unless `begin_groups` began all episodes together.
    """

    state = ("episodes", "_rng", "_streams", "reward_scale", "_share")

    def __init__(
        self, phases: Sequence[Phase], machine: int, n_environments: int, options: DrasOptions, seed: int
    ) -> None:
        jobsets = [jobs for phase, _ in phases for jobs in phase]
        self.episodes = DrasEpisodes(jobsets, machine, n_environments, options)
        self.n_environments = n_environments
        self.n_jobs = np.array([len(jobs) for jobs in jobsets])
        # Jobsets are weighted by their number of jobs and, inversely, by their mean wait under FCFS with EASY.
        wait_s = _mean_waits_s(_first_come_first_served(jobsets, machine, options))
        self._weights = self.n_jobs * np.minimum(wait_s.mean() / np.maximum(wait_s, 1.0), MOST_WEIGHT)
        self.reward_scale = 0.0
        """Divisor of rewards, 0 while unknown; the learner sets it, and checkpoints keep it."""
        self._first = np.concatenate(([0], np.cumsum([len(phase) for phase, _ in phases])))
        shares = np.array([share for _, share in phases])
        self._ends = np.cumsum(shares) / shares.sum()
        self._share = 0.0
        self._rng = np.random.default_rng((seed, 1))
        self._streams = False

    def go_on_to(self, share: float) -> None:
        """Switch to the phase that is due once ``share`` of the training is finished."""
        self._share = share

    def next_machine(self) -> "JobsetEnvironment":
        """Return itself; see `SeveralMachines.next_machine`."""
        return self

    def observe(self) -> tuple[Float32Array, BoolArray]:
        if not self._streams:
            self._streams = True
            self.episodes.begin(self.drawn(self.n_environments))
            self.episodes.follow(self.drawn(self.n_environments))
        return self.episodes.observe()

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        # Rewards count more in jobsets with many jobs, and in those with short waits under EASY.
        weights = self._weights[self.episodes.tally["jobset"]]
        rewards, ended = self.episodes.step(actions)
        if self._streams and ended.any():
            self.episodes.follow(self.drawn(self.n_environments))
        return rewards * weights, ended

    def begin_groups(self, n_groups: int) -> IntArray:
        """Begin all episodes, divided evenly among ``n_groups`` drawn jobsets; return their jobsets, shape ``(E,)``."""
        self._streams = False
        jobsets = np.repeat(self.drawn(n_groups), self.n_environments // n_groups)
        self.episodes.follow(np.full(self.n_environments, STAY))
        self.episodes.begin(jobsets)
        return jobsets

    def drawn(self, count: int) -> IntArray:
        """Draw jobsets of the current phase, without repetition if there are enough."""
        phase = min(int(np.searchsorted(self._ends, self._share, side="right")), len(self._ends) - 1)
        first, end = int(self._first[phase]), int(self._first[phase + 1])
        return first + self._rng.choice(end - first, count, replace=count > end - first)


class SeveralMachines(Stateful, Environment):
    """Environments of several machines, with equally many episodes on each, for a *generic* agent (section 6.6)."""

    state = ("_turn", "_environments")

    def __init__(self, environments: Sequence[JobsetEnvironment]) -> None:
        self._environments = tuple(environments)
        self._turn = 0
        self.n_environments = environments[0].n_environments

    @property
    def episodes(self) -> DrasEpisodes:
        """Episodes of the current machine."""
        return self._environments[self._turn].episodes

    def next_machine(self) -> JobsetEnvironment:
        """Switch to the environment of the next machine, in turn, and return it."""
        self._turn = (self._turn + 1) % len(self._environments)
        return self._environments[self._turn]

    def go_on_to(self, share: float) -> None:
        """Switch to the phase that is due once ``share`` of the training is finished."""
        for environment in self._environments:
            environment.go_on_to(share)

    def observe(self) -> tuple[Float32Array, BoolArray]:
        return self._environments[self._turn].observe()

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        return self._environments[self._turn].step(actions)


class ScaledRewards(Stateful, Environment):
    """An environment that divides rewards by the standard deviation of all their discounted sums so far."""

    state = ("environment", "_sums", "_count", "_mean", "_squares")

    def __init__(self, environment: JobsetEnvironment | SeveralMachines, discount: float = 0.99) -> None:
        self.environment, self.n_environments, self._discount = environment, environment.n_environments, discount
        self._sums = np.zeros(environment.n_environments)
        # Number of all sums so far, their mean, and the sum of squared differences from the mean (Welford 1962).
        self._count, self._mean, self._squares = 0, 0.0, 0.0

    def observe(self) -> tuple[Float32Array, BoolArray]:
        return self.environment.observe()

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        rewards, ended = self.environment.step(actions)
        self._sums = self._discount * self._sums + rewards
        for value in self._sums.tolist():
            self._count += 1
            difference = value - self._mean
            self._mean += difference / self._count
            self._squares += difference * (value - self._mean)
        self._sums[ended] = 0.0
        return rewards / (np.sqrt(self._squares / self._count) or 1.0), ended


def _first_come_first_served(jobsets: Sequence[Workload], machine: int, options: DrasOptions) -> DrasEpisodes:
    # Always choose the first slot, at both levels: this is FCFS with EASY.
    episodes = DrasEpisodes(jobsets, machine, len(jobsets), replace(options, reservations=Reservations.KEPT))
    episodes.play(lambda states, legal: np.zeros(len(jobsets), dtype=np.int64))
    return episodes


def _mean_waits_s(episodes: DrasEpisodes) -> FloatArray:
    # Return the mean wait of each episode's jobs, shape ``(E,)``.
    tally = episodes.tally
    sizes = np.array([len(jobs) for jobs in episodes.jobsets])
    return np.asarray(tally["wait_s"] / sizes[tally["jobset"]])


@dataclass(frozen=True, slots=True, eq=False)
class _Waits:
    # Mean and longest wait in each jobset, in hours, shape ``(n,)``
    mean_h: FloatArray
    longest_h: FloatArray
    total_reward: float  # Mean sum of an episode's rewards

    def are_better_than(self, old: "_Waits") -> bool:
        """Return whether mean waits fell by more than `DOUBT` standard errors, and longest waits did not grow."""
        gain = 1.0 - self.mean_h / old.mean_h
        beyond_doubt = gain.mean() > DOUBT * gain.std(ddof=1) / np.sqrt(len(gain))
        return bool(beyond_doubt and self.longest_h.mean() <= old.longest_h.mean())


class Validator:
    """Plays jobsets by a policy's best actions; longest waits above ``tolerated`` times EASY's add to the score.

    ``policy_of`` makes a policy of weights; None for a policy with the compact network.
    """

    def __init__(
        self,
        jobsets: Sequence[Workload],
        machine: int,
        options: DrasOptions,
        tolerated: float = 1.25,
        policy_of: Callable[[Mapping[str, Float32Array]], ActingPolicy] | None = None,
    ) -> None:
        self._tolerated, self._policy_of = tolerated, policy_of or SlotPolicy.of
        self._episodes = DrasEpisodes(jobsets, machine, len(jobsets), options)
        self.reference = _waits(_first_come_first_served(jobsets, machine, options))

    def waits(self, weights: Mapping[str, Float32Array]) -> _Waits:
        """Play all jobsets to the end with the network of these weights, and return the waits."""
        self._episodes.play(self._policy_of(weights).choose)
        return _waits(self._episodes)

    def measures(self, weights: Mapping[str, Float32Array]) -> dict[str, float]:
        """Compare a network's waits with those of FCFS and EASY; the smaller the ``score``, the better."""
        waits = self.waits(weights)
        wait_ratio = waits.mean_h / self.reference.mean_h
        longest_ratio = waits.longest_h / self.reference.longest_h
        return {
            "wait_h": float(waits.mean_h.mean()),
            "wait_ratio": float(wait_ratio.mean()),
            "longest_ratio": float(longest_ratio.mean()),
            "worst_longest_ratio": float(longest_ratio.max()),
            "total_reward": waits.total_reward,
            "score": float((wait_ratio + np.maximum(longest_ratio - self._tolerated, 0.0)).mean()),
        }


def _waits(episodes: DrasEpisodes) -> _Waits:
    # Waits below a second count as a second, so that ratios are finite.
    mean_h = np.maximum(_mean_waits_s(episodes), 1.0) / HOUR_S
    longest_h = np.maximum(episodes.tally["longest_wait_s"], 1.0) / HOUR_S
    return _Waits(mean_h, longest_h, float(episodes.tally["total_reward"].mean()))
