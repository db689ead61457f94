"""The task of CuSH: its arguments, its episodes side by side, and its environments."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, cast

import numpy as np
from gymnasium.spaces import Box, Dict, MultiDiscrete
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.cush import dynamics
from allocopt.envs.cush.dynamics import (
    CLUSTER_MEANINGS,
    FIRST_TRAIT,
    JOB_MEANINGS,
    LAYOUT,
    MOST,
    N_POLICIES,
    Episode,
    Weights,
)
from allocopt.envs.cush.jobsets import GPUS, MACHINES, JobSet, Machine, Recipe
from allocopt.envs.environments import About, Task, check_type, environments_of
from allocopt.envs.side_by_side import MOST_SLOTS, Compiled, first_state, whole_number
from allocopt.errors import UsageError
from allocopt.simulator.locality import SIERRA_TABLE, Measured, PenaltyTable, Policy, TypeClassifier, WorkloadType
from allocopt.simulator.rules import Backfill, Rules
from allocopt.simulator.state import NOBODY
from allocopt.traces.workload import Workload

ObservationName = Literal["image", "slots"]
OBSERVATIONS: tuple[ObservationName, ...] = ("image", "slots")

MachineName = Literal["sierra", "summit"]

DRAWN_JOBSETS = 256  # job sets drawn by the seed of a reset where none are given
N_NUMBERS = 3  # what a policy selector is told of a job beside its traits; see `Episodes.descriptions`

Observation = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class CushOptions:
    """Options of all episodes besides the machine; raises `UsageError` if a value is not one of these."""

    queue: int = 5  #: Slots Q that an agent sees, 1 to `MOST_SLOTS`; other jobs wait in the backlog.
    horizon: int = 5  #: Rows T of an image, in timesteps, 1 to `MOST_SLOTS`.
    reward: Weights = field(default_factory=Weights)  #: What an agent is rewarded for.
    #: ``image``: the paper's, ``(Q + 1, T, units of the machine)``; ``slots``: features of each slot and of doing
    #: nothing, ``(Q + 1, features)``, which do not depend on the size of the machine.
    observation: ObservationName = "slots"
    #: Whether time passes by itself while nothing can start; what that costs is added to the reward before.
    skips_forced: bool = False
    #: Whether a job may be chosen that can start only at a later one of the T timesteps of an image, as in the paper
    #: (section 3.2): it starts at the first of these at which its units are free for as long as it takes, and others
    #: may pass it only where that does not delay it. Otherwise a job may be chosen only if it can start now.
    plans_ahead: bool = False
    #: Whether the normalized turnaround time is over the requested time, as the numbers of Table 1 are, and not over
    #: the service time, as the paper's text has it.
    over_requested: bool = False

    def __post_init__(self) -> None:
        for name in ("queue", "horizon"):
            whole_number(name, getattr(self, name), 1, MOST_SLOTS)
        if self.observation not in OBSERVATIONS:
            raise UsageError(f"the observation is {self.observation!r}, must be one of {', '.join(OBSERVATIONS)}")
        check_type("reward", self.reward, Weights)

    @property
    def reach(self) -> int:
        """Number of timesteps, from now on, at which a job may start."""
        return self.horizon if self.plans_ahead else 1

    @property
    def n_actions(self) -> int:
        """Number Q + 1 of choices of the job selector; the last one is to do nothing."""
        return self.queue + 1

    def shape(self, machine: Machine, n_traits: int) -> tuple[int, ...]:
        """Shape of an observation of jobs with so many traits."""
        if self.observation == "slots":
            return self.n_actions, FIRST_TRAIT + n_traits
        return self.n_actions, self.horizon, machine.units


class CushEpisodes(Compiled):
    """Independent episodes on machines that are alike; raises `UsageError` for job sets that do not fit them."""

    layout = LAYOUT
    kernel = staticmethod(dynamics.step_all)

    def __init__(
        self, jobsets: Sequence[JobSet], machine: Machine, count: int = 1, options: CushOptions | None = None
    ) -> None:
        if not jobsets or count < 1:
            raise UsageError(f"there are {len(jobsets)} job sets and {count} episodes, must be at least 1 of each")
        self.jobsets, self.machine, self.options = tuple(jobsets), machine, options or CushOptions()
        self.n_traits = jobsets[0].traits.shape[1]
        for number, jobs in enumerate(jobsets):
            if jobs.traits.shape[1] != self.n_traits:
                raise UsageError(f"job set {number} has {jobs.traits.shape[1]} traits, the first one {self.n_traits}")
            large = (jobs.request > np.array(machine.total)).any(axis=1)
            if large.any():
                cpus, gpus = jobs.request[int(np.argmax(large))]
                have = "{} CPUs and {} GPUs".format(*machine.total)
                raise UsageError(f"a job of set {number} asks for {cpus} CPUs and {gpus} GPUs, the machine has {have}")
        # Before its first event, with the jobs of all sets behind each other.
        names = ("arrival", "length", "request", "service", "traits")
        together = {name: np.concatenate([getattr(jobs, name) for jobs in jobsets]) for name in names}
        arrival, request, length = together.pop("arrival"), together.pop("request"), together["length"]
        # A workload keeps jobs in the order of their submission, which would mix the sets.
        at_once, unit = np.zeros(len(length)), np.ones(len(length), dtype=np.int64)
        workload = Workload("job sets", np.arange(len(length)), at_once, length, unit, length)
        state = first_state(workload, request, machine.total, Rules(kill_at_limit=False), Backfill.EASY)
        state.jobs["submit"][:] = arrival
        state.clock["now"][:] = 0.0
        counts = list(map(len, jobsets))
        most = max(counts)
        episode = Episode(
            state._replace(
                jobs=np.asarray(state.jobs)[:most], events=np.asarray(state.events)[:most], lists=state.lists[:, :most]
            ),
            LAYOUT.record("tally"),
            LAYOUT.record(
                "terms",
                skips_forced=self.options.skips_forced,
                over_requested=self.options.over_requested,
                reach=self.options.reach,
                **asdict(self.options.reward),
            ),
            slots=np.full(self.options.queue, NOBODY),
            policy=np.full(most, NOBODY),
            planned=np.full(most, np.inf),
            holder=np.full(machine.units, NOBODY),
            until=np.zeros(machine.units),
            room=np.zeros(machine.nodes, dtype=np.int64),
            first_clock=state.clock,
            pool=state.jobs,
            **together,
        )
        shape = self.options.shape(machine, self.n_traits)
        super().__init__(count, [episode], self.options.n_actions, shape, jobs=counts)
        self.describe = dynamics.describe_all if self.options.observation == "slots" else dynamics.draw_all

    @property
    def backlog(self) -> IntArray:
        """Jobs that wait outside the queue, shape ``(E,)``."""
        return cast(IntArray, self._batch.clock["n_queued"][:, 0].copy())

    @property
    def running(self) -> IntArray:
        """Jobs that run, shape ``(E,)``."""
        return cast(IntArray, self._batch.clock["n_running"][:, 0].copy())

    @property
    def now(self) -> IntArray:
        """Timestep of each episode, shape ``(E,)``."""
        return cast(IntArray, self._batch.clock["now"][:, 0].astype(np.int64))

    def jobs(self) -> IntArray:
        """Return the jobs in the slots, numbers in their job sets, ``NOBODY`` in an empty slot; shape ``(E, Q)``."""
        return cast(IntArray, self._batch.slots.copy())

    def descriptions(self) -> Float32Array:
        """Return what the policy selector sees of the job in each slot, zeros in an empty one, shape ``(E, Q, K + 3)``.

        Behind its K traits stand log2(1 + GPUs) / 10, GPUs over those of the machine, and log2(1 + length) / 5.
        """
        batch, rows = self._batch, self._rows()
        gpus, length = batch.request[rows, 1], batch.length[rows]
        numbers = [np.log2(1.0 + gpus) / 10, gpus / self.machine.total[1], np.log2(1.0 + length) / 5]
        described = np.concatenate([batch.traits[rows], np.minimum(np.stack(numbers, axis=-1), MOST)], axis=-1)
        return np.where((batch.slots != NOBODY)[..., np.newaxis], described, 0.0).astype(np.float32)

    def _rows(self) -> IntArray:
        # Where the jobs in the slots stand among those of all sets.
        return cast(IntArray, np.maximum(self._batch.slots, 0) + self._batch.jobs_at[self.tally["jobset"], :1])

    def tell(self, jobset: int, traits: FloatArray) -> None:
        """Set the traits of a job set's jobs that agents see from now on, shape ``(n, K)``; see `JobSet`."""
        first, end = self._batch.jobs_at[jobset]
        self._batch.traits[first:end] = traits

    def penalties(self) -> FloatArray:
        """Return the locality penalty of the job in each slot under each `Policy`, shape ``(E, Q, 2)``."""
        batch, rows = self._batch, self._rows()
        penalties = batch.service[rows] - batch.length[rows][..., np.newaxis]
        return np.where((batch.slots != NOBODY)[..., np.newaxis], penalties, 0.0)

    def step(  # type: ignore[override]
        self, slots: IntArray, policies: IntArray, jobsets: IntArray | None = None
    ) -> tuple[FloatArray, BoolArray]:
        """Start a job in each episode by a `Policy`, or let a timestep pass where slot Q or no such job is named."""
        chosen, how = (np.ascontiguousarray(values, dtype=np.int64) for values in (slots, policies))
        if chosen.shape != self._stay.shape or how.shape != self._stay.shape:
            raise UsageError(f"the actions have shapes {chosen.shape} and {how.shape}, must have {self._stay.shape}")
        if (how // N_POLICIES).any():  # one look at them is faster than for the least and the largest
            raise UsageError(f"the policies are {how.min()} .. {how.max()}, must be within 0 .. {len(Policy) - 1}")
        # Slot and policy are one number in a kernel.
        return self._play(N_POLICIES * chosen + how, self._stay if jobsets is None else jobsets)

    def follow_list(
        self, jobset: int, values: FloatArray, policies: IntArray, backfill: Backfill = Backfill.FIRST_FIT
    ) -> None:
        """Run the first episode to its end: the job in the queue with the lowest value starts, the first of equals.

        There is a value and a `Policy` for each job, shapes ``(n,)``, or there are several values that take turns after
        each start, ``(k, n)``. Where the job with the lowest does not fit, others start as backfilling says.
        """
        numbers, how = np.array(np.atleast_2d(values), dtype=float), np.array(policies, dtype=np.int64)
        n = len(self.jobsets[jobset])
        if numbers.ndim != 2 or numbers.shape[1] != n or how.shape != (n,):
            raise UsageError(f"values and policies have shapes {numbers.shape}, {how.shape}, must have one per job")
        if backfill not in (Backfill.NONE, Backfill.FIRST_FIT, Backfill.EASY):
            raise UsageError(f"backfilling is {backfill!r}, must be Backfill.NONE, Backfill.FIRST_FIT or Backfill.EASY")
        if backfill == Backfill.EASY and self.options.plans_ahead:
            raise UsageError("EASY backfilling does not go with jobs that are planned ahead; use Backfill.NONE")
        dynamics.follow_list(self._batch, 0, jobset, numbers, how, int(backfill))

    def metrics(self) -> dict[str, FloatArray]:
        started = np.maximum(self._batch.clock["n_begun"][:, 0], 1)
        names = ("normalized_turnaround", "wait", "turnaround", "service", "penalty")
        return {name: self.tally[name] / started for name in names} | {"rewards": self.tally["local_reward"].copy()}

    def right_share(self) -> float:
        """Share of the started jobs that were allocated by their better policy."""
        right = [
            jobs.penalty[np.arange(len(jobs)), self.times(number)[2]] <= jobs.penalty.min(axis=1) + 1e-9
            for number, jobs in enumerate(self.jobsets)
        ]
        return float(np.concatenate(right).mean())

    def times(self, episode: int) -> tuple[IntArray, IntArray, IntArray]:
        """Return when each job of an episode started and gives its units back, and its policy; -1 before its start."""
        one = self.arrays(episode)
        start, end = (np.nan_to_num(one.state.jobs[name], nan=NOBODY).astype(np.int64) for name in ("start", "end"))
        return start, end, one.policy.copy()

    def placement(self, episode: int) -> tuple[IntArray, IntArray]:
        """Return which job holds each CPU and GPU now, -1 for none, shapes ``(nodes, cpus)`` and ``(nodes, gpus)``."""
        batch, n_cpus = self._batch, self.machine.total[0]
        held = np.where(batch.until[episode] <= self.now[episode], NOBODY, batch.holder[episode])
        return held[:n_cpus].reshape(-1, self.machine.cpus), held[n_cpus:].reshape(-1, self.machine.gpus)


class Cush(Task[CushEpisodes, Observation]):
    """An agent chooses a job of the queue, and whether it is allocated depth-first or breadth-first.

    Raises `UsageError` if a value is out of range, or a job asks for more than the machine has.

    Parameters
    ----------
    machine
        ``sierra`` or ``summit``, with 128 nodes, or a cluster of one's own.
    jobsets
        The job sets of which an episode takes one; None for 256 that are drawn by the seed of `reset`.
    table
        The locality model of drawn job sets, in timesteps; None for the one that comes with the package.
    recipe
        How they are drawn; None for the paper's.
    options
        Queue, horizon, reward and observation; None for images.
    """

    about = About(
        title="A job and its placement (CuSH)",
        episode="""\
[cush.md](cush.md#the-environment) has the rules of jobs, queue and placement. A timestep passes when the agent does
nothing or names a job that cannot start. The episode ends when all jobs have ended; `info["rewards"]` is then the sum
of the paper's local rewards, whatever the agent was paid.""",
        action="A slot of the queue, 0 .. Q - 1, or Q to do nothing; and a policy, 0 depth-first, 1 breadth-first.",
        mask="""\
The slots and Q, then the policies, shape (Q + 3,). A job that cannot start counts as Q. With `plans_ahead`, as in
the paper, a job can also start at a later one of the T timesteps, under either policy; else only now.""",
        seen="""\
A dictionary: the job selector sees `image` or `slots`, the policy selector `jobs`; `backlog` is k / (k + 10) for k jobs
outside the queue.

`image`, the paper's, has shape (Q + 1, T, units): channels of T timesteps, with a column per CPU, node by node, then
per GPU. The first channel is the cluster: 1 where a unit is still held, or will be by a job that is planned, which is
drawn on the first free units. The others are the slots: the request in the shape of the cluster, as many rows as the
job takes, at most T, with the value 0.5 + 0.5 wait / (wait + 10).

`slots` has Q + 1 rows, the last one for doing nothing. Behind the numbers below stand the shares of CPUs and GPUs that
are free after 1, 2, 4, 8 and 16 timesteps if no other job is chosen, and the K traits of the job: compute, network,
unknown, or those of the measured model. Times are in timesteps.

`jobs`, shape (Q, K + 3), has the traits, log2(1 + GPUs) / 10, GPUs / all GPUs and log2(1 + length) / 5.""",
        meanings={"A row of `slots`, of the job": JOB_MEANINGS, "A row of `slots`, of the cluster": CLUSTER_MEANINGS},
        rewards=(Weights,),
    )

    def __init__(
        self,
        machine: Machine | MachineName = "sierra",
        jobsets: Sequence[JobSet] | None = None,
        table: PenaltyTable | None = None,
        recipe: Recipe | None = None,
        options: CushOptions | None = None,
    ) -> None:
        super().__init__(jobsets)
        cluster = Machine.of(machine) if isinstance(machine, str) and machine in MACHINES else machine
        if not isinstance(cluster, Machine):
            raise UsageError(f"the machine is {machine!r}, must be one of {', '.join(MACHINES)}, or a Machine")
        self.machine, self.table, self.recipe = cluster, table or SIERRA_TABLE, recipe or Recipe()
        self.options = CushOptions(observation="image") if options is None else options
        check_type("options", self.options, CushOptions)

    def episodes(self, count: int, rng: np.random.Generator) -> CushEpisodes:
        jobsets = self.jobsets
        if jobsets is None:
            seeds = rng.integers(0, 2**63, DRAWN_JOBSETS).tolist()
            jobsets = self.recipe.draw_each(self.machine, self.table, seeds)
        return CushEpisodes(jobsets, self.machine, count, self.options)

    def observation_space(self) -> Dict:
        n_traits = self.jobsets[0].traits.shape[1] if self.jobsets is not None else len(WorkloadType)
        shape = self.options.shape(self.machine, n_traits)
        most = MOST if self.options.observation == "slots" else 1.0
        return Dict(
            {
                self.options.observation: Box(0.0, most, shape, np.float32),
                "jobs": Box(0.0, MOST, (self.options.queue, n_traits + N_NUMBERS), np.float32),
                "backlog": Box(0.0, 1.0, (1,), np.float32),
            }
        )

    def action_space(self) -> MultiDiscrete:
        return MultiDiscrete([self.options.n_actions, len(Policy)])

    def look(self, episodes: CushEpisodes) -> tuple[Observation, BoolArray]:
        seen, legal = episodes.observe()
        waiting = episodes.backlog
        backlog = (waiting / (waiting + 10.0)).astype(np.float32)[:, np.newaxis]
        policies = np.ones((len(legal), len(Policy)), dtype=np.bool_)
        seen_all = {self.options.observation: seen, "jobs": episodes.descriptions(), "backlog": backlog}
        return seen_all, np.concatenate([legal, policies], axis=-1)

    def step(
        self, episodes: CushEpisodes, actions: NDArray[Any], jobsets: IntArray | None
    ) -> tuple[FloatArray, BoolArray]:
        pairs, options = np.asarray(actions), self.options
        if pairs.dtype.kind not in "iu":
            raise UsageError(f"the actions have dtype {pairs.dtype}, must be whole numbers: slots and policies")
        if pairs.shape != (episodes.n_environments, 2):
            right = f"{episodes.n_environments} of a slot and a policy"
            raise UsageError(f"the actions have shape {pairs.shape}, must be {right}")
        if pairs.min() < 0 or (pairs >= [options.n_actions, len(Policy)]).any():
            right = f"slots are 0 .. {options.queue}, policies 0 .. {len(Policy) - 1}"
            raise UsageError(f"an action is out of range: {right}")
        return episodes.step(pairs[:, 0], pairs[:, 1], jobsets)


CushEnv, CushVectorEnv = environments_of(Cush)


class DynamicTypes:
    """Tells agents the types of applications, as classified after a few runs of them (section 3.1).

    Job sets of `Recipe.draw_runs` are played one at a time; what the classifier knows stays from one to the next.
    """

    def __init__(self, classifier: TypeClassifier, episodes: CushEpisodes) -> None:
        self._applications = [jobs.applications for jobs in episodes.jobsets if jobs.applications is not None]
        if episodes.n_environments != 1 or len(episodes.jobsets) != len(self._applications):
            raise UsageError("types are classified in one episode at a time, over job sets of runs of applications")
        self._classifier, self._episodes = classifier, episodes
        self._seen: set[int] = set()

    def begin(self, number: int) -> None:
        """Begin an episode with a job set, and tell the types that are known."""
        self._seen.clear()
        self._episodes.begin(np.array([number]))
        self._tell(number)

    def look(self) -> None:
        """Note the jobs that have ended since, and tell the types that are known; to be called after steps."""
        episodes = self._episodes
        number, now = int(episodes.tally["jobset"][0]), int(episodes.now[0])
        jobs, (start, end, policy) = episodes.jobsets[number], episodes.times(0)
        ended = [int(job) for job in np.flatnonzero((start >= 0) & (end <= now)) if int(job) not in self._seen]
        for job in ended:
            self._seen.add(job)
            how = Policy(int(policy[job]))
            service, length = float(jobs.service[job, how]), float(jobs.length[job])
            run = Measured(WorkloadType.UNKNOWN, how, int(jobs.request[job, GPUS]), length, service)
            self._classifier.observe(str(self._applications[number][job]), run)
        if ended:
            self._tell(number)

    def _tell(self, number: int) -> None:
        kinds = [self._classifier.type_of(str(application)) for application in self._applications[number]]
        self._episodes.tell(number, np.eye(len(WorkloadType))[kinds])
