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
    from allocopt.solving.result import Result

_OWN = (
    *("instances", "strategy", "solver", "time_limit", "iterations", "gap", "seed", "options"),
    *("warm_start", "exclude_nodes"),
)
"""Fields that have their own option."""

_NUMBERS = re.compile(r"[\s\d,-]*")
_RANGE = re.compile(r"\s*(\d{1,18})(?:\s*-\s*(\d{1,18}))?\s*")


@dataclass(frozen=True, slots=True)
class SolveOptions:
    """Outputs of solves: files, hostlists and rows."""

    cancel: Annotated[
        bool, typer.Option("--cancel", help="Let the paper's model cancel jobs at a penalty (--option cancel=true).")
    ] = False
    solution: Annotated[Path | None, file_option("Write each solution to FOLDER/NAME.json.", metavar="FOLDER")] = None
    out: Annotated[Path | None, file_option("Write rows and inputs as JSON, for rerun.", metavar="FILE")] = None
    export: Annotated[
        Path | None, file_option("Write the model as .mps, .lp, .pb or .json; one instance.", metavar="FILE")
    ] = None
    trajectory: Trajectory = None
    nodelist: Annotated[
        Path | None,
        file_option(
            "Print hostlists for srun --nodelist; FILE describes the instance's topology or cluster and gives the "
            "node names.",
            metavar="FILE,...",
        ),
    ] = None
    labels: Labels = None
    include_unavailable: IncludeUnavailable = None
    certify: Annotated[
        bool, typer.Option("--certify", help="Check every bound, even if this takes more than a tenth of the solve.")
    ] = False
    verbose: Annotated[bool, typer.Option("--verbose", help="Print the log of each solve on stderr.")] = False
    as_json: Json = False


def run(spec: SolveSpec, asked: SolveOptions) -> list[dict[str, Any]]:
    """Solve instance files and verify every answer.

    Ctrl-C or SIGTERM stops the search; the best solution so far is kept, and the exit code is 130.
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
        # Names belong to a topology, and the specification does not have it: keep numbers.
        spec = spec.model_copy(update={"exclude_nodes": ",".join(map(str, excluded))})
    problems = _problems(spec, excluded)
    solvers = _ready(spec, asked, problems, cluster)
    start = None if spec.warm_start is None else _warm_start(problems[0], Path(spec.warm_start))
    done: list[tuple[Problem, Result]] = []
    rows: list[SolveRow] = []
    try:
        for problem in problems:
            budget = Budget(spec.time_limit, spec.iterations, spec.gap)
            try:
                # Standard output is for rows, so output of the solver goes to standard error.
                with prints_on_stderr():
                    result = solve(
                        problem,
                        solver=solvers[problem.kind],
                        seed=spec.seed,
                        budget=budget,
                        certify=asked.certify,
                        warm_start=start,
                        display=sys.stderr if asked.verbose else False,
                    )
            except SolveInterrupted as interruption:
                result = interruption.result
            done.append((problem, result))
            rows.append(_report(problem, result, asked, cluster))
            # Raise Ctrl-C only now that the answer so far is written; the instances after it are not solved.
            result.unless_interrupted()
    # Also after Ctrl-C: write the incumbents of the solves so far.
    finally:
        if asked.trajectory is not None and done:
            solved = [(SolveRow.of(*pair), TrajectoryRow.points_of(pair[1])) for pair in done]
            points = (point for solve, found in solved for point in TrajectoryRow.of(solve, found))
            TrajectoryRow.write(asked.trajectory, points)
    if asked.out is not None:
        ResultModel.write(asked.out, spec, [asdict(row) for row in rows])
    if any(result.status is Status.UNKNOWN for _, result in done):
        raise NoSolutionError("no solution was found within the limit for at least one instance")
    return [asdict(row) for row in rows]


command = spec_command(run, SolveSpec, _OWN, SolveOptions)


def _parse_nodes(text: str, cluster: "NamedTree | None" = None) -> list[int]:
    """Return the numbers of the nodes that a text lists: numbers and ranges such as ``3,7-9``, or a hostlist of names.

    A text of digits, commas and hyphens holds numbers. Any other text holds names, which need a cluster. An empty text
    lists no nodes.
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
            right = "must be numbers and ranges such as 3,7-9, or names together with --nodelist"
            raise UsageError(f"nodes {text!r} hold {part!r}, {right}")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < LARGEST_CLUSTER:
            raise UsageError(f"nodes {text!r} hold {part!r}, which must ascend within 0..{LARGEST_CLUSTER - 1}")
        ranges.append(range(first, last + 1))
    if sum(map(len, ranges)) > LARGEST_CLUSTER:
        raise UsageError(f"nodes {text!r} are too many, must be at most {LARGEST_CLUSTER}")
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
    """Check everything that can be checked before solves, make the solvers ready, and return them by kind."""
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
    # The answer may overwrite the warm start, because it is never worse.
    files = [path for field, _, path in spec.files() if field != "warm_start"]
    answers = [] if asked.solution is None else [asked.solution / f"{problem.name}.json" for problem in problems]
    start = None if spec.warm_start is None else Path(spec.warm_start)
    check_files_differ(start, asked.export, asked.trajectory, asked.out)
    check_files_differ(asked.export, asked.trajectory, asked.out, *answers, read=[*files, *listed(asked.nodelist)])
    if asked.export is not None:
        (problem,), (solver,) = problems, solvers.values()
        check_takes(solver, problem)
        if not isinstance(solver, Exporter):
            fault = f"solver {solver.name!r} has no model to export; use scip, cp-sat, highs or scip-paper"
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
        raise BadFileError(f"{path}: {stored.answer_key}: is null, must be a solution to start from")
    try:
        start = solution_of(problem, stored)
        verify(problem, start)
    except InvalidSolutionError as error:
        raise InvalidSolutionError(f"{path}: {error}") from None
    return start


