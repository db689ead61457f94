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
from allocopt.report.words import Cell, duration, number, percent
from allocopt.solving.result import EQUAL_RELATIVE

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
        return Section("Solves", source)
    yardstick = _BEST_KNOWN if any(row.best_known is not None for row in rows) else _BOUND
    groups: dict[str, list[SolveRecord]] = {}
    for row in rows:
        groups.setdefault(_contender(row.solver, row.strategy), []).append(row)
    # Use one unit of time in verdict and tables, so that they can be compared.
    unit, factor = ("ms", 1e3) if median(row.runtime_s for row in rows) < 1 else ("s", 1.0)
    verdict = _verdict(groups, unit, factor)
    gaps = np.array([gap for row in rows if (gap := _gap_percent(row, yardstick)) is not None])
    parts: list[Figure | Table] = []
    if gaps.any():
        parts.append(_gap_figure(groups, yardstick))
    elif len(gaps):
        # A figure of zeros would show only noise.
        verdict.append(f"All {len(gaps):,} gaps to {yardstick} are 0.")
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
            Column("worst gap %", 3), Column("proved %", 0), Column(f"median {unit}", 2), Column(f"max {unit}", 2),
        )  # fmt: skip
        keys = tuple(range(len(summary))) if gaps.any() else ()
        parts.append(Table("Solvers", columns, tuple(summary), keys, f"Gaps are to {_described(yardstick)}."))
    shown = tuple(
        (
            row.instance, _contender(row.solver, row.strategy), row.status.lower(), row.objective, row.bound,
            _gap_percent(row, yardstick), factor * row.runtime_s, row.seed,
        )
        for row in rows[:_MOST_ROWS]
    )  # fmt: skip
    columns = (
        Column("instance"), Column("solver"), Column("status"), Column("objective", 2), Column("bound", 2),
        Column("gap %", 3), Column(unit, 2), Column("seed", 0),
    )  # fmt: skip
    cut = f" The first {_MOST_ROWS:,} of {len(rows):,} are shown." if len(rows) > _MOST_ROWS else ""
    parts.append(Table("Every solve", columns, shown, note=f"The gap is to {_described(yardstick)}.{cut}"))
    proved = sum(row.status == "OPTIMAL" for row in rows)
    contenders = ("solvers and strategies", str(len(groups))) if len(groups) > 1 else ("solver", next(iter(groups)))
    facts = (
        ("solves", f"{len(rows):,}"),
        ("instances", f"{len({row.instance for row in rows}):,}"),
        contenders,
        ("proved optimal", percent(proved / len(rows), 0)),
        ("time in all", duration(sum(row.runtime_s for row in rows))),
    )
    title = "Comparison of solvers" if len(groups) > 1 else "Solves"
    return Section(title, source, facts, tuple(verdict), tuple(parts))


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
        solves.setdefault(_contender(own[0].solver, own[0].strategy), []).append(steps)
    facts = (
        ("solves", f"{sum(map(len, solves.values())):,}"),
        ("windows and strategies", f"{len(windows):,}"),
        ("longest solve", duration(max(row.time_s for row in rows))),
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
        return Section("Trajectories", source, facts, (f"All gaps to {yardstick} are 0 from the start.",), (table,))
    return Section("Trajectories", source, facts, parts=(_trajectories_figure(yardstick, solves), table))


def _contender(solver: str, strategy: str | None) -> str:
    return solver if strategy is None else f"{solver} ({strategy})"


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
        f"Small: one solve. Large: mean gap and median time. Lower left is better. {_SCALE}"
        + (f" Not drawn, because their gaps are unknown: {', '.join(absent)}." if absent else ""),
        tuple(name if name in means else f"{name}: gap unknown" for name in groups),
    )


def _verdict(groups: Mapping[str, Sequence[SolveRecord]], unit: str, factor: float) -> list[str]:
    """Return sentences on the solver with the best mean objective, if it can be compared, and on the fastest."""
    times = {
        name: median(row.runtime_s for row in rows)
        for name, rows in groups.items()
        if any(row.objective is not None for row in rows)
    }
    if len(groups) < 2 or not times:
        return []
    shown = {name: f"{factor * time:,.2f} {unit}" for name, time in times.items()}
    lines, means = [], {}
    solved = {
        name: sorted((row.kind, row.instance, row.seed) for row in rows if row.objective is not None)
        for name, rows in groups.items()
    }
    first = next(iter(solved.values()))
    # Means are comparable only if all solved the same instances, of one kind.
    if first and all(each == first for each in solved.values()) and len({kind for kind, _, _ in first}) == 1:
        means = {
            name: fmean(row.objective for row in rows if row.objective is not None) for name, rows in groups.items()
        }
        is_max = is_maximized(first[0][0])
        best = max(means.values()) if is_max else min(means.values())
        equal = [name for name in means if abs(means[name] - best) <= EQUAL_RELATIVE * max(1e-9, abs(best))]
        fastest = min(equal, key=lambda name: times[name])
        also = f", the fastest of {len(equal)} equal ones" if len(equal) > 1 else ""
        what = "Highest" if is_max else "Lowest"
        lines.append(f"{what} mean objective: {fastest}{also}, {number(best)} in {shown[fastest]}.")
    fastest = min(times, key=lambda name: times[name])
    worse = f", mean objective {number(means[fastest])}" if fastest in means else ""
    lines.append(f"Fastest: {fastest}, {shown[fastest]}{worse}.")
    return lines


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
        "Strong: mean over the solves of a solver, from the time at which all have an answer. Faint: each "
        f"solve. {_SCALE}",
        tuple(solves),
    )
