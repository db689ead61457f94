"""A journal beside an output file: what a long run has done so far, so that it can go on after a crash."""

import json
import os
from pathlib import Path
from typing import Any

from allocopt.files.faults import bad_file, write_faults_named
from allocopt.files.writing import write_text


class Journal:
    """Records of finished pieces of work, by key, kept in ``FILE.partial``.

    Parameters
    ----------
    output
        The file that the run will write at its end.
    setting
        What the records depend on; a journal of another setting is begun anew with the first record.

    Raises
    ------
    BadFileError
        If the journal cannot be read or written, or the output is a directory.
    """

    def __init__(self, output: Path, setting: dict[str, Any]) -> None:
        if os.path.isdir(output):
            raise bad_file(output, "cannot be written: is a directory, must be a file")
        self.path = output.with_name(output.name + ".partial")
        self.records: dict[str, dict[str, Any]] = {}
        with write_faults_named(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # What another setting left is kept until there is something new: this one may have been a slip.
            self._begins_with = None if self._resume(setting) else json.dumps(setting) + "\n"
            self.path.open("a", encoding="utf-8").close()

    def add(self, key: str, record: dict[str, Any]) -> None:
        """Keep a record; it is on disk when this returns."""
        self.records[key] = record
        line = json.dumps([key, record], allow_nan=False) + "\n"
        with (
            write_faults_named(self.path),
            self.path.open("a" if self._begins_with is None else "w", encoding="utf-8") as file,
        ):
            file.write((self._begins_with or "") + line)
        self._begins_with = None

    def close(self) -> None:
        """Remove the journal: the output is written."""
        self.path.unlink(missing_ok=True)

    def _resume(self, setting: dict[str, Any]) -> bool:
        """Take the records of an earlier run of the same setting, if there are any."""
        if not self.path.exists():
            return False
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        if not lines or lines[0] != json.dumps(setting) + "\n":
            return False
        whole = [line for line in lines[1:] if line.endswith("\n")]
        self.records = dict(self._record(line, number) for number, line in enumerate(whole, start=2))
        if len(whole) < len(lines) - 1:
            # A crash has cut the last line; it is dropped, so that the next one begins on a line of its own.
            write_text(self.path, lines[0] + "".join(whole))
        return True

    def _record(self, line: str, number: int) -> tuple[str, dict[str, Any]]:
        """Read one line."""
        try:
            key, record = json.loads(line)
        except (ValueError, TypeError):
            key, record = None, None
        if not isinstance(key, str) or not isinstance(record, dict):
            raise bad_file(self.path, f"line {number}", "is not a record; remove the file to begin anew")
        return key, record
