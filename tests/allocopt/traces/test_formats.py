"""Formats of workloads: what is read of each file and line, what is refused, and what a format keeps."""

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workloads import Jobs, jobs_of, workload, workloads

from allocopt.cluster.request import Request
from allocopt.errors import BadFileError, UsageError
from allocopt.traces import batsim
from allocopt.traces.reading import format_of, read_workload
from allocopt.traces.records import NO_PROCESSORS, NO_RUN_TIME
from allocopt.traces.text import ALLOCATED_USED, RUN_USED, swf_header
from allocopt.traces.workload import PRECEDING_LOST, Workload

MACHINES = {"KTH-SP2-1996-2.1-cln": 100, "CTC-SP2-1996-3.1-cln": 338, "lublin_256": None}
GOOD = "7 10 -1 60 4 -1 -1 8 90 -1 1 -1 -1 -1 -1 -1 -1 -1"
PROFILES = {
    "d": {"type": "delay", "delay": 20.5, "np": 4},
    "none": {"type": "delay", "delay": 0},
    "mpi": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
    "bare": {"delay": 3},
    "late": {"type": "delay"},
    "text": {"type": "delay", "delay": "20"},
    "3": 3,
}
ENDINGS = [".swf", ".json", ".txt"]


def line(job: int, submit: int = 0, run: float = 60, allocated: float = 4, requested: int = 4, time: int = 60) -> str:
    return f"{job} {submit} -1 {run} {allocated} -1 -1 {requested} {time} -1 1 -1 -1 -1 -1 -1 -1 -1"


def after(job: int, preceding: float, think: float, user: float = -1, run: int = 60) -> str:
    return f"{job} {job} -1 {run} 4 -1 -1 4 60 -1 1 {user} -1 -1 -1 -1 {preceding} {think}"


def job(number: object = 1, **changes: object) -> dict[str, object]:
    return {"id": number, "subtime": 10, "res": 4, "walltime": 100, "profile": "d", **changes}


def without(key: str) -> dict[str, object]:
    return {name: value for name, value in job().items() if name != key}


def text_of(*jobs: object, **changes: object) -> str:
    return json.dumps({"nb_res": 32, "jobs": jobs, "profiles": PROFILES, **changes})


def read(folder: Path, text: str, name: str = "trace.swf", *, strict: bool = False) -> Workload:
    path = folder / name
    path.write_text(text)
    return read_workload(path, strict=strict)


