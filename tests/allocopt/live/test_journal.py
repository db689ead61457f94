"""Journals of services: whole after a crash, and verified again."""

import json
from pathlib import Path
from typing import Any

import pytest

from allocopt import solve
from allocopt.errors import BadFileError
from allocopt.live.journal import FORMAT, Journal, Replay, read_journal
from allocopt.problems.instances import object_from_problem, shipped_problems
from allocopt.solving.solution_files import object_from_result
from allocopt.solving.verify import verify


def begun(path: Path) -> Path:
    with Journal(path) as journal:
        journal.write("begun", 0.0, format=FORMAT, mode="pin", solver="auto")
    return path


def a_window() -> dict[str, Any]:
    problem = shipped_problems("topology")[0]
    result = solve(problem, solver="exact", time_limit=None)
    return {
        "jobs": [job.id for job in problem.jobs],
        "greedy": verify(problem, result.found()),
        "gap": 0.0,
        "plan_s": 0.0,
        "solve_s": 0.1,
        "instance": object_from_problem(problem),
        "answer": object_from_result(problem, result),
    }


def test_what_a_crash_cut_off_is_taken_away_and_the_rest_stays(tmp_path: Path) -> None:
    path = begun(tmp_path / "j.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"event": "win')
    assert [event["event"] for event in read_journal(path)] == ["begun"]
    with Journal(path) as journal:
        journal.write("ended", 1.0)
    assert [event["event"] for event in read_journal(path)] == ["begun", "ended"]


def test_a_journal_has_one_writer(tmp_path: Path) -> None:
    path = begun(tmp_path / "j.jsonl")
    with Journal(path), pytest.raises(BadFileError, match="another service writes this journal"), Journal(path):
        pass


@pytest.mark.parametrize("is_renamed", [True, False])
def test_a_journal_that_is_rotated_goes_on_in_a_new_file_that_is_whole(tmp_path: Path, is_renamed: bool) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        journal.write("begun", 0.0, format=FORMAT, mode="pin", solver="auto")
        journal.write("pinned", 1.0, job="1")
        if is_renamed:
            path.rename(tmp_path / "j.1")
        else:
            path.write_bytes(b"")
        journal.write("pinned", 2.0, job="2")
        journal.write("pinned", 3.0, job="3")
        assert (journal.files, journal.totals.pinned) == (2, 3)
    assert [event.get("job") for event in read_journal(path)] == [None, "2", "3"]


def test_another_file_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine\n")
    with pytest.raises(BadFileError, match="is not a line of an allocopt journal"):
        Journal(path)
    assert path.read_text() == "mine\n"


def test_answers_are_verified_again_and_false_ones_named(tmp_path: Path) -> None:
    path, window = begun(tmp_path / "j.jsonl"), a_window()
    false = json.loads(json.dumps(window))
    false["answer"]["objective"] -= 1000.0
    with Journal(path) as journal:
        journal.write("window", 1.0, **window)
        journal.write("window", 2.0, **false)
        journal.write("window", 3.0, **{**window, "greedy": window["greedy"] / 2})
        journal.write("started", 4.0, job="1", chosen=12.0, optimum=10.0, proved=True, as_pinned=True)
    found = Replay.of(path)
    assert (found.windows, found.proved, found.as_pinned) == (3, 1, 1)
    assert [one.line for one in found.wrong] == [3, 4]
    assert found.regret == pytest.approx(0.2)


@pytest.mark.parametrize("text", ["", "{}\n", '{"event": "begun"}\n', "nothing\n"])
def test_what_is_no_journal_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text(text)
    with pytest.raises(BadFileError):
        Replay.of(path)
