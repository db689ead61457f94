"""Scheduler ``coallocation``: at every scheduling point the exact co-allocation of waiting to running jobs."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from allocopt.problems.coallocation.interference import Interference, Sharing
from allocopt.problems.coallocation.problem import CoallocationObjective, CoallocationProblem
from allocopt.simulator.quota.scheduler import QuotaScheduler, easy_starts
from allocopt.simulator.quota.state import Allocation, QuotaView
from allocopt.simulator.scheduler import Decision, PlaceGuest
from allocopt.solving.registry import get_solver
from allocopt.solving.solve import solve

SOON_S = 1.0
"""Seconds of work below which a job is about to end, and no longer a host."""


@dataclass(frozen=True, slots=True)
class CoallocationScheduler(QuotaScheduler):
    """Space sharing, and guests for allocations without one by a solver that knows all profiles."""

    solver: str = "scip"
    objective: CoallocationObjective = CoallocationObjective.THROUGHPUT
    max_slowdown: float = 1.5
    degradation_weight: float = 1.0  # weight of the excess
    interference: Interference = field(default_factory=Interference)
    time_limit: float = 10.0  # seconds for each problem

    @property
    def name(self) -> str:
        """Its name: that of the solver behind ``coallocation-``."""
        return f"coallocation-{self.solver}"

    def share(self, view: QuotaView) -> Iterator[Decision]:
        """Start what EASY starts, then place guests; see `QuotaScheduler.share`."""
        yield from easy_starts(view)
        hosts = [one for one in view.allocations if one.guest is None and one.host.work_left_s >= SOON_S]
        if not hosts or not view.queue:
            return
        queue = list(view.queue)
        problem = self.problem(view, hosts, queue)
        result = solve(problem, solver=get_solver(self.solver, None, problem.kind), time_limit=self.time_limit)
        for guest, host, percent in result.solution.places if result.solution else ():
            yield PlaceGuest(queue[guest], hosts[host].number, percent)

    def problem(self, view: QuotaView, hosts: list[Allocation], queue: list[int]) -> CoallocationProblem:
        """Return the problem of this moment.

        How long a job would still wait is not known; its limit stands for it.
        """
        running = (one.host.remaining(view.now) for one in hosts)
        waiting = (view.jobs[job].job for job in queue)
        return CoallocationProblem(
            tuple(replace(job, id=str(number)) for number, job in enumerate(running)),
            tuple(replace(job, id=str(number), wait_s=job.walltime_s) for number, job in enumerate(waiting)),
            max_slowdown=self.max_slowdown,
            objective_name=self.objective,
            degradation_weight=self.degradation_weight,
            sharing=Sharing.SHARES,
            interference=self.interference,
        )
