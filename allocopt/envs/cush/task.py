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

DRAWN_JOBSETS = 256  # number of jobsets that the seed of a reset draws if none are given
N_NUMBERS = 3  # numbers that a policy selector sees of a job beside its traits; see `CushEpisodes.descriptions`

Observation = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class CushOptions:
    """Options of all episodes besides the machine; raises `UsageError` if a value is not valid."""

    queue: int = 5  #: Number Q of slots that an agent sees, 1 to `MOST_SLOTS`; other jobs wait in the backlog.
    horizon: int = 5  #: Number T of rows of an image, one per timestep, 1 to `MOST_SLOTS`.
    reward: Weights = field(default_factory=Weights)  #: The agent's reward.
    #: ``image``: the paper's, ``(Q + 1, T, units of the machine)``; ``slots``: features of each slot and of doing
    #: nothing, ``(Q + 1, features)``, which do not depend on the size of the machine.
    observation: ObservationName = "slots"
    #: Whether time passes automatically while no job can start; the rewards are added to that of the last action.
    skips_forced: bool = False
    #: Whether an agent may also choose a job that can start only at a later one of the T timesteps of an image, as in
    #: the paper (section 3.2). The job starts at the first of these at which its units are free for its whole run, and
    #: others may start before it only if they do not delay it. If False, a job may be chosen only if it can start now.
    plans_ahead: bool = False
    #: Whether the normalized turnaround time is divided by the requested time, as in the numbers of Table 1, and not
    #: by the service time, as in the paper's text.
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
        """Number of choices of the job selector, Q + 1; the last one is to do nothing."""
        return self.queue + 1

    def shape(self, machine: Machine, n_traits: int) -> tuple[int, ...]:
        """Return the shape of an observation for jobs with ``n_traits`` traits."""
        if self.observation == "slots":
            return self.n_actions, FIRST_TRAIT + n_traits
        return self.n_actions, self.horizon, machine.units


