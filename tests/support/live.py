"""A journal of a live service, with texts of users as they may be."""

from pathlib import Path
from typing import Any

from allocopt.live.journal import FORMAT, VERSION, Journal

NOW = 1_700_000_000.0
HOSTILE = "</script><img src=x onerror=\"document.title='hacked'\">"


def window(at: list[str], **values: Any) -> dict[str, Any]:
    """Return the values of an event of a window whose jobs have an id each."""
    answer = {"solver": "auto", "status": "OPTIMAL", "objective": 100.0, "bound": 100.0}
    return {
        "jobs": at, "nodes": {job: f"n{number}" for number, job in enumerate(at)}, "starting": at, "waiting": 3,
        "greedy": 125.0, "plan_s": 0.002, "solve_s": 0.003, "gap": 0.0, "instance": {}, "answer": answer, **values,
    }  # fmt: skip


def state(journal: Journal, **values: Any) -> dict[str, Any]:
    """Return the values of a state of a cluster of eight nodes."""
    jobs = {
        "1": {"state": "running", "name": HOSTILE, "user": "ann", "partition": "main", "size": 2, "on": "n[0-1]"},
        "2": {"state": "held", "name": HOSTILE, "user": "<b>", "partition": "main", "size": 4, "priority": 5},
        "3": {"state": "waiting", "name": "c", "user": "cy", "partition": "main", "why": "Licenses", "priority": 9},
    }
    totals = {name: getattr(journal.totals, name) for name in journal.totals.__dataclass_fields__}
    return {
        "mode": "pin", "solver": "auto", "since": NOW, "period": 2.0, "cluster": "virtual", "jobs": jobs,
        "away": {"drained": "n7"}, "totals": totals, "nodes": "n[0-7]", "hops": [2, 4],
        "levels": [{"leaf<0>": "n[0-3]", "leaf1": "n[4-7]"}], **values,
    }  # fmt: skip


def a_journal(path: Path, at_s: float = NOW) -> Path:
    """Write a journal that has something of everything."""
    with Journal(path) as journal:
        limits = {"period": 2.0}
        journal.write("begun", at_s, format=FORMAT, format_version=VERSION, mode="pin", solver="auto", limits=limits)
        journal.write("state", at_s, **state(journal, since=at_s))
        journal.write("left", at_s + 1, job="3", why="asks for licenses <i>")
        journal.write("window", at_s + 2, **window(["2"]))
        journal.write("pinned", at_s + 2, job="2", nodes="n[4-6]")
        journal.write("refused", at_s + 2, job="9", what="held", why=HOSTILE)
        judged = {"chosen": 12.0, "optimum": 10.0, "proved": True}
        journal.write("started", at_s + 3, job="1", start_s=at_s, nodes="n[0-1]", as_pinned=True, **judged)
        journal.write("look", at_s + 4, looks=3)
    return path
