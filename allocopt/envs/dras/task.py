"""The task of two-level scheduling: its arguments, its episodes side by side, and its environments."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.cluster.platform import Platform
from allocopt.envs.dras import dynamics
from allocopt.envs.dras.dynamics import CAPABILITY, DESCRIBE, LAYOUT, MEANINGS, N_FEATURES, Episode, Weights
from allocopt.envs.environments import About, Task, check_sizes, check_type, environments_of
from allocopt.envs.side_by_side import MOST_SLOTS, Compiled, first_state, whole_number
from allocopt.errors import UsageError
from allocopt.simulator.pool import Pool
from allocopt.simulator.rules import Backfill, Level, Reservations, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.state import NOBODY, QUEUE
from allocopt.simulator.two_level import PAPER_WINDOW, Choice
from allocopt.simulator.view import View
from allocopt.traces.generators import lublin_workload
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

DRAWN_PROCESSORS, DRAWN_JOBS = 256, 256  # machine size and jobs of an episode if no workload is given

ReservationName = Literal["kept", "renewed", "none"]
Jobs = Workload | Path | str  # a workload, or a file of one

ObservationName = Literal["slots", "state"]
OBSERVATIONS: tuple[ObservationName, ...] = ("slots", "state")

Policy = Callable[[Float32Array, BoolArray], int]
"""Takes an observation and an action mask of `DrasEpisodes.observe`, without the first axis; returns a legal action."""


@dataclass(frozen=True, slots=True)
class DrasOptions:
    """Options of all episodes besides the machine: arguments of `TwoLevel`, and some that only trainings set.

    Raises `UsageError` if a value is not valid.
    """

    window: int = PAPER_WINDOW
    reservations: Reservations = Reservations.KEPT
    reward: Weights = CAPABILITY
    #: ``slots``: `N_FEATURES` numbers per slot, for machines of any size; ``state``: the paper's, for one size.
    observation: ObservationName = "slots"
    can_end: bool = False
    #: Whether choices with only one legal action are made automatically; their rewards are added to that of the last
    #: action. The agent then may not see the first choices of an episode.
    skips_forced: bool = False
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        whole_number("window", self.window, 1, MOST_SLOTS)
        if not isinstance(self.reservations, Reservations):
            choices = ", ".join(f"Reservations.{kind.name}" for kind in Reservations)
            raise UsageError(f"reservations is {self.reservations!r}, must be one of {choices}")
        if self.observation not in OBSERVATIONS:
            raise UsageError(f"the observation is {self.observation!r}, must be one of {', '.join(OBSERVATIONS)}")
        check_type("reward", self.reward, Weights)
        check_type("rules", self.rules, Rules)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.window + self.can_end

    def shape(self, machine: int) -> tuple[int, int]:
        """Return the shape of an observation on a machine of this size."""
        return (self.window, N_FEATURES) if self.observation == "slots" else (2 * self.window + machine, 2)


class DrasEpisodes(Compiled):
    """Independent episodes on machines of one size; raises `UsageError` without jobsets, or for a larger job."""

    layout = LAYOUT
    kernel = staticmethod(dynamics.step_all)

    def __init__(
        self, jobsets: Sequence[Workload], machine: int, count: int = 1, options: DrasOptions | None = None
    ) -> None:
        self.jobsets, self.machine, self.options = tuple(jobsets), machine, options or DrasOptions()
        own, episodes = self.options, []
        for jobs in jobsets:
            if not len(jobs):
                raise UsageError(f"{jobs.name} holds no jobs")
            check_sizes(jobs, machine, "nodes")
            state = first_state(jobs, jobs.processors[:, np.newaxis], [machine], own.rules, Backfill.EASY)
            one = Episode(
                state,
                LAYOUT.record("instance", holder=NOBODY),
                LAYOUT.record("tally"),
                _terms(own),
                LAYOUT.record("weights", **asdict(own.reward)),
                modes=np.zeros(len(jobs), np.int64),
                slots=np.zeros(own.window, np.int64),
                traits=_traits(jobs.processors, jobs.estimate, machine),
                ladder=np.zeros(len(jobs), np.int64),
                first_clock=state.clock,
                pool=state.jobs,
            )
            episodes.append(one)
        super().__init__(count, episodes, own.n_actions, own.shape(machine), jobs=list(map(len, jobsets)))
        _, self.describe = DESCRIBE[own.observation]
        self._views: dict[int, tuple[tuple[int, int], View]] = {}

    @property
    def now(self) -> FloatArray:
        """Time of each episode in seconds, on the clock of its jobset, shape ``(E,)``."""
        return cast(FloatArray, self._batch.clock["now"][:, 0].copy())

    def told(self) -> dict[str, NDArray[Any]]:
        return {"level": self._batch.instance["level"][:, 0].copy()}

    def metrics(self) -> dict[str, FloatArray]:
        tally, started = self.tally, np.maximum(self.tally["started"], 1)
        return {
            "mean_bounded_slowdown": tally["bounded_slowdown"] / started,
            "mean_wait_s": tally["wait_s"] / started,
            "longest_wait_s": tally["longest_wait_s"].copy(),
            "makespan_s": tally["makespan_s"].copy(),
        }

    def choice(self, episode: int = 0) -> Choice:
        """Return the choice that a selector has to make; raise `UsageError` if the episode is over."""
        if self.tally["over"][episode]:
            raise UsageError("the episode is over; call reset first")
        batch, instance = self._batch, self._batch.instance[episode, 0]
        slots = batch.slots[episode, : instance["n_slots"]]
        jobs = cast(IntArray, batch.lists[episode, QUEUE, batch.clock[episode, 0]["first"] + slots])
        # Return the same view during an episode: selectors recognise a new simulation by its new view.
        key = int(self.tally["jobset"][episode]), int(instance["episode"])
        known = self._views.get(episode)
        if known is None or known[0] != key:
            state = self.arrays(episode).state
            known = key, View(self.jobsets[key[0]], Pool(state, Platform.pool(self.machine)))
            self._views[episode] = known
        view, free = known[1], self.options.reservations is Reservations.NONE
        level = Level(int(instance["level"]))
        second = level is Level.SECOND
        return Choice(
            view,
            int(self.tally[episode]["choices"]),
            level,
            jobs,
            np.array([not free or view.fits(job) for job in jobs.tolist()]),
            int(instance["holder"]) if second else NOBODY,
            float(instance["shadow"]) if second else 0.0,
            np.array([instance["spare"] if second else 0]),
            self.options.can_end and len(view.running) > 0,
        )

    def schedule(self, episode: int = 0) -> Schedule:
        """Return when the jobs of an episode start and end; NaN if not known yet."""
        jobs, jobset = self._jobs(episode), self.jobsets[int(self.tally["jobset"][episode])]
        return Schedule(jobset, self.machine, jobs["release"].copy(), jobs["start"].copy(), jobs["end"].copy())

    def modes(self, episode: int = 0) -> IntArray:
        """Return the `Mode` of each job of an episode, shape ``(n,)``."""
        return cast(IntArray, self.arrays(episode).modes.copy())

    def promised(self, episode: int = 0) -> FloatArray:
        """Return the last promised start of each job of an episode, in seconds; infinite without a promise."""
        return cast(FloatArray, self._jobs(episode)["reserved"].copy())

    def _jobs(self, episode: int) -> NDArray[np.void]:
        return np.asarray(self.arrays(episode).state.jobs)

    def __getstate__(self) -> dict[str, Any]:
        # A copy has its own arrays, and cached views refer to those of the original.
        return {**self.__dict__, "_views": {}}


def _traits(processors: IntArray, estimate: FloatArray, machine: int) -> FloatArray:
    # Features of jobs that never change: logarithms of sizes and estimates, shape ``(n, 2)``.
    sizes = np.log2(1.0 + processors) / np.log2(1.0 + machine)
    times = np.minimum(np.log2(1.0 + estimate / dynamics.MINUTE_S) / dynamics.LOG_UNIT, dynamics.MOST)
    return np.ascontiguousarray(np.stack([sizes, times], axis=1))


def _terms(options: DrasOptions) -> NDArray[np.void]:
    skips_forced = options.skips_forced and not options.can_end
    return LAYOUT.record("terms", reservations=options.reservations, skips_forced=skips_forced)


@dataclass(frozen=True, slots=True)
class Observing:
    """Selector that gives a policy the observations of the environment; its options are those of the scheduler."""

    policy: Policy
    options: DrasOptions = field(default_factory=DrasOptions)
    # The view of the last simulation, and the constant features of its jobs.
    _known: dict[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    def select(self, choice: Choice) -> int:
        """Return the slot that the policy chooses."""
        legal = np.zeros(self.options.window, dtype=np.bool_)
        legal[: len(choice.legal)] = choice.legal
        return int(self.policy(self.observe(choice), legal))

    def observe(self, choice: Choice) -> Float32Array:
        """Return the observation of a choice, shape ``(W, N_FEATURES)`` or ``(2 W + N, 2)``."""
        view, known, pool = choice.view, self._known, choice.view.as_pool
        state, machine = pool.state, pool.platform.size
        if known.get("view") is not view:
            known |= {"view": view, "traits": _traits(pool.request[:, 0], view.estimate, machine)}
        spare = pool.shadow(choice.holder)[1][0] if choice.level is Level.SECOND else 0
        instance, slots = LAYOUT.record("instance"), np.zeros(self.options.window, dtype=np.int64)
        instance[0] = (choice.level, len(choice.jobs), choice.holder, choice.shadow, spare, 0)
        in_window = np.zeros(len(view.ids), dtype=np.bool_)
        in_window[choice.jobs] = True
        slots[: len(choice.jobs)] = np.flatnonzero(in_window[view.queue])
        nothing, ladder = np.zeros(0, np.int64), np.empty(len(view.running), np.int64)
        tallies = instance, LAYOUT.record("tally"), _terms(self.options), LAYOUT.record("weights")
        episode = Episode(state, *tallies, nothing, slots, known["traits"], ladder, state.clock, state.jobs)
        observation, (describe, _) = (
            np.empty(self.options.shape(machine), np.float32),
            DESCRIBE[self.options.observation],
        )
        describe(episode, observation)
        return observation


class TwoLevel(Task[DrasEpisodes, Float32Array]):
    """An agent chooses which jobs start, which one is reserved, and which are backfilled.

    Raises `UsageError` if a value is not valid, the number of nodes is unknown, or a job is larger than the machine;
    `BadFileError` if a file cannot be read.

    Parameters
    ----------
    workload
        The jobs of an episode, or a file of them, or several of these, of which each episode plays one; None for 256
        jobs of the Lublin-Feitelson model, drawn by the seed of `reset`.
    processors
        Number of nodes N; None for that of the workload's machine, or for 256 if no workload is given.
    window
        Number of slots W, at least 1.
    reservations
        ``kept``: a reservation stands until its job starts; ``renewed``: every scheduling instance begins at level 1;
        ``none``: only jobs that fit may be chosen.
    reward
        The agent's reward; None for Eq. 1, `CAPABILITY`.
    observation
        ``slots`` or ``state``; see `DrasOptions`.
    can_end
        Whether action W ends the scheduling instance.
    rules
        Order of simultaneous events, and whether jobs are killed at limits and wait for preceding jobs; None for the
        defaults.
    """

    about = About(
        title="Two-level scheduling (DRAS)",
        episode="""\