def _report(problem: "Problem", result: "Result", asked: SolveOptions, cluster: "NamedTree | None") -> "SolveRow":
    from allocopt.problems.kind import kind_of, shown_objective
    from allocopt.problems.placement.problem import PlacementProblem, Placements
    from allocopt.problems.topology import Allocation, TopologyProblem
    from allocopt.report.rows import SolveRow
    from allocopt.solving.solution_files import write_solution

    lists, found = {}, result.solution
    if cluster is not None and found is not None and isinstance(problem, TopologyProblem | PlacementProblem):
        assert isinstance(found, Allocation | Placements)
        sets = found.node_sets if isinstance(found, Placements) else found.nodes
        # A job without nodes is not started.
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
    cost = "no solution" if row.objective is None else shown_objective(problem, row.objective)
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
        raise UsageError(f"--nodelist does not support the rings or toruses of {path}, where jobs need adjacent nodes")
    for problem in problems:
        if not isinstance(problem, TopologyProblem | PlacementProblem) or not cluster.is_like(problem.topology):
            fault = f"{problem.name} has another topology than the {len(cluster.nodes)} nodes of {path}"
            raise UsageError(f"--nodelist: {fault}")
        rules = (
            [(job.id, job.request.least_nodes, job.request.most_groups) for job in problem.jobs]
            if isinstance(problem, PlacementProblem)
            else [(job.id, job.nodes, (0,) * len(cluster.tree.names)) for job in problem.jobs if job.nodes > 1]
        )
        for job_id, nodes, most in rules:
            pairs = zip(cluster.most_groups(nodes), most, strict=True)
            if any(may and not 0 < has <= may for may, has in pairs):
                fault = f"job {job_id!r} of {problem.name} may span blocks or roots of {path}, which Slurm forbids"
                raise UsageError(f"--nodelist: {fault}; make the instance with `allocopt generate window`")
    # This raises an error for a name that a hostlist cannot hold, before anything is solved.
    cluster.hostlist(range(len(cluster.nodes)))
