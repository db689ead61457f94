"""From a sweep file to cells: their order, what tells them apart, and what is wrong said before anything runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.windows import paper_window

from allocopt.cluster.cluster import Cluster
from allocopt.cluster.platform import Platform
from allocopt.errors import BadFileError
from allocopt.experiments.cells import Grid
from allocopt.experiments.plan import plan
from allocopt.problems.instances import object_from_problem, read_instances, write_problems
from allocopt.problems.kind import get_kind, kind_names

SWF = "; MaxProcs: 8\n" + "".join(
    f"{job} {60 * job} -1 {100 + job} {1 + job % 4} -1 -1 {1 + job % 4} 500 -1 1 {job} -1 -1 -1 -1 -1 -1\n"
    for job in range(1, 30)
)
INSTANCES = '[[instances]]\nfiles = ["windows.jsonl"]\n'
LNS = '[[solvers]]\nname = "lns"\n'
KNAPSACK = '[[instances]]\nfiles = ["knapsack.json"]\n'
TRACE = '[[traces]]\nfile = "jobs.swf"\n'
FCFS = '[[policies]]\nname = "fcfs"\n'
TOO_LARGE = f"the iteration limit is {2**63 - 1}, must be of type int or None; it is too large"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder with instances and a trace."""
    write_problems(tmp_path / "windows.jsonl", [paper_window(0), paper_window(1)])
    write_problems(tmp_path / "copy.jsonl", [paper_window(0)])
    write_problems(tmp_path / "knapsack.json", read_instances([Path("@knapsacks")])[:1])
    (tmp_path / "jobs.swf").write_text(SWF, encoding="utf-8")
    (tmp_path / "topology.conf").write_text("SwitchName=s1 Nodes=n[0-3]\nSwitchName=s2 Nodes=n[4-7]\n", "utf-8")
    return tmp_path


def planned(folder: Path, text: str) -> Grid:
    (folder / "grid.toml").write_text(text, encoding="utf-8")
    return plan(folder / "grid.toml")


def asked(grid: Grid, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(cell.identity[name] for name in names) for cell in grid.cells]


def keys(folder: Path, text: str) -> list[str]:
    return [cell.key for cell in planned(folder, text).cells]


def test_cells_stand_in_the_order_of_instances_solvers_strategies_and_seeds(folder: Path) -> None:
    solvers = '[[solvers]]\nname = "lns"\nstrategies = ["dcas", "free"]\n[[solvers]]\nname = "best-fit"\nseeds = [7]\n'
    grid = planned(folder, f"seeds = [3, 1]\n{INSTANCES}{solvers}")
    expected = [("lns", "dcas", 3), ("lns", "dcas", 1), ("lns", "free", 3), ("lns", "free", 1), ("best-fit", "free", 7)]
    assert asked(grid, "instance", "solver", "strategy", "seed") == [
        (name, *cell) for name in ("paper-0", "paper-1") for cell in expected
    ]
    assert len(grid.inputs) == 2


def test_limits_of_a_table_stand_for_those_of_the_file(folder: Path) -> None:
    tables = ["", "iterations = 5\n", "time_limit = 2.5\n", "gap = 0.25\n"]
    solvers = "".join(f'[[solvers]]\nname = "lns"\noptions = {{steps = {9 + n}}}\n{t}' for n, t in enumerate(tables))
    names = ("time_limit_s", "iterations", "gap_limit")
    assert asked(planned(folder, INSTANCES + solvers), *names)[:4] == [
        (10.0, None, 0.0), (None, 5, 0.0), (2.5, None, 0.0), (10.0, None, 0.25),
    ]  # fmt: skip
    assert asked(planned(folder, f"iterations = 3\ngap = 0.5\n{INSTANCES}{solvers}"), *names)[:4] == [
        (None, 3, 0.5), (None, 5, 0.5), (2.5, None, 0.5), (None, 3, 0.25),
    ]  # fmt: skip


def test_a_cell_is_told_apart_by_content_not_by_where_it_stands(folder: Path) -> None:
    solvers = f"iterations = 9\n{LNS}"
    before = keys(folder, solvers + INSTANCES)
    objects = [object_from_problem(paper_window(index)) for index in (1, 0)]
    (folder / "moved.json").write_text(json.dumps(objects[0], indent=3), encoding="utf-8")
    (folder / "rest.json").write_text(json.dumps(dict(reversed(objects[1].items()))), encoding="utf-8")
    moved = keys(folder, solvers + '[[instances]]\nfiles = ["[mr]*.json"]\n')
    assert moved == [before[1], before[0]]
    objects[0]["jobs"][0]["nodes"] += 1  # type: ignore[index]
    (folder / "moved.json").write_text(json.dumps(objects[0]), encoding="utf-8")
    changed = keys(folder, solvers + '[[instances]]\nfiles = ["[mr]*.json"]\n')
    assert changed[1] == moved[1]
    assert changed[0] != moved[0]


