"""Episodes of co-allocation side by side, each a simulation of its own that stops at every question."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.asked import actions_of
from allocopt.envs.coallocation.describe import describe, size_of
from allocopt.envs.coallocation.rewards import Capacity, Reward
from allocopt.envs.side_by_side import STAY
from allocopt.errors import UsageError
from allocopt.problems.coallocation.problem import LARGEST_PERCENT
from allocopt.simulator.quota.execution import QuotaSchedule
from allocopt.simulator.quota.questions import Asking, AskingSimulation
from allocopt.traces.applications import HOUR_S
from allocopt.traces.asax_queue import QueuedJob

TALLY_DTYPE = np.dtype([("over", np.int64), ("invalid", np.int64), ("decisions", np.int64), ("reward", np.float64)])
METRICS = ("mean_wait_h", "mean_response_h", "makespan_h", "cpu_utilization", "mean_slowdown", "guests")


@dataclass(frozen=True, slots=True)
class Options:
    """What episodes have in common.

    Parameters
    ----------
    percents
        The quotas, rising from 0 to at most 90.
    reward
        What an agent is rewarded for.
    window
        Waiting jobs that are asked about; None for all.
    heeds_memory
        Whether a guest may only go where it has the memory.
    period_s
        Seconds after which is asked again while jobs share, though nothing happened; None for never.

    Raises
    ------
    UsageError
        If a number is out of range.
    """

    percents: tuple[int, ...] = tuple(range(0, LARGEST_PERCENT + 1, 10))
    reward: Reward = field(default_factory=Capacity)
    window: int | None = None
    heeds_memory: bool = True
    period_s: float | None = None

    def __post_init__(self) -> None:
        listed = self.percents
        rises = all(before < after for before, after in pairwise(listed))
        if len(listed) < 2 or listed[0] != 0 or not rises or listed[-1] > LARGEST_PERCENT:
            raise UsageError(f"the percents are {listed}, must rise from 0 to at most {LARGEST_PERCENT}")
        if self.window is not None and self.window < 1:
            raise UsageError(f"the window is {self.window}, must be at least 1, or None")
        if self.period_s is not None and not self.period_s > 0:
            raise UsageError(f"the period is {self.period_s} s, must be positive, or None")

    def asking(self) -> Asking:
        """Return who asks in an episode."""
        return Asking(self.window, self.heeds_memory, self.period_s)


class Episodes:
    """Independent episodes on clusters that are alike.

    Parameters
    ----------
    jobsets
        The queues of which an episode takes one.
    cores
        Cores of each cluster.
    count
        Episodes side by side, E; all of them are over until `begin` is called.
    options
        What they have in common; None for the defaults.
    """

    def __init__(
        self, jobsets: Sequence[tuple[QueuedJob, ...]], cores: int, count: int = 1, options: Options | None = None
    ) -> None:
        self.options = Options() if options is None else options
        self.jobsets, self.cores, self.n_jobsets = tuple(jobsets), cores, len(jobsets)
        self.applications = applications_of(self.jobsets)
        self.tally: NDArray[np.void] = np.zeros(count, dtype=TALLY_DTYPE)
        self.tally["over"] = 1
        self._running: list[AskingSimulation | None] = [None] * count

    def begin(self, jobsets: IntArray) -> None:
        """Begin episodes; `STAY` leaves one as it is.

        Raises
        ------
        InvalidProblemError
            If a job asks for more cores than there are.
        UsageError
            If in a queue no job ever waits beside a running one that can take it.
        """
        for place, jobset in enumerate(jobsets.tolist()):
            if jobset == STAY:
                continue
            simulation = AskingSimulation(self.jobsets[jobset], self.cores, self.options.asking())
            if simulation.question is None:
                raise UsageError(
                    f"jobset {jobset} on {self.cores} cores asks no question: nobody waits who could share"
                )
            self._running[place] = simulation
            self.tally[place] = (0, 0, 0, 0.0)

    def simulation(self, place: int = 0) -> AskingSimulation:
        """Return the simulation of an episode.

        Raises
        ------
        UsageError
            If none has begun.
        """
        simulation = self._running[place]
        if simulation is None:
            raise UsageError("no episode has begun; call reset first")
        return simulation

    def observe(self) -> tuple[Float32Array, BoolArray]:
        """Return what agents see and what they may answer, the episodes in front; nothing where one is over."""
        seen = np.zeros((len(self.tally), size_of(self.applications)), dtype=np.float32)
        legal = np.zeros((len(self.tally), len(self.options.percents)), dtype=np.bool_)
        for place, simulation in enumerate(self._running):
            question = None if simulation is None else simulation.question
            if question is not None:
                seen[place] = describe(question, self.applications)
                legal[place] = True
                # A guest is not sent away once it is there.
                legal[place, 0] = not question.is_there
        return seen, legal

    def step(self, actions: NDArray[np.integer]) -> tuple[FloatArray, BoolArray]:
        """Take answers; return rewards, and which episodes are over."""
        chosen = actions_of(actions, len(self.tally), len(self.options.percents))
        rewards = np.zeros(len(self.tally))
        for place, action in enumerate(chosen.tolist()):
            if not self.tally[place]["over"]:
                rewards[place] = self._answer(place, self.options.percents[action])
        return rewards, self.tally["over"] > 0

    def _answer(self, place: int, percent: int) -> float:
        """Take an answer in one episode, and return the reward."""
        simulation, tally = self.simulation(place), self.tally[place]
        question = simulation.question
        tally["invalid"] = int(question is not None and question.is_there and percent == 0)
        simulation.take(percent)
        before, now = float(tally["reward"]), self.options.reward.so_far(simulation)
        tally["over"] = int(simulation.question is None)
        tally["decisions"] += 1
        tally["reward"] = now
        return now - before

    def metrics(self) -> dict[str, FloatArray]:
        """Return what the episodes have come to, by name; NaN for those that go on."""
        found = [
            _metrics_of(self.simulation(place).schedule()) if over else (np.nan,) * len(METRICS)
            for place, over in enumerate(self.tally["over"].tolist())
        ]
        return dict(zip(METRICS, np.array(found).T, strict=True))


def applications_of(jobsets: Sequence[tuple[QueuedJob, ...]]) -> tuple[str, ...]:
    """Return the names of all applications, sorted."""
    return tuple(sorted({job.application for jobs in jobsets for job in jobs}))


def _metrics_of(done: QuotaSchedule) -> tuple[float, ...]:
    """Return the metrics of a run, in the order of `METRICS`."""
    return (
        float(done.wait_s.mean()) / HOUR_S,
        float(done.response_s.mean()) / HOUR_S,
        done.makespan_s / HOUR_S,
        done.cpu_utilization,
        float(done.slowdown.mean()),
        float((done.accounts.host_of >= 0).sum()),
    )
