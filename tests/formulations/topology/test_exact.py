"""Every exact solver proves the optimum of what it takes, and is valid wherever it is cut off."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.brute_force import optimum
from support.clocks import LooksBudget
from support.oracle import ROUNDING, OracleWindow
from support.results import assert_proved, solved_by
from support.windows import fat_trees, paper_window, resequenced, trees, window, windows

from allocopt.cluster.topology import FatTree, Topology
from allocopt.formulations.topology import dynamic_program
from allocopt.formulations.topology.dcas import search
from allocopt.formulations.topology.free.solver import ExactFree
from allocopt.formulations.topology.integer import ScipPaper
from allocopt.formulations.topology.prices.solver import LeafPrices
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, get_solver
from allocopt.solving.result import Result, Status, StopReason

SCAS, DCAS, FREE = Strategy
SOLVERS: dict[str, tuple[Solver, Strategy]] = {
    **{name: (get_solver(name), SCAS) for name in ("dp", "csp", "lagrangian", "scip", "highs", "cp-sat", "scip-paper")},
    "scip-paper --cancel": (ScipPaper(cancel=True), SCAS),
    "dp, dcas": (get_solver("dp"), DCAS),
    "exact": (get_solver("exact"), FREE),
    "prices": (get_solver("prices"), FREE),
}
"""One each for all tests, so that they share their child processes."""

FAST = ("dp", "lagrangian", "dp, dcas", "exact")

intervals = st.builds(FatTree, st.just(1), st.integers(1, 4), st.integers(1, 4), st.just((2, 4, 6)))
intervals |= st.builds(FatTree, st.integers(1, 4), st.just(1), st.integers(1, 4), st.just((1, 4, 20)))
shallow: st.SearchStrategy[Topology] = fat_trees | trees(levels=1) | trees(levels=2) | trees(levels=3)
TOPOLOGIES: dict[str, st.SearchStrategy[Topology]] = {"dp, dcas": fat_trees | intervals, "exact": shallow}

every = pytest.mark.parametrize("name", [name for name in SOLVERS if name != "prices"])


def solved(name: str, problem: TopologyProblem, budget: Budget = Budget()) -> Result:  # noqa: B008 (immutable)
    solver, strategy = SOLVERS[name]
    return solved_by(solver, problem.with_strategy(strategy), budget)


def relative(name: str) -> float:
    # HiGHS, to which `lagrangian` hands what is left, closes gaps to a millionth.
    return 1e-6 if name == "lagrangian" else 1e-9


@every
@given(data=st.data())
def test_the_optimum_of_brute_force_is_proved(name: str, data: st.DataObject) -> None:
    most_idle, most_jobs = (9, 4) if name in ("dp", "lagrangian", "dp, dcas") else (8, 3)
    topologies = TOPOLOGIES.get(name, fat_trees | trees())
    problem = data.draw(windows(most_idle, most_jobs, SOLVERS[name][1], topologies))
    assert_proved(solved(name, problem), optimum(problem), relative(name))


@pytest.mark.slow
@every
def test_all_proven_optima_are_reached_and_proved(name: str, oracle_windows: list[OracleWindow]) -> None:
    assert len(oracle_windows) == 36
    cases = oracle_windows if name in FAST else oracle_windows[::3]
    if name in ("scip-paper", "scip-paper --cancel", "csp"):
        # Those with more jobs and idle nodes take seconds each.
        most = (4, 1000) if name == "csp" else (3, 60)
        cases = [one for one in oracle_windows if (len(one.problem.jobs), len(one.problem.idle_nodes)) <= most]
        assert len(cases) >= 3
    for case in cases:
        result = solved(name, case.problem)
        assert result.status is Status.OPTIMAL
        assert result.objective == pytest.approx(case.optimum[SOLVERS[name][1]], rel=relative(name), abs=ROUNDING)
        assert result.bound == result.objective


@contextmanager
def sliced(size: int) -> Iterator[None]:
    """Look at the clock after so much work of a dynamic program."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (dynamic_program, search):
            patch.setattr(module, "SLICE", size)
        yield


