"""Tables of jobs: cells of accounting records, columns, dumps of sacct -P and CSV files."""

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.request import Request
from allocopt.errors import BadFileError, UsageError
from allocopt.files.cells import duration_s, instant_s, resource_count
from allocopt.traces.csv_columns import Columns
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

NOTHING = ["", "UNLIMITED", "Partition_Limit", "Unknown", "None", "INVALID", "NaN"]
"""What Slurm writes for no value and for no limit."""


def nodes(text: str) -> int:
    return resource_count(text, "node")


@pytest.mark.parametrize(
    ("read_cell", "text", "value"),
    [
        (duration_s, "30:00", 1800),
        (duration_s, "00:01.500", 1.5),
        (duration_s, "05:06:07.25", 18_367.25),
        (duration_s, "2-12", 216_000),
        (duration_s, "2-12:30", 217_800),
        (duration_s, "14534.0", 14_534),
        (duration_s, "99", 99),
        (duration_s, "1 day, 2:03:04", 93_784),
        (duration_s, "2 days 00:00:01.5", 172_801.5),
        (instant_s, "1970-01-02T00:00:00", 86_400),
        (instant_s, "1970-01-01 00:01:00", 60),
        (instant_s, "1970-01-01T01:00:00+01:00", 0),
        (instant_s, "1700000000", 1_700_000_000),
        (instant_s, "1970-01-01 00:01:00 UTC", 60),
        (instant_s, "1970/1/1 0:01", 60),
        (instant_s, "1970/01/02", 86_400),
        (instant_s, "1970-1-2 3:04:05.5", 97_445.5),
        (lambda text: duration_s(text, 60.0), "90", 5400),
        (lambda text: duration_s(text, 60.0), "01:00:00", 3600),
        (lambda text: instant_s(text, 1e-3), "1500", 1.5),
        (nodes, "16", 16),
        (nodes, "4.0", 4),
        (nodes, "2K", 2000),
        (nodes, "1.5k", 1500),
        (nodes, "1M", 1_000_000),
        (nodes, "billing=8,cpu=1.5K,gres/gpu=1,mem=186G,node=2", 2),
        (nodes, "cpu=4", 0),
        (nodes, "node=", 0),
        *((nodes, text, 0) for text in NOTHING),
        *((read_time, text, math.nan) for text in NOTHING for read_time in (duration_s, instant_s)),
    ],
)
def test_cells_are_read_in_every_form_of_slurm(read_cell: Callable[[str], float], text: str, value: float) -> None:
    assert read_cell(text) == pytest.approx(value, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    ("read_cell", "texts", "fault"),
    [
        (
            duration_s,
            ["1:2:3:4", "a", "1-", "-5:00", "1e999", "inf", "12:xx"],
            "must be a number or a duration such as",
        ),
        (
            duration_s,
            ["9007199254740994", f"{'9' * 400}:00", f"{'9' * 18}-00:00:00"],
            r"must be between -2\^53 s and 2\^53 s",
        ),
        (nodes, ["4.5", "n[1-2]", "-1", "16Gn", "1e9999", "cpu=2,node=two"], "must be a whole number such as 16 or 2K"),
        (instant_s, ["31.01.2026", "1/2/2026", "2026/13/1", "UTC"], "must be a date such as"),
    ],
    ids=["durations", "beyond 64 bits", "counts", "dates"],
)
def test_cells_of_no_form_are_told(read_cell: Callable[[str], float], texts: list[str], fault: str) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=fault):
            read_cell(text)


@given(st.integers(200_000_000, 99_999_999_999), st.sampled_from([1, 3, 6, 9]))
def test_a_time_since_1970_is_known_in_seconds_and_in_their_parts(seconds: int, digits: int) -> None:
    assert instant_s(f"{seconds}{'0' * (digits if digits > 1 else 0)}") == seconds
    assert instant_s(str(seconds), 1e-3) == pytest.approx(seconds / 1000)


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_duration_is_the_sum_of_its_parts(days: int, hours: int, minutes: int, seconds: int) -> None:
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    assert duration_s(f"{days}-{hours:02d}:{minutes:02d}:{seconds:02d}") == total
    assert duration_s(f"{days * 24 + hours:02d}:{minutes:02d}:{seconds:02d}") == total


HEADER = "State|JobID|JobName|Submit|Start|End|Elapsed|Timelimit|NNodes|NCPUS|ReqMem|User"


