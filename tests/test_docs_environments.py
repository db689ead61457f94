"""The page of the environments says what their tasks declare."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_the_page_of_the_environments_is_what_its_script_writes() -> None:
    spec = importlib.util.spec_from_file_location("environments_page", DOCS / "environments_page.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    written = (DOCS / "environments.md").read_text(encoding="utf-8")
    assert written == script.page(), "run python docs/environments_page.py"
