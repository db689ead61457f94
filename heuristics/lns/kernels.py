"""Large neighbourhood search: remove some jobs, re-insert each exactly under random leaf prices, accept.

A step costs what it touches: the leaves of the removed jobs, the vertices that are open, the tables of these.
"""

import numpy as np
from numba import float64, int64

from allocopt.arrays import WordArray
from allocopt.kernels.compiled import helper, inlined, kernel
from heuristics.lns.holding import copy_holding, give_back, hold_nodes
from heuristics.lns.insertion import fill_all, hold, place, set_prices, take_idle
from heuristics.lns.random import bell, below, uniform
from heuristics.lns.state import (
    CHANGED,
    MOVES,
    N_OPEN,
    STATE,
    STEPS,
    Groups,
    Moves,
    Open,
    Search,
    State,
)

DRAWS = 4
"""Jobs that are drawn until one is found that is not removed already."""


@inlined
def is_removed(search: Search, job: int, count: int) -> bool:
    """Whether a job is among the first ``count`` removed ones."""
    for i in range(count):
        if search.removed[i] == job:
            return True
    return False


@inlined
def regret(groups: Groups, search: Search, moves: Moves, job: int) -> float:
    """Say by how many hops a job is placed worse than it could be alone, what it is charged counted."""
    holdings, first = search.present, search.present.first[job]
    worse: float = search.alone[job] - holdings.saving[job] + search.eagerness[job]
    if moves.guidance > 0.0:
        for entry in range(first, first + holdings.length[job]):
            worse += groups.price[holdings.leaf[entry]] * holdings.nodes[entry]
    return worse


@inlined
def draw_first(groups: Groups, search: Search, moves: Moves, words: WordArray) -> int:
    """Draw the first job to remove: any, or of some the one that is placed worst."""
    job = below(words, search.sizes.size)
    if uniform(words) >= moves.worse:
        return job
    worst = regret(groups, search, moves, job)
    for _ in range(moves.rivals - 1):
        other = below(words, search.sizes.size)
        of_other = regret(groups, search, moves, other)
        if of_other > worst:
            job, worst = other, of_other
    return job


@inlined
def draw_near(groups: Groups, search: Search, moves: Moves, job: int, words: WordArray) -> int:
    """Draw a job that has nodes in a group near to a leaf of this one; -1 if none is there."""
    holdings = search.present
    vertex = holdings.leaf[holdings.first[job] + below(words, holdings.length[job])]
    while groups.parent[vertex] >= 0 and uniform(words) < moves.climb:
        vertex = groups.parent[vertex]
    while vertex >= groups.n_holders.size:
        first = groups.first_child[vertex]
        vertex = groups.children[first + below(words, groups.first_child[vertex + 1] - first)]
    if groups.n_holders[vertex] == 0:
        return -1
    seat = groups.leaf_first[vertex] + below(words, groups.n_holders[vertex])
    return int(groups.owner[groups.holders[seat]])


@inlined
def draw_removed(groups: Groups, search: Search, moves: Moves, words: WordArray) -> int:
    """Draw the jobs to remove, and return how many."""
    wanted = 1 + below(words, search.removed.size)
    search.removed[0] = draw_first(groups, search, moves, words)
    count = 1
    for _ in range(DRAWS * (wanted - 1)):
        if count == wanted:
            break
        job = -1
        if uniform(words) < moves.related:
            job = draw_near(groups, search, moves, search.removed[below(words, count)], words)
        else:
            job = below(words, search.sizes.size)
        if job >= 0 and not is_removed(search, job, count):
            search.removed[count] = job
            count += 1
    return count


@inlined
def see(groups: Groups, leaf: int, step: int) -> None:
    """Note for a leaf and all groups above it that jobs are removed there in this step."""
    child, vertex = -1, leaf
    while True:
        known = groups.seen[vertex] == step
        if not known:
            groups.seen[vertex] = step
            groups.freed[vertex] = -1
        if child >= 0:
            groups.next_freed[child] = groups.freed[vertex]
            groups.freed[vertex] = child
        if known or groups.parent[vertex] < 0:
            break
        child, vertex = vertex, groups.parent[vertex]


