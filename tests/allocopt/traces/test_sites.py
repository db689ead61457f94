"""Traces as sites publish them: every one read right, and what is malformed refused in one line."""

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import check_read_or_refused, damaged

from allocopt.cluster.reading import read_cluster
from allocopt.cluster.request import Request
from allocopt.errors import BadFileError
from allocopt.experiments.grids import content_digest
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload


def first_of(made: Workload, row: int = 0) -> tuple[Any, ...]:
    """Return id, name, submission, wait, run time, estimate, size, request and nodes of a job."""
    numbers = (made.submit, made.recorded_start - made.submit, made.run, made.estimate)
    times = (float(column[row]) for column in numbers)
    return (made.ids[row], made.names[row], *times, made.processors[row], made.requests[row], made.recorded_nodes[row])


def on(nodes: int, tasks: int, gpus: float = 0, partition: str | None = None, memory: int | None = None) -> Request:
    held = (("", gpus),) if gpus else ()
    return Request(tasks, nodes, nodes, tasks // nodes, 1, memory, None, held, partition=partition)


MEGGIE = (349988, "", 0.0, 0.0, 86_400.0, 86_400.0, 7, Request.whole_nodes(7), "")
HELIOS = (1425511, "", 0.0, 0.0, 36_848.0, 36_848.0, 1, on(1, 1, 1, "vcJkd"), "")
POD = Request(1, 1, 1, 1, 12.0, 16_384, None, (("", 1.0),))
# By file: the number of jobs, the first one, and what is dropped; values by hand from the files.
GOLDEN: dict[str, tuple[int, tuple[Any, ...], list[int]]] = {
    "sites/jobs/acme_kalos.csv": (
        *(2, (1, "dlctk696s0jbvitv", 0.0, 10.0, 8.0, 8.0, 8, on(8, 960, 8, None, 1_024_000), "")),
        [],
    ),
    "sites/jobs/acme_seren.csv": (2, (5778432, "", 0.0, 32.0, 117.0, 117.0, 1, on(1, 128, 8), ""), []),
    "sites/jobs/helios.csv": (3, HELIOS, []),
    "sites/jobs/helios.parquet": (3, HELIOS, []),
    "sites/jobs/meggie.txt": (2, MEGGIE, []),
    "sites/jobs/meggie_p.txt": (2, MEGGIE, []),
    "sites/jobs/openb_pods.csv.gz": (
        *(7255, (1, "openb-pod-0000", 0.0, 0.0, 12_537_496.0, 12_537_496.0, 12, POD, "")),
        [897],
    ),
    "sites/jobs/philly_fmt.json": (
        1,
        (
            *(1, "application_000000", 0.0, 5.0, 32.0, 32.0, 1),
            Request(None, 1, 1, cores_per_task=0, gpus_per_node=(("", 1.0),), partition="TXT_2_IMG"),
            "m1",
        ),
        [],
    ),
    "sites/ubhpc/sacct_dump.txt": (
        6,
        (
            *(4822203, "", 0.0, 179_034.0, 128_930.0, 144_000.0, 1),
            on(1, 25, 0, "general-compute", 550_000),
            "cpn-u22-13",
        ),
        [1, 6],
    ),
    "sites/micro/jobs500.events": (
        *(500, (1, "jobid_1001", 0.0, np.nan, 15.0, 420.0, 12, Request(12, tasks_per_node=12, partition="normal"), "")),
        [],
    ),
    "sites/ubhpc/workload_week.events.gz": (
        19_579,
        (
            *(1, "jobid_00001", 0.0, np.nan, 84_805.0, 259_200.0, 32),
            Request(32, 1, 1, memory_per_node_mib=512_000, partition="general-compute"),
            "",
        ),
        [],
    ),
    "slurm_jobs/nrel_eagle_sample.csv": (
        *(1000, (532207, "", 0.0, 1.0, 97_235.0, 172_800.0, 10, on(10, 10, 0, "partition001"), "")),
        [],
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_every_trace_of_a_site_is_read_as_its_rows_say(shared_data: Path, name: str) -> None:
    made = read_workload(shared_data / name)
    jobs, first, dropped = GOLDEN[name]
    assert len(made) == jobs
    assert [count for _, count in made.dropped] == dropped
    found = first_of(made)
    assert found[:3] == first[:3]
    assert found[3] == pytest.approx(first[3], nan_ok=True)
    assert found[4:] == first[4:]


def test_columns_with_units_shares_and_delimiters_are_read_right(shared_data: Path) -> None:
    pods = read_workload(shared_data / "sites" / "jobs" / "openb_pods.csv.gz")
    lines = gzip.decompress((shared_data / "sites/jobs/openb_pods.csv.gz").read_bytes()).decode().splitlines()[1:]
    rows = {cells[0]: cells for cells in (line.split(",") for line in lines)}
    for name, request, cores in zip(pods.names, pods.requests, pods.processors, strict=True):
        _, milli, memory, gpus, share, *_ = rows[name]
        assert (request.cores_per_task, request.memory_per_node_mib) == (
            pytest.approx(int(milli) / 1000),
            int(memory) or None,
        )
        held = sum(amount for _, amount in request.gpus_per_node)
        assert held == pytest.approx(int(gpus) * int(share) / 1000)
        assert cores == -(-int(milli) // 1000)
    # A share of a GPU is asked of the nodes of the same site.
    cluster = read_cluster([shared_data / "sites" / "jobs" / "openb_nodes.csv"])
    asked = next(one for one in pods.requests if one.gpus_per_node == (("", 0.46),)).on(cluster)
    assert asked.per_node[cluster.resources.index("gpus")] == 460
    dump = read_workload(shared_data / "sites" / "ubhpc" / "sacct_dump.txt")
    assert [request.constraint for request in dump.requests[1:]] == [None, "cpu-a|cpu-b", None, "cpu-a|cpu-b|gpu", None]
    assert dump.ids.tolist()[1:] == [4830973, 4830974, 4830975, 4830976, 4830977]


def read(folder: Path, text: str, name: str) -> Workload:
    (folder / name).write_text(text, encoding="utf-8")
    return read_workload(folder / name)


LASSEN = (
    "allocation_id,num_nodes,num_processors,num_gpus,hashed_user_id,begin_time,end_time,job_submit_time,"
    "queue,time_limit"
)


def test_lassen_a_table_for_eyes_and_jobs_without_ids_are_read(tmp_path: Path) -> None:
    row = "17,2,352,0,u1,2018-11-01 01:07:31.5,2018-11-01 02:07:31.5,2018-11-01 01:07:30.5,pbatch,7200"
    lassen = read(tmp_path, f"{LASSEN}\n{row}\n", "lassen.csv")
    assert first_of(lassen) == (17, "", 0.0, 1.0, 3600.0, 7200.0, 2, on(2, 352, 0, "pbatch"), "")
    text = (
        "JobID               Submit    Elapsed   NNodes     State        NodeList \n"
        "------- ------------------- ---------- -------- --------- --------------- \n"
        "12      2026-01-01T00:00:00   00:10:00        2 COMPLETED      n[001-002] \n"
        "12.0    2026-01-01T00:00:00   00:10:00        2 COMPLETED      n[001-002] \n"
        "13      2026-01-01T00:00:05    bad            2 COMPLETED            n[1- \n"
        "14      2026-01-01T00:00:09   00:10:00        1  TIMEOUT             n[1- \n"
    )
    eyes = read(tmp_path, text, "sacct.txt")
    assert eyes.ids.tolist() == [12, 14]
    assert eyes.recorded_nodes.tolist() == ["n[001-002]", ""]
    assert eyes.dropped[0][0].startswith("damaged (line 5: Elapsed is 'bad', must be a number or a duration")
    assert ("list of nodes not understood, left out", 1) in eyes.repaired
    nameless = read(tmp_path, "submit,run,cpus,mem\n5,x,4,1\n7,60,4,lots\n9,60,4,2G\n", "jobs.csv")
    assert nameless.ids.tolist() == [2, 3]
    unknown = Request(unmodelled=("something that is not understood",))
    assert nameless.requests.tolist() == [unknown, Request(4, memory_per_node_mib=2048)]
    [told] = [reason for reason, _ in nameless.repaired if reason.startswith("request")]
    assert told.startswith(
        "request not understood (line 3: is 'lots', must be memory such as 4000 or 16G), run on whole nodes only"
    )


@pytest.mark.parametrize(
    ("columns", "cells", "request_"),
    [
        ("NNodes|NCPUS|AllocTRES", "2|8|cpu=8,gres/gpu=4,gres/gpu:a100=4,mem=64G,node=2", (("a100", 2.0),)),
        ("NNodes|NCPUS|AllocTRES", "2|8|cpu=8,gres/gpu=3", (("", 2.0),)),
        ("NNodes|NCPUS|AllocGRES", "2|8|gpu:v100:3(S:0-1)", (("v100", 3.0),)),
        ("NNodes|NCPUS|AllocGRES", "2|8|gres:gpu:2,gres:shard:0", (("", 2.0),)),
        ("NNodes|NCPUS|gpus", "2|8|6.0", (("", 3.0),)),
        ("NNodes|NCPUS|gpus", "2|8|", ()),
    ],
)
def test_gpus_are_those_of_each_node(tmp_path: Path, columns: str, cells: str, request_: tuple[Any, ...]) -> None:
    made = read(tmp_path, f"JobID|Submit|Elapsed|{columns}\n1|0|9|{cells}\n", "a.txt")
    assert made.requests[0].gpus_per_node == request_


def test_names_stand_in_the_csv_of_jobs(tmp_path: Path, run: Callable[..., tuple[int, str]]) -> None:
    (tmp_path / "a.csv").write_text('id,submit,run,cpus\n"a,b",0,5,1\nc,1,5,1\n')
    assert run("simulate", tmp_path / "a.csv", "--processors", 1, "--jobs-csv", tmp_path / "out.csv")[0] == 0
    rows = [line.split(",0,,", 1)[0] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    assert [row.rstrip(",") for row in rows] == ['"a,b",0,0,5,1,5,5', "c,1,5,10,1,5,5,,,,,,,,,,4,resources"]
    assert read_workload(tmp_path / "out.csv").names.tolist() == ["a,b", "c"]


@pytest.mark.parametrize("name", ["a.csv", "a.swf"])
@given(damage=st.lists(st.sampled_from(["", "", "cut", "word"]), min_size=1, max_size=12))
def test_a_trace_with_damaged_rows_is_the_trace_without_them(
    tmp_path_factory: pytest.TempPathFactory, name: str, damage: list[str]
) -> None:
    mark, head = (",", "id,submit,run,cpus,estimate") if name == "a.csv" else (" ", "; MaxProcs: 9")
    rest = "4" if name == "a.csv" else "-1 -1 -1 4 9 -1 1 5 -1 -1 -1 -1 -1 -1"
    sound = [mark.join((str(job), str(job), "3", "7", *rest.split(" "))) for job in range(1, len(damage) + 2)]
    broken = {"": lambda line: line, "cut": lambda line: line[:4], "word": lambda line: line.replace("7", "x")}
    rows = [broken[kind](line) for kind, line in zip([*damage, ""], sound, strict=True)]
    folder, lost = tmp_path_factory.mktemp("rows"), len(damage) - damage.count("")
    made = read(folder, "\n".join([head, *rows]), name)
    kept = read(folder, "\n".join([head, *(row for row, line in zip(rows, sound, strict=True) if row == line)]), name)
    assert content_digest(made) == content_digest(kept)
    assert sum(count for _, count in made.dropped) == lost
    read(folder, "\n".join([head, *rows]), name)
    if lost:
        with pytest.raises(BadFileError, match=rf"{name}: line \d+: "):
            read_workload(folder / name, strict=True)
    else:
        assert content_digest(read_workload(folder / name, strict=True)) == content_digest(made)


EVENT = "-dt 5 -e submit_batch_job | -J a -sim-walltime 9 -n 2 -t 1:00 -p x j.sh"
JOB = {"jobid": "a", "submitted_time": "2020-01-01 00:00:00", "attempts": []}
TABLE = "id,submit,run,nodes\n"
MALFORMED: dict[str, list[str | bytes]] = {
    "a.csv": [
        *("", " ", "\n\n", "id", TABLE, f"{TABLE}1,2,3\n", f"{TABLE}1,2,3,4,5\n", f"{TABLE}1,x,3,4\n"),
        *(f"{TABLE}1,2,x,4\n", f"{TABLE}1,2,3,-4\n", f"{TABLE}1,2,3,0\n", f"{TABLE}1,2,0,4\n", f"{TABLE}1,2,-3,4\n"),
        *(f"{TABLE}1,nan,3,4\n", f"{TABLE}1,2,inf,4\n", f"{TABLE}1,2,3,1e400\n", f"{TABLE}1,{'9' * 400},3,4\n"),
        *(f'{TABLE}"1,2,3,4\n', f"{TABLE}1,2,3,4.5\n", b"id,submit\xff", b"\x00\x01\x02", b"PAR1\x00\x00", "[]", "{}"),
        *("id,submit,start,end,cpus\n1,2,3,2,4\n", "id,submit,start,end,cpus\n1,2,,,4\n", f"{TABLE}1.0.0,2,3,4\n"),
        *(f"id,submit,run,nodes,state\n1,2,3,4,{state}\n" for state in ("PENDING", "RUNNING")),
        *(f"{TABLE}1,2,1:2:3:4,4\n", f"{TABLE}1,2026-13-01,3,4\n"),
    ],
    "a.psv": ["|", "|||", "JobID|Submit|Elapsed|NNodes", "JobID|Submit|Elapsed|NNodes\n1|2|3", "a|b\n1|2"],
    "a.txt": ["a b\n--- ---\n1 2\n", "--- ---\n--- ---\n", "JobID Submit\n----- ------\n", "x", "1 2 3", "1 2 3 4 5"],
    "a.events": [
        *("", "x", EVENT.replace("-dt 5", "-dt x"), EVENT.replace("-dt 5 ", ""), EVENT.partition("|")[0]),
        *(EVENT.replace("-sim-walltime 9", ""), EVENT.replace("9", "x"), EVENT.replace("1:00", "1:x")),
        *(
            EVENT.replace("-n 2", "-n two"),
            EVENT.replace("-n 2", "-N 2-1 -n 2"),
            EVENT.replace("submit_batch", "cancel"),
        ),
    ],
    "a.json": [
        *("[", "[1]", "[{}]", "[null]", json.dumps([JOB]), json.dumps([{**JOB, "attempts": 1}])),
        *(json.dumps([{**JOB, "attempts": [{"detail": [{"ip": 1}]}]}]), json.dumps([{**JOB, "submitted_time": "x"}])),
        json.dumps([{**JOB, "attempts": [{"start_time": "x", "end_time": "y"}]}]),
    ],
    "a.parquet": ["", "PAR1", "PAR1PAR1", b"\x00" * 100, b"PAR1" + b"\xff" * 60 + b"PAR1", TABLE],
    "a.swf.gz": [b"\x1f\x8b\x08\x00", "1 2 3", b""],
}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param(name, content, id=f"{name} {number}")
        for name, contents in MALFORMED.items()
        for number, content in enumerate(contents)
    ],
)
def test_what_is_malformed_is_refused_in_one_line_and_nothing_is_written(
    tmp_path: Path, run: Callable[..., tuple[int, str]], name: str, content: str | bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    code, told = run("convert", path, tmp_path / "out.swf")
    assert (code, len(told.splitlines())) == (3, 1)
    assert told.startswith(f"allocopt: {path}: ")
    assert [one.name for one in tmp_path.iterdir()] == [name]


ATTEMPTS = [{"start_time": "2020-01-01 00:00:05", "end_time": "2020-01-01 00:01:00", "detail": []}]
SACCT = """JobID|JobName|Submit|Start|End|Elapsed|Timelimit|NNodes|NCPUS|ReqMem|User|State
100|a|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-02T02:04:04|1-02:03:04|2-00:00:00|4|64|16Gn|ann|COMPLETED
100.0|x|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-02T02:04:04|1-02:03:04||1|16|16Gn||COMPLETED
102_3|c|2026-01-01T00:00:20|2026-01-01T00:00:20|2026-01-01T00:30:20|30:00|Partition_Limit|2|64|4000Mc|bob|TIMEOUT
103|c|2026-01-01T00:00:30|2026-01-01T00:00:20|Unknown|10:00|00:30:00|2|64|4000Mc|bob|RUNNING
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.events", f"{EVENT}\n" * 4),
        ("a.json", json.dumps([{**JOB, "attempts": ATTEMPTS}] * 3)),
        ("a.txt", SACCT),
        ("a.csv", SACCT.replace("|", ",")),
    ],
)
@given(data=st.data())
def test_a_damaged_trace_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, name: str, text: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_text(data.draw(damaged(text)), encoding="utf-8")
    check_read_or_refused(path, lambda path: len(read_workload(path)))


@given(data=st.data())
def test_parquet_that_is_cut_is_refused_in_one_line(
    shared_data: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("parquet") / "a.parquet"
    whole = (shared_data / "sites" / "jobs" / "helios.parquet").read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(BadFileError, match=r"a\.parquet: cannot be read as Parquet: "):
        read_workload(path)


def test_without_pyarrow_parquet_is_named_with_exit_code_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., tuple[int, str]]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    told = "Parquet files need the package 'pyarrow', which is not installed: pip install 'allocopt[parquet]'"
    assert run("convert", tmp_path / "a.parquet", tmp_path / "a.swf") == (5, f"allocopt: {told}\n")
