"""The journal of a service: one JSON object per line for everything that it saw, decided and did.

A window whose solver gave no answer has the greedy answer; ``cut`` states the reason.
"""

import fcntl
import json
import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from allocopt.errors import AllocoptError
from allocopt.files.faults import bad_file, os_fault
from allocopt.files.models import validated
from allocopt.files.writing import compact_json
from allocopt.live.events import model_of
from allocopt.problems.instances import problem_from_object
from allocopt.solving.result import EQUAL_RELATIVE, Status
from allocopt.solving.solution_files import check_solution, solution_from_object

FORMAT, VERSION = "allocopt-live", 1
LONGEST_LINE = 256_000_000
"""Largest length of a line in bytes; windows of the largest clusters take some megabytes."""


_COUNTS: Mapping[str, str] = {
    **{name: name for name in ("pinned", "unpinned", "refused", "requeued")},
    "moved": "as_pinned",
    "relocation dropped": "relocations_dropped",
}
"""The field of `Totals` that counts the events of each name."""


@dataclass(slots=True)
class Totals:
    """Sums over the events of one run of a service.

    Parameters
    ----------
    looks
        Number of looks.
    windows, proved, cut, jobs
        Numbers of windows, of proved windows, of windows cut to the greedy answer, and of jobs in windows.
    objective, greedy
        Hop costs of the answers of windows, and of the greedy answers.
    plan_s, solve_s
        Seconds of plans and solves.
    starts, starts_proved
        Numbers of starts that were judged, and of those with a proven optimum.
    chosen, optimum
        Hop costs of the starts with a proven optimum: as Slurm chose the nodes, and of the optima.
    pinned, as_pinned, unpinned, refused
        Numbers of jobs that were pinned, that started as pinned, whose pin was taken back, and of refusals by Slurm.
    relocations, relocations_proved, relocated, relocations_dropped
        Numbers of relocations that were planned, proved, done and dropped.
    requeued
        Number of jobs that were requeued.
    """

    looks: int = 0
    windows: int = 0
    proved: int = 0
    cut: int = 0
    jobs: int = 0
    objective: float = 0.0
    greedy: float = 0.0
    plan_s: float = 0.0
    solve_s: float = 0.0
    starts: int = 0
    starts_proved: int = 0
    chosen: float = 0.0
    optimum: float = 0.0
    pinned: int = 0
    as_pinned: int = 0
    unpinned: int = 0
    refused: int = 0
    relocations: int = 0
    relocations_proved: int = 0
    relocated: int = 0
    relocations_dropped: int = 0
    requeued: int = 0

    @property
    def regret(self) -> float:
        """Hop cost of judged starts with a proven optimum, divided by these optima, minus 1."""
        return self.chosen / self.optimum - 1.0 if self.optimum else 0.0

    def add(self, event: Mapping[str, Any]) -> None:
        """Count an event of a journal."""
        match event["event"]:
            case "window":
                self.windows += 1
                self.proved += event["answer"]["status"] == Status.OPTIMAL
                self.cut += "cut" in event
                self.jobs += len(event["jobs"])
                self.objective += event["answer"]["objective"]
                self.greedy += event["greedy"]
                self.plan_s += event.get("plan_s", 0.0)
                self.solve_s += event.get("solve_s", 0.0)
            case "started":
                self.as_pinned += event.get("as_pinned") is True
                if event.get("optimum") is not None:
                    self.starts += 1
                    if event["proved"]:
                        self.starts_proved += 1
                        self.chosen += event["chosen"]
                        self.optimum += event["optimum"]
            case "relocation":
                self.relocations += 1
                self.relocations_proved += event["proved"]
            case "relocation done":
                self.relocated += 1
                self.as_pinned += event.get("as_pinned") is True
            case name if name in _COUNTS:
                setattr(self, _COUNTS[name], getattr(self, _COUNTS[name]) + 1)
            case "look":
                self.looks = event["looks"]


