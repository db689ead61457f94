"""Table 1: CuSH and the baselines by normalized turnaround time, wait and rewards, on both machines."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, ClassVar

import numpy as np

from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from learned.cush.reproduction.outcomes import BASELINES, MACHINES, METHODS, Outcomes, held_out, of_agent, of_baseline
from learned.cush.reproduction.published import CUSH, TABLE_ONE
from learned.cush.reproduction.trained import agents_for

NAME = "cush-table1"
COLUMNS = {"NTAT": "normalized_turnaround", "wait": "wait", "rewards": "rewards", "penalty": "penalty"}
"""Metrics by the heading of their column; the paper prints the first three."""
RATIO, RIGHT = "NTAT over the best baseline", "right policies %"


@dataclass(frozen=True, slots=True)
class TableOneReproduction:
    """Table 1 of the CuSH paper.

    Parameters
    ----------
    trained
        Folder with trainings, whose weights are taken in place of the shipped ones; several of a machine are runs of
        which mean and spread are shown.
    """

    trained: str = ""

    name: ClassVar[str] = NAME
    title: ClassVar[str] = "Table 1 of the CuSH paper: CuSH and the baselines on Sierra and Summit"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return machines and methods."""
        return [f"{machine}: {method}" for machine in MACHINES for method in METHODS]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Schedule the held-out job sets by a method."""
        name, method = piece.split(": ")
        machine = MACHINES[name]()
        jobsets = held_out(machine, request)
        if method != CUSH:
            return {"runs": [means_of(of_baseline(jobsets, machine, method))], "sets": len(jobsets)}
        agents = agents_for(self.trained, name)
        runs = [means_of(of_agent(one.agent(), jobsets, machine, one.queue)) for one in agents]
        return {"runs": runs, "sets": len(jobsets)}

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return means over the job sets, and CuSH's over those of the best baseline."""
        return [row for name in MACHINES for row in _machine_rows(name, records)]


def means_of(outcomes: Outcomes) -> dict[str, float]:
    """Return what the columns show of a run."""
    found = {column: float(outcomes.sets[metric].mean()) for column, metric in COLUMNS.items()}
    return found | {RIGHT: 100 * float(np.mean(outcomes.policy == outcomes.better))}


def _machine_rows(name: str, records: Records) -> list[ReproductionRow]:
    """Return the rows of a machine."""
    rows = []
    for method in METHODS:
        record = records[f"{name}: {method}"]
        printed = TABLE_ONE[name].get(method)
        published = {} if printed is None else dict(zip(COLUMNS, printed, strict=False))
        rows += [
            row_of(NAME, f"{name}: {method}", column, published.get(column), record) for column in (*COLUMNS, RIGHT)
        ]
    best = min(_mean(records[f"{name}: {method}"], "NTAT") for method in BASELINES)
    ratios = {"runs": [{RATIO: run["NTAT"] / best} for run in records[f"{name}: {CUSH}"]["runs"]]}
    paper = TABLE_ONE[name]
    expected = paper[CUSH].turnaround / min(paper[method].turnaround for method in BASELINES)
    sets = records[f"{name}: {CUSH}"]["sets"]
    return [*rows, row_of(NAME, f"{name}: {CUSH}", RATIO, expected, {**ratios, "sets": sets})]


def row_of(artifact: str, row: str, column: str, published: float | None, record: Mapping[str, Any]) -> ReproductionRow:
    """Return the mean over the runs of a record, with their spread where there are several."""
    values = [run[column] for run in record["runs"]]
    spread = stdev(values) if len(values) > 1 else None
    return ReproductionRow(artifact, row, column, published, fmean(values), spread, record["sets"] * len(values))


def _mean(record: Mapping[str, Any], column: str) -> float:
    """Return the mean over the runs of a record."""
    return fmean(run[column] for run in record["runs"])
