"""Rows of results, and tables of them that are right and fit a terminal."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.windows import paper_window
from support.workloads import workload

from allocopt.cluster.topology import FatTree
from allocopt.report.rows import BenchRow, SimulateRow, SolveRow, TrajectoryRow
from allocopt.report.terminal import HEADER, metrics_table, summary_table
from allocopt.simulator.metrics import Trim, measure
from allocopt.simulator.schedule import Schedule
from allocopt.solving.result import Incumbent, Result, Status, StopReason
from allocopt.solving.solution_files import BestKnown
from allocopt.solving.solve import solve

SOLVE = SolveRow("w", "topology", "free", "greedy", "FEASIBLE", 100.0, None, None, 0.001, 0)
DESIGN_KEYS = "instance kind strategy solver status objective bound gap runtime_s seed".split()


def test_a_row_of_a_solve_has_the_fields_of_the_design() -> None:
    problem = paper_window(0)
    result = solve(problem, strategy="free", solver="greedy", seed=4)
    row = SolveRow.of(problem.with_strategy("free"), result)
    values = ("paper-0", "topology", "free", "greedy", str(result.status), result.objective, result.bound)
    assert asdict(row) == dict(zip(DESIGN_KEYS, (*values, result.gap, result.runtime_s, 4), strict=True))
    text = json.dumps(
        asdict(SolveRow.of(problem, solve(problem, strategy="free", solver="sequential"))), allow_nan=False
    )
    assert '"bound": null, "gap": null' in text


@pytest.mark.parametrize(("known", "told"), [(None, (None, None)), (BestKnown(90.0, True), (90.0, True))])
def test_a_row_of_a_comparison_adds_version_and_yardsticks(known: BestKnown | None, told: tuple[object, ...]) -> None:
    fields = BenchRow(SOLVE, "1.2", known, BestKnown(0.0, False)).as_dict()
    added = dict(solver_version="1.2", best_known=told[0], best_known_proved=told[1], best_known_scas=0.0)
    assert list(fields.items()) == [*asdict(SOLVE).items(), *added.items()]


def result(objective: float | None, *incumbents: Incumbent) -> Result:
    return Result(Status.FEASIBLE, StopReason.COMPLETED, objective, 1.0, 0.5, None, 0, "lns", "1", incumbents)


def test_a_trajectory_ends_as_the_solve_does() -> None:
    first, second = Incumbent(0.1, 9.0, None), Incumbent(0.2, 7.0, 1.0)
    assert TrajectoryRow.points_of(result(7.0, first, second)) == [(0.1, 9.0, None), (0.2, 7.0, 1.0), (0.5, 7.0, 1.0)]
    assert TrajectoryRow.points_of(result(None)) == []


def test_every_point_is_a_line_and_what_is_not_known_is_empty(tmp_path: Path) -> None:
    TrajectoryRow.write(tmp_path / "t.csv", TrajectoryRow.of(SOLVE, [(0.25, 10.0, None), (0.5, 9.0, 8.5)]))
    lines = (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()
    header = "instance,kind,strategy,solver,seed,time_s,objective,bound"
    assert lines == [header, "w,topology,free,greedy,0,0.25,10.0,", "w,topology,free,greedy,0,0.5,9.0,8.5"]


def row(best: float | None = None, scas: float | None = None, **fields: Any) -> BenchRow:
    known = [None if value is None else BestKnown(value, True) for value in (best, scas)]
    return BenchRow(replace(SOLVE, **fields), "1", *known)


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
    order = [("z", "free"), ("a", "scas"), ("z", "dcas"), ("a", "scas"), ("z", "free"), ("k", None)]
    rows = [row(solver=solver, strategy=strategy) for solver, strategy in order]
    found = [(line["solver"], line["strategy"], line["solves"]) for line in lines(*rows)]
    assert found == [("z", "free", "2"), ("a", "scas", "2"), ("z", "dcas", "1"), ("k", "-", "1")]
    assert len(summary_table([]).splitlines()) == 2


JOBS = workload([(1, 0.0, 100.0, 1, 100.0), (2, 0.0, 20.0, 4, 90.0), (3, 10.0, 10.0, 3, 40.0)])
MADE = Schedule(JOBS, 8, JOBS.submit, np.array([0.0, 0.0, 2010.0]), np.array([100.0, 20.0, 2020.0]))


def test_the_row_has_the_fixed_keys_and_counts_all_jobs_for_its_speed() -> None:
    row = asdict(SimulateRow.of(MADE, measure(MADE), 0.5))
    assert json.loads(json.dumps(row)) == {
        "jobs": 3, "mean_wait_s": 2000 / 3, "max_wait_s": 2000.0, "mean_bounded_slowdown": (1 + 1 + 201) / 3,
        "utilization": (100 + 80 + 30) / (8 * 2020), "makespan_s": 2020.0, "runtime_s": 0.5, "jobs_per_s": 6.0,
    }  # fmt: skip
    trimmed = SimulateRow.of(MADE, measure(MADE, Trim(0.5)), 0.5)
    assert (trimmed.jobs, trimmed.jobs_per_s) == (2, 6.0)
    # The clock may not have moved.
    assert SimulateRow.of(MADE, measure(MADE), 0.0).jobs_per_s == 3e9


def test_the_tables_hold_every_measure_and_a_line_per_class_of_size() -> None:
    nodes = tuple(np.arange(size) for size in JOBS.processors)
    placed = Schedule(JOBS, 8, JOBS.submit, MADE.start, MADE.end, nodes, FatTree(2, 2, 2))
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in metrics_table(measure(placed)).splitlines()]
    # Hops of four nodes in one pod over n = 4, and of three over n = 3: (4 2 + 8 4) / 4 and (2 2 + 4 4) / 3.
    assert ["wait s", "666.67", "0.00", "1,800.00", "2,000.00"] in lines
    assert ["2-4", "2", "1,000.00", "1,000.00", "1,900.00", "2,000.00", "101.00", "0", "8,333.3"] in lines
    assert ["1", "1", "0.00", "0.00", "0.00", "0.00", "1.00", "0", "-"] in lines
    assert [line[0] for line in lines if line[:1] and line[0] in ("1", "2-4", "5-16", "all")] == ["1", "2-4", "all"]
    assert ["utilization", "0.012995"] in lines
    assert ["jobs that waited longer than 86,400 s", "0"] in lines
    levels = [line[0] for line in lines if line and line[0].startswith("fragmentation")]
    assert levels == [f"fragmentation of idle nodes, level {level}" for level in (1, 2)]
