"""Specifications on the command line: files, fields, results that are run again."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.program import Run

from allocopt.experiments.fields import FieldError
from allocopt.experiments.simulations import PreparedSimulation
from allocopt.experiments.specs import SimulationSpec, SolveSpec

SWF = "; MaxProcs: 4\n" + "".join(
    f"{job} {7 * job} -1 {40 + 13 * job % 50} {1 + job % 3} -1 -1 {1 + job % 3} {95 + job}{' -1' * 9}\n"
    for job in range(1, 13)
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder of a trace, and of a specification that names it."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "jobs.swf").write_text(SWF, encoding="utf-8")
    (tmp_path / "site" / "spec.toml").write_text('trace = "jobs.swf"\npolicy = "sjf"\nmax_jobs = 9\n', encoding="utf-8")
    return tmp_path / "site"


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("runtime_s", "jobs_per_s")}


def test_options_files_texts_and_python_ask_for_the_same(run: Run, folder: Path) -> None:
    trace, spec = folder / "jobs.swf", folder / "spec.toml"
    ways = (
        (trace, "--policy", "sjf", "--max-jobs", "9", "--backfill", "easy"),
        ("--spec", spec, "--backfill", "easy"),
        ("--spec", spec, "--set", "backfill=easy"),
        ("--set", f"trace={trace}", "--set", "policy=sjf", "--set", "max_jobs=9", "--set", "backfill=easy"),
    )
    rows = [without_times(run("simulate", *way, "--json").rows[0]) for way in ways]
    made = PreparedSimulation.of(SimulationSpec(trace=str(trace), policy="sjf", max_jobs=9, backfill="easy")).run()
    assert rows == [rows[0]] * len(ways)
    assert (rows[0]["jobs"], rows[0]["makespan_s"]) == (9, made.makespan_s)


def test_paths_are_relative_to_the_file_that_names_them(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    (folder.parent / "out").mkdir()
    out = Path("out/row.json")
    assert run("simulate", "--spec", "site/spec.toml", "--out", out).code == 0
    held = json.loads(out.read_text(encoding="utf-8"))
    assert held["specification"] == {"trace": "../site/jobs.swf", "policy": "sjf", "max_jobs": 9}
    monkeypatch.chdir("/")
    assert run("rerun", folder.parent / out).code == 0


def test_a_simulation_is_run_again_with_the_same_row(run: Run, folder: Path) -> None:
    out = folder / "row.json"
    options = ("--policy", "random", "--seed", "5", "--set", "trim=0.1", "--fat-tree", "1,2,2", "--allocator", "greedy")
    first = run("simulate", folder / "jobs.swf", *options, "--out", out, "--json")
    again = run("rerun", out, "--json")
    assert again.code == 0
    assert again.lines_of_error[-1] == f"allocopt: {out}: rows are equal"
    assert [without_times(row) for row in again.rows] == [without_times(row) for row in first.rows]
    held = json.loads(out.read_text(encoding="utf-8"))
    assert held["made_by"].keys() == {"version", "commit", "python", "machine"}
    assert [(one["field"], one["file"]) for one in held["inputs"]] == [("trace", str(folder / "jobs.swf"))]


def test_solves_are_run_again_with_the_same_rows(run: Run, tiny: Path) -> None:
    out = tiny.parent / "rows.json"
    options = ("--solver", "annealing", "--strategy", "dcas", "--iterations", "50", "--seed", "3")
    first = run("solve", tiny, *options, "--option", "steps=5", "--out", out, "--json")
    again = run("rerun", out, "--json")
    assert (first.code, again.code) == (0, 0)
    assert [without_times(row) for row in again.rows] == [without_times(row) for row in first.rows]


def test_an_input_that_changed_is_named_and_nothing_is_run(run: Run, folder: Path) -> None:
    out = folder / "row.json"
    assert run("simulate", "--spec", folder / "spec.toml", "--out", out).code == 0
    (folder / "jobs.swf").write_text(SWF + "\n", encoding="utf-8")
    answer = run("rerun", out, "--json")
    assert (answer.code, answer.out) == (3, "")
    assert answer.lines_of_error == [
        f"allocopt: {out}: inputs changed since then, or cannot be found: {folder / 'jobs.swf'}",
    ]


def test_rows_that_differ_are_told_by_their_columns(run: Run, folder: Path) -> None:
    out = folder / "row.json"
    assert run("simulate", "--spec", folder / "spec.toml", "--out", out).code == 0
    held = json.loads(out.read_text(encoding="utf-8"))
    held["rows"][0]["mean_wait_s"] += 1.0
    held["made_by"]["version"] = "0.0"
    out.write_text(json.dumps(held), encoding="utf-8")
    answer = run("rerun", out)
    assert answer.code == 1
    assert "made by version 0.0, now" in answer.lines_of_error[0]
    assert answer.lines_of_error[-1] == f"allocopt: {out}: rows differ in mean_wait_s"


def test_a_wrong_value_of_python_is_named() -> None:
    with pytest.raises(FieldError, match="gap: is -1, must be greater than or equal to 0"):
        SolveSpec(instances=["@tiny"], gap=-1)
    with pytest.raises(FieldError, match="fat_tree: cannot be combined with platform"):
        SimulationSpec(trace="a.json", platform="p.toml", fat_tree=[1, 2, 2])


def test_a_schedule_carries_its_specification(run: Run, folder: Path) -> None:
    assert run("simulate", "--spec", folder / "spec.toml", "--swf", folder / "schedule.swf").code == 0
    header = (folder / "schedule.swf").read_text(encoding="utf-8")
    assert 'of {"policy": "sjf"' in header or 'of {"max_jobs": 9' in header
