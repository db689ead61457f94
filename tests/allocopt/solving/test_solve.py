"""One call for every solver: what it refuses, and what it does not believe."""

import signal
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.knapsacks import knapsack
from support.windows import window

from allocopt.cluster.topology import FatTree
from allocopt.errors import InvalidSolutionError, MissingPackageError, UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.budget import LEAST_S, Budget
from allocopt.solving.result import Incumbent, Result, SolveInterrupted, Status, StopReason
from allocopt.solving.solve import VERIFYING_S, solve
from allocopt.topology import OneShot

PROBLEM = window(FatTree(2, 2, 4), [0, 1, 3, 5, 8, 9, 12], [2, 3])


class Fixed(OneShot):
    """A user's solver in ten lines that always answers the same."""

    name = "fixed"
    strategies = frozenset(Strategy)

    def __init__(self, *nodes: list[int]) -> None:
        self.nodes = nodes

    def allocate(self, problem: TopologyProblem, rng: np.random.Generator) -> Allocation:
        return Allocation(tuple(np.array(chosen, dtype=np.int64) for chosen in self.nodes))


class Liar(Fixed):
    """A solver that changes the result of an honest one."""

    name = "liar"

    def __init__(self, changes: dict[str, Any], there: bool = True) -> None:
        super().__init__([0, 1], [3, 5, 8])
        self.changes, self.there = changes, there

    def is_available(self) -> bool:
        return self.there

    def solve(self, *arguments: Any, **named: Any) -> Result:
        return replace(super().solve(*arguments, **named), **self.changes)


class Hurried(Fixed):
    """Takes its time before its clock starts, and notes what it is granted."""

    def kernels(self, problem: TopologyProblem) -> tuple[()]:
        time.sleep(0.02)
        return ()

    def solve(self, problem: TopologyProblem, budget: Budget, *rest: Any) -> Result:
        self.granted_s = budget.seconds
        return super().solve(problem, budget, *rest)


def allocation(*nodes: list[int]) -> Allocation:
    return Allocation(tuple(np.array(chosen) for chosen in nodes))


def test_the_default_call_answers_with_a_verified_allocation() -> None:
    result = solve(PROBLEM)
    assert result.solver == "auto"
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert result.objective == PROBLEM.objective(result.solution)


@pytest.mark.parametrize("solver", ["auto", "annealing", "exact", "lns", "lns-prices", "prices", "simanneal", "scip"])
def test_numbers_of_numpy_are_taken(solver: str) -> None:
    limits: dict[str, Any] = {"time_limit": np.float32(20), "iterations": np.int32(50), "gap": np.float64(0)}
    strategy = "scas" if solver == "scip" else "free"
    result = solve(PROBLEM, strategy=strategy, solver=solver, seed=np.int64(3), **limits)  # type: ignore[arg-type]
    assert result.objective is not None
    assert type(result.seed) is int


def test_ctrl_c_ends_the_callers_loop_and_brings_the_answer_so_far() -> None:
    solved = []

    def loop() -> None:
        for _ in range(2):
            solved.append(solve(PROBLEM, solver="annealing", on_incumbent=press))

    def press(incumbent: Incumbent) -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        loop()
    assert solved == []
    assert isinstance(caught.value, SolveInterrupted)
    result = caught.value.result
    assert result.stopped_by is StopReason.INTERRUPTED
    assert result.objective == PROBLEM.objective(result.solution)


class Routing:
    kind, name, sense = "routing", "r", "max"

    def objective(self, solution: Any) -> float:
        return 0.0


NO_PROBLEM = "must be a problem, such as one of the list that `read_problems"
PACKED = knapsack([1, 2], 2)


@pytest.mark.parametrize(
    ("problem", "arguments", "message"),
    [
        *((given, {}, NO_PROBLEM) for given in ([PROBLEM], "windows.json", None)),
        (PROBLEM, {"strategy": "sacs"}, "no strategy 'sacs'; there are scas, dcas and free"),
        *((PROBLEM, {"seed": -1, "solver": name}, "seed") for name in ("annealing", "sequential", "simanneal")),
        *(
            (PROBLEM, {"solver": "greedy", **number}, "must be of type")
            for number in ({"seed": 1.5}, {"seed": "1"}, {"time_limit": "5s"}, {"iterations": 2.5}, {"gap": None})
        ),
        (Routing(), {"strategy": "free", "solver": "greedy"}, "no kind of problem 'routing'"),
        (Routing(), {"solver": "greedy"}, "'greedy' does not take routing problems"),
        (PROBLEM.with_strategy("scas"), {"solver": "greedy"}, "does not take scas"),
        (PROBLEM, {"strategy": "free", "solver": "dp"}, "'dp' does not take free; solvers that do: (?!.*scip).*greedy"),
        (PACKED, {"solver": "lns"}, r"'lns' does not take knapsack problems; solvers that do: auto, cp-sat, dp"),
        (PACKED, {"strategy": "free", "solver": "dp"}, "knapsack problem has no strategy"),
    ],
)
def test_what_cannot_be_solved_is_refused_and_answered_by_what_can(
    problem: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        solve(problem, **arguments)


def test_a_solver_that_cannot_run_here_is_refused() -> None:
    with pytest.raises(MissingPackageError, match="'liar' is not available"):
        solve(PROBLEM, strategy="free", solver=Liar({}, there=False))


@pytest.mark.parametrize(
    ("strategy", "changes", "message"),
    [
        ("free", {"objective": 1.0}, "stated objective is 1.0"),
        ("dcas", {"solution": allocation([0, 3], [1, 5, 8])}, "dcas: job 'job-0' and job 'job-1'"),
    ],
)
def test_a_wrong_answer_is_not_believed(strategy: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSolutionError, match=message):
        solve(PROBLEM, strategy=strategy, solver=Liar(changes))


def test_a_users_solver_object_is_taken() -> None:
    result = solve(PROBLEM, strategy="dcas", solver=Fixed([0, 1], [3, 5, 8]))
    assert [nodes.tolist() for nodes in result.solution.nodes] == [[0, 1], [3, 5, 8]]
    assert (result.solver, result.status, result.stopped_by) == ("fixed", Status.FEASIBLE, StopReason.COMPLETED)


def test_what_comes_before_a_search_and_verifying_its_answer_are_parts_of_the_time() -> None:
    solver = Hurried([0, 1], [3, 5, 8])
    for limit_s, most_s in ((0.1, 0.08 - VERIFYING_S), (0.001, LEAST_S)):
        solve(PROBLEM, strategy="free", solver=solver, time_limit=limit_s)
        assert solver.granted_s is not None
        assert 0.0 < solver.granted_s <= most_s
    solve(PROBLEM, strategy="free", solver=solver, time_limit=None)
    assert solver.granted_s is None


def test_a_warm_start_that_breaks_a_rule_is_refused() -> None:
    with pytest.raises(InvalidSolutionError, match="scas"):
        solve(PROBLEM, strategy="scas", solver="dp", warm_start=allocation([0, 3], [5, 8, 9]))
