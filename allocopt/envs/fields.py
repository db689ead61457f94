"""What an episode holds, declared once; memory layouts, numba's types and the arrays of many episodes follow from it.

A task declares the fields of its episodes in a named tuple ``Episode``, and with each where an episode finds it among
the arrays of a batch: `Own`, `OwnByJob`, `OfJobs`, `OfJobset` or `Shared`. `Layout` makes the rest of that.
"""

import re
from collections import namedtuple
from collections.abc import Callable
from typing import Annotated, Any, Generic, NamedTuple, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np
from numba import from_dtype, types
from numpy.typing import ArrayLike, NDArray

from allocopt.arrays import IntArray
from allocopt.kernels.arrays import tuple_type
from allocopt.kernels.compiled import inlined
from allocopt.simulator.state import STATE, Records, State

T = TypeVar("T")
E = TypeVar("E", bound=tuple[Any, ...])

STAY = -1
"""Stands for no jobset: an episode goes on, or stays where it ended. As an action: nothing is done."""

Own = Annotated[T, "[e]"]
"""Each episode has its own array, which changes while it is played."""
OwnByJob = Annotated[T, "[e, : end_jobs - first_jobs]"]
"""The same, of which an episode sees as much as its jobset has jobs."""
OfJobs = Annotated[T, "[first_jobs:end_jobs]"]
"""A row for each job of all jobsets, of which an episode sees those of its own."""
OfTasks = Annotated[T, "[first_tasks:end_tasks]"]
"""The same for each task."""
OfJobset = Annotated[T, "[jobset]"]
"""An array for each jobset."""
Shared = Annotated[T, ""]
"""The same for all episodes."""

_STATE_PLACES = dict.fromkeys(State._fields, "[e]") | dict.fromkeys(("rules", "steps", "unpromised", "least"), "")
_OF_JOBS = {"jobs": "[e, : end_jobs - first_jobs]", "request": "[first_jobs:end_jobs]"}
Simulation = Annotated[State, STATE, _STATE_PLACES | _OF_JOBS]
"""A simulation whose records are the jobs of the jobset."""
TaskSimulation = Annotated[
    State,
    STATE,
    _STATE_PLACES | {"jobs": "records[e, : end_tasks - first_tasks]", "request": "[first_tasks:end_tasks]"},
]
"""A simulation whose records are the tasks of the jobs."""


class Tally(Protocol):
    """Where an episode stands, and what it has come to: fields that every task has."""

    jobset: int
    """Its jobs."""
    over: int
    """1 once it has ended."""
    invalid: int
    """1 where the last action could not be done, and another was taken instead."""
    reward: float
    """What the last action gained."""


class Batch(Protocol):
    """Episodes side by side: an array for each declared field, by its name, and what follows."""

    tally: Any
    """Where each episode stands, where the one stood that was over last in its place, and zeros; shape ``(E, 3)``."""
    following: IntArray
    """Jobset with which each begins anew when it ends, or ``STAY``, shape ``(E,)``."""
    jobs_at: IntArray
    """First job of each jobset among all jobs, and the first one behind it, shape ``(S, 2)``."""

    def __getattr__(self, name: str) -> Any:
        """Return the array of a declared field."""


def dtype_of(record: type) -> np.dtype[np.void]:
    """Return the memory layout of a record, by the annotated fields of a class and of those that it derives from."""
    hints = get_type_hints(record).items()
    return np.dtype([(name, np.float64 if hint is float else np.int64) for name, hint in hints])


def records(record: type, count: int = 1, **values: float) -> NDArray[np.void]:
    """Return records with these values, 0 elsewhere."""
    made = np.zeros(count, dtype=dtype_of(record))
    for name, value in values.items():
        made[name] = value
    return made


def _array_type(hint: Any, extras: list[Any]) -> types.Array:
    """Return numba's type of a declared array: records, or numbers of as many dimensions as is annotated, else one."""
    if get_origin(hint) is Records:
        return types.Array(from_dtype(dtype_of(get_args(hint)[0])), 1, "C")
    # The alias of numpy for arrays expands to shape and dtype of the element type; with numpy 2.5 to that type alone.
    element = get_args(hint)[-1]
    (element,) = get_args(element) or (element,)
    return types.Array(from_dtype(np.dtype(element)), next((one for one in extras if isinstance(one, int)), 1), "C")


