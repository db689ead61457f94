"""Solutions: who gets what, beside the objective and its bound."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.hostlist import fold_hostlist
from allocopt.cluster.named import NamedTree
from allocopt.errors import InvalidSolutionError
from allocopt.files.faults import bad_file
from allocopt.files.solution import StoredSolution, check_solution, read_solution, solution_of
from allocopt.problems.base import Problem
from allocopt.problems.coallocation.problem import CoallocationProblem
from allocopt.problems.hop_cost import hop_costs
from allocopt.problems.knapsack import KnapsackProblem
from allocopt.problems.topology import TopologyProblem
from allocopt.report.html.document import Column, Fact, Section, Table
from allocopt.report.html.figures.tree import IDLE, TAKEN, TreePicture
from allocopt.report.html.words import EN_DASH, number, percent
from allocopt.report.table import Cell
from allocopt.solving.result import gap_between


def solution_section(path: Path, problem: Problem, cluster: NamedTree | None = None) -> Section:
    """Show a solution file.

    Parameters
    ----------
    path
        The file.
    problem
        Its instance.
    cluster
        What the nodes are called; None for their numbers.

    Raises
    ------
    BadFileError
        If the file is wrong, or is no solution of the instance.
    """
    stored = read_solution(path)
    try:
        if stored.answer is not None:
            check_solution(problem, stored)
    except InvalidSolutionError as error:
        raise bad_file(path, str(error)) from None
    parts: Sequence[Table] = ()
    if isinstance(problem, TopologyProblem):
        return _topology_section(path, problem, stored, cluster)
    if isinstance(problem, KnapsackProblem):
        parts = [_selected(problem, stored)]
    elif isinstance(problem, CoallocationProblem):
        parts = [_placements(stored)]
    return Section(f"Solution of {stored.instance}", path.name, tuple(_facts(stored)), parts=tuple(parts))


def instance_section(path: Path, problem: TopologyProblem, cluster: NamedTree | None = None) -> Section:
    """Show the idle nodes of a window and the jobs that wait."""
    picture = TreePicture(
        problem.topology, _owners(problem), (), title="Idle nodes on the tree", node_names=_names(problem, cluster)
    )
    rows = tuple((job.id, int(job.nodes)) for job in problem.jobs)
    return Section(
        f"Window {problem.name}",
        path.name,
        (
            Fact("jobs", f"{len(problem.jobs):,}"),
            Fact("nodes asked for", f"{int(problem.sizes.sum()):,}"),
            Fact("idle nodes", f"{len(problem.idle_nodes):,}"),
            Fact("nodes", f"{problem.topology.size:,}"),
        ),
        _doubts(problem, cluster),
        (picture.figure(), Table("Jobs", (Column("job"), Column("nodes", 0)), rows)),
    )


def _topology_section(
    path: Path, problem: TopologyProblem, stored: StoredSolution, cluster: NamedTree | None
) -> Section:
    """Show an allocation."""
    facts = tuple(_facts(stored))
    title = f"Allocation of {stored.instance}"
    if stored.answer is None:
        return Section(title, path.name, facts, ("There is no allocation.",))
    held = solution_of(problem, stored).nodes
    owner = _owners(problem)
    for job, nodes in enumerate(held):
        owner[nodes] = job
    names = _names(problem, cluster)
    picture = TreePicture(problem.topology, owner, [job.id for job in problem.jobs], node_names=names)
    left = Fact("nodes left idle", f"{problem.n_left:,} of {len(problem.idle_nodes):,}")
    table = _job_table(problem, held, names, picture.roles)
    return Section(title, path.name, (*facts, left), _doubts(problem, cluster), (picture.figure(), table))


def _facts(stored: StoredSolution) -> list[Fact]:
    """Return the numbers of a solution."""
    gap = gap_between(stored.objective, stored.bound)
    facts = [Fact("status", str(stored.status).lower()), Fact("solver", stored.solver)]
    if stored.strategy is not None:
        facts.append(Fact("strategy", str(stored.strategy)))
    name = "hop cost" if stored.kind == TopologyProblem.kind else "objective"
    facts.append(Fact(name, EN_DASH if stored.objective is None else number(stored.objective)))
    if gap is not None and stored.bound is not None:
        facts.append(Fact("gap to the bound", f"{percent(gap, 3)}"))
    return facts


def _owners(problem: TopologyProblem) -> IntArray:
    """Say of every node whether it is idle."""
    owner = np.full(problem.topology.size, TAKEN, dtype=np.int64)
    owner[problem.idle_nodes] = IDLE
    return owner


def _names(problem: TopologyProblem, cluster: NamedTree | None) -> tuple[str, ...]:
    """Names of the nodes, if the cluster is the one that the problem is about."""
    return cluster.nodes if cluster is not None and cluster.is_like(problem.topology) else ()


def _doubts(problem: TopologyProblem, cluster: NamedTree | None) -> tuple[str, ...]:
    """Say that the names that were given are not used, where they are those of another cluster."""
    if cluster is None or cluster.is_like(problem.topology):
        return ()
    return (f"Nodes have numbers: this is not about the {len(cluster.nodes):,} nodes of the topology that was given.",)


def _job_table(
    problem: TopologyProblem, held: Sequence[IntArray], names: tuple[str, ...], roles: Sequence[str]
) -> Table:
    """Return a line per job: what it costs, over how many groups it lies, and its nodes."""
    costs = hop_costs(problem.topology, problem.hop_cost, held)
    levels = len(problem.topology.hops) - 1
    titles = ["leaves", "pods"] if levels == 2 else [f"groups at level {level + 1}" for level in range(levels)]
    rows: list[tuple[Cell, ...]] = []
    for job, nodes, cost in zip(problem.jobs, held, costs.tolist(), strict=True):
        groups = [len(np.unique(level)) for level in problem.topology.groups_of(nodes)]
        rows.append((job.id, int(job.nodes), cost, *groups, _listed(nodes, names)))
    columns = (
        Column("job"), Column("nodes", 0), Column("hop cost", 1), *(Column(title, 0) for title in titles),
        Column("on nodes"),
    )  # fmt: skip
    return Table("Jobs and their nodes", columns, tuple(rows), tuple(roles))


def _listed(nodes: IntArray, names: tuple[str, ...]) -> str:
    """Write nodes as a hostlist, or as ranges of their numbers."""
    ordered = np.sort(nodes)
    if names:
        return fold_hostlist(names[node] for node in ordered.tolist())
    breaks = np.flatnonzero(np.diff(ordered) > 1) + 1
    runs = np.split(ordered, breaks)
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}{EN_DASH}{run[-1]}" for run in runs)


def _selected(problem: KnapsackProblem, stored: StoredSolution) -> Table:
    """Return a line per job of a knapsack: whether it starts, and what it asks for."""
    chosen = set(stored.selected or ())
    slots = stored.slots or {}
    resources = problem.resources
    rows = tuple(
        (
            job.id, "yes" if job.id in chosen else "no", *(int(job.request.get(each, 0)) for each in resources),
            job.wait_s, job.estimate_s, job.value, slots.get(job.id),
        )
        for job in problem.jobs
    )  # fmt: skip
    columns = (
        Column("job"), Column("starts"), *(Column(each, 0) for each in resources), Column("wait s", 0),
        Column("estimate s", 0), Column("value", 2), Column("slot", 0),
    )  # fmt: skip
    return _without_empty(Table("Jobs", columns, rows))


def _placements(stored: StoredSolution) -> Table:
    """Return a line per guest that is placed."""
    rows = tuple((guest, host, 100 * quota) for guest, host, quota in stored.placements or ())
    return Table("Guests and their hosts", (Column("guest"), Column("host"), Column("quota %", 0)), rows)


def _without_empty(table: Table) -> Table:
    """Leave out the columns that hold nothing."""
    kept = [
        place
        for place in range(len(table.columns))
        if any(row[place] is not None for row in table.rows)
    ]  # fmt: skip
    return Table(
        table.title,
        tuple(table.columns[place] for place in kept),
        tuple(tuple(row[place] for place in kept) for row in table.rows),
        table.swatches,
        table.note,
    )
