"""The page: whole in itself, and deaf to what names try to say."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from support.timelines import timeline

from allocopt.cluster.topology import FatTree
from allocopt.report.html.document import Column, Section, Table
from allocopt.report.html.figures.gantt import gantt_figure
from allocopt.report.html.figures.tree import TreePicture
from allocopt.report.html.page import page_text, write_report
from allocopt.report.html.sections.schedules import _timelines_section, schedule_figures
from allocopt.report.html.timeline import Timeline

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'); DROP TABLE",
    "$\\frac{$",
    "</svg></style><b>",
    "a\x00b\x1b[31m\n",
    "{{ 7 * 7 }}",
    "名前 🙂",
)


class Collected(HTMLParser):
    """Tags, attributes and ids of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


@pytest.fixture(scope="module")
def section() -> Section:
    """Everything on it has a name that is hostile."""
    line = timeline(len(HOSTILE))
    hostile = Timeline(HOSTILE, line.submit, line.start, line.end, line.processors, line.size)
    owner = np.arange(16) % len(HOSTILE)
    names = tuple(f"{HOSTILE[number % len(HOSTILE)]}{number}" for number in range(16))
    figures = (
        gantt_figure(hostile),
        TreePicture(FatTree(2, 2, 4), owner, HOSTILE, node_names=names).figure(),
        schedule_figures(dict.fromkeys(HOSTILE, hostile))[0],
    )
    table = Table(HOSTILE[0], (Column(HOSTILE[1]), Column("number", 2)), tuple((name, -1.5) for name in HOSTILE))
    facts = ((HOSTILE[0], HOSTILE[1]),)
    return Section(HOSTILE[0], HOSTILE, facts, (table, *figures), HOSTILE, HOSTILE, HOSTILE[1])


@pytest.fixture(scope="module")
def twice(section: Section) -> str:
    """Page that shows it twice."""
    return page_text(HOSTILE[0], [section, section])


@pytest.mark.slow
def test_hostile_names_are_texts(twice: str) -> None:
    collected = Collected(twice)
    assert collected.tags.count("script") == 1
    assert "img" not in collected.tags
    assert "b" not in collected.tags
    assert not [name for name, _ in collected.attributes if name.startswith("on")]
    assert "49" not in re.findall(r"<td[^>]*>([^<]*)</td>", twice)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in twice
    assert "job &lt;script&gt;" in twice


def test_nothing_is_taken_from_anywhere_else(twice: str) -> None:
    urls = set(re.findall(r"\b(?:https?:)?//[^\s\"'<>)]+", twice))
    assert urls <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    fetched = [value for name, value in Collected(twice).attributes if name in ("src", "href", "xlink:href")]
    assert all(value.startswith(("#", "data:")) for value in fetched)
    assert "default-src 'none'" in twice


@pytest.mark.slow
def test_ids_are_unique_and_every_reference_has_its_target(twice: str) -> None:
    attributes = Collected(twice).attributes
    ids = [value for name, value in attributes if name == "id"]
    assert len(set(ids)) == len(ids)
    named = [value for name, value in attributes if name.startswith("aria-") and name.endswith("by")]
    targets = {value[1:] for name, value in attributes if name in ("href", "xlink:href") and value.startswith("#")}
    targets |= set(re.findall(r"url\(#([^)]+)\)", twice))
    assert targets | set(named) <= set(ids)


def test_colours_of_figures_are_those_of_the_mode(twice: str) -> None:
    colours = {value for name, value in Collected(twice).attributes if name in ("fill", "stroke")}
    assert {value for value in colours if not value.startswith("var(")} <= {"none", "transparent"}


@pytest.mark.slow
def test_equal_results_make_equal_pages(section: Section, twice: str) -> None:
    assert page_text(HOSTILE[0], [section, section]) == twice


@pytest.mark.slow
def test_figures_are_files_too(section: Section, tmp_path: Path) -> None:
    write_report(tmp_path / "out" / "page.html", "title", [section], tmp_path / "figures")
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        f"{name}.{ending}" for name in ("distributions", "gantt", "tree") for ending in ("pdf", "svg")
    ]
    assert (tmp_path / "figures" / "gantt.pdf").read_bytes().startswith(b"%PDF-")
    assert "<title>Jobs over time</title>" in (tmp_path / "figures" / "gantt.svg").read_text(encoding="utf-8")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["page.html"]
    named = Section(
        "..", parts=tuple(replace(section.parts[1], name=name) for name in ("../..", "Jobs: <A> & b", "jobs a b"))
    )  # type: ignore[type-var]
    write_report(tmp_path / "page.html", "title", [named], tmp_path / "named")
    assert sorted(path.stem for path in (tmp_path / "named").glob("*.svg")) == ["jobs-a-b", "jobs-a-b-2", "unnamed"]


@pytest.mark.slow
def test_a_page_of_a_hundred_thousand_jobs_is_small() -> None:
    random = np.random.default_rng(0)
    submit = np.sort(random.integers(0, 10**7, 100_000)).astype(float)
    start = submit + random.exponential(10_000, len(submit)).round()
    end = start + random.integers(1, 100_000, len(submit))
    line = Timeline([""] * len(submit), submit, start, end, random.integers(1, 4_000, len(submit)), 10_000_000)
    assert len(page_text("title", [_timelines_section({"many": line})])) < 1_000_000