SACCT = f"""{HEADER}
COMPLETED|100|a|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-02T02:04:04|1-02:03:04|2-00:00:00|4|64|16Gn|ann
COMPLETED|100.batch|batch|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-02T02:04:04|1-02:03:04||1|16|16Gn|
COMPLETED|100.0|x|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-02T02:04:04|1-02:03:04||1|16|16Gn|
CANCELLED by 1000|101|c|2026-01-01T00:00:10|None|Unknown|00:00:00|UNLIMITED|1|64|4000Mc|bob
TIMEOUT|102_3|c|2026-01-01T00:00:20|2026-01-01T00:00:20|2026-01-01T00:30:20|30:00|Partition_Limit|2|64|4000Mc|bob
PENDING|102_[4-9]|c|2026-01-01T00:00:20|Unknown|Unknown|00:00:00|00:30:00|2|64|4000Mc|bob
RUNNING|103|c|2026-01-01T00:00:30|2026-01-01T00:00:20|Unknown|10:00|00:30:00|2|64|4000Mc|bob
CANCELLED by 7|104+0|c|2026-01-01T00:00:30|2026-01-01T00:00:30|2026-01-01T00:01:00|00:00:30|00:30:00|1K|64|0n|ann
COMPLETED|105|c|Unknown|2026-01-01T00:00:20|2026-01-01T00:00:50|00:00:30|00:30:00|1|64|0n|bob
"""


def read(folder: Path, text: str, columns: str | None = None, name: str = "jobs.csv") -> Workload:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_workload(path, None if columns is None else Columns.parse(columns))


def fault(folder: Path, text: str, columns: str | None = None, name: str = "jobs.csv") -> str:
    with pytest.raises(BadFileError) as raised:
        read(folder, text, columns, name)
    return str(raised.value).removeprefix(f"{folder / name}: ")


def test_a_dump_of_sacct_is_read_without_steps_and_with_every_drop_counted(tmp_path: Path) -> None:
    workload = read(tmp_path, SACCT, name="dump.txt")
    assert workload.name == "dump"
    assert workload.ids.tolist() == [100, 106, 107]
    assert workload.submit.tolist() == [0, 20, 30]
    assert workload.run.tolist() == [93_784, 1800, 30]
    assert workload.estimate.tolist() == [172_800, 1800, 1800]
    assert workload.processors.tolist() == [4, 2, 1000]
    assert workload.users.tolist() == [0, 1, 0]
    assert dict(workload.dropped) == {"not ended": 7, "submit time unknown": 1, "never started": 1}
    assert dict(workload.repaired) == {
        "no time limit, run time used": 1,
        "task of an array without a number of its own, given a new number": 2,
    }


def test_every_column_of_sacct_that_the_guide_asks_for_is_understood(tmp_path: Path) -> None:
    guide = Path(__file__).resolve().parents[3] / "docs" / "guide" / "what_if.md"
    (asked,) = re.findall(r"^sacct .* -o (\S+)", guide.read_text(encoding="utf-8"), re.MULTILINE)
    header = asked.split(",")
    found = Columns().find(tmp_path, header)
    assert {header[column.number] for column in found.values()} == set(header)
    cells = dict.fromkeys(header, "") | {
        **{"JobIDRaw": "1", "Submit": "2026-01-01T00:00:00", "Start": "2026-01-01T00:01:00", "ElapsedRaw": "60"},
        **{"AllocNodes": "2", "AllocCPUS": "8", "ReqMem": "16G", "ReqTRES": "cpu=8,gres/gpu=4,mem=16G,node=2"},
        **{"Partition": "gpu", "Constraints": "fast", "State": "COMPLETED"},
    }
    workload = read(tmp_path, "|".join(header) + "\n" + "|".join(cells.values()), name="jobs.txt")
    assert workload.requests.tolist() == [
        Request(8, 2, 2, 4, 1.0, 8192, None, (("", 2.0),), partition="gpu", constraint="fast")
    ]


@given(st.permutations(range(12)))
def test_the_order_of_columns_does_not_matter(tmp_path_factory: pytest.TempPathFactory, order: list[int]) -> None:
    lines = [[line.split("|")[column] for column in order] for line in SACCT.splitlines()]
    # What may hold a delimiter keeps its place in the row.
    workload = read(tmp_path_factory.mktemp("sacct"), "\n".join("|".join(line) for line in lines), name="dump.txt")
    assert workload.ids.tolist() == [100, 106, 107]
    assert workload.run.tolist() == [93_784, 1800, 30]


