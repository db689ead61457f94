"""The energy of a schedule on a multicore machine as a CSV file."""

from collections.abc import Iterator
from pathlib import Path

from allocopt.files.csv_rows import csv_text
from allocopt.files.writing import write_text
from allocopt.simulator.multicore.simulation import MulticoreSchedule

HEADER = ("part", "name", "energy_j", "energy_delay_js")


def write_energy_csv(path: Path, schedule: MulticoreSchedule) -> None:
    """Write energy and energy-delay product of every job, node and cluster, and of the whole machine.

    The delay of a job is the time from its submission to its end, that of the others the makespan.

    Parameters
    ----------
    path
        The file; ``.gz`` is compressed.
    schedule
        What to write.

    Raises
    ------
    BadFileError
        If the file cannot be written.
    """
    write_text(path, csv_text(HEADER, _rows(schedule)))


def _rows(schedule: MulticoreSchedule) -> Iterator[tuple[str, ...]]:
    """Yield the rows below the header."""
    nodes = [node.name for node in schedule.machine.nodes()]
    clusters = [cluster.name for cluster in schedule.machine.clusters]
    parts = (
        ("job", schedule.jobs.names, schedule.job_energy_j, schedule.job_energy_delay_js),
        ("node", nodes, schedule.node_energy_j, schedule.node_energy_delay_js),
        ("cluster", clusters, schedule.cluster_energy_j, schedule.cluster_energy_delay_js),
        ("machine", [schedule.machine.name], [schedule.energy_j], [schedule.energy_delay_js]),
    )
    for part, names, energies, products in parts:
        for name, energy, product in zip(names, energies, products, strict=True):
            yield part, name, f"{energy:.6f}", f"{product:.6f}"
