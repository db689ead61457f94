"""Files are told apart by what they hold, and what a page says of them."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.timelines import timeline

from allocopt.cluster.named import NamedTree
from allocopt.cluster.topology import Tree
from allocopt.errors import BadFileError
from allocopt.files.models import SOLUTION_FORMAT
from allocopt.problems.instances import read_instances, write_problems
from allocopt.report.html.contents import contents
from allocopt.report.html.document import Figure, Section, Table
from allocopt.report.html.page import page_text
from allocopt.report.html.results import _EXPECTED, Kind, ResultFile, SolveRecord
from allocopt.report.html.timeline import Timeline
from allocopt.report.what_if import WhatIfRow

SOLVE = {
    "instance": "a", "kind": "topology", "strategy": "free", "solver": "lns", "status": "FEASIBLE",
    "objective": 110.0, "bound": 100.0, "gap": 0.0909, "runtime_s": 0.5, "seed": 0,
}  # fmt: skip
SIMULATION = {
    "jobs": 3, "mean_wait_s": 1.0, "max_wait_s": 2.0, "mean_bounded_slowdown": 1.5, "utilization": 0.5,
    "makespan_s": 9.0, "runtime_s": 0.1, "jobs_per_s": 30.0,
}  # fmt: skip
WHAT_IF = {
    "allocator": "first", "scheduler": "easy", "jobs": 3, "mean_wait_s": 1.0, "max_wait_s": 2.0,
    "mean_bounded_slowdown": 1.5, "mean_hop_cost": None, "fragmentation": [0.5, None], "utilization": 0.5,
    "makespan_s": 9.0, "runtime_s": 0.1,
}  # fmt: skip
REPRODUCTION = {
    "artifact": "t", "row": "r", "column": "c", "published": None, "ours": 1.0, "spread": None, "n": 1, "commit": "x",
}  # fmt: skip
HEADER = "job_id,submit,start,end,processors,run,estimate\n"


def csv_of(*rows: dict[str, Any]) -> str:
    lines = [",".join(rows[0]), *(",".join("" if each is None else str(each) for each in row.values()) for row in rows)]
    return "\n".join(lines) + "\n"


Shown = Callable[..., list[Section]]


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    """Write files, each a text or rows, and return what is shown of them."""

    def shown(*files: str | Sequence[dict[str, Any]]) -> list[Section]:
        paths = [tmp_path / f"{number}.txt" for number in range(len(files))]
        for path, held in zip(paths, files, strict=True):
            text = held if isinstance(held, str) else "".join(f"{json.dumps(row)}\n" for row in held)
            path.write_text(text, encoding="utf-8")
        return contents(paths)

    return shown


def tables(section: Section) -> dict[str, Table]:
    return {part.title: part for part in section.parts if isinstance(part, Table)}


def figures(section: Section) -> list[str]:
    return [part.title for part in section.parts if isinstance(part, Figure)]


def column(table: Table, title: str) -> list[Any]:
    place = [each.title for each in table.columns].index(title)
    return [row[place] for row in table.rows]


def test_gaps_are_to_the_best_known_where_there_is_one(shown: Shown) -> None:
    rows = [
        {**SOLVE, "best_known": 100.0},
        {**SOLVE, "instance": "b", "best_known": None},
        {**SOLVE, "solver": "exact", "objective": 100.0, "status": "OPTIMAL", "best_known": 100.0},
        {**SOLVE, "solver": "exact", "instance": "b", "objective": 90.0},
    ]
    (section,) = shown(rows)
    assert figures(section) == ["Gap to the best known against time"]
    assert column(tables(section)["Every solve"], "gap %") == [pytest.approx(10.0), None, 0.0, None]
    assert column(tables(section)["Solvers"], "mean gap %") == [pytest.approx(10.0), 0.0]
    best = "exact (free) has the lowest mean objective of 2 solvers on 2 instances, 95, 13.6 % lower than lns (free)"
    assert section.verdict[0].startswith(best)
    # What is maximized has its best known value above.
    knapsack = {**SOLVE, "kind": "knapsack", "strategy": None, "best_known": 110.0}
    (section,) = shown([knapsack, {**knapsack, "solver": "b", "objective": 99.0}])
    assert column(tables(section)["Solvers"], "mean gap %") == [0.0, pytest.approx(10.0)]


def test_gaps_are_to_the_bound_where_nothing_else_is_known(shown: Shown) -> None:
    fast = {**SOLVE, "solver": "fast", "bound": None, "gap": None, "runtime_s": 0.01}
    (section,) = shown([SOLVE, fast])
    assert column(tables(section)["Every solve"], "gap %") == [pytest.approx(9.09), None]
    (figure,) = (part for part in section.parts if isinstance(part, Figure))
    assert figure.series == ("lns (free)", "fast (free): gap unknown")
    assert "Not drawn, because their gaps are unknown: fast (free)." in figure.caption
    (section,) = shown([{**SOLVE, "gap": 0.0}, {**SOLVE, "instance": "b", "gap": 1e-9}])
    assert (figures(section), section.verdict[1:]) == ([], ("All 2 gaps to the bound are 0.",))


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (
            {},
            {"runtime_s": 0.01},
            ("All 2 solvers have the same mean objective", "The fastest is b (free), with a median of 10.00 ms; lns"),
        ),
        (
            {"runtime_s": 90.0},
            {"runtime_s": 70.0, "objective": 9.0},
            ("b (free) has the lowest mean objective of 2 solvers on 1 instance, 9, ", "The fastest is b (free), with"),
        ),
        # What is maximized is the better the higher.
        (
            {"kind": "knapsack"},
            {"kind": "knapsack", "objective": 99.0},
            ("lns (free) has the highest mean objective of 2 solvers on 1 instance, 110; b", "The fastest"),
        ),
        # Means over different instances are not compared.
        ({}, {"instance": "other", "objective": 1.0}, ("There is no verdict on objectives", "The fastest is lns")),
        ({"objective": None}, {"objective": None}, ("None of 2 solves has a solution.",)),
    ],
)
def test_a_verdict_names_the_best_and_the_fastest(
    shown: Shown, first: dict[str, Any], second: dict[str, Any], said: tuple[str, ...]
) -> None:
    (section,) = shown([{**SOLVE, **first}, {**SOLVE, "solver": "b", **second}])
    assert len(section.verdict) == len(said)
    assert all(line.startswith(begin) for line, begin in zip(section.verdict, said, strict=True))
    # Times of a verdict have the unit of its table.
    unit = "s" if first.get("runtime_s") == 90.0 else "ms"
    assert f"median time {unit}" in [each.title for each in tables(section)["Solvers"].columns]


def test_rows_without_any_solution_are_shown(shown: Shown) -> None:
    unknown = {**SOLVE, "status": "UNKNOWN", "objective": None, "bound": None, "gap": None}
    (section,) = shown([unknown, {**unknown, "solver": "b"}])
    assert figures(section) == []
    assert "unknown" in page_text("title", [section])


def test_simulations_of_a_sweep_are_means_over_seeds_and_failures_are_counted(shown: Shown) -> None:
    swept = {**SIMULATION, "trace": "t", "policy": "fcfs", "backfill": "easy", "allocator": "lns", "error": None}
    rows = [{**swept, "seed": seed, "mean_wait_s": 10.0 * seed} for seed in range(3)]
    failed = {**swept, "seed": 3, "mean_wait_s": None, "error": "no memory"}
    (section,) = shown([*rows, failed, {**swept, "seed": 0, "backfill": "none", "allocator": None}])
    assert section.notes == ("Runs that failed and are left out: 1.",)
    assert section.verdict[0].startswith("fcfs has the shortest mean wait of 2 policies, 1 s, 90.0 % shorter")
    assert column(tables(section)["Simulations"], "simulation") == ["fcfs+easy, lns"] * 3 + ["fcfs"]
    (figure,) = (part for part in section.parts if isinstance(part, Figure))
    assert figure.description.startswith("Mean wait: fcfs+easy, lns 10 s, fcfs 1 s.")
    # All may have failed.
    for row in (SIMULATION, SOLVE):
        (section,) = shown([{**row, "error": "no memory"}])
        assert section.verdict == ("All 1 runs failed.",)


def test_runs_are_named_by_what_tells_their_files_apart_and_other_columns_are_other_sections(tmp_path: Path) -> None:
    curves = [tmp_path / f"seed-{seed}" / "curve.csv" for seed in (0, 1)]
    for curve in curves:
        curve.parent.mkdir()
        curve.write_text("update,loss\n1,2\n2,1\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("episode,return\n1,nan\n2,\n", encoding="utf-8")
    section, _ = sections = contents([*curves, tmp_path / "b.csv"])
    assert column(tables(section)["Measures"], "run") == ["seed-0", "seed-1"]
    assert "Learning curves" in page_text("title", sections)


def written(line: Timeline) -> str:
    """Return a schedule as ``--jobs-csv`` writes it."""
    rows = zip(line.names, line.submit, line.start, line.end, line.processors, strict=True)
    return HEADER + "".join(
        f"{job},{submit:.0f},{start:.0f},{end:.0f},{size},{end - start:.0f},{end - start:.0f}\n"
        for job, submit, start, end, size in rows
    )


def test_equal_schedules_are_drawn_once(shown: Shown) -> None:
    (section,) = shown(*map(written, (timeline(30), timeline(30), timeline(30, seed=1))))
    assert figures(section)[2:] == ["Jobs over time: 0, 1", "Jobs over time: 2"]
    assert column(tables(section)["Comparison"], "schedule") == ["0", "1", "2"]


def test_one_schedule_is_measured_by_size(shown: Shown) -> None:
    line = timeline(50)
    (section,) = shown(written(line))
    table = tables(section)["Jobs by size"]
    assert column(table, "jobs")[-1] == 50 == sum(column(table, "jobs")[:-1])
    assert column(table, "mean wait s")[-1] == pytest.approx(float(line.waits_s.mean()))
    assert column(table, "max wait s")[-1] == line.waits_s.max()


def test_an_instance_shows_its_idle_nodes(tmp_path: Path) -> None:
    problems = read_instances([Path("@tiny")])
    write_problems(tmp_path / "windows.jsonl", problems)
    sections = contents([tmp_path / "windows.jsonl"])
    assert [section.title for section in sections] == [f"Window {problem.name}" for problem in problems]
    assert figures(sections[0]) == ["Idle nodes on the tree"]
    # What is light on a light page is dark on a dark one.
    assert "Faint cells are idle." in page_text("title", sections)
    # The topology may be another cluster's.
    cluster = NamedTree(Tree(np.zeros((1, 3), dtype=np.int64), (("leaf",),), (2, 4)), ("a", "b", "c"))
    section, *_ = contents([tmp_path / "windows.jsonl"], cluster=cluster)
    assert section.notes == (
        "Nodes are shown by number: the instance does not have the 3 nodes of the given topology.",
    )


def test_a_solution_without_an_allocation_says_so(shown: Shown) -> None:
    (problem, *_) = read_instances([Path("@tiny")])
    nothing = {
        "format": SOLUTION_FORMAT, "version": 1, "instance": problem.name, "strategy": "scas", "solver": "dp",
        "status": "UNKNOWN", "objective": None, "bound": None, "allocation": None,
    }  # fmt: skip
    (section,) = shown([nothing])
    assert section.verdict == ("dp found no allocation; the status is unknown.",)


ENERGY = "part,name,energy_j,energy_delay_js\njob,1,2.5,10\nmachine,m,5,20\n"


def test_energy_is_a_table(shown: Shown) -> None:
    (section,) = shown(ENERGY)
    assert column(tables(section)["Energy"], "energy J") == [2.5, 5.0]


def test_nodes_of_placed_jobs_stand_in_the_order_of_their_numbers(shown: Shown) -> None:
    (section,) = shown("job_id,node,start_s,duration_s\n1,n10,0,5\n2,n2,1,3\n3,a,2,9\n")
    assert column(tables(section)["Nodes"], "node") == ["a", "n2", "n10"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["1,0,0,0,1,0,1\n", "1,-5,0,5,1,5,1\n", "1,1e15,1e15,1e15,1,0,1\n2,1e15,2e15,3e15,1000000000,5,5\n"],
    ids=["nothing lasts", "before the epoch", "huge"],
)
def test_odd_schedules_are_drawn(shown: Shown, text: str) -> None:
    assert page_text("title", shown(HEADER + text)).count("<figure>") == 3


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "text", ["1,inf\n2,1e308\n3,-1e308\n", "1,inf\n2,inf\n", "1,5\n", "1,1e300\n2,-1e300\n", "1,\n"]
)
def test_odd_curves_are_drawn(shown: Shown, text: str) -> None:
    assert page_text("title", shown(f"update,loss\n{text}")).count("<figure>") == 1


@pytest.mark.slow
def test_odd_rows_are_drawn(shown: Shown) -> None:
    nothing = dict.fromkeys(SIMULATION, 0)
    what_if = {**nothing, "allocator": "a", "scheduler": "b", "mean_hop_cost": None, "fragmentation": []}
    row = {"artifact": "t", "row": "r", "column": "c", "published": 1e300, "ours": -1e300, "spread": -1.0, "n": 1}
    worse = {**SOLVE, "solver": "b", "runtime_s": -1, "objective": 1e300, "gap": 1e9}
    files: list[list[dict[str, Any]]] = [
        [nothing, nothing], [what_if], [row], [{**row, "ours": None}], [{**SOLVE, "runtime_s": 0, "gap": 0}, worse],
        [{**what_if, "mean_wait_s": 2**63}, {**what_if, "mean_wait_s": -1}],
    ]  # fmt: skip
    assert page_text("title", shown(*files)).count("<section ") == 6


POINT = {"instance": "a", "kind": "topology", "strategy": "free", "solver": "lns", "seed": 0}


def trajectory(*points: tuple[float, float, float | None], **other: Any) -> list[dict[str, Any]]:
    return [{**POINT, **other, "time_s": time_s, "objective": value, "bound": bound} for time_s, value, bound in points]


def test_gaps_over_time_are_to_the_best_bound_of_each_window(shown: Shown) -> None:
    early = trajectory((0.0005, 120.0, None), (0.05, 110.0, 90.0))
    late = trajectory((0.02, 105.0, 100.0), (0.2, 100.0, 100.0), solver="exact")
    (section,) = shown([*early, *late])
    assert figures(section) == ["Gap to the best bound over time"]
    table = tables(section)["Gaps over time"]
    assert column(table, "1 ms") == [pytest.approx(20.0), None]
    assert column(table, "100 ms") == [pytest.approx(10.0), pytest.approx(5.0)]
    assert column(table, "at the end") == [pytest.approx(10.0), 0.0]

    (section,) = shown([*trajectory((0.1, 100.0, 100.0), (0.2, 100.0, 100.0))])
    assert (figures(section), section.verdict) == ([], ("All gaps to the best bound are 0 from the start.",))


UNBOUNDED = [each for seed in (0, 1) for each in trajectory((0.0005, 50.0 - 10 * seed, None), instance="b", seed=seed)]


@pytest.mark.parametrize(
    ("rows", "yardstick", "ends"),
    [
        # A window without a bound, one of whose solves is a quarter worse.
        ([*trajectory((0.0005, 120.0, 60.0)), *UNBOUNDED], "", [25.0 / 3]),
        # Solvers under several strategies are measured alike.
        (
            [*trajectory((1.0, 90.0, 45.0)), *trajectory((1.0, 99.0, 99.0), strategy="scas", solver="dp")],
            " under any strategy",
            [0.0, 10.0],
        ),
    ],
)
def test_gaps_over_time_are_to_the_best_objective_where_bounds_are_missing_or_several(
    shown: Shown, rows: list[dict[str, Any]], yardstick: str, ends: list[float]
) -> None:
    (section,) = shown(rows)
    assert figures(section) == [f"Gap to the best objective found{yardstick} over time"]
    assert column(tables(section)["Gaps over time"], "at the end") == pytest.approx(ends)


def test_signs_of_notes_are_those_of_tables(shown: Shown) -> None:
    row = {**SIMULATION, "allocator": "first", "scheduler": "easy", "mean_hop_cost": None, "fragmentation": []}
    (section,) = shown([row, {**row, "scheduler": "sjf", "mean_wait_s": 0.5, "mean_wait_change": -0.5}])
    assert "(\N{MINUS SIGN}50.0 %)" in section.notes[0]
    assert section.notes[-1].startswith("± is relative to first under easy")


def test_a_page_says_what_was_run(shown: Shown) -> None:
    made_by = {"version": "1.0", "commit": "abc", "python": "3.11", "machine": "a, 2 cores"}
    result = {
        "format": "allocopt-result", "version": 1, "kind": "simulation", "inputs": [], "made_by": made_by,
        "specification": {"trace": "a.swf", "policy": "sjf"}, "remarks": ["a: jobs dropped: 1"], "rows": [SIMULATION],
    }  # fmt: skip
    (section,) = shown([result])
    assert section.title == "Simulation"
    assert {"Policy: sjf.", "a: jobs dropped: 1."} <= set(section.made_by)
    assert section.made_by[-1] == "Made by allocopt 1.0, commit abc, python 3.11, machine a, 2 cores."
    assert "Assumptions and origin" in page_text("title", [section])
    (section,) = shown([{**SOLVE, **made_by}, {**SOLVE, **made_by}])
    assert section.made_by == ("Made by allocopt 1.0, commit abc, python 3.11, machine a, 2 cores.",)


SOUND = {
    "format": "allocopt-result", "specification": {"trace": "a"}, "made_by": {}, "remarks": [], "rows": [SIMULATION],
}  # fmt: skip


@pytest.mark.parametrize(
    ("held", "fault"),
    [
        # What is no result.
        ("", "is empty, must hold a result"),
        (" \n\n", "is empty, must hold a result"),
        (
            "job_id;submit;start;end\n1;0;0;5\n",
            "line 1: has no comma: the cells of a result must be separated by commas",
        ),
        ("hello\n", _EXPECTED),
        ("a,b\n1,x\n", _EXPECTED),
        ("SwitchName=a Nodes=x,y\nSwitchName=b Nodes=z\n", _EXPECTED),
        ("a,b\n2,1\n1,1\n", _EXPECTED),
        ("a,a\n1,1\n", _EXPECTED),
        ('{"a": 1}\n', _EXPECTED),
        ("update,loss\n", "holds no rows"),
        ("update,loss\n1\n", "line 2: must have 2 columns, as line 1"),
        ("[]", "holds no rows"),
        ("[1]", "row 1: is 1, must be an object"),
        ('{"a": 1}\n[2]\n', "line 2: is a list, must be an object"),
        ('{"a": NaN}\n', "line 1, column 7: is NaN, which JSON does not have"),
        # A wrong value, or none.
        ([SOLVE, {**SOLVE, "gap": 1e308}], "line 2: gap is 1e+308, must be at most 1e+300"),
        ([SOLVE, {**SOLVE, "runtime_s": "soon"}], "line 2: runtime_s is 'soon', must be a number"),
        ([SOLVE, {**SOLVE, "runtime_s": None}], "line 2: runtime_s is null, must be a number"),
        ([SOLVE, {**SOLVE, "runtime_s": True}], "line 2: runtime_s is true, must be a number"),
        ([SOLVE, {**SOLVE, "seed": 0.5}], "line 2: seed is 0.5, must be a whole number"),
        ([SOLVE, {**SOLVE, "solver": 3}], "line 2: solver is 3, must be a text"),
        ([SOLVE, {**SOLVE, "objective": []}], "line 2: objective is an empty list, must be a number or null"),
        ([SOLVE, {"instance": "a"}], "line 2: has no bound"),
        ([{**WHAT_IF, "hops_slow": 1}], "line 1: hops_slow is 1, must be true or false"),
        # A result that is damaged.
        ([{**SOUND, "rows": []}], "rows: must hold objects, at least one"),
        ([{**SOUND, "made_by": 3}], "made_by: is 3, not what allocopt writes there"),
        ([{**SOUND, "specification": {}}], "specification: is not one that allocopt has written"),
        (ENERGY.replace("2.5", "much"), "line 2: energy_j is 'much', must be a number"),
        (
            f"{HEADER}1,0,0,5,1e300,5,5\n",
            "line 2: processors is '1e300', must be a whole number from 1 to 1000000000000",
        ),
    ],
)
def test_a_fault_is_told_in_a_line(shown: Shown, tmp_path: Path, held: str | list[dict[str, Any]], fault: str) -> None:
    with pytest.raises(BadFileError) as raised:
        shown(held)
    message = str(raised.value)
    assert message.startswith(f"{tmp_path / '0.txt'}: ")
    assert fault in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (json.dumps(SOLVE), Kind.SOLVES),
        (f"{json.dumps(SOLVE)}\n\n{json.dumps(SOLVE)}\n", Kind.SOLVES),
        (json.dumps([SOLVE, SOLVE], indent=1), Kind.SOLVES),
        (csv_of(SOLVE, SOLVE), Kind.SOLVES),
        (json.dumps(WHAT_IF), Kind.WHAT_IF),
        (json.dumps(SIMULATION), Kind.SIMULATIONS),
        ("[\n" + json.dumps(REPRODUCTION) + "\n]\n", Kind.REPRODUCTION),
        ("job_id,submit,start,end,processors,run,estimate\n1,0,1,2,3,1,1\n", Kind.SCHEDULE),
        ("job_id,app,node,start_s,duration_s\n1,a,n1,0,1\n", Kind.PLACED),
        ("part,name,energy_j,energy_delay_js\nmachine,m,1,2\n", Kind.ENERGY),
        ("update,loss\n1,0.5\n2,\n3,nan\n", Kind.CURVE),
        ('{\n"format": "allocopt-solution",\n"version": 1}\n', Kind.SOLUTION),
        ('{"format": "allocopt-instance"}\n{"format": "allocopt-instance"}\n', Kind.INSTANCE),
    ],
)
def test_a_file_is_told_by_its_content(tmp_path: Path, text: str, kind: Kind) -> None:
    (tmp_path / "result").write_text(text, encoding="utf-8")
    assert ResultFile.read(tmp_path / "result").kind is kind


def test_cells_have_the_types_of_their_columns_lists_are_tuples_and_names_are_what_they_were(tmp_path: Path) -> None:
    path = tmp_path / "result"
    row = {**SOLVE, "instance": "1e5", "bound": None}
    path.write_text(csv_of({**row, "best_known": 9.5, "solver_version": "1"}), encoding="utf-8")
    assert ResultFile.read(path).rows(SolveRecord) == [SolveRecord(**row, best_known=9.5)]  # type: ignore[arg-type]
    path.write_text(json.dumps(WHAT_IF), encoding="utf-8")
    assert ResultFile.read(path).rows(WhatIfRow)[0].fragmentation == (0.5, None)
    # Python takes these for ends of a line.
    row = {**SOLVE, "instance": "a\u2028b\x85c"}
    path.write_text(f"{json.dumps(row, ensure_ascii=False)}\n" * 2, encoding="utf-8")
    assert [each.instance for each in ResultFile.read(path).rows(SolveRecord)] == [row["instance"]] * 2


WAIT_BLOCKS = tuple((50.0, 50 * wait, 50.0, 0.0, 0.0) for wait in (100.0, 110.0, 95.0, 105.0))
"""Sums of four days of 50 jobs, as rows of combinations hold them."""


def combination(scheduler: str, factor: float, **others: Any) -> dict[str, Any]:
    """Return a row of `what-if` whose jobs wait ``factor`` times as long as those of the baseline."""
    mean = 102.5 * factor
    blocks = [[jobs, wait * factor, *rest] for jobs, wait, *rest in WAIT_BLOCKS]
    low, high = (factor - 1 - 0.01, factor - 1 + 0.01) if factor != 1 else (0.0, 0.0)
    return {
        **WHAT_IF, "scheduler": scheduler, "jobs": 200, "mean_wait_s": mean, "mean_wait_change": factor - 1,
        "mean_wait_interval": [low, high], "blocks": blocks, "block_days": 1, "waited_jobs": 100, **others,
    }  # fmt: skip


def group(label: str, scheduler: str, factor: float) -> dict[str, Any]:
    """Return the row of a partition."""
    row = combination(scheduler, factor)
    kept = {name: value for name, value in row.items() if name not in ("fragmentation", "utilization", "makespan_s")}
    kept.pop("runtime_s")
    return {**kept, "by": "partition", "group": label, "hop_jobs": 0, "is_overloaded": False}


def test_a_verdict_names_the_best_its_change_and_whether_the_interval_excludes_0(shown: Shown) -> None:
    (section,) = shown([combination("easy", 1.0), combination("sjf+easy", 0.5)])
    assert section.verdict[0] == (
        "first under sjf+easy has the shortest mean wait of 2 combinations, 51 s, 50.0 % shorter than first under easy "
        "(95 % interval \N{MINUS SIGN}51.0 to \N{MINUS SIGN}49.0 %, excludes 0)."
    )
    unclear = combination("sjf+easy", 0.9, mean_wait_interval=[-0.3, 0.2])
    (section,) = shown([combination("easy", 1.0), unclear])
    assert "which may be chance (95 % interval \N{MINUS SIGN}30.0 to +20.0 %, includes 0)" in section.verdict[0]


def test_a_verdict_names_a_group_only_if_it_differs_from_the_whole(shown: Shown) -> None:
    whole = [combination("easy", 1.0), combination("sjf+easy", 0.5)]
    alike = [
        group(label, name, factor) for label in ("cpu", "gpu") for name, factor in (("easy", 1), ("sjf+easy", 0.4))
    ]
    (section,) = shown([*whole, *alike])
    assert "By partition" in tables(section)
    assert "partition" not in section.verdict[0]
    (section,) = shown([*whole, *alike[:3], group("gpu", "sjf+easy", 1.25)])
    assert "partition cpu" not in section.verdict[0]
    assert section.verdict[0].endswith("excludes 0); but it is clearly longer for partition gpu (+25.0 %).")


def in_order(section: Section) -> None:
    """Check that a page begins with its verdict in at most two sentences, and has tables before figures."""
    text = page_text("title", [section])
    assert 1 <= len(section.verdict) <= 2
    assert all(sentence.endswith(".") for sentence in section.verdict)
    places = [text.index(mark) for mark in ('class="verdict"', "<table") if mark in text]
    if "<figure" in text:
        places.append(text.index("<figure"))
    places.append(text.index('class="run"'))
    assert places == sorted(places)
    assert text.count("<caption") == text.count("<table")


def test_the_verdict_comes_first_on_a_page_of_solves(shown: Shown) -> None:
    (section,) = shown([SOLVE, {**SOLVE, "solver": "b", "objective": 120.0, "gap": 0.2}])
    in_order(section)
    assert [type(part) for part in section.parts] == [Table, Figure, Table]


def test_the_verdict_comes_first_on_a_page_of_trajectories(shown: Shown) -> None:
    (section,) = shown([*trajectory((0.1, 120.0, 90.0)), *trajectory((0.1, 100.0, 90.0), solver="b")])
    in_order(section)
    assert section.verdict[0].startswith("At the end, b (free) has the smallest mean gap")


@pytest.mark.parametrize("policies", [("fcfs",), ("fcfs", "sjf")])
def test_the_verdict_comes_first_on_a_page_of_simulations(shown: Shown, policies: tuple[str, ...]) -> None:
    waits = {"fcfs": 2.0, "sjf": 1.0}
    rows = [{**SIMULATION, "trace": "t", "policy": name, "seed": 0, "mean_wait_s": waits[name]} for name in policies]
    (section,) = shown(rows)
    in_order(section)


def test_simulations_of_other_jobs_get_no_verdict(shown: Shown) -> None:
    (section,) = shown([SIMULATION], [{**SIMULATION, "jobs": 4}])
    assert section.verdict == ("There is no verdict, because the simulations do not have the same jobs.",)


def test_a_sweep_is_compared_over_its_traces(shown: Shown) -> None:
    rows = [
        {**SIMULATION, "trace": f"t{trace}", "policy": policy, "seed": seed, "mean_wait_s": wait + trace}
        for policy, wait in (("fcfs", 20.0), ("sjf", 10.0))
        for trace in range(3)
        for seed in range(2)
    ]
    (section,) = shown(rows)
    assert section.verdict[0].startswith(
        "sjf has the shortest mean wait of 2 policies, 11 s, 47.6 % shorter than fcfs (95 % interval "
    )
    assert "excludes 0" in section.verdict[0]


def test_a_group_in_which_another_simulation_is_better_is_named(shown: Shown) -> None:
    def with_group(wait: float, of_user: float) -> list[dict[str, Any]]:
        group = {"by": "user", "group": "ann", "jobs": 40, "mean_wait_s": of_user, "max_wait_s": 99.0}
        rest = {"mean_bounded_slowdown": 1.0, "starved": 0, "mean_hop_cost": None}
        return [{**SIMULATION, "jobs": 100, "mean_wait_s": wait}, {**group, **rest}]

    (section,) = shown(with_group(20.0, 20.0), with_group(10.0, 30.0))
    in_order(section)
    assert "but it is longer for user ann (+50.0 %)" in section.verdict[0]
    assert column(tables(section)["By user"], "simulation") == ["0", "1"]
    (section,) = shown(with_group(20.0, 20.0), with_group(10.0, 10.0))
    assert "ann" not in section.verdict[0]


def test_the_verdict_comes_first_on_a_page_of_schedules(shown: Shown) -> None:
    line = timeline(40)
    (section,) = shown(written(line))
    in_order(section)
    assert section.verdict[0].startswith("40 jobs wait ")
    later = Timeline(line.names, line.submit, line.start + 100, line.end + 100, line.processors, line.size)
    (section,) = shown(written(line), written(later))
    in_order(section)
    assert "; 1 is next, " in section.verdict[0]
    (section,) = shown(written(line), written(timeline(30)))
    assert section.verdict == ("There is no verdict, because the schedules do not have the same jobs.",)


@pytest.mark.parametrize(
    "held",
    [
        [combination("easy", 1.0), combination("sjf+easy", 0.5)],
        [combination("easy", 1.0)],
        [group("cpu", "easy", 1.0), group("cpu", "sjf+easy", 0.5)],
        [REPRODUCTION, {**REPRODUCTION, "published": 2.0}],
        "part,name,energy_j,energy_delay_js\njob,1,2.5,10\nmachine,m,5,20\n",
        "update,loss\n1,2\n2,1\n",
        "job_id,node,start_s,duration_s\n1,n10,0,5\n2,n2,1,3\n",
    ],
    ids=["what-if", "one combination", "groups only", "reproduction", "energy", "training", "placed jobs"],
)
def test_the_verdict_comes_first_on_every_other_page(shown: Shown, held: str | list[dict[str, Any]]) -> None:
    (section,) = shown(held)
    in_order(section)


def test_the_verdict_comes_first_on_pages_of_windows_and_relocations(tmp_path: Path) -> None:
    for name in ("@tiny", "@relocations"):
        problems = read_instances([Path(name)])[:1]
        write_problems(tmp_path / "one.jsonl", problems)
        for section in contents([tmp_path / "one.jsonl"]):
            in_order(section)
