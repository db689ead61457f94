"""Learning curves of trainings: every measure over the updates, as it is and smoothed."""

from collections.abc import Mapping, Sequence

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.report.html.document import Column, Section, Table
from allocopt.report.html.results import ResultFile
from allocopt.report.plot import Axis, Colours, Figure, Panel, smoothed
from allocopt.report.table import Cell
from allocopt.report.words import number

_BOOKKEEPING = ("seconds", "samples", "learning_rate", "steps", "time_s")
_FAVOURITES = ("mean_return", "return", "reward", "loss", "value_loss", "entropy", "gap", "valid", "score")
_MOST_MEASURES, _MOST_POINTS, _MOST_DRAWN = 8, 400, 1e100

_Run = Mapping[str, FloatArray]
"""Columns by name."""


def curves_section(files: Sequence[ResultFile]) -> Section:
    """Show the curves of trainings that have the same columns."""
    columns = list(files[0].records[0].values)
    runs: dict[str, _Run] = {}
    for label, file in zip(ResultFile.labels(files), files, strict=True):
        # Empty cells, and numbers that no axis has room for, are no numbers.
        values = np.array([[float(record.values[name] or "nan") for name in columns] for record in file.records])
        runs[label] = dict(zip(columns, np.where(np.abs(values) <= _MOST_DRAWN, values, np.nan).T, strict=True))

    def varies(values: FloatArray) -> bool:
        known = values[np.isfinite(values)]
        return len(known) > 0 and float(known.max()) > float(known.min())

    def rank(name: str) -> int:
        # Those that trainings are judged by come first.
        return next((place for place, word in enumerate(_FAVOURITES) if word in name), len(_FAVOURITES))

    measures = [name for name in columns[1:] if any(varies(run[name]) for run in runs.values())] or columns[1:2]
    # Counters rise in every training; they say nothing of it.
    judged = [name for name in measures if name not in _BOOKKEEPING] or measures
    drawn = sorted(judged, key=rank)[:_MOST_MEASURES]
    figure = _figure(columns[0], sorted(drawn, key=columns.index), runs)
    updates = max(len(run[columns[0]]) for run in runs.values())
    counted = ("runs", str(len(runs))) if len(runs) > 1 else ("run", next(iter(runs)))
    facts = (counted, ("updates", f"{updates:,}"), ("measures", str(len(measures))))
    sources = ", ".join(dict.fromkeys(file.path.name for file in files))
    rows: list[tuple[Cell, ...]] = []
    keys = []
    for index, (label, run) in enumerate(runs.items()):
        for name in measures:
            known = run[name][np.isfinite(run[name])]
            if len(known):
                tail = known[-max(1, len(known) // 20) :]
                cells = (float(known[0]), float(tail.mean()), float(known.min()), float(known.max()))
                rows.append((label, name.replace("_", " "), *cells))
                keys.append(index)
    titles = ("first", "last twentieth", "least", "most")
    held = (Column("run"), Column("measure"), *(Column(each, 0, is_mixed=True) for each in titles))
    table = Table("Measures", held, tuple(rows), tuple(keys) if len(runs) > 1 else ())
    return Section("Training", sources, facts, parts=(figure, table))


def _figure(x: str, measures: Sequence[str], runs: Mapping[str, _Run]) -> Figure:
    said = []
    for name, run in runs.items():
        for measure in measures:
            known = run[measure][np.isfinite(run[measure])]
            if len(known):
                last = smoothed(run[measure], 0.05)[-1]
                said.append(f"{measure} of {name} goes from {number(known[0])} to {number(float(last))}")

    def draw(colours: Colours) -> list[Panel]:
        title = x.replace("_", " ")
        across = Axis.linear(np.concatenate([run[x] for run in runs.values()]), title, title, is_tight=True)
        panels = []
        for measure in measures:
            y = Axis.linear(np.concatenate([run[measure] for run in runs.values()]))
            panel = Panel(colours, across, y, 170, measure.replace("_", " "))
            for index, (name, run) in enumerate(runs.items()):
                every = np.unique(np.linspace(0, len(run[x]) - 1, _MOST_POINTS).round().astype(int))
                panel.line(index, run[x][every], run[measure][every], is_faint=True)
                panel.line(index, run[x][every], smoothed(run[measure], 0.05)[every], name)
            panels.append(panel)
        return panels

    return Figure(
        "learning-curves",
        "Learning curves",
        f"Measures of training over {x}. {'; '.join(said[:12])}.",
        draw,
        "Faint: every update. Strong: mean over the last twentieth of the updates up to there.",
        tuple(runs),
    )
