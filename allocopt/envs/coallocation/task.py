"""The task of co-allocation: its arguments, its episodes side by side, and its environments."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from gymnasium.spaces import Box, Discrete

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs import fields
from allocopt.envs.asked import whole_number
from allocopt.envs.coallocation.observation import MEANINGS, describe, size_of
from allocopt.envs.coallocation.reward import Capacity, MeanResponse, Reward
from allocopt.envs.environments import About, SingleEnv, Task, VectorizedEnv
from allocopt.envs.fields import STAY, Layout, Own, records
from allocopt.envs.side_by_side import SideBySide
from allocopt.errors import UsageError
from allocopt.problems.coallocation.problem import LARGEST_PERCENT
from allocopt.simulator.quota.execution import QuotaSchedule
from allocopt.simulator.quota.questions import Asking, AskingSimulation, Question
from allocopt.simulator.state import Records
from allocopt.traces.applications import APPLICATIONS, CLUSTER_SIZES, HOUR_S
from allocopt.traces.asax_queue import QueuedJob, asax_queue

METRICS = ("mean_wait_h", "mean_response_h", "makespan_h", "cpu_utilization", "mean_slowdown", "guests")
DRAWN_QUEUES = 16
"""Queues drawn by the seed of a reset where none are given."""
WALLTIME_FACTOR, BETWEEN_S = 1.25, 120.0
"""Of drawn queues, as in `allocopt reproduce`: limits over run times, mean seconds between submissions."""

Queue = Sequence[QueuedJob]


class Tally(fields.Tally, Protocol):
    """Where an episode stands."""

    decisions: int
    """Actions so far."""
    total_reward: float
    """Sum of the rewards so far."""


class Episode(NamedTuple):
    """One episode: its simulation is an object of Python."""

    tally: Own[Records[Tally]]


LAYOUT = Layout(Episode, ())


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


class Episodes(SideBySide[Float32Array]):
    """Independent episodes on clusters that are alike, each a simulation of its own that stops at every question.

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

    Raises
    ------
    InvalidProblemError
        By `begin`, if a job asks for more cores than there are.
    UsageError
        By `begin`, if in a queue no job ever waits beside a running one that can take it.
    """

    def __init__(
        self, jobsets: Sequence[tuple[QueuedJob, ...]], cores: int, count: int = 1, options: Options | None = None
    ) -> None:
        self.options = Options() if options is None else options
        self.jobsets, self.cores = tuple(jobsets), cores
        self.applications = applications_of(self.jobsets)
        batch = LAYOUT.side_by_side(count, Episode(records(Tally)))
        super().__init__(len(jobsets), len(self.options.percents), batch)
        self._running: list[AskingSimulation | None] = [None] * count

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
        """Return what agents see and what they may answer, the episodes in front; zeros where one is over."""
        seen = np.zeros((self.n_environments, size_of(self.applications)), dtype=np.float32)
        legal = np.zeros((self.n_environments, self.n_actions), dtype=np.bool_)
        for place, simulation in enumerate(self._running):
            question = None if simulation is None else simulation.question
            if question is not None:
                seen[place] = describe(question, self.applications)
                legal[place] = True
            # A guest is not sent away once it is there.
            legal[place, 0] = question is None or not question.is_there
        return seen, legal

    def _play(self, actions: IntArray, jobsets: IntArray) -> tuple[FloatArray, BoolArray]:
        rewards, over, batch = np.zeros(self.n_environments), np.zeros(self.n_environments, dtype=np.bool_), self._batch
        for e, (action, follows) in enumerate(zip(actions.tolist(), jobsets.tolist(), strict=True)):
            if follows == STAY:
                if action != STAY and not self.tally["over"][e]:
                    rewards[e] = self._answer(e, self.options.percents[action])
                over[e] = self.tally["over"][e]
                if over[e] and action != STAY:
                    batch.tally[e, 1] = batch.tally[e, 0]
                    follows = int(batch.following[e])
            if follows != STAY:
                self._begin(e, follows)
        return rewards, over

    def _begin(self, e: int, jobset: int) -> None:
        simulation = AskingSimulation(self.jobsets[jobset], self.cores, self.options.asking())
        if simulation.question is None:
            raise UsageError(f"jobset {jobset} on {self.cores} cores asks no question: nobody waits who could share")
        self._running[e] = simulation
        self._batch.tally[e, :1] = records(Tally, jobset=jobset)

    def _answer(self, e: int, percent: int) -> float:
        simulation, tally = self.simulation(e), self.tally[e]
        question = simulation.question
        tally["invalid"] = int(question is not None and question.is_there and percent == 0)
        simulation.take(percent)
        before, now = float(tally["total_reward"]), self.options.reward.so_far(simulation)
        tally["over"] = int(simulation.question is None)
        tally["decisions"] += 1
        tally["total_reward"], tally["reward"] = now, now - before
        return now - before

    def metrics(self) -> dict[str, FloatArray]:
        """Return what the episodes have come to, by name; NaN for those that go on."""
        found = [
            (np.nan,) * len(METRICS) if one is None or one.question is not None else _metrics_of(one.schedule())
            for one in self._running
        ]
        return dict(zip(METRICS, np.array(found).T, strict=True))


def applications_of(jobsets: Sequence[tuple[QueuedJob, ...]]) -> tuple[str, ...]:
    """Return the names of all applications, sorted."""
    return tuple(sorted({job.application for jobs in jobsets for job in jobs}))


def _metrics_of(done: QuotaSchedule) -> tuple[float, ...]:
    return (
        float(done.wait_s.mean()) / HOUR_S,
        float(done.response_s.mean()) / HOUR_S,
        done.makespan_s / HOUR_S,
        done.cpu_utilization,
        float(done.slowdown.mean()),
        float((done.accounts.host_of >= 0).sum()),
    )


class Coallocation(Task[Episodes, Float32Array]):
    """An agent says which quota of a running job's cores a waiting one gets, or one that is there already.

    Parameters
    ----------
    cores
        Cores of the cluster; the paper has 64, 128 and 256.
    jobs
        A queue of `QueuedJob`, or several of which an episode takes one; None for sixteen of the ASAX paper's, drawn by
        the seed of `reset`; `allocopt.traces.executables.profiled_jobs` makes one of a trace.
    options
        Quotas, reward, and who is asked about; None for the defaults.

    Raises
    ------
    UsageError
        If the jobs are none, or there are no cores.
    InvalidProblemError
        If a job asks for more cores than there are.
    """

    about = About(
        title="Quotas of guests (ASAX)",
        episode="""\
