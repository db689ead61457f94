"""Workloads that cannot be simulated are refused with the job, line or file that is wrong."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from support.workloads import workload

from allocopt.cluster.platform import Platform
from allocopt.errors import BadFileError, InvalidProblemError, UsageError
from allocopt.simulator.placement import DepthFirst
from allocopt.simulator.simulate import simulate
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

JOBS = workload([(7, 0.0, 5.0, 2, 5.0), (8, 1.0, 5.0, 4, 5.0), (9, 2.0, 5.0, 3, 5.0)])
TWO_RESOURCES = Platform(("cores", "gpus"), np.array([[8, 2]]), has_nodes=False)


def test_a_job_larger_than_the_machine_is_named() -> None:
    with pytest.raises(InvalidProblemError, match="job 8: asks for 4 processors, the machine has 3"):
        simulate(JOBS, 3)
    with pytest.raises(InvalidProblemError, match="job 8: asks for 4 nodes, the machine has 3"):
        simulate(JOBS, Platform.whole_nodes(3))


def test_a_job_that_asks_for_more_of_another_resource_than_there_is_is_named() -> None:
    with pytest.raises(InvalidProblemError, match="job 9: asks for 3 gpus, the machine has 2"):
        simulate(JOBS, TWO_RESOURCES, demands={"gpus": np.array([0, 2, 3])})
    with pytest.raises(InvalidProblemError, match="job 9: asks for -1 gpus"):
        simulate(JOBS, TWO_RESOURCES, demands={"gpus": np.array([0, 2, -1])})


@pytest.mark.parametrize("gpus", [np.array([1]), np.array([0.5, 0.5, 0.0]), np.ones((3, 1), dtype=np.int64)])
def test_demands_are_whole_numbers_one_for_each_job(gpus: np.ndarray) -> None:
    with pytest.raises(UsageError, match="'gpus' must be 3 whole numbers"):
        simulate(JOBS, TWO_RESOURCES, demands={"gpus": gpus})


def test_demands_for_a_resource_that_there_is_not_are_refused() -> None:
    with pytest.raises(UsageError, match=r"'tpus'.*gpus"):
        simulate(JOBS, TWO_RESOURCES, demands={"tpus": np.array([0, 0, 0])})
    with pytest.raises(UsageError, match=r"'gpus'.*none"):
        simulate(JOBS, 8, demands={"gpus": np.array([0, 0, 0])})


def test_a_workload_without_jobs_is_refused() -> None:
    none = np.empty(0, dtype=np.int64)
    empty = Workload("nothing", none, none.astype(float), none.astype(float), none, none.astype(float))
    with pytest.raises(InvalidProblemError, match="nothing holds no jobs"):
        simulate(empty, 3)


def test_a_job_that_is_given_twice_is_named() -> None:
    with pytest.raises(InvalidProblemError, match="job 4: is given twice"):
        workload([(4, 0.0, 5.0, 2, 5.0), (4, 1.0, 5.0, 4, 5.0)])


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ((4, -1.0, 5.0, 2, 5.0), "job 4: its submit time is -1.0, must be not negative"),
        ((4, 0.0, -5.0, 2, 5.0), "job 4: its run time is -5.0, must be positive"),
        ((4, 0.0, 5.0, 2, 0.0), "job 4: its estimate is 0.0, must be positive"),
        ((4, 0.0, 5.0, 0, 5.0), "job 4: its number of processors is 0, must be positive"),
        ((4, float("nan"), 5.0, 2, 5.0), "job 4: its submit time is nan"),
        ((4, 0.0, float("inf"), 2, 5.0), "job 4: its run time is inf, must be finite"),
    ],
)
def test_a_job_with_impossible_numbers_is_named(job: tuple[int, float, float, int, float], message: str) -> None:
    with pytest.raises(InvalidProblemError, match=message):
        workload([(1, 0.0, 1.0, 1, 1.0), job])


LINES = "".join(f"{job} {job} -1 60 4 -1 -1 4 90 -1 1 -1 -1 -1 -1 -1 -1 -1\n" for job in range(1, 2000))


@pytest.mark.parametrize("name", ["trace.swf.gz", "trace.txt.gz", "trace.json.gz"])
def test_a_truncated_file_is_named(tmp_path: Path, name: str) -> None:
    whole = gzip.compress(LINES.encode())
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadFileError, match=name):
        read_workload(tmp_path / name)


def test_a_file_without_jobs_is_named(tmp_path: Path) -> None:
    (tmp_path / "trace.swf").write_text("; MaxProcs: 128\n")
    with pytest.raises(BadFileError, match=r"trace\.swf"):
        read_workload(tmp_path / "trace.swf")


def test_a_policy_that_is_not_installed_is_told_from_those_that_are() -> None:
    with pytest.raises(UsageError, match="no policy 'fcsf'; did you mean 'fcfs'"):
        simulate(JOBS, 4, "fcsf")


def test_what_cannot_schedule_is_no_scheduler() -> None:
    with pytest.raises(UsageError, match="no method `schedule`"):
        simulate(JOBS, 4, object())  # type: ignore[arg-type]


def test_a_pool_has_no_nodes_to_allocate() -> None:
    with pytest.raises(UsageError, match="an allocator needs a platform with nodes"):
        simulate(JOBS, 4, allocator=DepthFirst())


def test_the_size_of_a_pool_may_be_a_numpy_integer() -> None:
    assert simulate(JOBS, np.int64(4)).start.tolist() == simulate(JOBS, 4).start.tolist()  # type: ignore[arg-type]
