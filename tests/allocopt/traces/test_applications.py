"""The workflows of the ASAX paper, its queue, and applications by their numbers in a trace."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from allocopt.errors import BadFileError, InvalidProblemError, UsageError
from allocopt.traces.applications import (
    APPLICATIONS,
    CLUSTER_SIZES,
    HOUR_S,
    WORKFLOWS,
    Executable,
    asax_queue,
    profiled_jobs,
    queue_workload,
    read_profiles,
)
from allocopt.traces.job_profile import Stage, StageKind, check_profile
from allocopt.traces.reading import read_workload
from allocopt.traces.text import Swf

TABLE_2 = {
    "montage": ((0.35, 0.04, 45, 10), (0.32, 0.04, 33, 7), (0.29, 0.04, 21, 5)),
    "blast": ((0.71, 0.21, 96, 44), (0.72, 0.22, 95, 45), (0.70, 0.21, 91, 42)),
    "statistics": ((0.69, 0.10, 26, 5), (0.70, 0.10, 16, 1), (0.72, 0.10, 10, 1)),
    "synthetic": ((0.49, 0.15, 99, 95), (0.50, 0.15, 99, 93), (0.48, 0.14, 99, 92)),
}


"""Hours, spread, CPU and memory utilization under space sharing on 64, 128 and 256 cores."""


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("name", TABLE_2)
def test_run_times_and_utilization_over_the_job_sizes_are_those_of_table_2(name: str, place: int) -> None:
    app, cluster = APPLICATIONS[name], CLUSTER_SIZES[place]
    hours, spread, cpu, memory = TABLE_2[name][place]
    runs = np.array([app.runtime_s(cores, cluster) for cores in app.sizes]) / HOUR_S
    assert runs.mean() == pytest.approx(hours)
    assert runs.std() / runs.mean() == pytest.approx(spread)
    jobs = [app.job("j", cores, cluster=cluster) for cores in app.sizes]
    assert np.mean([job.mean("cpu") for job in jobs]) == pytest.approx(cpu / 100, abs=0.005)
    assert all(job.peak_memory() == memory / 100 for job in jobs)


@pytest.mark.parametrize("name", TABLE_2)
def test_profiles_are_such_and_more_cores_are_faster(name: str) -> None:
    app = APPLICATIONS[name]
    for cluster in CLUSTER_SIZES:
        for cores in app.sizes:
            profile = app.profile(cores, cluster)
            check_profile(name, profile)
            for stage in profile:
                assert stage.kind is StageKind.PARALLEL or stage.cpu == 1 / cores
    runs = [app.runtime_s(cores) for cores in app.sizes]
    assert runs == sorted(runs, reverse=True)


def test_montage_and_statistics_do_more_io_than_the_others() -> None:
    io = {name: app.job("j", 16).mean("io") for name, app in APPLICATIONS.items()}
    assert min(io["montage"], io["statistics"]) > 3 * max(io["blast"], io["synthetic"])


def test_an_unknown_cluster_is_refused() -> None:
    with pytest.raises(UsageError, match="no cluster of 100 cores; it has 64, 128, 256"):
        APPLICATIONS["blast"].runtime_s(8, 100)


def test_the_queue_has_15_jobs_three_times_and_472_cores() -> None:
    queue = asax_queue(np.random.default_rng(0))
    assert len(queue) == 45
    counts = Counter((one.application, one.job.cores) for one in queue)
    assert set(counts.values()) == {3}
    assert sum(one.job.cores for one in queue[:15]) == 472
    assert Counter(one.application for one in queue) == {"montage": 12, "blast": 12, "statistics": 12, "synthetic": 9}
    assert len({one.job.id for one in queue}) == 45


def test_the_seed_decides_the_queue() -> None:
    drawn = [asax_queue(np.random.default_rng(seed), between_s=60.0, spread=0.1) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    submits = [one.submit_s for one in drawn[0]]
    assert submits == sorted(submits)
    assert submits[-1] > 0
    factors = [one.job.remaining_s / APPLICATIONS[one.application].runtime_s(one.job.cores) for one in drawn[0]]
    assert 0.9 <= min(factors) < max(factors) <= 1.1


def test_the_queue_is_a_workload_and_comes_back_with_its_profiles(tmp_path: Path) -> None:
    queue = asax_queue(np.random.default_rng(1), walltime_factor=2.0, between_s=100.0)
    workload = queue_workload(queue)
    assert workload.estimate == pytest.approx(2.0 * workload.run)
    Swf().write(tmp_path / "queue.swf", workload)
    found = profiled_jobs(read_workload(tmp_path / "queue.swf"), WORKFLOWS)
    assert [(one.application, one.submit_s, replace(one.job, id="")) for one in found] == [
        (one.application, one.submit_s, replace(one.job, id="")) for one in queue
    ]


def test_a_workflow_is_the_same_by_number_and_by_name() -> None:
    for number, (name, application) in enumerate(APPLICATIONS.items(), 1):
        assert WORKFLOWS[number].name == name
        for cores in application.sizes:
            assert WORKFLOWS[number].on(cores) == application.profile(cores)


def test_a_job_of_an_application_without_profile_is_named() -> None:
    workload = replace(queue_workload(asax_queue(np.random.default_rng(0), repeats=1)), executables=np.arange(15))
    with pytest.raises(
        InvalidProblemError, match=r"job 1: its executable is 0, which has no profile .profiles: 1 montage, 2"
    ):
        profiled_jobs(workload, WORKFLOWS)


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
        ("executable = 8", "executable = 7", r"application\[1\].executable: is 7, which is used twice"),
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
