"""The FREE optimum is found and proved, with rules or without, and the search shares its time."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clocks import ScriptedBudget
from support.counts import optimum_by_counts
from support.results import assert_proved, solved_by
from support.side import ruled_optimum, ruled_windows
from support.windows import fat_trees, paper_window, trees, window

from allocopt.cluster.topology import FatTree, Tree
from allocopt.errors import UsageError
from allocopt.formulations.topology.free import solver as module
from allocopt.formulations.topology.free.layers import Layers
from allocopt.formulations.topology.free.solver import Closing, ExactFree
from allocopt.problems.topology import Allocation, Job, TopologyProblem
from allocopt.problems.topology.side_constraints import Groups, Preference, Segments, SideConstraints
from allocopt.solving.budget import MOST_ITERATIONS, Budget
from allocopt.solving.protocol import Solver, get_solver
from allocopt.solving.result import Status, StopReason
from allocopt.solving.run import Run

SHALLOW = fat_trees | trees(levels=1) | trees(levels=2) | trees(levels=3)


solved = partial(solved_by, ExactFree())


@pytest.fixture
def greedy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let greedy be who looks for allocations, so that the layers have something to find."""
    monkeypatch.setattr(module, "SEARCHES", ("greedy",))


@pytest.mark.usefixtures("greedy_alone")
@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("seed", range(20))
def test_from_a_greedy_allocation_the_optimum_over_all_counts_is_proved(levels: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    leaves = np.sort(rng.integers(0, 5, size=14))
    pods = np.unique(leaves)[:, None] >= [2, 3]
    groups = {1: [], 2: [leaves], 3: [leaves, pods.sum(axis=1)[np.unique(leaves, return_inverse=True)[1]]]}[levels]
    names = [np.unique(level, return_inverse=True) for level in groups]
    tree = Tree(
        np.array([index for _, index in names], dtype=np.int64).reshape(levels - 1, 14),
        tuple(tuple(f"switch-{level}-{group}" for group in found) for level, (found, _) in enumerate(names)),
        tuple(range(2, 2 * levels + 1, 2)),
    )
    problem = window(tree, range(14), rng.integers(1, 5, size=4).tolist())
    assert_proved(solved(problem), optimum_by_counts(problem))


@pytest.fixture
def granted(monkeypatch: pytest.MonkeyPatch) -> list[Budget]:
    """Budgets of the searches, which find nothing."""
    budgets: list[Budget] = []
    monkeypatch.setattr(module, "ask", lambda _solver, _asked, budget, *_: budgets.append(budget))
    return budgets


def test_a_bound_that_does_not_fit_is_not_begun_and_the_search_gets_all_the_time(
    granted: list[Budget], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(module.Closing, "bound")
    result = solved(paper_window(3), ScriptedBudget(0.0008))
    assert granted == [Budget(0.0008, MOST_ITERATIONS)]
    assert result.stopped_by is StopReason.TIME_LIMIT


def test_the_search_leaves_time_for_a_bound_that_fits(granted: list[Budget]) -> None:
    result = solved(paper_window(3), ScriptedBudget(1.0, iterations=1))
    assert granted[0] == Budget(2 / 3, 1)
    assert result.bound is not None


def test_layers_that_do_not_fit_are_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = paper_window(4)
    run = Run(ExactFree(), problem, ScriptedBudget(1.0), 0, Allocation.sequential(problem))
    closing = Closing(problem, run, None)
    monkeypatch.setattr(Layers, "seconds_to_fill", lambda *_: 0.4)
    monkeypatch.delattr(Layers, "of")
    assert closing.distance() > 0.0
    assert not closing.close(1000)


@pytest.mark.parametrize("states", [0, 10**12])
def test_a_senseless_number_of_states_is_an_error(states: int) -> None:
    with pytest.raises(UsageError, match="states is"):
        ExactFree(states)


def test_another_search_takes_the_place_of_one_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_lns(name: str) -> Solver:
        if name == "lns":
            raise UsageError("there is no solver 'lns'")
        return get_solver(name)

    monkeypatch.setattr(module, "get_solver", without_lns)
    problem = paper_window(2)
    assert solved(problem).status is Status.OPTIMAL


@pytest.fixture
def nothing_to_begin_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody look for allocations, so that the layers have to find one."""
    monkeypatch.setattr(module, "improve", lambda *_: None)
    monkeypatch.setattr(Allocation, "trivial", lambda _: None)


ruled_by_levels = ruled_windows(most_idle=9, most_jobs=4, topologies=SHALLOW)


@pytest.mark.parametrize("start", ["an allocation", "nothing_to_begin_with"])
@given(problem=ruled_by_levels)
def test_the_optimum_is_proved_or_that_there_is_none(
    start: str, problem: TopologyProblem, request: pytest.FixtureRequest
) -> None:
    if start == "nothing_to_begin_with":
        request.getfixturevalue(start)
    best = ruled_optimum(problem)
    result = solved(problem)
    if best is None:
        assert result.status is Status.INFEASIBLE
        assert result.solution is result.objective is result.bound is None
    else:
        assert_proved(result, best)


deep = ruled_windows(most_idle=8, most_jobs=3, topologies=trees(levels=4))


@given(ruled_by_levels | deep, st.integers(1, 12) | st.none())
def test_cut_off_anywhere_bound_and_verdict_are_valid(problem: TopologyProblem, iterations: int | None) -> None:
    result = solved(problem, Budget(iterations=iterations))
    best = ruled_optimum(problem)
    if best is None:
        assert result.status in (Status.INFEASIBLE, Status.UNKNOWN)
        return
    assert result.status is not Status.INFEASIBLE
    assert result.bound is None or result.bound <= best * (1 + 1e-9) + 1e-9
    assert iterations is not None or result.bound is not None


@pytest.mark.parametrize("seed", range(4))
def test_rules_on_windows_of_the_paper_are_kept_to_proof(seed: int) -> None:
    problem, forbidden = paper_window(seed), Groups(2, (0, 3))
    rules = [
        SideConstraints(within="pod"),
        SideConstraints(prefer=Preference("leaf", 3000.0)),
        SideConstraints(not_in=(forbidden,)),
    ]
    jobs = [Job(job.id, job.nodes, rules[index % 3]) for index, job in enumerate(problem.jobs)]
    result = solved(replace(problem, jobs=tuple(jobs)), Budget(30.0))
    assert result.status in (Status.OPTIMAL, Status.INFEASIBLE)


@pytest.mark.usefixtures("nothing_to_begin_with")
def test_jobs_in_segments_may_share_two_leaves() -> None:
    # Three and two of five nodes in both leaves: the only way, and no forest.
    problem = window(FatTree(1, 2, 5), range(10), [6, 4])
    segments = (Segments(3, "leaf"), Segments(2, "leaf"))
    jobs = [
        replace(job, placement=SideConstraints(segments=(s,))) for job, s in zip(problem.jobs, segments, strict=True)
    ]
    result = solved(replace(problem, jobs=tuple(jobs)))
    assert result.status is Status.OPTIMAL
