"""Learned allocators beside proven optima, on shipped windows of seeds that their training refuses to use."""

import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from support.agents import write_permuted

from allocopt.learned.rl.training import RESERVED
from allocopt.learned.weights import FOLDER
from allocopt.problems.instances import read_problems
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.protocol import get_solver
from allocopt.solving.solution_files import read_best_known
from allocopt.solving.solve import solve

ROOT = Path(__file__).resolve().parents[1]
INSTANCES = ROOT / "instances"
NAMES = sorted(name for name in RESERVED.values() if name.endswith(".jsonl"))
WINDOWS_OF_A_FILE = 10

OPTIONS = {"nsa": "network", "lns-prices": "weights"}
"""Option of each allocator that names its file of weights."""
SHIPPED = {"nsa": "nsa-cnn-3", "lns-prices": "lns-prices"}
STEPS = {"nsa": 100, "lns-prices": 1}
"""Steps so few that what is not learned is not made up for by search."""
GAPS = {("nsa", "dcas"): 0.07, ("nsa", "free"): 0.07, ("lns-prices", "free"): 0.015}
"""How far the costs of a learned allocator may lie above the proven optima, all together."""


@cache
def shipped() -> tuple[TopologyProblem, ...]:
    return tuple(problem for name in NAMES for problem in read_problems(ROOT / name)[:WINDOWS_OF_A_FILE])


def gap(name: str, strategy: str, options: Mapping[str, str], steps: int = 0) -> float:
    """Return by how much the costs lie above the proven optima, none of which may be undercut or excluded."""
    solver, known = get_solver(name, options), read_best_known(INSTANCES / "best_known.json")
    cost, optimum = 0.0, 0.0
    for problem in shipped():
        best = known[problem.name][strategy]
        assert best.proved
        result = solve(
            problem, strategy=strategy, solver=solver, time_limit=None, seed=1, iterations=steps or STEPS[name]
        )
        assert result.objective is not None
        assert result.objective >= best.objective * (1 - 1e-9)
        assert (result.bound or 0.0) <= best.objective * (1 + 1e-9)
        cost, optimum = cost + result.objective, optimum + best.objective
    return cost / optimum - 1


@pytest.mark.parametrize(("solver", "strategy"), sorted(GAPS))
def test_a_learned_allocator_is_valid_never_below_the_optimum_and_near_it(solver: str, strategy: str) -> None:
    assert gap(solver, strategy, {}) <= GAPS[solver, strategy]


def test_three_hundred_steps_with_prices_come_within_two_thousandths_of_the_optima() -> None:
    assert gap("lns-prices", "free", {}, steps=300) <= 0.002


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("solver", "strategy"), sorted(GAPS))
def test_with_permuted_weights_it_is_not_near(solver: str, strategy: str, seed: int, tmp_path: Path) -> None:
    path = write_permuted(FOLDER / f"{SHIPPED[solver]}.safetensors", seed, tmp_path)
    assert gap(solver, strategy, {OPTIONS[solver]: path}) > GAPS[solver, strategy]


@pytest.mark.slow
@pytest.mark.parametrize("solver", sorted(SHIPPED))
def test_learned_allocators_solve_without_torch(solver: str) -> None:
    program = (
        "import sys, allocopt\n"
        "problem = allocopt.read_problems(sys.argv[1])[0]\n"
        "asked = {'solver': sys.argv[2], 'strategy': 'free', 'time_limit': None, 'iterations': 20}\n"
        "assert allocopt.solve(problem, **asked).objective > 0\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(INSTANCES / "paper.jsonl"), solver], check=True)
