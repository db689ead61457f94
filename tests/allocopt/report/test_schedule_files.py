"""Schedules as CSV and SWF files."""

import csv
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from support.workloads import jobs_of, workload, workloads

from allocopt.cluster.named import Switch, tree_of_switches
from allocopt.cluster.request import Request
from allocopt.errors import BadFileError
from allocopt.report.schedule_files import JOB_COLUMNS, write_schedule_csv, write_schedule_swf
from allocopt.simulator.described import Described
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
        "job_id,submit,start,end,processors,run,estimate,user,account,partition,nodes,cores,gpus,gpu_type,node_list,"
        "hop_cost,wait,wait_reason,recorded_start",
        "7,0,10,70,4,60,90,,,,,,,,,,10,resources,",
        "3,0.5,0.5,40.5,2,40,40,,,,,,,,,,0,,",
    ]
    assert gzip.decompress((tmp_path / "jobs.csv.gz").read_bytes()) == (tmp_path / "jobs.csv").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.csv", "jobs.csv.gz"]


def test_the_csv_says_who_ran_where_on_what_and_at_what_hop_cost(tmp_path: Path) -> None:
    tree = tree_of_switches([Switch("s", ("n1", "n2")), Switch("t", ("n3", "n4")), Switch("top", (), ("s", "t"))])
    asked = np.array([Request(4, 2, 2, 2, gpus_per_node=(("a100", 2.0),), partition="gpu"), None], dtype=object)
    jobs = replace(
        JOBS,
        requests=asked,
        users=np.array([3, 4]),
        user_names=np.array(["anna", ""]),
        accounts=np.array(["", "phys"]),
        recorded_start=np.array([np.nan, 2.0]),
    )
    nodes = (np.array([1, 2]), np.array([3]))
    made = replace(MADE, workload=jobs, nodes=nodes, topology=tree.tree)
    write_schedule_csv(tmp_path / "jobs.csv", made, Described(jobs, None, tree.nodes))
    with (tmp_path / "jobs.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert [first[name] for name in JOB_COLUMNS] == [
        *("anna", "", "gpu", "2", "4", "4", "a100", "n[2-3]", "4000", "10", "resources", ""),
    ]
    assert [second[name] for name in JOB_COLUMNS] == ["4", "phys", "", "1", "", "", "", "n4", "", "0", "", "2"]
    # It is a trace again, of the same jobs on the same nodes.
    again = read_workload(tmp_path / "jobs.csv")
    assert again.ids.tolist() == jobs.ids.tolist()
    assert again.recorded_nodes.tolist() == ["n[2-3]", "n4"]
    assert again.accounts.tolist() == ["", "phys"]


def test_nodes_whose_names_no_hostlist_holds_stand_with_spaces_between(tmp_path: Path) -> None:
    made = replace(MADE, nodes=(np.array([0, 1]), np.array([1])))
    write_schedule_csv(tmp_path / "jobs.csv", made, Described(JOBS, None, ("a,b", "c")))
    assert ',"a,b c",' in (tmp_path / "jobs.csv").read_text()


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
