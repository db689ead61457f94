"""The solver proves small and large windows, has a bound and a packing for all, and is valid wherever it is cut off."""

from pathlib import Path

import numpy as np
import pytest
from support.results import assert_proved
from support.windows import window

from allocopt.arrays import IntArray
from allocopt.cluster.topology import FatTree
from allocopt.problems.base import Strategy
from allocopt.problems.instances import read_problems
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.result import Result, StopReason
from allocopt.solving.verify import verify_result
from formulations.topology.lagrangian import solver as module
from formulations.topology.lagrangian.solver import LARGEST_BLOCKS, Lagrangian

SCAS = Strategy.SCAS
SOLVER = Lagrangian()
"""One for all tests, so that they share its child process."""

RELATIVE = 1e-6
"""Distance of an objective from the expected one that counts as none."""

LARGE = Path(__file__).parents[4] / "instances"


def solved(problem: TopologyProblem, budget: Budget = Budget(), seed: int = 0) -> Result:  # noqa: B008 (immutable)
    result = SOLVER.solve(problem, budget, seed)
    verify_result(problem, result)
    return result


def random_window(seed: int, idle: int, load: float, largest: int, topology: FatTree) -> TopologyProblem:
    """Idle nodes in runs, and jobs of 2 nodes or more that ask for a share of them."""
    rng = np.random.default_rng(seed)
    nodes: set[int] = set()
    while len(nodes) < idle:
        first = int(rng.integers(topology.size))
        nodes.update(range(first, min(topology.size, first + int(rng.geometric(0.1)))))
    wanted = int(load * idle)
    sizes: list[int] = []
    while sum(sizes) < wanted:
        sizes.append(min(int(rng.integers(2, largest)), wanted - sum(sizes)))
    idle_nodes: IntArray = np.array(sorted(nodes)[:idle])
    return window(topology, idle_nodes, sizes, strategy=SCAS)


@pytest.mark.slow
@pytest.mark.parametrize("load", [1.0, 0.97, 0.5])
@pytest.mark.parametrize("seed", range(2))
def test_a_large_window_has_a_near_packing_before_any_program(
    seed: int, load: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_NONZEROS", -1)
    result = solved(random_window(seed, 1000, load, 40, FatTree(10, 16, 25)))
    assert result.gap is not None
    assert result.gap < 0.015
    assert result.stopped_by in (StopReason.COMPLETED, StopReason.PROVED)


@pytest.mark.slow
def test_l1_is_proved_optimal() -> None:
    assert_proved(solved(read_problems(LARGE / "L1.json.gz")[0].with_strategy(SCAS)), 2246918.0529387025, RELATIVE)


@pytest.mark.slow
def test_l2_comes_near_its_bound_in_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROUNDS", 1)
    monkeypatch.setattr(module, "LARGEST_NONZEROS", -1)
    result = solved(read_problems(LARGE / "L2.json.gz")[0].with_strategy(SCAS))
    assert result.gap is not None
    assert result.gap < 0.003


def test_beyond_the_stated_number_of_blocks_it_says_so_at_once() -> None:
    topology = FatTree(100, 100, 100)
    sizes = list(range(1, 101))
    problem = window(topology, range(topology.size // 2), sizes, strategy=SCAS)
    assert len(problem.idle_nodes) * len(sizes) > LARGEST_BLOCKS
    refusal = SOLVER.refusal(problem)
    assert refusal is not None
    assert "50,000,000" in refusal
