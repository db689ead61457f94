"""Episodes that are stepped together. A task declares one episode; arrays and kernels for a batch follow from it.

A task declares the fields of an episode in a named tuple ``Episode``. The annotation of each field states which part of
the batch's arrays belongs to one episode: `Own`, `OwnByJob`, `OfJobs`, `OfTasks`, `OfJobset` or `Shared`.
"""

import operator
from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Protocol,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numba import boolean, float32, float64, int64, types, void
from numpy.typing import ArrayLike, NDArray

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.kernels.arrays import Record, Records, field_type, record_dtype, tuple_type
from allocopt.kernels.compiled import inlined, kernel
from allocopt.simulator.rules import Backfill, QueueKeys, Rules
from allocopt.simulator.scoring import Scores
from allocopt.simulator.state import CAPACITY, FREE, STATE, Clock, JobRecord, State, new_state
from allocopt.traces.workload import Workload

T = TypeVar("T")
E = TypeVar("E", bound=tuple[Any, ...])
Seen = TypeVar("Seen")

STAY = -1  # as a jobset: begin no episode; as an action, like every negative number: do nothing
MOST_SLOTS = 100_000  # largest number of slots of a queue or window: the observation has to fit into memory

Part = Callable[["Batch", int, int], Any]
"""Takes a batch and the numbers of an episode and its jobset; returns fields of the episode as a tuple."""


@dataclass(frozen=True, slots=True)
class Place:
    """The part of a batch's array that is a field of one episode.

    ``counted`` is a unit, such as jobs, whose number differs between jobsets: the field has a row for each unit.
    """

    is_own: bool = False  # each episode has its own part, which changes while the episode is played
    by_jobset: bool = False  # each jobset has its own part, which does not change
    counted: str = ""
    array: str = ""  # name of the array, if it is not the name of the field

    def part(self, at: int, bounds: int) -> Part:
        """Return a function that takes the field out of a batch.

        ``at`` is the index of the field's array in the batch; ``bounds`` is the index of the array that holds where the
        counted units of each jobset begin and end. The function returns a tuple of one array, because a compiled
        function that returns an array itself would count references to it.
        """

        def own_rows(batch: Any, e: int, jobset: int) -> Any:
            return (batch[at][e, : batch[bounds][jobset, 1] - batch[bounds][jobset, 0]],)

        def rows(batch: Any, e: int, jobset: int) -> Any:
            return (batch[at][batch[bounds][jobset, 0] : batch[bounds][jobset, 1]],)

        def own(batch: Any, e: int, jobset: int) -> Any:
            return (batch[at][e],)

        def of_jobset(batch: Any, e: int, jobset: int) -> Any:
            return (batch[at][jobset],)

        def shared(batch: Any, e: int, jobset: int) -> Any:
            return (batch[at],)

        if self.counted:
            return own_rows if self.is_own else rows
        if self.by_jobset:
            return of_jobset
        return own if self.is_own else shared


OWN, OWN_BY_JOB, OWN_BY_TASK = (Place(is_own=True, counted=counted) for counted in ("", "jobs", "tasks"))
OF_JOBS, OF_TASKS, OF_JOBSET, SHARED = Place(counted="jobs"), Place(counted="tasks"), Place(by_jobset=True), Place()
Own = Annotated[T, OWN]
OwnByJob = Annotated[T, OWN_BY_JOB]
OfJobs = Annotated[T, OF_JOBS]
OfTasks = Annotated[T, OF_TASKS]
OfJobset = Annotated[T, OF_JOBSET]
Shared = Annotated[T, SHARED]  # the same for all episodes

_STATE_PLACES: dict[str, Any] = dict.fromkeys(State._fields, OWN) | dict.fromkeys(
    ("rules", "steps", "unpromised", "least"), SHARED
)
_STATE_PLACES["scores"] = dict.fromkeys(Scores._fields, Place(array="least"))  # empty, as the index is
_OF_JOBS = {"jobs": OWN_BY_JOB, "request": OF_JOBS}
_OF_TASKS = {"jobs": Place(is_own=True, counted="tasks", array="records"), "request": OF_TASKS}
Simulation = Annotated[State, STATE, _STATE_PLACES | _OF_JOBS]  # the records of the state are jobs of the jobset
TaskSimulation = Annotated[State, STATE, _STATE_PLACES | _OF_TASKS]  # the records of the state are tasks of jobs


