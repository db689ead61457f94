"""With numpy, numba, pydantic and typer alone: what has to work without any other package."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import allocopt
from allocopt.cluster import read_cluster
from allocopt.errors import MissingPackageError
from allocopt.traces.generators import uniform_workload

pytestmark = pytest.mark.light

SLURM_CONF = """\
ClusterName=small
NodeName=n[1-4] CPUs=8 RealMemory=16000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def test_shipped_instances_are_solved() -> None:
    for problem in allocopt.read_problems("@tiny"):
        result = allocopt.solve(problem, strategy="scas", time_limit=None)
        assert str(result.status) == "OPTIMAL"


def test_a_cluster_is_read_and_jobs_are_placed_on_it(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(SLURM_CONF, encoding="utf-8")
    model = allocopt.Model(read_cluster([path]))
    job = model.add_job(tasks=12, cores=2)
    answer = model.solve(time_limit=5.0)
    assert sorted(answer.tasks(job).values()) == [4, 4, 4]


@pytest.mark.parametrize("policy", ["fcfs", "wfp3+easy", "fcfs+conservative"])
def test_a_workload_is_simulated(policy: str) -> None:
    jobs = uniform_workload(200, np.random.default_rng(0), (1, 8), (10, 100), (1, 20))
    assert np.isfinite(allocopt.simulate(jobs, 8, policy).end).all()


@pytest.mark.skipif(find_spec("ortools") is not None, reason="all packages are installed")
def test_a_solver_that_needs_another_package_says_so_in_a_line() -> None:
    problem, missing = allocopt.read_problems("@tiny")[0], dict[str, str]()
    for name in allocopt.solver_names("topology"):
        try:
            solver = allocopt.get_solver(name)
            allocopt.solve(problem, strategy=min(solver.capabilities.strategies), solver=solver, iterations=5)
        except MissingPackageError as error:
            missing[name] = str(error)
    assert {"cp-sat", "scip", "highs", "simanneal"} <= missing.keys()
    assert {"dp", "lns", "greedy", "annealing", "auto"}.isdisjoint(missing)
    assert all("not installed" in told and len(told.splitlines()) == 1 for told in missing.values())
