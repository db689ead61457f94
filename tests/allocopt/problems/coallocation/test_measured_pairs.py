"""Measured pairs of deep-learning jobs: what is read, which pairs do not share, and what a problem of them is worth."""

import json
from pathlib import Path

import numpy as np
import pytest

from allocopt.errors import BadFileError, UsageError
from allocopt.problems.coallocation.generate import MeasuredPairs, read_pairs
from allocopt.solving.solve import solve

A, B, C = (f"('{name}', 1)" for name in "ABC")
TABLE = {
    A: {"null": 10.0, A: [6.0, 6.0], B: [8.0, 2.0], C: [0.0, 0.0]},
    B: {"null": 4.0, A: [2.0, 8.0], B: [4.4, 4.4], C: [1.0, 5.0]},
    C: {"null": 5.0, A: [0.0, 0.0], B: [5.0, 1.0], C: [2.5, 2.5]},
    "('A', 2)": {"null": 19.0},
    "('D', 1)": {"null": 0.0},
}
FILE = Path("gpu_colocation") / "gavel_physical_cluster_throughputs.json.gz"


def small(tmp_path: Path) -> MeasuredPairs:
    (tmp_path / "t.json").write_text(json.dumps({"v100": TABLE}), encoding="utf-8")
    return read_pairs(tmp_path / "t.json", "v100")


def test_speeds_are_over_those_alone(tmp_path: Path) -> None:
    pairs = small(tmp_path)
    assert pairs.names == (A, B, C)
    assert pairs.speeds.tolist() == [[0.6, 0.8, 0.0], [0.5, 1.1, 0.25], [0.0, 1.0, 0.5]]
    assert pairs.totals()[0, 1] == pytest.approx(1.3)
    assert pairs.slowdowns(0, 1) == (1.25, 2.0)
    assert pairs.slowdowns(1, 1) == (1.0, 1.0)
    assert pairs.slowdowns(0, 2) is None


def test_the_exact_model_finds_the_pairs_of_most_throughput(tmp_path: Path) -> None:
    pairs = small(tmp_path)
    problem = pairs.problem([0, 1, 2], [1, 1, 0], max_slowdown=9.0)
    result = solve(problem, time_limit=60.0)
    # A beside A 1.2, B beside B 2 (speeds above 1 do not count), C beside B 1.25; slowdowns are in steps of 1e-4.
    assert result.objective == pytest.approx(0.2 + 1.0 + 0.25, abs=3e-4)
    assert result.solution.as_list(problem)[2] == ("guest-2", "host-0", 0.5)
    assert solve(problem, solver="scip", time_limit=60.0).objective == pytest.approx(result.objective)


@pytest.mark.parametrize(
    ("content", "error", "fault"),
    [
        ([], BadFileError, "top level: is an empty list, must be an object"),
        ({"k80": {}}, UsageError, "no GPU 'v100' was measured; there are k80"),
        ({"v100": {}}, UsageError, "no job was measured on 1 GPUs"),
        ({"v100": {A: {"null": "x"}}}, BadFileError, "null is 'x', must be a throughput"),
        ({"v100": {A: {"null": 1.0, A: [1.0]}}}, BadFileError, "is a list, must be two throughputs"),
    ],
)
def test_what_holds_no_pairs_is_refused(tmp_path: Path, content: object, error: type[Exception], fault: str) -> None:
    (tmp_path / "t.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(error, match=fault.replace("(", r"\(").replace(")", r"\)")):
        read_pairs(tmp_path / "t.json", "v100")


def test_real_jobs_gain_from_sharing_where_they_are_paired_well(shared_data: Path) -> None:
    pairs = read_pairs(shared_data / FILE, "v100")
    assert len(pairs.names) == 26
    assert (pairs.speeds > 0).mean() > 0.9
    rng = np.random.default_rng(0)
    problem = pairs.problem(pairs.draw(20, rng).tolist(), pairs.draw(20, rng).tolist())
    best, half = (solve(problem, solver=name, time_limit=60.0).objective for name in ("assignment", "static-50"))
    assert best is not None
    assert half is not None
    assert best > max(half, 2.0)
