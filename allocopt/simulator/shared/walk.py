"""Periodic backfilling as in Slurm: a walk along the queue starts each job, or reserves whole nodes for it."""

import numpy as np

from allocopt.kernels.compiled import helper, inlined
from allocopt.simulator.shared.allocation import choose
from allocopt.simulator.shared.downtimes import is_known_downtime, meets_downtime
from allocopt.simulator.shared.reservations import (
    begin_ahead_on_nodes,
    fits_ahead_on_nodes,
    give_back_ahead,
    look_at,
)
from allocopt.simulator.shared.state import NOW, RESOLUTION_S, WINDOW_S, Shared
from allocopt.simulator.state import RUNNING


@inlined
def _expected_end(s: Shared, place: int) -> float:
    job: int = s.lists[RUNNING, place]
    return max(s.jobs[job].expected_end, s.clock[0].now)


@inlined
def _find_window(s: Shared, job: int) -> int:
    """Release running jobs, window by window of their ends, until a job fits; choose its nodes and return how many.

    Slurm looks ahead in the same way: each window is longer than the one before. If the last job released in a window
    is on nodes that the waiting job cannot use, the job that ends next is released, too, whenever it ends.
    ``clock.shadow`` is the last of these ends on nodes that the job may use.
    """
    clock = s.clock[0]
    begin_ahead_on_nodes(s, job)
    at, begin, window = 0, np.inf, WINDOW_S
    clock.shadow = np.inf
    while at < clock.n_running and clock.ahead_used == 0:
        shadow, until, is_within = _expected_end(s, at), begin + window, True
        while is_within:
            is_there = give_back_ahead(s, s.lists[RUNNING, at], job)
            if is_there:
                shadow = _expected_end(s, at)
                begin = min(begin, np.floor(shadow / WINDOW_S + 1.0) * WINDOW_S)
                until = begin + window
            at += 1
            is_within = at < clock.n_running and (not is_there or _expected_end(s, at) <= until)
        clock.shadow = shadow
        fits_ahead_on_nodes(s, job, np.nan)
        window *= 2.0
        while at < clock.n_running and begin + window < _expected_end(s, at):
            window *= 2.0
    return int(clock.ahead_used)


@inlined
def open_nodes(s: Shared) -> None:
    """Open all nodes again."""
    for node in range(s.order.size):
        s.closed[node] = False


@helper()
def close_nodes(s: Shared, since: float, until: float) -> float:
    """Close the nodes that are reserved or down at any time from ``since`` to ``until``, inclusive.

    Returns the earliest end of these reservations and downtimes, infinity if there are none.
    """
    opens = np.inf
    s.clock[0].work -= s.clock[0].n_slots + s.downtimes.size
    open_nodes(s)
    for place in range(s.downtimes.size):
        one = s.downtimes[place]
        if is_known_downtime(s, place) and one.end > since and one.begin <= until:
            opens = min(opens, one.end)
            s.closed[one.node] = True
    for at in range(s.clock[0].n_slots):
        if s.slots[at].until > since and s.slots[at].since <= until:
            s.clock[0].work -= s.order.size
            opens = min(opens, s.slots[at].until)
            for node in range(s.order.size):
                s.closed[node] |= s.slot_nodes[at, node]
    return opens


@inlined
def _is_reserved(s: Shared, since: float, until: float, used: int) -> bool:
    for at in range(s.clock[0].n_slots):
        if s.slots[at].since < until and s.slots[at].until > since:
            for i in range(used):
                if s.slot_nodes[at, s.chosen[0, i]]:
                    return True
    for i in range(used):
        if meets_downtime(s, s.chosen[0, i], since, until - since):
            return True
    return False


@helper()
def plan_start(s: Shared, job: int) -> int:
    """Choose nodes for a job, respecting the reservations of earlier jobs; return how many if it can start now.

    Otherwise return 0; if the job fits later, reserve whole nodes from that time on, for as long as its estimate.
    Slurm 22.05 does the same (``_attempt_backfill`` in ``backfill.c``); docs/clusters.md states the steps.
    """
    clock, shape = s.clock[0], s.jobs[job].shape
    opens, estimate = clock.now, s.shapes[shape].estimate
    while opens < np.inf:
        since = opens
        opens = close_nodes(s, since, since + estimate)
        # Ignore downtimes here, because nodes that are down in this time are closed.
        look_at(s, NOW, np.nan)
        used, begin = choose(s, shape), clock.now
        if used == 0:
            used = _find_window(s, job)
            begin = max(clock.shadow, clock.now + 1.0)
        begin = max(begin, since)
        if used == 0 or begin > opens:
            continue
        if begin <= clock.now:
            return used
        first = np.floor(begin / RESOLUTION_S) * RESOLUTION_S
        last = max(np.floor((begin + estimate) / RESOLUTION_S) * RESOLUTION_S, first + RESOLUTION_S)
        # Nodes are closed only for reservations until ``since + estimate``, but the job would end later than that.
        if begin > since and _is_reserved(s, first, last, used):
            opens = begin
            continue
        slot = s.slots[clock.n_slots]
        slot.since, slot.until = first, last
        for node in range(s.order.size):
            s.slot_nodes[clock.n_slots, node] = False
        for i in range(used):
            s.slot_nodes[clock.n_slots, s.chosen[0, i]] = True
        clock.n_slots += 1
        s.jobs[job].reserved = begin
        clock.next_walk = min(clock.next_walk, begin)
        return 0
    return 0


@inlined
def period_after(s: Shared, time: float) -> float:
    """Return the first multiple of the period that is not before ``time``."""
    period = s.rules[0].period
    return np.ceil(time / period) * period if time < np.inf else time
