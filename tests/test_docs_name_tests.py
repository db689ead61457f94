"""What the documentation points at is there: tests by path and by name, modules, and linked files."""

import functools
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
TEST_FILES = sorted((ROOT / "tests").rglob("*.py"))
MATHEMATICS = ("asax.md", "coallocation.md", "dcas.md", "free.md", "knapsack.md", "mathematics.md", "scas.md")
"""Pages with theorems and models, each of which is to say which tests check them."""

PATH = re.compile(r"\btests/[\w./-]*\w")
# What is to be filled in is in capitals, such as `learned/AGENT`; identifiers of environments have some, too.
MODULE = re.compile(r"`((?:allocopt|formulations|heuristics|learned|papers|benchmarks)/[a-z0-9_/]+(?:\.py)?)`")
NAME = re.compile(r"\btest_\w+(?:\.py\b)?")
DEFINED = re.compile(r"^def (test_\w+)\(", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@functools.cache
def defined() -> set[str]:
    """Names of all test functions, and of the files that hold them."""
    return {name for path in TEST_FILES for name in (path.name, *DEFINED.findall(text_of(path)))}


def missing(text: str) -> list[str]:
    """Find what a text names as a test or a module and is none."""
    paths = [path for path in PATH.findall(text) + MODULE.findall(text) if not (ROOT / path).exists()]
    # The last part of a path has been looked at with the path.
    names = [name for name in NAME.findall(PATH.sub("", text)) if name not in defined()]
    return paths + names


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_test_and_module_that_a_page_names_exists(page: Path) -> None:
    assert missing(text_of(page)) == []


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=name_of)
def test_every_file_that_a_page_links_exists(page: Path) -> None:
    assert [link for link in LINK.findall(text_of(page)) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("name", MATHEMATICS)
def test_every_page_of_mathematics_says_which_tests_check_it(name: str) -> None:
    text = text_of(ROOT / "docs" / name)
    assert PATH.findall(text) or NAME.findall(text)


def test_what_is_not_there_is_found_by_path_and_by_name() -> None:
    text = (
        "`tests/allocopt/solving`, `tests/gone/test_it.py`, `tests/test_house.py::test_gone_too`, `test_house.py`,\n"
        "`test_help_does_not_even_load_numpy` and `test_nothing_of_the_kind`; `allocopt/gone.py`, `learned/AGENT`."
    )
    assert missing(text) == ["tests/gone/test_it.py", "allocopt/gone.py", "test_gone_too", "test_nothing_of_the_kind"]