class Journal:
    """A journal for writing. A last line that a crash has left incomplete is removed.

    If the file is renamed or emptied, as logrotate does, writing continues in a file of the same name, which begins
    with the first event of this run; `files` counts the files. `totals` covers this run.

    Raises `BadFileError` if the file is not a journal, cannot be written, or is written by another service.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.totals = Totals()
        self.files = 0
        self._first = b""
        self._open()

    def _open(self) -> None:
        path = self.path
        try:
            self._file = path.open("a+b")
            # The lock of `only_service` keeps a second service off the cluster; this lock keeps it off the file.
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.files += 1
            self._file.seek(0)
            first = self._file.readline()
            if first and FORMAT.encode() not in first:
                raise bad_file(path, "line 1", f"is not a line of an allocopt journal (expected format {FORMAT})")
            if first:
                with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as held:
                    whole = held.rfind(b"\n") + 1
                self._file.truncate(whole)
        except BlockingIOError:
            raise bad_file(path, "another service writes this journal; give another file") from None
        except OSError as error:
            raise bad_file(path, os_fault(error)) from None

    def write(self, event: str, at_s: float, **values: object) -> None:
        """Append an event and flush it."""
        when = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
        told = {"event": event, "at": when, **values}
        line = compact_json(told).encode() + b"\n"
        self.totals.add(told)
        if not self._first:
            self._first = line
        elif self._is_rotated():
            self._file.close()
            self._open()
            self._file.write(self._first)
        self._file.write(line)
        self._file.flush()

    def _is_rotated(self) -> bool:
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return True
        return there.st_size == 0 or not os.path.samestat(there, os.fstat(self._file.fileno()))

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a journal, without an incomplete last line.

    Raises `BadFileError` if the file is not a journal, or if a complete line is damaged.
    """
    number = 0
    try:
        with path.open("rb") as file:
            while line := read_line(file, path, f"line {number + 1}"):
                number += 1
                yield parsed(line, path, f"line {number}", is_first=number == 1)
    except OSError as error:
        raise bad_file(path, os_fault(error)) from None
    if not number:
        raise bad_file(path, "is empty, must be the journal of allocopt live")


def read_line(file: BinaryIO, path: Path, where: str) -> bytes:
    """Return the next line of a journal, or an empty one if no complete line is there yet.

    Raises `BadFileError` if the line is longer than `LONGEST_LINE`.
    """
    place = file.tell() if file.seekable() else None
    line = file.readline(LONGEST_LINE)
    if line.endswith(b"\n"):
        return line
    if len(line) >= LONGEST_LINE:
        raise bad_file(path, where, f"has more than {LONGEST_LINE} bytes: this is not a journal")
    if place is not None:
        file.seek(place)
    return b""


def parsed(line: bytes, path: Path, where: str, *, is_first: bool = False) -> dict[str, Any]:
    """Return the event of a line. Raises `BadFileError` if it has none, or if a first line names another format."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict) or "event" not in event or (is_first and event.get("format") != FORMAT):
        right = f"must be an event of an allocopt journal, whose first line names the format {FORMAT!r}"
        raise bad_file(path, where, f"is damaged, {right}")
    validated(model_of(event), event, f"{path}: {where}")
    return event


@dataclass(frozen=True, slots=True)
class Wrong:
    """A window or relocation whose answer is wrong."""

    line: int
    fault: str


@dataclass(slots=True)
class Replay(Totals):
    """Totals over all runs of a journal whose answers were verified again, and the answers that are wrong."""

    wrong: list[Wrong] = field(default_factory=list)

    @classmethod
    def of(cls, path: Path) -> "Replay":
        """Verify every answer of a journal again, and add up. Raises `BadFileError` if the journal is damaged."""
        found = cls()
        for number, event in enumerate(read_journal(path), 1):
            check, counted = _CHECKS.get(event["event"], (None, ""))
            fault = check(event, path) if check is not None else ""
            if fault:
                found.wrong.append(Wrong(number, fault))
                setattr(found, counted, getattr(found, counted) + 1)
            else:
                found.add(event)
        return found


def _fault_of_window(event: Mapping[str, Any], path: Path) -> str:
    try:
        problem = problem_from_object(event["instance"], path)
        solution = solution_from_object(event["answer"], path)
        objective = check_solution(problem, solution)
    except AllocoptError as error:
        return str(error)
    return "is worse than the greedy answer" if objective > event["greedy"] * (1 + EQUAL_RELATIVE) else ""


def _fault_of_relocation(event: Mapping[str, Any], path: Path) -> str:
    try:
        problem = problem_from_object(event["instance"], path)
        solution = solution_from_object(event["answer"], path)
        if solution.answer is None:
            return "has steps, but no answer" if event["steps"] else ""
        cost = check_solution(problem, solution)
    except AllocoptError as error:
        return str(error)
    told = [(step["action"], step["job"]) for step in event["steps"]]
    if told != [(step["action"], step["job"]) for step in event["answer"]["steps"]]:
        return "has other steps than its answer"
    return (
        "" if abs(cost - event["cost"]) <= EQUAL_RELATIVE * max(1.0, cost) else f"states a wrong cost, it is {cost:g}"
    )


_CHECKS: Mapping[str, tuple[Callable[[Mapping[str, Any], Path], str], str]] = {
    "window": (_fault_of_window, "windows"),
    "relocation": (_fault_of_relocation, "relocations"),
}
"""The function that verifies the answer of an event again, and the field of `Totals` that counts such events."""
