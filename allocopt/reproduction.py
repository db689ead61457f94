"""Tables and figures of papers that can be done again.

They are those of the folder ``papers`` of a checkout, and those that other packages bring through the entry points
``allocopt.reproductions``.
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
"""What was measured, by piece."""


@dataclass(frozen=True, slots=True)
class ReproductionRequest:
    """What a user asks of a reproduction: the folder of the data, and the paper's size or one of a minute."""

    data: Path
    is_quick: bool
    seeds: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return what records depend on."""
        return {"data": str(self.data), "is_quick": self.is_quick, "seeds": list(self.seeds)}


@dataclass(frozen=True, slots=True)
class ReproductionRow:
    """One number of a table or figure, by its reproduction and where it stands there.

    ``published`` is None where the paper prints nothing, ``ours`` where nothing could be measured. ``spread`` is the
    standard deviation of what ours is the mean of, None for a single value; ``n`` windows, simulations or updates are
    behind it.
    """

    artifact: str
    row: str
    column: str
    published: float | None
    ours: float | None
    spread: float | None
    n: int


class Reproduction(Protocol):
    """A table or figure that can be done again, piece by piece."""

    @property
    def name(self) -> str:
        """Name under which it is asked for."""

    @property
    def title(self) -> str:
        """Title, in a line."""

    def pieces(self, request: ReproductionRequest) -> Sequence[str]:
        """Return the keys of the pieces, each of which can be measured alone."""

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Measure one of `pieces` as a record that JSON can hold; raises `BadFileError` if data are missing."""

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Turn the records of all pieces into rows."""


class _PaperReproduction(Reproduction, Protocol):
    def with_options(self, options: Mapping[str, Any]) -> Reproduction: ...


@cache
def _of_the_papers() -> Mapping[str, _PaperReproduction]:
    """Return what stands in the folder ``papers`` of a checkout, beside this package; nothing without a checkout."""
    # A name alone does not do: whoever installed a wheel may have a package or a folder of that name.
    if not (Path(__file__).resolve().parents[1] / "papers" / "artifact.py").is_file():
        return {}
    with redirect_stdout(sys.stderr), Fence("the folder papers"):
        return cast(Mapping[str, _PaperReproduction], import_module("papers").artifacts())


def reproduction_names() -> list[str]:
    """Names of all reproductions that are there, sorted: those of the papers, and of other packages."""
    names = sorted({*_of_the_papers(), *plugin_names(GROUP)})
    if not names:
        raise MissingPackageError(_NEEDS_CHECKOUT)
    return names


def get_reproduction(name: str, options: Mapping[str, Any] | None = None) -> Reproduction:
    """Make the reproduction of that name: one of the papers, or else another package's."""
    papers, others = _of_the_papers(), plugin_names(GROUP)
    if name in papers:
        if name in others:
            what = f"reproduction {name!r} is that of the papers"
            warnings.warn(f"{what}; the one of another package is left out: it needs another name", PluginWarning, 2)
        return papers[name].with_options(options or {})
    if name in others:
        made = make_plugin(GROUP, "reproduction", name, options, ("title", "pieces", "measure", "rows"))
        return cast(Reproduction, made)
    if not papers:
        raise MissingPackageError(f"there is no reproduction {name!r} here: {_NEEDS_CHECKOUT}")
    raise no_such_part("reproduction", name, reproduction_names())
