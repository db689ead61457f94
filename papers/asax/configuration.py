"""The paper's queue on 64, 128 and 256 cores, and the schedulers that are compared on it."""

from collections.abc import Callable, Mapping

import numpy as np

from allocopt.simulator.quota.execution import QuotaExecution, QuotaSchedule
from allocopt.simulator.quota.scheduler import QuotaScheduler, SpaceSharing
from allocopt.simulator.quota.window import CoallocationScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.applications import APPLICATIONS, CLUSTER_SIZES, HOUR_S
from allocopt.traces.asax_queue import QueuedJob, asax_queue, queue_workload
from heuristics.scheduling.static_sharing import StaticSharing
from learned.asax.agent import Asax, Loss
from learned.asax.scheduler import AsaxScheduler
from papers.artifact import Asked, Record

SEEDS = 10
BETWEEN_S, WALLTIME_FACTOR, FULL_LOSS_AT = 120.0, 1.25, 0.5
"""What the paper does not print: the gap between submissions, with which space sharing waits as long as it says on 128
and 256 cores, and the limit over the run time; the loss is 1 from half of the limit beyond it on (section 4.4)."""
LESSONS, QUICK_LESSONS = 20, 1
"""Queues, drawn from seeds of their own, that the learner of ``asax, trained`` has seen before."""
LESSON_SEED = 10_000


def queue_of(seed: int, cores: int) -> tuple[QueuedJob, ...]:
    """Return the queue of a seed; its jobs follow the lines of Table 2 for a cluster of so many cores."""
    rng = np.random.default_rng(seed)
    return asax_queue(rng, walltime_factor=WALLTIME_FACTOR, cluster=cores, between_s=BETWEEN_S)


def learner(loss: Loss = Loss.LIMIT, idle_weight: float = 0.0) -> AsaxScheduler:
    """Return a scheduler that knows nothing."""
    return AsaxScheduler(Asax.untrained(full_loss_at=FULL_LOSS_AT), loss=loss, idle_weight=idle_weight)


def simulated(queue: tuple[QueuedJob, ...], cores: int, scheduler: QuotaScheduler, seed: int) -> QuotaSchedule:
    """Simulate a queue to its end; jobs are not killed at their limits (section 5)."""
    return simulate(queue_workload(queue), cores, scheduler, seed=seed, execution=QuotaExecution(queue))


def _trained(scheduler: AsaxScheduler, cores: int, lessons: int) -> AsaxScheduler:
    for lesson in range(LESSON_SEED, LESSON_SEED + lessons):
        simulated(queue_of(lesson, cores), cores, scheduler, lesson)
    return scheduler


METHODS: Mapping[str, Callable[[int, int], QuotaScheduler]] = {
    "space-sharing": lambda cores, lessons: SpaceSharing(),
    "static-50": lambda cores, lessons: StaticSharing(),
    "static-50-memory": lambda cores, lessons: StaticSharing(heeds_memory=True),
    "asax": lambda cores, lessons: learner(),
    "asax, trained": lambda cores, lessons: _trained(learner(), cores, lessons),
    "asax, trained, degradation": lambda cores, lessons: _trained(learner(Loss.DEGRADATION), cores, lessons),
    "asax, trained, idle counted": lambda cores, lessons: _trained(learner(idle_weight=1.0), cores, lessons),
    "coallocation-scip": lambda cores, lessons: CoallocationScheduler("scip"),
}
"""Makes the scheduler of each method for a cluster; every run begins with a new one."""


def pieces(asked: Asked) -> list[str]:
    """Return clusters and methods."""
    return [f"{cores}: {method}" for cores in CLUSTER_SIZES for method in METHODS]


def parsed(piece: str) -> tuple[int, str]:
    """Return cores and method of a piece."""
    cores, method = piece.split(": ")
    return int(cores), method


def seeds_of(asked: Asked) -> list[int]:
    """Return ten seeds for each one that was asked for, or only that one if it is to be quick."""
    return [SEEDS * seed + number for seed in asked.seeds for number in range(asked.size(SEEDS, 1))]


def measured(asked: Asked, piece: str) -> Record:
    """Simulate all seeds under a method, and keep what the tables need of each."""
    cores, method = parsed(piece)
    runs = []
    for seed in seeds_of(asked):
        scheduler = METHODS[method](cores, asked.size(LESSONS, QUICK_LESSONS))
        before = _weight_updates(scheduler)
        done = simulated(queue_of(seed, cores), cores, scheduler, seed)
        runs.append({**_metrics(done), **_risks(scheduler), "updates": float(_weight_updates(scheduler) - before)})
    return {"runs": runs}


def _metrics(done: QuotaSchedule) -> dict[str, float]:
    """Return the metrics of a run, by name; those of a workflow behind its name."""
    used = done.accounts
    found = {
        "wait_h": float(done.wait_s.mean()) / HOUR_S,
        "cpu": 100 * done.cpu_utilization,
        "cpu_of_allotted": 100 * done.allotted_utilization,
        "response_h": float(done.response_s.mean()) / HOUR_S,
        "run_h": float(done.run_s.mean()) / HOUR_S,
        "makespan_h": done.makespan_s / HOUR_S,
        "guests": float((used.host_of >= 0).sum()),
    }
    for name in APPLICATIONS:
        jobs = done.of(name)
        allotted = float(used.allotted_core_s[jobs].sum())
        cores = np.array([done.jobs[job].job.cores for job in jobs.tolist()])
        found[f"{name}: run_h"] = float(done.run_s[jobs].mean()) / HOUR_S
        found[f"{name}: cpu"] = 100 * float(used.used_core_s[jobs].sum()) / allotted
        found[f"{name}: memory"] = 100 * float((used.memory_core_s[jobs] / (done.run_s[jobs] * cores)).mean())
        owned = float(used.owned_s[jobs].sum())
        found[f"{name}: hosting"] = 100 * float(used.hosting_s[jobs].sum()) / owned if owned else 0.0
    return found


def _weight_updates(scheduler: QuotaScheduler) -> int:
    if not isinstance(scheduler, AsaxScheduler):
        return 0
    return sum(weights.rounds for weights in scheduler.asax.knowledge.applications.values())


def _risks(scheduler: QuotaScheduler) -> dict[str, float]:
    """Return the largest share of its bound that an application's excess risk has come to, of a learner."""
    if not isinstance(scheduler, AsaxScheduler):
        return {}
    shares = [risk / bound for risk, bound in scheduler.asax.excess_risks().values() if bound > 0]
    return {"risk_over_bound": max(shares, default=0.0)}
