"""Table IV: NSA against SCAS to proof, and against SCIP on the paper's model with a limit of 30 s."""

from collections.abc import Mapping
from statistics import fmean, stdev
from typing import Any

from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.solving.registry import get_solver
from heuristics.topology.annealing import Annealing, AnnealingAsPublished
from learned.nsa.reproduction.epochs import (
    LEADER,
    Method,
    Tally,
    epoch_keys,
    improvement,
    nsa_500,
    parse_key,
    solve_all,
    solved_windows,
)
from learned.nsa.reproduction.published import TABLE_FOUR, TABLE_FOUR_MEAN, printed
from learned.nsa.reproduction.scip import solve_limited

NAME = "nsa-table4"
OPTIMUM = "SCAS optimum (dp)"
SCIP = "SCIP on the paper's model, limited"
SCIP_SUFFIX = ", SCIP"

LIMIT_S, QUICK_LIMIT_S = 30.0, 3.0
EVERY, QUICK_EVERY = 10, 15
"""SCIP solves one window of so many."""

PRINTED = {
    f"{OPTIMUM} cost": "scip",
    f"{OPTIMUM} ms": "scip_s",
    f"{LEADER} cost": "nsa",
    f"{LEADER} ms": "nsa_s",
    f"{SCIP} cost": "limited",
    f"{SCIP} ms": "limited_s",
    f"{SCIP} cancelled": "cancelled",
}
"""Which column of the paper's table a column of ours is."""


def table_methods() -> dict[str, Method]:
    """Methods by name."""
    return {
        OPTIMUM: Method(get_solver("dp"), "scas", None, 60.0),
        LEADER: nsa_500(),
        "SA-1000": Method(AnnealingAsPublished(), "free", 1000),
        "annealing-1000": Method(Annealing(), "dcas", 1000),
        "lns": Method(get_solver("lns"), "free"),
        "exact": Method(get_solver("exact"), "free", None, 10.0),
    }


class TableFourReproduction:
    """Table IV of the NSA paper."""

    name = NAME
    title = "Table IV of the NSA paper: NSA against SCIP, over ten epochs of 100 windows"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return the epochs, and again for SCIP with a limit, with the first seed alone."""
        keys = epoch_keys(request)
        limited = [key + SCIP_SUFFIX for key in keys if parse_key(key)[0] == request.seeds[0]]
        return [*keys, *limited]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Solve the windows of an epoch."""
        return _limited(request, piece) if piece.endswith(SCIP_SUFFIX) else _compared(request, piece)

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return a row per epoch and column, and the means over the epochs."""
        values = {piece: columns(record) for piece, record in records.items()}
        rows = [
            ReproductionRow(NAME, piece, column, _printed(piece, column), value, None, records[piece]["windows"])
            for piece, found in values.items()
            for column, value in found.items()
        ]
        return [*rows, *_means(records, values)]


def _compared(request: ReproductionRequest, piece: str) -> dict[str, Any]:
    """Solve all windows of an epoch by every method."""
    methods, tally = table_methods(), Tally()
    for problem, answers in solved_windows(request, piece, lambda window, seed: solve_all(methods, window, seed)):
        tally.add(problem, answers)
    return tally.record()


def _limited(request: ReproductionRequest, piece: str) -> dict[str, Any]:
    """Let SCIP solve some windows of an epoch."""
    every, limit = (QUICK_EVERY, QUICK_LIMIT_S) if request.is_quick else (EVERY, LIMIT_S)
    methods = {LEADER: nsa_500()}
    solved, optimum = [], 0.0
    epoch = solved_windows(request, piece, lambda window, seed: solve_all(methods, window, seed))
    for number, (problem, _) in enumerate(epoch, 1):
        if number % every == 0:
            solved.append(solve_limited(problem, limit))
            optimum += Method(get_solver("dp"), "scas").solve(problem, 0).objective or 0.0
    jobs = sum(window.jobs for window in solved)
    cancelled = sum(window.cancelled for window in solved)
    return {
        "windows": len(solved),
        "limited": {
            f"{SCIP} cost": sum(window.cost for window in solved) / max(1, jobs - cancelled),
            f"{SCIP} cancelled": cancelled / max(1, jobs),
            f"{SCIP} ms": 1e3 * fmean(window.seconds for window in solved),
            f"{SCIP} share finished": fmean(window.is_proved for window in solved),
            "SCAS optimum of the same windows cost": optimum / max(1, jobs),
        },
    }


def columns(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a piece by column."""
    if "limited" in record:
        return dict(record["limited"])
    found = {f"{name} {measure}": v for measure in ("cost", "ms") for name, v in record[measure].items()}
    cost = record["cost"]
    gaps = {f"Impr. % of {name} on {OPTIMUM}": improvement(cost, name, OPTIMUM) for name in cost if name != OPTIMUM}
    return {**found, **gaps}


def _printed(piece: str, column: str) -> float | None:
    """Return what the paper prints there."""
    row = TABLE_FOUR_MEAN if piece.startswith("Avg.") else TABLE_FOUR[parse_key(piece)[1] - 1]
    if column == f"Impr. % of {LEADER} on {OPTIMUM}":
        return row.improvement
    return printed(row, PRINTED[column]) if column in PRINTED else None


def _means(records: Records, values: Mapping[str, Mapping[str, float]]) -> list[ReproductionRow]:
    """Return means and standard deviations over the epochs."""
    found: dict[str, list[float]] = {}
    n: dict[str, int] = {}
    for piece, columns_of_piece in values.items():
        for column, value in columns_of_piece.items():
            found.setdefault(column, []).append(value)
            n[column] = n.get(column, 0) + records[piece]["windows"]
    return [
        ReproductionRow(
            NAME, "Avg.", column, _printed("Avg.", column), fmean(all_values),
            stdev(all_values) if len(all_values) > 1 else None, n[column],
        )
        for column, all_values in found.items()
    ]  # fmt: skip
