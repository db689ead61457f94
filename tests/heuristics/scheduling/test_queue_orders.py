"""Every order puts three or four jobs as computed by hand."""

import math
import pickle

import numpy as np
import pytest
from support.workloads import workload

from allocopt.simulator.rules import OrderKind, QueueOrder
from heuristics.scheduling.queue_orders import (
    F1,
    F2,
    F3,
    F4,
    DominantResourceFairness,
    FirstComeFirstServed,
    LargestFirst,
    LongestJobFirst,
    RandomOrder,
    ShortestJobFirst,
    SmallestAreaFirst,
    Unicep,
    Wfp3,
)

# Id, submit, run, processors, estimate; the run times would order them otherwise.
JOBS = workload([(1, 0.0, 1, 8, 100.0), (2, 10.0, 2, 1, 400.0), (3, 100.0, 3, 2, 50.0), (4, 1000.0, 4, 64, 200.0)])
ORDERS: list[type[QueueOrder]] = [
    F1, F2, F3, F4, DominantResourceFairness, FirstComeFirstServed, LargestFirst, LongestJobFirst, RandomOrder,
    ShortestJobFirst, SmallestAreaFirst, Unicep, Wfp3,
]  # fmt: skip


def queue(order: QueueOrder, now: float = 2000.0) -> list[int]:
    """Ids of the jobs in their order at a time."""
    keys = order.keys(JOBS, np.random.default_rng(0))
    ranks = keys.values if keys.kind is OrderKind.FIXED else -keys.values * (now - JOBS.submit)
    return JOBS.ids[np.lexsort((JOBS.ids, JOBS.submit, ranks))].tolist()


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (ShortestJobFirst(), [3, 1, 4, 2]),
        (LongestJobFirst(), [2, 4, 1, 3]),
        # Areas 800, 400, 100, 12,800.
        (SmallestAreaFirst(), [3, 2, 1, 4]),
        (LargestFirst(), [4, 1, 3, 2]),
        # At 2000: (2000/100)^3 8 = 64,000, (1990/400)^3 = 123, (1900/50)^3 2 = 109,744, (1000/200)^3 64 = 8,000.
        (Wfp3(), [3, 1, 4, 2]),
        # 2000/(3 100) = 6.7, the only one with one processor, 1900/(1 50) = 38, 1000/(6 200) = 0.83.
        (Unicep(), [2, 3, 1, 4]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_jobs_stand_as_computed_by_hand(order: QueueOrder, expected: list[int]) -> None:
    assert queue(order) == expected


@pytest.mark.parametrize(("now", "expected"), [(1100.0, [3, 1, 2, 4]), (1e6, [3, 1, 4, 2])])
def test_a_large_job_overtakes_as_it_ages(now: float, expected: list[int]) -> None:
    # At 1100: 10,648, 20.25, 16,000 and 8 for the one that waits for 100 s; at 2000 it is at 8,000 before the second.
    assert queue(Wfp3(), now) == expected


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (F1(), [16, 870 + math.log10(400), 1740 + 2 * math.log10(50), 2610 + 64 * math.log10(200)]),
        (F2(), [80, 25_620, 51_200 + 2 * math.sqrt(50), 76_800 + 64 * math.sqrt(200)]),
        (F3(), [800, 6_860_400, 13_720_100, 20_592_800]),
        (F4(), [100 * math.sqrt(8), 530_400, 1_060_000 + 50 * math.sqrt(2), 1_591_600]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_learned_functions_have_the_published_values(order: QueueOrder, expected: list[float]) -> None:
    keys = order.keys(JOBS, np.random.default_rng(0))
    assert keys.kind is OrderKind.FIXED
    assert keys.values.tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("order", [F1(), F2(), F3(), F4()], ids=lambda order: order.name)
def test_a_job_of_the_first_second_counts_as_submitted_at_its_end(order: QueueOrder) -> None:
    jobs = workload([(1, 0.0, 1, 4, 100.0), (2, 0.25, 1, 4, 100.0), (3, 1.0, 1, 4, 100.0), (4, 2.0, 1, 4, 100.0)])
    first, second, third, fourth = order.keys(jobs, np.random.default_rng(0)).values.tolist()
    assert first == second == third < fourth


@pytest.mark.parametrize(
    ("order", "kind"), [(FirstComeFirstServed(), OrderKind.ARRIVAL), (DominantResourceFairness(), OrderKind.FAIR_SHARE)]
)
def test_orders_without_values_say_their_kind(order: QueueOrder, kind: OrderKind) -> None:
    keys = order.keys(JOBS, np.random.default_rng(0))
    assert keys.kind is kind
    assert keys.values.shape == (4,)


def test_the_random_order_is_that_of_its_seed() -> None:
    draws = [RandomOrder().keys(JOBS, np.random.default_rng(seed)).values.tolist() for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    assert len(set(draws[0])) == 4


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.name)
def test_every_order_gives_a_finite_number_per_job_and_travels_to_other_processes(order: type[QueueOrder]) -> None:
    jobs = workload([(1, 0.0, 1e-3, 1, 1e-3), (2, 0.0, 2.0**53, 2**53, 2.0**53)])
    keys = pickle.loads(pickle.dumps(order())).keys(jobs, np.random.default_rng(0))
    assert np.isfinite(keys.values).all()
    assert keys.values.shape == (2,)


def test_names_are_distinct() -> None:
    assert len({order.name for order in ORDERS}) == len(ORDERS)
