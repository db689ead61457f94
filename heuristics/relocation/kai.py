"""Solver ``kai-reclaim``: how KAI Scheduler tries to move jobs first, then chooses victims."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.request import ClusterRequest
from allocopt.heuristics.relocation.attempt import Attempt, VictimRule, group_of_nodes, parts
from allocopt.problems.placement.problem import NodeTasks
from allocopt.problems.relocation.fitting import new_places, serve
from allocopt.problems.relocation.problem import PlacedJob, Places, WaitingGang, sorted_places
from allocopt.solving import Run

MOST_CONSOLIDATED = 16


class KaiReclaim(VictimRule):
    """Make room for one more task at a time, with one more victim at a time, and never revise a choice.

    At first, this works as KAI's consolidation: all victims have to move, and only the first 16 candidates are tried.
    If it fails, it works as KAI's reclaim or preemption: victims that find no other nodes stop. For each number of
    tasks, candidates are tried from the lowest priority on. A candidate leaves together with earlier candidates on its
    node. If all tasks so far fit once these and the earlier victims have left, these become victims, and victims that
    still fit on their old nodes return. Otherwise these jobs return, and the next candidate is tried. (KAI Scheduler,
    ``docs/developer/action-framework.md`` and ``pkg/scheduler/actions/common/solvers``, commit 72de64fc; 16 is the
    default of the flag ``max-consolidation-preemptees``.) The cost of leaving stands for the priority, and a job
    further back in the problem counts as younger. Segments are served one after the other, as KAI does with subgroups.
    Quotas of queues are left out.
    """

    name: ClassVar[str] = "kai-reclaim"

    def make_room(self, attempt: Attempt, gang: WaitingGang, run: Run) -> Places | None:
        candidates = attempt.victims()
        movable = [job for job in candidates if job.move_cost is not None][:MOST_CONSOLIDATED]
        places = _solved(attempt, gang, movable, run, is_moving=True) if movable else None
        if places is None:
            stoppable = [job for job in candidates if job.stop_cost is not None]
            places = _solved(attempt, gang, stoppable, run, is_moving=False)
        return places


def _solved(
    attempt: Attempt, gang: WaitingGang, candidates: Sequence[PlacedJob], run: Run, is_moving: bool
) -> Places | None:
    """Return the gang's nodes, after victims have left; None, with all victims restored, if a task finds no node."""
    scenario = _Scenario(attempt, candidates, is_moving)
    found: list[NodeTasks] = []
    for request, level in parts(gang.request):
        places = scenario.served(request, level, run)
        if places is None:
            break
        # Keep the nodes of earlier parts occupied until all are found.
        attempt.room.enter(gang.id, request, places)
        scenario.held.append((request, places))
        found += places
    for request, places in scenario.held:
        attempt.room.release(request, places)
    if not serve(gang.request, found, attempt.groups):
        for job in scenario.victims:
            attempt.restore(job)
        return None
    return sorted_places(found)


class _Scenario:
    """The growing set of victims of one gang."""

    def __init__(self, attempt: Attempt, candidates: Sequence[PlacedJob], is_moving: bool) -> None:
        self._attempt, self._candidates, self._is_moving = attempt, candidates, is_moving
        self.victims: list[PlacedJob] = []
        self.held: list[tuple[ClusterRequest, Places]] = []

    def served(self, request: ClusterRequest, level: int, run: Run) -> Places | None:
        """Return the nodes of a part of the gang, adding its tasks one by one; None if one finds no node."""
        places: Places | None = None
        for tasks in range(1, request.tasks + 1):
            so_far = request
            if tasks < request.tasks:
                most = min(tasks, request.most_nodes)
                so_far = request._replace(tasks=tasks, least_nodes=1, most_nodes=most)
            places = self._with_more(so_far, level)
            if places is None or run.clock.expired():
                return None
        return places

    def _with_more(self, request: ClusterRequest, level: int) -> Places | None:
        """Return nodes for some tasks, with more victims if needed; None if no candidate helps."""
        attempt = self._attempt
        places = attempt.places(request)
        if places is not None:
            return places if self._is_valid(request, places) else None
        group = group_of_nodes(attempt, level)
        members = _members(group[attempt.open_nodes], attempt.open_nodes)
        tried: dict[int, list[PlacedJob]] = {}
        for latest in [job for job in self._candidates if job.id in attempt.staying]:
            for node, _ in latest.places:
                tried.setdefault(node, []).append(latest)
            for leaving in _distinct([tried[node] for node, _ in latest.places]):
                for job in leaving:
                    attempt.leave(job)
                # Only groups of the victims' nodes have changed.
                freed = {int(group[node]) for job in leaving for node, _ in job.places}
                near = [members[one] for one in sorted(freed) if one in members]
                places = attempt.places(request, np.concatenate(near)) if near else None
                self.victims += leaving
                if places is not None and self._is_valid(request, places):
                    self._restore(request, places)
                    return places
                for job in leaving:
                    self.victims.remove(job)
                    attempt.restore(job)
        return None

    def _restore(self, request: ClusterRequest, places: Places) -> None:
        """Return victims that still fit on their nodes, the most expensive first."""
        attempt = self._attempt
        attempt.room.enter("", request, places)
        for job in reversed(list(self.victims)):
            if attempt.room.fits(job.request, job.places):
                attempt.restore(job)
                self.victims.remove(job)
        attempt.room.release(request, places)

    def _is_valid(self, request: ClusterRequest, places: Places) -> bool:
        """Return whether all victims find other nodes; True if they need not move."""
        if not self._is_moving:
            return True
        room = self._attempt.room
        room.enter("", request, places)
        moved = new_places(self._attempt.problem, room, self.victims)
        room.release(request, places)
        return moved is not None and len(moved) == len(self.victims)


def _members(group: IntArray, nodes: IntArray) -> dict[int, IntArray]:
    """Return the nodes of each group."""
    order = np.argsort(group, kind="stable")
    names, first = np.unique(group[order], return_index=True)
    return dict(zip(names.tolist(), np.split(nodes[order], first[1:]), strict=True))


def _distinct(choices: Iterable[list[PlacedJob]]) -> list[list[PlacedJob]]:
    """Return the distinct lists of jobs."""
    found = {tuple(job.id for job in jobs): jobs for jobs in choices}
    return [list(jobs) for jobs in found.values()]
