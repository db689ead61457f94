"""Figures 5 and 7: wait and turnaround by the length of jobs, and penalties by their size, on Sierra.

The paper shows both as bars, without numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from allocopt.arrays import BoolArray, FloatArray
from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from learned.cush.reproduction.outcomes import MACHINES, METHODS, Outcomes, held_out, of_agent, of_baseline
from learned.cush.reproduction.published import CUSH
from learned.cush.reproduction.trained import agents_for

LENGTHS = {"short, 1-5": (0, 5), "medium short, 6-10": (5, 10), "medium long, 11-15": (10, 15), "long, 16-20": (15, 20)}
"""Classes of Figure 5: longer than, and up to so many timesteps."""
SIZES = {
    "small, up to 25 %": (0.0, 0.25),
    "medium small, up to 50 %": (0.25, 0.5),
    "medium large, up to 75 %": (0.5, 0.75),
    "large": (0.75, 1.0),
}
"""Classes of Figure 7: more than, and up to such a share of the cluster."""

Classes = Mapping[str, tuple[float, float]]


def runs_of(folder: str, method: str, request: ReproductionRequest) -> list[Outcomes]:
    """Schedule the held-out job sets of Sierra by a method; CuSH once for every training."""
    machine = MACHINES["sierra"]()
    jobsets = held_out(machine, request)
    if method != CUSH:
        return [of_baseline(jobsets, machine, method)]
    agents = agents_for(folder, "sierra")
    return [of_agent(one.agent(), jobsets, machine, one.queue) for one in agents]


def class_means(classes: Classes, by: FloatArray, values: Mapping[str, FloatArray]) -> dict[str, dict[str, float]]:
    """Return means of values over the jobs of each class that has some, and their number."""
    found = {}
    for name, (above, most) in classes.items():
        members: BoolArray = (by > above) & (by <= most)
        if members.any():
            means = {column: float(value[members].mean()) for column, value in values.items()}
            found[name] = {**means, "jobs": float(members.sum())}
    return found


def by_length(outcomes: Outcomes) -> dict[str, dict[str, float]]:
    """Return turnaround and wait by length."""
    return class_means(LENGTHS, outcomes.length, {"NTAT": outcomes.turnaround, "wait": outcomes.wait})


def by_size(outcomes: Outcomes) -> dict[str, dict[str, float]]:
    """Return the penalty by size."""
    return class_means(SIZES, outcomes.share, {"penalty": outcomes.service - outcomes.length})


@dataclass(frozen=True, slots=True)
class _ByClass:
    """A figure of means by class.

    Parameters
    ----------
    trained
        Folder with trainings, whose weights are taken in place of the shipped ones.
    """

    trained: str = ""

    name: ClassVar[str]
    title: ClassVar[str]
    means: ClassVar[Callable[[Outcomes], dict[str, dict[str, float]]]]

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return the methods."""
        return list(METHODS)

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Schedule the held-out job sets by a method."""
        return {"runs": [type(self).means(run) for run in runs_of(self.trained, piece, request)]}

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return the means of every class and method, over the runs."""
        rows = []
        for method, record in records.items():
            runs = record["runs"]
            for name, means in runs[0].items():
                for column in (column for column in means if column != "jobs"):
                    values = [run[name][column] for run in runs]
                    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
                    jobs = int(means["jobs"]) * len(values)
                    mean = float(np.mean(values))
                    rows.append(ReproductionRow(self.name, f"{method}: {name}", column, None, mean, spread, jobs))
        return rows


@dataclass(frozen=True, slots=True)
class FigureFiveReproduction(_ByClass):
    """Figure 5 of the CuSH paper; see `_ByClass`."""

    name: ClassVar[str] = "cush-figure5"
    title: ClassVar[str] = "Figure 5 of the CuSH paper: turnaround and wait by the length of jobs, on Sierra"
    means: ClassVar[Callable[[Outcomes], dict[str, dict[str, float]]]] = staticmethod(by_length)


@dataclass(frozen=True, slots=True)
class FigureSevenReproduction(_ByClass):
    """Figure 7 of the CuSH paper; see `_ByClass`."""

    name: ClassVar[str] = "cush-figure7"
    title: ClassVar[str] = "Figure 7 of the CuSH paper: locality penalty by the size of jobs, on Sierra"
    means: ClassVar[Callable[[Outcomes], dict[str, dict[str, float]]]] = staticmethod(by_size)
