"""Learning curves of trainings."""

from collections.abc import Mapping, Sequence

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.report.html.document import Column, Fact, Section, Table
from allocopt.report.html.figures.curves import LearningCurves
from allocopt.report.html.palette import colour
from allocopt.report.html.results import ResultFile
from allocopt.report.html.sections.schedules import labels_of
from allocopt.report.table import Cell

BOOKKEEPING = ("seconds", "samples", "learning_rate", "steps", "time_s")
FAVOURITES = ("mean_return", "return", "reward", "loss", "value_loss", "entropy", "gap", "valid", "score")
MOST_MEASURES = 8
MOST_DRAWN = 1e100


def curves_section(files: Sequence[ResultFile]) -> Section:
    """Show the curves of trainings that have the same columns."""
    columns = list(files[0].records[0].values)
    runs = {label: _columns(file) for label, file in zip(labels_of(files), files, strict=True)}
    measures = [name for name in columns[1:] if any(_varies(run[name]) for run in runs.values())] or columns[1:2]
    judged = [name for name in measures if name not in BOOKKEEPING] or measures
    drawn = sorted(judged, key=_importance)[:MOST_MEASURES]
    curves = LearningCurves(columns[0], tuple(sorted(drawn, key=columns.index)), runs)
    updates = max(len(run[columns[0]]) for run in runs.values())
    facts = (Fact("runs" if len(runs) > 1 else "run", str(len(runs)) if len(runs) > 1 else next(iter(runs))),
             Fact("updates", f"{updates:,}"), Fact("measures", str(len(measures))))  # fmt: skip
    sources = ", ".join(dict.fromkeys(file.path.name for file in files))
    return Section("Training", sources, facts, parts=(curves.figure(), _table(runs, measures)))


def _table(runs: Mapping[str, Mapping[str, FloatArray]], measures: Sequence[str]) -> Table:
    """Return a line per run and measure."""
    rows: list[tuple[Cell, ...]] = []
    for label, run in runs.items():
        for name in measures:
            known = run[name][np.isfinite(run[name])]
            if len(known):
                tail = known[-max(1, len(known) // 20) :]
                cells = (float(known[0]), float(tail.mean()), float(known.min()), float(known.max()))
                rows.append((label, name.replace("_", " "), *cells))
    titles = ("first", "last twentieth", "least", "most")
    columns = (Column("run"), Column("measure"), *(Column(each, 0, is_mixed=True) for each in titles))
    numbers = {label: number for number, label in enumerate(runs)}
    swatches = tuple(colour(numbers[str(row[0])]) for row in rows) if len(runs) > 1 else ()
    return Table("Measures", columns, tuple(rows), swatches)


def _columns(file: ResultFile) -> dict[str, FloatArray]:
    """Return the columns of a curve; empty cells, and numbers that no axis has room for, are no numbers."""
    names = list(file.records[0].values)
    cells = [[float(record.values[name] or "nan") for name in names] for record in file.records]
    values = np.array(cells)
    return dict(zip(names, np.where(np.abs(values) <= MOST_DRAWN, values, np.nan).T, strict=True))


def _varies(values: FloatArray) -> bool:
    """Whether there is something to see."""
    known = values[np.isfinite(values)]
    return len(known) > 0 and float(known.max()) > float(known.min())


def _importance(name: str) -> int:
    """Rank measures: those that trainings are judged by first."""
    return next((rank for rank, word in enumerate(FAVOURITES) if word in name), len(FAVOURITES))
