"""The instances that solution files are about: given, or found beside them."""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, shown
from allocopt.problems.base import Problem
from allocopt.problems.instances import read_problems

LARGEST_BYTES = 64_000_000
ENDINGS = (".json", ".json.gz", ".jsonl", ".jsonl.gz")


class Instances:
    """Instances by name.

    Parameters
    ----------
    given
        Files that are named.

    Raises
    ------
    BadFileError
        If one of them is wrong.
    """

    def __init__(self, given: Sequence[Path]) -> None:
        self._problems: dict[str, Problem] = {}
        self._read: set[Path] = set()
        for path in given:
            self._take(read_problems(path))

    def of(self, solution: Path, name: str) -> Problem:
        """Find an instance: among those given, then beside the solution and in the folder above, then as shipped.

        Raises
        ------
        BadFileError
            If there is none of that name.
        """
        for path in _beside(solution, name):
            if name in self._problems:
                break
            if path not in self._read:
                self._read.add(path)
                self._take(_problems(path))
        if name not in self._problems:
            fault = f"is {shown(name)}, of which there is no file here; --instance names it"
            raise bad_file(solution, "instance", fault)
        return self._problems[name]

    def _take(self, problems: Sequence[Problem]) -> None:
        """Keep problems; the first of a name stays."""
        for problem in problems:
            self._problems.setdefault(problem.name, problem)


def _beside(solution: Path, name: str) -> Iterator[Path]:
    """Yield the files that may hold an instance, those named like it first."""
    folder = solution.resolve().parent
    for place in (folder, folder.parent, folder.parent / "instances"):
        found = [path for ending in ENDINGS for path in sorted(place.glob(f"*{ending}"))]
        yield from sorted(found, key=lambda path: not path.name.startswith(f"{name}."))
    for shipped in files("allocopt.data").iterdir():
        if shipped.name.endswith(".jsonl"):
            yield Path(str(shipped))


def _problems(path: Path) -> list[Problem]:
    """Read a file that may hold anything; what is no instance holds none, and what is very large is not looked into."""
    if path.stat().st_size > LARGEST_BYTES:
        return []
    try:
        return read_problems(path)
    except BadFileError:
        return []
