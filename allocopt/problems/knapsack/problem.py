"""Knapsack problems, which select the jobs that start now, and their solutions (DRAS paper, Eq. 1, 2, section 5.1).

Every objective is maximized:

- ``capability`` (Eq. 1): ``w1 * (mean wait of the selected) / t_max + w2 * (mean size of the selected) / N
  + w3 * N_used / N``, where t_max is the longest wait of all jobs, N the size of the machine, and N_used the units in
  use once the selected jobs have started. A mean over no jobs is 0, and so is the first term if no job has waited;
- ``capacity`` (Eq. 2): ``-(1 / c) * (sum of 1 / t_j over the jobs that keep waiting)``, where t_j is the run time
  that job j asks for and c the number of jobs that wait before the selection;
- ``linear``: the sum of the values of the selected jobs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

import numpy as np

from allocopt.arrays import FloatArray, IntArray, frozen_integers
from allocopt.errors import InvalidProblemError, InvalidSolutionError
from allocopt.notebook import html_table
from allocopt.problems.base import Sense, check_distinct, check_range, chosen

LARGEST_UNITS = 10**12  # largest number of units of a resource; sums of them are exact, even as floats
LARGEST_WAIT_S, LEAST_ESTIMATE_S, LARGEST_ESTIMATE_S = 1e12, 1e-3, 1e12
LARGEST_VALUE, LARGEST_WEIGHT = 1e12, 1e6

EQUAL_WEIGHTS = (1 / 3, 1 / 3, 1 / 3)  # the weights of Eq. 1 for Theta (DRAS paper, section 5.3)


class Reward(StrEnum):
    """Objective of a selection; the module's docstring has the formulas."""

    CAPABILITY = "capability"
    CAPACITY = "capacity"
    LINEAR = "linear"


# Field of a job that each objective needs.
NEEDED = {Reward.CAPABILITY: "wait_s", Reward.CAPACITY: "estimate_s", Reward.LINEAR: "value"}


@dataclass(frozen=True, slots=True)
class KnapsackJob:
    """A waiting job."""

    id: str
    request: Mapping[str, int]  # units that it asks for, by resource; 0 of resources that are left out
    wait_s: float | None = None  # seconds that it has waited
    estimate_s: float | None = None  # requested run time in seconds
    value: float | None = None  # value of selecting it under the objective ``linear``


@dataclass(frozen=True, slots=True)
class Selection:
    """The jobs that start."""

    jobs: tuple[int, ...]  # their indices in the problem, sorted
    slots: tuple[int, ...] = ()  # slot of each of these jobs; empty if the problem has no slots

    def __post_init__(self) -> None:
        order = sorted(range(len(self.jobs)), key=self.jobs.__getitem__)
        # The verifier checks whether there is a slot for each job.
        slots = self.slots if len(self.slots) != len(order) else [self.slots[place] for place in order]
        object.__setattr__(self, "jobs", tuple(int(self.jobs[place]) for place in order))
        object.__setattr__(self, "slots", tuple(int(slot) for slot in slots))

    def ids(self, problem: "KnapsackProblem") -> list[str]:
        """Return the ids of the selected jobs, as the solution file holds them."""
        return [problem.jobs[job].id for job in self.jobs]

    def slot_of(self, problem: "KnapsackProblem") -> dict[str, int]:
        """Return the slot of each selected job by its id; empty if there are no slots."""
        return dict(zip(self.ids(problem), self.slots, strict=False))

    @classmethod
    def from_ids(
        cls, problem: "KnapsackProblem", ids: Sequence[str], slot_of: Mapping[str, int] | None = None
    ) -> "Selection":
        """Return the selection of jobs by id.

        Raises `InvalidSolutionError` for an unknown job, a job without a slot, or a slot of a job that is not selected.
        """
        index = {job.id: number for number, job in enumerate(problem.jobs)}
        places = dict(slot_of or {})
        for job in ids:
            if job not in index:
                raise InvalidSolutionError(f"job {job!r} is not in the instance")
        for job in sorted(places.keys() - set(ids)):
            raise InvalidSolutionError(f"job {job!r} has a slot, but is not selected")
        for job in ids if places else ():
            if job not in places:
                raise InvalidSolutionError(f"job {job!r} has no slot")
        return cls(tuple(index[job] for job in ids), tuple(places[job] for job in ids if places))


