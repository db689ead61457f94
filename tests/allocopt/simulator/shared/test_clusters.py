"""Simulations of workloads on clusters: what jobs get, who is refused, and what is measured."""

from pathlib import Path

import numpy as np
import pytest

from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.named import NamedTree
from allocopt.cluster.reading import read_topology
from allocopt.cluster.request import Request
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.simulator.metrics import measure
from allocopt.simulator.rules import Rules
from allocopt.simulator.shared.admission import admitted, machine_of
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload


def jobs(
    processors: list[int], requests: list[Request | None] | None = None, run: float = 10.0, **columns: object
) -> Workload:
    """Return jobs that are submitted one second after the other."""
    n = len(processors)
    asked = np.empty(n if requests else 0, dtype=np.object_)
    asked[:] = requests or []
    times = {"submit": np.arange(n, dtype=float), "run": np.full(n, run), "estimate": np.full(n, run), **columns}
    return Workload("jobs", np.arange(n), processors=np.array(processors), requests=asked, **times)  # type: ignore[arg-type]


def two_nodes(*partitions: Partition) -> Cluster:
    """Return two nodes of four cores, one of which has two GPUs."""
    return Cluster.of([ClusterNode("a", 4), ClusterNode("b", 4, gpus={"": 2})], None, partitions)


def test_cores_gpus_and_nodes_are_measured_each() -> None:
    asked = [Request(2, most_nodes=1), Request(1, gpus_per_node=(("", 1),)), Request.whole_nodes(1)]
    schedule = simulate(jobs([2, 1, 1], asked, submit=np.zeros(3)), two_nodes(), "fcfs")
    assert schedule.start.tolist() == [0, 0, 10]
    assert [nodes.tolist() for nodes in schedule.nodes or ()] == [[0], [1], [0]]
    machine = measure(schedule).machine
    # 2 + 1 cores for half of the time and 4 for the other half, of 8; one of two GPUs; two nodes, then one.
    assert dict(machine.utilization_by_resource) == pytest.approx({"cores": 7 / 16, "gpus": 1 / 4, "nodes": 3 / 4})
    assert machine.utilization == pytest.approx(7 / 16)


def test_a_node_is_idle_once_the_last_job_on_it_has_gone() -> None:
    # The second job holds the node beyond the first one's end.
    schedule = simulate(jobs([1, 1], run=10.0, submit=np.array([0.0, 5.0])), two_nodes(), "fcfs")
    assert dict(measure(schedule).machine.utilization_by_resource)["nodes"] == pytest.approx(1 / 2)


def test_jobs_over_the_limits_of_their_partition_are_refused_as_by_slurm() -> None:
    cluster = two_nodes(Partition("short", ("a", "b"), most_seconds=60, most_nodes=1), Partition("long", ("a",)))
    asked = [Request(1), Request(1, partition="long"), Request(2, 2), Request(9), Request(1, partition="none")]
    workload = jobs([1] * 5, asked, estimate=np.full(5, 100.0))
    with pytest.raises(InvalidProblemError, match=r"job 0: asks for 100 s, its partition allows 60 s"):
        simulate(workload, cluster)
    with pytest.raises(InvalidProblemError, match=r"job 3: asks for more cores .*; skip_oversized = true drops"):
        admitted(workload, cluster, in_nodes=False, skip_oversized=False)
    kept = admitted(workload, cluster, in_nodes=False, skip_oversized=True)
    assert kept.ids.tolist() == [1]
    assert len(admitted(workload.with_exact_estimates(), cluster, in_nodes=False, skip_oversized=True)) == 2
    assert kept.dropped == (
        ("over the time limit of partition short", 1),
        ("over the node limit of partition short", 1),
        ("more cores on a node than any node has", 1),
        ("partition none is not in the cluster", 1),
    )


