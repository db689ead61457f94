"""The journal of a service: a JSON object a line for everything that it saw, decided and did."""

import fcntl
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from allocopt.errors import AllocoptError
from allocopt.files.faults import bad_file, os_fault
from allocopt.files.writing import compact_json
from allocopt.problems.instances import problem_from_object
from allocopt.solving.result import EQUAL_RELATIVE, Status
from allocopt.solving.solution_files import check_solution, solution_from_object

FORMAT, VERSION = "allocopt-live", 1


class Journal:
    """A journal that is written; what a crash cut off in its last line is taken away.

    Raises `BadFileError` if the file is none, cannot be written, or another service writes it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("a+b")
            # Two services of a cluster are told apart elsewhere; this keeps a file from being shared.
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file.seek(0)
            held = self._file.read()
            first = held.partition(b"\n")[0]
            if first and FORMAT.encode() not in first:
                raise bad_file(path, "line 1", f"is none of a journal, whose format is {FORMAT}")
            self._file.truncate(held.rfind(b"\n") + 1)
        except BlockingIOError:
            raise bad_file(path, "another service writes it") from None
        except OSError as error:
            raise bad_file(path, os_fault(error)) from None

    def write(self, event: str, at_s: float, **values: object) -> None:
        """Append an event, at once."""
        when = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
        self._file.write(compact_json({"event": event, "at": when, **values}).encode() + b"\n")
        self._file.flush()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a journal; a last line that is being written is left out.

    Raises `BadFileError` if it is none, or another line is damaged.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise bad_file(path, os_fault(error)) from None
    whole = data[: data.rfind(b"\n") + 1].splitlines()
    for number, line in enumerate(whole, 1):
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict) or "event" not in event or (number == 1 and event.get("format") != FORMAT):
            right = f"must be an event of a journal, whose first line has the format {FORMAT!r}"
            raise bad_file(path, f"line {number}", f"is damaged, {right}")
        yield event
    if not whole:
        raise bad_file(path, "is empty, must be the journal of allocopt live")


@dataclass(frozen=True, slots=True)
class Wrong:
    """A window whose answer does not hold."""

    line: int
    fault: str


@dataclass(slots=True)
class Replay:
    """What a journal holds, verified again.

    Numbers of windows, of those proved, of their jobs, and the hop costs of the answers and of the greedy ones; of
    starts that were judged and those of proven optimum, with the hop costs of what was chosen and what could have been;
    of jobs that were pinned, that started as pinned, and that were given free; and what does not hold.
    """

    windows: int = 0
    proved: int = 0
    jobs: int = 0
    objective: float = 0.0
    greedy: float = 0.0
    starts: int = 0
    starts_proved: int = 0
    chosen: float = 0.0
    optimum: float = 0.0
    pinned: int = 0
    as_pinned: int = 0
    unpinned: int = 0
    wrong: list[Wrong] = field(default_factory=list)

    @property
    def regret(self) -> float:
        """Hop cost beyond the optima of the starts that were judged, relative to them."""
        return self.chosen / self.optimum - 1.0 if self.optimum else 0.0

    @classmethod
    def of(cls, path: Path) -> "Replay":
        """Verify every answer of a journal again, and add up; raise `BadFileError` if it is damaged."""
        found = cls()
        for number, event in enumerate(read_journal(path), 1):
            match event["event"]:
                case "window":
                    found.windows += 1
                    fault = found._fault(event, path)
                    found.wrong += [Wrong(number, fault)] if fault else []
                case "started":
                    found._judge(event)
                case "pinned":
                    found.pinned += 1
                case "unpinned":
                    found.unpinned += 1
        return found

    def _fault(self, event: dict[str, Any], path: Path) -> str:
        try:
            problem = problem_from_object(event["instance"], path)
            solution = solution_from_object(event["answer"], path)
            objective = check_solution(problem, solution)
        except AllocoptError as error:
            return str(error)
        if objective > event["greedy"] * (1 + EQUAL_RELATIVE):
            return "is worse than the greedy answer"
        self.proved += solution.status == Status.OPTIMAL
        self.jobs += len(event["jobs"])
        self.objective += objective
        self.greedy += event["greedy"]
        return ""

    def _judge(self, event: dict[str, Any]) -> None:
        self.as_pinned += event.get("as_pinned") is True
        if event.get("optimum") is not None:
            self.starts += 1
            if event["proved"]:
                self.starts_proved += 1
                self.chosen += event["chosen"]
                self.optimum += event["optimum"]
