"""Writing workload files of any format."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from allocopt.errors import UsageError
from allocopt.traces.batsim_writing import batsim_losses, write_batsim
from allocopt.traces.nsa_writing import nsa_losses, write_nsa
from allocopt.traces.swf_writing import write_swf
from allocopt.traces.workload import Workload


@dataclass(frozen=True, slots=True)
class Writer:
    """How a format is written.

    Parameters
    ----------
    write
        Writes a workload to a file.
    losses
        Says what of a workload the format cannot hold, one line each.
    """

    write: Callable[[Path, Workload], None]
    losses: Callable[[Workload], list[str]]


def _nothing(_: Workload) -> list[str]:
    """Return the losses of a format that has none."""
    return []


WRITERS = {
    ".swf": Writer(write_swf, _nothing),
    ".json": Writer(write_batsim, batsim_losses),
    ".txt": Writer(write_nsa, nsa_losses),
}


def writer_of(path: Path) -> Writer:
    """Return how a file is written, by the ending of its name.

    Raises
    ------
    UsageError
        If no format has this ending.
    """
    name = path.name.removesuffix(".gz")
    for ending, writer in WRITERS.items():
        if name.endswith(ending):
            return writer
    raise UsageError(f"{path}: the name must end in {', '.join(WRITERS)}, or one of these and .gz")


def write_workload(path: Path, workload: Workload) -> None:
    """Write a workload: ``.swf`` as Standard Workload Format, ``.json`` for Batsim, ``.txt`` as the NSA authors' text.

    Parameters
    ----------
    path
        The file; with ``.gz`` after its ending it is compressed.
    workload
        What to write, at least one job.

    Raises
    ------
    UsageError
        If no format has this ending.
    BadFileError
        If the file cannot be written, or would not be read again.
    """
    writer_of(path).write(path, workload)
