"""Groups of guests: where they stand, which weights give which share, and that nothing is left of them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.control_groups import needs_control_groups

from allocopt.errors import UsageError
from allocopt.live.hosting.control_groups import Group, Version, abandoned, clear, find_version, processes
from allocopt.problems.coallocation.problem import LARGEST_PERCENT

ONE, TWO = (1, "cpu.shares", 1024, 2, 262_144), (2, "cpu.weight", 100, 1, 10_000)


def proc_of(tmp_path: Path, lines: str) -> Path:
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text(lines)
    return tmp_path / "proc"


@pytest.mark.parametrize(
    ("kind", "lines", "below", "own"),
    [
        (ONE, "3:cpuset:/x\n1:cpu:/\n0::/\n", "", ""),
        (ONE, "4:cpu,cpuacct:/user/7\n", "user", "user/7"),
        (ONE, "4:cpu:/slurm/uid_0/job_12/step_0/task_0\n", "slurm/uid_0", "slurm/uid_0/job_12"),
        (TWO, "0::/system.slice/slurmstepd.scope/job_3/step_batch/user\n", "system.slice/slurmstepd.scope", "job_3"),
        (TWO, "0::/init.scope\n", "", "init.scope"),
    ],
)
def test_a_guest_stands_beside_the_group_of_its_host_or_of_the_hosts_job(
    tmp_path: Path, kind: tuple[int, str, int, int, int], lines: str, below: str, own: str
) -> None:
    version, proc = Version(*kind, tmp_path / "root"), proc_of(tmp_path, lines)
    group = version.mount / (own if own.startswith(below) else f"{below}/{own}")
    group.mkdir(parents=True)
    if own:
        (group / version.weight_file).write_text("300\n")
    assert version.parent_of_guests(7, proc) == (version.mount / below, 300 if own else version.full_weight)


def test_a_process_that_has_ended_has_no_group(tmp_path: Path) -> None:
    with pytest.raises(ProcessLookupError):
        Version(*ONE, tmp_path).path_of(8, proc_of(tmp_path, ""))


@given(st.sampled_from((ONE, TWO)), st.integers(1, LARGEST_PERCENT), st.floats(0.5, 4))
def test_weights_give_a_guest_its_share_of_what_both_want(
    tmp_path_factory: pytest.TempPathFactory, kind: tuple[int, str, int, int, int], percent: int, factor: float
) -> None:
    version = Version(*kind, tmp_path_factory.mktemp("root"))
    host = round(version.full_weight * factor)
    group = Group(version.mount, version, host)
    group.set_quota(percent)
    weight = int((version.mount / version.weight_file).read_text())
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


def test_groups_that_may_not_be_written_are_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="run as root"):
        Group.beside(os.getpid(), 1, Version(*TWO, tmp_path / "nowhere"))


@needs_control_groups
def test_a_group_is_cleared_with_all_that_its_processes_started() -> None:
    group = Group.beside(os.getpid(), 90_001, find_version())
    spawn = "import subprocess, time; [subprocess.Popen(['sleep', '60']) for _ in range(5)]; time.sleep(60)"
    first = group.started([sys.executable, "-c", spawn], os.sched_getaffinity(0), Path(os.devnull))
    while len(there := processes(group.folder)) < 6:
        time.sleep(0.05)
    assert clear(group.folder)
    assert not group.folder.exists()
    assert first.wait() == -signal.SIGKILL
    assert not any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_text() for pid in there)


@needs_control_groups
def test_groups_of_a_service_that_is_gone_are_found() -> None:
    version = find_version()
    ended = subprocess.Popen(["true"])
    ended.wait()
    parent, _ = version.parent_of_guests(os.getpid())
    left, own = (parent / f"allocopt-guest-{pid}-90002" for pid in (ended.pid, os.getpid()))
    left.mkdir()
    own.mkdir()
    try:
        assert left in set(abandoned(parent))
        assert own not in set(abandoned(parent))
    finally:
        assert clear(left)
        assert clear(own)
