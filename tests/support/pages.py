"""Pages of the documentation as programs: the commands that they show, and what these print."""

import os
import re
import site
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

IN_TABLE = re.compile(r"\| `(allocopt [^`|]+)` (?=\|)")
FENCE = re.compile(r"^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
DOTS = re.compile(r"(?<!\.)\.{3}(?!\.)")


@dataclass(frozen=True)
class Step:
    """A fenced block: a program, a command of the shell, or what the one before prints."""

    language: str
    body: str


def steps_of(page: Path) -> list[Step]:
    """Return the fenced blocks of a page."""
    found = FENCE.finditer(page.read_text(encoding="utf-8"))
    return [Step(match["language"], match["body"]) for match in found]


def in_tables(text: str) -> list[str]:
    """Return the commands that stand alone in the cells of tables."""
    return IN_TABLE.findall(text)


def fits(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed; three dots stand for anything, the width of columns does not count."""
    first, *others = DOTS.split(_plain(shown))
    rest = _plain(printed)
    if not rest.startswith(first):
        return False
    rest = rest[len(first) :]
    for part in others[:-1]:
        _, found, rest = rest.partition(part)
        if not found and part:
            return False
    return rest.endswith(others[-1]) if others else not rest


def _plain(text: str) -> str:
    """Return a text with one space for many, and one dash."""
    return re.sub(r"-+", "-", re.sub(r"\s+", " ", text)).strip()


def environment(folder: Path) -> dict[str, str]:
    """Make a virtual environment that sees all packages of this one, and return variables under which it is used.

    What is installed goes there, without a network.
    """
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    binaries = folder / ("Scripts" if os.name == "nt" else "bin")
    packages = next(folder.rglob("site-packages"))
    seen = [path for path in map(Path, [*site.getsitepackages(), *sys.path]) if path.name.endswith("-packages")]
    (packages / "outer.pth").write_text("".join(f"import site; site.addsitedir({str(path)!r})\n" for path in seen))
    program = binaries / "allocopt"
    program.write_text(f'#!/bin/sh\nexec "{binaries / "python"}" -P -m allocopt "$@"\n')
    program.chmod(0o755)
    offline = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    return {**unset, **offline, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "160"}


def in_shell(folder: Path, variables: dict[str, str]) -> Callable[[str], str]:
    """Return what runs commands in a folder, and returns what they print."""

    def run(body: str) -> str:
        # Without a network there is no second environment to build in.
        body = body.replace("pip install", "pip install --no-build-isolation")
        command = ["bash", "-euo", "pipefail", "-c", body]
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, f"{body}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run
