"""Table 1: CuSH and the baselines by normalized turnaround time, wait and rewards, on both machines."""

from collections.abc import Iterator
from statistics import fmean

import numpy as np

from allocopt.reproduction import Records
from papers.artifact import Artifact, Asked, Number, Record, mean_of
from papers.cush.configuration import BASELINES, MACHINES, METHODS, runs_of
from papers.cush.published import CUSH, TABLE_ONE

COLUMNS = {"NTAT": "normalized_turnaround", "wait": "wait", "rewards": "rewards", "penalty": "penalty"}
"""Metrics by the heading of their column; the paper prints the first three."""
RATIO, RIGHT = "NTAT over the best baseline", "right policies %"


def _record(asked: Asked, piece: str) -> Record:
    runs = runs_of(asked, *piece.split(": "))
    means = [
        {column: run.mean(metric) for column, metric in COLUMNS.items()}
        | {RIGHT: 100 * float(np.mean(run.policy == run.better))}
        for run in runs
    ]
    return {"runs": means, "sets": len(next(iter(runs[0].sets.values())))}


def _numbers(records: Records) -> Iterator[Number]:
    """Yield means over the job sets, and CuSH's over those of the best baseline."""
    for name in MACHINES:
        found = {method: records[f"{name}: {method}"] for method in METHODS}
        for method, record in found.items():
            printed = TABLE_ONE[name].get(method)
            published = {} if printed is None else dict(zip(COLUMNS, printed, strict=False))
            n = record["sets"] * len(record["runs"])
            for column in (*COLUMNS, RIGHT):
                values = [run[column] for run in record["runs"]]
                yield mean_of(f"{name}: {method}", column, values, published.get(column), n)
        best = min(fmean(run["NTAT"] for run in found[method]["runs"]) for method in BASELINES)
        ratios = [run["NTAT"] / best for run in found[CUSH]["runs"]]
        paper = TABLE_ONE[name]
        expected = paper[CUSH].turnaround / min(paper[method].turnaround for method in BASELINES)
        yield mean_of(f"{name}: {CUSH}", RATIO, ratios, expected, found[CUSH]["sets"] * len(ratios))


ONE = Artifact(
    "cush-table1",
    "Table 1 of the CuSH paper: CuSH and the baselines on Sierra and Summit",
    lambda asked: [f"{machine}: {method}" for machine in MACHINES for method in METHODS],
    _record,
    _numbers,
    ("trained",),
)
