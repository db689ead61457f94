"""The service beside a Slurm that lists no job that has ended."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.named import NamedTree
from allocopt.cluster.request import Request
from allocopt.cluster.topology import Tree
from allocopt.live.journal import FORMAT, Journal, read_journal
from allocopt.live.plan import PlannedWindow
from allocopt.live.service import Limits, Mode, OptIn, Service
from allocopt.live.slurm import Look, SlurmJob
from allocopt.solving.result import Result

NOW = 1_000_000.0
NAMES = tuple(f"n{number}" for number in range(8))


class DirectSolves:
    """Solves in this process."""

    def answer(self, window: PlannedWindow, solver: str | None = None) -> tuple[Result, str]:
        return window.solved(solver or "auto", 1.0, 0), ""


class Commands:
    """A Slurm that does whatever it is asked to."""

    def update(self, jobs: Sequence[str], **values: str) -> None:
        pass


def a_cluster() -> Cluster:
    tree = Tree.from_levels([{"a": [0, 1, 2, 3], "b": [4, 5, 6, 7]}])
    partition = Partition("main", NAMES, is_exclusive=True)
    return Cluster.of((ClusterNode(name, 1) for name in NAMES), NamedTree(tree, NAMES), (partition,))


CLUSTER = a_cluster()


def a_job(number: int, nodes: int, *held: str, **values: object) -> SlurmJob:
    """Return a job that waits, or runs on nodes."""
    request, allocated = Request(None, nodes, nodes, is_exclusive=True), dict.fromkeys(held, (1, 0, 0))
    state, start_s, end_s = ("RUNNING", NOW - 5, NOW + 60) if held else ("PENDING", 0.0, np.inf)
    made = SlurmJob(
        str(number), "ann", "main", "", "", "", state, "None", 9, 60.0, NOW - 9, NOW - 9, start_s, end_s, request,
        allocated=allocated,
    )  # fmt: skip
    return replace(made, **values)  # type: ignore[arg-type]


def events_of(path: Path, mode: Mode, *looks: Sequence[SlurmJob]) -> list[dict[str, Any]]:
    """Return what a service writes that looks so often."""
    limits = Limits(period=2.0, solve=1.0, hold=30.0, pin=30.0)
    with Journal(path) as journal:
        journal.write("begun", NOW, format=FORMAT)
        service = Service(Commands(), journal, mode, OptIn(partitions=("main",)), limits)  # type: ignore[arg-type]
        service._solving = DirectSolves()  # type: ignore[assignment]
        for at, jobs in enumerate(looks):
            service.step(Look(NOW + 2 * at, CLUSTER, tuple(jobs), {}))
    return [event for event in read_journal(path) if event["event"] in ("started", "pinned", "unseen")]


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_start_has_a_verdict_only_if_it_is_known_what_was_idle(tmp_path: Path, *, is_listed: bool) -> None:
    other, job = a_job(1, 2, "n0", "n1"), a_job(2, 2, "n3", "n4", start_s=NOW + 1)
    over = [replace(other, state="COMPLETED", end_s=NOW + 1.5)] if is_listed else []
    first, started = events_of(tmp_path / "j", Mode.OBSERVE, [other], [*over, job])
    assert (first["job"], started["job"]) == ("1", "2")
    assert ("optimum" in started) is is_listed


def test_a_pinned_job_that_is_no_longer_listed_is_reported_once(tmp_path: Path) -> None:
    waits = a_job(3, 4, admin_comment="allocopt priority=9 by=0")
    found = events_of(tmp_path / "j", Mode.PIN, [waits], [], [])
    assert [(event["event"], event["job"]) for event in found] == [("pinned", "3"), ("unseen", "3")]


def test_a_pinned_job_is_seen_to_start_while_it_leaves_its_nodes(tmp_path: Path) -> None:
    waits = a_job(3, 4, admin_comment="allocopt priority=9 by=0")
    leaves = a_job(3, 4, "n0", "n1", "n2", "n3", state="COMPLETING", end_s=NOW + 1)
    pinned, started = events_of(tmp_path / "j", Mode.PIN, [waits], [leaves], [])
    assert pinned["nodes"] == "n[0-3]"
    assert started["as_pinned"] is True
