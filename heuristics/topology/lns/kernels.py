"""Large neighbourhood search: remove some jobs, re-insert each exactly under random leaf prices, accept or reject.

The time of a step depends only on what it touches: the leaves of the removed jobs, and the open vertices with their
tables.

`allocopt.kernels.insertion` explains the method of the insertion, and the effect of rules on tables. Here all products
of siblings are kept, so that look-ups find the nodes of a job. Only the products from the first sibling on that gives
nodes to the job are computed again.
"""

import numpy as np
from numba import float64, int64

from allocopt.arrays import FloatArray, IntArray, WordArray
from allocopt.heuristics.topology.lns.state import (
    AHEAD,
    CHANGED,
    MOVES,
    N_OPEN,
    PAD,
    RULES,
    STATE,
    STEPS,
    Groups,
    Moves,
    Open,
    Rules,
    Search,
    State,
    give_back_entry,
    hold_nodes,
)
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.kernels.insertion import JobClasses
from allocopt.kernels.random import bell, below, uniform

DRAWS = 4  # draws per wanted job, because a drawn job may already be removed


@inlined
def _regret(groups: Groups, search: Search, moves: Moves, job: int) -> float:
    # Hops, charges included, by which a job is placed worse than it could be without other jobs.
    holdings, first = search.present, search.present.first[job]
    worse: float = search.alone[job] - holdings.saving[job] + search.eagerness[job]
    if moves.guidance > 0.0:
        for entry in range(first, first + holdings.length[job]):
            worse += groups.price[holdings.leaf[entry]] * holdings.nodes[entry]
    return worse


@inlined
def _draw_near(groups: Groups, search: Search, moves: Moves, job: int, words: WordArray) -> int:
    """Draw a job with nodes in a group near a leaf of this job; -1 if there is none."""
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
def _draw_removed(groups: Groups, search: Search, moves: Moves, words: WordArray) -> int:
    n_jobs = search.sizes.size
    wanted, count = 1 + below(words, search.removed.size), 1
    first = below(words, n_jobs)
    if uniform(words) < moves.worse:
        worst = _regret(groups, search, moves, first)
        for _ in range(moves.rivals - 1):
            other = below(words, n_jobs)
            of_other = _regret(groups, search, moves, other)
            if of_other > worst:
                first, worst = other, of_other
    search.removed[0] = first
    for _ in range(DRAWS * (wanted - 1)):
        if count == wanted:
            break
        job = -1
        if uniform(words) < moves.related:
            job = _draw_near(groups, search, moves, search.removed[below(words, count)], words)
        else:
            job = below(words, n_jobs)
        is_new = job >= 0
        for i in range(count):
            is_new = is_new and search.removed[i] != job
        if is_new:
            search.removed[count] = job
            count += 1
    return count


@inlined
def _see(groups: Groups, leaf: int, step: int) -> None:
    """Mark a leaf and all groups above it as places where this step removes jobs."""
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
def _remove_jobs(groups: Groups, search: Search, leftover: float, count: int) -> float:
    """Remove the drawn jobs; return their saving, less the additional saving of the leftover nodes."""
    saved, holdings = 0.0, search.present
    for i in range(count):
        job = search.removed[i]
        saved += holdings.saving[job]
        for entry in range(holdings.first[job], holdings.first[job] + holdings.length[job]):
            leaf, nodes = holdings.leaf[entry], holdings.nodes[entry]
            if leftover > 0.0:
                squares, vertex = 0.0, leaf
                while vertex >= 0:
                    squares += groups.weight[vertex] * nodes * (2 * groups.idle[vertex] + nodes)
                    vertex = groups.parent[vertex]
                saved -= leftover * squares
            give_back_entry(groups, holdings, entry)
            _see(groups, leaf, search.counters[STEPS])
    return saved


@inlined
def _open_vertex(groups: Groups, part: Open, search: Search, vertex: int) -> None:
    i = search.counters[N_OPEN]
    search.counters[N_OPEN] = i + 1
    part.vertex[i] = vertex
    part.weight[i] = groups.weight[vertex]
    part.idle[i] = groups.idle[vertex]


