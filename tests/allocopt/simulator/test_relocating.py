"""Policy ``relocation``: running jobs stop or move for gangs that wait, where these gain more than the others lose."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support.against_references import engine_rows
from support.random_clusters import random_case

from allocopt.cluster.cluster import Cluster, ClusterNode
from allocopt.cluster.request import Request
from allocopt.cluster.topology_conf import slurm_topology
from allocopt.errors import UsageError
from allocopt.simulator.decisions import Decision, Pass
from allocopt.simulator.relocating import RelocationScheduler
from allocopt.simulator.rules import Rules
from allocopt.simulator.schedule import ClusterSchedule
from allocopt.simulator.scheduler import ListScheduler, SchedulerError, get_policy
from allocopt.simulator.simulate import as_scheduler, simulate
from allocopt.simulator.view import View
from allocopt.traces.generators import lublin_workload
from allocopt.traces.workload import Workload

HOUR_S = 3600.0
KINDS = ("any", "blocks", "dense", "downtimes", "orders", "scores", "shares", "predictions")


@dataclass(frozen=True)
class OnlyPasses:
    """Lets the built-in scheduler below it start what it may, and does nothing else."""

    base: ListScheduler

    def schedule(self, view: View) -> Iterator[Decision]:
        yield Pass()


class WithoutBase:
    """Asks for a pass, but stands over not a built-in scheduler."""

    def schedule(self, view: View) -> Iterator[Decision]:
        yield Pass()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_a_scheduler_that_only_asks_for_passes_schedules_as_the_built_in_one_below_it(kind: str, seed: int) -> None:
    case = random_case(seed, kind)
    assert engine_rows(case, OnlyPasses) == engine_rows(case)


@pytest.mark.parametrize("policy", ["fcfs", "fcfs+easy", "sjf+easy", "fcfs+conservative", "wfp3+first-fit"])
def test_passes_schedule_as_the_built_in_scheduler_in_a_pool(policy: str) -> None:
    workload = lublin_workload(300, 64, np.random.default_rng(1))
    base = as_scheduler(policy)
    assert isinstance(base, ListScheduler)
    found, expected = (simulate(workload, 64, one, Rules(kill_at_limit=True)) for one in (OnlyPasses(base), base))
    assert np.array_equal(found.start, expected.start)


def test_a_pass_needs_a_built_in_scheduler_below() -> None:
    with pytest.raises(SchedulerError, match="has none in"):
        simulate(lublin_workload(3, 64, np.random.default_rng(0)), 64, WithoutBase())


def racks(count: int, nodes: int) -> Cluster:
    """Return a cluster of racks, in one of which a job has to stay that fits."""
    names = [f"n{number}" for number in range(1, count * nodes + 1)]
    lines = [f"BlockName=r{rack} Nodes=n[{rack * nodes + 1}-{(rack + 1) * nodes}]" for rack in range(count)]
    tree = slurm_topology("\n".join([*lines, f"BlockSizes={nodes}"]), Path("topology.conf"))
    return Cluster.of([ClusterNode(name, 1) for name in names], tree, [])


def jobs(*rows: tuple[float, float, int]) -> Workload:
    """Return jobs by submission, run time in hours, and nodes; each alone on its nodes."""
    submit, run, nodes = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    requests = np.empty(len(rows), dtype=np.object_)
    requests[:] = [Request.whole_nodes(int(size)) for size in nodes]
    run_s = run * HOUR_S
    return Workload(
        "t", np.arange(1, len(rows) + 1), submit * HOUR_S, run_s, nodes.astype(np.int64), run_s, requests=requests
    )


# Of two racks of two nodes each has a small job, once the second job has left its node. The gang needs a rack.
IN_BOTH_RACKS = (0, 10, 1), (0, 0.25, 1), (0, 10, 1)


def test_a_small_job_moves_so_that_a_gang_starts() -> None:
    work, cluster = jobs(*IN_BOTH_RACKS, (0.5, 4, 2)), racks(2, 2)
    assert simulate(work, cluster, "fcfs+easy").start[3] == 10 * HOUR_S
    scheduler = RelocationScheduler(patience_s=HOUR_S)
    found = simulate(work, cluster, scheduler)
    # It has waited an hour at the first whole hour from 1.5 on.
    assert found.start[3] == 2 * HOUR_S
    assert found.requeues is not None
    assert found.requeues.sum() == 1
    moved = int(np.argmax(found.requeues))
    assert (found.start[moved], found.end[moved]) == (2 * HOUR_S, 12 * HOUR_S)
    assert scheduler.remarks() == ["1 of 1 relocations: proved"]


def test_a_gang_waits_on_where_that_costs_less_than_the_work_that_would_be_lost() -> None:
    work = jobs(*IN_BOTH_RACKS, (8.5, 4, 2))
    scheduler = RelocationScheduler(patience_s=0.0)
    found = simulate(work, racks(2, 2), scheduler)
    # At 9 h the gang would gain an hour on two nodes, and a job would lose nine on one.
    assert found.requeues is None
    assert scheduler.remarks() == ["1 of 1 relocations: nothing is worth it"]
    eager = simulate(work, racks(2, 2), RelocationScheduler(patience_s=0.0, worth=10.0))
    assert eager.start[3] == 9 * HOUR_S


def test_jobs_are_moved_no_more_often_than_allowed_and_gangs_never() -> None:
    rng = np.random.default_rng(5)
    rows = [
        (float(rng.uniform(0, 48)), float(rng.uniform(0.5, 9)), int(rng.choice([1, 1, 1, 2, 4]))) for _ in range(150)
    ]
    work = jobs(*sorted(rows))
    for most in (1, 2):
        scheduler = RelocationScheduler(patience_s=600.0, requeues=most, worth=5.0)
        found = simulate(work, racks(4, 4), scheduler)
        assert found.requeues is not None
        assert 0 < found.requeues.max() <= most
        assert not found.requeues[work.processors > 1].any()
        assert_fits(found)


def drawn(rng: np.random.Generator, count: int, hours: float, sizes: Sequence[int]) -> Workload:
    """Draw jobs that come within so many hours, and run for half an hour to nine."""
    rows = zip(rng.uniform(0, hours, count), rng.uniform(0.5, 9, count), rng.choice(sizes, count), strict=True)
    return jobs(*sorted((float(submit), float(run), int(size)) for submit, run, size in rows))


def assert_fits(schedule: ClusterSchedule) -> None:
    """Sweep over the last runs of all jobs: no node has two at once."""
    for now in np.unique(schedule.start):
        users = np.zeros(schedule.cluster.size)
        for job in np.flatnonzero((schedule.start <= now) & (now < schedule.end)).tolist():
            users[(schedule.nodes or ())[job]] += 1
        assert users.max() == 1


def test_gangs_wait_less_over_weeks() -> None:
    rng = np.random.default_rng(9)
    rows = [
        (float(rng.uniform(0, 72)), float(rng.uniform(0.5, 12)), int(rng.choice([1] * 9 + [4]))) for _ in range(400)
    ]
    work, cluster = jobs(*sorted(rows)), racks(4, 4)
    gangs = work.processors > 1
    without = simulate(work, cluster, "fcfs+easy")
    found = simulate(work, cluster, RelocationScheduler())
    assert found.wait_s[gangs].mean() < without.wait_s[gangs].mean()
    assert_fits(found)


def test_it_has_a_name_and_refuses_what_makes_no_sense() -> None:
    scheduler = get_policy("relocation", {"base": "sjf+easy", "solver": "best-rack"})
    assert isinstance(scheduler, RelocationScheduler)
    for options, fault in (
        ({"base": "window"}, "not a built-in scheduler"),
        ({"solver": "dp"}, "relocation"),
        ({"gang_nodes": 1}, "gang_nodes is 1"),
        ({"worth": 0.0}, "worth"),
        ({"period_s": 0.0}, "period"),
        ({"requeues": 0}, "requeues"),
    ):
        with pytest.raises(UsageError, match=fault):
            get_policy("relocation", options)


def test_a_pool_is_refused() -> None:
    with pytest.raises(UsageError, match="a relocation needs a cluster"):
        simulate(lublin_workload(50, 64, np.random.default_rng(0)), 64, "relocation")
