"""The task of co-allocation: its observations, rewards, episodes and environments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.environments import About, Task, environments_of
from allocopt.envs.side_by_side import STAY, EpisodeTally, Layout, Own, SideBySide, whole_number
from allocopt.errors import UsageError
from allocopt.kernels.arrays import Records
from allocopt.problems.coallocation.problem import LARGEST_PERCENT
from allocopt.simulator.quota.execution import QuotaSchedule
from allocopt.simulator.quota.scheduler import AskingSimulation, Question
from allocopt.traces.applications import APPLICATIONS, CLUSTER_SIZES, HOUR_S, QueuedJob, asax_queue
from allocopt.traces.job_profile import StageKind

METRICS: dict[str, Callable[[QuotaSchedule], float]] = {
    "mean_wait_h": lambda done: done.wait_s.mean() / HOUR_S,
    "mean_response_h": lambda done: done.response_s.mean() / HOUR_S,
    "makespan_h": lambda done: done.makespan_s / HOUR_S,
    "cpu_utilization": lambda done: done.cpu_utilization,
    "mean_slowdown": lambda done: done.slowdown.mean(),
    "guests": lambda done: (done.accounts.host_of >= 0).sum(),
}
DRAWN_QUEUES = 16  # number of queues that the seed of a reset draws if no jobs are given
WALLTIME_FACTOR, BETWEEN_S = 1.25, 120.0
"""Ratio of limit to run time, and mean seconds between submissions, of drawn queues, as in `allocopt reproduce`."""

MEANINGS = {
    "host_cpu": "busy share of the host's cores, now",
    "host_memory": "occupied share of its memory, now",
    "host_sequential": "1 in a sequential stage",
    "host_interval": "elapsed share of the host's duration",
    "host_happiness": "happiness h as h / (h + 1); ASAX's experts see the numbers up to here",
    "host_io": "share of the time with I/O, now",
    "host_cores": "the host's cores / those of the cluster",
    "is_there": "1 if the guest already runs on the host",
    "quota": "its quota now",
    "guest_cores": "the guest's cores / those of the host",
    "guest_memory": "its peak memory, in shares of the host's",
    "guest_cpu": "its mean busy cores / those of the host",
    "guest_io": "its mean share of the time with I/O",
    "guest_limit": "its limit, x / (x + 1 h)",
    "guest_wait": "time since its submission, x / (x + 1 h)",
    "free_cores": "free cores / all cores",
    "waiting": "waiting jobs / all jobs",
}
"""Meanings of the numbers; one-hot codes of the host's and the guest's application follow, sorted by name."""

Queue = Sequence[QueuedJob]


class _Tally(EpisodeTally, Protocol):
    decisions: int  # actions so far
    total_reward: float  # sum of the rewards so far


class _Episode(NamedTuple):
    # The simulation is a Python object, so only the tally is in the arrays.
    tally: Own[Records[_Tally]]


LAYOUT = Layout(_Episode, ())


class Reward(Protocol):
    """A reward: the change of a running total."""

    def so_far(self, simulation: AskingSimulation) -> float:
        """Return the total up to now."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Work done by guests minus work lost by their hosts, in hours of the whole cluster.

    It is the objective ``capacity`` of co-allocation, summed over time: the work that jobs did while they were guests,
    minus ``degradation_weight`` times the further work that their hosts would have done without them. Raises
    `UsageError` if the weight is negative.
    """

    degradation_weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.degradation_weight >= 0:
            raise UsageError(f"the degradation weight is {self.degradation_weight}, must not be negative")

    def so_far(self, simulation: AskingSimulation) -> float:
        """Return gains less losses."""
        used = simulation.execution.accounts
        work = used.gained_core_s.sum() - self.degradation_weight * used.lost_core_s.sum()
        return float(work) / (simulation.cores * HOUR_S)


@dataclass(frozen=True, slots=True)
class MeanResponse:
    """Minus the mean response time of all jobs, in hours: each job costs the time from its submission to its end."""

    def so_far(self, simulation: AskingSimulation) -> float:
        """Return minus the mean hours from each job's submission to now, or to its end if it has ended."""
        done = simulation.schedule()
        until = np.fmin(done.end, simulation.now)
        return -float(np.maximum(0.0, until - done.workload.submit).mean()) / HOUR_S


@dataclass(frozen=True, slots=True)
class CoallocationOptions:
    """Options of all episodes of an environment; raises `UsageError` if a number is out of range."""

    percents: tuple[int, ...] = tuple(range(0, LARGEST_PERCENT + 1, 10))  #: The quotas, rising from 0 to at most 90.
    reward: Reward = field(default_factory=Capacity)  #: The agent's reward.
    window: int | None = None  #: Number of waiting jobs about which the agent is asked; None for all.
    heeds_memory: bool = True  #: Whether a guest may only join a host with enough memory.
    #: While jobs share cores, ask again after this many seconds without an event; None for never.
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
        if not callable(getattr(self.reward, "so_far", None)):
            raise UsageError(
                f"reward is {self.reward!r}, must be Capacity(...), MeanResponse(...) or an object with a so_far method"
            )