@inlined
def _open_children(groups: Groups, part: Open, search: Search, moves: Moves, vertex: int, words: WordArray) -> None:
    """Open the children with idle nodes of an open vertex: all if they are few, otherwise the freed and some others."""
    step, first, awake = search.counters[STEPS], groups.first_child[vertex], groups.awake[vertex]
    if awake <= moves.few:
        for at in range(first, first + awake):
            _open_vertex(groups, part, search, groups.children[at])
        return
    if groups.seen[vertex] == step:
        child = groups.freed[vertex]
        while child >= 0:
            _open_vertex(groups, part, search, child)
            child = groups.next_freed[child]
    for _ in range(moves.others):
        child = groups.children[first + below(words, awake)]
        if groups.seen[child] != step:
            groups.seen[child] = step
            groups.freed[child] = -1
            _open_vertex(groups, part, search, child)


@inlined
def _open_part(groups: Groups, part: Open, search: Search, moves: Moves, words: WordArray) -> None:
    search.counters[N_OPEN] = 0
    _open_vertex(groups, part, search, groups.parent.size - 1)
    i = 0
    while i < search.counters[N_OPEN]:
        vertex = part.vertex[i]
        part.first[i] = search.counters[N_OPEN]
        if vertex >= groups.n_holders.size:
            _open_children(groups, part, search, moves, vertex, words)
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
def _larger(x: float, y: float) -> float:
    """Return the larger number; `max` handles NaN and does not become a vector instruction."""
    return x if x > y else y


@inlined
def _end_row(row: FloatArray, last: int) -> None:
    for k in range(last + 1, last + AHEAD):
        row[k] = -np.inf


@inlined
def _multiply(product: FloatArray, reach: int, table: FloatArray, limit: int, most: int, result: FloatArray) -> int:
    """Write the max-plus product of ``product[PAD ..]`` and ``table[.. limit]``, cut at ``most``; return its reach."""
    # Four entries of the table are handled at once, with k as the inner loop, so that the compiler vectorizes it.
    # `product` is minus infinity before its first and behind its last entry, and `table` behind its last one.
    new_reach = min(reach + limit, most)
    # Slices that begin at index 0 need no check for negative indices.
    p0, p1, p2, p3 = product[PAD:], product[PAD - 1 :], product[PAD - 2 :], product[PAD - 3 :]
    target = result[PAD:]
    t0, t1, t2, t3 = table[0], table[1], table[2], table[3]
    for k in range(min(reach + AHEAD, new_reach + 1)):
        target[k] = _larger(_larger(p0[k] + t0, p1[k] + t1), _larger(p2[k] + t2, p3[k] + t3))
    for k in range(reach + AHEAD, new_reach + 1):
        target[k] = -np.inf
    for a in range(AHEAD, limit + 1, AHEAD):
        t0, t1, t2, t3 = table[a], table[a + 1], table[a + 2], table[a + 3]
        target = result[PAD + a :]
        for k in range(min(reach + AHEAD, new_reach + 1 - a)):
            gain = _larger(_larger(p0[k] + t0, p1[k] + t1), _larger(p2[k] + t2, p3[k] + t3))
            target[k] = _larger(target[k], gain)
    _end_row(result, PAD + new_reach)
    return new_reach


@inlined
def _set_prices(part: Open, n_open: int, factor: float) -> None:
    for i in range(n_open):
        part.price[i] = factor * part.charge[i]


@inlined
def _fill(part: Open, i: int, begin: int, most: int) -> None:
    """Fill the table of an open vertex, or the products of the top; tables of children from ``begin`` on are new."""
    weight, price, first, last = part.weight[i], part.price[i], part.first[i], part.last[i] - 1
    if first > last:
        limit = min(part.idle[i], most)
        for k in range(limit + 1):
            part.tables[i, k] = (weight * k - price) * k
        _end_row(part.tables[i], limit)
        return
    for child in range(begin, last + 1):
        limit = min(part.idle[child], most)
        if child == first:
            for k in range(limit + 1):
                part.products[child, PAD + k] = part.tables[child, k]
            _end_row(part.products[child], PAD + limit)
            part.reach[child] = limit
        else:
            before = min(part.reach[child - 1], most)
            part.reach[child] = _multiply(
                part.products[child - 1], before, part.tables[child], limit, most, part.products[child]
            )
    if i == 0:
        return
    limit = min(part.reach[last], most)
    for k in range(limit + 1):
        part.tables[i, k] = part.products[last, PAD + k] + (weight * k - price) * k
    _end_row(part.tables[i], limit)


