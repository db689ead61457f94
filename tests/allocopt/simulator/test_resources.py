"""Machines with several resources and with nodes: none of it is ever over-committed."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.schedulers import Wavering
from support.simulations import lengths, most_in_use, rules, small_workloads
from support.workloads import workload

from allocopt.arrays import IntArray
from allocopt.cluster.platform import Part, Platform
from allocopt.heuristics.scheduling.queue_orders import DominantResourceFairness, FirstComeFirstServed
from allocopt.simulator.engine import Simulation
from allocopt.simulator.held_nodes import Allocator, BreadthFirst, DepthFirst
from allocopt.simulator.pool import Pool
from allocopt.simulator.rules import Backfill, Rules
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload

allocators: st.SearchStrategy[Allocator] = st.sampled_from([DepthFirst(), BreadthFirst()])
schedulers = st.builds(
    ListScheduler, st.sampled_from([FirstComeFirstServed(), DominantResourceFairness()]), st.sampled_from(Backfill)
)
FCFS = ListScheduler(FirstComeFirstServed())


@dataclass(frozen=True)
class Case:
    """A platform of cores and GPUs, with or without nodes, and jobs that ask for both."""

    platform: Platform
    jobs: Workload
    gpus: IntArray


@st.composite
def cases(draw: st.DrawFn, has_nodes: bool = True) -> Case:
    units = st.tuples(st.integers(0, 3), st.integers(0, 2))
    capacity = np.array(draw(st.lists(units, min_size=1, max_size=3).filter(lambda rows: any(row[0] for row in rows))))
    cores, total_gpus = capacity.sum(axis=0).tolist()
    jobs = draw(small_workloads(most_processors=cores).filter(lambda jobs: jobs.processors.max() <= cores))
    gpus = np.array(draw(st.lists(st.integers(0, total_gpus), min_size=len(jobs), max_size=len(jobs))))
    return Case(
        Platform(("cores", "gpus"), capacity if has_nodes else capacity.sum(axis=0)[None], has_nodes), jobs, gpus
    )


@given(case=cases() | cases(has_nodes=False), scheduler=schedulers, rules=rules)
def test_no_resource_is_over_committed(case: Case, scheduler: ListScheduler, rules: Rules) -> None:
    schedule = simulate(case.jobs, case.platform, scheduler, rules, demands={"gpus": case.gpus})
    assert (schedule.end - schedule.start).tolist() == lengths(case.jobs, rules)
    for units, total in zip((case.jobs.processors, case.gpus), case.platform.total, strict=True):
        assert most_in_use(schedule.start, schedule.end, units) <= total


@given(case=cases() | cases(has_nodes=False), rules=rules, seed=st.integers(0, 9))
def test_a_view_knows_who_may_be_backfilled(case: Case, rules: Rules, seed: int) -> None:
    scheduler = Wavering(np.random.default_rng(seed))
    simulate(case.jobs, case.platform, scheduler, rules, demands={"gpus": case.gpus})


@given(case=cases(), scheduler=schedulers, rules=rules, allocator=allocators)
def test_what_is_free_on_a_node_is_what_no_running_job_holds_and_several_jobs_fit_as_each_does(
    case: Case, scheduler: ListScheduler, rules: Rules, allocator: Allocator
) -> None:
    def look(simulation: Simulation) -> None:
        view = simulation.view
        assert isinstance(simulation.room, Pool)
        placement = simulation.room.placement
        assert placement is not None
        free = case.platform.capacity.copy()
        for job in view.running.tolist():
            share = placement.shares[job]
            assert share is not None
            assert share.units.sum(axis=0).tolist() == view.request[job].tolist()
            free[share.nodes] -= share.units
        assert free.min() >= 0
        assert free.tolist() == placement.free.tolist() == view.free_units.tolist()
        assert free.sum(axis=0).tolist() == view.free.tolist()
        whole = (free == case.platform.capacity).all(axis=1)
        assert view.idle_nodes.tolist() == np.flatnonzero(whole).tolist()
        everybody = np.arange(len(case.jobs))
        assert view.fitting(everybody).tolist() == [view.fits(job) for job in everybody.tolist()]
        assert view.fitting(everybody).tolist() == (view.request <= view.free).all(axis=1).tolist()

    demands = {"gpus": case.gpus}
    simulate(case.jobs, case.platform, scheduler, rules, demands=demands, allocator=allocator, observer=look)


def test_a_job_waits_for_the_resource_that_is_short() -> None:
    jobs = workload([(1, 0.0, 5.0, 1, 5.0), (2, 0.0, 5.0, 1, 5.0), (3, 0.0, 5.0, 1, 5.0)])
    platform = Platform.of_parts([Part(2, {"cores": 4, "gpus": 1})])
    made = simulate(jobs, platform, FCFS, demands={"gpus": np.array([1, 2, 0])})
    assert made.start.tolist() == [0.0, 5.0, 5.0]
    backfilled = ListScheduler(FirstComeFirstServed(), Backfill.EASY)
    assert simulate(jobs, platform, backfilled, demands={"gpus": np.array([1, 2, 0])}).start.tolist() == [0.0, 5.0, 0.0]


def test_the_user_with_the_lowest_dominant_share_comes_first() -> None:
    # User 1 holds 2 of 9 cores, user 2 holds 1 and 1 of 2 GPUs: user 1's job comes first although it was sent later.
    rows = [(0, 0.0, 10.0, 2), (1, 0.0, 10.0, 1), (2, 0.0, 5.0, 6), (3, 1.0, 3.0, 4), (4, 2.0, 3.0, 4)]
    ids, submit, run, cores = map(np.array, zip(*rows, strict=True))
    jobs = Workload("users", ids, submit, run, cores, run, users=np.array([1, 2, 3, 2, 1]))
    platform = Platform(("cores", "gpus"), np.array([[9, 2]]), has_nodes=False)
    with_gpu = simulate(jobs, platform, "drf", demands={"gpus": np.array([0, 1, 0, 0, 0])})
    assert with_gpu.start.tolist() == [0.0, 0.0, 0.0, 8.0, 5.0]
    assert simulate(jobs, platform, "drf").start.tolist() == [0.0, 0.0, 0.0, 5.0, 8.0]
