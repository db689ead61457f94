"""Results as tables: columns by name, for pandas, polars and everything that reads Arrow."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from importlib import import_module
from typing import Any

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.errors import MissingPackageError

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
        return _package("polars").DataFrame(dict(self.columns()))

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True)
class ResultTable(Tabular):
    """A table of columns."""

    by_name: Mapping[str, Column]

    @classmethod
    def of_rows(cls, rows: Iterable[Any]) -> "ResultTable":
        """Return the table of dataclasses, named tuples or mappings that have the same fields."""
        found = [_fields(row) for row in rows]
        return cls({name: [row[name] for row in found] for name in (found[0] if found else ())})

    def columns(self) -> Mapping[str, Column]:
        return self.by_name


def _fields(row: Any) -> Mapping[str, Any]:
    """Return the fields of a row by name."""
    if isinstance(row, Mapping):
        return row
    if is_dataclass(row) and not isinstance(row, type):
        return asdict(row)
    fields: dict[str, Any] = row._asdict()
    return fields


def _package(name: str) -> Any:
    """Import a package; raise `MissingPackageError` if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingPackageError.of("this conversion needs", name) from None
