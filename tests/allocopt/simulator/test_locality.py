import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.envs.cush.jobsets import Machine, Recipe
from allocopt.errors import BadFileError, InvalidProblemError, UsageError
from allocopt.simulator.fitting import fit_locality
from allocopt.simulator.locality import (
    SIERRA_TABLE,
    Line,
    Measured,
    Measurements,
    Penalised,
    PenaltyTable,
    Policy,
    TypeClassifier,
    WorkloadType,
)

KEYS = [(kind, policy) for kind in (WorkloadType.COMPUTE, WorkloadType.NETWORK) for policy in Policy]
COEFFICIENT = st.floats(-100, 100, allow_nan=False)


def measured(kind: WorkloadType, policy: Policy, gpus: int, penalty: float) -> Measured:
    return Measured(kind, policy, gpus, 1000.0, 1000.0 + penalty)


@given(st.lists(st.tuples(COEFFICIENT, COEFFICIENT), min_size=4, max_size=4))
def test_lines_without_noise_are_found_again(coefficients: list[tuple[float, float]]) -> None:
    lines = {key: Line(*pair) for key, pair in zip(KEYS, coefficients, strict=True)}
    jobs = [measured(*key, gpus, line.base + line.per_gpu * gpus) for key, line in lines.items() for gpus in (1, 4, 64)]
    fitted = fit_locality(jobs)
    table = PenaltyTable({(one.workload, one.policy): one.fit.constants for one in fitted})
    for key, line in lines.items():
        found = table.lines[key]
        assert (found.base, found.per_gpu) == pytest.approx((line.base, line.per_gpu), abs=1e-6)
    assert max(one.fit.largest_residual for one in fitted) < 1e-6
    explained = [one.fit.explained for one in fitted if np.ptp(one.fit.measured) > 1e-3]
    assert explained == [pytest.approx(1.0)] * len(explained)


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(-50, 50)), min_size=3, max_size=20))
def test_the_fit_is_that_of_numpy(points: list[tuple[int, float]]) -> None:
    gpus, penalty = (np.array(values, dtype=float) for values in zip(*points, strict=True))
    if len(set(gpus.tolist())) < 2:
        return
    others = [measured(*key, gpus, 1.0) for key in KEYS[1:] for gpus in (1, 2)]
    ours = fit_locality([measured(*KEYS[0], int(g), p) for g, p in points] + others)[0]
    slope, base = np.polyfit(gpus, penalty, 1)
    assert (ours.fit.constants.base, ours.fit.constants.per_gpu) == pytest.approx((base, slope), abs=1e-6)
    assert ours.fit.residual == pytest.approx(np.sqrt(np.mean((penalty - base - slope * gpus) ** 2)), abs=1e-6)


def test_a_type_measured_with_one_number_of_gpus_only_is_named() -> None:
    jobs = [measured(*key, gpus, 1.0) for key in KEYS for gpus in (1, 2)][:-1]
    with pytest.raises(InvalidProblemError, match="network jobs, breadth-first: measured with 1 numbers of GPUs"):
        fit_locality(jobs)


def test_jobs_of_unknown_type_take_the_mean_of_the_two_types() -> None:
    table = PenaltyTable({key: Line(float(i), 2.0 * i) for i, key in enumerate(KEYS)})
    assert table.lines[WorkloadType.UNKNOWN, Policy.DEPTH_FIRST] == Line(1.0, 2.0)
    penalties = table.penalties(np.array([0, 1, 2]), np.array([10, 10, 10]))
    assert penalties.tolist() == [[0.0, 21.0], [42.0, 63.0], [21.0, 42.0]]


def test_a_table_in_seconds_is_read_in_timesteps() -> None:
    table = PenaltyTable({key: Line(60.0, 6.0) for key in KEYS}).in_unit(60.0)
    assert table.lines[KEYS[0]] == Line(1.0, 0.1)
    with pytest.raises(UsageError, match="must be positive"):
        table.in_unit(0.0)


def test_what_contradicts_is_refused() -> None:
    with pytest.raises(InvalidProblemError, match="leaves no run time"):
        Penalised(np.array([10.0]), np.array([-10.0]))
    with pytest.raises(InvalidProblemError, match="network jobs, breadth-first"):
        PenaltyTable({key: Line(0.0, 0.0) for key in KEYS[:-1]})
    with pytest.raises(InvalidProblemError, match="must be finite"):
        PenaltyTable({key: Line(0.0, float("inf")) for key in KEYS})


