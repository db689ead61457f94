"""Workloads of IRMaSim."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from allocopt.errors import BadFileError, InvalidProblemError
from allocopt.traces.tasks import TABLE_FOUR, TaskWorkload, npb_batch, read_irmasim

PROFILE = {"req_ops": 2e10, "ipc": 2, "req_time": 10, "mem": 100, "mem_vol": 5000}


def written(folder: Path, *jobs: dict[str, Any], **more: Any) -> Path:
    path = folder / "workload.json"
    path.write_text(json.dumps({"jobs": list(jobs), "profiles": {"p": PROFILE}, **more}), encoding="utf-8")
    return path


def test_jobs_are_read_with_and_without_a_profile(tmp_path: Path) -> None:
    jobs = read_irmasim(
        written(tmp_path, {"id": "b", "subtime": 3, "res": 2, **PROFILE}, {"subtime": 1, "res": 4, "profile": "p"})
    )
    assert jobs.names == ("job1", "b")
    assert jobs.submit.tolist() == [1, 3]
    assert jobs.tasks.tolist() == [4, 2]
    assert jobs.work.tolist() == [10, 10]
    assert jobs.applications == ("p", "")
    assert (jobs.estimate[0], jobs.memory_mb[0], jobs.volume_mb[0]) == (10, 100, 5000)


@pytest.mark.parametrize(
    ("shape", "nodes", "tasks", "per_node"),
    [
        ({"res": 3}, 1, 3, 3),
        ({"ntasks": 3}, 3, 3, 1),
        ({"nodes": 2}, 2, 2, 1),
        ({"nodes": 2, "ntasks_per_node": 4}, 2, 8, 4),
        ({"nodes": 2, "ntasks": 5}, 2, 5, 3),
        ({"ntasks": 5, "ntasks_per_node": 2}, 3, 5, 2),
        ({"nodes": 3, "ntasks": 5, "ntasks_per_node": 2}, 3, 5, 2),
    ],
)
def test_nodes_and_tasks_follow_from_each_other(
    tmp_path: Path, shape: dict[str, int], nodes: int, tasks: int, per_node: int
) -> None:
    jobs = read_irmasim(written(tmp_path, {"subtime": 0, "profile": "p", **shape}))
    assert (jobs.nodes[0], jobs.tasks[0], jobs.per_node[0]) == (nodes, tasks, per_node)


@pytest.mark.parametrize(
    ("job", "fault"),
    [
        ({"subtime": 0, "profile": "p"}, r"jobs\[0\]: has no size; give res, ntasks or nodes"),
        ({"subtime": 0, "profile": "q", "res": 1}, r"jobs\[0\].profile: is 'q', there is no such profile"),
        ({"subtime": 0, "res": 1}, r"jobs\[0\]: req_ops: is missing"),
        ({"subtime": -1, "res": 1, "profile": "p"}, r"jobs\[0\]: subtime: is -1, must be greater than or equal to 0"),
        ({"subtime": 0, "res": 1, "nodes": 1, "profile": "p"}, r"jobs\[0\]: has res and also nodes"),
        ({"subtime": 0, "nodes": 2, "ntasks": 9, "ntasks_per_node": 2, "profile": "p"}, "and 2 nodes, must be 5"),
        ({"subtime": 0, "nodes": 3, "ntasks": 4, "profile": "p"}, "tasks is 4, must be enough that its last node"),
        ({"subtime": 0, "res": 1, **PROFILE, "ipc": 0}, r"jobs\[0\]: ipc: is 0, must be greater than 0"),
    ],
    ids=["no tasks", "no profile", "no operations", "submit", "both", "contradiction", "empty node", "ipc"],
)
def test_a_wrong_job_is_named(tmp_path: Path, job: dict[str, Any], fault: str) -> None:
    with pytest.raises(BadFileError, match=fault):
        read_irmasim(written(tmp_path, job))


def test_a_job_given_twice_is_named(tmp_path: Path) -> None:
    job = {"id": "a", "subtime": 0, "res": 1, "profile": "p"}
    with pytest.raises(BadFileError, match="names a job twice: 'a'"):
        read_irmasim(written(tmp_path, job, job))


def test_numbers_of_jobs_come_from_their_names_where_these_rise(shared_data: Path) -> None:
    example = shared_data / "irmasim" / "examples" / "cal" / "job_4_cal_str_19314_log2_v1" / "workload.json"
    assert read_irmasim(example).numbers()[:2].tolist() == [19277, 19278]
    assert read_irmasim(example).first(3).names == ("job19277", "job19278", "job19279")
    one = np.ones(2)
    whole = one.astype(np.int64)
    jobs = TaskWorkload("w", ("b2", "a1"), one, whole, whole, one, one, one, one, one)
    assert jobs.numbers().tolist() == [1, 2]


def test_values_out_of_range_name_the_job(tmp_path: Path) -> None:
    one = np.ones(2)
    whole = one.astype(np.int64)
    with pytest.raises(InvalidProblemError, match="job 'b': estimate is 0, must be a positive number"):
        TaskWorkload("w", ("a", "b"), one, whole, whole, one, one, one, one, np.array([1.0, 0.0]))
    for column, value in (("req_ops", 1e300), ("ipc", 1e-300), ("req_time", 1e-320), ("mem_vol", 1e300)):
        job = {"id": "a", "subtime": 0, "res": 1, **PROFILE, column: value}
        with pytest.raises(BadFileError, match=r"workload\.json: job 'a': .* is .*, must be a"):
            read_irmasim(written(tmp_path, job))


def test_a_batch_draws_the_benchmarks_of_table_iv() -> None:
    jobs = npb_batch(2000, np.random.default_rng(0))
    assert set(jobs.applications) == {benchmark.name for benchmark in TABLE_FOUR}
    assert jobs.submit.max() <= 120
    lu = jobs.applications.index("lu.C")
    assert (jobs.instructions[lu], jobs.ipc[lu], jobs.volume_mb[lu]) == (370.25e10, 2.2, 8.7e6)
    assert jobs.estimate[lu] == pytest.approx(370.25e10 / 2.2 / 3.4e9)
