"""The contract that others run on their solvers: good solvers keep to it, and every kind of fault is found."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from allocopt.arrays import IntArray
from allocopt.errors import UsageError, WrongAnswerError
from allocopt.problems.base import Strategy
from allocopt.problems.instances import read_problems
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving import contract
from allocopt.solving.budget import Budget
from allocopt.solving.contract import ContractError, contract_checks
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from allocopt.topology import TopologySolver

TINY: Any = read_problems("@tiny")[:2]
FREE = frozenset({Strategy.FREE})


class Scripted(TopologySolver):
    """Lays the jobs along the idle nodes, and is as faulty as it is told to be."""

    name = "scripted"
    capabilities = Capabilities(FREE, frozenset(), "any")

    def __init__(
        self, fault: Callable[[TopologyProblem, Run], object], promises: frozenset[Promise] = frozenset()
    ) -> None:
        self.fault = fault
        self.capabilities = Capabilities(FREE, promises, "any")

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        run.offer(Allocation.sequential(problem))
        self.fault(problem, run)
        return StopReason.COMPLETED


class Boasting(Scripted):
    """Says of every answer what it is told to say."""

    def __init__(self, **said: Any) -> None:
        super().__init__(nothing)
        self.said = said

    def solve(self, *arguments: Any, **named: Any) -> Any:
        result = super().solve(*arguments, **named)
        return replace(result, **self.said) if self.said else None


def nothing(problem: TopologyProblem, run: Run) -> None: ...


def answer(run: Run, problem: TopologyProblem, *nodes: IntArray) -> None:
    """Answer with these nodes of the jobs, whatever was known before."""
    run.solution = Allocation(nodes)
    run.objective = problem.objective(run.solution)


FAULTS: dict[str, Callable[[TopologyProblem, Run], object]] = {
    "proves too much": lambda problem, run: run.prove(run.objective or 0.0),
    "draws globally": lambda problem, run: np.random.rand(),
    "talks": lambda problem, run: print("searching ..."),
    "gives a node twice": lambda problem, run: answer(run, problem, *(problem.idle_nodes[:n] for n in problem.sizes)),
    "forgets the start": lambda problem, run: answer(run, problem, *Allocation.sequential(problem).nodes),
    "changes the problem": lambda problem, run: object.__setattr__(problem, "hop_cost", problem.hop_cost + 1.0),
    "sleeps": lambda problem, run: time.sleep(0.02),
}


def faults(solver: Any) -> set[str]:
    """Claims that do not hold for a solver."""
    found = set()
    for check in contract_checks(solver, TINY):
        try:
            check()
        except (ContractError, WrongAnswerError):
            found.add(check.claim)
    return found


def test_every_claim_has_a_name_of_its_own() -> None:
    checks = contract_checks("greedy")
    assert len({str(check) for check in checks}) == len(checks) >= 8


def test_a_plain_solver_keeps_to_it() -> None:
    assert faults(Scripted(nothing)) == set()


@pytest.mark.parametrize(
    ("solver", "claim"),
    [
        (Scripted(FAULTS["proves too much"]), "the optimum lies between bound and objective"),
        (Scripted(FAULTS["draws globally"]), "nothing is printed, and global random generators are not used"),
        (Scripted(FAULTS["talks"]), "nothing is printed, and global random generators are not used"),
        (Scripted(FAULTS["gives a node twice"]), "the answer is valid and described correctly"),
        (Scripted(FAULTS["forgets the start"]), "a warm start is never made worse"),
        (Scripted(nothing, frozenset({Promise.EXACT})), "promises are kept"),
        (Scripted(nothing, frozenset({Promise.BOUND})), "promises are kept"),
        (Boasting(seed=4), "the answer is valid and described correctly"),
        (Boasting(incumbents=()), "the answer is valid and described correctly"),
        (Boasting(stopped_by=StopReason.COMPLETED), "Ctrl-C gives the best solution so far"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_every_fault_is_found(solver: Any, claim: str) -> None:
    assert claim in faults(solver)


def test_a_solver_that_changes_the_problem_is_told_so_whatever_else_is_wrong_then() -> None:
    for check in contract_checks(Scripted(FAULTS["changes the problem"]), read_problems("@tiny")[:1]):
        with pytest.raises(ContractError, match="it changes the given problem"):
            check()


@pytest.mark.slow
def test_a_solver_that_goes_on_beyond_its_limit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "LATE_S", 0.01)
    assert faults(Scripted(FAULTS["sleeps"])) == {"a limit that is too short still gives a valid answer"}


def test_what_is_no_result_is_named() -> None:
    check, *_ = contract_checks(Boasting(), TINY)
    with pytest.raises(WrongAnswerError, match="the solver returned NoneType, must return a Result"):
        check()


def test_another_answer_to_the_same_seed_is_found() -> None:
    drawn = np.random.default_rng(0)

    def shuffle(problem: TopologyProblem, run: Run) -> None:
        answer(run, problem, *np.split(drawn.permutation(problem.idle_nodes), np.cumsum(problem.sizes))[:-1])

    assert "the same seed gives the same answer" in faults(Scripted(shuffle))


@pytest.mark.parametrize(
    ("attributes", "fault"),
    [
        ({"name": ""}, "it has no name"),
        ({"capabilities": Capabilities(FREE, frozenset(), "")}, "largest size"),
        ({"capabilities": Capabilities(frozenset(), frozenset(), "any")}, "none of the strategies of its kind"),
    ],
)
def test_what_is_declared_is_looked_at_before_anything_is_solved(attributes: dict[str, Any], fault: str) -> None:
    wrong = Scripted(nothing)
    vars(wrong).update(attributes)
    with pytest.raises(ContractError, match=fault):
        contract_checks(wrong)


def test_a_contract_needs_a_solver_and_problems() -> None:
    with pytest.raises(ContractError, match="takes none of the problems"):
        contract_checks(Scripted(nothing), [])
    with pytest.raises(UsageError, match="there is no solver 'nobody'"):
        contract_checks("nobody")
