"""Tables 2 and 3 and Figure 3: three views of the paper's queue on 64, 128 and 256 cores under all schedulers."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import numpy as np

from allocopt.learned.asax.scheduler import Asax, AsaxScheduler, Loss
from allocopt.problems.coallocation.interference import Interference
from allocopt.reproduction import Records
from allocopt.simulator.quota.execution import QuotaExecution, QuotaSchedule
from allocopt.simulator.quota.scheduler import CoallocationScheduler, QuotaScheduler, SpaceSharing, StaticSharing
from allocopt.simulator.simulate import simulate
from allocopt.traces.applications import APPLICATIONS, CLUSTER_SIZES, HOUR_S, QueuedJob, asax_queue, queue_workload
from papers.artifact import Artifact, Asked, Number, Record, mean_of, published

SEEDS = 10
BETWEEN_S, WALLTIME_FACTOR, FULL_LOSS_AT = 120.0, 1.25, 0.5
"""Values that the paper does not print: the gap between submissions, chosen so that waits under space sharing are as
printed on 128 and 256 cores; limit over run time; and excess over the limit at which the loss is 1 (section 4.4)."""
LESSONS, QUICK_LESSONS = 20, 1
"""Number of queues, with their own seeds, that the learner of ``asax, trained`` has seen before."""
LESSON_SEED = 10_000


def queue_of(seed: int, cores: int) -> tuple[QueuedJob, ...]:
    """Return the queue of a seed; its jobs follow the lines of Table 2 for a cluster of ``cores`` cores."""
    rng = np.random.default_rng(seed)
    return asax_queue(rng, walltime_factor=WALLTIME_FACTOR, cluster=cores, between_s=BETWEEN_S)


def learner(loss: Loss = Loss.LIMIT, idle_weight: float = 0.0, full_loss_at: float = FULL_LOSS_AT) -> AsaxScheduler:
    """Return a scheduler without knowledge."""
    return AsaxScheduler(Asax.untrained(full_loss_at=full_loss_at), loss=loss, idle_weight=idle_weight)


def simulated(
    queue: tuple[QueuedJob, ...],
    cores: int,
    scheduler: QuotaScheduler,
    seed: int,
    interference: Interference | None = None,
) -> QuotaSchedule:
    """Simulate a queue to its end; jobs are not killed at their limits (section 5)."""
    execution = QuotaExecution(queue, interference=interference)
    done = simulate(queue_workload(queue), cores, scheduler, seed=seed, execution=execution)
    assert isinstance(done, QuotaSchedule)
    return done


@dataclass(frozen=True, slots=True)
class Method:
    """A way to schedule a queue."""

    make: Callable[[], QuotaScheduler]
    is_trained: bool = False  # whether the scheduler has seen `LESSONS` queues before
    paging: float = Interference().paging  # see `Interference`


REFERENCE, UNLEARNED, CEILING = "space-sharing", "asax, learning off", "coallocation-scip"
METHODS: Mapping[str, Method] = {
    REFERENCE: Method(SpaceSharing),
    "static-50": Method(StaticSharing),
    "static-50, paging 1": Method(StaticSharing, paging=1.0),
    "static-50, paging 0": Method(StaticSharing, paging=0.0),
    "static-50-memory": Method(partial(StaticSharing, heeds_memory=True)),
    # A loss that is full only at infinity is always 0, and without a loss no weight changes.
    UNLEARNED: Method(partial(learner, full_loss_at=math.inf)),
    "asax": Method(learner),
    "asax, trained": Method(learner, is_trained=True),
    "asax, trained, degradation": Method(partial(learner, Loss.DEGRADATION), is_trained=True),
    "asax, trained, idle counted": Method(partial(learner, idle_weight=1.0), is_trained=True),
    CEILING: Method(partial(CoallocationScheduler, "scip")),
}
"""The methods by name; every run begins with a new scheduler."""


def pieces(asked: Asked) -> list[str]:
    """Return clusters and methods."""
    return [f"{cores}: {method}" for cores in CLUSTER_SIZES for method in METHODS]


def seeds_of(asked: Asked) -> list[int]:
    """Return ten seeds for each requested one, or a single one in a quick run."""
    return [SEEDS * seed + number for seed in asked.seeds for number in range(asked.size(SEEDS, 1))]


def measured(asked: Asked, piece: str) -> Record:
    """Simulate all seeds under a method, and return the values that the tables need."""
    size, method = piece.split(": ")
    cores, how, runs = int(size), METHODS[method], []
    first = how.make()
    if how.is_trained:
        for lesson in range(LESSON_SEED, LESSON_SEED + asked.size(LESSONS, QUICK_LESSONS)):
            simulated(queue_of(lesson, cores), cores, first, lesson)
    before = _weight_updates(first)
    for seed in seeds_of(asked):
        scheduler = deepcopy(first)
        done = simulated(queue_of(seed, cores), cores, scheduler, seed, Interference(paging=how.paging))
        runs.append({**_metrics(done), **_risks(scheduler), "updates": float(_weight_updates(scheduler) - before)})
    return {"runs": runs}


def _metrics(done: QuotaSchedule) -> dict[str, float]:
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
    """Return the largest ratio of an application's excess risk to its bound; empty unless the scheduler learns."""
    if not isinstance(scheduler, AsaxScheduler):
        return {}
    shares = [risk / bound for risk, bound in scheduler.asax.excess_risks().values() if bound > 0]
    return {"risk_over_bound": max(shares, default=0.0)}


