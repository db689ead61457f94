"""The tables and figures of the NSA paper, on a small workload of its format, and what is printed in the paper."""

from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from support.artifacts import ours, rows_of
from support.windows import paper_window

from allocopt.errors import BadFileError
from allocopt.reproduction import ReproductionRequest, get_reproduction
from allocopt.simulator.window import windows
from allocopt.traces.generators import uniform_workload
from allocopt.traces.text import Nsa
from learned.nsa.training import PAPER_CLUSTER
from papers.artifact import Asked
from papers.nsa import figures, tables
from papers.nsa.tables import (
    AVERAGE,
    LEADER,
    OPTIMUM,
    PUBLISHED,
    nsa_500,
    read_paper_workload,
    solve_limited,
    solved_windows,
)

PRINTED = [(table, column) for table in ("table3", "table4") for column in PUBLISHED[table][AVERAGE]]


@pytest.mark.parametrize(("table", "column"), PRINTED)
def test_the_printed_means_are_those_of_the_printed_rows(table: str, column: str) -> None:
    epochs = [row[column] for name, row in PUBLISHED[table].items() if name != AVERAGE]
    assert len(epochs) == 10
    assert fmean(epochs) == pytest.approx(PUBLISHED[table][AVERAGE][column], rel=2e-3, abs=0.0101)


@pytest.mark.parametrize("epoch", [f"epoch {number}" for number in range(1, 11)])
def test_the_printed_improvements_follow_from_the_printed_costs(epoch: str) -> None:
    three, four = PUBLISHED["table3"][epoch], PUBLISHED["table4"][epoch]
    gain, gap = three["Impr. % on SA-1000"], four[f"Impr. % of {LEADER} on {OPTIMUM}"]
    assert 100 * (1 - three["NSA-500 cost"] / three["SA-1000 cost"]) == pytest.approx(gain, abs=0.0101)
    assert 100 * (1 - four["NSA-500 cost"] / four[f"{OPTIMUM} cost"]) == pytest.approx(gap, abs=0.0101)
    assert four["NSA-500 cost"] == three["NSA-500 cost"]


@pytest.fixture
def request_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReproductionRequest:
    """Return a request on a small workload, and make quick runs shorter yet."""
    jobs = uniform_workload(2_000, np.random.default_rng(1))
    Nsa().write(tmp_path / "tjap" / "data_large_1800_40.txt", jobs)
    short = {"WORKLOAD": "tjap/data_large_1800_40.txt", "LEAST_JOBS": len(jobs), "QUICK_EPOCHS": 1, "QUICK_WINDOWS": 4}
    for name, value in {**short, "QUICK_EVERY": 2, "QUICK_LIMIT_S": 0.5}.items():
        monkeypatch.setattr(tables, name, value)
    for name, value in {"QUICK_UPDATES": 1, "PERIODS_S": (60,), "JOBS": 100}.items():
        monkeypatch.setattr(figures, name, value)
    return ReproductionRequest(tmp_path, True, (0,))


@pytest.mark.slow
def test_table_three_stands_beside_the_published_one(request_for: ReproductionRequest) -> None:
    rows = rows_of("nsa-table3", request_for)
    cost = {
        column.removesuffix(" cost"): float(row.ours or 0)
        for (where, column), row in rows.items()
        if where == "Avg." and column.endswith(" cost")
    }
    for value in cost.values():
        assert cost["exact"] * (1 - 1e-9) <= value <= cost["Seq."] * (1 + 1e-9)
    assert rows["Avg.", "NSA-500 cost"].published == 89588.7
    assert rows["seed 0, epoch 1", "SA-1000 ms"].published == 1500
    impr = rows["seed 0, epoch 1", "Impr. % on SA-1000"]
    assert impr.published == 1.57
    assert impr.ours == pytest.approx(100 * (1 - cost["NSA-500"] / cost["SA-1000"]))  # type: ignore[operator]


@pytest.mark.slow
def test_table_four_stands_beside_the_published_one(request_for: ReproductionRequest) -> None:
    rows = rows_of("nsa-table4", request_for)
    average = {column: row for (where, column), row in rows.items() if where == "Avg."}
    assert average["Impr. % of NSA-500 on SCAS optimum (dp)"].published == -7.82
    assert -15 < ours(rows, "Avg.", "Impr. % of NSA-500 on SCAS optimum (dp)") < 5
    assert average["SCIP on the paper's model, limited cancelled"].published == 0.02
    assert 0 <= ours(rows, "Avg.", "SCIP on the paper's model, limited share finished") <= 1
    assert average["SCIP on the paper's model, limited cost"].n == 2


@pytest.mark.slow
def test_figure_five_has_all_networks_and_the_number_that_is_printed(request_for: ReproductionRequest) -> None:
    rows = rows_of("nsa-figure5", request_for)
    assert rows["500 steps", "fcn-1 Impr. % on SA-1000"].published == -0.27
    assert {column.split()[0] for _, column in rows} >= {"fcn-1", "fcn-2", "fcn-3", "cnn-1", "cnn-2", "cnn-3"}


@pytest.mark.slow
def test_figure_six_compares_windows_with_going_job_by_job(request_for: ReproductionRequest) -> None:
    rows = rows_of("nsa-figure6", request_for)
    assert ours(rows, "windows of 60 s, dp", "cost") < ours(rows, "FCFS, sequential", "cost")
    assert ours(rows, "windows of 60 s, dp", "wait s") > ours(rows, "FCFS, dp", "wait s")


@pytest.mark.slow
def test_figure_four_has_a_curve_for_every_network(request_for: ReproductionRequest) -> None:
    pytest.importorskip("torch")
    rows = rows_of("nsa-figure4", request_for)
    assert {where for where, _ in rows} == {f"seed 0, {kind}-{size}" for kind in ("fcn", "cnn") for size in (1, 2, 3)}


def test_the_cluster_goes_on_as_nsa_decides(request_for: ReproductionRequest) -> None:
    asked = Asked(request_for.data, True, (0,))
    methods = {LEADER: nsa_500("fcn-1")}
    seen = list(solved_windows(asked, "seed 0, epoch 1", methods))
    chosen = iter([answers[LEADER].solution for _, answers in seen])
    workload = read_paper_workload(asked).stretch(0, 200)
    again = windows(workload, PAPER_CLUSTER, 60.0, lambda problem: next(chosen), min_jobs=1)
    for (problem, _), other in zip(seen, again, strict=False):
        assert problem.idle_nodes.tolist() == other.idle_nodes.tolist()
        assert problem.sizes.tolist() == other.sizes.tolist()


@pytest.mark.parametrize("seconds", [1e-9, 0.02])
def test_scip_without_time_leaves_jobs_out(seconds: float) -> None:
    problem = paper_window(3)
    shortest = solve_limited(problem, seconds)
    assert shortest.cancelled == len(problem.jobs) or shortest.is_proved
    assert shortest.jobs == len(problem.jobs)


def test_a_workload_that_was_cut_is_named(request_for: ReproductionRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LEAST_JOBS", 3_000)
    with pytest.raises(BadFileError, match=r"data_large_1800_40\.txt: holds 2,000 jobs, must hold at least 3,000"):
        get_reproduction("nsa-table3").measure(request_for, "seed 0, epoch 1")
