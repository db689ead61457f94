"""Tutorials as programs: the cells of a notebook are run, and what they print is stored or compared.

A cell is Python, or begins with ``%%writefile PATH`` or ``%%bash`` as in Jupyter. Run as a program, this module stores
the outputs of the tutorials anew (``make tutorials``).
"""

import json
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from support.pages import environment, in_shell

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
# Whether a bound is checked goes by the time that the solve took.
WALL_TIME = re.compile(
    r"\b\d+\.\d{3} s\b(?:  (?:certified|not checked))?|\b\d+\.\d+s\b(?: \(\d+:\d\d:\d\d\))?|[\d,]+ jobs/s"
)
# Version, commit and processor, in the last line of a command's answer.
PROVENANCE = re.compile(r"\S+, commit .*")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")

Notebook = dict[str, Any]
Shell = Callable[[str], str]


def read(name: str) -> Notebook:
    """Read the tutorial of that name."""
    notebook: Notebook = json.loads((TUTORIALS / f"{name}.ipynb").read_text(encoding="utf-8"))
    return notebook


def code_cells(notebook: Notebook) -> list[dict[str, Any]]:
    """Return the cells that are run."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def stored_output(cell: dict[str, Any]) -> str:
    """Return what a cell printed when its notebook was stored."""
    return "".join("".join(output["text"]) for output in cell["outputs"])


def run(notebook: Notebook, folder: Path, shell: Shell) -> list[str]:
    """Run the cells in order in a folder, the current one, and return what each prints."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    for cell in code_cells(notebook):
        first, _, rest = (source := "".join(cell["source"])).partition("\n")
        if first.startswith("%%writefile "):
            path = folder / first.removeprefix("%%writefile ")
            path.write_text(rest + "\n", encoding="utf-8")
            printed.append("")
        elif first == "%%bash":
            printed.append(shell(rest))
        else:
            with redirect_stdout(StringIO()) as stream:
                exec(compile(source, "cell", "exec"), names)
            printed.append(stream.getvalue())
    return printed


def settled(text: str, *, numbers: bool = True) -> str:
    """Return a text without what differs from run to run: wall times, columns of milliseconds, widths of columns.

    Without ``numbers`` all numbers are left out.
    """
    lines, timed = [], set[int]()
    for line in text.splitlines():
        columns = [column.strip() for column in line.split("|")]
        if any(column.endswith(" ms") for column in columns):
            timed = {place for place, column in enumerate(columns) if column.endswith(" ms")}
        if len(columns) > 1:
            line = "|".join("" if place in timed else re.sub("-+", "-", c) for place, c in enumerate(columns))
        lines.append(re.sub(r"\s+", " ", PROVENANCE.sub("", WALL_TIME.sub("T", line))).strip())
    joined = "\n".join(lines).strip()
    return joined if numbers else NUMBER.sub("N", joined)


def store(name: str) -> None:
    """Run a tutorial and write its outputs into it."""
    notebook = read(name)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "work"
        folder.mkdir()
        outputs = run_apart(notebook, folder, environment(Path(made) / "environment"))
    for count, (cell, text) in enumerate(zip(code_cells(notebook), outputs, strict=True), start=1):
        cell["execution_count"] = count
        stream = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
        cell["outputs"] = [stream] if text else []
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    (TUTORIALS / f"{name}.ipynb").write_text(text + "\n", encoding="utf-8")


def run_apart(notebook: Notebook, folder: Path, variables: dict[str, str]) -> list[str]:
    """Run a notebook whose folder is the current one meanwhile, with ``sys.path`` and modules as before at the end."""
    import os

    before, path, modules = Path.cwd(), list(sys.path), set(sys.modules)
    os.chdir(folder)
    try:
        return run(notebook, folder, in_shell(folder, variables))
    finally:
        os.chdir(before)
        sys.path[:] = path
        for module in set(sys.modules) - modules:
            if str(folder) in str(getattr(sys.modules[module], "__file__", "")):
                del sys.modules[module]


if __name__ == "__main__":
    for tutorial in sys.argv[1:] or sorted(path.stem for path in TUTORIALS.glob("*.ipynb")):
        store(tutorial)