@inlined
def _fill_all(part: Open, n_open: int, most: int) -> None:
    for i in range(n_open - 1, -1, -1):
        _fill(part, i, part.first[i], most)


@inlined
def _place(groups: Groups, part: Open, search: Search, number: int, size: int) -> float:
    """Find the best nodes for a removed job by the present tables; store its leaves, return its saving."""
    saving, length = 0.0, 0
    part.take[0] = size
    for i in range(search.counters[N_OPEN]):
        nodes, first, last = part.take[i], part.first[i], part.last[i]
        saving += part.weight[i] * nodes * nodes
        if nodes > 0 and part.vertex[i] < groups.n_holders.size:
            search.leaf[number, length], search.nodes[number, length] = part.vertex[i], nodes
            length += 1
        if nodes == 0 or first == last:
            for child in range(first, last):
                part.take[child] = 0
            continue
        for child in range(last - 1, first, -1):
            a = max(0, nodes - part.reach[child - 1])
            best = part.products[child, PAD + nodes]
            while nodes > 0 and part.products[child - 1, PAD + nodes - a] + part.tables[child, a] < best:
                a += 1
            part.take[child] = a
            nodes -= a
        part.take[first] = nodes
    search.length[number] = length
    search.saving[number] = saving / size
    return float(search.saving[number])


@inlined
def _largest_of(search: Search, first: int, last: int) -> int:
    largest = 0
    for i in range(first, last):
        largest = max(largest, search.sizes[search.removed[i]])
    return largest


@inlined
def _insert_jobs(part: Open, groups: Groups, search: Search, count: int) -> float:
    """Insert the removed jobs one after the other, each exactly at the same charges; return their saving."""
    n_open, most, saved = search.counters[N_OPEN], _largest_of(search, 0, count), 0.0
    _set_prices(part, n_open, float(most))
    _fill_all(part, n_open, most)
    for i in range(count):
        saved += _place(groups, part, search, i, search.sizes[search.removed[i]])
        if i + 1 == count:
            break
        # Only vertices on the paths from the taken leaves to the top change: compute their products again, from the
        # first child on that gave nodes.
        most = _largest_of(search, i + 1, count)
        for at in range(n_open - 1, -1, -1):
            if part.take[at] == 0:
                continue
            part.idle[at] -= part.take[at]
            begin = part.first[at]
            if begin == part.last[at]:
                _end_row(part.tables[at], min(part.idle[at], most))
                continue
            while part.take[begin] == 0:
                begin += 1
            _fill(part, at, begin, most)
    return saved


@inlined
def _insert_guided(part: Open, groups: Groups, search: Search, moves: Moves, count: int) -> float:
    """Insert the removed jobs one after the other, each exactly at its own charges; return their saving."""
    n_open = search.counters[N_OPEN]
    removed = 0.0
    for i in range(count):
        removed += search.sizes[search.removed[i]]
    left, saved = removed, 0.0
    for i in range(count):
        size = search.sizes[search.removed[i]]
        left -= size
        _set_prices(part, n_open, size * (left / removed) ** moves.fading if left > 0.0 else 0.0)
        _fill_all(part, n_open, size)
        saved += _place(groups, part, search, i, size)
        for at in range(n_open):
            part.idle[at] -= part.take[at]
    return saved


@inlined
def _fill_all_ruled(groups: Groups, part: Open, classes: JobClasses, left: IntArray, n_open: int, r: int) -> bool:
    size = classes.sizes[r]
    for i in range(n_open - 1, 0, -1):
        _fill(part, i, part.first[i], size)
        vertex, last = part.vertex[i], min(part.idle[i], size)
        level = classes.level[vertex]
        is_closed = vertex < groups.n_holders.size and not classes.is_open[classes.area[r], vertex]
        leftover = size * classes.leftover * part.weight[i]
        for k in range(1, last + 1):
            if is_closed or k % classes.step[r, level] != 0:
                part.tables[i, k] = -np.inf
            else:
                part.tables[i, k] += leftover * k * (k - 2 * left[i])
        if size <= last:
            part.tables[i, size] += size * classes.bonus[r, level]
    if n_open == 1:
        return True
    _fill(part, 0, part.first[0], size)
    last = part.last[0] - 1
    has_place: bool = part.reach[last] >= size and part.products[last, PAD + size] > -np.inf
    return has_place


