"""``allocopt solve``."""

import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allocopt.cli.options import (
    IncludeUnavailable,
    Json,
    Labels,
    Trajectory,
    check_files_differ,
    file_option,
    listed,
    read_cluster,
)
from allocopt.cli.spec_options import spec_command
from allocopt.experiments.specs import SolveSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allocopt.cluster.named import NamedTree
    from allocopt.problems.base import Problem
    from allocopt.report.rows import SolveRow
    from allocopt.solving.protocol import Solver
    from allocopt.solving.result import Incumbent, Result

_OWN = (
    *("instances", "strategy", "solver", "time_limit", "iterations", "gap", "seed", "options"),
    *("warm_start", "exclude_nodes"),
)
"""Fields with an option of their own."""

_NUMBERS = re.compile(r"[\s\d,-]*")
_RANGE = re.compile(r"\s*(\d{1,18})(?:\s*-\s*(\d{1,18}))?\s*")


@dataclass(frozen=True, slots=True)
class SolveOptions:
    """What is written and printed of solves."""

    cancel: Annotated[bool, typer.Option("--cancel", help="The same as --option cancel=true.")] = False
    solution: Annotated[Path | None, file_option("Write each solution to FOLDER/NAME.json.", metavar="FOLDER")] = None
    out: Annotated[Path | None, file_option("Write results and inputs as .json, for rerun.", metavar="FILE")] = None
    export: Annotated[
        Path | None, file_option("Write the model as .mps, .lp, .pb or .json; one instance.", metavar="FILE")
    ] = None
    trajectory: Trajectory = None
    nodelist: Annotated[
        Path | None,
        file_option(
            "Print hostlists for srun --nodelist, with the node names of this topology or cluster of the instance.",
            metavar="FILE,...",
        ),
    ] = None
    labels: Labels = None
    include_unavailable: IncludeUnavailable = None
    certify: Annotated[
        bool, typer.Option("--certify", help="Check every bound, even if that takes longer than a tenth of the solve.")
    ] = False
    verbose: Annotated[bool, typer.Option("--verbose", help="Print every improvement on stderr.")] = False
    as_json: Json = False


def run(spec: SolveSpec, asked: SolveOptions) -> list[dict[str, Any]]:
    """Solve instance files and verify every answer.

    Ctrl-C or SIGTERM ends the search with the best solution so far, and exit code 130.
    """
    from allocopt.cli.terminal import prints_on_stderr
    from allocopt.errors import NoSolutionError
    from allocopt.experiments.results import ResultModel
    from allocopt.report.rows import SolveRow, TrajectoryRow
    from allocopt.solving.budget import Budget
    from allocopt.solving.result import SolveInterrupted, Status
    from allocopt.solving.solve import solve

    if asked.cancel:
        spec = spec.model_copy(update={"options": {**spec.options, "cancel": True}})
    cluster = (
        None
        if asked.nodelist is None
        else read_cluster(asked.nodelist, asked.labels, asked.include_unavailable).topology
    )
    excluded = _parse_nodes(spec.exclude_nodes or "", cluster)
    if excluded:
        # A name is one of the topology, which is no part of the specification.
        spec = spec.model_copy(update={"exclude_nodes": ",".join(map(str, excluded))})
    problems = _problems(spec, excluded)
    solvers = _ready(spec, asked, problems, cluster)
    start = None if spec.warm_start is None else _warm_start(problems[0], Path(spec.warm_start))
    done: list[tuple[Problem, Result]] = []
    rows: list[SolveRow] = []
    try:
        for problem in problems:
            budget = Budget(spec.time_limit, spec.iterations, spec.gap)
            told = _print_incumbent if asked.verbose else None
            try:
                # What a solver prints meanwhile goes to standard error, and rows to standard output.
                with prints_on_stderr():
                    result = solve(
                        problem,
                        solver=solvers[problem.kind],
                        seed=spec.seed,
                        budget=budget,
                        certify=asked.certify,
                        warm_start=start,
                        on_incumbent=told,
                    )
            except SolveInterrupted as interruption:
                result = interruption.result
            done.append((problem, result))
            rows.append(_report(problem, result, asked, cluster))
            # It raises what Ctrl-C raises, now that the answer so far is written; what comes after is not solved.
            result.unless_interrupted()
    # Also after Ctrl-C: incumbents of the solves so far are worth drawing.
    finally:
        if asked.trajectory is not None and done:
            solved = [(SolveRow.of(*pair), TrajectoryRow.points_of(pair[1])) for pair in done]
            points = (point for solve, found in solved for point in TrajectoryRow.of(solve, found))
            TrajectoryRow.write(asked.trajectory, points)
    if asked.out is not None:
        ResultModel.write(asked.out, spec, [asdict(row) for row in rows])
    if any(result.status is Status.UNKNOWN for _, result in done):
        raise NoSolutionError("no solution was found within the limit")
    return [asdict(row) for row in rows]


