"""Learned allocators beside proven optima, on shipped windows of seeds that their training refuses to use."""

from functools import cache
from pathlib import Path

import pytest

from allocopt.files.best_known import read_best_known
from allocopt.files.instance import read_problems
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.registry import get_solver
from allocopt.solving.solve import solve
from learned.training.seeds import RESERVED

ROOT = Path(__file__).resolve().parents[1]
INSTANCES = ROOT / "instances"

GAPS = {("nsa", "dcas"): 0.10, ("nsa", "free"): 0.10, ("lns-prices", "free"): 0.02}
"""How far the mean cost of a learned allocator may lie above the mean of the proven optima."""

WINDOWS_OF_A_FILE = 10


@cache
def shipped(name: str) -> tuple[TopologyProblem, ...]:
    return tuple(read_problems(ROOT / name)[:WINDOWS_OF_A_FILE])


@pytest.mark.parametrize("name", sorted(name for name in RESERVED.values() if name.endswith(".jsonl")))
@pytest.mark.parametrize(("solver", "strategy"), sorted(GAPS))
def test_a_learned_allocator_is_valid_never_below_the_optimum_and_near_it(
    solver: str, name: str, strategy: str
) -> None:
    known = read_best_known(INSTANCES / "best_known.json")
    cost, optimum = 0.0, 0.0
    for problem in shipped(name):
        best = known[problem.name][strategy]
        assert best.proved
        result = solve(problem, strategy, solver, time_limit=None, seed=1)
        assert result.objective is not None
        assert result.objective >= best.objective * (1 - 1e-9)
        cost, optimum = cost + result.objective, optimum + best.objective
    assert cost <= (1 + GAPS[solver, strategy]) * optimum


def test_without_its_weights_nsa_would_be_further_off() -> None:
    learned, even = get_solver("nsa"), get_solver("nsa", {"sharpness": 0.0})
    costs = []
    for chosen in (learned, even):
        windows = shipped("instances/paper.jsonl")
        costs.append(
            sum(
                solve(p, "free", chosen, None, seed, iterations=60).objective or 0.0
                for p in windows
                for seed in range(3)
            )
        )
    assert costs[0] < costs[1]