def test_the_nrel_sample_is_read_as_it_is(shared_data: Path) -> None:
    workload = read_workload(shared_data / "slurm_jobs" / "nrel_eagle_sample.csv")
    assert len(workload) == 1000
    assert workload.dropped == ()
    assert dict(workload.repaired) == {"id used by an earlier job, given a new number": 451}
    assert workload.processors.max() == 360
    assert (workload.run * workload.processors).sum() / 86_400 == pytest.approx(964.922639, abs=1e-6)
    assert workload.submit.min() == 0
    assert workload.submit.max() == 2 * 86_400 + 1 * 3600 + 31 * 60 + 59
    by_processors = read_workload(
        shared_data / "slurm_jobs" / "nrel_eagle_sample.csv", Columns({"processors": "processors_req"})
    )
    assert by_processors.processors.sum() > workload.processors.sum()


OTHER = "number;when;took;size;limit\n1;2026-01-01;5;3;1\n"
TRES = (
    "JobID|Submit|Elapsed|AllocTRES|State\n"
    "1|2026-01-01T00:00:00|01:00:00|billing=72,cpu=72,mem=186G,node=2|COMPLETED\n2|2026-01-01T00:00:10|0||"
)
RAW = "JobIDRaw|JobID|Submit|ElapsedRaw|TimelimitRaw|AllocNodes|\n7|5_1|1700000000|60|3|2|\n8|5_2|1700000009|60|3|2|"
TABLES: dict[str, tuple[str, str | None, dict[str, list[int]]]] = {
    "names of columns with blanks, dashes or neither": (
        '"Job ID","submit-time",RunTime,NUM NODES,Time Limit\n1,0,60,2,3\n',
        None,
        {"run": [60], "processors": [2], "estimate": [180]},
    ),
    "nodes in lists of allocated resources": (TRES, None, {"processors": [2]}),
    "processors in lists of allocated resources": (TRES, "processors=AllocTRES", {"processors": [72]}),
    "raw columns, and a last delimiter": (RAW, None, {"ids": [7, 8], "submit": [0, 9], "estimate": [180, 180]}),
    "a delimiter in the name of a job": (
        "JobID|JobName|Submit|Elapsed|NNodes\n1|a|b|c|5|30:00|2\n2|d|6|10:00|1\n",
        None,
        {"run": [1800, 600]},
    ),
    "an earlier number, and one behind all others": (
        "id,submit,run,nodes\n5,0,1,1\n5,1,2,1\n9,2,3,1\n5,3,4,1\n",
        None,
        {"ids": [5, 10, 9, 11]},
    ),
    "run time from start to end": (
        "id,submit,start,end,cpus\n1,2026-01-01,2026-01-01 10:00,2026-01-01 10:05,8\n",
        None,
        {"run": [300], "processors": [8]},
    ),
    "texts, and numbers beyond 2^53, in the place of ids": (
        "id,submit,run,nodes\na,0,1,1\n99999999999999999,1,2,1\n,2,3,1\n",
        None,
        {"ids": [1, 2, 3], "names": ["a", "99999999999999999", ""]},
    ),
    "numbers that went through floats": ("id,submit,run,nodes\n1.0,1,1,1.0\n2.0,0,5,2.0\n", None, {"ids": [2, 1]}),
    "our own schedules": (
        "job_id,submit,start,end,processors,run,estimate\n3,5,6,16,4,10,20\n",
        None,
        {"run": [10], "processors": [4], "estimate": [20]},
    ),
    "a mapping of columns and units": (
        OTHER,
        "job=number,submit=When,run=took:min,nodes=size,estimate=limit:h",
        {"run": [300], "estimate": [3600]},
    ),
    **{
        f"the delimiter {mark!r}": (mark.join(("id", "submit", "run", "nodes\n1", "0", "5", "2")), None, {"ids": [1]})
        for mark in ",;\t|"
    },
}


@pytest.mark.parametrize(("text", "columns", "expected"), TABLES.values(), ids=TABLES.keys())
def test_tables_are_read(tmp_path: Path, text: str, columns: str | None, expected: dict[str, list[int]]) -> None:
    workload = read(tmp_path, text, columns, name="dump.txt" if "|" in text else "jobs.csv")
    assert {name: getattr(workload, name).tolist() for name in expected} == expected