class _Leaf(NamedTuple):
    path: tuple[str, ...]
    name: str
    place: str
    type: types.Array

    @property
    def is_own(self) -> bool:
        return self.place.startswith("[e")

    @property
    def in_batch(self) -> types.Array:
        return self.type.copy(ndim=self.type.ndim + (self.is_own or self.place == "[jobset]"))


class Layout(Generic[E]):
    """All that follows from a declared episode; ``LAYOUT`` in its module.

    Parameters
    ----------
    declared
        A named tuple. A field that is a named tuple itself is annotated with numba's type of it, and where its fields
        are found, behind the name of that array where it is another one.
    counted
        What jobsets differ in the number of: ``jobs``, and ``tasks`` where a job has several.
    """

    def __init__(self, declared: type[E], counted: tuple[str, ...] = ("jobs",)) -> None:
        self._leaves: list[_Leaf] = []
        classes: dict[str, Any] = {"__name__": declared.__module__}
        self.episode, source = self._read(declared, classes)
        kinds = {leaf.name: leaf.in_batch for leaf in self._leaves}
        kinds["following"] = types.Array(types.int64, 1, "C")
        kinds |= {f"{name}_at": types.Array(types.int64, 2, "C") for name in counted}
        self.made: Any = namedtuple("Batch", list(kinds), module=declared.__module__)  # type: ignore[misc]
        """Class of a batch; pickles and stored kernels find it by the name of this layout."""
        self.made.__qualname__ = "LAYOUT.made"
        self.batch = tuple_type(list(kinds.values()), self.made)
        """Numba's type of a batch; `episode` is that of one episode."""
        self.changing = (*(leaf.name for leaf in self._leaves if leaf.is_own), "following")
        """Names of the arrays that change while episodes are played."""
        lines = ["def episode_of(batch, e):", "    jobset = batch.tally[e, 0]['jobset']"]
        for name in counted:
            lines.append(f"    first_{name}, end_{name} = batch.{name}_at[jobset, 0], batch.{name}_at[jobset, 1]")
        lines.append(f"    return {source}")
        exec("\n".join(lines), classes)
        self.one = cast(Callable[[Batch, int], E], classes["episode_of"])
        """Returns an episode of a batch, as arrays that are parts of it; `episode_of` does so in kernels."""
        self.episode_of = inlined(self.one)

    def _read(self, record: Any, classes: dict[str, Any], path: tuple[str, ...] = (), *inner: Any) -> tuple[Any, str]:
        """Note the fields of a named tuple; return numba's type of it, and Python that takes one out of a batch."""
        classes[record.__name__] = record
        found, parts = [], []
        for number, (name, hint) in enumerate(get_type_hints(record, include_extras=True).items()):
            base, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
            if hasattr(base, "_fields"):
                kind, part = self._read(base, classes, (name,), *extras)
            else:
                place = inner[1][name] if inner else next(one for one in extras if isinstance(one, str))
                kind = inner[0].types[number] if inner else _array_type(base, extras)
                called, index = cast(re.Match[str], re.match(r"(\w*)(.*)", place)).groups()
                self._leaves.append(_Leaf((*path, name), called or name, index, kind))
                part = f"batch.{called or name}{index}"
            found.append(kind)
            parts.append(part)
        return inner[0] if inner else tuple_type(found, record), f"{record.__name__}({', '.join(parts)})"

    def side_by_side(self, count: int, one: E, **sizes: ArrayLike) -> Batch:
        """Return episodes of which none has begun.

        Parameters
        ----------
        count
            Number of episodes E.
        one
            An episode with room for every jobset. Arrays of which each episode has its own are repeated, the others are
            taken as they are, with the jobs of all jobsets.
        **sizes
            How much each jobset has of what is counted, shape ``(S,)``, or where that begins and ends, ``(S, 2)``.
        """
        arrays = {}
        for leaf in self._leaves:
            value: Any = one
            for field in leaf.path:
                value = getattr(value, field)
            arrays[leaf.name] = np.repeat(value[np.newaxis], count, axis=0) if leaf.is_own else value
        # A call of a kernel takes as long as there are arrays, and these are of one kind.
        arrays["tally"] = np.repeat(arrays["tally"], 3, axis=1)
        arrays["tally"]["over"][:, 0] = 1
        arrays["following"] = np.full(count, STAY)
        for name, size in sizes.items():
            ends = np.cumsum(size)
            at = np.stack([ends - size, ends], axis=1) if np.ndim(size) == 1 else size
            arrays[f"{name}_at"] = np.ascontiguousarray(at, dtype=np.int64)
        return cast(Batch, self.made(**arrays))