MALFORMED: dict[str, list[tuple[str, str]]] = {
    "trace.swf": [
        (f"; head\n\n{GOOD}\n{GOOD.replace('60', 'sixty')}\n", r"line 4: column 4 \(run time\) is 'sixty'"),
        (f"{line(1)}\n{' '.join(line(2).split()[:-1])}", r"line 2: has 17 columns, must have at least 18"),
        (f"{line(1)}\n{line(2)[:20]}", r"line 2: has \d+ columns"),
        (f"{line(1)}\n{line(2)[:-1]}", r"line 2: column 18 \(think time\) is '-'"),
        (f"{line(1)}\n{line(2).replace('60', 'nan')}", r"line 2: column 4 \(run time\) is 'nan'"),
        (f"; MaxProcs: {'9' * 5000}\n{GOOD}", r"MaxProcs: is '9+\.\.\., must be at most 2\^53"),
        (line(1).replace("60", "9" * 100_000 + "x"), r"line 1: column 4 \(run time\) is '9+\.\.\., must be a number"),
        (line(1).replace("60", "1e300"), r"line 1: column 4 \(run time\) is '1e300'"),
        (line(1).replace("60", "1_0"), r"line 1: column 4 \(run time\) is '1_0'"),
        (f";x\n{line(1)}\n{line(2, requested=-1, allocated=2.5)}", r"line 3: column 5 .* is 2.5, must be an integer"),
        (f"{line(1)}\n;x\n{line(3, run=0)}\n{line(2, submit=-5)}", r"line 4: column 2 \(submit time\) is -5"),
        (f"{line(4)}\n;x\n{line(2)}\n{line(4)}", r"line 4: column 1 \(job number\) is 4, the number of an earlier job"),
        (f"{after(1, -1, -1, user=2.5)}", r"line 1: column 12 \(user\) is 2.5, must be an integer"),
        (f"{line(1)}\n{after(2, 1.5, 0)}", r"line 2: column 17 \(preceding job\) is 1.5, must be an integer"),
        (f"{line(1)}\n;x\n{after(2, 2, 0)}", r"line 3: column 17 \(preceding job\) is 2, so that job 2 would have to"),
        (f"{line(1, run=0)}\n{after(7, 9, 0)}\n{after(9, 7, 0)}", r"line 2: column 17 .* is 9, so that job 7 would"),
        (GOOD.replace("1 -1 -1 -1", "1 5 -1 vasp", 1), r"line 1: column 14 \(executable\) is 'vasp'"),
        ("; only: comments\n", "holds no jobs"),
        ("", "holds no jobs"),
        (f"{line(1, run=0)}\n{line(2, run=-1)}", "none of its 2 jobs has a positive run time and size"),
    ],
    "jobs.json": [
        ("", "is empty, must hold JSON"),
        ("[]", "top level: is an empty list, must be a valid dictionary"),
        ("{}", r"nb_res: is missing \(and 2 more\)"),
        (text_of(job())[:-9], "line 1, column .*is not JSON"),
        (text_of(job(), nb_res=0), "nb_res: is 0, must be greater than or equal to 1"),
        (text_of(job(), nb_res=True), "nb_res: is true, must be a valid integer"),
        (text_of(job(), jobs={}), "jobs: is an empty object, must be a valid list"),
        (text_of(), "jobs: is an empty list, list should have at least 1 item"),
        (text_of(job(), 7), r"jobs\[1\]: is 7, must be a valid dictionary"),
        (text_of(job(), profiles=[]), "profiles: is an empty list, must be a valid dictionary"),
        (text_of(without("id")), r"jobs\[0\].id: is missing"),
        (
            text_of(job(), job([])),
            r"jobs\[1\].id: is an empty list, must be an integer or a text",
        ),
        (text_of(job("")), r"jobs\[0\].id: is '', must be an integer or a text"),
        (text_of(job(1.5)), r"jobs\[0\].id: is 1.5, must be an integer or a text"),
        (text_of(job(True)), r"jobs\[0\].id: is true, must be an integer or a text"),
        (text_of(job(10**17)), r"jobs\[0\].id: is 1(0+), must be within 2\^53 of 0"),
        (text_of(job(subtime="0")), r"jobs\[0\].subtime: is '0', must be a valid number"),
        (text_of(job(subtime=1e300)), r"jobs\[0\].subtime: is 1e\+300, must be less than or equal to"),
        (text_of(job(3, res=0), job(subtime=-5)), r"jobs\[1\].subtime: is -5, must not be negative"),
        (text_of(job(res=2.0)), r"jobs\[0\].res: is 2.0, must be a valid integer"),
        (text_of(job(res=-(10**18))), r"jobs\[0\].res: is -1(0+), must be greater than or equal to"),
        (text_of(job(walltime=None)), r"jobs\[0\].walltime: is null, must be a valid number"),
        (text_of(job(walltime=0)), r"jobs\[0\].walltime: is 0, must be positive, or -1 for none"),
        (text_of(job(profile=1)), r"jobs\[0\].profile: is 1, must be a valid string"),
        (text_of(job(profile="e")), r"jobs\[0\].profile: is 'e', there is no such profile"),
        (text_of(job(profile="bare")), "profile 'bare': type: is missing, must be such as 'delay'"),
        (text_of(job(profile="late")), "profile 'late': delay: is missing"),
        (text_of(job(profile="text")), "profile 'text': delay: is '20', must be a valid number"),
        (text_of(job(profile="3")), "profile '3': is 3, must be an object"),
        (text_of(job(res=0)), "none of its 1 jobs has a positive run time and size"),
    ],
    "jobs.txt": [
        ("1 25 1386 10\n2 39 450\n", "line 2: has 3 columns, must have 4"),
        ("1 25 1386 10\n2 39 450 4 5\n", "line 2: has 5 columns, must have 4"),
        ("1 2 3 4 5\n", "line 1: has 5 columns, must have 4"),
        ("1 25 1386 ten\n", r"line 1: column 4 \(nodes\) is 'ten'"),
    ],
    "README": [
        ("# A title\n", "line 1: has 3 columns, must have 4; it was read as the NSA authors' text because no other"),
    ],
}


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        pytest.param(name, *row, id=f"{name}: {row[1]}"[:80])
        for name, given_rows in MALFORMED.items()
        for row in given_rows
    ],
)
def test_a_malformed_file_is_one_line_that_names_the_place(tmp_path: Path, name: str, text: str, fault: str) -> None:
    with pytest.raises(BadFileError, match=rf"{re.escape(name)}: {fault}") as caught:
        read(tmp_path, text, name, strict=True)
    assert "\n" not in str(caught.value)
    # A damaged row is dropped with the same words; a file of which no row is left is refused with them.
    try:
        [(reason, rows)] = [count for count in read(tmp_path, text, name).dropped if "damaged" in count[0]]
        assert re.match(rf"damaged \({fault.removesuffix('$')}", reason)
        assert rows >= 1
    except BadFileError as refused:
        assert str(refused) == str(caught.value)  # noqa: PT017


