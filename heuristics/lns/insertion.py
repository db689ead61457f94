"""Exact insertion of single jobs into the open part of the tree; see `allocopt.kernels.insertion` for the method.

Here all products of siblings are kept, so that finding a job's nodes is looking them up, and only the products from
the first vertex that it takes nodes of are made anew.
"""

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.kernels.compiled import inlined
from heuristics.lns.state import Open

AHEAD = 4
"""Numbers of nodes that are worked on at once."""
PAD = 4
"""Where the entry for 0 nodes is in a row of ``Open.products``: minus infinity stands before it."""


@inlined
def larger(x: float, y: float) -> float:
    """Return the larger one; `max` minds numbers that are none, and is no vector instruction."""
    return x if x > y else y


@inlined
def end_row(row: FloatArray, last: int) -> None:
    """Let nothing be possible beyond ``last``, as far as one looks."""
    for k in range(last + 1, last + AHEAD):
        row[k] = -np.inf


@inlined
def multiply(product: FloatArray, reach: int, table: FloatArray, limit: int, most: int, result: FloatArray) -> int:
    """Max-plus product of ``product[PAD ..]`` and ``table[0 .. limit]``, cut at ``most``; return its reach.

    Four numbers of nodes of the table are worked on at once, k on the inside: the compiler makes vector instructions of
    it. Before its first and behind its last entry ``product`` is minus infinity, and ``table`` is behind.
    """
    new_reach = min(reach + limit, most)
    # Indices that begin at 0 need no check for negative ones.
    p0, p1, p2, p3 = product[PAD:], product[PAD - 1 :], product[PAD - 2 :], product[PAD - 3 :]
    target = result[PAD:]
    t0, t1, t2, t3 = table[0], table[1], table[2], table[3]
    for k in range(min(reach + AHEAD, new_reach + 1)):
        target[k] = larger(larger(p0[k] + t0, p1[k] + t1), larger(p2[k] + t2, p3[k] + t3))
    for k in range(reach + AHEAD, new_reach + 1):
        target[k] = -np.inf
    for a in range(AHEAD, limit + 1, AHEAD):
        t0, t1, t2, t3 = table[a], table[a + 1], table[a + 2], table[a + 3]
        target = result[PAD + a :]
        for k in range(min(reach + AHEAD, new_reach + 1 - a)):
            gain = larger(larger(p0[k] + t0, p1[k] + t1), larger(p2[k] + t2, p3[k] + t3))
            target[k] = larger(target[k], gain)
    end_row(result, PAD + new_reach)
    return new_reach


@inlined
def multiply_children(part: Open, i: int, begin: int, most: int) -> None:
    """Make the products of the children of an open vertex from its child number ``begin`` on."""
    first = part.first[i]
    for child in range(begin, part.last[i]):
        limit = min(part.idle[child], most)
        if child == first:
            for k in range(limit + 1):
                part.products[child, PAD + k] = part.tables[child, k]
            end_row(part.products[child], PAD + limit)
            part.reach[child] = limit
        else:
            before = min(part.reach[child - 1], most)
            part.reach[child] = multiply(
                part.products[child - 1], before, part.tables[child], limit, most, part.products[child]
            )


@inlined
def set_prices(part: Open, n_open: int, factor: float) -> None:
    """Let the next job pay the charges, times a factor."""
    for i in range(n_open):
        part.price[i] = factor * part.charge[i]


@inlined
def fill_leaf(part: Open, i: int, most: int) -> None:
    """Fill the table of an open leaf."""
    weight, price, limit = part.weight[i], part.price[i], min(part.idle[i], most)
    for k in range(limit + 1):
        part.tables[i, k] = (weight * k - price) * k
    end_row(part.tables[i], limit)


@inlined
def fill_from_children(part: Open, i: int, begin: int, most: int) -> None:
    """Fill the table of an open vertex from those of its children, which have changed from ``begin`` on."""
    multiply_children(part, i, begin, most)
    weight, price, last = part.weight[i], part.price[i], part.last[i] - 1
    limit = min(part.reach[last], most)
    for k in range(limit + 1):
        part.tables[i, k] = part.products[last, PAD + k] + (weight * k - price) * k
    end_row(part.tables[i], limit)


@inlined
def fill_all(part: Open, n_open: int, most: int) -> None:
    """Fill all tables for jobs of at most ``most`` nodes."""
    for i in range(n_open - 1, -1, -1):
        if part.first[i] == part.last[i]:
            fill_leaf(part, i, most)
        elif i > 0:
            fill_from_children(part, i, part.first[i], most)
        else:
            multiply_children(part, i, part.first[i], most)


@inlined
def split(part: Open, i: int) -> None:
    """Split ``take[i]`` nodes best among the children of an open vertex."""
    nodes = part.take[i]
    first = part.first[i]
    for child in range(part.last[i] - 1, first, -1):
        a = max(0, nodes - part.reach[child - 1])
        best = part.products[child, PAD + nodes]
        while nodes > 0 and part.products[child - 1, PAD + nodes - a] + part.tables[child, a] < best:
            a += 1
        part.take[child] = a
        nodes -= a
    part.take[first] = nodes


@inlined
def place(part: Open, n_open: int, size: int) -> float:
    """Find the best nodes for a job by the tables as they are; return what it saves of its hops."""
    saving = 0.0
    part.take[0] = size
    for i in range(n_open):
        nodes = part.take[i]
        saving += part.weight[i] * nodes * nodes
        if nodes > 0 and part.first[i] < part.last[i]:
            split(part, i)
        else:
            for child in range(part.first[i], part.last[i]):
                part.take[child] = 0
    return saving / size


@inlined
def hold(part: Open, n_open: int, most: int) -> None:
    """Let the job placed last hold its nodes, and correct the tables for jobs of at most ``most`` nodes."""
    for i in range(n_open - 1, -1, -1):
        if part.take[i] == 0:
            continue
        part.idle[i] -= part.take[i]
        begin = part.first[i]
        if begin == part.last[i]:
            end_row(part.tables[i], min(part.idle[i], most))
            continue
        while part.take[begin] == 0:
            begin += 1
        if i > 0:
            fill_from_children(part, i, begin, most)
        else:
            multiply_children(part, i, begin, most)


@inlined
def take_idle(part: Open, n_open: int) -> None:
    """Let the job placed last hold its nodes, where all tables are filled anew for the next job."""
    for i in range(n_open):
        part.idle[i] -= part.take[i]
