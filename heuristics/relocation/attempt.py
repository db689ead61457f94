"""State of a relocation while a rule builds it, and the base of all rules."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from allocopt.arrays import IntArray, places_by_value
from allocopt.cluster.request import ClusterRequest
from allocopt.problems.kind import get_kind
from allocopt.problems.relocation.fitting import fitted, new_places
from allocopt.problems.relocation.order import ordered
from allocopt.problems.relocation.problem import Occupancy, PlacedJob, Places, RelocationProblem, WaitingGang
from allocopt.relocation import RelocationSolver
from allocopt.solving import Capabilities, Run, StopReason
from allocopt.solving.budget import Budget


class Attempt:
    """State of a relocation while a rule builds it: the jobs that have left, and the free amounts."""

    def __init__(self, problem: RelocationProblem) -> None:
        self.problem = problem
        self.groups = problem.groups
        self.open_nodes = np.flatnonzero(~problem.emptied)
        self.room = Occupancy.at_first(problem)
        self.staying = {job.id: job for job in problem.running}
        self.started: dict[str, Places] = {}
        self._number_of = {job.id: number for number, job in enumerate(problem.running)}

    def leave(self, job: PlacedJob) -> None:
        """Remove a job from its nodes."""
        self.room.release(job.request, job.places)
        del self.staying[job.id]

    def restore(self, job: PlacedJob) -> None:
        """Return a job that has left to its nodes."""
        self.room.enter(job.id, job.request, job.places)
        self.staying[job.id] = job

    def places(self, request: ClusterRequest, among: IntArray | None = None) -> Places | None:
        """Return nodes for a job among these, by default all that need not be emptied; None if it does not fit."""
        return fitted(request, self.room, self.open_nodes if among is None else among, self.groups)

    def start(self, gang: WaitingGang, places: Places) -> None:
        """Give nodes to a gang."""
        self.room.enter(gang.id, gang.request, places)
        self.started[gang.id] = places

    def victims(self) -> list[PlacedJob]:
        """Return the jobs that run and may leave, the cheapest first; of equal ones the last of the problem first."""
        jobs = (job for job in reversed(self.problem.running) if job.may_leave and job.id in self.staying)
        return sorted(jobs, key=leaving_cost)

    def leave_until_it_fits(
        self, request: ClusterRequest, victims: Sequence[PlacedJob], among: IntArray | None = None
    ) -> tuple[Places, int] | None:
        """Remove victims in order until another job fits; return its nodes, and the number of victims.

        Return None, and change nothing, if the job does not fit even if all victims leave.
        """
        places = self.places(request, among)
        if places is not None:
            return places, 0
        problem, room = self.problem, self.room
        numbers = np.array([self._number_of[job.id] for job in victims], dtype=np.int64)
        gone = 0

        def places_without(count: int) -> Places | None:
            nonlocal gone
            room.release_all(problem, numbers[gone:count])
            room.restore_all(problem, numbers[count:gone])
            gone = count
            return self.places(request, among)

        # A job that fits still fits after more victims leave, so find their least number by bisection.
        least, most = 1, len(victims)
        places = places_without(most)
        while places is not None and least < most:
            middle = (least + most) // 2
            least, most = (least, middle) if places_without(middle) is not None else (middle + 1, most)
        places = None if places is None else places_without(least)
        if places is None:
            room.restore_all(problem, numbers[:gone])
            return None
        for job in victims[:least]:
            del self.staying[job.id]
        return places, least

    def relocated(self) -> tuple[list[Places | None], list[Places]] | None:
        """Return the final places of all jobs, after moving those that have left if that is possible and cheaper.

        Return None if a job that must not be stopped has left and finds no new nodes.
        """
        left = (job for job in self.problem.running if job.id not in self.staying)
        moving = [job for job in left if job.stop_cost is None or move_cost(job) < job.stop_cost]
        moved = new_places(self.problem, self.room, moving)
        if moved is None:
            return None
        at = [job.places if job.id in self.staying else moved.get(job.id) for job in self.problem.running]
        return at, [self.started.get(gang.id, ()) for gang in self.problem.waiting]


class VictimRule(RelocationSolver):
    """Serve the gangs in order by a rule that chooses the victims for each.

    Jobs on nodes that have to be emptied leave first. At the end, a job that has left is moved if that is possible and
    cheaper, and stopped otherwise.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(frozenset(), frozenset(), "any")

    @abstractmethod
    def make_room(self, attempt: Attempt, gang: WaitingGang, run: Run) -> Places | None:
        """Remove victims and return the gang's nodes; None, with all victims restored, if there is no way."""

    def search(self, problem: RelocationProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        trivial = get_kind(self.kind).trivial(problem)
        if trivial is not None:
            run.offer(trivial)
        attempt = Attempt(problem)
        for job in (problem.running[number] for number in sorted(problem.leaving)):
            if not job.may_leave:
                return StopReason.COMPLETED
            attempt.leave(job)
        for gang in problem.waiting:
            if run.clock.expired():
                return StopReason.TIME_LIMIT
            if not self._serve(attempt, gang, run) and gang.wait_cost is None:
                return StopReason.COMPLETED
        found = attempt.relocated()
        if found is not None:
            run.offer(ordered(problem, *found).relocation)
        return StopReason.COMPLETED

    def _serve(self, attempt: Attempt, gang: WaitingGang, run: Run) -> bool:
        """Start a gang if that is possible and the victims cost no more than its wait; return whether it starts."""
        before = dict(attempt.staying)
        places = self.make_room(attempt, gang, run)
        if places is None:
            return False
        left = [job for job in before.values() if job.id not in attempt.staying]
        if gang.wait_cost is not None and sum(map(leaving_cost, left)) > gang.wait_cost:
            for job in left:
                attempt.restore(job)
            return False
        attempt.start(gang, places)
        return True


def move_cost(job: PlacedJob) -> float:
    """Return the cost of moving a job off all its nodes; infinity if it must not be moved."""
    return float("inf") if job.move_cost is None else job.move_cost + job.node_cost * len(job.places)


def leaving_cost(job: PlacedJob) -> float:
    """Return the lower of the costs of stopping a job and moving it off all its nodes; infinity if it must stay."""
    return min(float("inf") if job.stop_cost is None else job.stop_cost, move_cost(job))


def are_apart(one: Places, other: Places) -> bool:
    """Return whether two jobs have no node in common."""
    return {node for node, _ in one}.isdisjoint(node for node, _ in other)


def parts(request: ClusterRequest) -> Iterator[tuple[ClusterRequest, int]]:
    """Yield a request and a level for each part of a gang that has to lie within one group of this level.

    The parts are its segments, or the gang itself; level -1 stands for no limit to one group.
    """
    levels = [level for level, segment in enumerate(request.segments) if segment]
    whole = request.least_nodes == request.most_nodes == request.tasks
    if not levels or request.level >= 0 or not whole:
        yield request, request.level
        return
    segment = request.segments[levels[0]]
    one = request._replace(tasks=segment, least_nodes=segment, most_nodes=segment, most_tasks=1, segments=())
    for _ in range(request.tasks // segment):
        yield one, levels[0]


def group_of_nodes(attempt: Attempt, level: int) -> IntArray:
    """Return the group of every node at a level; 0 for all if it is -1."""
    return attempt.groups[level] if level >= 0 else np.zeros(attempt.problem.size, dtype=np.int64)


def by_group(nodes: IntArray, group: IntArray) -> list[IntArray]:
    """Return the nodes of each group."""
    return [nodes[part] for part in places_by_value(group[nodes])]


def victims_by_group(victims: Sequence[PlacedJob], group: IntArray) -> dict[int, list[PlacedJob]]:
    """Return, by group, the jobs that have a node in it, in order."""
    found: dict[int, list[PlacedJob]] = {}
    for job in victims:
        for one in set(group[[node for node, _ in job.places]].tolist()):
            found.setdefault(one, []).append(job)
    return found