@pytest.mark.parametrize(
    "other",
    ['name = "lns"\nseeds = [1]', 'name = "lns"\noptions = {price = 0.5}', 'name = "lns"\ngap = 0.1',
     'name = "lns"\nstrategies = ["dcas"]', 'name = "lns"\niterations = 8', 'name = "annealing"'],
)  # fmt: skip
def test_every_setting_makes_another_cell(folder: Path, other: str) -> None:
    first = f"iterations = 9\n{INSTANCES}{LNS}"
    assert len(keys(folder, f"{first}[[solvers]]\n{other}\n")) == 4


def test_what_is_described_twice_is_one_cell(folder: Path) -> None:
    solver = '[[solvers]]\nname = "lns"\noptions = {most-removed = 3, price = 0.5}\nseeds = [1, 1]\n'
    again = '[[solvers]]\nname = "lns"\noptions = {price = 0.5, most_removed = 3}\nseeds = [1]\n'
    assert len(keys(folder, f"iterations = 9\n{INSTANCES}{solver}{again}")) == 2


def test_traces_are_swept_over_policies_backfillings_and_seeds(folder: Path) -> None:
    second = '[[traces]]\nfile = "jobs.swf"\nname = "tree"\ntopology = "topology.conf"\nmax_jobs = 9\n'
    policies = (
        '[[policies]]\nname = "fcfs"\nbackfill = ["none", "easy"]\n[[policies]]\nname = "random"\nseeds = [0, 1]\n'
    )
    grid = planned(folder, TRACE + second + policies)
    expected = [("fcfs", "none", 0), ("fcfs", "easy", 0), ("random", None, 0), ("random", None, 1)]
    assert asked(grid, "policy", "backfill", "seed") == expected * 2
    assert [len(given.workload) for given in grid.inputs.values()] == [29, 9]
    # Two switches that none joins are a cluster on which no job has nodes of both.
    assert [type(given.machine) for given in grid.inputs.values()] == [Platform, Cluster]


@pytest.mark.parametrize(
    "change",
    ["processors = 9", "max_jobs = 9", "kill_at_limit = false", 'event_order = "sequential"', "exact_estimates = true",
     "dependencies = false", "fat_tree = [2, 2, 2]", 'topology = "topology.conf"'],
)  # fmt: skip
def test_another_machine_rule_or_job_makes_another_cell(folder: Path, change: str) -> None:
    first, second = planned(folder, f'{TRACE}{TRACE}name = "other"\n{change}\n{FCFS}').cells
    assert first.source != second.source


@pytest.mark.parametrize("name", ["topology.conf", "main.conf"], ids=["topology", "what it includes"])
def test_a_changed_topology_makes_another_cell(folder: Path, name: str) -> None:
    (folder / "main.conf").write_text("Include topology.conf\n", "utf-8")
    text = f'{TRACE}topology = "{name}"\n{FCFS}'
    before = keys(folder, text)
    (folder / "topology.conf").write_text("SwitchName=s1 Nodes=n[0-2]\nSwitchName=s2 Nodes=n[3-7]\n", "utf-8")
    assert keys(folder, text) != before


def test_a_whole_number_for_an_option_that_is_a_float_is_planned_and_run(folder: Path) -> None:
    grid = planned(folder, f'iterations = 9\n{INSTANCES}[[solvers]]\nname = "lns"\noptions = {{price = 1}}\n')
    cell = grid.cells[0]
    assert cell.task.run(grid.inputs[cell.source])["objective"] > 0


