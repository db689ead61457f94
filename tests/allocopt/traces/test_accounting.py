"""Accounting of PBS, LSF, Grid Engine and HTCondor, and Slurm's JSON: what is read of each record, and what is not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import check_read_or_refused, damaged

from allocopt.cluster.request import Request
from allocopt.errors import BadFileError, UsageError
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload


def read(folder: Path, text: str, name: str = "log") -> Workload:
    (folder / name).write_text(text, encoding="utf-8")
    return read_workload(folder / name)


def jobs_of(made: Workload) -> list[tuple[Any, ...]]:
    """Return name or number, submission, wait, run time, limit and size of each job."""
    names = [name or number for name, number in zip(made.names, made.ids.tolist(), strict=True)]
    waits = made.recorded_start - made.submit
    columns = (made.submit, waits, made.run, made.estimate, made.processors)
    return list(zip(names, *(column.tolist() for column in columns), strict=True))


# PBS

DAY = "03/18/2017 00:01:15"
ENDED = "ctime=1000 qtime=1010 etime=1010 start=1100 end=1700 Resource_List.walltime=01:00:00 user=ann queue=batch"
HOSTS = "exec_host=n1/0-3+n2/0-3"


def pbs(attributes: str = "", job: str = "7.srv", kind: str = "E", head: str = f"{ENDED} {HOSTS}") -> str:
    return f"{DAY};{kind};{job};{head} {attributes}\n"


def test_a_record_of_pbs_is_a_job_on_the_hosts_that_it_names(tmp_path: Path) -> None:
    made = read(tmp_path, pbs("Resource_List.nodes=2:ppn=4:gpus=1 Resource_List.mem=8gb"), "20170318")
    assert jobs_of(made) == [(7, 0, 100, 600, 3600, 2)]
    assert made.recorded_nodes.tolist() == ["n1,n2"]
    assert made.requests.tolist() == [Request(8, 2, 2, 4, 1.0, 4096, None, (("", 1.0),), partition="batch")]
    assert (made.dropped, made.repaired) == ((), ())


SHAPES: dict[str, tuple[int, Request]] = {
    "exec_host=n1/0+n1/1+n2/0 Resource_List.ncpus=3": (2, Request(3, 2, 2, partition="batch")),
    "exec_host=n1/0*8+n2/0*8 Resource_List.select=2:ncpus=8:ngpus=2:mem=4gb Resource_List.place=scatter:excl": (
        2,
        Request(16, 2, 2, 8, 1.0, 4096, None, (("", 2.0),), partition="batch", is_exclusive=True),
    ),
    "Resource_List.select=3:ncpus=2:mpiprocs=2:fat=True Resource_List.ncpus=6 Resource_List.nodect=3": (
        3,
        Request(6, 3, 3, 2, partition="batch", constraint="fat"),
    ),
    "exec_host=n1/0-1 Resource_List.nodes=1:ppn=2:bigmem Resource_List.ngpus=0 Resource_List.mps=0": (
        1,
        Request(2, 1, 1, 2, partition="batch", constraint="bigmem"),
    ),
    "exec_host=n3/0 Resource_List.nodes=n3:ppn=1": (1, Request(1, 1, 1, 1, partition="batch", required="n3")),
    "unique_node_count=5 total_execution_slots=10": (5, Request(10, 5, 5, 2, partition="batch")),
    "exec_host=n1/0-7+n2/0 Resource_List.select=1:ncpus=8+1:ncpus=1": (
        2,
        Request(9, 2, 2, partition="batch", unmodelled=("chunks of different shapes",)),
    ),
}


@pytest.mark.parametrize(("attributes", "expected"), SHAPES.items())
def test_every_way_to_ask_pbs_for_nodes_is_understood(
    tmp_path: Path, attributes: str, expected: tuple[int, Request]
) -> None:
    made = read(tmp_path, pbs(attributes, head=ENDED))
    assert (made.processors[0], made.requests[0]) == expected
    told = ["log: jobs repaired, chunks of different shapes, run on whole nodes only: 1"]
    assert made.remarks() == (told if expected[1].unmodelled else [])


def test_records_without_an_end_are_counted_and_reruns_are_runs(tmp_path: Path) -> None:
    text = "".join(
        [
            *(pbs(job="1.s", kind="Q", head=""), pbs(job="2.s", kind="S"), pbs(job="3.s", kind="Q", head="")),
            *(pbs(job="3.s", kind="D", head=""), pbs(job="4.s", kind="R"), pbs(job="4.s"), pbs(job="5.s", kind="S")),
            *(pbs(job="5.s", kind="D", head=""), pbs(job="5.s"), pbs(job="6[].s"), pbs(job="6[2].s")),
            *(pbs(job="8.s", kind="L", head="x"), "\n", pbs("Resource_List.fluent=2", job="9.s")),
        ]
    )
    made = read(tmp_path, text)
    assert [job for job, *_ in jobs_of(made)] == [4, 5, "4", "6[2]"]
    assert dict(made.dropped) == {
        "not ended": 2,
        "never started": 1,
        "arrays as a whole, whose tasks have records of their own": 1,
        "asks for fluent, which is not modelled": 1,
    }


@pytest.mark.parametrize("depend", ["depend=afterok:6.srv", "Resource_List.depend=afterany:6.srv.domain@srv"])
def test_a_dependency_of_pbs_on_one_job_is_its_preceding_job(tmp_path: Path, depend: str) -> None:
    made = read(tmp_path, pbs(job="6.srv") + pbs(depend))
    assert made.preceding.tolist() == [-1, 6]
    several = read(tmp_path, pbs(job="6.srv") + pbs("depend=afterok:6.srv:5.srv"))
    assert dict(several.repaired) == {"dependency afterok of several jobs not modelled, ignored": 1}


def test_a_job_of_pbs_in_a_reservation_is_left_out_and_counted(tmp_path: Path) -> None:
    made = read(tmp_path, pbs(job="6.srv") + pbs("resvID=R77.srv resvname=course"))
    assert dict(made.dropped) == {"asks for a reservation, which is not modelled": 1}


# LSF

REST = '64 60.0 "j" "sleep 9"' + " -1" * 19 + ' "" "default" 0 8 "" "" 0 2048 0' + ' ""' * 4 + ' 0 "" 0 "" -1'
REST += ' "" "" "" "" -1 "" "" 5136 "" 0 "" ""'


def lsf(hosts: str = '2 "4*n1" "4*n2"', needs: str = "", tail: str = ' 0 0 3600 0 1 "" ', **given: object) -> str:
    fields = {"job": 7, "options": 2, "submit": 1000, "start": 1100, "end": 1700, "waits": "", "asked": "0", **given}
    head = '"JOB_FINISH" "10.1" {end} {job} 501 {options} 8 {submit} 0 0 {start} "ann" "q"'.format(**fields)
    where = f'"{needs}" "{fields["waits"]}" "" "login" "/home" "" "" "" "1.7" {fields["asked"]} {hosts}'
    return f"{head} {where} {REST}{tail}\n"


def test_a_record_of_lsf_is_a_job_on_its_execution_hosts(tmp_path: Path) -> None:
    made = read(tmp_path, lsf(needs="select[type == any] span[ptile=4] rusage[mem=2000]"), "lsb.acct")
    assert jobs_of(made) == [(7, 0, 100, 600, 3600, 2)]
    assert made.recorded_nodes.tolist() == ["n1,n2"]
    assert made.requests.tolist() == [Request(8, 2, 2, 4, memory_per_node_mib=2000, partition="q")]


def test_records_of_lsf_of_all_kinds_are_read_or_counted(tmp_path: Path) -> None:
    text = "".join(
        [
            lsf('3 "n1" "n1" "n2"', options=0x42, tail=""),
            lsf(job=8, waits='done(""7"")', submit=1800, start=1900, end=1950, tail=' 1 1030 "x, y" 0 -1 4194304 5 ""'),
            lsf(job=9, start=0),
            lsf(job=10, needs="rusage[matlab=1]"),
            lsf(job=11, needs="select[gpu_model0==A100]"),
            lsf('1 "n1"', job=12, asked='1 "n1"', needs="rusage[ngpus_physical=2]"),
            lsf('1 "n1"', job=13, asked='1 "big_hosts"'),
            '"EVENT_ADRSV_FINISH" "10.1" 1 2 3\n',
        ]
    )
    made = read(tmp_path, text, "lsb.acct.1")
    assert jobs_of(made) == [(7, 0, 100, 600, 600, 2), (12, 0, 100, 600, 3600, 1), (8, 800, 100, 50, 50, 2)]
    assert made.preceding.tolist() == [-1, -1, 7]
    first, second, _ = made.requests
    assert (first.is_exclusive, first.tasks_per_node) == (True, None)
    assert (second.gpus_per_node, second.required) == ((("", 2.0),), "n1")
    assert dict(made.dropped) == {
        "never started": 1,
        "asks for rusage[matlab], which is not modelled": 1,
        "asks for select[], which is not modelled": 1,
        "asks for a host group, which is not modelled": 1,
        "records EVENT_ADRSV_FINISH are not jobs": 1,
    }


BJOBS = {
    "JOBID": "5",
    "STAT": "DONE",
    "USER": "ann",
    "SUBMIT_TIME": "Mar  1 00:00:00 2024",
    "START_TIME": "Mar  1 00:00:10 2024",
    "FINISH_TIME": "Mar  1 00:01:10 2024 L",
    "RUN_TIME": "60 second(s)",
    "RUNTIMELIMIT": "10.0",
    "NEXEC_HOST": "2",
    "SLOTS": "32",
    "EXEC_HOST": "16*n1:16*n2",
}


def test_bjobs_as_json_is_read_as_a_table(tmp_path: Path) -> None:
    jobs = [BJOBS, {**BJOBS, "JOBID": "6", "STAT": "RUN"}, {**BJOBS, "JOBID": "7", "STAT": "PEND", "START_TIME": ""}]
    made = read(tmp_path, json.dumps({"COMMAND": "bjobs", "JOBS": 3, "RECORDS": jobs}), "jobs.json")
    assert jobs_of(made) == [(5, 0, 10, 60, 600, 2)]
    assert made.recorded_nodes.tolist() == ["n1,n2"]
    assert made.dropped == (("not ended", 2),)


# Grid Engine


def sge(category: str = "-l h_rt=3600,mem_free=2G -pe mpi 8", **given: object) -> str:
    fields: dict[str, object] = {"job": 7, "submit": 1000000000, "start": 1000000100, "end": 1000000700}
    fields |= {"pe": "mpi", "slots": 8, "task": 0, "pe_task": "NONE", "owner": "ann", **given}
    head = "q:n1:grp:{owner}:name:{job}:sge:0:{submit}:{start}:{end}".format(**fields)
    usage = ":".join(["0"] * 20)
    rest = "prj:dep:{pe}:{slots}:{task}:1:1:0:{category}:0:{pe_task}:5:0:0".format(category=category, **fields)
    return f"{head}:{usage}:{rest}\n"


def test_a_line_of_grid_engine_is_a_job_of_so_many_slots(tmp_path: Path) -> None:
    made = read(tmp_path, f"# Version: 8.1.9\n{sge()}", "accounting")
    assert jobs_of(made) == [(7, 0, 100, 600, 3600, 8)]
    assert made.requests.tolist() == [Request(8, memory_per_core_mib=2048, partition="q")]


def test_lines_of_grid_engine_of_all_kinds_are_read_or_counted(tmp_path: Path) -> None:
    text = "".join(
        [
            sge("-l gpu=2,exclusive=true", pe="NONE", slots=1),
            sge(job=8, task=3, submit=1000000000000, start=1000000100000, end=1000000700000),
            sge(job=9, start=0, end=0),
            sge(job=10, pe_task="1.n2"),
            sge("-l matlab=1 -soft -l fast=1", job=11),
            sge("-soft -l fast=1 -q x", job=12),
        ]
    )
    made = read(tmp_path, text)
    assert [job for job, *_ in jobs_of(made)] == [7, 12, "8_3"]
    assert made.run.tolist() == [600, 600, 600]
    assert made.requests[0] == Request(1, 1, 1, None, gpus_per_node=(("", 2.0),), partition="q", is_exclusive=True)
    assert dict(made.dropped) == {
        "never started": 1,
        "tasks of a parallel job, counted with it": 1,
        "asks for -l matlab, which is not modelled": 1,
    }


QACCT = """==============================================================
qname        all.q
hostname     n1
owner        ann
project      chem
jobname      t
jobnumber    {job}
taskid       {task}
pe_taskid    {part}
qsub_time    {submit}
start_time   {start}
end_time     {end}
granted_pe   {pe}
slots        {slots}
failed       0
category     -l h_rt=7200,mem_free=2G -pe mpi 8
"""
OLD_DATES = {
    "submit": "Mon Mar  4 10:00:00 2024", "start": "Mon Mar  4 10:05:00 2024", "end": "Mon Mar  4 11:05:00 2024",
}  # fmt: skip
UNIVA = {key: f"03/04/2024 {text.split()[3]}.250" for key, text in OLD_DATES.items()}


@pytest.mark.parametrize("dates", [OLD_DATES, UNIVA], ids=["SGE", "UGE"])
def test_qacct_prints_the_jobs_of_the_file_accounting(tmp_path: Path, dates: dict[str, str]) -> None:
    job = {**dates, "job": 4711, "task": "undefined", "part": "NONE", "pe": "mpi", "slots": 8}
    never = {"start": "-/-", "end": "-/-"}
    jobs = [job, {**job, "job": 4712, "task": 3, "pe": "NONE", "slots": 1}, {**job, "part": "1.n2"}]
    made = read(tmp_path, "".join(QACCT.format(**one) for one in [*jobs, {**job, "job": 4713, **never}]))
    assert jobs_of(made) == [(4711, 0, 300, 3600, 7200, 8), ("4712_3", 0, 300, 3600, 7200, 1)]
    assert dict(made.dropped) == {"tasks of a parallel job, counted with it": 1, "never started": 1}
    assert made.accounts.tolist() == ["chem", "chem"]
    assert [one.memory_per_core_mib for one in made.requests] == [2048, 2048]


# HTCondor

AD: dict[str, Any] = {
    "ClusterId": 7,
    "ProcId": 0,
    "QDate": 1000,
    "JobCurrentStartDate": 1100,
    "CompletionDate": 1700,
    "JobStatus": 4,
    "RequestCpus": 4,
    "RequestMemory": 2048,
    "RequestDisk": 5000,
    "RequestGPUs": 1,
    "AllowedJobDuration": 3600,
    "Owner": "ann",
}


def classad(ad: dict[str, Any]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in ad.items())


@pytest.mark.parametrize("form", ["long", "json", "jsonl"])
def test_classads_of_all_kinds_are_read_or_counted_in_every_form(tmp_path: Path, form: str) -> None:
    ads = [
        AD,
        {**AD, "ProcId": 3, "RequestMemory": "ifthenelse(x,1,2)", "MemoryProvisioned": 4096},
        {**AD, "ClusterId": 8, "JobStatus": 3, "CompletionDate": 0, "EnteredCurrentStatus": 1200},
        {**AD, "ClusterId": 9, "JobStatus": 2, "CompletionDate": 0},
        {**AD, "ClusterId": 10, "JobStatus": 3, "CompletionDate": 0, "JobCurrentStartDate": 0},
        {**AD, "ClusterId": 11, "ConcurrencyLimits": "matlab:2"},
        {**AD, "ClusterId": 12, "RequestFpgas": 1},
        {**AD, "ClusterId": 13, "JobUniverse": 11, "CurrentHosts": 3},
        {**AD, "ClusterId": 14, "JobUniverse": 7},
        {**AD, "ClusterId": 15, "JobUniverse": 12},
    ]
    text = {"long": "\n".join(map(classad, ads)), "json": json.dumps(ads, indent=1)}
    text["jsonl"] = "\n".join(map(json.dumps, ads))
    made = read(tmp_path, text[form], "history")
    assert jobs_of(made) == [
        (7, 0, 100, 600, 3600, 4),
        (8, 0, 100, 100, 3600, 4),
        (13, 0, 100, 600, 3600, 12),
        ("7.3", 0, 100, 600, 3600, 4),
    ]
    assert made.requests[0] == Request(1, 1, 1, 1, 4.0, 2048, None, (("", 1.0),))
    assert made.requests[3].memory_per_node_mib == 4096
    assert dict(made.dropped) == {
        "not ended": 1,
        "never started": 1,
        "asks for license/matlab, which is not modelled": 1,
        "run on the access point (scheduler or local universe)": 2,
        "asks for requestfpgas, which is not modelled": 1,
    }


# Slurm


def number(value: float | None, *, infinite: bool = False) -> dict[str, object]:
    return {"set": value is not None, "infinite": infinite, "number": value or 0}


def tres(**counts: float) -> list[dict[str, object]]:
    kinds = {name: name.split("__") for name in counts}
    return [
        {"type": kinds[name][0], "name": ":".join(kinds[name][1:]), "id": 1, "count": count}
        for name, count in counts.items()
    ]


SACCT: dict[str, Any] = {
    "job_id": 7,
    "allocation_nodes": 2,
    "partition": "p",
    "user": "ann",
    "nodes": "n[1-2]",
    "constraints": "fast",
    "het": {"job_id": 0, "job_offset": number(None)},
    "array": {"job_id": 5, "task_id": number(3)},
    "required": {"CPUs": 8, "memory_per_cpu": number(None), "memory_per_node": number(4096)},
    "state": {"current": ["COMPLETED"], "reason": "None"},
    "time": {"submission": 1000, "eligible": 1000, "start": 1100, "end": 1700, "elapsed": 600, "limit": number(60)},
    "tres": {"allocated": tres(cpu=8, mem=8192, node=2, billing=8, gres__gpu=4, gres__gpu__a100=4), "requested": []},
    "steps": [],
}
OLD = {
    **SACCT,
    "job_id": 8,
    "required": {"CPUs": 8, "memory": 2**63 + 1000},
    "state": {"current": "COMPLETED"},
    "time": {**SACCT["time"], "limit": 60},
}


def sacct(*jobs: object) -> str:
    return json.dumps({"meta": {"Slurm": {"release": "24.05"}}, "jobs": jobs, "errors": []})


def test_jobs_of_sacct_json_are_read_as_old_and_new_versions_write_them(tmp_path: Path) -> None:
    made = read(tmp_path, sacct(SACCT, OLD), "sacct.json")
    assert jobs_of(made) == [(7, 0, 100, 600, 3600, 2), (8, 0, 100, 600, 3600, 2)]
    gpus = (("a100", 2.0),)
    assert made.requests.tolist() == [
        Request(8, 2, 2, 4, 1.0, 4096, None, gpus, partition="p", constraint="fast"),
        Request(8, 2, 2, 4, 1.0, None, 1000, gpus, partition="p", constraint="fast"),
    ]
    assert made.recorded_nodes.tolist() == ["n[1-2]"] * 2


def test_jobs_of_sacct_json_of_all_kinds_are_read_or_counted(tmp_path: Path) -> None:
    time = SACCT["time"]
    jobs = [
        {**SACCT, "time": {**time, "limit": number(None, infinite=True)}, "state": {"current": ["REQUEUED"]}},
        {**SACCT, "time": {**time, "start": 2000, "end": 2060, "elapsed": 60}},
        {**SACCT, "job_id": 9, "state": {"current": ["RUNNING"]}, "time": {**time, "end": 0}},
        {**SACCT, "job_id": 10, "state": {"current": ["CANCELLED"]}, "time": {**time, "start": 0, "elapsed": 0}},
        {**SACCT, "job_id": 11, "tres": {"allocated": tres(cpu=1, gres__shard=2), "requested": []}},
        {**SACCT, "job_id": 12, "licenses": "matlab:1"},
    ]
    made = read(tmp_path, sacct(*jobs), "sacct.json")
    assert jobs_of(made) == [(7, 0, 100, 600, 600, 2), ("7", 0, 1000, 60, 3600, 2)]
    assert dict(made.dropped) == {
        "not ended": 1,
        "never started": 1,
        "asks for gres/shard, which is not modelled": 1,
        "asks for license/matlab, which is not modelled": 1,
    }


SQUEUE: dict[str, Any] = {
    "job_id": 7,
    "job_state": ["COMPLETED"],
    "submit_time": number(1000),
    "start_time": number(1100),
    "end_time": number(1700),
    "time_limit": number(60),
    "node_count": number(2),
    "cpus": number(8),
    "nodes": "n[1-2]",
    "partition": "p,q",
    "user_name": "ann",
    "memory_per_node": number(4096),
    "tres_per_node": "gres/gpu:a100:2",
    "tres_alloc_str": "cpu=8,mem=8G,node=2,gres/gpu=4",
}


def test_squeue_json_is_a_trace_where_jobs_have_ended(tmp_path: Path) -> None:
    running = {**SQUEUE, "job_id": 8, "job_state": ["RUNNING"]}
    made = read(tmp_path, sacct(SQUEUE, running, {**running, "job_id": 9, "job_state": "PENDING"}), "squeue.json")
    assert jobs_of(made) == [(7, 0, 100, 600, 3600, 2)]
    assert made.requests.tolist() == [Request(8, 2, 2, 4, 1.0, 4096, None, (("a100", 2.0),), partition="p,q")]
    assert made.dropped == (("not ended", 2),)
    with pytest.raises(BadFileError, match=r"holds 1 jobs of squeue --json .*, none of which has ended; give"):
        read(tmp_path, sacct(running), "squeue.json")


# Files that are not traces

OTHERS: dict[str, tuple[object, str]] = {
    "nodes": ({"nodes": [{"name": "n1"}], "meta": {}}, "is a list of nodes, such as scontrol show node --json prints"),
    "workload": (
        {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload"},
        "is a Kubernetes object of kind 'Workload'",
    ),
    "sinfo": ({"sinfo": []}, "is what sinfo or scontrol prints"),
    "flux": ({"version": 1, "execution": {"R_lite": []}}, "is a resource set of Flux"),
    "qstat": ({"Jobs": {}}, "is what qstat -F json prints: give PBS's accounting log"),
    "instance": ({"format": "allocopt-instance"}, "is a file of the format 'allocopt-instance', not a trace"),
    "none": ({"meta": {}, "jobs": []}, "holds no jobs"),
    "other": ({"a": 1, "b": 2}, r"is JSON, but not a known trace \(it has a, b\)"),
    "scontrol": (
        "JobId=7 JobName=x\n   UserId=ann\n",
        "is not a trace of jobs that have run, but what scontrol show job",
    ),
    "slurm.conf": ("# nodes\nNodeName=n1 CPUs=4\n", "is not a trace .* but a list of nodes, such as slurm.conf"),
    "topology.conf": ("SwitchName=s1 Nodes=n[1-4]\n", "is not a trace .* but a topology.conf"),
    "yaml": ("apiVersion: v1\nkind: Pod\n", "is not a trace .* but YAML"),
    "message": (
        "sacct: error: Problem talking to the database\n",
        "is not a trace .* but an error message of the command",
    ),
    "html": ("<!DOCTYPE html>\n<html></html>\n", "is not a trace .* but an HTML page"),
    "xml": ("<?xml version='1.0'?>\n<platform/>\n", "is not a trace .* but XML"),
}


@pytest.mark.parametrize(("content", "message"), OTHERS.values(), ids=OTHERS)
def test_what_is_no_trace_is_named_with_what_reads_it(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(BadFileError, match=message):
        read(tmp_path, content if isinstance(content, str) else json.dumps(content), "file")


def test_what_is_no_trace_is_named_whatever_its_file_is_called(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="is not a trace of jobs that have run, but an HTML page"):
        read(tmp_path, "<html></html>", "jobs.csv")
    assert len(read(tmp_path, "kind,submit,run,nodes\na,0,60,1\n", "jobs.csv")) == 1


def test_many_blank_lines_at_the_beginning_cost_no_time(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="log: line 61: "):
        read(tmp_path, "\n" * 60 + "a b c\n")


def test_columns_are_those_of_tables_in_json_too(tmp_path: Path) -> None:
    (tmp_path / "sacct.json").write_text(sacct(SACCT))
    with pytest.raises(UsageError, match=r"--columns applies to tables, and sacct\.json is not one"):
        read_workload(tmp_path / "sacct.json", "job=x")
    (tmp_path / "log").write_text(lsf())
    assert len(read_workload(tmp_path / "log", "ignore=gres/shard")) == 1


# What all readers share

GOOD: dict[str, str] = {
    "20170318": pbs() + pbs("Resource_List.select=2:ncpus=4:mem=4gb", job="8[2].srv") + pbs(job="9.srv", kind="S"),
    "lsb.acct": lsf() + lsf(job=8, needs="rusage[mem=5] span[hosts=1]"),
    "accounting": sge() + sge(job=8, task=2),
    "history": classad(AD) + "\n" + classad({**AD, "ClusterId": 8}),
    "history.json": json.dumps([AD, {**AD, "ClusterId": 8}]),
    "bjobs.json": json.dumps({"COMMAND": "bjobs", "RECORDS": [BJOBS, {**BJOBS, "JOBID": "6"}]}),
    "sacct.json": sacct(SACCT, OLD),
    "squeue.json": sacct(SQUEUE, {**SQUEUE, "job_id": 8}),
}

words = st.text("abcdefgh", min_size=2, max_size=8).map(lambda name: f"zz_{name}")
plain_values = st.text("abcxyz0123456789", min_size=1, max_size=8)


def with_extra(name: str, extra: dict[str, str]) -> str:
    """Return a good file in which every record has further attributes."""
    text = GOOD[name]
    if name == "20170318":
        return "".join(f"{line} {' '.join(map('='.join, extra.items()))}\n" for line in text.splitlines())
    if name == "lsb.acct":
        quoted = "".join(f' "{value}"' for value in extra.values())
        return "".join(f"{line}{quoted}\n" for line in text.splitlines())
    if name == "accounting":
        return "".join(f"{line}:{':'.join(extra.values())}\n" for line in text.splitlines())
    if name == "history":
        return "\n".join(f"{ad.rstrip()}\n{classad(extra)}" for ad in text.split("\n\n"))
    parsed = json.loads(text)
    jobs = parsed if isinstance(parsed, list) else parsed.get("RECORDS") or parsed["jobs"]
    for job in jobs:
        job.update(extra)
    return json.dumps(parsed)


@pytest.mark.parametrize("name", GOOD)
@given(extra=st.dictionaries(words, plain_values, max_size=5))
def test_attributes_that_are_not_known_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, name: str, extra: dict[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("extra")
    plain = read(folder, GOOD[name], name)
    made = read(folder, with_extra(name, extra), name)
    assert jobs_of(made) == jobs_of(plain)
    for column in ("requests", "recorded_nodes", "users", "preceding"):
        assert np.array_equal(getattr(made, column), getattr(plain, column))
    assert made.remarks() == plain.remarks()


@pytest.mark.parametrize(
    ("name", "render"),
    [
        ("pbs", lambda what, n: pbs() + pbs(f"Resource_List.{what}={n}", job="8.srv")),
        ("lsf", lambda what, n: lsf() + lsf(job=8, needs=f"rusage[{what}={n}]")),
        ("sge", lambda what, n: sge() + sge(f"-l {what}={n}", job=8)),
        ("condor", lambda what, n: classad(AD) + "\n" + classad({**AD, "ClusterId": 8, f"Request{what}": n})),
        ("sacct", lambda what, n: sacct(SACCT, {**OLD, "tres": {"allocated": tres(**{f"gres__{what}": n})}})),
    ],
)
@given(what=words, amount=st.integers(0, 5))
def test_a_demand_that_is_not_known_leaves_its_job_out_and_is_named(
    tmp_path_factory: pytest.TempPathFactory, name: str, render: Callable[[str, int], str], what: str, amount: int
) -> None:
    what = what.replace("_", "")
    made = read(tmp_path_factory.mktemp(name), render(what, amount), "log")
    assert len(made) == (1 if amount else 2)
    told = [reason for reason, count in made.dropped if count == 1]
    assert len(told) == bool(amount)
    assert all(what in reason and reason.endswith("is not modelled") for reason in told)


def malformed(name: str) -> dict[str, str | bytes]:
    """Return contents that are no trace: a good one cut, with wrong numbers, with junk, or with nothing that ended."""
    first = GOOD[name].splitlines()[0] if not name.endswith(".json") else GOOD[name]
    contents: dict[str, str | bytes] = {
        f"cut at {at}": first[:at] for at in range(1, len(first) // 3, len(first) // 45 + 1)
    }
    for bad in ("x", "-", "1e999", "9" * 40, "nan", "\x00"):
        contents[f"times are {bad!r}"] = _timeless(first, bad)
    contents |= {"junk": b"\x00\x01\xff" * 50, "gzip": b"\x1f\x8b\x08\x00", "empty": "", "blank": " \n\n"}
    return contents


def _timeless(text: str, bad: str) -> str:
    for good in ("1000000000", "1000", "Mar  1 00:00:00 2024"):
        text = text.replace(good, bad)
    return text


@pytest.mark.parametrize("name", GOOD)
def test_malformed_accounting_is_refused_in_one_line_and_nothing_is_written(
    tmp_path: Path, run: Callable[..., tuple[int, str]], name: str
) -> None:
    path, out = tmp_path / name, tmp_path / "out.swf"
    for what, content in malformed(name).items():
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        code, told = run("convert", path, out)
        assert (code, len(told.splitlines())) == (3, 1), (what, told)
        assert told.startswith(f"allocopt: {path}: "), what
        assert not out.exists(), what


@pytest.mark.parametrize("name", GOOD)
@given(data=st.data())
def test_damaged_accounting_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_text(data.draw(damaged(GOOD[name])), encoding="utf-8")
    check_read_or_refused(path, lambda path: len(read_workload(path)))
