"""Solutions: objective, bound, and the nodes or choices of each job."""

from pathlib import Path

import numpy as np

from allocopt.cluster.hostlist import fold_hostlist
from allocopt.cluster.named import NamedTree
from allocopt.cluster.topology import FatTree
from allocopt.errors import InvalidSolutionError
from allocopt.files.faults import bad_file
from allocopt.files.models import SolutionModel
from allocopt.problems.base import Problem
from allocopt.problems.kind import NodeMap, kind_of
from allocopt.report.html.document import Column, Section, Table
from allocopt.report.html.figures.tree import IDLE, TAKEN, TreePicture
from allocopt.report.words import EN_DASH, Cell, number, percent
from allocopt.solving.result import gap_between
from allocopt.solving.solution_files import check_solution, read_solution, solution_of


def solution_section(path: Path, problem: Problem, cluster: NamedTree | None = None) -> Section:
    """Return the section of a solution; raise `BadFileError` if the file is wrong or does not solve the instance."""
    stored, kind = read_solution(path), kind_of(problem)
    try:
        if stored.answer is not None:
            check_solution(problem, stored)
    except InvalidSolutionError as error:
        raise bad_file(path, str(error)) from None
    solution = None if stored.answer is None else solution_of(problem, stored)
    nodes = kind.node_map(problem, solution)
    verdict = (_found(stored, kind.objective, kind.answer),)
    title = f"{kind.answer if nodes else 'solution'} of {stored.instance}"
    title = title[0].upper() + title[1:]
    if nodes is None:
        parts: tuple[Table, ...] = ()
        if table := kind.table(problem, solution):
            kept = [place for place in range(len(table.columns)) if any(row[place] is not None for row in table.rows)]
            columns = tuple(Column(*table.columns[place]) for place in kept)
            parts = (Table(table.title, columns, tuple(tuple(row[place] for place in kept) for row in table.rows)),)
        return Section(title, verdict, parts=parts, source=path.name)
    if nodes.held is None:
        return Section(title, verdict, source=path.name)
    picture, doubts = _picture(nodes, cluster, "Allocation on the tree")
    left = f"{len(nodes.idle) - sum(nodes.sizes):,} of {len(nodes.idle):,} idle nodes stay idle."
    levels = len(nodes.topology.hops) - 1
    # Only a fat tree has pods; the site's own words for its levels are not known.
    of_site = ["leaf switches", *(f"switches of level {level}" for level in range(2, levels + 1))][:levels]
    titles = ["leaves", "pods"] if isinstance(nodes.topology, FatTree) else of_site
    rows: list[tuple[Cell, ...]] = []
    for job, held, cost in zip(nodes.names, nodes.held, nodes.costs, strict=True):
        groups = [len(np.unique(level)) for level in nodes.topology.groups_of(held)]
        ordered = np.sort(held)
        runs = np.split(ordered, np.flatnonzero(np.diff(ordered) > 1) + 1)
        listed = ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}{EN_DASH}{run[-1]}" for run in runs)
        if picture.node_names:
            listed = fold_hostlist(picture.node_names[node] for node in ordered.tolist())
        rows.append((job, len(held), cost, *groups, listed))
    heads = (
        Column("job"), Column("nodes", 0), Column("hop cost", 1), *(Column(each, 0) for each in titles),
        Column("on nodes"),
    )  # fmt: skip
    table_of_jobs = Table("Jobs and their nodes", heads, tuple(rows), picture.keys)
    parts_of_nodes = (table_of_jobs, picture.figure())
    return Section(title, (*verdict, left), parts=parts_of_nodes, notes=doubts, source=path.name)


def _found(stored: SolutionModel, objective: str, answer: str) -> str:
    """Return a sentence on the objective of a solution and on what is proved of it."""
    if stored.objective is None:
        return f"{stored.solver} found no {answer}; the status is {stored.status.lower()}."
    under = "" if stored.strategy is None else f" under strategy {stored.strategy}"
    gap = gap_between(stored.objective, stored.bound)
    if stored.status == "OPTIMAL":
        proof = "which is proved to be optimal"
    elif gap is not None and stored.bound is not None:
        proof = f"which is within {percent(gap, 3)} of the bound"
    else:
        proof = "for which there is no bound"
    return f"The {answer} found by {stored.solver} has {objective} {number(stored.objective)}{under}, {proof}."


def instance_section(path: Path, problem: Problem, nodes: NodeMap, cluster: NamedTree | None = None) -> Section:
    """Return the section of a window: its idle nodes and waiting jobs."""
    picture, doubts = _picture(nodes, cluster, "Idle nodes on the tree")
    rows = tuple(zip(nodes.names, nodes.sizes, strict=True))
    verdict = (
        f"{len(nodes.names):,} jobs request {sum(nodes.sizes):,} nodes; {len(nodes.idle):,} of the machine's "
        f"{nodes.topology.size:,} nodes are idle."
    )
    parts = (Table("Jobs", (Column("job"), Column("nodes", 0)), rows), picture.figure())
    return Section(f"Window {problem.name}", (verdict,), parts=parts, notes=doubts, source=path.name)


def _picture(nodes: NodeMap, cluster: NamedTree | None, title: str) -> tuple[TreePicture, tuple[str, ...]]:
    """Return the picture of the nodes, and a sentence if they are not the nodes of the cluster."""
    owner = np.full(nodes.topology.size, TAKEN, dtype=np.int64)
    owner[nodes.idle] = IDLE
    for job, held in enumerate(nodes.held or ()):
        owner[held] = job
    names: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    if cluster is not None and cluster.is_like(nodes.topology):
        names = cluster.nodes
    elif cluster is not None:
        given = f"the {len(cluster.nodes):,} nodes of the given topology"
        doubts = (f"Nodes are shown by number: the instance does not have {given}.",)
    jobs = [] if nodes.held is None else list(nodes.names)
    return TreePicture(nodes.topology, owner, jobs, title=title, node_names=names), doubts
