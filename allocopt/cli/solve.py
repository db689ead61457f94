"""``allocopt solve``."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allocopt.cli.options import Gap, Instances, Iterations, Json, TimeLimit, Trajectory
from allocopt.cli.topology_options import TOPOLOGY_HELP, Labels, read_cluster

if TYPE_CHECKING:
    from allocopt.cluster.named import NamedTree
    from allocopt.problems.base import Problem
    from allocopt.solving.budget import Budget
    from allocopt.solving.protocol import Solver
    from allocopt.solving.result import Incumbent, Result


def command(
    instances: Instances,
    strategy: Annotated[
        str | None, typer.Option(help="scas, dcas or free, for topology problems; free if not given.")
    ] = None,
    solver: Annotated[str, typer.Option(help="Name of a solver; `allocopt solvers` lists them.")] = "auto",
    time_limit: TimeLimit = 10.0,
    iterations: Iterations = None,
    gap: Gap = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Fixes every random choice.")] = 0,
    solution: Annotated[
        Path | None,
        typer.Option(readable=False, help="Folder; the solution of each instance is written to FOLDER/NAME.json."),
    ] = None,
    warm_start: Annotated[
        Path | None, typer.Option(readable=False, help="Solution file to begin with; for one instance.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            readable=False, help="Write the solver's model to this .mps, .lp, .pb or .json file; one instance."
        ),
    ] = None,
    exclude_nodes: Annotated[
        str | None,
        typer.Option(
            help="Nodes that no job may get, such as those under maintenance: 3,7-9, or with --nodelist a hostlist of "
            "names."
        ),
    ] = None,
    nodelist: Annotated[
        Path | None,
        typer.Option(
            readable=False,
            help="Print the nodes of each job as a hostlist for srun --nodelist, named as in this topology, which the "
            f"instance is about: {TOPOLOGY_HELP}",
        ),
    ] = None,
    labels: Labels = None,
    trajectory: Trajectory = None,
    option: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, an option of the solver; repeatable.")] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="The same as --option cancel=true.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print every improvement on stderr.")] = False,
    as_json: Json = False,
) -> None:
    """Solve instance files and verify every answer.

    Ctrl-C or SIGTERM ends the search with the best solution so far, and exit code 130.
    """
    from allocopt.cli.nodes import parse_nodes
    from allocopt.cli.outputs import check_files_differ
    from allocopt.cli.solver_options import parse_options
    from allocopt.errors import NoSolutionError, UsageError
    from allocopt.problems.instances import instance_path, read_instances
    from allocopt.solving.budget import Budget
    from allocopt.solving.registry import get_solver
    from allocopt.solving.result import Status
    from allocopt.solving.solve import prepare

    problems = list(read_instances(instances))
    cluster = _cluster(problems, nodelist, labels)
    excluded = parse_nodes(exclude_nodes or "", cluster)
    problems = [_posed(problem, strategy, excluded) for problem in problems]
    if len(problems) > 1 and (warm_start or export):
        raise UsageError(f"--warm-start and --export take one instance, {len(problems)} were given")
    # An answer may take the place of the one that it began with: it is never worse.
    check_files_differ(warm_start, export, trajectory)
    answers = _answers(solution, problems)
    check_files_differ(export, trajectory, *answers, read=[*map(instance_path, instances), nodelist])
    options = {**parse_options(option or []), **({"cancel": True} if cancel else {})}
    kinds = dict.fromkeys(problem.kind for problem in problems)
    chosen = {kind: get_solver(solver, options, kind) for kind in kinds}
    if export is not None:
        _export(chosen[problems[0].kind], problems[0], export)
    budget = Budget(time_limit, iterations, gap)
    for kind, made in chosen.items():
        prepare(made, [problem for problem in problems if problem.kind == kind])
    results: list[Result] = []
    try:
        for problem in problems:
            results.append(_solve(problem, chosen[problem.kind], budget, seed, warm_start, verbose))
            _report(problem, results[-1], solution, as_json, cluster)
            results[-1].unless_interrupted()
    finally:
        _write_trajectories(trajectory, problems, results)
    if any(result.status is Status.UNKNOWN for result in results):
        raise NoSolutionError("no solution was found within the limit")


def _answers(folder: Path | None, problems: "list[Problem]") -> list[Path]:
    """Name the solution files, if they are asked for."""
    return [] if folder is None else [folder / f"{problem.name}.json" for problem in problems]


def _posed(problem: "Problem", strategy: str | None, nodes: list[int]) -> "Problem":
    """Pose a problem under a strategy, if one is given, and without nodes, which is for topology problems."""
    from allocopt.errors import InvalidProblemError, UsageError
    from allocopt.problems.kind import kind_of
    from allocopt.problems.topology import TopologyProblem

    if strategy is not None and not kind_of(problem).strategies:
        raise UsageError(f"--strategy: {problem.name}: a {problem.kind} problem takes none")
    posed = kind_of(problem).posed(problem, strategy)
    if not nodes:
        return posed
    if not isinstance(posed, TopologyProblem):
        raise UsageError(f"--exclude-nodes: {problem.name}: a {problem.kind} problem takes none")
    try:
        return posed.without_nodes(nodes)
    except InvalidProblemError as error:
        raise UsageError(f"--exclude-nodes: {problem.name}: {error.fault}") from None


def _solve(
    problem: "Problem",
    solver: "Solver",
    budget: "Budget",
    seed: int,
    warm_start: Path | None,
    verbose: bool,
) -> "Result":
    """Solve one problem; an interrupted solve has an answer too."""
    from allocopt.cli.streams import prints_on_stderr
    from allocopt.solving.result import SolveInterrupted
    from allocopt.solving.solve import solve

    start = None if warm_start is None else _read_start(problem, warm_start)
    with prints_on_stderr():
        try:
            return solve(
                problem,
                solver=solver,
                time_limit=budget.seconds,
                seed=seed,
                iterations=budget.iterations,
                gap=budget.gap,
                warm_start=start,
                on_incumbent=_print_incumbent if verbose else None,
            )
        except SolveInterrupted as interruption:
            return interruption.result


def _read_start(problem: "Problem", path: Path) -> Any:
    """Read the solution to begin with."""
    from allocopt.errors import BadFileError, InvalidSolutionError
    from allocopt.solving.solution_files import read_solution, solution_of
    from allocopt.solving.verify import verify

    stored = read_solution(path)
    if stored.answer is None:
        raise BadFileError(f"{path}: {stored.answer_key}: is null, must be a solution to begin with")
    try:
        solution = solution_of(problem, stored)
        verify(problem, solution)
    except InvalidSolutionError as error:
        raise InvalidSolutionError(f"{path}: {error}") from None
    return solution


def _print_incumbent(incumbent: "Incumbent") -> None:
    """Print one improvement in aligned columns."""
    from allocopt.solving.result import gap_between

    gap = gap_between(incumbent.objective, incumbent.bound)
    bound = "-" if incumbent.bound is None else f"{incumbent.bound:.3f}"
    shown = "-" if gap is None else f"{100 * gap:.3f} %"
    print(f"{incumbent.time_s:10.3f} s  objective {incumbent.objective:16.3f}  bound {bound:>16}  gap {shown:>10}",
          file=sys.stderr)  # fmt: skip


def _report(
    problem: "Problem", result: "Result", folder: Path | None, as_json: bool, cluster: "NamedTree | None"
) -> None:
    """Write the solution file and print the row of one solve, and who gets which nodes if they have names."""
    from allocopt.report.rows import SolveRow, shown
    from allocopt.solving.solution_files import write_solution

    lists = {} if cluster is None else _hostlists(problem, result, cluster)

    if folder is not None and result.solution is not None:
        write_solution(folder / f"{problem.name}.json", problem, result)
    row = SolveRow.of(problem, result)
    if as_json:
        extra = {} if cluster is None else {"nodelists": lists}
        print(json.dumps({**row.as_dict(), **extra}, allow_nan=False), flush=True)
        return
    gap = "" if row.gap is None else f"  gap {100 * row.gap:.3f} %"
    cost = "no solution" if row.objective is None else shown(problem, row.objective)
    print(
        f"{row.instance}  {row.strategy or row.kind}  {row.solver}  {row.status}  {cost}{gap}  {row.runtime_s:.3f} s",
        flush=True,
    )
    for job, hostlist in lists.items():
        print(f"{job}\t{hostlist}", flush=True)


def _write_trajectories(path: Path | None, problems: "list[Problem]", results: "list[Result]") -> None:
    """Write what was found over time in the solves so far, if that is asked for."""
    from allocopt.report.rows import SolveRow
    from allocopt.report.trajectories import points_of, trajectory_rows, write_trajectories

    if path is None or not results:
        return
    solves = [(SolveRow.of(*pair), points_of(pair[1])) for pair in zip(problems, results, strict=False)]
    write_trajectories(path, (row for solve, points in solves for row in trajectory_rows(solve, points)))


def _cluster(problems: "list[Problem]", path: Path | None, labels: str | None) -> "NamedTree | None":
    """Read the names of the nodes, if they are asked for; every instance must be about them."""
    from allocopt.errors import UsageError
    from allocopt.problems.topology import TopologyProblem

    if path is None:
        return None
    cluster = read_cluster(path, labels)
    for problem in problems:
        if not isinstance(problem, TopologyProblem) or not cluster.is_like(problem.topology):
            fault = f"{problem.name} is not about the {len(cluster.nodes)} nodes of {path} as they are connected there"
            raise UsageError(f"--nodelist: {fault}")
    # A name that cannot stand in a hostlist is told before anything is solved.
    cluster.hostlist(range(len(cluster.nodes)))
    return cluster


def _hostlists(problem: "Problem", result: "Result", cluster: "NamedTree") -> dict[str, str]:
    """Nodes of every job as a hostlist."""
    from allocopt.problems.topology import Allocation, TopologyProblem

    if not isinstance(problem, TopologyProblem) or not isinstance(result.solution, Allocation):
        return {}
    pairs = zip(problem.jobs, result.solution.nodes, strict=True)
    return {job.id: cluster.hostlist(nodes.tolist()) for job, nodes in pairs}


def _export(solver: "Solver", problem: "Problem", path: Path) -> None:
    """Write the model that the solver would solve."""
    from allocopt.errors import UsageError
    from allocopt.solving.protocol import Exporter
    from allocopt.solving.solve import check_takes

    check_takes(solver, problem)
    if not isinstance(solver, Exporter):
        raise UsageError(f"solver {solver.name!r} has no model to export; scip, cp-sat, highs and scip-paper have one")
    solver.export(problem, path)
