"""Applications by their numbers in a trace."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from allocopt.errors import BadFileError, InvalidProblemError
from allocopt.traces.applications import APPLICATIONS, asax_queue, queue_workload
from allocopt.traces.executables import WORKFLOWS, Executable, profiled_jobs, read_profiles
from allocopt.traces.job_profile import Stage, StageKind
from allocopt.traces.reading import read_workload
from allocopt.traces.swf import Swf


def test_a_trace_keeps_the_applications_of_its_jobs(tmp_path: Path) -> None:
    made = queue_workload(asax_queue(np.random.default_rng(0), repeats=1))
    Swf().write(tmp_path / "queue.swf", made)
    read = read_workload(tmp_path / "queue.swf")
    assert sorted(read.executables.tolist()) == [1] * 4 + [2] * 4 + [3] * 4 + [4] * 3
    assert read.executables.tolist() == made.executables.tolist()
    assert read.first(3).executables.tolist() == made.executables.tolist()[:3]


def test_the_queue_of_the_paper_comes_back_with_its_profiles(tmp_path: Path) -> None:
    queue = asax_queue(np.random.default_rng(1), between_s=100.0)
    Swf().write(tmp_path / "queue.swf", queue_workload(queue))
    found = profiled_jobs(read_workload(tmp_path / "queue.swf"), WORKFLOWS)
    assert [(one.application, one.submit_s, one.job.profile) for one in found] == [
        (one.application, one.submit_s, one.job.profile) for one in queue
    ]
    assert [replace(one.job, id="") for one in found] == [replace(one.job, id="") for one in queue]


def test_a_sequential_stage_keeps_one_core_busy() -> None:
    one = Executable("one", (Stage(0.5, 0.9, kind=StageKind.SEQUENTIAL), Stage(0.5, 0.9)))
    assert [stage.cpu for stage in one.on(16)] == [1 / 16, 0.9]


def test_a_workflow_is_the_same_by_number_and_by_name() -> None:
    for number, (name, application) in enumerate(APPLICATIONS.items(), 1):
        assert WORKFLOWS[number].name == name
        for cores in application.sizes:
            assert WORKFLOWS[number].on(cores) == application.profile(cores)


def test_a_job_of_an_application_without_profile_is_named() -> None:
    workload = replace(queue_workload(asax_queue(np.random.default_rng(0), repeats=1)), executables=np.arange(15))
    with pytest.raises(InvalidProblemError, match=r"job 1: its executable is 0, there are profiles of 1 montage, 2"):
        profiled_jobs(workload, WORKFLOWS)


@pytest.mark.parametrize(("cell", "known"), [("-1", -1), ("-7", -1), ("0", 0), ("12", 12)])
def test_column_14_is_the_executable(tmp_path: Path, cell: str, known: int) -> None:
    (tmp_path / "log.swf").write_text(f"1 0 -1 60 4 -1 -1 4 60 -1 1 5 -1 {cell} -1 -1 -1 -1\n")
    assert read_workload(tmp_path / "log.swf").executables.tolist() == [known]


def test_an_executable_that_is_no_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text("1 0 -1 60 4 -1 -1 4 60 -1 1 5 -1 vasp -1 -1 -1 -1\n")
    with pytest.raises(BadFileError, match=r"line 1: column 14 \(executable\) is 'vasp'"):
        read_workload(tmp_path / "log.swf")


TABLE = """
[[application]]
executable = 7
name = "vasp"
stages = [{share = 0.25, memory = 0.1, kind = "sequential"}, {share = 0.75, cpu = 0.8, io = 0.2}]

[[application]]
executable = 8
name = "idle"
stages = [{share = 1, cpu = 0.01}]
"""


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "profiles.toml"
    path.write_text(text)
    return path


def test_a_table_is_read(tmp_path: Path) -> None:
    assert read_profiles(table(tmp_path, TABLE)) == {
        7: Executable(
            "vasp", (Stage(0.25, 1.0, 0.1, kind=StageKind.SEQUENTIAL), Stage(0.75, 0.8, 0.0, 0.2, StageKind.PARALLEL))
        ),
        8: Executable("idle", (Stage(1.0, 0.01),)),
    }


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("executable = 8", "executable = 7", r"application\[1\].executable: is 7, which is given before"),
        ("share = 0.75", "share = 0.5", "profile of vasp: the shares sum to 0.75, must sum to 1"),
        ("cpu = 0.8", "cpu = 1.8", "application.*stages.*cpu"),
        ("cpu = 0.8", "gpu = 0.8", "gpu"),
        ('"sequential"', '"serial"', "serial"),
        ("[[application]]", "[[application", "is not TOML"),
        ('name = "vasp"', "", "name"),
    ],
)
def test_a_wrong_table_is_refused_by_its_place(tmp_path: Path, old: str, new: str, fault: str) -> None:
    with pytest.raises(BadFileError, match=f"profiles.toml: .*{fault}") as caught:
        read_profiles(table(tmp_path, TABLE.replace(old, new)))
    assert "\n" not in str(caught.value)
