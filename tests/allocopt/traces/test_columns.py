"""Columns of tables: any delimiter, no header, units, names of public datasets."""

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.request import Request
from allocopt.errors import BadFileError, UsageError
from allocopt.traces.csv_columns import Columns
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

NAMES = ["JobID", "Submit", "Elapsed", "NNodes", "State"]
ROWS = [["5", "1700000000", "60", "2", "COMPLETED"], ["6", "1700000030", "120", "4", "TIMEOUT"]]


def read(folder: Path, text: str, columns: str | None = None, name: str = "jobs.txt") -> Workload:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_workload(path, None if columns is None else Columns.parse(columns))


def table(delimiter: str, *, header: bool = True, last: str = "") -> str:
    rows = [NAMES, *ROWS] if header else ROWS
    return "".join(f"{delimiter.join(row)}{last}\n" for row in rows)


# Letters and digits stand in the cells, where a delimiter would be taken for one.
delimiters = st.characters(
    exclude_characters=string.ascii_letters + string.digits + "\"'\r\n", exclude_categories=["Cs"]
)


@given(delimiter=delimiters, ends=st.booleans())
def test_any_character_may_stand_between_columns(
    tmp_path_factory: pytest.TempPathFactory, delimiter: str, ends: bool
) -> None:
    folder = tmp_path_factory.mktemp("delimiter")
    made = read(folder, table(delimiter, last=delimiter if ends else ""))
    assert (made.ids.tolist(), made.run.tolist(), made.processors.tolist()) == ([5, 6], [60, 120], [2, 4])


@given(delimiter=delimiters, ends=st.booleans())
def test_without_a_header_the_columns_are_given_in_order(
    tmp_path_factory: pytest.TempPathFactory, delimiter: str, ends: bool
) -> None:
    folder = tmp_path_factory.mktemp("headerless")
    text = table(delimiter, header=False, last=delimiter if ends else "")
    made = read(folder, text, "JobID,Submit,Elapsed,NNodes%20,State%12")
    assert (made.ids.tolist(), made.run.tolist(), made.processors.tolist()) == ([5, 6], [60, 120], [2, 4])


def test_a_header_and_other_meanings_may_stand_together(tmp_path: Path) -> None:
    made = read(
        tmp_path, table("~", header=False), "number,when,took,size,how,job=number,submit=when,run=took:min,nodes=size"
    )
    assert made.run.tolist() == [3600, 7200]
    # A file that has the header all the same loses no row to it.
    assert len(read(tmp_path, table("~"), "JobID,Submit,Elapsed,NNodes,State")) == 2
    mapping = tmp_path / "mapping.toml"
    mapping.write_text('delimiter = "~"\nheader = ["JobID", "Submit", "Elapsed", "NNodes", "State"]\n')
    assert read(tmp_path, table("~", header=False), str(mapping)).ids.tolist() == [5, 6]


@pytest.mark.parametrize("columns", [None, "job=JobID"])
def test_a_file_without_a_header_is_refused_with_the_way_to_give_one(tmp_path: Path, columns: str | None) -> None:
    with pytest.raises(BadFileError, match=r"--columns JobID,Submit,Elapsed,NNodes|has no column 'JobID'"):
        read(tmp_path, table("|", header=False), columns)
    mapping = tmp_path / "mapping.toml"
    mapping.write_text('delimiter = "~"\n')
    with pytest.raises(BadFileError, match=r"or header = \[\.\.\.\] in the file of --columns"):
        read(tmp_path, table("~", header=False), str(mapping))


