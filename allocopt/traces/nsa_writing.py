"""Writing the workload text of the NSA paper's authors."""

from pathlib import Path

from allocopt.files.writing import write_text
from allocopt.traces.losses import swf_only_losses
from allocopt.traces.rows import rows_of
from allocopt.traces.workload import Workload


def write_nsa(path: Path, workload: Workload) -> None:
    """Write a workload in the text format of the NSA paper's authors; `read_nsa` makes the same jobs of it.

    It has only run times and nodes: `nsa_losses` says what is lost.

    Parameters
    ----------
    path
        The file; ``.gz`` is compressed.
    workload
        What to write, at least one job.

    Raises
    ------
    BadFileError
        If the file cannot be written, or would not be read again.
    """
    lines = (f"{row.job}  {row.submit}  {row.run}  {row.processors}\n" for row in rows_of(path, workload))
    write_text(path, "".join(lines))


def nsa_losses(workload: Workload) -> list[str]:
    """Say what of a workload the format cannot hold, one line each."""
    losses = []
    if differ := int((workload.estimate != workload.run).sum()):
        losses.append(f"estimates lost, the format has none: {differ}")
    if workload.machine_processors is not None:
        losses.append(f"size of the machine lost, the format has none: {workload.machine_processors}")
    return losses + swf_only_losses(workload)
