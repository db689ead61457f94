"""Contents of a page: a section per result file, or one for several files that are compared."""

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

# Several files of one of these kinds share a section.
_COMPARED = (Kind.SCHEDULE, Kind.CURVE, Kind.SIMULATIONS, Kind.SOLVES, Kind.TRAJECTORIES)
# Number of windows of an instance file that are drawn.
_MOST_WINDOWS = 8
# Larger files are not searched for an instance.
_LARGEST_BYTES = 64_000_000
_ENDINGS = (".json", ".json.gz", ".jsonl", ".jsonl.gz")


def contents(paths: Sequence[Path], instances: Sequence[Path] = (), cluster: NamedTree | None = None) -> list[Section]:
    """Return the sections that show result files; raise `BadFileError` if one is not a result file or is wrong.

    ``instances`` are files with the instances of solutions, if these are in other folders. ``cluster`` has the names
    and switches of the nodes.
    """
    known = [ResultFile.read(path) for path in paths]
    own = [file.path for file in known if file.kind is Kind.INSTANCE]
    pool = _Instances([*instances, *own])
    # A shared section is placed where its first file is. Curves share one if they have the same columns.
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
        verdict = section.verdict or (f"All {failed:,} runs failed.",)
        section = replace(
            section, verdict=verdict, notes=(f"Runs that failed and are left out: {failed:,}.", *section.notes)
        )
    # Sentences of several files name their file, unless they are the same for all.
    said = [tuple(file.made_by) for file in files]
    if len(set(said)) > 1:
        said = [tuple(f"{file.path.name}: {line}" for line in file.made_by) for file in files]
    made_by = dict.fromkeys(line for lines in (section.made_by, *said) for line in lines)
    yield replace(section, made_by=tuple(made_by))


class _Instances:
    """The instances of solution files by name: given, or found near the solutions."""

    def __init__(self, given: Sequence[Path]) -> None:
        self._problems: dict[str, Problem] = {}
        self._read: set[Path] = set()
        for path in given:
            self._take(read_problems(path))

    def of(self, solution: Path) -> Problem:
        """Return the instance of a solution: one given, one in its folder or the folder above, or a shipped one."""
        name = read_solution(solution).instance
        folder = solution.resolve().parent
        paths: list[Path] = []
        for place in (folder, folder.parent, folder.parent / "instances"):
            found = [path for ending in _ENDINGS for path in sorted(place.glob(f"*{ending}"))]
            # Files named after the instance come first.
            paths += sorted(found, key=lambda path: not path.name.startswith(f"{name}."))
        shipped = (Path(str(file)) for file in shipped_files("allocopt.data").iterdir())
        paths += [path for path in shipped if path.suffix == ".jsonl"]
        # Read files only until one holds the instance, since a folder may have many. Skip very large ones.
        for path in paths:
            if name not in self._problems and path not in self._read and path.stat().st_size <= _LARGEST_BYTES:
                self._read.add(path)
                # Most files are not instances.
                with suppress(BadFileError):
                    self._take(read_problems(path))
        if name not in self._problems:
            fault = f"is {shown(name)}, which is in no file in or above this folder; give its file with --instance"
            raise bad_file(solution, "instance", fault)
        return self._problems[name]

    def _take(self, problems: Sequence[Problem]) -> None:
        # The first instance of a name is kept.
        for problem in problems:
            self._problems.setdefault(problem.name, problem)