command = spec_command(run, SolveSpec, _OWN, SolveOptions)


def _parse_nodes(text: str, cluster: "NamedTree | None" = None) -> list[int]:
    """Turn numbers and ranges such as ``3,7-9``, or a hostlist of names, into node numbers; an empty text holds none.

    What is made of digits, commas and hyphens holds numbers; anything else is names, which need a cluster.
    """
    from allocopt.cluster.topology import LARGEST_CLUSTER
    from allocopt.errors import InvalidProblemError, UsageError

    if cluster is not None and not _NUMBERS.fullmatch(text):
        from allocopt.cluster.hostlist import expand_hostlist

        try:
            return cluster.numbers(expand_hostlist(text))
        except InvalidProblemError as error:
            raise UsageError(f"nodes {text!r}: {error.fault}") from None
    ranges: list[range] = []
    for part in text.split(",") if text.strip() else []:
        match = _RANGE.fullmatch(part)
        if match is None:
            right = "must be numbers and ranges such as 3,7-9; names are those of a topology that is given"
            raise UsageError(f"nodes {text!r} hold {part!r}, {right}")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < LARGEST_CLUSTER:
            raise UsageError(f"nodes {text!r} hold {part!r}, must rise within 0..{LARGEST_CLUSTER - 1}")
        ranges.append(range(first, last + 1))
    if sum(map(len, ranges)) > LARGEST_CLUSTER:
        raise UsageError(f"nodes {text!r} are more than {LARGEST_CLUSTER}")
    return [node for numbers in ranges for node in numbers]


def _problems(spec: SolveSpec, excluded: "Sequence[int]") -> "list[Problem]":
    """Return the instances under the strategy, without excluded nodes."""
    from allocopt.errors import InvalidProblemError
    from allocopt.experiments.fields import FieldError
    from allocopt.problems.instances import read_instances
    from allocopt.problems.kind import kind_of
    from allocopt.problems.topology import TopologyProblem

    problems = []
    for problem in read_instances([Path(name) for name in spec.instances]):
        kind = kind_of(problem)
        if spec.strategy is not None and not kind.strategies:
            raise FieldError("strategy", f"{problem.name}: a {problem.kind} problem takes none")
        posed = kind.posed(problem, spec.strategy)
        if excluded:
            if not isinstance(posed, TopologyProblem):
                raise FieldError("exclude_nodes", f"{problem.name}: a {problem.kind} problem takes none")
            try:
                posed = posed.without_nodes(list(excluded))
            except InvalidProblemError as error:
                raise FieldError("exclude_nodes", f"{problem.name}: {error.fault}") from None
        problems.append(posed)
    return problems


def _ready(
    spec: SolveSpec, asked: SolveOptions, problems: "list[Problem]", cluster: "NamedTree | None"
) -> "dict[str, Solver]":
    """Refuse what can be refused before kernels are compiled and solvers start, and return these by kind."""
    from allocopt.errors import UsageError
    from allocopt.experiments.fields import FieldError
    from allocopt.solving.budget import Budget
    from allocopt.solving.protocol import Exporter, get_solver
    from allocopt.solving.solve import check_takes, prepare

    if len(problems) > 1 and spec.warm_start is not None:
        raise FieldError("warm_start", f"takes one instance, {len(problems)} were given")
    solvers = {
        kind: get_solver(spec.solver, spec.options, kind) for kind in dict.fromkeys(one.kind for one in problems)
    }
    Budget(spec.time_limit, spec.iterations, spec.gap)
    if len(problems) > 1 and asked.export is not None:
        raise UsageError(f"--export takes one instance, {len(problems)} were given")
    if cluster is not None:
        _check_names(problems, cluster, asked.nodelist)
    # An answer may take the place of the one that it began with: it is never worse.
    files = [path for field, _, path in spec.files() if field != "warm_start"]
    answers = [] if asked.solution is None else [asked.solution / f"{problem.name}.json" for problem in problems]
    start = None if spec.warm_start is None else Path(spec.warm_start)
    check_files_differ(start, asked.export, asked.trajectory, asked.out)
    check_files_differ(asked.export, asked.trajectory, asked.out, *answers, read=[*files, *listed(asked.nodelist)])
    if asked.export is not None:
        (problem,), (solver,) = problems, solvers.values()
        check_takes(solver, problem)
        if not isinstance(solver, Exporter):
            fault = f"solver {solver.name!r} has no model to export; scip, cp-sat, highs and scip-paper have one"
            raise UsageError(fault)
        solver.export(problem, asked.export)
    for kind, solver in solvers.items():
        prepare(solver, [problem for problem in problems if problem.kind == kind])
    return solvers


