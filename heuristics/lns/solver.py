"""Solver ``lns``: large neighbourhood search by exact insertion."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from allocopt.errors import UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.base import TopologySolver
from allocopt.solving.budget import MOST_ITERATIONS, Budget
from allocopt.solving.insertion import RULED_KERNELS, RuledInsertion
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from heuristics.best_fit import BestFit
from heuristics.greedy import insert_by_rules
from heuristics.lns.beginning import parts_of
from heuristics.lns.cooling import Cooling
from heuristics.lns.journal import Journal
from heuristics.lns.kernels import search_neighbourhoods
from heuristics.lns.pace import Pace
from heuristics.lns.rules import search_ruled_neighbourhoods
from heuristics.lns.start import RULED_START_KERNELS, START_KERNELS, Window
from heuristics.lns.state import Moves, Rules, State
from heuristics.nested.search import NESTED_KERNELS, Tuning, search_nested

MOST_REMOVED = 100
STEPS_PER_JOB = 200
"""A cycle has at least that many steps for each job, if the budget has."""
FULL_PER_JOB = 1000
"""Steps for each job that a cycle needs to begin at the hottest temperature, where there are many jobs."""
WARM = 0.2
"""Part of the hottest temperature at which the search begins from a good allocation, where there are many jobs."""
PATIENCE = 6
"""Cycles without a better allocation after which a search that has a time limit only gives up."""
LARGEST, MOST_IDLE = 50_000_000, 300_000
"""Idle nodes times nodes of the largest job above which a single step may take a noticeable part of a second, and the
number of idle nodes above which reading the problem does."""

FEW_JOBS = 30
"""Jobs up to which the best allocation to begin with is the greedy one; beyond, it leaves worse fragments."""

BOUND_SHARE = 0.1
"""Share of the time that the bound of a window with side constraints may take where there is an allocation already."""

RESERVE = 3.5
"""Making an allocation of a state and knowing its cost takes about so many times as long as reading the problem."""

LONG_S = 0.01
"""Time from which on the first allocation is told before it is improved."""

SLICE = 4_000_000
"""Nodes of the largest job, squared, times steps between two looks where there is no clock to look at."""


@dataclass(frozen=True, slots=True)
class Lns(TopologySolver):
    """Removes a few jobs and inserts each again where it costs least under random prices of the leaves.

    A step removes 1 to ``most_removed`` jobs, most of them near each other, and inserts them in random order, each
    exactly, by a dynamic program over a part of the tree in which a node of a leaf has a random price; the prices stand
    for what the other jobs would give for the leaf. The state is accepted as in annealing, with temperatures that fall
    over a cycle of steps. A step costs what it touches, whatever the size of the window.

    Parameters
    ----------
    steps
        Steps where the budget sets neither time nor iterations, and the least length of a cycle.
    hottest, coldest
        First and last temperature of a cycle, in hops.
    price
        Standard deviation of the prices of leaves, in hops per node and per node of the largest job removed; half of
        it where there are many jobs.
    most_removed
        Jobs removed in a step, at most.
    """

    steps: int = 1000
    hottest: float = 1.5
    coldest: float = 0.1
    price: float = 0.2
    most_removed: int = 5

    name: ClassVar[str] = "lns"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.DCAS, Strategy.FREE}),
        frozenset({Promise.ANYTIME, Promise.BOUND}),
        f"{MOST_IDLE:,} idle nodes, {LARGEST:,} idle nodes x nodes of the largest job",
        side_constraints=True,
    )

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UsageError(f"steps is {self.steps}, must be at least 1")
        if not 0 < self.coldest <= self.hottest < float("inf"):
            raise UsageError(f"temperatures must fall and be positive, not from {self.hottest} to {self.coldest}")
        if not 0 <= self.price < float("inf"):
            raise UsageError(f"price is {self.price}, must not be negative")
        if not 1 <= self.most_removed <= MOST_REMOVED:
            raise UsageError(f"most_removed is {self.most_removed}, must be within 1 .. {MOST_REMOVED}")

    def refusal(self, problem: TopologyProblem) -> str | None:
        """Why the window is too large, or None."""
        n_idle = len(problem.idle_nodes)
        work = n_idle * int(problem.sizes.max())
        if work <= LARGEST and n_idle <= MOST_IDLE:
            return None
        return f"it has {n_idle:,} idle nodes, and {work:,} is the product; {self.capabilities.largest} are taken"

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        """Compiled entries that the search may call."""
        if problem.strategy is Strategy.DCAS:
            return NESTED_KERNELS
        if problem.has_side_constraints:
            return (*RULED_START_KERNELS, *RULED_KERNELS, search_ruled_neighbourhoods)
        start = START_KERNELS if len(problem.jobs) <= FEW_JOBS else RULED_START_KERNELS
        return (*start, search_neighbourhoods)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Search from the warm start, or a greedy allocation if that is better; see `TopologySolver.search`."""
        if problem.strategy is Strategy.DCAS:
            tuning = Tuning(self.hottest, self.coldest, most_removed=self.most_removed)
            return search_nested(problem, run, budget, seed, self.steps, tuning)
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        window, given = Window.of(problem), run.objective
        if problem.has_side_constraints:
            self._begin_ruled(problem, run, budget, seed)
        elif len(problem.jobs) > FEW_JOBS:
            run.prove(window.cost(float(window.alone().sum())))
            BestFit().search(problem, run, budget, 0)
        else:
            return self._search_few(window, run, budget, seed)
        if run.is_proved():
            return StopReason.PROVED
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        if run.solution is None:
            return StopReason.COMPLETED
        alone, moves = window.alone(), self.moves(len(problem.jobs))
        state = window.begin(run.solution, alone, self.most_removed, moves, seed)
        rules = window.rules(run.solution, state) if problem.has_side_constraints else None
        cooling = self._cooling(len(problem.jobs), warm=run.objective == given)
        return self._walk(window, state, run, budget, cooling, rules)

    def _search_few(self, window: Window, run: Run, budget: Budget, seed: int) -> StopReason:
        """Search a window of few jobs, from the warm start or the greedy allocation."""
        moves = self.moves(len(window.problem.jobs))
        state = window.greedily(self.most_removed, moves, seed)
        run.prove(window.cost(float(parts_of(state)[2].alone.sum())))
        cooling = self._cooling(len(window.problem.jobs), warm=False)
        return self._walk(window, self._better(window, state, moves, run), run, budget, cooling)

    def _better(self, window: Window, state: State, moves: Moves, run: Run) -> State:
        """Return the state to begin with: that of the warm start if it is better; else, given time, tell of it."""
        if run.objective is not None and run.objective <= window.cost(float(parts_of(state)[2].savings[1])):
            return window.moved(state, run.solution, moves)
        if run.clock.remaining() > LONG_S:
            run.offer(window.allocation(state))
        return state

    def _begin_ruled(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> None:
        """Bound a window with side constraints, and find an allocation to begin with."""
        if run.solution is None:
            insert_by_rules(problem, run, budget, seed)
        else:
            self._bound_rules(problem, run)

    def _bound_rules(self, problem: TopologyProblem, run: Run) -> None:
        """Bound a window with side constraints, in a small part of the time."""
        least = (1.0 - BOUND_SHARE) * run.clock.remaining()
        bound = RuledInsertion(problem).bound(lambda: run.clock.remaining() >= least)
        if bound is not None:
            run.prove(bound)

    def moves(self, n_jobs: int) -> Moves:
        """Say how to move with so many jobs: among many, removed jobs have to lie near each other."""
        if n_jobs <= FEW_JOBS:
            return Moves(self.price, 2.5 * self.price, related=0.7, climb=0.5, worse=0.0, few=10, others=3)
        return Moves(0.5 * self.price, 0.0, related=0.95, climb=0.3, worse=0.5, few=8, others=3)

    def _cooling(self, n_jobs: int, *, warm: bool) -> Cooling:
        """Return the temperatures for so many jobs, from a good start or not."""
        if n_jobs <= FEW_JOBS:
            return Cooling(self.hottest, self.coldest, max(self.steps, STEPS_PER_JOB * n_jobs), 1)
        hottest = max(self.coldest, WARM * self.hottest) if warm else self.hottest
        steps = FULL_PER_JOB * n_jobs
        return Cooling(hottest, self.coldest, max(self.steps, 2 * steps), steps)

    def _walk(
        self, window: Window, state: State, run: Run, budget: Budget, cooling: Cooling, rules: Rules | None = None
    ) -> StopReason:
        """Search from a state, and offer the best one at the end of the time."""
        moves, reserve_s = self.moves(len(window.problem.jobs)), RESERVE * window.encoding_s
        unlimited = self.steps if budget.seconds is None else MOST_ITERATIONS
        per_slice = max(1, SLICE // int(window.encoding.sizes.max()) ** 2)
        pace = Pace(run.clock, budget.iterations or unlimited, per_slice, reserve_s)
        journal = Journal(window, run, state, reserve_s)
        most_idle_cycles = PATIENCE if budget.iterations is None else MOST_ITERATIONS

        def walk(temperature: float, factor: float, steps: int) -> float:
            if rules is None:
                after = search_neighbourhoods(state, moves, temperature, factor, steps)
            else:
                after = search_ruled_neighbourhoods(state, moves, rules, temperature, factor, steps)
            pace.took(steps)
            return after

        left = 0
        try:
            if journal.is_proved():
                return StopReason.PROVED
            if (steps := pace.first_slice()) > 0:
                walk(self.coldest, 1.0, steps)
            while (left := pace.left()) > 0 and cooling.idle_cycles < most_idle_cycles:
                rest = cooling.rest(left)
                steps = pace.slice(rest)
                after = walk(cooling.temperature(rest), cooling.factor(rest), steps)
                cooling.took(steps, after, rest, journal.best)
                if journal.look():
                    return StopReason.PROVED
        finally:
            journal.offer()
        if left > 0:
            return StopReason.COMPLETED
        return StopReason.ITERATIONS if pace.done >= pace.steps else StopReason.TIME_LIMIT
