"""What a page shows of some files: a section each, and one for those that are best compared."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files as shipped_files
from pathlib import Path

from allocopt.cluster.named import NamedTree
from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, shown
from allocopt.problems.base import Problem
from allocopt.problems.instances import read_problems
from allocopt.problems.kind import kind_of
from allocopt.report.html.document import Section
from allocopt.report.html.results import Kind, ResultFile, SolveRecord
from allocopt.report.html.sections.schedules import placed_section, schedules_section
from allocopt.report.html.sections.solutions import instance_section, solution_section
from allocopt.report.html.sections.solves import solves_section, trajectories_section
from allocopt.report.html.sections.tables import (
    curves_section,
    energy_section,
    reproduction_section,
    simulation_groups_section,
    simulations_section,
)
from allocopt.report.html.sections.what_if import groups_section, what_if_section
from allocopt.report.rows import SimulateGroupRow, TrajectoryRow
from allocopt.report.what_if import WhatIfRow
from allocopt.report.what_if_groups import GroupRow
from allocopt.reproduction import ReproductionRow
from allocopt.solving.solution_files import read_solution

# Several files of these kinds make one section.
_COMPARED = (Kind.SCHEDULE, Kind.CURVE, Kind.SIMULATIONS, Kind.SOLVES, Kind.TRAJECTORIES)
# So many windows of a file of instances are drawn.
_MOST_WINDOWS = 8
# What is larger is not looked into in search of an instance.
_LARGEST_BYTES = 64_000_000
_ENDINGS = (".json", ".json.gz", ".jsonl", ".jsonl.gz")


def contents(paths: Sequence[Path], instances: Sequence[Path] = (), cluster: NamedTree | None = None) -> list[Section]:
    """Read files of results and return what is shown of them; raise `BadFileError` if one is none, or wrong.

    ``instances`` are those of the solutions, where they do not lie beside, ``cluster`` are names and switches of nodes.
    """
    known = [ResultFile.read(path) for path in paths]
    own = [file.path for file in known if file.kind is Kind.INSTANCE]
    pool = _Instances([*instances, *own])
    # Groups stand where their first file was given; curves share one where they have the same columns.
    groups: dict[tuple[str, ...], list[ResultFile]] = {}
    for file in known:
        apart = (
            file.records[0].values if file.kind is Kind.CURVE else () if file.kind in _COMPARED else [str(file.path)]
        )
        groups.setdefault((file.kind, *apart), []).append(file)
    return [section for group in groups.values() for section in _sections(group, pool, cluster)]


def _sections(files: Sequence[ResultFile], pool: "_Instances", cluster: NamedTree | None) -> Iterator[Section]:
    first, source = files[0], ", ".join(file.path.name for file in files)
    makers: dict[Kind, Callable[[], Section]] = {
        Kind.SOLVES: lambda: solves_section(source, [row for each in files for row in each.rows(SolveRecord)]),
        Kind.TRAJECTORIES: lambda: trajectories_section(
            source, [row for each in files for row in each.rows(TrajectoryRow)]
        ),
        Kind.SIMULATIONS: lambda: simulations_section(files),
        Kind.WHAT_IF: lambda: what_if_section(
            source, [(row, None) for row in first.rows(WhatIfRow)], first.group_rows(GroupRow)
        ),
        Kind.WHAT_IF_GROUPS: lambda: groups_section(source, first.rows(GroupRow)),
        Kind.SIMULATION_GROUPS: lambda: simulation_groups_section(source, first.rows(SimulateGroupRow)),
        Kind.REPRODUCTION: lambda: reproduction_section(source, first.rows(ReproductionRow)),
        Kind.SCHEDULE: lambda: schedules_section(files, cluster),
        Kind.PLACED: lambda: placed_section(first, cluster),
        Kind.ENERGY: lambda: energy_section(first),
        Kind.CURVE: lambda: curves_section(files),
        Kind.SOLUTION: lambda: solution_section(first.path, pool.of(first.path), cluster),
    }
    if first.kind is Kind.INSTANCE:
        problems = read_problems(first.path)
        maps = [(problem, nodes) for problem in problems if (nodes := kind_of(problem).node_map(problem, None))]
        yield from (instance_section(first.path, *pair, cluster) for pair in maps[:_MOST_WINDOWS])
        return
    section = makers[first.kind]()
    if failed := sum(file.failures for file in files):
        section = replace(section, verdict=(*section.verdict, f"Runs that failed and are left out: {failed:,}."))
    # Of several files each sentence says whose it is, unless all say the same.
    said = [tuple(file.made_by) for file in files]
    if len(set(said)) > 1:
        said = [tuple(f"{file.path.name}: {line}" for line in file.made_by) for file in files]
    made_by = dict.fromkeys(line for lines in (section.made_by, *said) for line in lines)
    yield replace(section, made_by=tuple(made_by))


class _Instances:
    """The instances that solution files are about, by name: given, or found beside them."""

    def __init__(self, given: Sequence[Path]) -> None:
        self._problems: dict[str, Problem] = {}
        self._read: set[Path] = set()
        for path in given:
            self._take(read_problems(path))

    def of(self, solution: Path) -> Problem:
        """Find an instance: among those given, then beside the solution and in the folder above, then as shipped."""
        name = read_solution(solution).instance
        folder = solution.resolve().parent
        paths: list[Path] = []
        for place in (folder, folder.parent, folder.parent / "instances"):
            found = [path for ending in _ENDINGS for path in sorted(place.glob(f"*{ending}"))]
            # Those named like it come first.
            paths += sorted(found, key=lambda path: not path.name.startswith(f"{name}."))
        shipped = (Path(str(file)) for file in shipped_files("allocopt.data").iterdir())
        paths += [path for path in shipped if path.suffix == ".jsonl"]
        # Files are read until one holds it: a folder may have many, and what is very large is not looked into.
        for path in paths:
            if name not in self._problems and path not in self._read and path.stat().st_size <= _LARGEST_BYTES:
                self._read.add(path)
                # Most of them are no instances.
                with suppress(BadFileError):
                    self._take(read_problems(path))
        if name not in self._problems:
            fault = f"is {shown(name)}, of which there is no file here; --instance names it"
            raise bad_file(solution, "instance", fault)
        return self._problems[name]

    def _take(self, problems: Sequence[Problem]) -> None:
        # The first of a name stays.
        for problem in problems:
            self._problems.setdefault(problem.name, problem)
