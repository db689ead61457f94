"""``allocopt live status`` and ``live page``: of a journal alone."""

import json
import re
import signal
import urllib.request
from pathlib import Path

import pytest
from support.live import a_journal
from support.program import Run, Start


def test_the_status_is_a_screen_or_its_figures(run: Run, tmp_path: Path) -> None:
    path = a_journal(tmp_path / "j.jsonl")
    before = path.read_bytes()
    screen, figures = run("live", "status", path), run("live", "status", path, "--json")
    assert (screen.code, screen.err, figures.code, figures.err) == (0, "", 0, "")
    assert len(screen.out.splitlines()) <= 24
    assert max(map(len, screen.out.splitlines())) <= 80
    (found,) = figures.rows
    assert (found["mode"], found["condition"], found["totals"]["windows"]) == ("pin", "silent", 1)
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", ["status", "page"])
def test_what_is_no_journal_is_refused_in_a_line(run: Run, tmp_path: Path, command: str) -> None:
    (tmp_path / "notes.txt").write_text(json.dumps({"event": "begun"}) + "\n")
    for name in ("notes.txt", "missing.jsonl"):
        assert str(tmp_path / name) in run("live", command, tmp_path / name).refusal(3)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--relocate", "maybe"), "--relocate is 'maybe', must be advise or requeue"),
        (("--relocate", "requeue", "--pin"), "--relocate requeue cannot be combined with --pin"),
        (("--relocate", "requeue", "--order", "evolved-formula"), "--relocate requeue cannot be combined with --order"),
        (("--relocate", "advise", "--step-limit", "0"), "--step-limit is 0 s, must be above 0"),
        (("--observe", "--within", "leaf"), "--within needs --relocate"),
    ],
)
def test_relocations_that_make_no_sense_are_refused(
    run: Run, tmp_path: Path, options: tuple[str, ...], fault: str
) -> None:
    assert fault in run("live", "slurm", "--journal", tmp_path / "j.jsonl", *options).refusal(2)


@pytest.mark.slow
def test_the_page_is_served_until_it_is_interrupted(run: Run, start: Start, tmp_path: Path) -> None:
    path = a_journal(tmp_path / "j.jsonl")
    process = start("live", "page", path, "--port", "0")
    assert process.stdout is not None
    address = re.match(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
    assert address is not None
    with urllib.request.urlopen(f"{address[0]}metrics") as answer:
        assert answer.read().endswith(b"# EOF\n")
    assert f"port {address[1]}: " in run("live", "page", path, "--port", address[1]).refusal(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (out, err) == ("", "allocopt: interrupted\n")
