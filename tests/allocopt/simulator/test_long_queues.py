"""A queue with an index gives the schedule of one without, which the slow twin has checked on short ones."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.schedulers import AskingEasy, Wavering

from allocopt.heuristics.scheduling.queue_orders import (
    DominantResourceFairness,
    FirstComeFirstServed,
    LargestFirst,
    ShortestJobFirst,
    Wfp3,
)
from allocopt.kernels.ready import make_ready
from allocopt.simulator.engine import Simulation
from allocopt.simulator.kernels.backfilling import run
from allocopt.simulator.kernels.queue import LONG
from allocopt.simulator.rules import Backfill, EventOrder, QueueOrder, Rules
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.simulator.state import CANDIDATES, QUEUE
from allocopt.traces.workload import Workload

MACHINE = 64
orders: st.SearchStrategy[QueueOrder] = st.sampled_from([FirstComeFirstServed(), ShortestJobFirst(), LargestFirst()])


def bursts(seed: int, n_jobs: int) -> Workload:
    """Jobs of all sizes that come in three bursts, between which the machine works off some of them."""
    rng = np.random.default_rng(seed)
    run_s = np.round(np.exp(rng.uniform(0, 8, n_jobs))) + 1
    processors = np.minimum(MACHINE, 2 ** rng.integers(0, 7, n_jobs) + rng.integers(0, 3, n_jobs))
    submit = np.sort(rng.integers(0, 3, n_jobs)) * (run_s * processors).sum() / MACHINE * 0.2
    estimate = np.round(run_s * rng.choice([0.5, 1.0, 1.0, 4.0], n_jobs))
    return Workload("bursts", np.arange(n_jobs), submit, run_s, processors, np.maximum(1.0, estimate))


@pytest.mark.slow
@pytest.mark.parametrize("backfill", [Backfill.FIRST_FIT, Backfill.EASY], ids=["first_fit", "easy"])
@settings(max_examples=10)
@given(
    seed=st.integers(0, 1000),
    n_jobs=st.integers(2 * LONG, 4 * LONG),
    order=orders,
    event_order=st.sampled_from(EventOrder),
    kill=st.booleans(),
)
def test_an_index_over_the_queue_changes_no_start(
    backfill: Backfill, seed: int, n_jobs: int, order: QueueOrder, event_order: EventOrder, kill: bool
) -> None:
    jobs, scheduler, rules = bursts(seed, n_jobs), ListScheduler(order, backfill), Rules(event_order, kill)
    make_ready((run,))
    state = Simulation(jobs, MACHINE, scheduler, rules).state
    run(state._replace(least=state.least[:, :0].copy()), 2**62)
    assert not state.clock["indexed"][0]
    np.testing.assert_array_equal(simulate(jobs, MACHINE, scheduler, rules).start, state.jobs["start"])


@pytest.mark.parametrize("backfill", [Backfill.FIRST_FIT, Backfill.EASY], ids=["first_fit", "easy"])
def test_the_index_begins_with_a_long_queue_and_ends_with_a_short_one(backfill: Backfill) -> None:
    n_jobs, lengths, most_gone = 3 * LONG, [], 0
    make_ready((run,))
    simulation = Simulation(bursts(7, n_jobs), MACHINE, ListScheduler(FirstComeFirstServed(), backfill))
    clock = simulation.state.clock[0]
    while run(simulation.state, 1):
        queue = simulation.view.queue
        lengths.append((bool(clock["indexed"]), len(queue)))
        assert len(queue) == clock["n_queued"] == len(set(queue.tolist()))
        assert np.isnan(simulation.state.jobs["start"][queue]).all()
        assert (np.diff(queue) > 0).all()
        most_gone = max(most_gone, int(clock["n_gone"]))
        assert simulation.view.head == (queue[0] if len(queue) else None)
        assert all(np.array_equal(simulation.view.first(most), queue[:most]) for most in (0, 1, 2, LONG // 3))
    assert most_gone > LONG // 8
    indexed = [length for is_indexed, length in lengths if is_indexed]
    assert max(indexed) > LONG
    assert not lengths[-1][0]


@pytest.mark.slow
@settings(max_examples=5)
@given(seed=st.integers(0, 1000), n_jobs=st.integers(2 * LONG, 4 * LONG))
def test_a_python_scheduler_that_asks_gives_the_built_in_schedule(seed: int, n_jobs: int) -> None:
    jobs, easy = bursts(seed, n_jobs), ListScheduler(FirstComeFirstServed(), Backfill.EASY)
    np.testing.assert_array_equal(simulate(jobs, MACHINE, AskingEasy()).start, simulate(jobs, MACHINE, easy).start)


def test_a_view_knows_who_of_a_long_queue_may_be_backfilled() -> None:
    scheduler = Wavering(np.random.default_rng(3))
    simulate(bursts(3, 2 * LONG), MACHINE, scheduler)
    assert scheduler.answers > LONG


@pytest.mark.parametrize(
    "order", [ShortestJobFirst(), Wfp3(), DominantResourceFairness()], ids=lambda order: order.name
)
def test_many_jobs_that_come_at_once_are_put_in_order(order: QueueOrder) -> None:
    jobs = replace(bursts(5, 3 * LONG), submit=np.zeros(3 * LONG), users=np.arange(3 * LONG) % 7)
    state = Simulation(jobs, MACHINE, ListScheduler(order)).state
    make_ready((run,))
    lengths = []
    while len(lengths) < 100:
        assert run(state, 1)
        clock, rows = state.clock[0], state.jobs
        if not clock["unfinished"]:
            queue = state.lists[QUEUE, clock["first"] : clock["first"] + clock["n_queued"]]
            keys = {
                "sjf": rows["estimate"],
                "wfp3": -rows["order_value"] * (clock["now"] - rows["release"]),
                "drf": state.held[rows["user"], 0] / MACHINE,
            }[order.name]
            assert queue.tolist() == queue[np.lexsort((queue, keys[queue]))].tolist()
            lengths.append(len(queue))
    assert lengths[0] > 2 * LONG


def test_many_candidates_that_come_at_once_are_put_in_order() -> None:
    scheduler = ListScheduler(FirstComeFirstServed(), Backfill.EASY, ShortestJobFirst())
    state = Simulation(bursts(5, LONG), MACHINE, scheduler).state
    make_ready((run,))
    while run(state, 1):
        candidates = state.lists[CANDIDATES, : state.clock["n_queued"][0]]
        assert (np.diff(state.jobs["backfill_rank"][candidates]) > 0).all()
