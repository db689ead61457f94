"""The parts that all tables and figures share: requests, measurements, and numbers with their spread."""

import csv
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple, TypeVar, get_type_hints

import numpy as np

from allocopt.files.faults import bad_file
from allocopt.plugins import option_values
from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.training import Training, TrainingProgress, TrainingRequest

Record = dict[str, Any]
Printed = dict[str, dict[str, float]]
"""Numbers that a paper prints in a table or figure, by row and column."""
T = TypeVar("T")
PIECE = re.compile(r"seed (\d+)(?:[:,] )?(.*)")


@dataclass(frozen=True, slots=True)
class Asked(ReproductionRequest):
    """A request with the options of all artifacts; each artifact uses some of them.

    Raises `BadFileError` if the folder ``trained`` does not exist.
    """

    # Folder with trainings, whose weights are used instead of the shipped ones. If an agent has several trainings, mean
    # and spread are shown.
    trained: str = ""
    load: float = 0.75  # Load of Figure 10 of the DRAS paper outside the surge, positive
    agent: str = "pg"  # ``pg`` or ``a2c``
    entropy: float = -1.0  # Weight of the policy's entropy in a training; negative for the usual one

    def __post_init__(self) -> None:
        if self.trained and not Path(self.trained).is_dir():
            raise bad_file(self.trained, "no such folder; must be a folder with trainings")

    def size(self, full: T, quick: T) -> T:
        """Return the size of the paper, or that of a quick run."""
        return quick if self.is_quick else full


class Number(NamedTuple):
    """A number of a table or figure; see `ReproductionRow`."""

    row: str
    column: str
    ours: float | None
    published: float | None = None
    n: int = 1
    spread: float | None = None


def mean_of(
    row: str, column: str, values: Iterable[float], published: float | None = None, n: int | None = None
) -> Number:
    """Return the mean and standard deviation of some values; ``n`` is their number by default."""
    known = list(values)
    spread = stdev(known) if len(known) > 1 else None
    return Number(row, column, fmean(known), published, len(known) if n is None else n, spread)


def means_over(numbers: Iterable[Number], row_of: Callable[[str], str]) -> Iterator[Number]:
    """Return the means of the known numbers, grouped by column and by the name that ``row_of`` gives their rows."""
    groups: dict[tuple[str, str], list[Number]] = {}
    for number in (number for number in numbers if number.ours is not None):
        groups.setdefault((row_of(number.row), number.column), []).append(number)
    for (row, column), group in groups.items():
        yield mean_of(row, column, [float(one.ours or 0) for one in group], None, sum(one.n for one in group))


@dataclass(frozen=True, slots=True)
class Artifact:
    """A reproducible table or figure of a paper: an `allocopt.reproduction.Reproduction` made of functions.

    ``keys`` returns the pieces of a request, ``record`` measures one piece, ``numbers`` turns all records into numbers.
    ``takes`` lists the options of `Asked` that it uses, ``options`` holds the given values.
    """

    name: str
    title: str
    keys: Callable[[Asked], Sequence[str]]
    record: Callable[[Asked, str], Record]
    numbers: Callable[[Records], Iterable[Number]]
    takes: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def with_options(self, options: Mapping[str, Any]) -> "Artifact":
        """Return the artifact with values for its options; raises `UsageError` for other options."""
        known = {name: kind for name, kind in get_type_hints(Asked).items() if name in self.takes}
        return replace(self, options=option_values(f"reproduction {self.name!r}", known, options))

    def pieces(self, request: ReproductionRequest) -> Sequence[str]:
        """Return the keys of the pieces."""
        return self.keys(self._asked(request))

    def measure(self, request: ReproductionRequest, piece: str) -> Record:
        """Measure a piece."""
        return self.record(self._asked(request), piece)

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return the rows of all pieces."""
        return [ReproductionRow(self.name, **number._asdict()) for number in self.numbers(records)]

    def _asked(self, request: ReproductionRequest) -> Asked:
        return Asked(request.data, request.is_quick, request.seeds, **self.options)


def published(paper: str) -> dict[str, Printed]:
    """Return the numbers that a paper prints, by table, from the ``published.toml`` of its folder."""
    text = (Path(__file__).parent / paper / "published.toml").read_text(encoding="utf-8")
    found = {}
    for name, table in tomllib.loads(text).items():
        columns = table.pop("columns")
        found[name] = {row: dict(zip(columns, values, strict=True)) for row, values in table.items()}
    return found


def seed_and_name(piece: str) -> tuple[int, str]:
    """Return the seed and the rest of a piece's key such as ``seed 3``, ``seed 3: fcfs`` or ``seed 3, cnn-1``."""
    match = PIECE.fullmatch(piece)
    assert match is not None, piece
    return int(match[1]), match[2]


def progress_of(training: Training, seed: int, name: str) -> list[TrainingProgress]:
    """Train for a reproduction, and return the measures after every update."""
    with tempfile.TemporaryDirectory() as folder:
        return list(training.train(TrainingRequest(Path(folder), seed, None, False, f"allocopt reproduce {name}")))


def read_curve(path: Path) -> list[dict[str, float]]:
    """Read the learning curve that a training wrote."""
    with path.open(encoding="utf-8") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def evenly(n: int, points: int) -> list[int]:
    """Return evenly spread indices of points of a curve of length ``n``, including the first and the last."""
    places: list[int] = np.unique(np.linspace(0, n - 1, min(points, n)).round().astype(np.int64)).tolist()
    return places
