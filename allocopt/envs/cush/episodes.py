"""Episodes of the CuSH environment side by side, each over a job set of its own, stepped in one compiled call."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.asked import MOST_SLOTS, whole_number
from allocopt.envs.cush.batch import NOBODY, TALLY_DTYPE, TERMS_DTYPE, Batch
from allocopt.envs.cush.describe import MOST, describe_all, draw_all, n_features
from allocopt.envs.cush.jobsets import JobSet, Machine
from allocopt.envs.cush.kernels import begin_all, step_all
from allocopt.envs.cush.lists import follow_list
from allocopt.envs.cush.placement import units_of
from allocopt.envs.side_by_side import STAY, SideBySide
from allocopt.errors import UsageError
from allocopt.simulator.locality import Policy
from allocopt.simulator.rules import Backfill

ObservationName = Literal["image", "slots"]
OBSERVATIONS: tuple[ObservationName, ...] = ("image", "slots")


@dataclass(frozen=True, slots=True)
class Weights:
    """What an agent is rewarded for: a weighted sum.

    Parameters
    ----------
    waiting
        On the local reward of the paper (section 3.2), paid after every action: minus the sum of wait over length of
        the jobs that wait then, in the queue or the backlog.
    normalized_turnaround
        On minus the mean normalized turnaround time, but for its 1, accrued: every timestep costs 1 over length for
        each job that waits, and its start corrects that to 1 over service. Over an episode this adds up to
        1 - mean normalized turnaround time.
    penalty
        On minus the locality penalty of a job, paid when it starts.

    Raises
    ------
    UsageError
        If a weight is not finite.
    """

    waiting: float = 1.0
    normalized_turnaround: float = 0.0
    penalty: float = 0.0

    def __post_init__(self) -> None:
        for part in fields(self):
            if not np.isfinite(getattr(self, part.name)):
                raise UsageError(f"the weight of {part.name} is {getattr(self, part.name)}, must be a finite number")


@dataclass(frozen=True, slots=True)
class Options:
    """What episodes have in common besides the machine.

    Parameters
    ----------
    queue
        Slots Q that an agent sees, 1 to `MOST_SLOTS`; other jobs wait in the backlog.
    horizon
        Rows T of an image, in timesteps, 1 to `MOST_SLOTS`.
    reward
        What an agent is rewarded for.
    observation
        ``image``: the paper's, ``(Q + 1, T, units of the machine)``; ``slots``: features of each slot and of doing
        nothing, ``(Q + 1, features)``, which do not depend on the size of the machine.
    skips_forced
        Whether time passes by itself while nothing can start; what that costs is added to the reward of the action
        before.

    Raises
    ------
    UsageError
        If a value is not one of these.
    """

    queue: int = 5
    horizon: int = 5
    reward: Weights = field(default_factory=Weights)
    observation: ObservationName = "slots"
    skips_forced: bool = False

    def __post_init__(self) -> None:
        for name in ("queue", "horizon"):
            whole_number(name, getattr(self, name), 1, MOST_SLOTS)
        if self.observation not in OBSERVATIONS:
            raise UsageError(f"the observation is {self.observation!r}, must be one of {', '.join(OBSERVATIONS)}")

    @property
    def n_actions(self) -> int:
        """Number Q + 1 of choices of the job selector; the last one is to do nothing."""
        return self.queue + 1

    def shape(self, machine: Machine, n_traits: int) -> tuple[int, ...]:
        """Shape of an observation of jobs with so many traits."""
        if self.observation == "slots":
            return self.n_actions, n_features(n_traits)
        return self.n_actions, self.horizon, machine.units


class Episodes(SideBySide[Batch]):
    """Independent episodes on machines that are alike.

    Parameters
    ----------
    jobsets
        The jobs of which an episode takes one set, all with the same number of traits.
    machine
        The cluster.
    count
        Episodes side by side, E, at least 1; all of them are over until `begin` is called.
    options
        What they have in common; None for the defaults.

    Raises
    ------
    UsageError
        If there are no job sets or episodes, the traits differ in number, or a job asks for more than the machine has.
    """

    changing = ("tally", "slots", "list", "start", "end", "policy", "holder", "until", "following", "last")

    def __init__(
        self, jobsets: Sequence[JobSet], machine: Machine, count: int = 1, options: Options | None = None
    ) -> None:
        if not jobsets or count < 1:
            raise UsageError(f"there are {len(jobsets)} job sets and {count} episodes, must be at least 1 of each")
        for number, jobs in enumerate(jobsets):
            _check(number, jobs, machine, jobsets[0].traits.shape[1])
        self.options = Options() if options is None else options
        self.machine = machine
        self.jobsets = tuple(jobsets)
        self.n_traits = jobsets[0].traits.shape[1]
        super().__init__(len(jobsets), count, new_batch(jobsets, machine, count, self.options))

    @property
    def backlog(self) -> IntArray:
        """Jobs that wait outside the queue, shape ``(E,)``."""
        backlog: IntArray = self.tally["arrived"] - self.tally["admitted"]
        return backlog

    def _begin(self, jobsets: IntArray) -> None:
        """Begin episodes over jobsets that there are."""
        begin_all(self._batch, jobsets)

    def observe(self) -> tuple[Float32Array, BoolArray]:
        """Return what the job selector sees and which of its choices are legal; new arrays.

        Returns
        -------
        Float32Array, BoolArray
            Shapes ``(E, *options.shape(...))`` and ``(E, Q + 1)``. Of an episode that is over, zeros, and to do nothing
            is legal.
        """
        observations = np.empty(
            (self.n_environments, *self.options.shape(self.machine, self.n_traits)), dtype=np.float32
        )
        legal = np.empty((self.n_environments, self.options.n_actions), dtype=np.bool_)
        (describe_all if self.options.observation == "slots" else draw_all)(self._batch, observations, legal)
        return observations, legal

    def jobs(self) -> IntArray:
        """Return the jobs in the slots, numbers in their job sets, ``NOBODY`` in an empty slot; shape ``(E, Q)``."""
        return self._batch.slots.copy()

    def descriptions(self) -> Float32Array:
        """Return what the policy selector sees of the job in each slot, zeros in an empty one.

        Returns
        -------
        Float32Array
            Shape ``(E, Q, 3 + K)``: its K traits, log2(1 + GPUs) / 10, GPUs over those of the machine, and
            log2(1 + length) / 5.
        """
        jobs, batch = self._batch.slots, self._batch
        rows = np.maximum(jobs, 0) + batch.bounds[self.tally["jobset"]][:, np.newaxis]
        gpus, length = batch.request[rows, 1], batch.length[rows]
        numbers = [np.log2(1.0 + gpus) / 10, gpus / self.machine.total[1], np.log2(1.0 + length) / 5]
        described = np.concatenate([batch.traits[rows], np.minimum(np.stack(numbers, axis=-1), MOST)], axis=-1)
        return np.where((jobs != NOBODY)[..., np.newaxis], described, 0.0).astype(np.float32)

    def tell(self, jobset: int, traits: FloatArray) -> None:
        """Set what agents are told of a job set's jobs from now on, shape ``(n, K)``; see `JobSet`."""
        first, end = self._batch.bounds[jobset : jobset + 2]
        self._batch.traits[first:end] = traits

    def penalties(self) -> FloatArray:
        """Return the locality penalty of the job in each slot under each `Policy`, shape ``(E, Q, 2)``."""
        jobs, batch = self._batch.slots, self._batch
        rows = np.maximum(jobs, 0) + batch.bounds[self.tally["jobset"]][:, np.newaxis]
        penalties = batch.service[rows] - batch.length[rows][..., np.newaxis]
        return np.where((jobs != NOBODY)[..., np.newaxis], penalties, 0.0)

    def step(self, slots: IntArray, policies: IntArray) -> tuple[FloatArray, BoolArray]:
        """Start a job in each episode, or let a timestep pass.

        Parameters
        ----------
        slots
            Slots, shape ``(E,)``; Q, or one whose job cannot start, does nothing.
        policies
            The `Policy` of the job that starts, shape ``(E,)``.

        Returns
        -------
        FloatArray, BoolArray
            Rewards, and which episodes have ended, shape ``(E,)``; new arrays.
        """
        rewards, ended = np.empty(self.n_environments), np.empty(self.n_environments, dtype=np.bool_)
        chosen, how = (np.ascontiguousarray(values, dtype=np.int64) for values in (slots, policies))
        if chosen.shape != rewards.shape or how.shape != rewards.shape:
            raise UsageError(f"the actions have shapes {chosen.shape} and {how.shape}, must have {rewards.shape}")
        if how.min() < 0 or how.max() >= len(Policy):
            raise UsageError(f"the policies are {how.min()} .. {how.max()}, must be within 0 .. {len(Policy) - 1}")
        step_all(self._batch, chosen, how, rewards, ended)
        return rewards, ended

    def follow_list(
        self, jobset: int, values: FloatArray, policies: IntArray, backfill: Backfill = Backfill.FIRST_FIT
    ) -> None:
        """Run the first episode to its end: the job in the queue with the lowest value starts, the first of equals.

        Parameters
        ----------
        jobset
            Number of the job set.
        values
            A value of each job, shape ``(n,)``, or several that take turns after each start, shape ``(k, n)``.
        policies
            The `Policy` of each job, shape ``(n,)``.
        backfill
            Which jobs start where the one with the lowest value does not fit: none; the first that fits; or, with EASY,
            the first that fits and does not delay it by the service times.

        Raises
        ------
        UsageError
            If a shape is wrong, or backfilling is of another kind.
        """
        numbers, how = np.array(np.atleast_2d(values), dtype=float), np.array(policies, dtype=np.int64)
        n = len(self.jobsets[jobset])
        if numbers.ndim != 2 or numbers.shape[1] != n or how.shape != (n,):
            raise UsageError(f"values and policies have shapes {numbers.shape}, {how.shape}, must have one per job")
        if backfill not in (Backfill.NONE, Backfill.FIRST_FIT, Backfill.EASY):
            raise UsageError(f"backfilling is {backfill!r}, must be Backfill.NONE, Backfill.FIRST_FIT or Backfill.EASY")
        follow_list(self._batch, 0, jobset, numbers, how, int(backfill))

    def metrics(self) -> dict[str, FloatArray]:
        """Return means over the jobs started so far, and the total of the paper's local rewards, shapes ``(E,)``."""
        started = np.maximum(self.tally["started"], 1)
        names = ("normalized_turnaround", "wait", "turnaround", "service", "penalty")
        return {name: self.tally[name] / started for name in names} | {"rewards": self.tally["local_reward"].copy()}

    def times(self, episode: int) -> tuple[IntArray, IntArray, IntArray]:
        """Return when each job of an episode started and gives its units back, and its policy; -1 before its start."""
        n, batch = len(self.jobsets[int(self.tally["jobset"][episode])]), self._batch
        return batch.start[episode, :n].copy(), batch.end[episode, :n].copy(), batch.policy[episode, :n].copy()

    def placement(self, episode: int) -> tuple[IntArray, IntArray]:
        """Return which job holds each CPU and GPU now, -1 for none, shapes ``(nodes, cpus)`` and ``(nodes, gpus)``."""
        batch, machine, now = self._batch, self.machine, int(self.tally["now"][episode])
        return units_of(batch.holder[episode], batch.until[episode], now, machine.nodes, machine.cpus)