def test_every_damaged_row_is_dropped_and_the_first_are_named(tmp_path: Path) -> None:
    rows = [line(1), line(2)[:9], line(3).replace("60", "x"), line(3, requested=-1, allocated=0.5), line(5), line(1)]
    made = read(tmp_path, "\n".join([*rows, line(6, submit=-1), line(7, run=0), after(8, 9, 0), after(9, 8, 0)]))
    assert made.ids.tolist() == [1, 5]
    damaged = "damaged (line 2: has 4 columns, must have at least 18; line 3: column 4 (run time) is 'x', must be a"
    assert made.dropped[0][0].startswith(damaged)
    assert made.dropped[0][0].endswith("line 4: column 5 (allocated processors) is 0.5, must be an integer; ...)")
    assert [jobs for _, jobs in made.dropped] == [7, 1]


def test_a_wait_is_a_recorded_start_in_both_directions(tmp_path: Path) -> None:
    made = read(tmp_path, "\n".join([line(1, submit=5), line(2, submit=6).replace("6 -1", "6 0.5", 1)]))
    assert np.isnan(made.recorded_start[0])
    assert made.recorded_start[1] == 6.5
    again = read_workload(write(tmp_path / "a.swf", made))
    assert again.recorded_start[1] == 6.5
    assert write(tmp_path / "b.txt", made).exists()
    assert "recorded starts lost, the format has none: 1" in format_of(Path("b.txt")).losses(made)


def test_without_dependencies_columns_17_and_18_may_hold_anything(tmp_path: Path) -> None:
    text = "\n".join(f"{' '.join(line(job).split()[:16])}{rest}" for job, rest in enumerate([" x 1e999", " 1.5", ""]))
    (tmp_path / "a.swf").write_text(text)
    made = read_workload(tmp_path / "a.swf", strict=True, dependencies=False)
    assert made.ids.tolist() == [0, 1, 2]
    assert made.preceding.tolist() == [-1, -1, -1]


def test_the_trace_of_metacentrum_has_nodes_starts_and_requests(shared_data: Path) -> None:
    path = shared_data / "sites" / "jobs" / "wagap-2013.swf.gz"
    with pytest.raises(
        BadFileError, match=r"line 2: column 17 \(preceding job\) is 1, so that job 1 would have to end"
    ):
        read_workload(path, strict=True)
    rows = [row.split() for row in gzip.decompress(path.read_bytes()).decode().splitlines()]
    rows = sorted((row for row in rows if float(row[3]) > 0), key=lambda row: (float(row[1]), int(row[0])))
    made = read_workload(path, strict=True, dependencies=False)
    assert made.ids.tolist() == [int(row[0]) for row in rows]
    assert len(made) == 17_898
    assert made.dropped == ((NO_RUN_TIME, 2),)
    assert made.recorded_start.tolist() == [float(row[1]) + float(row[2]) for row in rows]
    assert [set(nodes.split(",")) for nodes in made.recorded_nodes] == [set(row[18][1:-1].split(",")) for row in rows]
    eight = made.requests[made.ids.tolist().index(6)]
    assert eight == Request(64, 8, 8, 8)
    assert made.recorded_nodes[made.ids.tolist().index(6)] == "1273,1255,1264,1274,1286,1262,1259,1256"
    assert made.requests[made.ids.tolist().index(0)] == Request(64, 1, 1, 64, is_exclusive=True)
    # By default a job that would wait for itself is damaged, and those that wait for it wait no more.
    lenient = read_workload(path)
    assert len(lenient) == 17_897
    assert lenient.repaired == (("requested node features (column 21) not read", 7309), (PRECEDING_LOST, 17_897))


