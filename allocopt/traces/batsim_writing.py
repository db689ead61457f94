"""Writing workloads of Batsim."""

from pathlib import Path

from allocopt.files.writing import compact_json, write_text
from allocopt.traces.losses import swf_only_losses
from allocopt.traces.rows import Number, Row, rows_of
from allocopt.traces.workload import Workload


def write_batsim(path: Path, workload: Workload) -> None:
    """Write a workload of Batsim; `read_batsim` makes the same jobs and machine of it.

    Every run time becomes a profile of type ``delay``, every estimate a walltime. The format demands the size of the
    machine: where the workload does not say, it is that of the largest job.

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
    rows = list(rows_of(path, workload))
    jobs = ",\n".join(f"    {compact_json(_job(row))}" for row in rows)
    delays = ",\n".join(f"    {_profile(run)}" for run in sorted({row.run for row in rows}))
    head = f'  "description": {compact_json(workload.name)},\n  "nb_res": {_machine(workload)},\n'
    write_text(path, f'{{\n{head}  "jobs": [\n{jobs}\n  ],\n  "profiles": {{\n{delays}\n  }}\n}}\n')


def batsim_losses(workload: Workload) -> list[str]:
    """Say what of a workload the format cannot hold, one line each."""
    losses = swf_only_losses(workload)
    if not workload.machine_processors:
        losses.append(f"size of the machine not known, that of the largest job written: {_machine(workload)}")
    return losses


def _machine(workload: Workload) -> int:
    """Processors of the machine, as they are written."""
    return workload.machine_processors or int(workload.processors.max(initial=1))


def _job(row: Row) -> dict[str, object]:
    """Return the object of a job."""
    return {
        "id": row.job,
        "subtime": row.submit,
        "walltime": row.estimate,
        "res": row.processors,
        "profile": _profile_name(row.run),
    }


def _profile(run: Number) -> str:
    """Return the line of the profile of a run time."""
    return f"{compact_json(_profile_name(run))}: {compact_json({'type': 'delay', 'delay': run})}"


def _profile_name(run: Number) -> str:
    """Name of the profile of a run time."""
    return f"delay_{run}"
