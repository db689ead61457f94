"""The assumptions of a run."""

from typing import Any

import pytest

from allocopt.report.assumptions import assumptions


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"trace": "a.swf"}, "as many processors as the trace states"),
        ({"trace": "a.swf", "processors": 1024}, "a pool of 1,024 processors"),
        ({"trace": "a.swf", "fat_tree": [2, 3, 4]}, "2 pods with 3 leaves with 4 nodes"),
        ({"trace": "a.json", "platform": "p.toml"}, "the multicore platform p.toml; jobs run by the contention model"),
        ({"trace": "a.swf", "skip_oversized": True, "max_jobs": 5000}, "only the first 5,000 jobs; jobs larger than"),
        ({"trace": "a.swf", "backfill": "easy", "backfill_order": "sjf"}, "easy backfilling, candidates in the order"),
        ({"trace": "a.swf", "kill_at_limit": False}, "jobs run as long as recorded"),
        ({"trace": "a.swf", "trim": 0.1}, "Further settings: trim = 0.1."),
        ({"trace": "a.swf", "options": {"period_s": 60}, "policy": "window"}, "Policy: window (period_s = 60)."),
        ({"instances": ["@tiny"], "solver": "dp"}, "Solver: dp, at most 10 s each."),
        ({"instances": ["@tiny"], "time_limit": None, "iterations": 9, "gap": 0.01}, "auto, at most 9 iterations each"),
    ],
)
def test_what_is_set_is_in_a_sentence(spec: dict[str, Any], said: str) -> None:
    sentences = assumptions(spec)
    assert any(said in sentence for sentence in sentences)
    assert all(sentence.endswith(".") for sentence in sentences)


def test_what_was_dropped_and_who_made_it_come_last() -> None:
    made_by = {"version": "1.0", "commit": "abc", "python": "3.11", "machine": "a, 2 cores"}
    *_, dropped, made = assumptions({"trace": "a.swf"}, made_by, ["log: jobs dropped, larger than the machine: 1"])
    assert dropped == "log: jobs dropped, larger than the machine: 1."
    assert made == "Made by allocopt 1.0, commit abc, python 3.11, machine a, 2 cores."
