"""Control groups of Linux, in which a guest and its host compete for processor time by their weights.

A guest gets a group of its own beside the processes or the group of its host, which are not changed. Both versions of
control groups are supported: the shares of version 1 (``cpu.shares``) and the weights of version 2 (``cpu.weight``).
"""

import errno
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from allocopt.errors import UsageError
from allocopt.files.faults import os_fault
from allocopt.live.hosting.processes import PROC, started_at

PREFIX = "allocopt-guest"
"""Prefix of the names of guests' groups.

It is followed by the PID namespace, the id and the start time of the process that made the group, and a number.
"""
JOB_PREFIX = "job_"
"""Prefix of the name of Slurm's group of a job, which contains the groups of its steps and tasks."""
EMPTY_S = 5.0  # to wait for the end of processes that were killed
_ROUND_S = 0.02
# The shell waits for a line before it becomes the guest, so that the guest is in its group from the beginning.
_STARTER = ("sh", "-c", 'read go && exec "$@" </dev/null', "guest")


class NoGroupError(UsageError):
    """A guest cannot get a group beside a host, for a lasting reason."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of control groups: the file with the weight of a group, and the range of weights."""

    number: int
    weight_file: str
    default_weight: int  # of a group without a weight of its own, and of each thread beside groups
    least_weight: int
    most_weight: int
    mount: Path
    """Folder of the root group."""

    def path_of(self, pid: int, proc: Path = PROC) -> list[str]:
        """Return the path of a process's group below the root. Raises `ProcessLookupError` if the process has ended."""
        try:
            lines = (proc / str(pid) / "cgroup").read_text().splitlines()
        except FileNotFoundError:
            raise ProcessLookupError(errno.ESRCH, "has ended") from None
        for line in lines:
            number, controllers, path = line.split(":", 2)
            if "cpu" in controllers.split(",") if self.number == 1 else number == "0":
                return path.strip("/").split("/") if path != "/" else []
        return []

    def place_beside(self, pid: int, host_cores: int, proc: Path = PROC) -> "GroupPlace":
        """Return the place at which the group of a guest competes with a process of its host.

        Raises `ProcessLookupError` if that process has ended.
        """
        path = self.path_of(pid, proc)
        job = next((at for at, part in enumerate(path) if part.startswith(JOB_PREFIX)), None)
        if job is None and (self.number == 1 or not path):
            # The guest's group is made in the host's group, where it competes with each thread of the host.
            return GroupPlace(self.mount.joinpath(*path), self.default_weight, ())
        own = self.mount.joinpath(*path[: len(path) if job is None else job + 1])
        try:
            weight = int((own / self.weight_file).read_text())
        except FileNotFoundError:
            weight = self.default_weight
        return GroupPlace(own.parent, weight / host_cores, tuple(processes_below(own)))


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """The place at which the group of a guest competes with its host."""

    parent: Path
    host_weight: float  # of the host on one core
    competitors: tuple[int, ...]  # processes of the host's group; empty if the guest competes with single threads


def find_version(root: Path = Path("/sys/fs/cgroup")) -> Version:
    """Return the version with a CPU controller on this machine. Raises `UsageError` if there is none."""
    if (root / "cgroup.controllers").exists():
        return Version(2, "cpu.weight", 100, 1, 10_000, root)
    for name in ("cpu", "cpu,cpuacct"):
        if (root / name / "cpu.shares").exists():
            return Version(1, "cpu.shares", 1024, 2, 262_144, root / name)
    raise UsageError(f"{root}: no control groups with a CPU controller, which guests need")


