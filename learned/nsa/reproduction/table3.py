"""Table III: SA and NSA by steps, and what the paper does not print: proper annealing, and equal wall time."""

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

from allocopt.problems.topology import TopologyProblem
from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.solving.registry import get_solver
from allocopt.solving.result import Result
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
from learned.nsa.reproduction.published import TABLE_THREE, TABLE_THREE_MEAN, printed
from learned.nsa.solver import Nsa

NAME = "nsa-table3"

TRIAL_STEPS = 1000
"""Steps that are timed on a window, to know how many fit a time."""

SAME_STEPS = "Algorithm 1, random repair, 500"
"""NSA without its network: the same walk, temperatures and moves."""

WALK_SAME_TIME, ANNEALING_SAME_TIME = "SA, time of NSA-500", "annealing, time of NSA-500"

PRINTED = {
    ("Seq.", "cost"): "sequential",
    ("SA-500", "cost"): "sa_500",
    ("SA-500", "ms"): "sa_500_s",
    ("SA-1000", "cost"): "sa_1000",
    ("SA-1000", "ms"): "sa_1000_s",
    (LEADER, "cost"): "nsa_500",
    (LEADER, "ms"): "nsa_500_s",
}
"""Which column of the paper's table holds a measure of a method."""


def table_methods() -> dict[str, Method]:
    """Methods by name, those of the paper's table first."""
    walk, proper = AnnealingAsPublished(), Annealing(hottest=2.5, coldest=0.0025, most_removed=2)
    return {
        "Seq.": Method(get_solver("sequential"), "scas"),
        "SA-500": Method(walk, "free", 500),
        "SA-1000": Method(walk, "free", 1000),
        LEADER: nsa_500(),
        "NSA-500 in the published walk": Method(
            Nsa(hottest=25.0, coldest=0.0025, sharpness=1.0, walk="published"), "free", 500
        ),
        SAME_STEPS: Method(proper, "dcas", 500),
        "annealing-500": Method(Annealing(), "dcas", 500),
        "annealing-1000": Method(Annealing(), "dcas", 1000),
    }


def extra_methods() -> dict[str, Method]:
    """Methods that the issue asks to stand beside the paper's."""
    return {"lns": Method(get_solver("lns"), "free"), "exact": Method(get_solver("exact"), "free", None, 10.0)}


class TableThreeReproduction:
    """Table III of the NSA paper."""

    name = NAME
    title = "Table III of the NSA paper: SA and NSA over ten epochs of 100 windows"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return the epochs."""
        return epoch_keys(request)

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Solve the windows of an epoch by every method."""
        methods, tally = {**table_methods(), **extra_methods()}, Tally()
        timed = {
            WALK_SAME_TIME: Method(AnnealingAsPublished(), "free", TRIAL_STEPS),
            ANNEALING_SAME_TIME: Method(Annealing(), "dcas", TRIAL_STEPS),
        }

        def solve_window(problem: TopologyProblem, seed: int) -> dict[str, Result]:
            answers = solve_all(methods, problem, seed)
            equal = {
                name: replace(method, steps=steps_in(answers[LEADER].runtime_s, method, problem))
                for name, method in timed.items()
            }
            return {**answers, **solve_all(equal, problem, seed)}

        for problem, answers in solved_windows(request, piece, solve_window):
            tally.add(problem, answers)
        return tally.record()

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return a row per epoch and method, and the means over the epochs."""
        rows = [row for piece in records for row in epoch_rows(piece, records[piece])]
        return [*rows, *mean_rows(records)]


def steps_in(seconds: float, method: Method, problem: TopologyProblem) -> int:
    """Return how many steps an annealing takes in a time, its start counted; measured on the window itself."""
    trial_s = method.solve(problem, 0).runtime_s
    return max(1, int(TRIAL_STEPS * seconds / trial_s))


IMPROVEMENTS = {
    "Impr. % on SA-1000": "SA-1000",
    "Impr. % on SA in equal time": WALK_SAME_TIME,
    "Impr. % on annealing in equal time": ANNEALING_SAME_TIME,
    "Impr. % on random repair, equal steps": SAME_STEPS,
}


def epoch_rows(piece: str, record: Mapping[str, Any]) -> list[ReproductionRow]:
    """Return the rows of an epoch."""
    paper, n = TABLE_THREE[parse_key(piece)[1] - 1], record["windows"]
    rows = []
    for measure in ("cost", "ms"):
        for name, value in record[measure].items():
            column = PRINTED.get((name, measure))
            published = None if column is None else printed(paper, column)
            rows.append(ReproductionRow(NAME, piece, f"{name} {measure}", published, value, None, n))
    for column, than in IMPROVEMENTS.items():
        published = paper.improvement if than == "SA-1000" else None
        rows.append(ReproductionRow(NAME, piece, column, published, improvement(record["cost"], LEADER, than), None, n))
    return rows


def mean_rows(records: Records) -> list[ReproductionRow]:
    """Return the means over all epochs, with their standard deviations."""
    found: dict[str, list[float]] = {}
    for piece, record in records.items():
        for row in epoch_rows(piece, record):
            found.setdefault(row.column, []).append(float(row.ours or 0.0))
    paper = {f"{name} {measure}": printed(TABLE_THREE_MEAN, column) for (name, measure), column in PRINTED.items()}
    paper["Impr. % on SA-1000"] = TABLE_THREE_MEAN.improvement
    n = sum(record["windows"] for record in records.values())
    return [
        ReproductionRow(
            NAME, "Avg.", column, paper.get(column), fmean(values), stdev(values) if len(values) > 1 else None, n
        )
        for column, values in found.items()
    ]
