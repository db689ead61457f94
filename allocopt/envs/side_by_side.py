"""Episodes that are stepped together: arrays and kernels of many from the declaration of one.

A task declares the fields of its episodes in a named tuple ``Episode``, and with each where an episode finds it among
the arrays of a batch: `Own`, `OwnByJob`, `OfJobs`, `OfTasks`, `OfJobset` or `Shared`. All else follows from that.
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
from allocopt.simulator.state import CAPACITY, FREE, STATE, Clock, JobRecord, State, new_state
from allocopt.traces.workload import Workload

T = TypeVar("T")
E = TypeVar("E", bound=tuple[Any, ...])
Seen = TypeVar("Seen")

STAY = -1  # no jobset: an episode goes on, or stays where it ended; as an action, as all below 0, nothing is done
MOST_SLOTS = 100_000  # of a queue or a window: what an agent sees of each must fit into a memory

Part = Callable[["Batch", int, int], Any]
"""Takes fields of an episode, as a tuple, out of a batch, given the numbers of the episode and of its jobset."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an episode finds a field among the arrays of a batch.

    ``counted`` are units of which jobsets have different numbers: the episode sees a row for each one of its jobset.
    """

    is_own: bool = False  # each episode has its own array, which changes while it is played
    by_jobset: bool = False  # each jobset has an array
    counted: str = ""
    array: str = ""  # name of the array, if it is not that of the field

    def part(self, at: int, bounds: int) -> Part:
        """Return the part of an array, by its number in a batch and that of where counted units begin and end.

        It comes in a tuple: compiled parts do not return arrays alone, which would count who holds them.
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

_STATE_PLACES = dict.fromkeys(State._fields, OWN) | dict.fromkeys(("rules", "steps", "unpromised", "least"), SHARED)
_OF_JOBS = {"jobs": OWN_BY_JOB, "request": OF_JOBS}
_OF_TASKS = {"jobs": Place(is_own=True, counted="tasks", array="records"), "request": OF_TASKS}
Simulation = Annotated[State, STATE, _STATE_PLACES | _OF_JOBS]  # its records are the jobs of the jobset
TaskSimulation = Annotated[State, STATE, _STATE_PLACES | _OF_TASKS]  # its records are the tasks of the jobs


class EpisodeTally(Protocol):
    """State and totals of an episode: the fields that every task has."""

    jobset: int  # whose jobs it plays
    over: int  # 1 once it has ended
    invalid: int  # 1 where the last action could not be done, and another was taken instead
    reward: float  # what the last action gained


class Batch(Protocol):
    """Episodes side by side: an array for each declared field, by its name, and what follows."""

    # Where each episode stands, where the one stood that was over last in its place, and zeros; shape ``(E, 3)``.
    tally: Any
    following: IntArray  # jobset with which each begins anew when it ends, or ``STAY``, shape ``(E,)``
    jobs_at: IntArray  # first job of each jobset among all jobs, and the first one behind it, shape ``(S, 2)``

    def __getattr__(self, name: str) -> Any:
        """Return the array of a declared field."""


class _Leaf(NamedTuple):
    path: tuple[str, ...]
    name: str
    place: Place
    type: Any  # numba's


class _Branch(NamedTuple):
    record: Any  # a named tuple, and what its fields are
    fields: list["_Leaf | _Branch"]


