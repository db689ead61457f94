"""``allocopt relocate``: plan which jobs stop or move on a cluster, so that a gang starts or nodes are drained."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocopt.cli.options import (
    IncludeUnavailable,
    Json,
    Labels,
    check_files_differ,
    file_argument,
    file_option,
    listed,
    listed_words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allocopt.problems.relocation.problem import Relocation, RelocationProblem
    from allocopt.solving.result import Result


def command(
    cluster: Annotated[
        Path,
        file_argument(
            "slurm.conf,topology.conf; nodes and pods as kubectl prints them; or a snapshot of KAI.", metavar="FILE,..."
        ),
    ],
    queue: Annotated[
        Path | None,
        file_option(
            "Read jobs, as `scontrol show job` prints them, also with --json; or pods, if they are in a separate file."
        ),
    ] = None,
    start: Annotated[
        list[str] | None,
        typer.Option(metavar="JOB", help="Start this waiting job: 7, 7_3 or NAMESPACE/NAME; repeatable."),
    ] = None,
    within: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="Keep each started job in one group of LEVEL: leaf, pod, ...")
    ] = None,
    drain: Annotated[str, typer.Option(metavar="NODES", help="Drain these nodes, such as n[1-4].")] = "",
    free_racks: Annotated[
        int, typer.Option(min=0, max=100_000, metavar="N", help="Free --size nodes in each of N racks.")
    ] = 0,
    size: Annotated[
        int, typer.Option(min=0, max=100_000, metavar="N", help="Free N nodes in each rack of --free-racks.")
    ] = 0,
    labels: Labels = None,
    include_unavailable: IncludeUnavailable = None,
    solver: Annotated[str, typer.Option(help="Use this solver of relocations.")] = "auto",
    time_limit: Annotated[float, typer.Option(min=0.01, metavar="S", help="Limit the search to S seconds.")] = 30.0,
    commands: Annotated[
        bool, typer.Option("--commands", help="Print the commands for scontrol or kubectl; none is run.")
    ] = False,
    instance: Annotated[Path | None, file_option("Also write the problem as an instance.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """Plan which running jobs stop or move, and in which order, so that gangs start or nodes become free.

    On Slurm, only batch jobs that may be requeued stop or move; on Kubernetes, only pods and gangs that a controller
    recreates and that are not protected. Stopping a job costs one per node; on Kubernetes, this is multiplied by the
    rank of its priority (1 is the lowest). Moving it costs half as much. The answer is the cheapest plan found, with a
    lower bound, or a proof that no plan exists. Nothing is executed.
    """
    from allocopt.errors import NoSolutionError
    from allocopt.problems.instances import write_problems
    from allocopt.problems.kind import kind_of
    from allocopt.problems.relocation.aims import Aims
    from allocopt.problems.relocation.sources import GivenFiles, snapshot_of
    from allocopt.solving.result import Status
    from allocopt.solving.solve import solve

    files = GivenFiles(
        cluster=tuple(listed(cluster)),
        queue=queue,
        labels=listed_words(labels),
        include=listed_words(include_unavailable),
    )
    found = snapshot_of(files, Aims(tuple(start or ()), within, drain, free_racks, size))
    problem = found.problem
    for remark in found.remarks:
        typer.echo(f"allocopt: {remark}", err=True)
    check_files_differ(instance, read=[*files.cluster, queue])
    if instance is not None:
        write_problems(instance, [problem])
    result = solve(problem, solver=solver, time_limit=time_limit)
    if result.solution is None:
        raise NoSolutionError(f"{files.shown}: {_why_not(problem, result, solver, time_limit)}")
    solution: Relocation = result.solution
    nodes_of = found.hostlists(solution)
    lines = found.commands(solution)
    for note in found.notes(solution):
        typer.echo(f"allocopt: {note}", err=True)
    if as_json:
        answer: dict[str, object] = {"status": str(result.status), "cost": result.objective, "bound": result.bound}
        answer |= _as_object(problem, solution, nodes_of)
        members = {job.id: found.members(job.id) for job in (*solution.stopped(problem), *solution.moved(problem))}
        pods = {"pods": members} if any(members.values()) else {}
        print(json.dumps({**answer, **pods, "commands": lines}, allow_nan=False))
    elif commands:
        print("\n".join(lines))
    else:
        told = "no plan is cheaper"
        if result.status is not Status.OPTIMAL:
            told = f"no plan costs less than {result.bound or 0:g}"
        print(f"{kind_of(problem).remark(problem, solution)}; cost {result.objective:g}, {told}\n")
        print(_table(problem, solution, nodes_of))


def _why_not(problem: "RelocationProblem", result: "Result", solver: str, time_limit: float) -> str:
    """Return why there is no plan: the limit, the solver, or the fewest jobs that are in the way."""
    from allocopt.problems.relocation.obstacles import all_stoppable, obstacles
    from allocopt.solving.result import Status, StopReason
    from allocopt.solving.solve import solve

    if result.status is not Status.INFEASIBLE:
        if result.stopped_by is StopReason.COMPLETED:
            return f"{solver} found no plan; --solver auto searches further, or proves that there is none"
        return "no plan was found within the limit, but one may exist; increase --time-limit"
    nothing = "proved: no choice of stops and moves makes room"
    asked = solve(all_stoppable(problem), solver="auto", time_limit=time_limit)
    if asked.status is Status.INFEASIBLE:
        return f"{nothing}; even stopping every job would not make enough room"
    if asked.solution is None:
        return nothing
    names = [job.id for job in obstacles(problem, asked.solution)]
    more = f"at least {len(names)} more must stop" if asked.status is Status.OPTIMAL else f"{len(names)} more suffice"
    return f"{nothing}; {more}: {', '.join(names)}"


def _as_object(
    problem: "RelocationProblem", solution: "Relocation", nodes_of: "Mapping[str, str]"
) -> dict[str, object]:
    return {
        "stopped": [job.id for job in solution.stopped(problem)],
        "moved": {job.id: nodes_of[job.id] for job in solution.moved(problem)},
        "started": {gang.id: nodes_of[gang.id] for gang in problem.waiting if gang.id in nodes_of},
        "steps": [{"action": str(action), "job": job, "nodes": nodes_of.get(job)} for action, job in solution.steps],
    }


def _table(problem: "RelocationProblem", solution: "Relocation", nodes_of: "Mapping[str, str]") -> str:
    """Return the steps as a table."""
    from allocopt.problems.relocation.problem import GETS_NODES
    from allocopt.report.words import Cell, aligned_table

    before = {job.id: len(job.places) for job in problem.running}
    rows: list[list[Cell]] = []
    for number, (action, job, cost) in enumerate(problem.steps_and_costs(solution), 1):
        new = nodes_of[job] if action in GETS_NODES else None
        rows.append([number, str(action), job, before.get(job), new, cost])
    return aligned_table(("step", "what", "job", "nodes now", "new nodes", "cost"), rows, (0, None, None, 0, None, 1))