@dataclass(frozen=True, slots=True)
class Group:
    """The group of a guest."""

    folder: Path
    version: Version
    host_weight: float  # of the host on one core

    def create(self) -> None:
        """Create it. Raises `NoGroupError` if that is not allowed, `ProcessLookupError` if the host has just ended."""
        parent = self.folder.parent
        try:
            if self.version.number == 2 and "cpu" not in (parent / "cgroup.subtree_control").read_text().split():
                (parent / "cgroup.subtree_control").write_text("+cpu")
            self.folder.mkdir()
        except FileNotFoundError:
            raise ProcessLookupError(errno.ESRCH, f"{parent} is gone") from None
        except OSError as error:
            if error.errno == errno.EBUSY:
                advice = "this group has processes of its own, so groups in it cannot share processor time"
            else:
                advice = "guests need write access to the control groups of their hosts: run as root"
            raise NoGroupError(f"{parent}: {os_fault(error)}; {advice}") from None

    def set_quota(self, percent: int, cores: int) -> None:
        """Set the weight so that a guest gets ``percent`` (1 to 90) of each of its cores if the host wants them too."""
        weight = round(self.host_weight * cores * percent / (100 - percent))
        least, most = self.version.least_weight, self.version.most_weight
        (self.folder / self.version.weight_file).write_text(str(min(most, max(least, weight))))

    def add_process(self, pid: int, cores: set[int]) -> None:
        """Put a process, and all that it starts from now on, into the group and bind it to some cores."""
        with suppress(ProcessLookupError):
            (self.folder / "cgroup.procs").write_text(str(pid))
        placed: set[str] = set()
        with suppress(FileNotFoundError, ProcessLookupError):
            while new := {task.name for task in (PROC / str(pid) / "task").iterdir()} - placed:
                placed |= new
                for task in new:
                    with suppress(ProcessLookupError):
                        os.sched_setaffinity(int(task), cores)

    def start(
        self, command: Sequence[str], cores: set[int], output: Path, env: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start a program in the group, bound to some cores; append its output to a file."""
        with output.open("ab") as out:
            process = subprocess.Popen(
                (*_STARTER, *command),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=env,
            )
        assert process.stdin is not None
        try:
            self.add_process(process.pid, cores)
        except OSError:
            process.kill()
            process.wait()
            process.stdin.close()
            raise
        # The shell may have been killed.
        with suppress(BrokenPipeError), process.stdin as line:
            line.write(b"go\n")
        return process


def group_name(number: int) -> str:
    """Return the name of the group with this number that this process makes."""
    return f"{PREFIX}-{_own_space()}-{os.getpid()}-{started_at(os.getpid())}-{number}"


def _own_space() -> int:
    # Identifies the PID namespace: in another container the same id is another process.
    return (PROC / "self" / "ns" / "pid").stat().st_ino


def abandoned_groups(mount: Path) -> Iterator[Path]:
    """Yield the groups of guests, below the root group, whose service no longer exists."""
    for folder in sorted(mount.rglob(f"{PREFIX}-*")):
        space, pid, started = folder.name.removeprefix(f"{PREFIX}-").split("-")[:3]
        if space == str(_own_space()) and started_at(int(pid)) != int(started):
            yield folder


def processes_of(folder: Path) -> list[int]:
    """Return the processes of a group; empty if it is gone."""
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def processes_below(folder: Path) -> Iterator[int]:
    """Yield the processes of a group, and of the groups below it."""
    for path in folder.rglob("cgroup.procs"):
        yield from processes_of(path.parent)


def send(folder: Path, number: signal.Signals) -> None:
    """Send a signal to all processes of a group and of the groups below it, and to those that start meanwhile."""
    reached: set[int] = set()
    while new := set(processes_below(folder)) - reached:
        reached |= new
        for pid in new:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def clear(folder: Path) -> bool:
    """Kill all processes of a group and remove it; return whether it is gone within `EMPTY_S`."""
    until = time.monotonic() + EMPTY_S
    while folder.exists() and time.monotonic() < until:
        send(folder, signal.SIGKILL)
        with suppress(OSError):
            # A guest may have made groups of its own.
            for below in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
                below.rmdir()
            folder.rmdir()
            break
        time.sleep(_ROUND_S)
    return not folder.exists()
