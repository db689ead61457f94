import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.errors import BadFileError
from allocopt.traces.reading import read_workload
from allocopt.traces.records import NO_PROCESSORS, NO_RUN_TIME
from allocopt.traces.swf import ALLOCATED_USED, RUN_USED, swf_header
from allocopt.traces.workload import PRECEDING_LOST, Workload

TRACES = [
    "CEA-Curie-2011-2.1-cln",
    "CTC-SP2-1996-3.1-cln",
    "HPC2N-2002-2.2-cln",
    "KTH-SP2-1996-2.1-cln",
    "SDSC-BLUE-2000-4.2-cln",
    "SDSC-SP2-1998-4.2-cln",
    "Sandia-Ross-2001-1.1-cln",
    "Theta-2018-01",
    "lublin_256",
    "lublin_256_est",
]
MACHINES = {"KTH-SP2-1996-2.1-cln": 100, "CTC-SP2-1996-3.1-cln": 338, "lublin_256": None}
GOOD = "7 10 -1 60 4 -1 -1 8 90 -1 1 -1 -1 -1 -1 -1 -1 -1"


def line(job: int, submit: int = 0, run: float = 60, allocated: float = 4, requested: int = 4, time: int = 60) -> str:
    return f"{job} {submit} -1 {run} {allocated} -1 -1 {requested} {time} -1 1 -1 -1 -1 -1 -1 -1 -1"


def after(job: int, preceding: float, think: float, user: float = -1, run: int = 60) -> str:
    return f"{job} {job} -1 {run} 4 -1 -1 4 60 -1 1 {user} -1 -1 -1 -1 {preceding} {think}"


def read(folder: Path, text: str) -> Workload:
    path = folder / "trace.swf"
    path.write_text(text)
    return read_workload(path)


def test_missing_values_follow_the_rules(tmp_path: Path) -> None:
    text = "; MaxProcs: 128 (batch)\n" + "\n".join(
        [
            line(1, requested=8, allocated=4, time=100),
            line(2, requested=-1, allocated=5, time=-1, run=33),
            line(3, run=0),
            line(4, run=-1, requested=-1, allocated=-1),
            line(5, requested=0, allocated=-1),
        ]
    )
    made = read(tmp_path, text)
    assert made.name == "trace"
    assert made.machine_processors == 128
    assert made.ids.tolist() == [1, 2]
    assert made.processors.tolist() == [8, 5]
    assert made.estimate.tolist() == [100.0, 33.0]
    assert dict(made.dropped) == {NO_RUN_TIME: 2, NO_PROCESSORS: 1}
    assert dict(made.repaired) == {ALLOCATED_USED: 1, RUN_USED: 1}


def test_users_and_preceding_jobs_are_read(tmp_path: Path) -> None:
    rows = [
        after(1, -1, -1, user=7),
        after(2, 1, -1, user=0),
        after(3, 1, 2.5),
        after(4, -1, 9, user=-3),
        after(5, 4, 0),
    ]
    made = read(tmp_path, "\n".join(rows))
    assert made.users.tolist() == [7, 0, -1, -1, -1]
    assert made.preceding.tolist() == [-1, 1, 1, -1, 4]
    assert made.think_s.tolist() == [0.0, 0.0, 2.5, 0.0, 0.0]
    assert made.repaired == ()


def test_a_preceding_job_that_is_not_there_is_forgotten_and_counted(tmp_path: Path) -> None:
    rows = [after(1, -1, -1, run=0), after(2, 1, 5), after(3, 8, 5), after(4, 3, 5), after(5, 8, 1, run=-1)]
    made = read(tmp_path, "\n".join(rows))
    assert made.ids.tolist() == [2, 3, 4]
    assert made.preceding.tolist() == [-1, -1, 3]
    assert made.think_s.tolist() == [0.0, 0.0, 5.0]
    assert made.repaired == ((PRECEDING_LOST, 2),)


def test_odd_but_legal_text_is_read(tmp_path: Path) -> None:
    text = f"; Key\n;\n\n  \t{GOOD} 19 20.5\r\n; in between: 1\n{line(8, 20, 61.5, 3.00)}  ; note\r\n   \n"
    made = read(tmp_path, text)
    assert made.ids.tolist() == [7, 8]
    assert made.run.tolist() == [60.0, 61.5]
    assert made.machine_processors is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
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
        (f"{line(4)}\n;x\n{line(2)}\n{line(4)}", r"line 4: column 1 \(job number\) is 4, a job that is given before"),
        (f"{after(1, -1, -1, user=2.5)}", r"line 1: column 12 \(user\) is 2.5, must be an integer"),
        (f"{line(1)}\n{after(2, 1.5, 0)}", r"line 2: column 17 \(preceding job\) is 1.5, must be an integer"),
        (f"{line(1)}\n;x\n{after(2, 2, 0)}", r"line 3: column 17 \(preceding job\) is 2, so that job 2 would have to"),
        (f"{line(1, run=0)}\n{after(7, 9, 0)}\n{after(9, 7, 0)}", r"line 2: column 17 .* is 9, so that job 7 would"),
        (GOOD.replace("1 -1 -1 -1", "1 5 -1 vasp", 1), r"line 1: column 14 \(executable\) is 'vasp'"),
        ("; only: comments\n", "holds no jobs"),
        ("", "holds no jobs"),
        (f"{line(1, run=0)}\n{line(2, run=-1)}", "none of its 2 jobs has a positive run time and size"),
    ],
)
def test_a_bad_trace_names_file_line_and_column(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(BadFileError, match=rf"trace.swf: {place}") as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_dropped_job_may_share_its_id(tmp_path: Path) -> None:
    assert read(tmp_path, f"{line(1, run=0)}\n{line(1)}").ids.tolist() == [1]


def test_repeated_header_keys_are_kept() -> None:
    assert swf_header([";MaxProcs:4", "; Note: a", ";\tNote: b", GOOD, "; a: b: c", "; nothing"]) == {
        "MaxProcs": "4",
        "Note": "a\nb",
        "a": "b: c",
    }


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


def rows_of(made: Workload) -> list[tuple[int, float, float, int, float]]:
    columns = (made.ids, made.submit, made.run, made.processors, made.estimate)
    return list(zip(*(column.tolist() for column in columns), strict=True))


small = st.integers(-1, 3)


@given(st.lists(st.tuples(st.integers(0, 3), small, small, small, small), min_size=1, max_size=12))
def test_the_fast_reader_follows_the_rules_line_by_line(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[tuple[int, int, int, int, int]]
) -> None:
    text = "\n".join(line(number, *fields) for number, fields in enumerate([*jobs, (0, 1, 1, 1, 1)]))
    assert rows_of(read(tmp_path_factory.mktemp("swf"), text)) == slowly(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Theta-2018-01", "KTH-SP2-1996-2.1-cln"])
def test_real_logs_are_read_as_line_by_line(shared_data: Path, name: str) -> None:
    path = shared_data / "traces" / f"{name}.swf.gz"
    assert rows_of(read_workload(path)) == slowly(gzip.decompress(path.read_bytes()).decode())


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACES)
def test_every_job_of_a_real_log_is_kept_or_counted(shared_data: Path, name: str) -> None:
    path = shared_data / "traces" / f"{name}.swf.gz"
    jobs = sum(not row.startswith(b";") for row in gzip.decompress(path.read_bytes()).splitlines())
    made = read_workload(path)
    assert len(made) + sum(count for _, count in made.dropped) == jobs
    assert (np.diff(made.submit) >= 0).all()
    assert made.machine_processors == MACHINES.get(name, made.machine_processors)
