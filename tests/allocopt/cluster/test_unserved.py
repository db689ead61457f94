"""Reasons for which a cluster can never serve a job."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_clusters import KINDS, random_case
from support.slow_cluster import dropped_because, slow_jobs

from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.request import Request
from allocopt.cluster.unserved import OverLimitError, UnservedError, counted
from allocopt.simulator.shared.admission import admitted

NODES = (
    *(ClusterNode(f"c{one}", 8, 1000, features=frozenset({"old", "ib"})) for one in range(4)),
    *(ClusterNode(f"g{one}", 8, 2000, {"a100": 4}, frozenset({"new", "ib"})) for one in range(2)),
)
SITE = Cluster.of(
    NODES,
    None,
    (
        Partition("cpu", ("c0", "c1", "c2", "c3")),
        Partition("gpu", ("g0", "g1")),
        Partition("debug", ("c0", "c1"), most_nodes=1),
    ),
)

REASONS = {
    "partition old is not in the cluster": Request(partition="old"),
    "no node has GPUs of type h100": Request(gpus_per_node=(("h100", 1.0),), partition="gpu"),
    "no node of partition cpu has GPUs of type a100": Request(gpus_per_task=(("a100", 1.0),), partition="cpu"),
    "no node of partition cpu has GPUs": Request(gpus_per_node=(("", 1.0),)),
    "no node has feature skylake": Request(constraint="skylake"),
    "no node of partition gpu has feature old": Request(partition="gpu", constraint="old&ib"),
    "no node meets constraint old&new": Request(constraint="old&new"),
    "asks for a constraint that counts nodes, which is not modelled": Request(6, 6, constraint="[old*2&new*4]"),
    "constraint old&| is not understood": Request(constraint="old&|"),
    "asks for gres/shard, which is not modelled": Request(partition="gpu", unmodelled=("gres/shard",)),
    "over the node limit of partition debug": Request(2, 2, partition="debug"),
    "larger than the machine": Request(49, 7, partition="cpu"),
    "more cores on a node than any node has": Request(1, cores_per_task=999.0),
    "more memory on a node than any node has": Request(memory_per_node_mib=10**9),
    "more GPUs of type a100 on a node than any node has": Request(partition="gpu", gpus_per_node=(("a100", 99.0),)),
    "more GPUs on a node than any node has": Request(partition="gpu", gpus_per_task=(("", 99.0),)),
    "larger than partition gpu": Request(3, 3, partition="gpu"),
    "larger than the nodes that it requires": Request(2, 2, required="c1"),
    "larger than the nodes that it does not exclude": Request(3, 3, excluded="c[0-1]"),
    "requires a node that is not in the cluster": Request(required="x1"),
    "excludes a node that is not in the cluster": Request(excluded="x1"),
    "list of the nodes that it requires is not understood": Request(required="c["),
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_job_that_is_never_served_has_its_true_reason(reason: str) -> None:
    with pytest.raises(UnservedError) as raised:
        REASONS[reason].on(SITE)
    assert raised.value.reason == reason
    assert isinstance(raised.value, OverLimitError) == reason.startswith("over ")


def test_a_job_larger_than_the_nodes_of_its_constraint_is_told_so() -> None:
    mixed = Cluster.of(NODES, None, (Partition("all", tuple(node.name for node in NODES)),))
    with pytest.raises(UnservedError) as raised:
        Request(3, 3, constraint="new").on(mixed)
    assert raised.value.reason == "larger than the nodes that meet constraint new"


def test_a_job_of_a_range_gets_at_most_the_nodes_that_its_partition_allows() -> None:
    few = Cluster.of(NODES, None, (Partition("few", tuple(node.name for node in NODES), most_nodes=2),))
    assert Request(5, 1, 4).on(few).most_nodes == 2
    assert Request(5).on(few).most_nodes == 2
    assert Request(5, 1, 1).on(few).most_nodes == 1


def test_a_long_name_in_a_reason_is_cut_and_stays_on_its_line() -> None:
    with pytest.raises(UnservedError) as raised:
        Request(partition="x\n" * 100).on(SITE)
    assert len(raised.value.reason) < 100
    assert raised.value.reason.isprintable()


@given(st.integers(0, 10**6), st.sampled_from(KINDS))
def test_every_dropped_job_is_counted_under_exactly_one_reason(seed: int, kind: str) -> None:
    case = random_case(seed, kind)
    kept = admitted(case.workload, case.cluster, in_nodes=False, skip_oversized=True)
    why = [dropped_because(case.cluster, job) for job in slow_jobs(case.workload, case.cluster)]
    slow = Counter(why)
    assert len(kept) == slow.pop("", 0)
    assert sum(jobs for _, jobs in kept.dropped) == slow.total()
    # Limits are told as such, unless no node would serve the job without them either; all else is for want of room.
    of_nodes = ("over the node limit", "below the node minimum")
    told = sum(jobs for reason, jobs in kept.dropped if reason.startswith(of_nodes))
    partitions = tuple(replace(one, least_nodes=1, most_nodes=None) for one in case.cluster.partitions)
    free = replace(case.cluster, partitions=partitions)
    without = [dropped_because(free, job) for job in slow_jobs(case.workload, free)]
    twice = sum(one == "nodes" and other == "room" for one, other in zip(why, without, strict=True))
    assert slow["nodes"] - twice <= told <= slow["nodes"]
    assert len({reason for reason, _ in kept.dropped}) == len(kept.dropped)


@given(st.lists(st.sampled_from(["", "a", "b", "c"])))
def test_reasons_are_counted_in_the_order_in_which_they_come(reasons: list[str]) -> None:
    assert dict(counted(reasons)) == Counter(filter(None, reasons))
    assert [reason for reason, _ in counted(reasons)] == list(dict.fromkeys(filter(None, reasons)))
