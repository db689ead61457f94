"""The program of placement problems."""

import logging

import numpy as np
import pytest

from allocopt.cluster.options import FatTreeOptions
from allocopt.problems.placement.generate import synthetic_placement
from allocopt.solving import StopReason
from allocopt.solving.solve import solve


@pytest.mark.parametrize("solver", ["highs", "cp-sat", "scip"])
def test_the_answer_is_a_rule_s_where_there_is_no_time_to_build_the_model(
    solver: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    problem = synthetic_placement("shared", np.random.default_rng(2), 8, 0.5, 0.5, FatTreeOptions(2, 2, 3))
    monkeypatch.setattr("allocopt.formulations.placement.BUILD_S", 1e6)
    with caplog.at_level(logging.WARNING, logger="allocopt.formulations"):
        result = solve(problem, solver=solver)
    assert result.found() == solve(problem, solver="cons-tres").found()
    assert any(result.found().of_jobs)
    assert result.stopped_by is StopReason.TIME_LIMIT
    assert "shared: its model takes about" in caplog.text
