"""Tables and figures of papers that can be done again, found through the entry points ``allocopt.reproductions``."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from allocopt.plugins import make_plugin, plugin_names

GROUP = "allocopt.reproductions"

Records = Mapping[str, Mapping[str, Any]]
"""What was measured, by piece."""


@dataclass(frozen=True, slots=True)
class ReproductionRequest:
    """What a user asks of a reproduction.

    Parameters
    ----------
    data
        Folder with the data, which are not part of the project.
    is_quick
        Whether it may take a minute only; else it has the size of the paper.
    seeds
        Fix every random choice; there is at least one.
    """

    data: Path
    is_quick: bool
    seeds: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return what records depend on."""
        return {"data": str(self.data), "is_quick": self.is_quick, "seeds": list(self.seeds)}


@dataclass(frozen=True, slots=True)
class ReproductionRow:
    """One number of a table or figure.

    Parameters
    ----------
    artifact
        Name of the reproduction.
    row, column
        Where the number stands.
    published
        What the paper prints; None where it prints nothing.
    ours
        What was measured; None where it could not be.
    spread
        Standard deviation of what ``ours`` is the mean of; None for a single value.
    n
        Number of windows, simulations or updates behind it.
    """

    artifact: str
    row: str
    column: str
    published: float | None
    ours: float | None
    spread: float | None
    n: int

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


class Reproduction(Protocol):
    """A table or figure that can be done again, piece by piece."""

    @property
    def name(self) -> str:
        """Name under which it is asked for."""

    @property
    def title(self) -> str:
        """What it is, in a line."""

    def pieces(self, request: ReproductionRequest) -> Sequence[str]:
        """Return the keys of the pieces, each of which can be measured alone."""

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Measure one piece.

        Parameters
        ----------
        request
            What is asked for.
        piece
            One of `pieces`.

        Returns
        -------
        dict
            A record that JSON can hold.

        Raises
        ------
        BadFileError
            If data are missing.
        """

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Turn the records of all pieces into rows."""


def reproduction_names() -> list[str]:
    """Names of all reproductions that are installed, sorted."""
    return plugin_names(GROUP)


def get_reproduction(name: str, options: Mapping[str, Any] | None = None) -> Reproduction:
    """Make the reproduction of that name; see `allocopt.plugins.make_plugin`."""
    return cast(Reproduction, make_plugin(GROUP, "reproduction", name, options, ("title", "pieces", "measure", "rows")))
