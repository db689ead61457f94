"""The search for DCAS, driven: start, slices between two looks at the clock, incumbents, the bound."""

from dataclasses import dataclass

import numpy as np

from allocopt.kernels.insertion import insertion_state, single_job_savings
from allocopt.problems.encoding import encode
from allocopt.problems.group_tree import TREE_KERNELS, group_tree
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from allocopt.solving.trivial import sequential_allocation
from heuristics.nested.kernels import Moves, place_in_order, search_partitions
from heuristics.nested.pace import Pace
from heuristics.nested.start import Start

NESTED_KERNELS = (*TREE_KERNELS, insertion_state, single_job_savings, place_in_order, search_partitions)
"""Entries that the search calls."""

PLACED_PER_SLICE = 2_000_000
"""Windows looked at between two looks at the clock: some milliseconds."""

FEW_JOBS = 30
"""Jobs up to which prices must be high: the jobs of a small window stand in each other's way all at once."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """How the search moves and cools.

    Parameters
    ----------
    hottest, coldest
        First and last temperature, in hops.
    price
        Largest difference of the prices of two nodes, in hops.
    price_of_many
        The same where there are more than `FEW_JOBS`.
    most_removed
        Jobs drawn in a step, at most; those in a gap of which one lies are removed with it.
    reach
        Windows looked at on either side of a place, where there are too many to look at all.
    few
        Left-over nodes up to which all windows are looked at.
    related
        Share of the moves that remove neighbours on the circle.
    steps_per_job
        Steps for each job where the budget sets no iterations, if that is more than what was asked for.
    patience
        Cycles without an improvement after which the search ends before its time limit.
    """

    hottest: float = 1.0
    coldest: float = 0.02
    price: float = 3.0
    price_of_many: float = 1.0
    most_removed: int = 5
    reach: int = 16
    few: int = 300
    related: float = 0.3
    steps_per_job: int = 500
    patience: int = 4


DEFAULT = Tuning()


def search_nested(
    problem: TopologyProblem, run: Run, budget: Budget, seed: int, steps: int = 1000, tuning: Tuning = DEFAULT
) -> StopReason:
    """Search from the incumbent or the jobs placed largest first, whichever is better; prove the bound of FREE.

    Parameters
    ----------
    problem
        A problem under ``dcas``.
    run
        The record, with the warm start as incumbent if there is one, and the running clock.
    budget
        What may be spent.
    seed
        Fixes every random choice.
    steps
        Steps where the budget sets no iterations, at least: all of them where it sets no time either, else those of
        the first cycle.
    tuning
        How the search moves and cools.

    Returns
    -------
    StopReason
        Why it ended.
    """
    if run.solution is None:
        run.offer(sequential_allocation(problem))
    start = Start.of(problem)
    _prove_alone(problem, run)
    if len(start.circle.weights) == 0 or run.is_proved():
        return StopReason.COMPLETED
    _place_largest_first(start, run)
    steps = max(steps, tuning.steps_per_job * len(problem.jobs))
    improvement = _Improvement(start, run, tuning, seed)
    if budget.iterations is not None or budget.seconds is None:
        return improvement.cool(budget.iterations or steps)
    return improvement.cool_again_and_again(steps)


class _Improvement:
    """The search from the incumbent of a run on.

    Parameters
    ----------
    start, run, tuning, seed
        See `search_nested`.
    """

    def __init__(self, start: Start, run: Run, tuning: Tuning, seed: int) -> None:
        self._start, self._run, self._tuning = start, run, tuning
        self._ring = start.ring(run.solution)
        self._search, self._slide = start.search(self._ring, seed), start.slide()
        price = tuning.price if len(start.problem.jobs) <= FEW_JOBS else tuning.price_of_many
        self._moves = Moves(price, tuning.most_removed, tuning.reach, tuning.few, tuning.related)
        self._offered = float(self._search.totals[1])

    def cool_again_and_again(self, steps: int) -> StopReason:
        """Search in cycles, each twice as long as the one before, until some in succession have improved nothing."""
        idle, stopped_by = 0, StopReason.ITERATIONS
        while idle < self._tuning.patience and stopped_by is StopReason.ITERATIONS:
            before = self._offered
            stopped_by = self.cool(steps)
            idle = 0 if self._offered > before else idle + 1
            steps *= 2
        return stopped_by

    def cool(self, steps: int) -> StopReason:
        """Take all steps, or as many as the time allows; offer the best state now and then, and at the end."""
        pace = Pace(self._run.clock, steps, self._tuning.hottest, self._tuning.coldest)
        try:
            while not pace.done():
                if self._run.is_proved():
                    return StopReason.PROVED
                count, hot, cold = pace.next_slice()
                search_partitions(
                    self._start.circle,
                    self._ring,
                    self._search,
                    self._slide,
                    self._moves,
                    self._start.n_groups,
                    count,
                    hot,
                    cold,
                )
                if pace.may_report():
                    pace.reported(self._offer_best)
        finally:
            self._offer_best()
        return StopReason.ITERATIONS if pace.steps_left == 0 else StopReason.TIME_LIMIT

    def _offer_best(self) -> None:
        """Offer the best state, if it is another one than was offered last."""
        if self._search.totals[1] > self._offered:
            self._offered = float(self._search.totals[1])
            self._run.offer(self._start.allocation(self._search.best))


def _place_largest_first(start: Start, run: Run) -> None:
    """Offer the allocation that gives each job its best window, largest job first.

    When the time has run out, the jobs that are left take any windows.
    """
    ring = start.empty_ring()
    search, slide = start.search(start.ring(run.solution), 0), start.slide()
    order, size = np.argsort(-start.circle.sizes, kind="stable"), len(ring.owners)
    per_slice = max(1, PLACED_PER_SLICE // size)
    placed = 0
    while placed < len(order):
        in_time = not run.clock.expired()
        last = min(len(order), placed + per_slice) if in_time else len(order)
        place_in_order(start.circle, ring, search, slide, order, placed, last, size if in_time else 1)
        placed = last
    run.offer(start.allocation(ring.chains))


def _prove_alone(problem: TopologyProblem, run: Run) -> None:
    """Prove the bound that lets every job choose any idle nodes, as if it were alone."""
    encoding = encode(problem)
    n = encoding.sizes
    largest = int(n.max())
    tree = group_tree(encoding)
    savings = single_job_savings(tree, insertion_state(tree, largest), largest)
    run.prove(float((encoding.scale * (encoding.top * n * n - encoding.bottom * n - savings[n]) / n).sum()))
