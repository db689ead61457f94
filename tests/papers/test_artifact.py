"""What all tables and figures share, and that every paper's folder is complete."""

from pathlib import Path

import pytest

from allocopt.errors import BadFileError
from allocopt.reproduction import get_reproduction
from papers import artifacts, pages
from papers.artifact import Asked, mean_of, published, seed_and_name

FOLDERS = sorted(path.parent for path in Path(pages.__file__).parent.glob("*/__init__.py"))


def test_every_artifact_stands_in_the_folder_of_its_paper() -> None:
    assert {name.split("-")[0] for name in artifacts()} == {folder.name for folder in FOLDERS}
    for name, artifact in artifacts().items():
        assert artifact.name == get_reproduction(name).name == name
        assert set(artifact.takes) <= set(Asked.__dataclass_fields__)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_paper_has_its_values_its_claims_and_its_page(folder: Path) -> None:
    assert all(rows for rows in published(folder.name).values())
    assert (folder / "page.py").is_file()
    assert (folder / "page.md").is_file()
    page = (pages.RESULTS / f"{folder.name}.md").read_text(encoding="utf-8")
    assert page.split("\n\n", 1)[1].startswith(pages.claims_section(folder.name))
    assert f"`python -m papers.{folder.name}.page" in page


@pytest.mark.parametrize(
    ("piece", "seed", "name"),
    [
        ("seed 3", 3, ""),
        ("seed 10, cnn-1", 10, "cnn-1"),
        ("seed 0: DRAS-PPO, static", 0, "DRAS-PPO, static"),
        ("seed 0: sampled,real", 0, "sampled,real"),
        ("seed 1, epoch 2, SCIP", 1, "epoch 2, SCIP"),
    ],
)
def test_the_key_of_a_piece_has_a_seed_and_a_name(piece: str, seed: int, name: str) -> None:
    assert seed_and_name(piece) == (seed, name)


def test_a_mean_has_a_spread_where_there_are_several_values() -> None:
    assert mean_of("row", "column", [1.0, 3.0], 5.0) == ("row", "column", 2.0, 5.0, 2, pytest.approx(2**0.5))
    assert mean_of("row", "column", [1.0], n=7) == ("row", "column", 1.0, None, 7, None)


def test_a_selection_holds_the_rows_that_match_and_what_the_paper_prints() -> None:
    rows = [
        {"row": row, "column": "wait h", "ours": ours, "spread": 0.25, "published": published}
        for row, ours, published in (("sp2: ours", 1.5, 2.0), ("sp2: fcfs", 3.0, None), ("theta: ours", 4.0, None))
    ]
    both = pages.Selection("any", "sp2: (.*)", {"wait h": 1, "none": 0}, has_spread=True).table(rows)
    assert both is not None
    assert [line.replace(" ", "") for line in both.splitlines()[2:]] == ["|ours|1.5±0.2(2.0)|", "|fcfs|3.0±0.2|"]
    one = pages.Selection("any", "(theta): ours", {"wait h": 1}).table(rows)
    assert one is not None
    assert [line.replace(" ", "") for line in one.splitlines()] == ["||theta|", "|------|----:|", "|waith|4.0|"]
    assert pages.Selection("any", "(cori): .*", {"wait h": 1}).table(rows) is None


def test_a_folder_with_trainings_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="none: no such folder"):
        Asked(tmp_path, True, (0,), str(tmp_path / "none"))