@inlined
def remove_jobs(groups: Groups, search: Search, count: int) -> float:
    """Take the drawn jobs out, and return what they saved."""
    saved = 0.0
    for i in range(count):
        job = search.removed[i]
        give_back(groups, search.present, job)
        saved += search.present.saving[job]
        first = search.present.first[job]
        for entry in range(first, first + search.present.length[job]):
            see(groups, search.present.leaf[entry], search.counters[STEPS])
    return saved


@inlined
def open_vertex(groups: Groups, part: Open, search: Search, vertex: int) -> None:
    """Open one vertex."""
    i = search.counters[N_OPEN]
    search.counters[N_OPEN] = i + 1
    part.vertex[i] = vertex
    part.weight[i] = groups.weight[vertex]
    part.idle[i] = groups.idle[vertex]


@inlined
def open_children(groups: Groups, part: Open, search: Search, moves: Moves, vertex: int, words: WordArray) -> None:
    """Open the children of an open vertex: all that have idle nodes if they are few, else the freed and some others."""
    step, first, awake = search.counters[STEPS], groups.first_child[vertex], groups.awake[vertex]
    if awake <= moves.few:
        for at in range(first, first + awake):
            open_vertex(groups, part, search, groups.children[at])
        return
    if groups.seen[vertex] == step:
        child = groups.freed[vertex]
        while child >= 0:
            open_vertex(groups, part, search, child)
            child = groups.next_freed[child]
    for _ in range(moves.others):
        child = groups.children[first + below(words, awake)]
        if groups.seen[child] != step:
            groups.seen[child] = step
            groups.freed[child] = -1
            open_vertex(groups, part, search, child)


@inlined
def open_part(groups: Groups, part: Open, search: Search, moves: Moves, words: WordArray) -> None:
    """Open a part of the tree around the removed jobs, and draw what a node of its vertices costs."""
    search.counters[N_OPEN] = 0
    open_vertex(groups, part, search, groups.parent.size - 1)
    i = 0
    while i < search.counters[N_OPEN]:
        vertex = part.vertex[i]
        part.first[i] = search.counters[N_OPEN]
        if vertex >= groups.n_holders.size:
            open_children(groups, part, search, moves, vertex, words)
            part.charge[i] = moves.inner_price * bell(words)
        else:
            part.charge[i] = moves.price * bell(words) + moves.guidance * groups.worth[vertex]
        part.last[i] = search.counters[N_OPEN]
        i += 1
    for i in range(search.counters[N_OPEN] - 1, -1, -1):
        if part.first[i] < part.last[i]:
            part.idle[i] = 0
            for child in range(part.first[i], part.last[i]):
                part.idle[i] += part.idle[child]


@inlined
def note(groups: Groups, part: Open, search: Search, i: int) -> None:
    """Write down the leaves of the job placed last."""
    length = 0
    for at in range(search.counters[N_OPEN]):
        if part.take[at] > 0 and part.vertex[at] < groups.n_holders.size:
            search.leaf[i, length] = part.vertex[at]
            search.nodes[i, length] = part.take[at]
            length += 1
    search.length[i] = length


@inlined
def insert_jobs(part: Open, groups: Groups, search: Search, count: int, most: int) -> float:
    """Insert the removed jobs one after the other, each exactly at the same charges; return what they save."""
    n_open = search.counters[N_OPEN]
    set_prices(part, n_open, float(most))
    fill_all(part, n_open, most)
    saved = 0.0
    for i in range(count):
        search.saving[i] = place(part, n_open, search.sizes[search.removed[i]])
        saved += search.saving[i]
        note(groups, part, search, i)
        if i + 1 < count:
            hold(part, n_open, largest_of(search, i + 1, count))
    return saved


