"""The tutorials do what they say: every file that they show is written, every command run, its output compared."""

import os
import re
from pathlib import Path

import pytest
from support.pages import environment, fits, follow, in_process, in_shell

TUTORIALS = Path(__file__).resolve().parents[1] / "docs" / "tutorials"


@pytest.mark.slow
def test_a_solver_plug_in_is_installed_held_to_the_contract_and_compared(tmp_path: Path) -> None:
    variables = environment(tmp_path / "environment")
    work = tmp_path / "work"
    work.mkdir()
    _, objective, contract, table = follow(TUTORIALS / "solver.md", work, in_shell(work, variables))
    assert float(objective) > 0
    assert "failed" not in contract
    assert "| reorder" in table


@pytest.mark.slow
def test_a_kind_plug_in_is_installed_and_every_command_works_with_it(tmp_path: Path) -> None:
    variables = environment(tmp_path / "environment")
    work = tmp_path / "work"
    work.mkdir()
    solved, table, contract = follow(TUTORIALS / "problem.md", work, in_shell(work, variables))
    assert solved.count("OPTIMAL") == 2
    assert "| branch" in table
    assert "failed" not in contract
    assert "balance-000" in (work / "report.html").read_text(encoding="utf-8")


def test_dots_stand_for_anything_and_columns_may_be_wider() -> None:
    assert fits("a  b\n...\nend", "a b\nwhatever\nelse\nend\n")
    assert fits("gap ... s", "gap   12.5 s")
    assert fits("| --- |\n| 1 |", "| ------- |\n|       1 |")
    assert not fits("gap ... s", "gap 12.5 ms\nand more")
    assert not fits("a", "a b")
    assert not fits("b ... d ... f", "b c f d")


@pytest.mark.slow
def test_a_scheduler_plug_in_is_installed_and_simulated_beside_easy(tmp_path: Path) -> None:
    variables = environment(tmp_path / "environment")
    work = tmp_path / "work"
    work.mkdir()
    by_command, in_python = follow(TUTORIALS / "scheduler.md", work, in_shell(work, variables))
    assert [text.count("\n") for text in (by_command, in_python)] == [4, 4]


@pytest.mark.slow
def test_an_agent_is_trained_saved_loaded_and_better_than_easy_on_unseen_days(tmp_path: Path) -> None:
    if os.environ.get("CI") != "true":
        pytest.importorskip("sb3_contrib")
    with in_process(tmp_path) as run:
        _, waits, in_simulator = follow(TUTORIALS / "agent.md", tmp_path, run)
    easy, _, agent = (float(found) for found in re.findall(r": (\d+) s", waits))
    assert agent < 0.7 * easy
    easy, agent = (float(found) for found in re.findall(r"mean wait (\d+) s", in_simulator))
    assert agent < easy
