import json
from pathlib import Path

import numpy as np
import pytest

from allocopt.envs.cush.jobsets import Recipe, draw_jobsets, sierra
from allocopt.errors import BadFileError, UsageError
from allocopt.simulator.locality import Measurements, Policy, read_measurements


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
    return read_measurements(
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
    with pytest.raises(UsageError, match="there are v100"):
        measured.jobs("k80")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ([], "top level: is an empty list, must be an object"),
        ({"v100": {}}, "holds no GPU type"),
        ({"v100": 1, "v100_unconsolidated": {}}, "v100: is 1, must be an object"),
        ({"v100": {"LM": {}}, "v100_unconsolidated": {}}, "'LM' is no job"),
        ({"v100": {"('LM', 1)": {}}, "v100_unconsolidated": {}}, "null is null, must be a throughput"),
        ({"v100": {"('LM', 1)": {"null": -1}}, "v100_unconsolidated": {}}, "null is -1, must be a throughput"),
    ],
)
def test_a_file_without_throughputs_is_refused(tmp_path: Path, content: object, fault: str) -> None:
    with pytest.raises(BadFileError, match=fault.replace("(", r"\(").replace(")", r"\)")):
        read_measurements(written(tmp_path / "bad.json", content))


def test_the_better_policy_of_real_jobs_depends_on_job_and_gpu(shared_data: Path) -> None:
    measured = read_measurements(shared_data / "gpu_colocation" / "gavel_physical_cluster_throughputs.json.gz")
    assert measured.gpu_types == ("k80", "p100", "v100")
    better = {
        kind: {name: int(curve.slowdown[-1].argmin()) for name, curve in measured.curves[kind].items()}
        for kind in measured.gpu_types
    }
    assert better["k80"]["ResNet-18 (batch size 16)"] == Policy.BREADTH_FIRST
    assert better["v100"]["ResNet-18 (batch size 16)"] == Policy.DEPTH_FIRST
    assert {len(set(of.values())) for of in better.values()} == {2}
    sets = draw_jobsets(sierra(16), measured, range(5), Recipe(share=0.5))
    for jobs in sets:
        np.testing.assert_allclose(jobs.service.min(axis=1), jobs.length)
        assert jobs.traits.min() >= 0
        assert jobs.traits.max() <= 1
