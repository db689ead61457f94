"""What every installed solver of topology problems keeps to, under every strategy it takes, on every small window."""

import random
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.brute_force import optimum
from support.windows import paper_window, resequenced, tiny_window, with_jobs

from allocopt.errors import MissingPackageError
from allocopt.problems.base import Strategy
from allocopt.problems.instances import read_instances
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Promise, Solver
from allocopt.solving.registry import get_solver, solver_names
from allocopt.solving.result import EQUAL_RELATIVE, Incumbent, Result, Status, StopReason
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify, verify_result

pytestmark = pytest.mark.slow

FOREIGN = frozenset({"cp-sat", "highs", "scip", "scip-paper"})
"""Solvers whose search is another package's: a seed fixes their objective, not their allocation."""

SLOW = frozenset({"cp-sat", "csp", "scip-paper"})
"""Solvers that take long for windows of the paper's size."""

ENOUGH_S = 60.0
"""Time in which every exact solver proves a small window."""


def installed() -> dict[str, Solver]:
    """Return all solvers that can run here, by name."""
    solvers = {}
    for name in solver_names("topology"):
        try:
            solver = get_solver(name)
        except MissingPackageError:
            continue
        if solver.is_available():
            solvers[name] = solver
    return solvers


SOLVERS = installed()
SHIPPED = tuple(read_instances([Path("@tiny")]))
TINY = (*SHIPPED, *(tiny_window(seed) for seed in range(1)))
SMALL = tuple(problem for problem in TINY if len(problem.idle_nodes) <= 10)
"""Windows small enough to look at every allocation."""
PAPER = tuple(paper_window(seed) for seed in range(2))


def cases(problems: tuple[TopologyProblem, ...], promise: Promise | None = None) -> Sequence[object]:
    """All solvers (with a promise) under all their strategies on all problems that they take."""
    found = []
    for name, solver in SOLVERS.items():
        if promise is not None and promise not in solver.capabilities.promises:
            continue
        for strategy in sorted(solver.capabilities.strategies):
            for problem in problems:
                if problem in PAPER and name in SLOW:
                    continue
                asked = problem.with_strategy(strategy)
                if solver.refusal(asked) is None:
                    found.append(pytest.param(name, asked, id=f"{name}-{strategy}-{problem.name}"))
    return found


def exact_solvers(strategy: Strategy, problem: TopologyProblem) -> list[str]:
    """Names of all solvers that prove the problem's optimum under a strategy."""
    found = []
    for name, solver in SOLVERS.items():
        takes_it = (
            strategy in solver.capabilities.strategies and solver.refusal(problem.with_strategy(strategy)) is None
        )
        too_slow = problem in PAPER and name in SLOW
        if Promise.EXACT in solver.capabilities.promises and takes_it and not too_slow:
            found.append(name)
    return found


def global_generators() -> object:
    """Return the states of the generators that nobody may touch."""
    numpy_state = np.random.get_state(legacy=False)
    return random.getstate(), numpy_state["state"]["key"].tolist(), numpy_state["state"]["pos"]


@cache
def answer(name: str, problem: TopologyProblem) -> Result:
    """Solve with seed 0 and time to end, once."""
    return solved(name, problem)


@cache
def good_allocation(problem: TopologyProblem) -> Allocation:
    """Return what to begin with."""
    return solve(problem, solver="auto", time_limit=None, iterations=200).solution


@cache
def brute_force_optimum(problem: TopologyProblem) -> float:
    return optimum(problem)


def solved(name: str, problem: TopologyProblem, budget: Budget = Budget(ENOUGH_S), seed: int = 0) -> Result:  # noqa: B008
    result = SOLVERS[name].solve(problem, budget, seed)
    verify_result(problem, result)
    return result


def assert_consistent(problem: TopologyProblem, result: Result) -> None:
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert result.objective == verify(problem, result.solution)
    proved = result.bound is not None and result.gap is not None and result.gap <= EQUAL_RELATIVE
    assert (result.status is Status.OPTIMAL) is proved
    assert (result.stopped_by is StopReason.PROVED) is proved
    if result.bound is None:
        assert result.gap is None
    else:
        assert np.isfinite(result.bound)
        assert result.bound <= result.objective
        assert not proved or result.bound == result.objective


