"""Traces of trainings, as given by their options: files, and sizes of machines."""

from pathlib import Path

from allocopt.cluster.cluster import Cluster
from allocopt.cluster.reading import read_cluster
from allocopt.errors import UsageError
from allocopt.simulator.shared.admission import admitted
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

ACKNOWLEDGEMENTS = {
    "Theta": "Theta trace of January 2018, from the authors of CQGym (SPEAR, Illinois Institute of Technology)",
    "Sandia": "Sandia Ross log, Parallel Workloads Archive, courtesy of Jon Stearley",
    "SDSC": "SDSC SP2 log, Parallel Workloads Archive, courtesy of the San Diego Supercomputer Center and V. Schenk",
    "HPC2N": "HPC2N log, Parallel Workloads Archive, courtesy of Ake Sandgren and Michael Jack",
    "lublin_256": "the workload model of Lublin and Feitelson (2003)",
    "Cori-synthetic": "CEA Curie log, Parallel Workloads Archive, courtesy of Joseph Emeras",
}
"""Acknowledgement of a trace, by the beginning of its name."""


def acknowledgement(trace: str) -> str:
    """Return the acknowledgements of traces, whose files are separated by commas."""
    names = [Path(path).name for path in trace.split(",")]
    return "; ".join(text for start, text in ACKNOWLEDGEMENTS.items() if any(one.startswith(start) for one in names))


def check_sizes(trace: str, processors: int | str, cluster: str) -> None:
    """Raise `UsageError` unless there is one machine size for all traces or one for each, or a cluster and no size."""
    paths, sizes = trace.split(","), str(processors).split(",")
    if cluster and any(size.strip() != "0" for size in sizes):
        raise UsageError("the size of the machine follows from the cluster; do not give processors, too")
    if len(sizes) not in (1, len(paths)) or not all(size.strip().isdecimal() for size in sizes):
        right = f"one number, or one for each of {len(paths)} traces"
        raise UsageError(f"processors are {processors!r}, must be {right}")


def read_traces(trace: str, processors: int | str) -> list[tuple[Workload, int]]:
    """Read traces without jobs larger than their machine; return each with the size of its machine.

    ``trace`` has files separated by commas; ``processors`` has the sizes of their machines, 0 for the size in the
    trace. Raises `UsageError` if a size is not known, and `BadFileError` if a file cannot be read.
    """
    paths, sizes = trace.split(","), str(processors).split(",")
    found = []
    for path, size in zip(paths, sizes * (len(paths) // len(sizes)), strict=True):
        workload = read_workload(path)
        machine = int(size) or workload.machine_processors
        if not machine:
            raise UsageError(f"{path} does not state the size of its machine; give --processors")
        found.append((workload.fitting(machine), machine))
    return found


def read_on_cluster(trace: str, cluster: str) -> list[tuple[Workload, Cluster]]:
    """Read traces and a cluster; return each trace, with only the jobs that the cluster accepts, and the cluster.

    Commas separate files, those of the traces and those of the cluster.
    """
    machine = read_cluster([Path(file) for file in cluster.split(",")])
    return [
        (admitted(read_workload(path), machine, in_nodes=False, skip_oversized=True), machine)
        for path in trace.split(",")
    ]
