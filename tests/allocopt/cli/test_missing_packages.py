"""Without a package that some solvers need: those say so with exit code 5, everything else works."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HIDING = """
import importlib.machinery
import os

find_spec = importlib.machinery.PathFinder.find_spec

def find_what_is_not_hidden(name, path=None, target=None):
    return None if name == os.environ["HIDDEN_PACKAGE"] else find_spec(name, path, target)

importlib.machinery.PathFinder.find_spec = find_what_is_not_hidden
"""
CALLING = """
import contextlib, io, json, sys
from allocopt.cli.main import main
from allocopt.solving import protocol

answers = []
for arguments in json.loads(sys.argv[1]):
    if arguments == ["doctor"]:
        # All others are examined by the doctor's own test.
        protocol.solver_names = lambda kind=None: ["cp-sat", "highs"]
    sys.argv = ["allocopt", *arguments]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            main()
        except SystemExit as ended:
            answers.append((ended.code or 0, out.getvalue(), err.getvalue()))
print(json.dumps(answers))
"""


def answers_without(package: str, folder: Path, *calls: list[str]) -> list[tuple[int, str, str]]:
    """Call the program in a process in which a package cannot be found, by its child processes neither."""
    (folder / "sitecustomize.py").write_text(HIDING, encoding="utf-8")
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "HIDDEN_PACKAGE": package}
    command = [sys.executable, "-c", CALLING, json.dumps(calls)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


@pytest.mark.parametrize(
    ("package", "solver", "strategy"),
    [("ortools", "cp-sat", "scas"), ("simanneal", "simanneal", "dcas")],
)
def test_the_solver_that_needs_it_is_5(tmp_path: Path, package: str, solver: str, strategy: str) -> None:
    calls = [
        ["solve", "@tiny", "--solver", solver, "--strategy", strategy, "--json"],
        ["bench", "@tiny", "--solvers", f"highs,{solver}", "--json"],
    ]
    answers = answers_without(package, tmp_path, *calls)
    assert len(answers) == len(calls)
    for code, out, err in answers:
        assert (code, out) == (5, "")
        (line,) = err.splitlines()
        assert f"{solver!r}" in line
        assert "not installed" in line


def test_everything_else_works(tmp_path: Path) -> None:
    solve = ["solve", "@tiny", "--strategy", "scas", "--json"]
    answers = answers_without("ortools", tmp_path, ["solvers", "--json"], ["warmup"], solve, ["doctor"])
    assert [code for code, _, _ in answers] == [0] * 4
    listed, _, solved, examined = (out.splitlines() for _, out, _ in answers)
    rows = map(json.loads, listed)
    assert {row["solver"] for row in rows if not row["available"]} == {"cp-sat", "exact", "prices"}
    assert [json.loads(line)["status"] for line in solved] == ["OPTIMAL"] * 3
    checks = {line.split()[0]: line for line in examined}
    assert "missing: " in checks["cp-sat"]
    assert "works: " in checks["highs"]
