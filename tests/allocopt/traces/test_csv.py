"""Tables of jobs: cells of accounting records, columns, dumps of sacct -P and CSV files."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import check_read_or_refused, damaged

from allocopt.errors import BadFileError, UsageError
from allocopt.traces.csv_cells import duration_s, instant_s, resource_count
from allocopt.traces.csv_columns import Columns
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-02:03:04", 93_784),
        ("00:00:30", 30),
        ("30:00", 1800),
        ("00:01.500", 1.5),
        ("05:06:07.25", 18_367.25),
        ("2-12", 216_000),
        ("2-12:30", 217_800),
        ("14534.0", 14_534),
        ("99", 99),
    ],
)
def test_durations_are_read_in_every_form_of_slurm(text: str, seconds: float) -> None:
    assert duration_s(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("text", ["", "UNLIMITED", "Partition_Limit", "Unknown", "None", "INVALID", "NaN"])
def test_no_value_and_no_limit_are_not_a_number(text: str) -> None:
    assert math.isnan(duration_s(text))
    assert math.isnan(instant_s(text))
    assert resource_count(text, "node") == 0


@pytest.mark.parametrize("text", ["9007199254740994", "9" * 400, f"{'9' * 400}:00", f"{'9' * 18}-00:00:00"])
def test_times_that_64_bits_do_not_hold_exactly_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be within 2\^53 s of 0"):
        duration_s(text)


def test_bare_numbers_count_in_their_unit() -> None:
    assert duration_s("90", 60.0) == 5400
    assert duration_s("01:00:00", 60.0) == 3600
    assert instant_s("1500", 1e-3) == 1.5


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02T00:00:00", 86_400),
        ("1970-01-01 00:01:00", 60),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1700000000", 1_700_000_000),
    ],
)
def test_instants_are_dates_or_seconds(text: str, seconds: float) -> None:
    assert instant_s(text) == seconds


@pytest.mark.parametrize("text", ["1:2:3:4", "a", "1-", "-5:00", "1e999", "inf", "12:xx"])
def test_what_is_no_duration_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number or a duration such as"):
        duration_s(text)


@pytest.mark.parametrize("text", ["4.5", "n[1-2]", "-1", "16Gn", "1e9999", "cpu=2,node=two"])
def test_what_is_no_count_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="must be a whole number such as 16 or 2K"):
        resource_count(text, "node")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("16", 16),
        ("4.0", 4),
        ("2K", 2000),
        ("1.5k", 1500),
        ("1M", 1_000_000),
        ("billing=8,cpu=1.5K,gres/gpu=1,mem=186G,node=2", 2),
        ("cpu=4", 0),
        ("node=", 0),
        ("", 0),
    ],
)
def test_a_count_may_have_a_unit_and_stand_in_a_list_of_slurm(text: str, count: int) -> None:
    assert resource_count(text, "node") == count


def test_what_is_no_date_is_told() -> None:
    with pytest.raises(ValueError, match="must be a date such as"):
        instant_s("31.01.2026")


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
    assert workload.ids.tolist() == [100, 102, 103]
    assert workload.submit.tolist() == [0, 20, 30]
    assert workload.run.tolist() == [93_784, 1800, 30]
    assert workload.estimate.tolist() == [172_800, 1800, 1800]
    assert workload.processors.tolist() == [4, 2, 1000]
    assert workload.users.tolist() == [0, 1, 0]
    assert dict(workload.dropped) == {"not ended": 2, "submit time unknown": 1, "run time not positive": 1}
    assert dict(workload.repaired) == {
        "no time limit, run time used": 1,
        "part of an array without a number of its own, numbered": 2,
    }


def test_names_of_columns_may_be_spelled_with_blanks_dashes_or_neither(tmp_path: Path) -> None:
    workload = read(tmp_path, '"Job ID","submit-time",RunTime,NUM NODES,Time Limit\n1,0,60,2,3\n')
    assert (workload.run.tolist(), workload.processors.tolist(), workload.estimate.tolist()) == ([60], [2], [180])


def test_a_table_for_eyes_is_told_how_to_be_printed(tmp_path: Path) -> None:
    text = "JobID           JobName\n------------ ----------\n15             sleep.sh\n"
    assert fault(tmp_path, text, name="dump.txt") == (
        "line 2: is a rule below titles; sacct -P prints tables that can be read"
    )


def test_sizes_are_found_in_lists_of_allocated_resources(tmp_path: Path) -> None:
    head = "JobID|Submit|Elapsed|AllocTRES|State"
    rows = ["1|2026-01-01T00:00:00|01:00:00|billing=72,cpu=72,mem=186G,node=2|COMPLETED", "2|2026-01-01T00:00:10|0||"]
    workload = read(tmp_path, "\n".join((head, *rows)), name="dump.txt")
    assert workload.processors.tolist() == [2]
    cores = read(tmp_path, "\n".join((head, *rows)), "processors=AllocTRES", name="dump.txt")
    assert cores.processors.tolist() == [72]


@given(st.permutations(range(12)))
def test_the_order_of_columns_does_not_matter(tmp_path_factory: pytest.TempPathFactory, order: list[int]) -> None:
    lines = [[line.split("|")[column] for column in order] for line in SACCT.splitlines()]
    # What may hold a delimiter keeps its place in the row.
    workload = read(tmp_path_factory.mktemp("sacct"), "\n".join("|".join(line) for line in lines), name="dump.txt")
    assert workload.ids.tolist() == [100, 102, 103]
    assert workload.run.tolist() == [93_784, 1800, 30]


def test_raw_columns_count_seconds_and_minutes_and_a_last_delimiter_does_no_harm(tmp_path: Path) -> None:
    lines = ("7|5_1|1700000000|60|3|2|", "8|5_2|1700000009|60|3|2|")
    text = "\n".join(("JobIDRaw|JobID|Submit|ElapsedRaw|TimelimitRaw|AllocNodes|", *lines))
    workload = read(tmp_path, text, name="dump.psv")
    assert workload.ids.tolist() == [7, 8]
    assert workload.submit.tolist() == [0, 9]
    assert workload.estimate.tolist() == [180, 180]


def test_a_delimiter_in_the_name_of_a_job_does_no_harm(tmp_path: Path) -> None:
    text = "JobID|JobName|Submit|Elapsed|NNodes\n1|a|b|c|5|30:00|2\n2|d|6|10:00|1\n"
    assert read(tmp_path, text, name="dump.txt").run.tolist() == [1800, 600]


def test_the_nrel_sample_is_read_as_it_is(shared_data: Path) -> None:
    workload = read_workload(shared_data / "slurm_jobs" / "nrel_eagle_sample.csv")
    assert len(workload) == 1000
    assert workload.dropped == ()
    assert dict(workload.repaired) == {"part of an array without a number of its own, numbered": 451}
    assert workload.processors.max() == 360
    assert (workload.run * workload.processors).sum() / 86_400 == pytest.approx(964.922639, abs=1e-6)
    assert workload.submit.min() == 0
    assert workload.submit.max() == 2 * 86_400 + 1 * 3600 + 31 * 60 + 59
    by_processors = read_workload(
        shared_data / "slurm_jobs" / "nrel_eagle_sample.csv", Columns({"processors": "processors_req"})
    )
    assert by_processors.processors.sum() > workload.processors.sum()


def test_what_has_an_earlier_number_is_a_job_with_a_number_behind_all_others(tmp_path: Path) -> None:
    workload = read(tmp_path, "id,submit,run,nodes\n5,0,1,1\n5,1,2,1\n9,2,3,1\n5,3,4,1\n")
    assert workload.ids.tolist() == [5, 10, 9, 11]


def test_run_time_is_end_minus_start_where_nothing_else_says(tmp_path: Path) -> None:
    workload = read(tmp_path, "id,submit,start,end,cpus\n1,0,2026-01-01 10:00,2026-01-01 10:05,8\n")
    assert workload.run.tolist() == [300]
    assert workload.processors.tolist() == [8]


def test_numbers_that_went_through_floats_are_numbers(tmp_path: Path) -> None:
    workload = read(tmp_path, "id,submit,run,nodes\n1.0,1,1,1.0\n2.0,0,5,2.0\n")
    assert workload.ids.tolist() == [2, 1]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path: Path, delimiter: str) -> None:
    assert len(read(tmp_path, delimiter.join(("id", "submit", "run", "nodes\n1", "0", "5", "2")))) == 1


def test_our_own_schedules_are_read(tmp_path: Path) -> None:
    workload = read(tmp_path, "job_id,submit,start,end,processors,run,estimate\n3,5,6,16,4,10,20\n")
    assert (workload.run[0], workload.processors[0], workload.estimate[0]) == (10, 4, 20)


OTHER = "number;when;took;size;limit\n1;2026-01-01;5;3;1\n"


def test_a_mapping_says_what_columns_and_units_mean(tmp_path: Path) -> None:
    workload = read(tmp_path, OTHER, "job=number,submit=When,run=took:min,nodes=size,estimate=limit:h")
    assert workload.run.tolist() == [300]
    assert workload.estimate.tolist() == [3600]


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
        ("[columns]\njobs = 'a'", "columns: there is no meaning 'jobs'; there are job, submit"),
        ("[units]\nrun = 'y'", "columns: the unit of run is 'y', must be one of ms, s, min, h, d"),
        ("[", "is not TOML: "),
    ],
)
def test_an_odd_mapping_is_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mapping.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadFileError) as raised:
        Columns.parse(str(path))
    assert str(raised.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job", "hold 'job', must be ROLE=COLUMN"),
        ("jobb=x", "there is no meaning 'jobb'"),
        ("run=x:y", "the unit of run is 'y'"),
        ("nodes=a,processors=b", "both nodes and processors are named"),
    ],
)
def test_an_odd_mapping_on_the_command_line_is_told(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Columns.parse(text)


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("", None, "is empty, must begin with the names of its columns"),
        ("id,submit,run,nodes\n", None, "holds no jobs"),
        (
            OTHER,
            None,
            "line 1: no column is known to mean job, submit, run (or start and end), nodes (or processors); ",
        ),
        (OTHER, "job=nummer", "line 1: has no column 'nummer', which is to mean job"),
        ("id,submit,run,nodes\n1,x,1,1", None, "line 2: submit is 'x', must be a date such as"),
        ("id,submit,run,nodes\n1,1,1,x", None, "line 2: nodes is 'x', must be a whole number such as 16 or 2K"),
        ("id,submit,run,nodes\n\n1,1,1:x,1", None, "line 3: run is '1:x', must be a number or a duration such as"),
        ("id,submit,run,nodes\n1,1,1", None, "line 2: has 3 cells, line 1 names 4 columns"),
        ("id,submit,run,nodes\na,1,1,1", None, "line 2: id is 'a', must be a number, or one such as 12_3 or 12+3"),
        ("id,submit,run,nodes\n99999999999999999,1,1,1", None, "line 2: id is 99999999999999999, must be at most 2^53"),
        ("id,submit,run,nodes\n1,1,0,1", None, "none of its 1 jobs has a positive run time and size"),
        ("id,submit,run,nodes\n1.batch,1,5,1", None, "all 1 lines are those of job steps"),
        ("id,submit,run,nodes,state\n1,1,5,1,RUNNING", None, "none of its 1 jobs has been submitted and has ended"),
        ('id,submit,run,nodes\n"1,1,5,1', None, "line 2: has 1 cells, line 1 names 4 columns"),
    ],
)
def test_an_odd_table_gets_a_line_that_names_the_fault(
    tmp_path: Path, text: str, columns: str | None, message: str
) -> None:
    found = fault(tmp_path, text, columns)
    assert found.startswith(message)
    assert found.isprintable()


def test_a_dump_without_header_is_told(tmp_path: Path) -> None:
    assert fault(tmp_path, SACCT.partition("\n")[2], name="dump.txt").startswith(
        "line 1: no column is known to mean job"
    )


def test_columns_are_those_of_tables(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"columns say what columns of a table mean, jobs\.swf is none"):
        read(tmp_path, "", "job=x", name="jobs.swf")


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


@pytest.mark.parametrize("delimiter", ["|", ","])
@given(data=st.data())
def test_a_damaged_table_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, delimiter: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "jobs.csv"
    path.write_text(data.draw(damaged(SACCT.replace("|", delimiter))), encoding="utf-8")
    check_read_or_refused(path, lambda path: len(read_workload(path)))


def test_names_may_hold_what_python_takes_for_the_end_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes('job_id,name,submit,run,nodes\r\n1,a\u2028b\x0cc,0,5,2\r\n2,"two\nlines",1,5,3\r\n'.encode())
    assert read_workload(path).processors.tolist() == [2, 3]
