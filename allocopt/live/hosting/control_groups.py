"""Control groups of Linux, in which a guest competes with its host for processor time by their weights.

A guest's group stands beside that of its host, which is left as it is. Both versions of control groups are known: the
processor's shares of version 1 (``cpu.shares``) and the weights of version 2 (``cpu.weight``).
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from allocopt.errors import BadFileError, UsageError
from allocopt.files.faults import os_fault

PREFIX = "allocopt-guest"
"""The word with which the names of groups of guests begin; then come the process that made them, and a number."""
JOB_PREFIX = "job_"
"""The word with which Slurm's groups of a job begin, under which those of its steps and tasks are."""
EMPTY_S = 5.0  # for which processes that were killed are waited for
_ROUND_S = 0.02
# Waits for a line before it becomes the guest, so that it is in its group before it does anything.
_STARTER = ("sh", "-c", 'read go && exec "$@" </dev/null', "guest")


@dataclass(frozen=True, slots=True)
class Version:
    """A version of control groups: where the weight of a group stands, and its range."""

    number: int
    weight_file: str
    full_weight: int  # of a process, or a group, that nothing was set for
    least_weight: int
    most_weight: int
    mount: Path
    """Folder of the root group."""

    def path_of(self, pid: int, proc: Path = Path("/proc")) -> str:
        """Return the path of a process's group below the root. Raises `ProcessLookupError` if the process has ended."""
        try:
            lines = (proc / str(pid) / "cgroup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            raise ProcessLookupError(pid) from None
        for line in lines:
            number, controllers, path = line.split(":", 2)
            if "cpu" in controllers.split(",") if self.number == 1 else number == "0":
                return path
        return "/"

    def parent_of_guests(self, pid: int, proc: Path = Path("/proc")) -> tuple[Path, int]:
        """Return the folder under which the group of a guest competes with a process, and the weight of the latter.

        It is the group of the process if that is the root, and otherwise the group above it, or above that of its job.
        """
        parts = self.path_of(pid, proc).strip("/").split("/")
        if parts == [""]:
            return self.mount, self.full_weight
        jobs = [at for at, part in enumerate(parts) if part.startswith(JOB_PREFIX)]
        own = jobs[0] if jobs else len(parts) - 1
        group = self.mount.joinpath(*parts[: own + 1])
        weight = self.full_weight
        with suppress(FileNotFoundError):
            weight = int((group / self.weight_file).read_text())
        return group.parent, weight


def find_version(root: Path = Path("/sys/fs/cgroup")) -> Version:
    """Return the version that divides processor time here. Raises `UsageError` if there is none."""
    if (root / "cgroup.controllers").exists():
        return Version(2, "cpu.weight", 100, 1, 10_000, root)
    for name in ("cpu", "cpu,cpuacct"):
        if (root / name / "cpu.shares").exists():
            return Version(1, "cpu.shares", 1024, 2, 262_144, root / name)
    raise UsageError(f"no control groups that divide processor time are mounted at {root}")


@dataclass(frozen=True, slots=True)
class Group:
    """The group of a guest."""

    folder: Path
    version: Version
    host_weight: int  # of what it competes with

    @classmethod
    def beside(cls, pid: int, number: int, version: Version) -> "Group":
        """Make a group that competes with a process. Raises `UsageError` if that is not allowed here."""
        parent, weight = version.parent_of_guests(pid)
        folder = parent / f"{PREFIX}-{os.getpid()}-{number}"
        try:
            if version.number == 2 and "cpu" not in (parent / "cgroup.subtree_control").read_text().split():
                (parent / "cgroup.subtree_control").write_text("+cpu")
            folder.mkdir()
        except OSError as error:
            raise UsageError(
                f"{parent}: {os_fault(error)}; guests need control groups that may be written: run as root, "
                "or in a container or unit with Delegate=cpu"
            ) from None
        return cls(folder, version, weight)

    def set_quota(self, percent: int) -> None:
        """Let its processes have a share of what they and the host want together, in percent from 1 to 90."""
        weight = round(self.host_weight * percent / (100 - percent))
        least, most = self.version.least_weight, self.version.most_weight
        (self.folder / self.version.weight_file).write_text(str(min(most, max(least, weight))))

    def add(self, pid: int, cores: set[int]) -> None:
        """Put a process into the group, and on some cores; those that it starts follow."""
        with suppress(ProcessLookupError):
            (self.folder / "cgroup.procs").write_text(str(pid))
            os.sched_setaffinity(pid, cores)

    def started(self, command: Sequence[str], cores: set[int], output: Path) -> subprocess.Popen[bytes]:
        """Start a program in the group, on some cores; what it prints is added to a file."""
        try:
            with output.open("ab") as out:
                process = subprocess.Popen(
                    (*_STARTER, *command),
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise BadFileError(f"{output}: {os_fault(error)}") from None
        self.add(process.pid, cores)
        assert process.stdin is not None
        # A shell that has been killed reads nothing.
        with suppress(BrokenPipeError), process.stdin as line:
            line.write(b"go\n")
        return process

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all its processes."""
        send(self.folder, number)


def processes(folder: Path) -> list[int]:
    """Return the processes of a group; none if it is gone."""
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except (FileNotFoundError, OSError):
        return []


def send(folder: Path, number: signal.Signals) -> None:
    """Send a signal to all processes of a group, those among them that start meanwhile, too."""
    reached: set[int] = set()
    while new := set(processes(folder)) - reached:
        reached |= new
        for pid in new:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def clear(folder: Path) -> bool:
    """Kill all processes of a group and remove it; return whether it is gone, within `EMPTY_S`."""
    until = time.monotonic() + EMPTY_S
    while folder.exists() and time.monotonic() < until:
        send(folder, signal.SIGKILL)
        with suppress(OSError):
            folder.rmdir()
            break
        time.sleep(_ROUND_S)
    return not folder.exists()


def abandoned(parent: Path) -> Iterator[Path]:
    """Yield the groups of guests in a folder whose service is not there any more."""
    for folder in parent.glob(f"{PREFIX}-*-*"):
        pid = folder.name.split("-")[-2]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            yield folder