def _tuple_of(parts: Sequence[Part], made: Callable[[Part], Part]) -> Part:
    """Return what takes several parts out of a batch, as one tuple; by halves, which numba compiles sooner."""
    if len(parts) == 1:
        return parts[0]
    front, back = _tuple_of(parts[: len(parts) // 2], made), _tuple_of(parts[len(parts) // 2 :], made)

    def both(batch: Any, e: int, jobset: int) -> Any:
        return front(batch, e, jobset) + back(batch, e, jobset)

    return made(both)


def _taken(branch: _Branch, names: Sequence[str], made: Callable[[Part], Part]) -> Part:
    """Return what takes a named tuple out of a batch, whose arrays have these names."""
    parts = []
    for one in branch.fields:
        if isinstance(one, _Branch):
            parts.append(_taken(one, names, made))
        else:
            bounds = names.index(f"{one.place.counted}_at") if one.place.counted else -1
            parts.append(made(one.place.part(names.index(one.name), bounds)))
    record, fields = branch.record, _tuple_of(parts, made)

    def taken(batch: Any, e: int, jobset: int) -> Any:
        return (record(*fields(batch, e, jobset)),)

    return made(taken)


def _episode_of(branch: _Branch, names: Sequence[str], made: Callable[[Part], Part]) -> Callable[[Any, int], Any]:
    """Return what takes an episode out of a batch; ``made`` makes what it calls a part of kernels, or leaves it."""
    taken = _taken(branch, names, made)

    def episode_of(batch: Any, e: int) -> Any:
        return taken(batch, e, batch.tally[e, 0]["jobset"])[0]

    return episode_of


class Layout(Generic[E]):
    """Memory layout, types and kernels that follow from a declared episode; ``LAYOUT`` in its module.

    A field that is a named tuple itself is annotated with numba's type of it, and where its fields are found, behind
    the name of that array where it is another one. Of what is ``counted`` jobsets have different numbers.
    """

    def __init__(self, declared: type[E], counted: tuple[str, ...] = ("jobs",)) -> None:
        self._leaves: list[_Leaf] = []
        self._records = {
            name: get_args(get_args(hint)[0])[0]
            for name, hint in get_type_hints(declared, include_extras=True).items()
            if get_origin(get_args(hint)[0]) is Records
        }
        self.episode, fields = self._read(declared)
        kinds = {
            leaf.name: leaf.type.copy(ndim=leaf.type.ndim + (leaf.place.is_own or leaf.place.by_jobset))
            for leaf in self._leaves
        }
        # The jobset that follows an episode is owned by its place, not by the episode, which is cleared at its end.
        kinds["following"] = types.Array(types.int64, 1, "C")
        kinds |= {f"{name}_at": types.Array(types.int64, 2, "C") for name in counted}
        # Class of a batch; pickles and stored kernels find it by the name of this layout.
        self.made: Any = namedtuple("Batch", list(kinds), module=declared.__module__)  # type: ignore[misc]
        self.made.__qualname__ = "LAYOUT.made"
        self.batch = tuple_type(list(kinds.values()), self.made)
        """Numba's type of a batch; `episode` is that of one episode."""
        self.changing = (*(leaf.name for leaf in self._leaves if leaf.place.is_own), "following")
        """Names of the arrays that change while episodes are played."""
        self.one = cast(Callable[[Batch, int], E], _episode_of(fields, list(kinds), lambda part: part))
        """Returns an episode of a batch, as arrays that are parts of it; `episode_of` does so in kernels."""
        self.episode_of = inlined(_episode_of(fields, list(kinds), inlined))

    def _read(self, record: Any, path: tuple[str, ...] = (), *inner: Any) -> tuple[Any, _Branch]:
        """Note the fields of a named tuple; return numba's type of it, and what takes its fields out of a batch."""
        found: list[Any] = []
        parts: list[_Leaf | _Branch] = []
        for number, (name, hint) in enumerate(get_type_hints(record, include_extras=True).items()):
            base, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
            if hasattr(base, "_fields"):
                kind, branch = self._read(base, (name,), *extras)
                parts.append(branch)
            else:
                place = inner[1][name] if inner else next(one for one in extras if isinstance(one, Place))
                kind = inner[0].types[number] if inner else field_type(hint)
                self._leaves.append(_Leaf((*path, name), place.array or name, place, kind))
                parts.append(self._leaves[-1])
            found.append(kind)
        return inner[0] if inner else tuple_type(found, record), _Branch(record, parts)

    def side_by_side(self, count: int, episodes: Sequence[E], **sizes: ArrayLike) -> Batch:
        """Return so many episodes of which none has begun, given one of each jobset.

        Sizes are the numbers of each jobset's counted units, shape ``(S,)``, or where these begin and end, ``(S, 2)``.
        """
        if not episodes or count < 1:
            raise UsageError(f"there are {len(episodes)} jobsets and {count} episodes, must be at least 1 of each")
        arrays = {}
        for leaf in self._leaves:
            values = [np.asarray(reduce(getattr, leaf.path, episode)) for episode in episodes]
            if leaf.place.counted and not leaf.place.is_own:
                # The same dtype, not an equal one, which would be compared with it in every call of a kernel.
                arrays[leaf.name] = np.concatenate(values).view(values[0].dtype)
            elif leaf.place.by_jobset:
                arrays[leaf.name] = _with_room(values, len(values))
            else:
                first = _with_room(values, 1)
                arrays[leaf.name] = np.repeat(first, count, axis=0) if leaf.place.is_own else first[0]
        # A call of a kernel takes as long as there are arrays, and these are of one kind.
        arrays["tally"] = np.repeat(arrays["tally"], 3, axis=1)
        arrays["tally"]["over"][:, 0] = 1
        arrays["following"] = np.full(count, STAY)
        for name, size in sizes.items():
            ends = np.cumsum(size)
            at = np.stack([ends - size, ends], axis=1) if np.ndim(size) == 1 else size
            arrays[f"{name}_at"] = np.ascontiguousarray(at, dtype=np.int64)
        return cast(Batch, self.made(**arrays))

    def record(self, field: str, **values: float) -> NDArray[np.void]:
        """Return a record of a declared field, shape ``(1,)``, with these values, 0 elsewhere."""
        made = np.zeros(1, dtype=record_dtype(self._records[field]))
        for name, value in values.items():
            made[name] = value
        return made

    def stepping(self, act: Callable[..., None], begin: Callable[..., None]) -> Callable[..., None]:
        """Return ``step_all`` of a task, not compiled: begin an episode where a jobset is named, else act in it.

        ``act(episode, action)`` writes the ``reward`` of the tally; ``begin(episode)`` is given one that is `cleared`.
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
                    cleared(batch, e, follows)
                    begin(episode_of(batch, e))

        # Stored kernels and those who compile them find it by its module.
        step_all.__module__ = act.__module__
        return step_all

    def step_kernel(self, act: Callable[..., None], begin: Callable[..., None]) -> Callable[..., None]:
        """Make an entry of `stepping`."""
        step_all = self.stepping(act, begin)
        return kernel(void(self.batch, int64[::1], int64[::1], float64[::1], boolean[::1]))(step_all)

    def describe_kernel(
        self, mark_legal: Callable[..., None], describe: Callable[..., None], ndim: int, idle: int = 0
    ) -> Callable[..., None]:
        """Make an entry that writes masks and observations of so many dimensions, named ``describe`` and ``_all``.

        Both functions take an episode that is not over. Where one is, only the action ``idle`` is legal.
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
        return kernel(void(self.batch, types.Array(float32, ndim + 1, "C"), boolean[:, ::1]))(describe_all)


def _with_room(values: list[NDArray[Any]], count: int) -> NDArray[Any]:
    # One behind the other, with zeros where an array is smaller than the largest.
    room = np.zeros((count, *np.max([value.shape for value in values], axis=0)), values[0].dtype)
    for place, value in zip(room, values, strict=False):
        place[tuple(map(slice, value.shape))] = value
    return room


@inlined
def cleared(batch: Batch, e: int, jobset: int) -> None:
    """Begin the tally of an episode anew."""
    batch.tally[e, 0] = batch.tally[e, 2]
    batch.tally[e, 0].jobset = jobset


@inlined
def put_records(values: Records[Record], target: Records[Record]) -> None:
    """Write records into the place of as many others."""
    for i in range(target.size):
        target[i] = values[i]  # type: ignore[index]


@inlined
def rewind(state: State, clock: Records[Clock], jobs: Records[JobRecord]) -> None:
    """Put a simulation back before its first event."""
    put_records(clock, state.clock)
    put_records(jobs, state.jobs)
    for resource in range(state.units.shape[1]):
        state.units[FREE, resource] = state.units[CAPACITY, resource]
        state.held[0, resource] = 0


def first_state(jobs: Workload, request: IntArray, capacity: Sequence[int], rules: Rules, backfill: Backfill) -> State:
    """Return jobs before the first event, which hold so many units of each resource, shape ``(n, R)``."""
    # Nobody asks for shares of users, and queues of episodes are too short for an index.
    arrival = QueueKeys.by_arrival(len(jobs))
    state = new_state(jobs, request, np.array(capacity), rules, backfill, arrival)
    np.asarray(state.jobs)["user"] = 0
    np.asarray(state.clock)["indexed"] = 0
    return state._replace(held=state.held[:1], least=state.least[:, :0])


def whole_number(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return a value as an integer; raise `UsageError`, which calls it by its name, if it is none or out of range."""
    within = f"at least {least}" if most is None else f"within {least} .. {most}"
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"the {name} is {value!r}, must be a whole number {within}") from None
    if number < least or (most is not None and number > most):
        raise UsageError(f"the {name} is {number}, must be {within}")
    return number


class SideBySide(ABC, Generic[Seen]):
    """Independent episodes that are stepped together, each over a jobset of its own, all of them over before `begin`.

    One that is over stays as it is and pays nothing, until `begin` names a jobset for its place, or `follow` did.
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
        """Where each present episode stands, and what it has come to: records, shape ``(E,)``."""
        self.last: NDArray[np.void] = self._batch.tally[:, 1]
        """The same of the episode that was over last in each place, whether another began after it; zeros before."""
        self.invalid: IntArray = self.tally["invalid"]
        """1 where the last action could not be done, and another was taken instead, shape ``(E,)``."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        # A copy has arrays of its own, of which these must be parts.
        self._look_into_batch()

    def begin(self, jobsets: IntArray) -> None:
        """Begin an episode wherever a jobset is named instead of ``STAY``, whether the one there is over or not."""
        self._play(self._stay, self._checked(jobsets))

    def follow(self, jobsets: IntArray) -> None:
        """Tell with which jobset each episode begins anew when it ends; ``STAY``, as at first, leaves it ended."""
        self._batch.following[:] = self._checked(jobsets)

    def step(self, actions: NDArray[Any], jobsets: IntArray | None = None) -> tuple[FloatArray, BoolArray]:
        """Carry out an action in every episode, up to its next decision; return rewards and which are over; new arrays.

        An action that cannot be done stands for the first that can. Where a jobset is named instead of ``STAY``, an
        episode begins instead. Raises `UsageError` if there is no such action.
        """
        given = np.asarray(actions)
        # Steps of one environment are so short that looking for the least and the largest would take a third of them.
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
        """Begin an episode of each jobset, or of those given, and take the chosen actions until all are over."""
        self.begin(np.arange(self.n_environments) if jobsets is None else jobsets)
        while not self.step(choose(*self.observe()))[1].all():
            pass

    @abstractmethod
    def observe(self) -> tuple[Seen, BoolArray]:
        """Return observations, zeros where an episode is over, and action masks, episodes in front; new arrays."""

    @abstractmethod
    def metrics(self) -> dict[str, FloatArray]:
        """Return metrics of the episodes so far, by name, shapes ``(E,)``."""

    def told(self) -> dict[str, NDArray[Any]]:
        """Return further entries of ``info`` at every step, the episodes in front."""
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
            raise UsageError(f"the jobset is {wrong[0]}, must be within 0 .. {last}; {STAY} stands for none")
        return numbers


class Compiled(SideBySide[Float32Array]):
    """Episodes that are stepped in one compiled call; ``shape`` is that of what an agent sees."""

    layout: ClassVar[Layout[Any]]  # what an episode holds
    kernel: ClassVar[Callable[..., None]]  # steps all; a static method
    describe: Callable[..., None]  # writes what is seen and what is legal

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

    # Only what changes is taken: jobs, requests and the state before the first event are the same in every run.
    def snapshot(self) -> dict[str, Any]:
        """Return the state of all episodes, as arrays of numbers that every checkpoint can hold."""
        return {name: values.copy() for name, values in self._changing().items()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        for name, values in self._changing().items():
            values[:] = snapshot[name]

    def _changing(self) -> dict[str, NDArray[Any]]:
        arrays = {name: getattr(self._batch, name) for name in self.layout.changing}
        arrays |= {"tally": self._batch.tally[:, :1], "last": self._batch.tally[:, 1:2]}
        # Records as their bytes, words as integers: checkpoints are read as tensors, which know neither.
        plain = {
            name: values if values.dtype.names is None else values.view(np.uint8) for name, values in arrays.items()
        }
        return {name: one.view(np.int64) if one.dtype == np.uint64 else one for name, one in plain.items()}

    def arrays(self, episode: int) -> Any:
        """Return an episode as its layout declares it, arrays that are parts of those of all."""
        return self.layout.one(self._batch, episode)

    def _play(self, actions: IntArray, jobsets: IntArray) -> tuple[FloatArray, BoolArray]:
        results = np.empty(self.n_environments), np.empty(self.n_environments, np.bool_)
        self.kernel(self._batch, actions, jobsets, *results)
        return results

    def _blank(self) -> tuple[Float32Array, BoolArray]:
        seen, legal = self._shapes
        return np.empty(seen, np.float32), np.empty(legal, np.bool_)
