"""Without a package that some solvers need: those say so with exit code 5, everything else works."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

Run = Callable[..., Any]

HIDING = """
import importlib.machinery
import os

find_spec = importlib.machinery.PathFinder.find_spec

def find_what_is_not_hidden(name, path=None, target=None):
    return None if name == os.environ["HIDDEN_PACKAGE"] else find_spec(name, path, target)

importlib.machinery.PathFinder.find_spec = find_what_is_not_hidden
"""


@pytest.fixture
def without(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Variables under which a package cannot be found, by the child processes neither."""
    (tmp_path / "hiding").mkdir()
    (tmp_path / "hiding" / "sitecustomize.py").write_text(HIDING, encoding="utf-8")
    return lambda package: {"PYTHONPATH": str(tmp_path / "hiding"), "HIDDEN_PACKAGE": package}


@pytest.mark.parametrize(
    ("package", "solver", "strategy"),
    [("ortools", "cp-sat", "scas"), ("simanneal", "simanneal", "dcas")],
)
def test_the_solver_that_needs_it_is_5(
    spawn: Run, without: Callable[[str], dict[str, str]], package: str, solver: str, strategy: str
) -> None:
    calls = [
        ["solve", "@tiny", "--solver", solver, "--strategy", strategy, "--json"],
        ["bench", "@tiny", "--solvers", f"highs,{solver}", "--json"],
    ]
    for call in calls:
        answer = spawn(*call, variables=without(package))
        assert (answer.code, answer.out) == (5, "")
        (line,) = answer.lines_of_error
        assert f"{solver!r}" in line
        assert "not installed" in line


def test_everything_else_works(spawn: Run, without: Callable[[str], dict[str, str]]) -> None:
    hidden = without("ortools")
    listed = spawn("solvers", "--json", variables=hidden)
    assert {row["solver"] for row in listed.rows if not row["available"]} == {"cp-sat", "exact", "prices"}
    examined = spawn("doctor", variables=hidden)
    assert examined.code == 0
    (line,) = (line for line in examined.out.splitlines() if line.split()[0] == "cp-sat")
    assert "missing: " in line
    assert spawn("warmup", variables=hidden).code == 0
    assert [
        row["status"] for row in spawn("solve", "@tiny", "--strategy", "scas", "--json", variables=hidden).rows
    ] == ["OPTIMAL"] * 3
