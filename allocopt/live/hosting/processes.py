"""What Linux tells of the processes of a job: processor time, how long they waited for it, and memory.

Times are from ``/proc/PID/task/TID/schedstat``: nanoseconds for which a thread ran, and for which it was ready to run
and waited. Together they are its *demand*; its *share* is what it ran of them.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
BUSY = 0.2
"""Share of the time for which a thread has to be ready to run at least, to count as busy."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)
# Places behind the name of a program in ``/proc/PID/stat``.
_STATE, _PARENT, _STARTED = 0, 1, 19


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of this machine at a time, but for those that have ended and whose parent does not know it yet."""

    parents: Mapping[int, int]
    started: Mapping[int, int]  # in ticks since the machine did

    @classmethod
    def now(cls, proc: Path = PROC) -> "Processes":
        """Look at all of them."""
        parents, started = {}, {}
        for folder in proc.iterdir():
            # Processes may end while they are looked at, and those of others may be hidden.
            with suppress(*_GONE):
                if folder.name.isdigit() and (told := _stat(folder))[_STATE] not in "ZX":
                    parents[int(folder.name)], started[int(folder.name)] = int(told[_PARENT]), int(told[_STARTED])
        return cls(parents, started)

    def with_descendants(self, pids: Iterable[int]) -> set[int]:
        """Return those of some processes that are alive, and all that they started, and those started."""
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
    # The name of the program stands in brackets, and may hold anything.
    return (folder / "stat").read_bytes().rpartition(b")")[2].decode().split()


def started_at(pid: int, proc: Path = PROC) -> int | None:
    """Return when a process started, in ticks since the machine did; None if it has ended."""
    with suppress(*_GONE):
        told = _stat(proc / str(pid))
        return None if told[_STATE] in "ZX" else int(told[_STARTED])
    return None


@dataclass(slots=True)
class Kin:
    """The processes of a job: those that are named, and all that were started by one that belonged to it."""

    _known: dict[int, int] = field(init=False, default_factory=dict)  # when each started, which tells it from others

    def alive(self, named: Collection[int], all_: Processes) -> set[int]:
        """Return those that are alive; a number that a later process has got is another one."""
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
    """What processes did between two looks."""

    run_s: float  # processor time, all threads together
    delay_s: float  # time for which threads were ready to run, and waited
    memory_bytes: int  # that they occupy now
    # Of the busy thread with the least share, or of all threads together where none is busy: its share, and for which
    # share of the time it was ready to run. A job whose threads wait for each other is as slow as this one.
    share: float = 1.0
    busy: float = 0.0


@dataclass(slots=True)
class Watch:
    """Looks at the processes of a job again and again."""

    _seen: dict[int, tuple[int, int]] | None = field(init=False, default=None)

    def look(self, pids: Iterable[int], seconds: float, proc: Path = PROC) -> Use:
        """Return what processes did in the seconds since the last look, nothing at the first one.

        What a thread did since then that has ended meanwhile is not known.
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
        # A thread that is seen for the first time has begun since.
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
