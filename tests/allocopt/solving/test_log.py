"""The log of a solve: header, lines and footer, of every solver and kind."""

import io
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.pages import steps_of

import allocopt
from allocopt.errors import UsageError
from allocopt.problems.base import Problem
from allocopt.problems.instances import read_problems, shipped_problems
from allocopt.problems.kind import get_kind, kind_names, shown_objective
from allocopt.solving import log as log_module
from allocopt.solving.budget import Budget
from allocopt.solving.log import FULL_LINES, HEADINGS, LEAST_S, QUIET_S, SolveLog, log_of
from allocopt.solving.protocol import Solver, get_solver, solver_names
from allocopt.solving.result import Incumbent, Result, SolveInterrupted, Status, StopReason, sign_of

PROBLEM = read_problems("@tiny")[0]


def cases() -> list[tuple[Solver, Problem]]:
    """Return every solver that can run here with a small problem under each strategy that it takes."""
    return [
        (solver, posed)
        for kind in kind_names()
        for name in solver_names(kind)
        if (solver := get_solver(name, None, kind)).is_available()
        for strategy in get_kind(kind).strategies or (None,)
        if solver.takes(posed := get_kind(kind).posed(shipped_problems(kind)[0], strategy))
    ]


def parts(text: str) -> tuple[dict[str, str], list[list[str]], dict[str, str]]:
    """Return the header, the cells of the lines, and the footer of a log."""
    header, (headings, *lines), footer = (part.splitlines() for part in text.rstrip("\n").split("\n\n"))
    assert re.split(r" {2,}", headings.strip()) == list(HEADINGS)

    def facts(lines: list[str]) -> dict[str, str]:
        return dict(re.split(r" +", line, maxsplit=1) for line in lines)  # type: ignore[misc]

    return facts(header), [re.split(r" {2,}", line.strip()) for line in lines], facts(footer)


def number(cell: str) -> float | None:
    return None if cell == "-" else float(cell.replace(",", ""))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solver", "problem"),
    cases(),
    ids=lambda one: getattr(one, "strategy", one.kind) if hasattr(one, "sense") else one.name,
)
def test_every_solver_has_a_log_that_ends_with_its_result(solver: Solver, problem: Problem) -> None:
    out = io.StringIO()
    result = allocopt.solve(problem, solver=solver, time_limit=20.0, display=out)
    assert max(map(len, out.getvalue().splitlines())) <= 80
    header, lines, footer = parts(out.getvalue())
    assert list(header) == ["allocopt", "problem", "objective", "solver", "limits"]
    assert header["problem"].startswith(f"{problem.name}: {problem.kind}")
    assert header["solver"].startswith(f"{solver.name} (")
    assert header["limits"] == "20 s, seed 0"
    assert list(footer) == ["status", "objective", "bound", "gap", "time", "verified"]
    assert footer["status"] == f"{result.status} ({result.stopped_by})"
    assert footer["time"] == f"{result.runtime_s:.3f} s"
    assert result.objective is not None
    shown = [shown_objective(problem, one) if one is not None else "-" for one in (result.objective, result.bound)]
    assert lines[-1][1:3] == [footer["objective"], footer["bound"]] == shown
    times, sign = [float(line[0]) for line in lines], sign_of(problem)
    assert times == sorted(times)
    for line in lines:
        objective, bound = number(line[1]), number(line[2])
        assert objective is not None
        assert bound is None or sign * bound <= sign * objective
    for column, direction in ((1, -sign), (2, sign)):
        known = [value for line in lines if (value := number(line[column])) is not None]
        assert all(direction * before <= direction * after for before, after in pairwise(known))


def test_a_solve_prints_a_log_on_standard_output_only_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    silent = allocopt.solve(PROBLEM)
    assert capsys.readouterr() == ("", "")
    result = allocopt.solve(PROBLEM, display=True)
    out, err = capsys.readouterr()
    assert (parts(out)[2]["status"], err) == ("OPTIMAL (proved)", "")
    assert result.objective == silent.objective


def test_a_model_prints_the_log_of_its_window() -> None:
    model, out = allocopt.Model(allocopt.FatTree(2, 2, 4)), io.StringIO()
    model.add_job(4)
    answer = model.solve(display=out)
    assert parts(out.getvalue())[2]["objective"] == f"{answer.result.objective:,.1f}"


def test_callbacks_of_the_caller_get_the_same_incumbents_as_the_log() -> None:
    seen: list[Incumbent] = []
    result = allocopt.solve(PROBLEM, display=io.StringIO(), on_incumbent=seen.append)
    assert tuple(seen) == result.incumbents


def test_auto_names_the_solver_that_found_each_solution() -> None:
    first = allocopt.solve(PROBLEM, solver="sequential").solution
    result = allocopt.solve(PROBLEM, strategy="dcas", warm_start=first)
    start, *others = result.incumbents
    assert start.solver == "warm start"
    assert {one.solver for one in others} <= {"lns", "dp", "lagrangian", "highs", "annealing", "prices", "greedy"}


def test_an_interrupted_solve_has_a_footer() -> None:
    def interrupt(incumbent: Incumbent) -> None:
        raise KeyboardInterrupt

    out = io.StringIO()
    with pytest.raises(SolveInterrupted):
        allocopt.solve(PROBLEM, solver="annealing", display=out, on_incumbent=interrupt)
    assert parts(out.getvalue())[2]["status"] == "INTERRUPTED (interrupted)"


def test_facts_that_are_too_long_for_a_terminal_continue_below() -> None:
    out = io.StringIO()
    name = "windows of the first week of january on the second machine of the site"
    SolveLog(replace(PROBLEM, name=name), out).begin(get_solver("lns"), Budget(), 0)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(lines[1:3]).split()[: len(name.split()) + 1] == ["problem", *f"{name}:".split()]
    assert lines[2].startswith(" " * 11)


