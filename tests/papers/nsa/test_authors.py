"""What the NSA authors' program does: its windows beside the simulator's, its loop job by job, its walk."""

from collections.abc import Sequence
from itertools import islice

import numpy as np
import pytest
from support.windows import paper_window, tiny_window

from allocopt.arrays import IntArray
from allocopt.cluster.topology import FatTree, Topology, hop_costs
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed
from allocopt.learned.nsa.networks import NETWORKS, forward
from allocopt.learned.nsa.solver import Nsa
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.simulator.rules import Backfill
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.simulator.window import windows
from allocopt.traces.generators import uniform_workload
from allocopt.traces.workload import Workload
from papers.nsa.authors import AUTHORS_CLUSTER, Conventions, job_by_job, mean_cost_and_wait, periods
from papers.nsa.interpreted import InterpretedWalk, cost_by_pairs, cost_of, in_torch

SMALL = FatTree(4, 2, 5, hops=(1, 3, 5), pairs="unordered")


def small_workload(seed: int, n_jobs: int = 120) -> Workload:
    return uniform_workload(n_jobs, np.random.default_rng(seed), nodes=(1, 12), run_s=(10, 400), gap_s=(5, 30))


def sequential(problem: TopologyProblem) -> Sequence[IntArray]:
    return Allocation.sequential(problem).nodes


def test_windows_without_the_authors_conventions_are_those_of_the_simulator() -> None:
    # All submissions lie off the grid of periods, which the program counts from the first one.
    jobs = uniform_workload(60, np.random.default_rng(3), nodes=(2, 40), gap_s=(61, 119))
    simple = Conventions(most_jobs=None, ones_last=False, solving_s=0.0)
    ours = [period.window for period in periods(jobs, simple, sequential) if period.window is not None]
    shifted = Workload("shifted", jobs.ids, jobs.submit - jobs.submit[0] + 1e-3, jobs.run, jobs.processors, jobs.run)
    theirs = list(windows(shifted, AUTHORS_CLUSTER, 60.0, Allocation.sequential, min_jobs=1))
    assert [window.sizes.tolist() for window in ours] == [window.sizes.tolist() for window in theirs]


@pytest.mark.parametrize("seed", range(4))
def test_every_job_begins_once_on_idle_nodes_and_not_before_it_is_submitted(seed: int) -> None:
    jobs = small_workload(seed)
    conventions = Conventions(SMALL)
    every = list(periods(jobs, conventions, sequential))
    check_nodes(jobs, [(one.job, one.start_s, one.nodes) for period in every for one in period.started])
    for window in (period.window for period in every if period.window is not None):
        assert len(window.jobs) <= 5
        assert all(job.nodes > 1 for job in window.jobs)


@pytest.mark.parametrize("backfills", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_job_by_job_every_job_begins_once_on_idle_nodes(seed: int, backfills: bool) -> None:
    jobs = small_workload(seed)
    started = job_by_job(jobs, SMALL, backfills=backfills)
    check_nodes(jobs, [(one.job, one.start_s, one.nodes) for one in started])
    if not backfills:
        schedule = simulate(jobs, SMALL.size, ListScheduler(FirstComeFirstServed(), Backfill.NONE))
        assert [one.start_s for one in started] == schedule.start.tolist()


def check_nodes(jobs: Workload, started: list[tuple[int, float, IntArray]]) -> None:
    """Every job once, on as many nodes as it asks for, none of which another one holds."""
    assert sorted(job for job, _, _ in started) == list(range(len(jobs)))
    held_until = np.zeros(SMALL.size)
    for job, start_s, nodes in sorted(started, key=lambda one: one[1]):
        assert start_s >= jobs.submit[job]
        assert len(set(nodes.tolist())) == jobs.processors[job]
        assert (held_until[nodes] <= start_s).all()
        held_until[nodes] = start_s + jobs.run[job]


def test_one_job_of_one_node_costs_one() -> None:
    jobs = uniform_workload(1, np.random.default_rng(0), nodes=(1, 1))
    assert mean_cost_and_wait(jobs, SMALL, job_by_job(jobs, SMALL, backfills=False)) == {"cost": 1.0, "wait s": 0.0}


@pytest.mark.parametrize("topology", [SMALL, FatTree(4, 2, 5), AUTHORS_CLUSTER])
def test_both_costs_of_the_walk_are_the_hop_cost(topology: Topology) -> None:
    rng = np.random.default_rng(0)
    for size in (2, 5, 11):
        nodes = np.sort(rng.choice(topology.size, size, replace=False))
        groups = topology.groups_of(nodes).tolist()
        expected = hop_costs(topology, 1000.0, [nodes])[0]
        for cost in (cost_of, cost_by_pairs):
            assert cost(groups, topology, 1000.0, range(size)) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_the_interpreted_walk_never_ends_above_its_start(seed: int) -> None:
    problem = tiny_window(seed)
    found = InterpretedWalk(30).allocate(problem, np.random.default_rng(seed))
    by_pairs = InterpretedWalk(30, by_pairs=True).allocate(problem, np.random.default_rng(seed))
    start = Allocation.sequential(problem)
    assert problem.objective(found) <= problem.objective(start)
    assert problem.objective(by_pairs) == pytest.approx(problem.objective(found))


@pytest.mark.slow
@pytest.mark.parametrize("network", ["fcn-1", "cnn-3"])
def test_the_network_in_torch_is_that_of_the_kernel(network: str) -> None:
    pytest.importorskip("torch")
    logits, (architecture, packed) = in_torch(network), Nsa(network).loaded()
    for seed in range(3):
        state = np.random.default_rng(seed).random(NETWORKS[network].input, dtype=np.float32)
        ours = forward(packed, architecture.buffers(), state.ravel())
        np.testing.assert_allclose(logits(state), ours, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_the_interpreted_walk_with_a_network_beats_the_one_without() -> None:
    pytest.importorskip("torch")
    costs = {
        network: sum(
            problem.objective(InterpretedWalk(150, network).allocate(problem, np.random.default_rng(seed)))
            for seed in range(6)
            for problem in (paper_window(seed),)
        )
        for network in (None, "cnn-3")
    }
    assert costs["cnn-3"] < costs[None]


def test_periods_end_when_all_jobs_have_begun() -> None:
    jobs = small_workload(1, 10)
    assert sum(len(period.started) for period in islice(periods(jobs, Conventions(SMALL), sequential), 1000)) == 10
