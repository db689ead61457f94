"""The sentence of a verdict: the best result, its change, its interval, and groups that differ."""

import numpy as np
import pytest

from allocopt.report.verdict import Compared, Comparison, Quantity, change_interval, compared_means

WAIT = Quantity("mean wait", "shortest", "shorter", "longer", "{:,.0f} s".format)
FIRST = Compared("fcfs", 200.0, 0.0)


def said(*others: Compared, **values: object) -> str:
    return Comparison(WAIT, (FIRST, *others), "policies", **values).sentence()  # type: ignore[arg-type]


def test_a_better_result_is_named_with_its_change_and_interval() -> None:
    best = Compared("sjf", 100.0, -0.5, (-0.6, -0.4))
    begin = "sjf has the shortest mean wait of 2 policies, 100 s, 50.0 % shorter than fcfs "
    assert said(best) == f"{begin}(95 % interval -60.0 to -40.0 %, excludes 0)."
    unclear = Compared("sjf", 100.0, -0.5, (-0.8, 0.1))
    assert "which may be chance (95 % interval -80.0 to +10.0 %, includes 0)" in said(unclear)
    assert "(no 95 % interval: one trace)." in said(Compared("sjf", 100.0, -0.5), no_interval="one trace")


def test_a_baseline_that_is_best_is_compared_with_the_next() -> None:
    others = Compared("sjf", 400.0, 1.0), Compared("lcfs", 300.0, 0.5)
    begin = "fcfs has the shortest mean wait of 3 policies, 200 s; lcfs is next, 50.0 % longer"
    assert said(*others).startswith(begin)


def test_equal_results_share_their_place() -> None:
    assert said(Compared("sjf", 200.4, 0.002)) == "All 2 policies have the same mean wait, 200 s."
    equal = [Compared(name, 100.0, -0.5, (-0.6, -0.4), family="sjf with any allocator") for name in ("a", "b")]
    assert said(*equal).startswith("sjf with any allocator has the shortest")
    assert said(*equal, Compared("c", 150.0, family="sjf with any allocator")).startswith("a and b have the shortest")


def test_a_change_relative_to_0_is_two_values() -> None:
    found = compared_means({"a": np.array([[1.0, 0.0]]), "b": np.array([[1.0, 3.0]])})
    assert Comparison(WAIT, found, "solvers").sentence() == (
        "a has the shortest mean wait of 2 solvers, 0 s; b is next, 3 s instead of 0 s."
    )


@pytest.mark.parametrize(
    ("of_group", "clause"),
    [
        ((0.2, (0.1, 0.3)), "; but it is clearly longer for gpu (+20.0 %)."),
        ((0.2, ()), "; but it is longer for gpu (+20.0 %)."),
        ((0.2, (-0.1, 0.5)), "excludes 0)."),
        ((-0.2, (-0.3, -0.1)), "excludes 0)."),
    ],
)
def test_only_a_group_that_clearly_differs_from_the_whole_is_named(
    of_group: tuple[float, tuple[float, ...]], clause: str
) -> None:
    best = Compared("sjf", 100.0, -0.5, (-0.6, -0.4))
    assert said(best, groups={"gpu": (FIRST, Compared("sjf", 1.0, *of_group))}).endswith(clause)


def test_two_groups_are_named_and_others_counted() -> None:
    best = Compared("sjf", 100.0, -0.5, (-0.6, -0.4))
    groups = {name: (FIRST, Compared("sjf", 1.0, 0.2, (0.1, 0.3))) for name in "abcd"}
    assert said(best, groups=groups).endswith("for a (+20.0 %), b (+20.0 %) and 2 more groups.")


def test_fewer_than_three_samples_give_no_interval() -> None:
    rows = np.array([[1.0, 10.0], [1.0, 12.0], [1.0, 11.0]])
    assert change_interval(rows[:2], rows[:2]) == ()
    low, high = change_interval(rows, rows * (1.0, 2.0))
    assert low <= -0.5 <= high
