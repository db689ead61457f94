"""Programs that write result pages say what they take, and build pages and pictures from rows."""

import importlib
import json
import re
import sys
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from allocopt.learned.irmasim.training import SUBSET
from allocopt.learned.nsa.networks import NETWORKS
from allocopt.simulator.multicore.policies import ACTION_NAMES
from allocopt.traces.generators import uniform_workload
from papers import pages
from papers.dras.configuration import HELD_OUT, PAPER_METHODS
from papers.dras.curves import ORDERS
from papers.dras.figures import KIVIAT, SURGE_METHODS
from papers.dras.page import COMPARED
from papers.irmasim.figures import ENERGY, KINDS, LIGHTER, MEASURES, OVER_BEST, UNTIL
from papers.nsa.figure6_page import AS_RUN
from papers.nsa.figures import JOBS, Compared
from papers.nsa.tables import EPOCHS

ROOT = Path(pages.__file__).resolve().parents[1]
BENCHMARKS = [path for path in sorted((ROOT / "benchmarks").glob("*.py")) if path.stem != "plain_loop"]
PAGES = sorted((ROOT / "papers").glob("*/*page.py"))

Run = Callable[..., str]
Names = Iterable[tuple[str, str]]
"""Names of rows and columns."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs a program, which writes to a folder of its own, and gives what it printed."""
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))

    def start(path: Path, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [str(path), *arguments])
        parts = path.relative_to(ROOT).with_suffix("").parts
        importlib.import_module(".".join(parts[parts[0] == "benchmarks" :])).main()
        return capsys.readouterr().out

    return start


