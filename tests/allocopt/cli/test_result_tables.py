"""Results as tables: their columns are documented, and are those of the files that the commands write."""

import csv
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import Run
from support.windows import paper_window

import allocopt
from allocopt.cluster.platform import Platform
from allocopt.cluster.topology import FatTree
from allocopt.errors import UsageError
from allocopt.experiments import compare, sweep, what_if
from allocopt.experiments.simulations import Site
from allocopt.experiments.specs import SimulationSpec
from allocopt.files.csv_rows import read_cell
from allocopt.problems.instances import write_problems
from allocopt.report.rows import write_table
from allocopt.report.what_if_rows import WhatIfRows
from allocopt.simulator import Rules, WindowScheduler
from allocopt.solving.budget import Budget
from allocopt.tables import RowTable, Tabular
from allocopt.traces.workload import Workload

TREE = FatTree(2, 2, 4)
BUDGET = Budget(iterations=20)
PAGE = Path(__file__).parents[3] / "docs" / "api" / "tables.md"
MEASURED = {"runtime_s", "jobs_per_s"}
"""Columns that differ from run to run."""
SWF = "; MaxProcs: 8\n" + "".join(
    f"{job} {60 * job} -1 {100 + job} {1 + job % 4} -1 -1 {1 + job % 4} 500 -1 1 {job} -1 -1 -1 -1 -1 -1\n"
    for job in range(1, 30)
)
TOPOLOGY = "SwitchName=s1 Nodes=n[0-3]\nSwitchName=s2 Nodes=n[4-7]\nSwitchName=top Switches=s[1-2]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder with instances, a trace, a topology and sweeps."""
    write_problems(tmp_path / "windows.jsonl", [paper_window(0), paper_window(1)])
    (tmp_path / "jobs.swf").write_text(SWF, encoding="utf-8")
    (tmp_path / "topology.conf").write_text(TOPOLOGY, encoding="utf-8")
    (tmp_path / "solves.toml").write_text(
        'iterations = 20\nseeds = [0, 1]\n[[instances]]\nfiles = ["windows.jsonl"]\n[[solvers]]\nname = "annealing"\n',
        encoding="utf-8",
    )
    (tmp_path / "policies.toml").write_text(
        '[[traces]]\nfile = "jobs.swf"\n[[policies]]\nname = "sjf"\nbackfill = ["none", "easy"]\n', encoding="utf-8"
    )
    return tmp_path


def documented(title: str) -> list[str]:
    """Return the columns that a section of the page lists."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def read_csv(path: Path) -> dict[str, list[str]]:
    """Return the columns of a file."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [read_cell(row[name]) for row in rows] for name in rows[0]}


def written(value: Any) -> Any:
    """Return a value of a table as a CSV file holds it."""
    if value is None:
        return ""
    return json.loads(json.dumps(value)) if isinstance(value, list) else str(value)


def assert_agree(table: Tabular, file: Mapping[str, Sequence[str]], but: Collection[str] = ()) -> None:
    """Assert that a table has the columns and values of a file, except for some columns."""
    columns = table.columns()
    assert [name for name in file if name in columns] == list(columns)
    for name, values in columns.items():
        found = [json.loads(cell) if cell.startswith("[") else cell for cell in file[name]]
        assert name in but or found == [written(value) for value in values], name


def assert_converts(table: Tabular) -> None:
    """Assert that data frames and Arrow have all rows and columns, and Arrow and polars all values."""
    columns = table.columns()
    n_rows = {len(values) for values in columns.values()}
    frame = table.to_pandas()
    assert (list(frame.columns), {len(frame)}) == (list(columns), n_rows)
    values = {name: list(column) for name, column in columns.items()}
    assert table.to_arrow().to_pydict() == values
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(table).to_dict(as_series=False) == table.to_polars().to_dict(as_series=False) == values


def workload(n_jobs: int = 60) -> Workload:
    rng = np.random.default_rng(1)
    run = rng.integers(60, 900, n_jobs).astype(float)
    submit = np.sort(rng.integers(0, 6000, n_jobs)).astype(float)
    return Workload("random", np.arange(n_jobs), submit, run, rng.integers(1, 9, n_jobs), run * 1.5)


def test_a_comparison_of_solvers_is_a_table_of_its_solves() -> None:
    rows = compare([paper_window(0), paper_window(1)], ["sequential:scas", "lns:free"], budget=BUDGET)
    columns = rows.columns()
    assert sorted(columns) == sorted(documented("Solves"))
    assert columns["solver"] == [row.solve.solver for row in rows] == ["sequential", "lns"] * 2
    assert columns["objective"] == [row.solve.objective for row in rows]
    assert columns["best_known"] == [None] * 4
    assert (len(rows), rows[1].solve.solver) == (4, "lns")
    assert_converts(rows)


def test_the_file_of_bench_is_the_table_of_a_comparison(run: Run, folder: Path) -> None:
    out, instances, solvers = folder / "rows.csv", folder / "windows.jsonl", ["sequential:scas", "dp:scas"]
    answer = run("bench", instances, "--solvers", ",".join(solvers), "--iterations", "20", "--out", out)
    assert answer.code == 0, answer.err
    file = read_csv(out)
    assert_agree(compare(allocopt.read_problems(instances), solvers, budget=BUDGET), file, MEASURED)
    assert list(file)[-4:] == ["version", "commit", "python", "machine"]


def asked() -> allocopt.WhatIf:
    return allocopt.WhatIf(workload(), TREE, Rules(), BUDGET)


