"""The journal of a sweep: finished cells, each on disk before the next one is waited for.

One line of JSON each: headers, which say who computed the cells behind them, and cells with their rows.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from allocopt.errors import BadFileError
from allocopt.experiments.cells import FAILED, digest
from allocopt.files.faults import bad_file, shown
from allocopt.files.journal import LockedLines
from allocopt.files.writing import compact_json

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
        if output.is_dir():
            raise bad_file(output, "cannot be written: is a directory, must be a file")
        self._journal = LockedLines(self.path, f'{{"format": "{FORMAT}"', "a sweep's")
        try:
            for number, text in enumerate(self._journal.lines, start=1):
                self._take(text, number)
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
        if not self.origins or self.origins[-1] != self._provenance:
            self._journal.append(compact_json({"format": FORMAT, "version": VERSION, "provenance": self._provenance}))
            self.origins.append(self._provenance)
        self._journal.append(compact_json({"cell": identity, "row": row}))
        self.records[key] = {"cell": dict(identity), "row": dict(row)}

    def drop(self, keys: Collection[str]) -> None:
        """Write the journal anew without some cells."""
        kept = [held for key, held in self.records.items() if key not in keys]
        lines = [{"format": FORMAT, "version": VERSION, "provenance": origin} for origin in self.origins] + kept
        self._journal.replace(map(compact_json, lines))
        self.records = {key: held for key, held in self.records.items() if key not in keys}

    def close(self) -> None:
        """Let another process have the journal."""
        self._journal.close()

    def _take(self, text: bytes, number: int) -> None:
        """Take a line; the later one of two about the same cell counts."""
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict):
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
