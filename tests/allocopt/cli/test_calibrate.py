"""``allocopt calibrate``: the coefficients come back that measurements were made of, and bad files are told."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from support.program import Run

from allocopt.cluster.irmasim import CONTENTION
from allocopt.simulator.locality import PenaltyTable, Policy, WorkloadType
from allocopt.simulator.multicore.contention import speed_factor

HEADER = "workload,policy,gpus,requested_s,service_s"
ROWS = [
    f"{workload},{policy},{gpus},100,{100 + slope * gpus}"
    for workload, policy, slope in (
        ("compute", "depth-first", 1),
        ("compute", "breadth-first", 4),
        ("network", "depth-first", 5),
        ("network", "breadth-first", 2),
    )
    for gpus in (1, 4, 8)
]


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    path = tmp_path / "measured.csv"
    path.write_text("\n".join([HEADER, *ROWS]))
    return path


def test_the_lines_are_printed_and_written(run: Run, measured: Path) -> None:
    out = measured.parent / "table.json"
    answer = run("calibrate", "locality", measured, "--out", out, "--json")
    assert (answer.code, answer.err) == (0, "")
    assert [row["per_gpu_s"] for row in answer.rows] == pytest.approx([1, 4, 5, 2])
    assert [(row["workload"], row["policy"], row["jobs"]) for row in answer.rows][:2] == [
        ("compute", "depth-first", 3),
        ("compute", "breadth-first", 3),
    ]
    assert PenaltyTable.read(out).lines[WorkloadType.NETWORK, Policy.DEPTH_FIRST].per_gpu == pytest.approx(5)
    assert "explained" in run("calibrate", "locality", measured).out


def test_spaces_after_commas_do_not_matter(run: Run, measured: Path, tmp_path: Path) -> None:
    spaced = tmp_path / "spaced.csv"
    spaced.write_text(measured.read_text().replace(",", ", "))
    assert run("calibrate", "locality", spaced, "--json").rows == run("calibrate", "locality", measured, "--json").rows


LINE = {"workload": "compute", "policy": "depth-first", "base_s": 0.0, "per_gpu_s": 0.0}


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([], "no line is given|must be finite"),
        ([LINE, LINE], "second line for compute jobs, depth-first"),
        ([{"workload": "cpu"}], "workload"),
    ],
)
def test_a_table_that_is_wrong_is_refused(tmp_path: Path, lines: list[Any], fault: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps({"format": "allocopt-locality", "version": 1, "lines": lines}))
    with pytest.raises(ValueError, match=fault):
        PenaltyTable.read(path)


NAMES = ("b", "c", "da", "db", "dc", "dd")


def csv_of(path: Path, header: str, rows: "np.ndarray[Any, np.dtype[np.float64]]") -> Path:
    path.write_text("\n".join([header, *(",".join(map(repr, row)) for row in rows.tolist())]), encoding="utf-8")
    return path


@pytest.fixture
def slowdowns(tmp_path: Path) -> Path:
    """Measurements without noise of the processor of Table III."""
    rng = np.random.default_rng(0)
    others = rng.integers(1, 4, size=150).astype(np.float64)
    rate, rest = rng.uniform(1e3, 45e3, 150), others * rng.uniform(1e3, 4e4, 150)
    factor = speed_factor(rate, rest, others, CONTENTION)
    return csv_of(
        tmp_path / "slow.csv",
        "rate_mb_s,others_rate_mb_s,others,factor",
        np.stack([rate, rest, others, factor], axis=1),
    )


@pytest.fixture
def powers(tmp_path: Path) -> Path:
    rows = [(n, stalled, 5.59 + 6.14 * n - 3.07 * stalled) for n in (1, 2, 3, 4) for stalled in (0.0, 0.2 * n)]
    return csv_of(tmp_path / "power.csv", "active_cores,stalled_cores,power_w", np.array([(0, 0, 0.3), *rows]))


@pytest.mark.slow
def test_the_constants_of_contention_come_back_with_a_plot_of_residuals(
    run: Run, slowdowns: Path, tmp_path: Path
) -> None:
    out, plot = tmp_path / "constants.json", tmp_path / "plot.svg"
    answer = run("calibrate", "contention", slowdowns, "--out", out, "--plot", plot, "--json")
    assert (answer.code, answer.err) == (0, "")
    (row,) = answer.rows
    assert [row[name] for name in NAMES] == pytest.approx([getattr(CONTENTION, name) for name in NAMES], rel=1e-4)
    assert row["measurements"] == 150
    assert row["largest_residual"] < 1e-6
    assert row["explained"] == pytest.approx(1)
    assert json.loads(out.read_text())["contention"]["c"] == pytest.approx(32000, rel=1e-4)
    assert ElementTree.fromstring(plot.read_text(encoding="utf-8")).tag.endswith("svg")


def test_the_constants_of_power_come_back_with_a_plot_of_residuals(run: Run, powers: Path) -> None:
    (row,) = run("calibrate", "power", powers, "--json").rows
    constants = [row[name] for name in ("core_w", "processor_w", "idle_w", "stalled")]
    assert constants == pytest.approx([6.14, 5.59, 0.3, 0.5])
    plot = powers.with_suffix(".svg")
    assert "processor_w" in run("calibrate", "power", powers, "--plot", plot).out
    assert ElementTree.fromstring(plot.read_text(encoding="utf-8")).tag.endswith("svg")


def test_without_measured_stalls_power_is_that_of_equation_5(run: Run, tmp_path: Path) -> None:
    path = csv_of(tmp_path / "p.csv", "active_cores,power_w", np.array([(n, 5.0 + 6 * n) for n in (1, 2, 4)]))
    (row,) = run("calibrate", "power", path, "--json").rows
    assert (row["stalled"], row["idle_w"]) == (1.0, 0.0)
    assert row["core_w"] == pytest.approx(6)
