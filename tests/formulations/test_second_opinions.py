"""FREE and DCAS by models for CP-SAT and SCIP: the same optima as the project's own methods and as brute force."""

import numpy as np
import pytest
from support.brute_force import optimum
from support.counts import optimum_by_counts
from support.second_opinions import CpSat, Modeller, Scip, optimum_by_model
from support.windows import window

from allocopt.cluster.topology import FatTree
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.result import Status
from allocopt.solving.solve import solve

pytestmark = pytest.mark.slow

both = pytest.mark.parametrize("modeller", [CpSat, Scip])


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


@both
@pytest.mark.parametrize("seed", range(20))
def test_free_by_counts_has_the_optimum_that_exact_proves(modeller: type[Modeller], seed: int) -> None:
    problem = case(seed, 13, Strategy.FREE)
    best = optimum_by_model(problem, modeller())
    assert best == pytest.approx(proved(problem, "exact"), rel=1e-9, abs=1e-9)
    assert best == pytest.approx(optimum_by_counts(problem), rel=1e-9, abs=1e-9)


@both
@pytest.mark.parametrize("seed", range(20))
def test_dcas_without_crossings_has_the_optimum_that_dp_proves(modeller: type[Modeller], seed: int) -> None:
    problem = case(seed, 8, Strategy.DCAS, most_jobs=3)
    best = optimum_by_model(problem, modeller())
    assert best == pytest.approx(proved(problem, "dp"), rel=1e-9, abs=1e-9)
    assert best == pytest.approx(optimum(problem), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_models_know_that_narrower_strategies_cost_more(seed: int) -> None:
    problem = case(seed, 9, Strategy.DCAS)
    scas = proved(problem.with_strategy(Strategy.SCAS), "dp")
    dcas = optimum_by_model(problem, CpSat())
    free = optimum_by_model(problem.with_strategy(Strategy.FREE), CpSat())
    assert free <= dcas * (1 + 1e-9)
    assert dcas <= scas * (1 + 1e-9)
