"""``allocopt relocate``: who stops or moves on a Slurm cluster, so that a gang starts or nodes are emptied."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocopt.cli.options import (
    CLUSTER_HELP,
    IncludeUnavailable,
    Json,
    Labels,
    file_argument,
    file_option,
    read_cluster,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allocopt.cluster.cluster import Cluster
    from allocopt.problems.relocation.problem import Places, Relocation, RelocationProblem
    from allocopt.solving.result import Result


def command(
    cluster: Annotated[Path, file_argument(CLUSTER_HELP, metavar="FILE,...")],
    queue: Annotated[
        Path, file_option("Running and waiting jobs, as `scontrol show job` prints them, also with --json.")
    ],
    start: Annotated[
        list[str] | None, typer.Option(metavar="JOB", help="A waiting job that must start; repeatable.")
    ] = None,
    within: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="Level that those jobs must not leave: leaf, pod or a number.")
    ] = None,
    drain: Annotated[str, typer.Option(metavar="NODES", help="Nodes that have to be emptied, as n[1-4].")] = "",
    free_racks: Annotated[int, typer.Option(min=0, metavar="N", help="Racks in which nodes have to be free.")] = 0,
    size: Annotated[int, typer.Option(min=0, metavar="N", help="Nodes that have to be free in each of them.")] = 0,
    labels: Labels = None,
    include_unavailable: IncludeUnavailable = None,
    solver: Annotated[str, typer.Option(help="Name of a solver of relocations.")] = "auto",
    time_limit: Annotated[float, typer.Option(min=0.01, metavar="S", help="Limit on the search.")] = 30.0,
    commands: Annotated[bool, typer.Option("--commands", help="Print commands for Slurm; none is run.")] = False,
    instance: Annotated[Path | None, file_option("Also write the problem as an instance.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """Say which running jobs stop or move, and in which order, so that what is asked for gets room.

    Only batch jobs that Slurm may queue again stop or move. A stop costs as many as the job has nodes, a move half of
    that. The answer is the cheapest one, with a bound, or a proof that there is none. Nothing is executed.
    """
    from allocopt.cluster.queue_files import read_queue
    from allocopt.errors import NoSolutionError
    from allocopt.problems.instances import write_problems
    from allocopt.problems.kind import kind_of
    from allocopt.problems.relocation.snapshot import Aims, slurm_commands, snapshot
    from allocopt.solving.result import Status
    from allocopt.solving.solve import solve

    machine, jobs = read_cluster(cluster, labels, include_unavailable), read_queue(queue)
    for remark in jobs.remarks:
        typer.echo(f"{queue}: {remark}", err=True)
    aims = Aims(tuple(start or ()), within, drain, free_racks, size)
    problem, remarks = snapshot(machine, jobs, aims, queue.stem)
    for remark in remarks:
        typer.echo(f"{queue}: {remark}", err=True)
    if instance is not None:
        write_problems(instance, [problem])
    result = solve(problem, solver=solver, time_limit=time_limit)
    if result.solution is None:
        raise NoSolutionError(f"{queue}: {_why_not(problem, result, solver, time_limit)}")
    solution: Relocation = result.solution
    nodes_of = _hostlists(problem, solution, machine)
    lines = slurm_commands(solution.steps, nodes_of)
    if as_json:
        answer = {"status": str(result.status), "cost": result.objective, "bound": result.bound}
        print(json.dumps({**answer, **_as_object(problem, solution, nodes_of), "commands": lines}, allow_nan=False))
    elif commands:
        print("\n".join(lines))
    else:
        told = "no other answer is cheaper"
        if result.status is not Status.OPTIMAL:
            told = f"no answer costs less than {result.bound or 0:g}"
        print(f"{kind_of(problem).remark(problem, solution)}; cost {result.objective:g}, {told}\n")
        print(_table(problem, solution, nodes_of))


def _why_not(problem: "RelocationProblem", result: "Result", solver: str, time_limit: float) -> str:
    """Return why there is no answer: the limit, or the fewest jobs that stand in the way."""
    from allocopt.problems.relocation.obstacles import asking_everybody, obstacles
    from allocopt.solving.result import Status
    from allocopt.solving.solve import solve

    if result.status is not Status.INFEASIBLE:
        return "no answer was found within the limit, which does not prove that there is none"
    nothing = "no set of jobs that may stop or move makes room, which is proved"
    everybody = asking_everybody(problem)
    asked = solve(everybody, solver=solver, time_limit=time_limit)
    if asked.status is Status.INFEASIBLE:
        return f"{nothing}; even if every job stopped, what is asked for would not fit"
    if asked.solution is None:
        return nothing
    names = [job.id for job in obstacles(problem, asked.solution)]
    fewest = "the fewest" if asked.status is Status.OPTIMAL else "some"
    return f"{nothing}; {fewest} jobs that would have to stop as well, {len(names)}: {', '.join(names)}"


def _hostlists(problem: "RelocationProblem", solution: "Relocation", cluster: "Cluster") -> dict[str, str]:
    """Return the hostlist of every job that has nodes at the end."""
    after: dict[str, Places] = {}
    for job, places in zip(problem.running, solution.running, strict=True):
        after[job.id] = places or ()
    for gang, places in zip(problem.waiting, solution.waiting, strict=True):
        after[gang.id] = places
    names = cluster.topology
    return {job: names.hostlist([node for node, _ in places]) for job, places in after.items() if places}


def _as_object(
    problem: "RelocationProblem", solution: "Relocation", nodes_of: "Mapping[str, str]"
) -> dict[str, object]:
    started = zip(problem.waiting, solution.waiting, strict=True)
    return {
        "stopped": [job.id for job in solution.stopped(problem)],
        "moved": {job.id: nodes_of[job.id] for job in solution.moved(problem)},
        "started": {gang.id: nodes_of[gang.id] for gang, places in started if places},
        "steps": [{"action": str(action), "job": job, "nodes": nodes_of.get(job)} for action, job in solution.steps],
    }


def _table(problem: "RelocationProblem", solution: "Relocation", nodes_of: "Mapping[str, str]") -> str:
    """Return the steps as a table."""
    from allocopt.problems.relocation.problem import Action
    from allocopt.report.words import Cell, aligned_table

    costs = dict(problem.costs(solution))
    before = {job.id: len(job.places) for job in problem.running}
    rows: list[list[Cell]] = []
    for number, (action, job) in enumerate(solution.steps, 1):
        comes = action in (Action.MOVE, Action.START)
        rows.append([number, str(action), job, before.get(job), nodes_of[job] if comes else None, costs.get(job)])
    return aligned_table(("step", "what", "job", "nodes now", "new nodes", "cost"), rows, (0, None, None, 0, None, 1))
