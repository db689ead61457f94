"""Trajectories of solves: the gap of every solver over time."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from allocopt.problems.kind import is_maximized
from allocopt.report.html.document import Column, Fact, Section, Table
from allocopt.report.html.figures.trajectories import GapTrajectories, Steps
from allocopt.report.html.palette import colour
from allocopt.report.html.words import contender, duration
from allocopt.report.table import Cell
from allocopt.report.trajectories import TrajectoryRow

BOUND, BEST = "the best bound", "the best objective found"
OF_ANY = "the best objective found under any strategy"
MOMENTS_S = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)

Yardsticks = Mapping[tuple[str, str | None], float]
"""What gaps are to, by instance and strategy."""


def trajectories_section(source: str, rows: Sequence[TrajectoryRow]) -> Section:
    """Show how solvers come closer to the best bound known or, where a window has none, to the best objective.

    Strategies have bounds of their own; where several are compared, all gaps are to the best objective of the window.
    """
    bounds, best = _best_bounds(rows), _best_objectives(rows)
    windows = best.keys()
    yardstick, values = (BOUND, bounds) if bounds.keys() == windows else (BEST, best)
    if len({strategy for _, strategy in windows}) > 1:
        yardstick, values = OF_ANY, _best_of_any(rows)
    solves: dict[str, list[Steps]] = {}
    for own in _solves(rows):
        solves.setdefault(contender(own[0].solver, own[0].strategy), []).append(
            _steps(own, values[own[0].instance, own[0].strategy])
        )
    figure = GapTrajectories(yardstick, solves).figure()
    facts = (
        Fact("solves", f"{sum(map(len, solves.values())):,}"),
        Fact("windows and strategies", f"{len(windows):,}"),
        Fact("longest solve", duration(max(row.time_s for row in rows))),
    )
    return Section("Trajectories", source, facts, parts=(figure, _table(yardstick, solves)))


def _solves(rows: Sequence[TrajectoryRow]) -> list[list[TrajectoryRow]]:
    """Split rows into solves; those of one stand together, and in a repeated solve time begins anew."""
    solves: list[list[TrajectoryRow]] = []
    for _, group in groupby(rows, key=lambda row: (row.instance, row.kind, row.strategy, row.solver, row.seed)):
        solves.append([])
        for row in group:
            if solves[-1] and row.time_s < solves[-1][-1].time_s:
                solves.append([])
            solves[-1].append(row)
    return solves


def _best_bounds(rows: Sequence[TrajectoryRow]) -> Yardsticks:
    """Return the closest bound of every window that has one."""
    found: dict[tuple[str, str | None], float] = {}
    for row in rows:
        if row.bound is not None:
            closer = min if is_maximized(row.kind) else max
            found[row.instance, row.strategy] = closer(found.get((row.instance, row.strategy), row.bound), row.bound)
    return found


def _best_objectives(rows: Sequence[TrajectoryRow]) -> Yardsticks:
    """Return the best objective of every window."""
    found: dict[tuple[str, str | None], float] = {}
    for row in rows:
        better = max if is_maximized(row.kind) else min
        known = found.get((row.instance, row.strategy), row.objective)
        found[row.instance, row.strategy] = better(known, row.objective)
    return found


def _best_of_any(rows: Sequence[TrajectoryRow]) -> Yardsticks:
    """Return for every window the best objective that it has under any strategy."""
    together = _best_objectives([replace(row, strategy=None) for row in rows])
    return {(row.instance, row.strategy): together[row.instance, None] for row in rows}


def _steps(rows: Sequence[TrajectoryRow], yardstick: float) -> Steps:
    """Return the gaps of a solve in per cent; what rounding leaves is 0."""
    objectives = np.array([row.objective for row in rows])
    gaps = 100 * np.abs(objectives - yardstick) / max(1e-9, abs(yardstick))
    return Steps(np.array([row.time_s for row in rows]), np.where(gaps < 1e-4, 0.0, gaps))


def _table(yardstick: str, solves: Mapping[str, Sequence[Steps]]) -> Table:
    """Return a line per solver: its mean gap at some moments, and at the end."""
    last = max(float(each.times_s[-1]) for own in solves.values() for each in own)
    moments = [moment for moment in MOMENTS_S if moment < last] or [last]
    rows: list[tuple[Cell, ...]] = []
    for name, own in solves.items():
        means = np.mean([each.at(np.array(moments)) for each in own], axis=0)
        end = float(np.mean([each.gaps[-1] for each in own]))
        rows.append((name, len(own), *(None if np.isnan(mean) else float(mean) for mean in means), end))
    titles = [f"{1e3 * moment:g} ms" if moment < 1 else f"{moment:g} s" for moment in moments]
    columns = (Column("solver"), Column("solves", 0), *(Column(title, 3) for title in titles), Column("at the end", 3))
    swatches = tuple(colour(index) for index in range(len(rows)))
    note = f"Mean over the windows of the gap in per cent to {yardstick}; empty where a solve has no answer yet."
    return Table("Gaps at some moments", columns, tuple(rows), swatches, note)
