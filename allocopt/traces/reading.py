"""Workload files of any format."""

from pathlib import Path

from allocopt.traces.nsa import read_nsa
from allocopt.traces.swf import read_swf
from allocopt.traces.workload import Workload


def read_workload(path: Path | str) -> Workload:
    """Read a workload: ``.swf`` as Standard Workload Format, ``.json`` of Batsim, else the NSA authors' text.

    Parameters
    ----------
    path
        The file; with ``.gz`` after its ending it is decompressed.

    Raises
    ------
    BadFileError
        If the file cannot be read; it names the line and the column, or the field.
    """
    path = Path(path)
    name = path.name.removesuffix(".gz")
    if name.endswith(".swf"):
        return read_swf(path)
    if name.endswith(".json"):
        # The models of JSON files are not loaded for text.
        from allocopt.traces.batsim import read_batsim

        return read_batsim(path)
    return read_nsa(path)
