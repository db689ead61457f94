"""The builder of windows: the problem that its jobs make, and the nodes of each job."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.named import NamedTree
from allocopt.cluster.topology import FatTree
from allocopt.errors import InvalidProblemError
from allocopt.problems.topology.placement import Placement
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify
from allocopt.topology import Job, Model, TopologyProblem


def named(tree: FatTree) -> NamedTree:
    return NamedTree(tree, tuple(f"node{number:02d}" for number in range(tree.size)))


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_a_model_costs_what_the_problem_of_its_arrays_costs(sizes: list[int]) -> None:
    model = Model(FatTree(2, 2, 3))
    jobs = [model.add_job(size) for size in sizes]
    answer = model.solve(solver="exact", time_limit=60.0)
    arrays = tuple(Job(str(number), size) for number, size in enumerate(sizes, 1))
    same = solve(TopologyProblem(FatTree(2, 2, 3), np.arange(12), arrays), None, "exact", 60.0)
    assert answer.result.objective == same.objective
    assert [len(answer[job]) for job in jobs] == sizes
    assert verify(answer.problem, answer.result.found()) == answer.result.objective


def test_jobs_keep_to_their_rules_and_nodes_have_the_names_of_the_cluster() -> None:
    model = Model(named(FatTree(2, 2, 2)), idle_nodes=[0, 1, 2, 4, 5, 6])
    wide, narrow = model.add_job(3, "wide", within="pod"), model.add_job(2, within="leaf")
    assert (wide.placement, narrow.id) == (Placement(within="pod"), "2")
    answer = model.solve(time_limit=60.0)
    pods = {int(str(name)[4:]) // 4 for name in answer[wide]}
    leaves = {int(str(name)[4:]) // 2 for name in answer[narrow]}
    assert (len(pods), len(leaves)) == (1, 1)
    assert set(answer[wide]).isdisjoint(answer[narrow])


def test_a_model_that_does_not_fit_and_a_job_of_another_one_are_refused() -> None:
    model, other = Model(FatTree(1, 1, 2)), Model(FatTree(1, 1, 2))
    job, strange = model.add_job(2), other.add_job(1, "strange")
    with pytest.raises(KeyError, match="strange"):
        model.solve()[strange]
    assert len(model.solve()[job]) == 2
    model.add_job(1)
    with pytest.raises(InvalidProblemError, match="only 2 are idle"):
        model.problem()
