"""Tables and figures of papers that can be reproduced.

They are in the folder ``papers`` of a checkout, or in other packages with entry points ``allocopt.reproductions``.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from allocopt.errors import MissingPackageError, PluginWarning
from allocopt.plugins import Fence, make_plugin, no_such_part, plugin_names

GROUP = "allocopt.reproductions"
_NEEDS_CHECKOUT = (
    "the papers' tables and figures come with a checkout, not with the installed package; "
    "get them by `pip install -e .` in a clone of the repository"
)

Records = Mapping[str, Mapping[str, Any]]
"""Measured records by piece."""


@dataclass(frozen=True, slots=True)
class ReproductionRequest:
    """A user's request of a reproduction: the folder of the data, whether to take only about a minute, and seeds."""

    data: Path
    is_quick: bool
    seeds: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields on which records depend."""
        return {"data": str(self.data), "is_quick": self.is_quick, "seeds": list(self.seeds)}


@dataclass(frozen=True, slots=True)
class ReproductionRow:
    """One number of a table or figure, by reproduction, row and column.

    ``published`` is None if the paper prints no number, ``ours`` if nothing could be measured. If ``ours`` is a mean,
    ``spread`` is the standard deviation; otherwise it is None. ``n`` is the number of windows, simulations or updates.
    """

    artifact: str
    row: str
    column: str
    published: float | None
    ours: float | None
    spread: float | None
    n: int


class Reproduction(Protocol):
    """A table or figure that can be reproduced piece by piece."""

    @property
    def name(self) -> str:
        """Name of the reproduction."""

    @property
    def title(self) -> str:
        """Title, one line."""

    def pieces(self, request: ReproductionRequest) -> Sequence[str]:
        """Return the keys of the pieces, which can be measured independently."""

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Return the record of one of `pieces`, in types that JSON has; raise `BadFileError` if data are missing."""

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return the rows that follow from the records of all pieces."""


class _PaperReproduction(Reproduction, Protocol):
    def with_options(self, options: Mapping[str, Any]) -> Reproduction: ...


@cache
def _of_the_papers() -> Mapping[str, _PaperReproduction]:
    """Return the reproductions in the folder ``papers`` of a checkout; none without a checkout."""
    # Check the path, because users of an installed package may have another package or folder of that name.
    if not (Path(__file__).resolve().parents[1] / "papers" / "artifact.py").is_file():
        return {}
    with redirect_stdout(sys.stderr), Fence("the folder papers"):
        return cast(Mapping[str, _PaperReproduction], import_module("papers").artifacts())


def reproduction_names() -> list[str]:
    """Return the sorted names of all reproductions: those of the papers, and those of other packages."""
    names = sorted({*_of_the_papers(), *plugin_names(GROUP)})
    if not names:
        raise MissingPackageError(_NEEDS_CHECKOUT)
    return names


def get_reproduction(name: str, options: Mapping[str, Any] | None = None) -> Reproduction:
    """Return the reproduction of a name: one of the papers, or else one of another package."""
    papers, others = _of_the_papers(), plugin_names(GROUP)
    if name in papers:
        if name in others:
            what = f"reproduction {name!r} is that of the papers"
            warnings.warn(f"{what}; the one of another package is ignored and needs another name", PluginWarning, 2)
        return papers[name].with_options(options or {})
    if name in others:
        made = make_plugin(GROUP, "reproduction", name, options, ("title", "pieces", "measure", "rows"))
        return cast(Reproduction, made)
    if not papers:
        raise MissingPackageError(f"there is no reproduction {name!r} here: {_NEEDS_CHECKOUT}")
    raise no_such_part("reproduction", name, reproduction_names())
