"""The builder of windows: the problem that its jobs make, and the nodes of each job."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.named import NamedTree, placed_tree
from allocopt.cluster.request import Request
from allocopt.cluster.topology import FatTree
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.model import Model
from allocopt.problems.placement.problem import PlacementProblem
from allocopt.problems.topology.side_constraints import SideConstraints
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify
from allocopt.topology import Groups, Job, Preference, Segments, TopologyProblem


def named(tree: FatTree) -> NamedTree:
    return NamedTree(tree, tuple(f"node{number:02d}" for number in range(tree.size)))


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_a_model_costs_what_the_problem_of_its_arrays_costs(sizes: list[int]) -> None:
    model = Model(FatTree(2, 2, 3))
    jobs = [model.add_job(size) for size in sizes]
    answer = model.solve(solver="exact", time_limit=60.0)
    arrays = tuple(Job(str(number), size) for number, size in enumerate(sizes, 1))
    same = solve(TopologyProblem(FatTree(2, 2, 3), np.arange(12), arrays), solver="exact", time_limit=60.0)
    assert answer.result.objective == same.objective
    assert [len(answer[job]) for job in jobs] == sizes
    assert verify(answer.problem, answer.result.found()) == answer.result.objective


def test_jobs_keep_to_their_rules_and_nodes_have_the_names_of_the_cluster() -> None:
    model = Model(named(FatTree(2, 2, 2)), idle_nodes=[0, 1, 2, 4, 5, 6])
    wide, narrow = model.add_job(3, "wide", within="pod"), model.add_job(2, within="leaf")
    assert (wide.placement, narrow.id) == (SideConstraints(within="pod"), "2")
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


LEAVES, PER_LEAF = 4, 3
"""Leaf switches of the clusters below, two a pod, and their nodes."""


def cluster(*partitions: Partition) -> Cluster:
    """Return a cluster of nodes of four cores, those of the last leaf with two GPUs each."""
    leaf_of = {f"node{number:02d}": number // PER_LEAF for number in range(LEAVES * PER_LEAF)}
    tree = placed_tree({node: (f"pod{leaf // 2}", f"leaf{leaf}") for node, leaf in leaf_of.items()})
    nodes = (ClusterNode(node, 4, gpus={"": 2} if leaf == LEAVES - 1 else {}) for node, leaf in leaf_of.items())
    return Cluster.of(nodes, tree, partitions)


def test_jobs_share_nodes_of_a_cluster_and_have_their_tasks_there() -> None:
    model = Model(cluster())
    wide, accelerated = model.add_job(tasks=6, cores=2), model.add_job(tasks=2, gpus=1.0)
    answer = model.solve(time_limit=60.0)
    assert isinstance(answer.problem, PlacementProblem)
    assert sum(answer.tasks(wide).values()) == 6
    assert len(answer[wide]) == PER_LEAF
    # Both GPUs of one node serve both tasks, so that no hop costs anything.
    assert [*answer.tasks(accelerated).values()] == [2]
    assert str(next(iter(answer[accelerated]))) >= f"node{(LEAVES - 1) * PER_LEAF:02d}"


def test_a_job_gets_nodes_of_its_partition() -> None:
    model = Model(cluster(Partition("all", ("node00", "node01")), Partition("far", ("node06",))))
    far = model.add_job(tasks=1, partition="far")
    whole = model.add_job(1, partition="far")
    answer = model.solve(time_limit=60.0)
    # The only node of the partition serves one of them.
    assert sorted([answer[far], answer[whole]]) == [(), ("node06",)]
    model.add_job(tasks=1, partition="near")
    with pytest.raises(InvalidProblemError, match="job 3: partition near is not in the cluster"):
        model.problem()


SIDE_CONSTRAINTS = st.fixed_dictionaries(
    {},
    optional={
        "within": st.sampled_from(["leaf", "pod", 1, 2]),
        "only_in": st.sampled_from([(Groups("pod", (0,)),), (Groups("leaf", (0, 3)),)]),
        "not_in": st.sampled_from([(Groups("leaf", (1,)),), (Groups("pod", (1,)),)]),
        "segments": st.sampled_from([(Segments(2, "leaf"),), (Segments(2, "pod"),), (Segments(1, "leaf"),)]),
    },
)


@given(jobs=st.lists(st.tuples(st.sampled_from([1, 2, 4]), SIDE_CONSTRAINTS), min_size=1, max_size=2))
def test_side_constraints_mean_the_same_on_whole_nodes_and_on_shared_ones(jobs: list[tuple[int, dict]]) -> None:
    apart = [Partition("most", tuple(f"node{n:02d}" for n in range(11))), Partition("last", ("node11",))]
    whole, shared = Model(named(FatTree(2, 2, 3)), idle_nodes=range(11)), Model(cluster(*apart))
    for nodes, rules in jobs:
        whole.add_job(nodes, **rules)
        shared.add_job(nodes, **rules)
    # A job of one core makes it a window of shared nodes.
    shared.add_job(tasks=1, partition="last")
    assert optimum(shared, "highs") == pytest.approx(optimum(whole, "exact"))


def optimum(model: Model, solver: str) -> float:
    """Return the least cost of placing all jobs; infinite if their rules contradict each other or the machine."""
    try:
        answer = model.solve(solver=solver, time_limit=None)
    except InvalidProblemError:
        return np.inf
    assert isinstance(answer.problem, PlacementProblem) == (solver == "highs")
    is_placed = answer.result.solution is not None and all(len(answer[job]) for job in model.jobs)
    return float(answer.result.objective) if is_placed else np.inf


def test_whole_nodes_of_a_cluster_are_a_window_of_whole_nodes() -> None:
    model = Model(cluster(), idle_nodes=[0, 1, 2, 4, 5, 6])
    wide = model.add_job(3, within="pod")
    answer = model.solve(time_limit=60.0)
    assert isinstance(answer.problem, TopologyProblem)
    assert len(answer[wide]) == 3
    assert list(answer.tasks(wide).values()) == [1, 1, 1]


def test_what_a_machine_cannot_give_is_refused() -> None:
    with pytest.raises(UsageError, match="need a cluster"):
        Model(FatTree(1, 1, 2)).add_job(tasks=2)
    with pytest.raises(UsageError, match="must ask for nodes, tasks or both"):
        Model(FatTree(1, 1, 2)).add_job()
    model = Model(cluster(), fragmentation_weight=1.0)
    model.add_job(request=Request(2))
    with pytest.raises(UsageError, match="fragmentation"):
        model.problem()
    model = Model(cluster())
    model.add_job(tasks=2, prefer=Preference("leaf", 10.0))
    with pytest.raises(InvalidProblemError, match=r"job 1\.prefer: needs a window in which every job gets whole nodes"):
        model.problem()


CLUSTER = Cluster.of([ClusterNode(f"n{number}", 4, memory_mib=100, gpus={"": 2}) for number in range(4)], None, [])


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ({"nodes": 2, "cores": 4.0}, "cores, gpus and memory_mib need tasks"),
        ({"nodes": 2, "memory_mib": 5}, "cores, gpus and memory_mib need tasks"),
        ({"nodes": 2, "request": Request(2)}, "nodes cannot be given together with request"),
        ({"gpus": 1.0, "request": Request(2)}, "gpus cannot be given together with request"),
        ({"tasks": 2.5}, "tasks is 2.5, must be a whole number"),
        ({"nodes": "2"}, "nodes is '2', must be a whole number"),
    ],
)
def test_what_a_job_cannot_ask_for_together_is_refused(asked: dict[str, Any], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        Model(CLUSTER).add_job(**asked)


@pytest.mark.parametrize(
    ("machine", "fields", "fault"),
    [
        (FatTree(2, 2, 2), {"free": np.ones((8, 1))}, "give idle_nodes"),
        (CLUSTER, {"free": np.ones((1, 1))}, r"free: has shape \(1, 1\)"),
        (CLUSTER, {"idle_nodes": [0, 99]}, "node 99 is outside 0..3"),
        (4, {}, "the machine is 4"),
    ],
)
def test_what_does_not_go_with_the_machine_of_a_model_is_refused(
    machine: Any, fields: dict[str, Any], fault: str
) -> None:
    def pose() -> None:
        model = Model(machine, **fields)
        model.add_job(1)
        model.problem()

    with pytest.raises((UsageError, InvalidProblemError), match=fault):
        pose()


def test_an_unknown_strategy_is_refused() -> None:
    model = Model(FatTree(2, 2, 2))
    model.add_job(1)
    with pytest.raises(UsageError, match="strategy is 'zigzag', must be one of scas, dcas, free"):
        model.problem("zigzag")
