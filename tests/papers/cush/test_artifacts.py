"""The tables and figures of the CuSH paper, shortened: every published number has its place."""

from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from support.artifacts import ours, rows_of

from allocopt.envs.cush.jobsets import HELD_OUT, MACHINES, Machine, Recipe
from allocopt.envs.cush.task import CushOptions
from allocopt.heuristics.scheduling.job_selection import RULES, run_baseline
from allocopt.learned.cush.training import CushTraining
from allocopt.reproduction import ReproductionRequest
from allocopt.simulator.locality import SIERRA_TABLE
from papers.cush import configuration, experiments, figures, penalties
from papers.cush.configuration import BASELINES, CUSH, METHODS, TABLE_ONE, of_baseline
from papers.cush.experiments import DIFFERENCE
from papers.cush.figures import HORIZONS, LARGEST_ERROR, MEAN_ERROR, ORDERED, PRINTED, RATIO, SIZES, class_means
from papers.cush.penalties import RATIO_TO_WAIT


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything be a matter of seconds."""
    monkeypatch.setattr(configuration, "QUICK_SETS", 4)
    monkeypatch.setattr(figures, "QUICK_EPOCHS", 2)
    monkeypatch.setattr(experiments, "QUICK_EPOCHS", 2)
    monkeypatch.setattr(figures, "QUICK_CAMPAIGNS", 1)
    begun = CushTraining.learner
    small = partial(replace, jobsets=2, simulations=4, pool=10, validation=4)
    monkeypatch.setattr(CushTraining, "learner", lambda self, *arguments: begun(small(self), *arguments))


def test_every_number_of_table_1_has_its_place(tmp_path: Path) -> None:
    rows = rows_of("cush-table1", ReproductionRequest(tmp_path, True, (0,)))
    for row, printed in TABLE_ONE.items():
        assert {column: rows[row, column].published for column in ("NTAT", "wait", "rewards")} == printed
    for machine in MACHINES:
        found = [ours(rows, f"{machine}: {method}", "NTAT") for method in (CUSH, *BASELINES)]
        assert ours(rows, f"{machine}: {CUSH}", RATIO) == pytest.approx(found[0] / min(found[1:]))
    assert rows[f"sierra: {CUSH}", RATIO].published == pytest.approx(3.33 / 4.13)


def test_errors_of_the_baselines_are_logarithms_over_the_print(tmp_path: Path) -> None:
    rows = rows_of("cush-table1", ReproductionRequest(tmp_path, True, (0,)))
    for machine, column in product(MACHINES, PRINTED):
        row = f"{machine}: {column} of the baselines"
        ratios = [
            ours(rows, f"{machine}: {method}", column) / TABLE_ONE[f"{machine}: {method}"][column]
            for method in BASELINES
        ]
        assert ours(rows, row, LARGEST_ERROR) == pytest.approx(max(abs(np.log(ratios))))
        assert ours(rows, row, MEAN_ERROR) == pytest.approx(np.mean(np.abs(np.log(ratios))))
        assert rows[row, ORDERED].published == len(RULES)


def test_tables_of_penalties_are_beside_the_paper_and_a_penalty_makes_ntat_smaller_for_the_same_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(penalties, "QUICK_SETS", 4)
    rows = rows_of("cush-penalties", ReproductionRequest(tmp_path, True, (0,)))
    assert {row for row, _ in rows} == set(penalties.TABLES)
    most = f"most {RATIO_TO_WAIT}"
    over_service = [name for name, table in penalties.TABLES.items() if not table.over_requested]
    assert len(over_service) == 3
    assert all(ours(rows, name, most) < ours(rows, "no penalties", most) for name in over_service)
    assert rows["shipped", most].published == pytest.approx(max((5.54 - 1) / 12.76, (6.46 - 1) / 16.38))


@pytest.mark.parametrize("method", ["sjf, breadth-first", "fcfs, depth-first"])
def test_the_mask_is_compared_on_the_same_job_sets(method: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    rows = rows_of("cush-mask", ReproductionRequest(tmp_path, True, (0,)))
    now, ahead = (ours(rows, method, f"NTAT, {mask}") for mask in ("now", "horizon"))
    assert ours(rows, method, DIFFERENCE) == pytest.approx(100 * (ahead / now - 1))
    assert ours(rows, method, "standard error %") >= 0
    machine = Machine.of("sierra")
    sets = Recipe().draw_each(machine, SIERRA_TABLE, range(HELD_OUT, HELD_OUT + 4))
    found = of_baseline(sets, machine, method, options=CushOptions(plans_ahead=True, over_requested=True))
    assert ahead == pytest.approx(found.mean("normalized_turnaround"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cush-algorithm1", "cush-networks"])
def test_trainings_side_by_side_say_what_they_took(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(experiments, "NETWORK_EPOCHS", {16: 2})
    rows = rows_of(name, ReproductionRequest(tmp_path, True, (0,)))
    pieces = {row for row, _ in rows}
    assert len(pieces) == (2 if name == "cush-networks" else len(experiments.REMEDIES))
    assert all(ours(rows, piece, "processor s") > 0 for piece in pieces)
    assert all(ours(rows, piece, "NTAT of sjf over CuSH's") > 0 for piece in pieces)


def test_outcomes_of_jobs_are_those_of_their_sets() -> None:
    machine = Machine.of("sierra")
    sets = Recipe().draw_each(machine, SIERRA_TABLE, range(HELD_OUT, HELD_OUT + 4))
    for method in ("sjf, breadth-first", "random, oracle"):
        found, metrics = of_baseline(sets, machine, method), run_baseline(sets, machine, *method.split(", "))
        assert found.over_service.mean() == pytest.approx(metrics["normalized_turnaround"].mean())
        assert found.turnaround.mean() == pytest.approx(found.mean("normalized_turnaround"))
        assert (found.service - found.length).mean() == pytest.approx(metrics["penalty"].mean())
        assert found.wait.mean() == pytest.approx(metrics["wait"].mean())


def test_classes_hold_every_job_once() -> None:
    by = np.array([0.1, 0.25, 0.26, 0.7, 1.0])
    found = class_means(SIZES, by, {"penalty": np.arange(5.0)})
    assert {name: means["penalty"] for name, means in found.items()} == dict(
        zip(SIZES, (0.5, 2.0, 3.0, 4.0), strict=True)
    )
    assert sum(means["jobs"] for means in found.values()) == 5


@pytest.mark.parametrize(("name", "column"), [("cush-figure5", "NTAT"), ("cush-figure7", "penalty")])
def test_figures_by_class_hold_all_methods(name: str, column: str, tmp_path: Path) -> None:
    rows = rows_of(name, ReproductionRequest(tmp_path, True, (0,)))
    assert {row.split(": ")[0] for row, _ in rows} == set(METHODS)
    assert all(values.ours is not None and values.ours > 0 for (_, at), values in rows.items() if at == column)


@pytest.mark.slow
def test_figure_4_ends_where_table_1_is(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    rows = rows_of("cush-figure4", ReproductionRequest(tmp_path, True, (0,)))
    assert rows["seed 0", "NTAT after epoch 2"].published == TABLE_ONE[f"sierra: {CUSH}"]["NTAT"]
    assert rows["sjf, breadth-first", "NTAT"].published == 4.13
    assert rows["seed 0", "TAT after epoch 1"].published is None


@pytest.mark.slow
def test_figure_6_says_what_a_policy_selector_is_worth(shared_data: Path) -> None:
    pytest.importorskip("torch")
    rows = rows_of("cush-figure6", ReproductionRequest(shared_data, True, (0,)))
    for kind in ("policies", "measured"):
        assert rows[f"{kind}: oracle", "right policies %"].ours == 100.0
        fixed = [rows[f"{kind}: {way}", "right policies %"].ours or 0.0 for way in ("depth-first", "breadth-first")]
        assert max(fixed) < 100.0
        assert rows[f"{kind}: learned", "% of the oracle's gain in penalty"].ours is not None
    assert rows["policies by type", "compute jobs that are allocated depth-first, %"].ours == 100.0
    assert ("types not known at first", "right policies % in job set 10") in rows


@pytest.mark.slow
def test_figure_8_holds_all_sizes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    rows = rows_of("cush-figure8", ReproductionRequest(tmp_path, True, (0,)))
    assert {f"{nodes} nodes: trained on it" for nodes in (16, 32, 64, 128)} < {row for row, _ in rows}
    assert (rows["128 nodes: trained on 128 nodes", "NTAT of sjf over CuSH's"].ours or 0.0) > 1.0


@pytest.mark.slow
def test_all_horizons_are_beside_the_paper(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    rows = rows_of("cush-horizons", ReproductionRequest(tmp_path, True, (0,)))
    for horizon, printed in HORIZONS.items():
        assert rows[horizon, "NTAT"].published == printed["NTAT"]
