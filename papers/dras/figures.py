"""Figures 7 to 11 and Table 4, from schedules of the held-out jobs.

Figure 7: Kiviat graphs of all methods; the paper prints graphs without numbers, and states their order. Figure 11: a
generic agent, trained on other machines. The paper uses DRAS-PG and models of RLScheduler; here both agents are
DRAS-PPO, whose features and network do not depend on the machine. Figures 8 and 9, Table 4: waits on Theta by size of
job and by mode, and shares of the modes. Figure 10: waits through a surge of the load. For these the paper prints
pictures, and the longest waits in its text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.heuristics.scheduling.two_level import TwoLevelOrders
from allocopt.learned.dras.jobsets import EVALUATION_SEEDS, WEEK_S, Split, SyntheticModel
from allocopt.learned.dras.policies import AgentScheduler, DrasPpo
from allocopt.reproduction import Records
from allocopt.simulator.metrics import measure
from allocopt.simulator.rules import Mode
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import ListScheduler, Scheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.variants import Interval
from allocopt.traces.weekly_cycle import HOUR_S, WEEK_DAYS
from allocopt.traces.workload import Workload
from papers.artifact import Artifact, Asked, Number, Record, mean_of, means_over, published, seed_and_name
from papers.dras.configuration import (
    CUSTOMIZED,
    DYNAMIC,
    GATED,
    GENERIC,
    JOBSETS,
    METHODS,
    PAPER_METHODS,
    PATIENT,
    REFERENCE,
    RL_SCHEDULERS,
    SITES,
    STATIC,
    THETA,
    UNGATED,
    jobsets_of,
    present,
    schedulers,
    trace_of,
)

KIVIAT = {"mean wait h": -1, "max wait h": -1, "mean response h": -1, "mean slowdown": -1, "utilization": 1}
"""Metrics of the Kiviat graphs in their order around the graph; -1 if less is better."""

Runs = Sequence[Sequence[Mapping[str, float]]]
"""Metrics of a method: per run (training or random seed), per jobset."""


def metrics_of(schedule: Schedule) -> dict[str, float]:
    """Return the metrics of a schedule by name."""
    metrics = measure(schedule)
    jobs = metrics.jobs
    return {
        "mean wait h": jobs.wait_s.mean / HOUR_S,
        "max wait h": jobs.wait_s.maximum / HOUR_S,
        "mean response h": jobs.response_s.mean / HOUR_S,
        "mean slowdown": jobs.slowdown.mean,
        "mean bounded slowdown": jobs.bounded_slowdown.mean,
        "utilization": metrics.machine.utilization,
    }


def _keys(methods: Sequence[str], asked: Asked) -> list[str]:
    places = [(site, kind) for site in SITES.values() for kind in JOBSETS]
    return [f"{site.name}, {kind}: {method}" for site, kind in places for method in present(methods, site, asked)]


def _record(asked: Asked, piece: str) -> Record:
    where, method = piece.split(": ")
    name, kind = where.split(", ")
    site = SITES[name]
    jobsets = jobsets_of(site, kind, asked)
    return {
        "runs": [
            [metrics_of(simulate(jobs, site.processors, scheduler)) for jobs in jobsets]
            for scheduler in schedulers(method, site, asked)
        ]
    }


def _run_means(runs: Runs, metric: str) -> list[float]:
    return [fmean(jobset[metric] for jobset in run) for run in runs]


def _numbers_of_seven(records: Records) -> Iterator[Number]:
    for place in dict.fromkeys(piece.split(": ")[0] for piece in records):
        runs: dict[str, Runs] = {
            piece.split(": ")[1]: record["runs"] for piece, record in records.items() if piece.startswith(f"{place}: ")
        }
        for method, found in runs.items():
            yield from _method_numbers(f"{place}: {method}", found, runs[REFERENCE])
        paper = {method: found for method, found in runs.items() if method in PAPER_METHODS}
        yield from _kiviat_numbers(place, paper, "")
        yield from _kiviat_numbers(place, runs, ", all methods")


def _method_numbers(row: str, runs: Runs, reference: Runs) -> Iterator[Number]:
    """Yield a method's metrics; the spread is over its runs if there are several, otherwise over jobsets."""
    n = len(runs) * len(runs[0])
    for metric in runs[0][0]:
        values = _run_means(runs, metric) if len(runs) > 1 else [jobset[metric] for jobset in runs[0]]
        yield mean_of(row, metric, values, None, n)
    for metric in ("mean wait", "max wait"):
        usual = _run_means(reference, f"{metric} h")[0]
        yield mean_of(
            row, f"{metric} / {REFERENCE}", [mean / usual for mean in _run_means(runs, f"{metric} h")], None, n
        )
    worst = [
        max(ours["max wait h"] / theirs["max wait h"] for ours, theirs in zip(run, reference[0], strict=True))
        for run in runs
    ]
    yield mean_of(row, f"max wait / {REFERENCE}, worst jobset", worst, None, n)


