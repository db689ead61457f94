"""Obvious, slow twin of the multicore simulator: plain lists, everything computed anew at every event."""

from dataclasses import dataclass, field
from math import inf
from typing import Any

from allocopt.cluster.multicore import ContentionConstants, Machine, Node, PowerConstants, Processor
from allocopt.traces.tasks import TaskWorkload


def slow_step(x: float) -> float:
    """Eq. 4, falling."""
    return 1.0 if x <= 0 else 0.0 if x >= 1 else 1 - (6 * x**5 - 15 * x**4 + 10 * x**3)


def slow_factor(rate: float, total: float, n: int, k: ContentionConstants | None, sharing: float = 1.0) -> float:
    """Eq. 2 and 3."""
    if k is None or total <= k.c:
        return 1.0
    width, beyond = k.dc - n * k.dd, rate - (k.da - n) * k.db
    step = slow_step(beyond / width) if width > 0 else float(beyond <= 0)
    floor = (step * sharing * n + 1) / (1 + sharing * n)
    return max(floor, min(1.0, 1 + k.b * (total - k.c)))


@dataclass(eq=False)
class _Task:
    job: int
    left: float
    rate_per_speed: float
    socket: "_Socket"


@dataclass(eq=False)
class _Socket:
    """A processor."""

    number: int
    kind: Processor
    node: "_Host"
    tasks: list[_Task] = field(default_factory=list)
    energy: float = 0.0

    def idle(self) -> int:
        return self.kind.cores - len(self.tasks)

    def rate(self, task: _Task) -> float:
        return task.rate_per_speed * self.kind.core_speed

    def demand(self) -> float:
        return sum(self.rate(task) for task in self.tasks)


@dataclass(eq=False)
class _Host:
    """A node."""

    number: int
    kind: Node
    sockets: list[_Socket] = field(default_factory=list)
    used_mb: float = 0.0

    def idle(self) -> int:
        return sum(socket.idle() for socket in self.sockets)

    def free_mb(self) -> float:
        return (inf if self.kind.memory_mb is None else self.kind.memory_mb) - self.used_mb


