"""What Linux tells of the processes of a job: processor time, how long they waited for it, and memory.

Times are from ``/proc/PID/task/TID/schedstat``: nanoseconds for which a thread ran, and for which it was ready to run
and waited.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

PROC = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Use:
    """What processes did between two looks."""

    run_s: float  # processor time, all threads together
    delay_s: float  # time for which threads were ready to run, and waited
    memory_bytes: int  # that they occupy now


@dataclass(slots=True)
class Watch:
    """Looks at the processes of a job again and again."""

    _seen: dict[int, tuple[int, int]] | None = field(init=False, default=None)

    def look(self, pids: Iterable[int], proc: Path = PROC) -> Use:
        """Return what processes did since the last look, nothing at the first one.

        What a thread did since then that has ended meanwhile is not known.
        """
        now: dict[int, tuple[int, int]] = {}
        memory = 0
        for pid in pids:
            # Processes and threads may end while they are looked at.
            with suppress(FileNotFoundError, ProcessLookupError):
                memory += int((proc / str(pid) / "statm").read_text().split()[1]) * _PAGE_BYTES
                for task in (proc / str(pid) / "task").iterdir():
                    with suppress(FileNotFoundError, ProcessLookupError):
                        run, delay, *_ = map(int, (task / "schedstat").read_text().split())
                        now[int(task.name)] = run, delay
        before, self._seen = now if self._seen is None else self._seen, now
        # A thread that is seen for the first time has begun since.
        changes = np.array([np.subtract(times, before.get(thread, (0, 0))) for thread, times in now.items()])
        run_s, delay_s = 1e-9 * changes.reshape(-1, 2).sum(axis=0)
        return Use(float(run_s), float(delay_s), memory)


def is_alive(pid: int, proc: Path = PROC) -> bool:
    """Whether a process has not ended."""
    try:
        # The name of the program stands in brackets, and may hold anything.
        return (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def with_descendants(pids: Iterable[int], proc: Path = PROC) -> frozenset[int]:
    """Return processes and all that they started, and those started, as far as their parents live."""
    children: dict[int, list[int]] = {}
    for folder in proc.iterdir():
        if folder.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    found: set[int] = set()
    ahead = [pid for pid in pids if is_alive(pid, proc)]
    while ahead:
        pid = ahead.pop()
        if pid not in found:
            found.add(pid)
            ahead += children.get(pid, [])
    return frozenset(found)
