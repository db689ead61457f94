"""The tutorials do what they say: every file that they show is written, every command run, its output compared."""

from pathlib import Path

import pytest
from support.pages import environment, fits, follow

TUTORIALS = Path(__file__).resolve().parents[1] / "docs" / "tutorials"


@pytest.mark.slow
def test_a_solver_plug_in_is_installed_held_to_the_contract_and_compared(tmp_path: Path) -> None:
    variables = environment(tmp_path / "environment")
    work = tmp_path / "work"
    work.mkdir()
    assert follow(TUTORIALS / "solver.md", work, variables) >= 3