def rows_of(made: Workload) -> list[tuple[int, float, float, int, float]]:
    columns = (made.ids, made.submit, made.run, made.processors, made.estimate)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def slowly(text: str) -> list[tuple[int, float, float, int, float]]:
    """Follow the rules one line at a time."""
    jobs = []
    for row in text.splitlines():
        if row.strip() and not row.startswith(";"):
            field = [0.0, *map(float, row.split())]
            run = field[4]
            processors = int(field[8] if field[8] > 0 else field[5])
            if run > 0 and processors > 0:
                jobs.append((int(field[1]), field[2], run, processors, field[9] if field[9] > 0 else run))
    return sorted(jobs, key=lambda job: (job[1], job[0]))


# By what they show: name and text of a file, columns of what is read, and the jobs dropped and repaired by reason.
READ: dict[str, tuple[str, str, dict[str, object], dict[str, int], dict[str, int]]] = {
    "missing values follow the rules": (
        "trace.swf",
        "\n".join(
            [
                "; MaxProcs: 128 (batch)",
                line(1, requested=8, allocated=4, time=100),
                line(2, requested=-1, allocated=5, time=-1, run=33),
                line(3, run=0),
                line(4, run=-1, requested=-1, allocated=-1),
                line(5, requested=0, allocated=-1),
            ]
        ),
        {"name": "trace", "machine_processors": 128, "ids": [1, 2], "processors": [8, 5], "estimate": [100, 33]},
        {NO_RUN_TIME: 2, NO_PROCESSORS: 1},
        {ALLOCATED_USED: 1, RUN_USED: 1},
    ),
    "users, applications and preceding jobs": (
        "trace.swf",
        "\n".join(
            [after(1, -1, -1, user=7), after(2, 1, -1, 0), after(3, 1, 2.5), after(4, -1, 9, user=-3), after(5, 4, 0)]
        )
        .replace(" 7 -1 -1 ", " 7 -1 12 ")
        .replace(" 0 -1 -1 ", " 0 -1 -7 "),
        {
            "users": [7, 0, -1, -1, -1],
            "preceding": [-1, 1, 1, -1, 4],
            "think_s": [0, 0, 2.5, 0, 0],
            "executables": [12, -1, -1, -1, -1],
        },
        {},
        {},
    ),
    "a preceding job that is not there is forgotten": (
        "trace.swf",
        "\n".join([after(1, -1, -1, run=0), after(2, 1, 5), after(3, 8, 5), after(4, 3, 5), after(5, 8, 1, run=-1)]),
        {"ids": [2, 3, 4], "preceding": [-1, -1, 3], "think_s": [0, 0, 5]},
        {NO_RUN_TIME: 2},
        {PRECEDING_LOST: 2},
    ),
    "odd but legal text": (
        "trace.swf",
        f"; Key\n;\n\n  \t{GOOD} 19 20.5\r\n; in between: 1\n{line(8, 20, 61.5, 3.00)}  ; note\r\n   \n",
        {"ids": [7, 8], "run": [60, 61.5], "machine_processors": None},
        {},
        {},
    ),
    "a dropped job may share its id": ("a.swf", f"{line(1, run=0)}\n{line(1)}", {"ids": [1]}, {NO_RUN_TIME: 1}, {}),
    "run times are delays, estimates walltimes": (
        "jobs.json",
        text_of(job(2, subtime=11.5), job(1), command="x"),
        {
            **{"name": "jobs", "machine_processors": 32, "ids": [1, 2], "submit": [10, 11.5], "run": [20.5, 20.5]},
            **{"processors": [4, 4], "estimate": [100, 100]},
        },
        {},
        {},
    ),
    "without a walltime the run time is the estimate": (
        "jobs.json",
        text_of(without("walltime"), job(2, walltime=-1), job(3, walltime=-1.0), job(4)),
        {"estimate": [20.5, 20.5, 20.5, 100]},
        {},
        {batsim.RUN_USED: 3},
    ),
    "jobs that cannot run are dropped": (
        "jobs.json",
        text_of(job(1, profile="none"), job(2, res=0), job(3), job(3, res=-1)),
        {"ids": [3]},
        {NO_RUN_TIME: 1, NO_PROCESSORS: 2},
        {},
    ),
    "ids may be strings with the name of a workload": (
        "jobs.json",
        text_of(job("17"), job("w0!4"), job("a!b!5"), job(6)),
        {"ids": [4, 5, 6, 17]},
        {},
        {},
    ),
    "ids that are given again are kept": (
        "jobs.json",
        text_of(job(4), job("w!4", subtime=20), job("late")),
        {"ids": [4, 6, 5], "names": ["", "late", "4"]},
        {},
        {"id used by an earlier job, given a new number": 1},
    ),
    "profiles without a fixed run time cost their own jobs": (
        "jobs.json",
        text_of(job(1), job(2, profile="mpi"), job(3, profile="mpi")),
        {"ids": [1]},
        {"profile type parallel_homogeneous has no fixed run time": 2},
        {},
    ),
    "columns are id, arrival, run, nodes": (
        "jobs.txt",
        "1  25  1386  10\n2  39  450  4\n3 40 0 1\n",
        {"submit": [25, 39], "run": [1386, 450], "estimate": [1386, 450], "processors": [10, 4]},
        {NO_RUN_TIME: 1},
        {},
    ),
}


