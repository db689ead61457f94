"""Plans of what starts now: nothing is shared beyond what nodes have, nobody is put off who was first."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.named import NamedTree
from allocopt.cluster.request import Request
from allocopt.cluster.topology import Tree
from allocopt.live.plan import Plan, plan, started_alone
from allocopt.live.slurm import Closure, Look, SlurmJob
from allocopt.solving.result import Status

NOW = 1_000_000.0
LEAF = 4


def cluster_of(nodes: int, cores: int, *, exclusive: bool) -> Cluster:
    names = tuple(f"n{number:02}" for number in range(nodes))
    leaves = np.arange(nodes)[None] // LEAF
    tree = Tree(leaves, (tuple(f"leaf{leaf}" for leaf in range(leaves.max() + 1)),), (2, 4))
    whole = Partition("main", names, is_exclusive=exclusive)
    half = Partition("half", names[: nodes // 2], is_exclusive=exclusive)
    return Cluster.of((ClusterNode(name, cores) for name in names), NamedTree(tree, names), (whole, half))


def a_job(number: int, request: Request | None = None, **values: object) -> SlurmJob:
    partition = "main" if request is None or request.partition is None else request.partition
    made = SlurmJob(
        str(number),
        "u",
        partition,
        "",
        "",
        "",
        "PENDING",
        "None",
        1000 - number,
        60.0,
        NOW - 1,
        NOW - 1,
        0.0,
        np.inf,
        request,
    )
    return replace(made, **values)  # type: ignore[arg-type]


def running(number: int, allocated: dict[str, tuple[int, int, int]], end_s: float) -> SlurmJob:
    return a_job(number, state="RUNNING", allocated=allocated, start_s=NOW - 5, end_s=end_s)


def chosen(found: Plan, time_limit: float = 1.0) -> dict[str, tuple[str, ...]]:
    if found.window is None:
        return {}
    answer = found.window.solved("auto", time_limit, 0)
    assert answer.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert answer.objective is not None
    assert answer.objective <= found.window.greedy_objective * (1 + 1e-9)
    return found.window.nodes(answer.found())


@st.composite
def looks(draw: st.DrawFn, *, exclusive: bool) -> Look:
    nodes, cores = draw(st.integers(4, 12)), 1 if exclusive else draw(st.integers(2, 4))
    cluster = cluster_of(nodes, cores, exclusive=exclusive)
    left = {node.name: cores for node in cluster.nodes}
    jobs = []
    for number in range(1, draw(st.integers(1, 4))):
        on = draw(st.lists(st.sampled_from(sorted(left)), min_size=1, max_size=3, unique=True))
        each = draw(st.integers(1, cores))
        if all(left[name] >= each for name in on):
            left |= {name: left[name] - each for name in on}
            jobs.append(running(number, {name: (each, 0, 0) for name in on}, NOW + draw(st.sampled_from([20, 50, 90]))))
    for number in range(10, 10 + draw(st.integers(1, 5))):
        partition = draw(st.sampled_from([None, "main", "half"]))
        size = draw(st.integers(1, nodes // 2))
        request = (
            Request(None, size, size, partition=partition, is_exclusive=True)
            if exclusive
            else Request(draw(st.integers(1, 2 * cores)), partition=partition)
        )
        jobs.append(a_job(number, request, limit_s=float(draw(st.sampled_from([10, 30, 60, 100])))))
    away = dict.fromkeys(draw(st.lists(st.sampled_from(sorted(left)), max_size=2)), "drained")
    return Look(NOW, cluster, tuple(jobs), away)


def earliest(look: Look, placed: dict[str, tuple[str, ...]], job: SlurmJob) -> float:
    """Return when a job of whole nodes can start, of those that run and are placed, all to their limits."""
    assert job.request is not None
    names = next(one.nodes for one in look.cluster.partitions if one.name == job.partition)
    free_at = {name: NOW for name in names if name not in look.away}
    for one in look.jobs:
        for name in placed.get(one.id, tuple(one.allocated)):
            if name in free_at:
                free_at[name] = max(free_at[name], one.end_s if one.allocated else NOW + one.limit_s)
    times = sorted(free_at.values())
    return times[job.request.least_nodes - 1] if len(times) >= job.request.least_nodes else np.inf


@given(looks(exclusive=True))
def test_the_first_job_without_room_starts_no_later_for_those_behind_it(look: Look) -> None:
    found = plan(look, lambda job: True)
    placed = chosen(found)
    assert set(placed) == set(found.starting)
    by_id = {job.id: job for job in look.jobs}
    for partition in ("main", "half"):
        queue = [one for one in found.order if by_id[one].partition == partition]
        blocked = next((one for one in queue if one not in found.starting), None)
        if blocked is not None:
            before = found.order[: found.order.index(blocked)]
            first = {one: placed[one] for one in before if one in placed}
            assert earliest(look, placed, by_id[blocked]) <= max(earliest(look, first, by_id[blocked]), NOW)


@given(looks(exclusive=False))
def test_no_node_gets_more_than_it_has_and_partitions_and_states_are_kept(look: Look) -> None:
    found = plan(look, lambda job: True)
    if found.window is None:
        return
    answer = found.window.solved("auto", 1.0, 0)
    # The answer was verified against what is free; here against the jobs themselves.
    by_id = {job.id: job for job in look.jobs}
    for job, nodes in found.window.nodes(answer.found()).items():
        inside = next(one.nodes for one in look.cluster.partitions if one.name == by_id[job].partition)
        assert nodes
        assert set(nodes) <= set(inside) - look.away.keys()
    cores = dict.fromkeys(look.cluster.topology.nodes, 0)
    for one in look.jobs:
        for name, each in one.allocated.items():
            cores[name] += each[0]
    placed = answer.found()
    for places in getattr(placed, "of_jobs", ()):
        for place in places:
            cores[look.cluster.nodes[place.node].name] += place.tasks
    assert all(cores[node.name] <= node.cores for node in look.cluster.nodes)


def whole(nodes: int) -> Request:
    return Request(None, nodes, nodes, is_exclusive=True)


def a_look(jobs: Sequence[SlurmJob], nodes: int = 8, **values: object) -> Look:
    return replace(Look(NOW, cluster_of(nodes, 1, exclusive=True), tuple(jobs), frozenset()), **values)  # type: ignore[arg-type]


def test_jobs_lie_within_one_leaf_where_the_rule_would_split_them() -> None:
    held = running(1, {"n00": (1, 0, 0), "n04": (1, 0, 0), "n05": (1, 0, 0)}, NOW + 50)
    found = chosen(plan(a_look([held, a_job(10, whole(2)), a_job(11, whole(3))]), lambda job: True))
    assert found == {"10": ("n06", "n07"), "11": ("n01", "n02", "n03")}


def test_a_job_that_is_pinned_keeps_its_nodes_until_it_starts() -> None:
    pinned = a_job(
        10,
        replace(whole(2), required="n[02-03]"),
        admin_comment="allocopt priority=5 pinned=999999",
        required="n[02-03]",
    )
    found = plan(a_look([pinned, a_job(11, whole(4))]), lambda job: True)
    assert found.starting == ("11",)
    assert chosen(found) == {"11": ("n04", "n05", "n06", "n07")}


def test_a_job_beside_a_reservation_on_its_nodes_is_pinned_there() -> None:
    held = [running(1, {"n00": (3, 0, 0), "n01": (3, 0, 0)}, NOW + 50)]
    # The first needs six of eight cores once those end, the second one of the other two for longer than that.
    waiting = [a_job(10, Request(6)), a_job(11, Request(1), limit_s=1000.0)]
    found = plan(a_look([*held, *waiting], cluster=cluster_of(2, 4, exclusive=False)), lambda job: True)
    assert found.starting == ("11",)
    assert chosen(found).keys() == {"11"}


def test_jobs_of_others_are_counted_with_and_never_pinned() -> None:
    found = plan(a_look([a_job(10, whole(5)), a_job(11, whole(3)), a_job(12, whole(1))]), lambda job: job.id != "10")
    assert found.starting == ("10", "11")
    assert set(chosen(found)) == {"11"}


def test_jobs_that_slurm_holds_wait_for_other_reasons_or_are_not_understood_are_left() -> None:
    jobs = [
        a_job(10, whole(1), priority=0),
        a_job(11, whole(1), reason="Dependency"),
        a_job(12, None, fault="asks for licenses"),
        a_job(13, whole(1), begin_s=NOW + 100),
        a_job(14, whole(9)),
        a_job(15, whole(1)),
    ]
    found = plan(a_look(jobs), lambda job: True)
    assert found.starting == ("15",)
    assert found.left == {
        "10": "held in Slurm (priority 0)",
        "11": "Slurm's reason for waiting is Dependency",
        "12": "asks for licenses",
        "13": "its begin time has not come",
        "14": "larger than the machine",
    }


def test_the_order_is_that_of_the_priorities_before_jobs_were_held() -> None:
    first = a_job(12, whole(5), priority=1, admin_comment="allocopt priority=9999", begin_s=NOW + 20)
    found = plan(a_look([a_job(10, whole(5)), first]), lambda job: True)
    assert found.order == ("12", "10")
    assert found.starting == ("12",)


def test_no_job_runs_into_a_reservation() -> None:
    closed = Closure(NOW + 30, NOW + 90, ("n00", "n01", "n02", "n03"))
    found = plan(a_look([a_job(10, whole(5)), a_job(11, whole(4))], closures=(closed,)), lambda job: True)
    assert chosen(found) == {"11": ("n04", "n05", "n06", "n07")}
    short = plan(a_look([a_job(10, whole(5), limit_s=20.0)], closures=(closed,)), lambda job: True)
    assert short.starting == ("10",)


def test_a_start_is_judged_by_what_was_idle_then() -> None:
    job = replace(running(3, {"n03": (1, 0, 0), "n04": (1, 0, 0)}, NOW + 9), request=whole(2))
    before = running(1, {"n00": (1, 0, 0)}, NOW + 50)
    over = a_job(2, state="COMPLETED", allocated={"n05": (1, 0, 0)}, start_s=NOW - 50, end_s=NOW - 1)
    window = started_alone(a_look([before, over, job]), job)
    assert window is not None
    answer = window.solved("auto", 1.0, 0)
    assert window.greedy_objective == 2 * 4 * 1000 / 2
    assert answer.objective == 2 * 2 * 1000 / 2
    assert answer.status is Status.OPTIMAL


def test_a_start_is_not_judged_if_a_job_that_is_no_longer_listed_may_have_held_nodes_then() -> None:
    job = replace(running(3, {"n03": (1, 0, 0), "n04": (1, 0, 0)}, NOW + 9), request=whole(2))
    elsewhere = running(1, {"n05": (1, 0, 0)}, NOW + 50)
    replaced = running(2, {"n04": (1, 0, 0), "n05": (1, 0, 0)}, NOW + 50)
    look, before = a_look([job]), a_look([elsewhere, replaced])
    assert look.gone_since(before) == (elsewhere, replaced)
    assert started_alone(look, job, [elsewhere]) is None
    # It had to end before its node was given away, so that its other node was idle, too.
    window = started_alone(look, job, [replaced])
    assert window is not None
    assert window.problem.idle_nodes.tolist() == list(range(8))


def test_a_job_that_is_listed_with_nodes_or_has_only_waited_is_not_gone() -> None:
    listed, waited = running(1, {"n05": (1, 0, 0)}, NOW + 50), a_job(2, whole(1))
    over = replace(listed, state="COMPLETED", end_s=NOW - 1)
    assert a_look([over]).gone_since(a_look([listed, waited])) == ()


def test_on_shared_nodes_a_job_that_is_no_longer_listed_may_have_run_beside_one_that_has_started() -> None:
    cluster = cluster_of(8, 4, exclusive=False)
    request = Request(2, 2, 2, None, 1.0, partition="main")
    job = replace(running(3, {"n03": (1, 0, 0), "n04": (1, 0, 0)}, NOW + 9), request=request)
    look = replace(a_look([job]), cluster=cluster)
    for cores, is_judged in ((3, False), (4, True)):
        gone = running(1, {"n04": (cores, 0, 0)}, NOW + 50)
        assert (started_alone(look, job, [gone]) is not None) is is_judged


def test_a_job_on_one_node_is_not_judged() -> None:
    job = replace(running(3, {"n03": (1, 0, 0)}, NOW + 9), request=whole(1))
    assert started_alone(a_look([job]), job) is None
