"""Waits on Theta by size of job (Figure 8) and by how jobs came to run (Figure 9), and shares of these (Table 4).

Figure 10: waits through a surge of the load, under agents that go on learning and others. The paper prints pictures; of
its text are the longest waits.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.reproduction import Records
from allocopt.simulator.rules import Mode
from allocopt.simulator.schedule import job_times, run_times
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload
from heuristics.scheduling.two_level import TwoLevelOrders
from learned.dras.jobsets import EVALUATION_SEEDS, WEEK_S, SyntheticModel, split_of
from learned.dras.policies import AgentScheduler, DrasPpo
from papers.artifact import Artifact, Asked, Number, Record, for_each_seed, mean_of, published, seed_and_name
from papers.dras.configuration import (
    DYNAMIC,
    HOUR_S,
    JOBSETS,
    PAPER_METHODS,
    REFERENCE,
    STATIC,
    THETA,
    jobsets_of,
    present,
    schedulers,
    trace_of,
)

PUBLISHED = published("dras")
TABLE_FOUR, LONGEST_WAITS = PUBLISHED["table4"], PUBLISHED["longest_waits"]

MODES = (Mode.BACKFILLED, Mode.READY, Mode.RESERVED)
LARGE_SHARE = 0.25
"""Share of the machine from which on a job counts as large."""
ALL_SIZES = "all sizes"

Box = dict[str, float]
"""Least, quartiles, greatest and mean of some waits in hours, and their number."""


class Placed(NamedTuple):
    """Jobs of some simulations, of shape ``(n,)``; those are late that start after what their reservation promised."""

    size: IntArray
    node_s: FloatArray
    wait_s: FloatArray
    mode: IntArray
    late: BoolArray


def _placed(asked: Asked, piece: str) -> Placed:
    """Simulate the jobsets of a piece, by an agent with the first of its trainings."""
    kind, method = piece.split(": ")
    # FCFS with EASY as two-level scheduling, which says how jobs came to run; its schedules are the same.
    is_reference = method == REFERENCE
    scheduler = TwoLevelOrders("fcfs", "fcfs") if is_reference else schedulers(method, THETA, asked)[0]
    parts = []
    for jobs in jobsets_of(THETA, kind, asked):
        schedule = simulate(jobs, THETA.processors, scheduler)
        size, mode = schedule.workload.processors, np.full(len(jobs), int(Mode.READY))
        promised = np.full(len(jobs), np.inf)
        if isinstance(scheduler, TwoLevelOrders | AgentScheduler):
            mode, promised = scheduler.log.modes, scheduler.log.promised
        late = (mode == Mode.RESERVED) & (schedule.start > promised)
        parts.append(Placed(size, size * run_times(schedule), job_times(schedule).wait_s, mode, late))
    return Placed(*map(np.concatenate, zip(*parts, strict=True)))


def _keys(asked: Asked) -> list[str]:
    return [f"{kind}: {method}" for kind in JOBSETS for method in present(PAPER_METHODS, THETA, asked)]


def box_of(wait_s: FloatArray) -> Box:
    """Describe some waits; only their number where there are none."""
    if not len(wait_s):
        return {"n": 0}
    hours = wait_s / HOUR_S
    least, lower, median, upper, most = np.quantile(hours, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist()
    return {
        "n": len(hours), "min": least, "q1": lower, "median": median, "q3": upper, "max": most,
        "mean": float(hours.mean()),
    }  # fmt: skip


def _boxes(records: Records) -> Iterator[Number]:
    for piece, record in records.items():
        for kind, box in record.items():
            printed = LONGEST_WAITS.get(piece.split(": ")[1], {}) if kind == ALL_SIZES else {}
            for column in (f"wait h, {name}" for name in box if name != "n"):
                value = float(box[column.removeprefix("wait h, ")])
                yield Number(f"{piece}, {kind}", column, value, printed.get(column), int(box["n"]))


def _by_size(asked: Asked, piece: str) -> Record:
    jobs = _placed(asked, piece)
    boxes = {
        f"{fewest} to {end - 1} nodes": box_of(jobs.wait_s[(jobs.size >= fewest) & (jobs.size < end)])
        for fewest, end in pairwise((*THETA.classes, THETA.processors + 1))
    }
    return {ALL_SIZES: box_of(jobs.wait_s), **boxes}


def _by_mode(asked: Asked, piece: str) -> Record:
    jobs = _placed(asked, piece)
    return {mode.name.lower(): box_of(jobs.wait_s[jobs.mode == mode]) for mode in MODES}


EIGHT = Artifact(
    "dras-figure8", "Figure 8 of the DRAS paper: waits by size of job, on Theta", _keys, _by_size, _boxes, ("trained",)
)
NINE = Artifact(
    "dras-figure9", "Figure 9 of the DRAS paper: waits by mode, on Theta", _keys, _by_mode, _boxes, ("trained",)
)


def _shares(asked: Asked, piece: str) -> Record:
    """Return the shares of the modes in the number of jobs, in what all jobs held, and in what large jobs held."""
    jobs = _placed(asked, piece)
    large = jobs.size >= LARGE_SHARE * THETA.processors
    held, held_by_large = jobs.node_s.sum(), jobs.node_s[large].sum()
    shares = {}
    for mode in MODES:
        of = jobs.mode == mode
        shares[mode.name.lower()] = {
            "jobs": float(of.mean()),
            "core hours": float(jobs.node_s[of].sum() / held),
            "core hours of large jobs": float(jobs.node_s[of & large].sum() / held_by_large) if held_by_large else 0.0,
        }
    return {"jobs": len(jobs.size), "shares": shares, "late": int(jobs.late.sum())}


def _shares_beside(records: Records) -> Iterator[Number]:
    for piece, record in records.items():
        printed = TABLE_FOUR[piece.split(": ")[1]]
        for mode, shares in record["shares"].items():
            for name, share in shares.items():
                column = f"{mode}, {name} %"
                yield Number(piece, column, 100 * share, printed.get(column), record["jobs"])
        yield Number(piece, "started after the promised time", float(record["late"]), None, record["jobs"])


TABLE = Artifact(
    "dras-table4",
    "Table 4 of the DRAS paper: shares of jobs and core hours by mode, on Theta",
    _keys,
    _shares,
    _shares_beside,
    ("trained",),
)

SPAN, QUICK_SPAN = (12, 4, 8), (4, 2, 3)
"""Weeks, and those, counted from 0, from the first of which on jobs come faster, and before the second."""

GAPS = 0.75
"""What the gaps between jobs are multiplied by in the surge."""

ALL_WEEKS, ALL_SEEDS = "all weeks", "all seeds"
SURGE_METHODS = (REFERENCE, "Optimization", STATIC, DYNAMIC)


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


def _weeks(asked: Asked, piece: str) -> Record:
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


def _weeks_numbers(records: Records) -> list[Number]:
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
    lambda asked: for_each_seed(present(SURGE_METHODS, THETA, asked))(asked),
    _weeks,
    _weeks_numbers,
    ("trained", "load"),
)
