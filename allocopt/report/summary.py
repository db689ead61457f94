"""A comparison of solvers, one line each: mean cost, gap to the best known, share proven optimal, time."""

from collections.abc import Sequence
from itertools import groupby
from statistics import fmean, median

from allocopt.files.best_known import BestKnown
from allocopt.report.rows import BenchRow
from allocopt.report.table import Cell, aligned_table

HEADER = (
    "solver", "strategy", "solves", "mean cost", "gap to best known %", "to SCAS optimum %", "proved %",
    "median ms", "max ms",
)  # fmt: skip
DIGITS = (None, None, 0, 1, 3, 2, 0, 2, 2)


def summary_table(rows: Sequence[BenchRow]) -> str:
    """Summarize rows by solver and strategy, in the order in which these first appear.

    The mean cost is over the solves that ended with a solution; a gap is a mean over those whose yardstick is known,
    and negative where a wider strategy beats the yardstick.
    """
    order = {key: index for index, key in reversed(list(enumerate(map(_key, rows))))}
    grouped = groupby(sorted(rows, key=lambda row: order[_key(row)]), key=_key)
    return aligned_table(
        HEADER, [_line(solver, strategy, list(group)) for (solver, strategy), group in grouped], DIGITS
    )


def _key(row: BenchRow) -> tuple[str, str]:
    """Say what line of the table a row belongs to."""
    return row.solve.solver, row.solve.strategy or "-"


def _line(solver: str, strategy: str, rows: list[BenchRow]) -> list[Cell]:
    """Summarize the rows of one solver under one strategy."""
    costs = [row.solve.objective for row in rows if row.solve.objective is not None]
    milliseconds = [1e3 * row.solve.runtime_s for row in rows]
    return [
        solver,
        strategy,
        len(rows),
        fmean(costs) if costs else None,
        _mean_excess([(row.solve.objective, row.best_known) for row in rows]),
        _mean_excess([(row.solve.objective, row.best_known_scas) for row in rows]),
        100.0 * fmean(row.solve.status == "OPTIMAL" for row in rows),
        median(milliseconds),
        max(milliseconds),
    ]


def _mean_excess(pairs: list[tuple[float | None, BestKnown | None]]) -> float | None:
    """Mean of how far, in per cent, objectives lie above their yardsticks; None where no yardstick is known."""
    excesses = [
        100.0 * (objective - known.objective) / max(1e-9, abs(known.objective))
        for objective, known in pairs
        # Above a yardstick of 0 no share is defined.
        if objective is not None and known is not None and (known.objective > 0 or objective == 0)
    ]
    return fmean(excesses) if excesses else None