def _warm_start(problem: "Problem", path: Path) -> object:
    from allocopt.errors import BadFileError, InvalidSolutionError
    from allocopt.solving.solution_files import read_solution, solution_of
    from allocopt.solving.verify import verify

    stored = read_solution(path)
    if stored.answer is None:
        raise BadFileError(f"{path}: {stored.answer_key}: is null, must be a solution to begin with")
    try:
        start = solution_of(problem, stored)
        verify(problem, start)
    except InvalidSolutionError as error:
        raise InvalidSolutionError(f"{path}: {error}") from None
    return start


def _print_incumbent(incumbent: "Incumbent") -> None:
    from allocopt.solving.result import gap_between

    gap = gap_between(incumbent.objective, incumbent.bound)
    bound = "-" if incumbent.bound is None else f"{incumbent.bound:.3f}"
    shown = "-" if gap is None else f"{100 * gap:.3f} %"
    columns = f"objective {incumbent.objective:16.3f}  bound {bound:>16}  gap {shown:>10}"
    print(f"{incumbent.time_s:10.3f} s  {columns}", file=sys.stderr)


def _report(problem: "Problem", result: "Result", asked: SolveOptions, cluster: "NamedTree | None") -> "SolveRow":
    from allocopt.problems.kind import kind_of
    from allocopt.problems.placement.problem import PlacementProblem, Placements
    from allocopt.problems.topology import Allocation, TopologyProblem
    from allocopt.report.rows import SolveRow, shown
    from allocopt.solving.solution_files import write_solution

    lists, found = {}, result.solution
    if cluster is not None and found is not None and isinstance(problem, TopologyProblem | PlacementProblem):
        assert isinstance(found, Allocation | Placements)
        sets = found.node_sets if isinstance(found, Placements) else found.nodes
        # A job that is left out starts nowhere.
        lists = {
            job: cluster.hostlist(nodes.tolist())
            for job, nodes in zip((job.id for job in problem.jobs), sets, strict=True)
            if len(nodes)
        }
    if asked.solution is not None and result.solution is not None:
        write_solution(asked.solution / f"{problem.name}.json", problem, result)
    row = SolveRow.of(problem, result)
    if asked.as_json:
        extra = {} if cluster is None else {"nodelists": lists}
        print(json.dumps({**asdict(row), **extra}, allow_nan=False), flush=True)
        return row
    gap = "" if row.gap is None else f"  gap {100 * row.gap:.3f} %"
    cost = "no solution" if row.objective is None else shown(problem, row.objective)
    how = f"{row.instance}  {row.strategy or row.kind}  {row.solver}  {row.status}"
    remark = "" if found is None else kind_of(problem).remark(problem, found)
    proof = f"  {result.proof}" if result.proof else ""
    print(f"{how}  {cost}{gap}  {row.runtime_s:.3f} s{proof}{remark and '  '}{remark}", flush=True)
    for job, hostlist in lists.items():
        print(f"{job}\t{hostlist}", flush=True)
    return row


def _check_names(problems: "Sequence[Problem]", cluster: "NamedTree", path: Path | None) -> None:
    from allocopt.errors import UsageError
    from allocopt.problems.placement.problem import PlacementProblem
    from allocopt.problems.topology import TopologyProblem

    if cluster.is_beside:
        raise UsageError(f"--nodelist: jobs get nodes side by side in the rings and toruses of {path}")
    for problem in problems:
        if not isinstance(problem, TopologyProblem | PlacementProblem) or not cluster.is_like(problem.topology):
            fault = f"{problem.name} is not about the {len(cluster.nodes)} nodes of {path} as they are connected there"
            raise UsageError(f"--nodelist: {fault}")
        rules = (
            [(job.id, job.request.least_nodes, job.request.most_groups) for job in problem.jobs]
            if isinstance(problem, PlacementProblem)
            else [(job.id, job.nodes, (0,) * len(cluster.tree.names)) for job in problem.jobs if job.nodes > 1]
        )
        for job_id, nodes, most in rules:
            pairs = zip(cluster.most_groups(nodes), most, strict=True)
            if any(may and not 0 < has <= may for may, has in pairs):
                fault = f"job {job_id!r} of {problem.name} may span blocks or roots of {path}, as Slurm lets none"
                raise UsageError(f"--nodelist: {fault}: `generate window` makes instances that obey")
    # It raises an error for a name that a hostlist cannot hold, before anything is solved.
    cluster.hostlist(range(len(cluster.nodes)))
