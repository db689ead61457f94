"""Reasons of claims of the DRAS paper that do not hold: the load of Theta, and the length of the simulation.

The paper simulates 21 months of Theta. Only one month is public; its load is lower than that of the paper's busy
months. Evaluations on synthetic weeks end before jobs can starve.
"""

from collections.abc import Iterator
from statistics import fmean

import numpy as np

from allocopt.learned.dras.jobsets import EVALUATION_LOAD, EVALUATION_SEEDS, Split, SyntheticModel
from allocopt.reproduction import Records
from allocopt.simulator.rules import Mode
from allocopt.simulator.simulate import simulate
from allocopt.traces.weekly_cycle import HOUR_S, WEEK_DAYS
from allocopt.traces.workload import Workload
from papers.artifact import Artifact, Asked, Number, Record
from papers.dras.configuration import REFERENCE, SDSC_SP2, THETA, Site, present, schedulers, trace_of
from papers.dras.figures import LARGE_SHARE, MODES, metrics_of, paired_numbers, placed, shares_of

LOADS = (0.5, 0.7, 0.85, 0.99, 1.1)
LOAD_METHODS = (REFERENCE, "DRAS-PG", "DRAS-PPO")
WEEKS = (1, 4, 16)
WEEK_METHODS = (REFERENCE, "Optimization", "DRAS-PPO")
SPANS, LOAD_WEEKS = 4, 4
"""Number of synthetic spans of a piece, and of weeks of each span if loads are varied."""


def _spans(site: Site, asked: Asked, load: float, weeks: int, count: int) -> list[Workload]:
    """Draw spans with indices that no other evaluation uses."""
    model = SyntheticModel.fitted(Split.of(trace_of(site, asked)).training(), site.processors)
    first = 100 * weeks
    return [model.span(EVALUATION_SEEDS[1], first + index, load, weeks * WEEK_DAYS) for index in range(count)]


def _by_load(asked: Asked, load: float, method: str) -> Record:
    """Return shares and waits of the modes, and the longest waits of large and small jobs, on Theta."""
    spans = _spans(THETA, asked, load, asked.size(LOAD_WEEKS, 1), asked.size(SPANS, 1))
    jobs = placed(asked, method, spans)
    shares = shares_of(jobs)
    large = jobs.size >= LARGE_SHARE * THETA.processors
    waits = {mode.name.lower(): jobs.wait_s[jobs.mode == mode] / HOUR_S for mode in MODES}
    return {
        "n": len(jobs.size),
        "columns": {
            "backfilled, jobs %": 100 * float((jobs.mode == Mode.BACKFILLED).mean()),
            **{f"{mode}, core hours %": 100 * shares["shares"][mode]["core hours"] for mode in ("ready", "reserved")},
            **{f"{mode}, mean wait h": float(wait.mean()) if len(wait) else 0.0 for mode, wait in waits.items()},
            "large jobs, max wait h": float(jobs.wait_s[large].max(initial=0.0)) / HOUR_S,
            "other jobs, max wait h": float(jobs.wait_s[~large].max(initial=0.0)) / HOUR_S,
        },
    }


def _by_weeks(asked: Asked, weeks: int, method: str) -> Record:
    """Return the metrics of synthetic spans of SDSC-SP2."""
    spans = _spans(SDSC_SP2, asked, EVALUATION_LOAD, weeks, asked.size(SPANS, 1))
    scheduler = schedulers(method, SDSC_SP2, asked)[0]
    return {"spans": [metrics_of(simulate(jobs, SDSC_SP2.processors, scheduler)) for jobs in spans]}


def _keys(asked: Asked) -> list[str]:
    loads = [f"load {load}: {method}" for load in LOADS for method in present(LOAD_METHODS, THETA, asked)]
    weeks = [f"weeks {count}: {method}" for count in WEEKS for method in present(WEEK_METHODS, SDSC_SP2, asked)]
    return [*loads, *weeks]


def _record(asked: Asked, piece: str) -> Record:
    where, method = piece.split(": ")
    kind, value = where.split(" ")
    return _by_load(asked, float(value), method) if kind == "load" else _by_weeks(asked, int(value), method)


def _numbers(records: Records) -> Iterator[Number]:
    for piece, record in records.items():
        if "columns" in record:
            for column, value in record["columns"].items():
                yield Number(piece, column, value, None, record["n"])
            continue
        where = piece.split(": ")[0]
        reference = records[f"{where}: {REFERENCE}"]["spans"]
        for metric in ("mean wait h", "max wait h"):
            ours = [span[metric] for span in record["spans"]]
            yield Number(piece, metric, fmean(ours), None, len(ours))
            ratios = np.array(ours) / [span[metric] for span in reference]
            yield from paired_numbers(piece, f"{metric.removesuffix(' h')} / {REFERENCE}", ratios.tolist())


REASONS = Artifact(
    "dras-reasons",
    "Reasons of claims of the DRAS paper that do not hold: the load of Theta, the length of the simulation",
    _keys,
    _record,
    _numbers,
    ("trained",),
)