class EpisodeTally(Protocol):
    """State and totals of an episode: the fields that the tallies of all tasks have."""

    jobset: int  # number of the jobset that the episode plays
    over: int  # 1 once it has ended
    invalid: int  # 1 if the last action was illegal and another was taken instead
    reward: float  # reward of the last action


class Batch(Protocol):
    """Episodes side by side: an array for each declared field, with the same name, and the arrays below.

    ``E`` is the number of places, each of which holds one episode; ``S`` is the number of jobsets.
    """

    # Tallies of each place, shape ``(E, 3)``: of the present episode, of the last one that ended there, and zeros.
    tally: Any
    following: IntArray  # jobset of the episode that begins when the present one ends, or ``STAY``, shape ``(E,)``
    jobs_at: IntArray  # where the jobs of each jobset begin and end (exclusive) among all jobs, shape ``(S, 2)``

    def __getattr__(self, name: str) -> Any:
        """Return the array of a declared field."""


class _Leaf(NamedTuple):
    """A field of an episode that is one array."""

    path: tuple[str, ...]
    name: str
    place: Place
    type: Any  # numba type


class _Branch(NamedTuple):
    """A named tuple, which is the episode or a field of it, and its fields."""

    record: Any
    fields: list["_Leaf | _Branch"]


def _joined_parts(parts: Sequence[Part], wrap: Callable[[Part], Part]) -> Part:
    """Return a part that joins the tuples of several parts. It splits them in halves, which numba compiles faster."""
    if len(parts) == 1:
        return parts[0]
    front, back = _joined_parts(parts[: len(parts) // 2], wrap), _joined_parts(parts[len(parts) // 2 :], wrap)

    def both(batch: Any, e: int, jobset: int) -> Any:
        return front(batch, e, jobset) + back(batch, e, jobset)

    return wrap(both)


def _named_tuple_part(branch: _Branch, names: Sequence[str], wrap: Callable[[Part], Part]) -> Part:
    """Return a part that takes a named tuple out of a batch whose arrays have these names."""
    parts = []
    for one in branch.fields:
        if isinstance(one, _Branch):
            parts.append(_named_tuple_part(one, names, wrap))
        else:
            bounds = names.index(f"{one.place.counted}_at") if one.place.counted else -1
            parts.append(wrap(one.place.part(names.index(one.name), bounds)))
    record, fields = branch.record, _joined_parts(parts, wrap)

    def taken(batch: Any, e: int, jobset: int) -> Any:
        return (record(*fields(batch, e, jobset)),)

    return wrap(taken)


def _episode_of(branch: _Branch, names: Sequence[str], wrap: Callable[[Part], Part]) -> Callable[[Any, int], Any]:
    """Return a function that takes an episode out of a batch.

    ``wrap`` is applied to every function that it calls: `inlined` for use in kernels, or the identity for Python.
    """
    taken = _named_tuple_part(branch, names, wrap)

    def episode_of(batch: Any, e: int) -> Any:
        return taken(batch, e, batch.tally[e, 0]["jobset"])[0]

    return episode_of


class Layout(Generic[E]):
    """Memory layout, types and kernels that follow from a declared episode.

    A module that declares an episode must call its layout ``LAYOUT``, since pickles and stored kernels look it up by
    this name. A field that is itself a named tuple is annotated with its numba type and a mapping from the names of its
    fields to their `Place`. ``counted`` names the units whose number differs between jobsets.
    """

    def __init__(self, declared: type[E], counted: tuple[str, ...] = ("jobs",)) -> None:
        self._leaves: list[_Leaf] = []
        self._records = {
            name: get_args(get_args(hint)[0])[0]
            for name, hint in get_type_hints(declared, include_extras=True).items()
            if get_origin(get_args(hint)[0]) is Records
        }
        self.episode_type, fields = self._read(declared)
        kinds = {
            leaf.name: leaf.type.copy(ndim=leaf.type.ndim + (leaf.place.is_own or leaf.place.by_jobset))
            for leaf in self._leaves
        }
        # The following jobset belongs to the place in the batch: the fields of an episode are reset when it ends.
        kinds["following"] = types.Array(types.int64, 1, "C")
        kinds |= {f"{name}_at": types.Array(types.int64, 2, "C") for name in counted}
        # Class of a batch. Pickles and stored kernels find it through the name of this layout.
        self.batch_class: Any = namedtuple("Batch", list(kinds), module=declared.__module__)  # type: ignore[misc]
        self.batch_class.__qualname__ = "LAYOUT.batch_class"
        self.batch_type = tuple_type(list(kinds.values()), self.batch_class)
        """Numba type of a batch; ``episode_type`` is that of an episode."""
        self.changing = (*(leaf.name for leaf in self._leaves if leaf.place.is_own), "following")
        """Names of the arrays that change while episodes are played."""
        self.view = cast(Callable[[Batch, int], E], _episode_of(fields, list(kinds), lambda part: part))
        """Returns an episode as views of the batch's arrays; `episode_of` does the same in kernels."""
        self.episode_of = inlined(_episode_of(fields, list(kinds), inlined))

    def _read(self, record: Any, path: tuple[str, ...] = (), *inner: Any) -> tuple[Any, _Branch]:
        """Add the fields of a named tuple to the leaves; return its numba type and its tree of fields."""
        found: list[Any] = []
        parts: list[_Leaf | _Branch] = []
        for number, (name, hint) in enumerate(get_type_hints(record, include_extras=True).items()):
            base, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
            if hasattr(base, "_fields"):
                kind, branch = self._read(
                    base, (*path, name), *((inner[0].types[number], inner[1][name]) if inner else extras)
                )
                parts.append(branch)
            else:
                place = inner[1][name] if inner else next(one for one in extras if isinstance(one, Place))
                kind = inner[0].types[number] if inner else field_type(hint)
                self._leaves.append(_Leaf((*path, name), place.array or name, place, kind))
                parts.append(self._leaves[-1])
            found.append(kind)
        return inner[0] if inner else tuple_type(found, record), _Branch(record, parts)

    def side_by_side(self, count: int, episodes: Sequence[E], **sizes: ArrayLike) -> Batch:
        """Return a batch of ``count`` places in which no episode has begun, from one episode per jobset.

        ``sizes`` gives, by name, the number of counted units of each jobset, shape ``(S,)``, or where these units begin
        and end, shape ``(S, 2)``. Raises `UsageError` if there is no jobset or no place.
        """
        if not episodes or count < 1:
            raise UsageError(f"there are {len(episodes)} jobsets and {count} episodes, must be at least 1 of each")
        arrays = {}
        for leaf in self._leaves:
            values = [np.asarray(reduce(getattr, leaf.path, episode)) for episode in episodes]
            if leaf.place.counted and not leaf.place.is_own:
                # Keep the dtype object: with an equal but different one, every kernel call would compare the two.
                arrays[leaf.name] = np.concatenate(values).view(values[0].dtype)
            elif leaf.place.by_jobset:
                arrays[leaf.name] = _padded(values, len(values))
            else:
                first = _padded(values, 1)
                arrays[leaf.name] = np.repeat(first, count, axis=0) if leaf.place.is_own else first[0]
        # One array of three columns, not three arrays: a kernel call takes longer with every array.
        arrays["tally"] = np.repeat(arrays["tally"], 3, axis=1)
        arrays["tally"]["over"][:, 0] = 1
        arrays["following"] = np.full(count, STAY)
        for name, size in sizes.items():
            ends = np.cumsum(size)
            at = np.stack([ends - size, ends], axis=1) if np.ndim(size) == 1 else size
            arrays[f"{name}_at"] = np.ascontiguousarray(at, dtype=np.int64)
        return cast(Batch, self.batch_class(**arrays))

    def record(self, field: str, **values: float) -> NDArray[np.void]:
        """Return a record of a declared field, shape ``(1,)``, with the given values, and 0 in its other entries."""
        made = np.zeros(1, dtype=record_dtype(self._records[field]))
        for name, value in values.items():
            made[name] = value
        return made

    def step_function(self, act: Callable[..., None], begin: Callable[..., None]) -> Callable[..., None]:
        """Return the uncompiled ``step_all`` of a task. It begins an episode where a jobset is given, else it acts.

        ``act(episode, action)`` writes the ``reward`` of the tally; ``begin(episode)`` gets an episode whose tally has
        been cleared.
        """
        episode_of = self.episode_of

        def step_all(batch: Batch, actions: IntArray, jobsets: IntArray, rewards: FloatArray, over: BoolArray) -> None:
            for e in range(actions.size):
                rewards[e] = 0.0
                goes_on, is_stepped, follows = jobsets[e] == STAY, actions[e] >= 0, jobsets[e]
                if goes_on and is_stepped and batch.tally[e, 0].over == 0:
                    act(episode_of(batch, e), actions[e])
                    rewards[e] = batch.tally[e, 0].reward
                over[e] = goes_on and batch.tally[e, 0].over != 0
                if over[e] and is_stepped:
                    batch.tally[e, 1] = batch.tally[e, 0]
                    follows = batch.following[e]
                if follows != STAY:
                    clear_tally(batch, e, follows)
                    begin(episode_of(batch, e))

        # The store of compiled kernels looks the function up by its module.
        step_all.__module__ = act.__module__
        return step_all

    def step_kernel(self, act: Callable[..., None], begin: Callable[..., None]) -> Callable[..., None]:
        """Return the function of `step_function` as a kernel entry."""
        step_all = self.step_function(act, begin)
        return kernel(void(self.batch_type, int64[::1], int64[::1], float64[::1], boolean[::1]))(step_all)

    def describe_kernel(
        self, mark_legal: Callable[..., None], describe: Callable[..., None], ndim: int, idle: int = 0
    ) -> Callable[..., None]:
        """Return an entry that writes the masks and the observations, which have ``ndim`` dimensions, of a batch.

        Its name is that of ``describe`` followed by ``_all``. ``mark_legal`` and ``describe`` get only episodes that
        are not over. After the end of an episode only the action ``idle`` is legal.
        """
        episode_of = self.episode_of

        def describe_all(batch: Batch, seen: Float32Array, legal: BoolArray) -> None:
            for e in range(legal.shape[0]):
                if batch.tally[e, 0].over != 0:
                    seen[e] = 0.0
                    legal[e] = False
                    legal[e, idle] = True
                else:
                    episode = episode_of(batch, e)
                    mark_legal(episode, legal[e])
                    describe(episode, seen[e])

        describe_all.__module__, name = describe.__module__, describe.__name__.lstrip("_")
        describe_all.__name__ = f"{name}_all"
        return kernel(void(self.batch_type, types.Array(float32, ndim + 1, "C"), boolean[:, ::1]))(describe_all)


def _padded(values: list[NDArray[Any]], count: int) -> NDArray[Any]:
    # Stack the arrays; those that are smaller than the largest are padded with zeros.
    room = np.zeros((count, *np.max([value.shape for value in values], axis=0)), values[0].dtype)
    for place, value in zip(room, values, strict=False):
        place[tuple(map(slice, value.shape))] = value
    return room


@inlined
def clear_tally(batch: Batch, e: int, jobset: int) -> None:
    """Reset the tally of an episode, and set its jobset."""
    batch.tally[e, 0] = batch.tally[e, 2]
    batch.tally[e, 0].jobset = jobset


@inlined
def put_records(values: Records[Record], target: Records[Record]) -> None:
    """Copy records over an equal number of others."""
    for i in range(target.size):
        target[i] = values[i]  # type: ignore[index]


@inlined
def rewind(state: State, clock: Records[Clock], jobs: Records[JobRecord]) -> None:
    """Reset a simulation to the state before its first event."""
    put_records(clock, state.clock)
    put_records(jobs, state.jobs)
    for resource in range(state.units.shape[1]):
        state.units[FREE, resource] = state.units[CAPACITY, resource]
        state.held[0, resource] = 0


def first_state(jobs: Workload, request: IntArray, capacity: Sequence[int], rules: Rules, backfill: Backfill) -> State:
    """Return the state before the first event; ``request`` is the demand of each job, shape ``(n, R)``."""
    # No environment uses shares of users, and queues of episodes are too short for an index.
    arrival = QueueKeys.by_arrival(len(jobs))
    state = new_state(jobs, request, np.array(capacity), rules, backfill, arrival)
    np.asarray(state.jobs)["user"] = 0
    np.asarray(state.clock)["indexed"] = 0
    return state._replace(held=state.held[:1], least=state.least[:, :0])


def whole_number(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return a value as an integer; raise `UsageError`, which names it, if it is not a whole number within range."""
    within = f"at least {least}" if most is None else f"within {least} .. {most}"
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"the {name} is {value!r}, must be a whole number {within}") from None
    if number < least or (most is not None and number > most):
        raise UsageError(f"the {name} is {number}, must be {within}")
    return number


class SideBySide(ABC, Generic[Seen]):
    """Independent episodes that are stepped together, each with its own jobset; all count as over before `begin`.

    An episode that is over stays unchanged and pays nothing until `begin` starts another one in its place. If `follow`
    has given a jobset, the next episode starts automatically.
    """

    def __init__(self, n_jobsets: int, n_actions: int, batch: Batch) -> None:
        self.n_environments = len(batch.following)
        self.n_jobsets = n_jobsets
        self.n_actions = n_actions
        self._batch = batch
        self._stay = np.full(self.n_environments, STAY)
        self._look_into_batch()

    def _look_into_batch(self) -> None:
        self.tally: NDArray[np.void] = self._batch.tally[:, 0]
        """State and totals of each present episode: records, shape ``(E,)``."""
        self.last: NDArray[np.void] = self._batch.tally[:, 1]
        """The same for the episode that ended last in each place; zeros before the first end."""
        self.invalid: IntArray = self.tally["invalid"]
        """1 where the last action was illegal and another was taken instead, shape ``(E,)``."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        # A copy has its own arrays, and these must be views of them.
        self._look_into_batch()

    def begin(self, jobsets: IntArray) -> None:
        """Begin an episode in each place whose jobset is not ``STAY``, whether its present episode is over or not."""
        self._play(self._stay, self._checked(jobsets))

    def follow(self, jobsets: IntArray) -> None:
        """Set the jobset of the episode that begins in each place when the present one ends.

        ``STAY``, the default: no episode begins automatically.
        """
        self._batch.following[:] = self._checked(jobsets)

    def step(self, actions: NDArray[Any], jobsets: IntArray | None = None) -> tuple[FloatArray, BoolArray]:
        """Carry out an action in every episode, up to its next decision; return rewards and which are over.

        The arrays are new. An illegal action is replaced by a legal one. If the jobset of a place is not ``STAY``, a
        new episode begins there instead. Raises `UsageError` if there is no such action.
        """
        given = np.asarray(actions)
        # A step of one environment is so short that computing minimum and maximum would take a third of it.
        is_one = self.n_environments == 1 and given.shape == (1,) and given.dtype == np.int64
        if not (is_one and 0 <= given.item() < self.n_actions):
            if given.shape != self._stay.shape:
                raise UsageError(f"the actions have shape {given.shape}, must have {self._stay.shape}")
            if given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= self.n_actions:
                for action in given.tolist():
                    whole_number("action", action, 0, self.n_actions - 1)
            given = np.ascontiguousarray(given, dtype=np.int64)
        return self._play(given, self._stay if jobsets is None else jobsets)

    def play(self, choose: Callable[[Seen, BoolArray], NDArray[Any]], jobsets: IntArray | None = None) -> None:
        """Begin an episode of each jobset, or of the given ones, and take the chosen actions until all are over."""
        self.begin(np.arange(self.n_environments) if jobsets is None else jobsets)
        while not self.step(choose(*self.observe()))[1].all():
            pass

    @abstractmethod
    def observe(self) -> tuple[Seen, BoolArray]:
        """Return observations and action masks as new arrays.

        Observations are zeros after the end of an episode. The first axis of both arrays is the episode.
        """

    @abstractmethod
    def metrics(self) -> dict[str, FloatArray]:
        """Return the metrics of the episodes so far, by name, each of shape ``(E,)``."""

    def told(self) -> dict[str, NDArray[Any]]:
        """Return further entries of ``info`` at every step; the first axis is the episode."""
        return {}

    def seed(self, rng: np.random.Generator) -> None:
        """Restart the random choices within episodes, if there are any."""

    @abstractmethod
    def _play(self, actions: IntArray, jobsets: IntArray) -> tuple[FloatArray, BoolArray]: ...

    def _checked(self, jobsets: IntArray) -> IntArray:
        numbers = np.ascontiguousarray(jobsets, dtype=np.int64)
        if numbers.shape != self._stay.shape:
            raise UsageError(f"the jobsets have shape {numbers.shape}, must have {self._stay.shape}")
        wrong = numbers[(numbers < STAY) | (numbers >= self.n_jobsets)]
        if wrong.size:
            last = self.n_jobsets - 1
            raise UsageError(f"the jobset is {wrong[0]}, must be within 0 .. {last}, or {STAY} for none")
        return numbers


class Compiled(SideBySide[Float32Array]):
    """Episodes that are stepped in one compiled call; ``shape`` is the shape of an observation."""

    layout: ClassVar[Layout[Any]]  # fields of an episode
    kernel: ClassVar[Callable[..., None]]  # steps all episodes; a static method
    describe: Callable[..., None]  # writes observations and action masks

    def __init__(
        self, count: int, episodes: Sequence[Any], n_actions: int, shape: tuple[int, ...], **sizes: ArrayLike
    ) -> None:
        batch = self.layout.side_by_side(count, episodes, **sizes)
        super().__init__(len(batch.jobs_at), n_actions, batch)
        self.shape = shape
        self._shapes = (self.n_environments, *shape), (self.n_environments, n_actions)

    def observe(self) -> tuple[Float32Array, BoolArray]:
        seen, legal = self._blank()
        self.describe(self._batch, seen, legal)
        return seen, legal

    # Copy only what changes: jobs, requests and the state before the first event are the same in every run.
    def snapshot(self) -> dict[str, Any]:
        """Return the state of all episodes, as arrays of numbers that a checkpoint can hold."""
        return {name: values.copy() for name, values in self._changing().items()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restore the state of a snapshot."""
        for name, values in self._changing().items():
            values[:] = snapshot[name]

    def _changing(self) -> dict[str, NDArray[Any]]:
        arrays = {name: getattr(self._batch, name) for name in self.layout.changing}
        arrays |= {"tally": self._batch.tally[:, :1], "last": self._batch.tally[:, 1:2]}
        # Store records as bytes and unsigned words as integers: checkpoints are read as tensors, which have neither.
        plain = {
            name: values if values.dtype.names is None else values.view(np.uint8) for name, values in arrays.items()
        }
        return {name: one.view(np.int64) if one.dtype == np.uint64 else one for name, one in plain.items()}

    def arrays(self, episode: int) -> Any:
        """Return an episode as its layout declares it; its arrays are views of those of the batch."""
        return self.layout.view(self._batch, episode)

    def _play(self, actions: IntArray, jobsets: IntArray) -> tuple[FloatArray, BoolArray]:
        results = np.empty(self.n_environments), np.empty(self.n_environments, np.bool_)
        self.kernel(self._batch, actions, jobsets, *results)
        return results

    def _blank(self) -> tuple[Float32Array, BoolArray]:
        seen, legal = self._shapes
        return np.empty(seen, np.float32), np.empty(legal, np.bool_)
