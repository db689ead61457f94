"""Lists of flat JSON objects as rows of a table whose columns are their keys."""

import json
from collections.abc import Sequence
from pathlib import Path

from allocopt.files.faults import bad_file
from allocopt.traces.csv_columns import Columns
from allocopt.traces.rows import Rows


def rows_of_objects(path: Path, objects: object, columns: Columns) -> Rows:
    """Return the rows; raise `BadFileError` if there are none, or one is not an object."""
    if not isinstance(objects, Sequence) or isinstance(objects, str) or not objects:
        raise bad_file(path, "holds no jobs")
    for number, one in enumerate(objects):
        if not isinstance(one, dict):
            raise bad_file(path, f"job {number}", "must be an object")
    header = list(dict.fromkeys(key for one in objects for key in one))
    cells = [[_text(one.get(key)) for key in header] for one in objects]
    return Rows(path, header, list(range(len(cells))), cells, columns, "job", -1)


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
