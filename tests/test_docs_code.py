"""The Python that pages show runs, from the first block of a page to its last, and prints what a comment says."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest
from support.pages import steps_of

from allocopt.traces.generators import lublin_workload
from allocopt.traces.swf import write_swf

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "docs" / "guide"
TRACES = {"CTC-SP2.swf.gz": 338, "trace.swf.gz": 256, "jobs.swf": 128}
"""Traces of which pages speak, and the processors of their machines; small ones are drawn in their places."""

PAGES = [
    ROOT / "README.md",
    *sorted(GUIDE.glob("*.md")),
    *(ROOT / "docs" / name for name in ("api/index.md", "protocols.md", "simulator.md", "dras.md")),
]
SAID = re.compile(r"^print\(.*\) +# (\S.*)$", re.MULTILINE)


def blocks_of(page: Path) -> list[str]:
    return [step.body for step in steps_of(page) if step.language == "python"]


def said(block: str) -> list[str]:
    """Beginnings of what the comments behind calls of `print` say: numbers and words, until dots."""
    return [comment.split("...")[0].strip() for comment in SAID.findall(block) if re.match(r"[A-Z\d\[]", comment)]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks_of(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_python_of_a_page_runs_and_prints_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, processors in TRACES.items():
        write_swf(Path(name), lublin_workload(300, processors, np.random.default_rng(0)))
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks_of(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, str(page), "exec"), names)
        assert [comment for comment in said(block) if comment not in printed.getvalue()] == []


def test_what_the_readme_says_is_printed_is_looked_for() -> None:
    first = blocks_of(ROOT / "README.md")[0]
    assert said(first) == ["OPTIMAL 137000.0 0.0", "[160, 161,"]