class SlowMulticore:
    """Simulates one policy without randomness.

    ``step_s`` is the longest time that passes at once: a fine one makes the energy a plain sum of power times time.
    """

    def __init__(self, machine: Machine, jobs: TaskWorkload, contention: bool = True, sharing: float = 1.0) -> None:
        self.jobs, self.contention, self.sharing = jobs, contention, sharing
        self.hosts = [_Host(number, node) for number, node in enumerate(machine.nodes())]
        numbers = iter(range(10**6))
        for host in self.hosts:
            host.sockets = [_Socket(next(numbers), kind, host) for kind in host.kind.processors]
        self.sockets = [socket for host in self.hosts for socket in host.sockets]
        self.waiting: list[int] = []
        self.start: dict[int, float] = {}
        self.end: dict[int, float] = {}
        self.job_energy = [0.0] * len(jobs)
        self.work_done = [0.0] * len(jobs)
        self.placed: dict[int, list[int]] = {}

    def run(self, job_rule: str, node_rule: str, step_s: float = inf) -> None:
        """Run to the end."""
        now, come = float(self.jobs.submit[0]), 0
        while come < len(self.jobs) or self.running():
            submission = float(self.jobs.submit[come]) if come < len(self.jobs) else inf
            ends = {id(task): task.left / self.speed(task) for task in self.running()}
            until = min([submission - now, step_s, *ends.values()])
            self.pass_time(until, [task for task in self.running() if ends[id(task)] <= until * (1 + 1e-12)])
            now = submission if until == submission - now else now + until
            self.end_tasks(now)
            while come < len(self.jobs) and self.jobs.submit[come] <= now:
                self.waiting.append(come)
                come += 1
            self.schedule(now, job_rule, node_rule)

    def running(self) -> list[_Task]:
        return [task for socket in self.sockets for task in socket.tasks]

    def factor(self, task: _Task) -> float:
        socket = task.socket
        if not self.contention:
            return 1.0
        others = len(socket.tasks) - 1
        return slow_factor(socket.rate(task), socket.demand(), others, socket.kind.contention, self.sharing)

    def speed(self, task: _Task) -> float:
        return self.factor(task) * task.socket.kind.core_speed

    def pass_time(self, seconds: float, ending: list[_Task]) -> None:
        for socket in self.sockets:
            power = socket.kind.power or PowerConstants(0, 0)
            shared = power.processor_w if self.contention else 0.0
            if not socket.tasks:
                socket.energy += seconds * (power.idle_w if self.contention else 0.0)
            for task in socket.tasks:
                stalled = power.stalled if self.contention else 1.0
                watts = power.core_w * (stalled + (1 - stalled) * self.factor(task)) + shared / len(socket.tasks)
                socket.energy += seconds * watts
                self.job_energy[task.job] += seconds * watts
        for task, speed in [(task, self.speed(task)) for task in self.running()]:
            self.work_done[task.job] += seconds * speed
            task.left = 0.0 if task in ending else task.left - seconds * speed

    def end_tasks(self, now: float) -> None:
        for socket in self.sockets:
            for task in [task for task in socket.tasks if task.left <= 0]:
                socket.tasks.remove(task)
                socket.node.used_mb -= float(self.jobs.memory_mb[task.job])
                self.end[task.job] = now

    def schedule(self, now: float, job_rule: str, node_rule: str) -> None:
        jobs = self.jobs
        keys: dict[str, Any] = {
            "first": lambda job: 0,
            "shortest": lambda job: jobs.estimate[job],
            "smallest": lambda job: jobs.tasks[job],
            "low_mem": lambda job: jobs.memory_mb[job],
            "low_mem_bw": lambda job: jobs.volume_mb[job] / jobs.estimate[job],
        }
        while self.waiting:
            job = min(self.waiting, key=keys[job_rule])
            if len([host for host in self.hosts if self.can_host(job, host)]) < jobs.nodes[job]:
                return
            self.waiting.remove(job)
            self.start[job] = now
            self.place(job, node_rule)

    def can_host(self, job: int, host: _Host) -> bool:
        per_node = int(self.jobs.per_node[job])
        return host.idle() >= per_node and host.free_mb() >= per_node * self.jobs.memory_mb[job]

    def place(self, job: int, node_rule: str) -> None:
        left, used = int(self.jobs.tasks[job]), list[_Host]()
        while left:
            hosts = [host for host in self.hosts if host not in used and self.can_host(job, host)]
            host = self.best([socket for host in hosts for socket in host.sockets], node_rule).node
            used.append(host)
            for _ in range(min(left, int(self.jobs.per_node[job]))):
                socket = self.best(host.sockets, node_rule)
                work = float(self.jobs.work[job])
                socket.tasks.append(_Task(job, work, float(self.jobs.volume_mb[job]) / work, socket))
                host.used_mb += float(self.jobs.memory_mb[job])
                self.placed.setdefault(job, []).append(socket.number)
                left -= 1

    def best(self, sockets: list[_Socket], node_rule: str) -> _Socket:
        def watts(socket: _Socket) -> float:
            power = socket.kind.power or PowerConstants(0, 0)
            if not self.contention:
                return 0.0
            return (power.processor_w if socket.tasks else power.idle_w) / socket.kind.cores

        keys: dict[str, Any] = {
            "high_gflops": lambda socket: -socket.kind.core_speed,
            "high_cores": lambda socket: -socket.node.idle(),
            "high_mem": lambda socket: -socket.node.free_mb(),
            "high_mem_bw": lambda socket: (
                socket.demand() - (0 if socket.kind.bandwidth == inf else socket.kind.bandwidth)
            ),
            "low_power": watts,
        }
        found = [(keys[node_rule](socket), socket) for socket in sockets if socket.idle()]
        lowest = min(value for value, _ in found)
        return next(socket for value, socket in found if value == lowest or value <= lowest + 1e-9 * (1 + abs(lowest)))
