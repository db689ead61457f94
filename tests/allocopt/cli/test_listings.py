"""What the program tells about itself, and what fits a terminal: schema, solvers, doctor, warmup, version, help."""

import io
import json
import re
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator
from support.program import Run

from allocopt import __version__
from allocopt.cli import calibrate, generate, live
from allocopt.cli.main import COMMANDS, main
from allocopt.cli.schema import SchemaName
from allocopt.cli.terminal import listed, screen_width
from allocopt.heuristics.topology.production_rules import Sequential
from allocopt.solving.protocol import solver_names
from allocopt.solving.solve import solve

APPS = {"calibrate": calibrate.app, "generate": generate.app, "live": live.app}


@pytest.mark.parametrize("what", get_args(SchemaName))
def test_a_schema_is_one(run: Run, what: str) -> None:
    answer = run("schema", what)
    assert (answer.code, answer.err) == (0, "")
    schema = json.loads(answer.out)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == f"allocopt {what} file"
    assert schema["description"]
    assert list(Draft202012Validator(schema).iter_errors({"format": "of something else"}))


def test_every_solver_is_listed_with_what_it_takes(run: Run) -> None:
    rows = run("solvers", "--json").rows
    assert [row["solver"] for row in rows] == solver_names()
    assert all(list(row) == ["solver", "kinds", "strategies", "promises", "largest", "available"] for row in rows)
    assert all(row["largest"] and row["available"] is True for row in rows)
    by_name = {row["solver"]: row for row in rows}
    assert by_name["dp"]["strategies"] == ["dcas", "scas"]
    assert by_name["dp"]["kinds"] == ["knapsack", "topology"]
    assert by_name["lns"]["kinds"] == ["placement", "topology"]
    assert "exact" in by_name["dp"]["promises"]
    assert by_name["sequential"]["strategies"] == ["dcas", "free", "scas"]


def test_the_list_is_an_aligned_table(run: Run) -> None:
    answer = run("solvers")
    lines = answer.out.splitlines()
    assert answer.code == 0
    assert len(lines) == 2 + len(solver_names())
    assert len({len(line) for line in lines}) == 1


@pytest.mark.slow
def test_the_doctor_lets_every_solver_work(run: Run) -> None:
    answer = run("doctor", "--json")
    assert answer.code == 0
    (document,) = answer.rows
    assert list(document["solvers"]) == solver_names()
    assert all(check.startswith("works: ") for check in document["solvers"].values())
    assert document["versions"]["version"] == __version__


@pytest.fixture
def two_solvers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocopt.solving.protocol.solver_names", lambda kind=None: ["sequential", "best-fit"])


@pytest.mark.usefixtures("two_solvers")
def test_the_doctor_s_lines_are_of_versions_and_solvers(run: Run) -> None:
    answer = run("doctor")
    assert answer.code == 0
    assert answer.out.count(" works: ") == 2
    for name in ("sequential", "best-fit", "numpy", "ortools"):
        assert any(line.split()[:1] == [name] for line in answer.out.splitlines())


@pytest.mark.usefixtures("two_solvers")
def test_the_doctor_s_limits_do_not_count_compiling(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ready: list[Any] = []
    seen: list[bool] = []

    def record(problem: Any, *, solver: Any, **limits: Any) -> Any:
        seen.append((solver.name, problem) in ready)
        return solve(problem, solver=solver, **limits)

    monkeypatch.setattr(
        "allocopt.solving.solve.prepare",
        lambda solver, problems: ready.extend((solver.name, problem) for problem in problems),
    )
    monkeypatch.setattr("allocopt.solving.solve.solve", record)
    assert run("doctor").code == 0
    assert seen == [True] * 3


@pytest.mark.usefixtures("two_solvers")
def test_ctrl_c_ends_the_doctor(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def press(solver: Any, problem: Any, rng: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Sequential, "allocate", press)
    answer = run("doctor")
    assert (answer.code, answer.out, answer.err) == (130, "", "allocopt: interrupted\n")


def test_kernels_can_be_compiled_ahead(run: Run) -> None:
    answer = run("warmup")
    assert (answer.code, answer.err) == (0, "")
    assert re.fullmatch(r"all \d+ kernels are compiled \(\d+\.\d s\)\n", answer.out)


def test_the_version_is_the_packages(run: Run) -> None:
    answer = run("--version")
    assert (answer.code, answer.out) == (0, f"allocopt {__version__}\n")


def screens() -> list[tuple[str, ...]]:
    """Commands and their own commands."""
    generate.add_commands()
    inner = [(name, one) for name, app in APPS.items() for one in app.registered_commands]
    own = [(name, one.name or getattr(one.callback, "__name__", "")) for name, one in inner]
    return [(), *((name,) for name in COMMANDS), *own]


@pytest.mark.parametrize("command", screens(), ids=" ".join)
def test_help_of_every_command_fits_a_screen(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = run(*command, "--help")
    lines = answer.out.splitlines()
    assert (answer.code, answer.err) == (0, "")
    assert lines[0].startswith(" ".join(["Usage: allocopt", *command]))
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("allocopt sim", {"simulate"}),
        ("allocopt solve @tiny --solver prop-", set()),
        ("allocopt solve @tiny --solver dp", {"dp"}),
        ("allocopt solve @tiny --solver best", {"best-fit", "best-fit-by-level", "best-rack"}),
        ("allocopt simulate a.swf --policy dras-p", {"dras-pg", "dras-ppo"}),
        ("allocopt simulate a.swf --allocator lagr", {"lagrangian"}),
        ("allocopt simulate a.swf --backfill e", {"easy"}),
        ("allocopt simulate a.swf --set trim", {"trim="}),
        ("allocopt bench @tiny --solvers dp,lagr", {"dp,lagrangian"}),
        ("allocopt what-if --schedulers easy,dras-p", {"easy,dras-pg", "easy,dras-ppo"}),
        ("allocopt what-if --allocators best-fit,lagr", {"best-fit,lagrangian"}),
        ("allocopt reproduce nsa-table", {"nsa-table2", "nsa-table3", "nsa-table4", "nsa-tables-authors"}),
    ],
)
def test_a_shell_completes_commands_and_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, names: set[str]
) -> None:
    words = line.split()
    monkeypatch.setenv("_ALLOCOPT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setattr("sys.argv", ["allocopt"])
    with pytest.raises(SystemExit):
        main()
    assert set(capsys.readouterr().out.split()) == names


def test_a_long_text_goes_on_below_itself_or_near_the_margin_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert screen_width() is None
    assert len(listed({"a": "word " * 40}).splitlines()) == 1
    monkeypatch.setenv("COLUMNS", "30")
    texts = {"a": "one two three", "longer": "four five six seven eight", "none": ""}
    lines = ["  a       one two three", "  longer  four five six seven", "          eight", "  none"]
    assert listed(texts, "  ").splitlines() == lines
    monkeypatch.setenv("COLUMNS", "24")
    lines = ["a-long-name  one two", "    three four five"]
    assert listed({"a-long-name": "one two three four five"}).splitlines() == lines


@pytest.mark.parametrize("command", ["solvers", "reproduce", "fetch-trace"])
def test_listings_fit_a_narrow_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = run(command)
    assert answer.code == 0
    assert max(map(len, answer.out.splitlines())) <= 80
