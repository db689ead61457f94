"""Obvious, slow twin of the scheduling environment: plain lists, one pool of processors, events batched."""

from dataclasses import dataclass, field

from allocopt.traces.workload import Workload


@dataclass
class SlowEnvironment:
    """An episode of all jobs of a workload; jobs are numbered in its order."""

    workload: Workload
    machine: int
    easy: bool
    kill_at_limit: bool
    now: float = 0.0
    arrived: int = 0
    waiting: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    start: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.await_job()

    def size(self, job: int) -> int:
        return int(self.workload.processors[job])

    def estimate(self, job: int) -> float:
        return float(self.workload.estimate[job])

    def length(self, job: int) -> float:
        run = float(self.workload.run[job])
        return min(run, self.estimate(job)) if self.kill_at_limit else run

    def end(self, job: int) -> float:
        return self.start[job] + self.length(job)

    def expected_end(self, job: int) -> float:
        return max(self.now, self.start[job] + self.estimate(job))

    def free(self) -> int:
        return self.machine - sum(map(self.size, self.running))

    def act(self, slot: int) -> None:
        job = self.waiting[slot]
        while self.size(job) > self.free():
            if self.easy:
                self.backfill(job)
            self.advance()
        self.begin(job)
        self.await_job()

    def begin(self, job: int) -> None:
        self.waiting.remove(job)
        self.running.append(job)
        self.start[job] = self.now

    def await_job(self) -> None:
        while not self.waiting and len(self.start) < len(self.workload):
            self.advance()

    def advance(self) -> None:
        submit = self.workload.submit
        self.now = min([*submit[self.arrived : self.arrived + 1].tolist(), *map(self.end, self.running)])
        self.running = [job for job in self.running if self.end(job) > self.now]
        while self.arrived < len(submit) and submit[self.arrived] == self.now:
            self.waiting.append(self.arrived)
            self.arrived += 1

    def backfill(self, head: int) -> None:
        for job in [job for job in self.waiting if job != head]:
            if self.size(job) <= self.free() and self.is_harmless(job, head):
                self.begin(job)

    def is_harmless(self, job: int, head: int) -> bool:
        ends = sorted(map(self.expected_end, self.running))
        shadow = next(time for time in ends if self.free_at(time) >= self.size(head))
        return self.now + self.estimate(job) <= shadow or self.size(job) <= self.free_at(shadow) - self.size(head)

    def free_at(self, time: float) -> int:
        return self.machine - sum(self.size(job) for job in self.running if self.expected_end(job) > time)
