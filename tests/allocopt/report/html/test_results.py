"""Files are told apart by what they hold."""

import json
from pathlib import Path
from typing import Any

import pytest

from allocopt.errors import BadFileError
from allocopt.report.html.results import _EXPECTED, Kind, ResultFile, SolveRecord
from allocopt.report.what_if import WhatIfRow

SOLVE = {
    "instance": "1e5", "kind": "topology", "strategy": "free", "solver": "lns", "status": "FEASIBLE",
    "objective": 10.0, "bound": None, "gap": None, "runtime_s": 0.5, "seed": 0,
}  # fmt: skip
WHAT_IF = {
    "allocator": "first", "scheduler": "easy", "jobs": 3, "mean_wait_s": 1.0, "max_wait_s": 2.0,
    "mean_bounded_slowdown": 1.5, "mean_hop_cost": None, "fragmentation": [0.5, None], "utilization": 0.5,
    "makespan_s": 9.0, "runtime_s": 0.1,
}  # fmt: skip
SIMULATION = {
    "jobs": 3, "mean_wait_s": 1.0, "max_wait_s": 2.0, "mean_bounded_slowdown": 1.5, "utilization": 0.5,
    "makespan_s": 9.0, "runtime_s": 0.1, "jobs_per_s": 30.0,
}  # fmt: skip
REPRODUCTION = {
    "artifact": "t", "row": "r", "column": "c", "published": None, "ours": 1.0, "spread": None, "n": 1, "commit": "x",
}  # fmt: skip


def csv_of(*rows: dict[str, Any]) -> str:
    lines = [",".join(rows[0]), *(",".join("" if each is None else str(each) for each in row.values()) for row in rows)]
    return "\n".join(lines) + "\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "result"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (json.dumps(SOLVE), Kind.SOLVES),
        (f"{json.dumps(SOLVE)}\n\n{json.dumps(SOLVE)}\n", Kind.SOLVES),
        (json.dumps([SOLVE, SOLVE], indent=1), Kind.SOLVES),
        (csv_of(SOLVE, SOLVE), Kind.SOLVES),
        (json.dumps(WHAT_IF), Kind.WHAT_IF),
        (json.dumps(SIMULATION), Kind.SIMULATIONS),
        ("[\n" + json.dumps(REPRODUCTION) + "\n]\n", Kind.REPRODUCTION),
        ("job_id,submit,start,end,processors,run,estimate\n1,0,1,2,3,1,1\n", Kind.SCHEDULE),
        ("job_id,app,node,start_s,duration_s\n1,a,n1,0,1\n", Kind.PLACED),
        ("part,name,energy_j,energy_delay_js\nmachine,m,1,2\n", Kind.ENERGY),
        ("update,loss\n1,0.5\n2,\n3,nan\n", Kind.CURVE),
        ('{\n"format": "allocopt-solution",\n"version": 1}\n', Kind.SOLUTION),
        ('{"format": "allocopt-instance"}\n{"format": "allocopt-instance"}\n', Kind.INSTANCE),
    ],
)
def test_a_file_is_told_by_its_content(path: Path, text: str, kind: Kind) -> None:
    path.write_text(text, encoding="utf-8")
    assert ResultFile.read(path).kind is kind


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is empty, must hold a result"),
        (" \n\n", "is empty, must hold a result"),
        ("job_id;submit;start;end\n1;0;0;5\n", "line 1: has no comma: the cells of a result have commas between them"),
        ("hello\n", _EXPECTED),
        ("a,b\n1,x\n", _EXPECTED),
        ("SwitchName=a Nodes=x,y\nSwitchName=b Nodes=z\n", _EXPECTED),
        ("a,b\n2,1\n1,1\n", _EXPECTED),
        ("a,a\n1,1\n", _EXPECTED),
        ('{"a": 1}\n', _EXPECTED),
        ("update,loss\n", "holds no rows"),
        ("update,loss\n1\n", "line 2: does not have 2 columns as line 1"),
        ("[]", "holds no rows"),
        ("[1]", "row 1: is 1, must be an object"),
        ('{"a": 1}\n[2]\n', "line 2, column 4: is not JSON: "),
        ('{"a": NaN}\n', "line 1, column 7: is NaN, which JSON does not have"),
    ],
)
def test_what_is_no_result_is_told_in_a_line(path: Path, text: str, fault: str) -> None:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadFileError) as raised:
        ResultFile.read(path)
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert fault in message or fault.startswith("line 2, column")
    assert "\n" not in message


def test_cells_have_the_types_of_their_columns_and_lists_are_tuples(path: Path) -> None:
    path.write_text(csv_of({**SOLVE, "best_known": 9.5, "solver_version": "1"}), encoding="utf-8")
    assert ResultFile.read(path).rows(SolveRecord) == [SolveRecord(**SOLVE, best_known=9.5)]  # type: ignore[arg-type]
    path.write_text(json.dumps(WHAT_IF), encoding="utf-8")
    assert ResultFile.read(path).rows(WhatIfRow)[0].fragmentation == (0.5, None)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"gap": 1e308}, "line 2: gap is 1e+308, must be at most 1e+300"),
        ({"runtime_s": "soon"}, "line 2: runtime_s is 'soon', must be a number"),
        ({"runtime_s": None}, "line 2: runtime_s is null, must be a number"),
        ({"runtime_s": True}, "line 2: runtime_s is true, must be a number"),
        ({"seed": 0.5}, "line 2: seed is 0.5, must be a whole number"),
        ({"solver": 3}, "line 2: solver is 3, must be a text"),
        ({"objective": []}, "line 2: objective is an empty list, must be a number or null"),
    ],
)
def test_a_wrong_value_is_named(path: Path, changed: dict[str, Any], fault: str) -> None:
    path.write_text(f"{json.dumps(SOLVE)}\n{json.dumps({**SOLVE, **changed})}\n", encoding="utf-8")
    with pytest.raises(BadFileError, match=r"^" + str(path)) as raised:
        ResultFile.read(path).rows(SolveRecord)
    assert str(raised.value) == f"{path}: {fault}"


def test_a_missing_value_is_named(path: Path) -> None:
    path.write_text(f'{json.dumps(SOLVE)}\n{{"instance": "a"}}\n', encoding="utf-8")
    with pytest.raises(BadFileError, match="line 2: has no bound"):
        ResultFile.read(path).rows(SolveRecord)


def test_names_may_hold_what_python_takes_for_the_end_of_a_line(path: Path) -> None:
    row = {**SOLVE, "instance": "a\u2028b\x85c"}
    path.write_text(f"{json.dumps(row, ensure_ascii=False)}\n" * 2, encoding="utf-8")
    assert [each.instance for each in ResultFile.read(path).rows(SolveRecord)] == [row["instance"]] * 2
