"""The gallery: its blocks draw its pictures, which are there, small, legible on a phone, and described in words."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

matplotlib = pytest.importorskip("matplotlib")

DOCS = Path(__file__).resolve().parents[1] / "docs"
MOST_BYTES = 150_000
MOST_POINTS = 410.0
"""Width of a picture; a phone of 390 pixels shows letters of 9 points in a wider one with less than 8 pixels."""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gallery_pictures", DOCS / "gallery_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def page() -> str:
    return (DOCS / "gallery.md").read_text(encoding="utf-8")


def test_a_block_stands_above_each_of_the_ten_pictures(script: ModuleType, page: str) -> None:
    shown = script.PICTURE.findall(page)
    assert len(set(shown)) == 10
    assert shown == re.findall(r'\.savefig\("([\w-]+\.svg)"\)\n```\n\n!\[.{30,}\]\(images/gallery/\1\)', page)


def test_every_picture_of_the_gallery_exists_and_is_small_and_narrow(script: ModuleType, page: str) -> None:
    files = {path.name: path for path in script.PICTURES.iterdir()}
    assert sorted(files) == sorted(script.PICTURE.findall(page))
    for path in files.values():
        assert path.stat().st_size < MOST_BYTES, path.name
        assert float(ElementTree.parse(path).getroot().attrib["width"].removesuffix("pt")) <= MOST_POINTS, path.name


@pytest.mark.slow
def test_the_blocks_of_the_gallery_draw_the_pictures_that_it_shows(
    script: ModuleType, page: str, tmp_path: Path
) -> None:
    script.run_blocks(page, tmp_path)
    drawn = script.pictures(page, tmp_path)
    assert sorted(drawn) == sorted(script.PICTURE.findall(page))
    for name, path in drawn.items():
        stored = (script.PICTURES / name).read_text(encoding="utf-8")
        # Other versions draw letters and lines a little differently.
        if f"Matplotlib v{matplotlib.__version__}," in stored:
            assert path.read_text(encoding="utf-8") == stored, f"{name}: run python docs/gallery_pictures.py"
