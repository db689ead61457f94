"""Writing workload files of any format."""

from pathlib import Path

from allocopt.errors import UsageError
from allocopt.traces.nsa import NSA
from allocopt.traces.rows import Writer
from allocopt.traces.swf import SWF


def writer_of(path: Path) -> Writer:
    """Return how a file is written, by its ending: ``.swf``, ``.json`` for Batsim, or ``.txt``; ``.gz`` is compressed.

    Text is that of the NSA authors. Raises `UsageError` if no format has this ending.
    """
    name = path.name.removesuffix(".gz")
    if name.endswith(".json"):
        # The models of JSON files are not loaded for text.
        from allocopt.traces.batsim import BATSIM

        return BATSIM
    if not name.endswith((".swf", ".txt")):
        raise UsageError(f"{path}: the name must end in .swf, .json, .txt, or one of these and .gz")
    return SWF if name.endswith(".swf") else NSA
