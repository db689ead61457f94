"""Jobs that share nodes: the engine schedules traces of every field as the slow simulator does."""

from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from support.against_references import engine_rows, slow_rows
from support.random_clusters import KINDS, Case, coverage, random_case

from allocopt.cluster import Request
from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.simulator.shared import simulation
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
    # Jobs that ask for what is not modelled come to no engine.
    *(f"jobs with {name}" for name in Request.__dataclass_fields__ if name != "unmodelled"),
    *(f"jobs with {sign} in the constraint" for sign in "|&[("),
)
MATTERED = (
    *("at most 2 groups, nodes left out", "at most 3 groups, nodes left out", "no nodes because of a limit of groups"),
    *("nodes of a later set", "nodes of a group that was not tried first", "nodes below a lower switch"),
    *("nodes only in the order of their room", "starts of exclusive jobs", "starts while another partition waits"),
    *("starts by backfilling on reserved nodes beside the head", "rooms that a reservation made smaller"),
    *("reservations kept", "reservations made anew: a job ended", "reservations made anew: a job started"),
    *("reservations made anew: its time has come", "reservations beside one of another partition"),
    *("starts by a walk beside reservations", "walks that look again after a reservation"),
    *("walks that look again because of an overlap", "windows of several jobs", "windows left out"),
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
        rng, jobs = np.random.default_rng(seed), case.workload
        # Along a permutation, so that nobody waits for himself.
        order = rng.permutation(len(jobs))
        preceding = np.full(len(jobs), -1)
        for place, row in enumerate(order.tolist()):
            if place and rng.random() < 0.4:
                preceding[row] = jobs.ids[order[rng.integers(place)]]
        think_s = np.where(preceding < 0, 0.0, rng.choice([0.0, 0.0, 5.0, 60.0], len(jobs)))
        case = replace(case, workload=replace(jobs, preceding=preceding, think_s=think_s))
        rows = slow_rows(case, Counter())
        assert engine_rows(case) == rows, f"seed {seed}"
        waited += rows != slow_rows(replace(case, workload=jobs), Counter())
    assert waited > 0


def test_the_traces_draw_every_field_and_make_every_rule_matter() -> None:
    counts: Counter[str] = Counter()
    for kind in KINDS:
        for seed in range(N_TRACES):
            case = random_case(seed, kind)
            coverage(case.workload, case.cluster, counts)
            slow_rows(case, counts)
    assert [name for name in DRAWN if counts[name] < 3] == []
    assert [name for name in MATTERED if not counts[name]] == []


def test_a_walk_ends_after_so_many_reservations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "SharedRules", partial(SharedRules, depth=2))
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
