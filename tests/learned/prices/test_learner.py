"""Allocations that the search improves for the training."""

import numpy as np
import pytest
from support.windows import paper_window

from allocopt.solving.solve import solve
from allocopt.solving.verify import verify
from learned.prices.learner import _improved
from learned.prices.network import SHIPPED, load_network


@pytest.mark.parametrize("seed", range(5))
def test_it_is_valid_and_never_worse_than_what_was_known(seed: int) -> None:
    problem = paper_window(seed)
    known = solve(problem, "free", "best-fit").solution
    found = _improved(problem, known, load_network(SHIPPED)[0], 100, np.random.default_rng(seed))
    assert verify(problem, found) < problem.objective(known)
    again = _improved(problem, found, load_network(SHIPPED)[0], 1, np.random.default_rng(seed))
    assert problem.objective(again) <= problem.objective(found)