def assert_encloses(result: Result, best: float, relative: float = 1e-9) -> None:
    """Assert that the optimum lies between bound and objective."""
    assert result.objective >= best * (1 - relative) - 1e-9
    assert result.bound is None or result.bound <= best * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("name", ["dp", "dp, dcas", "exact", "prices"])
@given(data=st.data(), most=st.integers(1, 60))
def test_cut_off_anywhere_the_optimum_lies_between_bound_and_objective(
    name: str, data: st.DataObject, most: int
) -> None:
    is_dp = name.startswith("dp")
    any_windows = windows(most_idle=8, most_jobs=3) | windows(8, 3, topologies=trees(levels=4))
    problem = data.draw(windows(9, 4, SOLVERS[name][1], fat_trees) if is_dp else any_windows)
    with sliced(1):
        result = solved(name, problem, LooksBudget(looks=most - 1) if is_dp else Budget(iterations=most))
    assert is_dp or result.bound is not None
    assert_encloses(result, optimum(problem))


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "most"), [(ExactFree(1), 0.05), (ExactFree(300), 0.05), (LeafPrices(), 1.0)])
def test_known_optima_lie_between_bound_and_objective_of_a_short_search(
    solver: Solver, most: float, oracle_windows: list[OracleWindow]
) -> None:
    for case in oracle_windows:
        problem = case.problem.with_strategy(FREE)
        result = solved_by(solver, problem, Budget(iterations=None if most < 1.0 else 20), 0)
        assert result.gap <= most
        assert_encloses(result, case.optimum[FREE], ROUNDING / case.optimum[FREE])


@pytest.mark.parametrize("name", [*FAST, "prices"])
@pytest.mark.parametrize("looks", [*range(10), 15, 20, 30, 40, 80, 100, 150, 200, 400])
def test_wherever_it_is_cut_off_allocation_and_bound_are_valid(name: str, looks: int) -> None:
    problem = paper_window(4 if SOLVERS[name][1] is FREE else 3)
    best = solved("exact" if name == "prices" else name, problem).objective
    with sliced(400 if name == "dp" else 2000):
        result = solved(name, problem, LooksBudget(looks=looks))
    assert_encloses(result, best, relative(name))
    if name in FAST:
        assert result.stopped_by is (StopReason.PROVED if result.status is Status.OPTIMAL else StopReason.TIME_LIMIT)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dp", "dp, dcas"])
@pytest.mark.parametrize("size", [1, 50])
def test_slices_of_the_tables_do_not_change_the_answer(name: str, size: int) -> None:
    problem = paper_window(1)
    whole = solved(name, problem)
    with sliced(size):
        assert solved(name, problem).solution.as_dict(problem) == whole.solution.as_dict(problem)


@given(windows(most_idle=10, most_jobs=4, strategy=DCAS, topologies=trees()), st.integers(0, 9))
def test_trees_are_taken_under_dcas_or_not_wherever_the_circle_is_cut(problem: TopologyProblem, turn: int) -> None:
    turned = resequenced(problem, np.roll(np.arange(len(problem.idle_nodes)), turn))
    dp = SOLVERS["dp"][0]
    refused = dp.refusal(problem)
    assert (refused is None) is (dp.refusal(turned) is None)
    assume(refused is None)
    assert_proved(solved("dp, dcas", turned), optimum(problem))


@pytest.mark.parametrize("name", [name for name, (_, strategy) in SOLVERS.items() if strategy is SCAS])
def test_a_job_that_wraps_around_the_end_of_the_sequence_is_found(name: str) -> None:
    problem = resequenced(window(FatTree(1, 3, 3), [0, 1, 2, 3, 6, 7], [3, 2]), [1, 2, 3, 4, 5, 0])
    result = solved(name, problem)
    assert [nodes.tolist() for nodes in result.solution.nodes] == [[0, 1, 5], [3, 4]]
    assert_proved(result, 1000 * (2 * (3 - 1) + 2 * (2 - 1)), relative(name))
