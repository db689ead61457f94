"""Both selectors of CuSH (sections 3.2 and 3.3): their networks, and how they act without torch.

The job selector of the paper applies 16 filters of 2 x 2 to the image, then a rectifier, batch normalization and a
dense layer with an output for every choice. The compact one, `CompactNetwork`, looks at the features of one choice at a
time, with the same weights for all of them, so that neither the machine nor the queue has a say in its size. The policy
selector has 10 hidden neurons.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.cush.jobsets import JobSet, Machine
from allocopt.envs.cush.task import DynamicTypes, Episodes, Options
from allocopt.errors import UsageError
from allocopt.simulator.locality import Policy
from learned.rl.workers import Workers
from learned.weights import Weights, check_shapes, two_layers

JOBS, POLICIES = "jobs.", "policies."  # What the names of both networks' parameters begin with where they are together
LEARNED, ORACLE = "learned", "oracle"
FIXED = (*(policy.label for policy in Policy), ORACLE)
"""What may stand in the place of the policy selector: one policy for all jobs, or the better one of each."""
FILTERS, SIDE = 16, 2
HIDDEN = 10
N_NUMBERS = 3  # What a policy selector is told of a job beside its traits; see `Episodes.descriptions`


@dataclass(frozen=True, slots=True)
class ImageNetwork:
    """Slots, rows of the image, and columns: CPUs and GPUs; raises `UsageError` if a filter has no place in it."""

    queue: int
    horizon: int
    units: int

    def __post_init__(self) -> None:
        if self.horizon < SIDE:
            raise UsageError(f"the horizon is {self.horizon}, must be at least {SIDE} for filters of {SIDE} x {SIDE}")

    @property
    def positions(self) -> int:
        """Places of a filter in the image."""
        return (self.horizon - SIDE + 1) * (self.units - SIDE + 1)


def policy_shapes(inputs: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the policy selector's parameters by name, for so many numbers that describe a job."""
    first = {"0.weight": (HIDDEN, inputs), "0.bias": (HIDDEN,)}
    return {**first, "2.weight": (len(Policy), HIDDEN), "2.bias": (len(Policy),)}


def parts_of(weights: Mapping[str, Float32Array], prefix: str) -> dict[str, Float32Array]:
    """Return the parameters of one of the selectors."""
    return {name.removeprefix(prefix): values for name, values in weights.items() if name.startswith(prefix)}