def test_a_mapping_may_stand_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mapping.toml"
    path.write_text(
        'delimiter = ";"\n[columns]\njob = "number"\nsubmit = "when"\nrun = "took"\nnodes = "size"\n'
        '[units]\nrun = "h"\n',
        encoding="utf-8",
    )
    assert read(tmp_path, OTHER, str(path)).run.tolist() == [18_000]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "key 'x' is unknown; keys are columns, units, delimiter"),
        ("columns = 1", "columns: must be a table of texts"),
        ("[units]\nrun = 1", "units: must be a table of texts"),
        ("delimiter = 1", "delimiter: must be a text of one character"),
        ("delimiter = '--'", "columns: the delimiter is '--', must be one character"),
        ("[columns]\njobs = 'a'", "columns: there is no role 'jobs'; the roles are job, component"),
        ("[units]\nrun = 'y'", "columns: the unit of run is 'y', must be one of us, ms, s, min, h, d"),
        ("[", "is not TOML: "),
        ("job", "columns: 'job' in 'job' is wrong: give ROLE=COLUMN"),
        ("jobb=x", "columns: there is no role 'jobb'"),
        ("run=x:y", "columns: the unit of run is 'y'"),
        ("nodes=a,processors=b", "columns: nodes and processors are both named"),
    ],
)
def test_an_odd_mapping_in_a_file_or_on_the_command_line_is_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mapping.toml"
    path.write_text(text, encoding="utf-8")
    is_line = text.startswith(("job", "run", "nodes"))
    with pytest.raises(UsageError if is_line else BadFileError) as raised:
        Columns.parse(text if is_line else str(path))
    assert str(raised.value).removeprefix(f"{path}: ").startswith(message)


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        (SACCT.partition("\n")[2], None, "line 1: no column is known for submit"),
        ("", None, "is empty, must begin with the names of its columns"),
        ("id,submit,run,nodes\n", None, "holds no jobs"),
        (OTHER, None, "line 1: no column is known for submit, run (or start and end), nodes (or processors); "),
        (OTHER, "job=nummer", "line 1: has no column 'nummer', named for job"),
        ("id,submit,run,nodes\n1,x,1,1", None, "line 2: submit is 'x', must be a date such as"),
        ("id,submit,run,nodes\n1,1,1,x", None, "line 2: nodes is 'x', must be a whole number such as 16 or 2K"),
        ("id,submit,run,nodes\n\n1,1,1:x,1", None, "line 3: run is '1:x', must be a number or a duration such as"),
        ("id,submit,run,nodes\n1,1,1", None, "line 2: has 3 cells, line 1 names 4 columns"),
        ("id,submit,run,nodes\n1,1,0,1", None, "none of its 1 jobs has a positive run time and size"),
        ("id,submit,run,nodes\n1.batch,1,5,1", None, "all 1 lines are job steps"),
        ("id,submit,run,nodes,state\n1,1,5,1,RUNNING", None, "none of its 1 jobs can be run (not ended: 1)"),
        ('id,submit,run,nodes\n"1,1,5,1', None, "line 2: has 1 cells, line 1 names 4 columns"),
    ],
)
def test_an_odd_table_gets_a_line_that_names_the_fault(
    tmp_path: Path, text: str, columns: str | None, message: str
) -> None:
    found = fault(tmp_path, text, columns)
    assert found.startswith(message)
    assert found.isprintable()


def test_columns_are_those_of_tables(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--columns applies to tables, and jobs\.swf is not one"):
        read(tmp_path, "", "job=x", name="jobs.swf")


def test_names_may_hold_what_python_takes_for_the_end_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes('job_id,name,submit,run,nodes\r\n1,a\u2028b\x0cc,0,5,2\r\n2,"two\nlines",1,5,3\r\n'.encode())
    assert read_workload(path).processors.tolist() == [2, 3]


@given(st.lists(st.tuples(st.integers(0, 9999), st.integers(1, 9999), st.integers(1, 99)), min_size=1, max_size=20))
def test_a_table_of_plain_numbers_is_read_exactly(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[tuple[int, int, int]]
) -> None:
    text = "\n".join(["id,submit,run,nodes", *(f"{n},{s},{r},{p}" for n, (s, r, p) in enumerate(jobs))])
    workload = read(tmp_path_factory.mktemp("table"), text)
    order = np.argsort(workload.ids)
    first = min(submit for submit, _, _ in jobs)
    columns = (workload.submit[order] + first, workload.run[order], workload.processors[order])
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == jobs