@pytest.mark.parametrize(("name", "text", "columns", "dropped", "repaired"), READ.values(), ids=READ)
def test_a_file_is_read(
    tmp_path: Path, name: str, text: str, columns: dict[str, object], dropped: dict[str, int], repaired: dict[str, int]
) -> None:
    made = read(tmp_path, text, name)
    found = {column: getattr(made, column) for column in columns}
    assert {name: values.tolist() if hasattr(values, "tolist") else values for name, values in found.items()} == columns
    assert (dict(made.dropped), dict(made.repaired)) == (dropped, repaired)


def test_repeated_header_keys_are_kept() -> None:
    assert swf_header([";MaxProcs:4", "; Note: a", ";\tNote: b", GOOD, "; a: b: c", "; nothing"]) == {
        "MaxProcs": "4",
        "Note": "a\nb",
        "a": "b: c",
    }


small = st.integers(-1, 3)


@given(st.lists(st.tuples(st.integers(0, 3), small, small, small, small), min_size=1, max_size=12))
def test_the_fast_reader_follows_the_rules_line_by_line(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[tuple[int, int, int, int, int]]
) -> None:
    text = "\n".join(line(number, *fields) for number, fields in enumerate([*jobs, (0, 1, 1, 1, 1)]))
    assert rows_of(read(tmp_path_factory.mktemp("swf"), text)) == slowly(text)


@pytest.mark.slow
def test_every_job_of_a_real_log_is_kept_or_counted_and_read_as_line_by_line(shared_data: Path) -> None:
    for path in sorted((shared_data / "traces").glob("*.swf.gz")):
        text = gzip.decompress(path.read_bytes()).decode("latin-1")
        made, name = read_workload(path), path.name.removesuffix(".swf.gz")
        jobs = sum(not row.startswith(";") for row in text.splitlines())
        assert len(made) + sum(count for _, count in made.dropped) == jobs
        assert (np.diff(made.submit) >= 0).all()
        assert made.machine_processors == MACHINES.get(name, made.machine_processors)
        if name in ("Theta-2018-01", "KTH-SP2-1996-2.1-cln"):
            assert rows_of(made) == slowly(text)


