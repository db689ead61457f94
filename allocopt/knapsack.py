"""Knapsacks of waiting jobs: problems, and the base of their solvers."""

from allocopt.problems.knapsack.packing import Gains
from allocopt.problems.knapsack.problem import KnapsackJob, KnapsackProblem, Reward, Selection
from allocopt.solving.base import SearchSolver
from allocopt.solving.run import Run

__all__ = ["Gains", "KnapsackJob", "KnapsackProblem", "KnapsackSolver", "Reward", "Selection"]


class KnapsackSolver(SearchSolver[KnapsackProblem, Selection]):
    """A solver of knapsack problems."""

    kind = "knapsack"

    def begin(self, gains: Gains, run: Run) -> None:
        """Bound a problem without a search, and offer the empty and, while there is time, the greedy selections."""
        run.prove(gains.bound())
        run.offer(Selection(()))
        for selection in gains.greedy():
            run.offer(selection)
            if run.clock.expired() or run.is_proved():
                return
