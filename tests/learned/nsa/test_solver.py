"""Solver ``nsa`` beyond what the contract of all solvers asks."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.windows import fat_trees, paper_window, trees, window, windows

from allocopt.cluster.topology import FatTree, hop_costs
from allocopt.errors import BadFileError, UsageError
from allocopt.heuristics.topology.annealing import Rules, Schedule, Walk
from allocopt.learned.nsa.networks import NETWORKS
from allocopt.learned.nsa.solver import Nsa, _draw_action, anneal_guided, node_features
from allocopt.learned.weights import Card, write_weights
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, Job, TopologyProblem
from allocopt.problems.topology.tables import encode
from allocopt.solving.budget import Budget
from allocopt.solving.result import Result, StopReason
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify_result


def solved(solver: Nsa, problem: TopologyProblem, steps: int = 40, seed: int = 0) -> Result:
    result = solver.solve(problem, Budget(iterations=steps), seed)
    verify_result(problem, result)
    return result


# Of the last one a state does not show all idle nodes.
PROBLEMS = [*map(paper_window, range(3)), window(FatTree(10, 10, 10), range(0, 1000, 2), [40, 30, 20, 2])]


@pytest.mark.parametrize("network", sorted(NETWORKS))
@pytest.mark.parametrize("strategy", ["dcas", "free"])
def test_every_shipped_network_allocates_better_than_the_sequence(network: str, strategy: str) -> None:
    for problem in (each.with_strategy(strategy) for each in PROBLEMS):
        result = solved(Nsa(network), problem, 200)
        assert result.objective is not None
        assert result.objective < problem.objective(Allocation.sequential(problem))
        assert result.stopped_by is StopReason.ITERATIONS


@pytest.mark.parametrize("strategy", [Strategy.DCAS, Strategy.FREE])
@given(problem=windows(most_idle=12, most_jobs=4, topologies=fat_trees | trees()), seed=st.integers(0, 2**32))
def test_the_answer_is_valid_on_any_tree(strategy: Strategy, problem: TopologyProblem, seed: int) -> None:
    solved(Nsa("fcn-1"), problem.with_strategy(strategy), 20, seed)


@pytest.mark.parametrize("walk", ["metropolis", "published"])
@pytest.mark.parametrize("strategy", ["dcas", "free"])
@pytest.mark.parametrize("seed", range(3))
def test_costs_kept_by_the_guided_walk_are_those_of_a_full_count(walk: str, strategy: str, seed: int) -> None:
    problem = paper_window(seed).with_strategy(strategy)
    solver = Nsa("fcn-1", walk=walk)
    state = Walk.at(problem, Allocation.sequential(problem))
    schedule = Schedule(solver.hottest, solver.coldest, 200, solver.most_removed)
    rules = Rules.of(problem, schedule, restores=walk == "metropolis")
    anneal_guided(encode(problem), state, rules, solver._guide(problem), 0, 200, np.random.default_rng(seed))
    for owners, total in ((state.accepted, state.totals[0]), (state.best, state.totals[1])):
        nodes = Allocation.of_owners(problem, owners).nodes
        assert total == pytest.approx(hop_costs(problem.topology, problem.hop_cost, nodes).sum(), rel=1e-9)
    same = state.working.tolist() == state.accepted.tolist()
    assert same or walk == "published"


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8), st.sampled_from([0.0, 0.5, 1.0]))
@example([-200.0, 300.0, 0.0], 1.0)
@settings(max_examples=20)
def test_actions_are_drawn_by_the_soft_maximum_of_the_logits(logits: list[float], sharpness: float) -> None:
    given_logits, rng, draws = np.array(logits, dtype=np.float32), np.random.default_rng(3), 3000
    counts = np.bincount(
        [_draw_action(given_logits.copy(), sharpness, rng) for _ in range(draws)], minlength=len(logits)
    )
    weights = np.exp(sharpness * (given_logits - given_logits.max()))
    assert counts / draws == pytest.approx(weights / weights.sum(), abs=0.05)


def test_switches_and_pods_are_numbered_from_one_and_divided_by_their_number() -> None:
    problem = window(FatTree(2, 2, 3), [0, 4, 11], [2])
    assert node_features(problem) == pytest.approx(np.array([[0.25, 0.5, 1.0], [0.5, 0.5, 1.0]]))


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"network": "cnn-4"}, "no network 'cnn-4'; must be one of fcn-1"),
        ({"walk": "random"}, "must be one of metropolis, published"),
        ({"sharpness": -1.0}, "sharpness"),
        ({"hottest": 0.0}, "temperatures"),
        ({"steps": 0}, "steps"),
    ],
)
def test_an_option_out_of_range_is_refused(options: dict[str, object], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        Nsa(**options)  # type: ignore[arg-type]


def test_a_file_of_a_network_that_is_none_of_the_papers_is_named(tmp_path: Path) -> None:
    path = tmp_path / "own.safetensors"
    write_weights(path, {}, Card("nsa", "cnn-9", 0, 0, "", "", "", {}))
    fault = r"own\.safetensors: network is 'cnn-9', must be one of fcn-1"
    for weights, told in ((path, fault), (tmp_path / f"{'x' * 300}.safetensors", "cannot be read")):
        with pytest.raises(BadFileError, match=told):
            solve(paper_window(0), solver=Nsa(str(weights)))


def test_options_and_hop_cost_may_be_whole_numbers() -> None:
    problem = TopologyProblem(FatTree(2, 2, 3), np.arange(12), (Job("a", 5), Job("b", 4)), hop_cost=1000)
    solver = Nsa("fcn-1", hottest=25, coldest=1, sharpness=1)
    assert solved(solver, problem).objective == solved(solver, replace(problem, hop_cost=1000.0)).objective
