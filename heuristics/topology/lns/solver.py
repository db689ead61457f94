"""Solver ``lns``: large neighbourhood search by exact insertion."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from allocopt.errors import UsageError
from allocopt.heuristics.topology.annealing import Schedule
from allocopt.heuristics.topology.greedy import RULED_KERNELS, RuledInsertion, insert_by_rules
from allocopt.heuristics.topology.lns.kernels import search_neighbourhoods, search_ruled_neighbourhoods
from allocopt.heuristics.topology.lns.state import (
    RULED_START_KERNELS,
    START_KERNELS,
    EncodedProblem,
    Moves,
    Rules,
    State,
    parts_of,
)
from allocopt.heuristics.topology.nested import NESTED_KERNELS, search_nested
from allocopt.heuristics.topology.production_rules import BestFit
from allocopt.problems.topology.certificates import PartPrices
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import MOST_ITERATIONS, Budget, Clock
from allocopt.solving.result import tolerance_of
from allocopt.topology import Strategy, TopologyProblem, TopologySolver

# Most idle nodes times nodes of the largest job, and most idle nodes. Above, a single step, or reading the problem, may
# take a noticeable part of a second.
LARGEST, MOST_IDLE = 50_000_000, 300_000
FEW_JOBS = 30  # most jobs for which the greedy allocation is the best start; with more, it leaves worse fragments
STEPS_PER_JOB = 200  # least steps per job of a cycle, if the budget allows them
FULL_PER_JOB = 1000  # least steps per job of a cycle that begins at the hottest temperature, if there are many jobs
WARM = 0.2  # first temperature if many jobs begin at a good allocation, as a share of the hottest
PATIENCE = 6  # cycles without a better allocation after which a search without limit of iterations ends
BOUND_SHARE = 0.1  # share of the time for the bound of a window with side constraints that has an allocation already
OFFER_SHARE = 0.05  # largest share of the time for offering allocations during the search
RESERVE = 3.5  # time to make an allocation from a state, as a multiple of the time to read the problem
LONG_S = 0.01  # least remaining seconds for which the first allocation is offered before it is improved
SLICE = 4_000_000  # squared nodes of the largest job times steps between two checks, without a time limit
SLICE_S = 0.005  # seconds between two looks at the clock
FIRST_STEPS = 16  # steps after which their speed is known
# Least seconds of a step; and most seconds, assumed for the first steps, which measure the speed.
SHORTEST_S, LONGEST_S = 1e-7, 5e-6


@dataclass(frozen=True, slots=True)
class Lns(TopologySolver):
    """Remove a few jobs and insert each again where it costs least under random prices of the leaves.

    The prices stand for the worth of a leaf to other jobs. The state is accepted or rejected as in annealing, with
    temperatures that fall over a cycle of steps. The time of a step does not depend on the size of the window.
    """

    steps: int = 1000  # steps if the budget sets neither time nor iterations; also the least steps of a cycle
    hottest: float = 1.5  # first temperature of a cycle, in hops
    coldest: float = 0.1  # last temperature of a cycle, in hops
    # Standard deviation of the prices of leaves, in hops per node and per node of the largest removed job; half of it
    # if there are many jobs.
    price: float = 0.2
    most_removed: int = 5  # most jobs removed in a step

    name: ClassVar[str] = "lns"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.DCAS, Strategy.FREE}),
        frozenset({Promise.ANYTIME, Promise.BOUND}),
        f"{MOST_IDLE:,} idle nodes, {LARGEST:,} idle nodes x nodes of the largest job",
        side_constraints=True,
    )

    def __post_init__(self) -> None:
        Schedule(self.hottest, self.coldest, self.steps, self.most_removed)
        if not 0 <= self.price < float("inf"):
            raise UsageError(f"price is {self.price}, must not be negative")

    def refusal(self, problem: TopologyProblem) -> str | None:
        n_idle = len(problem.idle_nodes)
        work = n_idle * int(problem.sizes.max())
        if work <= LARGEST and n_idle <= MOST_IDLE:
            return None
        return (
            f"it has {n_idle:,} idle nodes, idle nodes x nodes of the largest job is {work:,}; "
            f"supported are {self.capabilities.largest}"
        )

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        if problem.strategy is Strategy.DCAS:
            return NESTED_KERNELS
        if problem.has_side_constraints:
            return (*RULED_START_KERNELS, *RULED_KERNELS, search_ruled_neighbourhoods)
        start = START_KERNELS if len(problem.jobs) <= FEW_JOBS else RULED_START_KERNELS
        return (*start, search_neighbourhoods)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        if problem.strategy is Strategy.DCAS:
            schedule = Schedule(self.hottest, self.coldest, self.steps, self.most_removed)
            return search_nested(problem, run, budget, seed, schedule)
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        window, given, moves = EncodedProblem.of(problem), run.objective, self.moves(len(problem.jobs))
        if problem.has_side_constraints and run.solution is None:
            insert_by_rules(problem, run, budget, seed)
        elif problem.has_side_constraints:
            least = (1.0 - BOUND_SHARE) * run.clock.remaining()
            bound = RuledInsertion(problem).bound(lambda: run.clock.remaining() >= least)
            if bound is not None:
                run.prove(bound, PartPrices())
        elif len(problem.jobs) > FEW_JOBS:
            run.prove(window.cost(float(window.alone().sum())), PartPrices())
            BestFit().search(problem, run, budget, 0)
        else:
            state = window.greedily(self.most_removed, moves, seed)
            run.prove(window.cost(float(parts_of(state)[2].alone.sum())), PartPrices())
            cooling = self._cooling(len(problem.jobs), warm=False)
            return self._walk(window, self._better(window, state, moves, run), run, budget, cooling)
        if run.is_proved():
            return StopReason.PROVED
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        if run.solution is None:
            return StopReason.COMPLETED
        state = window.begin(run.solution, window.alone(), self.most_removed, moves, seed)
        rules = window.rules(run.solution, state) if problem.has_side_constraints else None
        cooling = self._cooling(len(problem.jobs), warm=run.objective == given)
        return self._walk(window, state, run, budget, cooling, rules)

    def _better(self, window: EncodedProblem, state: State, moves: Moves, run: Run) -> State:
        # Start from the incumbent if it is no worse than the given state. `lns-prices` uses this, too.
        if run.objective is not None and run.objective <= window.cost(float(parts_of(state)[2].savings[1])):
            return window.moved(state, run.solution, moves)
        if run.clock.remaining() > LONG_S:
            run.offer(window.allocation(state))
        return state

    def moves(self, n_jobs: int) -> Moves:
        """Return the parameters of moves for ``n_jobs`` jobs; if there are many, removed jobs lie near each other."""
        if n_jobs <= FEW_JOBS:
            return Moves(self.price, 2.5 * self.price, related=0.7, climb=0.5, worse=0.0, few=10, others=3)
        return Moves(0.5 * self.price, 0.0, related=0.95, climb=0.3, worse=0.5, few=8, others=3)

    def _cooling(self, n_jobs: int, *, warm: bool) -> "_Cooling":
        if n_jobs <= FEW_JOBS:
            return _Cooling(self.hottest, self.coldest, max(self.steps, STEPS_PER_JOB * n_jobs), 1)
        hottest, steps = max(self.coldest, WARM * self.hottest) if warm else self.hottest, FULL_PER_JOB * n_jobs
        return _Cooling(hottest, self.coldest, max(self.steps, 2 * steps), steps)

    def _walk(
        self,
        window: EncodedProblem,
        state: State,
        run: Run,
        budget: Budget,
        cooling: "_Cooling",
        rules: Rules | None = None,
    ) -> StopReason:
        moves, reserve_s = self.moves(len(window.problem.jobs)), RESERVE * window.encoding_s
        unlimited = self.steps if budget.seconds is None else MOST_ITERATIONS
        per_slice = max(1, SLICE // int(window.encoding.sizes.max()) ** 2)
        pace = _Pace(run.clock, budget.iterations or unlimited, per_slice, reserve_s)
        journal = _Journal(window, run, state, reserve_s)
        most_idle_cycles, left = PATIENCE if budget.iterations is None else MOST_ITERATIONS, 0

        def walk(temperature: float, factor: float, steps: int) -> float:
            if rules is None:
                after = search_neighbourhoods(state, moves, temperature, factor, steps)
            else:
                after = search_ruled_neighbourhoods(state, moves, rules, temperature, factor, steps)
            pace.took(steps)
            return after

        try:
            if journal.is_proved():
                return StopReason.PROVED
            # The first steps are at the coldest temperature, because the length of cycles depends on their speed.
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


@dataclass(slots=True)
class _Cooling:
    """Cycles, each twice as long as the one before, in which a temperature falls geometrically.

    The last cycle is stretched to the end of the search.
    """

    hottest: float  # in hops
    coldest: float  # in hops
    cycle: int  # steps of the present cycle
    # Least steps of a cycle that begins at the hottest temperature; a shorter one begins colder, in proportion.
    full: int
    idle_cycles: int = 0  # number of latest cycles that have found nothing better
    _temperature: float | None = None
    _done: int = 0
    _best: float = -math.inf

    def rest(self, left: int) -> int:
        """Return the remaining steps of the present cycle, given the remaining steps of the search."""
        rest = self.cycle - self._done
        # If the next cycle would not fit, the present one lasts to the end of the search.
        return rest if rest > 0 and left - rest >= 2 * self.cycle else left

    def temperature(self, rest: int) -> float:
        if self._temperature is None:
            self._temperature = max(self.coldest, self.hottest * min(1.0, rest / self.full))
        return self._temperature

    def factor(self, rest: int) -> float:
        return float((self.coldest / self.temperature(rest)) ** (1 / rest))

    def took(self, steps: int, temperature: float, rest: int, best: float) -> None:
        """Record that ``steps`` of the ``rest`` steps are done, and the best saving; begin a new cycle if it ends."""
        self._done += steps
        # Rounding must not lower the temperature below the coldest.
        self._temperature = max(self.coldest, temperature)
        if steps == rest:
            self.idle_cycles = 0 if best > self._best else self.idle_cycles + 1
            self._best = best
            self.cycle, self._done, self._temperature = 2 * self.cycle, 0, None


@dataclass(slots=True)
class _Pace:
    """Counts the steps of a search, and estimates how many are left."""

    clock: Clock
    steps: int  # most steps
    per_slice: int  # steps between two checks without a time limit, so that the result depends only on the seed
    reserve_s: float  # seconds that are needed after the last step
    done: int = 0
    _step_s: float = SLICE_S
    _started: float = 0.0

    def left(self) -> int:
        """Return the number of remaining steps; with a time limit, at most as many as the speed so far allows."""
        left, seconds = self.steps - self.done, self.clock.remaining() - self.reserve_s
        return left if math.isinf(seconds) else min(left, int(max(0.0, seconds) / self._step_s))

    def first_slice(self) -> int:
        """Return the number of steps to measure the speed, 0 without a time limit, and start the measurement."""
        self._started = time.perf_counter()
        if self.clock.seconds is None:
            return 0
        return min(FIRST_STEPS, self.steps, int(max(0.0, self.clock.remaining() - self.reserve_s) / LONGEST_S))

    def slice(self, most: int) -> int:
        """Return how many of the next ``most`` steps to take before looking at the clock, and start the measurement."""
        self._started = time.perf_counter()
        per_slice = self.per_slice if self.clock.seconds is None else max(1, int(SLICE_S / self._step_s))
        return min(most, per_slice)

    def took(self, steps: int) -> None:
        if steps > 0:
            seconds = (time.perf_counter() - self._started) / steps
            self._step_s = max(SHORTEST_S, seconds if self.done == 0 else 0.8 * self._step_s + 0.2 * seconds)
            self.done += steps


class _Journal:
    def __init__(self, window: EncodedProblem, run: Run, state: State, takes_s: float) -> None:
        self._window, self._run, self._state, self._savings = window, run, state, parts_of(state)[2].savings
        known = run.objective is not None and run.objective <= window.cost(self.best)
        self._offered = self.best if known else -math.inf
        self._took_s, self._at = takes_s, time.perf_counter()

    @property
    def best(self) -> float:
        return float(self._savings[1])

    def is_proved(self) -> bool:
        cost = self._window.cost(self.best)
        return self._run.bound is not None and cost - self._run.bound <= tolerance_of(cost)

    def look(self) -> bool:
        # Offer the best state if it is time or if it is proved optimal; return whether it is proved.
        proved = self.best > self._offered and self.is_proved()
        if proved or OFFER_SHARE * (time.perf_counter() - self._at) > self._took_s:
            self.offer()
        return proved and self._run.is_proved()

    def offer(self) -> None:
        if self.best > self._offered:
            started, self._offered = time.perf_counter(), self.best
            self._run.offer(self._window.allocation(self._state))
            self._at = time.perf_counter()
            self._took_s = self._at - started
