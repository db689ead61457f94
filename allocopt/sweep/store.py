"""The journal of a sweep: finished cells, each on disk before the next one is waited for.

One line of JSON each: headers, which say who computed the cells behind them, and cells with their rows. Lines are
appended only, so that a crash can cut the last one at most, which is dropped. A journal belongs to one process at a
time; the lock ends with the process.
"""

import fcntl
import json
import os
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from allocopt.errors import BadFileError, UsageError
from allocopt.files.faults import bad_file, shown, write_faults_named
from allocopt.files.writing import compact_json
from allocopt.sweep.cells import FAILED, digest

FORMAT = "allocopt-sweep"
VERSION = 1


class Store:
    """Finished cells by key, kept in ``FILE.journal``.

    Parameters
    ----------
    output
        The table that the sweep writes at its end.
    provenance
        Who computes the cells from now on.

    Raises
    ------
    BadFileError
        If the journal cannot be read or written, or is none.
    UsageError
        If another process has it.
    """

    def __init__(self, output: Path, provenance: Mapping[str, str]) -> None:
        self.path = journal_of(output)
        self.records: dict[str, dict[str, Any]] = {}
        self.origins: list[dict[str, str]] = []
        self._provenance = dict(provenance)
        with write_faults_named(self.path):
            if output.is_dir():
                raise bad_file(output, "cannot be written: is a directory, must be a file")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._locked()
            try:
                self._read()
            except BadFileError:
                self.close()
                raise

    def rows(self) -> dict[str, dict[str, Any]]:
        """Rows of the cells that could be run, by key."""
        return {key: held["row"] for key, held in self.records.items() if held["row"].get("status") != FAILED}

    def is_of_another_program(self) -> bool:
        """Whether cells were computed by another version or commit, or elsewhere."""
        return any(origin != self._provenance for origin in self.origins)

    def add(self, key: str, identity: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """Keep the row of a cell; it is on disk when this returns."""
        with write_faults_named(self.path):
            if not self.origins or self.origins[-1] != self._provenance:
                self._append({"format": FORMAT, "version": VERSION, "provenance": self._provenance})
                self.origins.append(self._provenance)
            self._append({"cell": identity, "row": row})
        self.records[key] = {"cell": dict(identity), "row": dict(row)}

    def drop(self, keys: Collection[str]) -> None:
        """Write the journal anew without some cells."""
        kept = [held for key, held in self.records.items() if key not in keys]
        lines = [{"format": FORMAT, "version": VERSION, "provenance": origin} for origin in self.origins] + kept
        with write_faults_named(self.path):
            temporary = self.path.with_name(f".{uuid4().hex}.part")
            try:
                file = _lock(temporary, self.path)
                _write(file, "".join(f"{compact_json(line)}\n" for line in lines).encode())
                temporary.replace(self.path)
            finally:
                temporary.unlink(missing_ok=True)
        os.close(self._file)
        self._file = file
        self.records = {key: held for key, held in self.records.items() if key not in keys}

    def close(self) -> None:
        """Let another process have the journal."""
        os.close(self._file)

    def _locked(self) -> int:
        """Open the journal and lock it; `drop` may have put another file in its place in between."""
        while True:
            file = _lock(self.path, self.path)
            with suppress(FileNotFoundError):
                if os.fstat(file).st_ino == self.path.stat().st_ino:
                    return file
            os.close(file)

    def _append(self, line: Mapping[str, Any]) -> None:
        """Write a line through to the disk."""
        _write(self._file, f"{compact_json(line)}\n".encode())

    def _read(self) -> None:
        """Take what earlier processes have left; cut off what the last one did not finish."""
        whole, newline, _ = self.path.read_bytes().rpartition(b"\n")
        os.truncate(self._file, len(whole) + len(newline))
        for number, text in enumerate(whole.split(b"\n") if whole else (), start=1):
            self._take(text, number)

    def _take(self, text: bytes, number: int) -> None:
        """Take a line; the later one of two about the same cell counts."""
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict) or (number == 1 and line.get("format") != FORMAT):
            raise bad_file(self.path, f"line {number}", "is not one of a sweep's journal; move the file away")
        if line.get("format") == FORMAT:
            self._take_header(line, number)
        elif isinstance(line.get("cell"), dict) and isinstance(line.get("row"), dict):
            self._take_cell(line, number)
        else:
            raise bad_file(self.path, f"line {number}", "is neither a header nor a cell; move the file away")

    def _take_header(self, line: dict[str, Any], number: int) -> None:
        """Take who computed what follows."""
        version = line.get("version")
        if version != VERSION:
            fault = f"is {shown(version)}, this program reads version {VERSION}; move the file away"
            raise bad_file(self.path, f"line {number}", "version", fault)
        if not isinstance(line.get("provenance"), dict):
            raise bad_file(self.path, f"line {number}", "does not say who computed what follows; move the file away")
        self.origins.append(line["provenance"])

    def _take_cell(self, line: dict[str, Any], number: int) -> None:
        """Take a cell and its row."""
        try:
            self.records[digest(line["cell"])] = line
        except ValueError:
            fault = "holds a value that no sweep writes, such as NaN; move the file away"
            raise bad_file(self.path, f"line {number}", fault) from None


def journal_of(output: Path) -> Path:
    """Return the journal of a table."""
    return output.with_name(f"{output.name}.journal")


def _lock(path: Path, shown_path: Path) -> int:
    """Open a file to append to, and lock it for this process; no other program that it starts inherits it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        # A pipe or a device has no end to read to.
        os.close(file)
        raise bad_file(shown_path, "is no regular file; move it away")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise UsageError(f"{shown_path} is in use: another sweep is writing it") from None
    return file


def _write(file: int, data: bytes) -> None:
    """Write all of some data through to the disk."""
    while data:
        data = data[os.write(file, data) :]
    os.fsync(file)
