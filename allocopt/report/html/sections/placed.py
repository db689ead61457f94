"""Jobs that were placed on named nodes."""

import re

import numpy as np

from allocopt.cluster.named import NamedTree
from allocopt.files.faults import bad_file
from allocopt.report.html.document import Column, Fact, Section, Table
from allocopt.report.html.figures.node_gantt import NodeGantt
from allocopt.report.html.results import ResultFile
from allocopt.report.html.sections.schedules import numbers_of
from allocopt.report.html.words import duration
from allocopt.simulator.multicore.simulation import DURATION


def placed_section(file: ResultFile, cluster: NamedTree | None = None) -> Section:
    """Show where and when jobs were started.

    Raises
    ------
    BadFileError
        If the file does not say how long they took, or a number is wrong.
    """
    if DURATION not in file.records[0].values:
        raise bad_file(file.path, "line 1", f"has no column {DURATION}, without which jobs cannot be drawn")
    start, run = numbers_of(file, "start_s"), numbers_of(file, DURATION)
    for row in np.flatnonzero(run < 0).tolist():
        raise bad_file(file.path, file.records[row].place, f"{DURATION} must not be negative")
    named = [str(record.values["node"]) for record in file.records]
    order = _order(named, cluster)
    places = {name: place for place, name in enumerate(order)}
    node = np.array([places[name] for name in named], dtype=np.int64)
    jobs = [str(record.values["job_id"]) for record in file.records]
    gantt = NodeGantt(jobs, node, start, start + run, order)
    rows = tuple(
        (name, int((node == place).sum()), float(run[node == place].sum()), float((start + run)[node == place].max()))
        for place, name in enumerate(order)
    )
    table = Table("Nodes", (Column("node"), Column("jobs", 0), Column("job seconds", 0), Column("last end s", 0)), rows)
    facts = (
        Fact("jobs", f"{len(jobs):,}"),
        Fact("nodes", f"{len(order):,}"),
        Fact("from first to last", duration(float((start + run).max() - start.min()))),
        Fact("mean run", duration(float(run.mean()))),
    )
    return Section("Placed jobs", file.path.name, facts, parts=(gantt.figure(), table))


def _order(names: list[str], cluster: NamedTree | None) -> list[str]:
    """Return the nodes from top to bottom: as the cluster numbers them, else by name, numbers in it by value."""
    known = {} if cluster is None else {name: number for number, name in enumerate(cluster.nodes)}
    return sorted(set(names), key=lambda name: (known.get(name, len(known)), _natural(name)))


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Split a name so that n2 stands before n10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name)]