@pytest.mark.parametrize(
    ("header", "cells", "columns", "size", "request_"),
    [
        (
            *("job_name,submit,run,inst_num,plan_cpu,plan_gpu,plan_mem", "a,5,60,2,600,50,29.5"),
            "tasks=inst_num,processors=plan_cpu:percent/task,gpus=plan_gpu:percent/task,memory=plan_mem:GB/task",
            12,
            Request(2, 1, None, None, 6.0, None, 5035, (), (("", 0.5),)),
        ),
        (
            *("id,submit,run,nodes,c,g", "1,5,60,2,4,8"),
            "processors=c:/gpu,gpus=g",
            32,
            Request(32, 2, 2, 16, 1.0, None, None, (("", 4.0),)),
        ),
        (
            *("id,submit,run,nodes,s,g", "1,5,60,2,2,3"),
            "nodes=nodes,sockets=s:/node,gpus=g:/socket",
            2,
            Request(None, 2, 2, None, 0.0, None, None, (("", 6.0),)),
        ),
        (
            *("id,submit,run,nodes,cpus,m", "1,5,60,2,8,4"),
            "memory=m:GB/core",
            2,
            Request(8, 2, 2, 4, 1.0, None, 4096),
        ),
        (
            *("id,submit,run,cpus", "1,5,60,150"),
            "processors=cpus:percent",
            2,
            Request(1, 1, 1, 1, 1.5),
        ),
    ],
)
def test_amounts_may_be_in_percent_or_of_tasks_nodes_gpus_and_sockets(
    tmp_path: Path, header: str, cells: str, columns: str, size: int, request_: Request
) -> None:
    made = read(tmp_path, f"{header}\n{cells}\n", columns, "jobs.csv")
    assert (made.processors.tolist(), made.requests.tolist()) == ([size], [request_])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("run=a:percent", "the unit of run is 'percent', must be one of us, ms, s, min, h, d"),
        ("gpus=a:min", "the unit of gpus is 'min', must be one of percent, milli, 1, K; it may end in /node"),
        ("memory=a:GB/day", "the unit of memory is 'GB/day', which cannot be per day"),
        ("nodes=a:/node", "the unit of nodes is '/node', which cannot be per node"),
        (
            "JobID,Submit",
            "columns: 'JobID' in 'JobID,Submit' is wrong: give ROLE=COLUMN, or, for a file without a header",
        ),
        ("job=", "columns: 'job=' in 'job=' is wrong: give ROLE=COLUMN"),
    ],
)
def test_an_odd_unit_or_header_is_told(columns: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        Columns.parse(columns)
    assert message in str(raised.value)


DATASETS: dict[str, tuple[str, str, tuple[int, float, float, float]]] = {
    "F-DATA of Fugaku": (
        "jid,usr,jnam,cnumr,nnumr,adt,sdt,edt,elpl,nnuma,duration,exit state",
        "a1,u,j,192,4,2021-04-01 00:00:00,2021-04-01 00:01:00,2021-04-01 01:01:00,86400,4,3660,completed",
        (4, 60.0, 3600.0, 86_400.0),
    ),
    "Frontier": (
        "allocation_id,job_id,node_count,time_submission,time_start,time_end,time_limit,state_current",
        "9,17,8,2023-01-01 00:00:00,2023-01-01 00:02:00,2023-01-01 00:12:00,7200,COMPLETED",
        (8, 120.0, 600.0, 7200.0),
    ),
    "Aurora": (
        "JOB_NAME,QUEUED_TIMESTAMP,START_TIMESTAMP,END_TIMESTAMP,WALLTIME_SECONDS,RUNTIME_SECONDS,NODES_REQUESTED,"
        "CORES_REQUESTED,USERNAME_GENID",
        "12.aurora,2024-01-01 00:00:00,2024-01-01 00:00:30,2024-01-01 00:01:30,3600,60,16,1664,77",
        (16, 30.0, 60.0, 3600.0),
    ),
    "a table of condor_history": (
        "ClusterId ProcId QDate JobCurrentStartDate CompletionDate RemoteWallClockTime RequestCpus JobStatus",
        "5 0 1700000000 1700000010 1700000030 500 4 4",
        (4, 10.0, 20.0, 20.0),
    ),
    "instances of Alibaba, of 2025": (
        "instance_sn,role,cpu_request,gpu_request,memory_request,creation_time,scheduled_time,deletion_time",
        "instance_0,CN,12,1,64.5,100.0,130.0,190.0",
        (12, 30.0, 60.0, 60.0),
    ),
    "bjobs with columns": (
        "JOBID|STAT|SUBMIT_TIME|START_TIME|FINISH_TIME|RUN_TIME|RUNTIMELIMIT|NEXEC_HOST|SLOTS",
        "5|DONE|Mar  1 00:00:00 2024|Mar  1 00:00:10 2024|Mar  1 00:01:10 2024 L|60 second(s)|10.0/hostA|2|64",
        (2, 10.0, 60.0, 600.0),
    ),
}


@pytest.mark.parametrize(("header", "row", "expected"), DATASETS.values(), ids=DATASETS)
def test_columns_of_public_datasets_and_commands_are_known(
    tmp_path: Path, header: str, row: str, expected: tuple[int, float, float, float]
) -> None:
    made = read(tmp_path, f"{header}\n{row}\n")
    found = (made.processors[0], made.recorded_start[0], made.run[0], made.estimate[0])
    assert found == expected


def test_a_column_of_lists_is_no_number_of_nodes(tmp_path: Path) -> None:
    text = 'job_id,submit_time,run_time,nodes\n1,5,60,"[3, 4]"\n'
    with pytest.raises(BadFileError, match=r"nodes is the list '\[3, 4\]', must be a number; .* --columns nodes=NAME"):
        read(tmp_path, text, name="jobs.csv")
    known = read(
        tmp_path, text.replace("nodes\n", "nodes,num_nodes_alloc\n").replace(']"\n', ']",2\n'), name="jobs.csv"
    )
    assert (known.processors.tolist(), known.recorded_nodes.tolist()) == ([2], ["3,4"])


def test_an_instance_of_alibaba_is_on_one_node(tmp_path: Path) -> None:
    header, row, _ = DATASETS["instances of Alibaba, of 2025"]
    (asked,) = read(tmp_path, f"{header}\n{row}\n").requests
    assert asked == Request(1, 1, 1, 1, 12.0, 66_048, None, (("", 1.0),))


@pytest.mark.parametrize(
    "rows",
    [
        ("ClusterId ProcId QDate RequestCpus RemoteWallClockTime", "7 0 5 1 60", "7 1 5 2 60"),
        ("ID QDate RequestCpus RemoteWallClockTime", "7.0 5 1 60", "7.1 5 2 60"),
    ],
    ids=["two columns", "one column"],
)
def test_processes_of_a_cluster_of_condor_are_jobs(tmp_path: Path, rows: tuple[str, ...]) -> None:
    made = read(tmp_path, "\n".join(rows))
    assert [name or str(job) for name, job in zip(made.names, made.ids, strict=True)] == ["7", "7.1"]
    assert (made.processors.tolist(), made.dropped) == ([1, 2], ())


@pytest.mark.parametrize(
    "text",
    [
        "sep=;\r\nid;submit;run;nodes;name\r\n1;0;60,5;2;a\r\n2;5,0;7;1;b\r\n",
        "SEP=,\nid,submit,run,nodes\n1,0,60.5,2\n2,5,7,1\n",
        "+----+--------+------+-------+\n| id | submit | run  | nodes |\n+----+--------+------+-------+\n"
        "|  1 |      0 | 60.5 |     2 |\n|  2 |      5 | 7    |     1 |\n+----+--------+------+-------+\n"
        "2 rows in set (0.00 sec)\n",
    ],
    ids=["spreadsheet with semicolons", "spreadsheet with commas", "mysql"],
)
@pytest.mark.parametrize("name", ["jobs.csv", "jobs.txt"])
def test_tables_of_spreadsheets_and_databases_are_read(tmp_path: Path, text: str, name: str) -> None:
    made = read(tmp_path, text, name=name)
    assert (made.ids.tolist(), made.submit.tolist()) == ([1, 2], [0.0, 5.0])
    assert (made.run.tolist(), made.processors.tolist()) == ([60.5, 7.0], [2, 1])


def test_a_fault_behind_a_line_of_a_delimiter_has_its_own_line(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match=r"line 3: run is 'x'"):
        read(tmp_path, "sep=;\nid;submit;run;nodes\n1;0;x;2\n", name="jobs.csv")


def test_a_date_of_lsf_without_a_year_says_how_to_have_one(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="'Mar  1 00:00', has no year; set LSB_DISPLAY_YEAR=Y"):
        read(tmp_path, "JOBID|STAT|SUBMIT_TIME|RUN_TIME|SLOTS\n1|DONE|Mar  1 00:00|5 second(s)|1\n")


@given(st.lists(st.text("abcdefg_", min_size=3, max_size=8), max_size=5, unique=True), st.data())
def test_columns_that_are_not_known_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, extra: list[str], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("extra")
    extra = [f"zz_{name}" for name in extra]
    cells = st.text("abc xyz0123456789=:/", max_size=9)
    rows = [[*row, *(data.draw(cells) for _ in extra)] for row in ROWS]
    text = "\n".join("|".join(row) for row in [[*NAMES, *extra], *rows])
    plain = read(folder, "\n".join("|".join(row) for row in [NAMES, *ROWS]))
    made = read(folder, text)
    assert (made.ids.tolist(), made.run.tolist()) == (plain.ids.tolist(), plain.run.tolist())
    assert (made.requests.tolist(), made.remarks()) == (plain.requests.tolist(), plain.remarks())
