"""Measures the processes of a job as Linux reports them: processor time, waiting time, and memory.

Times are from ``/proc/PID/task/TID/schedstat``: the nanoseconds for which a thread ran, and those for which it was
ready to run but waited. Their sum is the *demand* of the thread; its *share* is the part of the demand in which it ran.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
BUSY = 0.2
"""A thread counts as busy if it runs or is ready to run for at least this share of the time."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)
# Indices of fields after the name of the program in ``/proc/PID/stat``.
_STATE, _PARENT, _STARTED = 0, 1, 19


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of this machine at one time, without zombies."""

    parents: Mapping[int, int]
    started: Mapping[int, int]  # when each started, in ticks since the machine booted

    @classmethod
    def now(cls, proc: Path = PROC) -> "Processes":
        """Return the processes that exist now."""
        parents, started = {}, {}
        for folder in proc.iterdir():
            # A process may end in the meantime, or belong to another user and be hidden.
            with suppress(*_GONE):
                if folder.name.isdigit() and (told := _stat(folder))[_STATE] not in "ZX":
                    parents[int(folder.name)], started[int(folder.name)] = int(told[_PARENT]), int(told[_STARTED])
        return cls(parents, started)

    def with_descendants(self, pids: Iterable[int]) -> set[int]:
        """Return the given processes that are alive, and all their living descendants."""
        children: dict[int, list[int]] = {}
        for pid, parent in self.parents.items():
            children.setdefault(parent, []).append(pid)
        found: set[int] = set()
        ahead = [pid for pid in pids if pid in self.parents]
        while ahead:
            pid = ahead.pop()
            if pid not in found:
                found.add(pid)
                ahead += children.get(pid, [])
        return found


def _stat(folder: Path) -> list[str]:
    # The name of the program is in parentheses, and may hold anything, also parentheses.
    return (folder / "stat").read_bytes().rpartition(b")")[2].decode().split()


def started_at(pid: int, proc: Path = PROC) -> int | None:
    """Return when a process started, in ticks since the machine booted; None if it has ended."""
    with suppress(*_GONE):
        told = _stat(proc / str(pid))
        return None if told[_STATE] in "ZX" else int(told[_STARTED])
    return None


@dataclass(slots=True)
class Kin:
    """Keeps track of the processes of a job: the named ones, and all that any process of the job has started."""

    _known: dict[int, int] = field(init=False, default_factory=dict)  # when each started, because ids are used again

    def alive(self, named: Collection[int], all_: Processes) -> set[int]:
        """Return the ids of the job's processes that are alive. An id reused by a later process does not count."""
        for pid in named:
            if pid in all_.started:
                self._known.setdefault(pid, all_.started[pid])
        mine = [pid for pid, started in self._known.items() if all_.started.get(pid) == started]
        found = all_.with_descendants(mine)
        for pid in found:
            self._known.setdefault(pid, all_.started[pid])
        return found


@dataclass(frozen=True, slots=True)
class Use:
    """The use of the machine by processes between two looks."""

    run_s: float  # processor time, all threads together
    delay_s: float  # time for which threads were ready to run, and waited
    memory_bytes: int  # that they occupy now
    # Both values below are those of the slowest thread: its share, and the part of the time in which it ran or was
    # ready to run. The slowest thread is the busy thread with the least share, because a job whose threads wait for
    # each other is as slow as that thread. If no thread is busy, both values are those of all threads together.
    share: float = 1.0
    busy: float = 0.0


@dataclass(slots=True)
class Watch:
    """Measures the processes of a job at repeated looks."""

    _seen: dict[int, tuple[int, int]] | None = field(init=False, default=None)

    def look(self, pids: Iterable[int], seconds: float, proc: Path = PROC) -> Use:
        """Return the use by some processes in the seconds since the last look; at the first look, only their memory.

        Threads that have ended since then are not counted.
        """
        now: dict[int, tuple[int, int]] = {}
        memory = 0
        for pid in pids:
            with suppress(*_GONE):
                memory += int((proc / str(pid) / "statm").read_text().split()[1]) * _PAGE_BYTES
                for task in (proc / str(pid) / "task").iterdir():
                    with suppress(*_GONE):
                        run, delay, *_ = map(int, (task / "schedstat").read_text().split())
                        now[int(task.name)] = run, delay
        before, self._seen = now if self._seen is None else self._seen, now
        # A thread that is seen for the first time has started since the last look.
        changes = [
            (1e-9 * (run - before.get(thread, (0, 0))[0]), 1e-9 * (delay - before.get(thread, (0, 0))[1]))
            for thread, (run, delay) in now.items()
        ]
        total = sum(run for run, _ in changes), sum(delay for _, delay in changes)
        busy = [one for one in changes if sum(one) >= BUSY * seconds]
        slowest = min(busy, key=_share) if busy else total
        return Use(*total, memory, _share(slowest), min(1.0, sum(slowest) / seconds))


def _share(times: tuple[float, float]) -> float:
    return times[0] / sum(times) if sum(times) > 0 else 1.0