def new_batch(jobsets: Sequence[JobSet], machine: Machine, count: int, options: Options) -> Batch:
    """Return the arrays of episodes of which none has begun."""
    most = max(map(len, jobsets))
    tally = np.zeros((count, 1), dtype=TALLY_DTYPE)
    tally["over"] = 1
    pool = {name: np.concatenate([getattr(jobs, name) for jobs in jobsets]) for name in _JOBS}
    return Batch(
        tally=tally,
        slots=np.full((count, options.queue), NOBODY),
        list=np.zeros((count, most), dtype=np.int64),
        start=np.full((count, most), NOBODY),
        end=np.full((count, most), NOBODY),
        policy=np.full((count, most), NOBODY),
        holder=np.full((count, machine.units), NOBODY),
        until=np.zeros((count, machine.units), dtype=np.int64),
        following=np.full(count, STAY),
        last=np.zeros((count, 1), dtype=TALLY_DTYPE),
        terms=terms(machine, options),
        room=np.zeros(machine.nodes, dtype=np.int64),
        bounds=np.concatenate(([0], np.cumsum([len(jobs) for jobs in jobsets]))).astype(np.int64),
        **pool,
    )


_JOBS = ("arrival", "length", "request", "service", "traits")


def terms(machine: Machine, options: Options) -> Any:
    """Return what kernels need to know of the machine and the options."""
    numbers = np.zeros(1, dtype=TERMS_DTYPE)
    for source in (machine, options.reward):
        for part in fields(source):
            numbers[part.name] = getattr(source, part.name)
    numbers["skips_forced"] = options.skips_forced
    return numbers


def _check(number: int, jobs: JobSet, machine: Machine, n_traits: int) -> None:
    """Raise `UsageError` for jobs that cannot be an episode."""
    if jobs.traits.shape[1] != n_traits:
        raise UsageError(f"job set {number} has {jobs.traits.shape[1]} traits, the first one {n_traits}")
    large = (jobs.request > np.array(machine.total)).any(axis=1)
    if large.any():
        cpus, gpus = jobs.request[int(np.argmax(large))]
        have = " and ".join(f"{units} {name}" for units, name in zip(machine.total, ("CPUs", "GPUs"), strict=True))
        raise UsageError(f"a job of set {number} asks for {cpus} CPUs and {gpus} GPUs, the machine has {have}")