def _kiviat_numbers(place: str, runs: Mapping[str, Runs], among: str) -> Iterator[Number]:
    overall = {
        method: {metric: fmean(jobset[metric] for run in found for jobset in run) for metric in KIVIAT}
        for method, found in runs.items()
    }
    scaled = normalized(overall)
    areas = {method: kiviat_area([axes[metric] for metric in KIVIAT]) for method, axes in scaled.items()}
    places = ranks(areas)
    for method, axes in scaled.items():
        row, n = f"{place}: {method}", len(runs[method]) * len(runs[method][0])
        for metric in KIVIAT:
            yield Number(row, f"{metric.removesuffix(' h')}, normalized{among}", axes[metric], None, n)
        yield Number(row, f"area{among}", areas[method], None, n)
        yield Number(row, f"rank{among}", float(places[method]), None, n)


def normalized(values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Scale every metric of the Kiviat graphs, by method, to 1 for the best method and 0 for the worst."""
    scaled: dict[str, dict[str, float]] = {method: {} for method in values}
    for metric, sign in KIVIAT.items():
        signed = {method: sign * known[metric] for method, known in values.items()}
        worst, best = min(signed.values()), max(signed.values())
        for method, value in signed.items():
            scaled[method][metric] = (value - worst) / (best - worst) if best > worst else 1.0
    return scaled


def kiviat_area(axes: Sequence[float]) -> float:
    """Return the area of a Kiviat graph as a share of that of a graph in which every metric is 1.

    The triangles between neighbouring axes r and s have the area ``r s sin(2 pi / n) / 2``.
    """
    return float(np.mean(np.array(axes) * np.roll(axes, -1)))


def ranks(areas: Mapping[str, float]) -> dict[str, int]:
    """Rank methods by area: 1 for the greatest; equal areas have equal ranks."""
    return {method: 1 + sum(other > area for other in areas.values()) for method, area in areas.items()}


SEVEN = Artifact(
    "dras-figure7",
    "Figure 7 of the DRAS paper: all methods by mean and longest wait, response, slowdown, use",
    lambda asked: _keys(METHODS, asked),
    _record,
    _numbers_of_seven,
    ("trained",),
)


def _numbers_of_eleven(records: Records) -> Iterator[Number]:
    for piece, record in records.items():
        runs = record["runs"]
        for metric in runs[0][0]:
            yield mean_of(piece, metric, _run_means(runs, metric), None, len(runs) * len(runs[0]))


def paired_numbers(row: str, column: str, ratios: Sequence[float]) -> Iterator[Number]:
    """Yield the mean of paired ratios, with the ends of its 95 % interval if there are two or more pairs."""
    if not ratios:
        return
    yield mean_of(row, column, ratios)
    if len(ratios) > 1:
        interval = Interval.of(np.array(ratios))
        yield Number(row, f"{column}, from", interval.low, None, len(ratios))
        yield Number(row, f"{column}, to", interval.high, None, len(ratios))


ELEVEN = Artifact(
    "dras-figure11",
    "Figure 11 of the DRAS paper: customized agents, a generic one and RLScheduler",
    lambda asked: _keys((REFERENCE, "DRAS-PG", CUSTOMIZED, GENERIC, *RL_SCHEDULERS), asked),
    _record,
    _numbers_of_eleven,
    ("trained",),
)

PUBLISHED = published("dras")
TABLE_FOUR, LONGEST_WAITS = PUBLISHED["table4"], PUBLISHED["longest_waits"]

MODES = (Mode.BACKFILLED, Mode.READY, Mode.RESERVED)
LARGE_SHARE = 0.25
"""Least share of the machine at which a job counts as large."""
ALL_SIZES = "all sizes"


class Placed(NamedTuple):
    """Jobs of some simulations, shape ``(n,)``; a job is late if it starts after the time its reservation promised."""

    size: IntArray
    node_s: FloatArray
    wait_s: FloatArray
    mode: IntArray
    late: BoolArray


def _placed(asked: Asked, piece: str) -> Placed:
    """Simulate the jobsets of a piece; see `placed`."""
    kind, method = piece.split(": ")
    return placed(asked, method, jobsets_of(THETA, kind, asked))


def placed(asked: Asked, method: str, jobsets: Sequence[Workload]) -> Placed:
    """Simulate jobsets on Theta under a method; an agent uses the first of its trainings."""
    # Simulate FCFS with EASY as two-level scheduling: the schedules are the same, and it reports the modes of jobs.
    is_reference = method == REFERENCE
    return placed_by(TwoLevelOrders("fcfs", "fcfs") if is_reference else schedulers(method, THETA, asked)[0], jobsets)


def placed_by(scheduler: ListScheduler | Scheduler, jobsets: Sequence[Workload]) -> Placed:
    """Simulate jobsets on Theta by a scheduler."""
    parts = []
    for jobs in jobsets:
        schedule = simulate(jobs, THETA.processors, scheduler)
        size, mode = schedule.workload.processors, np.full(len(jobs), int(Mode.READY))
        promised = np.full(len(jobs), np.inf)
        if isinstance(scheduler, TwoLevelOrders | AgentScheduler):
            mode, promised = scheduler.log.modes, scheduler.log.promised
        late = (mode == Mode.RESERVED) & (schedule.start > promised)
        parts.append(Placed(size, size * schedule.run_s, schedule.job_times.wait_s, mode, late))
    return Placed(*map(np.concatenate, zip(*parts, strict=True)))


def _theta_keys(asked: Asked) -> list[str]:
    return [f"{kind}: {method}" for kind in JOBSETS for method in present(PAPER_METHODS, THETA, asked)]


def box_of(wait_s: FloatArray) -> dict[str, float]:
    """Return number, minimum, quartiles, maximum and mean of some waits in hours; only the number if there are none."""
    if not len(wait_s):
        return {"n": 0}
    hours = wait_s / HOUR_S
    quantiles = zip(("min", "q1", "median", "q3", "max"), np.quantile(hours, [0.0, 0.25, 0.5, 0.75, 1.0]), strict=True)
    return {"n": len(hours), **{name: float(value) for name, value in quantiles}, "mean": float(hours.mean())}


def _boxes(records: Records) -> Iterator[Number]:
    for piece, record in records.items():
        for kind, box in record.items():
            printed = LONGEST_WAITS.get(piece.split(": ")[1], {}) if kind == ALL_SIZES else {}
            for name in (name for name in box if name != "n"):
                column = f"wait h, {name}"
                yield Number(f"{piece}, {kind}", column, box[name], printed.get(column), box["n"])


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
    "dras-figure8",
    "Figure 8 of the DRAS paper: waits by size of job, on Theta",
    _theta_keys,
    _by_size,
    _boxes,
    ("trained",),
)
NINE = Artifact(
    "dras-figure9", "Figure 9 of the DRAS paper: waits by mode, on Theta", _theta_keys, _by_mode, _boxes, ("trained",)
)


def _shares(asked: Asked, piece: str) -> Record:
    return shares_of(_placed(asked, piece))


def shares_of(jobs: Placed) -> Record:
    """Return the shares of the modes in the number of jobs, in the core hours, and in the core hours of large jobs."""
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
    _theta_keys,
    _shares,
    _shares_beside,
    ("trained",),
)

SPAN, QUICK_SPAN = (12, 4, 8), (4, 2, 3)
"""Number of weeks, and the first week of the surge and the first one after it, counted from 0."""
GAPS = 0.75
"""Factor of the gaps between jobs in the surge."""
ALL_WEEKS, ALL_SEEDS = "all weeks", "all seeds"
SURGE_METHODS = (REFERENCE, "Optimization", "DRAS-PG", "DRAS-A2C", STATIC, GATED, UNGATED, PATIENT)
PAIRS = ((STATIC, REFERENCE), ("DRAS-PG", REFERENCE), (GATED, STATIC), (UNGATED, STATIC), (PATIENT, STATIC))
"""Methods that are compared on the same seeds."""
IN_SURGE, PAIRED = "surge", "pairs"


def surge(asked: Asked, seed: int) -> tuple[Workload, FloatArray]:
    """Return consecutive synthetic weeks of Theta with a surge, and the begin and end of the surge in seconds.

    The weeks are drawn like the evaluation's synthetic weeks, with another index.
    """
    model = SyntheticModel.fitted(Split.of(trace_of(THETA, asked)).training(), THETA.processors)
    n_weeks, first, end = asked.size(SPAN, QUICK_SPAN)
    jobs = model.span(EVALUATION_SEEDS[0], 1 + seed, asked.load, n_weeks * WEEK_DAYS)
    limits = np.array([first, end]) * WEEK_S
    return replace(jobs, submit=compressed(jobs.submit, *limits.tolist())), limits


def compressed(submit_s: FloatArray, begin_s: float, end_s: float) -> FloatArray:
    """Multiply the gaps between ``begin_s`` and ``end_s`` by `GAPS`, and shift later jobs accordingly."""
    inside = np.clip(submit_s, begin_s, end_s) - begin_s
    return np.asarray(np.floor(submit_s - (1.0 - GAPS) * inside))


def _weeks(asked: Asked, piece: str) -> Record:
    """Simulate the weeks under a method; an agent uses the first of its trainings."""
    seed, method = seed_and_name(piece)
    jobs, limits = surge(asked, seed)
    scheduler = schedulers(method, THETA, asked)[0]
    wait_h = simulate(jobs, THETA.processors, scheduler).job_times.wait_s / HOUR_S
    week = (jobs.submit // WEEK_S).astype(np.int64)
    weeks = {f"week {number + 1}": week == number for number in np.unique(week).tolist()}
    in_surge = (jobs.submit >= limits[0]) & (jobs.submit < limits[0] + GAPS * (limits[1] - limits[0]))
    area_s = np.minimum(jobs.run, jobs.estimate) * jobs.processors
    return {
        "waits": {
            name: [float(wait_h[chosen].mean()), float(wait_h[chosen].max()), int(chosen.sum())]
            for name, chosen in {**weeks, IN_SURGE: in_surge, ALL_WEEKS: np.ones(len(jobs), dtype=np.bool_)}.items()
        },
        "loads": {name: float(area_s[chosen].sum() / (WEEK_S * THETA.processors)) for name, chosen in weeks.items()},
        "learned": list(scheduler.operation if isinstance(scheduler, DrasPpo) else (0, 0)),
    }


def _weeks_numbers(records: Records) -> list[Number]:
    """Return loads and waits by week, the number of changes of the dynamic agent, and means over the seeds."""
    found: list[Number] = []
    for piece, record in records.items():
        for name, (mean_h, longest_h, n) in record["waits"].items():
            found.append(Number(f"{piece}, {name}", "mean wait h", mean_h, None, n))
            found.append(Number(f"{piece}, {name}", "max wait h", longest_h, None, n))
            if name in record["loads"]:
                found.append(Number(f"{piece}, {name}", "load", record["loads"][name], None, n))
        if seed_and_name(piece)[1] in DYNAMIC:
            for column, count in zip(("times trained", "times changed"), record["learned"], strict=True):
                found.append(Number(piece, column, float(count), None, record["waits"][ALL_WEEKS][2]))
    over_seeds = means_over(found, lambda row: f"{ALL_SEEDS}: {row.split(': ')[1]}")
    return [*found, *(mean for mean in over_seeds if mean.spread is not None), *_surge_pairs(records)]


def _surge_pairs(records: Records) -> Iterator[Number]:
    """Yield ratios of the waits of two methods on the same seeds, in the surge and in all weeks."""
    by_method: dict[str, dict[int, Mapping[str, Sequence[float]]]] = {}
    for piece, record in records.items():
        seed, method = seed_and_name(piece)
        by_method.setdefault(method, {})[seed] = record["waits"]
    for ours, theirs in PAIRS:
        shared = sorted(by_method.get(ours, {}).keys() & by_method.get(theirs, {}).keys())
        for when in (IN_SURGE, ALL_WEEKS):
            for place, name in enumerate(("mean wait", "max wait")):
                ratios = [by_method[ours][seed][when][place] / by_method[theirs][seed][when][place] for seed in shared]
                yield from paired_numbers(f"{PAIRED}: {ours} / {theirs}, {when}", name, ratios)


TEN = Artifact(
    "dras-figure10",
    "Figure 10 of the DRAS paper: mean and longest wait by week through a surge of the load",
    lambda asked: [f"seed {seed}: {name}" for seed in asked.seeds for name in present(SURGE_METHODS, THETA, asked)],
    _weeks,
    _weeks_numbers,
    ("trained", "load"),
)
