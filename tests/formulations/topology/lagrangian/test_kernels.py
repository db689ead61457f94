"""Every kernel of the relaxation against an obvious, slow twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.circles import Circle, circles, distances, prices_for

from allocopt.arrays import FloatArray, IntArray
from formulations.topology.lagrangian.relaxation import (
    arrange_by_end,
    bound_labels_from,
    fill_labels,
    fill_labels_to_end,
    least_straddling,
    mark_survivors,
    solve_cases,
    trace_path,
)


def arrivals_of(circle: Circle) -> FloatArray:
    arrivals = np.empty((circle.m + 1, len(circle.sizes)))
    arrange_by_end(circle.costs, circle.sizes, arrivals)
    return arrivals


def labels_from(circle: Circle, prices: FloatArray, start: int) -> FloatArray:
    labels = np.full(circle.m + 1, np.nan)
    fill_labels(arrivals_of(circle), circle.sizes, prices, start, start, circle.m, labels)
    return labels


def close(found: FloatArray, expected: FloatArray) -> bool:
    return bool(np.allclose(found, expected, rtol=1e-12, atol=1e-9))


@given(circles())
def test_blocks_by_their_end_are_the_same_blocks(circle: Circle) -> None:
    arrivals = arrivals_of(circle)
    for i in range(circle.m + 1):
        for r, size in enumerate(circle.sizes.tolist()):
            assert arrivals[i, r] == (circle.costs[r, i - size] if i >= size else np.inf)


@given(circles(), st.data())
def test_labels_are_the_shortest_distances_from_every_start(circle: Circle, data: st.DataObject) -> None:
    prices = data.draw(prices_for(circle))
    shortest = distances(circle, prices)
    for start in range(circle.m + 1):
        assert close(labels_from(circle, prices, start)[start:], shortest[start, start:])


@given(circles(), st.data())
def test_labels_can_be_filled_piece_by_piece(circle: Circle, data: st.DataObject) -> None:
    prices = data.draw(prices_for(circle))
    start = data.draw(st.integers(0, circle.m))
    between = data.draw(st.integers(start, circle.m))
    labels = np.full(circle.m + 1, np.nan)
    fill_labels(arrivals_of(circle), circle.sizes, prices, start, start, between, labels)
    fill_labels(arrivals_of(circle), circle.sizes, prices, start, between + 1, circle.m, labels)
    assert np.array_equal(labels, labels_from(circle, prices, start), equal_nan=True)


@given(circles(), st.data())
def test_labels_to_the_end_are_the_shortest_distances_to_any_ending(circle: Circle, data: st.DataObject) -> None:
    prices = data.draw(prices_for(circle))
    endings = st.one_of(st.just(np.inf), st.integers(-50, 50).map(float))
    ending = np.array(data.draw(st.lists(endings, min_size=circle.m + 1, max_size=circle.m + 1)))
    labels = ending.copy()
    fill_labels_to_end(np.ascontiguousarray(circle.costs.T), circle.sizes, prices, 0, labels)
    assert close(labels, np.min(distances(circle, prices) + ending, axis=1))


@given(circles(), st.data())
def test_bounds_on_labels_never_pass_the_labels(circle: Circle, data: st.DataObject) -> None:
    prices = data.draw(prices_for(circle))
    line = labels_from(circle, prices, 0)
    shortest = distances(circle, prices)
    for k in range(1, min(circle.m, int(circle.sizes[-1]))):
        labels = np.full(circle.m + 1, np.nan)
        bound_labels_from(arrivals_of(circle), circle.sizes, prices, k, line, labels)
        assert (labels[k:] <= shortest[k, k:] + 1e-9).all()


def long_circle(seed: int) -> Circle:
    rng = np.random.default_rng(seed)
    return Circle(rng.uniform(10, 20, size=(3, 400)) * np.array([[2], [3], [5]]), np.array([2, 3, 5]))


@pytest.mark.parametrize("seed", range(5))
def test_bounds_on_labels_are_the_labels_once_the_paths_have_met(seed: int) -> None:
    circle, prices = long_circle(seed), np.array([31.0, 46.0, 74.0])
    line = labels_from(circle, prices, 0)
    labels = np.full(circle.m + 1, np.nan)
    bound_labels_from(arrivals_of(circle), circle.sizes, prices, 3, line, labels)
    exact = labels_from(circle, prices, 3)
    assert close(labels[3:], exact[3:])
    # The kernel ended early: the labels of the end are shifts of the line's, to the last bit.
    assert len(np.unique((labels - line)[-100:].round(12))) == 1


def case_values(circle: Circle, prices: FloatArray) -> FloatArray:
    """Length of the shortest path of every case, from all distances."""
    shortest = distances(circle, prices)
    values = [shortest[0, circle.m]]
    for k in range(1, int(circle.sizes[-1])):
        ends = [(r, circle.m - n + k) for r, n in enumerate(circle.sizes.tolist()) if n > k]
        values.append(min(shortest[k, end] + circle.costs[r, end] - prices[r] for r, end in ends))
    return np.array(values)


def solved_cases(circle: Circle, prices: FloatArray, most_filled: int = 10**9) -> tuple[int, FloatArray]:
    line, labels = np.empty(circle.m + 1), np.empty(circle.m + 1)
    values = np.empty(int(circle.sizes[-1]))
    case, first = 0, 0
    while first < len(values):
        first, case = solve_cases(
            *(circle.costs, arrivals_of(circle), circle.sizes, prices, line, labels, values),
            *(first, case, most_filled),
        )
    return case, values


@given(circles(), st.data())
def test_the_shortest_case_is_found_and_no_value_passes_its_case(circle: Circle, data: st.DataObject) -> None:
    prices = data.draw(prices_for(circle))
    case, values = solved_cases(circle, prices)
    exact = case_values(circle, prices)
    assert values[case] == values.min() == pytest.approx(exact.min(), rel=1e-12, abs=1e-9)
    assert (values <= exact + 1e-9).all()


@given(circles(), st.data())
def test_the_shortest_case_is_the_same_however_the_work_is_sliced(circle: Circle, data: st.DataObject) -> None:
    prices = data.draw(prices_for(circle))
    (case, values), (sliced_case, sliced_values) = solved_cases(circle, prices), solved_cases(circle, prices, 0)
    assert sliced_case == case
    assert (sliced_values == values).all()


@given(circles(), st.data())
def test_least_straddling_is_the_value_of_the_case(circle: Circle, data: st.DataObject) -> None:
    prices = data.draw(prices_for(circle))
    exact = case_values(circle, prices)
    for k in range(1, len(exact)):
        found = least_straddling(circle.costs, circle.sizes, prices, k, labels_from(circle, prices, k))
        assert found == pytest.approx(exact[k], rel=1e-12, abs=1e-9)


@given(circles(), st.data())
def test_the_path_of_every_case_is_a_packing_of_its_length(circle: Circle, data: st.DataObject) -> None:
    prices = data.draw(prices_for(circle))
    exact = case_values(circle, prices)
    for k in range(len(exact)):
        path_sizes, path_starts = np.empty(circle.m, dtype=np.int64), np.empty(circle.m, dtype=np.int64)
        n = trace_path(
            *(circle.costs, arrivals_of(circle), circle.sizes, prices, k, labels_from(circle, prices, k)),
            *(path_sizes, path_starts),
        )
        sizes, starts = path_sizes[:n], path_starts[:n]
        assert_apart(circle, sizes, starts)
        length = (circle.costs[sizes, starts] - prices[sizes]).sum()
        assert length == pytest.approx(exact[k], rel=1e-12, abs=1e-9)


def assert_apart(circle: Circle, sizes: IntArray, starts: IntArray) -> None:
    covered = [(i + x) % circle.m for r, i in zip(sizes, starts, strict=True) for x in range(int(circle.sizes[r]))]
    assert len(set(covered)) == len(covered)


@given(circles(most_positions=9), st.data())
def test_a_block_survives_where_a_path_through_it_is_short_enough(circle: Circle, data: st.DataObject) -> None:
    prices = data.draw(prices_for(circle))
    shortest = distances(circle, prices)
    exact = case_values(circle, prices)
    longest = exact.min() + data.draw(st.integers(0, 60)) + 0.5
    for k in range(len(exact)):
        ending = np.full(circle.m + 1, np.inf)
        if k == 0:
            ending[circle.m] = 0.0
        for r, n in enumerate(circle.sizes.tolist()):
            if n > k > 0:
                ending[circle.m - n + k] = circle.costs[r, circle.m - n + k] - prices[r]
        to_end = ending.copy()
        fill_labels_to_end(np.ascontiguousarray(circle.costs.T), circle.sizes, prices, k, to_end)
        survives = np.zeros(circle.costs.shape, dtype=np.uint8)
        labels = labels_from(circle, prices, k)
        mark_survivors(circle.costs, circle.sizes, prices, k, labels, to_end, longest, survives)
        expected = np.zeros(circle.costs.shape, dtype=np.uint8)
        for r, n in enumerate(circle.sizes.tolist()):
            for i in range(circle.m):
                own = circle.costs[r, i] - prices[r]
                if k <= i <= circle.m - n:
                    after = min(shortest[i + n, end] + ending[end] for end in range(i + n, circle.m + 1))
                    expected[r, i] = shortest[k, i] + own + after <= longest
                elif k > 0 and i + n == circle.m + k:
                    expected[r, i] = shortest[k, i] + own <= longest
        assert np.array_equal(survives, expected)
