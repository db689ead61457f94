"""Solvers ``cheapest-first`` and ``best-rack``: how schedulers of production choose victims.

Both serve one gang after the other, and stop running jobs until it fits. Both then *restore*: of the jobs stopped,
the last one first, each goes on if the gang fits without its nodes. Jobs whose nodes have to be emptied leave first.
At the end, a job that has left is moved if that is possible and cheaper, and stopped otherwise.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.request import ClusterRequest
from allocopt.problems.kind import get_kind
from allocopt.problems.placement.problem import NodeTasks
from allocopt.problems.relocation.fitting import fitted, serve
from allocopt.problems.relocation.order import ordered
from allocopt.problems.relocation.problem import (
    Occupancy,
    PlacedJob,
    Places,
    RelocationProblem,
    WaitingGang,
    sorted_places,
)
from allocopt.relocation import RelocationSolver
from allocopt.solving import Capabilities, Run, StopReason
from allocopt.solving.budget import Budget


class Attempt:
    """A relocation in the making: who has left, and what is free."""

    def __init__(self, problem: RelocationProblem) -> None:
        self.problem = problem
        self.groups = problem.groups
        self.open_nodes = np.flatnonzero(~problem.emptied)
        self.room = Occupancy.at_first(problem)
        self.staying = {job.id: job for job in problem.running}
        self.started: dict[str, Places] = {}

    def leave(self, job: PlacedJob) -> None:
        """Take a job off its nodes."""
        self.room.release(job.request, job.places)
        del self.staying[job.id]

    def restore(self, job: PlacedJob) -> None:
        """Let a job that has left go on where it was."""
        self.room.enter(job.id, job.request, job.places)
        self.staying[job.id] = job

    def places(self, request: ClusterRequest, among: IntArray | None = None) -> Places | None:
        """Return nodes for a job, among some or all that need not be emptied, or None."""
        return fitted(request, self.room, self.open_nodes if among is None else among, self.groups)

    def start(self, gang: WaitingGang, places: Places) -> None:
        """Give nodes to a gang."""
        self.room.enter(gang.id, gang.request, places)
        self.started[gang.id] = places

    def relocated(self) -> tuple[list[Places | None], list[Places]] | None:
        """Return the places of all jobs once those that have left are moved where they can be, or None.

        None means that a job has left which must not be stopped, and finds no new nodes.
        """
        moved: dict[str, Places] = {}
        left = [job for job in self.problem.running if job.id not in self.staying]
        for job in sorted(left, key=lambda job: -len(job.places)):
            is_cheaper = job.stop_cost is None or move_cost(job) < job.stop_cost
            places = self.places(job.request) if is_cheaper else None
            if places is not None:
                self.room.enter(job.id, job.request, places)
                moved[job.id] = places
            elif job.stop_cost is None:
                return None
        at = [job.places if job.id in self.staying else moved.get(job.id) for job in self.problem.running]
        return at, [self.started.get(gang.id, ()) for gang in self.problem.waiting]


class _VictimRule(RelocationSolver):
    """Serve the gangs in their order by a rule that chooses whom to stop for one of them."""

    capabilities: ClassVar[Capabilities] = Capabilities(frozenset(), frozenset(), "any")

    @abstractmethod
    def make_room(self, attempt: Attempt, gang: WaitingGang, run: Run) -> bool:
        """Let jobs leave and the gang start; return False, with nothing done, if nothing helps or is worth it."""

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
            if not self.make_room(attempt, gang, run) and gang.wait_cost is None:
                return StopReason.COMPLETED
        found = attempt.relocated()
        if found is not None:
            run.offer(ordered(problem, *found).relocation)
        return StopReason.COMPLETED


def move_cost(job: PlacedJob) -> float:
    """Return the cost of moving a job off all its nodes; infinity if it must not be moved."""
    return float("inf") if job.move_cost is None else job.move_cost + job.node_cost * len(job.places)


def leaving_cost(job: PlacedJob) -> float:
    """Return the lower cost of stopping a job and of moving it off all its nodes; infinity if it may do neither."""
    return min(float("inf") if job.stop_cost is None else job.stop_cost, move_cost(job))


def free_one_after_the_other(
    attempt: Attempt, request: ClusterRequest, victims: Sequence[PlacedJob], among: IntArray | None = None
) -> tuple[Places, list[PlacedJob]] | None:
    """Let the first of some jobs leave until another one fits, then restore those that need not leave.

    Return its nodes and who has left.

    None, and nothing is done, if it does not fit when all have left.
    """
    left: list[PlacedJob] = []
    places = attempt.places(request, among)
    # Who fits beside some jobs fits beside fewer: how many have to leave is found by bisection.
    least, most = 0, len(victims)
    if places is None:
        for job in victims:
            attempt.leave(job)
        if attempt.places(request, among) is None:
            for job in victims:
                attempt.restore(job)
            return None
        here = most
        while least < most:
            middle = (least + most) // 2
            _bring_to(attempt, victims, here, middle)
            here = middle
            least, most = (least, middle) if attempt.places(request, among) is not None else (middle + 1, most)
        _bring_to(attempt, victims, here, least)
        left = list(victims[:least])
        places = attempt.places(request, among)
        for job in list(reversed(left)):
            attempt.restore(job)
            # A job on none of the chosen nodes can stay; otherwise others may do.
            found = places if _are_apart(job.places, places or ()) else attempt.places(request, among)
            if found is None:
                attempt.leave(job)
            else:
                places = found
                left.remove(job)
    return None if places is None else (places, left)


def _are_apart(one: Places, other: Places) -> bool:
    return {node for node, _ in one}.isdisjoint(node for node, _ in other)


def _bring_to(attempt: Attempt, victims: Sequence[PlacedJob], here: int, there: int) -> None:
    for job in victims[here:there]:
        attempt.leave(job)
    for job in victims[there:here]:
        attempt.restore(job)


def _is_worth_it(gang: WaitingGang, left: Sequence[PlacedJob]) -> bool:
    return gang.wait_cost is None or sum(map(leaving_cost, left)) <= gang.wait_cost


class CheapestFirst(_VictimRule):
    """Stop the cheapest jobs of the cluster until the gang fits, then restore who need not have stopped.

    This is the order of Kueue's preemption within a cluster queue: candidates from the cheapest on, until the workload
    fits, then back in reverse (kueue.sigs.k8s.io, "Preemption").
    """

    name: ClassVar[str] = "cheapest-first"

    def make_room(self, attempt: Attempt, gang: WaitingGang, run: Run) -> bool:
        victims = sorted((job for job in attempt.staying.values() if job.may_leave), key=leaving_cost)
        found = free_one_after_the_other(attempt, gang.request, victims)
        if found is None:
            return False
        places, left = found
        if not _is_worth_it(gang, left):
            for job in left:
                attempt.restore(job)
            return False
        attempt.start(gang, places)
        return True


class BestRack(_VictimRule):
    """Try each group that could hold the gang, or one of its segments, and take the cheapest.

    In each group the cheapest jobs are stopped until the gang fits, then given back.
    """

    name: ClassVar[str] = "best-rack"

    def make_room(self, attempt: Attempt, gang: WaitingGang, run: Run) -> bool:
        parts = list(_parts(gang.request))
        found: list[NodeTasks] = []
        left: list[PlacedJob] = []
        is_left = np.ones(attempt.problem.size, dtype=np.bool_)
        for request, level in parts:
            best = self._cheapest(attempt, request, level, is_left, run)
            if best is None:
                break
            places, victims = best
            for job in victims:
                attempt.leave(job)
            left += victims
            found += places
            is_left[[node for node, _ in places]] = False
        # Parts are chosen one by one, and together they may break a rule.
        if not serve(gang.request, found, attempt.groups) or not _is_worth_it(gang, left):
            for job in left:
                attempt.restore(job)
            return False
        attempt.start(gang, sorted_places(found))
        return True

    def _cheapest(
        self, attempt: Attempt, request: ClusterRequest, level: int, is_left: BoolArray, run: Run
    ) -> tuple[Places, list[PlacedJob]] | None:
        """Return nodes and victims of the cheapest group, all of whom still run."""
        group = attempt.groups[level] if level >= 0 else np.zeros(attempt.problem.size, dtype=np.int64)
        in_group: dict[int, list[PlacedJob]] = {}
        for job in attempt.staying.values():
            if job.may_leave:
                for one in set(group[[node for node, _ in job.places]].tolist()):
                    in_group.setdefault(one, []).append(job)
        best: tuple[Places, list[PlacedJob]] | None = None
        least = float("inf")
        open_nodes = attempt.open_nodes[is_left[attempt.open_nodes]]
        by_group = open_nodes[np.argsort(group[open_nodes], kind="stable")]
        for nodes in np.split(by_group, np.flatnonzero(np.diff(group[by_group])) + 1) if len(by_group) else ():
            if run.clock.expired():
                break
            victims = sorted(in_group.get(int(group[nodes[0]]), ()), key=leaving_cost)
            found = free_one_after_the_other(attempt, request, victims, nodes)
            if found is None:
                continue
            for job in found[1]:
                attempt.restore(job)
            cost = sum(map(leaving_cost, found[1]))
            if cost < least:
                best, least = found, cost
        return best


def _parts(request: ClusterRequest) -> Iterator[tuple[ClusterRequest, int]]:
    """Yield what a gang asks for in one group each, and the level of the group: its segments, or itself."""
    levels = [level for level, segment in enumerate(request.segments) if segment]
    whole = request.least_nodes == request.most_nodes == request.tasks
    if not levels or request.level >= 0 or not whole:
        yield request, request.level
        return
    segment = request.segments[levels[0]]
    one = request._replace(tasks=segment, least_nodes=segment, most_nodes=segment, most_tasks=1, segments=())
    for _ in range(request.tasks // segment):
        yield one, levels[0]
