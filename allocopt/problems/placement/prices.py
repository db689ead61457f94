"""A lower bound on the cost of placements by prices of the resources of leaves (Lagrangian relaxation).

The rows ``use of a leaf by all jobs <= free amounts of the leaf`` move into the objective. Then every job is placed
independently, at the least sum of its hop cost and the prices of its use. The program for one job finds this sum
exactly (`allocopt.kernels.insertion`):

    ``sum over j of min(left out, max(alone_j, min over counts of hops + prices * use)) - prices * free``

Prices are for the resources of a leaf, its nodes for exclusive jobs, and its room for quanta: a node with amounts f_r
has room for min over r of floor(f_r / q_r) jobs that need q. Prices follow the mean use of the last rounds
(F. Barahona and R. Anbil, "The volume algorithm", Math. Program. 87, 2000), in steps of Polyak's length.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.arrays import FloatMatrix, IntMatrix, record_type
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.problems.placement.certificates import LeafPrices
from allocopt.problems.placement.window import (
    WINDOW,
    PlacementArrays,
    alone_costs,
    cheapest_counts,
    hops_of,
    least_tasks,
    tasks_in,
    whole,
)

SIZES = 3  # how many sizes of a job (numbers of nodes, in whole segments) are priced; larger ones pay no prices
ROUNDS, ROUNDS_AT_ONCE = 2000, 10  # most rounds, and rounds between two checks of the clock
MOST_QUANTA = 16
HOPLESS, SURE = 1e-9, 1e-6  # in the bound by counting: factor of hop costs; tolerance in jobs for rounding
NEWEST, GROW, SHRINK = 0.05, 1.1, 0.7  # weight of a round in the mean; factors by which steps grow and shrink
PATIENCE, FIRST, SHORTEST = 20, 0.005, 1e-6  # rounds without a better bound until steps shrink; first and last length
BOUND, LENGTH, IDLE = range(3)


class _LeafPrices(NamedTuple):
    """Prices of leaves, and the use of leaves by jobs as shares of the free amounts.

    The C columns are the resources, the room for the quanta, and the nodes for exclusive jobs.
    """

    counts: IntArray  # jobs of each kind, shape ``(J,)``: a job stands for all of its kind
    eligible: IntMatrix  # nodes of each leaf that have room for a job, shape ``(J, leaves)``
    quanta: IntMatrix  # shape ``(Q, R)``
    needs: Annotated[FloatArray, 3]  # least use of a leaf by one node of a job, shape ``(J, leaves, C)``
    per_unit: FloatMatrix  # one unit as a share of the leaf's free amount, shape ``(leaves, C)``
    smallest: IntArray  # least number of nodes of each job
    alone: FloatArray  # least cost of each job without other jobs
    beyond: FloatArray  # least cost of each job without other jobs, on more nodes than are priced
    prices: FloatMatrix  # prices of all free units of a leaf, shape ``(leaves, C)``
    best_prices: FloatMatrix  # prices of the best bound so far
    use: FloatMatrix  # use of all jobs in this round less the free amount
    mean_use: FloatMatrix  # mean of `use` over the last rounds
    take: IntArray
    numbers: FloatArray  # best bound, length of steps, rounds without a better bound

    @classmethod
    def of(
        cls, window: PlacementArrays, counts: IntArray, alone: FloatArray, is_over: Callable[[], bool]
    ) -> "_LeafPrices":
        """Return prices of 0 for the jobs of a window, one of each kind."""
        jobs = window.jobs
        needed = window.per_node + np.minimum(jobs["most_tasks"], jobs["tasks"])[:, None] * window.per_task
        quanta = np.unique(needed[needed.any(axis=1)], axis=0)
        # Keep the scarcest quanta.
        scarcity = (quanta / np.maximum(window.free.sum(axis=0), 1)).max(axis=1, initial=0.0)
        quanta = np.ascontiguousarray(quanta[np.argsort(-scarcity, kind="stable")[:MOST_QUANTA]])
        n, leaves, width = jobs.size, len(window.tree.leaf_first) - 1, window.free.shape[1] + len(quanta) + 1
        tasks_at = np.zeros(len(window.free), dtype=np.int64)
        per_unit, prices, best_prices, use, mean_use = (np.zeros((leaves, width)) for _ in range(5))
        made = cls(
            counts,
            np.zeros((n, leaves), dtype=np.int64),
            quanta,
            np.zeros((n, leaves, width)),
            per_unit,
            np.zeros(n, dtype=np.int64),
            alone,
            np.zeros(n),
            prices,
            best_prices,
            use,
            mean_use,
            np.zeros(leaves, dtype=np.int64),
            np.array([float(counts @ alone), FIRST, 0.0]),
        )
        _fill_needs(window, made, tasks_at)
        return made._replace(beyond=alone_costs(window, made.smallest + (SIZES - 1) * jobs["part"] + 1, is_over))


_LEAF_PRICES = record_type(_LeafPrices)


@inlined
def _last_size(w: PlacementArrays, p: _LeafPrices, job: int) -> int:
    """Return the largest number of nodes of a job that is priced."""
    return int(min(w.jobs[job].most, p.smallest[job] + (SIZES - 1) * w.jobs[job].part))


@inlined
def _use_of(w: PlacementArrays, p: _LeafPrices, job: int, node: int, tasks: int, column: int) -> int:
    """Return the units of a column that a job uses with ``tasks`` on a node; for job -1, all free units."""
    n_resources, is_whole = w.free.shape[1], job < 0 or w.jobs[job].is_exclusive > 0
    if column == p.prices.shape[1] - 1:
        return int(is_whole and w.in_use[node] == 0)
    units = -1
    for resource in range(n_resources):
        quantum = 1 if column < n_resources else p.quanta[column - n_resources, resource]
        if quantum > 0 and (column >= n_resources or column == resource):
            amount = w.free[node, resource]
            if not is_whole:
                amount = w.per_node[job, resource] + tasks * w.per_task[job, resource]
            units = amount // quantum if units < 0 else min(units, amount // quantum)
    return int(units)


@kernel(void(WINDOW, _LEAF_PRICES, int64[::1]))
def _fill_needs(w: PlacementArrays, p: _LeafPrices, tasks_at: IntArray) -> None:
    """Fill the tables of the use of jobs; ``tasks_at`` is scratch, one number per node."""
    n_columns = p.prices.shape[1]
    for node in range(w.free.shape[0]):
        for column in range(n_columns):
            p.per_unit[w.leaf[node], column] += _use_of(w, p, -1, node, 0, column)
    for job in range(w.jobs.size):
        asked, room = w.jobs[job], 0
        for node in range(w.free.shape[0]):
            is_inside = False
            for mask in range(asked.first_mask, asked.first_mask + asked.n_masks):
                is_inside = is_inside or w.masks[mask, node]
            tasks_at[node] = tasks_in(w, w.free, w.in_use, job, node) if is_inside else 0
            room = max(room, tasks_at[node])
        p.smallest[job] = asked.most + 1
        if room > 0:
            p.smallest[job] = whole(max(asked.least, -(-asked.tasks // room)), asked.part)
        tasks = least_tasks(w, job, _last_size(w, p, job))
        for node in range(w.free.shape[0]):
            leaf = w.leaf[node]
            if tasks_at[node] >= tasks:
                for column in range(n_columns):
                    use = _use_of(w, p, job, node, tasks, column)
                    # Keep the least use of all eligible nodes; exclusive jobs use whole nodes, which may differ.
                    if p.eligible[job, leaf] == 0 or use < p.needs[job, leaf, column]:
                        p.needs[job, leaf, column] = use
                p.eligible[job, leaf] += 1
    for leaf in range(p.prices.shape[0]):
        for column in range(n_columns):
            if p.per_unit[leaf, column] > 0:
                p.per_unit[leaf, column] = 1.0 / p.per_unit[leaf, column]
            for job in range(w.jobs.size):
                p.needs[job, leaf, column] *= p.per_unit[leaf, column]


@inlined
def _price_of_node(p: _LeafPrices, job: int, leaf: int) -> float:
    price = 0.0
    for column in range(p.prices.shape[1]):
        price += p.prices[leaf, column] * p.needs[job, leaf, column]
    return float(price)


@inlined
def _price_of_task(w: PlacementArrays, p: _LeafPrices, job: int, leaf: int) -> float:
    price = 0.0
    # An exclusive job pays for whole nodes, regardless of its tasks.
    if w.jobs[job].is_exclusive:
        return price
    for resource in range(w.free.shape[1]):
        price += p.prices[leaf, resource] * p.per_unit[leaf, resource] * w.per_task[job, resource]
    return float(price)


@helper()
def _cheapest(w: PlacementArrays, p: _LeafPrices, job: int, size: int) -> float:
    """Return the least hop cost plus prices of ``size`` nodes of a job; write their counts to ``w.insertion.take``."""
    tree, state = w.tree, w.insertion
    n_leaves = p.prices.shape[0]
    for leaf in range(n_leaves):
        state.idle[leaf] = p.eligible[job, leaf]
        state.price[leaf] = 0.0
        if p.eligible[job, leaf] > 0:
            state.price[leaf] = _price_of_node(p, job, leaf) * size / w.scale
    for vertex in range(n_leaves, tree.idle.size):
        state.idle[vertex] = 0
        for place in range(tree.first_child[vertex], tree.first_child[vertex + 1]):
            state.idle[vertex] += state.idle[tree.children[place]]
    return float(w.scale * hops_of(w, size, cheapest_counts(w, job, size)))


@helper()
def _price_job(w: PlacementArrays, p: _LeafPrices, job: int) -> float:
    """Return the least cost of a job under the prices, and add its use to `use`."""
    asked, n_leaves, least, found, at = w.jobs[job], p.prices.shape[0], np.inf, 0, -1
    for leaf in range(n_leaves):
        if p.eligible[job, leaf] > 0 and (at < 0 or _price_of_task(w, p, job, leaf) < _price_of_task(w, p, job, at)):
            at = leaf
    if at < 0:
        return float(w.left_out_cost)
    last = _last_size(w, p, job)
    tasks = least_tasks(w, job, last)
    for size in range(p.smallest[job], last + 1, asked.part):
        # Each node pays for the least number of tasks; the other tasks pay the lowest price of a task.
        cost = (asked.tasks - size * tasks) * _price_of_task(w, p, job, at)
        cheapest = -1
        if size == 1:
            for leaf in range(n_leaves):
                is_better = cheapest < 0 or _price_of_node(p, job, leaf) < _price_of_node(p, job, cheapest)
                if p.eligible[job, leaf] > 0 and is_better:
                    cheapest = leaf
            cost += _price_of_node(p, job, cheapest)
        else:
            cost += _cheapest(w, p, job, size)
        if cost < least:
            least, found = cost, size
            for leaf in range(n_leaves):
                p.take[leaf] = int(leaf == cheapest) if size == 1 else w.insertion.take[leaf]
    value = min(max(least, p.alone[job]), p.beyond[job])
    if value >= w.left_out_cost:
        return float(w.left_out_cost)
    if value == p.beyond[job] and value < least:
        return float(value)
    for leaf in range(n_leaves):
        for column in range(p.prices.shape[1]):
            p.use[leaf, column] += p.counts[job] * p.take[leaf] * p.needs[job, leaf, column]
    for resource in range(0 if asked.is_exclusive else w.free.shape[1]):
        more = p.counts[job] * (asked.tasks - found * tasks) * w.per_task[job, resource]
        p.use[at, resource] += more * p.per_unit[at, resource]
    return float(value)


@kernel(float64(WINDOW, _LEAF_PRICES, float64, int64))
def _raise_prices(w: PlacementArrays, p: _LeafPrices, known: float, rounds: int) -> float:
    """Improve the prices for some rounds; return the best bound. ``known`` is the cost of a known solution."""
    for _ in range(rounds):
        bound = 0.0
        for leaf in range(p.prices.shape[0]):
            for column in range(p.prices.shape[1]):
                p.use[leaf, column] = 0.0
                if p.per_unit[leaf, column] > 0:
                    p.use[leaf, column] = -1.0
                bound -= p.prices[leaf, column]
        for job in range(w.jobs.size):
            bound += p.counts[job] * _price_job(w, p, job)
        is_better = bound > p.numbers[BOUND]
        p.numbers[IDLE] = 0 if is_better else p.numbers[IDLE] + 1
        if is_better:
            p.numbers[BOUND] = bound
            p.numbers[LENGTH] = min(1.0, GROW * p.numbers[LENGTH])
        elif p.numbers[IDLE] > PATIENCE:
            p.numbers[IDLE] = 0
            p.numbers[LENGTH] *= SHRINK
        total = 0.0
        for leaf in range(p.prices.shape[0]):
            for column in range(p.prices.shape[1]):
                if is_better:
                    p.best_prices[leaf, column] = p.prices[leaf, column]
                # In one round, equal jobs all use the same leaf; the mean over rounds spreads them.
                p.mean_use[leaf, column] += NEWEST * (p.use[leaf, column] - p.mean_use[leaf, column])
                if p.best_prices[leaf, column] > 0 or p.mean_use[leaf, column] > 0:
                    total += p.mean_use[leaf, column] ** 2
        if total == 0.0:
            break
        step = p.numbers[LENGTH] * (known - p.numbers[BOUND]) / total
        for leaf in range(p.prices.shape[0]):
            for column in range(p.prices.shape[1]):
                p.prices[leaf, column] = max(0.0, p.best_prices[leaf, column] + step * p.mean_use[leaf, column])
    return float(p.numbers[BOUND])


PRICE_KERNELS = (_fill_needs, _raise_prices)  # compiled functions that `bound_by_prices` calls


def bound_by_prices(
    window: PlacementArrays, counts: IntArray, alone: FloatArray, known: float, is_over: Callable[[float], bool]
) -> tuple[float, LeafPrices]:
    """Return a lower bound on the cost of placements, and its certificate.

    Parameters
    ----------
    window
        One job of each kind (`PlacementArrays.by_kind`).
    counts, alone
        Number of jobs of each kind, and the least cost of one without other jobs, shapes ``(J,)``.
    known
        Cost of a known solution.
    is_over
        Returns whether the given share of the time for the bound has passed.
    """
    # The tie break of insertions would weaken the bound.
    exact = window._replace(insertion=window.insertion._replace(tie_break=0.0))
    prices, least = _LeafPrices.of(exact, counts, alone, partial(is_over, 1.0)), 0.0
    proof = LeafPrices(quanta=tuple(map(tuple, prices.quanta.tolist())))
    if known >= window.left_out_cost > 0:
        # With hop costs near 0, the prices bound the number of jobs that are left out, which may be rounded up.
        possible = np.where(prices.beyond < window.left_out_cost, 0.0, window.left_out_cost)
        counting = prices._replace(alone=0.0 * alone, beyond=possible, numbers=np.array([0.0, FIRST, 0.0]))
        most = known // window.left_out_cost * window.left_out_cost
        counted = _climb(exact._replace(scale=HOPLESS * exact.scale), counting, most, partial(is_over, 0.5))
        # Subtract the most that all hops can cost.
        counted -= HOPLESS * window.scale * float(counts @ (window.top * window.jobs["most"]))
        n_jobs = int(counts.sum())
        left_out = max(0, min(n_jobs, int(np.ceil(counted / window.left_out_cost - SURE))))
        dearest = np.sort(np.repeat(alone, counts))[::-1][:left_out]
        least = float(counts @ alone + left_out * window.left_out_cost - dearest.sum())
        proof = replace(proof, counting=_per_unit(exact, counting) if left_out else ())
        prices.prices[:] = prices.best_prices
    bound = _climb(exact, prices, known, partial(is_over, 1.0))
    window.insertion.price[:] = 0.0
    if bound < least:
        return min(least, known), proof
    # If these prices improve nothing, certify the bound without prices.
    found = _per_unit(exact, prices) if bound > float(counts @ alone) else ()
    return min(bound, known), replace(proof, prices=found, counting=())


def _per_unit(window: PlacementArrays, prices: _LeafPrices) -> tuple[tuple[int, int, float], ...]:
    """Return the best prices per unit: number of the leaf in the topology, column and price."""
    of_unit = prices.best_prices * prices.per_unit
    leaf, column = np.nonzero(of_unit)
    return tuple(zip(window.names[leaf].tolist(), column.tolist(), of_unit[leaf, column].tolist(), strict=True))


def _climb(window: PlacementArrays, prices: _LeafPrices, known: float, is_over: Callable[[], bool]) -> float:
    bound = float(prices.numbers[BOUND])
    for _ in range(0, ROUNDS, ROUNDS_AT_ONCE):
        if is_over() or prices.numbers[LENGTH] < SHORTEST or bound >= known:
            break
        bound = _raise_prices(window, prices, known, ROUNDS_AT_ONCE)
    return bound
