"""Sequential is what it says: the paper's column "Seq."."""

import numpy as np
import pytest
from hypothesis import given
from support.windows import windows

from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.solve import solve


@pytest.mark.parametrize("strategy", list(Strategy))
@given(windows(most_idle=14, most_jobs=6))
def test_jobs_take_the_idle_nodes_one_after_the_other(strategy: Strategy, problem: TopologyProblem) -> None:
    nodes = solve(problem, strategy, "sequential").solution.nodes
    assert np.concatenate(nodes).tolist() == problem.idle_nodes[: problem.sizes.sum()].tolist()
