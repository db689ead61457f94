"""Best-known values lie beside the instances they are of."""

import json
from pathlib import Path
from typing import Any

import pytest

from allocopt.errors import BadFileError
from allocopt.solving.solution_files import BestKnown, best_known_beside, read_best_known, write_best_known

VALUES = {
    "one": {"scas": BestKnown(12000.0, proved=True), "free": BestKnown(0.1, proved=False)},
    "two": {"scas": BestKnown(5.0, proved=True)},
    "knapsack": {"": BestKnown(5.0, proved=True)},
}


def test_values_survive_their_file_one_instance_a_line(tmp_path: Path) -> None:
    write_best_known(tmp_path / "best_known.json", {})
    assert read_best_known(tmp_path / "best_known.json") == {}
    write_best_known(tmp_path / "best_known.json", VALUES)
    assert read_best_known(tmp_path / "best_known.json") == VALUES
    line = '  "knapsack": {"": {"objective": 5.0, "proved": true}}'
    assert line in (tmp_path / "best_known.json").read_text().splitlines()


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ([], "top level: is an empty list, must be a valid dictionary"),
        ({"one": 5}, "one: is 5, must be a valid dictionary"),
        ({"one": {"best": {}}}, "one: a key is 'best', must be one of '', "),
        ({"a/b": {}}, "top level: a key holds '/', must be usable as a file name"),
        ({"one": {"scas": 5}}, "one.scas: is 5, must be a valid dictionary"),
        ({"one": {"scas": {"objective": 5}}}, "one.scas.proved: is missing"),
        ({"one": {"scas": {"objective": "5", "proved": True}}}, "one.scas.objective: is '5', must be a valid number"),
        ({"one": {"scas": {"objective": 5, "proved": 1}}}, "one.scas.proved: is 1, must be a valid boolean"),
        ({"one": {"scas": {"objective": 5, "proved": True, "prooved": 1}}}, "one.scas.prooved: is an unknown key"),
    ],
)
def test_a_fault_names_file_and_place(tmp_path: Path, held: Any, message: str) -> None:
    path = tmp_path / "best_known.json"
    path.write_text(json.dumps(held))
    with pytest.raises(BadFileError) as caught:
        read_best_known(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_what_is_not_a_number_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match=r"one\.scas\.objective: is nan, must be a finite number"):
        write_best_known(tmp_path / "best_known.json", {"one": {"scas": BestKnown(float("nan"), proved=False)}})
    assert list(tmp_path.iterdir()) == []


def test_the_files_of_all_folders_are_merged(tmp_path: Path) -> None:
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
    write_best_known(tmp_path / "a" / "best_known.json", {"one": VALUES["one"]})
    write_best_known(tmp_path / "b" / "best_known.json", VALUES)
    paths = [tmp_path / folder / "w.jsonl" for folder in ("a", "b", "c")]
    assert best_known_beside(paths) == VALUES
    assert best_known_beside([str(paths[0]), paths[0]]) == {"one": VALUES["one"]}
    assert best_known_beside([paths[2]]) == {}


def test_folders_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    write_best_known(tmp_path / "a" / "best_known.json", VALUES)
    write_best_known(tmp_path / "b" / "best_known.json", {"two": {"scas": BestKnown(4.0, proved=True)}})
    with pytest.raises(BadFileError, match=r"b/best_known\.json: two\.scas: is 4, but 5 in the folder of"):
        best_known_beside([tmp_path / "a" / "w.json", tmp_path / "b" / "w.json"])
