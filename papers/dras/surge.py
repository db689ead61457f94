"""Figure 10: waits through a surge of the load, under agents that go on learning and others."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.reproduction import Records
from allocopt.simulator.schedule import job_times
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload
from learned.dras.jobsets import EVALUATION_SEEDS, WEEK_S, SyntheticModel, split_of
from learned.dras.policies import DrasPpo
from papers.artifact import Artifact, Asked, Number, Record, mean_of, seed_and_name
from papers.dras.configuration import DYNAMIC, REFERENCE, STATIC, THETA, present, schedulers, trace_of
from papers.dras.figures import HOUR_S

SPAN, QUICK_SPAN = (12, 4, 8), (4, 2, 3)
"""Weeks, and those, counted from 0, from the first of which on jobs come faster, and before the second."""

GAPS = 0.75
"""What the gaps between jobs are multiplied by in the surge."""

ALL_WEEKS, ALL_SEEDS = "all weeks", "all seeds"
METHODS = (REFERENCE, "Optimization", STATIC, DYNAMIC)


def surge(asked: Asked, seed: int) -> tuple[Workload, FloatArray]:
    """Return synthetic weeks of Theta in a row, of which some come faster, and when these begin and end in seconds.

    The weeks are drawn as the evaluation's synthetic weeks are, with an index of their own.
    """
    model = SyntheticModel.fitted(split_of(trace_of(THETA, asked)).training(), THETA.processors)
    n_weeks, first, end = asked.size(SPAN, QUICK_SPAN)
    jobs = model.week(EVALUATION_SEEDS[0], 1 + seed, asked.load, n_weeks)
    limits = np.array([first, end]) * WEEK_S
    return replace(jobs, submit=compressed(jobs.submit, *limits.tolist())), limits


def compressed(submit_s: FloatArray, begin_s: float, end_s: float) -> FloatArray:
    """Multiply the time between ``begin_s`` and ``end_s`` by `GAPS`; what comes later comes earlier by that."""
    inside = np.clip(submit_s, begin_s, end_s) - begin_s
    return np.asarray(np.floor(submit_s - (1.0 - GAPS) * inside))


def _keys(asked: Asked) -> list[str]:
    methods = present(METHODS, THETA, asked)
    return [f"seed {seed}: {method}" for seed in asked.seeds for method in methods]


def _record(asked: Asked, piece: str) -> Record:
    """Simulate the weeks under a method, an agent with the first of its trainings."""
    seed, method = seed_and_name(piece)
    jobs, limits = surge(asked, seed)
    scheduler = schedulers(method, THETA, asked)[0]
    wait_h = job_times(simulate(jobs, THETA.processors, scheduler)).wait_s / HOUR_S
    week = (jobs.submit // WEEK_S).astype(np.int64)
    weeks = {f"week {number + 1}": week == number for number in np.unique(week).tolist()}
    in_surge = (jobs.submit >= limits[0]) & (jobs.submit < limits[0] + GAPS * (limits[1] - limits[0]))
    area_s = np.minimum(jobs.run, jobs.estimate) * jobs.processors
    return {
        "waits": {
            name: [float(wait_h[chosen].mean()), float(wait_h[chosen].max()), int(chosen.sum())]
            for name, chosen in {**weeks, "surge": in_surge, ALL_WEEKS: np.ones(len(jobs), dtype=np.bool_)}.items()
        },
        "loads": {name: float(area_s[chosen].sum() / (WEEK_S * THETA.processors)) for name, chosen in weeks.items()},
        "learned": list(scheduler.operation if isinstance(scheduler, DrasPpo) else (0, 0)),
    }


def _numbers(records: Records) -> list[Number]:
    """Return loads and waits by week, how often the dynamic agent changed, and means over the seeds."""
    found: list[Number] = []
    for piece, record in records.items():
        for name, (mean_h, longest_h, n) in record["waits"].items():
            found.append(Number(f"{piece}, {name}", "mean wait h", mean_h, None, n))
            found.append(Number(f"{piece}, {name}", "max wait h", longest_h, None, n))
            if name in record["loads"]:
                found.append(Number(f"{piece}, {name}", "load", record["loads"][name], None, n))
        if piece.endswith(DYNAMIC):
            for column, count in zip(("times trained", "times changed"), record["learned"], strict=True):
                found.append(Number(piece, column, float(count), None, record["waits"][ALL_WEEKS][2]))
    return [*found, *_over_seeds(found)]


def _over_seeds(found: list[Number]) -> Iterator[Number]:
    groups: dict[tuple[str, str], list[Number]] = {}
    for number in found:
        groups.setdefault((number.row.split(": ")[1], number.column), []).append(number)
    for (name, column), group in groups.items():
        values = [number.ours for number in group if number.ours is not None]
        if len(values) > 1:
            yield mean_of(f"{ALL_SEEDS}: {name}", column, values, None, sum(number.n for number in group))


TEN = Artifact(
    "dras-figure10",
    "Figure 10 of the DRAS paper: mean and longest wait by week through a surge of the load",
    _keys,
    _record,
    _numbers,
    ("trained", "load"),
)
