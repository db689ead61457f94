"""Best-known values: the best objective known of each instance under each strategy, in a file beside the instances."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, RootModel

from allocopt.files.faults import bad_file
from allocopt.files.models import InstanceName
from allocopt.files.reading import parse_json, read_text
from allocopt.files.validation import FileModel, validated
from allocopt.files.writing import json_by_line, write_text
from allocopt.problems.kind import get_kind, kind_names

FILE_NAME = "best_known.json"
"""Name of the file in a folder of instances."""


NO_STRATEGY = ""
"""The key that stands for the strategy of problems of a kind without strategies."""


def _strategy(name: str) -> str:
    known = [NO_STRATEGY, *(strategy for kind in kind_names() for strategy in get_kind(kind).strategies)]
    if name not in known:
        raise ValueError(f"is {name!r}, must be one of {', '.join(map(repr, known))}")
    return name


class BestKnownModel(FileModel):
    """The best objective known of one instance (under one strategy)."""

    objective: Annotated[float, Field(description="Objective, such as total hop cost.")]
    proved: Annotated[bool, Field(description="Whether it is proved to be the optimum.")]


class BestKnownFile(RootModel[dict[InstanceName, dict[Annotated[str, AfterValidator(_strategy)], BestKnownModel]]]):
    """The best objectives known, by instance name and strategy; an empty one where the kind has no strategies."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True, defer_build=True)


@dataclass(frozen=True, slots=True)
class BestKnown:
    """The best objective known.

    Parameters
    ----------
    objective
        Total hop cost.
    proved
        Whether it is proved to be the optimum.
    """

    objective: float
    proved: bool


BestKnownValues = dict[str, dict[str, BestKnown]]
"""Best-known values by instance name and strategy."""


def read_best_known(path: Path | str) -> BestKnownValues:
    """Read best-known values by instance name and strategy.

    Raises
    ------
    BadFileError
        If the file cannot be read or anything in it is wrong.
    """
    path = Path(path)
    model = validated(BestKnownFile, parse_json(read_text(path), path), path)
    return {
        name: {strategy: BestKnown(value.objective, value.proved) for strategy, value in values.items()}
        for name, values in model.root.items()
    }


def write_best_known(path: Path | str, values: Mapping[str, Mapping[str, BestKnown]]) -> None:
    """Write best-known values, one instance a line.

    Raises
    ------
    BadFileError
        If the file cannot be written, or would not be read again.
    """
    path = Path(path)
    obj = {
        name: {str(strategy): {"objective": best.objective, "proved": best.proved} for strategy, best in known.items()}
        for name, known in values.items()
    }
    validated(BestKnownFile, obj, f"{path}: cannot be written")
    write_text(path, json_by_line(obj))


def best_known_beside(paths: Iterable[Path | str]) -> BestKnownValues:
    """Merge the best-known values that lie in the folders of instance files.

    Parameters
    ----------
    paths
        Instance files; a folder without best-known values adds none.

    Raises
    ------
    BadFileError
        If a file cannot be read, or two folders state different values of one instance.
    """
    merged: BestKnownValues = {}
    for folder in dict.fromkeys(Path(path).parent for path in paths):
        if (folder / FILE_NAME).exists():
            _merge(merged, read_best_known(folder / FILE_NAME), folder / FILE_NAME)
    return merged


def _merge(merged: BestKnownValues, values: BestKnownValues, path: Path) -> None:
    """Add the values of one file."""
    for name, known in values.items():
        for strategy, best in known.items():
            other = merged.setdefault(name, {}).setdefault(strategy, best)
            if other != best:
                fault = f"is {best.objective:g}, but another folder of this call says {other.objective:g}"
                raise bad_file(path, f"{name}.{strategy}", fault)
