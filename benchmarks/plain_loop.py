"""FCFS and EASY backfilling as a plain Python loop, with which the compiled kernels are compared."""

from bisect import bisect_left, insort
from heapq import heappop, heappush

from allocopt.simulator.rules import Backfill
from allocopt.traces.workload import Workload


class PlainLoop:
    """The batched order with jobs killed at their limit, on a pool of processors.

    Parameters
    ----------
    workload
        The jobs.
    processors
        Size of the machine.
    """

    def __init__(self, workload: Workload, processors: int) -> None:
        self.submit = workload.submit.tolist()
        self.estimate = workload.estimate.tolist()
        self.run = [min(pair) for pair in zip(workload.run.tolist(), self.estimate, strict=True)]
        self.needs = workload.processors.tolist()
        self.free = processors
        self.start = [0.0] * len(workload)
        self.ends: list[tuple[float, int]] = []
        self.promised: list[tuple[float, int]] = []
        self.queue: list[int] = []

    def simulate(self, easy: bool) -> list[float]:
        """Return the start of each job in seconds, with or without EASY backfilling."""
        coming, n = 0, len(self.submit)
        while coming < n or self.ends:
            now = self.ends[0][0] if self.ends else self.submit[coming]
            if coming < n:
                now = min(now, self.submit[coming])
            while self.ends and self.ends[0][0] == now:
                self._end(heappop(self.ends)[1])
            while coming < n and self.submit[coming] == now:
                self.queue.append(coming)
                coming += 1
            started = 0
            while started < len(self.queue) and self.needs[self.queue[started]] <= self.free:
                self._start(self.queue[started], now)
                started += 1
            del self.queue[:started]
            if easy and self.free and len(self.queue) > 1:
                self._backfill(now)
        return self.start

    def _start(self, job: int, now: float) -> None:
        self.start[job] = now
        self.free -= self.needs[job]
        heappush(self.ends, (now + self.run[job], job))
        insort(self.promised, (now + self.estimate[job], job))

    def _end(self, job: int) -> None:
        self.free += self.needs[job]
        del self.promised[bisect_left(self.promised, (self.start[job] + self.estimate[job], job))]

    def _backfill(self, now: float) -> None:
        """Start the jobs that do not delay the head of the queue."""
        shadow, spare = self._shadow(self.queue[0])
        left = [self.queue[0]]
        for job in self.queue[1:]:
            need, in_time = self.needs[job], now + self.estimate[job] <= shadow
            if need <= self.free and (in_time or need <= spare):
                spare -= 0 if in_time else need
                self._start(job, now)
            else:
                left.append(job)
        self.queue = left

    def _shadow(self, head: int) -> tuple[float, int]:
        """Return when the head can start by the estimates, and the number of spare processors at that time."""
        spare, shadow = self.free - self.needs[head], 0.0
        for end, job in self.promised:
            if spare >= 0 and end > shadow:
                break
            shadow = end
            spare += self.needs[job]
        return shadow, spare


def plain_starts(workload: Workload, processors: int, backfill: Backfill) -> list[float]:
    """Return the start of each job in seconds, under FCFS with or without EASY backfilling."""
    return PlainLoop(workload, processors).simulate(backfill is Backfill.EASY)
