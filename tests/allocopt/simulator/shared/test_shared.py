"""Jobs that share nodes: the kernel schedules as the slow simulation does, and no node is ever overcommitted."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.slow_shared import SlowShared

from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.named import Switch, tree_of_switches
from allocopt.cluster.request import Request
from allocopt.errors import InvalidProblemError
from allocopt.simulator.shared.simulation import Allocation, new_shared, run_shared


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    names = [[f"n{leaf}-{node}" for node in range(size)] for leaf, size in enumerate(sizes)]
    switches = [Switch(f"s{leaf}", tuple(below)) for leaf, below in enumerate(names)]
    if draw(st.booleans()) and len(switches) > 1:
        switches.append(Switch("top", switches=tuple(switch.name for switch in switches)))
    nodes = [
        ClusterNode(
            name,
            draw(st.integers(1, 4)),
            draw(st.sampled_from([None, 10, 20])),
            draw(st.sampled_from([{}, {"a": 1}, {"a": 2}, {"b": 1}])),
            frozenset(draw(st.sets(st.sampled_from("xy")))),
            draw(st.integers(1, 2)),
        )
        for below in names
        for name in below
    ]
    flat = [name for below in names for name in below]
    partitions = [
        Partition(f"p{number}", tuple(draw(st.sets(st.sampled_from(flat), min_size=1))), is_exclusive=number == 2)
        for number in range(draw(st.integers(0, 3)))
    ]
    return Cluster.of(nodes, tree_of_switches(switches), partitions)


@st.composite
def requests(draw: st.DrawFn, cluster: Cluster) -> Request:
    least = draw(st.integers(1, 3))
    return Request(
        draw(st.none() | st.integers(1, 6)),
        least,
        draw(st.none() | st.integers(least, 4)),
        draw(st.none() | st.integers(1, 4)),
        draw(st.sampled_from([0, 1, 2])),
        draw(st.sampled_from([None, 3, 10])),
        gpus_per_node=draw(st.sampled_from([(), (("", 1),), (("a", 1),)])),
        partition=draw(st.sampled_from([None, *(one.name for one in cluster.partitions)])),
        constraint=draw(st.sampled_from([None, "x", "x|y", "[x|y]", "x&y"])),
        is_exclusive=draw(st.booleans()),
    )


@st.composite
def simulations(draw: st.DrawFn) -> SlowShared | None:
    cluster = draw(clusters())
    made = []
    for _ in range(draw(st.integers(1, 4))):
        try:
            made.append(draw(requests(cluster)).on(cluster))
        except InvalidProblemError:
            continue
    if not made:
        return None
    jobs = draw(st.integers(1, 14))
    estimate = np.array([draw(st.sampled_from([3.0, 5.0, 20.0])) for _ in range(jobs)])
    run = np.array([draw(st.sampled_from([1.0, 3.0, 5.0, 30.0])) for _ in range(jobs)])
    return SlowShared(
        cluster,
        made,
        np.array([draw(st.integers(0, len(made) - 1)) for _ in range(jobs)]),
        np.sort(np.array([float(draw(st.integers(0, 12))) for _ in range(jobs)])),
        run if draw(st.booleans()) else np.minimum(run, estimate),
        estimate,
        draw(st.sampled_from(Allocation)),
        draw(st.booleans()),
    )


@settings(deadline=None)
@given(simulations())
def test_the_kernel_schedules_as_the_slow_simulation_does_and_overcommits_nothing(slow: SlowShared | None) -> None:
    if slow is None:
        return
    jobs = len(slow.submit)
    state = new_shared(
        slow.cluster, slow.requests, slow.request, slow.submit, slow.run, slow.estimate, np.arange(jobs),
        allocation=slow.allocation, easy=slow.easy,
    )  # fmt: skip
    schedule = run_shared(state)
    expected = slow.simulate()
    assert len(expected) == jobs
    for job in range(jobs):
        start, tasks = expected[job]
        assert (schedule.start[job], dict(zip(schedule.nodes[job], schedule.tasks[job], strict=True))) == (start, tasks)
    for time in schedule.start:
        used = np.zeros_like(slow.cluster.capacity)
        alone = np.zeros(slow.cluster.size, dtype=np.int64)
        for job in np.flatnonzero((schedule.start <= time) & (schedule.end > time)):
            request = slow.requests[slow.request[job]]
            nodes, counts = schedule.nodes[job], schedule.tasks[job]
            assert counts.sum() == request.tasks
            assert counts.min() >= 1
            assert request.least_nodes <= len(set(nodes)) == len(nodes) <= request.most_nodes
            assert any(mask[nodes].all() for mask in request.masks)
            used[nodes] += request.per_node + counts[:, None] * request.per_task
            alone[nodes] += 1000 if request.is_exclusive else 1
            for row, most in zip(slow.cluster.topology.tree.groups, request.most_groups, strict=True):
                assert most == 0 or len(set(row[nodes])) <= most
        assert (used <= slow.cluster.capacity).all()
        assert ((alone < 1000) | (alone == 1000)).all()
