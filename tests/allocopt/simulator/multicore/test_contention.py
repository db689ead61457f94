"""The speed factor: its values, its limits, and that it never rises with what is asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.slow_multicore import slow_factor, slow_step

from allocopt.cluster.irmasim import CONTENTION
from allocopt.cluster.multicore import ContentionConstants
from allocopt.simulator.multicore.contention import falling_step, least_factor, speed_factor

rates = st.floats(0, 2e5)
numbers = st.integers(0, 70)
sharings = st.floats(0.1, 2)
constants = st.builds(
    ContentionConstants,
    b=st.floats(-1e-3, -1e-6),
    c=st.floats(1, 1e5),
    da=st.floats(-5, 5),
    db=st.floats(0, 1e4),
    dc=st.floats(1, 1e5),
    dd=st.floats(0, 1e4),
)


@given(constants, rates, rates, numbers, sharings)
def test_it_is_that_of_the_slow_twin(k: ContentionConstants, rate: float, rest: float, n: int, sharing: float) -> None:
    assert speed_factor(rate, rest, n, k, sharing) == pytest.approx(
        slow_factor(rate, rate + rest, n, k, sharing), rel=1e-9
    )


@given(constants, rates, rates, numbers, sharings)
def test_it_is_at_most_1_and_never_below_the_share_of_a_task(
    k: ContentionConstants, rate: float, rest: float, n: int, sharing: float
) -> None:
    factor = float(speed_factor(rate, rest, n, k, sharing))
    assert 1 / (1 + sharing * n) * (1 - 1e-12) <= factor <= 1


@given(constants, rates, numbers)
def test_without_contention_it_is_1(k: ContentionConstants, rate: float, n: int) -> None:
    own = min(rate, k.c / 2)
    assert speed_factor(own, k.c - own, n, k) == 1
    assert speed_factor(rate, 0.0, 0, k) == 1


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_at_the_floor_each_of_equal_tasks_gets_its_share(n: int) -> None:
    assert speed_factor(1e6, n * 1e6, n, CONTENTION) == pytest.approx(1 / (1 + n))
    assert speed_factor(1e6, n * 1e6, n, CONTENTION, 0.6) == pytest.approx(1 / (1 + 0.6 * n))


@given(constants, rates, rates, st.floats(0, 1e5), numbers)
def test_it_does_not_rise_with_the_own_rate(
    k: ContentionConstants, rate: float, rest: float, more: float, n: int
) -> None:
    assert speed_factor(rate + more, rest, n, k) <= speed_factor(rate, rest, n, k) + 1e-12


@given(constants, rates, rates, st.floats(0, 1e5), numbers)
def test_it_does_not_rise_with_the_rate_of_the_others(
    k: ContentionConstants, rate: float, rest: float, more: float, n: int
) -> None:
    assert speed_factor(rate, rest + more, n, k) <= speed_factor(rate, rest, n, k)


def test_a_task_that_hardly_touches_memory_is_hardly_slowed_down() -> None:
    assert least_factor(0.0, 1.0, 1.0, 1.75, 3500.0, 45000.0, 3000.0) == 1
    assert speed_factor(100.0, 60000.0, 3, CONTENTION) > 0.95


def test_the_step_falls_from_1_to_0_and_is_flat_at_both_ends() -> None:
    xs = np.linspace(-0.5, 1.5, 201)
    values = np.array([falling_step(float(x)) for x in xs])
    assert values == pytest.approx([slow_step(float(x)) for x in xs])
    assert (np.diff(values) <= 0).all()
    assert falling_step(0.5) == 0.5
    assert falling_step(1e-3) == pytest.approx(1, abs=1e-8)
    assert falling_step(1 - 1e-3) == pytest.approx(0, abs=1e-8)
