"""Keeps the rows of finished cells in an SQLite file beside their table, so that an interrupted run can continue.

Tables: ``meta`` (format and setting), ``runs`` (provenance and progress of each run), ``cells`` (one row per cell).
"""

import fcntl
import json
import os
import socket
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from allocopt.errors import BadFileError, UsageError
from allocopt.experiments.cells import Cell, Grid, Row
from allocopt.files.faults import bad_file, write_faults_named
from allocopt.files.models import FileModel
from allocopt.files.writing import compact_json

_FORMAT, _VERSION = "allocopt-cells", "1"
_SCHEMA = f"""
BEGIN;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO meta VALUES ('format', '{_FORMAT}'), ('version', '{_VERSION}');
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, provenance TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL,
    total INTEGER NOT NULL, kept INTEGER NOT NULL, running INTEGER NOT NULL, started REAL NOT NULL, seen REAL NOT NULL
);
CREATE TABLE cells (
    key TEXT PRIMARY KEY, run INTEGER NOT NULL, times INTEGER NOT NULL, cell TEXT NOT NULL, row TEXT NOT NULL,
    fault TEXT
);
COMMIT;
"""
_BEGIN = """
INSERT INTO runs (provenance, host, pid, total, kept, running, started, seen)
VALUES (:provenance, :host, :pid, :total, :kept, 0, :now, :now)
"""
_ADD = """
INSERT INTO cells (key, run, times, cell, row, fault) VALUES (?, ?, 1, ?, ?, ?)
ON CONFLICT (key) DO UPDATE
SET run = excluded.run, times = times + 1, cell = excluded.cell, row = excluded.row, fault = excluded.fault
"""
_ALL = "SELECT key, cell, row, fault FROM cells ORDER BY rowid"
_LAST = """
SELECT host, pid, total, kept, running, started, seen,
    (SELECT count(*) FROM cells WHERE run = id), (SELECT count(fault) FROM cells WHERE run = id)
FROM runs ORDER BY id DESC LIMIT 1
"""
_BUSY_S = 60.0  # How long a reader and the writer wait for each other
_TELL_S = 1.0  # Least time between two updates of the number of running cells
_SPARE = 3.0  # Least time between two writes, as a multiple of the time of the last write


_DAMAGED = "is damaged; move the file away"
_Count = Annotated[int, Field(ge=0, le=10**12)]
_Instant = Annotated[float, Field(ge=0, le=1e11)]  # seconds since 1970, up to the year 5138


class _Run(FileModel):
    """A row of the table of runs, in the order of `_LAST`."""

    host: str
    pid: Annotated[int, Field(ge=1, le=2**31 - 1)]
    total: _Count
    kept: _Count
    running: _Count
    started: _Instant
    seen: _Instant


