"""Obvious, slow twin of the event simulator: one pool of processors, plain lists and sorts.

A job holds its processors on [start, end). Jobs are indices into lists sorted by submission, then id; that index breaks
the ties of simultaneous submissions, simultaneous ends and equal keys.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Literal

Key = Callable[[int, float], Any]
"""Sorting key of a job index at a time; the smallest comes first."""
Backfill = Literal["none", "easy", "conservative"]
EventOrder = Literal["batched", "sequential"]


@dataclass
class _Pool:
    """What a scheduling pass sees: the time, who waits, who runs, who holds a reservation."""

    processors: Sequence[int]
    estimate: Sequence[float]
    machine: int
    key: Key
    backfill_key: Key
    now: float = 0
    waiting: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    start: dict[int, float] = field(default_factory=dict)
    reserved: dict[int, float] = field(default_factory=dict)

    def free(self) -> int:
        return self.machine - sum(self.processors[job] for job in self.running)

    def fits(self, job: int) -> bool:
        return self.processors[job] <= self.free()

    def start_now(self, job: int) -> None:
        self.waiting.remove(job)
        self.reserved.pop(job, None)
        self.running.append(job)
        self.start[job] = self.now

    def release(self, jobs: list[int]) -> None:
        self.running = [job for job in self.running if job not in jobs]

    def estimated_end(self, job: int) -> float:
        """Estimated end of a running job; one that has passed counts as now."""
        return max(self.now, self.start[job] + self.estimate[job])

    def ended_early(self, job: int) -> bool:
        return self.now < self.start[job] + self.estimate[job]

    def queue(self) -> list[int]:
        return sorted(self.waiting, key=lambda job: (self.key(job, self.now), job))

    def candidates(self) -> list[int]:
        """Whoever waits behind the head of the queue, in backfilling order."""
        return sorted(self.queue()[1:], key=lambda job: (self.backfill_key(job, self.now), job))


def simulate_slowly(
    submit: Sequence[float],
    run: Sequence[float],
    processors: Sequence[int],
    estimate: Sequence[float],
    machine: int,
    *,
    backfill: Backfill = "none",
    event_order: EventOrder = "batched",
    kill_at_limit: bool = True,
    key: Key | None = None,
    backfill_key: Key | None = None,
    compression: bool = False,
) -> list[float]:
    """Start time of every job.

    Batched: at each distinct time all ends, then all submissions, then one pass. Sequential: one event at a time,
    submissions before ends, a pass after each; but a job that ends on its estimate has given its processors back before
    the first of these passes, because a schedule of estimates counts them as free from then on.
    Conservative backfilling also passes at every reserved start.
    """
    queue_key = key or (lambda job, now: 0)
    pool = _Pool(processors, estimate, machine, queue_key, backfill_key or queue_key)
    length = [min(r, e) for r, e in zip(run, estimate, strict=True)] if kill_at_limit else list(run)
    arrived = 0
    while arrived < len(submit) or pool.waiting or pool.running:
        ends = {job: pool.start[job] + length[job] for job in pool.running}
        wake_ups = [time for time in pool.reserved.values() if time > pool.now]
        pool.now = min([*submit[arrived : arrived + 1], *ends.values(), *wake_ups])
        submitted = list(takewhile(lambda job: submit[job] == pool.now, range(arrived, len(submit))))
        ended = sorted(job for job in pool.running if ends[job] == pool.now)
        steps = [(submitted, ended)]
        if event_order == "sequential":
            pool.release([job for job in ended if pool.now == pool.start[job] + estimate[job]])
            steps = [([job], []) for job in submitted] + [([], [job]) for job in ended] or [([], [])]
        arrived += len(submitted)
        for arriving, leaving in steps:
            pool.waiting += arriving
            pool.release(leaving)
            if compression and any(pool.ended_early(job) for job in leaving):
                pool.reserved.clear()
            _PASSES[backfill](pool)
    return [pool.start[job] for job in range(len(submit))]


def _start_from_the_head(pool: _Pool) -> None:
    for job in pool.queue():
        if not pool.fits(job):
            return
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
    return pool.now + pool.estimate[job] <= shadow or pool.processors[job] <= extra


def _free_at(pool: _Pool, time: float) -> int:
    """Processors free once every running job estimated to end by then has ended."""
    return pool.machine - sum(pool.processors[job] for job in pool.running if pool.estimated_end(job) > time)


def _conservative(pool: _Pool) -> None:
    """Reserve for whoever has no reservation, then start those whose time has come and who really fit."""
    for job in pool.queue():
        if job not in pool.reserved:
            pool.reserved[job] = _earliest_place(pool, job)
    for job in sorted(pool.queue(), key=lambda job: pool.reserved[job]):
        if pool.reserved[job] <= pool.now and pool.fits(job):
            pool.start_now(job)


def _earliest_place(pool: _Pool, job: int) -> float:
    """Earliest time from which the job fits for its whole estimate beside running jobs and reservations.

    A reservation whose time has passed (a job before it ran past its estimate) counts as from now.
    """
    changes = [(pool.now, pool.processors[other]) for other in pool.running]
    changes += [(pool.estimated_end(other), -pool.processors[other]) for other in pool.running]
    for other, time in pool.reserved.items():
        begin = max(time, pool.now)
        changes += [(begin, pool.processors[other]), (begin + pool.estimate[other], -pool.processors[other])]
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
    "none": _start_from_the_head,
    "easy": _easy,
    "conservative": _conservative,
}
