"""Jobs that share nodes: the engine schedules traces of every field as the slow simulator does."""

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest
from support.against_references import engine_rows, slow_rows
from support.random_clusters import CHANGING_ORDERS, KINDS, Case, coverage, random_case, with_preceding

from allocopt.cluster import Request
from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.simulator.shared import room
from allocopt.simulator.shared.state import SharedRules
from allocopt.traces.workload import Workload

N_TRACES = 40
DRAWN = (
    *("clusters of several partitions", "clusters with several tiers", "clusters with overlapping partitions"),
    *("clusters with an exclusive partition", "clusters that are exclusive", "clusters that are a forest"),
    *("clusters on blocks", "clusters of 3 levels or more", "clusters with GPUs", "clusters with default memory"),
    *("clusters with nodes of several weights", "clusters of which only the topology is known"),
    *("clusters with default memory of GPUs", "clusters with a least number of nodes"),
    *("jobs of a range of nodes", "jobs of one node at most", "jobs without a request"),
    *("traces with several users", "traces with known and unknown users", "traces with jobs that wait for others"),
    *(f"traces with {kind}" for kind in ("none", "first-fit", "easy", "conservative")),
    *(f"traces with backfilling by {order}" for order in (*CHANGING_ORDERS, "fcfs")),
    *("traces with first-fit in an order of its own", "traces with easy in an order of its own"),
    # Jobs that ask for what is not modelled come to no engine.
    *(f"jobs with {name}" for name in Request.__dataclass_fields__ if name != "unmodelled"),
    *(f"jobs with {sign} in the constraint" for sign in "|&[("),
)
MATTERED = (
    *(f"traces under {order}+{kind}" for order in CHANGING_ORDERS for kind in ("first-fit", "easy", "conservative")),
    *("at most 2 groups, nodes left out", "at most 3 groups, nodes left out", "no nodes because of a limit of groups"),
    *("nodes of a later set", "nodes of a group that was not tried first", "nodes below a lower switch"),
    *("nodes only in the order of their room", "starts of exclusive jobs", "starts while another partition waits"),
    *("starts by backfilling on reserved nodes beside the head", "rooms that a reservation made smaller"),
    *("reservations kept", "reservations made anew: a job ended", "reservations made anew: a job started"),
    *("reservations made anew: its time has come", "reservations beside one of another partition"),
    *("starts by a walk beside reservations", "walks that look again after a reservation"),
    *("walks that look again because of an overlap", "windows of several jobs", "windows left out"),
    *(f"passes with waiting jobs in another order than before, by {kind}" for kind in ("ageing", "share")),
    *("starts before jobs of a higher value, by age", "starts before jobs that have waited longer, by a value"),
    *("starts by first-fit past a job without room", "starts in another place than before the pass, by share"),
    *(f"starts first in the order of backfilling only, by {kind}" for kind in ("arrival", "fixed", "ageing", "share")),
    *("arrivals before ends of the same time", "starts in a later pass of the same time"),
    *("ends on the estimate that count to another end", "traces that run otherwise if events are taken together"),
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", range(0, 2 * N_TRACES, N_TRACES))
def test_traces_run_as_in_the_slow_simulator(kind: str, first: int) -> None:
    for seed in range(first, first + N_TRACES):
        case = random_case(seed, kind)
        assert engine_rows(case) == slow_rows(case, Counter()), f"seed {seed}"


@pytest.mark.parametrize("kind", KINDS)
def test_jobs_that_wait_for_others_run_as_in_the_slow_simulator(kind: str) -> None:
    waited = 0
    for seed in range(N_TRACES):
        case = random_case(seed, kind)
        jobs = case.workload
        case = replace(case, workload=with_preceding(np.random.default_rng(seed), jobs, 0.4))
        rows = slow_rows(case, Counter())
        assert engine_rows(case) == rows, f"seed {seed}"
        waited += rows != slow_rows(replace(case, workload=jobs), Counter())
    assert waited > 0


def test_the_traces_draw_every_field_and_make_every_rule_matter() -> None:
    counts: Counter[str] = Counter()
    for kind in KINDS:
        for seed in range(2 * N_TRACES if kind in ("orders", "sequential") else N_TRACES):
            case = random_case(seed, kind)
            coverage(case, counts)
            rows = slow_rows(case, counts)
            if case.is_sequential:
                together = slow_rows(replace(case, is_sequential=False), Counter())
                counts["traces that run otherwise if events are taken together"] += rows != together
    assert [name for name in DRAWN if counts[name] < 3] == []
    assert [name for name in MATTERED if not counts[name]] == []


def test_a_walk_ends_after_so_many_reservations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SharedRules", partial(SharedRules, depth=2))
    changed = 0
    for seed in range(N_TRACES):
        case = random_case(seed, "overrun")
        case = replace(case, policy=f"{case.policy.partition('+')[0]}+conservative")
        rows = slow_rows(case, Counter(), depth=2)
        assert engine_rows(case) == rows, f"seed {seed}"
        changed += rows != slow_rows(case, Counter())
    assert changed > 0


def test_a_solver_that_follows_the_rule_of_the_lowest_switch_places_as_it() -> None:
    for seed in range(N_TRACES // 2):
        case = replace(random_case(seed, "any"), allocator="lowest-switch")
        assert engine_rows(replace(case, allocator="cons-tres")) == engine_rows(case), f"seed {seed}"


def test_a_reservation_that_is_made_anew_leaves_room_that_it_had_closed() -> None:
    nodes = [ClusterNode(f"n{number}", 1 + number % 2) for number in range(4)]
    names = tuple(node.name for node in nodes)
    partitions = [Partition("high", names, tier=3), Partition("low", names), Partition("mid", names)]
    jobs = [  # run time, estimate and request
        (1, 100, Request(partition="low")),
        (10, 60, Request(least_nodes=2, cores_per_task=2)),
        (1, 1, Request(least_nodes=2, required="n0,n3")),
        (60, 60, Request()),
        # It reserves all nodes for 60 s at first, and for 210 s once the last job runs.
        (1, 1, Request(least_nodes=4, partition="mid")),
        # Then this one ends before.
        (1, 100, Request(partition="low", is_exclusive=True)),
        (1, 200, Request(cores_per_task=1.5)),
    ]
    requests, ids = np.empty(len(jobs), dtype=object), np.arange(len(jobs))
    requests[:] = [job[2] for job in jobs]
    run, estimate = (np.array([job[column] for job in jobs], dtype=float) for column in range(2))
    workload = Workload("jobs", ids, 0.0 * ids, run, np.ones_like(ids), estimate, requests=requests)
    case = Case(Cluster.of(nodes, None, partitions), workload, "fcfs+easy", "first", kill_at_limit=True)
    rows = engine_rows(case)
    assert rows == slow_rows(case, Counter())
    assert [start for _, start, _, _ in rows] == [0, 0, 60, 0, 61, 10, 10]


# By hand: where the documents decide what random traces seldom draw


@dataclass(frozen=True)
class Job:
    """A job, its user, and the place of the job that has to end before it joins the queue."""

    submit: float
    run: float
    estimate: float
    request: Request = field(default_factory=Request)
    user: int = 0
    preceding: int = -1


def starts_of(cluster: Cluster, jobs: list[Job], policy: str, *, is_sequential: bool = False) -> list[float]:
    """Return when jobs start in the engine; the slow simulator has to agree."""
    requests = np.empty(len(jobs), dtype=object)
    requests[:] = [job.request for job in jobs]
    workload = Workload(
        "jobs",
        np.arange(len(jobs)),
        *(np.array([getattr(job, name) for job in jobs], dtype=float) for name in ("submit", "run")),
        processors=np.ones(len(jobs), dtype=np.int64),
        estimate=np.array([job.estimate for job in jobs], dtype=float),
        requests=requests,
        users=np.array([job.user for job in jobs]),
        preceding=np.array([job.preceding for job in jobs]),
    )
    case = Case(cluster, workload, policy, "first", kill_at_limit=True, is_sequential=is_sequential)
    rows = engine_rows(case)
    assert rows == slow_rows(case, Counter())
    return [start for _, start, _, _ in rows]


def test_nobody_has_a_share_of_memory_that_is_not_known_of_all_nodes() -> None:
    cluster = Cluster.of([ClusterNode("a", 1), ClusterNode("b", 3, memory_mib=1000)], None)
    jobs = [
        Job(0, 10, 10, Request(is_exclusive=True), user=0),  # a quarter of the cores, on the node of unknown memory
        Job(0, 10, 10, Request(2), user=1),  # half of the cores
        Job(0, 10, 10, user=1),
        Job(0, 10, 10, user=0),
    ]
    assert starts_of(cluster, jobs, "drf") == [0, 0, 10, 0]


def test_jobs_that_join_one_by_one_stand_in_the_order_in_which_they_join() -> None:
    cluster = Cluster.of([ClusterNode("a", 2)], None)
    jobs = [
        Job(0, 10, 10, preceding=1),  # joins at 10, after the last job, which is submitted at the same time
        Job(0, 10, 20),
        Job(0, 20, 20),
        Job(10, 10, 10, Request(2)),
    ]
    assert starts_of(cluster, jobs, "fcfs", is_sequential=True) == [30, 0, 0, 20]


def test_jobs_that_end_on_their_estimates_end_together() -> None:
    cluster = Cluster.of(
        [ClusterNode("a", 2), ClusterNode("b", 2)], None, [Partition("a", ("a",)), Partition("b", ("b",))]
    )
    jobs = [
        Job(0, 100, 100, user=2),
        Job(0, 10, 10, Request(partition="b"), user=3),
        Job(0, 10, 10, Request(partition="b"), user=3),
        # At 10 both jobs of partition b end, with one pass. In a second one this job would stand behind the next one,
        # since its user has started the last job in the first.
        Job(0, 10, 10, Request(2), user=1),
        Job(0, 10, 10, user=2),
        Job(0, 50, 50, Request(2, partition="b"), user=1),
    ]
    assert starts_of(cluster, jobs, "drf", is_sequential=True) == [0, 0, 0, 100, 110, 10]


def test_a_walk_at_which_nothing_happens_comes_without_a_pass() -> None:
    cluster = Cluster.of([ClusterNode("a", 2)], None, [Partition("low", ("a",)), Partition("high", ("a",), tier=2)])
    jobs = [
        Job(40, 60, 60),
        Job(40, 10, 100, Request(2)),
        # At 60 it stands before the second job; the walk has closed the node for the last one from then on.
        Job(50, 10, 10),
        Job(50, 10, 10, Request(2, partition="high")),
    ]
    assert starts_of(cluster, jobs, "wfp3+conservative") == [40, 120, 110, 100]
