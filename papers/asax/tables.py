"""Tables 2 and 3 and Figure 3: the same simulations, three views."""

from collections.abc import Iterator, Mapping, Sequence

from allocopt.reproduction import Records
from allocopt.traces.applications import APPLICATIONS
from papers.artifact import Artifact, Number, mean_of
from papers.asax.configuration import measured, parsed, pieces
from papers.asax.published import MAKESPAN_CHANGE, TABLE_THREE, TABLE_TWO, QueueLine

Runs = Sequence[Mapping[str, float]]
REFERENCE = "space-sharing"
CEILING = "coallocation-scip"


def _percent_change(value: float, base: float) -> float:
    return 100 * (value / base - 1) if base else 0.0


def _percent_changes(runs: Runs, others: Runs, key: str) -> list[float]:
    return [_percent_change(run[key], other[key]) for run, other in zip(runs, others, strict=True)]


def _workflows(records: Records) -> Iterator[Number]:
    """Yield run time, utilization of what was allotted, and the time with a guest, of every workflow."""
    columns = {
        "run time h": "run_h",
        "CPU % of allotted": "cpu",
        "memory %": "memory",
        "time with a guest %": "hosting",
    }
    for piece, record in records.items():
        for workflow in APPLICATIONS:
            line = TABLE_TWO.get((*parsed(piece), workflow))
            for column, key in columns.items():
                values = [run[f"{workflow}: {key}"] for run in record["runs"]]
                yield mean_of(f"{piece}, {workflow}", column, values, getattr(line, key, None))


TWO = Artifact(
    "asax-table2", "Table 2 of the ASAX paper: run times and utilization of the workflows", pieces, measured, _workflows
)


def _queues(records: Records) -> Iterator[Number]:
    """Yield the columns of the table, what they leave out, and the change against space sharing."""
    columns = {
        "wait h": "wait_h",
        "CPU %": "cpu",
        "CPU % of allotted": "cpu_of_allotted",
        "response h": "response_h",
        "run time h": "run_h",
        "guests": "guests",
    }
    for piece, record in records.items():
        runs, line = record["runs"], TABLE_THREE.get(parsed(piece))
        for column, key in columns.items():
            yield mean_of(piece, column, [run[key] for run in runs], getattr(line, key, None))
        if "risk_over_bound" in runs[0]:
            yield Number(piece, "largest excess risk over its bound", max(run["risk_over_bound"] for run in runs))
        yield from _beside(piece, runs, line, records)


def _beside(piece: str, runs: Runs, line: QueueLine | None, records: Records) -> Iterator[Number]:
    """Yield changes against space sharing, and the response beyond the exact model's, run by run."""
    cores, method = parsed(piece)
    base, ceiling = records.get(f"{cores}: {REFERENCE}"), records.get(f"{cores}: {CEILING}")
    reference = TABLE_THREE[cores, REFERENCE]
    if base is not None and method != REFERENCE:
        points = [run["cpu"] - other["cpu"] for run, other in zip(runs, base["runs"], strict=True)]
        printed = None if line is None else line.cpu - reference.cpu
        yield mean_of(piece, "CPU over space sharing, + points", points, printed)
        for column, key in (("wait", "wait_h"), ("run time", "run_h"), ("response", "response_h")):
            is_printed = line is not None and key in line._fields
            published = _percent_change(getattr(line, key), getattr(reference, key)) if is_printed else None
            changes = _percent_changes(runs, base["runs"], key)
            yield mean_of(piece, f"{column} over space sharing, +%", changes, published)
    if ceiling is not None and method != CEILING:
        gaps = _percent_changes(runs, ceiling["runs"], "response_h")
        yield mean_of(piece, "response over the exact model's, +%", gaps)


THREE = Artifact("asax-table3", "Table 3 of the ASAX paper: wait, CPU utilization, response", pieces, measured, _queues)


def _makespans(records: Records) -> Iterator[Number]:
    """Yield the makespans, their change against space sharing, and the run times of the workflows."""
    for piece, record in records.items():
        cores, method = parsed(piece)
        runs, base = record["runs"], records.get(f"{cores}: {REFERENCE}")
        yield mean_of(piece, "makespan h", [run["makespan_h"] for run in runs])
        if base is not None and method != REFERENCE:
            changes = _percent_changes(runs, base["runs"], "makespan_h")
            yield mean_of(piece, "makespan over space sharing, +%", changes, MAKESPAN_CHANGE.get((cores, method)))
        for workflow in APPLICATIONS:
            line = TABLE_TWO.get((cores, method, workflow))
            values = [run[f"{workflow}: run_h"] for run in runs]
            yield mean_of(f"{piece}, {workflow}", "run time h", values, line and line.run_h)


FIGURE_THREE = Artifact(
    "asax-figure3", "Figure 3 of the ASAX paper: makespan of the queue, mean run time", pieces, measured, _makespans
)
