"""Solves in a process of their own: whatever a solver does, there is an answer in time."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.sweeps import plug_in

from allocopt.errors import AllocoptError
from allocopt.live.plan import PlannedWindow
from allocopt.live.solver_process import SolverProcess
from allocopt.problems.instances import shipped_problems
from allocopt.problems.topology.problem import Allocation, TopologyProblem
from allocopt.solving.result import Status
from allocopt.solving.verify import verify

PLUGIN = """
import ctypes, os
from allocopt.heuristics.topology.production_rules import Sequential

class Odd(Sequential):
    name = "odd"

    def solve(self, problem, *rest):
        if problem.name == "hangs":
            # As in native code that lets no other code of the process run.
            ctypes.PyDLL(None).sleep(1000)
        if problem.name == "dies":
            os._exit(3)
        if problem.name == "fails":
            raise RuntimeError("no idea")
        return super().solve(problem, *rest)

class Broken(Sequential):
    name = "broken"

    def solve(self, problem, *rest):
        raise RuntimeError("no idea")
"""


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd_solvers.py").write_text(PLUGIN, encoding="utf-8")
    plug_in(tmp_path, odd="odd_solvers:Odd", broken="odd_solvers:Broken")
    monkeypatch.syspath_prepend(str(tmp_path))


def a_window(name: str) -> PlannedWindow:
    problem = replace(shipped_problems(TopologyProblem.kind)[0], name=name)
    assert isinstance(problem, TopologyProblem)
    greedy = Allocation.sequential(problem)
    return PlannedWindow(problem, greedy, verify(problem, greedy), ())


@pytest.fixture
def solves(odd: None) -> Iterator[SolverProcess]:
    with SolverProcess("odd", 0.2, 0) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("hangs", "gave no answer within its 0.2 s"),
        ("dies", "gave no answer"),
        ("fails", "raised RuntimeError: no idea"),
    ],
)
def test_the_greedy_answer_holds_where_a_solver_gives_none_and_others_follow(
    solves: SolverProcess, name: str, fault: str
) -> None:
    window = a_window(name)
    result, why = solves.answer(window)
    assert fault in why
    assert (result.objective, result.solution, result.status) == (
        window.greedy_objective, window.greedy, Status.FEASIBLE,
    )  # fmt: skip
    end = time.monotonic() + 60
    while solves.answer(a_window("other"))[1]:
        assert time.monotonic() < end, "is not started again"
        time.sleep(0.1)


@pytest.mark.slow
def test_a_verified_answer_comes_of_the_other_process(solves: SolverProcess) -> None:
    window = a_window("fine")
    result, why = solves.answer(window, "auto")
    assert not why
    assert result.status is Status.OPTIMAL
    assert verify(window.problem, result.found()) == result.objective


@pytest.mark.slow
def test_a_solver_that_never_answers_is_refused(odd: None) -> None:
    with pytest.raises(AllocoptError, match="raised RuntimeError: no idea"), SolverProcess("broken", 0.2, 0):
        pass
