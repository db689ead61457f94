"""The figures of the comparison table."""

from allocopt.report.rows import BenchRow, SolveRow
from allocopt.report.summary import HEADER, summary_table
from allocopt.solving.solution_files import BestKnown


def row(
    solver: str = "greedy",
    strategy: str | None = "free",
    objective: float | None = 100.0,
    runtime_s: float = 0.001,
    status: str = "FEASIBLE",
    best: float | None = None,
    scas: float | None = None,
) -> BenchRow:
    solve = SolveRow("w", "topology", strategy, solver, status, objective, None, None, runtime_s, 0)
    known = [None if value is None else BestKnown(value, True) for value in (best, scas)]
    return BenchRow(solve, "1", *known)


def lines(*rows: BenchRow) -> list[dict[str, str]]:
    """Return the lines of the table as cells by title."""
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in summary_table(rows).splitlines()]
    assert table[0] == list(HEADER)
    return [dict(zip(table[0], line, strict=True)) for line in table[2:]]


def test_the_mean_cost_is_over_the_solves_that_ended_with_a_solution() -> None:
    (line,) = lines(row(objective=100.0), row(objective=None, status="UNKNOWN"), row(objective=201.0))
    assert (line["solves"], line["mean cost"]) == ("3", "150.5")
    (line,) = lines(row(objective=None, status="UNKNOWN", best=5.0))
    assert (line["mean cost"], line["gap to best known %"]) == ("-", "-")


def test_a_gap_is_the_mean_over_the_solves_whose_yardstick_is_known() -> None:
    solved = (row(objective=110.0, best=100.0), row(objective=100.0, best=100.0))
    (line,) = lines(*solved, row(objective=500.0), row(objective=None, best=1))
    assert (line["gap to best known %"], line["to SCAS optimum %"]) == ("5.000", "-")
    # A wider strategy may beat the SCAS optimum, and a yardstick of 0 divides nothing.
    (line,) = lines(row(objective=90.0, best=90.0, scas=100.0))
    assert (line["gap to best known %"], line["to SCAS optimum %"]) == ("0.000", "-10.00")
    (line,) = lines(row(objective=0.0, best=0.0))
    assert line["gap to best known %"] == "0.000"


def test_the_share_proved_is_over_all_solves_and_times_are_median_and_greatest() -> None:
    proved = row(status="OPTIMAL", runtime_s=0.002)
    (line,) = lines(proved, row(), row(status="UNKNOWN", objective=None, runtime_s=5.0), proved)
    assert (line["proved %"], line["median ms"], line["max ms"]) == ("50", "2.00", "5,000.00")


def test_lines_come_in_the_order_in_which_solver_and_strategy_first_appear() -> None:
    rows = [row("z", "free"), row("a", "scas"), row("z", "dcas"), row("a", "scas"), row("z", "free"), row("k", None)]
    found = [(line["solver"], line["strategy"], line["solves"]) for line in lines(*rows)]
    assert found == [("z", "free", "2"), ("a", "scas", "2"), ("z", "dcas", "1"), ("k", "-", "1")]
    assert len(summary_table([]).splitlines()) == 2