class CoallocationEpisodes(SideBySide[Float32Array]):
    """Independent episodes on equal clusters, each with its own simulation, which stops at every question.

    `begin` raises `InvalidProblemError` if a job asks for more cores than the cluster has, and `UsageError` if a
    jobset leads to no question.
    """

    def __init__(
        self,
        jobsets: Sequence[tuple[QueuedJob, ...]],
        cores: int,
        count: int = 1,
        options: CoallocationOptions | None = None,
    ) -> None:
        self.options = options or CoallocationOptions()
        self.jobsets, self.cores = tuple(jobsets), cores
        self.applications = _applications(self.jobsets)
        batch = LAYOUT.side_by_side(count, [_Episode(LAYOUT.record("tally"))])
        super().__init__(len(jobsets), len(self.options.percents), batch)
        self._running: list[AskingSimulation | None] = [None] * count

    def question(self, episode: int = 0) -> Question | None:
        """Return the question that the next action answers; None at the end."""
        return self._simulation(episode).question

    def schedule(self, episode: int = 0) -> QuotaSchedule:
        """Return the schedule so far; future times are NaN."""
        return self._simulation(episode).schedule()

    def _simulation(self, episode: int) -> AskingSimulation:
        simulation = self._running[episode]
        if simulation is None:
            raise UsageError("no episode has begun; call reset first")
        return simulation

    def observe(self) -> tuple[Float32Array, BoolArray]:
        seen = np.zeros((self.n_environments, _size(self.applications)), dtype=np.float32)
        legal = np.zeros((self.n_environments, self.n_actions), dtype=np.bool_)
        for place, simulation in enumerate(self._running):
            question = None if simulation is None else simulation.question
            if question is None:
                legal[place, 0] = True
                continue
            view, guest, host = question.view, question.job, question.allocation.host
            size = guest.job.cores / question.allocation.cores
            values = (
                host.stage.cpu,
                host.stage.memory,
                float(host.stage.kind is StageKind.SEQUENTIAL),
                host.interval(view.now),
                _squeezed(host.happiness(view.now), 1.0),
                host.stage.io,
                host.queued.job.cores / view.cores,
                float(question.is_there),
                question.allocation.percent / 100,
                size,
                guest.job.peak_memory() * size,
                guest.job.mean("cpu") * size,
                guest.job.mean("io"),
                _squeezed(guest.job.walltime_s, HOUR_S),
                _squeezed(view.now - guest.submit_s, HOUR_S),
                view.free_cores / view.cores,
                len(view.queue) / len(view.jobs),
            )
            names = (host.queued.application, guest.application)
            ones = [float(name == application) for name in names for application in self.applications]
            seen[place] = np.clip(np.array([*values, *ones], dtype=np.float32), 0.0, 1.0)
            legal[place] = True
            # A guest stays on its host until it ends.
            legal[place, 0] = not question.is_there
        return seen, legal

    def _play(self, actions: IntArray, jobsets: IntArray) -> tuple[FloatArray, BoolArray]:
        rewards, over, batch = np.zeros(self.n_environments), np.zeros(self.n_environments, dtype=np.bool_), self._batch
        for e, (action, follows) in enumerate(zip(actions.tolist(), jobsets.tolist(), strict=True)):
            if follows == STAY:
                if action != STAY and not self.tally["over"][e]:
                    simulation, tally, percent = self._simulation(e), self.tally[e], self.options.percents[action]
                    question = simulation.question
                    tally["invalid"] = int(question is not None and question.is_there and percent == 0)
                    simulation.take(percent)
                    # Rewards are differences of a running total, so that they add up to it.
                    before, now = float(tally["total_reward"]), self.options.reward.so_far(simulation)
                    tally["over"] = int(simulation.question is None)
                    tally["decisions"] += 1
                    tally["total_reward"] = now
                    tally["reward"] = rewards[e] = now - before
                over[e] = self.tally["over"][e]
                if over[e] and action != STAY:
                    batch.tally[e, 1] = batch.tally[e, 0]
                    follows = int(batch.following[e])
            if follows != STAY:
                options = self.options.window, self.options.heeds_memory, self.options.period_s
                simulation = AskingSimulation(self.jobsets[follows], self.cores, *options)
                if simulation.question is None:
                    fault = f"jobset {follows} asks no question on {self.cores} cores: no waiting job can be a guest"
                    raise UsageError(f"{fault}; give more jobs or fewer cores")
                self._running[e] = simulation
                batch.tally[e, :1] = LAYOUT.record("tally", jobset=follows)
        return rewards, over

    def metrics(self) -> dict[str, FloatArray]:
        # Metrics of episodes that have not ended are NaN.
        ended = [None if one is None or one.question is not None else one.schedule() for one in self._running]
        return {
            name: np.array([np.nan if done is None else measure(done) for done in ended], dtype=np.float64)
            for name, measure in METRICS.items()
        }


