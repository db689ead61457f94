"""The workload text of the NSA paper's authors: a line per job with its id, arrival s, run time s and nodes."""

from pathlib import Path

from allocopt.files.reading import read_text
from allocopt.traces.names import trace_name
from allocopt.traces.records import Places, Records, workload_of
from allocopt.traces.table import Layout, lines_of, read_table
from allocopt.traces.workload import Workload

JOB, ARRIVAL, RUN, NODES = 1, 2, 3, 4

NSA_LAYOUT = Layout({JOB: "job id", ARRIVAL: "arrival time", RUN: "run time", NODES: "nodes"}, fewest=4, most=4)


def read_nsa(path: Path) -> Workload:
    """Read a workload in the text format of the NSA paper's authors, plain or compressed (``.gz``).

    It counts whole nodes and has no estimates: a job's estimate is its run time. Jobs without a positive run time
    and number of nodes are dropped and counted.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    BadFileError
        If the file cannot be read, a line is malformed, or no job is left; it names the line and the column.
    """
    table = read_table(path, lines_of(read_text(path)), NSA_LAYOUT)
    run = table.numbers(RUN)
    records = Records(table.numbers(ARRIVAL), run, table.integers(NODES), run, {})
    return workload_of(table, Places(JOB, ARRIVAL), records, trace_name(path))