The rules are those of [dras.md](dras.md#a-scheduling-instance). An episode schedules all jobs of a workload on an
empty machine and ends when all have started. `info["level"]` is the level. `schedule()`, `modes()` and `promised()` of
`episodes` return the schedule, `choice()` returns the choice that a selector has to make.""",
        action="The slot of the chosen job, 0 .. W - 1; with `can_end`, W ends the scheduling instance.",
        mask="Ending an instance is legal while a job runs. An illegal action counts as the first legal slot.",
        seen="""\
With `observation="slots"`, shape (W, 21): numbers of each slot, relative to the machine; all are 0 in an empty slot.
L(t) = min(2, log2(1 + t / 60 s) / 10).

With `observation="state"`, the paper's state (section 3.1), shape (2 W + N, 2). Rows 2 w and 2 w + 1 describe the job
in slot w: (size / N, estimate), (priority, wait); the priority is 0, since no trace has one. Then one row per node,
idle nodes first: (1, 0) if idle, else (0, time until it is idle by the estimates). Times are in days, at most 1000.""",
        meanings={"A slot": MEANINGS},
        rewards=(Weights,),
    )

    def __init__(
        self,
        workload: Jobs | Sequence[Jobs] | None = None,
        processors: int | None = None,
        window: int = PAPER_WINDOW,
        reservations: ReservationName = "kept",
        reward: Weights | None = None,
        observation: ObservationName = "slots",
        can_end: bool = False,
        rules: Rules | None = None,
    ) -> None:
        given = [workload] if isinstance(workload, Workload | Path | str) else workload
        super().__init__(
            None if given is None else [jobs if isinstance(jobs, Workload) else read_workload(jobs) for jobs in given]
        )
        if not isinstance(reservations, str) or reservations.upper() not in Reservations.__members__:
            known = ", ".join(kind.lower() for kind in Reservations.__members__)
            raise UsageError(f"reservations is {reservations!r}, must be one of {known}")
        rule = Reservations[reservations.upper()]
        reward, rules = CAPABILITY if reward is None else reward, Rules() if rules is None else rules
        self.options = DrasOptions(window, rule, reward, observation, can_end, rules=rules)
        sizes = [jobs.machine_processors for jobs in self.jobsets or ()] or [DRAWN_PROCESSORS]
        machine = sizes[0] if processors is None else processors
        if machine is None or (processors is None and len(set(sizes)) > 1):
            raise UsageError("the workloads do not state one common machine size; give processors")
        self.machine = whole_number("number of processors", machine, 1)
        self.shape, self.n_actions = self.options.shape(self.machine), self.options.n_actions
        self.most_seen = dynamics.MOST if observation == "slots" else dynamics.MOST_DAYS

    def episodes(self, count: int, rng: np.random.Generator) -> DrasEpisodes:
        jobsets = self.jobsets or [lublin_workload(DRAWN_JOBS, self.machine, rng)]
        return DrasEpisodes(jobsets, self.machine, count, self.options)


TwoLevelEnv, TwoLevelVectorEnv = environments_of(TwoLevel)
