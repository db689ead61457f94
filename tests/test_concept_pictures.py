"""The pictures of `docs/concepts.md`: the files are what the script draws, and the page describes each in words."""

import importlib
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest

import allocopt
from allocopt.topology import Job, TopologyProblem

DOCS = Path(__file__).resolve().parents[1] / "docs"
IMAGE = re.compile(r"!\[([^\]]*)\]\(images/concepts/(\w+)\.svg\)")
LEAST_WORDS = 8
"""A shorter text does not describe a picture to a reader who does not see it."""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("concept_pictures")


def test_the_pictures_are_what_the_script_draws(script: ModuleType) -> None:
    files = {path.stem: path.read_text(encoding="utf-8") for path in script.FOLDER.iterdir()}
    drawn = {name: draw() for name, draw in script.PICTURES.items()}
    assert files == drawn, "run python docs/concept_pictures.py"


def test_every_picture_has_a_title_and_colours_for_light_and_dark_pages(script: ModuleType) -> None:
    allowed = {script.GREY, script.BLACK, *script.COLOURS.values(), "none"}
    for name, draw in script.PICTURES.items():
        root = ElementTree.fromstring(draw())
        assert root[0].tag.endswith("title"), name
        assert root[0].text, name
        colours = {value for one in root.iter() for key, value in one.items() if key in ("fill", "stroke")}
        assert colours <= allowed, name


def test_the_page_shows_every_picture_in_order_with_a_text_in_its_place(script: ModuleType) -> None:
    shown = IMAGE.findall((DOCS / "concepts.md").read_text(encoding="utf-8"))
    assert [name for _, name in shown] == list(script.PICTURES)
    assert [name for text, name in shown if len(text.split()) < LEAST_WORDS] == []


@pytest.mark.parametrize(("idle", "cost"), [([0, 1, 2, 3], 6000), ([0, 1, 4, 5], 10000), ([0, 1, 2, 3, 4, 5], 6000)])
def test_the_hop_costs_of_the_pictures_are_those_of_the_package(idle: list[int], cost: float) -> None:
    two_racks = allocopt.FatTree(pods=1, leaves_per_pod=2, nodes_per_leaf=4)
    problem = TopologyProblem(two_racks, np.array(idle), (Job("A", 4),))
    assert allocopt.solve(problem, solver="exact", time_limit=None).objective == cost
