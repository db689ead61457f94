"""The task of co-allocation: its arguments, its episodes side by side, and its environments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.coallocation.observation import MEANINGS, describe, size_of
from allocopt.envs.coallocation.reward import Capacity, MeanResponse, Reward
from allocopt.envs.environments import About, SingleEnv, Task, VectorizedEnv
from allocopt.envs.side_by_side import STAY, EpisodeTally, Layout, Own, SideBySide, records, whole_number
from allocopt.errors import UsageError
from allocopt.problems.coallocation.problem import LARGEST_PERCENT
from allocopt.simulator.quota.execution import QuotaSchedule
from allocopt.simulator.quota.questions import Asking, AskingSimulation, Question
from allocopt.simulator.state import Records
from allocopt.traces.applications import APPLICATIONS, CLUSTER_SIZES, HOUR_S, QueuedJob, asax_queue

METRICS: dict[str, Callable[[QuotaSchedule], float]] = {
    "mean_wait_h": lambda done: done.wait_s.mean() / HOUR_S,
    "mean_response_h": lambda done: done.response_s.mean() / HOUR_S,
    "makespan_h": lambda done: done.makespan_s / HOUR_S,
    "cpu_utilization": lambda done: done.cpu_utilization,
    "mean_slowdown": lambda done: done.slowdown.mean(),
    "guests": lambda done: (done.accounts.host_of >= 0).sum(),
}
DRAWN_QUEUES = 16  # queues drawn by the seed of a reset where none are given
WALLTIME_FACTOR, BETWEEN_S = 1.25, 120.0
"""Of drawn queues, as in `allocopt reproduce`: limits over run times, mean seconds between submissions."""

Queue = Sequence[QueuedJob]


class Tally(EpisodeTally, Protocol):
    """Where an episode stands."""

    decisions: int  # actions so far
    total_reward: float  # sum of the rewards so far


class Episode(NamedTuple):
    """One episode: its simulation is an object of Python."""

    tally: Own[Records[Tally]]


LAYOUT = Layout(Episode, ())


@dataclass(frozen=True, slots=True)
class Options:
    """What episodes have in common.

    Raises `UsageError` if a number is out of range.

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


class Episodes(SideBySide[Float32Array]):
    """Independent episodes on clusters that are alike, each a simulation of its own that stops at every question.

    All of them are over until `begin` is called, which raises `InvalidProblemError` if a job asks for more cores than
    there are, and `UsageError` if in a queue no job ever waits beside a running one that can take it.
    """

    def __init__(
        self, jobsets: Sequence[tuple[QueuedJob, ...]], cores: int, count: int = 1, options: Options | None = None
    ) -> None:
        self.options = options or Options()
        self.jobsets, self.cores = tuple(jobsets), cores
        self.applications = applications_of(self.jobsets)
        batch = LAYOUT.side_by_side(count, [Episode(records(Tally))])
        super().__init__(len(jobsets), len(self.options.percents), batch)
        self._running: list[AskingSimulation | None] = [None] * count

    def simulation(self, place: int = 0) -> AskingSimulation:
        """Return the simulation of an episode; raise `UsageError` if none has begun."""
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
        asking = Asking(self.options.window, self.options.heeds_memory, self.options.period_s)
        simulation = AskingSimulation(self.jobsets[jobset], self.cores, asking)
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
        ended = [None if one is None or one.question is not None else one.schedule() for one in self._running]
        return {
            name: np.array([np.nan if done is None else measure(done) for done in ended], dtype=np.float64)
            for name, measure in METRICS.items()
        }


def applications_of(jobsets: Sequence[tuple[QueuedJob, ...]]) -> tuple[str, ...]:
    """Return the names of all applications, sorted."""
    return tuple(sorted({job.application for jobs in jobsets for job in jobs}))


class Coallocation(Task[Episodes, Float32Array]):
    """An agent says which quota of a running job's cores a waiting one gets, or one that is there already.

    Raises `UsageError` if the jobs are none, or there are no cores; `InvalidProblemError` if a job asks for more cores
    than there are.

    Parameters
    ----------
    cores
        Cores of the cluster; the paper has 64, 128 and 256.
    jobs
        A queue of `QueuedJob`, or several of which an episode takes one; None for sixteen of the ASAX paper's, drawn by
        the seed of `reset`; `allocopt.traces.executables.profiled_jobs` makes one of a trace.
    options
        Quotas, reward, and who is asked about; None for the defaults.
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
        queues: Sequence[Any] | None = [jobs] if _is_queue(jobs) else jobs
        if queues is not None and not (isinstance(queues, Sequence) and all(map(_is_queue, queues))):
            raise UsageError("the jobs must be a sequence of QueuedJob or several of them, or None")
        super().__init__(None if queues is None else [tuple(queue) for queue in queues])
        self.cores = whole_number("number of cores", cores, 1)
        names = tuple(APPLICATIONS) if self.jobsets is None else applications_of(self.jobsets)
        self.shape, self.n_actions = (size_of(names),), len(self.options.percents)

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
        """Return what has happened so far; what is still to come is NaN."""
        return self.episodes.simulation().schedule()


class CoallocationVectorEnv(VectorizedEnv[Episodes, Float32Array]):
    """Many episodes of `Coallocation` side by side."""

    task = Coallocation
