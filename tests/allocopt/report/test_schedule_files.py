"""Schedules as CSV and SWF files."""

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from support.workloads import jobs_of, workload, workloads

from allocopt.errors import BadFileError
from allocopt.report.schedule_files import write_schedule_csv, write_schedule_swf
from allocopt.simulator.schedule import Schedule
from allocopt.traces.reading import read_workload
from allocopt.traces.text import swf_header
from allocopt.traces.workload import Workload

JOBS = workload([(7, 0.0, 60.0, 4, 90.0), (3, 0.5, 100.0, 2, 40.0)], machine=16, name="two")
# The first waits for 10 s; the second is killed at its estimate.
MADE = Schedule(JOBS, 8, JOBS.submit, np.array([10.0, 0.5]), np.array([70.0, 40.5]))


def test_the_csv_has_the_fixed_columns_and_whole_numbers_as_integers(tmp_path: Path) -> None:
    for name in ("jobs.csv", "jobs.csv.gz"):
        write_schedule_csv(tmp_path / name, MADE)
    assert (tmp_path / "jobs.csv").read_text().splitlines() == [
        "job_id,submit,start,end,processors,run,estimate",
        "7,0,10,70,4,60,90",
        "3,0.5,0.5,40.5,2,40,40",
    ]
    assert gzip.decompress((tmp_path / "jobs.csv.gz").read_bytes()) == (tmp_path / "jobs.csv").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.csv", "jobs.csv.gz"]


def test_the_swf_has_wait_run_time_and_status_of_the_schedule_and_keeps_users_and_preceding_jobs(
    tmp_path: Path,
) -> None:
    jobs = replace(JOBS, users=np.array([5, -1]), preceding=np.array([-1, 7]), think_s=np.array([0.0, 2.5]))
    write_schedule_swf(tmp_path / "made.swf", replace(MADE, workload=jobs), ["policy fcfs,\nbackfill easy"])
    *header, first, second = (tmp_path / "made.swf").read_text().splitlines()
    assert first == "7 0 10 60 4 -1 -1 4 90 -1 1 5 -1 -1 -1 -1 -1 -1"
    assert second == "3 0.5 0 40 2 -1 -1 2 40 -1 1 -1 -1 -1 -1 -1 7 2.5"
    fields = swf_header(header)
    assert (fields["Version"], fields["MaxJobs"], fields["MaxProcs"]) == ("2.2", "2", "8")
    assert fields["Note"].startswith("schedule of two simulated by allocopt ")
    assert fields["Note"].endswith("policy fcfs,\\nbackfill easy")
    assert all(line.startswith(";") for line in header)
    again = read_workload(tmp_path / "made.swf")
    assert (again.users.tolist(), again.preceding.tolist(), again.think_s.tolist()) == ([5, -1], [-1, 7], [0.0, 2.5])


@given(workloads())
def test_any_schedule_is_read_again_as_the_jobs_that_ran(
    tmp_path_factory: pytest.TempPathFactory, jobs: Workload
) -> None:
    path = tmp_path_factory.mktemp("swf") / "made.swf.gz"
    killed = np.minimum(jobs.run, jobs.estimate)
    start = jobs.submit + 3
    write_schedule_swf(path, Schedule(jobs, 2**53, jobs.submit, start, start + killed))
    again = read_workload(path)
    assert jobs_of(again) == jobs_of(replace(jobs, run=killed))
    assert again.machine_processors == 2**53
    assert again.dropped == ()


@pytest.mark.parametrize("write", [write_schedule_csv, write_schedule_swf])
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, write: type) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFileError, match="made: cannot be written"):
        write(tmp_path / "file" / "made", MADE)
