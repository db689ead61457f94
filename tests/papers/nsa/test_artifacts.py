"""The tables and figures of the NSA paper, on a small workload of its format, and what is printed in the paper."""

from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from support.artifacts import ours, rows_of
from support.windows import paper_window

from allocopt.errors import BadFileError
from allocopt.learned.nsa.networks import NETWORKS, Q
from allocopt.learned.nsa.solver import Nsa
from allocopt.learned.nsa.training import PAPER_CLUSTER
from allocopt.reproduction import ReproductionRequest, get_reproduction
from allocopt.simulator.window import windows
from allocopt.traces.generators import uniform_workload
from allocopt.traces.text import Nsa as NsaFormat
from papers.artifact import Asked
from papers.nsa import as_run, cost_level, figures, parameters, tables
from papers.nsa.cost_level import READINGS
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
    NsaFormat().write(tmp_path / "tjap" / "data_large_1800_40.txt", jobs)
    short = {"WORKLOAD": "tjap/data_large_1800_40.txt", "LEAST_JOBS": len(jobs), "QUICK_EPOCHS": 1, "QUICK_WINDOWS": 4}
    for name, value in {**short, "QUICK_EVERY": 2, "QUICK_LIMIT_S": 0.5}.items():
        monkeypatch.setattr(tables, name, value)
    for name, value in {"QUICK_UPDATES": 1, "PERIODS_S": (60,), "JOBS": 100}.items():
        monkeypatch.setattr(figures, name, value)
    monkeypatch.setattr(as_run, "PERIODS_S", (60,))
    monkeypatch.setattr(as_run, "JOBS", 100)
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
def test_every_reading_has_its_costs_beside_the_printed_ones(
    request_for: ReproductionRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    names = ("as in nsa-table3", "each pair once", "a sum per period", "and the authors' walk")
    monkeypatch.setattr(cost_level, "READINGS", {name: READINGS[name] for name in names})
    rows = rows_of("nsa-cost-level", request_for)
    assert {row for row, _ in rows} == set(names)
    for name in names:
        assert rows[name, f"{LEADER} cost"].published == 89588.7
        errors = {
            column: 100 * abs(ours(rows, name, f"{column} cost") / (rows[name, f"{column} cost"].published or 0) - 1)
            for column in ("Seq.", "SA-500", "SA-1000", LEADER, OPTIMUM)
        }
        assert ours(rows, name, "largest error, %") == pytest.approx(max(errors.values()))
    # The sequential allocation does not depend on what a pair counts, and SCAS windows are the same at the start.
    assert ours(rows, "each pair once", "Seq. cost") < ours(rows, "as in nsa-table3", "Seq. cost")


@pytest.mark.slow
def test_the_tables_as_run_stand_beside_the_published_ones(request_for: ReproductionRequest) -> None:
    pytest.importorskip("torch")
    rows = rows_of("nsa-tables-authors", request_for)
    assert rows["Avg.", "Impr. % on SA-1000"].published == 1.34
    assert rows["Avg.", f"Impr. % on {OPTIMUM}"].published == -7.82
    assert rows["Avg.", "SA-500 cost"].published == 91813.2
    cost = {name: ours(rows, "Avg.", f"{name} cost") for name in ("Seq.", "SA-1000", LEADER)}
    assert cost[LEADER] <= cost["Seq."]
    assert ours(rows, "Avg.", "Impr. % on SA-1000") == pytest.approx(100 * (1 - cost[LEADER] / cost["SA-1000"]))
    assert ours(rows, "Avg.", "Seq. error, %") == pytest.approx(100 * (cost["Seq."] / 105023.5 - 1))


@pytest.mark.slow
def test_the_same_time_stands_beside_the_published_one(request_for: ReproductionRequest) -> None:
    pytest.importorskip("torch")
    rows = rows_of("nsa-same-time", request_for)
    assert rows["compiled", "SA-1000 ms"].published == 1550
    for row, _ in rows:
        ratio = ours(rows, row, f"{LEADER} ms") / ours(rows, row, "SA-1000 ms")
        assert ours(rows, row, f"{LEADER} over SA-1000") == pytest.approx(ratio)


@pytest.mark.slow
def test_the_networks_stand_beside_the_labels_of_figure_five(request_for: ReproductionRequest) -> None:
    rows = rows_of("nsa-figure5-authors", request_for)
    assert rows["500 steps", "cnn-3 Impr. % on SA-1000"].published == 1.17


@pytest.mark.slow
def test_figure_six_as_run_stands_beside_the_published_one(request_for: ReproductionRequest) -> None:
    rows = rows_of("nsa-figure6-authors", request_for)
    assert rows["FCFS", "cost"].published == 35077
    assert ours(rows, "FCFS", "cost") >= ours(rows, "windows of 60 s, NSA-500", "cost")
    assert rows["BF", "cost: epochs that are the published ones"].published == 1


def test_table_two_counts_what_is_built_and_no_reading_gives_the_convolutional_ones(
    request_for: ReproductionRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = [parameters.PRINTED, parameters.PRINTED._replace(features=5)]
    monkeypatch.setattr(parameters, "all_readings", lambda: iter(near))
    rows = rows_of("nsa-table2", request_for)
    for name, architecture in NETWORKS.items():
        assert rows[name, "as built"].ours == architecture.n_parameters
    assert [ours(rows, name, "as printed, and a layer of 100 outputs") for name in parameters.FILTERS] == [
        NETWORKS[name].n_parameters for name in parameters.FILTERS
    ]
    differences = [row.ours for (where, _), row in rows.items() if where == parameters.DIFFERENCE]
    assert max(differences) < rows[parameters.DIFFERENCE, "as printed, and no more"].published  # type: ignore[type-var, operator]


@pytest.mark.parametrize("hidden", [1, 133])
def test_the_search_of_counts_finds_a_hidden_layer_that_fits(hidden: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = parameters.Layers(5, 8)
    counts = {name: layers.count(name, hidden, Q) for name in parameters.FILTERS}
    monkeypatch.setattr(parameters, "PRINTED_PARAMETERS", counts)
    assert {parameters.fitting_hidden(layers, name, Q) for name in parameters.FILTERS} == {hidden}


def test_permuted_weights_are_the_trained_ones_in_another_order() -> None:
    (_, trained), (architecture, permuted) = Nsa("fcn-1").loaded(), tables.PermutedNsa("fcn-1").loaded()
    assert sorted(permuted.weights.tolist()) == sorted(trained.weights.tolist())
    assert (permuted.weights != trained.weights).mean() > 0.9
    assert architecture == NETWORKS["fcn-1"]


def test_the_printed_temperature_is_that_of_line_11_without_its_step() -> None:
    assert 1000 * tables.printed_temperature(500) == pytest.approx(2500 * np.exp(-np.log(2500 / 2.5) / 500))


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
