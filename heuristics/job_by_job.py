"""What solvers that place one job after the other have in common: the clock, and who is left when it rings."""

from abc import abstractmethod

import numpy as np

from allocopt.arrays import IntArray
from allocopt.problems.base import Strategy
from allocopt.problems.encoding import allocation_at, encode
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.base import TopologySolver
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from heuristics.idle_switches import IdleSwitches

LARGEST_WINDOW, MOST_JOBS = 1_000_000, 20_000


class JobByJob(TopologySolver):
    """A `free` solver that places each job once. If the time runs out, the jobs left take the first idle nodes."""

    @property
    def capabilities(self) -> Capabilities:
        """Windows up to a size, without any promise."""
        largest = f"{LARGEST_WINDOW:,} idle nodes, {MOST_JOBS:,} jobs"
        return Capabilities(frozenset({Strategy.FREE}), frozenset(), largest)

    def refusal(self, problem: TopologyProblem) -> str | None:
        """Why the window is too large, or None."""
        n_idle, n_jobs = len(problem.idle_nodes), len(problem.jobs)
        if n_idle <= LARGEST_WINDOW and n_jobs <= MOST_JOBS:
            return None
        return f"it has {n_idle:,} idle nodes and {n_jobs:,} jobs; {self.capabilities.largest} are taken"

    @abstractmethod
    def order(self, problem: TopologyProblem) -> IntArray:
        """Return the jobs in the order in which they are placed."""

    @abstractmethod
    def take(self, switches: IdleSwitches, size: int) -> IntArray:
        """Take ``size`` idle positions for one job, which fit under the top switch."""

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Place the jobs in their order; see `TopologySolver.search`."""
        switches = IdleSwitches(encode(problem).groups)
        order, sizes = self.order(problem).tolist(), problem.sizes.tolist()
        placed: dict[int, IntArray] = {}
        for job in order:
            if run.clock.expired():
                break
            placed[job] = self.take(switches, sizes[job])
        late = order[len(placed) :]
        # No clock is asked about what is left, which takes no time.
        ends = np.cumsum([sizes[job] for job in late], dtype=np.int64)
        placed.update(zip(late, np.split(switches.positions(), ends)[: len(late)], strict=True))
        run.offer(allocation_at(problem, [placed[job] for job in range(len(sizes))]))
        return StopReason.TIME_LIMIT if late else StopReason.COMPLETED
