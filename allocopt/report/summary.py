"""A comparison of solvers, one line each: mean cost, gap to the best known, share proven optimal, time."""

from collections.abc import Sequence
from itertools import groupby
from statistics import fmean, median

from allocopt.problems.kind import get_kind, is_maximized
from allocopt.report.rows import BenchRow, SolveRow
from allocopt.report.table import Cell, aligned_table
from allocopt.solving.solution_files import BestKnown

HEADER = (
    "solver", "strategy", "solves", "mean cost", "gap to best known %", "to SCAS optimum %", "proved %",
    "median ms", "max ms",
)  # fmt: skip
DIGITS = (None, None, 0, 1, 3, 2, 0, 2, 2)


def summary_table(rows: Sequence[BenchRow], width: int | None = None) -> str:
    """Summarize rows by solver and strategy, in the order in which these first appear, in lines of at most ``width``.

    The mean cost, or objective, is over the solves that ended with a solution; a gap is a mean over those whose
    yardstick is known, and negative where a wider strategy beats the yardstick.
    """
    title = "mean cost" if _are_costs(rows) else "mean objective"
    header = [title if name == "mean cost" else name for name in HEADER]
    order = {key: index for index, key in reversed(list(enumerate(map(_key, rows))))}
    lines: list[list[Cell]] = []
    for (solver, strategy), group in groupby(sorted(rows, key=lambda row: order[_key(row)]), key=_key):
        own = list(group)
        objectives = [row.solve.objective for row in own if row.solve.objective is not None]
        mean: Cell = fmean(objectives) if objectives else None
        # Hop costs have digits behind the point as the column says, other objectives six that count.
        if mean is not None and not _are_costs(own):
            mean = f"{mean:.6g}"
        to_best = _mean_excess([(row.solve, row.best_known) for row in own])
        to_scas = _mean_excess([(row.solve, row.best_known_scas) for row in own])
        proved = 100.0 * fmean(row.solve.status == "OPTIMAL" for row in own)
        times_ms = [1e3 * row.solve.runtime_s for row in own]
        lines.append([solver, strategy, len(own), mean, to_best, to_scas, proved, median(times_ms), max(times_ms)])
    return aligned_table(header, lines, DIGITS, width)


def _key(row: BenchRow) -> tuple[str, str]:
    return row.solve.solver, row.solve.strategy or "-"


def _are_costs(rows: Sequence[BenchRow]) -> bool:
    return all(get_kind(row.solve.kind).decimals is not None for row in rows)


def _mean_excess(pairs: list[tuple[SolveRow, BestKnown | None]]) -> float | None:
    """Mean of how far, in per cent, objectives are worse than their yardsticks; None where no yardstick is known."""
    excesses = [
        100.0
        * (known.objective - row.objective if is_maximized(row.kind) else row.objective - known.objective)
        / max(1e-9, abs(known.objective))
        for row, known in pairs
        # Beside a yardstick of 0 no share is defined.
        if row.objective is not None and known is not None and (known.objective != 0 or row.objective == 0)
    ]
    return fmean(excesses) if excesses else None