def _size(applications: Sequence[str]) -> int:
    return len(MEANINGS) + 2 * len(applications)


def _squeezed(value: float, half: float) -> float:
    return value / (value + half)


def _applications(jobsets: Sequence[tuple[QueuedJob, ...]]) -> tuple[str, ...]:
    return tuple(sorted({job.application for jobs in jobsets for job in jobs}))


class Coallocation(Task[CoallocationEpisodes, Float32Array]):
    """An agent chooses which quota of a running job's cores a waiting job, or a present guest, gets.

    Raises `UsageError` if there are no jobs or no cores; `InvalidProblemError` if a job asks for more cores than the
    cluster has.

    Parameters
    ----------
    cores
        Cores of the cluster; the paper has 64, 128 and 256.
    jobs
        A queue of `QueuedJob`, or several, of which each episode plays one; None for sixteen queues of the ASAX paper,
        drawn by the seed of `reset`. `allocopt.traces.applications.profiled_jobs` makes a queue from a trace.
    options
        Quotas, reward, and the jobs about which the agent is asked; None for the defaults.
    """

    about = About(
        title="Quotas of guests (ASAX)",
        episode="""\
Jobs start on cores of their own as under EASY, and share cores as under ASAX ([asax.md](asax.md)). At every scheduling
point the agent is asked about each guest, oldest host first: the answer is its new quota. Then it is asked about each
waiting job, in the order of the queue, with each running job that can be its host, the host with the most idle cores
first: the answer is the job's quota, or 0 for none. Once a job has a quota, the next job follows. The episode ends when
no question is left. `episodes.question()` holds the question with all that is known of it.""",
        action="The number of a quota, in the order of `options.percents`; 0 for none.",
        mask="All actions are legal, except 0 for a guest that already has a quota: then 0 keeps this quota.",
        seen="""\
Shape (17 + 2 A,) for A applications: the numbers below, then one-hot codes of the host's and of the guest's
application.""",
        meanings={"Host, guest and cluster": MEANINGS},
        rewards=(Capacity, MeanResponse),
        example="""\
from allocopt.envs.coallocation.task import CoallocationOptions

env = gymnasium.make("allocopt:allocopt/Coallocation-v0", cores=64, options=CoallocationOptions(period_s=60.0))
observation, info = env.reset(seed=1)
over = False
while not over:
    idle = 1 - observation[0]                                  # offer the guest what the host leaves idle
    wanted = min(9, int(10 * idle))
    observation, reward, over, _, info = env.step(max(wanted, int(info["action_mask"].argmax())))
print(info["mean_response_h"], info["cpu_utilization"])
""",
    )

    def __init__(
        self,
        cores: int = CLUSTER_SIZES[0],
        jobs: Queue | Sequence[Queue] | None = None,
        options: CoallocationOptions | None = None,
    ) -> None:
        self.options = CoallocationOptions() if options is None else options
        if not isinstance(self.options, CoallocationOptions):
            raise UsageError(f"the options are {options!r}, must be CoallocationOptions, or None")
        queues: Sequence[Any] | None = [jobs] if _is_queue(jobs) else jobs
        if queues is not None and not (isinstance(queues, Sequence) and all(map(_is_queue, queues))):
            raise UsageError("the jobs must be a sequence of QueuedJob or several of them, or None")
        super().__init__(None if queues is None else [tuple(queue) for queue in queues])
        self.cores = whole_number("number of cores", cores, 1)
        names = tuple(APPLICATIONS) if self.jobsets is None else _applications(self.jobsets)
        self.shape, self.n_actions = (_size(names),), len(self.options.percents)

    def episodes(self, count: int, rng: np.random.Generator) -> CoallocationEpisodes:
        jobsets = self.jobsets
        if jobsets is None:
            lines = self.cores if self.cores in CLUSTER_SIZES else CLUSTER_SIZES[0]
            draw = partial(asax_queue, walltime_factor=WALLTIME_FACTOR, cluster=lines, between_s=BETWEEN_S)
            jobsets = [draw(rng) for _ in range(DRAWN_QUEUES)]
        return CoallocationEpisodes(jobsets, self.cores, count, self.options)


def _is_queue(queue: object) -> bool:
    return isinstance(queue, Sequence) and len(queue) > 0 and all(isinstance(job, QueuedJob) for job in queue)


CoallocationEnv, CoallocationVectorEnv = environments_of(Coallocation)
