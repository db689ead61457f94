"""Figure 7: Kiviat graphs of all methods. The paper prints graphs without numbers, and their order in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, ClassVar

from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.simulator.simulate import simulate
from learned.dras.reproduction.measures import KIVIAT, kiviat_area, metrics_of, normalized, ranks
from learned.dras.reproduction.methods import (
    OTHER_METHODS,
    PAPER_METHODS,
    REFERENCE,
    Trained,
    present,
    schedulers,
)
from learned.dras.reproduction.sites import JOBSETS, SITES, jobsets_of

NAME = "dras-figure7"

Runs = Sequence[Sequence[Mapping[str, float]]]
"""Metrics of a method: per run (training or random seed), per jobset."""


@dataclass(frozen=True, slots=True)
class FigureSevenReproduction:
    """Figure 7 of the DRAS paper.

    Parameters
    ----------
    trained
        Folder with trainings, whose weights are taken in place of the shipped ones; several trainings of an agent on
        a trace are runs of which mean and spread are shown.
    """

    trained: str = ""

    name: ClassVar[str] = NAME
    title: ClassVar[str] = "Figure 7 of the DRAS paper: all methods by mean and longest wait, response, slowdown, use"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return machines, jobsets and methods."""
        trained = Trained(self.trained)
        return [
            f"{site.name}, {kind}: {method}"
            for site in SITES.values()
            for kind in JOBSETS
            for method in present((*PAPER_METHODS, *OTHER_METHODS), site, trained)
        ]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Simulate all jobsets under a method."""
        where, method = piece.split(": ")
        site_name, kind = where.split(", ")
        site = SITES[site_name]
        jobsets = jobsets_of(site, kind, request)
        return {
            "runs": [
                [metrics_of(simulate(jobs, site.processors, scheduler)) for jobs in jobsets]
                for scheduler in schedulers(method, site, request.seeds, Trained(self.trained))
            ]
        }

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return metrics, their ratios to the reference, normalized ones, areas and ranks."""
        places = dict.fromkeys(piece.split(": ")[0] for piece in records)
        return [row for place in places for row in _place_rows(place, records)]


def _place_rows(place: str, records: Records) -> list[ReproductionRow]:
    """Return the rows of a machine's jobsets."""
    runs: dict[str, Runs] = {
        piece.split(": ")[1]: record["runs"] for piece, record in records.items() if piece.startswith(f"{place}: ")
    }
    overall = {method: means(found) for method, found in runs.items()}
    known = [row for method in runs for row in _method_rows(f"{place}: {method}", runs[method], runs[REFERENCE])]
    paper = {method: values for method, values in overall.items() if method in PAPER_METHODS}
    n = {method: len(found) * len(found[0]) for method, found in runs.items()}
    return [
        *known,
        *_kiviat_rows(place, paper, n, ""),
        *_kiviat_rows(place, overall, n, ", all methods"),
    ]


def means(runs: Runs) -> dict[str, float]:
    """Return the means of all metrics over runs and jobsets."""
    return {metric: fmean(jobset[metric] for run in runs for jobset in run) for metric in runs[0][0]}


def _method_rows(row: str, runs: Runs, reference: Runs) -> list[ReproductionRow]:
    """Return a method's metrics; spread is over its runs where there are several, else over jobsets."""
    found: dict[str, list[float]] = {}
    for metric in runs[0][0]:
        by_run = [fmean(jobset[metric] for jobset in run) for run in runs]
        found[metric] = by_run if len(runs) > 1 else [jobset[metric] for jobset in runs[0]]
    for metric in ("mean wait h", "max wait h"):
        usual = fmean(jobset[metric] for jobset in reference[0])
        ratios = [fmean(jobset[metric] for jobset in run) / usual for run in runs]
        found[f"{metric.removesuffix(' h')} / {REFERENCE}"] = ratios
    found[f"max wait / {REFERENCE}, worst jobset"] = [
        max(ours["max wait h"] / theirs["max wait h"] for ours, theirs in zip(run, reference[0], strict=True))
        for run in runs
    ]
    n = len(runs) * len(runs[0])
    return [
        ReproductionRow(NAME, row, column, None, fmean(values), stdev(values) if len(values) > 1 else None, n)
        for column, values in found.items()
    ]


def _kiviat_rows(
    place: str, values: Mapping[str, Mapping[str, float]], n: Mapping[str, int], among: str
) -> list[ReproductionRow]:
    """Return normalized metrics, areas and ranks among some methods."""
    scaled = normalized(values)
    areas = {method: kiviat_area([axes[metric] for metric in KIVIAT]) for method, axes in scaled.items()}
    places = ranks(areas)
    return [
        ReproductionRow(NAME, f"{place}: {method}", column + among, None, float(value), None, n[method])
        for method, axes in scaled.items()
        for column, value in (
            *((f"{metric.removesuffix(' h')}, normalized", axes[metric]) for metric in KIVIAT),
            ("area", areas[method]),
            ("rank", places[method]),
        )
    ]
