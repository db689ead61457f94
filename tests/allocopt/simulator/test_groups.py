"""Groups of jobs, and what is measured of each."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workloads import MACHINE, crowds, workload

from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.platform import Platform
from allocopt.cluster.request import Request
from allocopt.cluster.topology import FatTree
from allocopt.errors import UsageError
from allocopt.simulator.described import Described
from allocopt.simulator.groups import GROUPINGS, UNKNOWN, groupings_named, measure_groups, overloaded_jobs
from allocopt.simulator.metrics import Trim, measure
from allocopt.simulator.schedule import HOP_COST, Schedule
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload

TREE = FatTree(2, 2, 2)
JOBS = workload([(job, 0.0, 10.0, size, 10.0) for job, size in enumerate((1, 2, 4, 5, 16, 17), 1)])
SITE = Cluster.of(
    (ClusterNode("c", 4), ClusterNode("g", 4, gpus={"a100": 4})),
    None,
    (Partition("cpu", ("c",)), Partition("gpu", ("g",))),
)


def asking(*requests: Request | None) -> Workload:
    asked = np.empty(len(JOBS), dtype=object)
    asked[: len(requests)] = requests
    return replace(JOBS, requests=asked)


def labels(name: str, jobs: Workload, cluster: Cluster | None = None) -> list[str]:
    return GROUPINGS[name].labels(jobs, cluster)


def test_jobs_are_in_the_partition_that_they_name_or_in_the_default_one() -> None:
    jobs = asking(Request(partition="gpu"), Request())
    assert labels("partition", jobs, SITE) == ["gpu", *["cpu"] * 5]
    assert labels("partition", jobs) == ["gpu", *[UNKNOWN] * 5]


def test_jobs_are_grouped_by_the_type_of_gpu_that_they_ask_for() -> None:
    jobs = asking(
        Request(gpus_per_node=(("a100", 2.0),)),
        Request(gpus_per_task=(("", 1.0),)),
        Request(gpus_per_node=(("a100", 0.0),)),
        Request(gpus_per_node=(("v100", 1.0), ("a100", 1.0))),
    )
    assert labels("gpus", jobs) == ["a100", "any", "none", "a100+v100", UNKNOWN, UNKNOWN]


def test_users_have_names_or_numbers_and_sizes_are_powers_of_four() -> None:
    named = np.array(["anna", "", "", "", "", ""], dtype=object)
    jobs = replace(JOBS, users=np.array([0, 7, -1, 7, 7, 7]), user_names=named, accounts=named)
    assert labels("user", jobs) == ["anna", "7", UNKNOWN, "7", "7", "7"]
    assert labels("account", jobs) == ["anna", *[UNKNOWN] * 5]
    assert labels("size", jobs) == ["1", "2-4", "2-4", "5-16", "5-16", "17-64"]
    assert GROUPINGS["size"].ordered(["17-64", "5-16", "1"]) == ["1", "5-16", "17-64"]
    assert GROUPINGS["user"].ordered(["b", "a", "c", "b"]) == ["b", "a", "c"]


def test_groupings_are_named_once_each_with_commas_or_alone() -> None:
    assert [one.name for one in groupings_named(["size, user", "size"])] == ["size", "user"]
    with pytest.raises(UsageError, match="no grouping 'queue'; there are partition, gpus, user, account, size"):
        groupings_named(["user,queue"])


def slow_measures(schedule: Schedule, members: list[int]) -> tuple[float, float, float, float | None]:
    """Return mean and longest wait, mean bounded slowdown and mean hop cost of some jobs, one job after the other."""
    waits, slowdowns, costs = [], [], []
    for job in members:
        wait = float(schedule.start[job] - schedule.release[job])
        run = float(schedule.end[job] - schedule.start[job])
        waits.append(wait)
        slowdowns.append(max(1.0, (wait + run) / max(run, 10.0)))
        nodes = [] if schedule.nodes is None else schedule.nodes[job].tolist()
        if len(nodes) > 1:
            hops = 0
            for one in nodes:
                for other in nodes:
                    if one != other:
                        hops += 2 if one // 2 == other // 2 else 4 if one // 4 == other // 4 else 6
            costs.append(HOP_COST * hops / len(nodes))
    n = len(members)
    return sum(waits) / n, max(waits), sum(slowdowns) / n, sum(costs) / len(costs) if costs else None


@given(crowds(MACHINE), st.data())
def test_groups_are_measured_as_by_hand_and_their_sums_are_the_whole(jobs: Workload, data: st.DataObject) -> None:
    one_of = st.sampled_from(["a", "b", "c"])
    held = data.draw(st.lists(one_of, min_size=len(jobs), max_size=len(jobs)))
    made = simulate(jobs, Platform.whole_nodes(TREE), "fcfs+easy")
    found = measure_groups(made, held, GROUPINGS["user"])
    assert {label: one.jobs for label, one in found.items()} == Counter(held)
    for label, one in found.items():
        members = [job for job, other in enumerate(held) if other == label]
        wait, longest, slowdown, cost = slow_measures(made, members)
        assert one.wait_s.mean == pytest.approx(wait)
        assert one.wait_s.maximum == pytest.approx(longest)
        assert one.bounded_slowdown.mean == pytest.approx(slowdown)
        assert one.mean_hop_cost == (None if cost is None else pytest.approx(cost))
    whole = measure(made).jobs
    assert sum(one.jobs for one in found.values()) == whole.jobs
    assert sum(one.jobs * one.wait_s.mean for one in found.values()) == pytest.approx(whole.jobs * whole.wait_s.mean)
    total = sum(one.jobs * one.bounded_slowdown.mean for one in found.values())
    assert total == pytest.approx(whole.jobs * whole.bounded_slowdown.mean)
    assert max(one.wait_s.maximum for one in found.values()) == whole.wait_s.maximum


def test_trimmed_jobs_are_in_no_group() -> None:
    made = Schedule(JOBS, 64, JOBS.submit, JOBS.submit, JOBS.submit + 10.0)
    found = measure_groups(made, list("abcabc"), GROUPINGS["user"], Trim(0.17, 0.17))
    assert {label: one.jobs for label, one in found.items()} == {"a": 1, "b": 2, "c": 1}


def flood() -> Workload:
    """Return jobs of two partitions: more for the first than it can run, few for the second."""
    n = 200
    asked = np.array([Request(4, partition="cpu" if job % 4 else "gpu") for job in range(n)], dtype=object)
    seconds = np.full(n, 300.0)
    return Workload(
        "w", np.arange(n), np.arange(n) * 100.0, seconds, np.full(n, 4), seconds, requests=asked, users=np.arange(n) % 2
    )


def test_a_partition_whose_queue_does_not_drain_leaves_the_others_as_they_are() -> None:
    jobs = flood()
    made = simulate(jobs, SITE, "fcfs+easy")
    partitions = Described(jobs, SITE).partitions_of(made)
    over = overloaded_jobs(made, partitions)
    assert over.tolist() == [partition == "cpu" for partition in partitions]
    # Without partitions there is one queue, of the whole machine.
    bare = Cluster.of((ClusterNode("c", 4),), None)
    alone = simulate(replace(jobs, requests=np.full(len(jobs), None)), bare, "fcfs+easy")
    assert overloaded_jobs(alone, [UNKNOWN] * len(jobs)).all()


def test_a_queue_for_gpus_is_seen_although_cores_are_free() -> None:
    jobs = flood()
    one_core = Request(1, gpus_per_node=(("a100", 4.0),), partition="gpu")
    asked = np.array([one_core] * len(jobs), dtype=object)
    jobs = replace(jobs, requests=asked, submit=jobs.submit)
    made = simulate(jobs, SITE, "fcfs+easy")
    assert overloaded_jobs(made, ["gpu"] * len(jobs)).all()
