"""What a command reads is not overwritten by what it writes, nor one output by another."""

from pathlib import Path


def check_files_differ(*paths: Path | None) -> None:
    """Raise `UsageError` where two of the files that a command reads and writes are the same.

    Parameters
    ----------
    paths
        All of them, None for those that are not asked for.

    Raises
    ------
    UsageError
        If one is named twice, however it is spelt.
    """
    from allocopt.errors import UsageError

    files = [path.resolve() for path in paths if path is not None]
    for path in files:
        if files.count(path) > 1:
            raise UsageError(f"{path} is named twice: what is read and what is written must be different files")
