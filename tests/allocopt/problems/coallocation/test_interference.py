"""How much jobs slow each other down: stage by stage, in the simulated truth, and as it was measured."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.coallocations import job, problem, solution
from support.corun import finish_times

from allocopt.errors import BadFileError, UsageError
from allocopt.problems.coallocation.generate import MeasuredPairs
from allocopt.problems.coallocation.interference import (
    STEPS,
    Interference,
    Sharing,
    Tenant,
    divided,
    in_steps,
    slowdowns,
)
from allocopt.solving.solve import solve
from allocopt.traces.job_profile import Stage

QUIET, IO_ALONE = Interference(0.0, 0.0, 0.0, 0.0), Interference(0.0, 0.0, 1.0)


SHARES = st.floats(0.01, 1.0)


def tenant(cpu: float, quota: float, cores: int = 8, memory: float = 0.0, io: float = 0.0) -> Tenant:
    return Tenant(cores, Stage(1.0, cpu, memory, io), quota)


@pytest.mark.parametrize(
    ("tenants", "interference", "of_caps", "of_shares"),
    [
        ([tenant(1.0, 1.0, memory=1.0, io=1.0)], Interference(), [1.0], [1.0]),
        # A cap slows down a job that is alone, and a share takes what the other one leaves.
        ([tenant(1.0, 0.25)], QUIET, [4.0], [1.0]),
        ([tenant(1.0, 0.75), tenant(1.0, 0.25)], QUIET, [1 / 0.75, 4.0], [1 / 0.75, 4.0]),
        ([tenant(0.2, 0.5), tenant(1.0, 0.5)], QUIET, [1.0, 2.0], [1.0, 1.25]),
        # Two jobs that always do I/O take twice as long; a small guest presses its host less than it is pressed.
        ([tenant(0.1, 0.5, io=1.0)] * 2, IO_ALONE, [2.0, 2.0], [2.0, 2.0]),
        ([tenant(0.1, 0.5, 8, io=0.5), tenant(0.1, 0.5, 2, io=0.5)], IO_ALONE, [1.0625, 1.25], [1.0625, 1.25]),
        # Memory beyond the host's is paged: half of it more is there than fits.
        ([tenant(0.1, 0.5, memory=one) for one in (0.8, 0.7)], Interference(0.0, 0.0, 0.0, 4.0), [3.0] * 2, [3.0] * 2),
    ],
)
def test_jobs_are_slowed_down_as_computed_by_hand(
    tenants: list[Tenant], interference: Interference, of_caps: list[float], of_shares: list[float]
) -> None:
    assert slowdowns(tenants, 8, Sharing.CAPS, interference).tolist() == pytest.approx(of_caps)
    assert slowdowns(tenants, 8, Sharing.SHARES, interference).tolist() == pytest.approx(of_shares)


@given(st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=5))
def test_a_division_wastes_nothing_and_keeps_to_the_weights(pairs: list[tuple[float, float]]) -> None:
    wanted, weights = (np.array(column) for column in zip(*pairs, strict=True))
    given_to = divided(wanted, weights)
    assert given_to.sum() == pytest.approx(min(1.0, wanted.sum()))
    assert (given_to <= wanted + 1e-12).all()
    # Who does not get all gets no less for its weight than anybody else.
    short = given_to < wanted - 1e-9
    for level in (given_to / weights)[short]:
        assert ((given_to / weights) <= level + 1e-9).all()


@given(st.lists(st.tuples(SHARES, SHARES, SHARES, SHARES), min_size=2, max_size=4))
def test_shares_never_make_a_job_slower_than_caps(rows: list[tuple[float, float, float, float]]) -> None:
    total = sum(quota for _, quota, _, _ in rows)
    tenants = [tenant(cpu, quota / total, 8, memory, io) for cpu, quota, memory, io in rows]
    assert (slowdowns(tenants, 8, Sharing.SHARES) <= slowdowns(tenants, 8, Sharing.CAPS) + 1e-9).all()


@pytest.mark.parametrize("sharing", list(Sharing))
@given(
    demands=st.tuples(SHARES, SHARES, SHARES, SHARES), memory=st.floats(0, 0.5), percent=st.sampled_from([10, 50, 90])
)
def test_a_problem_of_one_stage_each_counts_the_same_slowdown(
    sharing: Sharing, demands: tuple[float, float, float, float], memory: float, percent: int
) -> None:
    first, second = Stage(1.0, demands[0], memory, demands[1]), Stage(1.0, demands[2], memory, demands[3])
    case = problem([job("h", 8, first)], [job("g", 4, second)], sharing=sharing)
    of_host, of_guest = case.excess_steps(solution((0, 0, percent)))
    together = [Tenant(8, first, 1 - percent / 100), Tenant(4, second, percent / 100)]
    of_both = in_steps(slowdowns(together, 8, sharing, case.interference) - 1)
    # Two terms, each rounded down to a step, lose less than two.
    assert of_both[0] - of_host[0] in (0, 1)
    assert of_both[1] - of_guest[0] in (0, 1)


BUSY = Stage(1.0, 1.0)


def test_rates_change_when_a_job_moves_to_its_next_stage() -> None:
    host = job("h", 8, Stage(0.5, 0.25), Stage(0.5, 1.0), remaining=100.0)
    guest = job("g", 8, BUSY, remaining=90.0)
    # 50 s with the guest at 3/4 of its speed, so that 52.5 s of its work are left; then half each, until the host has
    # done its other 50 s and the guest goes on alone.
    ends = finish_times([host, guest], [0.5, 0.5], 8, Sharing.SHARES, QUIET)
    assert ends.tolist() == pytest.approx([50 + 100, 50 + 100 + 2.5])


def test_a_problem_counts_what_happens_while_both_run_in_one_stage() -> None:
    host, guest = job("h", 8, Stage(1.0, 0.9, 0.2, 0.3), remaining=1e6), job("g", 8, Stage(1.0, 0.8, 0.1, 0.5))
    case = problem([host], [guest], sharing=Sharing.SHARES)
    _, of_guest = case.excess_steps(solution((0, 0, 40)))
    ends = finish_times([host, guest], [0.6, 0.4], 8)
    assert ends[1] / 100.0 - 1 == pytest.approx(of_guest[0] / STEPS, abs=2.01 / STEPS)


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
    return MeasuredPairs.read(tmp_path / "t.json", "v100")


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
        ({"k80": {}}, UsageError, "no GPU 'v100' was measured; choose from k80"),
        ({"v100": {}}, UsageError, "no job was measured on 1 GPUs"),
        ({"v100": {A: {"null": "x"}}}, BadFileError, "null is 'x', must be a throughput"),
        ({"v100": {A: {"null": 1.0, A: [1.0]}}}, BadFileError, "is a list, must be two throughputs"),
    ],
)
def test_what_holds_no_pairs_is_refused(tmp_path: Path, content: object, error: type[Exception], fault: str) -> None:
    (tmp_path / "t.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(error, match=fault.replace("(", r"\(").replace(")", r"\)")):
        MeasuredPairs.read(tmp_path / "t.json", "v100")


def test_real_jobs_gain_from_sharing_where_they_are_paired_well(shared_data: Path) -> None:
    pairs = MeasuredPairs.read(shared_data / FILE, "v100")
    assert len(pairs.names) == 26
    assert (pairs.speeds > 0).mean() > 0.9
    rng = np.random.default_rng(0)
    problem = pairs.problem(pairs.draw(20, rng).tolist(), pairs.draw(20, rng).tolist())
    best, half = (solve(problem, solver=name, time_limit=60.0).objective for name in ("assignment", "static-50"))
    assert best is not None
    assert half is not None
    assert best > max(half, 2.0)
