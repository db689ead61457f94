"""Episodes of two-level scheduling side by side, each over a jobset of its own, stepped in one compiled call."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.cluster.platform import Platform
from allocopt.envs.asked import MOST_SLOTS, whole_number
from allocopt.envs.dras.batch import INSTANCE_DTYPE, TALLY_DTYPE, TERMS_DTYPE, Batch, Observations
from allocopt.envs.dras.describe import N_FEATURES, traits
from allocopt.envs.dras.kernels import begin_all, describe_all_slots, describe_all_states, step_all
from allocopt.envs.dras.rewards import CAPABILITY, Weights
from allocopt.envs.side_by_side import STAY, SideBySide
from allocopt.errors import UsageError
from allocopt.simulator.rules import Backfill, Level, OrderKind, QueueKeys, Reservations, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.state import CLOCK_DTYPE, JOB_DTYPE, NOBODY, State, new_state
from allocopt.simulator.two_level import PAPER_WINDOW, Choice
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload

ObservationName = Literal["slots", "state"]
OBSERVATIONS: tuple[ObservationName, ...] = ("slots", "state")


@dataclass(frozen=True, slots=True)
class Options:
    """What episodes have in common besides the machine.

    Parameters
    ----------
    window
        Waiting jobs among which an agent chooses, W, at least 1.
    reservations
        What becomes of a reservation before it is due, or that there are none.
    reward
        What an agent is rewarded for.
    observation
        ``slots``: `N_FEATURES` numbers per slot that do not depend on the size of the machine;
        ``state``: the state of the paper, which does.
    can_end
        Whether there is an action, numbered W, that ends the scheduling instance.
    skips_forced
        Whether choices where only one action is legal are made by themselves; their rewards are added to that of the
        action before. An episode may then begin with an action that is not the first.
    rules
        How events at the same time are taken, whether jobs are killed and wait for others.

    Raises
    ------
    UsageError
        If a value is not one of these.
    """

    window: int = PAPER_WINDOW
    reservations: Reservations = Reservations.KEPT
    reward: Weights = CAPABILITY
    observation: ObservationName = "slots"
    can_end: bool = False
    skips_forced: bool = False
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        whole_number("window", self.window, 1, MOST_SLOTS)
        if not isinstance(self.reservations, Reservations):
            choices = ", ".join(f"Reservations.{kind.name}" for kind in Reservations)
            raise UsageError(f"reservations is {self.reservations!r}, must be one of {choices}")
        if self.observation not in OBSERVATIONS:
            raise UsageError(f"the observation is {self.observation!r}, must be one of {', '.join(OBSERVATIONS)}")
        for name, value, right in (("reward", self.reward, Weights), ("rules", self.rules, Rules)):
            if not isinstance(value, right):
                raise UsageError(f"{name} is {value!r}, must be {right.__name__}(...)")

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.window + self.can_end

    def shape(self, machine: int) -> tuple[int, int]:
        """Shape of an observation on a machine of that size."""
        return (self.window, N_FEATURES) if self.observation == "slots" else (2 * self.window + machine, 2)


class Episodes(SideBySide[Batch]):
    """Independent episodes on machines of one size.

    Parameters
    ----------
    jobsets
        The jobs of which an episode takes one set.
    machine
        Number of nodes N.
    count
        Episodes side by side, E, at least 1; all of them are over until `begin` is called.
    options
        What they have in common; None for the defaults.

    Raises
    ------
    UsageError
        If there are no jobsets or episodes, or a job is larger than the machine.
    """

    changing = ("clock", "jobs", "lists", "units", "held", "instance", "tally", "modes", "slots", "following", "last")

    def __init__(
        self, jobsets: Sequence[Workload], machine: int, count: int = 1, options: Options | None = None
    ) -> None:
        if not jobsets or count < 1:
            raise UsageError(f"there are {len(jobsets)} jobsets and {count} episodes, must be at least 1 of each")
        for jobs in jobsets:
            _check(jobs, machine)
        self.options = Options() if options is None else options
        self.machine = machine
        self.jobsets = tuple(jobsets)
        super().__init__(len(jobsets), count, new_batch(jobsets, machine, count, self.options))
        self._views: dict[int, tuple[tuple[int, int], View]] = {}

    @property
    def level(self) -> IntArray:
        """The `Level` at which each episode stands, shape ``(E,)``."""
        level: IntArray = self._batch.instance["level"][:, 0].copy()
        return level

    @property
    def now(self) -> FloatArray:
        """Time of each episode in seconds, as its jobset counts it, shape ``(E,)``."""
        now: FloatArray = self._batch.clock["now"][:, 0].copy()
        return now

    def _begin(self, jobsets: IntArray) -> None:
        """Begin episodes over jobsets that there are."""
        begin_all(self._batch, jobsets)

    def observe(self) -> tuple[Observations, BoolArray]:
        """Return what the agent sees, and what is legal; new arrays.

        Returns
        -------
        Observations, BoolArray
            Shapes ``(E, W, N_FEATURES)`` or ``(E, 2 W + N, 2)``, and ``(E, actions)``. Of an episode that is over,
            zeros, and the first action is legal and does nothing.
        """
        observations = np.empty((self.n_environments, *self.options.shape(self.machine)), dtype=np.float32)
        legal = np.empty((self.n_environments, self.options.n_actions), dtype=np.bool_)
        describe = describe_all_slots if self.options.observation == "slots" else describe_all_states
        describe(self._batch, observations, legal)
        return observations, legal

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        """Choose a slot in each episode.

        Parameters
        ----------
        actions
            Slots, shape ``(E,)``; one that is not legal stands for the first that is.

        Returns
        -------
        FloatArray, BoolArray
            Rewards, and which episodes have ended, shape ``(E,)``; new arrays.
        """
        rewards, ended = np.empty(self.n_environments), np.empty(self.n_environments, dtype=np.bool_)
        step_all(self._batch, np.ascontiguousarray(actions, dtype=np.int64), rewards, ended)
        return rewards, ended

    def metrics(self) -> dict[str, FloatArray]:
        """Return what the episodes have come to so far, as ``simulate`` measures it, shapes ``(E,)``."""
        tally, started = self.tally, np.maximum(self.tally["started"], 1)
        return {
            "mean_bounded_slowdown": tally["bounded_slowdown"] / started,
            "mean_wait_s": tally["wait_s"] / started,
            "longest_wait_s": tally["longest_wait_s"].copy(),
            "makespan_s": tally["makespan_s"].copy(),
        }

    def jobs_in_window(self, episode: int) -> IntArray:
        """Numbers, within its jobset, of the jobs in the slots of an episode; as many as slots are occupied."""
        batch = self._batch
        slots = batch.slots[episode, : batch.instance[episode, 0]["n_slots"]]
        queue: IntArray = batch.lists[episode, 0, batch.clock[episode, 0]["first"] + slots]
        return queue

    def choice(self, episode: int) -> Choice:
        """Return what is to be chosen in an episode that is not over, as a selector is asked."""
        instance, jobs = self._batch.instance[episode, 0], self.jobs_in_window(episode)
        tally, options = self.tally[episode], self.options
        view = self._view(episode)
        free = options.reservations is Reservations.NONE
        legal = np.array([not free or view.fits(job) for job in jobs.tolist()])
        level = Level(int(instance["level"]))
        second = level is Level.SECOND
        return Choice(
            view,
            int(tally["choices"]),
            level,
            jobs,
            legal,
            int(instance["holder"]) if second else NOBODY,
            float(instance["shadow"]) if second else 0.0,
            np.array([instance["spare"] if second else 0]),
            options.can_end and len(view.running) > 0,
        )

    def schedule(self, episode: int) -> Schedule:
        """Return when the jobs of an episode started and end; NaN where that is not known yet."""
        jobset = self.jobsets[int(self.tally["jobset"][episode])]
        jobs = self._batch.jobs[episode, : len(jobset)]
        return Schedule(jobset, self.machine, *(jobs[name].copy() for name in ("release", "start", "end")))

    def modes(self, episode: int) -> IntArray:
        """Return the `Mode` of each job of an episode, shape ``(n,)``."""
        modes: IntArray = self._batch.modes[episode, : self._n_jobs(episode)].copy()
        return modes

    def promised(self, episode: int) -> FloatArray:
        """Return the time each job of an episode was promised last, in seconds; infinite where there is no promise."""
        promised: FloatArray = self._batch.jobs["reserved"][episode, : self._n_jobs(episode)].copy()
        return promised

    def _view(self, episode: int) -> View:
        """Return the cluster of an episode; the same object as long as it lasts."""
        key = int(self.tally["jobset"][episode]), int(self.tally["episode"][episode])
        known = self._views.get(episode)
        if known is None or known[0] != key:
            n, jobset = self._n_jobs(episode), key[0]
            batch, first = self._batch, self._batch.bounds[jobset]
            state = State(
                batch.clock[episode],
                batch.rules,
                batch.jobs[episode, :n],
                batch.request[first : first + n],
                batch.lists[episode],
                batch.units[episode],
                batch.held[episode],
                batch.steps,
                batch.unpromised,
                batch.least,
            )
            known = key, View(self.jobsets[jobset], Platform.pool(self.machine), state, None)
            self._views[episode] = known
        return known[1]

    def _n_jobs(self, episode: int) -> int:
        """Return the number of jobs of an episode."""
        return len(self.jobsets[int(self.tally["jobset"][episode])])


def new_batch(jobsets: Sequence[Workload], machine: int, count: int, options: Options) -> Batch:
    """Return the arrays of episodes of which none has begun."""
    states = [_state(jobs, machine, options.rules) for jobs in jobsets]
    most = max(map(len, jobsets))
    tally = np.zeros((count, 1), dtype=TALLY_DTYPE)
    tally["over"] = 1
    instance = np.zeros((count, 1), dtype=INSTANCE_DTYPE)
    instance["holder"] = NOBODY
    return Batch(
        clock=np.zeros((count, 1), dtype=CLOCK_DTYPE),
        jobs=np.zeros((count, most), dtype=JOB_DTYPE),
        lists=np.zeros((count, len(states[0].lists), most), dtype=np.int64),
        units=np.tile(states[0].units, (count, 1, 1)),
        held=np.zeros((count, 1, 1), dtype=np.int64),
        instance=instance,
        tally=tally,
        modes=np.zeros((count, most), dtype=np.int64),
        slots=np.zeros((count, options.window), dtype=np.int64),
        following=np.full(count, STAY),
        last=np.zeros((count, 1), dtype=TALLY_DTYPE),
        rules=states[0].rules,
        steps=states[0].steps,
        unpromised=states[0].unpromised,
        least=states[0].least[:, :0],
        terms=terms(options),
        ladder=np.zeros(most, dtype=np.int64),
        pool=np.concatenate([np.asarray(state.jobs) for state in states]),
        request=np.concatenate([state.request for state in states]),
        traits=np.concatenate([traits(jobs.processors, jobs.estimate, machine) for jobs in jobsets]),
        bounds=np.concatenate(([0], np.cumsum([len(jobs) for jobs in jobsets]))).astype(np.int64),
    )


def terms(options: Options) -> Any:
    """Return what kernels need to know of the options."""
    numbers = np.zeros(1, dtype=TERMS_DTYPE)
    for name, value in asdict(options.reward).items():
        numbers[name] = value
    numbers["reservations"] = options.reservations
    numbers["skips_forced"] = options.skips_forced and not options.can_end
    return numbers


def _state(jobs: Workload, machine: int, rules: Rules) -> State:
    """Return the jobs before the first event; one count of what is held is enough, nobody asks for shares of users."""
    arrival = QueueKeys(OrderKind.ARRIVAL, np.zeros(len(jobs)))
    request = jobs.processors[:, np.newaxis].copy()
    state = new_state(jobs, request, np.array([machine]), rules, Backfill.EASY, arrival)
    np.asarray(state.jobs)["user"] = 0
    return state


def _check(jobs: Workload, machine: int) -> None:
    """Raise `UsageError` for jobs that cannot be an episode."""
    if not len(jobs):
        raise UsageError(f"{jobs.name} holds no jobs")
    large = jobs.processors > machine
    if large.any():
        job = int(np.argmax(large))
        fault = f"asks for {jobs.processors[job]} nodes of {machine}"
        raise UsageError(f"job {jobs.ids[job]} of {jobs.name} {fault}; drop such jobs with Workload.fitting")
