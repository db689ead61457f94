"""Workload files of any format."""

from pathlib import Path

from allocopt.traces.nsa import read_nsa
from allocopt.traces.swf import read_swf
from allocopt.traces.workload import Workload


def read_workload(path: Path) -> Workload:
    """Read a workload: Standard Workload Format by the ending ``.swf`` or ``.swf.gz``, else the NSA authors' text.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    BadFileError
        If the file cannot be read; it names the line and the column.
    """
    return read_swf(path) if path.name.removesuffix(".gz").endswith(".swf") else read_nsa(path)
