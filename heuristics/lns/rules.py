"""The same search for windows with side constraints: every job is inserted under the tables of its own class.

See `allocopt.kernels.classes` for what rules change in a table. A job that finds no nodes in the open part of the tree
ends the step, and the removed jobs stay where they were.
"""

import numpy as np
from numba import float64, int64

from allocopt.arrays import IntArray
from allocopt.kernels.classes import JobClasses
from allocopt.kernels.compiled import inlined, kernel
from heuristics.lns.holding import give_back_entry
from heuristics.lns.insertion import PAD, fill_from_children, fill_leaf, multiply_children, place, set_prices
from heuristics.lns.kernels import draw_removed, largest_of, note, open_part, see, settle
from heuristics.lns.state import MOVES, N_OPEN, RULES, STATE, STEPS, Groups, Moves, Open, Rules, Search, State


@inlined
def squares_of(groups: Groups, leaf: int, nodes: int) -> float:
    """By how much the weighted squares of what is idle grow with so many more idle nodes in a leaf."""
    squares, vertex = 0.0, leaf
    while vertex >= 0:
        squares += groups.weight[vertex] * nodes * (2 * groups.idle[vertex] + nodes)
        vertex = groups.parent[vertex]
    return squares


@inlined
def remove_ruled_jobs(groups: Groups, search: Search, leftover: float, count: int) -> float:
    """Take the drawn jobs out, and return what they saved less what the idle nodes then save more."""
    saved, holdings = 0.0, search.present
    for i in range(count):
        job = search.removed[i]
        saved += holdings.saving[job]
        for entry in range(holdings.first[job], holdings.first[job] + holdings.length[job]):
            if leftover > 0.0:
                saved -= leftover * squares_of(groups, holdings.leaf[entry], holdings.nodes[entry])
            give_back_entry(groups, holdings, entry)
            see(groups, holdings.leaf[entry], search.counters[STEPS])
    return saved


@inlined
def apply_rules(groups: Groups, part: Open, classes: JobClasses, left: IntArray, i: int, r: int) -> None:
    """Bring the table of an open vertex to the rules of a class."""
    size, vertex = classes.sizes[r], part.vertex[i]
    level = classes.level[vertex]
    step, weight = classes.step[r, level], part.weight[i]
    is_closed = vertex < groups.n_holders.size and not classes.is_open[classes.area[r], vertex]
    leftover = size * classes.leftover * weight
    last = min(part.idle[i], size)
    for k in range(1, last + 1):
        if is_closed or k % step != 0:
            part.tables[i, k] = -np.inf
        else:
            part.tables[i, k] += leftover * k * (k - 2 * left[i])
    if size <= last:
        part.tables[i, size] += size * classes.bonus[r, level]


@inlined
def fill_all_ruled(groups: Groups, part: Open, classes: JobClasses, left: IntArray, n_open: int, r: int) -> bool:
    """Fill all tables for a job of a class; return whether there is a place for it."""
    size = classes.sizes[r]
    for i in range(n_open - 1, 0, -1):
        if part.first[i] == part.last[i]:
            fill_leaf(part, i, size)
        else:
            fill_from_children(part, i, part.first[i], size)
        apply_rules(groups, part, classes, left, i, r)
    if n_open == 1:
        return True
    multiply_children(part, 0, part.first[0], size)
    last = part.last[0] - 1
    has_place: bool = part.reach[last] >= size and part.products[last, PAD + size] > -np.inf
    return has_place


@inlined
def hold_taken(part: Open, classes: JobClasses, left: IntArray, n_open: int, r: int) -> tuple[float, float]:
    """Let the job placed last hold its nodes; return what it saves within one group, and what the leftover loses."""
    bonus, squares = 0.0, 0.0
    for i in range(n_open):
        nodes = part.take[i]
        squares += part.weight[i] * nodes * (2 * left[i] - nodes)
        part.idle[i] -= nodes
        left[i] -= nodes
        if nodes == classes.sizes[r]:
            bonus += classes.bonus[r, classes.level[part.vertex[i]]]
    return bonus, squares


@inlined
def insert_ruled_jobs(groups: Groups, part: Open, search: Search, rules: Rules, count: int) -> float:
    """Insert the removed jobs one after the other, each exactly; return what is saved, minus infinity if one cannot."""
    classes, left = rules.classes, rules.left
    n_open, saved = search.counters[N_OPEN], 0.0
    for i in range(n_open):
        left[i] = groups.idle[part.vertex[i]]
    for i in range(count):
        r = rules.of_job[search.removed[i]]
        if not fill_all_ruled(groups, part, classes, left, n_open, r):
            return -np.inf
        search.saving[i] = place(part, n_open, classes.sizes[r])
        note(groups, part, search, i)
        bonus, squares = hold_taken(part, classes, left, n_open, r)
        search.saving[i] += bonus
        saved += search.saving[i] - classes.leftover * squares
    return saved


@kernel(float64(STATE, MOVES, RULES, float64, float64, int64), allocates=True)
def search_ruled_neighbourhoods(
    state: State, moves: Moves, rules: Rules, temperature: float, cooling: float, steps: int
) -> float:
    """Take some steps of the search, which changes in place; return the temperature after them.

    Parameters
    ----------
    state, moves, temperature, cooling, steps
        As for `heuristics.lns.kernels.search_neighbourhoods`.
    rules
        The rules of the jobs.
    """
    groups, part, search, words = state.groups, state.part, state.search, state.words
    for _ in range(steps):
        search.counters[STEPS] += 1
        count = draw_removed(groups, search, moves, words)
        change = -remove_ruled_jobs(groups, search, rules.classes.leftover, count)
        largest = largest_of(search, 0, count)
        open_part(groups, part, search, moves, words)
        set_prices(part, search.counters[N_OPEN], float(largest))
        change += insert_ruled_jobs(groups, part, search, rules, count)
        settle(groups, search, change, temperature, count, words)
        temperature *= cooling
    return temperature
