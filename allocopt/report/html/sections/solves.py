"""Solves: the gap against time, a summary by solver, every solve; and gaps over time."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from statistics import fmean, median
from typing import Literal, NamedTuple

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.problems.kind import is_maximized
from allocopt.report.html.document import Column, Section, Table
from allocopt.report.html.results import SolveRecord
from allocopt.report.plot import Axis, Colours, Figure, Panel, evenly
from allocopt.report.rows import TrajectoryRow
from allocopt.report.solves import contender, solves_verdict, unit_of_time
from allocopt.report.words import Cell, duration, number, percent, typographic

_MOST_ROWS, _MOST_POINTS, _MOST_LINES, _MOST_MOMENTS = 1_000, 1_600, 40, 300
_BEST_KNOWN, _BOUND = "the best known", "the bound"
_BEST_BOUND, _BEST_FOUND = "the best bound", "the best objective found"
_BEST_OF_ANY = "the best objective found under any strategy"
_MOMENTS_S = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
_SCALE = "The scale of gaps is logarithmic above 0.01 % and linear below."

_solve_of = attrgetter("instance", "kind", "strategy", "solver", "seed")


class _Steps(NamedTuple):
    """The gap of a solve in per cent as a step function of time; there is none before the first time."""

    times_s: FloatArray
    gaps: FloatArray

    def at(self, moments_s: FloatArray) -> FloatArray:
        places = np.searchsorted(self.times_s, moments_s, side="right") - 1
        return np.where(places >= 0, self.gaps[np.maximum(places, 0)], np.nan)


def solves_section(source: str, rows: Sequence[SolveRecord]) -> Section:
    """Return the section of solves."""
    if not rows:
        return Section("Solves", source=source)
    yardstick = _BEST_KNOWN if any(row.best_known is not None for row in rows) else _BOUND
    groups: dict[str, list[SolveRecord]] = {}
    for row in rows:
        groups.setdefault(contender(row.solver, row.strategy), []).append(row)
    # Verdict and tables have one unit of time, so that they can be compared.
    unit, factor = unit_of_time(rows)
    notes: list[str] = []
    gaps = np.array([gap for row in rows if (gap := _gap_percent(row, yardstick)) is not None])
    parts: list[Figure | Table] = []
    if len(gaps) and not gaps.any():
        # A figure of zeros would show only noise.
        notes.append(f"All {len(gaps):,} gaps to {yardstick} are 0; they are not drawn.")
    if len(rows) > len(groups) or len(groups) > 1:
        summary: list[tuple[Cell, ...]] = []
        for name, solves in groups.items():
            own = [gap for row in solves if (gap := _gap_percent(row, yardstick)) is not None]
            times = [factor * row.runtime_s for row in solves]
            objectives = [row.objective for row in solves if row.objective is not None]
            mean, worst = (fmean(own), max(own)) if own else (None, None)
            share = 100 * fmean(row.status == "OPTIMAL" for row in solves)
            objective = fmean(objectives) if objectives else None
            summary.append((name, len(solves), objective, mean, worst, share, median(times), max(times)))
        columns = (
            Column("solver"), Column("solves", 0), Column("mean objective", 1), Column("mean gap %", 3),
            Column("worst gap %", 3), Column("proved %", 0), Column(f"median time {unit}", 2),
            Column(f"max time {unit}", 2),
        )  # fmt: skip
        keys = tuple(range(len(summary))) if gaps.any() else ()
        parts.append(Table("Solvers", columns, tuple(summary), keys, f"Gaps are to {_described(yardstick)}."))
    if gaps.any():
        parts.append(_gap_figure(groups, yardstick))
    shown = tuple(
        (
            row.instance, contender(row.solver, row.strategy), row.status.lower(), row.objective, row.bound,
            _gap_percent(row, yardstick), factor * row.runtime_s, row.seed,
        )
        for row in rows[:_MOST_ROWS]
    )  # fmt: skip
    columns = (
        Column("instance"), Column("solver"), Column("status"), Column("objective", 2), Column("bound", 2),
        Column("gap %", 3), Column(f"time {unit}", 2), Column("seed", 0),
    )  # fmt: skip
    cut = f" The first {_MOST_ROWS:,} of {len(rows):,} are shown." if len(rows) > _MOST_ROWS else ""
    parts.append(Table("Every solve", columns, shown, note=f"The gap is to {_described(yardstick)}.{cut}"))
    proved = sum(row.status == "OPTIMAL" for row in rows)
    instances = len({row.instance for row in rows})
    notes.append(
        f"{len(rows):,} solves of {instances:,} instances, {percent(proved / len(rows), 0)} proved optimal, took "
        f"{duration(sum(row.runtime_s for row in rows))} in all. Every answer is verified outside its solver."
    )
    if len(groups) > 1:
        notes.append("Changes and intervals of the verdict are relative to the first solver; samples are instances.")
    title = "Comparison of solvers" if len(groups) > 1 else "Solves"
    verdict = tuple(map(typographic, solves_verdict(rows)))
    return Section(title, verdict, parts=tuple(parts), notes=tuple(notes), source=source)


def trajectories_section(source: str, rows: Sequence[TrajectoryRow]) -> Section:
    """Return the section of gaps over time, to the best known bound or, if a window has none, to the best objective.

    Bounds hold for one strategy. If several strategies are compared, all gaps are to the best objective of the window.
    """
    bounds, best = _best(rows, "bound"), _best(rows, "objective")
    windows = best.keys()
    yardstick, values = (_BEST_BOUND, bounds) if bounds.keys() == windows else (_BEST_FOUND, best)
    if len({strategy for _, strategy in windows}) > 1:
        together = _best([replace(row, strategy=None) for row in rows], "objective")
        yardstick, values = _BEST_OF_ANY, {(name, strategy): together[name, None] for name, strategy in windows}
    solves: dict[str, list[_Steps]] = {}
    # Rows of a solve are consecutive. If a solve was repeated, its time begins again.
    split: list[list[TrajectoryRow]] = []
    for row in rows:
        if not split or _solve_of(row) != _solve_of(split[-1][-1]) or row.time_s < split[-1][-1].time_s:
            split.append([])
        split[-1].append(row)
    for own in split:
        objectives = np.array([row.objective for row in own])
        known = values[own[0].instance, own[0].strategy]
        gaps = 100 * np.abs(objectives - known) / max(1e-9, abs(known))
        # Gaps that only rounding leaves count as 0.
        steps = _Steps(np.array([row.time_s for row in own]), np.where(gaps < 1e-4, 0.0, gaps))
        solves.setdefault(contender(own[0].solver, own[0].strategy), []).append(steps)
    notes = (
        f"{sum(map(len, solves.values())):,} solves of {len(windows):,} windows under a strategy; the longest took "
        f"{duration(max(row.time_s for row in rows))}.",
    )
    has_gaps = any(each.gaps.any() for own in solves.values() for each in own)
    last = max(float(each.times_s[-1]) for own in solves.values() for each in own)
    moments = [moment for moment in _MOMENTS_S if moment < last] or [last]
    cells: list[tuple[Cell, ...]] = []
    for name, steps_of_one in solves.items():
        means = np.mean([each.at(np.array(moments)) for each in steps_of_one], axis=0)
        end = fmean(float(each.gaps[-1]) for each in steps_of_one)
        cells.append((name, len(steps_of_one), *(None if np.isnan(mean) else float(mean) for mean in means), end))
    titles = [f"{1e3 * moment:g} ms" if moment < 1 else f"{moment:g} s" for moment in moments]
    columns = (Column("solver"), Column("solves", 0), *(Column(title, 3) for title in titles), Column("at the end", 3))
    note = f"Mean gap to {yardstick} over the windows, in per cent; empty if a solve has no answer yet."
    keys = tuple(range(len(cells))) if has_gaps else ()
    table = Table("Gaps over time", columns, tuple(cells), keys, note)
    if not has_gaps:
        verdict = (f"All gaps to {yardstick} are 0 from the start.",)
        return Section("Trajectories", verdict, parts=(table,), notes=notes, source=source)
    ends = {name: fmean(float(each.gaps[-1]) for each in own) for name, own in solves.items()}
    nearest, farthest = min(ends, key=lambda name: ends[name]), max(ends, key=lambda name: ends[name])
    beside = "" if len(ends) == 1 else f"; {farthest} has the largest, {ends[farthest]:.3g} %"
    verdict = (f"At the end, {nearest} has the smallest mean gap to {yardstick}, {ends[nearest]:.3g} %{beside}.",)
    if ends[farthest] == 0:
        # The gap of each solve does not grow, so that its last value begins at the first time with it.
        times = {name: fmean(float(each.times_s[each.gaps.argmin()]) for each in own) for name, own in solves.items()}
        first = min(times, key=lambda name: times[name])
        ended = f"{first} ends" if len(ends) == 1 else f"All {len(ends)} solvers end"
        when = f"{number(1e3 * times[first])} ms on average"
        beside = f", which it reaches after {when}" if len(ends) == 1 else f"; {first} reaches it first, after {when}"
        verdict = (f"{ended} with a gap of 0 to {yardstick}{beside}.",)
    parts = (table, _trajectories_figure(yardstick, solves))
    return Section("Trajectories", verdict, parts=parts, notes=notes, source=source)


def _gap_percent(row: SolveRecord, yardstick: str) -> float | None:
    """Return by how many per cent an objective is worse than its yardstick; None if one of them is missing."""
    if yardstick == _BOUND:
        gap = None if row.gap is None else 100 * row.gap
    elif row.objective is None or row.best_known is None or (row.best_known == 0 != row.objective):
        gap = None
    else:
        worse = row.objective - row.best_known
        gap = 100 * (-worse if is_maximized(row.kind) else worse) / max(1e-9, abs(row.best_known))
    # A gap that only rounding leaves counts as 0.
    return 0.0 if gap is not None and abs(gap) < 1e-4 else gap


def _gap_figure(groups: Mapping[str, Sequence[SolveRecord]], yardstick: str) -> Figure:
    """Return a figure with a small point per solve and a large one per solver; the legend names all solvers."""
    known, means = {}, {}
    for name, rows in groups.items():
        gaps = [(_gap_percent(row, yardstick), row) for row in rows]
        known[name] = [(max(row.runtime_s, 1e-6), gap, row) for gap, row in gaps if gap is not None]
        if known[name]:
            times, values, _ = zip(*known[name], strict=True)
            means[name] = median(times), fmean(values)
    said = [f"{name}: {gap:.3g} % in {time:.3g} s" for name, (time, gap) in means.items()]

    def draw(colours: Colours) -> list[Panel]:
        times, gaps, _ = zip(*chain(*known.values()), strict=True)
        x = Axis.running_time(0.8 * min(times), 1.25 * max(times))
        panel = Panel(colours, x, Axis.gaps(min(gaps), max(gaps)), 320)
        # Limit the points, so that the page stays small; all solvers get equally many.
        most = max(1, _MOST_POINTS // len(means))
        for index, (name, solves) in enumerate(known.items()):
            own = [solves[place] for place in evenly(len(solves), most)]
            titles = [f"{name}, {row.instance}: {gap:.3g} % in {time:.3g} s" for time, gap, row in own]
            x_own, y_own = np.array([time for time, _, _ in own]), np.array([gap for _, gap, _ in own])
            panel.points(index, x_own, y_own, titles, size=1.8, opacity=0.4)
        look = {"stroke": colours["surface"], "strokeWidth": 1.0}
        for index, name in enumerate(known):
            if name in means:
                time, gap = means[name]
                title = f"{name}: mean gap {gap:.3g} %, median time {time:.3g} s"
                panel.points(index, np.array([time]), np.array([gap]), [title], size=5.0, **look)
        return [panel]

    absent = [name for name in groups if name not in means]
    return Figure(
        "gap-over-time",
        f"Gap to {yardstick} against time",
        f"Gap to {yardstick} over running time; mean gap and median time of each solver. {'; '.join(said)}.",
        draw,
        f"A small mark is a solve, a large one the mean gap and median time of a solver. Lower left is better. {_SCALE}"
        + (f" Not drawn, because their gaps are unknown: {', '.join(absent)}." if absent else ""),
        tuple(name if name in means else f"{name}: gap unknown" for name in groups),
    )


def _described(yardstick: str) -> str:
    return f"{yardstick} of the instance under the same strategy" if yardstick == _BEST_KNOWN else yardstick


def _best(rows: Sequence[TrajectoryRow], column: Literal["objective", "bound"]) -> dict[tuple[str, str | None], float]:
    """Return the best objective, or the tightest bound, of every instance under every strategy."""
    found: dict[tuple[str, str | None], float] = {}
    for row in rows:
        value = row.objective if column == "objective" else row.bound
        if value is not None:
            better = max if is_maximized(row.kind) is (column == "objective") else min
            found[row.instance, row.strategy] = better(found.get((row.instance, row.strategy), value), value)
    return found


def _trajectories_figure(yardstick: str, solves: Mapping[str, Sequence[_Steps]]) -> Figure:
    said = [f"{name} ends at {fmean(each.gaps[-1] for each in own):.3g} % on average" for name, own in solves.items()]

    def draw(colours: Colours) -> list[Panel]:
        every = [each for own in solves.values() for each in own]
        first = max(min(float(each.times_s[0]) for each in every), 1e-6)
        last = max(max(float(each.times_s[-1]) for each in every), 1.01 * first)
        moments = np.geomspace(first, last, _MOST_MOMENTS)
        gaps = np.concatenate([each.gaps for each in every])
        panel = Panel(colours, Axis.running_time(first, last), Axis.gaps(float(gaps.min()), float(gaps.max())), 320)
        for index, (name, own) in enumerate(solves.items()):
            for each in own if 1 < len(own) <= _MOST_LINES else ():
                times = np.maximum(np.append(each.times_s, last), first)
                panel.line(index, times, np.append(each.gaps, each.gaps[-1]), is_step=True, is_faint=True)
            # While a solve has no answer, its gap and the mean are NaN.
            panel.line(index, moments, np.mean([each.at(moments) for each in own], axis=0), name, is_step=True)
        return [panel]

    return Figure(
        "gap-trajectories",
        f"Gap to {yardstick} over time",
        f"Mean gap to {yardstick} over running time. {'; '.join(said)}.",
        draw,
        "A strong line is the mean over the solves of a solver, from the time at which all have an answer. A faint "
        f"line is a solve. {_SCALE}",
        tuple(solves),
    )
