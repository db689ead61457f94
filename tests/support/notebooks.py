"""Tutorials as programs: the cells of a notebook are run, and what they print is stored or compared.

A cell is Python, or begins with ``%%writefile PATH`` or ``%%bash`` as in Jupyter. Figures of matplotlib are shown below
the cell that made them; the key ``alt`` of its metadata describes them. Run as a program, this module stores the
outputs of the tutorials anew (``make tutorials``).
"""

import base64
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from support.pages import environment, in_shell

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
# Whether a bound is checked goes by the time that the solve took.
WALL_TIME = re.compile(
    r"\b\d+\.\d{3} s\b(?:  (?:certified|not checked))?|\b\d+\.\d+s\b(?: \(\d+:\d\d:\d\d\))?|[\d,]+ jobs/s"
    r"|^The fastest is .*"
)
# Version, commit and processor, in the last line of a command's answer.
PROVENANCE = re.compile(r"\S+, commit .*")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")

DOTS_PER_INCH = 144
"""Of stored pictures, which are shown with 96 as on a page, so that screens of twice the resolution show all dots."""

Notebook = dict[str, Any]
Shell = Callable[[str], str]


@dataclass(frozen=True)
class Output:
    """What a cell prints, and its pictures as PNG files."""

    text: str = ""
    pictures: tuple[bytes, ...] = ()


def read(name: str) -> Notebook:
    """Read the tutorial of that name."""
    notebook: Notebook = json.loads((TUTORIALS / f"{name}.ipynb").read_text(encoding="utf-8"))
    return notebook


def code_cells(notebook: Notebook) -> list[dict[str, Any]]:
    """Return the cells that are run."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def stored_output(cell: dict[str, Any]) -> str:
    """Return what a cell printed when its notebook was stored."""
    return "".join("".join(output.get("text", "")) for output in cell["outputs"])


def stored_pictures(cell: dict[str, Any]) -> list[bytes]:
    """Return the pictures that a cell drew when its notebook was stored."""
    return [base64.b64decode(output["data"]["image/png"]) for output in cell["outputs"] if "data" in output]


def run(notebook: Notebook, folder: Path, shell: Shell) -> list[Output]:
    """Run the cells in order in a folder, the current one, and return what each prints and draws."""
    names: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    for cell in code_cells(notebook):
        first, _, rest = (source := "".join(cell["source"])).partition("\n")
        if first.startswith("%%writefile "):
            path = folder / first.removeprefix("%%writefile ")
            path.write_text(rest + "\n", encoding="utf-8")
            outputs.append(Output())
        elif first == "%%bash":
            outputs.append(Output(shell(rest)))
        else:
            with redirect_stdout(StringIO()) as stream:
                exec(compile(source, "cell", "exec"), names)
            outputs.append(Output(stream.getvalue(), drawn()))
    return outputs


def drawn() -> tuple[bytes, ...]:
    """Return the open figures of pyplot, and close them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    files = []
    for number in pyplot.get_fignums() if pyplot is not None else ():
        pyplot.figure(number).savefig(file := BytesIO(), dpi=DOTS_PER_INCH)
        pyplot.close(number)
        files.append(file.getvalue())
    return tuple(files)


def picture_output(picture: bytes) -> dict[str, Any]:
    """Return a picture as an output of a cell; a PNG file has its width and height at a fixed place."""
    width, height = (int.from_bytes(picture[at : at + 4], "big") * 96 // DOTS_PER_INCH for at in (16, 20))
    size = {"image/png": {"height": height, "width": width}}
    data = {"image/png": base64.b64encode(picture).decode("ascii")}
    return {"data": data, "metadata": size, "output_type": "display_data"}


def settled(text: str, *, numbers: bool = True) -> str:
    """Return a text without what differs from run to run: wall times, who is fastest, widths of columns.

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
    for count, (cell, output) in enumerate(zip(code_cells(notebook), outputs, strict=True), start=1):
        cell["execution_count"] = count
        stream = {"name": "stdout", "output_type": "stream", "text": output.text.splitlines(keepends=True)}
        cell["outputs"] = [*([stream] if output.text else []), *map(picture_output, output.pictures)]
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    (TUTORIALS / f"{name}.ipynb").write_text(text + "\n", encoding="utf-8")


def run_apart(notebook: Notebook, folder: Path, variables: dict[str, str]) -> list[Output]:
    """Run a notebook whose folder is the current one meanwhile, with ``sys.path`` and modules as before at the end."""
    os.environ.setdefault("MPLBACKEND", "agg")  # figures in windows need a screen
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
