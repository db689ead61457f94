"""What a command reads is not overwritten by what it writes, nor one output by another."""

import os
from collections.abc import Iterable
from pathlib import Path


def check_files_differ(*paths: Path | None, read: Iterable[Path | None] = ()) -> None:
    """Raise `UsageError` where two of the files that a command reads and writes are the same.

    Parameters
    ----------
    paths
        All of them, None for those that are not asked for. Folders, pipes and devices are let pass: nothing of them is
        lost.
    read
        More files that are read, each of which may be named several times.

    Raises
    ------
    UsageError
        If one is named twice, however it is spelt.
    """
    from allocopt.errors import UsageError

    files = [*_places(paths), *set(_places(read))]
    for path in files:
        if files.count(path) > 1:
            raise UsageError(f"{path} is named twice: what is read and what is written must be different files")


def _places(paths: Iterable[Path | None]) -> list[str]:
    """Return where the files of some paths are."""
    named = [_without_choice(path) for path in paths if path is not None]
    return [os.path.realpath(path) for path in named if os.path.isfile(path) or not os.path.exists(path)]


def _without_choice(path: Path) -> Path:
    """Return the file of ``FILE#NAME``, which chooses one of several topologies."""
    if "#" not in path.name:
        return path
    from allocopt.cluster.reading import topology_file

    return topology_file(path)[0]