@inlined
def insert_guided(part: Open, groups: Groups, search: Search, moves: Moves, count: int) -> float:
    """Insert the removed jobs one after the other, each exactly at charges of its own; return what they save."""
    n_open = search.counters[N_OPEN]
    removed = 0.0
    for i in range(count):
        removed += search.sizes[search.removed[i]]
    left, saved = removed, 0.0
    for i in range(count):
        size = search.sizes[search.removed[i]]
        left -= size
        set_prices(part, n_open, size * (left / removed) ** moves.fading if left > 0.0 else 0.0)
        fill_all(part, n_open, size)
        search.saving[i] = place(part, n_open, size)
        saved += search.saving[i]
        note(groups, part, search, i)
        take_idle(part, n_open)
    return saved


@inlined
def largest_of(search: Search, first: int, last: int) -> int:
    """Nodes of the largest of some removed jobs."""
    largest = 0
    for i in range(first, last):
        largest = max(largest, search.sizes[search.removed[i]])
    return largest


@inlined
def take_over(search: Search, count: int) -> None:
    """Let the removed jobs have the nodes that they were inserted at."""
    holdings = search.present
    for i in range(count):
        job = search.removed[i]
        first = holdings.first[job]
        holdings.length[job] = search.length[i]
        holdings.saving[job] = search.saving[i]
        for at in range(search.length[i]):
            holdings.leaf[first + at] = search.leaf[i, at]
            holdings.nodes[first + at] = search.nodes[i, at]
        if search.is_changed[job] == 0:
            search.is_changed[job] = 1
            search.changed[search.counters[CHANGED]] = job
            search.counters[CHANGED] += 1


@inlined
def keep_if_best(search: Search) -> None:
    """Let the present state be the best one if it is."""
    # Savings are sums of fractions; what is better by less than this is not better.
    if search.savings[0] <= search.savings[1] + 1e-9:
        return
    search.savings[1] = search.savings[0]
    for i in range(search.counters[CHANGED]):
        copy_holding(search.present, search.best, search.changed[i])
        search.is_changed[search.changed[i]] = 0
    search.counters[CHANGED] = 0


@inlined
def settle(groups: Groups, search: Search, change: float, temperature: float, count: int, words: WordArray) -> None:
    """Accept the new places of the removed jobs or not, as in annealing; then they hold their nodes again."""
    if change >= 0 or uniform(words) < np.exp(change / temperature):
        search.savings[0] += change
        take_over(search, count)
        keep_if_best(search)
    for i in range(count):
        hold_nodes(groups, search.present, search.removed[i])


@helper()
def _walk(
    groups: Groups,
    part: Open,
    search: Search,
    moves: Moves,
    temperature: float,
    cooling: float,
    steps: int,
    words: WordArray,
) -> float:
    """Take some steps; see `search_neighbourhoods`."""
    for _ in range(steps):
        search.counters[STEPS] += 1
        count = draw_removed(groups, search, moves, words)
        change = -remove_jobs(groups, search, count)
        largest = largest_of(search, 0, count)
        open_part(groups, part, search, moves, words)
        if moves.guidance > 0.0:
            change += insert_guided(part, groups, search, moves, count)
        else:
            change += insert_jobs(part, groups, search, count, largest)
        settle(groups, search, change, temperature, count, words)
        temperature *= cooling
    return temperature


@kernel(float64(STATE, MOVES, float64, float64, int64), allocates=True)
def search_neighbourhoods(state: State, moves: Moves, temperature: float, cooling: float, steps: int) -> float:
    """Take some steps of the search, whose state changes in place; return the temperature after them.

    Parameters
    ----------
    state
        Where the search is.
    moves
        How it moves.
    temperature
        Temperature of the first step, in hops.
    cooling
        By what it is multiplied after every step.
    steps
        How many steps.
    """
    return _walk(state.groups, state.part, state.search, moves, temperature, cooling, steps, state.words)
