"""Solvers ``volcano-gangpreempt`` and ``volcano-preempt``: the two preempting actions of Volcano within a queue."""

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.request import ClusterRequest
from allocopt.heuristics.relocation.attempt import (
    Attempt,
    VictimRule,
    by_group,
    group_of_nodes,
    leaving_cost,
    victims_by_group,
)
from allocopt.problems.relocation.fitting import serve
from allocopt.problems.relocation.problem import PlacedJob, Places, WaitingGang, sorted_places
from allocopt.solving import Run


class VolcanoGangPreempt(VictimRule):
    """Try the groups that could hold the gang in turn, and stop the cheapest jobs in the first one that works.

    In a domain, jobs leave one after the other until the gang fits on their nodes and the idle ones. The lowest
    priority comes first, and of equal jobs the one with the largest share of its nodes in the domain. All these jobs
    are evicted; none is restored. The first domain in which the gang fits ends the search (Volcano,
    ``pkg/scheduler/actions/gangpreempt/gangpreempt.go`` and ``pkg/scheduler/actions/utils/bundle.go``, commit
    ed72c7c8). If a gang is not bound to one group, its domain is the cluster. The cost of leaving stands for the
    priority. Jobs have no tasks beyond their minimum, so there are no "safe" bundles. Volcano tries eight domains
    unless ``maxDomains`` is set; here all domains are tried, in the order of their numbers.
    """

    name: ClassVar[str] = "volcano-gangpreempt"

    def make_room(self, attempt: Attempt, gang: WaitingGang, run: Run) -> Places | None:
        idle = attempt.places(gang.request)
        if idle is not None:
            return idle
        group = group_of_nodes(attempt, gang.request.level)
        in_group = victims_by_group(attempt.victims(), group)
        for nodes in by_group(attempt.open_nodes, group):
            if run.clock.expired():
                return None
            here = int(group[nodes[0]])
            bundles = _bundles(in_group.get(here, ()), group == here)
            found = attempt.leave_until_it_fits(gang.request, bundles, nodes)
            if found is not None:
                return found[0]
        return None


class VolcanoPreempt(VictimRule):
    """Place the tasks of the gang one after the other, each on the emptiest node where stopping jobs makes room.

    On a node, the cheapest jobs stop until the task fits. The first node where it fits is taken, regardless of the cost
    of its victims (Volcano, ``docs/design/preempt-action.md`` and ``normalPreempt`` of
    ``pkg/scheduler/actions/preempt/preempt.go``, commit ed72c7c8). Nodes with the largest free share come first, as by
    the default weights of the plugin nodeorder. Gangs bound to groups keep waiting, because the action skips jobs with
    a ``networkTopology``. The cost of leaving stands for the priority; a victim stops as a whole.
    """

    name: ClassVar[str] = "volcano-preempt"

    def make_room(self, attempt: Attempt, gang: WaitingGang, run: Run) -> Places | None:
        request = gang.request
        idle = attempt.places(request)
        if idle is not None:
            return idle
        if any(request.most_groups) or any(request.segments):
            return None
        task = request._replace(tasks=1, least_nodes=1, most_nodes=1, most_tasks=1)
        tasks: Counter[int] = Counter()
        left: list[PlacedJob] = []
        found: Places | None = None
        for _ in range(request.tasks):
            node = self._place(attempt, task, request, tasks, left)
            if node is None:
                break
            tasks[node] += 1
            attempt.room.enter(gang.id, task, sorted_places([(node, 1)]))
        else:
            found = sorted_places(list(tasks.items()))
        for node, count in tasks.items():
            for _ in range(count):
                attempt.room.release(task, sorted_places([(node, 1)]))
        if found is None or not serve(request, found, attempt.groups) or not attempt.room.fits(request, found):
            for job in left:
                attempt.restore(job)
            return None
        return found

    def _place(
        self,
        attempt: Attempt,
        task: ClusterRequest,
        request: ClusterRequest,
        tasks: Counter[int],
        left: list[PlacedJob],
    ) -> int | None:
        """Return the node of the next task, after jobs there have left; None if there is none."""
        is_full = request.most_nodes == request.tasks
        on_node = victims_by_group(attempt.victims(), np.arange(attempt.problem.size))
        for node in _emptiest_first(attempt).tolist():
            if tasks[node] >= (1 if is_full else request.most_tasks):
                continue
            victims = on_node.get(node, [])
            found = attempt.leave_until_it_fits(task, victims, np.array([node]))
            if found is not None:
                left += victims[: found[1]]
                return int(node)
        return None


def _emptiest_first(attempt: Attempt) -> IntArray:
    """Return the open nodes, those with the largest free share of their capacity first."""
    nodes = attempt.open_nodes
    capacity = np.maximum(attempt.problem.capacity[nodes], 1)
    ranked: IntArray = nodes[np.argsort(-(attempt.room.free[nodes] / capacity).mean(axis=1), kind="stable")]
    return ranked


def _bundles(jobs: Sequence[PlacedJob], is_inside: BoolArray) -> list[PlacedJob]:
    """Return the jobs of a domain, the cheapest first; of equal ones, those with a larger share of nodes inside."""
    share = {job.id: float(np.mean(is_inside[[node for node, _ in job.places]])) for job in jobs}
    return sorted(jobs, key=lambda job: (leaving_cost(job), -share[job.id]))
