"""A journal beside an output file: what a long run has done so far, so that it can go on after a crash."""

import json
import os
from pathlib import Path
from typing import Any

from allocopt.errors import AllocoptError, UsageError
from allocopt.files.faults import bad_file
from allocopt.files.journal import LockedLines
from allocopt.files.writing import compact_json

FORMAT = "allocopt-run"


class Journal:
    """Records of finished pieces of work, by key, kept in ``FILE.partial``.

    Parameters
    ----------
    output
        The file that the run will write at its end.
    setting
        What the records depend on.

    Raises
    ------
    BadFileError
        If the journal cannot be read or written, or is none, or the output is a directory.
    UsageError
        If it is that of another run: one of another setting, or one that is going on.
    """

    def __init__(self, output: Path, setting: dict[str, Any]) -> None:
        if os.path.isdir(output):
            raise bad_file(output, "cannot be written: is a directory, must be a file")
        self.path = output.with_name(output.name + ".partial")
        self._header = compact_json({"format": FORMAT, "setting": setting})
        self._file = LockedLines(self.path, f'{{"format": "{FORMAT}"', "a run's")
        self._is_begun = bool(self._file.lines)
        try:
            self._check_setting(setting)
            self.records = dict(self._record(line, number) for number, line in enumerate(self._file.lines[1:], start=2))
        except AllocoptError:
            self._file.close()
            raise

    def add(self, key: str, record: dict[str, Any]) -> None:
        """Keep a record; it is on disk when this returns."""
        self.records[key] = record
        self._file.append(*(() if self._is_begun else (self._header,)), compact_json([key, record]))
        self._is_begun = True

    def remove(self) -> None:
        """Remove the journal: the output is written."""
        self._file.remove()

    def close(self) -> None:
        """Let another run have the journal."""
        self._file.close()

    def _check_setting(self, setting: dict[str, Any]) -> None:
        """Raise `UsageError` where the journal is that of a run of another setting."""
        if not self._is_begun or self._file.lines[0] == self._header.encode():
            return
        try:
            other = dict(json.loads(self._file.lines[0])["setting"])
        except (ValueError, TypeError, KeyError):
            raise bad_file(self.path, "line 1", "is not one of a run's journal; move the file away") from None
        names = [name for name in {**other, **setting} if other.get(name) != setting.get(name)]
        raise UsageError(
            f"{self.path} is the journal of another run (it differs in {', '.join(names)}): "
            "finish that run, name another output, or remove the file"
        )

    def _record(self, line: bytes, number: int) -> tuple[str, dict[str, Any]]:
        """Read one line."""
        try:
            key, record = json.loads(line)
        except (ValueError, TypeError):
            key, record = None, None
        if not isinstance(key, str) or not isinstance(record, dict):
            raise bad_file(self.path, f"line {number}", "is not a record; remove the file to begin anew")
        return key, record