def test_the_shipped_coefficients_favour_the_right_policy_and_grow_with_gpus() -> None:
    gpus = np.arange(1, 1000)
    for kind, right in ((WorkloadType.COMPUTE, Policy.DEPTH_FIRST), (WorkloadType.NETWORK, Policy.BREADTH_FIRST)):
        penalties = SIERRA_TABLE.penalties(np.full(len(gpus), kind), gpus)
        assert (penalties[:, right] < penalties[:, 1 - right]).all()
        assert (np.diff(penalties, axis=0) >= 0).all()
        assert penalties.min() >= 0


def test_an_application_is_classified_by_its_first_runs() -> None:
    table = PenaltyTable(dict(zip(KEYS, (Line(0, 0.1), Line(0, 1), Line(0, 1), Line(0, 0.1)), strict=True)))
    classifier = TypeClassifier(table, runs=2)
    runs = [measured(WorkloadType.UNKNOWN, Policy.DEPTH_FIRST, gpus, 0.9 * gpus) for gpus in (4, 8)]
    classifier.observe("solver", runs[0])
    assert classifier.type_of("solver") is WorkloadType.UNKNOWN
    classifier.observe("solver", runs[1])
    assert classifier.type_of("solver") is WorkloadType.NETWORK
    assert classifier.type_of("another") is WorkloadType.UNKNOWN


def written(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


def small(tmp_path: Path) -> Measurements:
    """Measure a job that is faster on one server with 2 GPUs and on several with 8; another one in one way only."""
    packed = {
        "('LM (batch size 8)', 1)": {"null": 1.0},
        "('LM (batch size 8)', 2)": {"null": 4.0},
        "('LM (batch size 8)', 8)": {"null": 3.0},
        "('A3C', 2)": {"null": 1.0},
    }
    spread = {
        "('LM (batch size 8)', 2)": {"null": 2.0},
        "('LM (batch size 8)', 8)": {"null": 6.0},
        "('A3C', 2)": {"null": 0.0},
    }
    return Measurements.read(
        written(tmp_path / "small.json", {"v100": packed, "v100_unconsolidated": spread, "k80": {}})
    )


def test_slowdowns_are_over_the_better_policy_and_linear_in_between(tmp_path: Path) -> None:
    measured = small(tmp_path)
    assert (measured.gpu_types, measured.jobs("v100")) == (("v100",), ("LM (batch size 8)",))
    curve = measured.curves["v100"]["LM (batch size 8)"]
    expected = [[1, 1], [1, 2], [1, 1], [2, 1], [2, 1]]
    np.testing.assert_allclose(curve.at(np.array([1, 2, 4, 8, 100])), expected)
    service = measured.service("v100", ["LM (batch size 8)"], np.array([10.0]), np.array([2]))
    assert service.tolist() == [[10.0, 20.0]]
    assert measured.traits("v100", ["LM (batch size 8)"])[0] == pytest.approx([1.0, 3 / 13, 1.0])
    with pytest.raises(UsageError, match="measured are v100"):
        measured.jobs("k80")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ([], "top level: is an empty list, must be an object"),
        ({"v100": {}}, "holds no GPU type"),
        ({"v100": 1, "v100_unconsolidated": {}}, "v100: is 1, must be an object"),
        ({"v100": {"LM": {}}, "v100_unconsolidated": {}}, "'LM' is not a job"),
        ({"v100": {"('LM', 1)": {}}, "v100_unconsolidated": {}}, "null is null, must be a throughput"),
        ({"v100": {"('LM', 1)": {"null": -1}}, "v100_unconsolidated": {}}, "null is -1, must be a throughput"),
    ],
)
def test_a_file_without_throughputs_is_refused(tmp_path: Path, content: object, fault: str) -> None:
    with pytest.raises(BadFileError, match=fault.replace("(", r"\(").replace(")", r"\)")):
        Measurements.read(written(tmp_path / "bad.json", content))


def test_the_better_policy_of_real_jobs_depends_on_job_and_gpu(shared_data: Path) -> None:
    measured = Measurements.read(shared_data / "gpu_colocation" / "gavel_physical_cluster_throughputs.json.gz")
    assert measured.gpu_types == ("k80", "p100", "v100")
    better = {
        kind: {name: int(curve.slowdown[-1].argmin()) for name, curve in measured.curves[kind].items()}
        for kind in measured.gpu_types
    }
    assert better["k80"]["ResNet-18 (batch size 16)"] == Policy.BREADTH_FIRST
    assert better["v100"]["ResNet-18 (batch size 16)"] == Policy.DEPTH_FIRST
    assert {len(set(of.values())) for of in better.values()} == {2}
    sets = Recipe(share=0.5).draw_each(Machine.of("sierra", 16), measured, range(5))
    for jobs in sets:
        np.testing.assert_allclose(jobs.service.min(axis=1), jobs.length)
        assert jobs.traits.min() >= 0
        assert jobs.traits.max() <= 1