@pytest.mark.parametrize("kind", kind_names())
def test_every_kind_of_problem_is_swept(folder: Path, kind: str) -> None:
    shipped = get_kind(kind).shipped
    assert shipped is not None
    text = f'iterations = 9\n[[instances]]\nfiles = ["{shipped[0]}"]\n[[solvers]]\nname = "auto"\n'
    grid = planned(folder, text)
    assert len(grid.cells) == len(read_instances([Path(shipped[0])]))
    cell = grid.cells[0]
    row = cell.row(cell.task.run(grid.inputs[cell.source]))
    assert (row["kind"], row["solver"]) == (kind, "auto")
    assert row["objective"] is not None
    assert cell.is_row(row)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a ==", "is not TOML: Invalid value (at line 1, column 4)"),
        (f"seeds = [{'9' * 5000}]", "is not TOML: Exceeds the limit"),
        ('[instances]\nfiles = ["windows.jsonl"]', "[instances]: must be written [[instances]]: there may be several"),
        (f"iterations = {2**63 - 1}\n{INSTANCES}{LNS}", f"solvers[0]: {TOO_LARGE}"),
        (f"iterations = {2**63 - 1}\n{TRACE}{FCFS}", f"policies[0]: {TOO_LARGE}"),
        (f"{TRACE}processors = 3\nprocessors_per_node = 4\n{FCFS}", "traces[0]: processors: 3 are less than one node"),
        ("", "must hold [[instances]] and [[solvers]], or [[traces]] and [[policies]]"),
        (INSTANCES, "[[solvers]]: is missing: [[instances]] are swept with [[solvers]]"),
        (FCFS, "[[traces]]: is missing: [[policies]] are swept with [[traces]]"),
        (
            f"{INSTANCES}{TRACE}{LNS}{FCFS}",
            "[[traces]]: cannot be combined with [[instances]]: their rows differ; make",
        ),
        ("seeds = []", "seeds: is an empty list, list should have at least 1 item"),
        ("seeds = [-1]", "seeds[0]: is -1, must be greater than or equal to 0"),
        ("time_limit = 0", "time_limit: is 0, must be greater than 0"),
        ('[[solvers]]\nnmae = "lns"', "solvers[0].nmae: is an unknown key (and 1 more)"),
        (f'{INSTANCES}{LNS}[[solvers]]\nname = "ln"', "solvers[1]: there is no solver 'ln'; did you mean 'lns'?"),
        (f"{INSTANCES}{LNS}options = {{x = 1}}", "solvers[0]: solver 'lns' has no option 'x'"),
        (f'{INSTANCES}[[solvers]]\nname = "csp"', "solvers[0]: solver 'csp' does not take free; solvers that do: "),
        (f"{INSTANCES}{LNS}options = {{price = inf}}", "solvers[0]: options must be finite numbers"),
        (f"{INSTANCES}{LNS}options = {{price = 1979-05-27}}", "solvers[0]: options must be finite"),
        (f"{TRACE}{FCFS}options = {{x = nan}}", "policies[0]: options must be finite numbers"),
        (
            f'{INSTANCES}[[instances]]\nfiles = ["copy.jsonl"]\n{LNS}',
            "instances[1].files: 'paper-0' is also the name of",
        ),
        (f'[[instances]]\nfiles = ["windows.jsonl", "copy.jsonl"]\n{LNS}', "instances[0].files: FOLDER/copy.jsonl: "),
        (f"{KNAPSACK}{LNS}", "solvers[0]: solver 'lns' does not take knapsack problems; solvers that do: "),
        (f'{KNAPSACK}[[solvers]]\nname = "auto"\nstrategies = ["free"]', "solvers[0]: strategies are for topology"),
        (f'[[instances]]\nfiles = ["no.json"]\n{LNS}', "instances[0].files: FOLDER/no.json: No such file"),
        (f'[[instances]]\nfiles = ["x*"]\n{LNS}', "instances[0].files: no file matches 'x*'"),
        (f'{TRACE}[[policies]]\nname = "fcf"', "policies[0]: there is no policy 'fcf'; did you mean 'fcfs'?"),
        (f'{TRACE}[[policies]]\nname = "window"\nbackfill = ["easy"]', "policies[0]: policy 'window' is a scheduler"),
        (f'{TRACE}{FCFS}allocator = "lns"', "policies[0]: allocator: needs the topology of the"),
        (f'{TRACE}{FCFS}strategy = "free"', "policies[0]: strategy: needs the topology of the nodes"),
        (f'{TRACE}fat_tree = [2, 2, 2]\n{FCFS}allocator = "dp"', "policies[0]: allocator: 'dp' does not take free"),
        (f"{TRACE}processors = 3\n{FCFS}", "traces[0]: jobs: job 3 asks for 4 processors, the "),
        (f"{TRACE}processors = 9\nfat_tree = [1, 1, 1]\n{FCFS}", "traces[0]: processors: processors and fat_"),
        (f"{TRACE}{TRACE}max_jobs = 9\n{FCFS}", "traces[1].name: 'jobs' is also the name of another trace: give"),
        (f'[[traces]]\nfile = "no.swf"\n{FCFS}', "traces[0]: FOLDER/no.swf: No such file"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_file_table_and_key(folder: Path, text: str, fault: str) -> None:
    with pytest.raises(BadFileError) as error:
        planned(folder, text)
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"{folder / 'grid.toml'}: {fault.replace('FOLDER', str(folder))}")
