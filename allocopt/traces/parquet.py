"""Parquet files, read as tables of text cells."""

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from allocopt.errors import MissingPackageError
from allocopt.files.faults import bad_file
from allocopt.files.reading import most_unpacked, read_bytes
from allocopt.traces.csv_columns import Columns
from allocopt.traces.records import Damage
from allocopt.traces.rows import Rows
from allocopt.traces.workload import Workload

_MOST_ROWS, _ROWS_AT_ONCE = 50_000_000, 1000


def read_parquet(path: Path, damage: Damage, columns: Columns | None = None) -> Workload:
    """Read the jobs of a Parquet file as those of a table.

    Raises `BadFileError` if the file cannot be read, `MissingPackageError` without pyarrow.
    """
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise MissingPackageError.of("Parquet files need", "pyarrow", extra="parquet") from None

    data = read_bytes(path)
    unpacked, most = 0, most_unpacked(len(data))

    def texts(column: Any) -> list[str]:
        nonlocal unpacked
        # Lists and other nested values cannot be cast to text; str() below handles them.
        with suppress(arrow.ArrowException):
            column = column.cast(arrow.string())
        unpacked += column.nbytes
        if unpacked > most:
            raise ValueError(f"it has more than {most} bytes when decompressed, which is the limit")
        return ["" if value is None else str(value) for value in column.to_pylist()]

    try:
        file = parquet.ParquetFile(arrow.BufferReader(data))
        if file.metadata.num_rows > _MOST_ROWS:
            raise ValueError(f"it has {file.metadata.num_rows} rows, must have at most {_MOST_ROWS}")
        cells: list[list[str]] = []
        names = file.schema_arrow.names
        for batch in file.iter_batches(_ROWS_AT_ONCE, use_threads=False):
            cells += map(list, zip(*map(texts, batch.columns), strict=True))
    except (arrow.ArrowException, OSError, ValueError, KeyError) as error:
        raise bad_file(path, f"cannot be read as Parquet: {[*str(error).splitlines(), ''][0]}") from None
    if not cells:
        raise bad_file(path, "holds no jobs")
    numbers = list(range(1, len(cells) + 1))
    return Rows(path, list(map(str, names)), numbers, cells, columns or Columns(), "row").workload(damage)
