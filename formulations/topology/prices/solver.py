"""Solver ``prices``: a bound of FREE by prices of parts, and allocations that follow them."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from ortools.linear_solver import pywraplp

from allocopt.arrays import Encoding, FloatArray, IntArray
from allocopt.formulations.topology.column_generation import Generation, RestrictedMaster
from allocopt.formulations.topology.free.solver import EXACT_KERNELS, Closing, ExactFree, first_installed, improve
from allocopt.formulations.topology.prices.pricing import PRICE_KERNELS, RANDOM_ORDERS, Priced, Pricing, Rounding
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.certificates import PartClass, PartPrices
from allocopt.problems.topology.tables import encode
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import LEAST_S, MOST_ITERATIONS, Budget
from allocopt.topology import TopologySolver

# Most splits of parts that are columns from the start; more would take more time than they save in rounds.
MOST_SPLITS = 1500
# Solvers that find the first allocation, and that improve the best one at the end; the first installed one is used.
STARTS = ("best-fit", "greedy")
SEARCHES = ("lns",)
STEPS_PER_JOB = 10_000  # most steps per job of a search
# Groups are separated only up to MOST_ROWS parts, whose prices a master problem finds in seconds, and up to MOST_WORK
# additions of an answer to prices, which take some ten milliseconds.
MOST_ROWS, MOST_WORK = 1000, 20_000_000
# Orders of the job sizes that are tried without a time limit, and share of the remaining time for them with a limit.
ORDERS, ORDERS_SHARE = 100, 0.2
BOUND_SHARE = 0.3  # share of the remaining time for more bounds
# Most idle nodes times levels times nodes of the largest job for which nodes are charged leaf by leaf.
MOST_CHARGED = 2_000_000
LEAST_PROGRESS = 0.02  # share of the gap that a round of cuts has to close to be followed by another one
# Most additions of one answer to prices, some ten milliseconds. Most idle nodes times levels times nodes of the largest
# job; above, a single insertion may take a noticeable part of a second.
LARGEST_PRICING, LARGEST_INSERTION = 50_000_000, 50_000_000
MOST_IDLE, MOST_JOBS = 1_000_000, 20_000


class _Master(RestrictedMaster[Priced]):
    """Picks parts for every job and sales for every group."""

    def __init__(self, pricing: Pricing) -> None:
        super().__init__(pricing.multiplicity, pricing.tree.n_rows)
        self.stocks = [self._solver.Constraint(0.0, float(count)) for count in pricing.tree.stock_count]
        # A group that sells a part can sell two smaller parts instead. Columns for such splits from the start save the
        # rounds that would find them.
        if (pricing.tree.widest[:-1] ** 2 // 4).sum() <= MOST_SPLITS:
            for first, widest in zip(pricing.tree.first[:-2].tolist(), pricing.tree.widest[:-1].tolist(), strict=True):
                # Each column splits a part of some nodes in two.
                for nodes, part in ((n, part) for n in range(2, widest + 1) for part in range(1, n // 2 + 1)):
                    column = self._solver.NumVar(0.0, self._infinity, "")
                    amounts = {nodes: 1.0, part: -1.0, nodes - part: -2.0 if 2 * part == nodes else -1.0}
                    for k, amount in amounts.items():
                        self.row(first + k).SetCoefficient(column, amount)

    def add_answers(self, answer: Priced) -> bool:
        before = len(self._seen)
        for job, parts, saving in zip(self.jobs, answer.job_parts, answer.savings.tolist(), strict=True):
            rows = np.flatnonzero(parts)
            self.add(job, rows, parts[rows], saving)
        for stock, sales in zip(self.stocks, answer.sales, strict=True):
            rows = np.flatnonzero(sales)
            if len(rows) > 0:
                self.add(stock, rows, -sales[rows])
        return len(self._seen) > before

    def add(self, count: pywraplp.Constraint, rows: IntArray, amounts: IntArray, saving: float = 0.0) -> None:
        """Add a column of a size or a stock that takes ``amounts`` of some parts; sold amounts are negative."""
        # The rows limit the amount of a part that is taken to the amount that is sold.
        taken = zip(rows.tolist(), map(float, amounts.tolist()), strict=True)
        self.column(count, rows.tobytes() + amounts.tobytes(), saving, taken)


class _Ascent(Generation[Priced]):
    """Column generation at one level of merging, starting from some prices and an allocation."""

    equal_relative = 1e-8

    def __init__(self, encoding: Encoding, pricing: Pricing, prices: FloatArray, owners: IntArray) -> None:
        tree, n_jobs, master = pricing.tree, len(encoding.sizes), _Master(pricing)
        super().__init__(pricing.at, master, pricing.at(prices))
        taken, squares = owners >= 0, np.zeros(n_jobs)
        job_rows: list[tuple[IntArray, IntArray]] = []
        for level, (groups, class_of) in enumerate(zip(encoding.groups, pricing.class_of_group, strict=True)):
            pairs, nodes = np.unique(owners[taken] * len(class_of) + groups[taken], return_counts=True)
            job, group = np.divmod(pairs, len(class_of))
            row = tree.first[class_of[group]] + nodes
            np.add.at(squares, job, encoding.weights[level] * nodes.astype(np.float64) ** 2)
            job_rows.append((job, row))
            # Stocks are sorted by class, then by idle nodes.
            idle = np.bincount(groups)
            base = int(max(tree.stock_idle.max(), idle.max())) + 1
            stock = np.searchsorted(tree.stock_class * base + tree.stock_idle, class_of * base + idle)
            for owner, rows, amounts in _by_owner(group, row):
                master.add(master.stocks[int(stock[owner])], rows, -amounts)
        if job_rows:
            index = np.searchsorted(pricing.sizes, encoding.sizes)
            all_jobs, all_rows = (np.concatenate(columns) for columns in zip(*job_rows, strict=True))
            for owner, rows, amounts in _by_owner(all_jobs, all_rows):
                saving = float(squares[owner] / encoding.sizes[owner])
                master.add(master.jobs[int(index[owner])], rows, amounts, saving)
        master.add_answers(self.best)


def _by_owner(owners: IntArray, rows: IntArray) -> Iterable[tuple[int, IntArray, IntArray]]:
    # Return every owner with its distinct rows, and how often it has each.
    (owner, row), amounts = np.unique(np.stack((owners, rows)), axis=1, return_counts=True)
    distinct, first = np.unique(owner, return_index=True)
    return zip(distinct.tolist(), np.split(row, first[1:]), np.split(amounts, first[1:]), strict=True)


class LeafPrices(TopologySolver):
    """Bounds the cost by prices for parts of leaves and pods, and inserts jobs according to the prices.

    A budget's iterations limit three numbers: master problems, allocations, and steps of the search at the end.
    """

    name: ClassVar[str] = "prices"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.FREE}),
        frozenset({Promise.ANYTIME, Promise.BOUND}),
        f"{MOST_IDLE:,} idle nodes, {MOST_JOBS:,} jobs, {LARGEST_PRICING:,} as the sum over levels of (sum of sizes + "
        "nodes of the largest group) x nodes of the largest part of a job there",
    )

    def refusal(self, problem: TopologyProblem) -> str | None:
        n_idle, n_jobs, sizes = len(problem.idle_nodes), len(problem.jobs), np.unique(problem.sizes)
        if n_idle > MOST_IDLE or n_jobs > MOST_JOBS:
            return f"it has {n_idle:,} idle nodes and {n_jobs:,} jobs; supported are {self.capabilities.largest}"
        work = 0
        for groups in problem.topology.groups_of(problem.idle_nodes):
            nodes = int(np.unique(groups, return_counts=True)[1].max())
            # Count the additions of the jobs' programs and of the groups' knapsacks.
            work += int((sizes * np.minimum(sizes, nodes)).sum()) + nodes * min(nodes, int(sizes[-1]))
        too_large = f"the sum over levels is {work:,}; supported are {self.capabilities.largest}"
        return too_large if work > LARGEST_PRICING else None

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        asked = (first_installed(STARTS, problem), first_installed(SEARCHES, problem))
        others = (entry for solver in asked for entry in (solver.kernels(problem) if solver else ()))
        return (*EXACT_KERNELS, *PRICE_KERNELS, *others)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        steps = STEPS_PER_JOB * len(problem.jobs)
        improve(STARTS, problem, run, budget, seed, 0.3, steps)
        if run.solution is None:
            run.offer(Allocation.sequential(problem))
        if not run.interrupted and not run.clock.expired():
            _Bounding(problem, run, budget).proceed(seed)
        if not (run.interrupted or run.clock.expired() or run.is_proved()):
            improve(SEARCHES, problem, run, budget, seed, 1.0, steps)
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        return StopReason.COMPLETED if budget.iterations is None else StopReason.ITERATIONS


class _Bounding:
    def __init__(self, problem: TopologyProblem, run: Run, budget: Budget) -> None:
        self._problem, self._run, self._budget = problem, run, budget
        self._encoding: Encoding = encode(problem)
        self._steps: float = math.inf if budget.iterations is None else budget.iterations
        self._deadline = math.inf

    def proceed(self, seed: int) -> None:
        top = len(self._encoding.groups)
        pricing = Pricing(self._encoding, top)
        priced = self._climb(pricing, np.zeros(pricing.tree.n_rows))
        orders = Rounding(self._problem, self._encoding, pricing, priced, np.random.default_rng(seed))
        most = self._budget.iterations or (ORDERS if self._budget.seconds is None else MOST_ITERATIONS)
        most = most if self._insertion_work() <= LARGEST_INSERTION else 0
        orders.proceed(min(RANDOM_ORDERS, most), self._run, self._remaining)
        self._set_deadline(BOUND_SHARE)
        # If `exact` takes the window, add its bound by charges per node and cuts.
        is_taken = self._insertion_work() <= MOST_CHARGED and ExactFree().refusal(self._problem) is None
        if is_taken and self._may_go_on() and self._remaining() >= Closing.seconds_to_set_up(self._problem):
            seconds = None if self._budget.seconds is None else max(LEAST_S, self._remaining())
            # A separate run, because its clock ends with this part's share of the time.
            part = Run(ExactFree(), self._problem, replace(self._budget, seconds=seconds), 0, self._run.solution)
            closing = Closing(self._problem, part, self._budget.iterations)
            closing.bound()
            closing.strengthen(LEAST_PROGRESS)
            if part.bound is not None:
                self._run.prove(part.bound, part.certificate)
        # Separate the groups level by level, as long as there are few prices to find.
        for level in range(len(self._encoding.groups) - 1, -1, -1):
            if self._run.is_proved() or not self._may_go_on():
                break
            finer = Pricing(self._encoding, level)
            if finer.tree.n_rows > MOST_ROWS or finer.work() > MOST_WORK:
                break
            priced = self._climb(finer, finer.inherited(pricing, priced.prices))
            pricing = finer
        self._set_deadline(ORDERS_SHARE)
        orders.proceed(most, self._run, self._remaining)

    def _climb(self, pricing: Pricing, prices: FloatArray) -> Priced:
        owners = self._run.solution.owners(self._problem)
        ascent = _Ascent(self._encoding, pricing, prices, owners)
        ascent.converge(self._remaining, self._may_go_on)
        hops = float((self._encoding.top * self._problem.sizes - self._encoding.bottom).sum())
        best = ascent.best
        self._run.prove(self._encoding.scale * (hops - best.bound), partial(self._priced, pricing, best.prices.copy()))
        return best

    def _priced(self, pricing: Pricing, prices: FloatArray) -> PartPrices:
        """Return the certificate of prices of parts, without classes of a single group whose prices are 0."""
        tree, rows = pricing.tree, self._problem.topology.groups_of(self._problem.idle_nodes)
        classes = []
        for level, (of_group, row, given) in enumerate(
            zip(pricing.class_of_group, self._encoding.groups, rows, strict=True), 1
        ):
            names = given[np.unique(row, return_index=True)[1]]
            for v in np.unique(of_group).tolist():
                groups, of_class = names[of_group == v], prices[tree.first[v] : tree.first[v + 1]]
                if len(groups) > 1 or of_class.any():
                    # Rounding may have left a price a little below 0.
                    positive = np.maximum(of_class, 0.0)
                    classes.append(PartClass(level, tuple(groups.tolist()), (0.0, *positive[1:].tolist())))
        return PartPrices(tuple(classes))

    def _insertion_work(self) -> int:
        levels, largest = len(self._problem.topology.hops), int(self._problem.sizes.max())
        return len(self._problem.idle_nodes) * levels * largest

    def _set_deadline(self, share: float) -> None:
        self._deadline = self._run.clock.elapsed() + share * self._run.clock.remaining()

    def _remaining(self) -> float:
        return min(self._run.clock.remaining(), self._deadline - self._run.clock.elapsed())

    def _may_go_on(self) -> bool:
        """Count a step, and return whether steps and time are left."""
        self._steps -= 1
        return self._steps >= 0 and self._remaining() > 0.0
