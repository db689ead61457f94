from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allocopt.traces.reading import read_workload

Run = Callable[..., Any]


@pytest.mark.parametrize("model", ["lublin", "nsa", "asax"])
def test_a_workload_of_a_model_is_written(run: Run, tmp_path: Path, model: str) -> None:
    out = tmp_path / "made.swf.gz"
    answer = run("generate", "workload", "--model", model, "--jobs", "50", "--processors", "64", "--seed", "3", out)
    assert (answer.code, answer.out, answer.lines_of_error) == (0, "", [f"{out}: jobs written: 50"])
    made = read_workload(out)
    assert made.ids.tolist() == list(range(1, 51))
    assert made.machine_processors == 64
    assert made.processors.max() <= 64


@pytest.mark.parametrize("model", ["lublin", "nsa", "asax"])
def test_the_seed_alone_decides_the_bytes(run: Run, tmp_path: Path, model: str) -> None:
    files = []
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name).mkdir()
        how = ("--model", model, "--seed", seed, "--jobs", "100")
        assert run("generate", "workload", *how, tmp_path / name / "w.json.gz").code == 0
        files.append((tmp_path / name / "w.json.gz").read_bytes())
    assert files[0] == files[1] != files[2]


def test_what_the_format_cannot_hold_is_said(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "w.txt"
    answer = run("generate", "workload", out, "--jobs", "5")
    assert answer.lines_of_error == [
        f"{out}: size of the machine lost, the format has none: 1000",
        f"{out}: jobs written: 5",
    ]


@pytest.mark.parametrize(
    ("name", "options", "fault"),
    [
        ("w.csv", [], "the name must end in"),
        ("w.swf", ["--processors", "9"], "must have at least 10 for the Lublin model"),
        ("w.swf", ["--model", "nsa", "--processors", "39"], "--processors is 39, must be at least 40"),
        ("w.swf", ["--jobs", "0"], "--jobs"),
        ("w.swf", ["--model", "none"], "--model"),
    ],
)
def test_a_senseless_request_is_refused_and_nothing_written(
    run: Run, tmp_path: Path, name: str, options: list[str], fault: str
) -> None:
    answer = run("generate", "workload", *options, tmp_path / name)
    assert (answer.code, answer.out) == (2, "")
    assert fault in answer.err
    assert not list(tmp_path.iterdir())
