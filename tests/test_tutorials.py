"""The tutorials do what they say: their notebooks are valid, run, and print what is stored in them."""

import os
import re
from pathlib import Path

import pytest
from support import notebooks
from support.pages import environment, fits

NAMES = sorted(path.stem for path in notebooks.TUTORIALS.glob("*.ipynb"))
EXTRAS = {
    "agent": ("sb3_contrib", "matplotlib"), "data": ("matplotlib", "pandas", "polars", "pyarrow"),
    "operator": ("matplotlib",), "research": ("matplotlib",),
}  # fmt: skip
"""Packages that a tutorial needs beside the light core."""
LEAST_WORDS = 8
"""A shorter text does not describe a picture to a reader who does not see it."""


def follow(name: str, folder: Path) -> str:
    """Run a tutorial in a folder, compare what its cells print with what is stored, and return all of it."""
    if os.environ.get("CI") != "true":
        for package in EXTRAS.get(name, ()):
            pytest.importorskip(package)
    notebook = notebooks.read(name)
    work = folder / "work"
    work.mkdir()
    outputs = notebooks.run_apart(notebook, work, environment(folder / "environment"))
    for cell, output in zip(notebooks.code_cells(notebook), outputs, strict=True):
        numbers = "varies" not in cell["metadata"].get("tags", [])
        stored = notebooks.stored_output(cell)
        assert len(output.pictures) == len(notebooks.stored_pictures(cell)), "run make tutorials"
        assert notebooks.settled(output.text, numbers=numbers) == notebooks.settled(stored, numbers=numbers), (
            "run make tutorials if what is printed is right"
        )
    return "".join(output.text for output in outputs)


@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_is_a_valid_notebook_with_its_outputs(name: str) -> None:
    notebook = notebooks.read(name)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[\w-]{1,64}", cell_id) for cell_id in ids)
    for cell in notebook["cells"]:
        common = {"cell_type", "id", "metadata", "source"}
        extra = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert cell["cell_type"] in {"code", "markdown"}
        assert cell.keys() == common | extra
        for output in cell.get("outputs", []):
            is_picture = "data" in output
            expected = {"output_type": "display_data"} if is_picture else {"output_type": "stream", "name": "stdout"}
            assert {key: output[key] for key in expected} == expected
            assert output.keys() - expected.keys() == ({"data", "metadata"} if is_picture else {"text"})
    cells = notebooks.code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert any(map(notebooks.stored_output, cells))
    for cell in cells:
        pictures = notebooks.stored_pictures(cell)
        assert all(picture.startswith(b"\x89PNG") and len(picture) < 150_000 for picture in pictures)
        assert bool(pictures) == (len(cell["metadata"].get("alt", "").split()) >= LEAST_WORDS)


@pytest.mark.slow
def test_a_solver_plug_in_is_installed_held_to_the_contract_and_compared(tmp_path: Path) -> None:
    printed = follow("solver", tmp_path)
    assert "failed" not in printed
    assert "| reorder" in printed


@pytest.mark.slow
def test_a_kind_plug_in_is_installed_and_every_command_works_with_it(tmp_path: Path) -> None:
    printed = follow("problem", tmp_path)
    assert printed.count("OPTIMAL") == 2
    assert "| branch" in printed
    assert "failed" not in printed
    assert "balance-000" in (tmp_path / "work" / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_scheduler_plug_in_is_installed_and_simulated_beside_easy(tmp_path: Path) -> None:
    assert follow("scheduler", tmp_path).count("longest") == 4


@pytest.mark.slow
def test_an_agent_is_trained_saved_loaded_and_better_than_easy_on_unseen_days(tmp_path: Path) -> None:
    printed = follow("agent", tmp_path)
    waits = dict(re.findall(r"^(EASY|agent): (\d+) s$", printed, re.MULTILINE))
    assert float(waits["agent"]) < 0.7 * float(waits["EASY"])
    in_simulator = dict(re.findall(r"^(EASY|agent): mean wait (\d+) s", printed, re.MULTILINE))
    assert float(in_simulator["agent"]) < float(in_simulator["EASY"])


@pytest.mark.slow
def test_an_operator_compares_policies_and_drains_a_rack_without_stopping_a_job(tmp_path: Path) -> None:
    printed = follow("operator", tmp_path)
    assert "scontrol update NodeName=n[1-8] State=DRAIN" in printed
    assert "OPTIMAL" in printed


@pytest.mark.slow
def test_schedules_become_data_frames_and_paired_intervals(tmp_path: Path) -> None:
    assert "2000 rows; pyarrow.Field<wait: double>" in follow("data", tmp_path)


@pytest.mark.slow
def test_heuristics_are_compared_with_optima_and_bounds(tmp_path: Path) -> None:
    printed = follow("research", tmp_path)
    assert "certified" in printed
    worst = dict(re.findall(r"^(\S+) +mean .* worst +(\S+) %$", printed, re.MULTILINE))
    assert 0 <= float(worst["lns"]) < float(worst["sequential"])


def test_wall_times_and_widths_do_not_count_but_all_else_does() -> None:
    shown = "| solver |  median ms | cost |\n| ------ | -- | ---: |\n| a | 1.0 | 3 |\nOPTIMAL  0.020 s"
    assert notebooks.settled(shown) == notebooks.settled(
        "| solver | median ms | cost |\n| --- | --- | --: |\n|   a | 22.5 | 3 |\nOPTIMAL 1.113 s"
    )
    assert notebooks.settled(shown) != notebooks.settled(shown.replace("| 3 |", "| 4 |"))
    assert notebooks.settled("The fastest is a, with 1 ms.") == notebooks.settled("The fastest is b, with 2 ms.")
    assert notebooks.settled("mean wait 19,085 s") != notebooks.settled("mean wait 19,086 s")
    assert notebooks.settled("wait 7 s", numbers=False) == notebooks.settled("wait 8,000 s", numbers=False)


def test_dots_stand_for_anything_and_columns_may_be_wider() -> None:
    assert fits("a  b\n...\nend", "a b\nwhatever\nelse\nend\n")
    assert fits("gap ... s", "gap   12.5 s")
    assert fits("| --- |\n| 1 |", "| ------- |\n|       1 |")
    assert not fits("gap ... s", "gap 12.5 ms\nand more")
    assert not fits("a", "a b")
    assert not fits("b ... d ... f", "b c f d")
