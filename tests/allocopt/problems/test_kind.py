"""What is known of a kind by its name."""

from allocopt.problems.kind import get_kind, is_maximized, kind_names


def test_the_sense_of_a_kind_is_that_of_its_problems() -> None:
    assert {name: is_maximized(name) for name in ("coallocation", "knapsack", "topology")} == {
        "coallocation": True,
        "knapsack": True,
        "topology": False,
    }
    assert all(get_kind(name).sense == get_kind(name).problem.sense for name in kind_names())


def test_rows_of_a_kind_that_is_not_installed_are_read_as_minimized() -> None:
    assert not is_maximized("routing")