PUBLISHED = published("asax")
TABLE_TWO, TABLE_THREE = PUBLISHED["table2"], PUBLISHED["table3"]
Runs = Sequence[Mapping[str, float]]


def _percent_change(value: float, base: float) -> float:
    return 100 * (value / base - 1) if base else 0.0


def _percent_changes(runs: Runs, others: Runs, key: str) -> list[float]:
    return [_percent_change(run[key], other[key]) for run, other in zip(runs, others, strict=True)]


def _workflows(records: Records) -> Iterator[Number]:
    columns = {
        "run time h": "run_h",
        "CPU % of allotted": "cpu",
        "memory %": "memory",
        "time with a guest %": "hosting",
    }
    for piece, record in records.items():
        for workflow in APPLICATIONS:
            row = f"{piece}, {workflow}"
            for column, key in columns.items():
                values = [run[f"{workflow}: {key}"] for run in record["runs"]]
                yield mean_of(row, column, values, TABLE_TWO.get(row, {}).get(column))


def _queues(records: Records) -> Iterator[Number]:
    """Yield the columns of the table, further ones, and the change against space sharing."""
    columns = {
        "wait h": "wait_h",
        "CPU %": "cpu",
        "CPU % of allotted": "cpu_of_allotted",
        "response h": "response_h",
        "run time h": "run_h",
        "guests": "guests",
    }
    for piece, record in records.items():
        runs, line = record["runs"], TABLE_THREE.get(piece, {})
        for column, key in columns.items():
            yield mean_of(piece, column, [run[key] for run in runs], line.get(column))
        if "risk_over_bound" in runs[0]:
            yield Number(piece, "largest excess risk over its bound", max(run["risk_over_bound"] for run in runs))
        yield from _beside(piece, runs, records)


def _beside(piece: str, runs: Runs, records: Records) -> Iterator[Number]:
    """Yield changes against space sharing, and the response relative to that of other methods, run by run."""
    cores, method = piece.split(": ")
    base = records.get(f"{cores}: {REFERENCE}")
    line, reference = TABLE_THREE.get(piece, {}), TABLE_THREE[f"{cores}: {REFERENCE}"]
    if base is not None and method != REFERENCE:
        points = [run["cpu"] - other["cpu"] for run, other in zip(runs, base["runs"], strict=True)]
        printed = line["CPU %"] - reference["CPU %"] if line else None
        yield mean_of(piece, "CPU over space sharing, + points", points, printed)
        for column, key in (("wait", "wait_h"), ("run time", "run_h"), ("response", "response_h")):
            name = f"{column} h"
            change = _percent_change(line[name], reference[name]) if name in line else None
            changes = _percent_changes(runs, base["runs"], key)
            yield mean_of(piece, f"{column} over space sharing, +%", changes, change)
    for other, whose in ((CEILING, "the exact model's"), (UNLEARNED, "that without learning")):
        beside = records.get(f"{cores}: {other}")
        if beside is not None and method != other:
            yield mean_of(piece, f"response over {whose}, +%", _percent_changes(runs, beside["runs"], "response_h"))


def _makespans(records: Records) -> Iterator[Number]:
    change = "makespan over space sharing, +%"
    for piece, record in records.items():
        cores, method = piece.split(": ")
        runs, base = record["runs"], records.get(f"{cores}: {REFERENCE}")
        yield mean_of(piece, "makespan h", [run["makespan_h"] for run in runs])
        if base is not None and method != REFERENCE:
            changes = _percent_changes(runs, base["runs"], "makespan_h")
            yield mean_of(piece, change, changes, PUBLISHED["figure3"].get(piece, {}).get(change))
        for workflow in APPLICATIONS:
            row = f"{piece}, {workflow}"
            values = [run[f"{workflow}: run_h"] for run in runs]
            yield mean_of(row, "run time h", values, TABLE_TWO.get(row, {}).get("run time h"))


TWO = Artifact(
    "asax-table2", "Table 2 of the ASAX paper: run times and utilization of the workflows", pieces, measured, _workflows
)
THREE = Artifact("asax-table3", "Table 3 of the ASAX paper: wait, CPU utilization, response", pieces, measured, _queues)
FIGURE_THREE = Artifact(
    "asax-figure3", "Figure 3 of the ASAX paper: makespan of the queue, mean run time", pieces, measured, _makespans
)
