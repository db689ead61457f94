"""The tables and figures of the CuSH paper, shortened: every published number has its place."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.artifacts import ours, rows_of

from allocopt.envs.cush.jobsets import HELD_OUT, MACHINES, Machine, Recipe
from allocopt.reproduction import ReproductionRequest
from allocopt.simulator.locality import SIERRA_TABLE
from heuristics.scheduling.job_selection import run_baseline
from learned.cush.training import CushTraining
from papers.cush import configuration, figures
from papers.cush.configuration import BASELINES, CUSH, METHODS, TABLE_ONE, of_baseline
from papers.cush.figures import HORIZONS, RATIO, SIZES, class_means


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything be a matter of seconds."""
    monkeypatch.setattr(configuration, "QUICK_SETS", 4)
    monkeypatch.setattr(figures, "QUICK_EPOCHS", 2)
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


def test_outcomes_of_jobs_are_those_of_their_sets() -> None:
    machine = Machine.of("sierra")
    sets = Recipe().draw_each(machine, SIERRA_TABLE, range(HELD_OUT, HELD_OUT + 4))
    for method in ("sjf, breadth-first", "random, oracle"):
        found, metrics = of_baseline(sets, machine, method), run_baseline(sets, machine, *method.split(", "))
        assert found.turnaround.mean() == pytest.approx(metrics["normalized_turnaround"].mean())
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
def test_figure_8_holds_all_sizes_and_horizons(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    rows = rows_of("cush-figure8", ReproductionRequest(tmp_path, True, (0,)))
    assert {f"{nodes} nodes: trained on it" for nodes in (16, 32, 64, 128)} < {row for row, _ in rows}
    assert (rows["128 nodes: trained on 128 nodes", "NTAT of sjf over CuSH's"].ours or 0.0) > 1.0
    for horizon, printed in HORIZONS.items():
        assert rows[horizon, "NTAT"].published == printed["NTAT"]
