"""``allocopt bench``."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocopt.cli.options import Gap, Instances, Iterations, Json, TimeLimit, Trajectory
from allocopt.cli.screen import screen_width

if TYPE_CHECKING:
    from allocopt.report.bench import Contender, Task
    from allocopt.report.journal import Journal
    from allocopt.report.provenance import Provenance
    from allocopt.report.rows import BenchRow
    from allocopt.solving.budget import Budget
    from allocopt.solving.protocol import Solver


TELL_S = 10.0
"""Seconds between two signs of life."""


def command(
    instances: Instances,
    solvers: Annotated[
        str, typer.Option(help="Names, comma-separated; NAME:STRATEGY runs a solver under that strategy alone.")
    ] = "auto",
    strategy: Annotated[str, typer.Option(help="Strategies of topology problems, comma-separated.")] = "scas,dcas,free",
    time_limit: TimeLimit = 10.0,
    iterations: Iterations = None,
    gap: Gap = 0.0,
    seeds: Annotated[str, typer.Option(help="Seeds, comma-separated.")] = "0",
    best_known: Annotated[
        Path | None,
        typer.Option(readable=False, help="Best-known values; if not given, best_known.json beside the instances."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(readable=False, help="Write one row per solve to this .csv or .json file.")
    ] = None,
    trajectory: Trajectory = None,
    as_json: Json = False,
) -> None:
    """Compare solvers on instances: one aligned table, one row per solve in a file.

    Every answer is verified. The table has the mean cost or objective, the gap to the best-known value (of the same
    strategy) and to the scas optimum, the share proven optimal, and the median and greatest time. Solvers are warmed
    up first. With --out, a run that was cut off goes on where it was when it is called again.
    """
    from allocopt.cli.outputs import check_files_differ
    from allocopt.cli.streams import quietly
    from allocopt.kernels.ready import make_ready
    from allocopt.problems.instances import instance_path, read_instances
    from allocopt.report.bench import contenders, plan, run_tasks
    from allocopt.report.bench_files import check_suffix, write_rows
    from allocopt.report.provenance import provenance
    from allocopt.report.summary import summary_table
    from allocopt.report.trajectories import trajectory_rows, write_trajectories
    from allocopt.solving.budget import Budget
    from allocopt.solving.solution_files import FILE_NAME, best_known_beside, read_best_known

    if out is not None:
        check_suffix(out)
    files = [instance_path(path) for path in instances]
    check_files_differ(out, trajectory, read=[*files, best_known, *(path.with_name(FILE_NAME) for path in files)])
    problems = read_instances(instances)
    known = read_best_known(best_known) if best_known else best_known_beside(files)
    pairs = contenders(_solvers(_parts(solvers), sorted({problem.kind for problem in problems})), _parts(strategy))
    tasks, refusals = plan(problems, pairs, _numbers(seeds))
    for name, reasons in refusals.items():
        count = f"{len(reasons)} of {len(problems)} instances"
        print(f"allocopt: {name} does not take {count}, such as {reasons[0]}", file=sys.stderr)
    make_ready({entry for task in tasks for entry in task.contender.solver.kernels(task.problem)})
    _warm_up(pairs)
    facts = provenance()
    budget = Budget(time_limit, iterations, gap)
    journal = None if out is None else _journal(out, instances, tasks, budget, facts)
    rows: list[BenchRow] = []
    with nullcontext() if journal is None else closing(journal), _interruption_explained(rows, len(tasks), journal):
        for row in _with_progress(quietly(run_tasks(tasks, budget, known, journal)), len(tasks)):
            rows.append(row)
            if as_json:
                print(json.dumps(row.as_dict(), allow_nan=False), flush=True)
        if out is not None and journal is not None:
            write_rows(out, rows, facts)
            journal.remove()
    if trajectory is not None:
        write_trajectories(trajectory, (point for row in rows for point in trajectory_rows(row.solve, row.points)))
    made_by = f"{facts.version}, commit {facts.commit}, Python {facts.python}, {facts.machine}"
    print(f"{summary_table(rows, screen_width())}\n\n{made_by}", file=sys.stderr if as_json else sys.stdout)


@contextmanager
def _interruption_explained(rows: "Sequence[BenchRow]", total: int, journal: "Journal | None") -> Iterator[None]:
    """After Ctrl-C, say how much is done and where it is kept."""
    try:
        yield
    except KeyboardInterrupt:
        kept = "" if journal is None else f", kept in {journal.path}; the same command goes on from there"
        raise KeyboardInterrupt(f"{len(rows)} of {total} solves done{kept}") from None


def _journal(
    out: Path, instances: Sequence[Path], tasks: "Sequence[Task]", budget: "Budget", facts: "Provenance"
) -> "Journal":
    """Open the journal of a run, which goes on after a crash as long as all that its rows depend on is the same."""
    from hashlib import sha256

    from allocopt.experiments.cells import digest
    from allocopt.problems.instances import instance_path
    from allocopt.report.journal import Journal

    digests = [sha256(instance_path(path).read_bytes()).hexdigest() for path in instances]
    limits = {"seconds": budget.seconds, "iterations": budget.iterations, "gap": budget.gap}
    return Journal(
        out, {"instances": digests, "solves": digest([task.key for task in tasks]), **limits, **facts.as_dict()}
    )


def _solvers(specifications: Sequence[str], kinds: Sequence[str]) -> "list[tuple[Solver, str | None]]":
    """Make the solvers of these kinds, each with the strategy that it alone runs under, if one is given."""
    from allocopt.errors import UsageError
    from allocopt.solving.registry import get_solver, kinds_of_solver

    chosen = []
    for specification in specifications:
        name, _, only = (part.strip() for part in specification.partition(":"))
        taken = kinds_of_solver(name)
        if taken and not set(taken) & set(kinds):
            raise UsageError(f"solver {name!r} does not take {', '.join(kinds)}; it takes {', '.join(taken)} problems")
        for kind in [kind for kind in kinds if kind in taken] or kinds:
            solver = get_solver(name, None, kind)
            if not only or solver.capabilities.strategies:
                chosen.append((solver, only or None))
    return chosen


def _parts(text: str) -> list[str]:
    """Split at commas, each part once."""
    return list(dict.fromkeys(part.strip() for part in text.split(",")))


def _numbers(text: str) -> list[int]:
    """Turn comma-separated seeds into numbers."""
    from allocopt.errors import UsageError

    try:
        numbers = [int(part) for part in _parts(text)]
    except ValueError:
        raise UsageError(f"--seeds must be whole numbers with commas between them, not {text!r}") from None
    if min(numbers) < 0:
        raise UsageError(f"--seeds must not be negative: {text}")
    return numbers


def _warm_up(pairs: "Sequence[Contender]") -> None:
    """Let every solver solve shipped problems, so that no time includes loading a kernel or starting a process."""
    from allocopt.cli.streams import quietly
    from allocopt.problems.instances import shipped_problems
    from allocopt.report.bench import plan, run_tasks
    from allocopt.solving.budget import Budget

    kinds = dict.fromkeys(pair.solver.kind for pair in pairs)
    tasks, _ = plan([problem for kind in kinds for problem in shipped_problems(kind)[:1]], pairs, [0])
    for _ in quietly(run_tasks(tasks, Budget(5.0, 1), {})):
        pass


def _with_progress(rows: "Iterator[BenchRow]", total: int) -> "Iterator[BenchRow]":
    """Show on stderr while rows come in how many there are: a bar on a terminal, else a line every few seconds."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        told = time.monotonic()
        for done, row in enumerate(rows, 1):
            yield row
            if time.monotonic() - told > TELL_S:
                told = time.monotonic()
                print(f"allocopt: {done} of {total} solves", file=sys.stderr, flush=True)
        return
    # Standard output is left alone: rows are printed there meanwhile.
    with Progress(console=console, redirect_stdout=False) as progress:
        yield from progress.track(rows, total, description="solving")
