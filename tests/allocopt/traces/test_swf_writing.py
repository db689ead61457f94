import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workloads import jobs_of, workload, workloads

from allocopt.errors import BadFileError
from allocopt.traces.nsa import read_nsa
from allocopt.traces.swf import read_swf, swf_header
from allocopt.traces.swf_writing import write_swf
from allocopt.traces.workload import Workload

Precedence = tuple[list[int], list[int], list[float]]


def precedence_of(made: Workload) -> Precedence:
    """User, preceding job and think time of every job."""
    return made.users.tolist(), made.preceding.tolist(), made.think_s.tolist()


@st.composite
def full_workloads(draw: st.DrawFn) -> Workload:
    """Draw a workload with users, and jobs that wait for others."""
    made = draw(workloads())
    # Who waits for whom is drawn along a permutation, so that there is no cycle.
    earlier = draw(st.permutations(made.ids.tolist()))
    preceding = {job: draw(st.sampled_from([-1, *earlier[:place]])) for place, job in enumerate(earlier)}
    waited = [preceding[job] for job in made.ids.tolist()]
    seconds = st.floats(0, 2**53) | st.integers(0, 2**53).map(float)
    return replace(
        made,
        users=np.array([draw(st.integers(-1, 2**53)) for _ in waited]),
        preceding=np.array(waited),
        think_s=np.array([0.0 if job == -1 else draw(seconds) for job in waited]),
    )


def test_a_line_has_18_columns_and_minus_one_where_nothing_is_known(tmp_path: Path) -> None:
    write_swf(tmp_path / "a.swf", workload([(7, 0.5, 60.0, 4, 90.0)], machine=128))
    *header, line = (tmp_path / "a.swf").read_text().splitlines()
    assert line == "7 0.5 -1 60 4 -1 -1 4 90 -1 -1 -1 -1 -1 -1 -1 -1 -1"
    assert len(line.split()) == 18
    fields = swf_header(header)
    assert {key: fields[key] for key in ("Version", "MaxJobs", "MaxProcs")} == {
        "Version": "2.2",
        "MaxJobs": "1",
        "MaxProcs": "128",
    }


def test_users_and_preceding_jobs_have_their_columns(tmp_path: Path) -> None:
    made = replace(
        workload([(7, 0, 60.0, 4, 90.0), (8, 1, 60.0, 4, 90.0)]),
        users=np.array([5, -1]),
        preceding=np.array([-1, 7]),
        think_s=np.array([0.0, 2.5]),
    )
    write_swf(tmp_path / "a.swf", made)
    columns = [line.split() for line in (tmp_path / "a.swf").read_text().splitlines() if not line.startswith(";")]
    assert [(row[11], row[16], row[17]) for row in columns] == [("5", "-1", "-1"), ("-1", "7", "2.5")]


def test_what_was_dropped_stands_in_the_notes(tmp_path: Path) -> None:
    write_swf(tmp_path / "a.swf", workload([(1, 0, 1, 1, 1), (2, 0, 1, 8, 1)], name="two\nlines").fitting(4))
    lines = (tmp_path / "a.swf").read_text().splitlines()
    assert swf_header(lines)["Note"].endswith("two\\nlines: jobs dropped, larger than the machine: 1")
    assert all(line.startswith(";") for line in lines[:-1])


@given(full_workloads())
def test_any_workload_is_read_again_as_it_was(tmp_path_factory: pytest.TempPathFactory, made: Workload) -> None:
    path = tmp_path_factory.mktemp("swf") / "a.swf"
    write_swf(path, made)
    again = read_swf(path)
    assert (jobs_of(again), again.machine_processors) == (jobs_of(made), made.machine_processors)
    assert precedence_of(again) == precedence_of(made)
    assert again.remarks() == []


def test_equal_workloads_give_equal_compressed_files(tmp_path: Path) -> None:
    made = workload([(1, 0, 1.5, 1, 2)])
    for name in ("a", "b"):
        write_swf(tmp_path / f"{name}.swf.gz", made)
    assert (tmp_path / "a.swf.gz").read_bytes() == (tmp_path / "b.swf.gz").read_bytes()
    assert b"1 0 -1 1.5 1" in gzip.decompress((tmp_path / "a.swf.gz").read_bytes())


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        (workload([(1, 0, 1, 1, 1)]).first(0), "the workload holds no jobs"),
        (workload([(1, 0, 1, 1, 1), (2, 0, 1e300, 1, 1)]), r"job 2: its run time is 1e\+300, must be within 2\^53"),
        (replace(workload([(1, 0, 1, 1, 1)]), users=np.array([2**60])), r"job 1: its user is \d+, must be within"),
        (workload([(2**53 + 1, 0, 1, 1, 1)]), "job 9007199254740993: its id is 9007199254740993"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, made: Workload, fault: str) -> None:
    with pytest.raises(BadFileError, match=rf"a\.swf: cannot be written: {fault}"):
        write_swf(tmp_path / "a.swf", made)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_real_log_is_read_again_as_it_was(shared_data: Path, tmp_path: Path) -> None:
    log = read_swf(shared_data / "traces" / "KTH-SP2-1996-2.1-cln.swf.gz")
    write_swf(tmp_path / "kth.swf", log)
    again = read_swf(tmp_path / "kth.swf")
    assert (jobs_of(again), again.machine_processors) == (jobs_of(log), 100)
    assert precedence_of(again) == precedence_of(log)
    assert len(set(log.users.tolist())) > 1


@pytest.mark.slow
def test_the_authors_text_survives_as_swf(shared_data: Path, tmp_path: Path) -> None:
    text = read_nsa(shared_data / "tjap" / "data_large_1800_40.txt.gz")
    write_swf(tmp_path / "nsa.swf.gz", text)
    assert jobs_of(read_swf(tmp_path / "nsa.swf.gz")) == jobs_of(text)
