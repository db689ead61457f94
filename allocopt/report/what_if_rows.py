"""The rows of a what-if comparison, each beside its baseline."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from allocopt.report.combination import baseline
from allocopt.report.what_if import WhatIfRow
from allocopt.report.what_if_groups import GroupRow, beside_baselines
from allocopt.tables import RowTable


@dataclass(slots=True, kw_only=True)
class WhatIfRows:
    """Rows of combinations and of groups of jobs so far, with their changes relative to the first combination.

    Parameters
    ----------
    granted
        Ratio of the processors that jobs hold to those that they requested; None if it is not known.
    """

    granted: float | None = None
    _rows: list[WhatIfRow] = field(default_factory=list, init=False)
    _groups: list[GroupRow] = field(default_factory=list, init=False)

    @property
    def combinations(self) -> RowTable[WhatIfRow]:
        """A row for each combination of allocator and scheduler, and for the site's record if there is one."""
        return RowTable(tuple(self._rows))

    @property
    def groups(self) -> RowTable[GroupRow]:
        """A row for each group of jobs and combination; none if jobs are not grouped."""
        return RowTable(tuple(self._groups))

    def add(self, held: Mapping[str, Any]) -> tuple[WhatIfRow, list[GroupRow]]:
        """Add the stored rows of one combination; return them beside their baselines."""
        row = replace(WhatIfRow.stored(held["row"]), granted=self.granted)
        row = row.beside(baseline([*self._rows, row]))
        own = beside_baselines([GroupRow.stored(each) for each in held["groups"]], self._groups)
        self._rows.append(row)
        self._groups += own
        return row, own