Jobs share cores, as under ASAX ([asax.md](asax.md)). They start on cores of their own as EASY starts them;
every quota is the agent's. At every scheduling point it is asked about each guest that is there, by the age of
the hosts: its new quota; then about each waiting job, in the order of the queue, beside each running job that
can take it, the one with the most idle cores first, until one does: its quota, or 0 for no. The episode ends
when no question is left; then all jobs run to their ends. The simulation is that of `allocopt simulate --policy
asax`, stopped at every question: `question` is that with all that is known of it, `schedule()` what has
happened.""",
        action="The number of a quota, in the order of `options.percents`; 0 for none.",
        mask="All but 0 for a guest that is there, which is not sent away; where that is chosen its quota stays.",
        seen="Shape (17 + 2 A,) for A applications: behind the numbers below a one among A each for host and guest.",
        meanings={"Of host, guest and cluster": MEANINGS},
        rewards=(Capacity, MeanResponse),
        options=Options,
        example="""\
from allocopt.envs.coallocation.task import Options

env = gymnasium.make("allocopt.envs:allocopt/Coallocation-v0", cores=64, options=Options(period_s=60.0))
observation, info = env.reset(seed=1)
over = False
while not over:
    idle = 1 - observation[0]                                  # what the host leaves idle is offered
    wanted = min(9, int(10 * idle))
    observation, reward, over, _, info = env.step(max(wanted, int(info["action_mask"].argmax())))
print(info["mean_response_h"], info["cpu_utilization"])
""",
    )

    def __init__(
        self,
        cores: int = CLUSTER_SIZES[0],
        jobs: Queue | Sequence[Queue] | None = None,
        options: Options | None = None,
    ) -> None:
        self.options = Options() if options is None else options
        if not isinstance(self.options, Options):
            raise UsageError(f"the options are {options!r}, must be Options, or None")
        super().__init__(_jobsets(jobs))
        self.cores = whole_number("number of cores", cores, 1)

    def episodes(self, count: int, rng: np.random.Generator) -> Episodes:
        """Return episodes that have not begun."""
        jobsets = self.jobsets
        if jobsets is None:
            lines = self.cores if self.cores in CLUSTER_SIZES else CLUSTER_SIZES[0]
            jobsets = [
                asax_queue(rng, walltime_factor=WALLTIME_FACTOR, cluster=lines, between_s=BETWEEN_S)
                for _ in range(DRAWN_QUEUES)
            ]
        return Episodes(jobsets, self.cores, count, self.options)

    def observation_space(self) -> Box:
        """Return the space of what an agent sees."""
        names = tuple(APPLICATIONS) if self.jobsets is None else applications_of(self.jobsets)
        return Box(0.0, 1.0, (size_of(names),), np.float32)

    def action_space(self) -> Discrete:
        """Return the space of quotas."""
        return Discrete(len(self.options.percents))


def _jobsets(jobs: Queue | Sequence[Queue] | None) -> tuple[tuple[QueuedJob, ...], ...] | None:
    if jobs is None:
        return None
    listed: Sequence[Any] = [jobs] if isinstance(jobs, Sequence) and jobs and isinstance(jobs[0], QueuedJob) else jobs
    if not isinstance(listed, Sequence) or not all(_is_queue(queue) for queue in listed):
        raise UsageError("the jobs must be a sequence of QueuedJob or several of them, or None")
    return tuple(tuple(queue) for queue in listed)


def _is_queue(queue: object) -> bool:
    return isinstance(queue, Sequence) and len(queue) > 0 and all(isinstance(job, QueuedJob) for job in queue)


class CoallocationEnv(SingleEnv[Episodes, Float32Array, np.int64]):
    """One episode of `Coallocation` at a time."""

    task = Coallocation

    @property
    def question(self) -> Question | None:
        """What is asked, with all that is known of it; None at the end."""
        return self.episodes.simulation().question

    def schedule(self) -> QuotaSchedule:
        """Return what has happened so far; what is still to come is NaN.

        Raises
        ------
        UsageError
            If no episode has begun.
        """
        return self.episodes.simulation().schedule()


class CoallocationVectorEnv(VectorizedEnv[Episodes, Float32Array]):
    """Many episodes of `Coallocation` side by side."""

    task = Coallocation
