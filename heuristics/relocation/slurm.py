"""Solver ``slurm-preempt``: how Slurm chooses the jobs that it preempts."""

from collections.abc import Sequence
from typing import ClassVar

from allocopt.heuristics.relocation.attempt import Attempt, VictimRule, are_apart
from allocopt.problems.relocation.problem import PlacedJob, Places, WaitingGang
from allocopt.solving import Run

REORDERINGS = 2


class SlurmPreempt(VictimRule):
    """Stop the cheapest jobs until the gang fits, reorder them, and repeat; preempt those on the gang's nodes.

    Slurm's select/cons_tres removes candidates in the order of ``PreemptType`` and tests the job after each. Then it
    puts the last candidate first, and sorts the others by their number of chosen nodes, so that fewer jobs are
    preempted (slurm.schedmd.com/preempt.html, "Preemption Design and Operation"). The default ``reorder_count=1`` does
    this twice (``_run_now`` in ``src/plugins/select/cons_tres/job_test.c``, commit 284c3b95). No victim on a chosen
    node is restored; candidates on none of the chosen nodes keep running. Slurm's order is by QOS or partition
    priority, then by size. Here the cost of leaving stands for it; of equal jobs, the last of the problem counts as
    the youngest and comes first. The gang's nodes are chosen by `fitted`, not by Slurm's best fit.
    """

    name: ClassVar[str] = "slurm-preempt"

    def make_room(self, attempt: Attempt, gang: WaitingGang, run: Run) -> Places | None:
        candidates = attempt.victims()
        found = attempt.leave_until_it_fits(gang.request, candidates)
        for _ in range(REORDERINGS):
            if found is None or not found[1]:
                break
            places, count = found
            for job in candidates[:count]:
                attempt.restore(job)
            candidates = _reordered(candidates, count, places)
            found = attempt.leave_until_it_fits(gang.request, candidates)
        if found is None:
            return None
        places, count = found
        for job in candidates[:count]:
            if are_apart(job.places, places):
                attempt.restore(job)
        return places


def _reordered(candidates: Sequence[PlacedJob], count: int, places: Places) -> list[PlacedJob]:
    """Return the candidates: number ``count`` first, then those before it, most chosen nodes first, then the rest."""
    chosen = {node for node, _ in places}
    tested = sorted(candidates[: count - 1], key=lambda job: -sum(node in chosen for node, _ in job.places))
    return [candidates[count - 1], *tested, *candidates[count:]]
