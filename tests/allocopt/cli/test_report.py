"""``allocopt report``, and the page of ``what-if``."""

import json
import sys
from html import unescape
from pathlib import Path

import pytest
from support.program import Run

from allocopt.report.words import typographic

ROW = {
    "artifact": "t", "row": "r", "column": "c", "published": 1.5, "ours": 1.0, "spread": 0.1, "n": 1,
}  # fmt: skip


def text(name: str = "report.html") -> str:
    return Path(name).read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_solution_is_drawn_with_its_instance_found(run: Run, site: Path, tiny: Path) -> None:
    assert run("solve", tiny, "--solution", "out").code == 0
    (solution,) = Path("out").iterdir()
    answer = run("report", solution, "-o", "report.html", "--figures", "figures")
    assert answer.code == 0
    assert answer.out == ""
    assert "Allocation on the tree" in text()
    assert sorted(path.name for path in Path("figures").iterdir()) == ["tree.pdf", "tree.svg"]


@pytest.mark.slow
def test_solutions_of_all_kinds_name_their_instances(run: Run, site: Path) -> None:
    for shipped in ("@tiny", "@knapsacks", "@coallocations"):
        assert run("solve", shipped, "--solution", "out").code == 0
    assert run("report", *sorted(Path("out").iterdir())).code == 0
    for title in ("Jobs and their nodes", "Guests and their hosts", "starts"):
        assert title in text()


def test_nodes_have_their_names_where_a_topology_is_given(run: Run, site: Path) -> None:
    run("generate", "window", "--topology", "topology.conf", "--idle", "n[01-08]", "--job", "a=3", "--out", "now.json")
    assert run("solve", "now.json", "--solution", "out").code == 0
    (solution,) = Path("out").iterdir()
    assert run("report", solution, "--topology", "topology.conf").code == 0
    assert ">n[01-03]</td>" in text()
    assert "n01: job a" in text()


@pytest.mark.slow
def test_rows_schedules_and_curves_make_one_page(run: Run, site: Path) -> None:
    bench = run("bench", "@tiny", "--solvers", "dp:scas,best-fit", "--time-limit", "5", "--out", "bench.csv")
    assert bench.code == 0
    for backfill in ("none", "easy"):
        options = ("--processors", "8", "--backfill", backfill, "--jobs-csv", f"{backfill}.csv")
        simulated = run("simulate", "jobs.csv", *options, "--json")
        Path(f"{backfill}.json").write_text(simulated.out, encoding="utf-8")
    Path("solve.jsonl").write_text(run("solve", "@tiny", "--json").out, encoding="utf-8")
    Path("curve.csv").write_text("update,loss\n1,3\n2,1\n3,\n", encoding="utf-8")
    Path("table.json").write_text(json.dumps([ROW, {**ROW, "row": "q", "published": None}]), encoding="utf-8")
    Path("placed.csv").write_text("job_id,node,start_s,duration_s\n1,n2,0,5\n2,n10,1,3\n3,n2,2,9\n", encoding="utf-8")
    names = ("bench.csv", "none.csv", "curve.csv", "easy.csv", "none.json", "easy.json", "solve.jsonl", "table.json")
    answer = run("report", *names, "placed.csv", "--title", "All of it")
    assert answer.code == 0, answer.err
    for title in (
        "All of it", "Comparison of solvers", "Schedules", "Training", "Simulations", "Reproduction t", "Placed jobs",
        "Waits and slowdowns", "Utilization over time", "Learning curves",
    ):  # fmt: skip
        assert f">{title}<" in text(), title
    # An empty plot says less than a line.
    assert "gaps to the bound are 0; they are not drawn." in text()
    assert text().count("<h2") == 6


@pytest.mark.slow
def test_what_if_writes_a_page(run: Run, site: Path) -> None:
    asked = ("what-if", "--trace", "jobs.csv", "--topology", "topology.conf", "--schedulers", "easy,sjf+easy")
    plain = run(*asked)
    answer = run(*asked, "--report", "report.html")
    assert (answer.code, answer.out) == (0, plain.out)
    verdict = text().index('class="verdict"')
    # The terminal ends with the verdict with which the page begins.
    for sentence in plain.out.strip().split("\n\n")[-1].replace("\n  ", " ").splitlines():
        assert typographic(sentence) in unescape(text())
    assert (
        verdict < text().index("Combinations<") < text().index("Waits and slowdowns") < text().index("Nodes over time")
    )
    assert "The tree at the busiest moment" in text()
    assert "Fragmentation over leaves" in text()
    rows = run(*asked, "--json")
    Path("rows.jsonl").write_text(rows.out, encoding="utf-8")
    assert run("report", "rows.jsonl", "-o", "rows.html").code == 0
    for said in ("Lowest hop cost: ", "however long users wait", "The machine is called overloaded if"):
        assert said in text("rows.html")
        assert said in text()


@pytest.mark.parametrize("package", ["vl_convert", "jinja2"])
def test_a_missing_package_is_5(run: Run, site: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for command in (
        ("report", "jobs.csv"),
        ("what-if", "--trace", "jobs.csv", "--topology", "topology.conf", "--report", "report.html"),
    ):
        answer = run(*command)
        assert (answer.code, answer.out) == (5, "")
        assert answer.lines_of_error[-1].endswith("pip install 'allocopt[plot]'")


def test_shipped_instances_are_drawn_by_their_names(run: Run, site: Path) -> None:
    assert run("report", "@tiny").code == 0
    assert "Idle nodes on the tree" in text()