def test_the_header_says_what_is_optimized() -> None:
    aims = {}
    for kind in kind_names():
        out = io.StringIO()
        SolveLog(shipped_problems(kind)[0], out).begin(get_solver("auto"), Budget(), 0)
        aims[kind] = out.getvalue().split("objective  ")[1].split("\n")[0]
    expected = {
        "topology": "minimize the hop cost",
        "placement": "minimize the cost",
        "relocation": "minimize the cost",
    }
    assert aims == {**expected, "knapsack": "maximize", "coallocation": "maximize"}


class Refusing(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_stream_that_fails_is_not_blamed_on_the_solver() -> None:
    with pytest.raises(BrokenPipeError):
        allocopt.solve(PROBLEM, display=Refusing())


@pytest.mark.parametrize("display", [None, 1, "log.txt"])
def test_what_is_no_stream_is_refused(display: Any) -> None:
    with pytest.raises(UsageError, match=r"display is .*, must be True, False or a text stream"):
        allocopt.solve(PROBLEM, display=display)


class Time:
    """A clock that a test sets."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    found = Time()
    monkeypatch.setattr(log_module, "time", found)
    return found


def result_of(objective: float | None, bound: float | None, **other: Any) -> Result:
    given: dict[str, Any] = {"status": Status.FEASIBLE, "stopped_by": StopReason.TIME_LIMIT, "runtime_s": 60.0}
    return Result(objective=objective, bound=bound, solution=None, seed=0, solver="lns", version="1", **given | other)


def test_after_many_improvements_there_is_at_most_a_line_per_second_and_the_last_one_is_shown(clock: Time) -> None:
    out = io.StringIO()
    log = SolveLog(PROBLEM, out)
    log.begin(get_solver("lns"), Budget(60.0), 0)
    told = log.callback(None)
    many = FULL_LINES + 60
    for step in range(many):
        clock.now = step * LEAST_S / 8
        told(Incumbent(clock.now, 1000.0 - step, None, "lns"))
    log.end(result_of(1000.0 - many + 1, None))
    lines = parts(out.getvalue())[1]
    assert len(lines) == FULL_LINES + 60 // 8 + 1
    assert lines[-1] == ["60.000", f"{1000.0 - many + 1:.1f}", "-", "-", "lns"]


def test_a_line_repeats_the_values_if_nothing_was_found_for_a_while(clock: Time) -> None:
    out = io.StringIO()
    log = SolveLog(PROBLEM, out)
    log.begin(get_solver("lns"), Budget(60.0), 0)
    look = log.budget(Budget(60.0, is_cancelled=lambda: clock.now > 20.0)).is_cancelled
    assert look is not None
    assert not look()
    log.callback(None)(Incumbent(0.5, 1000.0, 900.0, "lns"))
    for clock.now in (QUIET_S - 0.1, QUIET_S + 0.1, QUIET_S + 0.2):
        assert not look()
    clock.now = 21.0
    assert look()
    times = [line[0] for line in parts(out.getvalue() + "\nstatus none")[1]]
    assert times == ["0.500", f"{QUIET_S + 0.6:.3f}", "21.500"]


@pytest.mark.parametrize(
    ("objective", "bound", "shown"),
    [
        (1000.0, None, ["1,000.0", "-", "-"]),
        (1000.0, 900.0, ["1,000.0", "900.0", "10.000"]),
        (1000.0, 1000.0000001, ["1,000.0", "1,000.0", "0.000"]),
        (1.0, -1000.0, ["1.0", "-1,000.0", "large"]),
    ],
)
def test_objective_bound_and_gap_are_shown(objective: float, bound: float | None, shown: list[str]) -> None:
    out = io.StringIO()
    log = SolveLog(PROBLEM, out)
    log.begin(get_solver("lns"), Budget(60.0, iterations=5, gap=0.01), 3)
    log.end(result_of(objective, bound))
    header, lines, footer = parts(out.getvalue())
    assert header["limits"] == "60 s, 5 iterations, gap 1 %, seed 3"
    assert lines == [["60.000", *shown, "lns"]]
    unit = "" if shown[2] in ("-", "large") else " %"
    assert [footer["objective"], footer["bound"], footer["gap"]] == [*shown[:2], shown[2] + unit]


def test_a_solve_without_a_solution_has_no_lines() -> None:
    out = io.StringIO()
    log = SolveLog(PROBLEM, out)
    log.begin(get_solver("lns"), Budget(), 0)
    log.end(result_of(None, None, status=Status.UNKNOWN))
    header, lines, footer = parts(out.getvalue())
    assert (header["limits"], lines) == ("no time limit, seed 0", [])
    assert (footer["objective"], footer["verified"]) == ("-", "no solution, no bound")


def test_the_guide_shows_such_a_log() -> None:
    guide = Path(__file__).parents[3] / "docs" / "guide" / "solve.md"
    (shown,) = (step.body for step in steps_of(guide) if step.language == "output")
    out = io.StringIO()
    allocopt.solve(PROBLEM, display=out)
    header, _, footer = parts(out.getvalue())
    theirs, lines, end = parts(shown)
    assert ([*theirs], [*end]) == ([*header], [*footer])
    assert lines[-1][1:3] == [end["objective"], end["bound"]]


def test_a_log_that_is_off_changes_neither_callback_nor_budget() -> None:
    budget = Budget(5.0)
    log = log_of(PROBLEM, False)
    assert log.budget(budget) is budget
    assert log.callback(print) is print
    assert log.callback(None) is None