@inlined
def _insert_ruled(groups: Groups, part: Open, search: Search, rules: Rules, count: int) -> float:
    # Returns the saving, or minus infinity if a job finds no nodes in the open part, which rejects the step.
    classes, left = rules.classes, rules.left
    n_open, saved = search.counters[N_OPEN], 0.0
    _set_prices(part, n_open, float(_largest_of(search, 0, count)))
    for i in range(n_open):
        left[i] = groups.idle[part.vertex[i]]
    for i in range(count):
        r = rules.of_job[search.removed[i]]
        if not _fill_all_ruled(groups, part, classes, left, n_open, r):
            return -np.inf
        _place(groups, part, search, i, classes.sizes[r])
        # The bonus of the job for staying within one group, and the loss of the leftover.
        bonus, squares = 0.0, 0.0
        for at in range(n_open):
            nodes = part.take[at]
            squares += part.weight[at] * nodes * (2 * left[at] - nodes)
            part.idle[at] -= nodes
            left[at] -= nodes
            if nodes == classes.sizes[r]:
                bonus += classes.bonus[r, classes.level[part.vertex[at]]]
        search.saving[i] += bonus
        saved += search.saving[i] - classes.leftover * squares
    return saved


@inlined
def _settle(groups: Groups, search: Search, change: float, temperature: float, count: int, words: WordArray) -> None:
    holdings = search.present
    if change >= 0 or uniform(words) < np.exp(change / temperature):
        search.savings[0] += change
        for i in range(count):
            job = search.removed[i]
            holdings.length[job], holdings.saving[job] = search.length[i], search.saving[i]
            for at in range(search.length[i]):
                entry = holdings.first[job] + at
                holdings.leaf[entry], holdings.nodes[entry] = search.leaf[i, at], search.nodes[i, at]
            if search.is_changed[job] == 0:
                search.is_changed[job] = 1
                search.changed[search.counters[CHANGED]] = job
                search.counters[CHANGED] += 1
        # Savings are sums of fractions, so smaller differences are rounding.
        if search.savings[0] > search.savings[1] + 1e-9:
            search.savings[1], best = search.savings[0], search.best
            for i in range(search.counters[CHANGED]):
                job = search.changed[i]
                search.is_changed[job] = 0
                best.length[job], best.saving[job] = holdings.length[job], holdings.saving[job]
                for entry in range(holdings.first[job], holdings.first[job] + holdings.length[job]):
                    best.leaf[entry], best.nodes[entry] = holdings.leaf[entry], holdings.nodes[entry]
            search.counters[CHANGED] = 0
    # Occupy the nodes of the removed jobs again, new or old ones.
    for i in range(count):
        hold_nodes(groups, holdings, search.removed[i])


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
    # A separate helper without allocations, so that its loop counts no references.
    for _ in range(steps):
        search.counters[STEPS] += 1
        count = _draw_removed(groups, search, moves, words)
        change = -_remove_jobs(groups, search, 0.0, count)
        _open_part(groups, part, search, moves, words)
        if moves.guidance > 0.0:
            change += _insert_guided(part, groups, search, moves, count)
        else:
            change += _insert_jobs(part, groups, search, count)
        _settle(groups, search, change, temperature, count, words)
        temperature *= cooling
    return temperature


@kernel(float64(STATE, MOVES, float64, float64, int64), allocates=True)
def search_neighbourhoods(state: State, moves: Moves, temperature: float, cooling: float, steps: int) -> float:
    """Take some steps, multiplying the temperature, in hops, by ``cooling`` after each; return the last temperature."""
    return _walk(state.groups, state.part, state.search, moves, temperature, cooling, steps, state.words)


@kernel(float64(STATE, MOVES, RULES, float64, float64, int64), allocates=True)
def search_ruled_neighbourhoods(
    state: State, moves: Moves, rules: Rules, temperature: float, cooling: float, steps: int
) -> float:
    """Take some steps of the search of a window with side constraints; see `search_neighbourhoods`."""
    groups, part, search, words = state.groups, state.part, state.search, state.words
    for _ in range(steps):
        search.counters[STEPS] += 1
        count = _draw_removed(groups, search, moves, words)
        change = -_remove_jobs(groups, search, rules.classes.leftover, count)
        _open_part(groups, part, search, moves, words)
        change += _insert_ruled(groups, part, search, rules, count)
        _settle(groups, search, change, temperature, count, words)
        temperature *= cooling
    return temperature
