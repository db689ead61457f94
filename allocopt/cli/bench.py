"""``allocopt bench``."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocopt.cli.grids import Workers
from allocopt.cli.options import Gap, Instances, Iterations, Json, TimeLimit, Trajectory, file_option
from allocopt.cli.parameters import command_of, names_of
from allocopt.cli.terminal import screen_width, wrapped

if TYPE_CHECKING:
    from allocopt.experiments.cells import Cell, Row
    from allocopt.report.rows import BenchRow


@dataclass(frozen=True, slots=True)
class _Compared:
    solvers: Annotated[
        str,
        typer.Option(
            help="Compare these, comma-separated; NAME:STRATEGY runs one only under that strategy.",
            autocompletion=names_of("solvers"),
        ),
    ] = "auto"
    strategy: Annotated[str, typer.Option(help="Use these strategies for topology problems.")] = "scas,dcas,free"
    seeds: Annotated[str, typer.Option(help="Run with each of these seeds, comma-separated.")] = "0"
    time_limit: TimeLimit = 10.0
    iterations: Iterations = None
    gap: Gap = 0.0


def _bench(
    instances: Instances,
    compared: _Compared,
    best_known: Annotated[
        Path | None,
        file_option("Read best-known values from this file; default: best_known.json beside the instances."),
    ] = None,
    workers: Workers = None,
    out: Annotated[Path | None, file_option("Write one row per solve to this .csv or .json file.")] = None,
    trajectory: Trajectory = None,
    as_json: Json = False,
) -> None:
    """Compare solvers on instances: print one table, and write one row per solve to a file.

    Every answer is verified. The table has the mean cost or objective, the gap to the best-known value (of the same
    strategy) and to the scas optimum, the share proven optimal, and the median and longest time. Solvers are warmed up
    first. With --out, an interrupted run continues when the same command is started again.
    """
    from allocopt.cli.grids import finished_rows, whole_numbers
    from allocopt.cli.options import check_files_differ
    from allocopt.experiments.grids import bench_grid, bench_row
    from allocopt.kernels.ready import make_ready
    from allocopt.problems.instances import instance_path, read_instances
    from allocopt.report.provenance import provenance
    from allocopt.report.rows import TrajectoryRow, check_suffix, write_table
    from allocopt.report.solves import solves_verdict
    from allocopt.report.terminal import summary_table
    from allocopt.solving.budget import Budget
    from allocopt.solving.solution_files import FILE_NAME, best_known_beside, read_best_known
    from allocopt.tables import RowTable

    if out is not None:
        check_suffix(out, ".csv", ".json")
    files = [instance_path(path) for path in instances]
    check_files_differ(out, trajectory, read=[*files, best_known, *(path.with_name(FILE_NAME) for path in files)])
    problems = read_instances(instances)
    known = read_best_known(best_known) if best_known else best_known_beside(files)
    limits = {"seconds": compared.time_limit, "iterations": compared.iterations, "gap": compared.gap}
    budget = Budget(compared.time_limit, compared.iterations, compared.gap)
    names, seeds = (_parts(compared.solvers), _parts(compared.strategy)), whole_numbers(compared.seeds)
    grid, refusals, kernels = bench_grid(problems, *names, seeds, budget)
    for name, reasons in refusals.items():
        count = f"{len(reasons)} of {len(problems)} instances"
        print(f"allocopt: {name} does not take {count}; the first is {reasons[0]}", file=sys.stderr)
    # One call for all solvers, so that their kernels are compiled in parallel.
    make_ready(kernels)
    facts = provenance()
    rows: list[BenchRow] = []

    def take(cell: "Cell", row: "Row") -> None:
        rows.append(bench_row(cell, row, known))
        if as_json:
            print(json.dumps(rows[-1].as_dict(), allow_nan=False), flush=True)

    with finished_rows(out, grid, limits, workers, take, "solves"):
        if out is not None:
            write_table(out, [{**row, **facts} for row in RowTable(tuple(rows)).records()])
    if trajectory is not None:
        TrajectoryRow.write(trajectory, (point for row in rows for point in TrajectoryRow.of(row.solve, row.points)))
    # With --json, standard output holds only rows, so that other programs can read it.
    made_by = f"{facts['version']}, commit {facts['commit']}, Python {facts['python']}, {facts['machine']}"
    said = wrapped(solves_verdict([row.solve for row in rows]))
    parts = filter(None, (summary_table(rows, screen_width()), said, made_by))
    print("\n\n".join(parts), file=sys.stderr if as_json else sys.stdout)


command = command_of(_bench)


def _parts(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",")))
