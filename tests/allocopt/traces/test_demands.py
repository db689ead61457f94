"""What jobs ask for beside nodes and cores: the same words in every format, and no demand that is lost."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allocopt.errors import BadFileError
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

HEAD = "JobID|State|Submit|Start|End|NNodes|NCPUS"
TIMES = "2026-01-01T00:00:00|2026-01-01T00:10:00|2026-01-01T01:10:00"


def table(folder: Path, column: str, *cells: str) -> Workload:
    rows = [f"{job}|COMPLETED|{TIMES}|1|4|{cell}" for job, cell in enumerate(cells, 1)]
    (folder / "jobs.txt").write_text("\n".join([f"{HEAD}|{column}", *rows]))
    return read_workload(folder / "jobs.txt")


def controller(folder: Path, **more: Any) -> Workload:
    job = {
        "job_state": ["COMPLETED"], "submit_time": 1_767_225_600, "start_time": 1_767_226_200,
        "end_time": 1_767_229_800, "node_count": 1, "cpus": 4, "tres_req_str": "cpu=4,node=1",
    }  # fmt: skip
    (folder / "jobs.json").write_text(json.dumps({"jobs": [{**job, "job_id": 1}, {**job, "job_id": 2, **more}]}))
    return read_workload(folder / "jobs.json")


@pytest.mark.parametrize("column", ["Reservation", "RESV_NAME", "id_resv"])
def test_a_job_that_ran_in_a_reservation_is_left_out_and_counted(tmp_path: Path, column: str) -> None:
    made = table(tmp_path, column, "", "17", "(null)", "0" if column == "id_resv" else "")
    assert made.ids.tolist() == [1, 3, 4]
    assert dict(made.dropped) == {"asks for --reservation, which is not modelled": 1}
    kept = read_workload(tmp_path / "jobs.txt", "ignore=--reservation")
    assert kept.ids.tolist() == [1, 2, 3, 4]


def test_reservations_licences_and_arrays_of_json_are_counted_as_those_of_text(tmp_path: Path) -> None:
    reserved = "asks for --reservation, which is not modelled"
    assert dict(controller(tmp_path, resv_name="course").dropped) == {reserved: 1}
    licensed = "asks for license/ansys@db, which is not modelled"
    assert dict(controller(tmp_path, licenses="ansys@db:2").dropped) == {licensed: 1}
    waiting = controller(tmp_path, job_state=["PENDING"], array_task_string="3-10%2")
    assert dict(waiting.dropped) == {"not ended": 8}


@pytest.mark.parametrize(
    ("column", "cell", "reason"),
    [
        ("Licenses", "ansys:2", "license/ansys"),
        ("Licenses", "ansys@db:2", "license/ansys@db"),
        ("BurstBuffer", "#BB create_persistent", "a burst buffer"),
        ("AllocTRES", "cpu=4,license/ansys=1,node=1", "license/ansys"),
    ],
)
def test_a_demand_has_one_name_in_every_column(tmp_path: Path, column: str, cell: str, reason: str) -> None:
    made = table(tmp_path, column, "", cell)
    assert dict(made.dropped) == {f"asks for {reason}, which is not modelled": 1}


@pytest.mark.parametrize("cell", ["0", "0n", "0M"])
def test_memory_of_0_in_accounting_of_slurm_is_all_memory_of_a_node(tmp_path: Path, cell: str) -> None:
    made = table(tmp_path, "ReqMem", cell, "4G", "")
    assert [one.memory_per_node_mib for one in made.requests] == [0, 4096, None]
    other = table(tmp_path, "memory", cell, "4G", "")
    assert [one.memory_per_node_mib for one in other.requests] == [None, 4096, None]


def test_memory_of_0_in_json_of_slurm_is_all_memory_of_a_node(tmp_path: Path) -> None:
    unset = {"set": False, "infinite": False, "number": 0}
    made = controller(tmp_path, memory_per_cpu=unset, memory_per_node={**unset, "set": True})
    assert [one.memory_per_node_mib for one in made.requests] == [None, 0]
    made = controller(tmp_path, memory_per_cpu={**unset, "set": True, "number": 100}, memory_per_node=unset)
    assert [(one.memory_per_node_mib, one.memory_per_core_mib) for one in made.requests] == [(None, None), (None, 100)]


def test_a_column_of_gpu_types_names_the_gpus_of_the_column_beside_it(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(
        "job,submit,run,nodes,gpus,gpu_type\n1,0,60,1,2,T4\n2,1,60,1,1,\n3,2,60,1,0,T4\n"
    )
    made = read_workload(tmp_path / "jobs.csv")
    assert [one.gpus_per_node for one in made.requests] == [(("T4", 2.0),), (("", 1.0),), ()]


def test_a_row_of_tasks_of_an_array_counts_as_many_jobs(tmp_path: Path) -> None:
    rows = (f"8_1|COMPLETED|{TIMES}", "8_[2-9,12%3]|PENDING|2026-01-01T00:00:00|Unknown|Unknown")
    more = ("9_[1,4]|CANCELLED by 5|2026-01-01T00:00:00|None|2026-01-01T00:30:00",)
    (tmp_path / "jobs.txt").write_text("\n".join([HEAD, *(f"{row}|1|4" for row in rows + more)]))
    made = read_workload(tmp_path / "jobs.txt")
    assert dict(made.dropped) == {"not ended": 9, "never started": 2}


def test_columns_of_one_name_that_differ_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job,submit,run,nodes,Nodes\n1,0,60,2,2\n2,0,60,2,4\n")
    with pytest.raises(BadFileError, match="line 1: has two columns 'Nodes' that differ; rename or remove one"):
        read_workload(path)
    path.write_text("job,submit,run,nodes,Nodes\n1,0,60,2,2\n2,0,60,4,4\n")
    assert read_workload(path).processors.tolist() == [2, 4]


def test_a_submission_at_0_beside_a_start_since_1970_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(
        "job,submit,start,end,nodes\n1,1700000000,1700000100,1700000200,1\n2,0,1700000100,1700000200,1\n"
        "3,-1,1700000100,1700000200,1\n4,1700000200,1700000100,1700000300,1\n"
    )
    made = read_workload(tmp_path / "jobs.csv")
    assert (made.ids.tolist(), made.submit.tolist()) == ([1, 4], [0.0, 200.0])
    assert dict(made.dropped) == {"submit time unknown": 2}
    assert dict(made.repaired)["start before submission, left out"] == 1


def test_philly_counts_jobs_by_what_became_of_them_and_takes_the_largest_attempt(tmp_path: Path) -> None:
    at = "2017-10-09 0{}:00:00".format
    few, many = [{"ip": "m1", "gpus": ["0"]}], [{"ip": "m1", "gpus": ["0", "1"]}, {"ip": "m2", "gpus": ["0", "1"]}]
    attempts: list[list[dict[str, Any]]] = [
        [
            {"start_time": at(1), "end_time": at(2), "detail": few},
            {"start_time": at(3), "end_time": at(4), "detail": many},
        ],
        [],
        [{"start_time": at(1), "end_time": None, "detail": few}],
    ]
    jobs = [
        {"status": "Killed", "vc": "v", "user": "u", "jobid": f"j{n}", "submitted_time": at(0), "attempts": one}
        for n, one in enumerate(attempts)
    ]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    made = read_workload(tmp_path / "jobs.json")
    assert (made.names.tolist(), made.run.tolist(), made.processors.tolist()) == (["j0"], [10_800.0], [2])
    assert made.requests[0].gpus_per_node == (("", 2.0),)
    assert dict(made.dropped) == {"never started": 1, "run time unknown": 1}


def test_jobs_that_differ_in_the_type_of_their_gpus_do_not_share_a_request(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job,submit,run,nodes,gpus,gpu_model\n1,0,60,1,2,T4\n2,1,60,1,2,V100\n")
    made = read_workload(tmp_path / "jobs.csv")
    assert [one.gpus_per_node for one in made.requests] == [(("T4", 2.0),), (("V100", 2.0),)]


def test_lines_with_a_hash_and_names_given_again_are_no_jobs(tmp_path: Path) -> None:
    names = "job,submit,run,nodes\n"
    for text in (f"# exported\n# UTC, all\n{names}1,0,60,2\n{names}2,5,60,1\n", f"#{names}1,0,60,2\n2,5,60,1\n"):
        (tmp_path / "jobs.csv").write_text(text)
        made = read_workload(tmp_path / "jobs.csv", strict=True)
        assert (made.ids.tolist(), made.processors.tolist(), made.dropped) == ([1, 2], [2, 1], ())
        (tmp_path / "jobs").write_text(text)
        assert read_workload(tmp_path / "jobs").ids.tolist() == [1, 2]
    (tmp_path / "jobs.csv").write_text(f"# exported\n{names}1,0,60,2\n2,5\n")
    [(reason, _)] = read_workload(tmp_path / "jobs.csv").dropped
    assert reason == "damaged (line 4: has 2 cells, line 2 names 4 columns)"


def test_undefined_is_no_amount(tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text(
        "ClusterId ProcId QDate JobStartDate CompletionDate JobStatus RequestCpus RequestGPUs RequestMemory\n"
        "12 0 1700000000 1700000100 1700000200 4 2 undefined undefined\n"
    )
    made = read_workload(tmp_path / "jobs.txt")
    assert (made.requests[0].tasks, made.requests[0].gpus_per_node, made.requests[0].memory_per_node_mib) == (
        2,
        (),
        None,
    )


def test_a_job_with_two_partitions_runs_in_the_free_one_and_all_memory_closes_its_node(
    tmp_path: Path, run: Callable[..., tuple[int, str]]
) -> None:
    (tmp_path / "slurm.conf").write_text(
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nNodeName=a,b CPUs=4 RealMemory=8000\n"
        "PartitionName=x Nodes=a Default=YES MaxTime=INFINITE\nPartitionName=y Nodes=b MaxTime=INFINITE\n"
    )
    begin = "COMPLETED|2026-01-01T00:00:0{}|2026-01-01T00:00:00|2026-01-01T01:00:00|1|{}"
    cells = ((1, "4|x|1G"), (2, "1|x,y|0"), (3, "1|y|1G"))
    rows = [f"{job}|{begin.format(job, cell)}" for job, cell in cells]
    (tmp_path / "jobs.txt").write_text("\n".join([f"{HEAD}|Partition|ReqMem", *rows]))
    out = tmp_path / "out.csv"
    code, _ = run("simulate", tmp_path / "jobs.txt", "--cluster", tmp_path / "slurm.conf", "--jobs-csv", out)
    assert code == 0
    with out.open(newline="") as stream:
        jobs = {row["job_id"]: row for row in csv.DictReader(stream)}
    assert (jobs["2"]["node_list"], float(jobs["2"]["wait"])) == ("b", 0.0)
    assert float(jobs["3"]["start"]) == float(jobs["2"]["end"])


@pytest.mark.parametrize(("columns", "cells"), [("Elapsed|Suspended", "00:50:00|00:10:00"), ("time_suspended", "600")])
def test_the_run_time_does_not_count_the_time_for_which_a_job_was_suspended(
    tmp_path: Path, columns: str, cells: str
) -> None:
    made = table(tmp_path, columns, cells)
    assert made.run.tolist() == [3000.0]
    assert ("suspended for a time, which the run time does not count", 1) in made.repaired


def test_blanks_behind_a_comma_and_an_empty_file_are_understood(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text('"job", "submit", "run","nodes"\n"1", "0","60", "2"\n')
    assert read_workload(tmp_path / "jobs.csv").processors.tolist() == [2]
    (tmp_path / "jobs.txt").write_text("\n")
    with pytest.raises(BadFileError, match=r"jobs\.txt: is empty$"):
        read_workload(tmp_path / "jobs.txt")