class CushEpisodes(Compiled):
    """Independent episodes on equal machines; raises `UsageError` for jobsets that do not fit the machine."""

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
        # State before the first event, with the jobs of all sets one after the other.
        names = ("arrival", "length", "request", "service", "traits")
        together = {name: np.concatenate([getattr(jobs, name) for jobs in jobsets]) for name in names}
        arrival, request, length = together.pop("arrival"), together.pop("request"), together["length"]
        # A workload sorts jobs by submission, which would mix the sets: submit all at 0 here, and set arrivals below.
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
        """Number of jobs that wait outside the queue, shape ``(E,)``."""
        return cast(IntArray, self._batch.clock["n_queued"][:, 0].copy())

    @property
    def running(self) -> IntArray:
        """Number of running jobs, shape ``(E,)``."""
        return cast(IntArray, self._batch.clock["n_running"][:, 0].copy())

    @property
    def now(self) -> IntArray:
        """Timestep of each episode, shape ``(E,)``."""
        return cast(IntArray, self._batch.clock["now"][:, 0].astype(np.int64))

    def jobs(self) -> IntArray:
        """Return the number, in its jobset, of the job in each slot, ``NOBODY`` in an empty slot; shape ``(E, Q)``."""
        return cast(IntArray, self._batch.slots.copy())

    def descriptions(self) -> Float32Array:
        """Return what the policy selector sees of the job in each slot, zeros in an empty one, shape ``(E, Q, K + 3)``.

        After its K traits come log2(1 + GPUs) / 10, GPUs / GPUs of the machine, and log2(1 + length) / 5.
        """
        batch, rows = self._batch, self._rows()
        gpus, length = batch.request[rows, 1], batch.length[rows]
        numbers = [np.log2(1.0 + gpus) / 10, gpus / self.machine.total[1], np.log2(1.0 + length) / 5]
        described = np.concatenate([batch.traits[rows], np.minimum(np.stack(numbers, axis=-1), MOST)], axis=-1)
        return np.where((batch.slots != NOBODY)[..., np.newaxis], described, 0.0).astype(np.float32)

    def _rows(self) -> IntArray:
        # Rows of the jobs in the slots among the jobs of all sets.
        return cast(IntArray, np.maximum(self._batch.slots, 0) + self._batch.jobs_at[self.tally["jobset"], :1])

    def tell(self, jobset: int, traits: FloatArray) -> None:
        """Set what agents see from now on: the traits of the jobs of a jobset, shape ``(n, K)``; see `JobSet`."""
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
        """Start a job by a `Policy` in each episode; slot Q, or a job that cannot start, lets a timestep pass."""
        chosen, how = (np.ascontiguousarray(values, dtype=np.int64) for values in (slots, policies))
        if chosen.shape != self._stay.shape or how.shape != self._stay.shape:
            raise UsageError(f"the actions have shapes {chosen.shape} and {how.shape}, must have {self._stay.shape}")
        if (how // N_POLICIES).any():  # faster than comparing minimum and maximum
            raise UsageError(f"the policies are {how.min()} .. {how.max()}, must be within 0 .. {len(Policy) - 1}")
        # A kernel takes slot and policy as one number.
        return self._play(N_POLICIES * chosen + how, self._stay if jobsets is None else jobsets)

    def follow_list(
        self, jobset: int, values: FloatArray, policies: IntArray, backfill: Backfill = Backfill.FIRST_FIT
    ) -> None:
        """Run the first episode to its end, always starting the job in the queue with the lowest value.

        Values and policies have shape ``(n,)``; equal values are taken in the order of the jobs. Values of shape
        ``(k, n)`` are k lists; every start uses the next list, and the first one follows the last. If the job with the
        lowest value does not fit, ``backfill`` decides which others may start.
        """
        numbers, how = np.array(np.atleast_2d(values), dtype=float), np.array(policies, dtype=np.int64)
        n = len(self.jobsets[jobset])
        if numbers.ndim != 2 or numbers.shape[1] != n or how.shape != (n,):
            raise UsageError(
                f"values and policies have shapes {numbers.shape} and {how.shape}, must have one column per job ({n})"
            )
        if backfill not in (Backfill.NONE, Backfill.FIRST_FIT, Backfill.EASY):
            raise UsageError(f"backfilling is {backfill!r}, must be Backfill.NONE, Backfill.FIRST_FIT or Backfill.EASY")
        if backfill == Backfill.EASY and self.options.plans_ahead:
            raise UsageError("EASY backfilling cannot be combined with plans_ahead; use Backfill.NONE")
        dynamics.follow_list(self._batch, 0, jobset, numbers, how, int(backfill))

    def metrics(self) -> dict[str, FloatArray]:
        started = np.maximum(self._batch.clock["n_begun"][:, 0], 1)
        names = ("normalized_turnaround", "wait", "turnaround", "service", "penalty")
        return {name: self.tally[name] / started for name in names} | {"rewards": self.tally["local_reward"].copy()}

    def right_share(self) -> float:
        """Return the share of the started jobs that were allocated by their better policy."""
        right = [
            jobs.penalty[np.arange(len(jobs)), self.times(number)[2]] <= jobs.penalty.min(axis=1) + 1e-9
            for number, jobs in enumerate(self.jobsets)
        ]
        return float(np.concatenate(right).mean())

    def times(self, episode: int) -> tuple[IntArray, IntArray, IntArray]:
        """Return start and end of each job of an episode, in timesteps, and its policy; -1 before its start."""
        one = self.arrays(episode)
        start, end = (np.nan_to_num(one.state.jobs[name], nan=NOBODY).astype(np.int64) for name in ("start", "end"))
        return start, end, one.policy.copy()

    def placement(self, episode: int) -> tuple[IntArray, IntArray]:
        """Return the job on each CPU and GPU now, -1 for none, shapes ``(nodes, cpus)`` and ``(nodes, gpus)``."""
        batch, n_cpus = self._batch, self.machine.total[0]
        held = np.where(batch.until[episode] <= self.now[episode], NOBODY, batch.holder[episode])
        return held[:n_cpus].reshape(-1, self.machine.cpus), held[n_cpus:].reshape(-1, self.machine.gpus)


class Cush(Task[CushEpisodes, Observation]):
    """An agent chooses a job of the queue, and whether it is allocated depth-first or breadth-first.

    Raises `UsageError` if a value is out of range, or a job asks for more than the machine has.

    Parameters
    ----------
    machine
        ``sierra`` or ``summit``, with 128 nodes, or a `Machine`.
    jobsets
        The jobsets, of which each episode plays one; None for 256 that are drawn by the seed of `reset`.
    table
        The locality model of drawn jobsets, in timesteps; None for the one that comes with the package.
    recipe
        Distribution of drawn jobsets; None for the paper's.
    options
        Queue, horizon, reward and observation; None for the defaults, but with images.
    """

    about = About(
        title="A job and its placement (CuSH)",
        episode="""\
[cush.md](cush.md#the-environment) states the rules of jobs, queue and placement. A timestep passes when the agent does
nothing or chooses a job that cannot start. The episode ends when all jobs have ended. Then `info["rewards"]` is the sum
of the paper's local rewards, whatever the weights of the reward.""",
        action="A slot of the queue, 0 .. Q - 1, or Q to do nothing; and a policy, 0 depth-first, 1 breadth-first.",
        mask="""\
The slots and Q, then the policies, shape (Q + 3,). A job that cannot start counts as Q. With `plans_ahead`, as in
the paper, a job can also be chosen if it can start, under either policy, at a later one of the T timesteps; without it
only if it can start now.""",
        seen="""\
A dictionary: the job selector sees `image` or `slots`, the policy selector `jobs`; `backlog` is k / (k + 10) for k jobs
outside the queue.

`image`, the paper's, has shape (Q + 1, T, units): each channel has a row per timestep and a column per CPU, node by
node, then per GPU. The first channel is the cluster: 1 where a unit is held, or will be held by a planned job, which is
drawn on the first free units. The other channels are the slots: the request in the shape of the cluster, in one row per
timestep of the job, at most T, with the value 0.5 + 0.5 wait / (wait + 10).

`slots` has Q + 1 rows, the last one for doing nothing. After the numbers below come the shares of CPUs and GPUs that
are free after 1, 2, 4, 8 and 16 timesteps if no other job is chosen, and the K traits of the job: compute, network,
unknown, or those of the measured model. Times are in timesteps.

`jobs`, shape (Q, K + 3), has the traits, log2(1 + GPUs) / 10, GPUs / all GPUs and log2(1 + length) / 5.""",
        meanings={"Row of `slots`: the job": JOB_MEANINGS, "Row of `slots`: the cluster": CLUSTER_MEANINGS},
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
            right = f"({episodes.n_environments}, 2): a slot and a policy per episode"
            raise UsageError(f"the actions have shape {pairs.shape}, must have {right}")
        if pairs.min() < 0 or (pairs >= [options.n_actions, len(Policy)]).any():
            right = f"slots are 0 .. {options.queue}, policies 0 .. {len(Policy) - 1}"
            raise UsageError(f"an action is out of range: {right}")
        return episodes.step(pairs[:, 0], pairs[:, 1], jobsets)


CushEnv, CushVectorEnv = environments_of(Cush)


class DynamicTypes:
    """Shows agents the types of applications once the classifier knows them after a few runs (section 3.1).

    It plays jobsets of `Recipe.draw_runs` one at a time; the classifier keeps its knowledge between them.
    """

    def __init__(self, classifier: TypeClassifier, episodes: CushEpisodes) -> None:
        self._applications = [jobs.applications for jobs in episodes.jobsets if jobs.applications is not None]
        if episodes.n_environments != 1 or len(episodes.jobsets) != len(self._applications):
            raise UsageError("types are classified in one episode at a time; use jobsets with applications (draw_runs)")
        self._classifier, self._episodes = classifier, episodes
        self._seen: set[int] = set()

    def begin(self, number: int) -> None:
        """Begin an episode with a jobset, and show the types that are known."""
        self._seen.clear()
        self._episodes.begin(np.array([number]))
        self._tell(number)

    def look(self) -> None:
        """Classify by the jobs that have ended since the last call, and show the known types; call it after steps."""
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