@dataclass(frozen=True, slots=True, eq=False)
class KnapsackProblem:
    """The problem of selecting jobs that fit the free units.

    Raises `InvalidProblemError`, which names the job or the field, if a value breaks a rule below.

    Parameters
    ----------
    capacity
        Free units by resource. The first resource, the nodes, is the one that Eq. 1 counts and that slots divide.
    jobs
        The waiting jobs, at least one. A job may ask for more than is free; it cannot be selected then.
    weights
        w1, w2 and w3 of Eq. 1, not negative.
    total, used
        Units of the machine, and units in use before the selection, by resource. If one is left out, it follows from
        ``used + capacity = total``; if both are left out, nothing is in use. Units that are neither free nor in use
        are out of order.
    slots
        Sizes of the slots of contiguous nodes that divide the free units of the first resource, in sum at most the free
        units. A job has to fit into one slot. None if a job may get any units.
    """

    capacity: Mapping[str, int]
    jobs: tuple[KnapsackJob, ...]
    reward: Reward = Reward.CAPABILITY
    weights: tuple[float, float, float] = EQUAL_WEIGHTS
    total: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    slots: tuple[int, ...] | None = None
    name: str = "unnamed"
    # Units of each resource that each job asks for, shape ``(J, R)``.
    requests: IntArray = field(init=False, repr=False)
    numbers: FloatArray = field(init=False, repr=False)  # wait, estimate or value of each job: what the objective needs

    kind: ClassVar[str] = "knapsack"
    sense: ClassVar[Sense] = "max"

    def __post_init__(self) -> None:
        object.__setattr__(self, "jobs", tuple(self.jobs))
        object.__setattr__(self, "weights", tuple(self.weights))
        _check_units("capacity", self.capacity, None)
        _check_machine(self)
        object.__setattr__(self, "reward", chosen("objective", self.reward, Reward))
        if len(self.weights) != 3:
            raise InvalidProblemError("weights", f"has {len(self.weights)} values, must have 3: w1, w2, w3")
        for index, weight in enumerate(self.weights):
            check_range(f"weights[{index}]", weight, 0.0, LARGEST_WEIGHT)
        _check_jobs(self)
        table = [[job.request.get(resource, 0) for resource in self.capacity] for job in self.jobs]
        object.__setattr__(self, "requests", frozen_integers(table))
        numbers = np.array([getattr(job, NEEDED[self.reward]) for job in self.jobs], dtype=np.float64)
        numbers.setflags(write=False)
        object.__setattr__(self, "numbers", numbers)
        if self.slots is not None:
            object.__setattr__(self, "slots", tuple(self.slots))
            for index, size in enumerate(self.slots):
                if not isinstance(size, int | np.integer) or size < 1:
                    raise InvalidProblemError(f"slots[{index}]", f"is {size!r}, must be a whole number from 1 on")
            if sum(self.slots) > self.free:
                fault = f"hold {sum(self.slots)} units together, but only {self.free} are free"
                raise InvalidProblemError("slots", fault)

    def _repr_html_(self) -> str:
        capacities = ((f"free {name}", int(units)) for name, units in self.capacity.items())
        facts = (("jobs", len(self.jobs)), *capacities, ("objective", str(self.reward)))
        return html_table(f"Knapsack problem {self.name}", facts)

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of the resources."""
        return tuple(self.capacity)

    @property
    def free(self) -> int:
        """Free units of the first resource."""
        return next(iter(self.capacity.values()))

    @property
    def size(self) -> int:
        """Units of the first resource that the machine has: N."""
        return self.total[self.resources[0]]

    @property
    def in_use(self) -> int:
        """Units of the first resource that are in use before the selection."""
        return self.used[self.resources[0]]

    @property
    def sizes(self) -> IntArray:
        """Units of the first resource that each job asks for, shape ``(J,)``."""
        return self.requests[:, 0]

    @property
    def fitting(self) -> IntArray:
        """Jobs that fit the free units, and a slot, if no other job is selected."""
        room = np.array(list(self.capacity.values()), dtype=np.int64)
        if self.slots is not None:
            room[0] = min(int(room[0]), max(self.slots, default=0))
        return np.flatnonzero((self.requests <= room).all(axis=1))

    def most_jobs(self, jobs: IntArray) -> int:
        """Return an upper bound of how many of these jobs fit together, from the smallest requests by resource."""
        counts = [len(jobs)]
        for column, free in zip(self.requests[jobs].T, self.capacity.values(), strict=True):
            counts.append(int(np.searchsorted(np.cumsum(np.sort(column)), free, side="right")))
        return min(counts)

    def objective(self, solution: Selection) -> float:
        """Return the objective of a selection, even if it does not fit."""
        jobs = np.array(solution.jobs, dtype=np.int64)
        if self.reward is Reward.LINEAR:
            return float(self.numbers[jobs].sum())
        if self.reward is Reward.CAPACITY:
            left = np.delete(self.numbers, jobs)
            return -float((1.0 / left).sum()) / len(self.jobs) if len(left) else 0.0
        starvation = size = 0.0
        if len(jobs):
            longest = float(self.numbers.max())
            starvation = float(self.numbers[jobs].mean()) / longest if longest > 0 else 0.0
            size = float(self.sizes[jobs].mean()) / self.size
        utilization = (self.in_use + int(self.sizes[jobs].sum())) / self.size
        first, second, third = self.weights
        return first * starvation + second * size + third * utilization


def _check_units(place: str, units: Mapping[str, int], known: Mapping[str, int] | None) -> None:
    if known is None and not units:
        raise InvalidProblemError(place, "is empty, must name at least one resource")
    for resource, count in units.items():
        if known is not None and resource not in known:
            fault = f"unknown resource {resource!r}; the capacity has {', '.join(known)}"
            raise InvalidProblemError(place, fault)
        if not isinstance(count, int | np.integer) or not 0 <= count <= LARGEST_UNITS:
            fault = f"is {count!r}, must be a whole number within 0 .. {LARGEST_UNITS}"
            raise InvalidProblemError(f"{place}.{resource}", fault)


def _check_machine(problem: KnapsackProblem) -> None:
    _check_units("total", problem.total, problem.capacity)
    _check_units("used", problem.used, problem.capacity)
    # Derive the one of total and used that is missing. If both are given, some units may be out of order.
    total: dict[str, int] = {}
    used: dict[str, int] = {}
    for resource, free in problem.capacity.items():
        there = problem.total.get(resource)
        busy = problem.used.get(resource, 0 if there is None else there - free)
        total[resource] = int(busy + free if there is None else there)
        used[resource] = int(busy)
        if busy < 0 or busy + free > total[resource]:
            fault = f"is {total[resource]}, but {max(0, busy)} units are in use and {free} are free"
            raise InvalidProblemError(f"total.{resource}", fault)
    first = next(iter(total))
    if total[first] < 1:
        raise InvalidProblemError(f"total.{first}", "is 0, must be at least 1")
    object.__setattr__(problem, "capacity", {name: int(units) for name, units in problem.capacity.items()})
    object.__setattr__(problem, "total", total)
    object.__setattr__(problem, "used", used)


def _check_jobs(problem: KnapsackProblem) -> None:
    if not problem.jobs:
        raise InvalidProblemError("jobs", "is empty, must hold at least one job")
    check_distinct("jobs", (job.id for job in problem.jobs))
    needed = NEEDED[problem.reward]
    for index, job in enumerate(problem.jobs):
        place = f"jobs[{index}]"
        _check_units(f"{place}.request", job.request, problem.capacity)
        if not any(job.request.values()):
            raise InvalidProblemError(f"{place}.request", f"job {job.id!r} asks for nothing, must ask for a unit")
        if getattr(job, needed) is None:
            fault = f"is missing; the objective {str(problem.reward)!r} needs it for job {job.id!r}"
            raise InvalidProblemError(f"{place}.{needed}", fault)
        check_range(f"{place}.wait_s", job.wait_s, 0.0, LARGEST_WAIT_S)
        check_range(f"{place}.estimate_s", job.estimate_s, LEAST_ESTIMATE_S, LARGEST_ESTIMATE_S)
        check_range(f"{place}.value", job.value, -LARGEST_VALUE, LARGEST_VALUE)


def verify_selection(problem: KnapsackProblem, solution: Selection) -> float:
    """Return the objective of a selection; raise `InvalidSolutionError`, with the amount, if it breaks a rule."""
    for number in solution.jobs:
        if not 0 <= number < len(problem.jobs):
            raise InvalidSolutionError(f"job number {number} is selected, must be within 0..{len(problem.jobs) - 1}")
    for number, count in Counter(solution.jobs).items():
        if count > 1:
            raise InvalidSolutionError(f"job {problem.jobs[number].id!r} is selected twice")
    asked = problem.requests[list(solution.jobs)].sum(axis=0)
    for resource, units in zip(problem.resources, asked.tolist(), strict=True):
        free = problem.capacity[resource]
        if units > free:
            raise InvalidSolutionError(f"the selected jobs ask for {units} {resource}, but only {free} are free")
    _check_slots(problem, solution)
    return problem.objective(solution)


def _check_slots(problem: KnapsackProblem, solution: Selection) -> None:
    if problem.slots is None:
        if solution.slots:
            raise InvalidSolutionError("the solution gives slots, but the instance has none")
        return
    if len(solution.slots) != len(solution.jobs):
        raise InvalidSolutionError(f"{len(solution.jobs)} jobs are selected, but {len(solution.slots)} slots are given")
    for number, slot in zip(solution.jobs, solution.slots, strict=True):
        if not 0 <= slot < len(problem.slots):
            raise InvalidSolutionError(f"job {problem.jobs[number].id!r} gets slot {slot}, which does not exist")
    held = np.zeros(len(problem.slots), dtype=np.int64)
    np.add.at(held, np.array(solution.slots, dtype=np.int64), problem.sizes[list(solution.jobs)])
    for slot, (units, size) in enumerate(zip(held.tolist(), problem.slots, strict=True)):
        if units > size:
            raise InvalidSolutionError(f"the jobs in slot {slot} ask for {units} units, but it has {size}")
