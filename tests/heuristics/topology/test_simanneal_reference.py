"""Solver ``simanneal``: the same move through the package, leaving the process as it was."""

import random
import signal
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clocks import LooksBudget
from support.windows import paper_window, window, windows

from allocopt.cluster.topology import FatTree
from allocopt.errors import UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.result import Result, StopReason
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify_result
from heuristics.topology.annealing import Annealing, WindowAnnealing
from heuristics.topology.simanneal_reference import LARGEST_WINDOW, SimannealReference, destroy_and_repair


class PapersMove(WindowAnnealing):
    """The kernel's walk with the paper's move under either strategy."""

    name = Annealing.name
    capabilities = Annealing.capabilities
    restores = True


BOTH = [Strategy.DCAS, Strategy.FREE]


def solved(problem: TopologyProblem, budget: Budget, seed: int = 0) -> Result:
    result = SimannealReference().solve(problem, budget, seed)
    verify_result(problem, result)
    return result


@pytest.mark.parametrize("strategy", BOTH)
@settings(max_examples=30)
@given(problem=windows(most_idle=10, most_jobs=4), seed=st.integers(0, 2**32))
def test_the_answer_obeys_the_strategy(strategy: Strategy, problem: TopologyProblem, seed: int) -> None:
    result = solved(problem.with_strategy(strategy), Budget(iterations=30), seed)
    assert result.stopped_by is StopReason.ITERATIONS
    assert result.objective is not None
    sequential = solve(problem, solver="sequential").objective
    assert sequential is not None
    assert result.objective <= sequential


@given(windows(most_idle=12, most_jobs=4), st.integers(1, 4), st.integers(0, 2**32))
def test_a_move_keeps_the_sizes(problem: TopologyProblem, most: int, seed: int) -> None:
    owners = np.repeat(np.arange(len(problem.jobs)), problem.sizes)
    owners = np.append(owners, np.full(len(problem.idle_nodes) - len(owners), -1))
    moved = destroy_and_repair(owners, problem.sizes, most, np.random.default_rng(seed))
    assert np.bincount(moved + 1, minlength=len(problem.jobs) + 1)[1:].tolist() == problem.sizes.tolist()


def test_python_random_is_left_as_it_was() -> None:
    random.seed(99)
    before = random.getstate()
    solved(paper_window(1), Budget(iterations=50))
    assert random.getstate() == before


def test_the_handler_of_ctrl_c_is_left_as_it_was() -> None:
    before = signal.getsignal(signal.SIGINT)
    solved(paper_window(1), Budget(iterations=50))
    assert signal.getsignal(signal.SIGINT) is before


def test_it_works_off_the_main_thread() -> None:
    results: list[Result] = []
    problem = paper_window(1)
    thread = threading.Thread(target=lambda: results.append(solved(problem, Budget(iterations=50))))
    thread.start()
    thread.join()
    assert results[0].objective == solved(problem, Budget(iterations=50)).objective


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    solved(paper_window(1), Budget(iterations=50))
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_seed_fixes_the_answer_whatever_the_global_generator_was_at() -> None:
    problem = paper_window(1)
    first = solved(problem, Budget(iterations=200), 5)
    random.random()
    again = solved(problem, Budget(iterations=200), 5)
    assert first.solution.as_dict(problem) == again.solution.as_dict(problem)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", BOTH)
def test_it_is_as_good_as_the_kernel_on_average(strategy: Strategy) -> None:
    problems = [paper_window(seed, strategy) for seed in range(8)]
    ours = np.mean([PapersMove(steps=500).solve(problem, Budget(), 0).objective for problem in problems])
    theirs = np.mean([solved(problem, Budget(iterations=500)).objective for problem in problems])
    assert ours == pytest.approx(theirs, rel=0.03)


@pytest.mark.parametrize("looks", [0, 1, 7])
def test_cut_off_anywhere_it_is_valid(looks: int) -> None:
    result = solved(paper_window(1, Strategy.DCAS), LooksBudget(looks=looks))
    assert result.stopped_by is StopReason.TIME_LIMIT


def test_beyond_the_stated_size_it_says_so_at_once() -> None:
    problem = window(FatTree(100, 10, 100), range(LARGEST_WINDOW + 1), [2])
    with pytest.raises(UsageError, match="20,001 idle nodes"):
        solve(problem, solver="simanneal")
    assert SimannealReference().refusal(window(FatTree(100, 10, 100), range(LARGEST_WINDOW), [2])) is None
