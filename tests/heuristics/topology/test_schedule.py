"""A schedule that makes no sense is refused."""

import math

import pytest

from allocopt.errors import UsageError
from allocopt.solving.registry import get_solver
from heuristics.topology.schedule import Schedule


@pytest.mark.parametrize("solver", ["annealing", "annealing-as-published", "simanneal"])
@pytest.mark.parametrize(
    "options",
    [
        {"hottest": 0.1, "coldest": 0.2},
        {"coldest": 0.0},
        {"coldest": -1.0},
        {"hottest": math.inf},
        {"hottest": math.nan},
        {"coldest": math.nan},
        {"steps": 0},
        {"steps": -5},
        {"most_removed": 0},
        {"most_removed": 101},
    ],
)
def test_an_option_out_of_range_is_refused(solver: str, options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=r"temperatures|steps|most_removed"):
        get_solver(solver, options)


def test_a_constant_temperature_is_a_schedule() -> None:
    assert Schedule(1.0, 1.0, 1, 1).hottest == 1.0
