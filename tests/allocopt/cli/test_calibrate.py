from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allocopt.simulator.locality import PenaltyTable, Policy, WorkloadType

Run = Callable[..., Any]

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


def test_measurements_are_not_overwritten(run: Run, measured: Path) -> None:
    before = measured.read_text()
    answer = run("calibrate", "locality", measured, "--out", measured)
    assert answer.code == 2
    assert "named twice" in answer.err
    assert measured.read_text() == before


def test_spaces_after_commas_do_not_matter(run: Run, measured: Path, tmp_path: Path) -> None:
    spaced = tmp_path / "spaced.csv"
    spaced.write_text(measured.read_text().replace(",", ", "))
    assert run("calibrate", "locality", spaced, "--json").rows == run("calibrate", "locality", measured, "--json").rows


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["workload,policy,gpus,requested_s", *ROWS], "line 1: has no column service_s; the columns are workload"),
        ([HEADER], "holds no jobs"),
        ([HEADER, "cpu,depth-first,1,10,11"], "line 2: workload is 'cpu', must be one of compute, network, unknown"),
        (
            [HEADER, *ROWS, "compute,wide,1,10,11"],
            "line 14: policy is 'wide', must be one of depth-first, breadth-first",
        ),
        ([HEADER, "compute,depth-first,1.5,10,11"], "line 2: gpus is '1.5', must be a whole number within 0 .. 2^53"),
        ([HEADER, "compute,depth-first,1e30,9,9"], "line 2: gpus is '1e30', must be a whole number within 0 .. 2^53"),
        ([HEADER, "compute,depth-first,1,0,11"], "line 2: requested_s is '0', must be a number of seconds, more than"),
        ([f"{HEADER},gpus", "compute,depth-first,1,10,11,2"], "line 1: has the column gpus 2 times"),
        ([HEADER, "compute,depth-first,1,10,x"], "line 2: service_s is 'x', must be a number"),
        ([HEADER, "compute,depth-first,1,10"], "line 2: does not have 5 columns as line 1"),
        ([HEADER, *ROWS[:10]], "network jobs, breadth-first: measured with 1 numbers of GPUs, a line needs at least 2"),
    ],
)
def test_a_bad_file_is_one_line_that_names_the_place(run: Run, tmp_path: Path, lines: list[str], fault: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("\n".join(lines))
    out = tmp_path / "table.json"
    answer = run("calibrate", "locality", path, "--out", out)
    assert (answer.code, answer.out) == (3, "")
    (line,) = answer.lines_of_error
    assert line.startswith(f"allocopt: {path}: {fault}")
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"format": "allocopt-locality", "version": 1, "lines": []}', "no line is given|must be finite"),
        (
            '{"format": "allocopt-locality", "version": 1, "lines": ['
            + ", ".join(['{"workload": "compute", "policy": "depth-first", "base_s": 0.0, "per_gpu_s": 0.0}'] * 2)
            + "]}",
            "second of compute jobs, depth-first",
        ),
        ('{"format": "allocopt-locality", "version": 1, "lines": [{"workload": "cpu"}]}', "workload"),
    ],
)
def test_a_table_that_is_wrong_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=fault):
        PenaltyTable.read(path)
