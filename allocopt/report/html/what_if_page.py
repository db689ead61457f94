"""The page of a comparison that runs: it takes one combination after the other."""

from pathlib import Path

from allocopt.report.html.page import write_report
from allocopt.report.html.sections.what_if import Combination, what_if_section
from allocopt.report.html.timeline import Timeline
from allocopt.report.what_if import WhatIfRow
from allocopt.simulator.schedule import Schedule


class WhatIfPage:
    """A page that is written when all combinations are there.

    Parameters
    ----------
    path
        The file.
    source
        What was simulated, on what.
    """

    def __init__(self, path: Path, source: str) -> None:
        self._path, self._source = path, source
        self._combinations: list[Combination] = []

    def add(self, row: WhatIfRow, schedule: Schedule, node_names: tuple[str, ...]) -> None:
        """Take a combination: its row, its schedule, and what the nodes are called."""
        self._combinations.append(Combination(row, Timeline.of(schedule, node_names)))

    def write(self) -> None:
        """Write the page.

        Raises
        ------
        BadFileError
            If the file cannot be written.
        """
        write_report(self._path, f"What if: {self._source}", [what_if_section("", self._combinations)])
