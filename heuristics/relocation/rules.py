"""Solvers ``cheapest-first`` and ``best-rack``: stop jobs until the gang fits, then restore unneeded victims."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.request import ClusterRequest
from allocopt.heuristics.relocation.attempt import (
    Attempt,
    VictimRule,
    are_apart,
    by_group,
    group_of_nodes,
    leaving_cost,
    parts,
    victims_by_group,
)
from allocopt.problems.placement.problem import NodeTasks
from allocopt.problems.relocation.fitting import serve
from allocopt.problems.relocation.problem import PlacedJob, Places, WaitingGang, sorted_places
from allocopt.solving import Run


def free_one_after_the_other(
    attempt: Attempt, request: ClusterRequest, victims: Sequence[PlacedJob], among: IntArray | None = None
) -> tuple[Places, list[PlacedJob]] | None:
    """Remove victims in order until another job fits, then restore those that need not leave.

    Return the nodes of that job and the victims. Return None, and change nothing, if the job does not fit even if all
    victims leave.
    """
    found = attempt.leave_until_it_fits(request, victims, among)
    if found is None:
        return None
    places, count = found
    left: list[PlacedJob] = []
    for job in reversed(victims[:count]):
        attempt.restore(job)
        # A job on none of the chosen nodes can stay. Another one can stay if the request fits on other nodes.
        others = places if are_apart(job.places, places) else attempt.places(request, among)
        if others is None:
            attempt.leave(job)
            left.append(job)
        else:
            places = others
    return places, left[::-1]


class CheapestFirst(VictimRule):
    """Stop the cheapest jobs of the cluster until the gang fits, then restore those that need not stop.

    This is Kueue's preemption within a cluster queue: candidates leave from the lowest priority on, of equal ones the
    last admitted first, until the workload fits; then they are restored in reverse order where possible
    (kueue.sigs.k8s.io, "Preemption", sections "Candidates" and "Targets"). Cohorts are left out. Problems have no
    priorities and no ages: the cost of leaving stands for the priority, and a job further back in the problem counts as
    younger. Kubernetes stops the same jobs for a pod group: it removes all candidates on the whole cluster and restores
    them from the highest priority on (``pkg/scheduler/framework/preemption/podgrouppreemption.go``).
    """

    name: ClassVar[str] = "cheapest-first"

    def make_room(self, attempt: Attempt, gang: WaitingGang, run: Run) -> Places | None:
        found = free_one_after_the_other(attempt, gang.request, attempt.victims())
        return None if found is None else found[0]


class BestRack(VictimRule):
    """Try each group that could hold the gang, or one of its segments, and take the cheapest.

    In each group the cheapest jobs are stopped until the gang fits, then restored where possible. Kubernetes and
    Volcano choose a node for one pod in this way (kubernetes.io, "Pod Priority and Preemption"; Volcano,
    ``docs/design/preempt-action-support-topology.md``). No product is known to compare racks for gangs; this is the
    rule that they could use.
    """

    name: ClassVar[str] = "best-rack"

    def make_room(self, attempt: Attempt, gang: WaitingGang, run: Run) -> Places | None:
        found: list[NodeTasks] = []
        left: list[PlacedJob] = []
        is_left = np.ones(attempt.problem.size, dtype=np.bool_)
        for request, level in parts(gang.request):
            best = self._cheapest(attempt, request, level, is_left, run)
            if best is None:
                break
            places, victims = best
            for job in victims:
                attempt.leave(job)
            left += victims
            found += places
            is_left[[node for node, _ in places]] = False
        # Parts are chosen one by one, so together they may break a rule.
        if not serve(gang.request, found, attempt.groups):
            for job in left:
                attempt.restore(job)
            return None
        return sorted_places(found)

    def _cheapest(
        self, attempt: Attempt, request: ClusterRequest, level: int, is_left: BoolArray, run: Run
    ) -> tuple[Places, list[PlacedJob]] | None:
        """Return nodes and victims of the cheapest group; the victims still run."""
        group = group_of_nodes(attempt, level)
        in_group = victims_by_group(attempt.victims(), group)
        best: tuple[Places, list[PlacedJob]] | None = None
        least = float("inf")
        for nodes in by_group(attempt.open_nodes[is_left[attempt.open_nodes]], group):
            if run.clock.expired():
                break
            found = free_one_after_the_other(attempt, request, in_group.get(int(group[nodes[0]]), ()), nodes)
            if found is None:
                continue
            for job in found[1]:
                attempt.restore(job)
            cost = sum(map(leaving_cost, found[1]))
            if cost < least:
                best, least = found, cost
        return best
