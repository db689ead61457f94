"""Knapsacks of waiting jobs: problems, and the base of their solvers."""

from allocopt.problems.knapsack.packing import Gains, greedy_selections, simple_bound
from allocopt.problems.knapsack.problem import KnapsackJob, KnapsackProblem, Reward, Selection
from allocopt.solving.base import SearchSolver
from allocopt.solving.run import Run

__all__ = ["Gains", "KnapsackJob", "KnapsackProblem", "KnapsackSolver", "Reward", "Selection"]


class KnapsackSolver(SearchSolver[KnapsackProblem, Selection]):
    """A solver of knapsack problems."""

    kind = "knapsack"

    def begin(self, problem: KnapsackProblem, gains: Gains, run: Run) -> None:
        """Bound a problem without a search, and offer the empty and, while there is time, the greedy selections."""
        run.prove(simple_bound(problem, gains))
        run.offer(Selection(()))
        for selection in greedy_selections(problem, gains):
            run.offer(selection)
            if run.clock.expired() or run.is_proved():
                return
