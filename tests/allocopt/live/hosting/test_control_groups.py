"""Groups of guests: where they stand, which weights give which share, and that nothing is left of them."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.control_groups import needs_control_groups

from allocopt.errors import UsageError
from allocopt.live.hosting.control_groups import (
    Group,
    GroupPlace,
    NoGroupError,
    Version,
    abandoned_groups,
    clear,
    find_version,
    group_name,
    processes_below,
)
from allocopt.live.hosting.processes import started_at
from allocopt.problems.coallocation.problem import LARGEST_PERCENT

SCOPE = "system.slice/slurmstepd.scope"
ONE, TWO = (1, "cpu.shares", 1024, 2, 262_144), (2, "cpu.weight", 100, 1, 10_000)


def proc_of(tmp_path: Path, lines: str) -> Path:
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text(lines)
    return tmp_path / "proc"


@pytest.mark.parametrize(
    ("kind", "lines", "folder", "own"),
    [
        # Version 1, and the root of version 2: the guest's group competes with the threads beside it.
        (ONE, "3:cpuset:/x\n1:cpu:/\n0::/\n", "", ""),
        (ONE, "4:cpu,cpuacct:/user/7\n", "user/7", ""),
        (TWO, "0::/\n", "", ""),
        # Otherwise with the group of the job, or of the process.
        (ONE, "4:cpu:/slurm/uid_0/job_12/step_0/task_0\n", "slurm/uid_0", "slurm/uid_0/job_12"),
        (TWO, "0::/system.slice/slurmstepd.scope/job_3/step_batch/user\n", SCOPE, f"{SCOPE}/job_3"),
        (TWO, "0::/init.scope\n", "", "init.scope"),
    ],
)
def test_a_guest_competes_with_the_threads_of_its_host_or_with_the_group_of_the_hosts_job(
    tmp_path: Path, kind: tuple[int, str, int, int, int], lines: str, folder: str, own: str
) -> None:
    version, proc = Version(*kind, tmp_path / "root"), proc_of(tmp_path, lines)
    version.mount.mkdir()
    place = GroupPlace(version.mount / folder, version.default_weight, ())
    if own:
        (version.mount / own / "below").mkdir(parents=True)
        (version.mount / own / version.weight_file).write_text("300\n")
        (version.mount / own / "cgroup.procs").write_text("5\n")
        (version.mount / own / "below" / "cgroup.procs").write_text("6\n7\n")
        # A weight of 300 on four cores is 75 on each.
        place = GroupPlace(version.mount / folder, 75.0, (5, 6, 7))
    assert version.place_beside(7, 4, proc) == place


def test_a_process_that_has_ended_has_no_group(tmp_path: Path) -> None:
    with pytest.raises(ProcessLookupError):
        Version(*ONE, tmp_path).path_of(8, proc_of(tmp_path, ""))


@given(st.sampled_from((ONE, TWO)), st.integers(1, LARGEST_PERCENT), st.integers(1, 2), st.floats(0.5, 4))
def test_weights_give_a_guest_its_share_of_each_of_its_cores(
    tmp_path_factory: pytest.TempPathFactory,
    kind: tuple[int, str, int, int, int],
    percent: int,
    cores: int,
    factor: float,
) -> None:
    version = Version(*kind, tmp_path_factory.mktemp("root"))
    host = version.default_weight * factor
    group = Group(version.mount, version, host)
    group.set_quota(percent, cores)
    # The weight of a group is spread over the cores on which it has something to do.
    weight = int((version.mount / version.weight_file).read_text()) / cores
    # A weight is a whole number.
    assert weight / (weight + host) == pytest.approx(percent / 100, abs=1 / host + 0.003)


def test_versions_are_told_apart_by_what_is_mounted(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no control groups"):
        find_version(tmp_path)
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.shares").write_text("1024")
    assert (find_version(tmp_path).number, find_version(tmp_path).mount) == (1, tmp_path / "cpu")
    (tmp_path / "cgroup.controllers").write_text("cpu")
    assert (find_version(tmp_path).number, find_version(tmp_path).mount) == (2, tmp_path)


def test_groups_that_may_not_be_made_say_why(tmp_path: Path) -> None:
    version = Version(*ONE, tmp_path)
    with pytest.raises(ProcessLookupError):
        Group(tmp_path / "gone" / "guest", version, 1.0).create()
    (tmp_path / "guest").touch()
    with pytest.raises(NoGroupError, match="run as root"):
        Group(tmp_path / "guest", version, 1.0).create()


def group_here(number: int) -> Group:
    version = find_version()
    place = version.place_beside(os.getpid(), 1)
    group = Group(place.parent / group_name(number), version, place.host_weight)
    group.create()
    return group


@needs_control_groups
def test_a_group_is_cleared_with_all_that_its_processes_started() -> None:
    group = group_here(90_001)
    spawn = "import subprocess, time; [subprocess.Popen(['sleep', '60']) for _ in range(5)]; time.sleep(60)"
    command, cores = [sys.executable, "-c", spawn], os.sched_getaffinity(0)
    first = group.start(command, cores, Path(os.devnull), dict(os.environ))
    while len(there := list(processes_below(group.folder))) < 6:
        time.sleep(0.05)
    assert clear(group.folder)
    assert not group.folder.exists()
    assert first.wait() == -signal.SIGKILL
    assert not {started_at(pid) for pid in there} - {None}


@needs_control_groups
def test_threads_follow_their_process_to_other_cores() -> None:
    group = group_here(90_003)
    threads = "import threading, time; [threading.Thread(target=time.sleep, args=(60,)).start() for _ in range(3)]"
    all_cores = os.sched_getaffinity(0)
    process = group.start([sys.executable, "-c", threads], all_cores, Path(os.devnull), dict(os.environ))
    tasks = Path(f"/proc/{process.pid}/task")
    while len(list(tasks.iterdir())) < 4:
        time.sleep(0.05)
    one = {min(all_cores)}
    group.add_process(process.pid, one)
    assert {frozenset(os.sched_getaffinity(int(task.name))) for task in tasks.iterdir()} == {frozenset(one)}
    assert clear(group.folder)
    process.wait()


@needs_control_groups
def test_groups_of_a_service_that_is_gone_are_found() -> None:
    mount = find_version().mount
    name = group_name(90_002)
    space, started = name.split("-")[2], name.split("-")[4]
    # A later process with the same number is another one; numbers of another container say nothing here.
    left, own, other = (
        mount / f"allocopt-guest-{space}-{os.getpid()}-{int(started) - 1}-1",
        mount / name,
        mount / f"allocopt-guest-1-{os.getpid()}-1-1",
    )
    for folder in (left, own, other):
        folder.mkdir()
    try:
        found = set(abandoned_groups(mount))
        assert left in found
        assert not found & {own, other}
    finally:
        assert all(map(clear, (left, own, other)))
