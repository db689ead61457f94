"""The state of a cluster in a journal: all of it now and then, between these what is new."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.named import NamedTree
from allocopt.cluster.request import Request
from allocopt.cluster.topology import Tree
from allocopt.live.journal import FORMAT, Journal, read_journal
from allocopt.live.slurm import Look, SlurmJob
from allocopt.live.state import LOOK_S, STATE_S, StateWriter

NOW = 1_000_000.0
NAMES = tuple(f"n{number}" for number in range(8))


def a_look(at: float, cluster: Cluster, *jobs: SlurmJob, away: Mapping[str, str] | None = None) -> Look:
    return Look(NOW + at, cluster, jobs, away or {})


def a_job(number: int, **values: object) -> SlurmJob:
    request = Request.whole_nodes(2)
    made = SlurmJob(
        str(number), "ann", "main", "", "", "", "PENDING", "Priority", 9, 60.0, NOW, NOW, 0.0, np.inf, request,
        name="wrf",
    )  # fmt: skip
    return replace(made, **values)  # type: ignore[arg-type]


def a_cluster() -> Cluster:
    tree = Tree.from_levels([{"a": [0, 1, 2, 3], "b": [4, 5, 6, 7]}])
    partition = Partition("main", NAMES, is_exclusive=True)
    return Cluster.of((ClusterNode(name, 1) for name in NAMES), NamedTree(tree, NAMES), (partition,))


def told(path: Path) -> list[dict[str, Any]]:
    return [{key: value for key, value in event.items() if key != "at"} for event in read_journal(path)][1:]


def test_a_look_tells_what_is_new_and_nothing_else(tmp_path: Path) -> None:
    cluster, states, path = a_cluster(), StateWriter({"mode": "pin"}), tmp_path / "j.jsonl"
    waits, runs = a_job(1), a_job(2, state="RUNNING", allocated={"n1": (1, 0, 0), "n0": (1, 0, 0)}, start_s=NOW)
    pinned = replace(waits, admin_comment="allocopt priority=9 pinned=7", required="n[4-5]")
    with Journal(path) as journal:
        journal.write("begun", NOW, format=FORMAT)
        states.write(journal, a_look(0, cluster, waits, runs))
        states.write(journal, a_look(1, cluster, replace(waits, priority=10, reason="Resources"), runs))
        states.write(journal, a_look(2, cluster, pinned, runs, away={"n7": "drained"}))
        states.write(journal, a_look(3, cluster, pinned, replace(runs, state="COMPLETED"), away={"n7": "drained"}))
        states.write(journal, a_look(3 + LOOK_S, cluster, pinned, away={"n7": "drained"}))
        states.write(journal, a_look(STATE_S, cluster, pinned))
    state, *looks, again = told(path)
    ann = {"name": "wrf", "user": "ann", "partition": "main", "size": 2}
    one = {"state": "waiting", **ann, "priority": 9}
    assert state["jobs"] == {"1": one, "2": {"state": "running", **ann, "on": "n[0-1]", "start_s": NOW}}
    assert (state["mode"], state["nodes"], state["levels"]) == ("pin", "n[0-7]", [{"a": "n[0-3]", "b": "n[4-7]"}])
    assert looks == [
        {
            "event": "look", "looks": 3, "jobs": {"1": {**one, "state": "pinned", "on": "n[4-5]"}},
            "away": {"drained": "n7"},
        },
        {"event": "look", "looks": 4, "gone": ["2"]},
        {"event": "look", "looks": 5},
    ]  # fmt: skip
    assert (again["event"], again["totals"]["looks"], list(again["jobs"]), again["away"]) == ("state", 6, ["1"], {})


def test_nodes_that_a_user_asks_for_are_not_told_as_given(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        journal.write("begun", NOW, format=FORMAT)
        StateWriter().write(journal, a_look(0, a_cluster(), a_job(1, required="n[4-5]", request=None)))
    assert "on" not in told(path)[0]["jobs"]["1"]


def test_all_is_told_again_in_a_new_file_and_of_another_cluster(tmp_path: Path) -> None:
    cluster, states, path = a_cluster(), StateWriter(), tmp_path / "j.jsonl"
    with Journal(path) as journal:
        journal.write("begun", NOW, format=FORMAT)
        states.write(journal, a_look(0, cluster))
        path.rename(tmp_path / "old")
        journal.write("away", NOW, why="slow")
        states.write(journal, a_look(1, cluster))
        states.write(journal, a_look(2, a_cluster()))
    assert [event["event"] for event in told(path)] == ["away", "state", "state"]