class Store:
    """Rows by cell, in ``OUTPUT.sqlite``, which only one process at a time may use, or in memory without an output.

    All rows depend on the ``setting``. A store with another setting is refused; None accepts any.
    """

    def __init__(
        self, output: Path | None, provenance: Mapping[str, str], setting: Mapping[str, Any] | None = None
    ) -> None:
        self.path = Path(":memory:") if output is None else Store.path_of(output)
        self._provenance = compact_json(provenance)
        self._run: int | None = None
        self._told, self._written, self._writing_s = 0, 0.0, 0.0
        self._pending: list[tuple[object, ...]] = []
        self._faults: dict[str, str | None] = {}
        self._rows: dict[str, Row] = {}
        self._identities: dict[str, Row] = {}
        # SQLite locks a file only during a transaction, so two runs could otherwise run the same cells.
        self._lock = None if output is None else _locked(output)
        try:
            with _faults_named(self.path):
                # Every change begins a transaction, which ends with the context `self._file`.
                self._file = sqlite3.connect(self.path, _BUSY_S, isolation_level="IMMEDIATE")
                if not _has_tables(self._file, self.path):
                    self._file.executescript(_SCHEMA)
                # Truncating the rollback journal at every write is faster than deleting it.
                self._file.execute("PRAGMA journal_mode = TRUNCATE")
                for key, cell, row, fault in self._file.execute(_ALL):
                    if not isinstance(key, str) or not isinstance(fault, str | None):
                        raise bad_file(self.path, f"cell {key!r}", _DAMAGED)
                    self._identities[key] = _object(self.path, f"cell {key}", cell)
                    self._rows[key] = _object(self.path, f"cell {key}", row)
                    self._faults[key] = fault
                held = self._file.execute("SELECT value FROM meta WHERE name = 'setting'").fetchone()
                # Compare as JSON, which turns tuples into lists.
                new = json.loads(compact_json(setting))
                old = {} if held is None else _object(self.path, "setting", held[0])
                names = [] if new is None else [name for name in {**old, **new} if old.get(name) != new.get(name)]
                if self._rows and names:
                    raise UsageError(
                        f"{self.path} belongs to another run (it differs in {', '.join(names)}): "
                        "finish that run, name another output, or remove the file"
                    )
                if new is not None:
                    with self._file:
                        self._file.execute("INSERT OR REPLACE INTO meta VALUES ('setting', ?)", (compact_json(new),))
        except BaseException:
            self._close()
            raise

    @staticmethod
    def path_of(output: Path) -> Path:
        """Return the file in which the rows of a table are kept."""
        return output.with_name(f"{output.name}.sqlite")

    def rows(self) -> dict[str, Row]:
        """Return the rows of the cells that did not fail, by key."""
        return {key: row for key, row in self._rows.items() if self._faults[key] is None}

    def faults(self) -> dict[str, str]:
        """Return the faults of failed cells by key."""
        return {key: fault for key, fault in self._faults.items() if fault is not None}

    def begin(self, total: int, kept: int) -> None:
        """Record that a run of ``total`` cells begins, of which ``kept`` are finished."""
        run = {"provenance": self._provenance, "host": socket.gethostname(), "pid": os.getpid(), "now": time.time()}
        with _faults_named(self.path), self._file:
            self._run = self._file.execute(_BEGIN, {**run, "total": total, "kept": kept}).lastrowid

    def add(self, cell: Cell, row: Row, fault: str | None = None) -> None:
        """Add the row of a cell, and its fault if it failed; `commit` writes it."""
        self._pending.append((cell.key, self._run, compact_json(cell.identity), compact_json(row), fault))
        self._rows[cell.key], self._identities[cell.key], self._faults[cell.key] = row, cell.identity, fault

    def commit(self, running: int, *, at_once: bool) -> bool:
        """Write the rows that were added and the number of running cells; return whether all rows are on disk.

        If not ``at_once``, rows wait until the time since the last write is several times as long as that write took: a
        disk takes milliseconds, for one row or for a hundred.
        """
        begun = time.monotonic()
        is_news = running != self._told and begun - self._written > _TELL_S
        if not is_news and (not self._pending or (not at_once and begun - self._written < _SPARE * self._writing_s)):
            return not self._pending
        with _faults_named(self.path), self._file:
            self._file.executemany(_ADD, self._pending)
            self._file.execute("UPDATE runs SET running = ?, seen = ? WHERE id = ?", (running, time.time(), self._run))
        self._pending, self._told, self._written = [], running, time.monotonic()
        self._writing_s = self._written - begun
        return True

    def is_of_another_program(self) -> bool:
        """Whether rows were computed by another version or commit, or on another machine."""
        with _faults_named(self.path):
            found = self._file.execute("SELECT provenance FROM runs WHERE id IN (SELECT run FROM cells)")
            return any(who != self._provenance for (who,) in found)

    def stale(self, grid: Grid) -> list[str]:
        """Return the keys of rows whose cells are not in a grid."""
        current = {cell.key for cell in grid.cells}
        return [key for key in self._rows if key not in current]

    def stale_remark(self, grid: Grid, keys: Sequence[str]) -> str:
        """Return a line that counts stale rows, and states why the first one is stale."""
        old = self._identities[keys[0]]
        label = Cell.label_of(old)
        why = "it is no longer in the grid"
        new = next((cell.identity for cell in grid.cells if cell.label == label), None)
        if new is not None:
            changed = [name for name in dict.fromkeys([*new, *old]) if old.get(name) != new.get(name)]
            words = {"content": "the content of its input has changed"}
            why = ", ".join(words.get(name, f"{name} was {old.get(name)}, is {new.get(name)}") for name in changed)
        count = f"{len(keys)} cell{'' if len(keys) == 1 else 's'} in {self.path} left out"
        return f"{count}, such as {label}: {why}; --drop-stale removes them"

    def drop(self, keys: Collection[str]) -> None:
        """Remove the rows of some cells."""
        with _faults_named(self.path), self._file:
            self._file.executemany("DELETE FROM cells WHERE key = ?", [(key,) for key in keys])
        for key in keys:
            del self._rows[key], self._identities[key], self._faults[key]

    def remove(self) -> None:
        """Discard all rows, so that `close` removes the file; called when the table is written."""
        self._pending, self._rows = [], {}

    def close(self) -> None:
        """Write added rows and release the file to other processes; remove it if it has no rows."""
        # Faults of the file have been reported before. The lock must be released in any case.
        with suppress(BadFileError):
            self.commit(0, at_once=True)
            with _faults_named(self.path):
                with self._file:
                    self._file.execute("UPDATE runs SET running = 0 WHERE id = ?", (self._run,))
                # Remove the rollback journal.
                self._file.execute("PRAGMA journal_mode = DELETE")
        self._close(is_kept=bool(self._rows))

    def _close(self, *, is_kept: bool = True) -> None:
        if hasattr(self, "_file"):
            self._file.close()
        if self._lock is not None:
            if not is_kept:
                self.path.unlink(missing_ok=True)
            _lock_of(self.path).unlink(missing_ok=True)
            os.close(self._lock)