def assert_only_improves(incumbents: tuple[Incumbent, ...], result: Result) -> None:
    assert incumbents[-1].objective == result.objective
    assert 0 <= incumbents[0].time_s
    assert incumbents[-1].time_s <= result.runtime_s
    for before, after in pairwise(incumbents):
        assert before.time_s <= after.time_s
        assert after.objective < before.objective
        assert before.bound is None or (after.bound is not None and before.bound <= after.bound)


@pytest.mark.parametrize(("name", "problem"), cases(TINY + PAPER))
def test_the_answer_is_valid_and_what_is_said_of_it_consistent(name: str, problem: TopologyProblem) -> None:
    told: list[Incumbent] = []
    result = solve(problem, solver=SOLVERS[name], time_limit=ENOUGH_S, seed=5, on_incumbent=told.append)
    assert_consistent(problem, result)
    assert_only_improves(result.incumbents, result)
    assert tuple(told) == result.incumbents
    assert (result.solver, result.seed) == (name, 5)
    assert result.version
    assert result.runtime_s > 0
    promises = SOLVERS[name].capabilities.promises
    assert Promise.BOUND not in promises or result.bound is not None
    assert Promise.EXACT not in promises or result.status is Status.OPTIMAL


@pytest.mark.parametrize(("name", "problem"), cases(SMALL))
def test_the_optimum_of_brute_force_lies_between_bound_and_objective(name: str, problem: TopologyProblem) -> None:
    result = answer(name, problem)
    best = brute_force_optimum(problem)
    assert result.objective is not None
    assert result.objective >= best * (1 - 1e-9) - 1e-9
    assert result.bound is None or result.bound <= best * (1 + 1e-9) + 1e-9
    if Promise.EXACT in SOLVERS[name].capabilities.promises:
        assert result.objective == pytest.approx(best, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("problem", TINY + PAPER, ids=lambda problem: problem.name)
@pytest.mark.parametrize("strategy", [s for s in Strategy if len(exact_solvers(s, TINY[0])) > 1])
def test_all_exact_solvers_agree(strategy: Strategy, problem: TopologyProblem) -> None:
    results = [answer(name, problem.with_strategy(strategy)) for name in exact_solvers(strategy, problem)]
    assert {result.status for result in results} == {Status.OPTIMAL}
    assert len(results) > 1
    objectives = [result.objective for result in results]
    assert objectives == pytest.approx(objectives[:1] * len(objectives), rel=1e-9)


@pytest.mark.parametrize(("name", "problem"), cases(PAPER, Promise.EXACT))
@pytest.mark.parametrize("gap", [0.5, 0.02])
def test_an_exact_solver_stops_at_the_gap_asked_for_or_with_a_proof(
    name: str, problem: TopologyProblem, gap: float
) -> None:
    result = solved(name, problem, Budget(ENOUGH_S, gap=gap))
    assert result.gap is not None
    assert result.gap <= gap
    assert result.stopped_by is (StopReason.PROVED if result.gap <= EQUAL_RELATIVE else StopReason.GAP)
    assert result.status is (Status.OPTIMAL if result.stopped_by is StopReason.PROVED else Status.FEASIBLE)


@pytest.mark.parametrize(("name", "problem"), cases(TINY + PAPER))
def test_the_same_seed_gives_the_same_answer(name: str, problem: TopologyProblem) -> None:
    first, again = (solved(name, problem, Budget(iterations=30), seed=7) for _ in range(2))
    assert again.objective == first.objective
    assert again.status is first.status
    if name not in FOREIGN:
        assert again.solution.as_dict(problem) == first.solution.as_dict(problem)
        assert again.bound == first.bound


@pytest.mark.parametrize(("name", "problem"), cases(TINY + PAPER[:1]))
def test_a_warm_start_is_never_made_worse(name: str, problem: TopologyProblem) -> None:
    best = good_allocation(problem)
    result = SOLVERS[name].solve(problem, Budget(iterations=5), 0, best)
    verify_result(problem, result)
    assert result.objective is not None
    assert result.objective <= problem.objective(best)
    assert_consistent(problem, result)


@pytest.mark.parametrize("seconds", [1e-9, 1e-3, 2e-2])
@pytest.mark.parametrize(("name", "problem"), cases(SHIPPED[-1:] + PAPER))
def test_a_limit_that_is_too_short_still_gives_a_valid_answer(
    name: str, problem: TopologyProblem, seconds: float
) -> None:
    result = solved(name, problem, Budget(seconds))
    assert_consistent(problem, result)
    assert result.stopped_by in (StopReason.PROVED, StopReason.TIME_LIMIT, StopReason.COMPLETED, StopReason.ITERATIONS)
    if result.stopped_by is StopReason.COMPLETED and seconds == 1e-9:
        assert not SOLVERS[name].capabilities.promises & {Promise.EXACT, Promise.ANYTIME}


@pytest.mark.parametrize(("name", "problem"), cases(SHIPPED[:1] + PAPER[:1]))
def test_ctrl_c_gives_the_best_so_far(name: str, problem: TopologyProblem) -> None:
    def interrupt(incumbent: Incumbent) -> None:
        raise KeyboardInterrupt

    result = SOLVERS[name].solve(problem, Budget(ENOUGH_S), 0, None, interrupt)
    verify_result(problem, result)
    assert result.stopped_by is StopReason.INTERRUPTED
    assert result.status in (Status.INTERRUPTED, Status.OPTIMAL)
    assert len(result.incumbents) == 1


@pytest.mark.parametrize(("name", "problem"), cases(SHIPPED[:1]))
def test_a_solver_prints_nothing_on_stdout_and_leaves_the_global_generators_alone(
    name: str, problem: TopologyProblem, capfd: pytest.CaptureFixture[str]
) -> None:
    before = global_generators()
    solved(name, problem)
    assert global_generators() == before
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(("name", "problem"), cases(TINY + PAPER, Promise.EXACT))
def test_permuting_the_jobs_keeps_the_optimum(name: str, problem: TopologyProblem) -> None:
    order = np.random.default_rng(1).permutation(len(problem.jobs))
    permuted = with_jobs(problem, [problem.jobs[job] for job in order])
    assert solved(name, permuted).objective == pytest.approx(answer(name, problem).objective, rel=1e-9)


@pytest.mark.parametrize(("name", "problem"), cases(TINY + PAPER, Promise.EXACT))
@pytest.mark.parametrize("turn", ["rotated", "reversed"])
def test_rotating_or_reversing_the_idle_sequence_keeps_the_optimum(
    name: str, problem: TopologyProblem, turn: str
) -> None:
    m = len(problem.idle_nodes)
    order = np.roll(np.arange(m), m // 3) if turn == "rotated" else np.arange(m)[::-1]
    turned = resequenced(problem, order)
    assert solved(name, turned).objective == pytest.approx(answer(name, problem).objective, rel=1e-9)


@pytest.mark.parametrize("problem", TINY + PAPER, ids=lambda problem: problem.name)
@pytest.mark.parametrize("seed", range(3))
def test_relabelling_the_switches_keeps_what_is_proved_of_free(problem: TopologyProblem, seed: int) -> None:
    free = problem.with_strategy(Strategy.FREE)
    relabelled = resequenced(free, np.random.default_rng(seed).permutation(len(problem.idle_nodes)))
    bound = solved("greedy", free).bound
    assert solved("greedy", relabelled).bound == pytest.approx(bound, rel=1e-9)
    if problem in SMALL:
        assert optimum(relabelled) == pytest.approx(brute_force_optimum(free), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_an_idle_node_more_never_raises_the_bound_of_free(seed: int) -> None:
    problem = paper_window(seed)
    busy = np.setdiff1d(np.arange(1000), problem.idle_nodes)
    more = TopologyProblem(problem.topology, np.append(problem.idle_nodes, busy[seed * 50]), problem.jobs)
    assert solved("greedy", more).bound <= solved("greedy", problem).bound * (1 + 1e-12)  # type: ignore[operator]


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_a_solver_says_what_it_takes(name: str) -> None:
    solver = SOLVERS[name]
    assert solver.name == name
    assert solver.capabilities.strategies <= frozenset(Strategy)
    assert solver.kind == "topology"
    assert solver.capabilities.strategies
    assert solver.capabilities.largest
    assert solver.version