def test_a_what_if_comparison_is_a_table_of_combinations() -> None:
    rows = what_if(asked(), ["first", "best-fit"], ["easy", "fcfs"]).combinations
    columns = rows.columns()
    assert sorted(columns) == sorted(documented("Combinations"))
    assert columns["allocator"] == ["first", "best-fit"] * 2
    assert columns["mean_wait_s"] == [row.mean_wait_s for row in rows]
    assert columns["mean_wait_change"][0] == 0.0
    assert columns["fragmentation"] == [list(row.fragmentation) for row in rows]
    assert_converts(rows)


def test_the_files_of_what_if_are_its_tables(run: Run, folder: Path) -> None:
    trace, tree, out = folder / "jobs.swf", folder / "topology.conf", folder / "rows.csv"
    names = ("--allocators", "first,best-fit", "--schedulers", "easy,fcfs")
    answer = run("what-if", trace, "--topology", tree, *names, "--by", "size,user", "--out", out)
    assert answer.code == 0, answer.err
    site = Site.of(SimulationSpec(trace=str(trace), topology=str(tree), skip_oversized=True))
    assert site.tree is not None
    by = ("size", "user")
    question = allocopt.WhatIf(site.jobs, site.tree.tree, Rules(), Budget(), described=site.described, by=by)
    found = what_if(question, ["first", "best-fit"], ["easy", "fcfs"])
    assert_agree(found.combinations, read_csv(out), MEASURED | {"granted"})
    assert_agree(found.groups, read_csv(folder / "rows.groups.csv"))
    assert sorted(found.groups.columns()) == sorted(documented("Groups of jobs"))
    assert set(found.groups.columns()["by"]) == {"size", "user"}
    assert_converts(found.groups)


def columns_of_the_page() -> list[str]:
    titles = re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [name for title in titles if title != "Jobs" for name in documented(title)]


def test_the_name_of_a_time_or_an_energy_ends_in_its_unit() -> None:
    measured = {"wait", "time", "runtime", "makespan", "energy"}
    relative = ("_change", "_interval")
    found = [name for name in columns_of_the_page() if measured & set(name.split("_")) and not name.endswith(relative)]
    assert len(set(found)) > 6
    assert [name for name in found if not name.endswith("_j" if "energy" in name else "_s")] == []


def test_jobs_are_grouped_without_a_description() -> None:
    groups = what_if(replace(asked(), by=("size",)), ["first"]).groups
    assert sum(groups.columns()["jobs"]) == len(workload())
    assert len(groups) > 1


def test_a_grouping_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no grouping 'sizes'; choose from partition, "):
        what_if(replace(asked(), by=("sizes",)), ["first"])


def test_without_groups_their_table_is_empty() -> None:
    assert len(WhatIfRows().groups) == len(WhatIfRows().groups.columns()) == 0


@pytest.mark.parametrize(
    ("name", "title", "missing"),
    [
        ("solves", "Cells of a sweep of solvers", set()),
        ("policies", "Cells of a sweep of policies", {"energy_j"}),
    ],
)
def test_the_table_of_a_sweep_is_the_file_of_the_command(
    run: Run, folder: Path, name: str, title: str, missing: set[str]
) -> None:
    file, out = folder / f"{name}.toml", folder / f"{name}.csv"
    assert run("sweep", file, "--workers", 1).code == 0
    by_command = read_csv(out)
    # The second run takes the finished cells from the store.
    rows = sweep(file, out=out)
    assert_agree(rows, by_command)
    assert read_csv(out) == by_command
    assert sorted(rows.columns()) == sorted(set(documented(title)) - missing)
    assert_converts(rows)
    again = sweep(str(file))
    assert_agree(again, by_command, MEASURED)


@pytest.mark.slow
def test_a_sweep_with_workers_keeps_cells_that_fail(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sweep(folder / "policies.toml", workers=2)
    assert rows.columns()["status"] == ["done", "done"]


def test_the_windows_of_a_simulation_are_a_table_with_their_results() -> None:
    scheduler = WindowScheduler(60.0, "lns", iterations=20)
    schedule = allocopt.simulate(workload(), Platform.whole_nodes(TREE), scheduler)
    columns = scheduler.windows.columns()
    assert sorted(columns) == sorted(documented("Windows"))
    assert len(scheduler.windows) > 5
    assert set(columns["time_s"]) <= set(schedule.start.tolist())
    assert set(columns["status"]) <= {"OPTIMAL", "FEASIBLE"}
    assert (set(columns["solver"]), set(columns["strategy"]), set(columns["reason"])) == ({"lns"}, {"free"}, {None})
    assert sum(columns["objective"]) == pytest.approx(np.nansum(schedule.hop_costs()))
    assert_converts(scheduler.windows)


def test_the_jobs_of_a_schedule_have_the_documented_columns() -> None:
    schedule = allocopt.simulate(workload(), 8)
    assert sorted(schedule.columns()) == sorted(documented("Jobs"))


def test_a_file_has_the_columns_of_all_rows(tmp_path: Path) -> None:
    rows = RowTable(({"trace": "pool", "jobs": 3}, {"trace": "multicore", "jobs": 4, "energy_j": 2.5}))
    write_table(tmp_path / "rows.csv", rows.records())
    file = read_csv(tmp_path / "rows.csv")
    assert file == {"trace": ["pool", "multicore"], "jobs": ["3", "4"], "energy_j": ["", "2.5"]}
    assert_agree(rows, file)


def test_rows_of_a_table_are_written_as_the_table_has_them(tmp_path: Path) -> None:
    rows = RowTable(({"name": "=a", "value": None, "parts": (0.5, None)}, {"name": "b", "value": 2.0, "parts": ()}))
    write_table(tmp_path / "rows.csv", rows.records())
    assert_agree(rows, read_csv(tmp_path / "rows.csv"))