@dataclass(frozen=True, slots=True)
class Status:
    """Progress of the last run of a grid, in cells."""

    total: int
    done: int  # Including failed cells
    failed: int
    running: int  # 0 if the run has ended
    before: int  # Finished before the run began
    gone_s: float  # Seconds since the run began, until now or its end

    @classmethod
    def read(cls, output: Path) -> "Status":
        """Return the progress of the run that writes, or has written, a table; takes no lock."""
        path = Store.path_of(output)
        if not path.is_file():
            raise bad_file(path, "does not exist: nothing has been run")
        # Open for writing: if a run was killed during a write, SQLite rolls it back when the file is opened.
        with (
            _faults_named(path),
            closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", _BUSY_S, uri=True)) as file,
        ):
            found = file.execute(_LAST).fetchone() if _has_tables(file, path) else None
        if found is None:
            raise bad_file(path, "has no run yet")
        *stored, new, failed = found
        try:
            run = _Run(**dict(zip(_Run.model_fields, stored, strict=True)))
        except ValueError:
            raise bad_file(path, "the last run", _DAMAGED) from None
        is_on = run.running > 0
        if run.host == socket.gethostname():
            try:
                os.kill(run.pid, 0)
            except ProcessLookupError:
                is_on = False
            except PermissionError:
                pass  # It exists and belongs to another user
        gone_s = (time.time() if is_on else run.seen) - run.started
        return cls(run.total, run.kept + new, failed, run.running * is_on, run.kept, gone_s)

    @property
    def left(self) -> int:
        """Number of cells that are not finished."""
        return self.total - self.done

    @property
    def left_s(self) -> float | None:
        """Estimated seconds for the remaining cells, at the rate of this run; None if it has finished no cell yet."""
        new = self.done - self.before
        return self.gone_s * self.left / new if new else None

    def line(self, noun: str = "cells") -> str:
        """Return a line with the counts, the elapsed time, the rate and the time left."""
        parts = [f"{self.done} of {self.total} {noun}"]
        parts += [f"{count} {name}" for name, count in (("failed", self.failed), ("running", self.running)) if count]
        parts.append(f"{timedelta(seconds=round(self.gone_s))} elapsed")
        if self.done > self.before:
            # Avoid a division by 0 just after the beginning.
            parts.append(f"{(self.done - self.before) / max(self.gone_s, 1e-3):.3g}/s")
        if self.left:
            left = None if self.left_s is None else timedelta(seconds=round(self.left_s))
            parts.append("time left unknown" if left is None else f"about {left} left")
        return ", ".join(parts)


def _lock_of(path: Path) -> Path:
    # A separate file: locks that SQLite holds on the store would end if this process closed another handle of it.
    return path.with_name(f"{path.name}.lock")


def _locked(output: Path) -> int:
    if output.is_dir():
        raise bad_file(output, "cannot be written: is a directory, must be a file")
    path = Store.path_of(output)
    lock = _lock_of(path)
    with write_faults_named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise bad_file(path, "is not a regular file; move it away")
        while True:
            file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                raise UsageError(f"{path} is in use: another run is writing it") from None
            # The previous owner of the lock may have removed the file in the meantime; then try again.
            with suppress(FileNotFoundError):
                if os.fstat(file).st_ino == lock.stat().st_ino:
                    return file
            os.close(file)


def _has_tables(file: sqlite3.Connection, path: Path) -> bool:
    tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
    if not tables:
        return False
    held = dict(file.execute("SELECT name, value FROM meta").fetchall()) if "meta" in tables else {}
    if held.get("format") != _FORMAT:
        raise bad_file(path, "is not a store of rows; move the file away")
    if held.get("version") != _VERSION:
        fault = f"is {held.get('version')}, this program reads version {_VERSION}; move the file away"
        raise bad_file(path, "version", fault)
    return True


def _object(path: Path, place: str, text: object) -> Row:
    """Return a JSON object that is stored as text; raise `BadFileError` if it is something else."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise bad_file(path, place, _DAMAGED)
    return found


@contextmanager
def _faults_named(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise bad_file(path, f"cannot be used: {error}") from None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise bad_file(path, f"is damaged or not a store of rows ({error}); move the file away") from None
