"""``allocopt reproduce``."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.program import Run

from allocopt import reproduction
from allocopt.errors import UsageError
from allocopt.experiments import grids
from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow

NAMES = {
    *(f"nsa-{part}" for part in ("figure4", "figure5", "figure6", "table3", "table4")),
    *(f"dras-{part}" for part in (*(f"figure{number}" for number in range(5, 12)), "table4")),
}


class Count:
    """A reproduction of three pieces, the second of which fails at first."""

    name = "count"
    title = "Counts"

    def __init__(self) -> None:
        self.measured: list[str] = []
        self.fails = True

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return a piece per seed."""
        return [f"seed {seed}" for seed in request.seeds]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Measure, or be interrupted."""
        if self.fails and len(self.measured) == 1:
            raise KeyboardInterrupt
        print("noise")
        self.measured.append(piece)
        return {"value": len(self.measured)}

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return a row per piece."""
        return [ReproductionRow("count", piece, "n", None, held["value"], None, 1) for piece, held in records.items()]


def test_without_a_name_it_lists_all_with_their_titles(run: Run) -> None:
    answer = run("reproduce")
    assert answer.code == 0
    assert {line.split()[0] for line in answer.out.splitlines()} >= NAMES
    assert "Table III of the NSA paper" in answer.out


def test_what_was_cut_off_goes_on_where_it_was(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = Count()
    for module in (reproduction, grids):
        monkeypatch.setattr(module, "get_reproduction", lambda name, options: count)
    command = ("reproduce", "count", "--seeds", "3,1,2", "--out", tmp_path / "rows.json", "--json")
    interrupted = run(*command)
    assert interrupted.code == 130
    kept = f"1 of 3 pieces done, kept in {tmp_path / 'rows.json'}.sqlite; the same command goes on from there"
    assert f"interrupted; {kept}" in interrupted.err
    assert not (tmp_path / "rows.json").exists()
    count.fails = False
    answer = run(*command)
    assert count.measured == ["seed 3", "seed 1", "seed 2"]
    assert [(row["row"], row["ours"]) for row in answer.rows] == [("seed 3", 1), ("seed 1", 2), ("seed 2", 3)]
    assert answer.rows[0].keys() == {"artifact", "row", "column", "published", "ours", "spread", "n"}
    assert "100.0 % seed 2" in answer.err
    held = json.loads((tmp_path / "rows.json").read_text())
    assert [row["ours"] for row in held] == [1, 2, 3]
    assert {"commit", "machine", "version"} <= held[0].keys()
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("nsa-table3",)], ids=["all", "one"])
def test_without_a_checkout_it_says_where_the_papers_are(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    shutil.copytree(
        Path(reproduction.__file__).parent, tmp_path / "allocopt", ignore=shutil.ignore_patterns("__pycache__")
    )
    # What somebody else calls so is not looked at.
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "__init__.py").write_text("1 / 0")
    command = [sys.executable, "-m", "allocopt", "reproduce", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (5, "")
    (line,) = done.stderr.splitlines()
    assert "the papers' tables and figures come with a checkout" in line
    assert "pip install -e ." in line


def test_options_are_those_of_the_reproduction() -> None:
    assert reproduction.get_reproduction("dras-figure10", {"load": 1}).name == "dras-figure10"
    with pytest.raises(UsageError, match=r"'nsa-table3' has no option 'trained'; it has: none"):
        reproduction.get_reproduction("nsa-table3", {"trained": "x"})
    with pytest.raises(UsageError, match=r"option 'load' of reproduction 'dras-figure10'"):
        reproduction.get_reproduction("dras-figure10", {"load": "much"})