@pytest.mark.parametrize("seed", range(5))
def test_the_workloads_that_ran_on_grid5000_are_read(shared_data: Path, seed: int) -> None:
    path = shared_data / "g5k_oar" / "workloads" / f"g5k_workload_delay_seed{seed}_size32.json.gz"
    raw: Any = json.loads(gzip.decompress(path.read_bytes()))
    made = read_workload(path)
    assert (len(made), made.machine_processors, made.remarks()) == (800, 32, [])
    assert made.submit.min() == 0
    given = {job["id"]: (job["subtime"], raw["profiles"][job["profile"]]["delay"], job["res"]) for job in raw["jobs"]}
    read_again = zip(made.submit.tolist(), made.run.tolist(), made.processors.tolist(), strict=True)
    assert dict(zip(made.ids.tolist(), read_again, strict=True)) == given
    assert (made.estimate >= made.run).all()


def test_the_authors_workload_is_the_one_the_paper_describes(shared_data: Path) -> None:
    made = read_workload(shared_data / "tjap" / "data_large_1800_40.txt.gz")
    assert len(made) == 100_000
    assert (made.processors.min(), made.processors.max()) == (1, 40)
    assert (made.run.min(), made.run.max()) == (10, 1800)
    assert made.remarks() == []


def write(path: Path, made: Workload) -> Path:
    format_of(path).write(path, made)
    return path


def kept(made: Workload, ending: str) -> tuple[Jobs, int | None]:
    """Jobs and machine of a workload, as far as a format holds them."""
    jobs, machine = jobs_of(made), made.machine_processors
    if ending == ".txt":
        return [(*job[:4], job[2]) for job in jobs], None
    return jobs, machine if ending == ".swf" else machine or made.processors.max()


def precedence_of(made: Workload) -> tuple[list[int], list[int], list[float], list[int]]:
    return made.users.tolist(), made.preceding.tolist(), made.think_s.tolist(), made.executables.tolist()


@st.composite
def full_workloads(draw: st.DrawFn) -> Workload:
    """Draw a workload with users, applications, and jobs that wait for others."""
    made = draw(workloads())
    # Who waits for whom is drawn along a permutation, so that there is no cycle.
    earlier = draw(st.permutations(made.ids.tolist()))
    preceding = {job: draw(st.sampled_from([-1, *earlier[:place]])) for place, job in enumerate(earlier)}
    waited = [preceding[job] for job in made.ids.tolist()]
    seconds, numbers = st.floats(0, 2**53) | st.integers(0, 2**53).map(float), st.integers(-1, 2**53)
    return replace(
        made,
        users=np.array([draw(numbers) for _ in waited]),
        preceding=np.array(waited),
        think_s=np.array([0.0 if job == -1 else draw(seconds) for job in waited]),
        executables=np.array([draw(numbers) for _ in waited]),
    )


@pytest.mark.parametrize("ending", ENDINGS)
@given(made=full_workloads())
def test_any_workload_is_read_again_as_far_as_the_format_holds_it(
    tmp_path_factory: pytest.TempPathFactory, ending: str, made: Workload
) -> None:
    again = read_workload(write(tmp_path_factory.mktemp("any") / f"a{ending}", made))
    assert (jobs_of(again), again.machine_processors) == kept(made, ending)
    assert again.remarks() == []
    if ending == ".swf":
        assert precedence_of(again) == precedence_of(made)


@pytest.mark.parametrize("ending", ENDINGS)
def test_gz_compresses_and_equal_workloads_give_equal_files(tmp_path: Path, ending: str) -> None:
    made = workload([(1, 0.0, 5.0, 3, 5.0), (2, 1.5, 7.25, 1, 7.25)], machine=4)
    first, second = (write(tmp_path / f"{name}{ending}.gz", made).read_bytes() for name in ("a", "b"))
    assert first == second
    assert gzip.decompress(first) == write(tmp_path / f"a{ending}", made).read_bytes()
    assert read_workload(tmp_path / f"a{ending}.gz").name == "a"