class JobSelector(Protocol):
    """Chooses a slot, or to do nothing, in many episodes at once; `learned.rl.slots.SlotPolicy` is one."""

    def draw(self, observations: Float32Array, legal: BoolArray, uniform: FloatArray) -> IntArray:
        """Draw choices from what `Episodes.observe` returns, by random numbers within 0 .. 1, shape ``(E,)``."""

    def best(self, observations: Float32Array, legal: BoolArray) -> IntArray:
        """Take the most probable choices; see `draw`."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedPolicies:
    """The network of the policy selector; raises ValueError if a parameter is missing, or has another shape."""

    weights: Weights

    def __post_init__(self) -> None:
        inputs = self.weights["0.weight"].shape[-1] if "0.weight" in self.weights else N_NUMBERS
        check_shapes(policy_shapes(inputs), self.weights)

    def draw(self, described: Float32Array, penalties: FloatArray, uniform: FloatArray) -> IntArray:
        """Draw policies of jobs that start by their probabilities and random numbers within 0 .. 1, shape ``(n,)``.

        Descriptions have shape ``(n, inputs)``; only an oracle looks at penalties under each `Policy`, shape ``(n,
        2)``.
        """
        logits = two_layers(self.weights, described, _rectified).astype(np.float64)
        first = 1.0 / (1.0 + np.exp(np.clip(logits[:, 1] - logits[:, 0], -60.0, 60.0)))
        return np.asarray((uniform >= first).astype(np.int64))

    def best(self, described: Float32Array, penalties: FloatArray) -> IntArray:
        """Take the most probable policies; see `draw`."""
        return np.asarray(two_layers(self.weights, described, _rectified).argmax(axis=1), dtype=np.int64)


def _rectified(values: Float32Array) -> Float32Array:
    return np.maximum(values, np.float32(0.0))


@dataclass(frozen=True, slots=True)
class FixedPolicies:
    """What stands in the place of the policy selector, one of `FIXED`."""

    how: str

    def draw(self, described: Float32Array, penalties: FloatArray, uniform: FloatArray) -> IntArray:
        """Return the policies, which nothing is drawn for; see `LearnedPolicies.draw`."""
        return self.best(described, penalties)

    def best(self, described: Float32Array, penalties: FloatArray) -> IntArray:
        """Return the policies; see `LearnedPolicies.draw`."""
        if self.how == ORACLE:
            return np.asarray(penalties.argmin(axis=1), dtype=np.int64)
        chosen = next(policy for policy in Policy if policy.label == self.how)
        return np.full(len(described), int(chosen), dtype=np.int64)


PolicySelector = LearnedPolicies | FixedPolicies


@dataclass(frozen=True, slots=True)
class Agent:
    """A job selector and a policy selector."""

    jobs: JobSelector
    policies: PolicySelector


MEANS = ("turnaround", "wait", "rewards", "penalty")
"""Metrics of episodes that are told beside the score; see `Episodes.metrics`."""


class _Starts(NamedTuple):
    # The jobs that are about to start.

    episodes: IntArray  # In which episode each does, rising, shape ``(n,)``
    jobs: IntArray  # Their numbers in the job sets, shape ``(n,)``
    described: Float32Array  # What the policy selector is told of them, shape ``(n, inputs)``
    penalties: FloatArray  # Under each `Policy`, shape ``(n, 2)``


def look(episodes: Episodes) -> tuple[Float32Array, BoolArray]:
    """Return observations, and what agents may choose; see `idling_forbidden`."""
    observations, legal = episodes.observe()
    return observations, idling_forbidden(legal, episodes.tally["running"])


def idling_forbidden(legal: BoolArray, running: IntArray) -> BoolArray:
    """Return legal choices, to do nothing only where something runs or nothing can start: no agent waits for ever."""
    allowed = legal.copy()
    allowed[:, -1] = (running > 0) | ~legal[:, :-1].any(axis=1)
    return allowed


def starts_of(episodes: Episodes, slots: IntArray, over: BoolArray) -> _Starts:
    """Return the jobs in the chosen slots of the episodes that are not over."""
    chosen = np.flatnonzero((slots < episodes.options.queue) & ~over)
    places = chosen, slots[chosen]
    return _Starts(chosen, episodes.jobs()[places], episodes.descriptions()[places], episodes.penalties()[places])


def _best_step(agent: Agent, episodes: Episodes, over: BoolArray) -> BoolArray:
    slots = agent.jobs.best(*look(episodes))
    starts = starts_of(episodes, slots, over)
    policies = np.zeros(len(slots), dtype=np.int64)
    policies[starts.episodes] = agent.policies.best(starts.described, starts.penalties)
    return episodes.step(slots, policies)[1]


def run_agent(agent: Agent, episodes: Episodes) -> None:
    """Play every job set in an episode of its own through, by the best choices."""
    episodes.begin(np.arange(len(episodes.jobsets)))
    over = np.zeros(episodes.n_environments, dtype=np.bool_)
    while not over.all():
        over = _best_step(agent, episodes, over)


def run_dynamic(agent: Agent, types: DynamicTypes, episodes: Episodes, number: int) -> None:
    """Play a job set of applications through by the best choices, whose types become known meanwhile."""
    types.begin(number)
    over = np.zeros(1, dtype=np.bool_)
    while not over.all():
        over = _best_step(agent, episodes, over)
        types.look()


def right_share(episodes: Episodes) -> float:
    """Share of the started jobs that were allocated by their better policy."""
    right = [
        jobs.penalty[np.arange(len(jobs)), episodes.times(number)[2]] <= jobs.penalty.min(axis=1) + 1e-9
        for number, jobs in enumerate(episodes.jobsets)
    ]
    return float(np.concatenate(right).mean())


class Validator:
    """Judges both selectors on job sets that they were not trained on; every worker plays every P-th of them."""

    def __init__(self, jobsets: Sequence[JobSet], machine: Machine, options: Options, workers: Workers) -> None:
        own = jobsets[workers.rank :: workers.count]
        self._episodes = Episodes(own, machine, len(own), options) if own else None

    def measures(self, agent: Agent, workers: Workers) -> dict[str, float]:
        """Return means over the job sets: normalized turnaround time, the ``score``, and those of `MEANS`.

        ``right_policies`` is the share of the jobs that got the better policy.
        """
        sums = np.zeros(3 + len(MEANS))
        episodes = self._episodes
        if episodes is not None:
            run_agent(agent, episodes)
            metrics, n = episodes.metrics(), len(episodes.jobsets)
            sums[:2] = n, n * right_share(episodes)
            sums[2:] = [metrics[name].sum() for name in ("normalized_turnaround", *MEANS)]
        count, right, score, *means = workers.total(sums).tolist()
        named = {f"validated_{name}": mean / count for name, mean in zip(MEANS, means, strict=True)}
        return {"score": score / count, "right_policies": right / count, **named}
