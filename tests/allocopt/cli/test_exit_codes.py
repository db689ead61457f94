"""Exit codes, and the one line that explains each: 0, 2, 3, 4, 5."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.program import Run
from support.sweeps import plug_in


def test_a_call_without_a_command_is_2(run: Run) -> None:
    assert run().code == 2


def test_whether_a_file_may_be_read_is_for_reading_to_find_out(
    run: Run, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    # Where nothing may be written kernels would be compiled anew, in this process and all that it starts.
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    assert run("solve", tiny, "--solution", tmp_path).code == 0
    assert run("verify", tiny, tmp_path / "tiny-fat-tree-0.json").code == 0


@given(data=st.data())
def test_a_damaged_file_is_3_and_never_a_traceback(run: Run, tiny: Path, tmp_path: Path, data: st.DataObject) -> None:
    text = tiny.read_text(encoding="utf-8")
    begin = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(begin, len(text)))
    middle = data.draw(
        st.sampled_from(["", "-", "0", "null", "1e999", '"', "[", "}", "NaN", "\x00", "é", "99999999999999999999"])
    )
    path = tmp_path / "damaged.json"
    path.write_text(text[:begin] + middle + text[end:], encoding="utf-8")
    answer = run("solve", path, "--solver", "sequential")
    assert answer.code in (0, 3)
    assert answer.code == 0 or (len(answer.lines_of_error) == 1 and answer.err.startswith(f"allocopt: {path}: "))


def test_a_refusal_without_a_reason_says_what_it_was(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> list[str]:
        raise TimeoutError

    monkeypatch.setattr("allocopt.solving.protocol.solver_names", refuse)
    monkeypatch.setattr("os.dup2", lambda *descriptors: None)
    answer = run("solvers")
    assert (answer.code, answer.err) == (1, "allocopt: the system refused: TimeoutError\n")


@pytest.mark.parametrize(
    ("option", "type_name"),
    [("hottest=" + "9" * 5000, "float"), ("hottest=" + "[" * 5000, "float"), ("steps=" + "9" * 40, "int")],
    ids=["digits", "lists", "large"],
)
def test_an_option_beyond_all_bounds_is_2_and_one_short_line(run: Run, tiny: Path, option: str, type_name: str) -> None:
    answer = run("solve", tiny, "--solver", "lns", "--option", option)
    assert answer.code == 2
    (line,) = answer.lines_of_error
    assert f"must be of type {type_name}" in line
    assert len(line) < 200


PLUG_IN = """
import os
from allocopt.solving.result import Result, Status, StopReason
from allocopt.topology import Allocation, OneShot

class Finds(OneShot):
    name = "finds"
    def allocate(self, problem, rng):
        print("a line of Python")
        os.write(1, b"a line of native code\\n")
        return Allocation.sequential(problem)

class Fails(OneShot):
    name = "fails"
    allocate = None
    def solve(self, problem, budget, seed, warm_start=None, on_incumbent=None):
        return Result(Status.UNKNOWN, StopReason.TIME_LIMIT, None, None, 0.0, None, seed, "fails", "1")
"""


@pytest.fixture
def plug_ins(tmp_path: Path) -> dict[str, str]:
    """Variables under which two solvers are plugged in, and one whose package is not there."""
    entries = {"finds": "plug_in:Finds", "fails": "plug_in:Fails", "needs": "plug_in_that_needs:Needs"}
    plug_in(tmp_path / "site", **entries)
    (tmp_path / "site" / "plug_in.py").write_text(PLUG_IN, encoding="utf-8")
    (tmp_path / "site" / "plug_in_that_needs.py").write_text("import a_package_nobody_has\n", encoding="utf-8")
    return {"PYTHONPATH": str(tmp_path / "site")}


@pytest.mark.slow
def test_no_solution_within_the_limit_is_4(spawn: Run, plug_ins: dict[str, str], tmp_path: Path) -> None:
    arguments = ("--solver", "fails", "--solution", tmp_path / "solutions", "--json")
    answer = spawn("solve", "@tiny", *arguments, variables=plug_ins)
    assert answer.code == 4
    assert answer.lines_of_error == ["allocopt: no solution was found within the limit for at least one instance"]
    for row in answer.rows:
        assert (row["status"], row["objective"], row["bound"], row["gap"]) == ("UNKNOWN", None, None, None)
    assert len(answer.rows) == 3
    assert not (tmp_path / "solutions").exists()


@pytest.mark.slow
def test_what_a_solver_prints_stays_off_standard_output(spawn: Run, plug_ins: dict[str, str]) -> None:
    for command in (["solve", "@tiny", "--solver", "finds"], ["bench", "@tiny", "--solvers", "finds:free"]):
        answer = spawn(*command, "--json", variables=plug_ins)
        assert answer.code == 0
        assert [row["objective"] for row in answer.rows] == [22000.0, 44800.0, 45533.333333333336]
        assert "a line of Python" in answer.err
        assert "a line of native code" in answer.err


@pytest.mark.slow
def test_a_plug_in_without_its_package_is_5_and_stops_nothing_else(spawn: Run, plug_ins: dict[str, str]) -> None:
    package = "a_package_nobody_has"
    message = f"solver 'needs' needs the package {package!r}, which is not installed: pip install {package}"
    answer = spawn("solve", "@tiny", "--solver", "needs", variables=plug_ins)
    assert (answer.code, answer.lines_of_error) == (5, [f"allocopt: {message}"])
    rows = {row["solver"]: row for row in spawn("solvers", "--json", variables=plug_ins).rows}
    assert (rows["needs"]["available"], rows["needs"]["largest"]) == (False, message)
    assert rows["finds"]["available"] is True


def test_what_does_not_fit_into_memory_is_1_and_a_line(run: Run, tiny: Path, monkeypatch: Any) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("allocopt.problems.instances.parse_json", full)
    assert run("solve", tiny).refusal(1) == f"out of memory; while {tiny} was read"
    monkeypatch.setattr("allocopt.problems.instances.read_problems", full)
    assert run("solve", tiny).lines_of_error == ["allocopt: out of memory"]


def test_a_process_that_may_have_too_little_memory_is_told_before_anything_is_loaded(
    run: Run, monkeypatch: Any
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (400 << 20, -1))
    answer = run("solve", "@tiny")
    assert (
        answer.refusal(1) == "out of memory; the limit of a process is 400 MiB (ulimit -v), at least 512 MiB are needed"
    )


@pytest.mark.slow
def test_kernels_run_as_they_are_written(spawn: Run) -> None:
    answer = spawn("solve", "@tiny", variables={"NUMBA_DISABLE_JIT": "1"})
    assert [line.split()[3] for line in answer.out.splitlines()] == ["OPTIMAL"] * 3
    assert answer.lines_of_error == []
