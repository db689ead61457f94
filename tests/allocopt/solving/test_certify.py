"""Bounds are checked outside the solvers: by `solve` where that is cheap, by ``--certify`` and ``verify --bound``."""

import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from support.windows import paper_window, window

from allocopt.cluster.topology import FatTree
from allocopt.errors import WrongAnswerError
from allocopt.problems.base import Strategy
from allocopt.problems.certificate import Certificate, InvalidCertificateError, Stated
from allocopt.problems.knapsack.generate import synthetic_knapsack
from allocopt.problems.topology import TopologyProblem, second_search
from allocopt.solving.budget import Budget
from allocopt.solving.certify import certificate_from_object, certified, time_to_check
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.solution_files import check_stored_bound, read_solution, write_solution
from allocopt.solving.solve import solve

PROBLEM = window(FatTree(2, 2, 3), range(10), [4, 3], strategy=Strategy.SCAS)


@dataclass(frozen=True, slots=True)
class Slow(Certificate[TopologyProblem]):
    """A certificate that proves a bound, and takes a minute."""

    proves: float
    method: ClassVar[str] = "slow"

    def bound(self, problem: TopologyProblem) -> Fraction:
        return Fraction(self.proves)

    def seconds(self, problem: TopologyProblem) -> float:
        return 60.0


def solved(**changes: object) -> Result[Any]:
    return replace(solve(PROBLEM, solver="dp"), is_certified=False, **changes)  # type: ignore[arg-type]


def test_a_check_that_takes_longer_than_is_allowed_is_left_out_and_said_to_be() -> None:
    result = solved(certificate=Slow(1e9))
    assert result.proof == "not checked"
    assert certified(PROBLEM, result, 59.0).proof == "not checked"
    assert certified(PROBLEM, result, 61.0).proof == "certified"


def test_a_bound_above_what_its_certificate_proves_is_a_wrong_answer() -> None:
    with pytest.raises(WrongAnswerError, match=r"'dp' stated a wrong bound: .*\(slow\) proves 1, below"):
        certified(PROBLEM, solved(certificate=Slow(1.0)), math.inf)


def test_a_check_that_gives_up_on_its_way_is_no_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    # Prices alone prove less than the optimum here: the second search begins, and gives up at once.
    problem = window(FatTree(2, 3, 4), range(0, 24, 2), [5, 4, 3], strategy=Strategy.FREE)
    result = replace(solve(problem, solver="exact"), is_certified=False)
    assert certified(problem, result, math.inf).proof == "certified"
    monkeypatch.setattr(second_search, "MOST_TRIED", -1)
    assert certified(problem, result, math.inf).proof == "not checked"


@pytest.mark.parametrize("solver", ["scip", "highs", "cp-sat"])
def test_bounds_of_other_programs_are_marked_as_theirs(solver: str) -> None:
    problem = synthetic_knapsack("drawn", np.random.default_rng(0), 300, 20, "capability", slots=3)
    result: Result[Any] = solve(problem, solver=solver, certify=True)
    assert result.proof.startswith("stated by ")
    with pytest.raises(InvalidCertificateError, match="gives no proof"):
        Stated("SCIP").bound(PROBLEM)


def test_a_check_takes_a_tenth_of_a_solve_at_most_and_for_an_optimum_two_milliseconds() -> None:
    slow, quick = solved(runtime_s=10.0, status=Status.FEASIBLE), solved(runtime_s=1e-4)
    assert time_to_check(slow, None, 0.0) == 1.0
    assert time_to_check(quick, None, 0.0) == 0.002
    assert time_to_check(replace(quick, status=Status.FEASIBLE), None, 0.0) == pytest.approx(1e-5)
    # What is left of a limit, and what may be overrun.
    assert time_to_check(slow, 10.0, 10.0) == pytest.approx(0.22)


@pytest.mark.parametrize("strategy", [Strategy.SCAS, Strategy.FREE])
def test_solution_files_hold_what_proves_their_bounds(tmp_path: Path, strategy: Strategy) -> None:
    problem = replace(paper_window(0), strategy=strategy)
    result: Result[Any] = solve(problem, certify=True, time_limit=20.0)
    write_solution(tmp_path / "s.json", problem, result)
    stored = read_solution(tmp_path / "s.json")
    method, _ = check_stored_bound(problem, stored)
    assert method == result.certificate.method  # type: ignore[union-attr]
    held = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    held["bound"] += 1.0
    (tmp_path / "s.json").write_text(json.dumps(held), encoding="utf-8")
    with pytest.raises(InvalidCertificateError, match="below the stated"):
        check_stored_bound(problem, read_solution(tmp_path / "s.json"))


@pytest.mark.parametrize("held", [None, [], {}, {"method": 3}, {"method": "guess"}, {"method": "leaf-prices"}])
def test_what_is_no_certificate_of_the_kind_is_refused(held: object) -> None:
    with pytest.raises(InvalidCertificateError, match="must be one of"):
        certificate_from_object("topology", held)


def test_a_solve_that_nobody_waits_for_ends_without_an_error() -> None:
    asked: list[int] = []

    def is_cancelled() -> bool:
        asked.append(1)
        return len(asked) > 3

    budget = Budget(60.0, 2_000_000_000, is_cancelled=is_cancelled)
    result: Result[Any] = solve(replace(paper_window(1), strategy=Strategy.FREE), solver="annealing", budget=budget)
    assert result.stopped_by is StopReason.CANCELLED
    assert result.solution is not None
