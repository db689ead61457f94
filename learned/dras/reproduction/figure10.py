"""Figure 10: waits through a surge of the load, under agents that go on learning and others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any, ClassVar

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.simulator.registry import get_policy
from allocopt.simulator.scheduler import ListScheduler, Scheduler
from allocopt.simulator.simulate import simulate
from allocopt.simulator.times import job_times
from allocopt.traces.workload import Workload
from learned.dras.jobsets import EVALUATION_SEEDS, WEEK_S, SyntheticModel, split_of
from learned.dras.policies import DrasPpo
from learned.dras.reproduction.measures import HOUR_S
from learned.dras.reproduction.methods import AGENTS, LEADER, REFERENCE, RULES, Trained
from learned.dras.reproduction.sites import THETA, trace_of

WEEKS, QUICK_WEEKS = 12, 4
FIRST, END = 4, 8
"""Weeks, counted from 0, whose jobs come faster: from the first on, before the second; in a quick run from half."""

GAPS = 0.75
"""What the gaps between jobs are multiplied by in the surge."""

ALL_WEEKS, ALL_SEEDS = "all weeks", "all seeds"
STATIC, DYNAMIC = f"{LEADER}, static", f"{LEADER}, dynamic"
METHODS = (REFERENCE, "Optimization", STATIC, DYNAMIC)


def surge(request: ReproductionRequest, seed: int, load: float) -> tuple[Workload, FloatArray]:
    """Return synthetic weeks of Theta in a row, of which some come faster, and when these begin and end in seconds.

    The weeks are drawn as the evaluation's synthetic weeks are, with an index of their own.
    """
    model = SyntheticModel.fitted(split_of(trace_of(THETA, request)).training(), THETA.processors)
    n_weeks = QUICK_WEEKS if request.is_quick else WEEKS
    first, end = (n_weeks // 2, n_weeks - 1) if request.is_quick else (FIRST, END)
    jobs = model.week(EVALUATION_SEEDS[0], 1 + seed, load, n_weeks)
    limits = np.array([first, end]) * WEEK_S
    return replace(jobs, submit=compressed(jobs.submit, *limits.tolist())), limits


def compressed(submit_s: FloatArray, begin_s: float, end_s: float) -> FloatArray:
    """Multiply the time between ``begin_s`` and ``end_s`` by `GAPS`; what comes later comes earlier by that."""
    inside = np.clip(submit_s, begin_s, end_s) - begin_s
    return np.asarray(np.floor(submit_s - (1.0 - GAPS) * inside))


@dataclass(frozen=True, slots=True)
class FigureTenReproduction:
    """Figure 10 of the DRAS paper.

    Parameters
    ----------
    trained
        Folder with trainings, of which DRAS-PPO's first one on Theta is taken in place of the shipped weights.
    load
        Load of the weeks outside the surge, positive; in the surge it is that over 0.75.
    """

    trained: str = ""
    load: float = 0.75

    name: ClassVar[str] = "dras-figure10"
    title: ClassVar[str] = "Figure 10 of the DRAS paper: mean and longest wait by week through a surge of the load"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return the methods for all seeds."""
        has_agent = bool(Trained(self.trained).weights(AGENTS[LEADER], THETA))
        methods = [method for method in METHODS if has_agent or not method.startswith(LEADER)]
        return [f"seed {seed}: {method}" for seed in request.seeds for method in methods]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Simulate the weeks under a method."""
        seed, method = piece.removeprefix("seed ").split(": ")
        jobs, limits = surge(request, int(seed), self.load)
        scheduler = self._scheduler(method)
        wait_h = job_times(simulate(jobs, THETA.processors, scheduler)).wait_s / HOUR_S
        week = (jobs.submit // WEEK_S).astype(np.int64)
        in_surge = (jobs.submit >= limits[0]) & (jobs.submit < limits[0] + GAPS * (limits[1] - limits[0]))
        area_s = np.minimum(jobs.run, jobs.estimate) * jobs.processors
        groups = {f"week {number + 1}": week == number for number in np.unique(week).tolist()}
        groups |= {"surge": in_surge, ALL_WEEKS: np.ones(len(jobs), dtype=np.bool_)}
        learned = scheduler.operation if isinstance(scheduler, DrasPpo) else (0, 0)
        return {
            "waits": {
                name: [float(wait_h[chosen].mean()), float(wait_h[chosen].max()), int(chosen.sum())]
                for name, chosen in groups.items()
            },
            "loads": {
                name: float(area_s[chosen].sum() / (WEEK_S * THETA.processors))
                for name, chosen in groups.items()
                if name.startswith("week")
            },
            "learned": list(learned),
        }

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return loads and waits by week, how often the dynamic agent changed, and means over the seeds."""
        rows = [row for piece, record in records.items() for row in _piece_rows(piece, record)]
        return [*rows, *_mean_rows(rows)] if len(request.seeds) > 1 else rows

    def _scheduler(self, method: str) -> ListScheduler | Scheduler:
        """Return the scheduler of a method."""
        if method not in (STATIC, DYNAMIC):
            return RULES[method](THETA, 0)
        weights = Trained(self.trained).weights(AGENTS[LEADER], THETA)[0]
        policy = get_policy(AGENTS[LEADER], {"weights": weights, "dynamic": method == DYNAMIC})
        assert isinstance(policy, Scheduler)
        return policy


def _piece_rows(piece: str, record: Mapping[str, Any]) -> list[ReproductionRow]:
    """Return the rows of a method for a seed."""
    rows = []
    for name, (mean_h, longest_h, n) in record["waits"].items():
        rows.append(_row(f"{piece}, {name}", "mean wait h", mean_h, n))
        rows.append(_row(f"{piece}, {name}", "max wait h", longest_h, n))
        if name in record["loads"]:
            rows.append(_row(f"{piece}, {name}", "load", record["loads"][name], n))
    if piece.endswith(DYNAMIC):
        for column, count in zip(("times trained", "times changed"), record["learned"], strict=True):
            rows.append(_row(piece, column, count, record["waits"][ALL_WEEKS][2]))
    return rows


def _mean_rows(rows: Sequence[ReproductionRow]) -> list[ReproductionRow]:
    """Return means and spreads over the seeds."""
    found: dict[tuple[str, str], list[ReproductionRow]] = {}
    for row in rows:
        found.setdefault((row.row.split(": ")[1], row.column), []).append(row)
    return [
        replace(_row(f"{ALL_SEEDS}: {name}", column, fmean(values), sum(row.n for row in group)), spread=stdev(values))
        for (name, column), group in found.items()
        if len(values := [row.ours for row in group if row.ours is not None]) > 1
    ]


def _row(row: str, column: str, value: float, n: int) -> ReproductionRow:
    """Return a row of a single value."""
    return ReproductionRow(FigureTenReproduction.name, row, column, None, float(value), None, n)
