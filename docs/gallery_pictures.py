"""Draw the pictures of `gallery.md`: run its blocks in their order, and keep the files that the page shows."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib
import matplotlib.pyplot as pyplot

PAGE = Path(__file__).with_name("gallery.md")
PICTURES = PAGE.parent / "images" / "gallery"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PICTURE = re.compile(r"!\[[^\]]+\]\(images/gallery/([\w-]+\.svg)\)")


def run_blocks(page: str, folder: Path) -> None:
    """Run the blocks of a page in a folder, with the command ``allocopt`` of this interpreter."""
    programs = folder / "bin"
    programs.mkdir()
    program = programs / "allocopt"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m allocopt "$@"\n')
    program.chmod(0o755)
    names: dict[str, object] = {"__name__": "gallery"}
    before, variables = Path.cwd(), dict(os.environ)
    os.chdir(folder)
    # Without a date and with fixed identifiers, files change only if their pictures do.
    os.environ.update(PATH=f"{programs}{os.pathsep}{variables['PATH']}", SOURCE_DATE_EPOCH="0")
    try:
        with matplotlib.rc_context({"svg.hashsalt": "gallery"}):
            for language, body in BLOCK.findall(page):
                if language == "sh":
                    subprocess.run(["bash", "-euo", "pipefail", "-c", body], check=True)
                else:
                    exec(compile(body, "gallery.md", "exec"), names)
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(variables)
        pyplot.close("all")


def pictures(page: str, folder: Path) -> dict[str, Path]:
    """Return the files in a folder that a page shows, by name; raise `ValueError` unless there is one of each name."""
    found = {name: list(folder.rglob(name)) for name in PICTURE.findall(page)}
    for name, paths in found.items():
        if len(paths) != 1:
            raise ValueError(f"the blocks of the page write {len(paths)} files {name}, must be 1")
    return {name: path for name, (path,) in found.items()}


def main() -> None:
    """Write the pictures."""
    page = PAGE.read_text(encoding="utf-8")
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        run_blocks(page, Path(name))
        for picture, path in pictures(page, Path(name)).items():
            shutil.copy(path, PICTURES / picture)


if __name__ == "__main__":
    main()