@pytest.mark.parametrize("name", ["a.csv", "a", "a.gz", "a.swf.gz.gz", "a.swf.zip"])
def test_an_ending_without_a_format_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=rf"{name}: the name must end in \.swf, \.json, \.txt, or one of these and"):
        format_of(Path(name))


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("made", "fault"),
    [
        (workload([(1, 0, 1, 1, 1)]).first(0), "the workload holds no jobs"),
        (workload([(1, 0, 1, 1, 1), (2, 0, 1e300, 1, 1)]), r"job 2: its run time is 1e\+300, must be within 2\^53"),
        (replace(workload([(1, 0, 1, 1, 1)]), users=np.array([2**60])), r"job 1: its user is \d+, must be within"),
        (workload([(2**53 + 1, 0, 1, 1, 1)]), "job 9007199254740993: its id is 9007199254740993"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, ending: str, made: Workload, fault: str) -> None:
    with pytest.raises(BadFileError, match=rf"a\{ending}: cannot be written: {fault}"):
        write(tmp_path / f"a{ending}", made)
    assert not list(tmp_path.iterdir())


def test_what_a_format_loses_is_told() -> None:
    made = replace(
        workload([(1, 0.0, 5.0, 3, 5.0), (2, 0.0, 5.0, 1, 6.0)], machine=9),
        users=np.array([4, -1]),
        preceding=np.array([-1, 1]),
    )
    losses = {ending: format_of(Path(f"a{ending}")).losses for ending in ENDINGS}
    both = ["users lost, the format has none: 1", "preceding jobs and think times lost, the format has none: 1"]
    own = ["estimates lost, the format has none: 1", "size of the machine lost, the format has none: 9"]
    assert {ending: told(made) for ending, told in losses.items()} == {".swf": [], ".json": both, ".txt": own + both}
    no_machine = ["size of the machine unknown, size of the largest job written: 3"]
    short = workload([(1, 0.0, 5.0, 3, 5.0)])
    assert [told(short) for told in losses.values()] == [[], no_machine, []]


def test_a_line_of_swf_has_18_columns_and_minus_one_where_nothing_is_known(tmp_path: Path) -> None:
    made = replace(
        workload([(7, 0.5, 60.0, 4, 90.0), (8, 1, 60.0, 4, 90.0)], machine=128),
        users=np.array([5, -1]),
        preceding=np.array([-1, 7]),
        think_s=np.array([0.0, 2.5]),
    )
    *header, first, second = write(tmp_path / "a.swf", made).read_text().splitlines()
    assert first == "7 0.5 -1 60 4 -1 -1 4 90 -1 -1 5 -1 -1 -1 -1 -1 -1"
    assert second == "8 1 -1 60 4 -1 -1 4 90 -1 -1 -1 -1 -1 -1 -1 7 2.5"
    fields = swf_header(header)
    assert [fields[key] for key in ("Version", "MaxJobs", "MaxProcs")] == ["2.2", "2", "128"]


def test_what_was_dropped_stands_in_the_notes_of_swf(tmp_path: Path) -> None:
    made = workload([(1, 0, 1, 1, 1), (2, 0, 1, 8, 1)], name="two\nlines").fitting(4)
    lines = write(tmp_path / "a.swf", made).read_text().splitlines()
    assert swf_header(lines)["Note"].endswith("two\\nlines: jobs dropped, larger than the machine: 1")
    assert all(line.startswith(";") for line in lines[:-1])


def test_equal_run_times_share_a_profile_of_batsim(tmp_path: Path) -> None:
    made = workload([(1, 0, 60.0, 4, 90), (2, 5, 60.0, 8, 61.5), (3, 6, 0.5, 1, 1)], 16)
    text = write(tmp_path / "a.json", made).read_text()
    assert json.loads(text) == {
        "description": "w",
        "nb_res": 16,
        "jobs": [
            {"id": 1, "subtime": 0, "walltime": 90, "res": 4, "profile": "delay_60"},
            {"id": 2, "subtime": 5, "walltime": 61.5, "res": 8, "profile": "delay_60"},
            {"id": 3, "subtime": 6, "walltime": 1, "res": 1, "profile": "delay_0.5"},
        ],
        "profiles": {"delay_0.5": {"type": "delay", "delay": 0.5}, "delay_60": {"type": "delay", "delay": 60}},
    }
    assert ".0" not in text


def test_the_text_looks_like_the_nsa_authors(shared_data: Path, tmp_path: Path) -> None:
    made = read_workload(shared_data / "tjap" / "data_large_1800_40.txt.gz").first(2)
    assert write(tmp_path / "a.txt", made).read_text() == "1  25  1386  10\n2  39  450  4\n"
