"""What every format keeps of a workload, and how each is written."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workloads import Jobs, jobs_of, workload, workloads

from allocopt.errors import BadFileError, UsageError
from allocopt.traces.reading import format_of, read_workload
from allocopt.traces.swf import swf_header
from allocopt.traces.workload import Workload

ENDINGS = [".swf", ".json", ".txt"]


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


@pytest.mark.parametrize(
    "source",
    [
        "g5k_oar/workloads/g5k_workload_delay_seed1_size32.json.gz",
        pytest.param("traces/KTH-SP2-1996-2.1-cln.swf.gz", marks=pytest.mark.slow),
        pytest.param("tjap/data_large_1800_40.txt.gz", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("ending", [".swf.gz", ".json"])
def test_a_real_workload_is_read_again_as_it_was(shared_data: Path, tmp_path: Path, source: str, ending: str) -> None:
    made = read_workload(shared_data / source)
    again = read_workload(write(tmp_path / f"a{ending}", made))
    assert (jobs_of(again), again.machine_processors) == kept(made, ending.removesuffix(".gz"))
    if ending == ".swf.gz":
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
    no_machine = ["size of the machine not known, that of the largest job written: 3"]
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
