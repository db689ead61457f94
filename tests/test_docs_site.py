"""The pages: the site is built whole, and commands, tests, modules and files that they name are there."""

import functools
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from support.pages import in_tables

import allocopt
from allocopt.cli.main import program

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md"])
NOTEBOOKS = sorted(DOCS.glob("tutorials/*.ipynb"))
PROGRAM: Any = typer.main.get_command(program())

NAMING = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "RELEASING.md"]
TEST_FILES = sorted((ROOT / "tests").rglob("*.py"))
MATHEMATICS = ("asax.md", "coallocation.md", "dcas.md", "free.md", "knapsack.md", "mathematics.md", "scas.md")
"""Pages with theorems and models, each of which is to say which tests check them."""

PATH = re.compile(r"\btests/[\w./-]*\w")
# What is to be filled in is in capitals, such as `learned/AGENT`; identifiers of environments have some, too.
MODULE = re.compile(r"`((?:allocopt|formulations|heuristics|learned|papers|benchmarks)/[a-z0-9_/]+(?:\.py)?)`")
NAME = re.compile(r"\btest_\w+(?:\.py\b)?")
DEFINED = re.compile(r"^def (test_\w+)\(", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")

INDENTED = re.compile(r"^ {4}allocopt (.+)$", re.MULTILINE)
FENCED = re.compile(r"^```(?:sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"'](https?:)?//", re.IGNORECASE)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def command_lines(text: str) -> list[list[str]]:
    """Words of every line of a page that calls the program, comments and what it is piped into left out."""
    fenced = [
        line.removeprefix("allocopt ")
        for block in FENCED.findall(text)
        for line in block.splitlines()
        if line.startswith("allocopt ")
    ]
    cells = [command.removeprefix("allocopt ") for command in in_tables(text)]
    return [re.split(r" # | \| | > ?| >\S", line)[0].split() for line in [*INDENTED.findall(text), *fenced, *cells]]


def unknown(words: list[str]) -> list[str]:
    """Find what a command line names as a command or an option and is none."""
    command = PROGRAM
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        if words[0] not in command.commands:
            return [words[0]]
        command, words = command.commands[words[0]], words[1:]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    options = {word.strip("[]").partition("=")[0] for word in words if word.startswith(("--", "[--"))}
    return sorted(options - known - {"--help"})


def built(folder: Path) -> Path:
    """Build the site as `make docs` does, and return where it is."""
    flags = ["--fail-on-warning", "--keep-going", "--nitpicky", "--quiet"]
    command = [sys.executable, "-m", "sphinx", *flags, "-d", str(folder / "cache"), str(DOCS), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_the_site_is_built_without_a_warning_whole_and_without_network(tmp_path: Path) -> None:
    site = built(tmp_path)
    pages = {page.relative_to(site): text_of(page) for page in site.rglob("*.html")}
    # A page in no table of contents is a warning.
    expected = {page.relative_to(DOCS).with_suffix(".html") for page in [*DOCS.rglob("*.md"), *NOTEBOOKS]}
    assert expected <= pages.keys()
    assert [page for page, text in pages.items() if LOADED.search(text)] == []
    interface = "".join(text for page, text in pages.items() if page.parts[0] == "api")
    counts = {name: len(re.findall(rf'<dt [^>]*\bid="allocopt\.{name}"', interface)) for name in allocopt.__all__}
    assert {name for name, count in counts.items() if count != 1} == {"__version__"}
    mathematics = pages[Path("mathematics.html")]
    assert mathematics.count("<math") > 50
    assert "$" not in mathematics


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_that_a_page_shows_exists_with_its_options(page: Path) -> None:
    assert {" ".join(words): unknown(words) for words in command_lines(text_of(page)) if unknown(words)} == {}


def test_every_command_has_a_place_in_the_guide() -> None:
    pages = [*(DOCS / "guide").glob("*.md"), *DOCS.glob("*.md")]
    text = "".join(map(text_of, pages))
    assert [name for name in PROGRAM.commands if f"allocopt {name}" not in text] == []


def test_the_picture_of_the_readme_is_what_its_script_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    script = importlib.import_module("window_figure")
    assert script.drawing(script.window()) == script.PICTURE.read_text(encoding="utf-8")


def test_citation_and_changelog_name_this_version_and_its_date() -> None:
    citation = yaml.safe_load(text_of(ROOT / "CITATION.cff"))
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert {key: citation[key] for key in ("license", "keywords")} == {
        key: project[key] for key in ("license", "keywords")
    }
    # Changes since then stand above, under "Unreleased".
    newest = re.findall(r"^## (\d\S*) \((\S+)\)$", text_of(ROOT / "CHANGELOG.md"), re.MULTILINE)[0]
    assert newest == (allocopt.__version__, citation["date-released"])
    assert citation["version"] == allocopt.__version__


def test_the_first_page_links_every_page_of_guide_and_methods() -> None:
    linked = set(re.findall(r"\]\(([\w/-]+\.(?:md|ipynb))\)", text_of(DOCS / "index.md")))
    pages = [*DOCS.glob("*.md"), *DOCS.glob("guide/*.md"), *NOTEBOOKS]
    assert {str(page.relative_to(DOCS)) for page in pages} - linked == {"index.md"}


def test_the_readme_is_read_in_three_minutes() -> None:
    assert len(text_of(ROOT / "README.md").split()) <= 700


def test_a_command_and_an_option_that_are_not_there_are_found() -> None:
    fenced = "```sh\nallocopt fly # away\nallocopt generate window --help\n```\n"
    text = f"    allocopt solve @tiny --strategy scas --quickly\n\n{fenced}"
    assert [unknown(words) for words in command_lines(text)] == [["--quickly"], ["fly"], []]


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


@pytest.mark.parametrize("page", NAMING, ids=name_of)
def test_every_test_and_module_that_a_page_names_exists(page: Path) -> None:
    assert missing(text_of(page)) == []


@pytest.mark.parametrize("page", [*NAMING, *NOTEBOOKS], ids=name_of)
def test_every_file_that_a_page_links_exists(page: Path) -> None:
    assert [link for link in LINK.findall(text_of(page)) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("name", MATHEMATICS)
def test_every_page_of_mathematics_says_which_tests_check_it(name: str) -> None:
    text = text_of(DOCS / name)
    assert PATH.findall(text) or NAME.findall(text)


def test_what_is_not_there_is_found_by_path_and_by_name() -> None:
    text = (
        "`tests/allocopt/solving`, `tests/gone/test_it.py`, `tests/test_house.py::test_gone_too`, `test_house.py`,\n"
        "`test_every_public_name_is_there` and `test_nothing_of_the_kind`; `allocopt/gone.py`, `learned/AGENT`."
    )
    assert missing(text) == ["tests/gone/test_it.py", "allocopt/gone.py", "test_gone_too", "test_nothing_of_the_kind"]