@pytest.mark.parametrize("path", [*BENCHMARKS, *PAGES], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_program_says_what_it_takes(path: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(path, "--help")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {path.name}")


def test_a_benchmark_writes_claim_table_and_how_it_was_measured(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setattr("fragmentation.WEIGHTS", (1e-4,))
    table = run(ROOT / "benchmarks" / "fragmentation.py", "--quick")
    assert table.startswith("| weight | proved |")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("fragmentation.LIMIT_S", 0.05)
    run(ROOT / "benchmarks" / "fragmentation.py")
    title, claim, *_, assumed, how = (tmp_path / "fragmentation.md").read_text(encoding="utf-8").split("\n\n")
    assert title.startswith("# ")
    assert not claim.startswith("|")
    assert "`exact`" in assumed
    assert ", commit " in how


def write_rows(folder: Path, artifact: str, names: Names) -> None:
    rows = [
        {"row": row, "column": column, "ours": 1.0 + place, "published": None, "spread": 0.5, "n": 1, "commit": "abc"}
        for place, (row, column) in enumerate(dict.fromkeys(names))
    ]
    (folder / f"{artifact}.json").write_text(json.dumps(rows), encoding="utf-8")


def write_curve(folder: Path, columns: str) -> None:
    folder.mkdir()
    lines = [columns, *(",".join([str(update + 1.0)] * (columns.count(",") + 1)) for update in range(40))]
    (folder / "curve.csv").write_text("\n".join(lines), encoding="utf-8")


STATISTICS = [f"wait h, {name}" for name in ("min", "q1", "median", "q3", "max", "mean")]
SELECTED = {
    "nsa": {
        **dict.fromkeys(("table3", "walks", "controls", "table4", "as_run"), "Avg."),
        **dict.fromkeys(("figure5", "figure5_authors"), "500 steps"),
        "level": "as in nsa-table3",
        "same_time": "compiled",
        "table2": "cnn-1",
        "search": "other convolutions and hidden layers",
    },
    "cush": {
        "ratios": "sierra: CuSH",
        "table1": "sierra: CuSH",
        "figure6": "policies: learned",
        "dynamic": "types not known at first",
        "errors": "sierra: NTAT of the baselines",
        "figure5": "CuSH: short, 1-5",
        "figure7": "CuSH: small",
        "figure8": "16 nodes: trained on it",
        "horizons": "horizon 2",
        "penalties": "shipped",
        "mask": "CuSH",
        "algorithm1": "as printed",
        "networks": "16 nodes: image",
    },
    "dras": {
        "figure7": f"{HELD_OUT}: Optimization",
        "figure6": "at the end: DRAS-PPO",
        "figure8": f"{HELD_OUT}: DRAS-PPO, all sizes",
        "figure9": f"{HELD_OUT}: DRAS-PPO, ready",
        "table4": f"{HELD_OUT}: DRAS-PPO",
        "figure10": "all seeds: FCFS/B, surge",
        "figure11": "Theta: DRAS-PPO, customized",
        "loads": "load 0.85: FCFS/B",
        "figure10_gates": "all seeds: DRAS-PPO, dynamic, gated",
        "rewards": "as shipped: DRAS-DQL",
        "network_seeds": "load 1: DRAS-PG, paper, Eq. 1 alone",
        "cori": "FCFS/B",
    },
    "irmasim": {"figure7": "100 jobs: baseline below contention", "figure8": "100 jobs: baseline below contention"},
}
"""A row of every selection of a page."""
CURVE = [f"{measure} at update {update}" for measure, update in product(("total_reward", "wait_ratio"), (1, 2))]
AGENT = [OVER_BEST, UNTIL, *(f"named at the end: {policy}" for policy in SUBSET)]
BATCHES = list(product([f"{n} jobs: {model}" for n, model in product((100, 500), KINDS)], MEASURES))
SHARES = ("share at episode 1", "share at episode 2")
SEEDS, SPAN = ("seed 0", "seed 1"), ("start s", "end s")
DRAWN: dict[str, Names] = {
    "dras-figure5": product(
        [f"seed {seed}: {order}" for seed, order in product((0, 1), ORDERS)], [*CURVE, "best score"]
    ),
    "dras-figure6": [
        *product(["seed 0: DRAS-PPO"], CURVE),
    ],
    "dras-figure7": product(
        [f"{HELD_OUT}: {method}" for method in PAPER_METHODS],
        [f"{metric.removesuffix(' h')}, normalized" for metric in KIVIAT],
    ),
    "dras-figure6-rewards": [("at the end: FCFS/B", "reward as trained")],
    "dras-figure8": product([f"{HELD_OUT}: DRAS-PPO, all sizes"], STATISTICS),
    "dras-figure9": product([f"{HELD_OUT}: DRAS-PPO, ready"], STATISTICS),
    "dras-figure10": product(
        [f"all seeds: {method}, week {week}" for method, week in product(SURGE_METHODS, (1, 2))],
        ("mean wait h", "max wait h"),
    ),
    "irmasim-figure1": product(
        [f"{model}: job ep0, {node} node" for model in KINDS for node in ("fast", "slow")], SPAN
    ),
    "irmasim-figure7": BATCHES,
    "irmasim-figure8": BATCHES,
    "irmasim-figure9": product(
        [f"{model}: {policy}" for model in (*KINDS, *LIGHTER) for policy in ACTION_NAMES], [ENERGY]
    ),
    **{
        f"irmasim-figure{number}": [
            *product(SEEDS, AGENT),
            *product(
                [f"{seed}, {policy}" for seed, policy in product(SEEDS, SUBSET)],
                ["share at episode 1", "share at episode 2"],
            ),
        ]
        for number in (10, 11)
    },
}
"""Rows of the pictures, beside those of the tables."""
PAIRS = {
    "dras": [
        ("dras-figure7-cori", "DRAS-PPO", COMPARED["cori_ratios"][2]),
        ("dras-figure10", "pairs: DRAS-PPO / FCFS/B, surge", COMPARED["figure10_pairs"][2]),
        ("dras-reasons", "weeks 4: DRAS-PPO", COMPARED["weeks"][2]),
        ("dras-networks", "load 1: DRAS-PG, paper, Eq. 1 alone", COMPARED["networks"][2]),
    ]
}
"""Rows of the tables with intervals of paired ratios: artifact, row and columns."""


@pytest.mark.slow
@pytest.mark.parametrize("paper", SELECTED)
def test_a_page_holds_every_section_and_picture_of_its_rows(
    paper: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = importlib.import_module(f"papers.{paper}.page")
    names = {artifact: list(found) for artifact, found in DRAWN.items() if artifact.startswith(paper)}
    for place, selection in page.SELECTIONS.items():
        row = SELECTED[paper][place]
        names[selection.artifact] = [*names.get(selection.artifact, []), *product([row], selection.columns)]
    for artifact, row, columns in PAIRS.get(paper, ()):
        pairs = product([row], [f"{column}{end}" for column in columns for end in ("", ", from", ", to")])
        names[artifact] = [*names.get(artifact, []), *pairs]
    for artifact, of in names.items():
        write_rows(tmp_path, artifact, of)
    write_curve(tmp_path / "cush-sierra-seed-0", "update,score")
    (tmp_path / "dras-jitter.json").write_text('{"Theta": {"DRAS-PPO": [[1, 2], [1, 3]]}}', encoding="utf-8")
    # What is measured anew, hours of trainings among it, is cut short.
    short = {
        "cush": {"_speeds": lambda: [["any", 1, 1]]},
        "irmasim": {"_objectives": lambda: "none", "_times": lambda: {"decisions": "1", "jobs_per_second": 1.0}},
    }
    for name, value in short.get(paper, {}).items():
        monkeypatch.setattr(page, name, value)
    trained = ["--trained", str(tmp_path)] if paper == "cush" else []
    text = run(ROOT / "papers" / paper / "page.py", "--rows", str(tmp_path), *trained)
    assert (tmp_path / f"{paper}.md").read_text(encoding="utf-8").strip() == text.strip()
    template = (ROOT / "papers" / paper / "page.md").read_text(encoding="utf-8")
    assert [line for line in template.splitlines() if line.startswith("## ") and line not in text] == []
    pictures = re.findall(r"\]\((\w+\.svg)\)", text)
    assert set(re.findall(r"\]\((\w+\.svg)\)", template)) <= set(pictures)
    for picture in pictures:
        assert "<path" in (tmp_path / picture).read_text(encoding="utf-8")


def test_the_page_of_learning_curves_has_every_network_and_its_picture(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REPEATS", "PASSES"):
        monkeypatch.setattr(f"papers.nsa.figure4_page.{name}", 1)
    for name in NETWORKS:
        write_curve(tmp_path / f"nsa-{name}-seed-0", "samples,mean_return")
    text = run(ROOT / "papers" / "nsa" / "figure4_page.py", "--trained", str(tmp_path))
    assert all(f"| {name} " in text for name in NETWORKS)
    assert "<path" in (tmp_path / "nsa_figure4.svg").read_text(encoding="utf-8")


def test_the_page_of_windows_against_job_by_job_has_its_claims_and_its_picture(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = uniform_workload(JOBS * EPOCHS, np.random.default_rng(1))
    monkeypatch.setattr("papers.nsa.figure6_page.read_paper_workload", lambda asked: jobs)
    monkeypatch.setattr(Compared, "measure", lambda self, jobs: {"cost": float(self.period_s or 5), "wait s": 2.0})
    write_rows(tmp_path, "nsa-figure6-authors", [("FCFS", column) for column in AS_RUN.columns])
    text = run(ROOT / "papers" / "nsa" / "figure6_page.py", "--rows", str(tmp_path))
    assert "{" not in text
    assert "windows, nsa" in text
    assert "![Cost and wait over the period](nsa_figure6.svg)" in text
    assert "windows, dp" in (tmp_path / "nsa_figure6.svg").read_text(encoding="utf-8")