def test_jobs_without_a_request_get_cores_or_where_they_are_alone_nodes() -> None:
    workload = jobs([2, 2])
    shared, alone = (Cluster.of(two_nodes().nodes, None, is_exclusive=alone) for alone in (False, True))
    assert simulate(workload, shared).start.tolist() == [0, 1]
    assert simulate(workload, alone).start.tolist() == [0, 10]
    in_nodes = admitted(workload, shared, in_nodes=True, skip_oversized=False)
    assert simulate(in_nodes, shared).start.tolist() == [0, 10]


def test_partitions_of_a_higher_tier_stand_first_and_orders_sort_within_them() -> None:
    cluster = two_nodes(Partition("low", ("a",)), Partition("high", ("a",), tier=2))
    asked = [Request(4), Request(4), Request(4), Request(4, partition="high")]
    workload = jobs([4] * 4, asked, submit=np.array([0.0, 1, 2, 3]), estimate=np.array([10.0, 30, 20, 90]))
    assert np.argsort(simulate(workload, cluster, "sjf").start).tolist() == [0, 3, 2, 1]


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ({"demands": {"gpus": np.ones(1, dtype=np.int64)}}, "on a cluster jobs have requests instead"),
        ({"allocator": "dp"}, "allocator 'dp' cannot be used on a cluster .* first, best-fit, least-loaded"),
    ],
)
def test_what_does_not_go_with_a_cluster_is_refused(asked: dict[str, object], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        simulate(jobs([1]), two_nodes(), **asked)  # type: ignore[call-overload]


def test_a_job_joins_the_queue_when_its_preceding_one_has_ended() -> None:
    workload = jobs([4, 4], preceding=np.array([-1, 0]), think_s=np.array([0.0, 2.5]))
    ended = simulate(workload, two_nodes()).end[0]
    found = simulate(workload, two_nodes())
    assert (found.release.tolist(), found.start.tolist()) == ([0, ended + 2.5], [0, ended + 2.5])
    assert simulate(workload, two_nodes(), rules=Rules(dependencies=False)).start.tolist() == [0, 1]


def site(shared_data: Path, name: str) -> NamedTree:
    return read_topology(shared_data / "sites" / "topologies" / name)


@pytest.mark.parametrize(("name", "most"), [("slurm133_6.conf", 16), ("slurmman_block.conf", 128)])
def test_no_job_starts_that_slurm_leaves_pending(shared_data: Path, name: str, most: int) -> None:
    topology = site(shared_data, name)
    machine = machine_of(topology)
    assert isinstance(machine, Cluster)
    workload = jobs([most, min(most + 1, topology.tree.size)], submit=np.zeros(2))
    kept = admitted(workload, machine, in_nodes=False, skip_oversized=True)
    assert kept.processors.max() == most
    schedule = simulate(kept, machine, allocator="lowest-switch")
    for nodes, processors in zip(schedule.nodes or (), kept.processors.tolist(), strict=True):
        for groups, spanned in zip(topology.tree.groups, topology.most_groups(processors), strict=True):
            assert spanned == 0 or len(np.unique(groups[nodes])) <= spanned


def test_a_job_waits_for_blocks_although_as_many_nodes_are_idle(shared_data: Path) -> None:
    machine = machine_of(site(shared_data, "slurmman_block.conf"))
    assert isinstance(machine, Cluster)
    # Each of four leaves 12 of 32 nodes of a block idle, 48 together; the last asks for 30, one block by the rule.
    schedule = simulate(jobs([20, 20, 20, 20, 30], submit=np.zeros(5)), machine, "fcfs")
    assert schedule.start.tolist() == [0, 0, 0, 0, 10]


def test_jobs_on_a_torus_are_refused_as_their_placements_are_not_known(shared_data: Path) -> None:
    machine = machine_of(site(shared_data, "slurm_test161.yaml"))
    assert isinstance(machine, Cluster)
    with pytest.raises(UsageError, match="a cluster with rings or toruses cannot be simulated"):
        simulate(jobs([5]), machine)


def test_one_joined_tree_keeps_the_machine_of_whole_nodes(shared_data: Path) -> None:
    assert not isinstance(machine_of(site(shared_data, "slurm133_1.conf")), Cluster)
