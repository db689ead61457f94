"""Relocation problems, their solutions and verifier: running jobs stop or move so that gangs start and nodes empty.

A running job stays, moves to other nodes, or stops. The problem states the cost of each, and jobs that must not stop or
must not move. A waiting gang starts or keeps waiting at a cost; some gangs must start. At the end no job runs on nodes
that have to be emptied. Minimize the costs of stops, moves and gangs that keep waiting.

A solution also has the order of the steps. A move frees the old nodes of a job before it takes the new ones, as when a
batch system requeues it. If jobs wait for one another's nodes in a circle, one of them has to be *parked*: it leaves
first and returns when its new nodes are free.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, NamedTuple

import numpy as np

from allocopt.arrays import BoolArray, IntArray, frozen_integers
from allocopt.cluster.request import ClusterRequest
from allocopt.cluster.topology import Topology
from allocopt.errors import InvalidProblemError, InvalidSolutionError
from allocopt.notebook import html_table
from allocopt.problems.base import Sense, check_distinct, check_range
from allocopt.problems.placement.problem import (
    LARGEST_COUNT,
    NodeTasks,
    check_amounts,
    check_places,
    check_request,
)

LARGEST_COST = 1e12

Places = tuple[NodeTasks, ...]


class Action(StrEnum):
    """Action of a step."""

    STOP = "stop"
    """A running job leaves its nodes and gets no others."""
    PARK = "park"
    """A running job leaves its nodes; a later move gives it new ones."""
    MOVE = "move"
    """A running or parked job gets its new nodes; what it held before is free at once."""
    START = "start"
    """A waiting gang gets its nodes."""


GETS_NODES = (Action.MOVE, Action.START)
"""Actions that give a job its final nodes."""


class Step(NamedTuple):
    """One step: an action and the id of its job."""

    action: Action
    job: str


@dataclass(frozen=True, slots=True, eq=False)
class PlacedJob:
    """A running job, and the costs of stopping and moving it.

    Parameters
    ----------
    id
        Name of the job.
    request
        Its request, which new nodes have to meet.
    places
        Its present nodes, and its tasks on each.
    stop_cost
        Cost of stopping it; None if it must not be stopped.
    move_cost
        Cost of moving it to any nodes; None if it must not be moved.
    node_cost
        Cost of each node that it gives up when it moves, in addition to `move_cost`.
    """

    id: str
    request: ClusterRequest
    places: Places
    stop_cost: float | None = None
    move_cost: float | None = None
    node_cost: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", sorted_places(self.places))

    @property
    def may_leave(self) -> bool:
        """Whether it may stop or move."""
        return self.stop_cost is not None or self.move_cost is not None


@dataclass(frozen=True, slots=True, eq=False)
class WaitingGang:
    """A waiting job, and the cost if it keeps waiting; None if it must start."""

    id: str
    request: ClusterRequest
    wait_cost: float | None = None


@dataclass(frozen=True, slots=True)
class Relocation:
    """The final nodes of every job, and the steps that lead there.

    Parameters
    ----------
    running
        Nodes and tasks of each running job at the end; None if it is stopped.
    waiting
        Nodes and tasks of each waiting gang; empty if it keeps waiting.
    steps
        All stops, moves and starts in order: one of the possible orders, with the fewest parked jobs found
        (`allocopt.problems.relocation.order`).
    """

    running: tuple[Places | None, ...]
    waiting: tuple[Places, ...]
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        running = (None if places is None else sorted_places(places) for places in self.running)
        object.__setattr__(self, "running", tuple(running))
        object.__setattr__(self, "waiting", tuple(map(sorted_places, self.waiting)))
        object.__setattr__(self, "steps", tuple(Step(Action(action), str(job)) for action, job in self.steps))

    def stopped(self, problem: "RelocationProblem") -> list[PlacedJob]:
        """Return the jobs that are stopped."""
        return [job for job, places in zip(problem.running, self.running, strict=True) if places is None]

    def moved(self, problem: "RelocationProblem") -> list[PlacedJob]:
        """Return the jobs that move."""
        pairs = zip(problem.running, self.running, strict=True)
        return [job for job, places in pairs if places is not None and places != job.places]

    @property
    def parked(self) -> list[str]:
        """Ids of the jobs that leave their nodes before their new ones are free."""
        return [job for action, job in self.steps if action is Action.PARK]


@dataclass(frozen=True, slots=True, eq=False)
class RelocationProblem:
    """The problem of making room on a running cluster.

    Raises `InvalidProblemError`, which names the job or the field, if shapes do not match, a number is out of range, or
    the running jobs do not fit their present nodes.

    Parameters
    ----------
    topology
        Groups of the nodes, by level.
    resources
        Distinct names of the resources of nodes.
    capacity
        Amounts of each node for all jobs of the problem, shape ``(nodes, resources)``.
    running, waiting
        The jobs, with distinct ids.
    emptied
        Whether each node has to be empty at the end, shape ``(nodes,)``.
    """

    topology: Topology
    resources: tuple[str, ...]
    capacity: IntArray
    running: tuple[PlacedJob, ...]
    waiting: tuple[WaitingGang, ...]
    emptied: BoolArray
    name: str = "unnamed"
    pieces: IntArray = field(init=False, repr=False)
    """For each node of each running job: number of the job, node and tasks, shape ``(3, n)``."""
    taken: IntArray = field(init=False, repr=False)
    """Amounts that each of `pieces` takes of its node, shape ``(n, resources)``."""
    is_exclusive: BoolArray = field(init=False, repr=False)
    """Whether each running job is exclusive, shape ``(running,)``."""

    kind: ClassVar[str] = "relocation"
    sense: ClassVar[Sense] = "min"

    def __post_init__(self) -> None:
        object.__setattr__(self, "running", tuple(self.running))
        object.__setattr__(self, "waiting", tuple(self.waiting))
        object.__setattr__(self, "capacity", frozen_integers(self.capacity))
        shape, levels = (self.topology.size, len(self.resources)), len(self.topology.hops) - 1
        if len(set(self.resources)) < len(self.resources):
            raise InvalidProblemError("resources", f"names one twice: {', '.join(self.resources)}")
        if self.capacity.shape != shape:
            fault = f"has shape {self.capacity.shape}, must be (nodes, resources), here {shape}"
            raise InvalidProblemError("capacity", fault)
        for name, amounts in zip(self.resources, self.capacity.T, strict=True):
            check_amounts(f"capacity.{name}", amounts)
        if np.shape(self.emptied) != shape[:1] or np.asarray(self.emptied).dtype != np.bool_:
            raise InvalidProblemError("emptied", f"must be a Boolean array of length {shape[0]}")
        emptied = np.array(self.emptied)
        emptied.setflags(write=False)
        object.__setattr__(self, "emptied", emptied)
        if not self.waiting and not self.emptied.any():
            raise InvalidProblemError("waiting", "is empty, and no node has to be emptied: there is nothing to do")
        check_distinct("running", (job.id for job in self.running))
        check_distinct("waiting", (gang.id for gang in self.waiting))
        for both in sorted({job.id for job in self.running} & {gang.id for gang in self.waiting}):
            raise InvalidProblemError("waiting", f"job {both!r} runs already")
        for index, job in enumerate(self.running):
            place = f"running[{index}]"
            check_request(place, job.request, self.resources, self.topology.size, levels)
            check_range(f"{place}.stop_cost", job.stop_cost, 0.0, LARGEST_COST)
            check_range(f"{place}.move_cost", job.move_cost, 0.0, LARGEST_COST)
            check_range(f"{place}.node_cost", job.node_cost, 0.0, LARGEST_COST)
            if not job.places:
                raise InvalidProblemError(f"{place}.places", f"is empty, job {job.id!r} must have a node")
            check_range(f"{place}.places", max(tasks for _, tasks in job.places), 1, LARGEST_COUNT)
        for index, gang in enumerate(self.waiting):
            check_request(f"waiting[{index}]", gang.request, self.resources, self.topology.size, levels)
            check_range(f"waiting[{index}].wait_cost", gang.wait_cost, 0.0, LARGEST_COST)
        places = [(number, *piece) for number, job in enumerate(self.running) for piece in job.places]
        object.__setattr__(self, "pieces", frozen_integers(np.array(places, dtype=np.int64).reshape(-1, 3).T))
        object.__setattr__(self, "taken", frozen_integers(self._taken()))
        is_exclusive = np.array([job.request.is_exclusive for job in self.running], dtype=np.bool_)
        is_exclusive.setflags(write=False)
        object.__setattr__(self, "is_exclusive", is_exclusive)
        _check_places_now(self)

    def _repr_html_(self) -> str:
        facts = (
            ("nodes", self.size),
            ("running jobs", len(self.running)),
            ("waiting gangs", len(self.waiting)),
            ("nodes to be emptied", int(self.emptied.sum())),
        )
        return html_table(f"Relocation problem {self.name}", facts)

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.capacity)

    @property
    def groups(self) -> IntArray:
        """Group of every node by level below the top, shape ``(L, nodes)``."""
        return np.ascontiguousarray(self.topology.groups_of(np.arange(self.size)))

    def _taken(self) -> IntArray:
        jobs, _, tasks = self.pieces
        shape, requests = (len(self.running), len(self.resources)), [job.request for job in self.running]
        per_node = np.array([one.per_node for one in requests], dtype=np.int64).reshape(shape)
        per_task = np.array([one.per_task for one in requests], dtype=np.int64).reshape(shape)
        taken: IntArray = per_node[jobs] + tasks[:, None] * per_task[jobs]
        return taken

    @property
    def leaving(self) -> frozenset[int]:
        """Numbers of the running jobs on nodes that have to be emptied."""
        jobs, nodes, _ = self.pieces
        return frozenset(np.unique(jobs[self.emptied[nodes]]).tolist())

    def ends(self, solution: Relocation) -> dict[str, Places]:
        """Return the final nodes and tasks of jobs, by id, without jobs that have no nodes."""
        return dict(_before_and_after(self, solution)[1])

    def costs(self, solution: Relocation) -> Iterator[tuple[str, float]]:
        """Yield the id of every job that stops, moves or keeps waiting, and the cost of that."""
        for job, places in zip(self.running, solution.running, strict=True):
            if places is None:
                yield job.id, float(job.stop_cost or 0.0)
            elif places != job.places:
                given_up = {node for node, _ in job.places} - {node for node, _ in places}
                yield job.id, float(job.move_cost or 0.0) + job.node_cost * len(given_up)
        for gang, places in zip(self.waiting, solution.waiting, strict=True):
            if not places:
                yield gang.id, float(gang.wait_cost or 0.0)

    def steps_and_costs(self, solution: Relocation) -> Iterator[tuple[Action, str, float | None]]:
        """Yield the steps with the cost of each stop and move; None for other steps."""
        costs = dict(self.costs(solution))
        for action, job in solution.steps:
            yield action, job, costs.get(job) if action in (Action.STOP, Action.MOVE) else None

    def objective(self, solution: Relocation) -> float:
        """Return the objective of a solution, even if it breaks rules."""
        return float(sum(cost for _, cost in self.costs(solution)))


class Occupancy:
    """The jobs on nodes and the free amounts, as jobs come and go.

    `enter` raises `InvalidSolutionError` if there is no room for a job.
    """

    def __init__(self, problem: RelocationProblem) -> None:
        self._resources = problem.resources
        self.free = problem.capacity.copy()
        self.users = np.zeros(problem.size, dtype=np.int64)
        self.alone = np.zeros(problem.size, dtype=np.bool_)  # whether an exclusive job runs on each node

    @classmethod
    def at_first(cls, problem: RelocationProblem) -> "Occupancy":
        """Return the occupancy before the first step."""
        found = cls(problem)
        jobs, nodes, _ = problem.pieces
        np.subtract.at(found.free, nodes, problem.taken)
        found.users += np.bincount(nodes, minlength=problem.size)
        found.alone[nodes[problem.is_exclusive[jobs]]] = True
        return found

    def copy(self) -> "Occupancy":
        """Return a copy that can be changed independently."""
        found = copy(self)
        found.free, found.users, found.alone = self.free.copy(), self.users.copy(), self.alone.copy()
        return found

    def fits(self, request: ClusterRequest, places: Places) -> bool:
        """Return whether there is room for a job on these nodes."""
        nodes, amounts = _amounts(request, places)
        is_shared = self.alone[nodes].any() or (request.is_exclusive and self.users[nodes].any())
        return not is_shared and bool((amounts <= self.free[nodes]).all())

    def enter(self, job: str, request: ClusterRequest, places: Places) -> None:
        """Add a job to its nodes."""
        nodes, amounts = _amounts(request, places)
        shared = self.alone[nodes] | (request.is_exclusive & (self.users[nodes] > 0))
        if shared.any():
            node = int(nodes[shared][0])
            raise InvalidSolutionError(f"job {job!r} cannot use node {node}: the job, or one on the node, is exclusive")
        for place, resource in np.argwhere(amounts > self.free[nodes]).tolist():
            node, name = int(nodes[place]), self._resources[resource]
            fault = f"asks for {amounts[place, resource]} {name} on node {node}, {self.free[node, resource]} are free"
            raise InvalidSolutionError(f"job {job!r} {fault}")
        self._change(request, nodes, amounts, 1)

    def release(self, request: ClusterRequest, places: Places) -> None:
        """Remove a job from its nodes."""
        self._change(request, *_amounts(request, places), -1)

    def release_all(self, problem: RelocationProblem, numbers: IntArray) -> None:
        """Remove running jobs, given by number, from the nodes that they have in the problem."""
        self._change_all(problem, numbers, -1)

    def restore_all(self, problem: RelocationProblem, numbers: IntArray) -> None:
        """Add running jobs, given by number, to the nodes that they have in the problem, where there must be room."""
        self._change_all(problem, numbers, 1)

    def _change_all(self, problem: RelocationProblem, numbers: IntArray, sign: int) -> None:
        jobs, nodes, _ = problem.pieces
        # The pieces of a job follow one another.
        first, end = np.searchsorted(jobs, numbers), np.searchsorted(jobs, numbers, side="right")
        counts = end - first
        pieces = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        np.subtract.at(self.free, nodes[pieces], sign * problem.taken[pieces])
        np.add.at(self.users, nodes[pieces], sign)
        self.alone[nodes[pieces[problem.is_exclusive[jobs[pieces]]]]] = sign > 0

    def _change(self, request: ClusterRequest, nodes: IntArray, amounts: IntArray, sign: int) -> None:
        self.free[nodes] -= sign * amounts
        self.users[nodes] += sign
        if request.is_exclusive:
            self.alone[nodes] = sign > 0


def _check_places_now(problem: RelocationProblem) -> None:
    """Raise `InvalidProblemError` if running jobs do not fit their present nodes."""
    if _is_possible(problem):
        return
    # Repeat the check job by job, so that the error names the job.
    try:
        room = Occupancy(problem)
        for job in problem.running:
            check_nodes(f"job {job.id!r}", job.places, problem.size)
            room.enter(job.id, job.request, job.places)
    except InvalidSolutionError as error:
        raise InvalidProblemError("running", str(error)) from None


def _is_possible(problem: RelocationProblem) -> bool:
    """Return whether the running jobs fit their present nodes."""
    jobs, nodes, tasks = problem.pieces
    if not len(nodes):
        return True
    if nodes.min() < 0 or nodes.max() >= problem.size or tasks.min() < 1:
        return False
    is_twice = len(np.unique(jobs * problem.size + nodes)) < len(nodes)
    room = Occupancy.at_first(problem)
    return not is_twice and bool((room.free >= 0).all() and not (room.alone & (room.users > 1)).any())


def sorted_places(places: Sequence[tuple[int, int]]) -> Places:
    """Return nodes and tasks, sorted by node."""
    if isinstance(places, tuple) and all(type(one) is NodeTasks for one in places) and list(places) == sorted(places):
        return places
    return tuple(sorted(NodeTasks(int(node), int(tasks)) for node, tasks in places))


def check_nodes(name: str, places: Places, size: int) -> None:
    """Raise `InvalidSolutionError` unless all nodes exist, are distinct, and have a task."""
    nodes = [node for node, _ in places]
    for node, tasks in places:
        if not 0 <= node < size or tasks < 1:
            raise InvalidSolutionError(f"{name} has {tasks} tasks on node {node}; nodes are 0 .. {size - 1}")
    if len(set(nodes)) < len(nodes):
        raise InvalidSolutionError(f"{name} has a node twice")


def verify_relocation(problem: RelocationProblem, solution: Relocation) -> float:
    """Return the cost of a relocation; raise `InvalidSolutionError`, with job or node, if it breaks a rule.

    The check carries out all steps in order; each has to find the room that it needs.
    """
    pairs = (("running jobs", problem.running, solution.running), ("waiting gangs", problem.waiting, solution.waiting))
    for what, jobs, places in pairs:
        if len(jobs) != len(places):
            raise InvalidSolutionError(f"the solution has {len(places)} {what}, the problem {len(jobs)}")
    groups = problem.groups
    is_staying = np.array([job.places == at for job, at in zip(problem.running, solution.running, strict=True)])
    for job, at in zip(problem.running, solution.running, strict=True):
        if at != job.places:
            _check_change(problem, job, at, groups)
    for number in sorted(problem.leaving):
        if is_staying[number]:
            _check_emptied(problem, problem.running[number].id, problem.running[number].places)
    for gang, at in zip(problem.waiting, solution.waiting, strict=True):
        if at:
            check_places(f"job {gang.id!r}", gang.request, at, groups)
            _check_emptied(problem, gang.id, at)
        elif gang.wait_cost is None:
            raise InvalidSolutionError(f"job {gang.id!r} keeps waiting, but it must start")
    _check_steps(problem, solution)
    return problem.objective(solution)


def _check_change(problem: RelocationProblem, job: PlacedJob, at: Places | None, groups: IntArray) -> None:
    """Raise `InvalidSolutionError` unless a running job may stop, or move to these nodes."""
    if at is None:
        if job.stop_cost is None:
            raise InvalidSolutionError(f"job {job.id!r} is stopped, which it must not be")
        return
    if job.move_cost is None:
        raise InvalidSolutionError(f"job {job.id!r} is moved, which it must not be")
    check_places(f"job {job.id!r}", job.request, at, groups)
    _check_emptied(problem, job.id, at)


def _check_emptied(problem: RelocationProblem, job: str, places: Places) -> None:
    for node, _ in places:
        if problem.emptied[node]:
            raise InvalidSolutionError(f"job {job!r} is on node {node} at the end, which has to be empty")


def _check_steps(problem: RelocationProblem, solution: Relocation) -> None:
    """Carry out the steps in order; raise `InvalidSolutionError` unless they lead to the solution's final nodes."""
    held, wanted = _before_and_after(problem, solution)
    requests = {job.id: job.request for job in problem.running}
    requests |= {gang.id: gang.request for gang in problem.waiting}
    changes = {
        Action.STOP: {job.id for job in solution.stopped(problem)},
        Action.MOVE: {job.id for job in solution.moved(problem)},
        Action.START: {gang.id for gang, at in zip(problem.waiting, solution.waiting, strict=True) if at},
    }
    changes[Action.PARK] = changes[Action.MOVE]
    room = Occupancy.at_first(problem)
    done: set[str] = set()
    for number, (action, job) in enumerate(solution.steps, 1):
        step = f"step {number}, {action} {job!r}"
        if job not in requests:
            raise InvalidSolutionError(f"{step}: the job is not in the instance")
        if job not in changes[action] or job in done or (action is Action.PARK and job not in held):
            raise InvalidSolutionError(f"{step}: the solution does not have this action for the job, or has it twice")
        if job in held:
            room.release(requests[job], held.pop(job))
        if action is Action.PARK:
            continue
        done.add(job)
        if action is not Action.STOP:
            room.enter(job, requests[job], wanted[job])
    for missing in sorted((changes[Action.STOP] | changes[Action.MOVE] | changes[Action.START]) - done):
        raise InvalidSolutionError(f"the step that stops, moves or starts job {missing!r} is missing")


def _before_and_after(
    problem: RelocationProblem, solution: Relocation
) -> tuple[dict[str, Places], Mapping[str, Places]]:
    """Return the places of running jobs, by id, before the first step and after the last one."""
    before = {job.id: job.places for job in problem.running}
    after = {job.id: at for job, at in zip(problem.running, solution.running, strict=True) if at is not None}
    after |= {gang.id: at for gang, at in zip(problem.waiting, solution.waiting, strict=True) if at}
    return before, after


def _amounts(request: ClusterRequest, places: Places) -> tuple[IntArray, IntArray]:
    """Return the nodes of a job, and the amounts that it takes of each."""
    nodes, tasks = np.array(places, dtype=np.int64).reshape(-1, 2).T
    return nodes, request.use(tasks)
