"""FREE and DCAS by models for CP-SAT and SCIP: the same optima as the project's own methods and as brute force."""

from collections.abc import Callable

import numpy as np
import pytest
from support.brute_force import optimum
from support.counts import optimum_by_counts
from support.second_opinions import CpSat, Scip, optimum_by_model
from support.windows import window

from allocopt.cluster.topology import FatTree
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.result import Status
from allocopt.solving.solve import solve

pytestmark = pytest.mark.slow

TWINS = [(Strategy.FREE, 13, 4, "exact", optimum_by_counts), (Strategy.DCAS, 8, 3, "dp", optimum)]


def case(seed: int, m: int, strategy: Strategy, most_jobs: int = 4) -> TopologyProblem:
    """Return a window whose leaves and pods hold few idle nodes each; in a third of them all are taken."""
    rng = np.random.default_rng(seed)
    cluster = FatTree(3, 2, 3, (2, 4, 6) if seed % 2 else (1, 2, 7), "ordered" if seed % 4 else "unordered")
    idle = np.sort(rng.choice(cluster.size, size=m, replace=False))
    n_jobs = int(rng.integers(2, most_jobs + 1))
    cuts = np.sort(rng.choice(np.arange(1, m), size=n_jobs if seed % 3 else n_jobs - 1, replace=False))
    sizes = np.diff(cuts, prepend=0).tolist() if seed % 3 else np.diff(cuts, prepend=0, append=m).tolist()
    return window(cluster, idle, sizes, strategy=strategy, name=f"case-{seed}")


def proved(problem: TopologyProblem, solver: str) -> float:
    result = solve(problem, solver=solver, time_limit=None)
    assert result.status is Status.OPTIMAL
    assert result.objective is not None
    return result.objective


@pytest.mark.parametrize("modeller", [CpSat, Scip])
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("strategy", "m", "most_jobs", "solver", "enumerated"), TWINS)
def test_plain_models_have_the_optimum_that_is_proved_and_that_of_an_enumeration(
    strategy: Strategy,
    m: int,
    most_jobs: int,
    solver: str,
    enumerated: Callable[[TopologyProblem], float],
    seed: int,
    modeller: type[CpSat | Scip],
) -> None:
    problem = case(seed, m, strategy, most_jobs)
    best = optimum_by_model(problem, modeller())
    assert best == pytest.approx(proved(problem, solver), rel=1e-9, abs=1e-9)
    assert best == pytest.approx(enumerated(problem), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_models_know_that_narrower_strategies_cost_more(seed: int) -> None:
    problem = case(seed, 9, Strategy.DCAS)
    scas = proved(problem.with_strategy(Strategy.SCAS), "dp")
    dcas = optimum_by_model(problem, CpSat())
    free = optimum_by_model(problem.with_strategy(Strategy.FREE), CpSat())
    assert free <= dcas * (1 + 1e-9)
    assert dcas <= scas * (1 + 1e-9)
