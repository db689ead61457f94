"""What a journal shows of a service: the same whether it is read at once or as it grows."""

from dataclasses import asdict
from pathlib import Path

import pytest
from support.live import HOSTILE, NOW, a_journal, state, window

from allocopt.errors import BadFileError, InvalidProblemError
from allocopt.live.journal import Journal, read_journal
from allocopt.live.page import metrics_text
from allocopt.live.view import Follower, View, status_lines


def same(view: View, other: View) -> bool:
    # Trees are compared by identity.
    return {**asdict(view), "tree": None} == {**asdict(other), "tree": None}


def test_what_is_read_line_by_line_is_what_is_read_at_once(tmp_path: Path) -> None:
    whole = a_journal(tmp_path / "whole.jsonl")
    path, lines = tmp_path / "growing.jsonl", whole.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0])
    follower = Follower(path)
    for line in lines[1:]:
        # A line is written in two halves.
        for half in (line[: len(line) // 2], line[len(line) // 2 :]):
            with path.open("ab") as file:
                file.write(half)
            follower.read()
    assert same(follower.view, Follower(whole).view)


def test_counts_are_those_of_the_events(tmp_path: Path) -> None:
    view = Follower(a_journal(tmp_path / "j.jsonl")).view
    found = view.summary(NOW + 5)
    assert (found["look_age_s"], found["condition"], found["mode"]) == (1.0, "running", "pin")
    assert found["jobs"] == {"running": 1, "waiting": 1, "held": 0, "pinned": 1}
    assert (found["nodes"], found["nodes_busy"], found["nodes_away"]) == (8, 2, {"drained": 1})
    assert found["regret"] == pytest.approx(0.2)
    assert found["gain"] == pytest.approx(0.2)
    totals = view.totals
    assert (totals.looks, totals.pinned, totals.as_pinned, totals.refused, totals.windows) == (3, 1, 1, 1, 1)
    # Who has nodes comes first, then higher priorities.
    assert [job for job, _ in view.waiting()] == ["2", "3"]
    assert view.left == {"3": "asks for licenses <i>"}


def test_how_a_service_is_follows_from_its_last_events(tmp_path: Path) -> None:
    path = a_journal(tmp_path / "j.jsonl")
    follower = Follower(path)
    found = [follower.view.condition(NOW + 5), follower.view.condition(NOW + 500)]
    with Journal(path) as journal:
        for event, why in (("away", "squeue does not answer within 60 s"), ("back", ""), ("ended", "")):
            journal.write(event, NOW + 6, **({"why": why} if why else {}))
            found.append(follower.read().condition(NOW + 7))
    assert found == ["running", "silent", "away", "running", "ended"]


@pytest.mark.parametrize("is_renamed", [True, False])
def test_a_rotated_journal_is_followed_and_nothing_is_lost_or_counted_twice(tmp_path: Path, is_renamed: bool) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        journal.write("begun", NOW, format="allocopt-live", mode="pin", solver="auto")
        journal.write("state", NOW, **state(journal))
        follower = Follower(path)
        for number in range(40):
            if number % 10 == 5:
                if is_renamed:
                    # What is written between the last look and the rotation is read, too.
                    journal.write("pinned", NOW, job="x", nodes="n1")
                    path.rename(tmp_path / f"old{number}")
                else:
                    follower.read()
                    path.write_bytes(b"")
            journal.write("pinned", NOW, job=str(number), nodes="n0")
            if number % 10 == 8:
                follower.read()
        follower.read()
        assert follower.view.totals.pinned == journal.totals.pinned
        assert Follower(path, 200).view.totals.pinned < journal.totals.pinned
        journal.write("state", NOW, **state(journal))
        assert Follower(path).view.totals == journal.totals == follower.read().totals


def test_of_a_long_journal_the_end_is_enough(tmp_path: Path) -> None:
    path = a_journal(tmp_path / "j.jsonl")
    with Journal(path) as journal:
        journal.totals.pinned = 1
        for number in range(300):
            journal.write("window", NOW, **window([str(number)]))
        journal.write("state", NOW + 9, **state(journal))
        journal.write("pinned", NOW + 9, job="2", nodes="n[4-6]")
    view = Follower(path, tail_bytes=10_000).view
    assert view.totals.windows == 300
    assert view.totals.pinned == 2
    assert 0 < len(view.windows) < 30


DAMAGED = [
    b'1, "x": 2}',
    b'{"event": "window", "at": "2026-01-01T00:00:00+00:00"}',
    b'{"event": "look", "at": 3}',
    b'{"event": "look", "at": "2026-01-01T00:00:00+00:00", "looks": 1, "jobs": {"1": {"name": "x"}}}',
    b'{"event": "started", "at": "2026-01-01T00:00:00+00:00", "job": "1", "optimum": 1.0, "chosen": 2.0}',
    b'{"event": "left", "at": "2026-01-01T00:00:00+00:00", "job": {"x": 1}}',
    b'{"event": ["left"], "at": "2026-01-01T00:00:00+00:00"}',
    b"[" * 100_000,
]


def test_a_damaged_line_that_is_added_is_passed_over(tmp_path: Path) -> None:
    path = a_journal(tmp_path / "j.jsonl")
    follower = Follower(path)
    with path.open("ab") as file:
        file.writelines(line + b"\n" for line in DAMAGED)
    with Journal(path) as journal:
        journal.write("pinned", NOW, job="3", nodes="n3")
    assert follower.read().jobs["3"]["state"] == "pinned"


@pytest.mark.parametrize("line", DAMAGED)
def test_a_journal_with_a_damaged_line_is_refused_with_its_place(tmp_path: Path, line: bytes) -> None:
    path = a_journal(tmp_path / "j.jsonl")
    with path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(
        (BadFileError, InvalidProblemError), match=f"the line that ends at byte {path.stat().st_size}: "
    ):
        Follower(path)
    with pytest.raises((BadFileError, InvalidProblemError), match="line "):
        list(read_journal(path))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_a_file_of_one_line_without_an_end_is_no_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocopt.live.journal.LONGEST_LINE", 10_000)
    for read in (Follower, lambda path: list(read_journal(path))):
        with pytest.raises(BadFileError, match="line 1: has more than 10000 bytes: this is not a journal"):
            read(Path("/dev/zero"))


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    for text in ("mine\n", "", "{}\n"):
        path.write_text(text)
        with pytest.raises(BadFileError):
            Follower(path)
    with pytest.raises(BadFileError):
        Follower(tmp_path / "missing")


def test_what_is_kept_of_a_service_that_runs_for_weeks_is_bounded() -> None:
    view = View()
    for number in range(20_000):
        at = "2026-01-01T00:00:00+00:00"
        job = {"state": "running", "name": "x", "on": "n1"}
        view.add({"event": "look", "at": at, "looks": number, "jobs": {str(number): job}, "gone": [str(number - 1)]})
        view.add({"event": "left", "at": at, "job": str(number), "why": "x"})
        view.add({"event": "window", "at": at, **window([str(number)])})
        view.add({"event": "started", "at": at, "job": "1", "chosen": 1, "optimum": 1, "proved": True})
    assert (len(view.jobs), view.totals.windows, len(view.left)) == (1, 20_000, 1)
    assert max(len(view.windows), len(view.starts), len(view.events)) <= 2000


def test_the_status_fits_a_terminal_and_prints_what_users_wrote_harmlessly(tmp_path: Path) -> None:
    path = a_journal(tmp_path / "j.jsonl")
    with Journal(path) as journal:
        for number in range(60):
            journal.write("refused", NOW + 5, job=str(number), why="\x1b[31m" + HOSTILE * 9)
    lines = list(status_lines(Follower(path).view, NOW + 6))
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 79
    assert all(line.isprintable() for line in lines)
    assert lines[0].startswith("cluster virtual, --pin, solver auto, since 2023-11-14")


def test_a_window_that_was_cut_is_told(tmp_path: Path) -> None:
    path = a_journal(tmp_path / "j.jsonl")
    with Journal(path) as journal:
        journal.write("window", NOW + 5, **window(["7"]), cut="solver lns gives no answer")
    view = Follower(path).view
    said = "\n".join(status_lines(view, NOW + 6))
    assert "1 cut to the greedy answer" in said
    assert "the greedy answer is used for 7: solver lns gives no answer" in said
    assert "allocopt_live_windows_cut_total 1\n" in metrics_text(view, NOW + 6)
