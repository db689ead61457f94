"""Results as tables: columns by name, for pandas, polars and everything that reads Arrow."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.errors import MissingPackageError

R = TypeVar("R")

Column = Sequence[Any] | FloatArray | IntArray | BoolArray
"""Values of a column, one per row; None for a missing value."""


class Tabular(ABC):
    """A result that is a table.

    Each conversion needs its package, else it raises `MissingPackageError`. Through ``__arrow_c_stream__``, the Arrow
    PyCapsule interface, other packages read the table without a copy: ``polars.DataFrame(result)``,
    ``duckdb.sql("select * from result")``.
    """

    __slots__ = ()

    @abstractmethod
    def columns(self) -> Mapping[str, Column]:
        """Return the columns by name, all of the same length."""

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table``."""
        arrow = _package("pyarrow")
        return arrow.table({name: arrow.array(values) for name, values in self.columns().items()})

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``."""
        return _package("pandas").DataFrame(dict(self.columns()))

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame``."""
        # Not strict: a column may hold whole numbers beside others, as costs of two kinds of problems do.
        return _package("polars").DataFrame(dict(self.columns()), strict=False)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True)
class ResultTable(Tabular):
    """A table of columns."""

    by_name: Mapping[str, Column]

    @classmethod
    def of_rows(cls, rows: Iterable[Any]) -> "ResultTable":
        """Return the table of rows, which are dataclasses, named tuples or mappings; see `RowTable`."""
        found = [_fields(row) for row in rows]
        return cls({name: [_cell(row.get(name)) for row in found] for name in column_names(found)})

    def columns(self) -> Mapping[str, Column]:
        return self.by_name


@dataclass(frozen=True, slots=True)
class RowTable(Tabular, Generic[R]):
    """Rows that can be iterated and indexed, and a table with a column for each of their fields.

    A field with several values is a column of lists. A field that only some rows have is None in the others. Rows with
    a method ``as_dict`` have the columns that it returns. A table without rows has no columns.
    """

    # Not a `collections.abc.Sequence`: polars would read the rows as they are, not the columns.
    rows: tuple[R, ...]

    def columns(self) -> Mapping[str, Column]:
        return ResultTable.of_rows(self.rows).columns()

    def records(self) -> list[dict[str, Any]]:
        """Return the fields of each row by name."""
        return [dict(_fields(row)) for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[R]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> R:
        return self.rows[index]


def column_names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the columns of rows, in the order in which they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _cell(value: Any) -> Any:
    """Return a value of a row as data frames take it."""
    return [_cell(each) for each in value] if isinstance(value, tuple) else value


def _fields(row: Any) -> Mapping[str, Any]:
    """Return the fields of a row by name."""
    if isinstance(row, Mapping):
        return row
    if hasattr(row, "as_dict"):
        fields: dict[str, Any] = row.as_dict()
        return fields
    if is_dataclass(row) and not isinstance(row, type):
        return asdict(row)
    fields = row._asdict()
    return fields


def _package(name: str) -> Any:
    """Import a package; raise `MissingPackageError` if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingPackageError.of("this conversion needs", name) from None
