"""One workload on one machine under every combination of allocators and schedulers."""

import numpy as np
import pytest

from allocopt.cluster.topology import FatTree
from allocopt.errors import UsageError
from allocopt.simulator.rules import Backfill, Rules
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import as_scheduler, simulate
from allocopt.simulator.what_if import Outcome, WhatIf
from allocopt.solving.budget import Budget
from allocopt.traces.workload import Workload

TREE = FatTree(2, 2, 4)


def workload() -> Workload:
    rng = np.random.default_rng(1)
    run = rng.integers(60, 900, 60).astype(float)
    submit = np.sort(rng.integers(0, 6000, 60)).astype(float)
    return Workload("random", np.arange(60), submit, run, rng.integers(1, 9, 60), run * rng.uniform(1, 2, 60))


def outcomes(allocators: str, schedulers: str, hop_slowdown: float = 0.0) -> list[Outcome]:
    asked = WhatIf(workload(), TREE, Rules(), Budget(iterations=200), hop_slowdown)
    return list(asked.outcomes(allocators.split(), schedulers.split()))


@pytest.mark.slow
def test_every_combination_has_an_outcome_one_scheduler_after_the_other() -> None:
    found = [(outcome.scheduler, outcome.allocator) for outcome in outcomes("first best-fit", "easy fcfs window")]
    assert found == [(scheduler, name) for scheduler in ("easy", "fcfs", "window") for name in ("first", "best-fit")]


def test_without_slowdown_the_allocator_changes_no_times_and_the_scheduler_does() -> None:
    first, fit, other = outcomes("first best-fit", "easy")[:2] + outcomes("first", "fcfs")
    np.testing.assert_array_equal(first.schedule.start, fit.schedule.start)
    assert (first.schedule.start != other.schedule.start).any()
    alone = simulate(workload(), TREE.size, ListScheduler(as_scheduler("fcfs").order, Backfill.EASY))  # type: ignore[union-attr]
    np.testing.assert_array_equal(first.schedule.start, alone.start)


def test_a_better_allocator_costs_fewer_hops_and_with_a_slowdown_less_time() -> None:
    first, fit = outcomes("first best-fit", "easy", hop_slowdown=1.0)
    assert fit.metrics.jobs.mean_hop_cost is not None
    assert first.metrics.jobs.mean_hop_cost is not None
    assert fit.metrics.jobs.mean_hop_cost < first.metrics.jobs.mean_hop_cost
    assert (fit.schedule.end - fit.schedule.start).sum() < (first.schedule.end - first.schedule.start).sum()


@pytest.mark.parametrize("name", ["easy", "none", "first-fit", "sjf", "sjf+conservative"])
def test_a_scheduler_is_made_of_its_name(name: str) -> None:
    scheduler = as_scheduler(name)
    assert isinstance(scheduler, ListScheduler)
    order, _, backfill = name.partition("+") if name.startswith("sjf") else ("fcfs", "+", name)
    assert scheduler.order.name == order
    assert scheduler.backfill is Backfill[(backfill or "none").replace("-", "_").upper()]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_outcomes() -> None:
    once, again = ([outcome.metrics.jobs for outcome in outcomes("lns", "easy window")] for _ in range(2))
    assert once == again


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sjf+hard", "there is no backfilling 'hard'; there are none, first-fit, easy, conservative"),
        ("optimization+easy", "is a scheduler, not a queue order: it takes no backfilling"),
        ("nobody", "nobody"),
        ("", "there is no policy"),
    ],
)
def test_an_unknown_scheduler_is_told(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        as_scheduler(name)
    # Names are tried before anything runs.
    with pytest.raises(UsageError, match=message):
        next(WhatIf(workload(), TREE, Rules(), Budget()).outcomes(["first"], ["easy", name]))


def test_an_unknown_allocator_is_told_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="nobody"):
        next(WhatIf(workload(), TREE, Rules(), Budget()).outcomes(["first", "nobody"], ["easy"]))
