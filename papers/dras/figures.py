"""Figure 7: Kiviat graphs of all methods. Figure 11: a generic agent, trained on other machines.

The paper prints graphs without numbers, and their order in words. For Figure 11 it takes DRAS-PG and models of
RLScheduler; here both agents are DRAS-PPO, whose features and network do not depend on the machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

import numpy as np

from allocopt.reproduction import Records
from allocopt.simulator.metrics import measure
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.simulate import simulate
from papers.artifact import Artifact, Asked, Number, Record, mean_of
from papers.dras.configuration import (
    CUSTOMIZED,
    GENERIC,
    HOUR_S,
    JOBSETS,
    METHODS,
    PAPER_METHODS,
    REFERENCE,
    SITES,
    jobsets_of,
    present,
    schedulers,
)

KIVIAT = {"mean wait h": -1, "max wait h": -1, "mean response h": -1, "mean slowdown": -1, "utilization": 1}
"""Metrics of the Kiviat graphs in their order around the graph; -1 where less is better."""

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
    """Yield a method's metrics; spread is over its runs where there are several, else over jobsets."""
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
    """Area of a Kiviat graph as a share of that of a graph in which every metric is 1.

    The triangles between neighbouring axes r and s have the area ``r s sin(2 pi / n) / 2``.
    """
    return float(np.mean(np.array(axes) * np.roll(axes, -1)))


def ranks(areas: Mapping[str, float]) -> dict[str, int]:
    """Rank methods by area: 1 for the greatest, the same for equals."""
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


ELEVEN = Artifact(
    "dras-figure11",
    "Figure 11 of the DRAS paper: a generic agent beside the customized one",
    lambda asked: _keys((REFERENCE, CUSTOMIZED, GENERIC), asked),
    _record,
    _numbers_of_eleven,
    ("trained",),
)
