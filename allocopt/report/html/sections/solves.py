"""Rows of ``solve`` and ``bench``: gap against time, a summary per solver, and every solve."""

from collections.abc import Sequence
from itertools import groupby
from statistics import fmean, median

import numpy as np

from allocopt.problems.kind import is_maximized
from allocopt.report.html.document import Column, Fact, Figure, Section, Table
from allocopt.report.html.figures.gaps import GapsOverTime
from allocopt.report.html.palette import colour
from allocopt.report.html.results import SolveRecord
from allocopt.report.html.words import contender, duration, number, percent
from allocopt.report.table import Cell
from allocopt.solving.result import EQUAL_RELATIVE

MOST_ROWS = 1_000
BEST_KNOWN, BOUND = "the best known", "the bound"


def solves_section(source: str, rows: Sequence[SolveRecord]) -> Section:
    """Show solves."""
    if not rows:
        return Section("Solves", source)
    order = {name: index for index, name in enumerate(dict.fromkeys(map(_contender, rows)))}
    kept = sorted(rows, key=lambda row: order[_contender(row)])
    yardstick = BEST_KNOWN if any(row.best_known is not None for row in rows) else BOUND
    groups = {name: list(group) for name, group in groupby(kept, key=_contender)}
    parts: list[Figure | Table] = _gap_figure(groups, yardstick)
    if len(rows) > len(groups) or len(groups) > 1:
        parts.append(_summary(groups, yardstick, bool(parts)))
    parts.append(_table(rows, yardstick))
    proved = sum(row.status == "OPTIMAL" for row in rows)
    facts = (
        Fact("solves", f"{len(rows):,}"),
        Fact("instances", f"{len({row.instance for row in rows}):,}"),
        Fact(
            "solvers and strategies" if len(groups) > 1 else "solver",
            str(len(groups)) if len(groups) > 1 else next(iter(groups)),
        ),
        Fact("proved optimal", percent(proved / len(rows), 0)),
        Fact("time in all", duration(sum(row.runtime_s for row in rows))),
    )
    title = "Comparison of solvers" if len(groups) > 1 else "Solves"
    return Section(title, source, facts, tuple(_verdict(groups)), tuple(parts))


def _contender(row: SolveRecord) -> str:
    """Name the solver of a row and its strategy."""
    return contender(row.solver, row.strategy)


def gap_percent(row: SolveRecord, yardstick: str) -> float | None:
    """Per cent by which an objective is worse than its yardstick; None where one of them is missing."""
    if yardstick == BOUND:
        return None if row.gap is None else 100 * row.gap
    if row.objective is None or row.best_known is None or (row.best_known == 0 != row.objective):
        return None
    worse = row.objective - row.best_known
    return 100 * (-worse if is_maximized(row.kind) else worse) / max(1e-9, abs(row.best_known))


def _gap_figure(groups: dict[str, list[SolveRecord]], yardstick: str) -> list[Figure | Table]:
    """Return the figure of gaps over time, if there are gaps."""
    times, gaps = {}, {}
    for name, rows in groups.items():
        known = [(row.runtime_s, gap) for row in rows if (gap := gap_percent(row, yardstick)) is not None]
        if known:
            pairs = np.array(known)
            times[name], gaps[name] = pairs[:, 0], _without_noise(pairs[:, 1])
    numbers = {name: index for index, name in enumerate(groups)}
    return [GapsOverTime(yardstick, times, gaps, numbers).figure()] if times else []


def _without_noise(
    gaps: "np.ndarray[tuple[int], np.dtype[np.float64]]",
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Take for 0 what rounding has left."""
    return np.where(np.abs(gaps) < 1e-4, 0.0, gaps)


def _summary(groups: dict[str, list[SolveRecord]], yardstick: str, is_drawn: bool) -> Table:
    """Return a line per solver and strategy."""
    rows: list[tuple[Cell, ...]] = []
    for name, solves in groups.items():
        gaps = [gap for row in solves if (gap := gap_percent(row, yardstick)) is not None]
        times = [1e3 * row.runtime_s for row in solves]
        objectives = [row.objective for row in solves if row.objective is not None]
        rows.append(
            (
                name, len(solves), fmean(objectives) if objectives else None, fmean(gaps) if gaps else None,
                max(gaps) if gaps else None, 100 * fmean(row.status == "OPTIMAL" for row in solves), median(times),
                max(times),
            )
        )  # fmt: skip
    columns = (
        Column("solver"), Column("solves", 0), Column("mean objective", 1), Column("mean gap %", 3),
        Column("worst gap %", 3), Column("proved %", 0), Column("median ms", 2), Column("max ms", 2),
    )  # fmt: skip
    swatches = tuple(colour(index) for index in range(len(rows))) if is_drawn else ()
    return Table("Solvers", columns, tuple(rows), swatches, f"Gaps are to {_described(yardstick)}.")


def _table(rows: Sequence[SolveRecord], yardstick: str) -> Table:
    """Return a line per solve, as many as a page can hold."""
    shown = tuple(
        (
            row.instance, _contender(row), row.status.lower(), row.objective, row.bound, gap_percent(row, yardstick),
            1e3 * row.runtime_s, row.seed,
        )
        for row in rows[:MOST_ROWS]
    )  # fmt: skip
    columns = (
        Column("instance"), Column("solver"), Column("status"), Column("objective", 2), Column("bound", 2),
        Column("gap %", 3), Column("ms", 2), Column("seed", 0),
    )  # fmt: skip
    cut = f" The first {MOST_ROWS:,} of {len(rows):,} are shown." if len(rows) > MOST_ROWS else ""
    return Table("Every solve", columns, shown, note=f"The gap is to {_described(yardstick)}.{cut}")


def _verdict(groups: dict[str, list[SolveRecord]]) -> list[str]:
    """Say which solver has the best objectives, where they can be compared, and which is the fastest."""
    if len(groups) < 2:
        return []
    times = {name: median(row.runtime_s for row in rows) for name, rows in groups.items()}
    lines = []
    means = _means(groups)
    if means:
        is_max = is_maximized(next(iter(groups.values()))[0].kind)
        best = max(means.values()) if is_max else min(means.values())
        equal = [name for name in means if abs(means[name] - best) <= EQUAL_RELATIVE * max(1e-9, abs(best))]
        fastest = min(equal, key=lambda name: times[name])
        also = f", the fastest of {len(equal)} that are equal" if len(equal) > 1 else ""
        what = "Highest" if is_max else "Lowest"
        lines.append(f"{what} mean objective: {fastest}{also}, {number(best)} in {_time(times[fastest])}.")
    fastest = min(times, key=lambda name: times[name])
    worse = f", mean objective {number(means[fastest])}" if fastest in means else ""
    lines.append(f"Fastest: {fastest}, {_time(times[fastest])}{worse}.")
    return lines


def _means(groups: dict[str, list[SolveRecord]]) -> dict[str, float]:
    """Mean objective of every solver; empty where they did not solve the same instances, or of several kinds."""
    solved = {
        name: sorted((row.kind, row.instance, row.seed) for row in rows if row.objective is not None)
        for name, rows in groups.items()
    }
    first = next(iter(solved.values()))
    if not first or any(each != first for each in solved.values()) or len({kind for kind, _, _ in first}) > 1:
        return {}
    return {name: fmean(row.objective or 0.0 for row in rows) for name, rows in groups.items()}


def _described(yardstick: str) -> str:
    """Say what the yardstick is."""
    return f"{yardstick} of the instance under the same strategy" if yardstick == BEST_KNOWN else yardstick


def _time(seconds: float) -> str:
    """Write a running time."""
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else duration(seconds)
