"""Files of rows, a JSON object per line, to which measurements are appended as they end."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

R = TypeVar("R")


def rows_in(path: Path, kind: Callable[..., R]) -> list[R]:
    """Return the rows of a file; none if it does not exist."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [kind(**json.loads(line)) for line in lines]


def append_row(path: Path, row: NamedTuple) -> None:
    """Append a row to a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row._asdict()) + "\n")
