"""Obvious, slow twin of the event simulator: one pool of processors, plain lists and sorts.

A job holds its processors on [start, end). Jobs are indices into lists sorted by submission, then id; that index breaks
the ties of simultaneous arrivals and equal keys. Of simultaneous ends, that of the job that was started first comes
first.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from support.slow_scores import SlowScores

from allocopt.arrays import FloatArray
from allocopt.simulator.rules import Backfill, EventOrder, OrderKind, QueueOrder, Rules
from allocopt.simulator.scheduler import ListScheduler
from allocopt.traces.workload import Workload

Key = Callable[[int, float], Any]
"""Sorting key of a job index at a time; the smallest comes first."""


@dataclass
class _Pool:
    """What a scheduling pass sees: the time, who waits, who runs, who holds a reservation."""

    processors: Sequence[int]
    estimate: Sequence[float]
    machine: int
    key: Key | None
    backfill_key: Key | None
    now: float = 0
    waiting: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    start: dict[int, float] = field(default_factory=dict)
    reserved: dict[int, float] = field(default_factory=dict)
    joined: dict[int, float] = field(default_factory=dict)
    known: SlowScores | None = None
    predicts: bool = False
    planned: dict[int, float] = field(default_factory=dict)
    expected_end: dict[int, float] = field(default_factory=dict)

    def free(self) -> int:
        return self.machine - sum(self.processors[job] for job in self.running)

    def fits(self, job: int) -> bool:
        return self.processors[job] <= self.free()

    def join(self, jobs: list[int]) -> None:
        self.waiting += jobs
        self.joined |= dict.fromkeys(jobs, self.now)

    def score_by(self, key: Key | None) -> None:
        """Compute the scores anew, for an order that has a network."""
        if self.known is not None and isinstance(key, _Scored):
            key.of.clear()
            key.of |= self.known.scores(
                key.network, self.now, {job: self.joined[job] for job in self.waiting}, self.running
            )

    def plan_of(self, job: int) -> float:
        """How long plans take a waiting job to run."""
        return self.known.predicted(job) if self.predicts and self.known is not None else self.estimate[job]

    def correct(self) -> None:
        """Expect those to run for their estimates that run longer than predicted."""
        for job in self.running if self.predicts else ():
            if self.expected_end[job] <= self.now:
                self.expected_end[job] = self.start[job] + self.estimate[job]

    def start_now(self, job: int) -> None:
        self.planned[job] = self.plan_of(job)
        self.expected_end[job] = self.now + self.planned[job]
        if self.known is not None:
            self.known.started(self.now - self.joined[job])
        self.waiting.remove(job)
        self.reserved.pop(job, None)
        self.running.append(job)
        self.start[job] = self.now

    def release(self, jobs: list[int]) -> None:
        for job in sorted(jobs, key=lambda job: self.start[job] + self.planned[job] != self.now):
            if self.known is not None and job in self.running:
                self.known.ended(job, self.now - self.start[job])
        self.running = [job for job in self.running if job not in jobs]

    def estimated_end(self, job: int) -> float:
        """Estimated end of a running job; one that has passed counts as now."""
        return max(self.now, self.expected_end[job])

    def ended_early(self, job: int) -> bool:
        return self.now < self.expected_end[job]

    def queue(self) -> list[int]:
        return self.in_order(self.waiting, self.key)

    def candidates(self) -> list[int]:
        """Whoever waits behind the head of the queue, in backfilling order."""
        self.score_by(self.backfill_key)
        return self.in_order(self.queue()[1:], self.backfill_key)

    def in_order(self, jobs: list[int], key: Key | None) -> list[int]:
        """Jobs by a key, or as they come."""
        return list(jobs) if key is None else sorted(jobs, key=lambda job: (key(job, self.now), job))


@dataclass
class _Scored:
    """A key by the score of a network, as it was last computed."""

    network: FloatArray
    of: dict[int, float] = field(default_factory=dict)

    def __call__(self, job: int, now: float) -> float:
        return self.of[job]


@dataclass
class _Arrivals:
    """When jobs are to join the queue; those that follow another job are not known before that has ended."""

    submit: Sequence[float]
    preceding: Sequence[int]
    think: Sequence[float]
    time: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.time = {job: time for job, time in enumerate(self.submit) if self.preceding[job] < 0}

    def take(self, now: float) -> list[int]:
        """Jobs that join the queue now."""
        due = sorted(job for job, time in self.time.items() if time == now)
        for job in due:
            del self.time[job]
        return due

    def follow(self, ended: list[int], now: float) -> None:
        """Let the jobs come that follow jobs that have ended now."""
        for job, before in enumerate(self.preceding):
            if before in ended:
                self.time[job] = max(self.submit[job], now + self.think[job])


def _key(order: QueueOrder, jobs: Workload) -> Key | None:
    """Return what jobs are sorted by for an order of fixed or ageing values; None for arrival."""
    keys = order.keys(jobs, np.random.default_rng(0))
    values, submit = keys.values.tolist(), jobs.submit.tolist()
    if keys.kind is OrderKind.ARRIVAL:
        return None
    if keys.kind is OrderKind.FIXED:
        return lambda job, now: values[job]
    if keys.kind is OrderKind.SCORED:
        assert keys.network is not None
        return _Scored(keys.network)
    assert keys.kind is OrderKind.AGEING
    return lambda job, now: -values[job] * (now - submit[job])


def slow_starts(jobs: Workload, machine: int, scheduler: ListScheduler, rules: Rules) -> list[float]:
    """Start time of every job.

    Batched: at each distinct time all ends, then all arrivals, then one pass. Sequential: one event at a time,
    arrivals before ends, a pass after each; but a job that ends on its estimate has given its processors back before
    the first of these passes, because a schedule of estimates counts them as free from then on.
    Conservative backfilling also passes at every reserved start. Jobs age from their submission on.
    """
    submit, tried = jobs.submit.tolist(), None
    if scheduler.backfill_order is not None:
        tried = _key(scheduler.backfill_order, jobs) or (lambda job, now: submit[job])
    pool = _Pool(jobs.processors.tolist(), jobs.estimate.tolist(), machine, _key(scheduler.order, jobs), tried)
    pool.predicts = scheduler.predicts
    asked = [{"processors": one} for one in jobs.processors.tolist()]
    pool.known = SlowScores(asked, {"processors": machine}, jobs.estimate.tolist(), jobs.users.tolist())
    length = (np.minimum(jobs.run, jobs.estimate) if rules.kill_at_limit else jobs.run).tolist()
    arrivals = _Arrivals(submit, jobs.preceding_rows().tolist(), jobs.think_s.tolist())
    while arrivals.time or pool.waiting or pool.running:
        ends = {job: pool.start[job] + length[job] for job in pool.running}
        wake_ups = [time for time in pool.reserved.values() if time > pool.now]
        pool.now = min([*arrivals.time.values(), *ends.values(), *wake_ups])
        ended = [job for job in pool.running if ends[job] == pool.now]
        for leaving, arriving in _STEPS[rules.event_order](pool, arrivals, ended):
            pool.join(arriving)
            if scheduler.compression and any(pool.ended_early(job) for job in leaving):
                pool.reserved.clear()
            pool.correct()
            pool.score_by(pool.key)
            _PASSES[scheduler.backfill](pool)
    return [pool.start[job] for job in range(len(submit))]


_Steps = Iterator[tuple[list[int], list[int]]]
"""Who leaves and who arrives before each pass at one time."""


def _at_once(pool: _Pool, arrivals: _Arrivals, ended: list[int]) -> _Steps:
    pool.release(ended)
    arrivals.follow(ended, pool.now)
    yield ended, arrivals.take(pool.now)


def _one_by_one(pool: _Pool, arrivals: _Arrivals, ended: list[int]) -> _Steps:
    together = [job for job in ended if pool.now == pool.start[job] + pool.planned[job]]
    others = [job for job in ended if job not in together]
    pool.release(together)
    arrivals.follow(together, pool.now)
    arriving = arrivals.take(pool.now)
    if not arriving and not ended:
        yield [], []
    while together or arriving or others:
        # Those that end on time are one event, which counts to the first of them or to what comes before that.
        is_first = bool(together) and (not others or ended.index(together[0]) < ended.index(others[0]))
        if arriving:
            yield together, arriving[:1]
        elif is_first:
            yield together, []
        else:
            (leaving,), others = others[:1], others[1:]
            pool.release([leaving])
            arrivals.follow([leaving], pool.now)
            yield [leaving], []
        together, arriving = [], [*arriving[1:], *arrivals.take(pool.now)]


_STEPS: dict[EventOrder, Callable[[_Pool, _Arrivals, list[int]], _Steps]] = {
    EventOrder.BATCHED: _at_once,
    EventOrder.SEQUENTIAL: _one_by_one,
}


def _start_from_the_head(pool: _Pool) -> None:
    for job in pool.queue():
        if not pool.fits(job):
            return
        pool.start_now(job)


def _first_fit(pool: _Pool) -> None:
    _start_from_the_head(pool)
    for job in pool.candidates():
        if pool.fits(job):
            pool.start_now(job)


def _easy(pool: _Pool) -> None:
    _start_from_the_head(pool)
    for job in pool.candidates():
        if pool.fits(job) and _leaves_the_head_in_time(pool, job, pool.queue()[0]):
            pool.start_now(job)


def _leaves_the_head_in_time(pool: _Pool, job: int, head: int) -> bool:
    """Whether a candidate ends by the time the head fits, or takes only processors that the head leaves over then."""
    ends = sorted(pool.estimated_end(other) for other in pool.running)
    shadow = next(time for time in ends if _free_at(pool, time) >= pool.processors[head])
    extra = _free_at(pool, shadow) - pool.processors[head]
    return pool.now + pool.plan_of(job) <= shadow or pool.processors[job] <= extra


def _free_at(pool: _Pool, time: float) -> int:
    """Processors free once every running job estimated to end by then has ended."""
    return pool.machine - sum(pool.processors[job] for job in pool.running if pool.estimated_end(job) > time)


def _conservative(pool: _Pool) -> None:
    """Reserve for whoever has no reservation, then start those whose time has come.

    Where one of them does not really fit, or has missed its time, because a job before it runs past its estimate, all
    are planned anew.
    """
    if any(time < pool.now for time in pool.reserved.values()):
        pool.reserved.clear()
    if not _all_due_started(pool):
        pool.reserved.clear()
        _all_due_started(pool)


def _all_due_started(pool: _Pool) -> bool:
    """Reserve for whoever has no reservation, start those whose time has come, and say whether all of them fitted."""
    for job in pool.queue():
        if job not in pool.reserved:
            pool.reserved[job] = _earliest_place(pool, job)
    due = [job for job in pool.queue() if pool.reserved[job] <= pool.now]
    for job in due:
        if pool.fits(job):
            pool.start_now(job)
    return not set(due) & set(pool.waiting)


def _earliest_place(pool: _Pool, job: int) -> float:
    """Earliest time from which the job fits for its whole estimate beside running jobs and reservations."""
    changes = [(pool.now, pool.processors[other]) for other in pool.running]
    changes += [(pool.estimated_end(other), -pool.processors[other]) for other in pool.running]
    for other, time in pool.reserved.items():
        changes += [(time, pool.processors[other]), (time + pool.estimate[other], -pool.processors[other])]
    used, since = 0, pool.now
    for time, change in sorted(changes):
        if used + pool.processors[job] <= pool.machine and time >= since + pool.estimate[job]:
            return since
        fitted = used + pool.processors[job] <= pool.machine
        used += change
        if not fitted:
            since = time
    return since


_PASSES: dict[Backfill, Callable[[_Pool], None]] = {
    Backfill.NONE: _start_from_the_head,
    Backfill.FIRST_FIT: _first_fit,
    Backfill.EASY: _easy,
    Backfill.CONSERVATIVE: _conservative,
}
